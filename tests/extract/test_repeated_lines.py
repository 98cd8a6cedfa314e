"""Marks of lines that repeat on a host, and documents without them."""

import tracemalloc
from collections import Counter
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.repeated import _places as places_of
from smartcrawl.extract.repeated import (
    document_lines,
    document_without,
    marks_as_text,
    repeated_marks,
)
from smartcrawl.model.documents import Block, Document, Section
from smartcrawl.rules.repeated import Line, RepeatedLines, find_repeated_lines
from tests.extract.repeating_sites import SITES, made_site


def read(markup: str) -> Document:
    return parse_html(markup.encode(), content_type="text/html", url="http://a.example/")


def lines_of(document: Document) -> Counter[str]:
    return Counter(" ".join(line.split()) for line in document.text.splitlines())


@pytest.mark.parametrize("name", SITES)
def test_a_tenth_of_the_repeated_lines_stays_at_most_and_nothing_rare_goes(name: str):
    pages = list(made_site(name))
    documents = [read(page.markup) for page in pages]
    known = find_repeated_lines([document_lines(document) for document in documents])

    before = after = 0
    gone = Counter[str]()
    for page, document in zip(pages, documents, strict=True):
        left = document_without(document, marks_as_text(repeated_marks(document, known)))
        here, there = lines_of(document), lines_of(left)
        before += sum(line in here for line in page.repeated)
        after += sum(line in there for line in page.repeated)
        gone.update((here - there).keys())
    stands = Counter(line for document in documents for line in lines_of(document))

    assert before > 4 * len(pages)
    assert after <= before / 10
    assert min(stands[line] for line in gone) >= len(pages) / 5
    assert not any(line in gone for page in pages for line in page.own)


@pytest.mark.parametrize("name", SITES)
def test_lines_of_a_document_are_those_that_its_marks_know(name: str):
    documents = [read(page.markup) for page in made_site(name)]
    text = "one\n \t\n\n  two\u2003words  \nthree"
    documents.append(Document(sections=(Section(1, "", text), Section(2, "Head", ""))))
    documents.append(
        replace(documents[-1], sections=(Section(0, "a", text, (Block("code", 0, 4),)),))
    )

    for document in documents:
        assert document_lines(document) == [place.line for place in places_of(document)]


# Documents without their marks


BODY = """
<h1>Boats</h1><p>Above <a href=/a>the <code>net</code></a></p><p>Gone one</p>
<ul><li>Gone two</li><li>Kept <a href=/b>oar</a></li><li>Gone three</li></ul>
<pre>  Gone four
    code</pre><p>Gone five</p><table><tr><th>Gone six<th>b<tr><td>c<td>d</table>
<h2>Gone seven</h2><p>Gone eight</p><h2>Gone nine</h2><p>Kept</p><p>Gone ten</p>
"""


def marks_of(document: Document) -> str:
    """The marks of all lines that begin with Gone, as a list of a host has them."""
    page = document_lines(document)
    places = {(line.digest, at) for at, line in enumerate(page) if line.digest in GONE}
    known = RepeatedLines(places=frozenset(places))
    return marks_as_text(repeated_marks(document, known))


GONE = {
    line.digest
    for word in ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    for line in document_lines(
        Document(sections=(Section(0, "", f"Gone {word}"), Section(1, f"Gone {word}", "")))
    )
}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Document:
    monkeypatch.setattr("smartcrawl.rules.repeated.WORDS", 1)
    document = read(f"<main>{BODY}</main>")
    return document_without(document, marks_of(document))


def test_marked_lines_go_and_code_and_tables_stay(left: Document):
    assert [(s.level, s.heading, s.text.split("\n")) for s in left.sections] == [
        (
            1,
            "Boats",
            ["Above the net", "Kept oar", "  Gone four", "    code", "Gone six b", "c d"],
        ),
        (2, "Gone nine", ["Kept"]),
    ]


def test_blocks_and_spans_are_where_their_text_is(left: Document):
    (first, _) = left.sections
    assert [(b.kind, first.text[b.start : b.end]) for b in first.blocks] == [
        ("list", "Kept oar"), ("code", "  Gone four\n    code"), ("table", "Gone six b\nc d"),
    ]  # fmt: skip
    assert [(s.kind, first.text[s.start : s.end]) for s in first.spans if s.end > s.start] == [
        ("link", "the net"), ("code", "net"), ("link", "oar"),
    ]  # fmt: skip


def test_a_line_of_megabytes_is_read_in_portions():
    """Its mark is that of all its words, and takes no multiple of its memory."""
    words = [f"word{number % 5_000}" for number in range(200_000)]

    def line(text: str) -> Line:
        (found,) = document_lines(Document(sections=(Section(0, "", text),)))
        return found

    plain = line(" ".join(words))
    data = " ".join(words).encode()
    assert plain == (blake2b(data, digest_size=8).digest(), 200_000)
    assert line("\t " + "  \u2003".join(words) + " " * 70_000) == plain
    assert line("w" * 70_000 + " b") != line("w" * 70_000 + "b")
    text = " ".join(words)
    tracemalloc.start()
    line(text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * len(text)


def test_without_marks_a_document_is_itself():
    document = read(f"<main>{BODY}</main>")

    assert document_without(document, "") is document
    assert marks_as_text(repeated_marks(document, RepeatedLines())) == ""


@given(st.data())
def test_any_lines_can_be_marked(data: st.DataObject):
    """The other lines stay, in their order, and all places are within their texts."""
    page = next(iter(made_site(data.draw(st.sampled_from(sorted(SITES))), 1)))
    document = read(page.markup.replace("<body>", f"<body>{BODY}"))
    lines = document_lines(document)
    some = [n for n, line in enumerate(lines) if line.digest]
    chosen = data.draw(st.sets(st.sampled_from(some)))
    known = RepeatedLines(
        pairs=frozenset((lines[n].digest, lines[n + 1].digest) for n in chosen if n + 1 in chosen),
        places=frozenset((lines[n].digest, n) for n in chosen),
    )

    marked = marks_as_text(repeated_marks(document, known))
    left = document_without(document, marked)

    gone = sum((lines_of(document) - lines_of(left)).values())
    assert lines_of(left) <= lines_of(document)
    assert (gone > 0) == (marked != "")
    for section in left.sections:
        assert section.text == section.text.strip("\n")
        for one in (*section.blocks, *section.spans):
            assert 0 <= one.start <= one.end <= len(section.text)
    before = [block for section in document.sections for block in section.blocks]
    after = [block for section in left.sections for block in section.blocks]
    kept = ("code", "table")
    assert sum(b.kind in kept for b in after) == sum(b.kind in kept for b in before)
    assert document_chunks(left) or not left.sections
