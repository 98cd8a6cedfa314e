"""The keys of a source's requests, as engine and lane keep them."""

import json
from itertools import pairwise

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.test_crawl_politeness import Counting, fill
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.sqlite]

ROADS = pytest.mark.parametrize("lane", ["auto", "off"])
ROBOTS = "User-agent: docsbot\nDisallow: /hidden\n\nUser-agent: *\nDisallow: /open\n"


def sitemap(*urls: str) -> Page:
    places = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
    return Page(text, content_type="application/xml")


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


@ROADS
def test_delay_and_concurrency_are_those_of_the_source(crawl: Crawl, lane: str):
    crawl.environment |= {"REVALIDATION_LANE": lane, "CONCURRENT_REQUESTS": "2"}
    with Counting() as site:
        fill(site, 12)
        crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nconcurrency = 6\n')

        crawl(source="s")
        first, site.most = site.most, 0
        crawl(source="s")

        assert (first, site.most) == (6, 6)
        site.seconds = 0
        site.began.clear()
        crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\ndelay = 0.2\n')
        crawl(source="s")

        gaps = [after - before for before, after in pairwise(site.began)]
        assert len(gaps) >= 12
        assert min(gaps) > 0.15


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

            gaps = [after - before for before, after in pairwise(site.began)]
            assert len(gaps) >= 6
            assert min(gaps) > 0.25


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


def test_limits_and_robots_are_those_of_the_source(crawl: Crawl, site: Site):
    site.pages |= {
        "/robots.txt": Page("User-agent: *\nDisallow: /hidden\n", content_type="text/plain"),
        "/": html("Home", "/hidden", "/large", "/busy"),
        "/hidden": html("Hidden", text="covert"),
        "/large": html("Large", text="bulky " * 1_000),
        "/busy": Page("later", status=503),
    }
    head = f'[sources.s]\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(f"{head}max_size = 4096\nretry = 0\nobey_robots = false\n")
    said = str(crawl(source="s", expect=None))
    assert "s: robots.txt is not obeyed, because obey_robots = false in its table" in said
    assert (site.count("/robots.txt"), site.count("/busy")) == (0, 1)
    assert (crawl.hits("covert"), crawl.hits("bulky")) == (["/hidden"], [])
    assert crawl.outcomes()["/large"] == "failed"

    crawl.declare(head)
    said = str(crawl(source="s", expect=None))
    assert "robots.txt is not obeyed" not in said
    assert (site.count("/robots.txt"), crawl.hits("bulky")) == (1, ["/large"])
    assert crawl.outcomes()["/hidden"] == "excluded"


def test_the_story_of_a_page_reads_robots_as_its_source_does(crawl: Crawl, site: Site):
    site.pages |= {
        "/robots.txt": Page(ROBOTS, content_type="text/plain"),
        "/": html("Home", "/hidden"),
        "/hidden": html("Hidden"),
    }
    head = f'[sources.s]\nseeds = ["{site.url("/")}"]\nuser_agent = "docsbot/3"\n'
    crawl.declare(head)
    crawl(source="s")
    printed = crawl.run("why", site.url("/hidden")).out
    assert "disallowed by the copy" in printed
    assert "ignored" not in printed
    crawl.declare(f"{head}obey_robots = false\n")
    printed = crawl.run("why", site.url("/hidden")).out
    assert "ignored, because obey_robots or ROBOTSTXT_OBEY is off" in printed
