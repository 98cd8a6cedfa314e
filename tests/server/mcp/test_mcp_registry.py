"""What the tools read out of a registry, in either database."""

from pathlib import Path

import pytest

from smartcrawl.index.query_vectors import QuestionVectors
from smartcrawl.model.documents import Section
from smartcrawl.server.mcp.reading import (
    McpQuestion,
    McpRefusalError,
    mcp_page,
    mcp_search,
    mcp_sources,
)
from tests.choices import options
from tests.registry.build import NOW, Desk

BASE = "http://a.example/"
SECTIONS = (
    Section(1, "Guide", "First of all, some words."),
    Section(2, "Fuses", "A fuse of 2 A.\n\nTwo spare ones\nare in the lid."),
)


@pytest.fixture
def desk(file: Path, database: str) -> Desk:
    file.parent.mkdir(parents=True)
    desk = Desk(file)
    desk.open()
    desk.add(f"{BASE}a", f"{BASE}b", f"{BASE}c")
    desk.write(
        desk.visit(f"{BASE}a", title="One", document_fields={"sections": SECTIONS}),
        desk.visit(f"{BASE}b", "Only \x02 words", title="Two"),
        desk.visit(f"{BASE}c", title="Three", document_fields={"sections": ()}),
    )
    desk.seal()
    return desk


def test_pages_are_searched_fetched_and_counted(desk: Desk, tmp_path: Path):
    choices = options(tmp_path)
    (found,) = mcp_search(desk.connection, McpQuestion("spare"), choices, QuestionVectors()).results
    by_id = mcp_page(desk.connection, found.id, choices)

    assert (found.path, found.number) == (["Guide", "Fuses"], desk.number(f"{BASE}a"))
    assert "Two spare ones\nare in the lid." in found.text
    assert by_id == mcp_page(desk.connection, f"smartcrawl://page/{found.number}", choices)
    assert by_id.text.startswith("# Guide\n\nFirst of all, some words.\n\n## Fuses\n")
    (source,) = mcp_sources(desk.connection, NOW).sources
    assert (source.stored, source.kind) == (3, "site")
    assert source.last_complete_run is not None
    assert source.last_complete_run.run == 1


@pytest.mark.covers("M-47")
def test_a_hit_has_the_chunks_of_the_index(desk: Desk, tmp_path: Path):
    (found,) = mcp_search(
        desk.connection, McpQuestion("words guide"), options(tmp_path), QuestionVectors()
    ).results[:1]
    (wordless,) = mcp_search(
        desk.connection, McpQuestion("three"), options(tmp_path), QuestionVectors()
    ).results

    assert found.text == "First of all, some words."
    assert {chunk.page for chunk in found.chunks} == {None}
    assert {(chunk.section, chunk.link) for chunk in found.chunks} == {("", found.url)}
    assert [chunk.model_dump(exclude={"page", "section", "link"}) for chunk in found.chunks] == [
        {"number": 0, "path": ["Guide"], "highlight": "First of all, some <em>words</em>."},
        {
            "number": 1,
            "path": ["Guide", "Fuses"],
            "highlight": "A fuse of 2 A. Two spare ones are in the lid.",
        },
    ]
    assert (wordless.text, wordless.path, wordless.chunks) == ("", [], [])


def test_a_page_that_is_kept_for_an_undo_alone_is_not_there(desk: Desk, tmp_path: Path):
    number = desk.number(f"{BASE}a")
    assert mcp_page(desk.connection, f"{BASE}a", options(tmp_path)).metadata.number == number
    desk.connection.execute("UPDATE state SET standing = 0 WHERE no = ?", (number,))

    for word in (f"{BASE}a", f"smartcrawl://page/{number}"):
        with pytest.raises(McpRefusalError, match="no stored page"):
            mcp_page(desk.connection, word, options(tmp_path))


def test_a_page_without_stored_content_is_not_there(desk: Desk, tmp_path: Path):
    desk.open()
    desk.add(f"{BASE}new")

    with pytest.raises(McpRefusalError, match="no stored page"):
        mcp_page(desk.connection, f"{BASE}new", options(tmp_path))


def test_a_page_is_returned_without_the_lines_that_repeat_on_its_host(desk: Desk, tmp_path: Path):
    choices = options(tmp_path)
    before = mcp_page(desk.connection, f"{BASE}a", choices).text

    of_page = "(SELECT content FROM record WHERE url = ?)"
    desk.connection.execute(
        f"UPDATE content SET marked = '[[0,0,25]]' WHERE no = {of_page}", (f"{BASE}a",)
    )

    after = mcp_page(desk.connection, f"{BASE}a", choices).text
    assert "First of all, some words." in before
    assert after == before.replace("First of all, some words.\n\n", "")
