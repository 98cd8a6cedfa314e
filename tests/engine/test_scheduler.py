"""Ordinary Requests go first; pages are born when their turn comes; a 304 may lower the delay."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    DontCloseSpider,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
)
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.engine.delays import DelayControl, gate_of_crawler, note_download_failure
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.extract.hashes import body_hash, document_content_hash, text_hash
from smartcrawl.model.documents import Document, Link, Section
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.rules.pace import Pace
from smartcrawl.rules.reindex import decide
from smartcrawl.run.hosts import HostGate, host_gate_slot
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.files import ad_hoc_files_source
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.site import SiteSource

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
SETTINGS["CONCURRENT_REQUESTS"] = 16
NOW = 1_750_000_000


class Engine:
    """Scrapy's engine for the scheduler: the requests in flight."""

    def __init__(self) -> None:
        self.downloader = SimpleNamespace(active=set(), slots={})


class Reader(Spider):
    name = "reader"
    run: Run | None = None

    def parse(self, response: Response) -> None: ...

    def errback(self, failure: object) -> None: ...


@pytest.fixture
def crawler() -> Crawler:
    made = get_crawler(Reader, {"CONCURRENT_REQUESTS_PER_DOMAIN": 2})
    made.engine = Engine()
    made.spider = Reader()
    return made


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run of two hosts that offers its seeds."""
    with run_of_two_hosts(tmp_path) as made:
        yield made


@contextmanager
def run_of_two_hosts(tmp_path: Path, **settings: str) -> Iterator[Run]:
    """Without a browser, whatever this machine has."""
    named = {"DATA_DIR": str(tmp_path / "data"), "RENDER": "no"}
    options = Options.of(SETTINGS | named | settings)
    source = SiteSource(
        name="docs",
        seeds=("http://a.example/", "http://b.example/", "http://a.example/2"),
        allowed_domains=("a.example", "b.example"),
    )
    run = Run.open(source, options, Orders(), NOW)
    yield run
    if run.result is None:
        run.close()


def opened(crawler: Crawler, run: Run | None = None) -> NumberScheduler:
    crawler.spider.run = run
    scheduler = NumberScheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    return scheduler


def served(scheduler: NumberScheduler) -> list[str]:
    found = []
    while (request := scheduler.next_request()) is not None:
        found.append(request.url)
    return found


# Ordinary Requests


def test_a_spider_without_a_run_gets_its_requests_by_priority_then_in_order(crawler: Crawler):
    scheduler = opened(crawler)
    assert not scheduler.has_pending_requests()
    for place, priority in enumerate((0, 5, 0, -1, 5)):
        assert scheduler.enqueue_request(Request(f"http://a.example/{place}", priority=priority))

    assert scheduler.has_pending_requests()
    assert [url[-1] for url in served(scheduler)] == ["1", "4", "0", "2", "3"]
    assert not scheduler.has_pending_requests()


def test_an_ordinary_request_is_taken_once_unless_it_asks_not_to_be_filtered(crawler: Crawler):
    scheduler = opened(crawler)

    assert scheduler.enqueue_request(Request("http://a.example/?a=1&b=2"))
    assert not scheduler.enqueue_request(Request("http://a.example/?b=2&a=1"))
    assert scheduler.enqueue_request(Request("http://a.example/?a=1&b=2", method="POST"))
    assert scheduler.enqueue_request(Request("http://a.example/?a=1&b=2", dont_filter=True))
    assert len(served(scheduler)) == 3
    assert not scheduler.enqueue_request(Request("http://a.example/?a=1&b=2")), "also later"


# Pages


def test_a_host_that_slows_down_gets_one_page_at_a_time(crawler: Crawler, run: Run):
    """Else the engine would be full of pages that wait for their host."""
    scheduler, downloader = opened(crawler, run), crawler.engine.downloader
    downloader.slots["a.example"] = Slot(concurrency=1, delay=0, jitter=0)
    taken = []
    while (request := scheduler.next_request()) is not None:
        taken.append(request.url)
        downloader.active.add(request)

    assert sorted(taken) == ["http://a.example/", "http://b.example/"]


def test_a_page_becomes_a_request_that_carries_its_attempt(crawler: Crawler, run: Run):
    scheduler = opened(crawler, run)

    request = scheduler.next_request()

    assert request.url == "http://a.example/"
    assert request.callback == crawler.spider.parse
    assert request.errback == crawler.spider.errback
    assert request.dont_filter
    assert request.meta["handle_httpstatus_all"]
    assert request.meta["download_slot"] == "a.example"
    assert isinstance(request.meta["attempt"], VisitAttempt)
    assert request.meta["attempt"].page.url == request.url


@pytest.mark.covers("M-10")
def test_a_head_asks_for_no_file_of_a_listing(crawler: Crawler, run: Run):
    """Its listing has been asked already, and its reader knows no HEAD."""
    scheduler = opened(crawler, run)
    run.trust.asks_head = lambda page: True  # type: ignore[method-assign]

    def method(source: Source, url: str) -> str:
        run.source = source
        return scheduler.request_of(Page(1, url, "", 0)).method

    repository, site = "https://github.com/o/r", run.source
    assert method(site, "http://a.example/") == "HEAD"
    assert method(GithubSource(name="docs", url=repository), f"{repository}/wiki/A") == "HEAD"
    assert method(GithubSource(name="docs", url=repository), f"{repository}/blob/HEAD/a") == "GET"
    assert method(ad_hoc_files_source("/srv/docs"), "file:///srv/docs/a.md") == "GET"
    run.source = site


@pytest.mark.parametrize(
    ("program", "method"), [("/bin/true", "GET"), ("/no/such/browser", "HEAD")]
)
def test_a_head_asks_for_no_page_that_a_browser_samples(
    crawler: Crawler, tmp_path: Path, program: str, method: str
):
    with run_of_two_hosts(tmp_path, RENDER="auto", RENDER_BROWSER=program) as run:
        scheduler = opened(crawler, run)
        run.trust.asks_head = lambda page: True  # type: ignore[method-assign]

        assert scheduler.request_of(Page(1, "http://a.example/", "", 0)).method == method


def test_hops_and_retries_go_before_pages(crawler: Crawler, run: Run):
    scheduler = opened(crawler, run)
    scheduler.enqueue_request(Request("http://a.example/hop"))

    assert served(scheduler)[0] == "http://a.example/hop"


@pytest.mark.covers("R2-46")
def test_a_host_with_as_many_requests_as_it_may_have_gives_none_and_holds_up_no_other(
    crawler: Crawler, run: Run
):
    scheduler = opened(crawler, run)
    active = crawler.engine.downloader.active
    for n in range(2):
        active.add(Request(f"http://a.example/x{n}", meta={"download_slot": "a.example"}))

    assert served(scheduler) == ["http://b.example/"]
    assert scheduler.has_pending_requests(), "they wait for the full host"
    active.pop()
    assert served(scheduler) == ["http://a.example/", "http://a.example/2"]
    assert not scheduler.has_pending_requests()


def test_requests_to_other_hosts_do_not_count(crawler: Crawler, run: Run):
    scheduler = opened(crawler, run)
    for n in range(5):
        request = Request(f"http://c.example/{n}", meta={"download_slot": "c.example"})
        crawler.engine.downloader.active.add(request)

    assert len(served(scheduler)) == 3


def test_after_a_failure_no_page_is_asked(crawler: Crawler, run: Run):
    scheduler = opened(crawler, run)
    run.failure = Exception("no space left")

    assert scheduler.next_request() is None
    assert not scheduler.has_pending_requests()


# Hosts that are held back


class Clock:
    """The scheduler's time, and the calls that it asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.calls: list[tuple[float, Callable[[], None], SimpleNamespace]] = []
        monkeypatch.setattr(
            "smartcrawl.engine.scheduler.time", SimpleNamespace(monotonic=self.monotonic)
        )
        monkeypatch.setattr("smartcrawl.engine.scheduler.call_later", self.call_later)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, function: Callable[[], None]) -> SimpleNamespace:
        handle = SimpleNamespace(cancelled=False)
        handle.cancel = lambda: setattr(handle, "cancelled", True)
        self.calls.append((self.now + delay, function, handle))
        return handle

    @property
    def planned(self) -> list[float]:
        return [at for at, _, handle in self.calls if not handle.cancelled and at > self.now]

    def ring(self) -> None:
        """Go to the next call, and carry it out."""
        at, function, handle = self.calls[-1]
        assert not handle.cancelled
        self.now = at
        function()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.covers("U-20")
def test_a_paused_host_gives_no_page_and_holds_up_no_other(
    crawler: Crawler, run: Run, clock: Clock
):
    scheduler = opened(crawler, run)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)

    assert served(scheduler) == ["http://b.example/"]
    assert scheduler.has_pending_requests()
    assert clock.planned == [1030.0], "the engine is woken in time"
    clock.now += 29.9
    assert served(scheduler) == []
    clock.now += 0.2
    assert served(scheduler) == ["http://a.example/", "http://a.example/2"]
    assert not scheduler.has_pending_requests()


@pytest.mark.covers("U-20", "M-32")
def test_a_retry_for_a_paused_host_waits_and_those_for_others_do_not(
    crawler: Crawler, run: Run, clock: Clock
):
    scheduler = opened(crawler, run)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)
    for url in ("http://a.example/again", "http://b.example/again", "http://a.example:81/last"):
        scheduler.enqueue_request(Request(url, dont_filter=True))

    assert served(scheduler) == ["http://b.example/again", "http://b.example/"]
    assert scheduler.has_pending_requests()
    clock.now += 30
    assert served(scheduler)[:2] == ["http://a.example/again", "http://a.example:81/last"]
    assert not scheduler.has_pending_requests()


def test_a_held_request_alone_keeps_the_spider_open(crawler: Crawler, run: Run, clock: Clock):
    scheduler = opened(crawler, run)
    served(scheduler)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)
    scheduler.enqueue_request(Request("http://a.example/again", dont_filter=True))

    assert scheduler.next_request() is None
    assert scheduler.has_pending_requests()
    assert clock.planned == [1030.0]


def test_the_engine_is_woken_with_what_may_be_asked_then(crawler: Crawler, run: Run, clock: Clock):
    scheduler = opened(crawler, run)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)
    crawler.engine.crawl = scheduler.enqueue_request
    scheduler.enqueue_request(Request("http://a.example/mine"))
    assert served(scheduler) == ["http://b.example/"]

    clock.ring()

    assert clock.now == 1030.0
    assert served(scheduler) == [
        "http://a.example/mine", "http://a.example/", "http://a.example/2"
    ], "none is lost, although it passed the filter before"  # fmt: skip


def test_it_is_woken_for_the_first_host_whose_time_comes(crawler: Crawler, run: Run, clock: Clock):
    scheduler = opened(crawler, run)
    gate = gate_of_crawler(crawler)
    gate.pause("a.example", 30, clock.now)
    gate.pause("b.example", 50, clock.now)
    assert served(scheduler) == []
    assert clock.planned == [1030.0]
    assert served(scheduler) == []
    assert len(clock.calls) == 1, "one call is enough"
    gate.pause("c.example", 10, clock.now)
    assert served(scheduler) == []
    assert clock.planned == [1010.0], "in place of the other"
    crawler.engine.crawl = scheduler.enqueue_request
    clock.ring()
    assert clock.planned == [1030.0]

    scheduler.close("finished")

    assert clock.planned == []


def test_nothing_is_planned_when_nothing_waits(crawler: Crawler, run: Run, clock: Clock):
    scheduler = opened(crawler, run)
    served(scheduler)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)

    assert scheduler.next_request() is None
    assert not scheduler.has_pending_requests()
    assert clock.calls == []


def test_a_spider_that_fell_idle_stays_open_for_what_waits(
    crawler: Crawler, run: Run, clock: Clock
):
    """Verify may find pages of a host that is paused: RunLifecycle gets none of them then."""
    scheduler = opened(crawler, run)
    gate_of_crawler(crawler).pause("a.example", 30, clock.now)

    def stays_open() -> bool:
        found = crawler.signals.send_catch_log(
            signals.spider_idle, spider=crawler.spider, dont_log=DontCloseSpider
        )
        return any(isinstance(getattr(x, "value", None), DontCloseSpider) for _, x in found)

    assert stays_open()
    clock.now += 30
    served(scheduler)
    assert not stays_open()


def parked(gate: HostGate, host: str, now: float) -> None:
    for n in range(20):
        gate.failed(host, Fault.REFUSED, now - 60 - 40 + 2 * n)


def test_a_parked_host_gets_one_probe_at_a_time(crawler: Crawler, run: Run, clock: Clock):
    scheduler = opened(crawler, run)
    gate = gate_of_crawler(crawler)
    parked(gate, "a.example", clock.now)
    clock.now -= 10
    assert served(scheduler) == ["http://b.example/"]
    clock.now += 10
    scheduler.enqueue_request(Request("http://a.example/again", dont_filter=True))
    scheduler.enqueue_request(Request("http://a.example/later", dont_filter=True))
    active = crawler.engine.downloader.active

    probe = scheduler.next_request()
    assert probe.url == "http://a.example/again"
    active.add(probe)  # on its way, before the downloader gave it a slot
    assert scheduler.next_request() is None
    assert scheduler.has_pending_requests()
    active.clear()
    gate.answered("a.example", clock.now)
    assert len(served(scheduler)) == 3


def test_pages_of_a_host_that_is_down_are_given_out_to_end(
    crawler: Crawler, run: Run, clock: Clock
):
    scheduler = opened(crawler, run)
    gate = gate_of_crawler(crawler)
    parked(gate, "a.example", clock.now)
    for n in range(3):
        gate.failed("a.example", Fault.REFUSED, clock.now + 60 * n)

    assert gate.is_down("a.example")
    assert len(served(scheduler)) == 3


def test_without_a_held_host_nobody_asks_for_the_time(
    crawler: Crawler, run: Run, monkeypatch: pytest.MonkeyPatch
):
    """The gate costs one look at a dict, for every request."""
    scheduler = opened(crawler, run)
    monkeypatch.setattr("smartcrawl.engine.scheduler.time", None)
    monkeypatch.setattr(HostGate, "may_ask", None)
    gate_of_crawler(crawler).failed("a.example", Fault.REFUSED, 0.0)
    scheduler.enqueue_request(Request("http://a.example/again", dont_filter=True))

    assert len(served(scheduler)) == 4


# What a slot is called


@pytest.mark.parametrize(
    ("host", "slot"),
    [
        ("example.com", "example.com"),
        ("example.com:8080", "example.com"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:8801", "::1"),
        ("[2001:db8::7]:80", "2001:db8::7"),
    ],
)
def test_ports_of_one_host_share_its_slot(host: str, slot: str):
    assert host_gate_slot(host) == slot


# What a run keeps


@pytest.mark.covers("R0-62", "U-02")
@pytest.mark.parametrize(
    ("answer", "between"), [(Outcome.REDIRECT, 301), (Outcome.NOT_ACCEPTABLE, 406)]
)
def test_a_304_ends_what_an_answer_in_between_left(tmp_path: Path, answer: Outcome, between: int):
    """A held page answered 301 or 406 once, in a run that came to no sweep, and is itself again."""
    options = Options.of(SETTINGS | {"DATA_DIR": str(tmp_path / "data")})
    source = SiteSource(name="docs", seeds=("http://a.example/",))
    rows: list[tuple[object, ...]] = []
    for outcome, status in ((Outcome.CHANGED, 200), (answer, between), (Outcome.NOT_MODIFIED, 304)):
        run = Run.open(source, options, Orders(), NOW)
        page = run.next_page(lambda _: True)
        visit = VisitAttempt(page).visit(page.url)
        visit.outcome, visit.http_status, visit.answer.etag = outcome, status, '"1"'
        visit.traffic.conditional = status == 304
        if outcome is Outcome.CHANGED:
            document(visit)
        if outcome is answer:
            visit.error = "why"
            visit.answer.location = "http://a.example/b" if answer is Outcome.REDIRECT else None
        if outcome is not Outcome.NOT_MODIFIED:
            run.links.follow(visit, [Link("http://a.example/", "", "hyperlink", False)])
        visit.verdict = decide(page.state.standing, outcome)
        run.batches.record(visit)
        run.batches.submit(NOW)
        run.batches.drain()
        rows = run.registry.connection.execute(
            "SELECT error_message, redirect_target FROM record"
        ).fetchall()
        run.finish("shutdown" if outcome is answer else "finished", NOW)

    assert rows == [(None, None)]


def document(visit: Visit) -> None:
    """Give a visit a body's document."""
    visit.parsed.document = Document(sections=(Section(0, "", "words"),))
    visit.parsed.body_hash = body_hash(b"words")
    visit.parsed.text_hash = text_hash(visit.parsed.document)
    visit.parsed.content_hash = document_content_hash(visit.parsed.document)


# Pace


def paced(
    *answers: tuple[int, float],
    callback: object = None,
    gate: object = None,
    **settings: object,
) -> list[tuple[int, float]]:
    """The requests at a time and the delay of a host after each answer: status and latency."""
    values = {"AUTOTHROTTLE_START_DELAY": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 5, **settings}
    crawler = get_crawler(Reader, SETTINGS | values)
    crawler.spider = Reader()
    downloader = Downloader(crawler)
    crawler.spider.run = None if gate is None else SimpleNamespace(gate=gate)
    slot = downloader.slots["a.example"] = Slot(concurrency=5, delay=1, jitter=0)
    crawler.engine = SimpleNamespace(downloader=downloader)
    control, found = DelayControl(crawler), list[tuple[int, float]]()
    control._spider_opened(crawler.spider)
    for status, latency in answers:
        meta = {"download_slot": "a.example", "download_latency": latency}
        request = Request("http://a.example/", callback=callback, meta=meta)  # type: ignore[arg-type]
        control.answered(request, Response(request.url, status=status))
        found.append((slot.concurrency, slot.delay))
    return found


QUICK = (200, 1e-6)  #: so that the next answer is to a later request


def test_a_host_gets_its_requests_at_a_time_once_its_latency_is_known():
    found = paced(*[QUICK] * 5)

    assert [at_once for at_once, _ in found] == [1, 1, 1, 5, 5]
    assert found[0][1] == pytest.approx(0.5)
    assert found[4][1] == 0


def test_a_single_host_may_have_a_number_and_a_delay_of_its_own():
    slots = {"a.example": {"concurrency": 2, "delay": 0.7}}

    assert paced(*[QUICK] * 5, DOWNLOAD_SLOTS=slots)[-1] == (2, 0.7)
    assert paced(*[QUICK] * 5, DOWNLOAD_DELAY=0.3)[-1] == (5, 0.3)


def test_a_host_that_is_overloaded_gets_one_request_and_a_delay_as_long_as_its_latency(
    caplog: pytest.LogCaptureFixture,
):
    singles: list[float] = []
    gate = SimpleNamespace(
        paced=lambda host, seconds: None,
        single=lambda host, until, now: singles.append(until - now),
    )
    with caplog.at_level("INFO"):
        found = paced(*[QUICK] * 5, (503, 0.4), (200, 0.2), gate=gate)

    assert found[4:] == [(5, 0), (1, 0.4), (1, pytest.approx(0.3))]
    logged = [each for each in caplog.records if each.name == "smartcrawl.engine.delays"]
    assert [record.getMessage() for record in logged] == [
        "a.example slows down: one request at a time for 60 seconds"
    ]
    assert singles[-1] == pytest.approx(61.6, abs=0.1)


@pytest.mark.parametrize(
    ("callback", "latency"), [(NO_CALLBACK, 0.2), (None, 0.0)], ids=["no page", "no server"]
)
def test_requests_that_show_no_latency_of_pages_leave_a_host_its_requests(
    callback: object, latency: float
):
    found = paced(*[(200, latency)] * 5, (503, latency), callback=callback)

    assert {at_once for at_once, _ in found} == {5}
    assert found[0][1] == pytest.approx((1 + latency) / 2)


def new_slots(**settings: object) -> tuple[DelayControl, Downloader]:
    """The pace of a crawl that has begun, and its downloader without slots."""
    values = {"AUTOTHROTTLE_START_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 5, **settings}
    crawler = get_crawler(Reader, SETTINGS | values)
    crawler.spider = Reader()
    crawler.spider.run = None
    downloader = Downloader(crawler)
    downloader._start_slot_gc = lambda: None  # type: ignore[method-assign]  # it needs a loop
    crawler.engine = SimpleNamespace(downloader=downloader)
    control = DelayControl(crawler)
    control._spider_opened(crawler.spider)
    return control, downloader


def timed_out(
    *errors: Exception, seconds: float = 0.0, gate: object, **settings: object
) -> list[int]:
    """The requests at a time of a host after each request that failed."""
    control, downloader = new_slots(**settings)
    control.crawler.extensions = SimpleNamespace(middlewares=[control])
    run = SimpleNamespace(gate=gate, halt=SimpleNamespace(order=None), options=SimpleNamespace())
    control.crawler.spider.run = run
    slot = downloader.slots["a.example"] = Slot(concurrency=5, delay=0, jitter=0)
    found: list[int] = []
    for error in errors:
        request = asked("a.example", download_timeout=seconds)
        note_download_failure(control.crawler, request, error, ends=False)
        found.append(slot.concurrency)
    return found


def gate_of(singles: list[float]) -> SimpleNamespace:
    return SimpleNamespace(
        failed=lambda *values, **named: None,
        single=lambda host, until, now: singles.append(until - now),
    )


def test_a_host_that_times_out_twice_gets_one_request_at_a_time(caplog: pytest.LogCaptureFixture):
    """As slow as a host can be; no worker of a shared run may send it more."""
    singles: list[float] = []
    with caplog.at_level("INFO"):
        # A host that was never asked is single before, as one that is held.
        found = timed_out(
            DownloadTimeoutError("a"), DownloadTimeoutError("b"), gate=gate_of(singles)
        )

    assert found == [1, 1]
    assert singles[-1] == pytest.approx(60, abs=0.1)
    assert "a.example slows down: one request at a time for 60 seconds" in caplog.text


@pytest.mark.parametrize(
    ("error", "seconds", "settings"),
    [
        (DownloadConnectionRefusedError("refused"), 0.0, {}),
        (DownloadTimeoutError("late"), 1e9, {}),
        (DownloadTimeoutError("late"), 0.0, {"AUTOTHROTTLE_TARGET_CONCURRENCY": 2}),
    ],
    ids=["another fault", "sent before", "a fixed rule"],
)
def test_other_failures_hold_no_host(
    error: Exception,
    seconds: float,
    settings: dict[str, object],
    caplog: pytest.LogCaptureFixture,
):
    singles: list[float] = []
    with caplog.at_level("INFO"):
        timed_out(error, error, seconds=seconds, gate=gate_of(singles), **settings)

    assert not [one for one in singles if one > 1]
    assert "slows down" not in caplog.text


def asked(name: str, **meta: object) -> Request:
    return Request(f"http://{name}/", meta={"download_slot": name, "download_latency": 1.0, **meta})


@pytest.mark.parametrize("name", ["a.example", "own.example"])
def test_a_new_slot_has_one_request_at_a_time_also_of_a_host_that_is_held(name: str):
    """Scrapy drops a slot that was idle for a minute, as during a long Retry-After."""
    control, downloader = new_slots(DOWNLOAD_SLOTS={"own.example": {"concurrency": 2, "delay": 1}})
    request = asked(name)

    _, slot = downloader._get_slot(request)
    assert slot.concurrency == 1
    control.answered(request, Response(request.url, status=503))
    del downloader.slots[name]
    _, slot = downloader._get_slot(request)
    assert slot.concurrency == 1
    assert slot.delay == (1 if name == "own.example" else 0)


def test_robots_txt_does_not_give_a_host_its_requests_and_an_api_does():
    control, downloader = new_slots()
    robots = asked("a.example", dont_obey_robotstxt=True).replace(callback=NO_CALLBACK)
    api = asked("b.example").replace(callback=NO_CALLBACK)

    for request, at_once in ((robots, 1), (api, 5)):
        _, slot = downloader._get_slot(request)
        control.answered(request, Response(request.url))
        assert slot.concurrency == at_once


def test_new_slots_have_all_requests_with_a_target():
    _, downloader = new_slots(
        AUTOTHROTTLE_TARGET_CONCURRENCY=2, DOWNLOAD_SLOTS={"own.example": {"concurrency": 2}}
    )

    assert downloader._get_slot(asked("a.example"))[1].concurrency == 5
    assert downloader._get_slot(asked("own.example"))[1].concurrency == 2


def test_a_target_keeps_the_delay_and_all_requests():
    found = paced((200, 4.0), (503, 8.0), AUTOTHROTTLE_TARGET_CONCURRENCY=2)

    assert found == [(5, 2.0), (5, 4.0)]


def test_the_pace_of_hosts_without_requests_is_forgotten():
    crawler = get_crawler(Reader, SETTINGS)
    slots = {"a": Slot(3, 0, 0)}
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots=slots))
    control = DelayControl(crawler)
    control._paces = {str(number): Pace() for number in range(1_002)} | {"a": Pace(holds=3)}

    control._first_pace()

    assert control._paces == {"a": Pace(holds=3)}


# Delay


def delays(
    kind: type[AutoThrottle],
    status: int,
    *,
    latency: float,
    start: float,
    least: float,
    run: object = None,
    **settings: object,
) -> float:
    """The delay of a host after one answer."""
    crawler = get_crawler(
        Reader,
        {
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_START_DELAY": start,
            "AUTOTHROTTLE_MAX_DELAY": 60,
            "AUTOTHROTTLE_TARGET_CONCURRENCY": 1.0,
            "DOWNLOAD_DELAY": least,
            **settings,
        },
    )
    crawler.spider = Reader()
    crawler.spider.run = run
    slot = Slot(concurrency=8, delay=start, jitter=0)
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={"a.example": slot}))
    throttle = kind(crawler)
    throttle._spider_opened(Reader())
    request = Request(
        "http://a.example/", meta={"download_slot": "a.example", "download_latency": latency}
    )
    throttle._response_downloaded(Response(request.url, status=status), request, Reader())
    return slot.delay


@pytest.mark.covers("R2-21")
def test_no_slot_shortens_the_delay_by_chance():
    paced = {name: value for name, value in SETTINGS.items() if name.startswith("DOWNLOAD_DELAY")}
    downloader = Downloader(get_crawler(Reader, paced | {"DOWNLOAD_DELAY": 2}))
    downloader._start_slot_gc = lambda: None  # it needs a loop

    name, slot = downloader._get_slot(Request("http://a.example/"))

    assert (name, {slot.download_delay() for _ in range(20)}) == ("a.example", {2})


@pytest.mark.parametrize("status", [200, 304])
def test_a_healthy_answer_lowers_the_delay(status: int):
    assert delays(DelayControl, status, latency=0.1, start=5, least=0) == pytest.approx(2.55)


def test_autothrottle_itself_would_not_lower_it_on_a_304():
    """The reason for DelayControl; when this fails, it may go."""
    assert delays(AutoThrottle, 304, latency=0.1, start=5, least=0) == 5


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_an_error_page_does_not_lower_it(status: int):
    assert delays(DelayControl, status, latency=0.1, start=5, least=0) == 5


@pytest.mark.parametrize("status", [200, 304, 503])
def test_a_slow_answer_raises_the_delay(status: int):
    assert delays(DelayControl, status, latency=8, start=1, least=0) == 8


@pytest.mark.parametrize("status", [200, 304])
@pytest.mark.parametrize(("host", "kept"), [("a.example", 3), ("b.example", 1.05)])
def test_the_delay_of_a_single_host_is_kept(status: int, host: str, kept: float):
    slots = {host: {"delay": 3}}

    found = delays(DelayControl, status, latency=0.1, start=2, least=0, DOWNLOAD_SLOTS=slots)

    assert found == pytest.approx(kept)


@pytest.mark.parametrize("status", [200, 304])
def test_other_workers_hear_of_the_delay_after_each_answer(status: int):
    told: list[tuple[str, float]] = []
    gate = SimpleNamespace(paced=lambda host, seconds: told.append((host, seconds)))

    found = delays(
        DelayControl, status, latency=0.1, start=2, least=0, run=SimpleNamespace(gate=gate)
    )

    assert told == [("a.example", found)]


@pytest.mark.parametrize("status", [200, 304])
def test_the_delay_stays_between_what_was_asked_for_and_the_most(status: int):
    assert delays(DelayControl, status, latency=0.001, start=2, least=2) == 2
    assert delays(DelayControl, status, latency=500, start=2, least=2) == 60
