"""robots.txt, nofollow and noindex: what is not asked, not followed, not shown."""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


def robots(text: str) -> Page:
    return Page(text, content_type="text/plain", etag=None)


@pytest.mark.covers("R0-42", "R0-58", "R2-70", "U-15", "M-25")
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
    crawl(site.url("/"), settings=impatient)
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
            assert page["httpEtag"] is not None
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
    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}


@pytest.mark.covers("R4-20", "U-07")
def test_a_page_enters_the_index_when_its_noindex_goes_and_stays_held_when_it_comes(
    site: Site, crawl: Crawl
):
    noindex = '<meta name="robots" content="noindex">'
    site.pages["/"] = html("Home", "/opens", "/closes")
    site.pages["/opens"] = html("Opens", "/opens/child", text="curtain", head=noindex)
    site.pages["/closes"] = html("Closes", "/closes/child", text="shutter")
    site.pages["/opens/child"] = html("Child of opens")
    site.pages["/closes/child"] = html("Child of closes")
    crawl(site.url("/"))
    held = crawl.pages()["/closes"]
    site.pages["/opens"] = html("Opens", "/opens/child", text="curtain")
    site.pages["/closes"] = html("Closes", "/closes/child", text="shutter", head=noindex)

    crawl(site.url("/"))

    pages = crawl.pages()
    assert (pages["/opens"]["lastOutcome"], pages["/opens"]["status"]) == ("new", "Indexed")
    assert crawl.hits("curtain") == ["/opens"]
    assert pages["/closes"]["lastOutcome"] == "excluded"
    assert pages["/closes"]["status"] == "Indexed"  # until a sweep, which is to come
    assert pages["/closes"]["contentHash"] == held["contentHash"]
    assert pages["/closes"]["httpEtag"] == held["httpEtag"]
    assert crawl.hits("shutter") == ["/closes"]
    assert pages["/closes/child"]["lastOutcome"] == "unchanged"

    crawl(site.url("/"))  # asked with the validators of what is held: 200 and noindex again

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
