"""Code, tables and lists of pages, which never change the text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartcrawl.extract import sections
from smartcrawl.extract.hashes import document_content_hash
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.reader import parse_markup
from smartcrawl.model.documents import CODE, LIST, TABLE, Document
from tests.tiers import examples


def document(body: str) -> Document:
    return parse_html(body.encode(), content_type="text/html", url="http://a.example/")


def blocks_of(body: str) -> list[tuple[str, str]]:
    """Return kind and text of each block of a page."""
    return [
        (block.kind, section.text[block.start : block.end])
        for section in document(body).sections
        for block in section.blocks
    ]


def cells_of(body: str) -> list[list[str]]:
    """Return the cells of the only table of a page, by rows."""
    [(section, table)] = [
        (section, block)
        for section in document(body).sections
        for block in section.blocks
        if block.kind == TABLE
    ]
    found, at = [], table.caption or table.start
    for row in table.rows:
        found.append([])
        for end in row:
            found[-1].append(section.text[at:end].strip())
            at = end
    return found


def test_code_is_found_with_its_layout():
    body = "<p>before</p><pre>def f(x):\n    return  x\n\nf(1)\n</pre><p>after</p>"
    assert blocks_of(body) == [(CODE, "def f(x):\n    return  x\n\nf(1)")]


def test_layout_of_code_is_kept_where_the_code_has_control_characters():
    [section] = document("<pre>a\6  <b>b</b>\n  <i>c\6</i>\td</pre>").sections
    assert section.text == "a\6  b\n  c\6\td"


def test_list_is_found_once_with_the_lists_in_it():
    assert blocks_of("<p>a</p><ul><li>b<ol><li>c</ol><li>d</ul><p>e") == [(LIST, "b\nc\nd")]


def test_code_in_a_list_is_both():
    found = blocks_of("<ol><li>run<pre>make all</pre><li>stop</ol>")
    assert found == [(LIST, "run\nmake all\nstop"), (CODE, "make all")]


def test_cells_of_a_table_are_found_in_their_rows():
    body = (
        "<p>x</p><table><caption>Options</caption><tr><th>Name<th>Meaning</tr>"
        "<tr><td>-a<td>all  of\n them<tr><td>-b<td><tr><td><p>two</p><p>lines</p><td>z</table>y"
    )
    assert cells_of(body) == [
        ["Name", "Meaning"],
        ["-a", "all of them"],
        ["-b", ""],
        ["two\nlines", "z"],
    ]


@pytest.mark.parametrize(
    ("first", "head"),
    [
        ("<tr><th>a<th>b", 1),
        ("<tr><td>a<td>b", 0),
        ("<tr><th>a<td>b", 0),  # it names the row
        ("<tr><td><th>b", 1),
        ("<tr><td> <br><th>a<td class=x><th>b", 1),
        ("<tr><td><td>", 0),
        ("<thead><tr><td>a<td>b</thead>", 1),
        ("<thead><th>a<th>b</thead>", 1),
        ("<thead><tr><th colspan=2>a</tr><tr><th>b<th>c</tr></thead>", 2),
        ("<thead><tr><th><th></tr></thead>", 0),
        ("<thead><tr><th><th></tr><tr><th>a<th>b</thead>", 1),
        ("<tr><td>a<td>b<thead><tr><th>c<th>d</thead>", 0),
    ],
)
@pytest.mark.parametrize("before", ["", "<p>x", "<p>x<table><tr><th>a<th>b</table>"])
def test_rows_of_th_or_thead_name_the_columns(before, first, head):
    body = f"{before}<table>{first}<tr><th>c<td>d</table>"
    block = document(body).sections[0].blocks[-1]
    assert block.head == head
    assert block.rows[0][-1] > block.start


def test_heads_that_are_not_shown_name_no_columns():
    hidden = "<noscript><table><thead><tr><th>a</thead></table></noscript>"
    [block] = document(f"{hidden}<table><tr><td>a<td>b<tr><td>c</table>").sections[0].blocks
    assert block.head == 0
    [block] = document("<table><thead hidden><tr><th>a</thead><tr><td>c</table>").sections[0].blocks
    assert block.head == 0


@pytest.mark.parametrize(
    ("caption", "text"),
    [("Options", "Options\n"), ("<p>A</p>B", "A\nB\n"), (" <br> ", None), ("", None)],
)
def test_caption_is_before_the_first_row(caption, text):
    found = document(f"<p>x<table><caption>{caption}</caption><tr><td>a</table>y").sections[0]
    [block] = found.blocks
    assert block.caption == (0 if text is None else 2 + len(text))
    assert found.text[block.start : block.caption] == (text or "")
    assert block.head == 0


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("<table>a<td>b", [()]),
        ("<table>a<td></table><p>b<table><td>c<tr>", [(), ()]),  # a row that ends with the second
        ("<table></tr>b<td></table>a<p>b</td><td><tr>", [()]),
    ],
)
def test_a_row_that_ends_behind_its_table_is_none(body: str, rows: list[tuple[()]]):
    assert [block.rows for one in document(body).sections for block in one.blocks] == rows


@pytest.mark.parametrize("inner", ["<h2>A</h2>b", "<pre>b</pre>", "<table><tr><td>b</table>"])
def test_table_with_code_headings_or_tables_only_lays_out_a_page(inner):
    body = f"<table><tr><td>a<td>{inner}</table>"
    found = blocks_of(body)
    assert all(kind != TABLE or "a" not in text for kind, text in found)


def test_list_in_a_table_belongs_to_the_table():
    found = blocks_of("<table><tr><td>a<td><ul><li>b<li>c</ul></table>")
    assert [kind for kind, _ in found] == [TABLE]


def test_block_that_a_heading_divides_is_in_both_sections():
    found = document("<ul><li>a<h2>H</h2><li>b</ul>").sections
    assert [[block.kind for block in section.blocks] for section in found] == [[LIST], [LIST]]


def test_block_of_boilerplate_is_none():
    assert blocks_of("<p>text</p><nav><ul><li>a</ul></nav><pre>b</pre>") == [(CODE, "b")]


def test_text_with_a_mark_in_it_has_no_blocks_and_stays():
    body = "<p>a\6b</p><pre>c\7</pre>"
    seen = parse_markup(body.encode())
    plain = sections.text_sections(seen.tokens, seen.headings, ())
    marked = sections.text_sections(seen.tokens, seen.headings, (), seen.blocks)
    assert [one[:3] for one in marked] == [one[:3] for one in plain]


def test_blocks_are_no_part_of_the_content_hash():
    with_code = document("<p>a</p><pre>b</pre>")
    without = document("<p>a</p><p>b</p>")
    assert with_code.sections[0].blocks
    assert document_content_hash(with_code) == document_content_hash(without)


PIECES = [
    *("<p>", "<pre>", "</pre>", "<table>", "</table>", "<tr>", "<td>", "</td>", "<th>", "</tr>"),
    *("<ul>", "<li>", "</ul>", "<ol>", "</ol>", "<h2>", "</h2>", "<td class=a>", "<nav>", "</nav>"),
    *("<div hidden>", "</div>", "<br>", "<main>", "</main>", "<caption>", "<tbody>", "</table"),
    *("<thead>", "</thead>", "</caption>", "<tr><th>", "<th class=a>", "<thead hidden>"),
    *("word", " two words ", "\n", "  ", "\t", "\u00a0", "\u2003", "x\r\ny", "\0", "\6", "é"),
]


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
@example("<table><td>a<ul><li>b</ul>\0</td>c<pre> d </pre></table>e")
@example("<table><tr><td><pre>\n x</pre><td> y </table>z")
@example("<table>word<tr><th>")
def test_text_is_the_same_with_and_without_blocks(body):
    seen = parse_markup(body.encode())
    excluded = seen.boilerplate + seen.dropped
    plain = sections.text_sections(seen.tokens, seen.headings, excluded)
    marked = sections.text_sections(seen.tokens, seen.headings, excluded, seen.blocks)
    assert [one[:3] for one in marked] == [one[:3] for one in plain]
    for section in marked:
        last = 0
        for block in section.blocks:
            text = section.text
            assert 0 <= block.start < block.end <= len(text)
            assert block.start == 0 or text[block.start - 1] == "\n"
            assert block.end == len(text) or text[block.end] == "\n"
            ends = [end for row in block.rows for end in row]
            assert ends == sorted(ends)
            first = block.caption or block.start
            assert block.start <= first <= block.end
            assert first == 0 or text[first - 1] == "\n"
            assert all(first <= end <= block.end for end in ends)
            assert 0 <= block.head <= len(block.rows)
            if block.kind != LIST:
                assert block.start >= last
                last = block.end
