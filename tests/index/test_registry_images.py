"""Images as children of pages: whose they are, and that they come and go with them."""

import json
import re
from pathlib import Path

import pytest
from backports import zstd

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.images import ImageDocument, images_of_hits, images_to_index
from smartcrawl.model.documents import Document, Image, Section
from smartcrawl.model.urls import url_digest, url_digest_text
from smartcrawl.registry.pack import (
    pack_stored_document,
    unpack_stored_document,
    unpack_stored_images,
)
from smartcrawl.registry.removal import purge
from smartcrawl.reports.tables import record_table_report
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import Outcome
from tests.index.asking import search
from tests.registry.build import LATER, LONG, Desk

ROOT = Path(__file__).resolve().parents[2]
A, B = "http://a.example/dir/a", "http://a.example/b"
LAMP = Image("lamp.png", "A lamp", 640, 480, "Lamps")
FUSE = Image("/fuse.png", "")


def show(desk: Desk, url: str, *images: Image, text: str = LONG) -> int:
    """Index a page with these images; return its number."""
    return desk.index(url, text, document_fields={"images": images})


def again(desk: Desk) -> None:
    """Seal the run and open another."""
    desk.seal()
    desk.open(now=LATER)


def addresses(desk: Desk, *urls: str) -> list[list[str]]:
    found = images_to_index(desk.connection, map(desk.number, urls))
    return [[image.src for image in images] for images in found.values()]


def page_id(desk: Desk, url: str) -> str:
    return next(
        record["id"] for record in record_table_report(desk.connection) if record["url"] == url
    )


@pytest.mark.covers("R0-02", "R0-26", "R0-64", "R0-65", "R0-96", "G-02")
def test_an_image_is_a_document_that_names_its_page(desk: Desk):
    number = show(desk, A, LAMP, FUSE)

    lamp, fuse = images_to_index(desk.connection, [number])[number]

    src = "http://a.example/dir/lamp.png"
    assert lamp == ImageDocument(
        id="image_" + url_digest_text(url_digest(f"{A}\n{src}")),
        parent_page_id=page_id(desk, A),
        parent_page_url=A,
        source=A,
        src=src,
        alt="A lamp",
        width=640,
        height=480,
        context="Lamps",
    )
    assert re.fullmatch("image_[a-z2-7]{26}", lamp.id)
    assert (fuse.src, fuse.alt, fuse.width, fuse.height, fuse.context) == (
        "http://a.example/fuse.png", "", None, None, ""
    )  # fmt: skip


@pytest.mark.covers("R0-65")
def test_its_keys_are_documented_in_their_order_and_no_other(desk: Desk):
    number = show(desk, A, LAMP)
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    section = text.partition("### Images of a page\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    image = images_of_hits(desk.connection, [number], "lamp")[number][0]

    told = image.as_json()

    assert re.findall("`(.+?)`", " ".join(cells)) == list(told)
    assert told["parentPageId"] == image.parent_page_id
    assert told["parentPageUrl"] == told["source"] == A


def test_the_id_depends_on_the_identity_of_the_page_not_on_the_spelling_asked(desk: Desk):
    asked = "http://a.example/p/?utm_source=x"
    number = show(desk, asked, Image("i.png", ""))

    (image,) = images_to_index(desk.connection, [number])[number]

    assert image.src == "http://a.example/p/i.png"
    assert image.parent_page_url == asked
    assert image.id == "image_" + url_digest_text(url_digest(f"http://a.example/p\n{image.src}"))


def test_one_image_in_two_spellings_is_one_document_and_nonsense_is_none(desk: Desk):
    show(desk, A, LAMP, Image("./lamp.png", "x"), Image("http://[", ""), FUSE)

    assert addresses(desk, A) == [["http://a.example/dir/lamp.png", "http://a.example/fuse.png"]]


def test_pages_without_images_or_content_have_none(desk: Desk):
    show(desk, A)
    desk.add(B)

    assert addresses(desk, A, B) == [[], []]
    assert images_to_index(desk.connection, [4711]) == {4711: []}
    assert images_to_index(desk.connection, []) == {}


@pytest.mark.covers("R0-66", "R0-69", "R0-101")
def test_hits_lead_to_their_images(desk: Desk):
    show(desk, A, LAMP)
    show(desk, B, FUSE, text="a sentence of whales")

    hits = search(desk.connection, "whales")
    images = images_to_index(desk.connection, [hit.no for hit in hits])

    assert {hit.url: hit.no for hit in hits} == {B: desk.number(B)}
    assert [image.parent_page_url for image in images[hits[0].no]] == [B]


@pytest.mark.covers("R0-64")
def test_each_clone_is_the_parent_of_its_own_images(desk: Desk):
    show(desk, A, LAMP)
    show(desk, B, LAMP)
    assert desk.originals() == {A: None, B: A}

    found = images_to_index(desk.connection, [desk.number(A), desk.number(B)])

    one, other = found[desk.number(A)][0], found[desk.number(B)][0]
    assert (one.parent_page_url, one.src) == (A, "http://a.example/dir/lamp.png")
    assert (other.parent_page_url, other.src) == (B, "http://a.example/lamp.png")
    assert (one.parent_page_id, other.parent_page_id) == (page_id(desk, A), page_id(desk, B))
    assert one.id != other.id
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]


@pytest.mark.covers("R0-33")
def test_pages_count_their_images(desk: Desk):
    counts = "SELECT c.image_count FROM record r JOIN content c ON c.no = r.content WHERE r.no = ?"
    number = show(desk, A, LAMP, FUSE)
    assert desk.value(counts, (number,)) == 2

    again(desk)
    show(desk, A, LAMP)

    assert desk.value(counts, (number,)) == 1
    assert addresses(desk, A) == [["http://a.example/dir/lamp.png"]]


def test_a_content_written_again_has_its_images_counted(desk: Desk):
    """As after an upgrade: the row is there, with what an older version knew of it."""
    number = show(desk, A, LAMP)
    desk.connection.execute("UPDATE content SET image_count = 0, document = x''")

    again(desk)
    show(desk, A, LAMP)

    assert desk.rows("SELECT image_count FROM content") == [(1,)]
    assert len(images_to_index(desk.connection, [number])[number]) == 1


@pytest.mark.covers("R0-26")
def test_images_go_with_their_page_and_come_back_with_it(desk: Desk):
    show(desk, A, LAMP)
    show(desk, B, LAMP)
    desk.seal()
    desk.open(now=LATER)
    desk.write(desk.visit(A, outcome=Outcome.NOT_FOUND, status=404), now=LATER)
    desk.write(desk.visit(B, outcome=Outcome.SAME), now=LATER)
    desk.seal(now=LATER)
    assert len(addresses(desk, A)[0]) == 1  # lost, and held still
    targets = purge.lost_page_rows(desk.connection, Policy())

    (removal,) = purge.remove_stored_pages(desk.connection, EMBEDDED, targets, LATER)

    assert addresses(desk, A, B) == [[], ["http://a.example/lamp.png"]]

    purge.undo_stored_removals(
        desk.connection,
        EMBEDDED,
        removal.run,
        LATER,
        pin=False,
        chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
    )

    assert addresses(desk, A, B) == [
        ["http://a.example/dir/lamp.png"],
        ["http://a.example/lamp.png"],
    ]


# Packed


def test_images_are_packed_with_all_that_is_known_of_them():
    document = Document(sections=(Section(1, "H", "x"),), images=(LAMP, FUSE))

    packed = pack_stored_document(document)

    assert unpack_stored_document(packed) == document
    assert unpack_stored_images(packed) == (LAMP, FUSE)


def test_images_of_the_former_version_can_be_read():
    former = {"sections": [[1, "H", "x"]], "images": [["a.png", "A"]]}
    packed = zstd.compress(json.dumps(former).encode())

    assert unpack_stored_images(packed) == (Image("a.png", "A"),)
    assert unpack_stored_document(packed).images == (Image("a.png", "A", None, None, ""),)
