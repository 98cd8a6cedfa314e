"""Pages as Markdown: what a CommonMark reader reads back is what the page has."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import (
    CODE,
    LIST,
    PLACE,
    TABLE,
    Block,
    Document,
    Section,
    Span,
)
from smartcrawl.reports.export import page_as_markdown

#: Text with much that is markup, and lines, tabs and controls.
_HOSTILE = st.text(
    st.sampled_from("ab1 .)#-+*_`~<>[]()|\\&;:=!/\n\t\x00\x1b\x85\u00a0\ud800é"), max_size=40
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_markdown(text: str) -> list[Token]:
    """Return the tokens that GitHub's tables and strokes make of a text."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def inline_text(token: Token) -> str:
    """Return the text of an inline token; markup other than ``<br>`` and line ends is a failure."""
    parts = []
    for child in token.children or []:
        if child.type == "text":
            parts.append(child.content)
        elif child.type == "softbreak" or (child.type, child.content) == ("html_inline", "<br>"):
            parts.append("\n")
        else:
            assert child.type == "text_special", child
            parts.append(child.content)
    return "".join(parts)


def clean(text: str) -> str:
    """Return text as the Markdown has it: without controls and halves of surrogate pairs."""
    for white in "\v\f\r\x1c\x1d\x1e\x1f\x85":
        text = text.replace(white, " ")
    return re.sub("[\ud800-\udfff]", "\ufffd", _CONTROL.sub("", text))


def lines_of(text: str) -> list[str]:
    return [line for line in (one.strip() for one in clean(text).split("\n")) if line]


def page(*sections: Section) -> Document:
    return Document(sections=sections)


def html_as_markdown(html: str) -> str:
    return page_as_markdown(
        parse_html(html.encode(), content_type="text/html; charset=utf-8", url="http://a.example/")
    )


def cells_of(tokens: list[Token]) -> list[list[str]]:
    """Return the rows of the only table, the head first."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(inline_text(token))
    return rows


def table_of(rows: list[list[str]], *, head: bool, places: bool) -> Section:
    """Return a section that is a table: its cells with their places, or separated by tabs."""
    text, ends = "", []
    for row in rows:
        text += "\n" if ends else ""
        row_ends = []
        for number, cell in enumerate(row):
            text += ((" " if places else "\t") if number else "") + cell
            row_ends.append(len(text))
        ends.append(tuple(row_ends))
    block = Block(TABLE, 0, len(text), head, tuple(ends) if places else ())
    return Section(0, "", text, (block,))


@given(st.lists(st.tuples(st.integers(1, 6), _HOSTILE), min_size=1, max_size=3))
def test_headings_are_read_back(headings):
    sections = [Section(level, text, "") for level, text in headings]

    tokens = read_markdown(page_as_markdown(page(*sections)))

    read = [
        (int(token.tag[1]), inline_text(after))
        for token, after in pairwise(tokens)
        if token.type == "heading_open"
    ]
    named = [(level, " ".join(clean(text).split())) for level, text in headings]
    assert read == [(level, text) for level, text in named if text]


@given(_HOSTILE)
def test_text_is_read_back_and_nothing_in_it_is_markup(text):
    tokens = read_markdown(page_as_markdown(page(Section(0, "", text))))

    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
    read = [inline_text(token) for token in tokens if token.type == "inline"]
    assert "\n".join(read).split("\n") == (lines_of(text) or [""])


@given(_HOSTILE)
def test_each_line_of_a_list_is_an_item(text):
    section = Section(0, "", text, (Block(LIST, 0, len(text)),))

    tokens = read_markdown(page_as_markdown(page(section)))

    kinds = {"bullet_list", "list_item", "paragraph"}
    assert {re.sub("_(open|close)", "", token.type) for token in tokens} <= {*kinds, "inline"}
    assert [inline_text(t) for t in tokens if t.type == "inline"] == lines_of(text)


@given(_HOSTILE, _HOSTILE, _HOSTILE)
def test_code_is_read_back_to_the_letter(before, code, after):
    text = f"{before}\n{code}\n{after}"
    start = len(before) + 1
    section = Section(0, "", text, (Block(CODE, start, start + len(code)),))

    tokens = read_markdown(page_as_markdown(page(section)))

    fences = [token.content for token in tokens if token.type == "fence"]
    assert fences == ([clean(code) + "\n"] if clean(code).strip() else [])
    read = [inline_text(token) for token in tokens if token.type == "inline"]
    assert [line for part in read for line in part.split("\n")] == lines_of(before) + lines_of(
        after
    )


_CELL = _HOSTILE.map(lambda text: text.replace("\t", " "))


@example([["_\n_ a _\n_"]], True, True).via("marks in pairs over the lines of a cell")
@given(
    st.lists(st.lists(_CELL, min_size=1, max_size=4), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_tables_are_read_back(rows, head, places):
    if not places:
        rows = [[cell.replace("\n", " ") for cell in row] for row in rows]
    tokens = read_markdown(page_as_markdown(page(table_of(rows, head=head, places=places))))

    read = cells_of(tokens)
    cells = [["\n".join(lines_of(cell)) for cell in row] for row in rows]
    first = cells.pop(0) if head else []
    kept = [row for row in cells if any(row)]
    width = max(map(len, (first, *kept)))
    expected = [row + [""] * (width - len(row)) for row in (first, *kept)]
    assert read == (expected if any(first) or kept else [])


@given(
    st.lists(
        st.tuples(st.sampled_from(["", CODE, TABLE, LIST]), _HOSTILE, st.lists(st.integers(0, 60))),
        max_size=5,
    )
)
def test_all_words_of_a_page_are_there_in_their_order(parts):
    """Also where the places of a table's cells do not fit its text."""
    text, blocks = "", []
    for number, (kind, part, ends) in enumerate(parts):
        start = len(text)
        text += f"word{number} {part} end{number}"
        if kind:
            rows = (tuple(start + end for end in ends),) if ends else ()
            blocks.append(Block(kind, start, len(text), False, rows))
        text += "\n"
    markdown = page_as_markdown(page(Section(2, "Head", text, tuple(blocks))))

    glued = re.sub(r"<br>|\W", "", markdown)
    words = [word for number in range(len(parts)) for word in (f"word{number}", f"end{number}")]
    assert re.findall(r"(?:word|end)\d", glued) == words
    assert not _CONTROL.search(markdown)


def test_a_page_of_a_site_keeps_headings_code_tables_and_lists():
    markdown = html_as_markdown(
        "<title>T</title><h1>Set up</h1><p>One.<p>Two, snake_case and 2 * 3."
        "<ul><li>first<li>second</ul><pre>a\n\n```\n  b</pre>"
        "<h2>Names</h2><table><tr><th>Key<th>Value<tr><td>a|b<td>x<br>y<tr><td>only</table>"
        "<p># no heading"
    )

    assert markdown == (
        "# Set up\n\nOne.\n\nTwo, snake_case and 2 * 3.\n\n- first\n- second\n\n"
        "````\na\n\n```\n  b\n````\n\n## Names\n\n"
        "| Key | Value |\n| --- | --- |\n| a\\|b | x<br>y |\n| only |  |\n\n\\# no heading\n"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("<caption>Options</caption><tr><th>Key<th>Value", "Options\n\n| Key | Value |"),
        ("<caption>Options</caption>", "Options\n\n|  |  |"),
        ("<tr><td><th>Value", "|  | Value |"),
        ("<thead><tr><td>Key<td>Value</thead>", "| Key | Value |"),
        ("<thead><tr><th><th></thead>", "|  |  |"),
    ],
)
def test_a_caption_is_before_its_table_and_names_of_columns_are_its_head(rows, expected):
    markdown = html_as_markdown(f"<p>x<table>{rows}<tr><td>a<td>b</table>")

    assert markdown == f"x\n\n{expected}\n| --- | --- |\n| a | b |\n"


def test_a_list_goes_on_after_its_code():
    markdown = html_as_markdown("<ul><li>one<pre>run()</pre><li>two</ul><p>after")

    assert markdown == "- one\n\n```\nrun()\n```\n\n- two\n\nafter\n"


def test_lines_of_a_plain_text_stay_together_between_blank_lines():
    assert page_as_markdown(page(Section(0, "", "a\nb\n\nc\n1. d"))) == "a\nb\n\nc\n1\\. d\n"
    assert page_as_markdown(page(Section(0, "", "a\nb"))) == "a\n\nb\n"


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ((), "# Title\n"),
        ((Section(2, "Part", "x"),), "# Title\n\n## Part\n\nx\n"),
        ((Section(1, "Own", "x"),), "# Own\n\nx\n"),
    ],
)
def test_a_title_is_the_heading_of_a_page_without_one(sections, expected):
    assert page_as_markdown(page(*sections), title="Title") == expected
    assert page_as_markdown(Document(title="Title", sections=sections)) == expected
    assert page_as_markdown(Document()) == ""


def test_a_wide_ragged_table_is_not_filled_up_beyond_measure():
    rows = [["x"] * 1000, *[["y"]] * 1000]

    markdown = page_as_markdown(page(table_of(rows, head=True, places=True)))

    assert len(markdown) < 50_000
    assert markdown.endswith("| y |\n| y |\n")


@pytest.mark.parametrize(
    "text",
    ["snake_case and a_b", "f(*args)", "a > b", "100 % #1", "see [1] and a|b", "~/x", "-5"],
)
def test_text_that_is_no_markup_stays_as_it_is(text):
    assert page_as_markdown(page(Section(0, "", text))) == f"{text}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("~~~ a", "\\~~~ a"),
        ("``` a", "\\``` a"),
        ("[ ] a", "\\[ ] a"),
        ("[a](b) [c]", "[a\\](b) [c]"),
        ("[a]: b", "[a\\]: b"),
        ("&amp; & R&D", "\\&amp; & R&D"),
        ("<b> < 3", "\\<b> < 3"),
        ("# a", "\\# a"),
        ("12) a", "12\\) a"),
        ("`a`", "\\`a\\`"),
    ],
)
def test_markup_in_text_is_escaped(text, expected):
    assert page_as_markdown(page(Section(0, "", text))) == f"{expected}\n"


def test_text_after_the_last_cell_of_a_table_is_a_row():
    section = Section(0, "", "a b\nnote", (Block(TABLE, 0, 8, True, ((1, 3),)),))

    assert page_as_markdown(page(section)) == "| a | b |\n| --- | --- |\n| note |  |\n"


# Links, pictures and code


def html_with_links(html: str) -> str:
    body = html.encode()
    url = "http://a.example/x/y.html"
    document = parse_html(body, content_type="text/html; charset=utf-8", url=url)
    return page_as_markdown(document, url=url).rstrip("\n")


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("see <a href='../b?c=1#d'>the <b>manual</b></a>.",
         "see [the manual](http://a.example/b?c=1#d)."),
        ("<a href=#top>up</a>", "[up](http://a.example/x/y.html#top)"),
        ("<a href='b (c)|d&copy;'>e</a>", "[e](http://a.example/x/b%20%28c%29%7Cd%C2%A9)"),
        ("<a href='b?c=1&amp;copy;d'>e</a>", "[e](http://a.example/x/b?c=1\\&copy;d)"),
        ("<a href='http://me:secret@b.example/'>c</a>", "[c](http://b.example/)"),
        ("wow!<a href=b>[c]</a>", "wow\\![\\[c\\]](http://a.example/x/b)"),
        ("a\\<a href=b>c</a>", "a\\\\[c](http://a.example/x/b)"),
        ("a <code>b`c</code> ` d", "a ``b`c`` \\` d"),
        ("<code>`</code>", "`` ` ``"),
        ("<code>a*b*</code> and *", "`a*b*` and *"),
        ("<code>Opt&lt;<a href=t>T</a>&gt;</code>", "`Opt<`[`T`](http://a.example/x/t)`>`"),
        ("<code>a<br>b</code>", "`a`\n\n`b`"),
        ("<a href=b># c</a>", "[# c](http://a.example/x/b)"),
        ("x<a href=b>c<br>d</a>", "x[c](http://a.example/x/b)\n\nd"),
        ("<h2><a href=b>A</a> <code>f()</code></h2>",
         "# A f()\n\n## [A](http://a.example/x/b) `f()`"),
        ("<h2><a href=b>A</a> #</h2>", "# A \\#\n\n## [A](http://a.example/x/b) \\#"),
        ("a <img src=p.png alt='the [b]'> c", "a ![the \\[b\\]](http://a.example/x/p.png) c"),
        ("<p>a</p><img src=p.png alt=b><p>c", "a\n\n![b](http://a.example/x/p.png)\n\nc"),
        ("<p>a<a href=c><img src=p alt=b></a>",
         "a [![b](http://a.example/x/p)](http://a.example/x/c)"),
        ("<ul><li><img src=p alt=b>c<li>d</ul>", "- ![b](http://a.example/x/p) c\n- d"),
        ("<table><tr><th>a<th><a href=b|c>d|e</a><tr><td><code>x|y</code><td>z</table>",
         "| a | [d\\|e](http://a.example/x/b%7Cc) |\n| --- | --- |\n| `x\\|y` | z |"),
        ("a<pre><a href=b>c</a> <code>d</code></pre><p>e <a href=f>g</a>",
         "a\n\n```\nc d\n```\n\ne [g](http://a.example/x/f)"),
    ],
)  # fmt: skip
def test_links_pictures_and_code_stay(html, markdown):
    assert html_with_links(html) == markdown


def test_without_the_address_of_the_page_code_stays_and_links_are_text():
    page = Section(0, "", "a b", (), (Span("link", 0, 1, "http://b.example/"), Span("code", 2, 3)))

    assert page_as_markdown(Document(sections=(page,))) == "a `b`\n"


_SPANS = st.lists(
    st.tuples(
        st.sampled_from(["link", "code", "picture", "place"]), st.integers(0, 40),
        st.integers(0, 15), st.sampled_from(["b", "http://c.example/(d)|e", "javascript:f()"]),
        _HOSTILE,
    ),
    max_size=6,
)  # fmt: skip


def visible(tokens: list[Token]) -> str:
    """Return what a reader of Markdown sees of a text, without white space and pictures."""
    parts = [
        child.content
        for token in tokens
        for child in token.children or []
        if child.type in ("text", "text_special", "code_inline")
    ]
    return "".join("".join(parts).split())


@given(_HOSTILE, _SPANS, st.sampled_from([(), ("list",), ("table",)]))
def test_no_text_is_lost_or_becomes_markup_around_spans(text, drawn, kinds):
    spans = tuple(
        sorted(
            (
                Span(kind, start, start if kind in ("picture", "place") else end, target, alt)
                for kind, at, size, target, alt in drawn
                for start in (min(at, len(text)),)
                for end in (min(start + size, len(text)),)
            ),
            key=lambda span: span.start,
        )
    )
    blocks = tuple(Block(kind, 0, len(text)) for kind in kinds if text)
    section = Section(0, "", text, blocks, spans)

    markdown = page_as_markdown(page(section), url="http://a.example/x")

    tokens = read_markdown(markdown)
    allowed = {"text", "text_special", "code_inline", "image", "softbreak", "link_open",
               "link_close"}  # fmt: skip
    for token in tokens:
        for child in token.children or []:
            assert child.type in allowed or child.content == "<br>"
            assert not str(child.attrs.get("href", "")).startswith("javascript")
    assert visible(tokens) == "".join(clean(text).split())


@pytest.mark.parametrize(
    "name", ["open", "größe", "List<T>(a)", "a&lt;b[c]`*_\\", "two words", "page=7"]
)
def test_headings_of_a_numbered_page_lead_to_themselves(name: str):
    section = Section(2, "Lamps", "oil", head=(Span(PLACE, 0, 0, name),))

    markdown = page_as_markdown(page(section), url="http://a.example/x", numbered=True)

    links = [
        child.attrs["href"]
        for token in read_markdown(markdown)
        for child in token.children or []
        if child.type == "link_open"
    ]
    assert [unquote(str(link)) for link in links] == (
        [] if " " in name else [f"http://a.example/x#{name}"]
    )
    assert ("[#]" in markdown) is (name not in {"two words", "page=7"})
    assert "#open" not in page_as_markdown(page(section), url="http://a.example/x")
