"""The article of a page without what stands around it, and pages that the rules leave alone."""

import pytest

from smartcrawl.extract import html
from smartcrawl.extract.html import parse_html
from smartcrawl.model.placed_spans import with_placed_spans

PROSE = "A lamp that is left on all night warms the room, and the cat knows where to lie. " * 2
SHARED = "<meta property=og:title content=Lamps>"


def lines(markup: str, **choices) -> list[str]:
    document = parse_html(
        markup.encode(), content_type="text/html; charset=utf-8", url="http://a.example/", **choices
    )
    return document.text.splitlines()


def page(*parts: str, head: str = SHARED) -> str:
    return f"<head>{head}</head><body>{''.join(parts)}"


def prose(*words: str) -> str:
    return "".join(f"<p>{word} {PROSE}" for word in words)


def words_of(markup: str, **choices) -> list[str]:
    """The first word of each line of prose, and all other lines."""
    found = lines(markup, **choices)
    return [line.split()[0] if PROSE.rsplit(maxsplit=1)[-1] in line else line for line in found]


ARTICLE = f"<div class=entry>{prose('one', 'two', 'three')}</div>"


@pytest.mark.parametrize(
    "around",
    [
        "<div class='box relatedPosts'><h3>Other lamps</h3><p>Old lamps</div>",
        f"<div id=comments>{prose('remark')}</div>",
        "<div class=share-bar>Send it</div>",
        "<form><p>Write to us</p></form>",
        "<div style='color: red; DISPLAY : none'>Thank you</div>",
        "<footer><p>All rights</footer>",
        "<h4>Look here</h4><ul><li><a href=/a>First lamp</a><li><a href=/b>Second</a></ul>",
        "<p><a href=/a>An older lamp</a> | <a href=/b>A newer one</a>",
    ],
)
def test_what_stands_around_an_article_is_no_text(around: str):
    assert words_of(page("<main>", ARTICLE, around, "</main>")) == ["one", "two", "three"]
    inside = ARTICLE.replace("</div>", f"{around}</div>")
    assert words_of(page("<main>", inside, "</main>")) == ["one", "two", "three"]


def test_title_and_lead_above_the_article_stay_and_what_is_below_goes():
    markup = page(
        "<div><h1>Lamps</h1><p>Tuesday</p>", prose("lead"), "<div>A shop</div></div>",
        f"<div class=entry>{prose(*'abcdefghijklmnopqrst')}<p>Short end.</div>",
        f"<div><p>About us</p>{prose('below')}</div>",
    )  # fmt: skip

    assert words_of(markup) == ["Lamps", "lead", *"abcdefghijklmnopqrst", "Short end."]


def test_a_list_of_links_between_paragraphs_stays():
    links = "<ul><li><a href=/a>First lamp</a><li><a href=/b>Second lamp</a></ul>"
    markup = page(f"<div>{prose('one', 'two')}<p>Three lamps:</p>{links}{prose('three')}</div>")

    assert words_of(markup) == ["one", "two", "Three lamps:", "First lamp", "Second lamp", "three"]


@pytest.mark.parametrize("words", ["has-sidebar", "comments", "newsletter"])
def test_a_word_of_a_box_with_all_prose_means_something_else(words: str):
    assert words_of(page(f"<div class={words}>{ARTICLE}</div>")) == ["one", "two", "three"]


def test_comments_may_be_longer_than_their_article():
    remarks = f"<div class=comments>{prose(*['remark'] * 9)}</div>"

    assert words_of(page(ARTICLE, remarks)) == ["one", "two", "three"]
    assert words_of(page(f"<p>{PROSE}", remarks)).count("remark") == 9
    other = remarks.replace("comments", "related-box")
    assert words_of(page(ARTICLE, other)).count("remark") == 9


def test_main_and_article_are_content_whatever_their_class_is():
    long = prose(*"abcdefghijklm")
    markup = page(f"<article class=related>{ARTICLE}</article><article>{long}</article>")

    assert words_of(markup) == ["one", "two", "three", *"abcdefghijklm"]


ASIDE = "<div class=newsletter><p>Read us every day</div>"


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (SHARED, "<h2 id=a>Part <a class=headerlink href=#a>¶</a></h2>"),
        (SHARED, "<h2 id=a><a href=#a>Part</a></h2>"),
        (SHARED + "<meta name=generator content='Docusaurus v3.1'>", ""),
        ("", "<pre>lamp --on</pre>"),
        ("", "<table><tr><td>lamp<td>on</table>"),
        ("", "<dl><dt>lamp<dd>on</dl>"),
    ],
)
def test_what_a_generator_of_documentation_writes_is_read_whole(head: str, more: str):
    assert "Read us every day" in lines(page("<main>", ARTICLE, more, ASIDE, "</main>", head=head))


@pytest.mark.parametrize(
    ("head", "gone"),
    [
        ("", True),
        (SHARED, True),
        ("<link rel=alternate type=application/rss+xml href=/feed>", True),
        ("<meta property=article:author content=Ada>", True),
        ("<meta name=generator content='WordPress 6.1'>", True),
        ("<link rel=alternate hreflang=de href=/de>", True),
    ],
)
def test_pages_are_articles_by_what_they_say_or_by_their_class_words(head: str, gone: bool):
    assert ("Read us every day" not in lines(page(ARTICLE, ASIDE, head=head))) is gone
    plain = ASIDE.replace("newsletter", "letters")
    menu = "<ul><li><a href=/a>First lamp</a><li><a href=/b>Second lamp</a></ul>"
    said = "First lamp" not in lines(page(f"<div>{ARTICLE}{plain}{menu}</div>", head=head))
    assert said is ("og:" in head or "rss" in head or "article:" in head)


def test_a_large_page_that_does_not_say_that_it_is_an_article_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(html, "_READ_TWICE", 200)

    assert "Read us every day" in lines(page(ARTICLE, ASIDE, head=""))
    assert "Read us every day" not in lines(page(ARTICLE, ASIDE))


def test_a_page_without_an_article_keeps_its_lists():
    links = "<ul><li><a href=/a>First lamp</a><li><a href=/b>Second lamp</a></ul>"

    assert lines(page(f"<h1>All lamps</h1>{links}")) == ["All lamps", "First lamp", "Second lamp"]


def test_selectors_override_the_rules():
    markup = page(ARTICLE, ASIDE)

    assert lines(markup, keep=[".newsletter"]) == ["Read us every day"]
    assert words_of(markup, drop=[".entry p:first-child"]) == ["two", "three"]


def test_boxes_that_never_end_break_nothing():
    assert words_of(page("</div></div>", ARTICLE, "<div class=share>" * 200, "Send it")) == [
        *("one", "two", "three"),
    ]


WIKI = (
    "<main class=mw-body><header><h1>Lamp</h1><div class='vector-dropdown mw-portlet-lang'>"
    "<label>3 languages</label><ul><li><a href=/de>Deutsch</a></ul></div></header>"
    "<a class=mw-jump-link href=#x>Jump to search</a><div class='mw-content-ltr mw-parser-output'>"
    f"<p>{PROSE}</p><h2>History<span class=mw-editsection>[<a href=/edit>edit</a>]</span></h2>"
    "<p>The first lamps burned oil.</div><div class=printfooter>Retrieved from here</div>"
    "<div id=catlinks class=catlinks><a href=/c>Categories</a></div></main>"
)


@pytest.mark.parametrize("head", ["", SHARED, "<meta name=generator content='MediaWiki 1.44'>"])
def test_of_a_wiki_the_text_without_languages_controls_and_categories_is_read(head: str):
    document = parse_html(
        page(WIKI, head=head).encode(), content_type="text/html", url="http://a.example/"
    )

    assert document.text.splitlines() == [
        *("Lamp", PROSE.strip(), "History", "The first lamps burned oil."),
    ]
    addresses = [link.url.removeprefix("http://a.example/") for link in document.links]
    assert addresses == ["de", "edit", "c"]


def test_a_formula_of_a_wiki_is_its_picture_and_not_hidden_markup_too():
    formula = (
        "<span class=mwe-math-element><span class='mwe-math-mathml-inline mwe-math-mathml-a11y'"
        " style='display: none'><math><mi>p</mi><mn>1</mn></math></span>"
        "<img src=/f.svg alt='p_{1}' class=mwe-math-fallback-image-inline></span>"
    )
    body = WIKI.replace("burned oil.", f"gave {formula} of light.")

    document = with_placed_spans(
        parse_html(page(body).encode(), content_type="text/html", url="http://a.example/")
    )

    assert document.text.splitlines()[-1] == "The first lamps gave of light."
    assert [span.text for part in document.sections for span in part.spans if span.text] == [
        "p_{1}"
    ]
    shown = WIKI.replace("burned oil.", "gave <math class=mwe-math-element><mi>p</mi></math>.")
    for text in (
        shown,
        shown.replace("mw-parser-output", "").replace(" class=mwe-math-element", ""),
    ):
        assert lines(page(text))[-1] == "The first lamps gave p."


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"drop": ["p"]}, ["Lamp", "History"]),
        ({"drop": ["h2 + p"]}, ["Lamp", PROSE.strip(), "History"]),
        ({"keep": ["h2"]}, ["History"]),
    ],
)
def test_selectors_count_in_a_wiki_too(choice, found):
    assert lines(page(WIKI, head=""), **choice) == found
