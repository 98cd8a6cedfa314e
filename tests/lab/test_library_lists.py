"""Whole crawls of a list: download, process, change, both again, and once more without a change."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import (
    SOURCE,
    LibraryCrawl,
    check_repair,
    keys_of_source,
    libraries,
    removes,
    writes,
)
from tests.servers.sharepoint import Entry, GenericList, SharepointServer
from tests.servers.sharepoint.entries import stamp

pytestmark = pytest.mark.long(but=2)

KIND = "list_sources"
CSV = f"01_originals/{SOURCE}.csv"
#: Rich text, and what is to be read of it.
LAWN = "<p>the <b>lawn</b><script>alert(1)</script></p>"
covers = pytest.mark.covers
__all__ = ["libraries"]  # a fixture


@pytest.fixture
def tasks(libraries: LibraryCrawl) -> GenericList:
    site = libraries.server.tenant.site("/sites/demo")
    listed = site.list("Open tasks", "Tasks")
    listed.column("Owner", "User", title="Assigned to")
    listed.column("Details", "Note", rich=True)
    listed.add(Title="Mow", Owner=1, Details=LAWN)
    listed.add(Title='=Sort, "file"')
    listed.add(Owner=1)
    libraries.declare(site, KIND, list_name="Open tasks")
    return listed


def _cells(listed: GenericList, entry: Entry) -> dict[str, str]:
    """The row of an item, by the titles of its columns."""
    details = entry.values.get("Details", "")
    owner = "Ada Lovelace" if entry.values.get("Owner") else ""
    return {
        "ID": str(entry.id),
        "Title": entry.values.get("Title", ""),
        "Modified": stamp(entry.modified),
        "Created": stamp(entry.created),
        "Created By": "Ada Lovelace",
        "Modified By": "Ada Lovelace",
        listed.fields["Owner"].title: owner,
        "Details": f'<div class="ExternalClass">{details}</div>' if details else "",
    }


def _csv(listed: GenericList) -> bytes:
    out = io.StringIO(newline="")
    rows = [_cells(listed, entry) for entry in listed.entries.values()]
    writer = csv.DictWriter(out, rows[0] if rows else ["ID"], lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _url(libraries: LibraryCrawl, entry: Entry) -> str:
    return f"{libraries.server.origin('rest')}/sites/demo/Lists/Tasks/DispForm.aspx?ID={entry.id}"


def _markdown(libraries: LibraryCrawl, listed: GenericList, entry: Entry) -> bytes:
    cells = _cells(listed, entry)
    cells.pop("ID")
    details = entry.values.get("Details", "")
    cells["Details"] = "the lawn" if details == LAWN else details
    title = cells["Title"] or f"ID {entry.id}"
    lines = [f"# {title}", f"<{_url(libraries, entry)}>"]
    lines += [f"**{name}:** {text}" for name, text in cells.items() if text]
    return ("\n\n".join(lines) + "\n").encode()


def check(libraries: LibraryCrawl, listed: GenericList, originals: set[int] = frozenset()) -> None:
    """Compare disk and maps with the list; `originals`: items that are not processed yet."""
    times = {}
    disk = {CSV: _csv(listed)}
    for entry in listed.entries.values():
        if entry.id not in originals:
            path = f"02_embedded/{entry.id}.md"
            disk[path], times[path] = _markdown(libraries, listed, entry), entry.modified
    found = libraries.facts(KIND)
    assert {path: body for path, (body, _) in found.items()} == disk
    assert {path: found[path][1] // 1_000_000_000 for path in times} == times
    stored, shown = (
        libraries.rows("files_map.csv", KIND),
        libraries.rows("sharepoint_map.csv", KIND),
    )
    urls = {f"/sites/demo/Lists/Tasks/{entry.id}.md": entry for entry in listed.entries.values()}
    assert set(stored) == set(shown) == set(urls)
    for url, entry in urls.items():
        same = {
            "sharepoint_listitem_id": str(entry.id),
            "sharepoint_unique_file_id": entry.unique_id,
            "filename": f"{entry.id}.md",
            "file_type": "md",
            "server_relative_url": url,
            "file_size": shown[url]["file_size"],
            "last_modified_utc": stamp(entry.modified).replace("Z", ".000000Z"),
            "last_modified_timestamp": str(entry.modified),
        }
        where = _url(libraries, entry)
        assert shown[url] == same | {"url": where, "raw_url": where}
        at = (
            f"01_originals\\{SOURCE}.csv"
            if entry.id in originals
            else f"02_embedded\\{entry.id}.md"
        )
        row = stored[url]
        assert row == same | {
            "file_relative_path": f"DOMAIN01\\02_lists\\{SOURCE}\\{at}",
            "downloaded_utc": row["downloaded_utc"],
            "downloaded_timestamp": row["downloaded_timestamp"],
            "sharepoint_error": "",
            "processing_error": "",
        }
        assert row["downloaded_utc"] > "2026"


@dataclass(frozen=True)
class Case:
    """One change of the list, and what a crawl makes of it."""

    name: str
    change: Callable[[GenericList], Any]
    new: set[int]  #: items that are processed again
    added: int = 0
    changed: int = 0
    removed: int = 0
    found: dict[str, list[int]] = field(default_factory=dict)  #: items by words


def _renamed_column(listed: GenericList) -> None:
    listed.fields["Owner"] = replace(listed.fields["Owner"], title="Gardener")


def _without_date(listed: GenericList) -> None:
    """Another text of the same size, at the same time, as in a looked-up list."""
    listed.change(1, Title="Mix", modified=listed.entry(1).modified)


CASES = (
    Case("added", lambda it: it.add(Title="Rake"), {4}, added=1, found={"rake": [4]}),
    Case("changed", lambda it: it.change(1, Title="Cut"), {1}, changed=1,
         found={"mow": [], "cut": [1], "lawn": [1]}),
    Case("removed", lambda it: it.remove(1), set(), removed=1, found={"lawn": []}),
    Case("removed and added", lambda it: (it.remove(3), it.add(Title="Rake")), {4}, added=1,
         removed=1, found={"rake": [4]}),
    Case("a title given", lambda it: it.change(3, Title="Weed"), {3}, changed=1,
         found={"weed": [3]}),
    Case("a title taken", lambda it: it.change(1, Title=None), {1}, changed=1,
         found={"mow": [], "lawn": [1]}),
    Case("a column renamed", _renamed_column, {1, 2, 3}, changed=3, found={"gardener": [1, 3]}),
    Case("same size and date", _without_date, {1}, found={"mow": [], "mix": [1]}),
)  # fmt: skip


@covers("R3-57", "R3-73")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_is_carried_out_once(
    case: Case, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    assert libraries.download()["added"] == 3
    assert libraries.process()["processed"] == 3
    before = libraries.facts(KIND)
    case.change(tasks)
    second = libraries.download()
    counts = (second["added"], second["changed"], second["removed"], libraries.downloads())
    assert counts == (case.added, case.changed, case.removed, 0), second["log"]
    assert second["listed"] == len(tasks.entries)
    assert second["unchanged"] == len(tasks.entries) - case.added - case.changed
    assert f"Integrity check passed: {len(tasks.entries)} files verified" in second["log"]
    check(libraries, tasks, case.new)
    assert libraries.process()["processed"] == len(case.new)
    check(libraries, tasks)
    for words, items in case.found.items():
        assert libraries.crawl.hits(words) == [
            f"/sites/demo/Lists/Tasks/DispForm.aspx?ID={item}" for item in items
        ]
    after = libraries.facts(KIND)
    kept = {f"02_embedded/{entry.id}.md" for entry in tasks.entries.values()} - {
        f"02_embedded/{item}.md" for item in case.new
    }
    assert {path: before[path] for path in kept} == {path: after[path] for path in kept}
    third = libraries.download()
    assert (third["added"], third["changed"], third["removed"]) == (0, 0, 0)
    assert libraries.process()["processed"] == 0
    assert libraries.facts(KIND) == after


@covers("R3-15", "R3-57", "R3-79")
def test_a_list_is_downloaded_and_then_processed(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    first = libraries.download()
    assert set(first) == keys_of_source()
    assert (first["sourceType"], first["listed"], first["skipped"]) == (KIND, 3, 0)
    assert (first["added"], first["downloaded"], first["complete"]) == (3, 0, True)
    check(libraries, tasks, {1, 2, 3})
    body, _ = libraries.facts(KIND)[CSV]
    assert body.startswith(
        b"ID,Title,Modified,Created,Created By,Modified By,Assigned to,Details\r"
    )
    assert b'\r\n2,"=Sort, ""file""",' in body
    processed = libraries.process()
    assert set(processed) == keys_of_source() - {"log"}
    assert (processed["processed"], processed["failed"], processed["complete"]) == (3, 0, True)
    check(libraries, tasks)
    assert libraries.crawl.hits("lawn") == ["/sites/demo/Lists/Tasks/DispForm.aspx?ID=1"]
    assert libraries.crawl.hits("alert") == []


def _edit_map(folder: Path) -> None:
    path = folder / "files_map.csv"
    path.write_bytes(path.read_bytes().replace(b",1.md,", b",9.md,"))


#: Name, damage, items that are made again, and what the check has counted.
DAMAGES = (
    ("CSV missing", removes(CSV), set(), {}),
    ("CSV edited", writes(CSV, "ID\r\n"), set(), {}),
    ("Markdown missing", removes("02_embedded/1.md"), {1}, {"missingOnDisk": 1}),
    ("Markdown edited", writes("02_embedded/1.md", "# Mow"), {1}, {"missingOnDisk": 1}),
    ("Markdown empty", writes("02_embedded/1.md", ""), {1}, {"missingOnDisk": 1}),
    ("orphans", lambda folder: [writes(f"{top}/9.md", "x")(folder) for top in
                                ("01_originals", "02_embedded")], set(), {"orphans": 2}),
    ("map edited", _edit_map, {1}, {"missingInMap": 1}),
    ("map missing", removes("files_map.csv"), {1, 2, 3}, {"missingInMap": 3}),
)  # fmt: skip


@covers("R3-104", "R3-105", "R3-107", "R3-109", "R3-133")
@pytest.mark.parametrize(
    ("damage", "new", "counts"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES]
)
def test_damage_on_disk_is_repaired_from_the_listing(
    damage: Callable[[Path], Any],
    new: set[int],
    counts: dict[str, int],
    libraries: LibraryCrawl,
    tasks: GenericList,
) -> None:
    check_repair(
        libraries,
        KIND,
        damage,
        counts,
        again=len(new),
        check=lambda is_before: check(libraries, tasks, new if is_before else set()),
    )


@covers("R3-79", "M-53")
def test_process_makes_a_lost_file_again_without_a_request(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    libraries.process()
    facts = libraries.facts(KIND)
    removes("02_embedded/1.md")(libraries.folder(KIND))
    writes("02_embedded/3.md", "x")(libraries.folder(KIND))
    libraries.server.log.clear()
    assert libraries.process()["processed"] == 2
    assert libraries.server.asked() == []
    assert libraries.facts(KIND) == facts


@covers("R3-65", "R3-79")
def test_process_without_the_original_skips_until_the_next_download(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    removes(CSV)(libraries.folder(KIND))
    found = libraries.process(expect=3)
    assert (found["processed"], found["skipped"], found["failed"]) == (0, 3, 0)
    assert found["reasons"][0] == f"{CSV} is missing: skipped, the next download fetches it"
    rows = libraries.rows("files_map.csv", KIND).values()
    assert {row["file_relative_path"] for row in rows} == {""}
    assert libraries.download()["integrity"]["missingOnDisk"] == 3
    assert libraries.process()["processed"] == 3
    check(libraries, tasks)


@covers("R3-71")
def test_a_list_that_is_emptied_loses_its_items_when_that_is_approved(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    libraries.process()
    facts, rows = libraries.facts(KIND), libraries.rows("files_map.csv", KIND)
    for item in (1, 2, 3):
        tasks.remove(item)
    listed = libraries.rows("sharepoint_map.csv", KIND)
    second = libraries.download(expect=3)
    counts = (second["listed"], second["removed"], second["withheld"], second["complete"])
    # The count of REST confirms the listing. Graph has none, so its listing counts as not whole.
    is_counted = not libraries.is_graph
    assert counts == ((0, 0, 3, True) if is_counted else (0, 0, 0, False)), second["log"]
    assert libraries.facts(KIND) == facts
    assert libraries.rows("files_map.csv", KIND) == rows
    assert libraries.rows("sharepoint_map.csv", KIND) == ({} if is_counted else listed)
    libraries.crawl.run("orphans", "--approve", "2", "--max", "3")
    third = libraries.download()
    assert (third["removed"], third["withheld"], third["complete"]) == (3, 0, True), third["log"]
    assert libraries.facts(KIND).keys() == {CSV}
    assert libraries.facts(KIND)[CSV][0] == b"ID\r\n"
    assert libraries.rows("files_map.csv", KIND) == {}
    assert libraries.crawl.hits("lawn") == []
    assert libraries.process()["processed"] == 0
    tasks.add(Title="Rake")
    assert libraries.download()["added"] == 1
    libraries.process()
    check(libraries, tasks)


def test_a_list_made_anew_waits_for_the_removal_of_the_old_items(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    libraries.process()
    tasks.site.lists.remove(tasks)
    anew = tasks.site.list("Open tasks", "Tasks")
    anew.fields = tasks.fields
    for title in ("Rake", "Weed", "Burn"):
        anew.add(Title=title)
    second = libraries.download(expect=3)
    assert (second["added"], second["removed"], second["withheld"]) == (3, 0, 3), second["log"]
    found = libraries.process(expect=3)
    assert (found["processed"], found["failed"]) == (0, 3)
    at = "/sites/demo/Lists/Tasks/1.md: another item is at 02_embedded/1.md"
    assert found["reasons"][0].startswith(at)
    assert libraries.disk(KIND)["1.md"].startswith(b"# Mow\n")
    libraries.crawl.run("orphans", "--approve", "2", "--max", "3")
    assert libraries.download()["removed"] == 3
    assert libraries.process()["processed"] == 3
    check(libraries, anew)


@covers("R3-68")
@pytest.mark.parametrize("change", ["deleted", "renamed", "second page", "item"])
def test_a_list_that_cannot_be_listed_loses_nothing(
    change: str, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    libraries.process()
    facts, rows = libraries.facts(KIND), libraries.rows("files_map.csv", KIND)
    tasks.remove(3)
    tasks.change(1, Title="Cut")
    match change:
        case "deleted":
            tasks.site.lists.remove(tasks)
        case "renamed":
            tasks.title = "Closed tasks"
        case "second page":
            libraries.crawl.environment["SHAREPOINT_PAGE_SIZE"] = "1"
            libraries.server.fail("html", r"/items", nth=2, times=None)
        case "item":
            libraries.server.fail("broken", r"/items", item=1, times=None)
    second = libraries.download(expect=3)
    assert (second["complete"], second["removed"], second["withheld"]) == (False, 0, 0)
    assert second["reasons"] or second["reason"], second["log"]
    assert libraries.facts(KIND) == facts
    assert libraries.rows("files_map.csv", KIND).keys() == rows.keys()
    assert libraries.process()["processed"] == 0
    assert libraries.crawl.hits("mow") == ["/sites/demo/Lists/Tasks/DispForm.aspx?ID=1"]


def test_the_other_api_changes_nothing(crawl: Crawl, sharepoint: SharepointServer) -> None:
    libraries = LibraryCrawl(crawl, sharepoint)
    site = sharepoint.tenant.site("/sites/demo")
    listed = site.list("Open tasks", "Tasks")
    for name, kind in (("Owner", "User"), ("Hours", "Number"), ("Done", "Boolean"),
                       ("Due", "DateTime"), ("Page", "URL"), ("Kinds", "MultiChoice")):  # fmt: skip
        listed.column(name, kind)
    listed.add(Title="Mow", Owner=1, Hours=2.0, Done=False, Due="2026-01-02T03:04:05Z",
               Page=("https://a.example/", "A"), Kinds=["a", "b"])  # fmt: skip
    libraries.declare(site, KIND, list_name="Open tasks")
    assert libraries.download()["added"] == 1
    libraries.process()
    facts = libraries.facts(KIND)
    assert (
        b"**Hours:** 2\n\n**Done:** No\n\n**Due:** 2026-01-02T03:04:05Z\n\n"
        in (facts["02_embedded/1.md"][0])
    )
    libraries.use("graph")
    second = libraries.download()
    assert (second["unchanged"], second["added"], second["changed"]) == (1, 0, 0)
    assert libraries.process()["processed"] == 0
    assert libraries.facts(KIND) == facts


@covers("R3-76")
def test_a_full_download_brings_every_item_again(
    libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    libraries.process()
    facts = libraries.facts(KIND)
    second = libraries.download("--mode", "full")
    assert (second["added"], second["changed"], second["removed"]) == (0, 0, 0), second["log"]
    check(libraries, tasks, {1, 2, 3})
    assert libraries.process()["processed"] == 3
    check(libraries, tasks)
    assert libraries.facts(KIND) == facts
