"""When a page was published, and by whom: what pages say, and what is no date or name."""

import json

import pytest

from smartcrawl.extract.html import parse_html

MAY = 1_714_521_600  # 2024-05-01


def said(head: str, body: str = "<p>Lamps") -> tuple[int | None, str]:
    markup = f"<head>{head}</head><body>{body}"
    document = parse_html(markup.encode(), content_type="text/html", url="http://a.example/")
    assert "Lamps" in document.text
    assert "datePublished" not in document.text
    return document.published, document.author


def data(value: object) -> str:
    return f"<script type=application/ld+json>{json.dumps(value)}</script>"


ARTICLE = {"@type": "Article", "datePublished": "2024-05-01", "author": {"name": "Ada\n Byron"}}


@pytest.mark.parametrize(
    ("head", "body", "found"),
    [
        ("", "<p>Lamps", (None, "")),
        ("<meta property=article:published_time content=2024-05-01>", "<p>Lamps", (MAY, "")),
        (
            "<meta property=article:published_time content=2024-05-01T02:00:00+02:00>"
            "<meta name=author content='Ada Byron'>" + data(ARTICLE | {"datePublished": "2020"}),
            "<p>Lamps",
            (MAY, "Ada Byron"),
        ),
        (data(ARTICLE), "<p>Lamps", (MAY, "Ada Byron")),
        (data([{"@graph": [{"@type": "WebSite"}, ARTICLE]}]), "<p>Lamps", (MAY, "Ada Byron")),
        (data(ARTICLE | {"author": ["Ada", {"name": "Bo"}, 7, "Ada"]}), "Lamps", (MAY, "Ada, Bo")),
        (data(ARTICLE | {"author": None}), "<p>Lamps", (MAY, "")),
        (data(ARTICLE | {"datePublished": 7}), "<p>Lamps", (None, "Ada Byron")),
        ("<meta name=author content=https://a.example/ada>", "<p>Lamps", (None, "")),
        ("", "<article><p>Lamps <time datetime=2024-05-01>in May</time></article>", (MAY, "")),
        ("", "<p>Lamps <time datetime=2024-05-01 pubdate>in May</time>", (MAY, "")),
        ("", "<p>Lamps <time datetime=2024-05-01 itemprop=datePublished>x</time>", (MAY, "")),
        ("", "<p>Lamps <time datetime=2024-05-01>in May</time>", (None, "")),
        ("", "<article>Lamps<time datetime=2024-05-01>x</time></article><article>b</article>",
         (None, "")),
        ("", "<article>Lamps<nav><time datetime=2024-05-01>x</time></nav></article>", (None, "")),
        ("<meta name=date content=yesterday><meta name=author content=' '>", "Lamps", (None, "")),
        ("<meta name=date content=9999-05-01>", "Lamps", (None, "")),
        ("<script type=application/ld+json>{oops</script>", "Lamps", (None, "")),
        (f"<script type=application/ld+json>{'[' * 100_000}</script>", "Lamps", (None, "")),
        (data(ARTICLE | {"text": "a" * 262_144}), "Lamps", (None, "")),
        (data([{}] * 1_001 + [ARTICLE]), "Lamps", (None, "")),
        (data({}) * 8 + data(ARTICLE), "Lamps", (None, "")),
        (data(ARTICLE | {"author": "x" * 300}), "Lamps", (MAY, "x" * 200)),
    ],
)  # fmt: skip
def test_date_and_author_are_those_that_the_page_says(
    head: str, body: str, found: tuple[int | None, str]
):
    assert said(head, body) == found
