"""The revalidation lane: what it asks, what it leaves to the engine, and that nobody can tell.

Source: ADR 31.
"""

import os
import re
import signal
import ssl
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import certificate
from tests.crawls import edited_site
from tests.crawls.commands import Crawl, Scrapy, differences, wait_until
from tests.crawls.crew import facts
from tests.crawls.test_crawl_politeness import Counting, fill
from tests.site_server import Page, Request, Site, TimedSite, html

pytestmark = pytest.mark.long(but=5)

_STATS = re.compile(r"'(lane/\w+|downloader/\w+(?:/\w+)?)': (\d+)")
#: What a crawl says of its own counts, and every page asked conditionally but those of a sample.
TELLING: dict[str, object] = {"STATS_DUMP": "1", "TRUST_SAMPLE_RATIO": "0"}


def counts(crawl: Crawl, site: Site, **settings: object) -> Counter[str]:
    """Crawl, and return what Scrapy counted."""
    result = crawl(site.url("/"), settings={**TELLING, **settings}, expect=None)
    return Counter({name: int(count) for name, count in _STATS.findall(result.err)})


def wire(log: list[Request]) -> list[tuple[Any, ...]]:
    """What was asked, in no order: method, address, conditions, and the answer's status."""
    names = ("if-none-match", "if-modified-since", "user-agent", "accept", "accept-encoding")
    names = (*names, "accept-language")
    return sorted(
        (r.method, r.path, r.status, *(r.headers.get(name, "") for name in names)) for r in log
    )


@pytest.fixture(autouse=True)
def lane_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is by default, also where everything else is tried with the lane off."""
    monkeypatch.delenv("REVALIDATION_LANE", raising=False)


@pytest.fixture
def twins(tmp_path: Path, ask: Scrapy) -> tuple[Crawl, Crawl]:
    """A crawl with the lane, and one without."""
    both = Crawl(tmp_path / "lane", ask), Crawl(tmp_path / "engine", ask)
    for crawl in both:
        crawl.folder.mkdir()
    both[1].environment["REVALIDATION_LANE"] = "off"
    return both


def test_the_lane_asks_known_pages_and_the_engine_only_the_first(site: Site, crawl: Crawl):
    """Who asks first reads robots.txt, and opens the host's slot."""
    fill(site, 40)

    first, again = counts(crawl, site), counts(crawl, site)

    assert first["lane/not_modified"] == 0
    assert again["lane/not_modified"] == 40
    assert again["lane/handed_over"] == again["lane/fallbacks"] == 0
    assert [run["notModified"] for run in crawl.runs()] == [41, 0]


def test_the_lane_off_leaves_every_page_to_the_engine(site: Site, crawl: Crawl):
    fill(site, 5)
    crawl(site.url("/"))

    again = counts(crawl, site, REVALIDATION_LANE="off")

    assert not any(name.startswith("lane/") for name in again)
    assert crawl.runs()[0]["notModified"] == 6


def test_the_lane_leaves_the_same_registry_index_and_requests(
    site: Site, twins: tuple[Crawl, Crawl]
):
    """Over pages that changed, went, moved, came, hid and failed."""
    known = []
    for crawl in twins:
        edited_site.before(site)
        found = []
        for step in (lambda: None, lambda: edited_site.edit(site), lambda: None, lambda: None):
            step()
            site.clear()
            crawl(site.url("/"), settings={"TRUST_SAMPLE_RATIO": "0"})
            found.append({"wire": wire(site.log), **facts(crawl)})
        known.append(found)

    assert not list(differences(dict(enumerate(known[0])), dict(enumerate(known[1]))))


def test_the_lane_leaves_the_same_where_pages_are_sampled(site: Site, twins: tuple[Crawl, Crawl]):
    """Pages are sampled by their numbers, so the engine meets all new ones, in the same order."""
    settings = {"TRUST_SAMPLE_RATIO": "0.3", "CONCURRENT_REQUESTS": "1"}
    known = []
    for crawl in twins:
        edited_site.before(site)
        lane = crawl.environment.get("REVALIDATION_LANE", "auto")
        found = []
        for step, road in (
            (lambda: None, "off"),
            (lambda: edited_site.edit(site), "off"),
            (lambda: None, lane),
            (lambda: edited_site.edit_again(site), lane),
            (lambda: None, lane),
        ):
            step()
            site.clear()
            crawl(site.url("/"), settings={**settings, "REVALIDATION_LANE": road})
            found.append({"wire": wire(site.log), **facts(crawl)})
        known.append(found)

    assert not list(differences(dict(enumerate(known[0])), dict(enumerate(known[1]))))


def test_the_lane_counts_what_the_engine_counts(site: Site, twins: tuple[Crawl, Crawl]):
    fill(site, 20)
    site.pages["/3"] = Page("<p>three", last_modified="Thu, 01 Jan 2026 00:00:00 GMT")

    told = []
    for crawl in twins:
        counts(crawl, site)
        site.pages["/5"] = html("Page 5", text="another text")
        told.append(counts(crawl, site))
        site.pages["/5"] = html("Page 5", text="page 5")

    lane, engine = ({k: v for k, v in each.items() if k[:4] != "lane"} for each in told)
    assert lane["downloader/response_status_count/304"] == 20
    assert lane == engine


@pytest.mark.parametrize("status", [200, 301, 404, 410, 500, 429])
def test_what_is_no_304_is_asked_once_and_goes_on_in_the_engine(
    status: int, site: Site, crawl: Crawl
):
    """The answer is in hand: a redirect is followed, an error is tried again where it may pass."""
    fill(site, 3)
    site.pages["/1"] = html("One", text="one page")
    crawl(site.url("/"))
    site.pages["/1"] = {
        200: Page(html("One", "/new", text="one other page")),
        301: Page(redirect="/2"),
        429: Page("later", status=429, headers={"Retry-After": "0"}),
    }.get(status, Page("nothing", status=status))
    site.clear()

    told = counts(crawl, site, RETRY_TIMES=1)

    tries = 2 if status in (500, 429) else 1
    assert site.count("/1") == tries
    assert told["lane/handed_over"] == 1
    word = {200: "modified", 301: "redirected", 404: "lost", 410: "lost"}.get(status, "failed")
    assert crawl.outcomes()["/1"] == word


def test_a_304_of_the_lane_renews_validators_and_may_say_noindex(site: Site, crawl: Crawl):
    """RFC 9111 section 3.2; M-07."""
    fill(site, 3)
    crawl(site.url("/"))
    body, date = site.pages["/1"], "Sun, 01 Feb 2026 00:00:00 GMT"
    assert isinstance(body, str)
    site.pages["/1"] = Page(body, headers={"X-Robots-Tag": "noindex"})
    site.pages["/2"] = Page(site.pages["/2"], last_modified=date)

    told = counts(crawl, site)

    assert told["lane/not_modified"] == 3
    assert crawl.outcomes()["/1"] == "excluded"
    assert not [hit for hit in crawl.search("page") if hit["url"] == site.url("/1")]
    assert [date] == [
        p["lastModifiedReceived"] for p in crawl.records() if p["url"] == site.url("/2")
    ]


@pytest.mark.parametrize("fault", ["reset", "truncate"])
def test_the_engine_asks_where_the_lane_cannot_and_finds_what_is_wrong(
    fault: Any, site: Site, twins: tuple[Crawl, Crawl]
):
    """Three pages, then no more of that host: status and message are those of the engine."""
    fill(site, 12)
    for crawl in twins:
        crawl(site.url("/"))
    for n in range(12):
        site.pages[f"/{n}"] = Page("x" * 1000, fault=fault)

    told = [counts(crawl, site, RETRY_TIMES=0) for crawl in twins]

    assert 3 <= told[0]["lane/fallbacks"] <= 5  # what was in flight beside the third
    ends = [
        {page["url"]: (page["httpStatusCode"], page["errorMessage"]) for page in crawl.records()}
        for crawl in twins
    ]
    assert ends[0] == ends[1]


def test_a_server_that_is_away_costs_the_same_requests(twins: tuple[Crawl, Crawl]):
    """Where no connection came about, nothing was asked."""
    with Site() as first:
        fill(first, 6)
        port = first.url("").rpartition(":")[2]
        for crawl in twins:
            crawl(first.url("/"))
    ends = []
    for crawl in twins:
        with Site(port=int(port)) as only_robots:
            only_robots.pages["/robots.txt"] = Page("")
            only_robots.pages["/"] = first.pages["/"]
            crawl(first.url("/"), settings={"RETRY_TIMES": 0})
        ends.append(crawl.runs()[0]["requests"])

    assert ends[0] == ends[1] == 7


@pytest.mark.alone  # it is about the requests of one process
def test_the_lane_is_as_polite_as_the_engine(crawl: Crawl):
    """Three at a time, and the delay between two, whoever asks (M-35)."""
    with Counting() as site:
        fill(site, 20)
        crawl(site.url("/"))
        site.most, site.began = 0, []

        told = counts(crawl, site, AUTOTHROTTLE_ENABLED="0")

        assert told["lane/not_modified"] == 20
        assert site.most == 3

        site.began = []
        site.seconds = 0
        counted = counts(crawl, site, DOWNLOAD_DELAY="0.1")

        assert counted["lane/not_modified"] == 20
        gaps = [after - before for before, after in pairwise(site.began)]
        assert min(gaps[2:]) > 0.05  # half, for what the machine is slow to send or to note


@pytest.mark.alone  # it is about the requests of one process
def test_a_crawl_delay_holds_in_the_lane(crawl: Crawl):
    with TimedSite() as timed:
        fill(timed, 6)
        timed.pages["/robots.txt"] = Page("User-agent: *\nCrawl-delay: 0.3\n")
        crawl(timed.url("/"))
        timed.arrived.clear()

        told = counts(crawl, timed)

        assert told["lane/not_modified"] == 6
        gaps = [b[0] - a[0] for a, b in pairwise(timed.arrived)]
        assert min(gaps[1:]) > 0.25


def test_a_pause_that_a_server_asks_for_holds_in_the_lane(site: Site, crawl: Crawl):
    fill(site, 30)
    crawl(site.url("/"))
    page = site.pages["/7"]
    site.pages["/7"] = Page("later", status=503, headers={"Retry-After": "2"})
    began = time.monotonic()

    counts(crawl, site, RETRY_TIMES=0)

    assert time.monotonic() - began > 2
    assert crawl.outcomes()["/7"] == "failed"
    assert Counter(crawl.outcomes().values())["unchanged"] == 30
    assert page is not None


def test_what_robots_forbid_now_is_not_asked_by_the_lane(site: Site, crawl: Crawl):
    fill(site, 6)
    crawl(site.url("/"))
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /3\n")
    site.clear()

    counts(crawl, site)

    assert site.count("/3") == 0
    assert crawl.outcomes()["/3"] == "excluded"


def test_a_page_that_is_larger_than_allowed_ends_as_in_the_engine(site: Site, crawl: Crawl):
    fill(site, 3)
    crawl(site.url("/"))
    site.pages["/1"] = Page("x" * 50_000)

    told = counts(crawl, site, DOWNLOAD_MAXSIZE=20_000)

    assert told["lane/fallbacks"] == 1
    [page] = [page for page in crawl.records() if page["url"] == site.url("/1")]
    assert page["httpStatusCode"] == 1108 or "larger than DOWNLOAD_MAXSIZE" in page["errorMessage"]


SPIDERS = """
from scrapy import signals
from scrapy.extensions.corestats import CoreStats
from smartcrawl import settings
from smartcrawl.engine.items import VisitsFirst
from smartcrawl.spiders.site import SiteSpider


class Cookies(SiteSpider):
    name = "cookies"
    custom_settings = {
        "COOKIES_ENABLED": True,
        "DOWNLOADER_MIDDLEWARES": {
            **settings.DOWNLOADER_MIDDLEWARES,
            "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": 700,
        },
    }


class Reads(SiteSpider):
    name = "reads"

    def parse(self, response, **_):
        yield from super().parse(response)


class Listener:
    @classmethod
    def from_crawler(cls, crawler):
        listener = cls()
        crawler.signals.connect(listener.heard, signal=signals.item_dropped)
        return listener

    def heard(self, item):
        pass


class Listens(SiteSpider):
    name = "listens"
    custom_settings = {"EXTENSIONS": {**settings.EXTENSIONS, Listener: 0}}


class Items(VisitsFirst):
    pass


class Steps(SiteSpider):
    name = "steps"
    custom_settings = {"ITEM_PROCESSOR": Items}


class Login(SiteSpider):
    name = "login"
    http_user, http_pass, http_auth_domain = "me", "secret", None
"""


@pytest.mark.parametrize(
    ("spider", "why"),
    [
        ("cookies", "CookiesMiddleware is in use"),
        ("login", "smartcrawl.engine.own_spiders.HttpAuth is in use"),
        ("reads", "own_spiders.spiders.Reads reads answers in its own way"),
        ("listens", "own_spiders.spiders.Listener listens to each answer"),
        ("steps", "ITEM_PROCESSOR is own_spiders.spiders.Items"),
    ],
)
def test_what_a_team_built_in_keeps_the_lane_closed(
    spider: str, why: str, site: Site, crawl: Crawl
):
    """Whatever the lane cannot stand in for sees every answer, as it always did."""
    package = crawl.folder / "code" / "own_spiders"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "spiders.py").write_text(SPIDERS)
    crawl.environment["PYTHONPATH"] = str(package.parent)
    crawl.environment["SPIDER_MODULES"] = "own_spiders"
    fill(site, 3)

    for _ in range(2):
        result = crawl.run(
            "crawl", spider, "-a", f"url={site.url('/')}", "-s", "SPIDER_MODULES=own_spiders",
            "-s", "STATS_DUMP=1", expect=0,
        )  # fmt: skip

    assert why in result.err
    assert "lane/" not in result.err
    assert crawl.runs()[0]["notModified"] == 4


def test_compressed_bodies_that_changed_are_read_as_by_the_engine(site: Site, crawl: Crawl):
    fill(site, 3)
    site.pages["/2"] = Page(html("Two", text="a first version of it"), gzip=True)
    crawl(site.url("/"))
    page = site.pages["/2"]
    assert isinstance(page, Page)
    site.pages["/2"] = replace(page, body=html("Two", text="a second version of it"))

    told = counts(crawl, site)

    assert told["lane/handed_over"] == 1
    assert crawl.outcomes()["/2"] == "modified"
    assert [hit["url"] for hit in crawl.search("second version")] == [site.url("/2")]


def test_a_signal_ends_the_waits_of_the_lane(site: Site, crawl: Crawl):
    """What was not asked stays pending, and the run can be resumed."""
    fill(site, 10)
    crawl(site.url("/"))
    site.clear()
    quick = {**TELLING, "AUTOTHROTTLE_ENABLED": "0"}
    with crawl.start(site.url("/"), settings={**quick, "DOWNLOAD_DELAY": 8}) as running:
        wait_until(lambda: site.count("/"), "the first page is asked")
        time.sleep(1)
        began = time.monotonic()
        os.kill(running.pid, signal.SIGTERM)
        assert running.end().status == 3
    assert time.monotonic() - began < 8
    assert len(site.log) < 4  # robots.txt, and the first page

    crawl(site.url("/"), resume=1, settings=quick)

    assert crawl.runs()[0]["complete"]
    assert Counter(crawl.outcomes().values()) == {"unchanged": 11}


def test_the_lane_speaks_tls(site: Site, crawl: Crawl, tmp_path: Path):
    """With certificates as the engine takes them; one that signed itself is trusted by name."""
    fill(site, 5)
    assert site._server is not None
    site._server.socket = certified(tmp_path).wrap_socket(site._server.socket, server_side=True)
    url = site.url("/").replace("http:", "https:")

    for _ in range(2):
        result = crawl(url, settings={**TELLING, "CA_FILE": tmp_path / "certificate.pem"})

    assert "'lane/not_modified': 5" in result.err
    assert "lane/fallbacks" not in result.err


def certified(folder: Path) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that it signed itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))
    return context


def test_a_lane_that_is_off_says_nothing(site: Site, crawl: Crawl):
    fill(site, 1)

    result = crawl(site.url("/"), settings={"REVALIDATION_LANE": "off"})

    assert "lane" not in result.err.lower()
