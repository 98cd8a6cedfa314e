"""The places in chunks to which an address leads: sections, names, pages."""

from dataclasses import replace

import pytest

from smartcrawl.extract.chunks import document_chunks, places_between
from smartcrawl.extract.formats import markdown, notebook
from smartcrawl.extract.hashes import document_content_hash, text_hash
from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import (
    DEFAULT_CHUNK_SIZE,
    Chunk,
    ChunkPlace,
    ChunkSize,
    place_link,
)

URL = "https://a.example/b"


def chunks(markup: str, size: ChunkSize = DEFAULT_CHUNK_SIZE) -> list[Chunk]:
    document = parse_html(markup.encode(), content_type="text/html; charset=utf-8", url=URL)
    return document_chunks(document, size)


def places(markup: str) -> list[list[tuple[int, str, bool]]]:
    return [[tuple(place) for place in chunk.places] for chunk in chunks(markup)]


def test_sections_of_sphinx_are_found_by_the_section_around_their_heading():
    found = chunks(
        '<section id="top"><h1>A<a class="headerlink" href="#top">¶</a></h1><p>one'
        '<section id="first-part"><h2>B</h2><p>two</section></section>'
    )
    assert [chunk.section for chunk in found] == ["top", "first-part"]
    assert [place_link(URL, chunk.section) for chunk in found] == [
        f"{URL}#top",
        f"{URL}#first-part",
    ]


@pytest.mark.parametrize(
    ("markup", "name"),
    [
        (
            '<section class="detail" id="open(int)"><h3>open</h3><p>x</section>',
            "open(int)",
        ),  # Javadoc
        ('<h2 id="examples"><a class="doc-anchor" href="#examples">§</a>E</h2><p>x', "examples"),
        ('<a name="old"></a><h2>Old</h2><p>x', "old"),
        ('<div class="section" id="s1"><h1>S</h1><p>x</div>', "s1"),  # Sphinx before 2
        ('<section id="outer"><h2 id="inner">S</h2><p>x</section>', "inner"),
    ],
)
def test_ids_of_generators(markup: str, name: str):
    assert [chunk.section for chunk in chunks(f"<main>{markup}")] == [name]


def test_names_that_a_page_defines_are_places_within_their_chunk():
    markup = (
        '<h1 id="functions">Functions</h1><dl><dt class="sig" id="oct">oct(x)</dt><dd>octal'
        '<dt class="sig" id="open"><a id="other"></a>open(file)</dt><dd>opens a file</dl>'
    )
    (found,) = places(markup)
    assert found == [(0, "functions", False), (0, "oct", True), (13, "open", True)]


def test_a_section_without_an_id_has_that_of_the_heading_above():
    markup = '<h1 id="a">A</h1>one<h2>B</h2>two<h1>C</h1>three<h2 id="d">D</h2>four'
    assert [chunk.section for chunk in chunks(markup)] == ["a", "a", "", "d"]


@pytest.mark.parametrize("name", ["two words", "a\tb", "a\x85b", "a\u2003b", "", "x" * 301])
def test_ids_that_no_address_can_have_are_left_out(name: str):
    assert chunks(f'<h1 id="{name}">A</h1>one')[0].places == ()


def test_pieces_of_a_long_section_know_where_they_begin():
    rows = "".join(f'<dt id="n{n}">name{n}()</dt><dd>{"word " * 30}</dd>' for n in range(40))
    found = chunks(f'<h1 id="top">T</h1><dl>{rows}</dl>', ChunkSize(800))
    assert len(found) > 5
    assert found[0].section == "top"
    for chunk in found[1:]:
        assert chunk.section.startswith("n")
        for place in chunk.places:
            if place.start or chunk.text.startswith("name"):
                assert chunk.text[place.start :].startswith(f"name{place.id[1:]}()")


def test_a_part_begins_in_the_last_place_before_it():
    some = [ChunkPlace(0, "a"), ChunkPlace(0, "b", True), ChunkPlace(30, "c")]
    assert [one.id for one in places_between(some, 0, 9)] == ["a", "b"]
    assert places_between(some, 20, 40) == (ChunkPlace(0, "b"), ChunkPlace(10, "c"))
    assert places_between(some, 30, 40) == (ChunkPlace(0, "c"),)
    assert places_between([], 3, 4) == ()


def test_ids_are_no_change_of_content():
    with_id, without = (
        parse_html(f"<h1{name}>A</h1><p>one".encode(), content_type="text/html", url=URL)
        for name in (' id="a"', "")
    )
    assert document_content_hash(with_id) == document_content_hash(without)
    assert text_hash(with_id) == text_hash(without)
    (one,), (other,) = document_chunks(with_id), document_chunks(without)
    assert one.places
    assert not other.places
    assert one.digest("A") == other.digest("A")


def read_markdown(text: str) -> list[str]:
    body = text.encode()
    document = markdown.read_format(body, content_type="text/markdown; charset=utf-8", url=URL)
    return [chunk.section for chunk in document_chunks(document)]


def test_headings_of_markdown_have_the_ids_of_github():
    text = """# Install *it*!

## C++ & `std::vector`

## Install it

## Install it 1

## Install it

## [Größe](a.md) – 中文_x
"""
    assert read_markdown(text) == [
        "install-it", "c--stdvector", "install-it-1", "install-it-1-1", "install-it-2",
        "größe--中文_x",
    ]  # fmt: skip


def test_notebooks_have_no_places():
    body = b'{"cells": [{"cell_type": "markdown", "source": ["# Lamps\\n", "oil"]}]}'
    document = notebook.read_format(body, content_type="application/x-ipynb+json", url=URL)
    assert document.sections[0].heading == "Lamps"
    assert all(not chunk.places for chunk in document_chunks(document))


def test_places_of_a_page_are_those_of_its_stored_document():
    document = parse_html(
        b'<h1 id="a">A</h1><p>one <code>x</code> <a href="/b">b</a>'
        b'<dl><dt id="n">n()</dt><dd>two</dl>',
        content_type="text/html",
        url=URL,
    )
    plain = replace(document, images=())
    assert [chunk.places for chunk in document_chunks(plain)] == [
        (ChunkPlace(0, "a"), ChunkPlace(8, "n", True))
    ]
