"""List items: a row of a CSV each, and Markdown in which no field can be markup."""

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from smartcrawl.extract.library.lists import (
    ListRow,
    csv_cell_of_field,
    csv_list,
    csv_list_columns,
    csv_list_row,
    markdown_of_list_item,
    read_csv_of_list,
)
from smartcrawl.extract.library.pages import (
    csv_row_of_library_list,
    extract_library_content,
    extract_original_content,
)
from smartcrawl.model.library import SourceType

URL = "https://tenant.example/sites/x/Lists/Tasks/DispForm.aspx?ID=3"


@pytest.mark.covers("R3-57")
@pytest.mark.parametrize(
    ("type_", "value", "cell"),
    [
        ("text", None, ""),
        ("text", " a\x00b\x0bc\ud800 ", "ab c\ufffd"),
        ("note", "<b>one</b>\r\ntwo", "<b>one</b>\ntwo"),
        ("Note", "a <b>", "a <b>"), ("Note", "<3 you>", "<3 you>"),
        ("Note", "<P>x</P>\n", '<div class="ExternalClass"><P>x</P></div>'),
        ("html", "<p>x</p>", '<div class="ExternalClass"><p>x</p></div>'),
        ("html", '<div class="ExternalClass1A">x</div>', '<div class="ExternalClass1A">x</div>'),
        ("html", " ", ""),
        ("number", 3.0, "3"), ("number", 0, "0"), ("number", 1e21, "1" + "0" * 21),
        ("number", 0.1, "0.1"), ("number", 1e-7, "0.0000001"), ("number", 100.0, "100"),
        ("number", float("inf"), "inf"), ("currency", "12.50", "12.50"),
        ("Boolean", True, "Yes"), ("boolean", False, "No"), ("boolean", 1, "Yes"),
        ("boolean", 0, "No"), ("boolean", "0", "No"), ("boolean", "True", "Yes"),
        ("date", "2026-11-26T09:30:00Z", "2026-11-26T09:30:00Z"),
        ("DateTime", "2026-11-26T09:30:00.0000000+02:00", "2026-11-26T07:30:00Z"),
        ("date", "2026-11-26", "2026-11-26"), ("date", "9999-99-99T00:00:00Z",
                                               "9999-99-99T00:00:00Z"),
        ("date", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
        ("choice", "Open", "Open"),
        ("multichoice", ["a", "", " b\nc "], "a; b c"),
        ("multichoice", {"results": ["a", "b"]}, "a; b"),
        ("user", {"Id": 5, "EMail": "a@x.example", "Title": "Ada"}, "Ada"),
        ("user", {"LookupId": 5, "LookupValue": "Ada", "Email": "a@x.example"}, "Ada"),
        ("user", {"__metadata": {"type": "SP.User"}, "Title": " ", "EMail": "a@x.example"},
         "a@x.example"),
        ("user", {"odata.type": "SP.User", "Id": 7}, "7"),
        ("usermulti", [{"Title": "Ada"}, {"Title": "Bob"}], "Ada; Bob"),
        ("lookup", {"Id": 3, "Place": "Bern"}, "Bern"), ("lookup", {"LookupId": 1}, "1"),
        ("lookup", {}, ""),
        ("taxonomy", {"Label": "Tea", "TermGuid": "1", "WssId": 2}, "Tea"),
        ("url", {"Description": "Site", "Url": "https://x.example/"}, "Site (https://x.example/)"),
        ("url", {"Description": "https://x.example/", "Url": "https://x.example/"},
         "https://x.example/"),
        ("attachments", [{"FileName": "a.pdf", "ServerRelativeUrl": "/a.pdf"}], "a.pdf"),
        ("new", 5, "5"),
    ],
)  # fmt: skip
def test_a_field_becomes_a_cell(type_: str, value: Any, cell: str):
    assert csv_cell_of_field(type_, value) == cell


def test_columns_are_named_once_and_the_title_is_first():
    columns = csv_list_columns(
        [["Status", "Status", "choice"], ["Status0", "Status", "text"], ["x", "ID", "text"],
         ["y", "", "text"], ["Title", "Name", "text"], ["Status0", "Status", "text"]]
    )  # fmt: skip

    assert [column.title for column in columns] == [
        "Name", "Status", "Status (Status0)", "ID (x)", "y", "Status (Status0)'",
    ]  # fmt: skip


@pytest.mark.covers("R3-57")
def test_a_list_is_a_csv_with_a_row_an_item():
    columns = csv_list_columns([["B", "Note, long", "note"], ["Title", 'The "name"', "text"]])
    rows = [
        csv_list_row(columns, 3, {"Title": "=1+1", "B": 'a\r\nb "c"'}),
        csv_list_row(columns, 12, {"B": "x,y", "Other": "z"}),
    ]
    body = csv_list(columns, rows)

    assert body == (b'ID,"The ""name""","Note, long"\r\n3,=1+1,"a\nb ""c"""\r\n12,,"x,y"\r\n')
    assert read_csv_of_list(body) == rows
    assert csv_list(columns, rows) == body


def test_a_csv_that_a_table_program_saved_is_read():
    assert read_csv_of_list(b"\xef\xbb\xbfID,A\n3,x\n\n4,") == [
        ListRow(3, {"A": "x"}), ListRow(4, {"A": ""}),
    ]  # fmt: skip
    assert read_csv_of_list(b"ID,A\r\n") == []


@pytest.mark.parametrize(
    ("body", "row"),
    [(b"", 1), (b"A,ID\r\n", 1), (b"ID,A,A\r\n", 1), (b"ID,A\r\n3\r\n", 2),
     (b"ID,A\r\nx,y\r\n", 2), (b"ID,A\r\n1,a\r\n2,\"b\r\n", 3), (b'ID,A\r\n1,"a"b\r\n', 2),
     (b"ID,A\r\n1,a\"b\r\n", 2), (b"ID,A\r\n-1,a\r\n", 2)],
)  # fmt: skip
def test_a_damaged_csv_is_refused_by_its_row(body: bytes, row: int):
    with pytest.raises(ValueError, match=rf"row {row}:"):
        read_csv_of_list(body)


def test_a_csv_of_another_charset_is_refused():
    with pytest.raises(ValueError, match="utf-8"):
        read_csv_of_list(b"ID,A\r\n1,\xff\r\n")


@pytest.mark.covers("R3-57")
def test_an_item_is_its_title_its_link_and_its_fields():
    note = """<div class="ExternalClass9"><h2>Plan</h2><p>Read <a href="/sites/x/p">this <b>page</b>
        </a><br>twice.</p><ul><li>one</li><li># two</li></ul><a href="https://o.example/">
        https://o.example/</a><table><tr><th>A</th><th>B</th></tr><tr><td>1<br>2</td><td></td>
        <td><p>3</p><p>4</p></td></tr><tr><td></td></tr></table><script>x</script>
        <img src=x alt="a house" onerror=x></div>"""
    content = json.dumps(
        {"list": "Tasks",
         "columns": [["Body", "What to do", "html"], ["Title", "Task", "text"],
                     ["Done", "Done", "boolean"], ["Who", "Assigned to", "usermulti"],
                     ["Due", "Due", "date"], ["Empty", "Empty", "text"]],
         "fields": {"ID": 3, "Title": "Tea # <b>", "Body": note, "Done": False, "Empty": None,
                    "Who": [{"Title": "Ada *"}, {"Title": "Bob *"}], "Due": "2026-11-26T00:00:00Z",
                    "Secret": "not a column"}}
    )  # fmt: skip
    found = extract_library_content(SourceType.LISTS, content, URL + " <x>")

    assert found.decode() == (
        "# Tea # \\<b>\n\n"
        f"<{URL}%20%3Cx%3E>\n\n"
        "**Task:** Tea # \\<b>\n\n"
        "**What to do:**\n\nPlan\n\nRead this page (https://tenant.example/sites/x/p)\n\ntwice.\n\n"
        "one\n\n\\# two\n\nhttps://o.example/\n\nA | B\n\n1 2 | | 3 4\n\na house\n\n"
        "**Done:** No\n\n"
        "**Assigned to:** Ada \\*; Bob *\n\n"
        "**Due:** 2026-11-26T00:00:00Z\n"
    )
    columns, row = csv_row_of_library_list(content)
    assert row.id == 3
    [read] = read_csv_of_list(csv_list(columns, [row]))
    assert markdown_of_list_item(read, URL + " <x>").encode() == found


def test_an_item_without_a_title_is_named_by_its_id():
    assert markdown_of_list_item(ListRow(3, {"Name": "", "A": "x"}), "") == "# ID 3\n\n**A:** x\n"


FIELD = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(["# x", "\n", "\r", "\r\n", "===", "---", "**", "*", "_", "`", "```", "~~",
                         "<h1>", "</h1>", "[a]: b", "](x)", "![", "> ", "- ", "1. ", "| a |",
                         "|--|",
                         "\\", "&#35;", " ", "    ", "\t", '"', ",", "<script>", "a", "\u2028",
                         '<div class="ExternalClass">', "<p>", "</div>", "<a href=/x>", "\x00"]),
        max_size=12,
    ).map("".join),
)  # fmt: skip
TYPES = st.sampled_from(["text", "note", "html", "choice", "url"])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(FIELD, TYPES, FIELD), min_size=1, max_size=4))
def test_no_field_is_markup_and_the_csv_gives_the_same_item(fields: list[tuple[str, str, str]]):
    columns = csv_list_columns(
        (f"f{n}", title, type_) for n, (title, type_, _) in enumerate(fields)
    )
    row = csv_list_row(columns, 7, {f"f{n}": value for n, (_, _, value) in enumerate(fields)})
    body = csv_list(columns, [row])
    markdown = markdown_of_list_item(row, URL)

    assert read_csv_of_list(body) == [row]
    rows = list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))
    assert rows == [["ID", *row.cells], ["7", *row.cells.values()]]
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    kinds = [token.type for token in tokens if token.type != "inline" and token.nesting >= 0]
    assert kinds[0] == "heading_open"
    assert set(kinds[1:]) == {"paragraph_open"}
    inner = [child for token in tokens for child in token.children or []]
    names = sum(child.type == "strong_open" for child in inner)
    assert {child.type for child in inner} <= {
        "text", "link_open", "link_close", "strong_open", "strong_close", "text_special",
    }  # fmt: skip
    assert sum(child.type == "link_open" for child in inner) == 1
    assert names <= len(columns)
    shown = " ".join(child.content for child in inner if child.type == "text")
    for column in columns:
        cell = row.cells[column.title]
        if column.type != "html" and not cell.startswith("<div class"):
            assert "".join(cell.split()) in "".join(shown.split())


def test_a_page_is_cleaned_from_its_original():
    content = json.dumps({"title": "Home", "canvas": "<p onclick=x>a</p>", "layout": None})
    original = extract_original_content(SourceType.SITEPAGES, content, URL)

    assert b"<p onclick=x>a</p>" in original
    found = extract_library_content(SourceType.SITEPAGES, content, URL)
    assert b"<h1>Home</h1>\n<p>a</p>\n" in found


@pytest.mark.parametrize("source_type", list(SourceType))
@pytest.mark.parametrize(
    "content",
    [
        "[]", "{", "{}", '{"columns": 1}', '{"columns": [], "fields": {}}',
        '{"columns": [["a", "b"]], "fields": {"ID": 1}}', '{"columns": [7], "fields": {"ID": 1}}',
        '{"Title": "Home", "CanvasContent1": "<p>a</p>"}', '{"title": "Home", "canvas": "a"}',
        '{"title": 1, "canvas": null, "layout": null}', '{"title": "", "canvas": 1, "layout": {}}',
        '{"title": "", "canvas": null, "layout": []}',
    ],
)  # fmt: skip
def test_content_of_another_shape_is_refused(source_type: SourceType, content: str):
    with pytest.raises(ValueError, match=r"\w"):
        extract_library_content(source_type, content, URL)


@pytest.mark.parametrize("source_type", [SourceType.LISTS, SourceType.FILES])
def test_only_pages_have_originals_of_their_own(source_type: SourceType):
    with pytest.raises(ValueError, match="no originals"):
        extract_original_content(source_type, "{}", URL)
