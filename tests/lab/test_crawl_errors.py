"""A page that answers an error keeps what is held of it, and its links stay in force."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.held import HTTP_ERRORS, QUICK, hubs, shows_held, shows_recovered
from tests.site_server import Page, Site, html


@pytest.mark.covers(
    "R4-01", "R4-02", "R4-04", "R4-05", "R4-27", "R4-38", "R4-43", "R4-45", "RD-05", "RD-09",
    "U-08", "U-10", "U-12", "U-19", "U-20", "R0-05", "M-08",
)  # fmt: skip
def test_a_known_page_that_answers_an_error_stays_held_and_its_links_stay_in_force(
    site: Site, crawl: Crawl
):
    """Trap 2 as well: whoever fails vouches for its links."""
    names = list(HTTP_ERRORS)
    hubs(site, names, others=20)  # so that 500, 503, 429 and nowhere are less than 10 %
    crawl(site.url("/"))
    before = crawl.pages()
    healthy = {name: site.pages[f"/{name}"] for name in names}
    for name, (page, *_) in HTTP_ERRORS.items():
        site.pages[f"/{name}"] = page

    crawl(site.url("/"), settings=QUICK)

    shows_held(crawl, {name: facts[2:] for name, facts in HTTP_ERRORS.items()}, before)
    for name, (_, status, *_) in HTTP_ERRORS.items():
        assert crawl.pages()[f"/{name}"]["httpStatusCode"] == status
    run = crawl.runs()[0]
    assert (run["lost"], run["failed"]) == (8, 4)
    site.pages |= {f"/{name}": page for name, page in healthy.items()}
    site.clear()

    crawl(site.url("/"), settings=QUICK)

    shows_recovered(crawl, site, names)


@pytest.mark.covers("R4-08", "R4-09", "U-17", "RD-07")
def test_an_unreached_page_is_orphaned_stays_searchable_and_ages_in_complete_runs_only(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/a", "/b", "/lonely")
    site.pages["/a"] = html("A")
    site.pages["/b"] = html("B")
    site.pages["/lonely"] = html("Lonely", "/lonely/child", text="nobody visits")
    site.pages["/lonely/child"] = html("Child of lonely", text="nor me")
    crawl(site.url("/"))
    linked = site.pages["/"]
    site.pages["/"] = html("Home", "/a", "/b")

    def age() -> tuple[str, str, int]:
        page = crawl.pages()["/lonely"]
        assert crawl.hits("nobody visits") == ["/lonely"]
        return page["lastOutcome"], page["status"], page["orphanAge"]

    crawl(site.url("/"))
    assert age() == ("orphaned", "Indexed", 1)
    assert crawl.outcomes()["/lonely/child"] == "orphaned"
    crawl(site.url("/"), max_pages=1, expect=3)
    assert age() == ("orphaned", "Indexed", 1)
    crawl(site.url("/"))
    assert age() == ("orphaned", "Indexed", 2)
    assert crawl.runs()[0]["orphaned"] == 2
    site.clear()
    site.pages["/"] = linked

    crawl(site.url("/"))

    assert age() == ("unchanged", "Indexed", 0)
    assert crawl.outcomes()["/lonely/child"] == "unchanged"
    assert site.count("/lonely") == 1
    site.pages["/"] = html("Home", "/a", "/b")

    for complete in (1, 2):
        crawl(site.url("/"))
        assert age() == ("orphaned", "Indexed", complete)
    site.clear()

    result = crawl(site.url("/"))  # the third in a row

    pages = crawl.pages()
    for path in ("/lonely", "/lonely/child"):
        page = pages[path]
        assert (page["lastOutcome"], page["status"]) == ("deleted", "OutOfScope")
        assert (page["contentHash"], page["httpEtag"], page["orphanAge"]) == (None, None, 0)
        assert site.count(path) == 1, "looked at once before it goes"
    assert crawl.hits("nobody visits") == []
    assert (crawl.runs()[0]["deleted"], crawl.runs()[0]["orphaned"]) == (2, 0)
    assert "2 removed" in result.out
    assert crawl.counts_add_up()


def test_a_seed_that_fails_makes_the_run_incomplete_and_orphans_nobody(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", "/b")
    site.pages["/b"] = html("B")
    crawl(site.url("/"))
    site.pages["/"] = Page("gone", status=404)

    result = crawl(site.url("/"), expect=3)

    assert crawl.outcomes() == {"/": "lost", "/a": "unchanged", "/b": "unchanged"}
    [run, _] = crawl.runs()
    assert not run["complete"]
    assert any(reason.startswith("seed_failed") for reason in run["reasons"])
    assert site.url("/") in result.out
