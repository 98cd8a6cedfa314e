"""Stored pages for an export: which ones, in which order, and how many at once."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, ChunkSize, Document, Section, Span
from smartcrawl.reports import export
from smartcrawl.reports.export import (
    ExportedPage,
    ExportedPages,
    PageCounts,
    exported_chunks,
    exported_listing_head,
    exported_listing_page,
    exported_markdown,
    exported_page_row,
    exported_text_of_page,
)
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, LONG, Desk

BASE = "https://docs.example.com/"


def exported(desk: Desk, *, lost: bool = False) -> list[ExportedPage]:
    return list(ExportedPages(desk.connection, [desk.source], lost=lost))


def paths(pages: Iterable[ExportedPage]) -> list[str]:
    return [page.url.removeprefix(BASE) for page in pages]


def test_living_pages_are_exported_once_in_the_order_of_their_discovery(desk: Desk):
    desk.add(BASE + "pending")
    desk.index(BASE + "b", f"b {LONG}", title="B", document_fields={"description": "of b"})
    desk.index(BASE + "a", f"a {LONG}")
    desk.index(BASE + "clone", f"b {LONG}", title="B", document_fields={"description": "of b"})
    desk.index(BASE + "away", "words of old")
    desk.index(BASE + "never", outcome=Outcome.NOT_FOUND, status=404)
    desk.seal()
    desk.open(now=LATER)
    desk.write(desk.visit(BASE + "a", outcome=Outcome.TRANSIENT, status=503), now=LATER)
    desk.write(desk.visit(BASE + "away", outcome=Outcome.NOT_FOUND, status=404), now=LATER)

    pages = ExportedPages(desk.connection, [desk.source], lost=False)

    assert paths(pages) == ["b", "a"]
    assert [url.removeprefix(BASE) for url in pages.addresses()] == ["b", "a"]
    assert paths(exported(desk, lost=True)) == ["b", "a", "away"]
    assert pages.counts() == PageCounts(3, 1)
    first = exported(desk)[0]
    assert (first.source, first.is_lost) == ("docs", False)
    assert (first.document.title, first.document.description) == ("B", "of b")
    assert (first.document.language, first.document.text) == ("en", f"b {LONG}")
    assert [page.is_lost for page in exported(desk, lost=True)] == [False, False, True]


def test_other_sources_are_not_exported(desk: Desk):
    desk.index(BASE + "a", "words")

    assert list(ExportedPages(desk.connection, ["other"], lost=True)) == []
    assert ExportedPages(desk.connection, ["other"], lost=True).counts() == PageCounts(0, 0)


class Counting:
    """A connection that notes how many rows each statement returned."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.rows: list[int] = []

    def execute(self, statement: str, values: Any = ()) -> Any:
        rows = self._connection.execute(statement, values).fetchall()
        self.rows.append(len(rows))

        class Rows:
            def fetchall(self) -> Any:
                return rows

        return Rows()


def test_a_few_rows_are_read_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Whatever the number of pages, the next rows are read when these are written."""
    monkeypatch.setattr(export, "PAGES_AT_ONCE", 7)
    urls = [f"{BASE}{number}" for number in range(100)]
    desk.write(*(desk.visit(url, f"text of {url}") for url in urls))
    counting: Any = Counting(desk.connection)
    pages = iter(ExportedPages(counting, [desk.source], lost=False))

    found = [next(pages).url for _ in range(7)]
    read = list(counting.rows)
    found += [page.url for page in pages]

    assert found == urls
    assert read == [1, 7]
    assert max(counting.rows) == 7


def test_exported_chunks_are_those_of_the_index(desk: Desk):
    desk.index(BASE + "a", f"first {LONG * 20}", title="Title")

    (page,) = exported(desk)
    rows = list(exported_chunks(page, DEFAULT_CHUNK_SIZE))

    stored = desk.rows(
        "SELECT k.headings, k.level, k.types, k.repeated, k.hash, k.text FROM chunk k"
        " ORDER BY k.position"
    )
    assert len(rows) > 3
    assert [
        (r["path"], r["level"], ",".join(r["types"]), r["repeated"], r["hash"], r["text"])
        for r in rows
    ] == [(*row[:4], bytes(row[4]).hex(), row[5]) for row in stored]
    assert [row["sort_order"] for row in rows] == list(range(len(rows)))
    assert list(rows[0]) == [
        "id", "source", "url", "title", "language", "lost", "sort_order", "path", "level",
        "types", "repeated", "hash", "page", "section", "link", "text",
    ]  # fmt: skip
    assert {(row["page"], row["link"]) for row in rows} == {(None, BASE + "a")}


def test_chunks_and_pages_of_a_pdf_link_to_its_pages():
    def page_begins(at: int, number: int) -> Span:
        return Span("place", at, at, f"page={number}")

    sections = (
        Section(0, "", "cover", (), (page_begins(0, 1),)),
        Section(1, "Lamps", "", (), (), (page_begins(0, 2),)),
        Section(2, "Wicks", "wick", (), (), (page_begins(0, 2),)),
        Section(2, "Oil", f"{'lamp oil ' * 9}\n{'a fuse. ' * 9}", (), (page_begins(82, 4),),
                (page_begins(0, 3),)),
    )  # fmt: skip
    url = BASE + "lamps (1).pdf"
    page = ExportedPage("url_a", url, "docs", False, None, Document("Lamps", sections=sections))

    rows = list(exported_chunks(page, ChunkSize(80, 0)))

    assert [row["page"] for row in rows] == [1, 2, 2, 3, 4]
    assert rows[-1]["link"] == f"{url}#page=4"
    numbered = exported_markdown(page, numbered=True)
    assert re.findall(r"^\[Page (\d)\]\((.*)\)$", numbered, re.MULTILINE) == [
        (str(number), f"{BASE}lamps%20%281%29.pdf#page={number}") for number in (1, 2, 3, 4)
    ]
    assert re.sub(r"\[Page .*\n\n?", "", numbered).split() == exported_markdown(page).split()


PAGE = ExportedPage(
    id="url_a",
    url=BASE + "a_(b)",
    source="docs",
    is_lost=False,
    last_changed=1_750_000_000,
    document=Document(
        title='A [b] *c* "d" *e*',
        description="what it is",
        language="en",
        sections=(Section(1, "Head", "words"),),
    ),
)
LOST = ExportedPage("url_b", BASE, "docs", is_lost=True, last_changed=None, document=Document())


def test_markdown_begins_with_what_is_known_of_the_page():
    assert exported_markdown(PAGE) == (
        '---\ntitle: "A [b] *c* \\"d\\" *e*"\ndescription: "what it is"\nlanguage: "en"\n'
        'url: "https://docs.example.com/a_(b)"\nsource: "docs"\n'
        'lastChanged: "2025-06-15T15:06:40Z"\n---\n\n# Head\n\nwords\n'
    )
    assert (
        exported_markdown(LOST)
        == (
            '---\nurl: "https://docs.example.com/"\nsource: "docs"\nlost: true\n---\n\n'
        ).removesuffix("\n")
        + "\n"
    )


def test_a_row_has_these_keys():
    assert exported_page_row(PAGE) == {
        "id": "url_a",
        "source": "docs",
        "url": BASE + "a_(b)",
        "title": 'A [b] *c* "d" *e*',
        "description": "what it is",
        "language": "en",
        "lost": False,
        "lastChanged": "2025-06-15T15:06:40Z",
        "published": None,
        "author": "",
        "sections": [{"level": 1, "heading": "Head", "text": "words"}],
        "markdown": "# Head\n\nwords\n",
    }


def test_date_and_author_are_written_where_the_page_says_them():
    document = replace(PAGE.document, published=1_714_521_600, author="Ada")
    page = replace(PAGE, document=document)

    assert exported_page_row(page)["published"] == "2024-05-01T00:00:00Z"
    head = exported_markdown(page).partition("\n---\n")[0]
    assert 'published: "2024-05-01T00:00:00Z"\nauthor: "Ada"' in head
    assert "author" not in exported_markdown(PAGE)


def test_lines_of_llms_txt_can_be_read_by_a_simple_pattern():
    """Titles have no brackets and addresses no parentheses, as llmstxt.org's own reader wants."""
    assert exported_listing_page(PAGE) == (
        '- [A (b) \\*c\\* "d" \\*e\\*](https://docs.example.com/a_%28b%29): what it is\n'
    )
    assert exported_listing_page(LOST) == f"- [{BASE}]({BASE}): lost\n"
    assert exported_listing_head("A\nb", "c") == "# A b\n\n> c\n"
    assert exported_text_of_page(PAGE) == f"Source: {BASE}a_(b)\n\n# Head\n\nwords\n"


def test_chunks_are_cut_as_the_settings_say():
    document = Document(sections=(Section(0, "", LONG * 10),))
    page = ExportedPage("url_a", BASE, "docs", is_lost=False, last_changed=0, document=document)
    size = DEFAULT_CHUNK_SIZE._replace(most=200)

    texts = [row["text"] for row in exported_chunks(page, size)]

    assert texts == [chunk.text for chunk in document_chunks(document, size)]
    assert max(map(len, texts)) <= 200
