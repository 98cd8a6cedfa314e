"""A site moves to another scheme or host with all its pages, and its old port closes for good."""

from urllib.parse import urlsplit

import pytest

from tests.crawls.commands import Crawl, Record
from tests.crawls.stories import LONG, Story
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

SIZES = pytest.mark.parametrize("size", [1, 2, 5])


class Relocation:
    """One source of some pages, with a former address and a present one."""

    def __init__(self, crawl: LabCrawl, size: int) -> None:
        self.crawl = crawl
        self.settings = {
            "RETRY_TIMES": 0,
            "LOG_LEVEL": "WARNING",
        }
        self.paths = ["/", *(f"/page/{n}" for n in range(size - 1))]
        self.old = LabSite("moving.example")
        self.new = LabSite("moving.example:8443", scheme="https")
        crawl.web.sites += [self.old, self.new]
        for site in (self.old, self.new):
            site.pages["/"] = html("Home", *self.paths[1:], text=f"walrus home. {LONG}")
            for path in self.paths[1:]:
                site.pages[path] = html(path, text=f"walrus of {path}. {LONG}")

    def run(self, seed: str, *, expect: int = 0) -> None:
        """Crawl the source from one seed."""
        hosts = [urlsplit(site.url()).netloc for site in (self.old, self.new)]
        self.crawl.declare(f'[sources.docs]\nseeds = ["{seed}"]\nallowed_domains = {hosts}\n')
        self.crawl(source="docs", settings=self.settings, expect=expect)

    def hits(self) -> list[str]:
        """Return the addresses that a search shows."""
        return sorted(hit["url"] for hit in self.crawl.search("walrus", "--limit", "100"))

    def addresses(self, base: str) -> list[str]:
        return sorted(base + path for path in self.paths)

    def records(self, base: str) -> list[Record]:
        return [record for record in self.crawl.records() if record["url"].startswith(base)]

    def removals(self) -> list[tuple[object, ...]]:
        return self.crawl.rows("SELECT no FROM evidence")


@pytest.mark.long(but=2)
@SIZES
@pytest.mark.covers("R4-14", "R4-16", "M-23")
def test_the_pages_of_a_site_that_moved_to_https_become_the_originals(crawl: LabCrawl, size: int):
    story = Relocation(crawl, size)
    with story.old:
        story.run(story.old.url())
    http, https = story.old.url(""), story.new.url("")
    assert story.hits() == story.addresses(http)

    for _ in range(2):  # no run has looked at the orphans yet
        story.run(https + "/")

        assert story.hits() == story.addresses(http)
        assert all(record["duplicateOf"] for record in story.records(https))
    for _ in range(3):
        story.run(https + "/")

        assert story.hits() == story.addresses(https)
        assert not any(record["duplicateOf"] for record in story.records(https))
        places = {r["url"]: r["duplicateOf"] for r in story.records(http)}
        assert places == {http + path: https + path for path in story.paths}
        assert {r["lastOutcome"] for r in story.records(http)} == {"orphaned"}
    assert story.removals() == []
    assert crawl.rows("SELECT DISTINCT probe FROM candidate") == [(1102,)]
    [kept] = [r for r in story.records(http) if r["url"] == http + "/"]
    assert kept["contentHash"] is not None


@pytest.mark.covers("R4-14", "M-23", "R4-42")
def test_an_outage_of_linked_pages_moves_no_original(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=1)
    story.home("/a", "/bb")
    site.pages |= dict.fromkeys(("/a", "/bb"), html("Walrus", text=f"walrus. {LONG}"))
    story.run()
    for fault in (Page("no", status=503), Page(fault="reset")):
        site.pages["/a"] = fault
        for _ in range(4):
            story.run()

            assert story.words("/a", "/bb") == ["failed", "unchanged"]
            assert crawl.hits("walrus") == ["/a"]
            assert story["/bb"]["duplicateOf"] == site.url("/a")


@pytest.mark.covers("R4-14", "M-23")
def test_an_orphan_that_answers_again_does_not_become_the_original_again(site: Site, crawl: Crawl):
    story = Story(site, crawl, ORPHAN_THRESHOLD=1)
    story.home("/a", "/bb")
    walrus = html("Walrus", text=f"walrus. {LONG}")
    site.pages |= dict.fromkeys(("/a", "/bb"), walrus)
    story.run()
    story.home("/bb")
    story.answers(503, "/a")

    story.run()

    assert story.words("/a", "/bb") == ["orphaned", "unchanged"]
    assert crawl.hits("walrus") == ["/bb"]
    story.home("/a", "/bb")
    site.pages["/a"] = walrus

    story.run()

    assert story.words("/a", "/bb") == ["unchanged", "unchanged"]
    assert story["/a"]["duplicateOf"] == site.url("/bb")
    assert crawl.hits("walrus") == ["/bb"]
    assert story.removed() == {}
