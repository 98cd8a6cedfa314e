"""A lone page that shrinks is an edit; what many pages shrink to, or two alike, is a failure.

What kills and other workers do to the decision is in tests/crawls/test_crawl_collapse_killed.py.

Source: ADR 37.
"""

import json
from dataclasses import replace

import pytest

from tests.crawls.collapsing import LONG, PAGES, build, long, shop, short, shrink
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

__all__ = ["shop"]  # a fixture


def test_a_lone_page_that_shrinks_is_an_edit(shop: Site, crawl: Crawl):
    shrink(shop, 1)
    result = crawl(shop.url("/"))

    record = crawl.pages()["/p0"]
    assert (record["status"], record["httpStatusCode"], record["lastOutcome"]) == (
        "Indexed", 200, "modified",
    )  # fmt: skip
    assert record["errorMessage"] is None
    assert crawl.hits('"closed bakery"') == ["/p0"]
    assert crawl.hits('"Number 0"') == []
    assert shop.count("/p0") == 1, "no second request"
    assert "1 page shrank to less than a tenth of its text; taken as an edit" in result.out
    assert "not used" not in result.out
    [run, _] = crawl.runs()
    assert (run["complete"], run["reasons"]) == (True, [])
    assert sum(run[word] for word in ("new", "modified", "unchanged", "orphaned")) == 48
    shop.clear()
    crawl(shop.url("/"))
    assert crawl.outcomes()["/p0"] == "unchanged"
    assert [r.status for r in shop.log if r.path == "/p0"] == [304], "its validators are the new"


def test_the_links_of_an_edit_are_followed_and_its_old_ones_are_not(shop: Site, crawl: Crawl):
    shrink(shop, 1)
    crawl(shop.url("/"))

    outcomes = crawl.outcomes()
    assert (outcomes["/fresh0"], outcomes["/old0"], outcomes["/old1"]) == (
        "new", "orphaned", "unchanged",
    )  # fmt: skip
    assert shop.count("/old0") == 0
    assert crawl.hits("recent") == ["/fresh0"]


@pytest.mark.parametrize("count", [3, 4])
def test_three_pages_are_edits_and_four_of_a_small_run_are_not(
    shop: Site, crawl: Crawl, count: int
):
    shrink(shop, count)
    result = crawl(shop.url("/"))

    outcomes = crawl.outcomes()
    if count == 3:
        assert [outcomes[path] for path in PAGES[:4]] == [*["modified"] * 3, "unchanged"]
        assert crawl.hits("closed") == ["/p0", "/p1", "/p2"]
        assert "3 pages shrank" in result.out
        return
    assert [outcomes[path] for path in PAGES[:5]] == [*["failed"] * 4, "unchanged"]
    assert [outcomes[f"/old{n}"] for n in range(5)] == ["unchanged"] * 5, "old links are in force"
    assert crawl.hits("closed") == []
    assert "collapsed: 4 pages, such as" in result.out
    assert crawl.runs()[0]["failed"] == 4
    assert "shrank" not in result.out


@pytest.mark.long
def test_one_in_a_hundred_is_an_edit_in_a_large_run(site: Site, crawl: Crawl):
    build(site)
    site.ignores_conditions = True
    site.pages["/"] = html("Home", *PAGES, *(f"/more{n}" for n in range(392)))
    for n in range(392):
        site.pages[f"/more{n}"] = html(f"More {n}", text=f"plain {n}")
    crawl(site.url("/"))
    shrink(site, 4)
    crawl(site.url("/"))

    assert [crawl.outcomes()[path] for path in PAGES[:4]] == ["modified"] * 4


def test_two_pages_that_shrink_to_the_same_text_are_withheld(shop: Site, crawl: Crawl):
    for path in PAGES[:2]:
        shop.pages[path] = html("Sorry", text="under maintenance")
    shop.pages["/p2"] = short(2, "/fresh2")
    result = crawl(shop.url("/"))

    outcomes = crawl.outcomes()
    assert [outcomes[path] for path in PAGES[:3]] == ["failed"] * 3
    assert [outcomes[f"/old{n}"] for n in range(3)] == ["unchanged"] * 3
    assert crawl.hits("maintenance") == crawl.hits("closed") == []
    assert "collapsed: 3 pages" in result.out
    record = crawl.pages()["/p0"]
    assert record["httpStatusCode"] == 1214
    assert "characters remain" in record["errorMessage"]
    assert crawl.rows("SELECT count(*) FROM collapse") == [(0,)]


@pytest.mark.parametrize("count", [2, 3])
def test_a_captcha_that_names_each_request_replaces_no_page_of_a_small_site(
    site: Site, crawl: Crawl, count: int
):
    """The pages of so small a site would be edits, and leave orphans behind."""
    site.pages["/"] = html("Home", *PAGES[1:count], text=2 * LONG)
    for n in range(1, count):
        site.pages[PAGES[n]] = html(f"P{n}", text=f"Number {n}. {2 * LONG}")
    crawl(site.url("/"))
    for n, path in enumerate(list(site.pages)):
        request = f"Request id {0x8F3AC2E1 + n:08x}, Ray ID: 7a{n}c-d1, 07:14:0{n} UTC"
        site.pages[path] = html("Just checking", text=f"Prove that you are human. {request}")
    crawl(site.url("/"), expect=3)  # as always when a seed brought nothing

    assert crawl.outcomes() == dict.fromkeys(["/", *PAGES[1:count]], "failed")
    assert crawl.hits("human") == []
    assert len(crawl.hits("lamps")) == count


def test_two_pages_that_shrink_to_texts_with_other_numbers_wait_for_the_third_run(
    shop: Site, crawl: Crawl
):
    for n in range(2):
        shop.pages[PAGES[n]] = html("P", text=f"Part {n + 1}")
    for outcome in ("failed", "failed", "modified"):
        crawl(shop.url("/"))
        assert [crawl.outcomes()[path] for path in PAGES[:2]] == [outcome] * 2


def test_a_seed_keeps_its_links_while_it_waits_so_that_a_whole_site_is_seen(
    site: Site, crawl: Crawl
):
    build(site)
    site.pages["/"] = html("Home", *PAGES, text=LONG)
    crawl(site.url("/"))
    for path in ["/", *PAGES]:
        site.pages[path] = html("Sorry", text="under maintenance")
    crawl(site.url("/"), expect=3)  # as always when a seed brought nothing

    assert crawl.hits("maintenance") == []
    assert {crawl.outcomes()[path] for path in ["/", *PAGES]} == {"failed"}
    assert "orphaned" not in crawl.outcomes().values()


def test_what_is_found_behind_an_edit_is_decided_no_more(shop: Site, crawl: Crawl):
    """One step a run: the second page that shrinks is reached by the first one's new link only."""
    shop.pages["/p7"] = long(7, "/hidden")
    shop.pages["/hidden"] = long(70, "/below")
    shop.pages["/below"] = html("Below", text="the bottom")
    crawl(shop.url("/"))
    shop.pages["/p7"] = short(7, "/middle")
    shop.pages["/middle"] = html("Middle", "/hidden", text="in the middle")
    shop.pages["/hidden"] = short(70)
    crawl(shop.url("/"))

    outcomes = crawl.outcomes()
    assert (outcomes["/p7"], outcomes["/middle"]) == ("modified", "new")
    assert (outcomes["/hidden"], outcomes["/below"]) == ("failed", "unchanged")
    crawl(shop.url("/"))
    assert crawl.outcomes()["/hidden"] == "modified"


def test_an_order_is_taken_at_once_among_pages_that_are_withheld(shop: Site, crawl: Crawl):
    shrink(shop, 5)
    crawl.run("reindex", "--url", shop.url("/p0"))
    crawl(shop.url("/"))

    assert [crawl.outcomes()[path] for path in PAGES[:5]] == ["modified", *["failed"] * 4]


def test_a_page_that_goes_back_and_forth_is_taken_at_once(shop: Site, crawl: Crawl):
    original = shop.pages["/p0"]
    shrink(shop, 1)
    crawl(shop.url("/"))
    shop.pages["/p0"] = original
    crawl(shop.url("/"))
    assert crawl.hits('"Number 0"') == ["/p0"]
    shrink(shop, 5)  # too many, if it was not known
    result = crawl(shop.url("/"))

    assert [crawl.outcomes()[path] for path in PAGES[:5]] == ["modified", *["failed"] * 4]
    assert "shrank" not in result.out


def test_a_text_that_a_page_had_six_texts_ago_is_forgotten(shop: Site, crawl: Crawl):
    former = short(0)
    shop.pages["/p0"] = former
    crawl(shop.url("/"))
    for n in range(5):
        shop.pages["/p0"] = long(0).replace("Number 0", f"Edition {n}")
        crawl(shop.url("/"))
        [row] = crawl.rows("SELECT count(*), count(fifth) FROM former_text")
        assert row == (1, int(n >= 3)), "one row a page"
    shop.pages["/p0"] = html("Home", text="closed for good")
    shrink(shop, 5)
    shop.pages["/p0"] = former
    crawl(shop.url("/"))
    assert crawl.outcomes()["/p0"] == "modified", "it is the fifth"
    shop.pages["/p0"] = long(0).replace("Number 0", "Edition 5")
    crawl(shop.url("/"))
    assert crawl.outcomes()["/p0"] == "modified"


def test_nothing_is_noted_of_pages_that_are_new_or_unchanged(shop: Site, crawl: Crawl):
    crawl(shop.url("/"))

    assert crawl.rows("SELECT count(*) FROM former_text") == [(0,)]


@pytest.mark.parametrize("store", ["off", ""])
def test_the_body_of_an_edit_is_stored_like_any_other(site: Site, crawl: Crawl, store: str):
    crawl.environment["SNAPSHOT_STORE"] = store
    build(site)
    crawl(site.url("/"))
    shrink(site, 1)
    crawl(site.url("/"))

    assert crawl.outcomes()["/p0"] == "modified"
    found = crawl.rows(
        "SELECT r.snapshot IS NOT NULL, s.attempts FROM record r JOIN state s USING (no)"
        " WHERE r.url LIKE '%/p0'"
    )
    assert [(bool(stored), attempts) for stored, attempts in found] == [(store == "", 2)]


def test_why_tells_that_a_page_waited(shop: Site, crawl: Crawl):
    shrink(shop, 1)
    crawl(shop.url("/"))
    [story] = json.loads(crawl.run("why", "--format", "json", shop.url("/p0")).out)["records"]

    waited, taken = story["history"][-2:]
    assert (waited["lastOutcome"], waited["httpStatusCode"]) == ("failed", 1214)
    assert "characters remain" in waited["detail"]
    assert (taken["lastOutcome"], taken["httpStatusCode"]) == ("modified", 200)
    assert taken["detail"].startswith("an edit: few pages shrank")


def test_a_run_that_is_cut_decides_as_well(shop: Site, crawl: Crawl):
    shrink(shop, 1)
    crawl(shop.url("/"), max_pages=45, expect=3)

    assert crawl.outcomes()["/p0"] == "modified"


def test_an_edit_of_a_small_site_leaves_its_run_complete(site: Site, crawl: Crawl):
    """It was counted as a visit without an answer, which must be few."""
    site.pages["/"] = html("Home", "/p0", "/p1")
    site.pages["/p0"], site.pages["/p1"] = long(0), long(1)
    crawl(site.url("/"))
    shrink(site, 2)
    for n in range(2):
        site.pages[PAGES[n]] = short(n)
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/p0": "modified", "/p1": "modified"}
    assert crawl.rows("SELECT unreachable, visits FROM run ORDER BY no DESC LIMIT 1") == [(0, 3)]


def test_an_edit_that_is_no_page_any_more_is_excluded(shop: Site, crawl: Crawl):
    """What is not to be indexed does not wait."""
    hidden = '<meta name="robots" content="noindex">'
    shop.pages["/p0"] = html("P0", text="closed", head=hidden)
    crawl(shop.url("/"))

    assert crawl.outcomes()["/p0"] == "excluded"


def test_a_header_of_the_answer_that_waited_counts(shop: Site, crawl: Crawl):
    """X-Robots-Tag: nofollow, so that the links of the edit are not followed."""
    page = Page(short(0, "/fresh0"), headers={"X-Robots-Tag": "nofollow"})
    shop.pages["/p0"] = replace(page, etag='"of the edit"')
    crawl(shop.url("/"))

    assert crawl.outcomes()["/p0"] == "modified"
    assert "/fresh0" not in crawl.outcomes()
    assert crawl.rows("SELECT etag FROM record WHERE url LIKE '%/p0'") == [('"of the edit"',)]
