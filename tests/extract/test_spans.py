"""Links, pictures, code and ids beside the text of pages, which never change it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract import reader, sections
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.spans import MAX_SPANS, counted_spans
from smartcrawl.model.documents import Document, Section, Span
from smartcrawl.model.placed_spans import placed_spans, with_placed_spans
from smartcrawl.registry.pack import pack_stored_document, unpack_stored_document

URL = "http://a.example/x/y.html"


def document(body: str) -> Document:
    return with_placed_spans(
        parse_html(body.encode(), content_type="text/html; charset=utf-8", url=URL)
    )


def spans_of(body: str) -> list[tuple[str, ...]]:
    """Return kind, text and target of each span, those of headings with ``# `` before the text."""
    return [
        (span.kind, mark + text[span.start : span.end], span.target)
        for section in document(body).sections
        for mark, text, spans in (
            ("# ", section.heading, section.head),
            ("", section.text, section.spans),
        )
        for span in spans
    ]


def section_of(body: str) -> Section:
    [section] = document(body).sections
    return section


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("a <a href='../b?c#d'>of \n <b>two</b>  words</a>.",
         [("link", "of two words", "../b?c#d")]),
        ("<a href=' b '> c </a>d", [("link", "c", "b")]),
        ("x<a href=b>c<br>d</a>", [("link", "c\nd", "b")]),
        ("x <a href=#c>d</a>", [("link", "d", "#c")]),
        ("x<a href=b></a><a href=b> </a>", []),
        ("x<a href=javascript:f()>y</a><a href=mailto:a@b.example>z</a>", []),
        ("x <a href='b?api_key=8c1f&c=1'>y</a>", [("link", "y", "b?c=1")]),
        ("<nav><a href=b>c</a></nav>d <a href=b>e</a>", [("link", "e", "b")]),
        ("a <code>b  c</code> <kbd>d</kbd><samp>e</samp><tt>f</tt>",
         [("code", "b c", ""), ("code", "d", ""), ("code", "e", ""), ("code", "f", "")]),
        ("<a href=b><code>c<code>d</code></code></a>", [("code", "cd", ""), ("link", "cd", "b")]),
        ("<pre>a <a href=b>c</a><code>d</code></pre><p>e <code>f</code>", [("code", "f", "")]),
        ("<svg><a href=b><text>x</text></a></svg><p>c", []),
        ("<h2>A <code>b</code></h2>c", [("code", "# b", "")]),
        ("<a href=b><h2>A</h2><p>c</p></a>", [("link", "# A", "b")]),
        ("é\u2003<a href=b>ü\xa0ö</a>", [("link", "ü ö", "b")]),
        ("a\0\1\6<a href=b>c\5\6d</a>e", [("link", None, "b")]),
    ],
)  # fmt: skip
def test_links_and_code_are_beside_the_text(body, found):
    kept = [(kind, text if found[0][1] else None, to) for kind, text, to in spans_of(body)]

    assert kept == found


def test_addresses_are_absolute_where_the_page_has_a_base():
    body = "<base href='http://b.example/c/'><p>d <a href=e#f>g</a><img src=h.png alt=i>"

    assert [span.target for span in section_of(body).spans] == [
        "http://b.example/c/e#f", "http://b.example/c/h.png",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("<p>ab <img src=p alt=c> d", [(0, 2, "c")]),
        ("<p>ab</p><img src=p alt=c><p>d", [(0, 3, "c")]),
        ("<p>ab</p><img src=p alt=c><h2>d</h2>", [(0, 2, "c")]),
        ("<img src=p alt=c><h2>d</h2>e", [(0, 0, "c")]),
        ("<p>ab <img src=p> d", [(0, 2, "")]),
        ("<p>ab <img src=p alt=''> d", []),
        ("<p>ab <img src=p alt=c width=1 height=1> d", []),
        ("<nav><img src=p alt=c></nav><p>d", []),
        ("<p>x<button><img src=p alt=c></button>d", []),
        ("<noscript><img src=p alt=c></noscript>d", []),
    ],
)
def test_pictures_have_a_place_in_the_text(body, places):
    found = [
        (number, span.start, span.text)
        for number, section in enumerate(document(body).sections)
        for span in section.spans
    ]

    assert found == places


def test_picture_in_a_link_leads_where_the_link_does():
    [span] = section_of("a<p><a href=big.png><img src=small.png alt=b></a>").spans

    assert (span.kind, span.target, span.link) == ("picture", "small.png", "big.png")


def place_at(section: Section, at: int) -> Span | None:
    """Return the id to which a place in the text belongs: the last one before it."""
    before = [span for span in section.spans if span.start <= at]
    return next(
        (s for s in (*before[::-1], *section.head[::-1]) if s.kind in ("place", "name")), None
    )


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("<section id=a><h2>A</h2>word", [("A", "place", "a")]),
        ("<h2 id=a>A</h2>word", [("A", "place", "a")]),
        ("<h2><a name=a></a>A</h2>word", [("A", "place", "a")]),
        ("<a id=a></a><h2>A</h2>word", [("A", "place", "a")]),
        ("<div class=section id=a><h2>A</h2>word", [("A", "place", "a")]),
        ("<div id=a><h2>A</h2>word", [("A", None, None)]),
        ("<h2 id=a>A</h2><dl><dt id=f class=sig>f(x)<dd>word", [("A", "name", "f")]),
        ("<h2 id=a>A</h2><dl><dt>f(x)<dd>word", [("A", "place", "a")]),
        ("<div class='sig x' id=f>f()</div><p>word", [("", "name", "f")]),
        ("<nav><h2 id=a>N</h2></nav><p>word", [("", None, None)]),
        ("<section id=a><h2>A</h2>b</section><section id=c><h2>C</h2>word", [
            ("A", "place", "a"), ("C", "place", "c"),
        ]),
    ],
)  # fmt: skip
def test_each_part_of_a_text_knows_its_id_and_whether_it_defines_a_name(body, places):
    found = []
    for section in document(body).sections:
        place = place_at(section, max(section.text.find("word"), 0))
        found.append((section.heading, place and place.kind, place and place.target))

    assert found == places


#: Markup that joins, splits, hides and lays out text, with marks in it.
_PIECES = st.lists(
    st.sampled_from([
        "<a href=b>", "</a>", "<code>", "</code>", "<p>", "<h2 id=h>", "</h2>", "<pre>", "</pre>",
        "<table><tr><td>", "<td>", "</table>", "<nav>", "</nav>", "<img src=p alt=q>", "<br>",
        "<dl><dt id=n>", "<dd>", "</dl>", "<ul><li>", "</ul>", "word ", " two\n\twords", "\xa0é ",
        "\0", "\1\2\3", "\4", "\5", "\6\7\x0e", "<svg>x</svg>", "<button>b</button>",
        "<section id=s>",
    ]),
    max_size=30,
)  # fmt: skip


@given(_PIECES)
def test_text_and_blocks_are_those_of_a_page_without_spans(pieces):
    markup = "".join(pieces).encode()
    seen = reader.parse_markup(markup)
    excluded = seen.boilerplate

    plain = sections.text_sections(seen.tokens, seen.headings, excluded, seen.blocks)
    counted = counted_spans(seen.tokens, seen.headings, excluded, seen.spans)
    found = placed_spans(plain, counted) if counted else plain

    assert tuple(section._replace(spans=(), head=()) for section in found) == plain
    for section in found:
        for text, spans in ((section.heading, section.head), (section.text, section.spans)):
            places = [0, *(span.start for span in spans)]
            assert places == sorted(places)
            for span in spans:
                part = text[span.start : span.end]
                assert span.end <= len(text)
                assert (part == part.strip() != "") == (span.kind in ("link", "code")) or (
                    span.kind == "name"
                )


def test_spans_of_a_page_are_limited():
    body = "<p>" + "<a href=b>c</a> " * (MAX_SPANS + 1)

    assert len(section_of(body).spans) == MAX_SPANS


def test_a_stored_page_has_its_spans_at_their_places():
    body = "<h1 id=a>A <code>b</code></h1><p>c <a href=d>e</a> <img src=f.png alt=g>"
    head = "<meta name=keywords content='h, i'>"
    page = parse_html(f"{head}{body}".encode(), content_type="text/html; charset=utf-8", url=URL)

    stored = unpack_stored_document(pack_stored_document(page))

    assert page.sections[0].spans == page.sections[0].head == ()
    assert stored.keywords == "h, i"
    assert stored.sections == document(body).sections
    assert [span.kind for span in stored.sections[0].head] == ["place", "code"]
    assert [span.kind for span in stored.sections[0].spans] == ["link", "picture"]


def test_a_text_of_another_length_gets_no_spans():
    page = parse_html(b"<p>a <a href=b>c</a>", content_type="text/html", url=URL)
    longer = replace(page, sections=(page.sections[0]._replace(text="a c d"),))

    assert with_placed_spans(longer).sections == longer.sections
