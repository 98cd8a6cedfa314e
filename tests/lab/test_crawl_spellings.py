"""One address under several spellings: the one that answers is asked, and nothing living goes."""

import json

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

DUE = {"RECRAWL_POLICY": "due"}


def move_without_redirects(site: Site) -> None:
    """`/install/` becomes `/install`; all links are updated."""
    del site.pages["/install/"]
    site.pages["/"] = html("Home", "/install", "/hub")
    site.pages["/install"] = html("Install", "/below", text="how to install it")


@pytest.fixture
def manual(site: Site, crawl: Crawl) -> Site:
    """A site whose page is stored as `/install/`."""
    site.pages["/"] = html("Home", "/install/", "/hub")
    site.pages["/hub"] = html("Hub", text="a hub without links")
    site.pages["/below"] = html("Below", text="what is below")
    site.pages["/install/"] = html("Install", "/below", text="how to install it")
    crawl(site.url("/"))
    site.clear()
    return site


def spellings(crawl: Crawl, path: str) -> dict:
    """What `why` says about the spellings of an address."""
    story = json.loads(crawl.run("why", path, "--format", "json").out)
    [record] = story["records"]
    return record["spellings"]


@pytest.mark.covers("R0-16", "R0-100", "RP-04")
def test_a_page_whose_spelling_moved_is_asked_under_the_new_one_at_once(manual: Site, crawl: Crawl):
    move_without_redirects(manual)

    crawl(manual.url("/"))

    assert (manual.count("/install/"), manual.count("/install")) == (1, 1)
    assert "/install" in crawl.pages()
    assert crawl.outcomes()["/install"] == "unchanged"
    assert crawl.hits('"how to install it"') == ["/install"]
    manual.clear()
    crawl(manual.url("/"))
    assert (manual.count("/install/"), manual.count("/install")) == (0, 1)
    assert {r.status for r in manual.log if r.path == "/install"} == {304}
    assert crawl.rows("SELECT count(*) FROM evidence") == [(0,)]


def test_why_names_the_spellings_of_one_record(manual: Site, crawl: Crawl):
    """They differ by their last slash, or by the order of parameters (docs/limits.md)."""
    api = ("/api?a=1&b=2", "/api?b=2&a=1")
    manual.pages["/"] = html("Home", "/install", *api)
    manual.pages["/install"] = manual.pages.pop("/install/")
    for path in api:
        manual.pages[path] = html("Call")

    crawl(manual.url("/"))

    shown = crawl.run("why", manual.url("/install/")).out
    assert f"linked as  {manual.url('/install/')}\n" in shown
    assert f"tried      {manual.url('/install/')}: answered 404, in run 2\n" in shown
    assert f"             {manual.url('/install')}: answered 200\n" in shown
    shown = [crawl.run("why", manual.url(path)).out for path in api]
    assert shown[0] == shown[1]
    assert f"linked as  {manual.url(api[1])}\n" in shown[0]


@pytest.mark.covers("R0-16", "R0-100")
def test_a_broken_link_before_the_right_one_hides_no_page(site: Site, crawl: Crawl):
    """The right spelling is met after the visit of the wrong one failed."""
    site.pages["/"] = html("Home", "/about/", "/hub")
    site.pages["/hub"] = html("Hub", "/about")
    site.pages["/about"] = html("About", "/team", text="who we are")
    site.pages["/team"] = html("Team", text="all of us")

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "new", "/hub": "new", "/about": "new", "/team": "new"}
    assert crawl.counts_add_up()
    assert crawl.rows("SELECT * FROM event") == []
    assert crawl.hits('"who we are"') == ["/about"]
    assert (site.count("/about/"), site.count("/about")) == (1, 1)


class SoftSite(LabSite):
    """Answers 200 for whatever it does not have."""

    def _page(self, path: str) -> Page | None:
        text = f"Sorry, we could not find {path}. Try the search, or begin again at our home page."
        found = super()._page(path)
        return found or (None if path == "/robots.txt" else Page(html("Nothing here", text=text)))


@pytest.mark.covers("R0-16", "R0-100")
def test_an_error_page_with_status_200_leads_to_the_other_spellings(crawl: LabCrawl):
    crawl.environment["SOFT_404_DETECTION"] = "1"
    crawl.web.sites[:] = [site := SoftSite()]
    site.pages["/"] = html("Home", "/about/", "/lost/", "/hub")
    site.pages["/hub"] = html("Hub", "/about", "/lost")
    site.pages["/about"] = html("About", text="who we are, and a few words more")
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "new", "/hub": "new", "/about": "new", "/lost/": "failed"}


FAILING = {
    "missing": Page("none", status=404),
    "removed": Page("none", status=410),
    "legal": Page("none", status=451),
    "moved": Page(redirect="/hub"),
    "circle": Page(redirect="/circle/?utm_source=x"),
    "secret": Page("none", status=403),
    "broken": Page("none", status=500),
}


@pytest.mark.covers("R0-16", "R0-100", "M-19")
def test_whatever_does_not_bring_the_page_leads_to_its_other_spellings(site: Site, crawl: Crawl):
    """Nothing was ever stored of these pages, so that 403 and 500 say nothing about them either."""
    site.pages["/"] = html("Home", *(f"/{name}/" for name in FAILING), "/hub", "/forbidden/")
    site.pages["/hub"] = html("Hub", *(f"/{name}?utm_source=mail" for name in FAILING))
    site.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /forbidden/\n", content_type="text/plain"
    )
    site.pages["/hub"] += html("More", "/forbidden")
    for name, page in FAILING.items():
        site.pages[f"/{name}/"] = page
        site.pages[f"/{name}"] = html(name, text=f"the text of {name}")
    site.pages["/circle/?utm_source=x"] = Page(redirect="/circle/")
    site.pages["/forbidden"] = html("forbidden", text="the text of forbidden")

    crawl(site.url("/"), settings={"RETRY_TIMES": 0})

    expected = {f"/{name}?utm_source=mail" for name in FAILING} | {"/", "/hub", "/forbidden"}
    assert set(crawl.pages()) == expected
    assert set(crawl.outcomes().values()) == {"new"}
    assert site.count("/forbidden/") == 0
    assert crawl.counts_add_up()
    site.clear()
    crawl(site.url("/"))
    assert {r.path for r in site.log} == expected | {"/robots.txt"}
    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}


@pytest.mark.covers("R0-16", "R0-50", "R0-100")
def test_a_page_is_gone_when_all_its_spellings_are(manual: Site, crawl: Crawl):
    move_without_redirects(manual)
    manual.pages["/"] = html("Home", "/install", "/install?utm_source=x", "/hub")
    manual.pages["/install"] = Page("none", status=404)
    manual.pages["/install?utm_source=x"] = Page("none", status=500)
    settings = {"RETRY_TIMES": 0}

    for _ in range(3):  # the last spelling leaves the page in doubt
        crawl(manual.url("/"), settings=settings, expect=None)
    assert crawl.hits('"how to install it"') == ["/install/"]
    assert crawl.pages()["/install/"]["lostCount"] == 0
    tried = spellings(crawl, manual.url("/install"))["tried"]
    assert {one["url"]: one["httpStatusCode"] for one in tried} == {
        manual.url("/install/"): 404,
        manual.url("/install"): 404,
        manual.url("/install?utm_source=x"): 500,
    }
    manual.pages["/install?utm_source=x"] = Page("none", status=410)
    for _ in range(3):
        crawl(manual.url("/"), settings=settings)

    assert crawl.hits('"how to install it"') == []
    assert crawl.outcomes()["/install/"] == "gone"


LATE = {
    "brings it": (html("Install", text="how to install it"), 0, 0, []),
    "secret": (Page("none", status=403), 1, 0, [403]),
    "broken": (Page("none", status=500), 0, 0, [500]),
    "away": (Page(redirect="/nowhere", status=302), 1, 0, [302]),
    "missing": (Page("none", status=404), 1, 1, [404]),
}


@pytest.mark.covers("R0-16", "R0-100", "RD-08")
@pytest.mark.parametrize(("late", "lost", "gone", "statuses"), LATE.values(), ids=LATE)
def test_a_spelling_that_is_met_late_replaces_the_visit_that_failed(
    manual: Site, crawl: Crawl, late: Page | str, lost: int, gone: int, statuses: list[int]
):
    """One run counts a page once, and its history has one line for it."""
    del manual.pages["/install/"]
    manual.pages |= {"/hub": html("Hub", "/install"), "/install": late}
    manual.pages["/nowhere"] = Page("none", status=403)

    crawl(manual.url("/"), settings={"RETRY_TIMES": 0}, expect=None)

    [page] = [page for path, page in crawl.pages().items() if path.startswith("/install")]
    assert (page["lostCount"], page["goneCount"]) == (lost, gone)
    assert crawl.rows("SELECT http_status FROM event") == [(status,) for status in statuses]
    assert crawl.rows("SELECT max(error_count) FROM state") <= [(1,)]


@pytest.mark.covers("R0-16", "R0-100")
def test_a_seed_is_asked_as_it_was_typed_this_time(site: Site, crawl: Crawl):
    site.pages["/docs"] = html("Docs", text="what is written")

    crawl(site.url("/docs/"), expect=3)
    crawl(site.url("/docs"))

    assert crawl.outcomes() == {"/docs": "new"}
    site.clear()
    del site.pages["/docs"]
    site.pages["/docs/"] = html("Docs", text="what is written")
    crawl(site.url("/docs/"))
    assert [r.path for r in site.log if r.path != "/robots.txt"] == ["/docs/"]
    assert crawl.outcomes() == {"/docs/": "unchanged"}


@pytest.mark.covers("R0-16", "R0-57", "R0-100")
def test_an_order_for_a_page_may_have_its_right_spelling(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/about/")
    site.pages["/about"] = html("About", text="who we are")
    crawl(site.url("/"))
    assert crawl.outcomes()["/about/"] == "failed"

    crawl.run("reindex", "--url", site.url("/about"))
    crawl(site.url("/"), settings=DUE, expect=None)

    assert crawl.outcomes()["/about"] == "new"


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.covers("R0-16", "R0-100")
def test_a_forgotten_address_is_found_under_its_right_spelling(
    site: Site, crawl: Crawl, stored: bool
):
    wrong = html("About", text="who we are") if stored else Page("none", status=404)
    site.pages |= {"/": html("Home", "/about/"), "/about/": wrong}
    crawl(site.url("/"))
    crawl.run("forget", site.url("/about"))
    assert crawl.hits('"who we are"') == []

    site.pages |= {"/": html("Home", "/about"), "/about": html("About", text="who we are")}
    site.pages["/about/"] = Page("none", status=404)
    crawl(site.url("/"))

    assert crawl.outcomes()["/about"] == "new"
    assert crawl.hits('"who we are"') == ["/about"]


@pytest.mark.covers("R0-16", "R0-71", "R0-100")
def test_a_due_crawl_asks_a_spelling_that_it_meets_for_a_page_that_is_not_due(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/about/", "/hub")
    site.pages["/hub"] = html("Hub")
    site.pages["/about"] = html("About", text="who we are")
    crawl(site.url("/"))
    crawl.rows(
        "UPDATE state SET next_visit = 0 WHERE no = (SELECT no FROM record WHERE url LIKE '%/hub')"
    )
    site.pages["/hub"] = html("Hub", "/about")

    crawl(site.url("/"), settings=DUE, expect=None)

    assert crawl.outcomes()["/about"] == "new"
    assert crawl.hits('"who we are"') == ["/about"]
    assert crawl.counts_add_up()


@pytest.mark.covers("R0-16", "R0-100")
def test_links_of_304s_name_spellings_too(manual: Site, crawl: Crawl):
    """The links were stored by an earlier run, and their pages answer 304."""
    manual.pages["/hub"] = html("Hub", "/install")
    crawl(manual.url("/"))
    del manual.pages["/install/"]
    manual.pages["/install"] = html("Install", "/below", text="how to install it")

    crawl(manual.url("/"))

    assert crawl.outcomes()["/install"] == "unchanged"
    # Further spellings push it out; it is found again in the links of the hub, which answers 304.
    crawl.rows(
        "UPDATE record SET url = replace(url, '/install', '/install/') WHERE url LIKE '%/install'"
    )
    names = [f"/install?utm_source={n}" for n in range(4)]
    for name in names:
        manual.pages[name] = Page("none", status=404)
    manual.pages["/more"] = html("More", *names)
    manual.pages["/"] = html("Home", "/install/", "/hub", "/more")
    manual.clear()
    crawl(manual.url("/"))
    assert {r.status for r in manual.log if r.path == "/hub"} == {304}
    assert crawl.outcomes()["/install"] == "unchanged"


@pytest.mark.covers("R0-16", "R0-100")
def test_why_names_the_spellings_that_were_tried_and_their_answers(manual: Site, crawl: Crawl):
    move_without_redirects(manual)
    manual.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /install?\n", content_type="text/plain"
    )
    manual.pages["/hub"] = html("Hub", "/install?utm_source=mail")
    manual.pages["/"] = html("Home", "/hub", "/install")
    crawl(manual.url("/"))

    found = spellings(crawl, manual.url("/install/"))
    text = " ".join(crawl.run("why", manual.url("/install")).out.split())

    assert found["request"] == manual.url("/install")
    assert set(found["others"]) == {manual.url("/install/"), manual.url("/install?utm_source=mail")}
    assert found["tried"][0]["url"] == manual.url("/install/")
    assert found["tried"][-1] == {
        "url": manual.url("/install"),
        "httpStatusCode": 200,
        "message": None,
    }
    assert f"tried {manual.url('/install/')}: answered 404, in run 2" in text
    assert f"{manual.url('/install')}: answered 200" in text
