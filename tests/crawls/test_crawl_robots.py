"""robots.txt, nofollow and noindex: what is not asked, not followed, not shown."""

from datetime import UTC, datetime
from gzip import compress as gzipped

import brotli
import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, TimedSite, html

pytestmark = pytest.mark.long(but=4)

_LONG_RULES = b"User-agent: *\n" + b"".join(
    b"Disallow: /no/%d\n" % (number * 37) for number in range(20)
)


def robots(text: str) -> Page:
    return Page(text, content_type="text/plain", etag=None)


def asked(site: Site) -> list[tuple[str, int, set[str]]]:
    """Requests for robots.txt: host, status, and the validators that they carried."""
    names = {"if-none-match", "if-modified-since"}
    return [
        (request.headers["host"], request.status, names & request.headers.keys())
        for request in site.log
        if request.path == "/robots.txt"
    ]


@pytest.mark.covers("R0-42", "R2-70", "U-15", "M-25")
def test_a_disallowed_page_is_never_asked_and_what_was_held_of_it_stays(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("User-agent: *\nDisallow: /no\nAllow: /no/but\n")
    site.pages["/"] = html("Home", "/no", "/no/page", "/no/but", "/late")
    for path in ("/no", "/no/page", "/no/but"):
        site.pages[path] = html(path, text=f"secret of {path}")
    site.pages["/late"] = html("Late", "/late/child", text="allowed at first")
    site.pages["/late/child"] = html("Child of late", text="the child")

    crawl(site.url("/"))

    pages = crawl.pages()
    assert [site.count(path) for path in ("/no", "/no/page", "/no/but")] == [0, 0, 1]
    for path in ("/no", "/no/page"):
        assert (pages[path]["lastOutcome"], pages[path]["status"]) == ("excluded", "OutOfScope")
        assert pages[path]["contentHash"] is None
    assert crawl.hits("secret") == ["/no/but"]
    assert crawl.counts_add_up()
    site.pages["/robots.txt"] = robots(
        "User-agent: smartcrawl\nDisallow: /late$\nDisallow: /no\n\nUser-agent: *\nDisallow: /\n"
    )
    site.clear()

    crawl(site.url("/"))

    pages = crawl.pages()
    assert site.count("/late") == 0
    assert (pages["/late"]["lastOutcome"], pages["/late"]["status"]) == ("excluded", "OutOfScope")
    assert pages["/late"]["contentHash"] is not None
    assert crawl.hits("allowed at first") == ["/late"]
    assert pages["/late/child"]["lastOutcome"] == "orphaned"  # excluded pages vouch for nothing
    assert site.count("/robots.txt") == 1
    agents = {request.headers["user-agent"] for request in site.log}
    assert len(agents) == 1
    assert "smartcrawl" in agents.pop()
    site.pages["/robots.txt"] = robots("")
    site.clear()

    crawl(site.url("/"))

    assert crawl.outcomes()["/late"] == "unchanged"
    assert crawl.outcomes()["/late/child"] == "unchanged"
    assert crawl.outcomes()["/no"] == "new"


@pytest.mark.covers("M-27", "R4-40", "U-13")
@pytest.mark.parametrize(
    "trouble", [Page("oops", status=500), Page(fault="reset"), Page(redirect="/robots.txt")],
    ids=["500", "reset", "circle"],
)  # fmt: skip
def test_with_unknown_rules_no_page_of_the_host_is_asked_and_nothing_is_orphaned(
    site: Site, crawl: Crawl, trouble: Page
):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", "/b", text="alpha")
    site.pages["/b"] = html("B")
    impatient = {"RETRY_TIMES": 0}
    crawl(site.url("/"), settings=impatient | {"ROBOTSTXT_OBEY": 0})
    assert site.count("/robots.txt") == 0
    held = crawl.pages()
    site.pages["/robots.txt"] = trouble
    site.clear()

    result = crawl(site.url("/"), settings=impatient, expect=3)

    assert {request.path for request in site.log} == {"/robots.txt"}
    assert "robots.txt" in result.err
    pages = crawl.pages()
    assert {page["lastOutcome"] for page in pages.values()} == {"failed"}
    assert {page["status"] for page in pages.values()} == {"Error"}
    assert {page["effectiveStatus"] for page in pages.values()} == {200}
    assert all(pages[path]["httpEtag"] == held[path]["httpEtag"] for path in pages)
    assert all("robots.txt" in page["errorMessage"] for page in pages.values())
    assert crawl.hits("alpha") == ["/a"]
    assert not crawl.runs()[0]["complete"]
    own = site.url("").removeprefix("http://")
    assert f"robots_unknown: {own}" in crawl.runs()[0]["reasons"]
    del site.pages["/robots.txt"]

    crawl(site.url("/"), settings=impatient)

    assert set(crawl.outcomes().values()) == {"unchanged"}


@pytest.mark.covers("M-27")
def test_rules_are_found_behind_a_redirect_and_403_means_that_there_are_none(
    site: Site, crawl: Crawl
):
    site.pages["/robots.txt"] = Page(redirect="/rules/robots.txt")
    site.pages["/rules/robots.txt"] = robots("\ufeffUser-Agent: *\r\nDisallow: /no\r\n")
    site.pages["/"] = html("Home", "/no", "/yes")
    site.pages["/no"] = html("No")
    site.pages["/yes"] = html("Yes")

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "new", "/no": "excluded", "/yes": "new"}
    assert site.count("/no") == 0
    site.pages["/robots.txt"] = Page("Disallow: /", status=403)

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/no": "new", "/yes": "unchanged"}


@pytest.mark.covers("M-27")
def test_each_host_is_asked_once_a_run_and_conditionally_when_its_rules_are_kept(
    site: Site, crawl: Crawl
):
    one, two = site.url("/"), site.url("/").replace("127.0.0.1", "localhost")
    hosts = sorted(url.removeprefix("http://").strip("/") for url in (one, two))
    crawl.declare(f'[sources.s]\nseeds = ["{one}", "{two}"]\n')
    text, day = "User-agent: *\nDisallow: /no\n", datetime(2026, 1, 1, tzinfo=UTC)
    site.pages["/robots.txt"] = Page(text, content_type="text/plain", last_modified=day)
    site.pages["/"] = html("Home", "/no", "/yes")
    site.pages["/no"] = html("No")
    site.pages["/yes"] = html("Yes")
    both = {"if-none-match", "if-modified-since"}

    crawl(source="s")
    assert sorted(asked(site)) == [(host, 200, set()) for host in hosts]
    for _ in range(2):
        site.clear()
        crawl(source="s")

        assert sorted(asked(site)) == [(host, 304, both) for host in hosts]
        assert site.count("/no") == 0
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /yes\n", content_type="text/plain")
    site.clear()

    crawl(source="s")

    assert sorted(asked(site)) == [(host, 200, both) for host in hosts]
    assert (site.count("/no"), site.count("/yes")) == (2, 0)
    site.clear()

    crawl(source="s", force=1)

    assert sorted(asked(site)) == [(host, 200, set()) for host in hosts]


@pytest.mark.covers("M-27")
@pytest.mark.parametrize(
    "trouble",
    [
        Page(status=503),
        Page(status=429),
        Page(fault="reset"),
        Page(fault="truncate", body="Disa"),
        Page(" <!DOCTYPE html><title>Shop</title>", etag=None),
        Page(redirect="/yes"),
        Page("User-agent: *\n", status=206, content_type="text/plain", etag=None),
        Page(gzipped(b"User-agent: *\nDisallow: /no\n"), content_type="text/plain", etag=None),
        Page(brotli.compress(_LONG_RULES), content_type="text/plain", etag=None),
        Page("Access denied", content_type="text/plain", etag=None),
    ],
    ids=["503", "429", "reset", "truncate", "page", "moved", "part", "gzip", "brotli", "denied"],
)
def test_kept_rules_count_while_robots_txt_cannot_be_had(site: Site, crawl: Crawl, trouble: Page):
    site.pages["/robots.txt"] = robots("User-agent: *\nDisallow: /no\n")
    site.pages["/"] = html("Home", "/no", "/yes")
    site.pages["/no"] = html("No")
    site.pages["/yes"] = html("Yes")
    impatient = {"RETRY_TIMES": 0}
    crawl(site.url("/"), settings=impatient)
    [(before,)] = crawl.rows("SELECT fetched_at FROM robots")
    site.pages["/robots.txt"] = trouble
    site.clear()

    result = crawl(site.url("/"), settings=impatient)

    assert [request.path for request in site.log].count("/robots.txt") == 1
    assert crawl.outcomes() == {"/": "unchanged", "/no": "excluded", "/yes": "unchanged"}
    assert (site.count("/no"), site.count("/yes")) == (0, 2 if trouble.redirect else 1)
    assert crawl.runs()[0]["complete"]
    since = datetime.fromtimestamp(before, UTC).isoformat(timespec="seconds")
    [warning] = [
        line for line in result.err.splitlines() if "robots.txt could not be fetched" in line
    ]
    assert f"the copy of {since} is used" in warning
    assert crawl.rows("SELECT fetched_at FROM robots") == [(before,)]


@pytest.mark.covers("M-27")
@pytest.mark.parametrize("first", [Page("<p>not found</p>", etag=None), Page(status=404)])
def test_a_page_in_place_of_robots_txt_has_no_rules_where_none_are_kept(
    site: Site, crawl: Crawl, first: Page
):
    """As RFC 9309 reads it: lines that are no rules are left out."""
    site.pages["/robots.txt"] = first
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A")

    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "new", "/a": "new"}
    site.pages["/robots.txt"] = Page("<p>nothing here</p>", etag=None)
    result = crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/a": "unchanged"}
    assert "robots.txt could not be fetched" not in result.err


@pytest.mark.covers("M-27")
def test_a_page_in_place_of_robots_txt_ends_rules_that_are_too_old(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("User-agent: *\nDisallow: /no\n")
    site.pages["/"] = html("Home", "/no")
    site.pages["/no"] = html("No")
    crawl(site.url("/"))
    site.pages["/robots.txt"] = Page("<p>not found</p>", etag=None)
    crawl.rows("UPDATE robots SET fetched_at = fetched_at - 86400 * 31")

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/no": "new"}


@pytest.mark.covers("M-27")
def test_rules_that_are_kept_for_too_long_do_not_count(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="alpha")
    impatient = {"RETRY_TIMES": 0}
    crawl(site.url("/"), settings=impatient)
    site.pages["/robots.txt"] = Page(status=503)
    days = "UPDATE robots SET fetched_at = fetched_at - 86400 * {}"

    crawl.rows(days.format(29))
    crawl(site.url("/"), settings=impatient)
    crawl(site.url("/"), settings=impatient | {"ROBOTS_MAX_STALE_SECONDS": 0}, expect=3)
    assert set(crawl.outcomes().values()) == {"failed"}
    crawl.rows(days.format(2))
    site.clear()
    crawl(site.url("/"), settings=impatient, expect=3)

    assert {request.path for request in site.log} == {"/robots.txt"}
    assert set(crawl.outcomes().values()) == {"failed"}
    assert any(reason.startswith("robots_unknown: ") for reason in crawl.runs()[0]["reasons"])
    assert crawl.hits("alpha") == ["/a"]
    crawl(site.url("/"), settings=impatient | {"ROBOTS_MAX_STALE_SECONDS": 86400 * 40})
    assert set(crawl.outcomes().values()) == {"unchanged"}


@pytest.mark.covers("M-27")
def test_a_404_ends_the_rules_and_is_kept_as_well(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /a\n", content_type="text/plain")
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A")
    impatient = {"RETRY_TIMES": 0}
    crawl(site.url("/"), settings=impatient)
    assert crawl.outcomes()["/a"] == "excluded"
    site.pages["/robots.txt"] = Page("Disallow: /", status=404)

    crawl(site.url("/"), settings=impatient)

    assert crawl.outcomes()["/a"] == "new"
    assert crawl.rows("SELECT status, etag, length(body) FROM robots") == [(404, None, 0)]
    site.pages["/robots.txt"] = Page(status=503)
    crawl(site.url("/"), settings=impatient)
    assert crawl.outcomes()["/a"] == "unchanged"


@pytest.mark.covers("M-27")
def test_five_redirects_lead_to_rules_and_six_to_nothing(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/no")
    site.pages["/no"] = html("No")
    site.pages["/robots.txt"] = Page(redirect="/r1")
    for n in range(1, 6):
        site.pages[f"/r{n}"] = Page(redirect=f"/r{n + 1}")
    site.pages["/r5"] = Page("User-agent: *\nDisallow: /no\n", content_type="text/plain")
    site.pages["/r6"] = site.pages["/r5"]

    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "new", "/no": "excluded"}
    site.clear()
    crawl(site.url("/"))
    assert [r.status for r in site.log if r.path == "/r5"] == [200]  # its ETag is not ours
    site.pages["/r5"] = Page(redirect="/r6")
    site.clear()
    crawl(site.url("/"), settings={"ROBOTS_MAX_STALE_SECONDS": 0}, expect=3)

    assert set(crawl.outcomes().values()) == {"failed"}
    assert site.count("/r5") == 1
    assert site.count("/r6") == 0


@pytest.mark.covers("R2-73")
@pytest.mark.parametrize("throttle", [0, 1])
def test_a_crawl_delay_is_kept_between_any_two_requests(crawl: Crawl, throttle: int):
    with TimedSite() as site:
        site.pages["/robots.txt"] = Page("User-agent: *\nCrawl-delay: 0.5\n", last_modified="x")
        site.pages["/"] = html("Home", *(f"/{n}" for n in range(5)))
        for n in range(5):
            site.pages[f"/{n}"] = html(f"Page {n}")

        for status in (200, 304):  # the rules are kept, too
            site.clear()
            site.arrived.clear()
            crawl(site.url("/"), settings={"AUTOTHROTTLE_ENABLED": throttle})

            assert {request.status for request in site.log} == {status}
            assert len(site.arrived) == 7
            assert site.took() > 6 * 0.5 - 0.3
        assert crawl.rows("SELECT crawl_delay_ms FROM domain_stats") == [(500,)]


@pytest.mark.covers("R2-73")
def test_a_delay_of_ours_that_is_longer_than_the_hosts_wins(crawl: Crawl):
    with TimedSite() as site:
        site.pages["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.1\n")
        site.pages["/"] = html("Home", *(f"/{n}" for n in range(4)))
        for n in range(4):
            site.pages[f"/{n}"] = html(f"Page {n}")

        crawl(site.url("/"), settings={"DOWNLOAD_DELAY": 0.4})

    assert len(site.arrived) == 6
    assert site.took() > 5 * 0.4 - 0.3


@pytest.mark.covers("M-26")
def test_a_long_robots_txt_counts_up_to_500_kib_whatever_pages_may_have(site: Site, crawl: Crawl):
    text = "User-agent: *\nDisallow: /first\n" + "# filler\n" * 70_000 + "Disallow: /last\n"
    assert len(text) > 600 * 1024
    site.pages["/robots.txt"] = Page(text, content_type="text/plain")
    site.pages["/"] = html("Home", "/first", "/last")
    site.pages["/first"] = html("First")
    site.pages["/last"] = html("Last")

    for word in ("new", "unchanged"):
        crawl(site.url("/"), settings={"DOWNLOAD_MAXSIZE": 100_000})

        assert crawl.outcomes() == {"/": word, "/first": "excluded", "/last": word}
        [(size,)] = crawl.rows("SELECT length(body) FROM robots")
        assert 500 * 1024 - 20 < size <= 500 * 1024
    assert [status for _, status, _ in asked(site)] == [200, 304]


@pytest.mark.covers("M-26", "R2-72")
def test_who_reads_robots_txt_is_a_setting(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("User-agent: *\nAllow: /\nDisallow: /a\n")
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A")

    crawl(site.url("/"))
    assert crawl.outcomes()["/a"] == "excluded"
    crawl(
        site.url("/"),
        settings={"ROBOTSTXT_PARSER": "smartcrawl.extract.robots_txt.AllowFirstRobotParser"},
    )
    assert crawl.outcomes()["/a"] == "new"
    wrong = crawl(site.url("/"), settings={"ROBOTSTXT_PARSER": "no.such.Parser"}, expect=1)

    assert "ROBOTSTXT_PARSER is 'no.such.Parser': expected a class" in wrong.err
    assert len(crawl.runs()) == 2


def test_a_hop_within_a_visit_obeys_the_rules_as_well(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = robots("User-agent: *\nDisallow: /dir/\n")
    site.pages["/"] = html("Home", "/dir")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Forbidden", text="behind the hop")

    crawl(site.url("/"))

    assert site.count("/dir/") == 0
    assert sorted(crawl.outcomes().values()) == ["excluded", "new"]
    assert crawl.hits("behind") == []


@pytest.mark.covers("R4-33", "M-02")
def test_nofollow_links_and_pages_lead_nowhere_and_noindex_pages_are_never_shown(
    site: Site, crawl: Crawl
):
    def meta(content: str, name: str = "robots") -> str:
        return f'<meta name="{name}" content="{content}">'

    tags = {
        # path: (meta, X-Robots-Tag, indexed, links followed)
        "/noindex": (meta("NoIndex"), None, False, True),
        "/nofollow": (meta("index, nofollow"), None, True, False),
        "/none": (meta("none"), None, False, False),
        "/both": (meta("noindex,nofollow", "ROBOTS"), None, False, False),
        "/tag/noindex": ("", "noindex", False, True),
        "/tag/nofollow": ("", "nofollow", True, False),
        "/tag/none": ("", "none", False, False),
        "/tag/other": ("", "otherbot: noindex, nofollow", True, True),
        "/tag/ours": ("", "smartcrawl: noindex", False, True),
        "/tag/archive": ("", "noarchive", True, True),
        "/meta/other": (meta("noindex, nofollow", "otherbot"), None, True, True),
    }
    home = "".join(f'<a href="{path}">x</a>' for path in tags)
    site.pages["/"] = (
        f"<title>Home</title>{home}<a rel='external NOFOLLOW' href='/refused'>x</a>"
        "<a rel='nofollow' href='/twice'>x</a><a href='/through'>x</a>"
    )
    site.pages["/through"] = html("Through", "/twice")
    site.pages["/twice"] = html("Twice")
    site.pages["/refused"] = html("Refused")
    for path, (head, tag, _, _) in tags.items():
        site.pages[path] = Page(
            html(path, f"{path}/child", head=head, text="marked words"),
            headers={"X-Robots-Tag": tag} if tag else {},
        )
        site.pages[f"{path}/child"] = html(f"Child of {path}")

    def shown() -> None:
        pages = crawl.pages()
        assert "/refused" not in pages
        assert "/twice" in pages
        assert crawl.hits("marked words") == sorted(path for path in tags if tags[path][2])
        for path, (_, _, indexed, followed) in tags.items():
            page = pages[path]
            assert page["status"] == ("Indexed" if indexed else "Crawled"), path
            assert (page["lastOutcome"] == "excluded") is not indexed, path
            assert (f"{path}/child" in pages) is followed, path
            by_header = not indexed and path.startswith("/tag/")
            # A 304 could not tell that the header is taken back: there is nothing to ask with.
            assert (page["httpEtag"] is None) is by_header, path
            if not indexed:
                assert page["effectiveStatus"] == 406
                assert page["bodyHash"] is not None
        assert not any(page["lastOutcome"] == "orphaned" for page in pages.values())
        assert crawl.counts_add_up()

    crawl(site.url("/"))
    shown()
    site.clear()
    crawl(site.url("/"))
    shown()
    whole = {r.path for r in site.log if r.status == 200}
    assert whole == {"/tag/noindex", "/tag/none", "/tag/ours"}


@pytest.mark.covers("R4-20", "U-07")
def test_a_page_enters_the_index_when_its_noindex_goes_and_leaves_it_when_it_comes(
    site: Site, crawl: Crawl
):
    noindex = '<meta name="robots" content="noindex">'
    site.pages["/"] = html("Home", "/opens", "/closes")
    site.pages["/opens"] = html("Opens", "/opens/child", text="curtain", head=noindex)
    site.pages["/closes"] = html("Closes", "/closes/child", text="shutter")
    site.pages["/opens/child"] = html("Child of opens")
    site.pages["/closes/child"] = html("Child of closes")
    crawl(site.url("/"))
    site.pages["/opens"] = html("Opens", "/opens/child", text="curtain")
    site.pages["/closes"] = html("Closes", "/closes/child", text="shutter", head=noindex)

    crawl(site.url("/"))

    pages = crawl.pages()
    assert (pages["/opens"]["lastOutcome"], pages["/opens"]["status"]) == ("new", "Indexed")
    assert crawl.hits("curtain") == ["/opens"]
    assert pages["/closes"]["lastOutcome"] == "excluded"
    assert pages["/closes"]["status"] == "Crawled"
    assert pages["/closes"]["contentHash"] is None
    assert pages["/closes"]["httpEtag"] is None  # no 304 may confirm what was removed (RD-02)
    assert crawl.hits("shutter") == []
    assert pages["/closes/child"]["lastOutcome"] == "unchanged"

    for status in (200, 304):
        site.clear()
        crawl(site.url("/"))

        assert [r.status for r in site.log if r.path == "/closes"] == [status]
        assert crawl.outcomes()["/closes"] == "excluded"
        assert crawl.outcomes()["/closes/child"] == "unchanged"


def test_a_seed_that_robots_forbid_now_did_not_answer(site: Site, crawl: Crawl):
    """What it answered before it was forbidden must not make this run complete."""
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A")
    crawl(site.url("/"))
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /\n", content_type="text/plain")

    crawl(site.url("/"), expect=3)

    latest = crawl.runs()[0]
    assert not latest["complete"]
    assert any(reason.startswith("seed_failed") for reason in latest["reasons"])
    assert {record["orphanAge"] for record in crawl.records()} == {0}


def test_links_count_again_when_a_header_no_longer_forbids_to_follow_them(site: Site, crawl: Crawl):
    body = html("Home", "/a")
    site.pages["/"] = Page(body, headers={"X-Robots-Tag": "nofollow"}, etag=None)
    site.pages["/a"] = html("A")
    crawl(site.url("/"))
    assert set(crawl.outcomes()) == {"/"}
    site.pages["/"] = Page(body, etag=None)

    crawl(site.url("/"))

    assert crawl.outcomes()["/a"] == "new"
