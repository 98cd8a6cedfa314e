"""Failed starts: sources of which nothing was stored do not fill the status."""

import json
from contextlib import closing

import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.tombstones import failed_start_sources
from smartcrawl.reports.measures import source_measures
from smartcrawl.run.notices import note_stale_rows
from smartcrawl.server.explained.sources import sources_data
from tests.crawls.stories import down
from tests.lab.lab import Lab, page
from tests.lab.lab_site import LabSite
from tests.lab.served import served_context


def _shown(lab: Lab, *words: str) -> tuple[list[str], list[str]]:
    """The sources that the status lists, and the failed starts that it leaves out."""
    reported = json.loads(lab.crawl.run("status", "--format", "json", *words).out)
    return [one["source"] for one in reported["sources"]], reported["failedStarts"]


def test_a_failed_start_is_left_out_of_the_status_until_a_page_is_stored(
    lab: Lab, site: LabSite, other: LabSite
):
    lab.pages["/"] = page("Home", text="words")
    lab.run()
    with down(other):
        lab.crawl(other.url("/"), expect=3)
    assert _shown(lab) == ([site.host], [other.host])
    text = lab.crawl.run("status", "--details").out
    assert f"1 failed start left out, without a page: {other.host}. To remove the first:" in text
    assert "all 2 sources" not in text, "the total counts it neither"
    line = lab.crawl.run("status", "--check", expect=0).out
    assert line == "well: 1 source is fresh, complete and healthy\n"
    assert _shown(lab, "--source", other.host) == ([other.host], [])

    other.pages |= {"/": page("Other", text="more words")}
    lab.crawl(other.url("/"))
    assert _shown(lab) == (sorted([site.host, other.host]), [])


def test_pages_api_measures_and_notices_leave_a_failed_start_out(
    lab: Lab, site: LabSite, other: LabSite, monkeypatch: pytest.MonkeyPatch
):
    lab.pages["/"] = page("Home", text="words")
    lab.run()
    with down(other):
        lab.crawl(other.url("/"), expect=3)
    looks: list[Connection] = []

    def looked(connection: Connection) -> list[str]:
        looks.append(connection)
        return failed_start_sources(connection)

    monkeypatch.setattr("smartcrawl.run.notices.failed_start_sources", looked)
    context, names = served_context(lab), sorted([site.host, other.host])
    options, database = context.options, context.stores.database
    with closing(database.open()) as connection:
        found = sources_data(connection, context, names, lab.crawl.now)
        measures = source_measures(
            connection, options, lab.crawl.now,
            is_held=database.is_held, declared=None, sources=names,
        )  # fmt: skip
        note_stale_rows(connection, options, lab.crawl.now + 90 * 86_400)
    assert [one["source"] for one in found["sources"]] == [site.host]
    assert [one.reported.source for one in measures] == [site.host]
    assert lab.rows("SELECT source FROM stale_source") == [(site.host,)]
    assert len(looks) == 1, "one look for all sources"


def test_a_failure_after_a_page_was_stored_is_shown(lab: Lab, site: LabSite):
    lab.pages["/"] = page("Home", text="words")
    lab.run()
    with down(site):
        lab.run(expect=3)
    assert _shown(lab) == ([site.host], [])
    assert "its last run failed: seed_failed" in lab.crawl.run("status", "--check", expect=2).out


def test_a_declared_source_that_never_started_is_shown(lab: Lab, site: LabSite):
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
    lab.source = "docs"
    with down(site):
        lab.run(expect=3)
    assert _shown(lab) == (["docs"], [])
    assert "docs: its last run failed" in lab.crawl.run("status", "--check", expect=2).out


def test_nothing_but_failed_starts(lab: Lab, site: LabSite):
    with down(site):
        lab.run(expect=3)
    out = lab.crawl.run("status").out
    assert out.startswith("nothing was crawled yet")
    assert "1 failed start left out" in out
    assert "(1 start failed)" in lab.crawl.run("status", "--check", expect=3).err
