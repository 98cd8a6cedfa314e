"""`status --check`: one line and an exit status, for cron, Nagios and systemd."""

import json

import pytest

from tests.crawls.stories import down
from tests.lab.lab import Lab, page
from tests.lab.lab_site import LabSite

WEEK = 7 * 86_400


def check(lab: Lab, *words: str, expect: int) -> str:
    """Return the line of a check."""
    result = lab.crawl.run("status", "--check", *words, expect=expect)
    (line,) = (result.out or result.err).splitlines()
    return line


@pytest.fixture
def docs(lab: Lab) -> Lab:
    """A declared source of two pages, with limits of its own."""
    lab.crawl.declare(
        f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\nmax_age = {WEEK}\nmax_failed = 0.4\n'
    )
    lab.source = "docs"
    lab.pages |= {"/": page("Home", "/a"), "/a": page("A", text="words of a page")}
    lab.run()
    return lab


def test_a_source_is_well_then_stale_and_well_again_after_a_run(docs: Lab):
    assert check(docs, expect=0) == "well: 1 source is fresh, complete and healthy"
    docs.after(days=8)
    line = check(docs, expect=2)
    assert line == "alarm: docs: stale, not seen whole for 8 days (max_age: 7 days)"
    docs.run()
    assert check(docs, expect=0).startswith("well: ")


def test_a_due_crawl_that_left_nothing_overdue_counts(docs: Lab):
    docs.after(days=5)
    docs.crawl.run("due")
    docs.after(days=5)
    assert check(docs, expect=0).startswith("well: ")


def test_a_lost_page_deserves_a_look(docs: Lab):
    del docs.pages["/a"]
    docs.run()
    line = check(docs, expect=2)
    assert line == "alarm: docs: 50 % of its pages failed"
    docs.crawl.declare(f'[sources.docs]\nseeds = ["{docs.site.url("/")}"]\nmax_failed = 0.5\n')
    assert check(docs, expect=1).startswith("look: docs: ")
    assert "1 lost" in check(docs, expect=1)


def test_a_site_that_is_away_failed(docs: Lab, site: LabSite):
    with down(site):
        docs.run(expect=3)
    assert "its last run failed: seed_failed" in check(docs, expect=2)


def test_what_is_checked_as_data(docs: Lab):
    reported = json.loads(check(docs, "--format", "json", expect=0))
    (source,) = reported["sources"]
    assert (reported["level"], source["source"], source["reasons"]) == ("well", "docs", [])
    assert (source["maxAge"], source["maxFailed"], source["failed"]) == (WEEK, 0.4, 0.0)


@pytest.mark.parametrize(
    "words",
    [["--source", "none"], ["--details"], ["-s", "MAX_AGE_SECONDS=x"], ["--nonsense"], ["a"]],
)
def test_a_check_that_fails_is_no_state_of_a_source(docs: Lab, words: list[str]):
    """Nagios has 3 for that; without --check wrong usage ends with 2, and a failure with 1."""
    failed = docs.crawl.run("status", "--check", *words, expect=3)
    assert failed.out == ""
    assert failed.err
    if words != ["--details"]:
        docs.crawl.run("status", *words, expect=2 if words[0] in ("--nonsense", "a") else 1)


def test_without_a_registry_a_check_fails(lab: Lab):
    lab.crawl.run("status", "--check", expect=3)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("max_age = -1", "max_age is -1: expected a whole number"),
        ('max_age = "7 days"', "max_age is '7 days': expected a whole number"),
        ("max_failed = 1.5", "max_failed is 1.5: expected a share from 0 to 1, as in 0.1"),
        ("max_failed = true", "max_failed is True: expected a share from 0 to 1, as in 0.1"),
    ],
)
def test_a_wrong_limit_is_named(lab: Lab, key: str, says: str):
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\n{key}\n')
    lab.source = "docs"
    assert says in lab.run(expect=1).err


def test_a_table_with_a_mistake_that_was_never_crawled_deserves_a_look(docs: Lab):
    right = f'[sources.docs]\nseeds = ["{docs.site.url("/")}"]\n'
    docs.crawl.declare(f"{right}[sources.wiki]\nseed = []\n")
    line = check(docs, expect=1)
    assert line == "look: wiki: its table in sources.toml has a mistake"
    assert check(docs, "--source", "docs", expect=0).startswith("well: ")
    reported = json.loads(check(docs, "--format", "json", expect=1))
    levels = {one["source"]: one["level"] for one in reported["sources"]}
    assert levels == {"docs": "well", "wiki": "look"}
    docs.crawl.declare(right)
    assert check(docs, expect=0).startswith("well: ")
