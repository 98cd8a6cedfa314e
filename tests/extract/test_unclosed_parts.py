"""Pages whose header or menu does not end the elements in it, and pages without a title."""

import pytest

from smartcrawl.extract.html import close_unclosed_parts, parse_html

TEXT = "The lighthouse stands on the rock at the harbour. " * 30


@pytest.mark.parametrize("tag", ["header", "nav", "aside", "footer"])
def test_an_unclosed_div_does_not_make_the_rest_of_the_page_boilerplate(tag: str):
    page = f"<body><{tag}><div><div>Menu</div></{tag}><h1>Light</h1><p>{TEXT}</p>"
    document = parse_html(page.encode(), content_type="text/html", url="http://a.example/x")
    lines = document.text.split("\n")
    assert lines[-2:] == ["Light", TEXT.strip()]
    assert tag == "aside" or len(lines) == 2


@pytest.mark.parametrize(
    ("markup", "closed"),
    [
        ("<header><div></header></div>", "<header><div></div></header></div>"),
        (
            "<nav><div><aside><div></aside></nav>",
            "<nav><div><aside><div></div></aside></div></nav>",
        ),
        ("</nav><div></div>", "</nav><div></div>"),
        ("<HEADER><DIV></HEADER>", "<HEADER><DIV></div></HEADER>"),
        ("<navy><divan></navy>", "<navy><divan></navy>"),
    ],
)
def test_only_what_is_open_is_closed(markup: str, closed: str):
    assert close_unclosed_parts(markup) == closed


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title>T</title><h1>a</h1>", "T"),
        ("<h2>b</h2><h1>a</h1>", "a"),
        ("<h3> </h3><h2>b</h2>", "b"),
        ("<p>x", ""),
    ],
)
def test_a_page_without_a_title_has_its_first_heading(markup: str, title: str):
    url = "http://a.example/b/page.html"
    assert parse_html(markup.encode(), content_type="text/html", url=url).title == title
