"""Servers that lie about what changed are found out, and not believed from then on."""

import json
import time
from dataclasses import replace

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, _Answer, html

PAGES = 40


def conditions(site: Site) -> dict[str, tuple[bool, bool]]:
    """Which validators each page was asked with."""
    return {
        r.path: ("if-none-match" in r.headers, "if-modified-since" in r.headers)
        for r in site.log
        if r.path != "/robots.txt"
    }


def fill(site: Site, edition: str, **fields: object) -> None:
    """Publish an edition of all pages under the same validators."""
    site.pages["/"] = Page(html("Home", *(f"/p{n}" for n in range(PAGES))), etag='"home"')
    for n in range(PAGES):
        site.pages[f"/p{n}"] = Page(html(f"Page {n}", text=f"{edition} text {n}"), **fields)  # type: ignore[arg-type]


@pytest.mark.covers("M-10", "R0-97")
def test_a_frozen_etag_heals_itself_within_the_sampling_period(site: Site, crawl: Crawl):
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0.1"
    fill(site, "first", etag='"frozen"')
    crawl(site.url("/"))
    fill(site, "second", etag='"frozen"')
    runs = 0
    while crawl.hits('"first text"') and runs < 10:
        site.clear()
        crawl(site.url("/"))
        runs += 1
        paths = [r.path for r in site.log]
        assert len(paths) == len(set(paths)), "no page is asked twice in a run"

    assert runs <= 3
    assert len(crawl.hits('"second text"')) == PAGES
    site.clear()
    crawl(site.url("/"))
    assert {told for path, told in conditions(site).items() if path != "/"} == {(False, False)}
    why = crawl.run("why", site.url("/p1")).out
    assert "its ETags are frozen" in why
    assert "unreliable" in why
    (host,) = json.loads(crawl.run("hosts", "--format", "json").out)
    assert host["distrusted"][0].startswith("its ETags are frozen")


@pytest.mark.covers("M-10")
def test_a_false_date_is_not_believed_and_an_etag_beside_it_still_is(site: Site, crawl: Crawl):
    date = "Mon, 05 Jan 2026 10:00:00 GMT"
    crawl.environment["TRUST_SAMPLE_RATIO"] = "1"
    fill(site, "first", etag=None, last_modified=date)
    crawl(site.url("/"))
    fill(site, "second", etag=None, last_modified=date)
    crawl(site.url("/"))
    assert len(crawl.hits('"second text"')) == PAGES  # each was a sample
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    site.clear()
    crawl(site.url("/"))

    assert conditions(site)["/p1"] == (False, False)
    assert conditions(site)["/"] == (True, False)


@pytest.mark.covers("M-10")
@pytest.mark.parametrize("etag", [None, '"1-%x"', 'W/"%x-3e8"'])
def test_edits_are_found_though_all_files_have_one_cleared_time(
    site: Site, crawl: Crawl, etag: str | None
):
    """As nginx serves files of Nix, and Node.js those of npm: the edit keeps date and length."""
    date = "Thu, 01 Jan 1970 00:00:01 GMT"

    def publish(text: str) -> None:
        for path, body in (("/", html("Home", "/a", "/b")), ("/a", html("A", text=text))):
            named = etag and etag % len(body)
            site.pages[path] = Page(body, etag=named, last_modified=date)
        site.pages["/b"] = Page(html("B"), etag='"v1"', last_modified=date)

    publish("the first text")
    crawl(site.url("/"))
    assert crawl.pages()["/a"]["lastModifiedReceived"] is None
    publish("a second text.")
    site.clear()

    crawl(site.url("/"))

    assert crawl.hits("second") == ["/a"]
    assert conditions(site) == {"/": (False, False), "/a": (False, False), "/b": (True, False)}
    assert crawl.outcomes() == {"/": "unchanged", "/a": "modified", "/b": "unchanged"}


@pytest.mark.covers("M-10")
def test_a_rotating_etag_is_left_out_so_that_the_date_counts(site: Site, crawl: Crawl):
    date = "Mon, 05 Jan 2026 10:00:00 GMT"
    for n in range(4):  # the second may be a rebuild
        fill(site, "same", etag=f'"{n}"', last_modified=date)
        site.pages["/"] = replace(site.pages["/"], etag=f'"{n}"')
        site.clear()
        crawl(site.url("/"))

    assert conditions(site)["/p1"] == (False, True)
    assert {r.status for r in site.log if r.path.startswith("/p")} == {304}


@pytest.mark.covers("M-10")
def test_304s_that_name_other_versions_are_not_believed_until_downloads_speak_for_the_host(
    site: Site, crawl: Crawl
):
    date = "Mon, 05 Jan 2026 10:00:00 GMT"
    fill(site, "same", last_modified=date)
    rest = [f"/p{n}" for n in range(2, PAGES)]
    site.pages["/"] = html("Home", "/list", "/p0", "/p1")
    site.pages["/list"] = html("List", *rest)
    crawl(site.url("/"))
    pages = dict(site.pages)
    for n in range(2):
        site.pages[f"/p{n}"] = Page("", status=304, etag='"other"')
    site.clear()

    crawl(site.url("/"))

    whole = [path for path, sent in conditions(site).items() if not any(sent)]
    assert sorted(whole) == sorted(rest), "all that were asked after these two"
    assert "its 304 responses contradict themselves: 2 of" in crawl.run("hosts").out
    assert "unreliable" in crawl.run("why", site.url("/p9")).out
    site.pages |= pages
    crawl(site.url("/"))
    assert "unreliable" not in crawl.run("hosts").out
    site.clear()

    crawl(site.url("/"))

    assert set(conditions(site).values()) == {(True, False), (True, True)}


def test_pages_that_are_never_the_same_cost_no_trust(site: Site, crawl: Crawl):
    """One of forty shows another quote each time, under the ETag of its template."""
    crawl.environment["TRUST_SAMPLE_RATIO"] = "1"
    fill(site, "same", etag='"same"')
    crawl(site.url("/"))
    for n in range(3):
        site.pages["/p0"] = Page(html("Page 0", text=f"quote {n}"), etag='"same"')
        crawl(site.url("/"))
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    site.clear()
    crawl(site.url("/"))

    assert conditions(site)["/p1"] == (True, False)


@pytest.mark.covers("M-10")
def test_after_so_many_days_no_304_counts(site: Site, crawl: Crawl):
    fill(site, "same")
    crawl(site.url("/"))
    days = int(time.time()) - 100 * 86_400
    crawl.rows(f"UPDATE record SET verified_at = {days} WHERE url LIKE '%/p1'")
    site.clear()
    crawl(site.url("/"))
    assert [path for path, told in conditions(site).items() if told == (False, False)] == ["/p1"]
    site.clear()
    crawl(site.url("/"))
    assert set(conditions(site).values()) == {(True, False)}


def test_what_was_found_out_long_ago_is_learnt_anew(site: Site, crawl: Crawl):
    crawl.environment["TRUST_SAMPLE_RATIO"] = "1"
    fill(site, "first", etag='"frozen"')
    crawl(site.url("/"))
    fill(site, "second", etag='"frozen"')
    crawl(site.url("/"))
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    crawl.rows(f"UPDATE trust SET distrusted_at = distrusted_at - {91 * 86_400}")
    site.clear()
    crawl(site.url("/"))

    assert conditions(site)["/p1"] == (True, False)


# HEAD


def methods(site: Site) -> list[tuple[str, str]]:
    return [(r.method, r.path) for r in site.log if r.path != "/robots.txt"]


def test_a_head_comes_first_only_where_it_may_save_a_long_download(site: Site, crawl: Crawl):
    crawl.environment["HEAD_MIN_BYTES"] = "1000"
    site.pages["/"] = html("Home", "/long", "/short")
    for path, size in (("/long", 200), ("/short", 1)):
        body = html(path, text="many words " * size)
        site.pages[path] = Page(body, headers={"ETag": '"same"'}, etag=None)
    site.ignores_conditions = True
    for _ in range(3):
        crawl(site.url("/"))
    site.clear()
    crawl(site.url("/"))

    assert sorted(methods(site)) == [("GET", "/"), ("GET", "/short"), ("HEAD", "/long")]
    assert crawl.outcomes()["/long"] == "unchanged"
    site.pages["/long"] = Page(
        html("Long", text="other words " * 300), headers={"ETag": '"x"'}, etag=None
    )
    site.clear()
    crawl(site.url("/"))
    assert ("HEAD", "/long") in methods(site)
    assert ("GET", "/long") in methods(site)
    assert crawl.outcomes()["/long"] == "modified"


@pytest.mark.covers("M-10", "R0-37")
@pytest.mark.parametrize(("policy", "heads"), [("always", 3), ("never", 0), ("auto", 0)])
def test_the_policy_says_who_is_asked_with_head(site: Site, crawl: Crawl, policy, heads):
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = html("A", text="text of a")
    site.pages["/b"] = html("B", text="text of b")
    crawl(site.url("/"))
    site.clear()
    crawl(site.url("/"), settings={"HEAD_POLICY": policy})

    asked = [method for method, _ in methods(site)]
    assert (asked.count("HEAD"), asked.count("GET")) == (heads, 3 - heads), "a 304 needs no GET"
    assert (crawl.runs()[0]["conditionalRequests"], crawl.runs()[0]["notModified"]) == (3, 3)
    assert set(crawl.outcomes().values()) == {"unchanged"}


def test_a_server_that_knows_no_head_is_asked_for_the_page(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", text="welcome")
    crawl(site.url("/"))
    site.refuses_head = True
    crawl(site.url("/"), settings={"HEAD_POLICY": "always"})

    assert crawl.outcomes() == {"/": "unchanged"}


@pytest.mark.covers("M-10", "M-02")
def test_what_the_headers_say_counts_where_only_they_were_asked(site: Site, crawl: Crawl):
    """A HEAD brings X-Robots-Tag, too, and no body that would verify anything."""
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = Page(html("A", text="the text of a"))
    crawl(site.url("/"))
    old = crawl.rows("UPDATE record SET verified_at = 1000 RETURNING verified_at")
    site.ignores_conditions = True
    site.pages["/a"] = replace(site.pages["/a"], headers={"X-Robots-Tag": "noindex"})

    crawl(site.url("/"), settings={"HEAD_POLICY": "always", "MAX_UNVERIFIED_DAYS": 0})

    assert ("HEAD", "/a") in methods(site)
    assert crawl.outcomes() == {"/": "unchanged", "/a": "excluded"}
    assert crawl.rows("SELECT verified_at FROM record") == old


@pytest.mark.covers("RD-04")
def test_a_sitemap_with_a_frozen_etag_heals_itself_as_pages_do(site: Site, crawl: Crawl):
    def sitemap(*paths: str) -> Page:
        urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
        body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        return Page(body, content_type="application/xml", etag='"frozen"')

    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    where = f"Sitemap: {site.url('/map.xml')}"
    site.pages["/robots.txt"] = Page(where, content_type="text/plain")
    site.pages["/map.xml"] = sitemap("/a")
    crawl(site.url("/"))
    site.pages["/map.xml"] = sitemap("/a", "/new")
    site.pages["/new"] = html("New", text="the new page")

    crawl(site.url("/"), settings={"TRUST_SAMPLE_RATIO": 1})

    assert crawl.hits('"the new page"') == ["/new"]


def test_a_tag_that_was_weak_for_a_second_is_the_same_tag(site: Site, crawl: Crawl):
    """As Apache gives it to a file that was just written; its filters do not know their mark."""
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    site.ignores_conditions = True
    fill(site, "one", etag='W/"a-gzip"')
    site.pages["/"] = replace(site.pages["/"], etag='W/"a-gzip"')
    crawl(site.url("/"))
    fill(site, "one", etag='"a-gzip"')
    site.pages["/"] = replace(site.pages["/"], etag='"a-gzip"')
    crawl(site.url("/"))
    site.clear()
    site.ignores_conditions = False

    crawl(site.url("/"))

    asked = {r.headers.get("if-none-match") for r in site.log if r.path not in ("/", "/robots.txt")}
    assert asked == {'"a-gzip", "a"'}


class DeafSite(LabSite):
    """Finds no coded ETag in either spelling, and looks at no date beside an ETag."""

    def __init__(self, deaf_to: str = "-gzip") -> None:
        super().__init__()
        self.is_deaf, self.deaf_to = True, deaf_to
        self.asked: dict[str, tuple[str | None, bool]] = {}  #: by path: the tags, whether a date

    def answer(self, method: str, path: str, headers: dict[str, str]) -> _Answer:
        tags = headers.get("if-none-match")
        self.asked[path] = tags, "if-modified-since" in headers
        if self.is_deaf and self.deaf_to in (tags or ""):
            headers = {name: value for name, value in headers.items() if name[:3] != "if-"}
        return super().answer(method, path, headers)


@pytest.mark.covers("RD-04")
def test_a_date_stands_alone_where_a_coded_tag_is_unknown_in_both_spellings(crawl: LabCrawl):
    crawl.web.sites[:] = [site := DeafSite()]
    fill(site, "one", last_modified="Mon, 05 Jan 2026 10:00:00 GMT")
    coded = {path: replace(page, headers={"ETag": f'"{path}-gzip"'})
             for path, page in site.pages.items() if path not in ("/", "/p7")}  # fmt: skip
    site.pages |= coded
    site.pages["/p8"] = replace(site.pages["/p8"], last_modified=None)
    for _ in range(2):
        crawl(site.url("/"))
    alone = [path for path, asked in site.asked.items() if asked == (None, True)]
    assert len(alone) >= PAGES / 2, "two pages show it, the others profit"
    crawl(site.url("/"))

    assert {site.asked.pop(path) for path in coded if path != "/p8"} == {(None, True)}
    assert site.asked["/p8"] == ('"/p8-gzip", "/p8"', False), "it has no date"
    assert site.asked["/p7"][1] is True, "its tag is not coded"
    assert site.asked["/p7"][0] is not None
    assert crawl.runs()[0]["notModified"] == PAGES, "all but /p8"
    assert "its ETags of compressed pages bring no 304" in crawl.run("why", site.url("/p1")).out
    assert "If-None-Match" not in crawl.run("why", site.url("/p1")).out
    news = replace(site.pages["/p1"], last_modified="Mon, 05 Jan 2026 10:00:01 GMT")
    news = replace(news, headers={"ETag": '"/p1-news-gzip"'})
    site.pages["/p1"] = replace(news, body=html("One", text="news"))
    crawl(site.url("/"))
    assert crawl.outcomes()["/p1"] == "modified"
    site.is_deaf = False
    crawl(site.url("/"), settings={"TRUST_SAMPLE_RATIO": "0.1"})
    crawl(site.url("/"), settings={"TRUST_SAMPLE_RATIO": "0.1"})
    crawl(site.url("/"))
    assert site.asked["/p2"] == ('"/p2-gzip", "/p2"', True), "the one after a sample showed it"
    assert crawl.runs()[0]["notModified"] == PAGES + 1


@pytest.mark.covers("RD-04")
def test_a_date_stands_alone_where_no_tag_brings_a_304(crawl: LabCrawl):
    crawl.web.sites[:] = [site := DeafSite(deaf_to='"')]
    fill(site, "one", last_modified="Mon, 05 Jan 2026 10:00:00 GMT")
    for _ in range(3):
        crawl(site.url("/"))

    del site.asked["/robots.txt"]
    assert site.asked.pop("/") == ('"home"', False), "it has no date"
    assert set(site.asked.values()) == {(None, True)}
    assert crawl.runs()[0]["notModified"] == PAGES
    why = crawl.run("why", site.url("/p1")).out
    assert "its ETags bring no 304" in why
    site.pages["/p1"] = replace(
        site.pages["/p1"], body=html("One", text="news"),
        last_modified="Mon, 05 Jan 2026 10:00:01 GMT",
    )  # fmt: skip
    crawl(site.url("/"))
    assert crawl.outcomes()["/p1"] == "modified"
    site.is_deaf = False
    for _ in range(2):
        crawl(site.url("/"), settings={"TRUST_SAMPLE_RATIO": "0.1"})
    crawl(site.url("/"))

    assert None not in {tags for path, (tags, _) in site.asked.items() if path != "/robots.txt"}
    assert crawl.runs()[0]["notModified"] == PAGES + 1
