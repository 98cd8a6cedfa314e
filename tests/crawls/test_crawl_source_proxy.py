"""The proxy of a source: every request of its runs goes by it, and its password nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import guarded_site
from tests.connect_proxy import ConnectProxy
from tests.crawls.commands import Crawl
from tests.guarded_site import GuardedSite
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.sqlite]

HOST = "docs.invalid"  #: that the proxy alone knows
PASSWORD = "pa-ss-wo-rd"
MAP = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    f"<url><loc>http://{HOST}/listed</loc></url></urlset>"
)


@pytest.fixture
def proxy(site: Site) -> Iterator[ConnectProxy]:
    """A proxy that takes a password, and knows the host of the site."""
    port = int(site.url("").rpartition(":")[2])
    with ConnectProxy({HOST: port, "127.0.0.1": port}, password=PASSWORD) as made:
        yield made


def fill(site: Site) -> None:
    site.pages |= {
        "/robots.txt": Page(f"Sitemap: http://{HOST}/map.xml\n", content_type="text/plain"),
        "/": html("Home", "/page", "/old"),
        "/page": html("Page", text="treasure"),
        "/old": Page(redirect=f"http://{HOST}/new"),
        "/new": html("New", text="moved"),
        "/map.xml": Page(MAP, content_type="application/xml"),
        "/listed": html("Listed", text="listed"),
    }


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_all_requests_go_by_the_proxy(crawl: Crawl, site: Site, proxy: ConnectProxy, lane: str):
    """The name is unknown to this machine, so that a request beside the proxy would fail."""
    fill(site)
    crawl.environment |= {"DOCS_PROXY": proxy.url, "REVALIDATION_LANE": lane}
    # Proxies of the environment do not count beside it.
    crawl.environment |= {"http_proxy": "http://192.0.2.1:9", "HTTPPROXY_ENABLED": "1"}
    crawl.environment["no_proxy"] = HOST
    crawl.declare(f'[sources.s]\nseeds = ["http://{HOST}/"]\nproxy = "DOCS_PROXY"\n')
    said = ""
    for run in ("first", "second"):
        site.clear()
        proxy.log.clear()

        said += str(crawl(source="s"))

        asked = {one.target.removeprefix(f"http://{HOST}") for one in proxy.log}
        assert asked >= {"/robots.txt", "/", "/page", "/old", "/new", "/map.xml", "/listed"}, run
        assert {one.status for one in proxy.log} == {200}
        assert len(site.log) == len(proxy.log), "none went beside it"
        assert not any("proxy-authorization" in request.headers for request in site.log)
    kept = {path for path, word in crawl.outcomes().items() if word == "unchanged"}
    assert kept >= {"/", "/page", "/new", "/listed"}
    given = next(one.headers["proxy-authorization"] for one in proxy.log).removeprefix("Basic ")
    secrets = [PASSWORD.encode(), given.encode()]
    written = [path for path in Path(crawl.folder).rglob("*") if path.is_file()]
    assert written
    for path in written:
        assert not any(secret in path.read_bytes() for secret in secrets), path
    assert not any(secret.decode() in said for secret in secrets)


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_source_logs_in_by_its_proxy(crawl: Crawl, lane: str):
    """The form, its answer, the proof page and the pages; the proxy gets the login of its own."""
    with GuardedSite() as guard:
        guard.pages |= {
            "/": html("Home", "/page"),
            "/page": html("Page", text="treasure"),
        }
        port = int(guard.url("").rpartition(":")[2])
        with ConnectProxy({HOST: port}, password=PASSWORD) as proxy:
            crawl.environment |= {"DOCS_PROXY": proxy.url, "REVALIDATION_LANE": lane}
            crawl.environment |= {"DOCS_USER": guarded_site.USER}
            crawl.environment["DOCS_PASSWORD"] = guarded_site.PASSWORD
            crawl.declare(
                f'[sources.s]\nseeds = ["http://{HOST}/"]\nproxy = "DOCS_PROXY"\n'
                f'[sources.s.auth]\nkind = "form"\norigins = ["http://{HOST}"]\n'
                f'login = "http://{HOST}/login"\nlogged_in = "{guarded_site.PROOF}"\n'
                'fields = { user = "DOCS_USER", pass = "DOCS_PASSWORD" }\n'
            )
            for logins, word in ((1, "new"), (2, "unchanged")):
                crawl(source="s")

                outcomes = crawl.outcomes()
                assert (guard.logins, outcomes["/"], outcomes["/page"]) == (logins, word, word)
            asked = [(one.method, one.target.removeprefix(f"http://{HOST}")) for one in proxy.log]
            assert asked.count(("POST", "/login")) == 2
            assert {one.status for one in proxy.log} == {200}
            assert len(guard.log) == len(proxy.log), "none went beside it"
    given = [request.headers for request in guard.log]
    assert not any("proxy-authorization" in headers for headers in given)
    assert any("session=" in headers.get("cookie", "") for headers in given)


def test_a_proxy_that_cannot_be_had_is_no_run(crawl: Crawl, site: Site):
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nproxy = "DOCS_PROXY"\n')

    said = str(crawl(source="s", expect=None))

    assert "[sources.s] proxy cannot be had, as the environment variable DOCS_PROXY is not" in said
    assert site.log == []
    assert not Path(str(crawl.registry)).exists()


def test_the_proxy_of_a_source_is_not_asked_for_private_addresses(
    crawl: Crawl, site: Site, proxy: ConnectProxy
):
    """ATT-10."""
    port = site.url("").rpartition(":")[2]
    links = [f"http://localhost:{port}/a", f"http://2130706433:{port}/b", "http://10.0.0.1/c"]
    site.pages["/"] = html("Home", *links)
    crawl.environment["DOCS_PROXY"] = proxy.url
    crawl.declare(
        f'[sources.s]\nseeds = ["http://{HOST}/"]\nproxy = "DOCS_PROXY"\n'
        f'allowed_domains = ["{HOST}", "localhost:{port}", "127.0.0.1:{port}", "10.0.0.1"]\n'
    )

    crawl(source="s", expect=None)

    assert {one.target for one in proxy.log} == {f"http://{HOST}/", f"http://{HOST}/robots.txt"}
    refused = [one for one in crawl.records() if HOST not in one["url"]]
    outcomes = [(one["lastOutcome"], one["httpStatusCode"]) for one in refused]
    assert outcomes == [("failed", 1109)] * 3
