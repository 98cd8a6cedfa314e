"""Failed starts: sources of which nothing was stored do not fill the status."""

import json

from tests.crawls.stories import down
from tests.lab.lab import Lab, page
from tests.lab.lab_site import LabSite


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
