"""REDIRECT_MAX_TIMES: how many redirects are followed; a limit removes nothing."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

#: What ages goes in its first run, whatever the error.
AT_ONCE = {
    "LOST_THRESHOLD": "1",
    "ORPHAN_THRESHOLD": "1",
    "LOST_PURGE_STATUSES": "*",
    "SWEEP_MAX_RATIO": "1",
}


def chain(site: Site, hops: int, *, status: int = 301) -> None:
    """A page that leads over some redirects to an end, which has a page of its own."""
    site.pages["/"] = html("Home", "/0")
    for n in range(hops):
        site.pages[f"/{n}"] = Page(redirect=f"/{n + 1}", status=status)
    site.pages[f"/{hops}"] = html("End", "/behind", text="treasure")
    site.pages["/behind"] = html("Behind", text="second")


def asked(site: Site) -> set[str]:
    paths = {request.path for request in site.log} - {"/robots.txt"}
    site.clear()
    return paths


@pytest.mark.long(but=3)
@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("most", "expected"),
    [(0, {"/", "/0"}), (1, {"/", "/0", "/1"}), (2, {"/", "/0", "/1", "/2"}),
     (3, {"/", "/0", "/1", "/2", "/3", "/behind"}), (20, {"/", "/0", "/1", "/2", "/3", "/behind"})],
)  # fmt: skip
def test_no_more_redirects_are_followed_than_the_setting_permits(
    site: Site, crawl: Crawl, most: int, expected: set[str]
):
    chain(site, 3)
    crawl.environment["REDIRECT_MAX_TIMES"] = str(most)

    crawl(site.url("/"))

    assert asked(site) == expected
    pages = crawl.pages()
    assert set(pages) == expected, "what is not followed is not registered"
    moved = [path for path in ("/0", "/1", "/2") if path in pages]
    assert {pages[path]["lastOutcome"] for path in moved} == {"redirected"}
    assert pages["/0"]["httpStatusCode"] == 301
    [(target,)] = crawl.rows("SELECT redirect_target FROM record WHERE url LIKE '%/0'")
    assert target == site.url("/1")
    [run] = crawl.runs()
    assert (run["complete"], run["reasons"]) == (True, [])

    crawl(site.url("/"))  # the stored redirects lead no further, either

    assert asked(site) == expected
    crawl.environment["REDIRECT_MAX_TIMES"] = "5"

    crawl(site.url("/"))

    assert asked(site) == {"/", "/0", "/1", "/2", "/3", "/behind"}
    assert crawl.hits("treasure") == ["/3"]


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize("later", [1, 4])
def test_a_later_link_to_a_page_within_a_chain_counts_in_the_same_run(
    site: Site, crawl: Crawl, later: int
):
    """Whether the page was asked before that link was met, or not."""
    chain(site, 6)
    site.pages["/"] = html("Home", "/0", "/l1")
    for n in range(1, later):
        site.pages[f"/l{n}"] = html(f"Later {n}", f"/l{n + 1}")
    site.pages[f"/l{later}"] = html("Last", "/1", "/3")
    crawl.environment["REDIRECT_MAX_TIMES"] = "1"
    on_the_way = {f"/l{n}" for n in range(1, later + 1)}

    for _ in range(2):
        crawl(site.url("/"))

        assert asked(site) == {"/", *on_the_way, "/0", "/1", "/2", "/3", "/4"}
        assert crawl.runs()[0]["complete"]
    crawl.environment["REDIRECT_MAX_TIMES"] = "2"

    crawl(site.url("/"))

    assert asked(site) == {"/", *on_the_way, "/0", "/1", "/2", "/3", "/4", "/5"}
    assert crawl.hits("treasure") == []


@pytest.mark.covers("R2-21")
def test_a_longer_chain_is_followed_to_its_end(site: Site, crawl: Crawl):
    """Six hops are too many by default, and seven are not with a limit of seven."""
    site.pages["/0"] = html("Old", text="treasure")
    site.pages["/"] = html("Home", "/0")
    crawl.environment |= {"REDIRECT_MAX_TIMES": "7", **AT_ONCE}
    crawl(site.url("/"))
    chain(site, 7)

    crawl(site.url("/"))

    assert crawl.hits("treasure") == ["/7"]
    pages = crawl.pages()
    assert (pages["/0"]["lastOutcome"], pages["/0"]["status"]) == ("redirected", "Crawled")
    crawl.environment["REDIRECT_MAX_TIMES"] = "6"
    site.clear()

    crawl(site.url("/"), expect=3)

    assert "/7" not in asked(site)
    assert crawl.pages()["/0"]["httpStatusCode"] == 1004
    assert crawl.hits("treasure") == ["/7"], "it is behind a redirect that was not followed"
    assert crawl.runs()[0]["reasons"] == [f"redirects_left: {site.url('/7')}"]


@pytest.mark.long(but=2)
@pytest.mark.covers("R2-21", "U-06", "RD-07")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_page_whose_redirect_is_not_followed_stays(site: Site, crawl: Crawl, status: int):
    """Nothing is known of the target, so that nothing speaks against the stored page."""
    site.pages["/"] = html("Home", "/0", "/other")
    site.pages["/0"] = html("Old", "/child", text="treasure")
    site.pages["/child"] = html("Child", text="third")
    site.pages["/other"] = html("Other", text="fourth")
    crawl.environment |= AT_ONCE
    crawl(site.url("/"))
    site.pages["/0"] = Page(redirect="/new", status=status)
    site.pages["/new"] = html("New", text="fifth")
    site.clear()
    crawl.environment["REDIRECT_MAX_TIMES"] = "0"

    for _ in range(3):
        crawl(site.url("/"))

        assert asked(site) == {"/", "/0", "/child", "/other"}
        page = crawl.pages()["/0"]
        assert (page["lastOutcome"], page["status"]) == ("redirected", "Indexed")
        assert (page["lostCount"], page["goneCount"]) == (0, 0)
        assert crawl.hits("treasure") == ["/0"]
        assert crawl.runs()[0]["complete"], "stored links of the page stay in force"
    crawl.environment["REDIRECT_MAX_TIMES"] = "1"

    crawl(site.url("/"))  # now the target answers

    assert crawl.hits("treasure") == []
    assert crawl.hits("fifth") == ["/new"]


@pytest.mark.covers("R2-21", "U-06")
@pytest.mark.parametrize("status", [301, 302])
def test_a_target_that_other_pages_link_to_is_evidence(site: Site, crawl: Crawl, status: int):
    site.pages["/"] = html("Home", "/0", "/new")
    site.pages["/0"] = html("Old", text="treasure")
    site.pages["/new"] = html("New", text="fifth")
    crawl.environment |= {**AT_ONCE, "REDIRECT_MAX_TIMES": "0"}
    crawl(site.url("/"))
    site.pages["/0"] = Page(redirect="/new", status=status)

    crawl(site.url("/"))

    assert crawl.hits("treasure") == []
    assert crawl.pages()["/0"]["lastOutcome"] == "redirected"


@pytest.mark.covers("R2-21", "RD-07")
@pytest.mark.parametrize("hops", [1, 3])
def test_stored_pages_behind_a_redirect_that_is_not_followed_stay(
    site: Site, crawl: Crawl, hops: int
):
    """They were reached by it before; the run says that it misses them, and ages no page."""
    chain(site, hops)
    crawl.environment |= AT_ONCE
    crawl(site.url("/"))
    assert crawl.hits("treasure") == [f"/{hops}"]
    site.clear()
    crawl.environment["REDIRECT_MAX_TIMES"] = "0"

    for _ in range(3):
        result = crawl(site.url("/"), expect=3)

        assert asked(site) == {"/", "/0"}
        assert f"redirects_left: {site.url(f'/{hops}')}" in result.out + result.err
        run = crawl.runs()[0]
        assert run["reasons"] == [f"redirects_left: {site.url(f'/{hops}')}"]
        assert crawl.hits("treasure") == [f"/{hops}"]
        assert crawl.hits("second") == ["/behind"]
    crawl.environment["REDIRECT_MAX_TIMES"] = "5"

    crawl(site.url("/"))

    assert crawl.runs()[0]["complete"]


@pytest.mark.covers("R2-21", "R0-41")
def test_a_redirect_to_another_spelling_counts_within_its_visit(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/dir")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Dir", text="treasure")
    crawl.environment |= AT_ONCE
    crawl(site.url("/"))
    assert crawl.hits("treasure") == ["/dir/"]
    site.clear()
    site.pages["/"] = html("Home", "/dir", text="changed")
    crawl.rows("UPDATE record SET url = replace(url, '/dir/', '/dir')")  # as it was linked
    crawl.environment["REDIRECT_MAX_TIMES"] = "0"

    for _ in range(2):
        crawl(site.url("/"))

        assert asked(site) == {"/", "/dir"}
        assert len(crawl.hits("treasure")) == 1
        page = next(page for path, page in crawl.pages().items() if path.startswith("/dir"))
        assert (page["lastOutcome"], page["lostCount"]) == ("redirected", 0)


@pytest.mark.covers("R2-21", "RD-07")
def test_a_seed_that_redirects_has_not_answered(site: Site, crawl: Crawl):
    chain(site, 1)
    crawl.environment["REDIRECT_MAX_TIMES"] = "0"

    crawl(site.url("/0"), expect=3)

    assert asked(site) == {"/0"}
    [reason] = crawl.runs()[0]["reasons"]
    assert reason == f"seed_failed: {site.url('/0')} (redirected to {site.url('/1')})"


@pytest.mark.parametrize("value", ["-1", "21", "many", "1.5", ""])
def test_a_limit_out_of_range_is_refused_before_the_first_request(
    site: Site, crawl: Crawl, value: str
):
    chain(site, 1)

    result = crawl.run(
        "crawl", "site", "-a", f"url={site.url('/')}", "-s", f"REDIRECT_MAX_TIMES={value}", expect=1
    )

    assert f"REDIRECT_MAX_TIMES is '{value}': expected a whole number from 0 to 20" in result.err
    assert site.log == []
