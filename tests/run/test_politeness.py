"""Decisions of a gate: pauses that hosts ask for, and hosts that do not answer."""

import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.commands.hosts import hosts_command_argument
from smartcrawl.engine.delays import gate_of_crawler, host_of_scrapy_request
from smartcrawl.engine.download import faults
from smartcrawl.engine.download.faults import download_fault
from smartcrawl.middlewares import HostMiddleware, PassingRetryMiddleware
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.rules.model import Fault
from smartcrawl.run.hosts import HostGate, Turn
from smartcrawl.run.orders import Halt
from smartcrawl.sources.site import SiteSource
from smartcrawl.spiders.base import VisitSpider

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
SETTINGS["CONCURRENT_REQUESTS"] = 16
ABSENT = [Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.NETWORK]
PRESENT = [Fault.RESET, Fault.TLS, Fault.TRUNCATED, Fault.TOO_LARGE, Fault.BAD_RESPONSE]
UNASKED = [Fault.ADDRESS_REFUSED, Fault.ROBOTS_UNKNOWN, Fault.HOST_DOWN]
HOST = "a.example"


@dataclass(frozen=True)
class Limits:
    host_failures_to_park: int = 3
    host_failure_seconds: int = 10
    host_park_seconds: int = 60
    host_probes: int = 2


@pytest.fixture
def gate() -> HostGate:
    return HostGate(Limits())


def park(gate: HostGate, host: str = HOST, now: float = 0.0) -> float:
    """Park a host, and return when its first probe may go out."""
    turns = [gate.failed(host, Fault.REFUSED, now + 5 * n) for n in range(3)]
    assert turns == [None, None, Turn.PARKED]
    return now + 70


# Pauses


def test_a_host_that_nothing_is_known_of_may_be_asked(gate: HostGate):
    assert gate.may_ask(HOST, 0.0, flying=9)
    assert not gate.throttled
    assert gate.next_turn(0.0) is None


@pytest.mark.covers("U-20")
def test_a_pause_holds_a_host_until_its_end_and_no_other(gate: HostGate):
    gate.pause(HOST, 5, now=100.0)

    assert not gate.may_ask(HOST, 100.0)
    assert not gate.may_ask(HOST, 104.9)
    assert gate.may_ask(HOST, 105.0, flying=2)
    assert gate.may_ask("b.example", 100.0)
    assert (gate.wait(HOST, 102.0), gate.wait(HOST, 106.0)) == (3.0, 0.0)
    assert gate.wait("b.example", 102.0) == 0.0


def test_a_longer_pause_that_is_in_force_stays(gate: HostGate):
    gate.pause(HOST, 60, now=0.0)
    gate.pause(HOST, 1, now=30.0)
    assert not gate.may_ask(HOST, 59.0)
    gate.pause(HOST, 60, now=30.0)
    assert not gate.may_ask(HOST, 89.0)


def test_an_answer_leaves_a_pause_in_force_and_forgets_one_that_is_over(gate: HostGate):
    gate.pause(HOST, 5, now=0.0)
    gate.answered(HOST, 1.0)
    assert not gate.may_ask(HOST, 1.0)
    gate.answered(HOST, 5.0)
    assert not gate.throttled, "so that nothing is looked up for every request"


def test_the_next_turn_is_that_of_the_host_that_may_be_asked_first(gate: HostGate):
    gate.pause(HOST, 50, now=0.0)
    gate.pause("b.example", 20, now=0.0)

    assert gate.next_turn(0.0) == 20
    assert gate.next_turn(20.0) == 30
    assert gate.next_turn(50.0) is None


# The breaker


@pytest.mark.parametrize("fault", ABSENT)
def test_a_host_where_nobody_is_for_long_enough_is_parked_and_then_probed(
    gate: HostGate, fault: Fault
):
    assert gate.failed(HOST, fault, 100.0) is None
    assert gate.failed(HOST, fault, 109.0) is None
    assert gate.may_ask(HOST, 109.0)

    assert gate.failed(HOST, fault, 110.0) is Turn.PARKED

    assert not gate.may_ask(HOST, 169.9)
    assert gate.may_ask(HOST, 170.0)
    assert not gate.may_ask(HOST, 170.0, flying=1), "one probe at a time"
    assert gate.may_ask("b.example", 110.0)
    assert gate.next_turn(110.0) == 60


def test_many_failures_within_a_moment_do_not_park_a_host(gate: HostGate):
    turns = [gate.failed(HOST, Fault.REFUSED, 0.001 * n) for n in range(1000)]

    assert set(turns) == {None}
    assert gate.failed(HOST, Fault.REFUSED, 10.0) is Turn.PARKED


def test_few_failures_do_not_park_a_host_however_long_they_take(gate: HostGate):
    assert gate.failed(HOST, Fault.TIME_OUT, 0.0) is None
    assert gate.failed(HOST, Fault.TIME_OUT, 9000.0) is None


def test_a_try_that_is_repeated_is_no_visit_yet(gate: HostGate):
    for n in range(20):
        assert gate.failed(HOST, Fault.REFUSED, 10.0 * n, ends=False) is None


@pytest.mark.parametrize("sign", ["answer", *PRESENT])
def test_a_sign_of_life_begins_the_row_anew(gate: HostGate, sign: object):
    gate.failed(HOST, Fault.REFUSED, 0.0)
    gate.failed(HOST, Fault.REFUSED, 50.0)

    if isinstance(sign, Fault):
        assert gate.failed(HOST, sign, 51.0) is None
    else:
        gate.answered(HOST, 51.0)

    assert gate.failed(HOST, Fault.REFUSED, 60.0) is None
    assert gate.failed(HOST, Fault.REFUSED, 65.0) is None
    assert gate.failed(HOST, Fault.REFUSED, 69.0) is None, "nine seconds, not sixty-nine"
    assert gate.failed(HOST, Fault.REFUSED, 70.0) is Turn.PARKED


@pytest.mark.parametrize("fault", UNASKED)
def test_what_was_not_asked_says_nothing_about_a_host(gate: HostGate, fault: Fault):
    gate.failed(HOST, Fault.REFUSED, 0.0)
    gate.failed(HOST, Fault.REFUSED, 50.0)
    assert gate.failed(HOST, fault, 51.0) is None
    assert gate.failed(HOST, Fault.REFUSED, 52.0) is Turn.PARKED
    assert gate.failed(HOST, fault, 112.0) is None
    assert gate.may_ask(HOST, 112.0)


def test_hosts_are_counted_one_by_one(gate: HostGate):
    for n in range(2):
        gate.failed(HOST, Fault.REFUSED, 20.0 * n)
        gate.failed("b.example", Fault.REFUSED, 20.0 * n)
    assert gate.failed("b.example", Fault.REFUSED, 40.0) is Turn.PARKED
    assert gate.may_ask(HOST, 40.0)


def test_an_answer_to_a_probe_frees_the_host_and_its_row_begins_anew(gate: HostGate):
    probe = park(gate)
    gate.answered(HOST, probe)

    assert gate.may_ask(HOST, probe, flying=2)
    assert not gate.throttled
    assert gate.failed(HOST, Fault.REFUSED, probe + 100) is None
    assert gate.failed(HOST, Fault.REFUSED, probe + 200) is None
    assert gate.failed(HOST, Fault.REFUSED, probe + 300) is Turn.PARKED


def test_an_answer_that_comes_while_a_host_is_parked_frees_it_too(gate: HostGate):
    probe = park(gate)
    gate.answered(HOST, probe - 30)
    assert gate.may_ask(HOST, probe - 30, flying=1)


def test_a_probe_that_asks_for_a_pause_gets_it(gate: HostGate):
    """A 503 with Retry-After: the host answers again, and asks for a pause."""
    probe = park(gate)
    gate.answered(HOST, probe)
    gate.pause(HOST, 30, probe)

    assert not gate.may_ask(HOST, probe + 29)
    assert gate.may_ask(HOST, probe + 30, flying=1)


def test_a_pause_of_a_parked_host_counts_as_well(gate: HostGate):
    probe = park(gate)
    gate.pause(HOST, 100, probe - 60)
    assert not gate.may_ask(HOST, probe)
    assert gate.may_ask(HOST, probe + 40)
    assert not gate.may_ask(HOST, probe + 40, flying=1)


def test_an_answer_during_a_pause_frees_a_parked_host_when_that_is_over(gate: HostGate):
    probe = park(gate)
    assert gate.failed(HOST, Fault.REFUSED, probe) is Turn.PARKED
    gate.pause(HOST, 100, probe)
    gate.answered(HOST, probe + 1)

    assert not gate.may_ask(HOST, probe + 99)
    assert gate.may_ask(HOST, probe + 100, flying=1)
    again = park(gate, now=probe + 200)
    assert gate.failed(HOST, Fault.REFUSED, again) is Turn.PARKED, "probes are counted anew"


@pytest.mark.covers("G-27")
def test_after_some_failed_probes_a_host_is_down_to_the_end(gate: HostGate):
    """Down for this run: only the operator blocks a host."""
    probe = park(gate)
    assert gate.failed(HOST, Fault.REFUSED, probe, ends=False) is Turn.PARKED
    assert not gate.is_down(HOST)
    assert not gate.may_ask(HOST, probe + 59)

    assert gate.failed(HOST, Fault.TIME_OUT, probe + 60) is Turn.DOWN

    assert gate.is_down(HOST)
    assert not gate.is_down("b.example")
    assert gate.may_ask(HOST, probe + 60, flying=2), "to end without being sent"
    gate.answered(HOST, probe + 61)
    gate.pause(HOST, 60, probe + 61)
    assert {gate.failed(HOST, Fault.REFUSED, probe + 61 + 10 * n) for n in range(9)} == {None}
    assert gate.is_down(HOST)
    assert not gate.throttled


def test_what_was_asked_before_a_host_was_parked_is_no_probe(gate: HostGate):
    probe = park(gate)
    for n in range(9):
        assert gate.failed(HOST, Fault.TIME_OUT, probe - 60 + n) is None
    assert gate.may_ask(HOST, probe)
    assert gate.failed(HOST, Fault.TIME_OUT, probe) is Turn.PARKED


def test_probes_are_counted_anew_when_a_host_is_parked_again(gate: HostGate):
    probe = park(gate)
    assert gate.failed(HOST, Fault.REFUSED, probe) is Turn.PARKED
    gate.answered(HOST, probe + 60)
    again = park(gate, now=probe + 100)
    assert gate.failed(HOST, Fault.REFUSED, again) is Turn.PARKED
    assert gate.failed(HOST, Fault.REFUSED, again + 60) is Turn.DOWN


class Hosts(RuleBasedStateMachine):
    """A gate beside its rule, which is written as a function of the whole history."""

    hosts = st.sampled_from(["a.example", "b.example"])

    @initialize(failures=st.integers(1, 4), seconds=st.integers(0, 9), probes=st.integers(1, 3))
    def begin(self, failures: int, seconds: int, probes: int) -> None:
        self.limits = Limits(failures, seconds, 20, probes)
        self.gate = HostGate(self.limits)
        self.now = 0.0
        self.flying: dict[str, list[bool]] = {}  # of each request, whether it is a probe
        self.row: dict[str, list[float]] = {}
        self.paused: dict[str, float] = {}
        self.parked: dict[str, float] = {}
        self.probed: dict[str, int] = {}
        self.down: set[str] = set()

    @rule(seconds=st.integers(0, 40))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(host=hosts)
    def ask(self, host: str) -> None:
        flying = self.flying.setdefault(host, [])
        if host in self.down:
            assert self.gate.may_ask(host, self.now, len(flying))
            return
        parked = host in self.parked
        due = max(self.paused.get(host, 0.0), self.parked.get(host, 0.0)) <= self.now
        expected = due and not (parked and flying)
        assert self.gate.may_ask(host, self.now, len(flying)) == expected
        if expected:
            flying.append(parked)
            assert not parked or len(flying) == 1, "one probe at a time"

    @precondition(lambda self: any(self.flying.values()))
    @rule(data=st.data(), seconds=st.integers(0, 60), asked=st.booleans())
    def answer(self, data: st.DataObject, seconds: int, asked: bool) -> None:
        host = self.land(data)
        self.gate.answered(host, self.now)
        self.row.pop(host, None)
        self.parked.pop(host, None)
        self.probed.pop(host, None)
        if asked and host not in self.down:
            self.gate.pause(host, seconds, self.now)
            self.paused[host] = max(self.paused.get(host, 0.0), self.now + seconds)

    @precondition(lambda self: any(self.flying.values()))
    @rule(data=st.data(), fault=st.sampled_from(ABSENT))
    def fail(self, data: st.DataObject, fault: Fault) -> None:
        host = self.land(data)
        turn = self.gate.failed(host, fault, self.now)
        if host in self.down:
            assert turn is None
        elif host in self.parked:
            held = max(self.parked[host], self.paused.get(host, 0.0))
            if held > self.now:
                assert turn is None
                return
            self.probed[host] = self.probed.get(host, 0) + 1
            if self.probed[host] == self.limits.host_probes:
                assert turn is Turn.DOWN
                self.down.add(host)
                self.parked.pop(host)
                self.paused.pop(host, None)
            else:
                assert turn is Turn.PARKED
                self.parked[host] = self.now + 20
        else:
            row = self.row.setdefault(host, [])
            row.append(self.now)
            limits = self.limits
            if (
                len(row) >= limits.host_failures_to_park
                and row[-1] - row[0] >= limits.host_failure_seconds
            ):
                assert turn is Turn.PARKED
                self.row.pop(host)
                self.parked[host] = self.now + 20
            else:
                assert turn is None

    def land(self, data: st.DataObject) -> str:
        host: str = data.draw(st.sampled_from([h for h, f in self.flying.items() if f]))
        self.flying[host].pop()
        return host

    @invariant()
    def what_is_held_is_known_and_the_first_turn_is_right(self) -> None:
        if not hasattr(self, "gate"):
            return
        waits = [
            until - self.now
            for host in {"a.example", "b.example"} - self.down
            if (until := max(self.paused.get(host, 0.0), self.parked.get(host, 0.0))) > self.now
        ]
        assert self.gate.next_turn(self.now) == (min(waits) if waits else None)
        assert self.gate.down == self.down
        assert bool(self.gate.throttled) >= bool(waits)


TestHosts = Hosts.TestCase


# Retries, and reports to the gate


class Engine:
    running = True
    downloader = SimpleNamespace(slots={})


class Spider(VisitSpider):
    name = "polite"


class Bench:
    """Both middlewares over a run that takes notes."""

    def __init__(self, **settings: object) -> None:
        self.crawler = get_crawler(Spider, {"RETRY_TIMES": 2, **SETTINGS})
        self.crawler.engine = Engine()
        self.incomplete: list[str] = []
        self.asked: list[tuple[str, int]] = []
        self.crawler.spider = Spider()
        self.crawler.spider.crawler = self.crawler
        options = Options.of(SETTINGS | {"DATA_DIR": "nowhere"} | settings)
        self.crawler.spider.run = SimpleNamespace(
            halt=Halt(),
            source=SiteSource(name="a", seeds=("http://a.example/",)),
            options=options,
            blocked_hosts=frozenset(),
            incomplete=self.incomplete.append,
            hosts=SimpleNamespace(
                asks_for_time=lambda url, seconds: self.asked.append((url, seconds))
            ),
            gate=HostGate(options),
        )
        self.hosts = HostMiddleware.from_crawler(self.crawler)
        self.retry = PassingRetryMiddleware.from_crawler(self.crawler)
        self.gate = gate_of_crawler(self.crawler)

    def request(self, url: str = "http://a.example/x", **more: object) -> Request:
        meta = {"attempt": VisitAttempt(Page(1, url, "a.example", 0)), "download_slot": HOST}
        return Request(url, meta=meta, callback=self.crawler.spider.parse, **more)

    def tries(self, what: object, request: Request | None = None) -> int:
        """Return the number of requests for a page that always ends so."""
        request, count = request or self.request(), 0
        while isinstance(request, Request):
            count += 1
            if isinstance(what, Exception):
                request, last = self.retry.process_exception(request, what), request
                if request is None:
                    self.hosts.process_exception(last, what)
            else:
                response = Response(request.url, what[0], headers=what[1])
                self.hosts.answered(response, request)
                request = self.retry.process_response(request, response)
        return count


Spider.parse = lambda self, response: None


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.covers("M-32", "R1-38")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 522, 599])
def test_a_status_that_speaks_of_the_moment_is_asked_three_times(bench: Bench, status: int):
    assert bench.tries((status, {})) == 3


@pytest.mark.covers("M-32", "R1-38")
@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 406, 410, 418, 451])
def test_any_other_status_stands(bench: Bench, status: int):
    assert bench.tries((status, {})) == 1
    assert bench.tries((status, {"Retry-After": "3600"})) == 1


def failed(*reasons: str) -> DownloadFailedError:
    """An error as Scrapy raises it from Twisted's."""
    error = DownloadFailedError("x")
    inner = [SimpleNamespace(value=type(name, (Exception,), {})()) for name in reasons]
    error.__cause__ = type("ResponseFailed", (Exception,), {"reasons": inner})()
    return error


PASSING_ERRORS = {
    "dns": CannotResolveHostError("x"),
    "refused": DownloadConnectionRefusedError("x"),
    "time-out": DownloadTimeoutError("x"),
    "truncated": ResponseDataLossError(),
    "reset": failed("ConnectionLost"),
    "unknown": failed(),
}
LASTING_ERRORS = {
    "tls": failed("Error"),
    "certificate": failed("VerificationError"),
    "no http": failed("ParseError"),
    "too large": DownloadCancelledError("x"),
    "our fault": AttributeError("x"),
}


@pytest.mark.covers("M-32", "R1-38")
@pytest.mark.parametrize("error", PASSING_ERRORS.values(), ids=PASSING_ERRORS)
def test_a_failure_that_may_pass_is_tried_three_times(bench: Bench, error: Exception):
    assert bench.tries(error) == 3


@pytest.mark.covers("M-32", "R1-38")
@pytest.mark.parametrize("error", LASTING_ERRORS.values(), ids=LASTING_ERRORS)
def test_a_failure_that_lasts_is_not_tried_again(bench: Bench, error: Exception):
    assert bench.tries(error) == 1


def test_a_refused_address_is_not_tried_again(bench: Bench, monkeypatch):
    monkeypatch.setattr(faults, "resolver_refusal", lambda _: "10.0.0.1")
    error = CannotResolveHostError("x")

    assert download_fault(error, "http://a.example/")[0] is Fault.ADDRESS_REFUSED
    assert bench.tries(error) == 1


@pytest.mark.covers("U-20")
@pytest.mark.parametrize("status", [429, 503])
def test_a_bearable_retry_after_pauses_the_host_and_is_noted(bench: Bench, status: int):
    request = bench.request()

    assert bench.tries((status, {"Retry-After": "60"}), request) == 3

    assert request.meta["attempt"].retry_after == 60
    assert 55 < bench.gate.wait(HOST, time.monotonic()) <= 60


@pytest.mark.covers("U-20")
@pytest.mark.parametrize("status", [429, 503])
def test_a_longer_one_ends_the_visit_and_holds_no_host(bench: Bench, status: int):
    request = bench.request()

    assert bench.tries((status, {"Retry-After": "61"}), request) == 1

    assert request.meta["attempt"].retry_after == 61
    assert not bench.gate.throttled


@pytest.mark.parametrize("status", [200, 408, 500, 502])
def test_retry_after_counts_on_429_and_503_only(bench: Bench, status: int):
    request = bench.request()
    request.meta["attempt"].retry_after = 5  # of the try before

    bench.tries((status, {"Retry-After": "30"}), request)

    assert request.meta["attempt"].retry_after is None
    assert not bench.gate.throttled


def test_a_nonsensical_one_is_none(bench: Bench):
    assert bench.tries((503, {"Retry-After": "soon"})) == 3
    assert bench.tries((503, {"Retry-After": "0"})) == 3
    assert not bench.gate.throttled


def test_visits_are_counted_and_not_their_tries(bench: Bench):
    bench = Bench(HOST_FAILURES_TO_PARK=3, HOST_FAILURE_SECONDS=0)
    error = DownloadConnectionRefusedError("x")
    assert [bench.tries(error) for _ in range(2)] == [3, 3]
    assert not bench.gate.throttled
    bench.tries(error)
    assert bench.gate.throttled


def test_a_probe_counts_with_every_try_and_the_last_one_ends_it(bench: Bench):
    bench = Bench(
        HOST_FAILURES_TO_PARK=1, HOST_FAILURE_SECONDS=0, HOST_PARK_SECONDS=0, HOST_PROBES=3
    )
    error = DownloadTimeoutError("x")
    bench.tries(error)
    assert bench.incomplete == []
    bench.tries(error)
    assert bench.gate.is_down(HOST)
    bench.tries(error)
    assert bench.incomplete == [f"host_down: {HOST}"], "said once"


def test_robots_txt_and_what_was_refused_are_no_visits(bench: Bench):
    bench = Bench(HOST_FAILURES_TO_PARK=1, HOST_FAILURE_SECONDS=0)
    robots = Request("http://a.example/robots.txt", callback=NO_CALLBACK)
    bench.tries(DownloadConnectionRefusedError("x"), robots)
    assert not bench.gate.throttled
    bench.gate.down.add(HOST)
    with pytest.raises(Exception, match=r"a\.example does not respond") as caught:
        run(bench.hosts.process_request(bench.request()))
    bench.gate.down.clear()
    assert bench.tries(caught.value) == 1
    assert not bench.gate.throttled
    assert download_fault(caught.value, "http://a.example/")[0] is Fault.HOST_DOWN


def run(coroutine) -> None:
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_robots_txt_waits_for_a_pause_itself_because_no_scheduler_holds_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            bench.gate.throttled.clear()

    monkeypatch.setattr("smartcrawl.middlewares.asyncio.sleep", sleep)
    robots = Request("http://a.example/robots.txt", callback=NO_CALLBACK)
    bench.gate.pause(HOST, 60, time.monotonic())

    run(bench.hosts.process_request(bench.request()))
    run(bench.hosts.process_request(Request("http://b.example/robots.txt", callback=NO_CALLBACK)))
    assert slept == []
    run(bench.hosts.process_request(robots))
    assert slept == [1, 1, 1], "in small steps, so that a stop is noticed"
    bench.gate.pause(HOST, 60, time.monotonic())
    bench.crawler.engine.running = False
    run(bench.hosts.process_request(robots))
    assert len(slept) == 3


def test_an_answer_begins_the_row_of_visits_anew():
    bench = Bench(HOST_FAILURES_TO_PARK=3, HOST_FAILURE_SECONDS=0)
    error = DownloadConnectionRefusedError("x")
    for _ in range(5):
        bench.tries(error)
        bench.tries(error)
        bench.tries((404, {}))
    assert not bench.gate.throttled


def test_a_blocked_host_is_refused_with_the_remedy_and_its_robots_txt_too():
    bench = Bench(HOST_FAILURES_TO_PARK=1, HOST_FAILURE_SECONDS=0)
    bench.crawler.spider.run.blocked_hosts = frozenset({"a.example", "b.example:81"})
    for request in (
        bench.request(),
        Request("https://a.example/robots.txt", callback=NO_CALLBACK),
        Request("http://b.example:81/"),
    ):
        with pytest.raises(Exception, match="scrapy hosts --unblock") as caught:
            run(bench.hosts.process_request(request))
        assert bench.tries(caught.value, request) == 1
    run(bench.hosts.process_request(Request("http://b.example/")))
    run(bench.hosts.process_request(Request("http://a.example:81/")))
    assert not bench.gate.throttled


def test_the_host_of_a_request_is_the_name_of_its_slot():
    assert (
        host_of_scrapy_request(Request("http://a.example:81/", meta={"download_slot": "s"})) == "s"
    )
    assert host_of_scrapy_request(Request("http://A.example:81/")) == "a.example"
    assert host_of_scrapy_request(Request("http://[::1]:81/")) == "::1"


def test_a_spider_without_a_run_has_no_gate():
    crawler = get_crawler(Spider)
    crawler.spider = Spider()
    assert gate_of_crawler(crawler) is None


def test_the_parts_of_a_crawl_share_one_gate(bench: Bench):
    assert gate_of_crawler(bench.crawler) is bench.gate


# How a host is written


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("a.example", "a.example"),
        ("A.Example:443", "a.example"),
        ("a.example:80", "a.example"),
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("[::1]:8801", "[::1]:8801"),
        ("Bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_is_meant_by_the_name_that_its_pages_have(value: str, host: str):
    assert hosts_command_argument(value) == host


@pytest.mark.parametrize(
    "value",
    ["", " ", "a example", "a.example/x", "a.example?x", "a.example#x", "me@a.example", "a\\b",
     "a.example:port", "ftp://a.example", "https://", "http://a b/", ":80"],
)  # fmt: skip
def test_what_is_no_host_is_told_how_one_is_written(value: str):
    with pytest.raises(RegistryError) as caught:
        hosts_command_argument(value)
    assert str(caught.value).startswith(f"{value!r} is not a host: write its name, and the port")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("value", ["https://a.example", "HTTP://A.example:80/x?y"])
def test_an_address_is_told_its_host(value: str):
    with pytest.raises(RegistryError, match=r"did you mean a\.example\?"):
        hosts_command_argument(value)
