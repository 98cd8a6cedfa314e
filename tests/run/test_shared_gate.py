"""The state of a host is sent to all workers, once (ADR 30; R2-43 to R2-46)."""

from dataclasses import dataclass

import pytest

from smartcrawl.rules.model import Fault
from smartcrawl.run.hosts import Turn
from smartcrawl.run.shared.scripts import FrontierClaim
from smartcrawl.run.shared.workers import SharedGate

HOST = "a.example"


@dataclass
class Limits:
    host_failures_to_park: int = 2
    host_failure_seconds: int = 0
    host_park_seconds: int = 60
    host_probes: int = 2


class Hosts:
    """Records its calls; a host is parked `times` times in a row by now."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.times = 0

    def pause(self, host: str, seconds: float) -> None:
        self.calls.append(("pause", host, seconds))

    def park(self, host: str, seconds: float) -> int:
        self.calls.append(("park", host, seconds))
        self.times += 1
        return self.times

    def unpark(self, host: str) -> None:
        self.calls.append(("unpark", host))

    def give_up(self, host: str) -> None:
        self.calls.append(("give up", host))

    def set_delay(self, host: str, seconds: float) -> None:
        self.calls.append(("delay", host, seconds))

    def set_single(self, host: str, seconds: float) -> None:
        self.calls.append(("single", host, seconds))


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@pytest.fixture
def gate(hosts: Hosts) -> SharedGate:
    return SharedGate(Limits(), lambda act: act(hosts))  # type: ignore[arg-type]


def claim(*, down: bool = False, parked: bool = False) -> FrontierClaim:
    return FrontierClaim(1, HOST, 0, "token", "score", down, parked)


def test_a_pause_is_told(gate: SharedGate, hosts: Hosts):
    gate.pause(HOST, 5.0, now=100.0)

    assert hosts.calls == [("pause", HOST, 5.0)]
    assert gate.wait(HOST, 101.0) == 4.0


def test_a_host_where_nobody_answers_is_parked_for_all(gate: SharedGate, hosts: Hosts):
    assert gate.failed(HOST, Fault.REFUSED, 0.0) is None
    assert hosts.calls == []
    assert gate.failed(HOST, Fault.REFUSED, 1.0) is Turn.PARKED
    assert hosts.calls == [("park", HOST, 60)]


def test_an_answer_frees_a_host_for_all(gate: SharedGate, hosts: Hosts):
    for now in (0.0, 1.0):
        gate.failed(HOST, Fault.REFUSED, now)
    hosts.calls.clear()
    gate.answered(HOST, 70.0)
    gate.answered(HOST, 71.0)

    assert hosts.calls == [("unpark", HOST)]


def test_an_answer_of_a_host_that_is_well_is_no_news(gate: SharedGate, hosts: Hosts):
    gate.answered(HOST, 1.0)
    gate.failed(HOST, Fault.TLS, 2.0)

    assert hosts.calls == []


def test_a_probe_for_others_frees_the_host_or_parks_it_again(gate: SharedGate, hosts: Hosts):
    gate.claimed(claim(parked=True))
    gate.failed(HOST, Fault.TIME_OUT, 1.0)
    assert hosts.calls == [("park", HOST, 60)]

    gate.failed(HOST, Fault.NO_LOCATION, 2.0)
    assert len(hosts.calls) == 1, "one claim is one probe"

    gate.claimed(claim(parked=True))
    gate.answered(HOST, 3.0)
    assert hosts.calls[1:] == [("unpark", HOST)]


def test_a_host_that_no_probe_reached_is_given_up(gate: SharedGate, hosts: Hosts):
    for _ in range(3):
        gate.claimed(claim(parked=True))
        gate.failed(HOST, Fault.TIME_OUT, 1.0)

    assert hosts.calls == 3 * [("park", HOST, 60)] + [("give up", HOST)]


def test_a_host_that_others_gave_up_is_asked_for_nothing(gate: SharedGate):
    gate.pause(HOST, 60, now=0.0)
    assert gate.claimed(claim(down=True)) is True
    assert gate.is_down(HOST)
    assert gate.may_ask(HOST, 1.0), "its requests end without being sent"
    assert gate.claimed(claim(down=True)) is False, "that is no news"


def test_a_delay_is_told_where_it_differs(gate: SharedGate, hosts: Hosts):
    for seconds in (1.0, 1.05, 0.95, 1.2, 1.2):
        gate.paced(HOST, seconds)

    assert hosts.calls == [("delay", HOST, 1.0), ("delay", HOST, 1.2)]


def test_the_time_with_one_request_is_told_where_it_is_later(gate: SharedGate, hosts: Hosts):
    for now, until in ((10.0, 10.1), (10.0, 12.0), (11.0, 12.1), (11.0, 13.0), (14.0, 14.1)):
        gate.single(HOST, until, now)

    assert hosts.calls == [("single", HOST, 2.0), ("single", HOST, 2.0)]
