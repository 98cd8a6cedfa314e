"""The keys of a source's requests, as engine and lane keep them."""

import json

import pytest

from tests.connect_proxy import ConnectProxy
from tests.crawls.commands import Crawl
from tests.crawls.test_crawl_politeness import Counting, fill
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.sqlite]

ROADS = pytest.mark.parametrize("lane", ["auto", "off"])
HIDDEN = ("/open", "/hidden")  #: from one of both agents
ROBOTS = "User-agent: docsbot\nDisallow: /hidden\n\nUser-agent: *\nDisallow: /open\n"


def sitemap(*urls: str) -> Page:
    places = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
    return Page(text, content_type="application/xml")


def spread(site: Counting) -> float:
    """The seconds between the first and the last request of a run."""
    return site.began[-1] - site.began[0]


@ROADS
def test_agent_and_headers_reach_whom_they_are_for(crawl: Crawl, site: Site, lane: str):
    """The second run asks pages by the lane; a redirect leads to another origin and back."""
    crawl.environment |= {"REVALIDATION_LANE": lane, "ALLOW_NETWORKS": "127.0.0.0/8"}
    with Site() as other:
        site.pages |= {
            "/robots.txt": Page(ROBOTS, content_type="text/plain"),
            "/": html("Home", "/open", "/hidden", "/away", other.url("/deep")),
            "/open": html("Open", text="open"),
            "/hidden": html("Hidden"),
            "/away": Page(redirect=other.url("/there")),
            "/back": html("Back", text="back"),
            "/map.xml": sitemap(site.url("/listed")),
            "/listed": html("Listed", text="listed"),
        }
        other.pages |= {
            "/there": Page(redirect=site.url("/back")),
            "/deep": html("Deep", text="deep"),
        }
        hosts = [one.url("").removeprefix("http://") for one in (site, other)]
        crawl.declare(
            f'[sources.s]\nseeds = ["{site.url("/")}"]\nsitemaps = ["{site.url("/map.xml")}"]\n'
            f"allowed_domains = {json.dumps(hosts)}\n"
            'user_agent = "docsbot/3"\n'
            'headers = { X-Team = "docs", Accept-Language = "de" }\n'
        )
        for run in ("first", "second"):
            site.clear()
            other.clear()

            crawl(source="s")

            seen = {request.path for request in site.log}
            assert {"/", "/open", "/away", "/back", "/map.xml", "/listed"} <= seen, run
            assert "/hidden" not in seen, run
            for request in [*site.log, *other.log]:
                assert request.headers["user-agent"] == "docsbot/3", (run, request.path)
            for request in site.log:
                names = [request.headers.get(name) for name in ("x-team", "accept-language")]
                is_robots = request.path == "/robots.txt"
                assert names == ([None, "en"] if is_robots else ["docs", "de"]), (run, request.path)
            assert {request.path for request in other.log} >= {"/deep", "/there"}, run
            for request in other.log:
                names = [request.headers.get(name) for name in ("x-team", "accept-language")]
                assert names == [None, "en"], (run, request.path)
    assert set(crawl.outcomes().values()) >= {"unchanged"}
    told = [crawl.run("why", site.url(path), "--format", "json").out for path in HIDDEN]
    robots = [json.loads(text)["records"][0]["robots"]["allowed"] for text in told]
    assert robots == [True, False], "as the agent of the source, not as that of the settings"


@ROADS
def test_delay_and_concurrency_are_those_of_the_source(crawl: Crawl, lane: str):
    crawl.environment |= {"REVALIDATION_LANE": lane, "CONCURRENT_REQUESTS": "2"}
    with Counting() as site:
        fill(site, 12)
        crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nconcurrency = 6\n')

        crawl(source="s")
        first, site.most = site.most, 0
        crawl(source="s")

        assert 3 < first <= 6, "the setting is 3, and 2 in all"
        assert 3 < site.most <= 6
        site.seconds = 0
        site.began.clear()
        crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\ndelay = 0.2\n')
        crawl(source="s")

        assert len(site.began) == 14
        assert spread(site) > 12 * 0.2, "a busy server may note the first one late"


@ROADS
def test_the_longest_delay_of_all_sources_of_a_host_counts(crawl: Crawl, lane: str):
    """Also where AutoThrottle would lower it, and for a source that has none of its own."""
    crawl.environment |= {"REVALIDATION_LANE": lane, "AUTOTHROTTLE_ENABLED": "1"}
    with Counting() as site:
        site.seconds = 0
        fill(site, 6)
        crawl.declare(
            f'[sources.s]\nseeds = ["{site.url("/")}"]\n'
            f'[sources.slow]\nseeds = ["{site.url("/other")}"]\ndelay = 0.3\n'
            '[sources.far]\nseeds = ["https://far.example/"]\ndelay = 30\n'
        )
        for _run in range(2):
            site.began.clear()

            crawl(source="s")

            assert len(site.began) == 8
            assert spread(site) > 6 * 0.3


def test_the_command_line_is_stronger_than_a_key_and_a_key_than_the_environment(
    crawl: Crawl, site: Site
):
    crawl.environment["USER_AGENT"] = "of-the-environment"
    fill(site, 1)
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nuser_agent = "of-the-source"\n')

    crawl(source="s")
    assert {request.headers["user-agent"] for request in site.log} == {"of-the-source"}

    site.clear()
    crawl(source="s", settings={"USER_AGENT": "of-the-order"})
    assert {request.headers["user-agent"] for request in site.log} == {"of-the-order"}


def test_due_keeps_the_keys(crawl: Crawl, site: Site):
    fill(site, 2)
    crawl.declare(
        f'[sources.s]\nseeds = ["{site.url("/")}"]\nuser_agent = "docsbot/3"\n'
        'headers = { X-Team = "docs" }\n'
    )
    crawl(source="s")
    site.clear()
    crawl.environment["CRAWL_JITTER"] = "0"
    crawl.run("due", "--notice", site.url("/1"))

    crawl.run("due", expect=0)

    asked = [request for request in site.log if request.path == "/1"]
    assert [(r.headers["user-agent"], r.headers["x-team"]) for r in asked] == [
        ("docsbot/3", "docs")
    ]


@ROADS
def test_the_limits_are_those_of_the_source(crawl: Crawl, site: Site, lane: str):
    crawl.environment |= {"REVALIDATION_LANE": lane, "RETRY_TIMES": "5"}
    site.pages |= {
        "/": html("Home", "/slow", "/large", "/gone"),
        "/slow": html("Slow", text="slow"),
        "/large": html("Large", text="large"),
        "/gone": html("Gone", text="gone"),
    }
    table = f'[sources.s]\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(table)
    crawl(source="s")
    slow = Page(html("Slow", text="slow and new"), delay=3)
    large = html("Large", text=3_000 * "word ")
    site.pages |= {"/slow": slow, "/large": large, "/gone": Page("", status=503)}
    crawl.declare(f"{table}timeout = 0.8\nmax_size = 5000\nretry = 1\n")
    site.clear()

    crawl(source="s", expect=3)

    messages = {path: page["errorMessage"] or "" for path, page in crawl.pages().items()}
    assert "DOWNLOAD_TIMEOUT (timeout of its source)" in messages["/slow"]
    assert "DOWNLOAD_MAXSIZE (max_size of its source)" in messages["/large"]
    assert [site.count(path) for path in ("/slow", "/gone")] == [2, 2]
    crawl.declare(table)
    site.pages |= {"/slow": html("Slow", text="quick"), "/gone": html("Gone", text="back")}

    crawl(source="s")

    assert {page["errorMessage"] for page in crawl.records()} == {None}


@ROADS
def test_robots_txt_that_is_not_obeyed_is_not_asked_and_the_log_says_why(
    crawl: Crawl, site: Site, lane: str
):
    crawl.environment["REVALIDATION_LANE"] = lane
    site.pages |= {
        "/robots.txt": Page("User-agent: *\nDisallow: /", content_type="text/plain"),
        "/": html("Home", "/a"),
        "/a": html("A", text="alpha"),
    }
    table = f'[sources.s]\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(table)
    crawl(source="s", expect=3)
    assert (site.count("/robots.txt"), site.count("/")) == (1, 0)
    site.clear()
    for reason in ("it is our own site", ""):
        said = f', reason = "{reason}"' if reason else ""
        crawl.declare(f"{table}obey_robots = {{ obey = false{said} }}\n")
        for _run in range(2):
            ran = crawl(source="s")

            assert "s does not obey robots.txt, which is not even requested" in ran.err
            assert f"(reason: {reason or 'none is given; write one as'}" in ran.err
    assert site.count("/robots.txt") == 0
    assert site.count("/a") == 4
    (told,) = json.loads(crawl.run("why", site.url("/a"), "--format", "json").out)["records"]
    assert (told["robots"]["allowed"], told["robots"]["obeyed"]) == (False, False)
    crawl.declare(table)
    assert "does not obey" not in crawl(source="s", expect=3).err


@ROADS
def test_all_requests_of_a_source_go_through_its_proxy(crawl: Crawl, site: Site, lane: str):
    """Also where the lane would ask; proxies of the environment do not count for it."""
    port = int(site.url("").rpartition(":")[2])
    site.pages |= {"/": html("Home", "/a"), "/a": html("A", text="alpha")}
    with ConnectProxy({"docs.test": port}, password="hush") as proxy:
        crawl.environment |= {
            "REVALIDATION_LANE": lane,
            "DOCS_PROXY": proxy.url,
            "http_proxy": "http://127.0.0.1:9",
            "HTTPPROXY_ENABLED": "1",
            "no_proxy": "docs.test",
        }
        crawl.declare('[sources.s]\nseeds = ["http://docs.test/"]\nproxy = "DOCS_PROXY"\n')
        for run in ("first", "second"):
            site.clear()
            proxy.log.clear()

            ran = crawl(source="s")

            paths = [request.path for request in site.log]
            assert sorted(paths) == ["/", "/a", "/robots.txt"], run
            assert len(proxy.log) == 3, run
            assert "hush" not in ran.out + ran.err
            assert all("proxy-authorization" not in request.headers for request in site.log)
        assert set(crawl.outcomes().values()) == {"unchanged"}

        del crawl.environment["DOCS_PROXY"]
        site.clear()
        refused = crawl(source="s", expect=1)

        assert (
            "proxy is 'DOCS_PROXY', and this variable of the environment is not set" in refused.err
        )
        assert not site.log
