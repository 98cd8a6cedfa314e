"""Dry runs of new libraries, of lists and of pages, of each step, on both databases (R3-61)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl, libraries
from tests.crawls.library_dry import compare, snapshot, unchanged
from tests.lab.test_library_lists import tasks
from tests.lab.test_library_pages import pages
from tests.servers.sharepoint import GenericList, PageLibrary, Text

pytestmark = pytest.mark.long(but=1)

covers = pytest.mark.covers
__all__ = ["libraries", "pages", "tasks"]  # fixtures

_STEPS = ("download", "process", "check")


def only(found: dict[str, Any]) -> dict[str, Any]:
    """Return the only source of a result."""
    (source,) = found["sources"]
    return dict(source)


@covers("R3-61")
def test_a_new_library_leaves_neither_registry_nor_folder_behind(
    crawl: Crawl, libraries: LibraryCrawl
) -> None:
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    library.add("Reports/Q1.txt", "warm")
    library.add("photo.png", b"\x89PNG")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    before = snapshot(crawl)

    found = only(compare(libraries))

    assert not [path for path in before if "/crawler" in path or "registry" in path]
    assert (found["listed"], found["added"], found["downloaded"], found["skipped"]) == (1, 1, 1, 1)
    assert found["requests"] > 0
    assert only(compare(libraries))["unchanged"] == 1


def test_each_step_of_a_library_that_was_never_downloaded(
    crawl: Crawl, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    for step in ("process", "check"):
        assert "never downloaded: download it first" in only(compare(libraries, step))["reason"]


def _edit_list(tasks: GenericList) -> None:
    first, second, _ = tasks.entries.values()
    tasks.change(first.id, Title="Mow again")
    tasks.delete_entry(second)
    tasks.add(Title="Rake")


@covers("R3-61")
def test_a_list_through_all_steps(libraries: LibraryCrawl, tasks: GenericList) -> None:
    for act in (lambda _: None, _edit_list):
        act(tasks)
        for step in _STEPS:
            compare(libraries, step)
    removed = sorted((libraries.folder("list_sources") / "02_embedded").iterdir())
    removed[0].unlink()
    found = [only(compare(libraries, step)) for step in ("check", *_STEPS, "process")]
    assert [each["processed"] for each in found] == [0, 0, 1, 0, 0]
    assert found[0]["integrity"]["missingOnDisk"] == 1


@covers("R3-61")
def test_pages_through_all_steps(libraries: LibraryCrawl, pages: PageLibrary) -> None:
    def edit(pages: PageLibrary) -> None:
        pages.rename("News/Q1.aspx", "first.aspx")
        pages.delete("News/Q2.aspx")
        pages.page("New.aspx", "New", [[Text("<p>new</p>")]])

    acts: tuple[Callable[[PageLibrary], Any], ...] = (lambda _: None, edit)
    for act in acts:
        act(pages)
        for step in _STEPS:
            compare(libraries, step)
    folder = libraries.folder("sitepage_sources")
    (folder / "01_originals" / "Home.html").unlink()
    (folder / "02_embedded" / "Home.html").unlink()
    assert only(compare(libraries, "process"))["skipped"] == 1
    for step in (*_STEPS, "download"):
        compare(libraries, step)


def test_a_list_that_is_cut_takes_no_item(libraries: LibraryCrawl, tasks: GenericList) -> None:
    libraries.download()
    tasks.add(Title="Rake")
    libraries.crawl.environment["SHAREPOINT_PAGE_SIZE"] = "2"
    libraries.server.fail("html", r"skip", times=None)

    found = only(compare(libraries))

    assert not found["complete"]
    assert found["failed"] <= 1


@covers("R3-62")
def test_a_dry_run_goes_on_beside_a_run(
    crawl: Crawl, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    source, second = "DOMAIN01.source01", "DOMAIN01.source01.process"
    with crawl.held(source), crawl.held(second):
        for step, count in (("download", 0), ("process", 3), ("check", 0)):
            with unchanged(crawl):
                found = only(libraries.library(step, DOMAIN, "--dry-run"))
            assert (found["processed"], found["reason"]) == (count, "")
        libraries.library("download", DOMAIN, expect=4)


def test_the_table_says_that_nothing_was_changed(
    crawl: Crawl, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    with unchanged(crawl):
        dry = crawl.run("library", "download", DOMAIN, "--dry-run")
    assert "dry run of download of DOMAIN01.source01: complete" in dry.out
    assert "3 listed, 3 added" in dry.out
    assert "This was a dry run: nothing was changed." in dry.out
    assert "dry run" not in crawl.run("library", "download", DOMAIN).out


def test_a_host_that_is_blocked_is_not_asked(
    crawl: Crawl, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()
    host = libraries.server.origin("rest").removeprefix("http://").removeprefix("https://")
    crawl.run("hosts", "--block", host)

    compare(libraries)


def test_the_plan_of_a_library_is_its_dry_run(
    crawl: Crawl, libraries: LibraryCrawl, tasks: GenericList
) -> None:
    libraries.download()

    printed = crawl.run("plan").out
    (plan,) = json.loads(crawl.run("plan", "--format", "json").out)

    line = "scrapy library download DOMAIN01 --source source01 --dry-run"
    assert line in " ".join(printed.split())
    assert "removes" not in printed
    assert line in plan["note"]
    assert (plan["source"], plan["known"], plan["asks"]) == ("DOMAIN01.source01", 3, None)
    assert plan["guard"] == {"withholds": None, "removals": None, "pages": 3}
