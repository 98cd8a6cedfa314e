"""The counts of a library's report, where a run ends early and where an undo came between."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import BEFORE, LibraryStage, rest_stage
from tests.servers.sharepoint import SharepointServer

pytestmark = pytest.mark.long

__all__ = ["rest_stage"]  # a fixture
_WORDS = ("library", "download", DOMAIN, "--format", "json")


@pytest.mark.alone
def test_items_that_a_stopped_run_did_not_come_to_are_not_unchanged(
    crawl: Crawl, rest_stage: LibraryStage
) -> None:
    libraries, library = rest_stage.begin(crawl)
    for number in range(12):
        library.add(f"new/{number}.txt", f"whale {number}")
    libraries.server.fail("slow", r"\$value", times=None, seconds=30)
    with crawl.start_command(*_WORDS) as running:
        running.until_it_says("begins")
        while not libraries.server.asked(pattern=r"GetFileById"):
            assert running.process.poll() is None
        os.kill(running.pid, signal.SIGTERM)
        result = running.end()
    (found,) = json.loads(result.out.splitlines()[-1])["sources"]
    assert found["reasons"] == ["interrupted"]
    assert (found["listed"], found["unchanged"]) == (len(BEFORE) + 12, len(BEFORE))
    status = crawl.run("status").out
    assert "not complete: interrupted (the next download fetches the rest)" in status
    libraries.server.faults.clear()

    again = libraries.download()

    assert (again["added"], again["unchanged"]) == (12 - found["added"], 3 + found["added"])
    assert "was interrupted and is now closed; this is a new run\n" in again["log"]


def test_a_page_that_an_undo_restored_and_the_library_lacks_counts_as_removed(
    crawl: Crawl, rest_stage: LibraryStage
) -> None:
    libraries, library = rest_stage.begin(crawl)
    library.delete("Reports/Q1.txt")
    libraries.download()
    run = crawl.runs()[0]
    crawl.run("undo", str(run["run"]))
    assert len(libraries.hits("warm")) == 1

    found = libraries.download()

    assert (found["removed"], crawl.runs()[0]["removed"]) == (1, 1)
    assert libraries.hits("warm") == []


def test_the_first_dry_run_of_a_library_warns_of_no_map(
    crawl: Crawl, sharepoint: SharepointServer
) -> None:
    libraries = LibraryCrawl(crawl, sharepoint)
    site = sharepoint.tenant.site("/sites/demo")
    site.library().add("one.txt", "a whale")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")

    found = libraries.download("--dry-run")

    assert (found["added"], found["downloaded"]) == (1, 1)
    assert "WARNING" not in found["log"]
