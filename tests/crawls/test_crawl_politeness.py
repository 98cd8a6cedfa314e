"""At most three requests in flight for a host, a delay that follows the server, no longer."""

import threading
import time

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


class Counting(Site):
    """Counts how many requests are being answered at once; each takes a while."""

    seconds = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self.began: list[float] = []
        self._now = 0
        self._counts = threading.Lock()

    def answer(self, method: str, path: str, headers: dict[str, str]):
        with self._counts:
            self._now += 1
            self.most = max(self.most, self._now)
            self.began.append(time.monotonic())
        time.sleep(self.seconds)
        with self._counts:
            self._now -= 1
        return super().answer(method, path, headers)


def fill(site: Site, count: int, text: str = "page") -> None:
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(count)))
    for n in range(count):
        site.pages[f"/{n}"] = html(f"Page {n}", text=f"{text} {n}")


@pytest.mark.covers("R1-35", "R1-38", "M-35")
def test_at_most_three_requests_are_in_flight_for_a_host(crawl: Crawl):
    """Trap 4: the engine takes sixteen in one go if it is let; two sources do not add up."""
    with Counting() as site, Counting() as other:
        fill(site, 40)
        fill(other, 10)
        port = other.url("").rpartition(":")[2]
        own = site.url("").removeprefix("http://")
        site.pages["/"] = html("Home", other.url("/"), *(f"/{n}" for n in range(40)))
        crawl.environment["ALLOW_NETWORKS"] = "127.0.0.0/8"
        crawl.declare(
            f'[sources.s]\nseeds = ["{site.url("/")}"]\n'
            f'allowed_domains = ["{own}", "127.0.0.1:{port}"]\n'
        )

        crawl(source="s")
        assert site.most == 3
        assert other.most <= 3
        crawl(source="s", settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 1})

        assert len(crawl.records()) == 52
        site.most = 0
        crawl(source="s", settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 6})
        assert site.most == 6


def test_a_slow_host_does_not_hold_up_another(crawl: Crawl):
    """Trap 4: a host that is full gives nothing, and does not fill the engine either."""
    with Site() as slow, Site() as quick:
        fill(slow, 6)
        for n in range(6):
            slow.pages[f"/{n}"] = Page(html(f"Slow {n}"), delay=1.5)
        fill(quick, 60)
        two = quick.url("/").replace("127.0.0.1", "localhost")
        crawl.declare(f'[sources.s]\nseeds = ["{slow.url("/")}", "{two}"]\n')

        with crawl.start(source="s") as running:
            end = time.monotonic() + 20
            while not slow.count("/0"):
                assert time.monotonic() < end
                time.sleep(0.01)
            began = time.monotonic()
            while len(quick.log) < 62:
                assert time.monotonic() < end
                time.sleep(0.01)
            took = time.monotonic() - began
            assert running.end().status == 0
    assert took < 1.4, "the quick host waited for the slow one"
    assert {page["lastOutcome"] for page in crawl.records()} == {"new"}


def test_a_refresh_of_304s_under_the_default_delay_is_as_quick_as_the_first_crawl(crawl: Crawl):
    """Trap 3: Scrapy's AutoThrottle never lowers the delay on a 304, and would take 20 times."""
    crawl.environment.pop("AUTOTHROTTLE_ENABLED")
    with Counting() as site:
        site.seconds = 0.02
        fill(site, 60)

        def took() -> float:
            site.began.clear()
            crawl(site.url("/"))
            return site.began[-1] - site.began[0]

        first, refresh = took(), took()

    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert refresh < 1.5 * first + 0.5
    assert site.most <= 3


def test_a_delay_is_kept_between_requests(crawl: Crawl):
    with Counting() as site:
        site.seconds = 0
        fill(site, 6)
        settings = {"DOWNLOAD_DELAY": 0.25, "RANDOMIZE_DOWNLOAD_DELAY": 0}

        crawl(site.url("/"), settings=settings)

    gaps = [after - before for before, after in zip(site.began, site.began[1:], strict=False)]
    assert len(gaps) == 7
    assert min(gaps[1:]) > 0.2, "between the pages"
