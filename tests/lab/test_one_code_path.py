"""What a page was before makes no difference to what a crawl leaves behind."""

from pathlib import Path

import pytest

from smartcrawl.registry.pack import unpack_stored_links
from tests.crawls.commands import path_of
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, html

NOINDEX = '<meta name="robots" content="noindex">'


@pytest.mark.sqlite
@pytest.mark.covers("R1-01", "R1-48", "R1-54")
def test_a_refresh_leaves_what_a_first_crawl_of_the_same_site_leaves(
    site: LabSite, crawl: LabCrawl, tmp_path: Path
):
    """One code path: how a page came to be what it is makes no difference."""
    site.pages["/"] = html("Home", "/same", "/edited", "/moved", "/hidden", "/shown")
    site.pages["/same"] = html("Same", "/deep", text="nothing moves")
    site.pages["/edited"] = html("Edited", "/dropped", text="the elephant sleeps")
    site.pages["/dropped"] = html("Dropped", text="forgotten lines")
    site.pages["/deep"] = html("Deep", text="at the bottom")
    site.pages["/moved"] = html("Moved", text="was here once")
    site.pages["/hidden"] = html("Hidden", text="for everybody")
    site.pages["/shown"] = html("Shown", text="secret", head=NOINDEX)
    crawl(site.url("/"))
    site.pages["/edited"] = html("Edited", "/added", text="the giraffe wakes")
    site.pages["/added"] = html("Added", text="fresh paint")
    site.pages["/moved"] = Page(redirect="/added")
    site.pages["/hidden"] = html("Hidden", text="mine", head=NOINDEX)
    site.pages["/shown"] = html("Shown", text="for everybody")
    for _ in range(3):  # the third makes the dropped page old enough; the second lists the hidden
        crawl(site.url("/"))
    first = LabCrawl(tmp_path / "first", crawl.web)
    first.folder.mkdir()

    first(site.url("/"))

    refreshed = {path: page for path, page in crawl.pages().items() if path != "/dropped"}
    assert refreshed.keys() == first.pages().keys()
    same = (
        "id", "status", "effectiveStatus", "contentHash", "textHash", "bodyHash", "httpEtag",
        "httpLastModified", "lostCount", "goneCount", "orphanAge", "depth", "duplicateOf",
        "errorMessage",
    )  # fmt: skip
    for path, page in first.pages().items():
        assert {key: refreshed[path][key] for key in same} == {key: page[key] for key in same}
    assert shelf(crawl) == shelf(first)
    for query in ("giraffe", "everybody", "elephant", "secret", "mine", "forgotten", "paint"):
        assert crawl.hits(query) == first.hits(query)


def shelf(crawl: LabCrawl) -> dict[str, object]:
    """Links and chunks by path, whatever their numbers are."""
    links = crawl.rows("SELECT r.url, l.raw FROM links l JOIN record r USING (no)")
    chunks = crawl.rows(
        "SELECT r.url, k.title, k.headings, k.text FROM chunk k JOIN record r USING (content)"
        " WHERE r.entry = 1 ORDER BY r.url, k.position"
    )
    return {"chunks": chunks} | {path_of(url): unpack_stored_links(raw) for url, raw in links}


@pytest.mark.covers("U-11", "U-06", "R4-37")
def test_a_page_that_redirected_once_leads_nowhere_after_a_404(site: LabSite, crawl: LabCrawl):
    """A redirect's only link is its target; what answered 404 has none, whatever comes next."""
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page(redirect="/new")
    site.pages["/new"] = html("New", text="there")
    crawl(site.url("/"))
    for status in (404, 503):
        site.pages["/old"] = Page("no page", status=status)

        crawl(site.url("/"), settings={"RETRY_TIMES": 0, "SWEEP_MAX_RATIO": 1}, expect=None)

        assert crawl.outcomes()["/new"] == "orphaned"
