"""Whole crawls of a library, change by change (R3-88 to R3-103): before, change, crawl, again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.crawls.libraries import LibraryCrawl, libraries
from tests.servers.sharepoint import Library

__all__ = ["libraries"]  # a fixture

Q1, Q2 = b"The first quarter was warm.", b"The second quarter was windy."
README = b"# Read me\n\nWords about everything."
BEFORE = {"Reports/Q1.txt": Q1, "Reports/Q2.txt": Q2, "readme.md": README}


@pytest.fixture
def documents(libraries: LibraryCrawl) -> Library:
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for path, content in BEFORE.items():
        library.add(path, content)
    library.add("picture.png", b"\x89PNG")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    return library


@dataclass(frozen=True)
class Case:
    """One change of a library, and what a crawl makes of it."""

    name: str  #: as R3.14 has it
    change: Callable[[Library], Any]
    disk: dict[str, bytes]  #: beside what stays; b"": gone
    added: int = 0
    changed: int = 0
    removed: int = 0
    downloads: int = 0
    found: dict[str, list[str]] = field(default_factory=dict)  #: hits by words

    @property
    def after(self) -> dict[str, bytes]:
        """All files after the change."""
        return {path: body for path, body in (BEFORE | self.disk).items() if body}


def _renamed_and_updated(library: Library) -> None:
    library.rename("Reports/Q1.txt", "first.txt")
    library.update("Reports/first.txt", "Warmer.")


def _moved_and_updated(library: Library) -> None:
    library.move("Reports/Q1.txt", "")
    library.update("Q1.txt", "Warmer.")


def _renamed_moved_and_updated(library: Library) -> None:
    library.relocate("Reports/Q1.txt", "old/first.txt")
    library.update("old/first.txt", "Warmer.")


#: In the order of R3-88 to R3-103. A file whose size and date stay moves without a download
#: (ADR 83).
CASES = (
    Case("A1 added", lambda it: it.add("new/a.txt", "A new file."), {"new/a.txt": b"A new file."},
         added=1, downloads=1, found={"new": ["/sites/demo/Shared%20Documents/new/a.txt"]}),
    Case("A2 removed", lambda it: it.delete("Reports/Q1.txt"), {"Reports/Q1.txt": b""},
         removed=1, found={"warm": []}),
    Case("A3 updated", lambda it: it.update("Reports/Q1.txt", "Warmer."),
         {"Reports/Q1.txt": b"Warmer."}, changed=1, downloads=1, found={"quarter": [
             "/sites/demo/Shared%20Documents/Reports/Q2.txt"]}),
    Case("A4 renamed", lambda it: it.rename("Reports/Q1.txt", "first.txt"),
         {"Reports/Q1.txt": b"", "Reports/first.txt": Q1}, changed=1,
         found={"warm": ["/sites/demo/Shared%20Documents/Reports/first.txt"]}),
    Case("A5 moved", lambda it: it.move("Reports/Q1.txt", ""),
         {"Reports/Q1.txt": b"", "Q1.txt": Q1}, changed=1,
         found={"warm": ["/sites/demo/Shared%20Documents/Q1.txt"]}),
    Case("A6 renamed and moved", lambda it: it.relocate("Reports/Q1.txt", "old/first.txt"),
         {"Reports/Q1.txt": b"", "old/first.txt": Q1}, changed=1,
         found={"warm": ["/sites/demo/Shared%20Documents/old/first.txt"]}),
    Case("A7 renamed and updated", _renamed_and_updated,
         {"Reports/Q1.txt": b"", "Reports/first.txt": b"Warmer."}, changed=1, downloads=1,
         found={"warmer": ["/sites/demo/Shared%20Documents/Reports/first.txt"]}),
    Case("A8 moved and updated", _moved_and_updated,
         {"Reports/Q1.txt": b"", "Q1.txt": b"Warmer."}, changed=1, downloads=1),
    Case("A9 renamed, moved and updated", _renamed_moved_and_updated,
         {"Reports/Q1.txt": b"", "old/first.txt": b"Warmer."}, changed=1, downloads=1),
    Case("A11 rolled back", lambda it: (it.update("Reports/Q1.txt", Q1, modified=1_500_000_000)),
         {}, changed=1, downloads=1),
    Case("A12 copied", lambda it: it.copy("Reports/Q1.txt", "copy.txt"), {"copy.txt": Q1},
         added=1, downloads=1),
    Case("A13 replaced", lambda it: it.replace("Reports/Q1.txt", "Another file."),
         {"Reports/Q1.txt": b"Another file."}, added=1, removed=1, downloads=1,
         found={"warm": [], "another": ["/sites/demo/Shared%20Documents/Reports/Q1.txt"]}),
    Case("A14 checked out", lambda it: it.check_out("Reports/Q1.txt"), {}),
    Case("A15 folder renamed", lambda it: it.rename("Reports", "Papers"),
         {"Reports/Q1.txt": b"", "Reports/Q2.txt": b"", "Papers/Q1.txt": Q1, "Papers/Q2.txt": Q2},
         changed=2, found={"warm": ["/sites/demo/Shared%20Documents/Papers/Q1.txt"]}),
    Case("A16 folder moved", lambda it: it.relocate("Reports", "old/Reports"),
         {"Reports/Q1.txt": b"", "Reports/Q2.txt": b"", "old/Reports/Q1.txt": Q1,
          "old/Reports/Q2.txt": Q2}, changed=2),
    Case("swapped names", lambda it: it.swap("Reports/Q1.txt", "Reports/Q2.txt"),
         {"Reports/Q1.txt": Q2, "Reports/Q2.txt": Q1}, changed=2,
         found={"warm": ["/sites/demo/Shared%20Documents/Reports/Q2.txt"]}),
)  # fmt: skip


@pytest.mark.long(but=3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_is_carried_out_once(
    case: Case, libraries: LibraryCrawl, documents: Library
) -> None:
    first = libraries.download()
    assert libraries.disk() == BEFORE
    assert (first["added"], first["downloaded"], first["complete"]) == (3, 3, True)
    case.change(documents)
    second = libraries.download()
    assert libraries.disk() == case.after, second["log"]
    assert second["requests"] == len(libraries.server.asked())
    counts = (second["added"], second["changed"], second["removed"], libraries.downloads())
    assert counts == (case.added, case.changed, case.removed, case.downloads), second["log"]
    libraries.check_maps()
    for words, hits in case.found.items():
        assert libraries.crawl.hits(words) == hits
    facts = libraries.facts()
    third = libraries.download()
    assert libraries.downloads() == 0
    assert (third["added"], third["changed"], third["removed"]) == (0, 0, 0)
    assert third["unchanged"] == len(case.after)
    assert libraries.facts() == facts
    assert f"Integrity check passed: {len(case.after)} files verified" in third["log"]


def test_a_restored_file_comes_again(libraries: LibraryCrawl, documents: Library) -> None:
    """A10: the same id reappears (R3-97)."""
    libraries.download()
    documents.delete("Reports/Q1.txt")
    assert libraries.download()["removed"] == 1
    documents.restore("Reports/Q1.txt")
    third = libraries.download()
    assert libraries.disk() == BEFORE
    assert (third["added"], third["downloaded"]) == (1, 1)


def test_why_knows_an_item_by_each_address_and_its_id(
    libraries: LibraryCrawl, documents: Library
) -> None:
    libraries.download()
    entry = documents.rename("Reports/Q1.txt", "first.txt")
    libraries.download()
    root = f"{libraries.server.site_url(documents.site)}/Shared%20Documents/Reports"
    rows = libraries.rows("files_map.csv").values()
    (row,) = [row for row in rows if row["filename"] == "first.txt"]
    for word in (f"{root}/Q1.txt", f"{root}/first.txt", row["sharepoint_unique_file_id"]):
        why = json.loads(libraries.crawl.run("why", word, "--format", "json").out)
        (record,) = why["records"]
        assert record["record"]["url"] == f"{root}/first.txt"
        assert record["record"]["lastOutcome"] == "moved"
        former = f"it has another address now; before: {root}/Q1.txt"
        assert former in json.dumps(record["history"])
    assert entry.name == "first.txt"
