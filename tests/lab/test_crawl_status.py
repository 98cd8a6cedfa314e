"""`scrapy status` after crawls: the numbers, what deserves a look, and the next command."""

import json
from typing import Any

import pytest

from smartcrawl.reports.status import LOOKS, RUN_KEYS, STATUS_KEYS, StatusReportCounts
from smartcrawl.reports.text import report_time_span
from tests.crawls.commands import Crawl, Result
from tests.site_server import Page, Site, html


class Ask:
    """`scrapy status` over the registry of a crawl."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    def __call__(self, *args: str, expect: int = 0) -> Result:
        return self._crawl.run("status", *args, expect=expect)

    def json(self, *args: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self("--format", "json", *args).out)
        return told

    def lines(self, *args: str) -> dict[str, str]:
        """The lines of one source by their first word; what deserves a look is joined."""
        found: dict[str, str] = {}
        for line in self(*args).out.splitlines()[1:]:
            name, text = line[2:12].strip(), line[13:]
            found[name] = f"{found[name]}\n{text}" if name in found else text
        return found


@pytest.fixture
def status(crawl: Crawl) -> Ask:
    return Ask(crawl)


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    """A site that was crawled once."""
    site.pages["/"] = html("Home", "/a", "/b", "/c", "/none")
    site.pages["/a"] = html("A", text="text of a")
    site.pages["/b"] = html("B", text="text of b")
    site.pages["/c"] = html("C", text="text of c")
    crawl(site.url("/"))
    return site


@pytest.mark.covers("R0-78")
def test_the_numbers_of_a_site_that_changed(shop: Site, crawl: Crawl, status: Ask):
    first = status.json()
    shop.pages["/"] = html("Home", "/a", "/b", "/none")
    shop.pages["/a"] = html("A", text="another text")
    del shop.pages["/b"]
    crawl(shop.url("/"))

    told = status.json()
    (one,) = told["sources"]

    assert list(one) == list(told["total"]) == list(STATUS_KEYS)
    assert list(one["lastRun"]) == list(RUN_KEYS)
    assert {key: one[key] for key in STATUS_KEYS[1:18]} == {
        "pages": 5, "pending": 0, "crawled": 0, "indexed": 3, "error": 2, "outOfScope": 0,
        "gone": 0, "sitemaps": 0, "held": 4, "lost": 1, "orphans": 1, "due": 0, "clones": 0,
        "withoutText": 0, "withheld": 0, "pinned": 0, "ordered": 0,
    }  # fmt: skip
    assert one["errorRate"] == 0.4
    assert first["total"]["changeRate"] is None, "nothing had been asked twice"
    assert (one["changeRate"], one["changeRuns"]) == (1.0, 1)
    assert (one["pagesCompared"], one["pagesModified"], one["pagesNew"]) == (2, 2, 0)
    assert one["medianAgeSeconds"] <= one["age95Seconds"]
    assert (one["checkedWithinDay"], one["checkedWithinWeek"]) == (1, 1)
    newest, before = crawl.runs()
    assert one["bytesDownloaded"] == newest["bytesDownloaded"] + before["bytesDownloaded"]
    assert one["lastRun"]["bytesDownloaded"] == newest["bytesDownloaded"] > 0
    assert (one["lastRun"]["state"], one["lastRun"]["complete"]) == ("swept", True)
    assert (one["lastCompleteRun"], one["lastCompleteAt"]) == (2, newest["finishedAt"])
    assert told["at"] >= newest["finishedAt"]


@pytest.mark.covers("R0-78")
def test_people_are_told_the_numbers_and_what_to_look_at(shop: Site, crawl: Crawl, status: Ask):
    name = shop.url("/")[7:-1]
    shop.pages["/"] = html("Home", "/a", "/b", "/empty")
    shop.pages["/empty"] = html("Empty", text="")
    del shop.pages["/b"]
    crawl(shop.url("/"))

    out, found = status().out, status.lines()

    assert out.startswith(f"{name}: run 2 complete, ")
    assert "all " not in out, "there is one source only"
    assert found["pages"] == "6: 4 indexed, 2 error"
    assert found["stored"].startswith("5, of them 1 lost")
    assert found["visited"].endswith("100 % in the last day, 100 % in the last 7 days")
    assert found["changes"] == ("50 % of 2 visits to stored pages, in the last run; 1 new page")
    assert found["errors"].startswith("33.3 %")
    assert (found["due"], found["orphans"]) == ("0", "1")
    assert "; by the last run " in found["bytes"]
    again = f"-s DATA_DIR={crawl.data_dir} --source {name}"
    assert again not in out, "the folder is in the environment, and stays there"
    looks = found["look at"].splitlines()
    assert any(look.startswith("33.3 % of the pages failed") for look in looks)
    assert f"registry --status error --source {name}" in found["look at"]
    assert any(look.endswith(f"scrapy deltamerge --source {name}") for look in looks)
    assert any(look.endswith(f"scrapy orphans --source {name}") for look in looks)
    assert "go on" not in found


def test_every_look_is_about_a_number_that_there_is():
    assert {name for name, _, _ in LOOKS} <= set(StatusReportCounts._fields)


def test_a_site_without_trouble_is_told_without_a_word_of_it(site: Site, crawl: Crawl, status: Ask):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="text of a")
    crawl(site.url("/"))

    found = status.lines()

    assert "look at" not in found
    assert "go on" not in found
    assert "changes" not in found
    assert found["pages"] == "2: 2 indexed"


@pytest.mark.covers("R0-78")
def test_a_cut_run_is_told_with_its_reasons_and_the_last_complete_one(
    shop: Site, crawl: Crawl, status: Ask
):
    crawl(shop.url("/"), max_pages=2, expect=3)

    looks = status.lines()["look at"].splitlines()

    assert status().out.splitlines()[0].split(": ")[1].startswith("run 2 incomplete")
    assert looks[0].startswith("not complete: max_pages: 2, by order (raise or leave out")
    assert any(look.startswith("the last complete run was 1, ") for look in looks)


def test_pages_that_are_not_due_are_no_trouble(shop: Site, crawl: Crawl, status: Ask):
    """A due crawl that found little to ask did all that it had to."""
    crawl.run("due")
    assert crawl.rows("SELECT complete, reasons LIKE '%not_due: %' FROM run WHERE no = 2") == [
        (0, 1)
    ]
    looks = status.lines().get("look at", "")
    assert "not complete" not in looks
    assert "last complete run" not in looks

    crawl.rows("UPDATE run SET finished_at = finished_at - 15 * 86400, started_at = 0 WHERE no = 1")
    looks = status.lines().get("look at", "")
    assert "last complete run" not in looks, "the due crawl left nothing overdue"

    crawl.rows("UPDATE source SET fresh_at = fresh_at - 15 * 86400")
    assert "the last complete run was 1, 15 days ago" in status.lines()["look at"]


def test_without_a_complete_run_it_says_what_cannot_be_told(site: Site, crawl: Crawl, status: Ask):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A")
    crawl(site.url("/"), max_pages=1, expect=3)

    assert "no run was complete yet" in status.lines()["look at"]


def test_a_run_that_goes_on_and_one_whose_process_died(shop: Site, crawl: Crawl, status: Ask):
    name = shop.url("/")[7:-1]
    crawl.rows("UPDATE run SET state = 0, complete = FALSE, finished_at = NULL")

    assert status().out.splitlines()[0] == (
        f"{name}: the process of run 1 died: continue with -a resume=1"
    )
    crawl.rows(f"UPDATE run SET started_at = {crawl.now - 5 * 3_600}")
    with crawl.held(name):
        assert status().out.startswith(f"{name}: run 1 is running, started 5 h ago")
    crawl.rows("UPDATE run SET state = 9, finished_at = started_at")
    assert status().out.startswith(f"{name}: run 1 interrupted, ")


def test_pages_that_are_due_or_old_are_told(shop: Site, crawl: Crawl, status: Ask):
    name = shop.url("/")[7:-1]
    crawl.rows("UPDATE state SET next_visit = 0, last_checked = last_checked - 3 * 1209600")

    found = status.lines()

    assert found["due"] == "5"
    assert found["go on"] == f"scrapy due --source {name}"
    assert found["visited"].startswith(
        "half of the stored pages within 42 days, 95 % within 42 days; 0"
    )
    assert "5 % of the stored pages were not visited for 42 days or longer" in found["look at"]
    patient = status.lines("-s", "CRAWL_MAX_INTERVAL_SECONDS=9999999")
    assert "not visited" not in patient["look at"]
    told = status.lines("-s", f"DATA_DIR={crawl.data_dir}")["go on"]
    assert told == f"scrapy due -s DATA_DIR={crawl.data_dir} --source {name}"


@pytest.mark.covers("R0-78")
def test_sitemaps_and_several_sources(shop: Site, crawl: Crawl, status: Ask):
    name = shop.url("/")[7:-1]
    shop.pages["/map.xml"] = Page(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"></urlset>',
        content_type="application/xml",
    )
    crawl.declare(
        f'[sources.tales]\nseeds = ["{shop.url("/a")}"]\nsitemaps = ["{shop.url("/map.xml")}"]\n'
    )
    crawl(source="tales", expect=None)

    told = status.json()
    lines = status().out.splitlines()

    assert [one["source"] for one in told["sources"]] == [name, "tales"]
    assert told["total"]["source"] is None
    assert told["total"]["pages"] == 6
    assert told["sources"][1]["sitemaps"] == told["total"]["sitemaps"] == 1
    assert "  pages      1: 1 indexed; 1 sitemap or feed" in lines
    assert "all 2 sources" in lines
    assert [one["source"] for one in status.json("--source", "tales")["sources"]] == ["tales"]
    assert "all " not in status("--source", "tales").out
    assert "no source is called 'none'" in status("--source", "none", expect=1).err


@pytest.mark.sqlite  # a test's database in PostgreSQL has one from the start
def test_without_a_registry_it_says_how_to_begin(status: Ask):
    assert "there is no registry" in status(expect=1).err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "0 s"), (-5, "0 s"), (119, "119 s"), (150, "2 min"), (7_200, "2 h"), (90_000, "25 h")],
)
def test_a_time_has_two_of_its_unit(seconds: int | None, text: str):
    assert report_time_span(seconds) == text
