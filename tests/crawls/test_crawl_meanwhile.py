"""Runs that take their time: what happens meanwhile, in which order, and after an end too soon."""

import os
import signal

import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.crawls.crew import Crew
from tests.crawls.stories import Story
from tests.lab.test_crawl_posted import ISLANDS, ONE_BY_ONE, asked, declare, post
from tests.lab.test_stories_clones import GIRAFFES, begin
from tests.site_server import Page, Site, html


@pytest.mark.long
@pytest.mark.covers("R4-14", "M-23", "RD-10", "R1-36")
def test_while_an_original_leaves_each_search_finds_the_text_once(site: Site, crawl: Crawl):
    story = begin(site, crawl, LOST_THRESHOLD=1)
    site.pages["/a"] = GIRAFFES
    story.page("/other/1", text="filler 1", delay=4)  # the others are committed long before
    seen = []
    with crawl.start(site.url("/"), settings=story.settings) as running:
        while running.process.poll() is None:
            story.forget()
            seen.append((len(crawl.hits("whales")), len(crawl.hits("giraffes"))))
        result = running.end()
    assert result.status == 0, result
    story.forget()

    assert {whales for whales, _ in seen} == {1}
    assert [giraffes for _, giraffes in seen] == sorted(giraffes for _, giraffes in seen)
    assert (crawl.hits("whales"), crawl.hits("giraffes")) == (["/bb"], ["/a"])


@pytest.mark.long
@pytest.mark.covers("RD-07", "RD-08", "R4-44", "M-01")
def test_an_interrupted_run_removes_nothing_until_it_went_on_to_its_end(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=2, ORPHAN_THRESHOLD=1)
    story.home("/page", "/dropped", "/slow")
    for path in ("/page", "/dropped", "/slow"):
        story.page(path, "/late", text=f"treasure of {path}")
    story.page("/late", text="filler that comes late")
    story.run()
    story.answers(404, "/page")
    story.run()
    story.home("/page", "/slow")
    story.page("/slow", "/late", text="treasure of /slow", delay=5)
    site.clear()
    with crawl.start(site.url("/"), settings=story.settings) as running:
        wait_until(lambda: site.count("/page") and site.count("/slow"), "both were asked for")
        os.kill(running.pid, signal.SIGINT)
        running.end()
    assert crawl.runs()[0]["state"] == "interrupted"
    assert story.removed() == {}
    assert crawl.hits("treasure") == ["/dropped", "/page", "/slow"]
    story.page("/slow", "/late", text="treasure of /slow")

    story.run(resume=1)

    assert crawl.runs()[0]["run"] == 3
    assert story.words("/page", "/dropped") == ["gone", "deleted"]
    assert crawl.hits("treasure") == ["/slow"]
    assert story.removed() == {"/page": "gone", "/dropped": "orphan"}


@pytest.mark.covers("R0-29")
def test_nothing_is_registered_while_a_run_gives_out_numbers(site: Site, crawl: Crawl):
    site.pages |= {"/": html("Home", "/a"), "/a": html("A", text="text of a")}
    crawl(site.url("/"))
    site.clear()
    site.pages["/"] = Page(html("Home", "/a", "/slow"), etag='"2"')
    site.pages["/slow"] = Page(html("Slow", text="slow"), fault="hang")
    with crawl.start(site.url("/")):
        wait_until(lambda: any(request.path == "/slow" for request in site.log), "/slow is asked")

        told = crawl.run("reindex", "--url", site.url("/new"), expect=4)
        crawl.run("reindex", "--url", site.url("/a"))  # what is known may be ordered

    assert "is being crawled" in told.err


@pytest.mark.covers("M-24")
def test_a_depth_that_is_lowered_late_is_handed_on_without_waiting(site: Site, crawl: Crawl):
    """Traps 6 and 7: what is offered when the spider is idle is asked at once, not after 5 s.

    /x is met at depth 3 first, where its links are beyond the limit; then /slow, at depth 1,
    turns out to lead to it as well.
    """
    site.pages["/"] = html("Home", "/a", "/slow")
    site.pages["/slow"] = Page(html("Slow", "/x"), delay=1.0)
    site.pages["/a"] = html("A", "/b")
    site.pages["/b"] = html("B", "/x")
    site.pages["/x"] = html("X", "/y")
    site.pages["/y"] = html("Y", "/z", text="behind the limit at first")
    site.pages["/z"] = html("Z", text="beyond")

    crawl.environment["DEPTH_LIMIT"] = "3"
    crawl(site.url("/"))

    pages = crawl.pages()
    assert pages["/x"]["depth"] == 2
    assert pages["/y"]["depth"] == 3
    assert pages["/y"]["status"] == "Indexed"
    assert "/z" not in pages
    assert site.count("/x") == 1


@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
@pytest.mark.covers("R2-35")
def test_a_resumed_run_keeps_the_order(crawl: Crawl, site: Site):
    """The first process ends before it asks anything but one page."""
    declare(crawl, site)
    post(crawl, site, ISLANDS)
    settings = {**ONE_BY_ONE, "CLOSESPIDER_PAGECOUNT": 1}
    crawl(settings=settings, expect=None)
    before = asked(site)
    crawl.rows("UPDATE run SET state = 9")
    crawl(settings=ONE_BY_ONE, resume=1, expect=None)

    assert before[0] == "/first"
    order = [path for path in asked(site) if path in ("/first", "/urgent", "/", "/late")]
    assert order.index("/urgent") < order.index("/")
    assert order[-1] == "/late"


@pytest.mark.long
@pytest.mark.covers("R2-35", "R2-42", "E-08")
def test_workers_that_share_a_run_ask_posted_addresses_by_their_priority(crew: Crew, site: Site):
    crawl = crew.crawl
    declare(crawl, site)
    post(crawl, site, ISLANDS)

    crew.end(*crew.begin(None, 2, CONCURRENT_REQUESTS_PER_DOMAIN="1", DOWNLOAD_DELAY="0.05"))
    order = asked(site)

    assert sorted(order) == sorted(["/", "/linked", *ISLANDS])
    assert order.index("/first") < order.index("/urgent") < order.index("/usual")
    assert order.index("/late") > max(order.index("/"), order.index("/usual"))
    assert crawl.rows("SELECT * FROM pending_pin") == []
