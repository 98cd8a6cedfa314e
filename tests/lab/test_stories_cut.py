"""Runs that did not see everything: what they remove, and what waits for a run that does."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site


@pytest.mark.covers("RD-07", "R2-21", "M-04", "U-16")
def test_a_run_that_is_cut_ages_nobody_and_the_next_goes_on(site: Site, crawl: Crawl):
    story = Story(site, crawl, ORPHAN_THRESHOLD=1)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    story.home()

    for _ in range(3):
        result = story.run(max_pages=4, expect=3)

        assert "max_pages" in result.out
        assert story["/page"]["orphanAge"] == 0
        assert story.words("/page") == ["orphaned"]
        assert story.asked("/page") == [0]
        assert crawl.hits("treasure") == ["/page"]
        assert len(crawl.hits("filler")) == 12
    assert story.removed() == {}
    story.answers(500, "/")  # nor does one whose seed failed

    story.run(expect=3)

    assert (story.words("/page"), story["/page"]["orphanAge"]) == (["orphaned"], 0)
    assert story.removed() == {}
    story.home()

    story.run()

    assert story.words("/page") == ["deleted"]
    assert story.asked("/page") == [1]
    assert story.removed() == {"/page": "orphan"}
    assert set(story.words("/other/1", "/other/11")) == {"unchanged"}


@pytest.mark.covers("M-01", "RD-07", "M-04", "U-09", "U-18")
def test_a_run_that_did_not_see_everything_removes_what_it_saw_gone_and_no_orphan(
    site: Site, crawl: Crawl
):
    story = Story(site, crawl, LOST_THRESHOLD=1, ORPHAN_THRESHOLD=1)
    story.source = "docs"
    crawl.declare(f"[sources.docs]\nseeds = ['{site.url('/')}', '{site.url('/second')}']\n")
    story.home("/page", "/dropped", "/moved")
    story.page("/second", text="another seed")
    for path in ("/page", "/dropped", "/moved"):
        story.page(path, text=f"treasure of {path}")
    story.run()
    story.home("/page", "/moved")
    story.answers(404, "/page")
    site.pages["/moved"] = Page(redirect="/other/1")
    story.answers(500, "/second")

    result = story.run(expect=3)

    assert site.url("/second") in result.out
    assert story.words("/page", "/dropped", "/moved") == ["gone", "orphaned", "redirected"]
    assert story["/dropped"]["orphanAge"] == 0
    assert story.asked("/dropped") == [0]
    assert crawl.hits("treasure") == ["/dropped"]
    assert story.removed() == {"/page": "gone", "/moved": "redirect"}
