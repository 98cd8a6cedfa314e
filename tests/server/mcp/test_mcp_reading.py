"""What the tools answer, in this process: parts of a text, the chunk of a hit, the databases."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.index.hits import Hit
from smartcrawl.model.documents import ChunkSize, Document, Section
from smartcrawl.registry.pack import pack_stored_document
from smartcrawl.server.mcp.reading import (
    _chunk_of,
)
from smartcrawl.server.mcp.texts import McpRefusalError, escaped_mcp_text, mcp_text_part
from tests.choices import options

_TEXTS = st.text(st.sampled_from("ab\n\té漢"), max_size=200)


@given(_TEXTS, st.integers(1, 50))
def test_parts_joined_are_the_text(text: str, most: int):
    parts, cursor = [], None
    while cursor is not None or not parts:
        part = mcp_text_part(text, cursor, most)
        assert 0 < len(part.text) <= most or not text
        parts.append(part.text)
        cursor = part.cursor

    assert "".join(parts) == text


def test_a_cursor_of_another_text_is_refused():
    cursor = mcp_text_part("a" * 30, None, 10).cursor
    assert cursor is not None

    for text, said in (("b" * 30, "the page has changed"), ("a" * 30, "")):
        if said:
            with pytest.raises(McpRefusalError, match=said):
                mcp_text_part(text, cursor, 10)
        else:
            assert mcp_text_part(text, cursor, 10).text == "a" * 10
    with pytest.raises(McpRefusalError, match="behind the end"):
        mcp_text_part("a" * 30, cursor.replace("10-", "30-"), 10)


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_nothing_that_controls_a_terminal_is_left(text: str):
    found = escaped_mcp_text(text)

    assert not set(found) & {*map(chr, range(9)), *map(chr, range(11, 32)), "\x7f", "\u202e"}


# The chunk of a hit


def hit(headings: str, snippet: str) -> Hit:
    return Hit("", "", "", headings, snippet, 1.0, "", "", False, None, None)


SECTIONS = (
    Section(1, "Guide", "First of all, some words."),
    Section(
        2, "Fuses", "A fuse of 2 A.\n\nTwo spare ones\nare in the lid. " + "Filling words. " * 9
    ),
    Section(1, "Other", "A fuse of 2 A."),
)


@pytest.mark.parametrize(
    ("headings", "snippet", "path", "begins"),
    [
        (
            "Guide > Fuses",
            "\x02Filling\x03 words.",
            ("Guide", "Fuses"),
            "Filling words.",
        ),
        (
            "Guide > \x02Fuses\x03",
            "A \x02fuse\x03 of … the lid.",
            ("Guide", "Fuses"),
            "A fuse of 2 A.",
        ),
        ("Other", "A \x02fuse\x03 of 2 A.", ("Other",), "A fuse of 2 A."),
        ("Other", "", ("Other",), "A fuse of 2 A."),
        ("Unknown > Path", "A \x02fuse\x03", ("Unknown", "Path"), "A fuse"),
        ("", "alone", (), "alone"),
    ],
)
def test_the_chunk_of_a_hit_is_that_of_its_headings_and_snippet(
    tmp_path: Path, headings: str, snippet: str, path: tuple[str, ...], begins: str
):
    choices = options(tmp_path, chunks=ChunkSize(60, 0))
    document = pack_stored_document(Document(sections=SECTIONS))

    chunk = _chunk_of(hit(headings, snippet), document, choices)

    assert chunk.headings == path
    assert chunk.text.startswith(begins)
    assert "\x02" not in chunk.text


def test_a_page_that_went_meanwhile_is_shown_by_its_snippet(tmp_path: Path):
    chunk = _chunk_of(hit("A > B", "\x02some\x03 words"), None, options(tmp_path))

    assert (chunk.headings, chunk.text) == (("A", "B"), "some words")
