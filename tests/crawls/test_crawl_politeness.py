"""How many requests a host gets at a time, and when it is left alone."""

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import apsw
import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=3)


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
            slow.pages[f"/{n}"] = Page(html(f"Slow {n}"), delay=12)
        fill(quick, 60)
        two = quick.url("/").replace("127.0.0.1", "localhost")
        crawl.declare(f'[sources.s]\nseeds = ["{slow.url("/")}", "{two}"]\n')

        with crawl.start(source="s") as running:
            wait_until(lambda: slow.count("/0"), "the slow host is asked")
            wait_until(lambda: len(quick.log) >= 62, "the quick host was asked for every page")
            pages = [request.path for request in slow.log if request.path[1:].isdecimal()]
            assert running.end().status == 0
    assert len(pages) <= 3, "the quick host waited for the slow one"
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


class OneAtATime(Counting):
    """Answers one request after another, however many it has."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()
        self.waited: list[bool] = []  #: of each page, whether another request was before it

    def answer(self, method: str, path: str, headers: dict[str, str]):
        self.waited.append(self._turn.locked())
        with self._turn:
            return super().answer(method, path, headers)


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_quick_host_gets_three_requests_at_a_time_and_one_that_slows_down_one(
    crawl: Crawl, lane: str
):
    """By the default settings, in a first crawl and in a refresh."""
    crawl.environment.pop("AUTOTHROTTLE_ENABLED")
    crawl.environment["REVALIDATION_LANE"] = lane
    with Counting() as quick, OneAtATime() as slow:
        for site, pages in ((quick, 30), (slow, 50)):
            site.seconds = 0.1
            fill(site, pages)
            for _ in range(2):
                crawl(site.url("/"))

    assert {page["lastOutcome"] for page in crawl.records()} == {"unchanged"}
    assert quick.most == 3
    assert any(slow.waited), "it was tried"
    assert not any(slow.waited[-8:]), "one after another"


def test_a_delay_is_kept_between_requests(crawl: Crawl):
    with Counting() as site:
        site.seconds = 0
        fill(site, 6)

        crawl(site.url("/"), settings={"DOWNLOAD_DELAY": 0.25})

    gaps = [after - before for before, after in zip(site.began, site.began[1:], strict=False)]
    assert len(gaps) == 7
    assert min(gaps[1:]) > 0.2, "between the pages"


# When a host asks to be left alone, or nobody is there


class Busy(Site):
    """Answers 503 with Retry-After to the first request of some pages, and notes the times."""

    def __init__(self, seconds: Mapping[str, str]) -> None:
        super().__init__()
        self.seconds = dict(seconds)
        self.times: list[tuple[float, str]] = []

    def answer(self, method: str, path: str, headers: dict[str, str]):
        self.times.append((time.monotonic(), path))
        seconds = self.seconds.pop(path, None)
        if seconds is None:
            return super().answer(method, path, headers)
        kept = self.pages.pop(path, None)
        self.pages[path] = Page("busy", 503, headers={"Retry-After": seconds})
        answer = super().answer(method, path, headers)
        del self.pages[path]
        self.pages |= {} if kept is None else {path: kept}
        return answer

    def gap_after(self, path: str) -> float:
        """Seconds between the first request of a path and whatever came next."""
        place = next(n for n, (_, asked) in enumerate(self.times) if asked == path)
        return self.times[place + 1][0] - self.times[place][0]


def away(site: Site) -> str:
    """The site's other name, which makes it another host."""
    return site.url("").replace("127.0.0.1", "localhost")


#: One request at a time, so that none is in flight beside the one that is told to wait.
SINGLE = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}


@pytest.mark.covers("U-20", "M-32")
def test_a_host_that_asks_for_a_pause_gets_it_and_then_answers_in_the_same_run(crawl: Crawl):
    """A pause also keeps the spider open: it is the only host, and nothing is in flight."""
    with Busy({"/robots.txt": "1", "/3": "2", "/7": "1"}) as site:
        fill(site, 8)

        result = crawl(site.url("/"), settings=SINGLE)

        assert [site.count(path) for path in ("/robots.txt", "/3", "/7", "/4")] == [2, 2, 2, 1]
        assert site.gap_after("/robots.txt") > 0.95
        assert site.gap_after("/3") > 1.95
        assert site.gap_after("/7") > 0.95
    assert set(crawl.outcomes().values()) == {"new"}
    assert crawl.runs()[0]["complete"]
    assert "asked for a pause of 2 s" in result.err


@pytest.mark.covers("U-20")
def test_a_paused_host_does_not_hold_up_another(crawl: Crawl):
    with Busy({"/0": "3"}) as busy, Busy({}) as other:
        fill(busy, 3)
        fill(other, 30, text="other")
        crawl.declare(f'[sources.s]\nseeds = ["{busy.url("/")}", "{away(other)}/"]\n')

        crawl(source="s", settings=SINGLE)

        paused = next(at for at, path in busy.times if path == "/0")
        over = next(at for at, _ in busy.times if at > paused)
        assert over - paused > 2.95
        assert sum(paused < at < over for at, _ in other.times) > 3
    assert {page["lastOutcome"] for page in crawl.records()} == {"new"}


@pytest.mark.covers("U-20", "R0-63")
def test_a_page_that_asks_for_more_patience_than_a_run_has_fails_alone(crawl: Crawl):
    with Site() as site:
        fill(site, 20)
        crawl(site.url("/"))
        healthy = site.pages["/7"]
        site.pages["/7"] = Page("later", 503, headers={"Retry-After": "3600"})
        site.clear()

        crawl(site.url("/"))

        assert site.count("/7") == 1
        assert all(site.count(f"/{n}") == 1 for n in range(20))
        page = crawl.pages()["/7"]
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", 503)
        assert page["effectiveStatus"] == 200
        assert sorted(crawl.outcomes().values()) == ["failed"] + 20 * ["unchanged"]
        assert crawl.hits("page") == sorted(f"/{n}" for n in range(20))
        assert crawl.runs()[0]["complete"]
        site.pages["/7"] = healthy

        crawl(site.url("/"))

        assert crawl.outcomes()["/7"] == "unchanged"


@pytest.mark.covers("M-32", "R1-38")
def test_what_may_pass_is_asked_three_times_and_an_answer_once(crawl: Crawl):
    asked = {
        "404": 1, "410": 1, "403": 1, "401": 1, "451": 1,
        "408": 3, "425": 3, "429": 3, "500": 3, "501": 3, "503": 3, "599": 3,
    }  # fmt: skip
    with Site() as site:
        site.pages["/"] = html("Home", *(f"/{status}" for status in asked))
        for status in asked:
            site.pages[f"/{status}"] = Page("no", int(status))
        site.pages["/cut"] = Page(html("Cut", text="half a page " * 50), fault="truncate")
        site.pages["/big"] = Page("x" * 100_000)
        site.pages["/"] = html("Home", "/cut", "/big", *(f"/{status}" for status in asked))

        crawl(site.url("/"), settings={"DOWNLOAD_MAXSIZE": 50_000}, expect=3)

        assert {status: site.count(f"/{status}") for status in asked} == asked
        assert (site.count("/cut"), site.count("/big")) == (3, 1)
        [run] = crawl.runs()
        assert run["requests"] == 1 + sum(asked.values()) + 3 + 1
        site.clear()
        crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=3)
        assert {site.count(f"/{status}") for status in asked} == {1}


#: A breaker that does not let a test wait.
BREAKER = {
    "ROBOTSTXT_OBEY": 0, "RETRY_TIMES": 0, "HOST_FAILURES_TO_PARK": 4, "HOST_FAILURE_SECONDS": 0,
    "HOST_PARK_SECONDS": 1, "HOST_PROBES": 3,
}  # fmt: skip


@pytest.mark.covers("U-13", "R4-40", "G-27")
def test_a_host_where_nobody_is_gets_a_few_probes_and_then_no_request(crawl: Crawl):
    """Meanwhile the other host goes on."""
    with Site() as other:
        with Site() as dying:
            fill(dying, 60, text="dying")
            fill(other, 40, text="other")
            crawl.declare(f'[sources.s]\nseeds = ["{dying.url("/")}", "{away(other)}/"]\n')
            crawl(source="s")
        held = {page["url"]: page["contentHash"] for page in crawl.records()}
        other.clear()
        for path, body in list(other.pages.items()):
            other.pages[path] = Page(body, delay=0.25)  # so that it outlasts the breaker's row

        asked: list[tuple[int, str]] = []
        with crawl.start(source="s", settings=BREAKER) as running:
            for line in running.process.stderr:
                asked.append((len(other.log), line))
            assert running.end().status == 3

        records = {page["url"]: page for page in crawl.records()}
        assert {url: page["contentHash"] for url, page in records.items()} == held
        gone = [page for url, page in records.items() if url.startswith(dying.url("/"))]
        assert len(gone) == 61
        assert {page["lastOutcome"] for page in gone} == {"failed"}
        codes = [page["httpStatusCode"] for page in gone]
        assert set(codes) == {1102, 1110}
        # The row, what was in flight beside its last one, and the probes.
        assert 4 + 3 <= codes.count(1102) <= 4 + 2 + 3
        said = next(page["errorMessage"] for page in gone if page["httpStatusCode"] == 1110)
        assert "127.0.0.1 does not respond" in said
        [run, _] = crawl.runs()
        assert run["requests"] == codes.count(1102) + len(other.log)
        assert not run["complete"]
        assert run["reasons"].count("host_down: 127.0.0.1") == 1
        assert not any(reason.startswith("pending") for reason in run["reasons"])
        assert {page["lastOutcome"] for page in records.values() if page not in gone} == {
            "unchanged"
        }
        assert len(crawl.search("dying", "--limit", "100")) == 60
        parked = [count for count, line in asked if "does not respond; next try in 1 s" in line]
        [down] = [count for count, line in asked if "skipped for the rest of this run" in line]
        assert len(parked) == 3, "after the row, and after two of the three probes"
        assert down - parked[0] > 3
        with dying:
            crawl(source="s", settings=BREAKER)

        assert {page["lastOutcome"] for page in crawl.records()} == {"unchanged"}


def test_a_host_that_comes_back_in_time_is_crawled_to_the_end(crawl: Crawl):
    with Site() as site:
        fill(site, 30)
        crawl(site.url("/"))
    settings = {
        **BREAKER, "RETRY_TIMES": 2, "HOST_FAILURES_TO_PARK": 1, "HOST_PARK_SECONDS": 3,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    }  # fmt: skip

    with crawl.start(site.url("/"), settings=settings) as running:
        assert any("next try in 3 s" in line for line in running.process.stderr)
        site.clear()
        with site:
            result = running.end()

    codes = [page["lastStatusCode"] for page in crawl.records()]
    assert codes.count(1102) <= 2, result
    assert codes.count(304) == 31 - codes.count(1102)
    assert max(site.count(f"/{n}") for n in range(30)) == 1
    [run, _] = crawl.runs()
    assert not any(reason.startswith("host_down") for reason in run["reasons"])


@pytest.mark.covers("G-27", "R2-57", "U-15")
def test_a_blocked_host_is_not_asked_and_what_is_held_of_it_stays(crawl: Crawl):
    with Site() as site, Site() as other:
        fill(site, 3, text="kept")
        fill(other, 3, text="other")
        site.pages["/"] = html("Home", f"{away(other)}/", "/0", "/1", "/2")
        name = away(other).removeprefix("http://")
        crawl.environment["ALLOW_NETWORKS"] = "127.0.0.0/8, ::1"
        own = site.url("").removeprefix("http://")
        crawl.declare(
            f'[sources.s]\nseeds = ["{site.url("/")}"]\nallowed_domains = ["{own}", "{name}"]\n'
        )
        crawl(source="s")
        other.clear()

        said = crawl.run("hosts", "--block", name.upper(), "--reason", "they asked us to").out

        assert f"{name} is blocked" in said
        assert f"scrapy hosts --unblock {name}" in said
        crawl(source="s")
        assert other.log == []
        blocked = [page for page in crawl.records() if name in page["url"]]
        reached = next(page for page in blocked if page["url"] == f"{away(other)}/")
        assert (reached["lastOutcome"], reached["status"]) == ("excluded", "OutOfScope")
        assert reached["errorMessage"].endswith(f"scrapy hosts --unblock {name}")
        assert len(crawl.search("other", "--limit", "100")) == 3
        assert {page["lastOutcome"] for page in crawl.records() if page not in blocked} == {
            "unchanged"
        }
        assert crawl.runs()[0]["complete"]
        shown = {row["host"]: row for row in json.loads(crawl._ask("hosts", "--format", "json"))}
        assert (shown[name]["blocked"], shown[name]["blockReason"]) == (True, "they asked us to")
        assert (shown[own]["blocked"], shown[own]["blockReason"]) == (False, None)

        assert "is no longer blocked" in crawl.run("hosts", "--unblock", name).out
        crawl(source="s")

        assert {page["lastOutcome"] for page in crawl.records()} == {"unchanged"}
        assert "was not blocked" in crawl.run("hosts", "--unblock", name).out


@pytest.mark.covers("R2-55")
def test_hosts_are_listed_with_what_is_known_of_them(crawl: Crawl):
    with Site() as site, Site() as other:
        fill(site, 3)
        site.pages["/1"] = Page("no", 503)
        site.pages["/2"] = Page("not here", 404)
        site.pages["/robots.txt"] = Page("User-agent: *\n", content_type="text/plain")
        fill(other, 1)
        crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=3)
        crawl(f"{away(other)}/")
        own, name = (url.removeprefix("http://") for url in (site.url(""), away(other)))
        crawl.run("hosts", "--block", "unknown.example")

        listed = json.loads(crawl.run("hosts", "--format", "json").out)

        assert [row["host"] for row in listed] == sorted([own, name, "unknown.example"])
        [row] = [row for row in listed if row["host"] == own]
        fetched = row.pop("robotsFetchedAt")
        assert fetched.endswith("Z")
        assert row.pop("crawlDelayMs") >= 0
        assert row == {
            "host": own, "pages": 4, "pagesCrawled": 2, "pagesFailed": 2, "errorRate": 0.5,
            "delayMs": None, "inFlight": 0, "parkedUntil": None, "pausedUntil": None, "down": False,
            "retryAfter": None, "retryAfterAt": None, "robots": "rules", "robotsError": None,
            "distrusted": [],
            "blocked": False, "blockReason": None,
        }  # fmt: skip
        [(words,)] = crawl.rows("SELECT words FROM run WHERE no = 1")
        assert json.loads(words)["failed"] == 2  # a job counts the same
        [mine] = json.loads(crawl.run("hosts", "--format", "json", "--source", name).out)
        assert (mine["host"], mine["pages"]) == (name, 2)
        table = crawl.run("hosts").out.splitlines()
        assert table[0].split()[:2] == ["host", "pages"]
        assert len(table) == 4


def test_a_wrong_host_changes_nothing(crawl: Crawl):
    with Site() as site:
        fill(site, 1)
        crawl(site.url("/"))
    for switch in ("--block", "--unblock"):
        result = crawl.run("hosts", f"{switch}=https://a.example/x", expect=1)

        assert result.err.startswith("hosts: 'https://a.example/x' is not a host")
        assert "did you mean a.example?" in result.err
    assert crawl.rows("SELECT count(*) FROM host WHERE is_blocked") == [(0,)]
    crawl.run("hosts", "--block", "Bücher.example:443")
    assert crawl.rows("SELECT name, display FROM host WHERE is_blocked") == [
        ("xn--bcher-kva.example", "bücher.example")
    ]
    crawl.run("hosts", "--block", "b.example:81")
    assert ("b.example:81", None) in crawl.rows("SELECT name, display FROM host WHERE is_blocked")


def test_a_reason_without_a_block_is_wrong_usage(crawl: Crawl):
    with Site() as site:
        fill(site, 1)
        crawl(site.url("/"))
    assert "--block HOST" in crawl.run("hosts", "--reason", "why", expect=2).err
    crawl.run("hosts", "--block", "a.example", "--unblock", "a.example", expect=2)


# What people can see of it


def seen(crawl: Crawl) -> dict[str, Any]:
    """The one host of `scrapy hosts --format json`."""
    [host] = json.loads(crawl.run("hosts", "--format", "json").out)
    return host


def test_hosts_shows_how_a_host_is_being_asked_while_a_crawl_goes_on(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(30)))
    for n in range(30):
        site.pages[f"/{n}"] = Page(html(f"Page {n}"), delay=2)

    with crawl.start(site.url("/")) as running:
        wait_until(crawl.registry.exists, "there is a registry")
        wait_until(lambda: rows(crawl, "SELECT 1 FROM host_now WHERE in_flight > 0"), "it is asked")
        host = seen(crawl)
        table = crawl.run("hosts").out
        assert host["inFlight"] > 0
        assert host["delayMs"] is not None
        assert host["parkedUntil"] is host["pausedUntil"] is None
        assert not host["down"]
        running.process.kill()
    assert " s " in table
    crawl.bury()

    after = seen(crawl)
    assert (after["inFlight"], after["delayMs"]) == (0, None), "its process is dead"


def rows(crawl: Crawl, statement: str) -> list[Any]:
    """Rows of a registry that may still be in the making."""
    try:
        return crawl.rows(statement)
    except apsw.SQLError:  # PostgreSQL shows a schema when all of it is there
        return []


def test_hosts_shows_what_a_host_asked_for_and_that_it_is_left_alone(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/busy", *(f"/{n}" for n in range(4)))
    site.pages["/busy"] = Page("wait", status=503, headers={"Retry-After": "30"})

    with crawl.start(site.url("/")) as running:
        wait_until(crawl.registry.exists, "there is a registry")
        paused = "SELECT 1 FROM host_now WHERE paused_until IS NOT NULL"
        wait_until(lambda: rows(crawl, paused), "it is left alone")
        host, table = seen(crawl), crawl.run("hosts").out
        running.process.kill()

    assert host["retryAfter"] == 30
    assert host["retryAfterAt"] < host["pausedUntil"]
    assert "as the host requested" in table
    assert "30 s at" in table


@pytest.mark.parametrize(
    ("page", "word"),
    [
        (Page("User-agent: *\nDisallow: /x"), "rules"),
        (Page("no", status=404), "none"),
        (Page("<!doctype html><p>Welcome to the shop"), "none"),
        (Page("# no rules\n"), "rules"),
        (Page("no", status=503), "unknown"),
    ],
)
def test_hosts_shows_what_is_known_of_robots_txt(site: Site, crawl: Crawl, page: Page, word: str):
    site.pages["/robots.txt"] = page
    site.pages["/"] = html("Home")

    crawl(site.url("/"), expect=None, settings={"RETRY_TIMES": 0})

    host = seen(crawl)
    assert host["robots"] == word
    assert (host["robotsError"] is not None) == (word == "unknown")
    assert word in crawl.run("hosts").out


def test_why_tells_which_line_of_robots_txt_decides(site: Site, crawl: Crawl):
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    site.pages["/"] = html("Home", "/a/b", "/a/c")
    site.pages["/a/b"] = html("B")

    crawl(site.url("/"))

    def told(path: str) -> str:
        out = crawl.run("why", site.url(path)).out
        [line] = [line for line in out.splitlines() if line.strip().startswith("robots")]
        return line

    assert told("/a/c").endswith("line 2, for *: 'Disallow: /a'")
    assert told("/a/b").endswith("line 3, for *: 'Allow: /a/b'")
    assert told("/").endswith("no rule matches")
    del site.pages["/robots.txt"]
    crawl(site.url("/"))
    assert told("/a/c").endswith("status 404 means there are no rules")
    site.pages["/robots.txt"] = Page("", status=500)
    time.sleep(1)  # it is told as what came last, by the second
    crawl(site.url("/"), settings={"RETRY_TIMES": 0})
    assert re.search(r"; the request at \S.* failed: .*status 500", told("/a/c"))
