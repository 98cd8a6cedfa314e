"""Cleaned site pages have all visible text, and nothing that a browser or indexer could run."""

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from smartcrawl.extract.html import parse_html
from smartcrawl.extract.library.markup import BLOCKS, INLINE, UNSEEN
from smartcrawl.extract.library.pages import clean_page_html, markup_of_library_page

URL = "https://tenant.example/sites/x/SitePages/Home.aspx"
HEAD = '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8"/>\n'
ALLOWED = {
    "a": {"href"}, "blockquote": set(), "body": set(), "br": set(), "caption": set(),
    "code": set(), "dd": set(), "del": set(), "dl": set(), "dt": set(), "em": set(),
    "h1": set(), "h2": set(), "h3": set(), "h4": set(), "h5": set(), "h6": set(), "head": set(),
    "html": set(), "img": {"alt", "src"}, "li": set(), "meta": {"charset"}, "ol": set(),
    "p": set(), "pre": set(), "strong": set(), "sub": set(), "sup": set(), "table": set(),
    "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}, "title": set(), "tr": set(),
    "ul": set(),
}  # fmt: skip


def cleaned(canvas: str, title: str = "Home") -> str:
    """Return the body of a cleaned page; its first line is the title."""
    html = clean_page_html(markup_of_library_page(title, canvas, None, URL))
    check(html)
    body = html.decode().partition("<body>\n")[2].removesuffix("</body>\n</html>\n")
    return body.removeprefix(f"<h1>{title}</h1>\n")


def check(html: bytes) -> None:
    """Check that a document is well-formed, safe, and stays as it is."""
    assert clean_page_html(html) == html
    assert html.startswith(HEAD.encode())
    for root in (etree.fromstring(html), etree.fromstring(html, etree.HTMLParser())):
        for element in root.iter():
            assert isinstance(element.tag, str), "no comment, no processing instruction"
            assert set(element.attrib) <= ALLOWED[element.tag], element.tag
            assert re.match(r"https?://|mailto:|tel:|\Z", element.get("href", ""))
            assert re.match(r"https?://|\Z", element.get("src", ""))
        assert root.xpath("count(//meta)") == 1


@pytest.mark.covers("R3-58")
def test_a_page_keeps_headings_texts_lists_tables_links_and_images_texts():
    canvas = """<div><div data-sp-canvascontrol="" data-sp-controldata="{&quot;position&quot;:{}}">
        <div data-sp-rte=""><h2 class="x" onclick="f()">Rules</h2>
        <p style="color:red">Read <b>all</b>
        <a href="/sites/x/a b.aspx?c=1&amp;d=2#e">of it</a>.</p>
        <ul><li>one<ol><li>deep</li></ol></li><li>two</li></ul>
        <table><caption>Dates</caption><thead><tr><th>Day</th><th>What</th></tr></thead>
        <tr><td></td><td rowspan="2"><p>a</p><p>b</p></td></tr></table>
        <pre>\n  if x:\n    y()\n</pre>one<br>two</div></div>
        <div data-sp-webpart="" data-sp-webpartdata="{&quot;title&quot;:&quot;Hidden&quot;}">
        <div data-sp-componentid="">c70391ea-0b10</div><div data-sp-htmlproperties="">
        <div data-sp-prop-name="title" data-sp-searchableplaintext="true">Quick links</div>
        <a data-sp-prop-name="items[0].url" href="/sites/y"></a><a data-sp-prop-name="items[1].url"
        href="/sites/z"></a><img data-sp-prop-name="image" src="/i.png" alt="Our &quot;house&quot;">
        </div></div><img src="/pixel.png"></div>"""

    assert cleaned(canvas) == (
        "<h2>Rules</h2>\n"
        "<p>Read <strong>all</strong> "
        '<a href="https://tenant.example/sites/x/a%20b.aspx?c=1&amp;d=2#e">of it</a>.</p>\n'
        "<ul>\n<li>one\n<ol>\n<li>deep</li>\n</ol>\n</li>\n<li>two</li>\n</ul>\n"
        "<table>\n<caption>Dates</caption>\n<tr>\n<th>Day</th>\n<th>What</th>\n</tr>\n"
        '<tr>\n<td></td>\n<td rowspan="2">\n<p>a</p>\n<p>b</p>\n</td>\n</tr>\n</table>\n'
        "<pre>  if x:\n    y()</pre>\n<p>one<br/>two</p>\n"
        "<p>Quick links</p>\n"
        '<p><a href="https://tenant.example/sites/y">https://tenant.example/sites/y</a></p>\n'
        '<p><a href="https://tenant.example/sites/z">https://tenant.example/sites/z</a></p>\n'
        '<p><img alt="Our &quot;house&quot;" src="https://tenant.example/i.png"/></p>\n'
    )


@pytest.mark.covers("R3-58")
def test_a_page_of_graph_has_the_web_parts_of_its_layout():
    layout = {
        "horizontalSections": [
            {"columns": [{"webparts": [{"innerHtml": "<p>first</p>"}, {"innerHtml": None}]},
                         {"webparts": [{"data": {
                             "properties": {"altText": "A house"},
                             "serverProcessedContent": {
                                 "searchablePlainTexts": [
                                     {"key": "title", "value": "Links & more"},
                                     {"key": "items[0].title", "value": "Ours"}],
                                 "htmlStrings": [{"key": "h", "value": "<p><i>note</i></p>"}],
                                 "links": [{"key": "items[0].url", "value": "/sites/y"},
                                           {"key": "more", "value": "https://o.example/"}],
                                 "imageSources": [{"key": "i", "value": "/i.png"}]}}}]}]},
            {"columns": None}, "no section"],
        "verticalSection": {"webparts": [{"innerHtml": "<p>aside</p>"}]},
    }  # fmt: skip
    html = clean_page_html(markup_of_library_page("Home", None, layout, URL))
    check(html)

    assert html.decode().partition("<h1>")[2] == (
        "Home</h1>\n<p>first</p>\n<p>Links &amp; more</p>\n<p><em>note</em></p>\n"
        '<p><a href="https://tenant.example/sites/y">Ours</a></p>\n'
        '<p><a href="https://o.example/">https://o.example/</a></p>\n'
        '<p><img alt="A house" src="https://tenant.example/i.png"/></p>\n'
        "<p>aside</p>\n</body>\n</html>\n"
    )


def test_an_original_has_title_and_web_parts_as_they_came():
    canvas = '<div data-sp-webpartdata="{&quot;a&quot;:1}"><script>x</script>\ud800é</div>'
    original = markup_of_library_page("A\n<b>\x01", canvas, None, "https://h.example/'\"")

    assert original.decode() == (
        f"{HEAD}<title>A &lt;b&gt;</title>\n"
        '<link rel="canonical" href="https://h.example/&#x27;&quot;"/>\n</head>\n<body>\n'
        f"<h1>A &lt;b&gt;</h1>\n{canvas.replace(chr(0xD800), '?')}\n</body>\n</html>\n"
    )


@pytest.mark.parametrize(
    ("canvas", "body"),
    [
        ("<img src=x onerror=alert(1)>", ""),
        ("<img alt='<script>' src='javascript:x'>", '<p><img alt="&lt;script&gt;"/></p>\n'),
        ("<svg onload=alert(1)><text>t</text><style>*{}</style><script>x</script>", "<p>t</p>\n"),
        ("<a href='java\nscript:alert(1)'>a</a>", "<p>a</p>\n"),
        ("<a href='&#1; JAVASCRIPT&colon;alert(1)'>a</a>", "<p>a</p>\n"),
        ("<a href='data:text/html,x'>a</a><a href='vbscript:x'>b</a>", "<p>ab</p>\n"),
        ("<a href=https://me:pw@h.example/>a</a>", '<p><a href="https://h.example/">a</a></p>\n'),
        ("<a href='mailto:a@b.example'>a</a>", '<p><a href="mailto:a@b.example">a</a></p>\n'),
        ("<a href='#top'>a</a>", "<p>a</p>\n"),
        ("<base href='https://evil.example/'><a href=x>a</a>",
         '<p><a href="https://tenant.example/sites/x/SitePages/x">a</a></p>\n'),
        ("<link rel=canonical href='https://evil.example/'><a href=/x>a</a>",
         '<p><a href="https://tenant.example/x">a</a></p>\n'),
        ("<meta http-equiv=refresh content='0;url=//evil.example'>a", "<p>a</p>\n"),
        ("a<!--><img src=x onerror=alert(1)>-->b", "<p>a--&gt;b</p>\n"),
        ("a<!-- <p>x</p> --!><b>b</b>", "<p>a<strong>b</strong></p>\n"),
        ("a<![CDATA[<script>x</script>]]>b", "<p>ax]]&gt;b</p>\n"),
        ("a<?php <b>x</b> ?>b", "<p>ax ?&gt;b</p>\n"),
        ("<!DOCTYPE x [<!ENTITY a 'b'><!ENTITY c '&a;&a;'>]><p>&c;</p>",
         "<p>]&gt;</p>\n<p>&amp;c;</p>\n"),
        ("<template><p>x</p><template><p>y</p></template></template>z", "<p>z</p>\n"),
        ("<template shadowrootmode=open><p>x</p></template>", "<p>x</p>\n"),
        ("<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>a", None),
        ("<iframe src=//evil.example>x</iframe><object data=x>o</object><embed src=x>",
         "<p>o</p>\n"),
        ("<form action=x><input value=v><button>b</button><textarea><b></textarea></form>",
         "<p>b</p>\n<p>&lt;b&gt;</p>\n"),
        ("<style><!--</style><script>--></script>a", "<p>a</p>\n"),
        ("<p style='background:url(x)' class=y id=z lang=de data-x=1>a", "<p>a</p>\n"),
        ("</title></head></body></html>a", "<p>a</p>\n"),
        ("<math><mi>x</mi><annotation>y</annotation></math>", "<p>x</p>\n"),
        ("a\x00b\x01c\x7fd\ufffee&#x1;&#xD800;f", None),
        ("<td>a<td>b", "<p>a</p>\n<p>b</p>\n"),
        ("<table>a<tr>b<td>c</table>", "<table>\n<tr>\n<td>a</td>\n</tr>\n<tr>\n<td>b</td>\n"
         "<td>c</td>\n</tr>\n</table>\n"),
        ("<ul>a<ul>b</ul></ul>", "<ul>\n<li>a</li>\n<li>\n<ul>\n<li>b</li>\n</ul>\n</li>\n</ul>\n"),
        ("<td colspan='2' rowspan='1e9'>", ""),
        ("<table><tr><td>a<div></div>b<p>c", "<table>\n<tr>\n<td>a\n<p>b</p>\n<p>c</p>\n</td>\n"
         "</tr>\n</table>\n"),
        ("<a href=/x>a<b>b<a href=/y>c</a></b></a>",
         '<p><a href="https://tenant.example/x">a<strong>b</strong></a>'
         '<strong><a href="https://tenant.example/y">c</a></strong></p>\n'),
        ("<h2>a<div>b</div></h2>", "<h2>a</h2>\n<h2>b</h2>\n"),
        ("<p>one <i>two<p>three</i>", "<p>one <em>two</em></p>\n<p>three</p>\n"),
        ("<i>two<div>three</div></i>", "<p><em>two</em></p>\n<p><em>three</em></p>\n"),
    ],
)  # fmt: skip
def test_an_attack_leaves_its_text_only(canvas: str, body: str | None):
    found = cleaned(canvas)

    if body is not None:
        assert found == body


@pytest.mark.parametrize(
    "canvas",
    ["<div>x" * 8_000, "<i>x" * 8_000, "<ul><li>x" * 8_000, "<table><tr><td>x" * 8_000,
     "<blockquote>x" * 8_000, "<a href=/y>x" * 8_000, "<template>" * 8_000, "<" * 100_000,
     "<!--" * 8_000, "<pre>x" + "\n" * 100_000, "<svg><g>" * 8_000, "<br>" * 20_000,
     "&x;" * 20_000],
    ids=lambda canvas: canvas[:12],
)  # fmt: skip
def test_a_bomb_is_read_in_linear_time_and_keeps_its_text(canvas: str):
    found = cleaned(canvas)

    assert len(found) < 5 * len(canvas)
    assert re.sub(r"<[^>]*>", "", found).count("x") == canvas.count("x")


def test_containers_in_each_other_are_bounded():
    found = cleaned("<blockquote>" * 100 + "x")

    assert found.count("<blockquote>") == 40
    assert "x" in found


TAGS = sorted(
    (BLOCKS | set(INLINE) | UNSEEN | {"a", "br", "img", "span", "svg", "x-y", "form", "body"})
    - {"plaintext"}
)
ATTRIBUTES = st.sampled_from([
    "", " href=/x", " href='javascript:x'", " onclick=x", " style=x", " colspan=2", " alt='a\"<b'",
    " data-sp-prop-name=p href=/y", " data-sp-componentid", " src=/i.png alt=i", " '\"=",
])  # fmt: skip
PIECES = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(TAGS), ATTRIBUTES),
    st.sampled_from(TAGS).map("</{}>".format),
    st.sampled_from(["a", " b ", "\n", "&lt;i&gt;", "&amp;lt;", "\xa0", "<!--", "-->", "<![CDATA[",
                     "]]>", "<", ">", "\x0b", "&#13;", "&#0;", "\t", "é", "&nbsp;x", "\U0001f600"]),
    st.text(max_size=4),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("<pre>\n\n  a</pre>")
@example("<ul><table><li>a<td>b</ul>c")
@example("<dl>a<dt>b<ul>c</dl>d<dd>e")
def test_what_is_cleaned_is_safe_and_stays(markup: str):
    cleaned(markup)


Tree = Any
WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta"])
SEEN = sorted(
    (BLOCKS | set(INLINE) | {"a", "span", "svg", "x-y", "object", "label"}) - {"textarea", "xmp"}
)
TREES = st.recursive(
    WORDS,
    lambda inner: st.tuples(st.sampled_from(SEEN), ATTRIBUTES.filter(lambda a: "compon" not in a),
                            st.lists(inner, max_size=4)),
    max_leaves=20,
)  # fmt: skip


def markup_of(tree: Tree) -> str:
    if isinstance(tree, str):
        return f" {tree} "
    tag, attributes, inner = tree
    return f"<{tag}{attributes}>{''.join(map(markup_of, inner))}</{tag}>"


def words_of(tree: Tree) -> list[str]:
    return [tree] if isinstance(tree, str) else [word for one in tree[2] for word in words_of(one)]


@settings(deadline=None, max_examples=60)
@given(TREES)
def test_no_visible_text_is_lost(tree: Tree):
    found = re.sub(r">https://[^<\s]*</a>", ">", cleaned(markup_of(tree)))  # addresses as text
    text = re.sub(r"<[^>]*>", " ", found)

    assert text.split() == words_of(tree)


def test_an_indexer_reads_the_structure_of_a_cleaned_page():
    canvas = "<h2>Rules</h2><p>All of them.</p><ul><li>one<li>two</ul>"
    html = clean_page_html(markup_of_library_page("Home", canvas, None, URL))
    document = parse_html(html, content_type="text/html", url=URL)

    assert document.title == "Home"
    assert [(s.level, s.heading) for s in document.sections] == [(1, "Home"), (2, "Rules")]
    assert document.sections[1].text.split("\n") == ["All of them.", "one", "two"]
