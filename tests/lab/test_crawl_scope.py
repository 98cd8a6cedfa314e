"""What belongs to a source, today's word on it, and sources side by side."""

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Site, html


def asked(site: Site) -> set[str]:
    return {request.path for request in site.log} - {"/robots.txt"}


def table(name: str, *seeds: str, more: str = "") -> str:
    return f"[sources.{name}]\nkind = 'site'\nseeds = {list(seeds)}\n{more}\n"


@pytest.mark.covers("R2-22", "RD-15", "M-28", "RD-20")
def test_a_url_names_its_host_and_port_with_any_path_and_no_other(
    site: LabSite, other: Site, crawl: Crawl
):
    other.pages["/"] = other.pages["/x"] = html("Elsewhere")
    port = f"http://{site.host}:8080/l"
    site.pages["/sub/start"] = html(
        "Start", "/above", "beside", other.url("/x"), port, "//sub.site.example/y", "photo.jpg",
        "http://example.invalid/", "mailto:a@example.com", "data:text/html,x", "tel:1",
    )  # fmt: skip
    site.pages["/above"] = html("Above", text="over there")
    site.pages["/sub/beside"] = html("Beside")
    url = site.url("/sub/start#middle").replace("http://", "HTTP://")

    refused = crawl(url.replace("//", "//user:geheim@"), scope="host", expect=1)
    assert site.log == []
    result = crawl(url, scope="host")

    assert other.log == []
    assert {record["url"] for record in crawl.records()} == {
        site.url(path) for path in ("/sub/start", "/above", "/sub/beside")
    }
    assert asked(site) == {"/sub/start", "/above", "/sub/beside"}
    assert not any("authorization" in request.headers for request in site.log)
    assert "geheim" not in refused.out + refused.err + result.out + result.err
    assert [name for name, content in crawl.written() if b"geheim" in content] == []


@pytest.mark.covers("R2-22", "R4-08", "R4-17", "R4-18", "M-02", "M-25")
def test_stored_links_are_filtered_by_the_scope_of_today(site: Site, crawl: Crawl):
    """A 304 page's links are what it said, not what was allowed when it said so."""
    site.pages["/"] = html("Home", "/hub")
    site.pages["/hub"] = html("Hub", "/docs/a", "/private/a", "/other")
    for path in ("/docs/a", "/private/a", "/private/b", "/other"):
        site.pages[path] = html(path, "/private/b", text=f"content of {path}")

    def declare(more: str) -> None:
        crawl.declare(table("docs", site.url("/"), more=more))
        site.clear()
        crawl(source="docs")

    declare("")
    everything = asked(site)
    assert everything == {"/", "/hub", "/docs/a", "/private/a", "/private/b", "/other"}

    declare("excluded_patterns = ['/private/']")
    assert asked(site) == {"/", "/hub", "/docs/a", "/other"}
    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}
    for path in ("/private/a", "/private/b"):
        page = crawl.pages()[path]
        assert (page["lastOutcome"], page["status"]) == ("excluded", "OutOfScope")
    assert crawl.hits("content") == ["/docs/a", "/other", "/private/a", "/private/b"]
    assert crawl.runs()[0]["complete"]

    declare("url_patterns = ['/docs/', '/hub$', '/$']\nexcluded_patterns = ['nothing']")
    assert asked(site) == {"/", "/hub", "/docs/a"}
    assert [crawl.pages()[path]["orphanAge"] for path in ("/private/a", "/other")] == [2, 1]

    declare("")
    assert asked(site) == everything
    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert {page["status"] for page in crawl.records()} == {"Indexed"}
    assert {page["errorMessage"] for page in crawl.records()} == {None}

    for _ in range(3):
        assert crawl.hits("content") == ["/docs/a", "/other", "/private/a", "/private/b"]
        declare("excluded_patterns = ['/private/']")

    assert asked(site) == {"/", "/hub", "/docs/a", "/other"}, "what is excluded is not asked"
    assert crawl.hits("content") == ["/docs/a", "/other"]
    for path in ("/private/a", "/private/b"):
        page = crawl.pages()[path]
        assert (page["lastOutcome"], page["status"]) == ("deleted", "OutOfScope")
        assert (page["contentHash"], page["httpEtag"]) == (None, None)


@pytest.mark.covers("M-25", "U-15")
def test_what_leaves_the_scope_goes_at_once_when_the_operator_says_so(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/docs/a", "/private/a")
    for path in ("/docs/a", "/private/a"):
        site.pages[path] = html(path, text=f"content of {path}")
    crawl.declare(table("docs", site.url("/")))
    crawl(source="docs")
    crawl.declare(table("docs", site.url("/"), more="excluded_patterns = ['/private/']"))

    crawl(source="docs", settings={"OUT_OF_SCOPE_POLICY": "remove"})

    page = crawl.pages()["/private/a"]
    assert (page["lastOutcome"], page["status"]) == ("deleted", "OutOfScope")
    assert crawl.hits("content") == ["/docs/a"]
    crawl.declare(table("docs", site.url("/")))
    site.clear()

    crawl(source="docs")  # allowed again: asked without validators, and new

    assert crawl.outcomes() == {"/": "unchanged", "/docs/a": "unchanged", "/private/a": "new"}
    assert {r.path: r.status for r in site.log}["/private/a"] == 200
    assert crawl.hits("content") == ["/docs/a", "/private/a"]


@pytest.mark.covers("R4-17", "R1-20", "M-02")
def test_what_was_never_allowed_is_found_behind_a_304_when_it_is(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/secret")
    site.pages["/secret"] = html("Secret", "/secret/child", text="revealed")
    site.pages["/secret/child"] = html("Child")
    crawl.declare(table("docs", site.url("/"), more="excluded_patterns = ['/secret']"))
    crawl(source="docs")
    assert crawl.outcomes() == {"/": "new"}
    crawl.declare(table("docs", site.url("/")))

    crawl(source="docs")

    assert crawl.outcomes() == {"/": "unchanged", "/secret": "new", "/secret/child": "new"}


@pytest.mark.covers("R0-04", "R0-16", "R0-14", "R0-15", "R0-99", "R1-12", "RD-23")
def test_spellings_of_one_address_are_one_record_and_one_request(site: Site, crawl: Crawl):
    site.pages["/"] = html(
        "Home", "/a", "/a/", "/a#x", "/a?utm_source=1", "/a?gclid=2&fbclid=3", "/./b/../a",
        "/q?b=2&a=1", "/q?a=1&b=2", "/%7Euser", "/~user", "/caf%c3%a9", "/café", "/ref?ref=1",
    )  # fmt: skip
    for path in ("/a", "/q", "/~user", "/caf%C3%A9", "/ref"):
        site.pages[path] = html(path, text="one of them")
    site.pages["/%7Euser"], site.pages["/caf%c3%a9"] = site.pages["/~user"], html("café")

    crawl(site.url("/"))

    assert sorted(asked(site)) == sorted(
        ["/", "/a", "/q?b=2&a=1", "/%7Euser", "/caf%c3%a9", "/ref?ref=1"]
    )
    assert set(crawl.outcomes().values()) == {"new"}
    site.clear()

    crawl(site.url("/"))

    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}
    assert len(asked(site)) == 6


@pytest.mark.covers("M-28")
def test_allowed_domains_hold_hosts_with_ports_and_subdomains(crawl: LabCrawl):
    hosts = ("docs.example.com", "a.b.example.com", "b.test:8080", "b.test:8081", "example.com")
    sites = {host: LabSite(host) for host in (*hosts, "notexample.com", "example.com.evil.org")}
    crawl.web.sites[:] = sites.values()
    home, deep = sites["docs.example.com"], sites["a.b.example.com"]
    home.pages["/"] = html(
        "Home", deep.url("/"), "http://example.com.evil.org/", "http://notexample.com/",
        "http://b.test:8080/", "http://b.test:8081/", "http://example.com:80/x",
    )  # fmt: skip
    for site in sites.values():
        for path in {"/", "/x"} - home.pages.keys():
            site.pages[path] = html(site.url(path), "//other.invalid/", text="allowed")
    crawl.declare(
        table("docs", home.url("/"), more='allowed_domains = ["example.com", "b.test:8080"]')
    )

    crawl(source="docs")

    urls = {home.url("/"), deep.url("/"), "http://b.test:8080/", "http://example.com/x"}
    assert {record["url"] for record in crawl.records()} == urls
    found = {site.url(r.path) for site in sites.values() for r in site.log}
    assert found == urls | {
        "http://docs.example.com/robots.txt", "http://a.b.example.com/robots.txt",
        "http://b.test:8080/robots.txt", "http://example.com/robots.txt",
    }  # fmt: skip
