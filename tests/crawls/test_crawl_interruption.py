"""A run that was ended from outside: nothing committed is lost, and it goes on where it was."""

import os
import re
import signal
import time
from collections import Counter

import pytest

from tests.crawls.commands import Crawl, Running, wait_until
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=1)

PAGES = 60


def slow_site(site: Site) -> None:
    """Pages that answer after a while; enough of them that a batch is written midway."""
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(PAGES)))
    for n in range(PAGES):
        page = html(f"Page {n}", f"/{n}/child", text=f"words of page{n}")
        site.pages[f"/{n}"] = Page(page, delay=0.05)
        site.pages[f"/{n}/child"] = html(f"Child {n}")


def visited(crawl: Crawl) -> set[str]:
    """Paths whose visit is in the registry."""
    rows = crawl.rows("SELECT url FROM record JOIN state USING (no) WHERE visited_run > 0")
    return {"/" + url.split("/", 3)[3] for (url,) in rows}


def begin(crawl: Crawl, site: Site) -> Running:
    """Start a crawl and wait until some of it is committed."""
    running = crawl.start(site.url("/"))
    wait_until(lambda: crawl.registry.exists() and site.count("/0"), "the first pages are asked")
    wait_until(lambda: len(visited(crawl)) > 10, "a batch is written")
    return running


@pytest.mark.long
@pytest.mark.covers("RD-22", "R1-36", "R4-30")
def test_a_killed_run_is_told_by_the_next_start_and_goes_on_with_resume(site: Site, crawl: Crawl):
    slow_site(site)
    with begin(crawl, site) as running:
        os.kill(running.pid, signal.SIGKILL)
        running.end()
    crawl.bury()
    before = visited(crawl)
    assert 10 < len(before) < 2 * PAGES
    assert crawl.counted(1)
    assert crawl.rows("SELECT hosts, queued > 0 FROM run") == [(1, 1)]
    [run] = crawl.runs()
    assert (run["state"], run["complete"]) == ("open", False)
    sums = sum(run[word] for word in ("new", "failed"))
    assert sums == len(before)
    assert all(crawl.pages()[path]["lastOutcome"] == "new" for path in before)
    site.clear()

    crawl(site.url("/"), resume=1)

    counts = Counter(request.path for request in site.log)
    del counts["/robots.txt"]
    assert not before & set(counts)
    assert set(counts.values()) == {1}
    assert set(counts) | before == set(site.pages)
    [run] = crawl.runs()
    assert (run["run"], run["state"], run["complete"]) == (1, "swept", True)
    assert run["new"] == len(site.pages)
    assert crawl.counted(1)
    assert crawl.rows("SELECT hosts, queued FROM run") == [(1, 0)]
    assert {page["visitedRun"] for page in crawl.records()} == {1}
    assert set(crawl.outcomes().values()) == {"new"}
    assert crawl.hits("page59") == ["/59"]


@pytest.mark.covers("RD-07", "RD-22")
def test_without_resume_a_new_run_opens_and_the_old_one_is_interrupted(site: Site, crawl: Crawl):
    slow_site(site)
    with begin(crawl, site) as running:
        os.kill(running.pid, signal.SIGKILL)
        running.end()
    crawl.bury()
    before = visited(crawl)
    site.clear()

    result = crawl(site.url("/"))

    assert "interrupted" in result.err
    assert "resume=1" in result.err
    new, old = crawl.runs()
    assert (old["run"], old["state"], old["complete"]) == (1, "interrupted", False)
    assert old["reasons"] == ["interrupted"]
    assert old["finishedAt"] is not None
    assert (new["run"], new["state"], new["complete"]) == (2, "swept", True)
    assert new["unchanged"] == len(before)
    assert new["new"] == len(site.pages) - len(before)
    assert {request.status for request in site.log if request.path in before} == {304}
    assert crawl.counts_add_up()


def test_a_forced_run_that_is_resumed_stays_forced(site: Site, crawl: Crawl):
    slow_site(site)
    crawl(site.url("/"))
    site.clear()
    with crawl.start(site.url("/"), force=1) as running:
        wait_until(lambda: site.count("/5"), "some pages are asked")
        os.kill(running.pid, signal.SIGTERM)
        assert running.end().status == 3

    crawl(site.url("/"), resume=1)

    asked = [request for request in site.log if request.path != "/robots.txt"]
    assert {request.path for request in asked} == set(site.pages)
    assert {request.status for request in asked} == {200}
    assert crawl.runs()[0]["unchanged"] == len(site.pages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_ends_the_run_in_order_and_it_can_be_resumed(
    site: Site, crawl: Crawl, number: signal.Signals
):
    slow_site(site)
    with begin(crawl, site) as running:
        os.kill(running.pid, number)
        result = running.end()

    assert result.status == 3, result
    assert "Traceback" not in result.err
    assert "resume=1" in result.out + result.err
    [run] = crawl.runs()
    assert (run["state"], run["complete"], run["reasons"]) == (
        "interrupted",
        False,
        ["interrupted"],
    )
    before = visited(crawl)
    assert re.search(rf"^ *{len(before)} +new *$", result.out, re.MULTILINE), result.out
    answered = {r.path for r in site.log if r.status == 200 and r.path != "/robots.txt"}
    assert before == answered  # what was in flight ended and was written
    site.clear()

    crawl(site.url("/"), resume=1)

    assert not {request.path for request in site.log} & before
    assert crawl.runs()[0]["complete"]
    assert crawl.runs()[0]["new"] == len(site.pages)


@pytest.mark.parametrize("words", [("crawl", "site"), ("due",)], ids=["crawl", "due"])
def test_a_second_signal_ends_it_by_force_and_is_no_success(
    site: Site, crawl: Crawl, words: tuple[str, ...]
):
    site.pages["/"] = html("Home")
    crawl.declare(f'[sources.one]\nseeds = ["{site.url("/")}"]\n')
    crawl(source="one")
    site.clear()
    site.pages["/"] = Page("late", delay=60)
    crawl.run("due", "--notice", site.url("/"))
    crawl.environment["DOWNLOAD_TIMEOUT"] = "300"
    with crawl.start_python("-m", "scrapy", *words) as running:
        wait_until(lambda: site.count("/"), "its page is asked")
        for _ in range(2):
            os.kill(running.pid, signal.SIGTERM)
            time.sleep(1)
        result = running.end()

    assert result.status == 1, result
    assert "Traceback" not in result.err


def test_a_signal_is_obeyed_quickly_under_a_long_delay(site: Site, crawl: Crawl):
    """Trap 4: with few requests in flight for each host there is little to wait for."""
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(30)))
    for n in range(30):
        site.pages[f"/{n}"] = html(f"Page {n}")
    with crawl.start(site.url("/"), settings={"DOWNLOAD_DELAY": 1}) as running:
        wait_until(lambda: site.count("/0"), "the second page is asked")
        os.kill(running.pid, signal.SIGTERM)
        wait_until(lambda: running.process.poll() is not None, "it ends, in far less than 30 s")
        assert running.end().status == 3
    assert len(site.log) < 10


def test_a_signal_stops_the_sources_that_are_still_to_come(site: Site, crawl: Crawl):
    slow_site(site)
    with Site() as other:
        other.pages["/"] = html("Other")
        crawl.declare(
            f'[sources.one]\nseeds = ["{site.url("/")}"]\n'
            f'[sources.two]\nseeds = ["{other.url("/")}"]\n'
        )
        with crawl.start_command("crawl", "site", "--jobs", "1") as running:
            wait_until(lambda: site.count("/5"), "the first source is being crawled")
            os.kill(running.pid, signal.SIGTERM)
            assert running.end().status == 3
        assert other.log == []
        assert [run["source"] for run in crawl.runs()] == ["one"]

        crawl(resume=1)

        assert {run["source"]: run["complete"] for run in crawl.runs()} == {
            "one": True, "two": True
        }  # fmt: skip
    assert len(crawl.runs()) == 2


@pytest.mark.long
def test_a_killed_run_goes_on_with_what_its_sitemap_named(site: Site, crawl: Crawl):
    """What cut the run before it was killed keeps it from being complete afterwards."""
    site.pages["/robots.txt"] = Page("Sitemap: /map.xml", content_type="text/plain")
    paths = [*(f"/{n}" for n in range(12)), "/x/x/x/x/x"]
    entries = "".join(f"<url><loc>{path}</loc></url>" for path in paths)
    site.pages["/map.xml"] = Page(f"<urlset>{entries}</urlset>", content_type="application/xml")
    site.pages["/"] = html("Home")
    for n in range(12):
        site.pages[f"/{n}"] = Page(html(f"Page {n}"), delay=2 if n > 5 else 0)
    reached = "SELECT count(*) FROM state"
    with crawl.start(site.url("/")) as running:
        wait_until(lambda: crawl.registry.exists() and site.count("/3"), "pages are asked")
        wait_until(lambda: crawl.rows(reached)[0][0] >= 14, "the sitemap is written")
        running.process.kill()
    crawl.bury()
    for n in range(12):
        site.pages[f"/{n}"] = html(f"Page {n}")

    crawl(site.url("/"), resume=1, expect=3)

    assert {crawl.outcomes()[f"/{n}"] for n in range(12)} == {"new"}
    told = crawl.pages()["/map.xml"]["errorMessage"]
    assert told == "not indexed: a sitemap of 13 addresses"
    assert crawl.runs()[0]["reasons"] == [f"path_repeat: 1 address, {site.url('/x/x/x/x/x')}"]
