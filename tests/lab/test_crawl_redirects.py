"""Redirects: to another spelling of the same page within the visit, to another page as a link."""

from itertools import pairwise
from pathlib import Path

import pytest

from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.sources.declared import ad_hoc_site_source
from tests.choices import options
from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html


@pytest.mark.covers("R0-41", "R0-99", "R1-26")
def test_a_directory_without_its_slash_is_followed_within_the_visit(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/dir", "/dir/deep")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Dir", "page", text="the directory")
    site.pages["/dir/deep"] = Page(redirect="/dir/deep/", status=308)
    site.pages["/dir/deep/"] = html("Deep", "page", text="the deep directory")
    site.pages["/dir/page"] = html("Page of dir")
    site.pages["/dir/deep/page"] = html("Page of deep")
    crawl(site.url("/"))

    paths = {"/", "/dir/", "/dir/deep/", "/dir/page", "/dir/deep/page"}
    pages = crawl.pages()
    assert set(pages) == paths
    assert {page["lastOutcome"] for page in pages.values()} == {"new"}
    assert pages["/dir/"]["depth"] == 1
    assert pages["/dir/page"]["depth"] == 2
    assert [site.count(path) for path in ("/dir", "/dir/", "/dir/deep", "/dir/deep/")] == [1] * 4
    assert crawl.runs()[0]["requests"] == 7
    site.clear()

    crawl(site.url("/"))

    assert {r.path: r.status for r in site.log if r.path != "/robots.txt"} == dict.fromkeys(
        paths, 304
    )
    assert set(crawl.outcomes().values()) == {"unchanged"}


@pytest.mark.covers("R4-33", "R4-37", "U-06", "M-21")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_recorded_and_its_target_is_offered_at_the_same_depth(
    site: Site, crawl: Crawl, status: int
):
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page("moved", redirect="new#part", status=status)
    site.pages["/new"] = html("New", "/child", text="arrived")
    site.pages["/child"] = html("Child")

    crawl(site.url("/"))

    pages = crawl.pages()
    assert set(pages) == {"/", "/old", "/new", "/child"}
    old = pages["/old"]
    assert (old["lastOutcome"], old["status"]) == ("redirected", "Crawled")
    assert old["httpStatusCode"] == status
    assert old["contentHash"] is None
    assert (old["depth"], pages["/new"]["depth"], pages["/child"]["depth"]) == (1, 1, 2)
    assert crawl.hits("arrived") == ["/new"]
    assert [site.count(path) for path in ("/old", "/new")] == [1, 1]
    assert crawl.runs()[0]["redirected"] == 1


NOINDEX = '<meta name="robots" content="noindex">'


@pytest.mark.long(but=3)
@pytest.mark.covers("M-21", "R4-05", "U-06")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["noindex", "missing", "outside"])
def test_a_held_page_whose_redirect_leads_to_nothing_indexed_stays_held_and_searchable(
    site: Site, crawl: Crawl, status: int, target: str
):
    """Temporary ones, those that left the source, and those to a 404 are lost; others wait."""
    site.pages["/"] = html("Home", "/page")
    site.pages["/page"] = html("Page", "/child", text="treasure")
    site.pages["/child"] = html("Child")
    crawl(site.url("/"))
    before = crawl.pages()["/page"]
    healthy = site.pages["/page"]
    where = {"noindex": "/login", "missing": "/missing", "outside": "http://127.0.0.1:1/"}[target]
    site.pages["/page"] = Page(redirect=where, status=status)
    site.pages["/login"] = html("Please log in", head=NOINDEX)

    result = crawl(site.url("/"))

    page = crawl.pages()["/page"]
    away = target == "missing" or (target == "outside" and status in (301, 308))
    lost = away or status in (302, 303, 307)
    expected = ("lost", "Error", 1) if lost else ("redirected", "Indexed", 0)
    assert (page["lastOutcome"], page["status"], page["lostCount"]) == expected
    answered = 404 if target == "missing" else status
    assert (page["httpStatusCode"], page["effectiveStatus"]) == (answered, 200)
    assert page["goneCount"] == away
    for key in ("contentHash", "httpEtag", "bodyHash", "lastIndexed"):
        assert page[key] == before[key]
    assert [hit["lost"] for hit in crawl.search("treasure")] == [lost]
    assert ("not used" in result.out) is (lost and not away)
    assert crawl.outcomes()["/child"] == "unchanged"  # what is held vouches for its links
    site.pages["/page"] = healthy
    site.clear()

    crawl(site.url("/"))

    page = crawl.pages()["/page"]
    assert (page["lastOutcome"], page["status"], page["lostCount"]) == ("unchanged", "Indexed", 0)
    assert {r.path: r.status for r in site.log}["/page"] == 304
    assert crawl.counts_add_up()


@pytest.mark.long(but=3)
@pytest.mark.covers("M-21", "U-06", "RD-02", "RD-11", "M-22")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_held_page_that_moved_to_an_indexed_one_leaves_only_that(
    site: Site, crawl: Crawl, status: int
):
    site.pages["/"] = html("Home", "/page", "/stays")
    site.pages["/page"] = html("Page", "/child", "/stays", text="treasure")
    site.pages["/child"] = html("Child", text="of the old page only")
    site.pages["/stays"] = html("Stays")
    crawl(site.url("/"))
    before = crawl.pages()["/page"]
    healthy = site.pages["/page"]
    site.pages["/page"] = Page(redirect="/new#part", status=status)
    site.pages["/new"] = html("New", text="a treasure that moved")

    result = crawl(site.url("/"))

    page = crawl.pages()["/page"]
    assert (page["lastOutcome"], page["status"]) == ("redirected", "Crawled")
    assert (page["httpStatusCode"], page["effectiveStatus"]) == (status, status)
    held = ("httpEtag", "httpLastModified", "contentHash", "textHash", "bodyHash")
    assert [page[key] for key in held] == [None] * 5
    assert crawl.hits("treasure") == ["/new"]
    assert crawl.outcomes()["/new"] == "new"
    assert "1 removed" in result.out
    assert crawl.counts_add_up()
    site.clear()

    crawl(site.url("/"))  # its only link is its target now

    assert crawl.outcomes()["/child"] == "orphaned"
    assert crawl.outcomes()["/new"] == "unchanged"
    assert [r.status for r in site.log if r.path == "/page"] == [status]
    site.pages["/page"] = healthy
    site.clear()

    crawl(site.url("/"))

    page = crawl.pages()["/page"]
    assert (page["lastOutcome"], page["status"]) == ("new", "Indexed")
    assert page["firstSeen"] == before["firstSeen"]
    assert page["contentHash"] == before["contentHash"]
    asked = [r for r in site.log if r.path == "/page"]
    assert [(r.status, "if-none-match" in r.headers) for r in asked] == [(200, False)]
    assert crawl.outcomes()["/child"] == "unchanged"
    assert crawl.outcomes()["/new"] == "orphaned"


@pytest.mark.covers("R4-39", "R4-42", "U-12")
def test_circles_and_redirects_without_a_target_fail_and_end(site: Site, crawl: Crawl):
    others = [f"/other/{n}" for n in range(30)]  # so that four broken ones are less than 10 %
    site.pages |= {path: html(path) for path in others}
    broken = ("/circle", "/itself", "/nowhere", "/bad", "/x", "/chain/1")
    site.pages["/"] = html("Home", *broken, *others)
    site.pages["/circle"] = Page(redirect="/circle/")
    site.pages["/circle/"] = Page(redirect="/circle")
    site.pages["/itself"] = Page(redirect="/itself")
    site.pages["/nowhere"] = Page(status=302)
    site.pages["/bad"] = Page(redirect="http://[broken", status=302)
    site.pages["/x"] = Page(redirect="/y")
    site.pages["/y"] = Page(redirect="/x")
    for n in range(1, 9):
        site.pages[f"/chain/{n}"] = Page(redirect=f"/chain/{n + 1}")
    site.pages["/chain/9"] = html("End of the chain", text="found at last")

    result = crawl(site.url("/"))

    pages = crawl.pages()
    [circle] = [path for path in pages if path.startswith("/circle")]
    faults = {
        "/itself": 1002, "/nowhere": 1003, "/bad": 1003, circle: 1002, "/x": 1002, "/y": 1002,
        "/chain/1": 1004, "/chain/2": 1004, "/chain/3": 1004,
    }  # fmt: skip
    for path, fault in faults.items():
        page = pages[path]
        assert (page["lastOutcome"], page["status"]) == ("failed", "Error"), path
        assert page["httpStatusCode"] == fault, path
        assert page["errorMessage"]
    for n in range(4, 9):  # five hops to the end, and fewer
        page = pages[f"/chain/{n}"]
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("redirected", 301)
    assert "redirect_loops: 5" in result.out
    assert [site.count(path) for path in ("/x", "/y", "/itself")] == [1, 1, 1]
    assert crawl.hits("found at last") == ["/chain/9"]
    assert pages["/chain/9"]["depth"] == 1
    assert crawl.counts_add_up()


@pytest.mark.covers("M-21", "U-12")
def test_a_held_page_that_redirects_in_a_circle_is_lost_and_stays(site: Site, crawl: Crawl):
    """A redirect that cannot be followed ages as a header error (docs/decisions.md)."""
    chain = [f"/chain/{n}" for n in range(1, 7)]
    site.pages["/"] = html("Home", "/x", "/y", "/long")
    for path in ("/x", "/y", "/long"):
        site.pages[path] = html(path, text=f"treasure of {path}")
    crawl(site.url("/"))
    site.pages["/x"] = Page(redirect="/y")
    site.pages["/y"] = Page(redirect="/x")
    site.pages["/long"] = Page(redirect=chain[0])
    site.pages |= {path: Page(redirect=to) for path, to in pairwise(chain)}
    site.pages[chain[-1]] = html("End")

    crawl(site.url("/"))
    crawl(site.url("/"))

    pages = crawl.pages()
    for path, fault in (("/x", 1002), ("/y", 1002), ("/long", 1004)):
        page = pages[path]
        assert (page["lastOutcome"], page["status"]) == ("lost", "Error"), path
        assert (page["httpStatusCode"], page["effectiveStatus"]) == (fault, 200)
        assert (page["lostCount"], page["goneCount"]) == (2, 0)
    assert crawl.hits("treasure") == ["/long", "/x", "/y"]
    assert all(hit["lost"] for hit in crawl.search("treasure"))


@pytest.mark.covers("R1-24", "RD-07")
def test_a_seed_answers_through_its_redirects(site: Site, crawl: Crawl):
    site.pages["/"] = Page(redirect="/start", status=302)
    site.pages["/start"] = Page(redirect="/start/")
    site.pages["/start/"] = html("Start", "a")
    site.pages["/start/a"] = html("A")

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "redirected", "/start/": "new", "/start/a": "new"}
    assert crawl.pages()["/start/"]["depth"] == 0
    site.pages["/start/"] = Page("oops", status=500)

    result = crawl(site.url("/"), expect=3, settings={"RETRY_TIMES": 0})

    assert any(reason.startswith("seed_failed") for reason in crawl.runs()[0]["reasons"])
    assert "seed_failed" in result.out
    assert crawl.outcomes()["/start/a"] == "unchanged"


@pytest.mark.covers("R4-33")
def test_a_redirect_out_of_scope_is_recorded_and_not_followed(
    site: Site, other: Site, crawl: Crawl
):
    other.pages["/"] = html("Elsewhere", text="foreign")
    site.pages["/"] = html("Home", "/away")
    site.pages["/away"] = Page(redirect=other.url("/"))

    crawl(site.url("/"))

    assert other.log == []
    assert crawl.outcomes() == {"/": "new", "/away": "redirected"}
    targets = "SELECT redirect_target FROM record WHERE redirect_target IS NOT NULL"
    assert crawl.rows(targets) == [(other.url("/"),)]
    site.pages["/"] = Page(redirect=other.url("/"))

    crawl(site.url("/"), expect=3)  # a seed must end in scope

    assert any(reason.startswith("seed_failed") for reason in crawl.runs()[0]["reasons"])


@pytest.mark.covers("R1-27")
def test_the_scope_moves_with_a_seed_to_its_host_with_www_and_says_so(crawl: LabCrawl):
    bare, www = LabSite("example.com"), LabSite("www.example.com")
    crawl.web.sites[:] = [bare, www, sub := LabSite("sub.example.com")]
    bare.pages["/"] = Page(redirect=www.url("/"))
    www.pages["/"] = html("Home", "/a", bare.url("/b"), sub.url("/"))
    www.pages["/a"] = html("A", text="alpha")

    result = crawl(bare.url("/"))

    assert {r.path for r in bare.log} == {"/robots.txt", "/"}
    assert {r.path for r in www.log} == {"/robots.txt", "/", "/a"}
    assert sub.log == []
    assert "www.example.com" in result.err
    assert {record["url"] for record in crawl.records(source="example.com")} == {
        bare.url("/"), www.url("/"), www.url("/a")
    }  # fmt: skip
    www.clear()

    crawl(bare.url("/"))

    assert www.count("/a") == 1
    assert {r.status for r in www.log} == {404, 304}  # 404: robots.txt


@pytest.mark.parametrize(
    ("seed", "target", "moves"),
    [
        ("http://example.com/", "http://www.example.com/start", True),
        ("http://www.example.com/", "https://example.com/", True),
        ("http://example.com/", "http://docs.example.com/", False),
        ("http://example.com/", "http://www.example.org/", False),
        ("http://example.com/", "http://example.com/start", False),
    ],
)
def test_a_seed_moves_to_the_same_host_with_or_without_www_only(
    tmp_path: Path, seed: str, target: str, moves: bool
):
    run = Run.open(ad_hoc_site_source(seed, {}), options(tmp_path), Orders(), now=1_700_000_000)
    try:
        assert run.seeds.move(1, target) is moves
        assert run.scope.allows(target) is (moves or target.startswith(seed))
        assert run.scope.allows(seed) is not moves
    finally:
        run.close()


def test_a_location_in_raw_utf_8_is_read_as_browsers_read_it(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page("moved", redirect="/straße")
    site.pages["/stra%C3%9Fe"] = html("Straße")

    crawl(site.url("/"))

    assert crawl.outcomes()["/stra%C3%9Fe"] == "new"
