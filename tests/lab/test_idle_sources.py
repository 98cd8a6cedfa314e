"""Which sources `due` leaves out: those of which nothing is due, found without opening a run."""

from pathlib import Path
from typing import Any

import pytest

from smartcrawl.commands.due_choice import NotDue, leave_out_not_due, not_due_line
from smartcrawl.commands.spider_runs import SpiderRun
from smartcrawl.spiders.files import FilesSpider
from smartcrawl.spiders.site import SiteSpider
from tests.lab.lab import Lab, Page, page
from tests.lab.lab_crawl import LabCrawl, _settings
from tests.site_server import Site

DAY = 86_400


def idle(crawl: LabCrawl, run: SpiderRun, **settings: object) -> list[NotDue]:
    """The sources that `due` leaves out now."""
    chosen = {"RETRY_TIMES": "0", "LOG_LEVEL": "WARNING", "RECRAWL_POLICY": "due"}
    with crawl._inside(["scrapy", "due"]):
        given = _settings(chosen | {name: str(value) for name, value in settings.items()})
        due, rest = leave_out_not_due(given, [run], crawl.now)
    assert len(due) + len(rest) == 1
    return rest


def fresh_at(lab: Lab) -> int:
    [(at,)] = lab.rows("SELECT fresh_at FROM source")
    return at


@pytest.fixture
def shop(lab: Lab) -> SpiderRun:
    """A site that was crawled once, with a page that robots.txt forbids."""
    lab.pages["/"] = page("Home", "/a", "/secret/b")
    lab.pages["/a"] = page("A", "/b")
    lab.pages["/b"] = page("B")
    lab.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /secret/", headers={"Content-Type": "text/plain"}
    )
    lab.run()
    return SpiderRun(SiteSpider, {"url": lab.site.url("/")})


def test_a_site_is_due_when_one_of_its_pages_is(lab: Lab, shop: SpiderRun):
    lab.after(hours=3)
    [one] = idle(lab.crawl, shop)
    assert one.due_at is not None
    assert 0.85 * DAY - 3 * 3_600 < one.due_at - lab.crawl.now < DAY
    assert 0 <= lab.crawl.now - fresh_at(lab) <= 60, "nothing of it was overdue"
    began = fresh_at(lab)

    lab.after(days=1)
    assert idle(lab.crawl, shop) == []
    assert fresh_at(lab) == began


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET complete = FALSE, reasons = '[\"max_pages\"]'",
        "UPDATE run SET state = 5",
        "UPDATE run SET owed = 3",
        "UPDATE state SET next_visit = NULL WHERE no = 1",
        "UPDATE state SET last_checked = NULL WHERE no = 1",
        "UPDATE state SET last_checked = last_checked + 200000 WHERE no = 1",
        "UPDATE record SET signs = signs + 1 WHERE no = 1",
        "UPDATE source SET configuration = NULL",
        "INSERT INTO item (no, requested, generation, revision) VALUES (1, TRUE, 1, 1)",
    ],
)
def test_what_a_run_has_to_see_is_due(lab: Lab, shop: SpiderRun, statement: str):
    assert idle(lab.crawl, shop) != []
    lab.rows(statement)
    assert idle(lab.crawl, shop) == []


def test_another_setting_is_a_reason_for_a_run_and_the_run_settles_it(lab: Lab, shop: SpiderRun):
    assert idle(lab.crawl, shop, CHUNK_SIZE=700) == []
    lab.settings["CHUNK_SIZE"] = 700
    lab.run()
    assert idle(lab.crawl, shop, CHUNK_SIZE=700) != []


def test_a_run_that_found_only_pages_that_are_not_due_leaves_nothing(lab: Lab, shop: SpiderRun):
    lab.crawl.run("due")
    [(complete, reasons)] = lab.rows("SELECT complete, reasons FROM run WHERE no = 2")
    assert not complete
    assert "not_due" in reasons
    assert fresh_at(lab) >= lab.rows("SELECT finished_at FROM run WHERE no = 2")[0][0]
    assert idle(lab.crawl, shop) != []


def test_a_source_that_no_run_has_seen_is_due(lab: Lab, shop: SpiderRun, other: Site):
    assert idle(lab.crawl, SpiderRun(SiteSpider, {"url": other.url("/")})) == []
    assert idle(lab.crawl, SpiderRun(SiteSpider, {"url": "no address"})) == [], "its run says why"


def test_a_folder_is_due_when_its_last_listing_is_older_than_its_interval(lab: Lab, tmp_path: Path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nWords.")
    given: dict[str, Any] = {"spider": "files", "root": folder}
    lab.crawl(settings=lab.settings, **given)
    run = SpiderRun(FilesSpider, {"root": str(folder)})
    [one] = idle(lab.crawl, run)
    [(listed,)] = lab.rows("SELECT started_at FROM run")
    assert 0.9 * DAY <= (one.due_at or 0) - listed <= 0.95 * DAY, "as a page, at the latest"

    lab.rows(f"UPDATE state SET next_visit = {lab.crawl.now + 1}")  # as `due --notice` would
    lab.after(seconds=2)
    assert idle(lab.crawl, run) == []
    lab.rows("UPDATE state SET next_visit = 5")
    [one] = idle(lab.crawl, run)
    assert one.due_at == listed + round(0.95 * DAY), "the listing has looked at the file"
    lab.after(days=0.96)
    assert idle(lab.crawl, run) == []


def test_the_line_names_the_first_of_what_is_due_next():
    rest = [NotDue("a", 90_000), NotDue("b", 7_300), NotDue("c", None)]
    line = "nothing is due: 3 sources; the first page is due in 2 h (b)"
    assert not_due_line(rest, 3, 100) == line
    assert not_due_line(rest, 40, 100) == "nothing is due of 3 of 40 sources"
