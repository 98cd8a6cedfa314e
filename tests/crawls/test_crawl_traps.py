"""What went wrong in the prototype must not go wrong again (numbers of the traps in docstrings)."""

import re
from random import Random

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html


@pytest.mark.long
def test_pages_are_freed_without_the_garbage_collector(site: Site, crawl: Crawl):
    """Trap 1: a Selector and its Response hold each other, and the tree, until it runs."""
    count = 150
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(count)))
    for n in range(count):
        site.pages[f"/{n}"] = html(f"Page {n}", *(f"/{k}" for k in range(30)), text=f"text {n}")

    words = ("-m", "tests.crawls.runner", "objects", "crawl", "site", "-a", f"url={site.url('/')}")
    result = crawl.python(*words)  # a fork would have the collector of the other process

    told = re.search(r"alive: (.*)", result.out)
    assert told is not None, result
    alive = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", told[1])}
    assert alive["Selector"] == 0
    assert alive["Response"] < count / 10, alive
    assert alive["Request"] < count / 10, alive
    assert alive["_Element"] < count / 10, alive


@pytest.mark.long
@pytest.mark.sqlite
def test_a_commit_that_fails_ends_the_run_as_interrupted_never_as_complete(
    site: Site, crawl: Crawl
):
    """Trap 5: CloseSpider from a pipeline is swallowed. Here the disk is full midway."""
    count = 400  # many more than are on their way while the disk is found to be full
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(count)))
    for n in range(count):
        drawn = Random(n)  # nothing makes less of these words
        words = " ".join(f"{drawn.getrandbits(32):08x}" for _ in range(800))
        site.pages[f"/{n}"] = html(f"Page {n}", text=words)

    words = ("runner", "full", "600", "crawl", "site", "-a", f"url={site.url('/')}")
    result = crawl.run(*words, expect=1)

    assert "no space left" in result.err
    assert str(crawl.registry) in result.err
    assert "resume=1" in result.err
    assert "ERROR: Error processing" not in result.err
    assert len(site.log) < count  # it stopped asking
    [run] = crawl.runs()
    assert (run["state"], run["complete"]) == ("interrupted", False)
    held = {path for path, page in crawl.pages().items() if page["lastOutcome"] == "new"}
    assert held  # what was committed before is not lost
    site.clear()

    crawl(site.url("/"), resume=1)

    assert not {request.path for request in site.log} & held
    assert set(crawl.outcomes().values()) == {"new"}
    assert len(crawl.records()) == count + 1
    assert crawl.runs()[0]["complete"]


@pytest.mark.sqlite
def test_the_registry_is_in_wal_mode_with_all_of_its_schema(site: Site, crawl: Crawl):
    """Trap 11: apsw runs a string of statements up to the first row only."""
    site.pages["/"] = html("Home")
    crawl(site.url("/"))

    assert crawl.rows("PRAGMA journal_mode") == [("wal",)]
    names = {name for (name,) in crawl.rows("SELECT name FROM sqlite_schema")}
    assert names >= {
        "record", "state", "links", "content", "run", "host", "chunk", "chunk_words",
        "IngestItems", "url_frontier", "crawled_documents", "domain_stats", "versions", "pages",
        "documents", "urlword", "urlwords",
    }  # fmt: skip
    assert crawl.rows("SELECT count(*) FROM pages") == [(1,)]
    assert crawl.rows('SELECT "httpStatusCode" FROM "IngestItems"') == [(200,)]


@pytest.mark.sqlite
def test_the_write_lock_is_held_for_a_short_while_only(site: Site, crawl: Crawl):
    """Trap 13: a batch of 500 new pages held it for half a second."""
    count = 250
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(count)))
    for n in range(count):
        words = " ".join(f"word{(n * k) % 9973}" for k in range(300))
        site.pages[f"/{n}"] = html(f"Page {n}", text=words)

    result = crawl.run("runner", "locks", "crawl", "site", "-a", f"url={site.url('/')}")

    told = re.search(r"held: (.*)", result.out)
    assert told is not None, result
    held = [float(seconds) for seconds in told[1].split()]
    assert len(held) > count / 50
    nearly_all = sorted(held)[len(held) * 9 // 10]  # a busy machine may stop any one of them
    assert nearly_all < 0.3  # ADR 129 wants 0.05, on a machine that is not busy
