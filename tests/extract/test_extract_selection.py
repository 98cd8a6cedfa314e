"""Parts that an operator selects are the text of a page, or no part of it; links always count."""

import pytest

from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import Document

PAGE = """<!doctype html><html><head><title>T</title></head><body>
<nav><a href="/nav">navigation</a></nav>
<div id="banner"><h2>Cookies</h2><p>We use cookies</p><a href="/privacy">privacy</a>
  <img src="/cookie.png" alt="a cookie"></div>
<div class="text"><h1>Title</h1><p>The first text</p><img src="/a.png" alt="a">
  <div class="ad">Buy this <img class="x" src="/ad.png"></div><p>The second text</p></div>
<div class="text"><p>Another part</p></div>
<p>The rest</p></body></html>"""


def document(
    *, keep: tuple[str, ...] = (), drop: tuple[str, ...] = (), page: str = PAGE
) -> Document:
    return parse_html(
        page.encode(), content_type="text/html", url="http://a.example/", keep=keep, drop=drop
    )


@pytest.mark.covers("M-15")
def test_only_what_is_kept_is_text():
    found = document(keep=(".text",))

    assert found.text == "Title\nThe first text\nBuy this\nThe second text\nAnother part"
    assert [image.src for image in found.images] == ["/a.png", "/ad.png"]
    assert found.title == "T"


@pytest.mark.covers("M-15")
def test_what_is_dropped_is_none():
    found = document(drop=("#banner", ".ad"))

    assert found.text == "Title\nThe first text\nThe second text\nAnother part\nThe rest"
    assert [image.src for image in found.images] == ["/a.png"]


def test_what_is_dropped_within_what_is_kept_is_none():
    found = document(keep=("div.text",), drop=("div.text > .ad", "img"))

    assert found.text == "Title\nThe first text\nThe second text\nAnother part"
    assert found.images == ()


def test_the_operators_word_counts_more_than_ours():
    assert document(keep=("nav",)).text == "navigation"
    assert document(keep=("nav", "#banner p")).text == "navigation\nWe use cookies"
    assert document(drop=("body",)).text == ""


@pytest.mark.covers("M-02")
def test_links_are_those_of_the_whole_page():
    whole = [link.url for link in document().links]

    for found in (document(keep=(".text",)), document(drop=("body",)), document(keep=("#none",))):
        assert [link.url for link in found.links] == whole


def test_where_nothing_fits_the_page_is_read_as_ever():
    assert document(keep=(".nothing",), drop=(".nowhere",)) == document()
    assert document(page="", keep=("a",)).text == ""
    assert document(page="just text", keep=("a",)).text == "just text"


def test_characters_and_raw_text_survive_the_marking():
    page = "<p>&lt;b&gt; &amp; „ß“ \U0001f600<script>if (a < b && c) '</p>'</script></p><pre>a\n b"

    assert document(page=page, drop=(".x",)) == document(page=page)


def test_a_page_of_endless_nesting_is_read_without_selections():
    page = "<div class='x'>" * 5_000 + "deep" + "<a href='/b'>b</a>"

    found = document(page=page, drop=(".x",))
    assert [link.url for link in found.links] == ["http://a.example/b"]
