"""What was edited, added, linked or ordered anew is found by the next run."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


def asked(site: Site) -> dict[str, int]:
    """Status of each answer, robots.txt left out."""
    return {request.path: request.status for request in site.log if request.path != "/robots.txt"}


@pytest.mark.covers(
    "R0-40", "R0-92", "R1-02", "R1-07", "R1-16", "R1-17", "R1-20", "R1-21", "R1-33", "R4-08",
    "R4-36", "U-04", "U-17",
)  # fmt: skip
def test_edited_added_and_newly_linked_pages_are_found_by_the_next_run(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/edited", "/hub", "/dropped")
    site.pages["/edited"] = html("Edited", text="the elephant sleeps")
    site.pages["/hub"] = html("Hub", "/still")
    site.pages["/still"] = html("Still", text="nothing moves")
    site.pages["/dropped"] = html("Dropped", text="forgotten lines")
    site.pages["/waiting"] = html("Waiting", text="was there, not linked")
    crawl(site.url("/"))
    before = crawl.pages()
    site.pages["/"] = html("Home", "/edited", "/hub", "/added", "/waiting")
    site.pages["/edited"] = html("Edited again", "/child", text="the giraffe wakes")
    site.pages["/child"] = html("Child", text="linked by the edited page")
    site.pages["/added"] = html("Added", text="fresh paint")
    site.clear()

    crawl(site.url("/"))

    assert crawl.outcomes() == {
        "/": "modified",
        "/edited": "modified",
        "/hub": "unchanged",
        "/still": "unchanged",
        "/added": "new",
        "/waiting": "new",
        "/child": "new",
        "/dropped": "orphaned",
    }
    assert asked(site) == {
        "/": 200, "/edited": 200, "/hub": 304, "/still": 304,
        "/added": 200, "/waiting": 200, "/child": 200,
    }  # fmt: skip
    after = crawl.pages()
    assert after["/edited"]["contentHash"] != before["/edited"]["contentHash"]
    assert after["/edited"]["firstSeen"] == before["/edited"]["firstSeen"]
    assert after["/edited"]["id"] == before["/edited"]["id"]
    assert after["/still"]["lastChanged"] == before["/still"]["lastChanged"]
    assert crawl.hits("giraffe") == ["/edited"]
    assert crawl.hits("elephant") == []
    assert crawl.hits("paint") == ["/added"]
    assert crawl.hits("forgotten") == ["/dropped"]
    assert crawl.counts_add_up()
    numbers = "SELECT count(*) FROM chunk WHERE content NOT IN (SELECT no FROM content)"
    assert crawl.rows(numbers) == [(0,)]


@pytest.mark.covers("R0-06", "R0-56", "R0-98", "RP-07", "M-13", "R0-93")
def test_force_downloads_every_page_without_validators_and_invents_no_change(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/a", "/b", "/c", "/no")
    site.pages["/a"] = Page(html("A", text="alpha"), last_modified="Mon, 05 Jan 2026 10:00:00 GMT")
    site.pages["/b"] = html("B", text="beta")
    site.pages["/c"] = html("C", text="gamma")
    site.pages["/no"] = html("No", head='<meta name="robots" content="noindex">')
    crawl(site.url("/"))
    before = crawl.pages()
    site.pages["/c"] = html("C", text="delta")
    site.clear()

    crawl(site.url("/"), force=1)

    assert asked(site) == dict.fromkeys(["/", "/a", "/b", "/c", "/no"], 200)
    assert not any({"if-none-match", "if-modified-since"} & r.headers.keys() for r in site.log)
    assert crawl.outcomes() == {
        "/": "unchanged", "/a": "unchanged", "/b": "unchanged", "/c": "modified", "/no": "excluded"
    }  # fmt: skip
    after = crawl.pages()
    for key in ("contentHash", "lastChanged", "httpEtag", "httpLastModified"):
        assert after["/a"][key] == before["/a"][key]
    assert [crawl.hits(word) for word in ("alpha", "beta", "gamma", "delta")] == [
        ["/a"], ["/b"], [], ["/c"]
    ]  # fmt: skip
    assert crawl.runs()[0]["unchanged"] == 3
    site.clear()

    crawl(site.url("/"))

    assert set(asked(site).values()) == {304}


@pytest.mark.covers("R1-22", "R1-23", "M-24")
def test_depth_is_the_smallest_ever_found_while_the_page_stays_reached(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/1")
    for n in range(1, 5):
        site.pages[f"/{n}"] = html(f"Page {n}", f"/{n + 1}")
    site.pages["/5"] = html("End")

    def depths() -> list[int]:
        pages = crawl.pages()
        return [pages[path]["depth"] for path in ("/", "/1", "/2", "/3", "/4", "/5")]

    crawl(site.url("/"))
    assert depths() == [0, 1, 2, 3, 4, 5]

    site.pages["/"] = html("Home", "/1", "/3")
    crawl(site.url("/"))
    assert depths() == [0, 1, 2, 1, 2, 3]

    site.pages["/"] = html("Home", "/1")  # reached from further away, but reached all the time
    crawl(site.url("/"))
    assert depths() == [0, 1, 2, 1, 2, 3]

    crawl(site.url("/"), force=1)
    assert depths() == [0, 1, 2, 3, 4, 5]


@pytest.mark.covers("R4-18", "R1-19")
def test_links_of_an_edited_page_replace_the_stored_ones(site: Site, crawl: Crawl):
    more = dict.fromkeys(("/a", "/b"), "unchanged")  # else half of the site would go
    for path in more:
        site.pages[path] = html(path)
    site.pages["/"] = html("Home", "/old", *more)
    site.pages["/old"] = html("Old")
    site.pages["/new"] = html("New")
    crawl(site.url("/"))
    site.pages["/"] = html("Home", "/new", *more)
    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "modified", "/old": "orphaned", "/new": "new"} | more

    crawl(site.url("/"))  # now replayed: the new links, not the first ones

    assert crawl.outcomes() == {"/": "unchanged", "/old": "orphaned", "/new": "unchanged"} | more
    assert crawl.pages()["/old"]["orphanAge"] == 2
    assert site.count("/old") == 1

    crawl(site.url("/"))  # the third complete run that does not reach it looks at it, and it goes

    assert crawl.outcomes() == {"/": "unchanged", "/old": "deleted", "/new": "unchanged"} | more
    looks = [request for request in site.log if request.path == "/old"][1:]
    assert [(r.status, "if-none-match" in r.headers) for r in looks] == [(304, True)]
    assert crawl.hits("old") == []
