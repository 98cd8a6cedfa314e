"""What belongs to a source, today's word on it, and sources side by side."""

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.site_server import Page, Site, html


def asked(site: Site) -> set[str]:
    return {request.path for request in site.log} - {"/robots.txt"}


def table(name: str, *seeds: str, more: str = "") -> str:
    return f"[sources.{name}]\nkind = 'site'\nseeds = {list(seeds)}\n{more}\n"


@pytest.mark.covers("R2-22", "RD-15", "M-28", "RD-20")
def test_a_url_names_its_host_and_port_with_any_path_and_no_other(site: Site, crawl: Crawl):
    with Site() as other:
        other.pages["/"] = other.pages["/x"] = html("Elsewhere")
        localhost = site.url("/l").replace("127.0.0.1", "localhost")
        site.pages["/sub/start"] = html(
            "Start", "/above", "beside", other.url("/x"), localhost, "//127.0.0.1/y", "photo.jpg",
            "http://example.invalid/", "mailto:a@example.com", "data:text/html,x", "tel:1",
        )  # fmt: skip
        site.pages["/above"] = html("Above", text="over there")
        site.pages["/sub/beside"] = html("Beside")
        url = site.url("/sub/start#middle").replace("http://", "HTTP://user:geheim@")

        result = crawl(url)

        assert other.log == []
    assert {record["url"] for record in crawl.records()} == {
        site.url(path) for path in ("/sub/start", "/above", "/sub/beside")
    }
    assert asked(site) == {"/sub/start", "/above", "/sub/beside"}
    assert not any("authorization" in request.headers for request in site.log)
    assert "geheim" not in result.out + result.err
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


@pytest.mark.parametrize("words", [("crawl", "site"), ("due",)], ids=["crawl", "due"])
def test_a_source_that_another_run_holds_hides_no_dead_one(
    site: Site, crawl: Crawl, words: tuple[str, ...]
):
    site.pages["/"] = Page("no", status=500)
    site.pages["/held"] = html("Held")
    crawl.declare(table("dead", site.url("/")) + table("held", site.url("/held")))
    crawl.environment["RETRY_TIMES"] = "0"
    with crawl.held("held"):
        crawl.run(*words, expect=3)

        crawl.declare(table("held", site.url("/held")))
        crawl.run("crawl", "site", expect=4)


@pytest.mark.covers("M-38", "RP-04")
def test_without_an_argument_every_source_is_crawled_in_a_run_of_its_own(site: Site, crawl: Crawl):
    with Site() as other:
        site.pages["/"] = html("One", "/a")
        site.pages["/a"] = html("A", text="words of the first site")
        other.pages["/"] = Page("no", status=500)
        crawl.declare(
            table("broken", other.url("/"))
            + table("one", site.url("/"))
            + table("two", site.url("/a"), more="release = '2.1'")
        )
        crawl.environment["RETRY_TIMES"] = "0"

        result = crawl(expect=3)  # the worst of 3, 0 and 0

        runs = {run["source"]: run for run in crawl.runs()}
        assert {name: run["complete"] for name, run in runs.items()} == {
            "broken": False, "one": True, "two@2.1": True
        }  # fmt: skip
        assert site.count("/a") == 2  # each source has its own record of it
        records = [(record["source"], path_of(record["url"])) for record in crawl.records()]
        assert sorted(records) == [
            ("broken", "/"), ("one", "/"), ("one", "/a"), ("two@2.1", "/a")
        ]  # fmt: skip
        assert all(name in result.out for name in runs)
        [hit] = crawl.search("first site")
        assert set(hit["sources"]) == {"one", "two@2.1"}
        hits = crawl.search("first site", "--source", "one")
        assert {hit["source"] for hit in hits} == {"one"}
        other.pages["/"] = html("Two")

        crawl()

        site.clear()
        crawl(source="one")
        assert site.count("/") == 1
        assert len(crawl.runs()) == 7
        assert {run["run"] for run in crawl.runs(source="one")} == {2, 5, 7}
        assert {page["lastOutcome"] for page in crawl.records(source="one")} == {"unchanged"}
        two = crawl.pages(source="two@2.1")["/a"]
        assert (two["lastOutcome"], two["visitedRun"]) == ("unchanged", 6)


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
def test_allowed_domains_hold_hosts_with_ports_and_subdomains(site: Site, crawl: Crawl):
    """The site is a proxy here, so it can be any host."""
    crawl.environment |= {"http_proxy": site.url(""), "HTTPPROXY_ENABLED": "1"}
    crawl.environment["ALLOW_NETWORKS"] = "127.0.0.0/8"
    home, deep = "http://docs.example.com", "http://a.b.example.com"
    site.pages[f"{home}/"] = html(
        "Home", f"{deep}/", "http://example.com.evil.org/", "http://notexample.com/",
        "http://b.test:8080/", "http://b.test:8081/", "http://example.com:80/x",
    )  # fmt: skip
    for url in (f"{deep}/", "http://b.test:8080/", "http://example.com/x"):
        site.pages[url] = html(url, "//other.invalid/", text="allowed")
    crawl.declare(
        table("docs", f"{home}/", more='allowed_domains = ["example.com", "b.test:8080"]')
    )

    crawl(source="docs")

    urls = {f"{home}/", f"{deep}/", "http://b.test:8080/", "http://example.com/x"}
    assert {record["url"] for record in crawl.records()} == urls
    assert {r.path for r in site.log if not r.path.endswith("/robots.txt")} == urls
    assert {r.path for r in site.log if r.path.endswith("/robots.txt")} == {
        f"{home}/robots.txt", f"{deep}/robots.txt",
        "http://b.test:8080/robots.txt", "http://example.com/robots.txt",
    }  # fmt: skip


def behind_the_guard(site: Site, crawl: Crawl, other: Site) -> None:
    """Declare a source whose seed links to another port of this machine, by all its names."""
    port = other.url("").rpartition(":")[2]
    names = [f"127.0.0.1:{port}", f"localhost:{port}", f"[::ffff:127.0.0.1]:{port}"]
    fillers = [f"/{n}" for n in range(40)]  # so that three unreachable ones are not too many
    site.pages["/"] = html("Home", *(f"http://{name}/" for name in names), *fillers)
    site.pages |= {path: html(path) for path in fillers}
    other.pages["/"] = html("Inside", text="crown jewels")
    own = site.url("").removeprefix("http://")
    allowed = [own, *names[:2], f"[::ffff:7f00:1]:{port}"]
    crawl.declare(table("docs", site.url("/"), more=f"allowed_domains = {allowed}"))
    crawl.environment["RETRY_TIMES"] = "0"


def test_a_link_into_a_private_network_is_not_connected_to(site: Site, crawl: Crawl):
    """Trap 10: a seed on loopback just works; what pages name there does not, unless allowed."""
    with Site() as other:
        behind_the_guard(site, crawl, other)

        crawl(source="docs")

        assert other.log == []
        inside = [record for record in crawl.records() if site.url("") not in record["url"]]
        assert len(inside) == 3
        assert {record["lastOutcome"] for record in inside} == {"failed"}
        crawl(source="docs", settings={"ALLOW_NETWORKS": "127.0.0.1/32"})
        assert other.count("/") >= 1
        assert crawl.search("crown jewels")


def test_an_address_that_may_not_be_connected_to_is_told_with_the_remedy(site: Site, crawl: Crawl):
    with Site() as other:
        behind_the_guard(site, crawl, other)

        crawl(source="docs")

    inside = [record for record in crawl.records() if site.url("") not in record["url"]]
    assert all("ALLOW_NETWORKS" in record["errorMessage"] for record in inside), inside
