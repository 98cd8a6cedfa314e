"""Rights trim a listing and not the count of its library: such removals wait (R3-69, RD-13)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.pages import Text

pytestmark = pytest.mark.long(but=1)

TEXTS = {"one.txt": b"a whale", "two.txt": b"a shark", "three.txt": b"a heron"}


@pytest.fixture
def libraries(crawl: Crawl, sharepoint: SharepointServer) -> LibraryCrawl:
    """By REST: Graph reports no count of a library."""
    return LibraryCrawl(crawl, sharepoint)


def stocked(libraries: LibraryCrawl, files: int) -> Library:
    """A library with some files, crawled once."""
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for path, content in list(TEXTS.items())[:files]:
        library.add(path, content)
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    assert libraries.download()["complete"]
    return library


def released(libraries: LibraryCrawl) -> tuple[dict[str, Any], ...]:
    found = libraries.crawl.run("orphans", "--format", "json")
    return tuple(json.loads(found.out))


@pytest.mark.covers("R3-69", "RD-13")
@pytest.mark.parametrize("files", [3, 2, 1])
def test_removals_wait_until_an_operator_accepts_the_shortfall(
    libraries: LibraryCrawl, files: int
) -> None:
    library = stocked(libraries, files)
    before = libraries.disk(), libraries.rows("files_map.csv")
    library.find("one.txt").trimmed = True

    for _ in range(2):  # the same again changes nothing
        found = libraries.download("--mode", "full", expect=3)
        assert (found["complete"], found["removed"], found["withheld"]) == (True, 0, 1)
        assert found["reasons"] == ["trimmed: the library counts 1 item more than it lists"]
        assert libraries.disk() == before[0]
        assert libraries.rows("files_map.csv").keys() == before[1].keys()
        assert libraries.hits("whale") == ["/sites/demo/Shared Documents/one.txt"]

    (waiting,) = released(libraries)
    assert waiting["url"].endswith("/one.txt")
    assert waiting["removable"]
    run = waiting["withheldRun"]
    why = libraries.crawl.run("why", waiting["url"], "--format", "json")
    assert f"--approve {run}" in why.out
    libraries.crawl.run("orphans", "--approve", str(run), "--max", "1")
    assert libraries.hits("whale") == []

    after = libraries.download("--mode", "full")
    assert (after["complete"], after["removed"], after["withheld"]) == (True, 1, 0)  # on disk
    assert after["reasons"] == []
    assert libraries.disk() == {p: c for p, c in before[0].items() if p != "one.txt"}
    assert len(libraries.rows("files_map.csv")) == files - 1


@pytest.mark.covers("R3-69")
def test_a_right_that_comes_back_withdraws_the_removal(libraries: LibraryCrawl) -> None:
    library = stocked(libraries, 3)
    library.find("two.txt").trimmed = True
    assert libraries.download("--mode", "full", expect=3)["withheld"] == 1
    library.find("two.txt").trimmed = False

    found = libraries.download("--mode", "full")

    assert (found["complete"], found["withheld"], found["reasons"]) == (True, 0, [])
    assert released(libraries) == ()
    assert libraries.disk() == TEXTS


@pytest.mark.covers("R3-69")
def test_a_removal_beside_trimmed_items_waits_as_well(libraries: LibraryCrawl) -> None:
    """Which of two absent files is gone and which is hidden, the listing does not say."""
    library = stocked(libraries, 3)
    library.find("two.txt").trimmed = True
    library.delete("three.txt")
    found = libraries.download("--mode", "full", expect=3)
    assert (found["removed"], found["withheld"]) == (0, 2)
    assert libraries.disk() == TEXTS

    run = max(one["withheldRun"] for one in released(libraries))
    libraries.crawl.run("orphans", "--approve", str(run), "--max", "1")
    assert libraries.download("--mode", "full", expect=3)["withheld"] == 1  # not all was accepted
    libraries.crawl.run("orphans", "--approve", str(run), "--max", "1")
    assert libraries.download("--mode", "full")["complete"]
    assert libraries.disk() == {"one.txt": TEXTS["one.txt"]}


@pytest.mark.covers("R3-69")
def test_new_and_changed_files_come_in_a_trimmed_run(libraries: LibraryCrawl) -> None:
    library = stocked(libraries, 3)
    library.find("one.txt").trimmed = True
    library.update("two.txt", "a shark at noon")
    library.add("four.txt", "an otter")

    found = libraries.download("--mode", "full", expect=3)

    assert (found["added"], found["withheld"]) == (1, 1)
    assert libraries.disk() == TEXTS | {"two.txt": b"a shark at noon", "four.txt": b"an otter"}


@pytest.mark.covers("R3-69")
@pytest.mark.parametrize(
    "accept",
    [
        pytest.param(lambda library: library.delete("two.txt"), id="another removal"),
        pytest.param(lambda library: library.add("four.txt", "an otter"), id="a new file"),
    ],
)
def test_an_accepted_shortfall_withholds_nothing_later(
    libraries: LibraryCrawl, accept: Callable[[Library], Any]
) -> None:
    library = stocked(libraries, 3)
    library.find("one.txt").trimmed = True
    assert libraries.download("--mode", "full", expect=3)["withheld"] == 1
    (waiting,) = released(libraries)
    libraries.crawl.run("orphans", "--approve", str(waiting["withheldRun"]), "--max", "1")
    accept(library)

    found = libraries.download("--mode", "full")

    assert (found["complete"], found["withheld"]) == (True, 0)
    library.find("three.txt").trimmed = True  # one more than was accepted
    assert libraries.download("--mode", "full", expect=3)["withheld"] == 1


@pytest.mark.covers("R3-69", "RD-13")
@pytest.mark.parametrize("kind", ["list_sources", "sitepage_sources"])
@pytest.mark.parametrize("items", [1, 2])
def test_removals_of_lists_and_pages_wait_as_well(
    libraries: LibraryCrawl, kind: str, items: int
) -> None:
    site = libraries.server.tenant.site("/sites/demo")
    listed: Any
    if kind == "list_sources":
        listed = site.list("Open tasks", "Tasks")
        for number in range(items):
            listed.add(Title=f"whale {number}")
        libraries.declare(site, kind, list_name="Open tasks")
    else:
        listed = site.pages()
        for number in range(items):
            listed.page(f"P{number}.aspx", f"whale {number}", [[Text("<p>words</p>")]])
        libraries.declare(site, kind, sharepoint_url_part="/SitePages")
    libraries.download()
    libraries.process()
    before = libraries.facts(kind)
    entry = next(entry for entry in listed.entries.values() if entry.parent is not None)
    entry.trimmed = True

    found = libraries.download(expect=3)

    assert (found["complete"], found["removed"], found["withheld"]) == (True, 0, 1), found["log"]
    assert libraries.facts(kind).keys() == before.keys()
    assert len(libraries.rows("files_map.csv", kind)) == items
    assert len(libraries.hits("whale")) == items
    (waiting,) = released(libraries)
    run = str(waiting["withheldRun"])
    libraries.crawl.run("orphans", "--approve", run, "--max", "1")
    after = libraries.download()
    assert (after["complete"], after["removed"], after["withheld"]) == (True, 1, 0)
    assert after["reasons"] == []
    assert len(libraries.rows("files_map.csv", kind)) == items - 1
    assert len(libraries.hits("whale")) == items - 1


@pytest.mark.covers("R3-69")
def test_each_command_names_the_remedy(libraries: LibraryCrawl) -> None:
    library = stocked(libraries, 2)
    library.find("one.txt").trimmed = True

    crawl = libraries.crawl
    done = crawl.run("crawl", "sharepoint", "-a", "source=DOMAIN01.source01", expect=None)

    said = " ".join((done.out + done.err).split())
    assert "1 removal is withheld: the listing may lack items that the app cannot see" in said
    (waiting,) = released(libraries)
    approval = f"--approve {waiting['withheldRun']} --max 1"
    assert approval in said
    assert approval in " ".join(crawl.run("orphans").out.split())
    status = " ".join(crawl.run("status").out.split())
    assert "trimmed: the library counts 1 item more than it lists" in status
    assert "give the app the right to read all items" in status
    why = " ".join(crawl.run("why", waiting["url"]).out.split())
    assert approval in why
    assert "withheld" in why
