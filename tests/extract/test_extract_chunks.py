"""How a document is cut into its searchable parts."""

import itertools
import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import (
    CODE,
    DEFAULT_CHUNK_SIZE,
    LIST,
    TABLE,
    Block,
    Chunk,
    ChunkSize,
    Document,
    Section,
)

MAX_CHARACTERS = DEFAULT_CHUNK_SIZE.most


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
        Chunk((), "before", 0),
        Chunk(("A",), "a", 1),
        Chunk(("A", "B"), "b", 2),
        Chunk(("A", "B", "C"), "", 4),
        Chunk(("A", "B", "D"), "d", 3),
        Chunk(("A", "E"), "e", 2),
        Chunk(("F",), "f", 1),
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


# Code, tables and lists

SMALL = ChunkSize(200)
LINE = "A sentence of some words about the thing."


def chunks_of(text, *blocks, size=SMALL):
    return document_chunks(Document(sections=(Section(1, "A", text, tuple(blocks)),)), size)


def section_with(kind, before, inner, after, **facts):
    """Return a text of three parts, and the block of the second."""
    text = "\n".join(filter(None, (before, inner, after)))
    start = len(before) + bool(before)
    return text, Block(kind, start, start + len(inner), **facts)


@pytest.mark.covers("R1-13", "R1-14")
def test_types_say_what_is_in_a_chunk():
    text, code = section_with(CODE, "intro", "f(x)", "")
    listed = Block(LIST, 0, len(text))
    assert [chunk.types for chunk in chunks_of("plain")] == [("text",)]
    assert [chunk.types for chunk in chunks_of("")] == [("text",)]
    assert [chunk.types for chunk in chunks_of(text, code)] == [("text", "code")]
    assert [chunk.types for chunk in chunks_of("f(x)", Block(CODE, 0, 4))] == [("code",)]
    assert [chunk.types for chunk in chunks_of(text, listed, code)] == [("code", "list")]
    text, table = section_with(TABLE, "", "a\tb\nc\td", "after")
    assert [chunk.types for chunk in chunks_of(text, table)] == [("text", "table")]


@pytest.mark.parametrize("kind", [CODE, TABLE])
def test_code_and_tables_stay_whole_up_to_four_times_the_size(kind):
    rows = "\n".join(f"row {n:03}" for n in range(101))[:800]
    text, block = section_with(kind, LINE * 8, rows, LINE * 8)
    assert rows in [chunk.text for chunk in chunks_of(text, block)]
    longer = rows + "x"
    text, block = section_with(kind, LINE * 8, longer, LINE * 8)
    assert not any(longer in chunk.text for chunk in chunks_of(text, block))


def test_line_that_leads_to_code_stays_with_it():
    code = "\n".join(f"call({n})" for n in range(60))
    text, block = section_with(CODE, LINE * 9 + "\nAn example:", code, "after")
    found = chunks_of(text, block)
    assert f"An example:\n{code}" not in [chunk.text for chunk in found]  # it ended a long text
    text, block = section_with(CODE, "An example:", code, "after")
    found = chunks_of(text, block)
    assert [chunk.text for chunk in found] == [f"An example:\n{code}", "after"]
    assert [chunk.types for chunk in found] == [("text", "code"), ("text",)]


def test_short_code_shares_a_chunk_with_the_text_around_it():
    text, block = section_with(CODE, LINE, "f(x)", LINE)
    assert chunks_of(text + "\n" + LINE * 9, block)[0].text == text


def test_long_code_is_cut_at_a_blank_line():
    part = "\n".join(f"    call({n:04})" for n in range(50))
    code = f"{part}\n\n{part}"
    found = chunks_of(code, Block(CODE, 0, len(code)))
    assert [chunk.text for chunk in found] == [part, part]
    assert {chunk.types for chunk in found} == {("code",)}


def test_long_code_without_blank_lines_is_cut_at_lines():
    lines = [f"    call({n:04})" for n in range(150)]
    code = "\n".join(lines)
    found = chunks_of(code, Block(CODE, 0, len(code)))
    assert len(found) == 3
    assert "\n".join(chunk.text for chunk in found) == code


def test_each_part_of_a_long_table_begins_with_the_names_of_its_columns():
    rows = ["name\tmeaning", *(f"option-{n}\twhat it means" for n in range(80))]
    table = "\n".join(rows)
    found = chunks_of(table, Block(TABLE, 0, len(table), head=True))
    assert len(found) > 2
    assert all(chunk.text.startswith("name\tmeaning\n") for chunk in found)
    assert [chunk.repeated for chunk in found] == [0, *[len(rows[0]) + 1] * (len(found) - 1)]
    assert "\n".join(chunk.own_text for chunk in found) == table
    without = chunks_of(table, Block(TABLE, 0, len(table)))
    assert [chunk.repeated for chunk in without] == [0] * len(without)


@pytest.mark.parametrize(
    ("before", "again"),
    [
        ("<caption>Options</caption><tr><th>Name<th>Meaning", "Name Meaning\n"),
        ("<tr><th>Name<br>short<th><p>Meaning", "Name\nshort Meaning\n"),
        ("<thead><tr><th>All<tr><th>Name<th>Meaning</thead>", "All\nName Meaning\n"),
        (f"<thead><tr><th>All<tr><th>{'N' * 50}<th>Meaning</thead>", "All\n"),
        (f"<tr><th>{'N' * 50}<th>Meaning", f"{'N' * 50} Meaning\n"),
        ("<tr><td><th>Meaning", "Meaning\n"),
        ("<thead><tr><td>Name<td>Meaning</thead>", "Name Meaning\n"),
        ("<thead><tr><th><th></thead>", ""),
        ("<caption>Options</caption>", ""),
        (f"<caption>{'C' * 900}</caption><tr><th>Name<th>Meaning", "Name Meaning\n"),
    ],
)
def test_parts_of_a_table_of_a_page_repeat_the_head_rows(before, again):
    rows = "".join(f"<tr><td>option-{n}<td>what it means" for n in range(120))
    body = f"<h1>A</h1><table>{before}{rows}</table>".encode()
    page = parse_html(body, content_type="text/html", url="http://a.example/")
    text = page.sections[0].text
    first, *others = document_chunks(page, SMALL)
    assert first.text == text[: len(first.text)]
    assert first.repeated == 0
    parts = [chunk for chunk in others if chunk.own_text.startswith("option-")]
    assert len(parts) > 2
    assert all(chunk.text.startswith(f"{again}option-") for chunk in parts)
    assert {chunk.repeated for chunk in parts} == {len(again)}
    assert all(chunk.repeated == 0 for chunk in others if chunk not in parts)
    own = "".join(chunk.own_text for chunk in (first, *others))
    assert own.replace("\n", "") == text.replace("\n", "")


def test_head_longer_than_a_chunk_is_not_repeated():
    rows = ["c" * 201, *("x" * 50 for _ in range(40))]
    table = "\n".join(rows)
    found = chunks_of(table, Block(TABLE, 0, len(table), head=True))
    assert {chunk.repeated for chunk in found} == {0}


def test_text_repeats_the_end_of_the_chunk_before_it():
    words = [f"word{n}" for n in range(200)]
    text = " ".join(words)
    found = chunks_of(text, size=ChunkSize(200, 40))
    assert len(found) > 5
    for before, after in itertools.pairwise(found):
        again = after.text[: after.repeated].strip()
        assert before.text.endswith(again)
        assert 25 < len(again) <= 40
        assert again.split()[0] in words  # a whole word
    assert all(len(chunk.text) <= 200 for chunk in found)
    assert " ".join(chunk.own_text for chunk in found).split() == words


def test_other_size_gives_other_chunks():
    text = " ".join(["word"] * 500)
    assert len(chunks_of(text, size=ChunkSize(500))) < len(chunks_of(text, size=ChunkSize(200)))


@st.composite
def blocked_sections(draw):
    """Sections of lines, of which some are code, tables or lists."""
    text, blocks = "", []
    for kind in draw(st.lists(st.sampled_from(["", CODE, TABLE, LIST]), max_size=8)):
        line = st.sampled_from(["x" * 90, "some words of a line", "", "a\tb", "y" * 900])
        inner = "\n".join(draw(st.lists(line, min_size=1, max_size=40)))
        if not inner.strip():
            continue
        text += "\n" * bool(text)
        if kind:
            head = draw(st.booleans())
            blocks.append(Block(kind, len(text), len(text) + len(inner), head))
        text += inner
    return Section(draw(st.integers(1, 6)), "A", text, tuple(blocks))


@settings(deadline=None)
@given(st.lists(blocked_sections(), max_size=4), st.sampled_from([0, 30]))
def test_chunks_without_what_they_repeat_are_the_text(sections, overlap):
    size = ChunkSize(200, overlap)
    found = document_chunks(Document(sections=tuple(sections)), size)
    text = "".join(section.text for section in sections)
    assert "".join("".join(c.own_text for c in found).split()) == "".join(text.split())
    assert all(len(chunk.text) <= 4 * size.most for chunk in found)
    assert all(chunk.types for chunk in found)
    long = [chunk for chunk in found if len(chunk.text) > size.most]
    assert all({CODE, TABLE} & set(chunk.types) for chunk in long)


def test_digest_is_that_of_title_headings_and_text():
    chunk = Chunk(("A", "B"), "text")
    same = chunk._replace(level=3, types=("code",), repeated=1)
    assert chunk.digest("T") == same.digest("T")
    others = [
        chunk.digest("U"),
        chunk._replace(text="texts").digest("T"),
        chunk._replace(headings=("A",)).digest("T"),
        chunk._replace(headings=("A > B",)).digest("T"),
        chunk._replace(headings=("A",), text="B\0text").digest("T"),
    ]
    assert len({chunk.digest("T"), *others}) == 6
    assert len(chunk.digest("T")) == 16


@pytest.mark.covers("R1-13")
@pytest.mark.parametrize("separator", ["\n", " "])
def test_a_changed_sentence_moves_only_the_cuts_near_to_it(separator: str):
    """As of a text without headings, such as that of a PDF: about a hundred chunks."""
    chance = random.Random(7)
    words = [f"word{n}" for n in range(400)]
    lines = [" ".join(chance.choices(words, k=chance.randint(5, 20))) + "." for _ in range(1_300)]
    before = {chunk.text for chunk in chunks_of(separator.join(lines), size=ChunkSize())}
    assert 80 < len(before) < 150
    new = []
    for place in chance.sample(range(len(lines)), 40):
        edited = [*lines[:place], f"Something else is here, {place}.", *lines[place + 1 :]]
        after = chunks_of(separator.join(edited), size=ChunkSize())
        new.append(sum(chunk.text not in before for chunk in after))

    assert sum(new) / len(new) < 2
    assert sum(number <= 3 for number in new) >= 38
    assert max(new) < 8


def test_pieces_of_text_are_not_joined_again_although_they_fit():
    """Else a cut would depend on all the pieces before it."""
    chance = random.Random(7)
    lines = [" ".join(f"word{chance.randrange(400)}" for _ in range(12)) for _ in range(600)]
    sizes = [len(chunk.text) for chunk in chunks_of("\n".join(lines), size=ChunkSize())]
    assert any(one + 1 + other <= 1_500 for one, other in itertools.pairwise(sizes))


def test_a_chunk_begins_after_a_blank_line_rather_than_within_a_paragraph():
    paragraphs = ["\n".join(f"line {p} {n} of a paragraph" for n in range(6)) for p in range(30)]
    found = chunks_of("\n\n".join(paragraphs), size=ChunkSize(600))
    assert len(found) > 8
    assert all(re.match(r"line \d+ 0 ", chunk.text) for chunk in found)


def test_a_chunk_of_text_is_filled_by_a_third_at_least():
    text = "\n".join(f"line {n} of a long text" for n in range(2_000))
    sizes = [len(chunk.text) for chunk in chunks_of(text, size=ChunkSize(600))]
    assert min(sizes[:-1]) >= 200
    assert max(sizes) <= 600


# Pictures


def pictures_of(body: str, **size: int) -> list[tuple[str, str]]:
    """The text of each chunk of a page, and the descriptions of its pictures."""
    markup = f"<title>T</title><main>{body}</main>".encode()
    document = parse_html(markup, content_type="text/html", url="http://a.example/")
    return [(c.text, c.pictures) for c in document_chunks(document, ChunkSize(**size))]


@pytest.mark.covers("R0-61")
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<p>Text</p><img src=a.png alt='A xylophone'>", [("Text", "A xylophone")]),
        ("<p>Text</p><img src=a.png alt=A title='Of oak'>", [("Text", "A\nOf oak")]),
        (
            "<figure><img src=a.png alt=A title=B><figcaption>Of oak</figcaption></figure>",
            [("Of oak", "A\nB")],
        ),
        ("<h1>Harps</h1><p>Text</p><img src=a.png alt=A>", [("Text", "A")]),
        ("<p>Text</p><img src=a.png alt=A><img src=b.png alt=A>", [("Text", "A")]),
        ("<p>Text</p><img src=a.png alt='' title=T><img src=d.png>", [("Text", "")]),
        ("<p>One</p><img src=a.png alt=A><h2>Two</h2><img src=b.png alt=B><p>Two.</p>",
         [("One", "A"), ("Two.", "B")]),
        ("<p>One</p><h2>Two <img src=a.png alt=A></h2><p>Two.</p>", [("One", ""), ("Two.", "A")]),
        ("<p>Text</p><nav><img src=logo.png alt=Logo></nav>", [("Text", "")]),
        ("<img src=a.png alt=A><img src=b.png alt=B title=C>", [("", "A\nB\nC")]),
        ("<img src=a.png>", []),
    ],
    ids=[
        "alt", "title", "caption-is-text", "heading-is-known", "once", "decoration", "sections",
        "heading", "around-the-text", "no-text", "no-words",
    ],
)  # fmt: skip
def test_what_is_said_of_a_picture_is_with_its_chunk(body: str, found: list[tuple[str, str]]):
    assert pictures_of(body) == found


def test_a_picture_is_with_the_part_of_a_long_text_in_which_it_stands():
    line = "<p>A line of a long text that goes on and on.</p>"
    body = f"<img src=a.png alt=First>{line * 20}<img src=b.png alt=Last>"

    (_, first), *between, (_, last) = pictures_of(body, most=200)

    assert (first, last) == ("First", "Last")
    assert between
    assert not any(said for _, said in between)


def test_the_keywords_of_a_page_are_with_its_first_chunk_before_its_pictures():
    markup = (
        "<meta name=keywords content='{}'><h1>A</h1><p>a<img src=a alt=Xylophone></p>"
        "<h1>B</h1><p>b<img src=b alt=Drum></p>"
    )

    def chunks(keywords: str) -> list[str]:
        body = markup.format(keywords).encode()
        document = parse_html(body, content_type="text/html", url="http://a.example/")
        return [chunk.pictures for chunk in document_chunks(document)]

    assert chunks("bridges, rivers") == ["bridges, rivers\nXylophone", "Drum"]
    assert chunks("") == ["Xylophone", "Drum"]
    assert chunks("x" * 1_001) == ["x" * 1_000 + "\nXylophone", "Drum"]


def test_pictures_change_no_digest():
    plain, pictured = Chunk((), "text"), Chunk((), "text", pictures="A xylophone")

    assert plain.digest("T") == pictured.digest("T")


def test_the_words_about_pictures_of_one_chunk_are_bounded():
    body = "<p>x</p>" + "".join(f"<img src={n}.png alt='{n:04}{'a' * 996}'>" for n in range(200))

    ((_, said),) = pictures_of(body)

    assert len(said) == 100_000
