"""Files of a source as its crawl lists and reads them: its keys, its limits, its faults."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.engine.download import files
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.engine.download.files import FileHandler, downloader_media_type
from smartcrawl.engine.listing import listing_of_scrapy_settings
from smartcrawl.extract.sniff import (
    ASCIIDOC,
    CSV,
    DOCX,
    LATEX,
    MARKDOWN,
    ORG,
    PDF,
    RST,
    sniffed_media_type,
)
from smartcrawl.model.exceptions import ChangedWhileReadError, StoreAwayError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, PageRecord, PageState, VisitAttempt
from smartcrawl.rules.model import Fault, Outcome, Standing, Status
from smartcrawl.run.visits import PASSING_FAULTS
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.sources.listing.reading import FileBody
from tests.sources.listing.trees import LATER, listing_of

Declare = Callable[..., FilesSource]
OPTIONS = Options.of({name: getattr(shipped, name) for name in dir(shipped) if name.isupper()})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.md").write_text("0123456789")
    return root


@pytest.fixture
def declare(root: Path, tmp_path: Path) -> Declare:
    def declare(keys: str = "", place: str | None = None) -> FilesSource:
        path = tmp_path / "sources.toml"
        path.write_text(f'[sources.docs]\nkind = "files"\nroot = "{place or root}"\n{keys}\n')
        source = load_declared_sources(path)["docs"]
        assert isinstance(source, FilesSource)
        return source

    return declare


def handler_of(source: FilesSource, *entries: Entry, **settings: Any) -> FileHandler:
    """The handler of a run whose listing named these files; their pages have no., from 1."""
    waiting = dict(enumerate(entries, 1))
    run: Any = SimpleNamespace(
        options=OPTIONS, listed=SimpleNamespace(entry=waiting.get), forces=lambda page: False
    )
    return FileHandler(get_crawler(settings_dict=settings), run, source)


def asked(handler: FileHandler, url: str, no: int = 1, request: str | None = None) -> Response:
    """The answer to the request for a page, which may be on its way to another address."""
    attempt = VisitAttempt(Page(no, url, "", 0))
    asked = Request(request or url, meta={"attempt": attempt})
    return asyncio.run(handler.download_request(asked))


# Requests


@pytest.mark.covers("R1-29")
def test_only_pages_of_the_run_below_its_root_are_read(
    root: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch
):
    """ATT-43: not even for a spider of the user's own, or a page of another source."""
    beside = root.with_name("tree2")
    beside.mkdir()
    (beside / "a.md").write_text("secret")
    handler = handler_of(declare())
    answer = asked(handler, f"file://{root}/a.md")
    assert (answer.body, answer.headers["Content-Type"]) == (b"0123456789", MARKDOWN.encode())
    monkeypatch.setattr(files, "read_listed_file", lambda *_, **__: pytest.fail("it was read"))

    found = [asyncio.run(handler.download_request(Request(f"file://{root}/a.md")))]
    for url in (f"file://{beside}/a.md", "file:///etc/passwd", f"file://{root}", "s3://b/a.md"):
        found.append(asked(handler, url))
        found.append(asked(handler, url, request=f"file://{root}/a.md"))

    assert {answer.status for answer in found} == {403}


# The keys of a source


def names(source: FilesSource) -> list[str]:
    listing = listing_of_scrapy_settings(source, OPTIONS, get_crawler().settings, LATER)
    found = [source.scope.relative(entry.url) for batch in listing.batches() for entry in batch]
    assert listing.problems == []
    return sorted(found)


def test_the_keys_of_a_source_decide_what_is_listed(root: Path, declare: Declare):
    (root / ".hidden.md").write_text("h")
    (root / "link.md").symlink_to("a.md")
    (root / "drafts").mkdir()
    (root / "drafts" / "b.txt").write_text("b")

    assert names(declare()) == ["a.md", "drafts/b.txt"]
    assert names(declare("hidden = true")) == [".hidden.md", "a.md", "drafts/b.txt"]
    assert names(declare("follow_symlinks = true")) == ["a.md", "drafts/b.txt", "link.md"]
    assert names(declare('include = ["**/*.txt"]')) == ["drafts/b.txt"]
    assert names(declare('exclude = ["drafts/"]')) == ["a.md"]


def test_bodies_of_a_folder_are_not_stored_again(declare: Declare):
    """They are read again as fast as a snapshot."""
    assert not declare().keeps_snapshots
    assert declare(place="s3://b/docs").keeps_snapshots


def test_links_are_read_only_for_a_source_that_follows_them(root: Path, declare: Declare):
    (root / "link.md").symlink_to("a.md")
    url = f"file://{root}/link.md"

    assert asked(handler_of(declare()), url).status == 404
    assert asked(handler_of(declare("follow_symlinks = true")), url).body == b"0123456789"


LISTED = PageState(Standing.LINKS, Status.CRAWLED)


@pytest.mark.covers("R0-44")
@pytest.mark.parametrize(
    ("state", "doubted", "size", "status"),
    [
        (LISTED, False, 10, 304),
        (LISTED, False, 9, 200),
        (LISTED, True, 10, 200),
        (LISTED._replace(lost_count=1), False, 10, 200),
        (LISTED._replace(status=Status.ERROR), False, 10, 200),
        (LISTED._replace(standing=Standing.HELD), False, 10, 200),
        (LISTED._replace(standing=Standing.BARE), False, 10, 200),
    ],
)
def test_a_file_of_which_links_alone_are_stored_is_unchanged_if_its_properties_are(
    declare: Declare, root: Path, state: PageState, doubted: bool, size: int, status: int
):
    """A file with content is skipped by its listing; what is asked of it is read."""
    [entry] = [entry for batch in listing_of(root).batches() for entry in batch]
    record = PageRecord(etag=entry.validator, content_length=size)
    page = Page(1, entry.url, "", 0, record=record, state=state)
    page.plan.doubted = doubted

    answer = handler_of(declare(), entry)._answer(page)

    assert answer.status == status


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "grown since"])
@pytest.mark.parametrize(
    ("key", "most", "status"),
    [
        ("", 10, 200), ("", 9, 413), ("", 0, 200),
        ("max_file_size = 10", 9, 200), ("max_file_size = 9", 10, 413),
        ("max_file_size = 9", 0, 413),
    ],
)  # fmt: skip
def test_the_limit_is_that_of_the_source_and_else_that_of_files(
    root: Path, declare: Declare, key: str, most: int, status: int, is_listed: bool
):
    """0 is no limit. That of pages on the web does not count."""
    [known] = [entry for batch in listing_of(root).batches() for entry in batch]
    entry = known if is_listed else known._replace(size=1)

    answer = asked(
        handler_of(declare(key), entry, MAX_FILE_SIZE=most, DOWNLOAD_MAXSIZE=1), known.url
    )

    assert answer.status == status
    if status == 413:
        assert (answer.body, answer.headers["Content-Length"]) == (b"", b"10")
    else:
        assert answer.body == b"0123456789"


@pytest.mark.parametrize(
    "name",
    [
        "main.py", "lib.rs", "query.sql", "App.java", "main.c", "build.sh", "manual.asc", "view.ts",
        "fix.diff", "a.d/README",
    ],
)  # fmt: skip
def test_source_code_and_other_texts_are_plain_text_whatever_the_machine_calls_them(name: str):
    """/etc/mime.types calls lib.rs an XML document."""
    media = downloader_media_type(name) or ""

    assert sniffed_media_type(media, b"fn main() {}\n", f"file:///srv/{name}") == "text/plain"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("paper.tex", LATEX), ("guide.rst", RST), ("notes.org", ORG), ("a.adoc", ASCIIDOC)],
)
def test_texts_in_light_markup_have_the_types_of_their_readers(name: str, media_type: str):
    media = downloader_media_type(name) or ""

    assert sniffed_media_type(media, b"fn main() {}\n", f"file:///srv/{name}") == media_type


@pytest.mark.parametrize(("name", "media"), [("a.PDF", PDF), ("a.docx", DOCX), ("a.tsv", CSV)])
def test_documents_with_a_reader_are_known_by_their_names(name: str, media: str):
    assert downloader_media_type(name) == media


def test_a_listed_object_that_is_too_large_is_not_asked_for(
    declare: Declare, monkeypatch: pytest.MonkeyPatch
):
    """An object of a bucket costs a request, in each run."""
    read: list[str] = []

    def reading(url: str, *, most: int, etag: str | None) -> FileBody:
        read.append(url)
        return FileBody(b"text", 4, etag, None)

    monkeypatch.setattr(files, "read_bucket_file", reading)
    large, small = (
        Entry(f"s3://b/docs/{n}.md", size, '"e"', None) for n, size in enumerate((8, 7))
    )
    handler = handler_of(declare("max_file_size = 7", "s3://b/docs"), large, small)

    assert [asked(handler, large.url, 1).status, asked(handler, small.url, 2).status] == [413, 200]
    assert read == [small.url]


# Faults


def fault_of(handler: FileHandler, url: str, kind: type[Exception]) -> tuple[Fault, str]:
    with pytest.raises(kind) as caught:
        asked(handler, url)
    return download_fault(caught.value, url)


@pytest.mark.covers("R1-28")
def test_a_file_that_changes_again_fails_with_its_remedy_and_waits_for_the_next_run(
    root: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch
):
    """ATT-45: it was read twice already, so that the run does not repeat it."""
    real, reads = os.read, []

    def read(opened: int, count: int) -> bytes:
        data = real(opened, count)
        if data.startswith(b"0123"):
            reads.append(opened)
            with (root / "a.md").open("a") as file:
                file.write("+")
        return data

    monkeypatch.setattr(os, "read", read)
    fault, message = fault_of(handler_of(declare()), f"file://{root}/a.md", ChangedWhileReadError)

    assert len(reads) == 2
    assert (fault, fault.outcome) == (Fault.CHANGED_WHILE_READ, Outcome.UNREACHABLE)
    assert fault not in PASSING_FAULTS
    assert message == (
        f"{root}/a.md changed while it was read, twice: the next run reads it; crawl when its"
        " writer is done"
    )


@pytest.mark.covers("R1-29")
def test_a_root_that_goes_away_before_the_reading_is_a_fault_of_the_place(
    root: Path, declare: Declare
):
    handler = handler_of(declare())
    root.rename(root.with_name("aside"))

    fault, message = fault_of(handler, f"file://{root}/a.md", StoreAwayError)

    assert (fault, fault.outcome) == (Fault.STORE_AWAY, Outcome.UNREACHABLE)
    assert message.endswith("mount it, or check that root names it")
