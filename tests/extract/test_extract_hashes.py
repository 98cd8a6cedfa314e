"""What moves a hash and what does not."""

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.hashes import (
    body_hash,
    document_content_hash,
    text_hash,
    text_hash_without_ids,
)
from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import Block, Document, Image, Link, Section, Span

DOCUMENT = Document(
    title="T",
    description="D",
    language="en",
    sections=(Section(1, "H", "x"), Section(2, "I", "y")),
    images=(Image("a.png", "A"),),
    links=(Link("http://h/", "x", "hyperlink", False),),
    canonical="http://h/c",
    charset="utf-8",
    content_type="text/html",
)


@pytest.mark.covers("RD-19", "R0-46")
def test_hashes_are_sha256_of_body_and_text():
    assert body_hash(b"body") == sha256(b"body").digest()
    assert text_hash(replace(DOCUMENT, title="ü")) == sha256(b"H\nx\nI\ny").digest()
    assert len(document_content_hash(DOCUMENT)) == 32


def test_the_hash_without_ids_is_that_of_the_text_with_signs():
    first, second = (replace(DOCUMENT, sections=(Section(1, "H", x),)) for x in ("x 8f", "\udcff9"))
    assert text_hash_without_ids(first) == sha256(b"H\nx #").digest()
    assert text_hash_without_ids(second) == sha256(b"H\n\xed\xb3\xbf#").digest()
    assert text_hash_without_ids(DOCUMENT) == text_hash(DOCUMENT)


def test_the_hash_without_ids_has_no_headings_above_a_text_that_may_be_a_notice():
    one, other = (replace(DOCUMENT, sections=(Section(1, h, "x" * 200),)) for h in ("H", "I"))
    assert text_hash_without_ids(one) == text_hash_without_ids(other)
    assert text_hash(one) != text_hash(other)


@pytest.mark.covers("R0-32", "G-21")
@pytest.mark.parametrize(
    "change",
    [
        {"title": "U"},
        {"description": "E"},
        {"language": "de"},
        {"sections": (Section(1, "H", "x"), Section(2, "I", "z"))},
        {"sections": (Section(1, "H", "x"), Section(3, "I", "y"))},
        {"sections": (Section(1, "H", "x"), Section(2, "J", "y"))},
        {"sections": (Section(2, "I", "y"), Section(1, "H", "x"))},
        {"sections": (Section(1, "H", "x\nI\ny"),)},
        {"sections": DOCUMENT.sections[:1]},
        {"images": ()},
        {"images": (Image("b.png", "A"),)},
        {"images": (Image("a.png", "B"),)},
        {"images": (Image("a.png", "A", width=1),)},
        {"images": (Image("a.png", "A", height=1),)},
        {"images": (Image("a.png", "A", context="C"),)},
    ],
    ids=str,
)
def test_every_indexed_field_moves_the_content_hash(change):
    assert document_content_hash(replace(DOCUMENT, **change)) != document_content_hash(DOCUMENT)


@pytest.mark.parametrize(
    "change",
    [
        {"links": ()},
        {"canonical": None},
        {"charset": "cp1252"},
        {"content_type": "application/xhtml+xml"},
        {"noindex": True},
        {"nofollow": True},
        {"keywords": "alpha, beta"},
        {"declared": "de"},
    ],
    ids=str,
)
def test_what_is_not_indexed_moves_no_hash(change):
    other = replace(DOCUMENT, **change)

    assert document_content_hash(other) == document_content_hash(DOCUMENT)
    assert text_hash(other) == text_hash(DOCUMENT)


def test_content_hash_is_the_same_in_every_release():
    """A new value would make every known page "modified"."""
    assert document_content_hash(Document()).hex() == (
        "cca2ea2af0667c0584997bec26046b85dc8277fb608cac42e178d04c77609a20"
    )
    assert document_content_hash(DOCUMENT).hex() == (
        "89dca711fdfc850e258401169287a06aab4f06654c1f848b5d79103706e9449c"
    )


def test_markup_without_meaning_moves_no_hash_of_the_content():
    one = parse_html(b"<p>a  b</p><a href=1>c</a>", content_type="text/html", url="http://h/")
    other = parse_html(
        b"<body class=x><p id=1>a\nb</p>\n<a href=2>c</a>", content_type="", url="http://h/2"
    )

    assert document_content_hash(one) == document_content_hash(other)
    assert text_hash(one) == text_hash(other)


TEXT = st.text(st.sampled_from("a1\0\n\x01"), max_size=3)
SIDE = st.none() | st.integers(1, 2)
SPANS = st.sampled_from([(), (Span("link", 0, 1, "a"),), (Span("place", 0, 0, "id"),)])
BLOCKS = st.sampled_from([(), (Block("code", 0, 1),)])
DOCUMENTS = st.builds(
    Document,
    title=TEXT,
    description=TEXT,
    language=TEXT,
    sections=st.lists(
        st.builds(Section, st.integers(0, 6), TEXT, TEXT, BLOCKS, SPANS), max_size=2
    ).map(tuple),
    images=st.lists(st.builds(Image, TEXT, TEXT, SIDE, SIDE, TEXT), max_size=2).map(tuple),
)


def without_blocks(document):
    """Return a document without what its hash leaves out."""
    sections = tuple(
        section._replace(blocks=(), spans=(), head=()) for section in document.sections
    )
    return replace(document, sections=sections)


@given(DOCUMENTS, DOCUMENTS)
def test_no_two_documents_share_a_content_hash(one, other):
    """No text can pass for another field, whatever marks it holds."""
    is_equal = without_blocks(one) == without_blocks(other)
    assert (document_content_hash(one) == document_content_hash(other)) == is_equal


def test_lone_surrogates_can_be_hashed():
    assert len(document_content_hash(Document(title="\ud800"))) == 32
