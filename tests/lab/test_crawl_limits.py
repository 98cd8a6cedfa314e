"""Limits: pages of a run, depth; and whether the counts of a run add up to its records."""

import pytest

from tests.crawls.commands import WORDS, Crawl
from tests.site_server import Page, Site, html


def asked(site: Site) -> set[str]:
    return {request.path for request in site.log} - {"/robots.txt"}


@pytest.mark.covers("R2-21", "RD-07")
def test_a_page_limit_cuts_the_run_and_the_next_run_goes_on(site: Site, crawl: Crawl):
    leaves = [f"/{n}" for n in range(12)]
    site.pages["/"] = html("Home", *leaves)
    for path in leaves:
        site.pages[path] = html(f"Leaf {path}", text="leaf")

    result = crawl(site.url("/"), max_pages=5, expect=3)

    assert len(asked(site)) == 5
    [run] = crawl.runs()
    assert (run["complete"], run["requests"], run["new"]) == (False, 5, 5)
    assert any(reason.startswith("max_pages") for reason in run["reasons"])
    assert "max_pages" in result.out
    assert crawl.counts_add_up()
    assert len(crawl.hits("leaf")) == 4

    for _ in range(3):  # what was never visited comes first, or the end would never be reached
        crawl(site.url("/"), max_pages=5, expect=None)
    assert asked(site) == {"/", *leaves}
    assert "orphaned" not in crawl.outcomes().values()
    site.clear()

    crawl(site.url("/"))

    assert asked(site) == {"/", *leaves}
    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert crawl.runs()[0]["complete"]


@pytest.mark.covers("RD-07")
def test_a_page_limit_that_nothing_is_left_beyond_leaves_the_run_complete(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = html("A", "/b", "/")
    site.pages["/b"] = html("B", "/a")

    crawl(site.url("/"), max_pages=3)

    assert crawl.runs()[0]["complete"]
    site.pages["/b"] = html("B", "/c")  # found by the very last page that may be asked
    site.pages["/c"] = html("C")
    crawl(site.url("/"), max_pages=3, expect=3)
    assert not crawl.runs()[0]["complete"]
    assert crawl.counts_add_up()


@pytest.mark.covers("R1-22", "R2-21")
def test_pages_beyond_the_depth_limit_are_not_asked_and_the_run_is_complete(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/1")
    for n in range(1, 5):
        site.pages[f"/{n}"] = html(f"Page {n}", f"/{n + 1}")
    site.pages["/5"] = Page("the end", content_type="text/plain")

    crawl.environment["DEPTH_LIMIT"] = "1"
    crawl(site.url("/"))

    assert asked(site) == {"/", "/1"}
    assert crawl.runs()[0]["complete"]
    site.clear()

    crawl.environment["DEPTH_LIMIT"] = "3"
    crawl(site.url("/"))  # /1 answers 304: its stored links lead on

    assert asked(site) == {"/", "/1", "/2", "/3"}
    assert crawl.outcomes() == {"/": "unchanged", "/1": "unchanged", "/2": "new", "/3": "new"}
    site.clear()

    del crawl.environment["DEPTH_LIMIT"]
    crawl(site.url("/"))

    assert asked(site) == {"/", *(f"/{n}" for n in range(1, 6))}
    site.clear()

    crawl.environment["DEPTH_LIMIT"] = "2"
    crawl(site.url("/"))

    assert asked(site) == {"/", "/1", "/2"}
    pages = crawl.pages()
    for n in (3, 4, 5):  # beyond the limit is out of scope, not cut
        page = pages[f"/{n}"]
        assert (page["lastOutcome"], page["status"]) == ("excluded", "OutOfScope")
        assert page["contentHash"] is not None
    assert crawl.hits("the end") == ["/5"]
    assert crawl.runs()[0]["complete"]
    story = crawl.run("why", site.url("/4")).out
    assert "it is 4 links from a seed, and DEPTH_LIMIT is 2" in story
    crawl.declare(f'[sources.s]\nkind = "site"\nseeds = ["{site.url("/")}"]\nmax_depth = 1\n')
    site.clear()

    crawl(source="s")

    assert asked(site) == {"/", "/1"}


@pytest.fixture
def deep(site: Site, crawl: Crawl) -> Site:
    """A site of five levels that was crawled once."""
    site.pages["/"] = html("Home", "/1", "/side")
    site.pages["/side"] = html("Side", "/1")
    for n in range(1, 5):
        site.pages[f"/{n}"] = html(f"Page {n}", f"/{n + 1}")
    site.pages["/5"] = Page("the end", content_type="text/plain")
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nmax_depth = 5\n')
    crawl(source="s")
    site.clear()
    return site


ORDER = {"DEPTH_LIMIT": 2, "ORPHAN_THRESHOLD": 1, "ORPHAN_MIN_AGE": 0, "SWEEP_MAX_RATIO": 1}


@pytest.mark.covers("R4-08")
def test_what_lies_deeper_than_one_run_was_to_go_does_not_age(deep: Site, crawl: Crawl):
    """By 304, then by new bodies; however often."""
    before = crawl.pages()
    for edited in (False, True, False):
        if edited:
            deep.pages["/2"] = html("Page 2", "/3", text="edited")
        deep.clear()

        result = crawl(source="s", settings=ORDER, expect=3)

        assert asked(deep) == {"/", "/side", "/1", "/2"}
        [reason] = crawl.runs()[0]["reasons"]
        assert reason == f"depth_limit: 2, by order: 1 address, {deep.url('/3')}"
        pages = crawl.pages()
        for n in (3, 4, 5):
            page = pages[f"/{n}"]
            assert (page["lastOutcome"], page["status"]) == ("orphaned", "Indexed")
            for key in ("orphanAge", "lostCount", "goneCount", "contentHash", "depth"):
                assert page[key] == before[f"/{n}"][key]
        assert "incomplete, as requested" in result.out
        assert "left out: depth_limit: 2, by order" in result.out
        assert "this run was ordered to leave them out" in result.out
    story = crawl.run("why", deep.url("/4")).out
    assert "4 links from a seed, and the run was ordered to go no deeper than 2" in story
    assert "4 links from a seed, at most 5" in story
    plan = crawl.run("plan", "--source", "s", "-s", "DEPTH_LIMIT=2").out
    assert "DEPTH_LIMIT=2 leaves deeper pages out of this run" in plan

    crawl(source="s")

    assert crawl.runs()[0]["complete"]
    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert crawl.counts_add_up()


def test_a_depth_that_nothing_lies_beyond_leaves_the_run_complete(deep: Site, crawl: Crawl):
    deep.pages["/2"] = html("Page 2", "/1", "/side")

    crawl(source="s", settings={"DEPTH_LIMIT": 2})

    run = crawl.runs()[0]
    assert (run["complete"], run["orphaned"]) == (True, 3)
    deep.pages["/2"], deep.pages["/fresh"] = html("Page 2", "/1", "/fresh"), html("Fresh")
    result = crawl(source="s", settings={"DEPTH_LIMIT": 2}, expect=3)

    assert f"depth_limit: 2, by order: 1 address, {deep.url('/fresh')}" in result.out
    assert deep.count("/fresh") == 0
    crawl(source="s", settings={"DEPTH_LIMIT": 6}, expect=None)
    assert crawl.outcomes()["/fresh"] == "new"


def test_an_address_with_no_limit_of_its_own_is_crawled_to_the_depth_of_one_run(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/1")
    site.pages["/1"] = html("One", "/2")
    site.pages["/2"] = html("Two")
    crawl(site.url("/"), settings={"DEPTH_LIMIT": 1}, expect=3)

    assert asked(site) == {"/", "/1"}
    crawl(site.url("/"))
    crawl(site.url("/"), settings={"DEPTH_LIMIT": 1}, expect=3)

    page = crawl.pages()["/2"]
    assert (page["lastOutcome"], page["status"]) == ("orphaned", "Indexed")
    crawl(site.url("/"), settings={"DEPTH_LIMIT": 0})
    assert crawl.outcomes()["/2"] == "unchanged"


def test_a_number_of_pages_by_order_is_said_as_such(deep: Site, crawl: Crawl):
    result = crawl(source="s", max_pages=2, expect=3)

    reasons = crawl.runs()[0]["reasons"]
    assert reasons[0] == "max_pages: 2, by order"
    assert all(reason.startswith("pending: ") for reason in reasons[1:])
    assert "incomplete, as requested" in result.out
    assert "left out: max_pages: 2, by order (raise or leave out max_pages" in result.out
    assert {page["orphanAge"] for page in crawl.pages().values()} == {0}
    crawl.declare(f'[sources.s]\nseeds = ["{deep.url("/")}"]\nmax_pages = 2\n')
    result = crawl(source="s", expect=3)

    assert crawl.runs()[0]["reasons"][0] == "max_pages"
    assert "not complete: max_pages (raise" in result.out
    assert "by order" not in result.out


def test_the_command_for_where_a_seed_leads_is_printed(site: Site, other: Site, crawl: Crawl):
    other.pages["/home"] = html("Elsewhere")
    site.pages["/"] = Page(redirect=other.url("/home"))
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\n')

    result = crawl(source="s", expect=3)

    assert f"(redirected to {other.url('/home')})" in result.out
    command = f"site -a url={other.url('/home')}"
    assert command in result.out
    assert command in crawl.run("status", "--source", "s", "--details", expect=None).out
    assert other.count("/home") == 0


@pytest.mark.covers("R4-42", "RD-08")
def test_every_record_has_one_word_and_the_words_add_up(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /robots\n")
    site.pages["/"] = html(
        "Home", "/a", "/b", "/missing", "/moved", "/robots", "/noindex", "/fails", "/edited",
        "/dies", "/goes", "/moves", "/hides",
    )  # fmt: skip
    clone = html("Clone", text="the same words again and again " * 10)
    site.pages["/a"] = site.pages["/b"] = clone
    site.pages["/moved"] = Page(redirect="/target")
    site.pages["/target"] = html("Target")
    site.pages["/noindex"] = html("No", head='<meta name="robots" content="noindex">')
    site.pages["/fails"] = html("Fails")
    site.pages["/edited"] = html("Edited", "/unlinked", text="one")
    site.pages["/unlinked"] = html("Unlinked")
    site.pages |= {path: html(path) for path in ("/dies", "/goes", "/moves", "/hides")}
    crawl(site.url("/"))
    assert crawl.counts_add_up()
    site.pages["/edited"] = html("Edited", "/fresh", text="two")
    site.pages["/fresh"] = html("Fresh")
    site.pages["/fails"] = Page("x", status=500)
    site.pages["/dies"] = Page("x", status=403)
    site.pages["/goes"] = Page("x", status=410)
    site.pages["/moves"] = Page(redirect="/target")
    site.pages["/hides"] = html("Hides", head='<meta name="robots" content="noindex">')

    crawl(site.url("/"), settings={"RETRY_TIMES": 0}, lost_threshold=1)

    run = crawl.runs()[0]
    assert {word: run[word] for word in WORDS if run[word]} == {
        "new": 1, "modified": 1, "unchanged": 4, "redirected": 2, "failed": 2, "lost": 1,
        "gone": 1, "excluded": 3, "orphaned": 1,
    }  # fmt: skip
    assert crawl.counts_add_up()
    assert run["requests"] == 14

    for _ in range(2):
        crawl(site.url("/"), settings={"RETRY_TIMES": 0})
        assert crawl.counts_add_up()

    run = crawl.runs()[0]
    assert {word: run[word] for word in WORDS if run[word]} == {
        "unchanged": 6, "redirected": 2, "failed": 2, "lost": 1, "gone": 1, "excluded": 3,
        "deleted": 1,
    }  # fmt: skip
    assert run["requests"] == 15, "one of them looked at what is not linked any more"
