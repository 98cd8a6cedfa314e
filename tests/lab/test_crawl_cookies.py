"""Pages that set a cookie and redirect to themselves, or to where it is checked and back."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.cookie_site import CookieSite, Gate, fill_intranet, fill_ways
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

DUE = {"RECRAWL_POLICY": "due"}


class CookiesOfLab(CookieSite, LabSite):
    """The same site in memory."""


@pytest.fixture
def site() -> CookiesOfLab:
    return CookiesOfLab()


@pytest.fixture
def intranet(site: CookieSite) -> CookieSite:
    fill_intranet(site)
    return site


@pytest.fixture
def ways(site: CookieSite) -> CookieSite:
    fill_ways(site)
    return site


def test_a_page_that_sets_a_cookie_and_reloads_is_asked_once_more(site: CookieSite, crawl: Crawl):
    """By a refresh, as by a redirect; one that reloads nevertheless is the page itself."""
    contents = {"/meta": "0; url=/meta", "/bare": "0", "/slash": "0; url=/slash/", "/soon": "5"}
    for path, content in contents.items():
        site.pages[path] = html(path, text="the text behind")
        site.gates[path] = Gate(("seen=1",), "seen=1; Path=/", "", refresh=content)
    site.pages["/slash/"] = html("/slash/", text="the text behind")
    site.gates["/slash/"] = Gate(("seen=1",), "other=1", "/slash")
    site.pages["/header"] = html("/header", text="the text behind")
    site.gates["/header"] = Gate(("seen=1",), "seen=1", "header", refresh="0")
    site.gates["/always"] = Gate((), "seen=1", "", refresh="0")
    site.gates["/gone"] = Gate((), "seen=1; Max-Age=0", "", refresh="0; url=/gone")
    site.pages["/"] = html("Home", *contents, "/header", "/always", "/gone")
    asked = {"/meta": 2, "/bare": 2, "/header": 2, "/always": 2, "/gone": 1, "/soon": 1}

    for word in ("new", "unchanged"):
        site.clear()
        crawl(site.url("/"))

        assert set(crawl.outcomes().values()) == {word}
        assert crawl.hits("behind") == ["/bare", "/header", "/meta", "/slash/"]
        assert sorted(crawl.hits('"please wait"')) == ["/always", "/gone", "/soon"]
        assert {path: site.count(path) for path in asked} == asked
        for path in ("/meta", "/bare", "/header"):
            assert site.cookies(path) == [None, "seen=1"]
        asked["/always"] = 1  # the stored page is confirmed before it can reload
    assert [request.status for request in site.log if request.path == "/meta"] == [200, 304]
    assert crawl.counts_add_up()


def test_a_due_crawl_and_a_forced_one_send_the_cookie_too(intranet: CookieSite, crawl: Crawl):
    crawl(intranet.url("/"))
    crawl.rows("UPDATE state SET next_visit = 0")
    intranet.pages["/tour"] = html("Tour", "/leaf", text="another text")
    intranet.clear()

    crawl(intranet.url("/"), settings=DUE, expect=None)

    assert crawl.outcomes()["/tour"] == "modified"
    assert crawl.outcomes()["/self"] == "unchanged"
    crawl(intranet.url("/"), force=1)
    assert crawl.outcomes()["/self"] == "unchanged"
    assert crawl.runs()[0]["failed"] == 0


def test_a_circle_that_stays_one_is_called_so(site: CookieSite, crawl: Crawl):
    site.pages["/"] = html("Home", "/self", "/tour", "/free")
    for path in ("/self", "/tour", "/free"):
        site.pages[path] = html("Never")
    site.gates["/self"] = Gate(("other=1",), "seen=1", "/self")
    site.gates["/tour"] = Gate(("other=1",), "seen=1", "/check")
    site.gates["/check"] = Gate((), "checked=1", "/tour")
    site.gates["/free"] = Gate(("other=1",), "seen=1; Max-Age=0", "/free")
    crawl(site.url("/"), expect=None)

    pages = crawl.pages()
    for path in ("/self", "/tour"):
        page = pages[path]
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", 1002)
        text = "redirects in a circle, although its cookies were sent back"
        assert page["errorMessage"].startswith(f"{text}: {site.url('/')}")
        assert text in crawl.run("why", site.url(path)).out
    assert pages["/free"]["errorMessage"] == f"redirects in a circle: {site.url('/free')}"
    asked = {path: site.count(path) for path in ("/self", "/tour", "/check", "/free")}
    assert asked == {"/self": 2, "/tour": 2, "/check": 2, "/free": 1}


def test_a_cookie_that_changes_with_each_answer_is_sent_once(site: CookieSite, crawl: Crawl):
    site.pages["/"] = html("Home", "/self")
    site.pages["/self"] = html("Self")
    numbers = iter(range(100))

    def page(path: str) -> Page | None:
        if path != "/self":
            return Site._page(site, path)
        return Page(redirect="/self", headers={"Set-Cookie": f"id={next(numbers)}"})

    site._page = page
    crawl(site.url("/"), expect=None)

    assert site.cookies("/self") == [None, "id=0"]
    assert crawl.pages()["/self"]["httpStatusCode"] == 1002


def test_a_plain_redirect_with_a_cookie_is_tried_once(site: CookieSite, crawl: Crawl):
    """Servers that begin a session with every answer do not make refreshes dearer."""
    site.pages["/"] = html("Home", "/old", "/moved")
    site.pages["/new"] = html("New", text="arrived")
    site.pages["/moved/here"] = html("Moved")
    site.gates["/old"] = Gate((), "session=1", "/new")
    site.gates["/moved"] = Gate((), "session=1", "/moved/here", status=301)
    counts = []
    for _ in range(3):
        site.clear()
        crawl(site.url("/"))
        counts.append([site.count(path) for path in ("/old", "/new", "/moved", "/moved/here")])
        assert crawl.outcomes()["/old"] == crawl.outcomes()["/moved"] == "redirected"

    assert counts == [[1, 2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert crawl.hits("arrived") == ["/new"]


def test_an_orphan_is_looked_at_with_a_cookie_of_the_way(ways: CookieSite, crawl: Crawl):
    crawl(ways.url("/"))
    ways.pages["/"] = html("Home", "/stub", "/veil", "/header", "/far")
    settings = {"ORPHAN_THRESHOLD": 1, "ORPHAN_MIN_AGE": 0, "SWEEP_MIN_COUNT": 20}
    ways.clear()

    crawl(ways.url("/"), settings=settings, expect=None)

    assert ways.cookies("/moved") == [None, "a=1"]


def test_a_stored_page_comes_back_after_the_way_to_its_cookie_was_broken(
    ways: CookieSite, crawl: Crawl
):
    crawl(ways.url("/"))
    healthy = dict(ways.gates)
    for path in ("/put", "/set"):
        del ways.gates[path]
        ways.pages[path] = Page("down", status=503)

    for _ in range(2):
        crawl(ways.url("/"), settings={"RETRY_TIMES": 0}, expect=None)

        assert {crawl.outcomes()[path] for path in ("/stub", "/moved")} == {"lost"}
        assert set(crawl.hits("behind")) == {"/moved", "/stub", "/veil", "/header", "/far"}
    ways.gates = healthy
    for _ in range(2):
        crawl(ways.url("/"), expect=None)
    assert {crawl.outcomes()[path] for path in ("/stub", "/moved")} == {"unchanged"}


def test_a_304_that_leads_on_to_a_cookie_brings_the_page(site: CookieSite, crawl: Crawl):
    site.pages["/"] = html("Home", "/page")
    site.pages["/page"] = html("Page", text="the text behind")
    site.gates["/set"] = Gate((), "a=1; Path=/", "/page")
    crawl(site.url("/"))
    plain = site.pages["/page"]

    def page(path: str) -> Page | None:
        if path == "/page" and not site._asked.cookies & {"a=1"}:
            return Page(plain, headers={"Refresh": "0; url=/set?to=/page"})
        return CookieSite._page(site, path)

    site._page = page
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/page": "unchanged"}
    assert site.cookies("/page")[1:] == [None, "a=1"]
    assert crawl.hits("behind") == ["/page"]


def test_redirects_that_name_no_way_back_lead_away_at_once(site: CookieSite, crawl: Crawl):
    """Where two addresses lead to each other, the way is tried in the next run, and known then."""
    names = [f"/old{number}" for number in range(6)]
    for number, name in enumerate(names):
        refresh = "" if number % 2 else f"0; url=/new{number}"
        site.gates[name] = Gate((), "", f"/new{number}" if number % 2 else "", refresh=refresh)
        site.pages[f"/new{number}"] = html(f"New {number}", text="arrived")
    site.pages["/"] = html("Home", *names, "/late")
    site.pages["/late"] = html("Late", text="the text behind")
    site.gates["/late"] = Gate(("late=1",), "", "/set")
    site.gates["/set"] = Gate((), "late=1; Path=/", "/late")
    found = []
    for _ in range(4):
        site.clear()
        crawl(site.url("/"), expect=None)
        found.append((crawl.outcomes()["/late"], site.count("/set")))
        assert {crawl.outcomes()[name] for name in names} == {"redirected"}
        assert [site.count(f"/new{number}") for number in range(6)] == [1] * 6

    assert [word for word, _ in found] == ["failed", "new", "unchanged", "unchanged"]
    assert crawl.hits("behind") == ["/late"]


def test_ways_that_do_not_lead_back_are_tried_five_times(site: CookieSite, crawl: Crawl):
    names = [f"/old{number}" for number in range(20)]
    for number, name in enumerate(names):
        site.gates[name] = Gate((), "", f"/new{number}?from={name}")
        site.pages[f"/new{number}?from={name}"] = html(f"New {number}", text="arrived")
    site.pages["/"] = html("Home", *names)
    more = []
    for _ in range(2):
        site.clear()
        crawl(site.url("/"), settings={"CONCURRENT_REQUESTS": 1})
        more.append(sum(request.path.startswith("/new") for request in site.log) - 20)
        assert {crawl.outcomes()[name] for name in names} == {"redirected"}
        assert len(crawl.hits("arrived")) == 20

    assert 5 <= more[0] <= 8
    assert more[1] == 0, "they were found to be plain redirects"


def test_a_circle_without_cookies_stays_one(site: CookieSite, crawl: Crawl):
    site.pages["/"] = html("Home", "/one")
    site.gates["/one"] = Gate((), "", "/two")
    site.gates["/two"] = Gate((), "", "/one")
    for _ in range(2):
        crawl(site.url("/"), expect=None)

        for path in ("/one", "/two"):
            assert crawl.pages()[path]["httpStatusCode"] == 1002
            assert crawl.pages()[path]["errorMessage"].startswith("redirects in a circle: ")


def test_a_place_that_leads_nowhere_is_not_asked_for_every_page(site: CookieSite, crawl: Crawl):
    names = [f"/page{number}" for number in range(30)]
    site.pages["/"] = html("Home", *names)
    site.pages["/login"] = html("Sign in", text="a form")
    for name in names:
        site.gates[name] = Gate((), "session=1", f"/login?next={name}")
    crawl(site.url("/"), settings={"CONCURRENT_REQUESTS": 1}, expect=None)

    asked = [request.path for request in site.log if request.path.startswith("/login")]
    assert len(names) + 5 <= len(asked) <= len(names) + 8


def test_no_cookie_goes_to_another_host(site: CookieSite, other: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/away")
    site.gates["/away"] = Gate((), "secret=1; Path=/", other.url("/there"))
    other.pages["/there"] = Page(redirect=site.url("/away"), headers={"Set-Cookie": "b=2"})
    hosts = '["example"]'
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nallowed_domains = {hosts}\n')
    crawl(source="s", expect=None)

    assert other.count("/there") == 1
    assert site.count("/away") == 1
    assert not any("cookie" in request.headers for request in (*site.log, *other.log))
    assert crawl.pages()["/away"]["httpStatusCode"] == 1002


@pytest.mark.parametrize("fault", ["status", "robots"])
def test_a_detour_that_fails_is_no_word_about_the_page(
    intranet: CookieSite, crawl: Crawl, fault: str
):
    crawl(intranet.url("/"))
    del intranet.gates["/check"]
    if fault == "status":
        intranet.pages["/check"] = Page("down", status=503)
    else:
        intranet.pages["/robots.txt"] = "User-agent: *\nDisallow: /check\n"

    crawl(intranet.url("/"), settings={"RETRY_TIMES": 0}, expect=None)

    page = crawl.pages()["/tour"]
    if fault == "status":
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", 503)
        where = intranet.url("/check?back=/tour")
        assert page["errorMessage"] == f"redirected to {where}: HTTP status 503"
    else:
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("lost", 302)
    assert crawl.hits("behind") == ["/tour"]


def test_an_orphan_is_looked_at_with_its_cookie(intranet: CookieSite, crawl: Crawl):
    """A redirect to itself would count as the end of the page."""
    crawl(intranet.url("/"))
    intranet.pages["/"] = html("Home", "/plain", "/leaf")
    settings = {"ORPHAN_THRESHOLD": 1, "ORPHAN_MIN_AGE": 0, "SWEEP_MIN_COUNT": 20}
    intranet.clear()

    crawl(intranet.url("/"), settings=settings, expect=None)

    assert intranet.cookies("/self") == [None, "seen=1"]
