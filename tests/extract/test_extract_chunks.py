"""How a document is cut into its searchable parts."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.extract.chunks import MAX_CHARACTERS, document_chunks
from smartcrawl.model.documents import Chunk, Document, Section


@pytest.mark.covers("G-05")
def test_one_chunk_for_each_section_with_the_headings_above_it():
    document = Document(
        sections=(
            Section(0, "", "before"),
            Section(1, "A", "a"),
            Section(2, "B", "b"),
            Section(4, "C", ""),
            Section(3, "D", "d"),
            Section(2, "E", "e"),
            Section(1, "F", "f"),
        )
    )

    assert document_chunks(document) == [
        Chunk((), "before"),
        Chunk(("A",), "a"),
        Chunk(("A", "B"), "b"),
        Chunk(("A", "B", "C"), ""),
        Chunk(("A", "B", "D"), "d"),
        Chunk(("A", "E"), "e"),
        Chunk(("F",), "f"),
    ]


def test_empty_document_has_no_chunks():
    assert document_chunks(Document()) == []


def test_section_of_1500_characters_is_one_chunk():
    assert MAX_CHARACTERS == 1_500
    assert len(document_chunks(Document(sections=(Section(1, "A", "x" * 1_500),)))) == 1
    assert len(document_chunks(Document(sections=(Section(1, "A", "x" * 1_501),)))) == 2


def test_long_section_is_cut_at_lines_and_each_part_keeps_the_headings():
    lines = "\n".join("A line of text that is not to be torn apart." for _ in range(100))

    parts = document_chunks(Document(sections=(Section(1, "A", "x"), Section(2, "B", lines))))[1:]

    assert len(parts) == 4
    assert {part.headings for part in parts} == {("A", "B")}
    assert "\n".join(part.text for part in parts) == lines


@pytest.mark.parametrize("unit", ["three words here ", "a line of words\n"])
def test_no_word_and_no_line_is_torn_in_a_very_long_section(unit):
    found = document_chunks(Document(sections=(Section(0, "", unit * 5_000),)))

    words = {word for chunk in found for word in chunk.text.split()}
    assert words == set(unit.split())
    if unit.endswith("\n"):
        assert {line for chunk in found for line in chunk.text.split("\n")} == {unit.strip()}


@pytest.mark.parametrize("unit", ["x", "word ", "words of a line\n"])
def test_time_grows_with_the_size_of_a_section_not_with_its_square(unit):
    document = Document(sections=(Section(0, "", unit * (4_000_000 // len(unit))),))
    before = time.process_time()
    parts = document_chunks(document)

    assert time.process_time() - before < 5
    assert len(parts) < 3_000  # nearly full ones


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.text(max_size=20),
            st.lists(
                st.text(max_size=60) | st.sampled_from(["x" * 1_600, "wörd " * 400, "行" * 2_000]),
                max_size=12,
            ).map("\n".join),
            st.sampled_from([1, 1, 30]),
        ),
        max_size=5,
    )
)
def test_chunks_are_small_enough_and_lose_nothing_but_white_space(parts):
    sections = tuple(Section(level, head, text * n) for level, head, text, n in parts)

    found = document_chunks(Document(sections=sections))

    assert all(len(chunk.text) <= MAX_CHARACTERS for chunk in found)
    assert "".join("".join(c.text for c in found).split()) == "".join(
        "".join(s.text for s in sections).split()
    )
    headings = [section.heading for section in sections if section.heading]
    assert set(headings) == {h for chunk in found for h in chunk.headings}
