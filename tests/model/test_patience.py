"""Waiting for what is away: how long, how often, and what ends it."""

import math
import re
import threading

import pytest

from smartcrawl.model.patience import (
    AwayError,
    CallGivenUpError,
    EndableCalls,
    Patience,
)


class Clock:
    """Seconds that pass while somebody sleeps, and only then."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


class SpentError(Exception):
    """The patience is at its end."""


def patience(clock: Clock, most: float = 3_600, **others: object) -> Patience:
    return Patience(
        most,
        "http://a.example",
        lambda failure, gone: SpentError(f"{failure} for {gone:.0f} s"),
        **({"clock": lambda: clock.now, "sleep": clock.sleep} | others),
    )


def away(times: int, wait: int | None = None):
    """A request that fails so often, and then answers."""
    failures = iter([AwayError("busy", wait=wait)] * times)

    def request() -> str:
        for failure in failures:
            raise failure
        return "answer"

    return request


def test_pauses_double_up_to_the_longest_and_begin_anew_after_an_answer():
    clock = Clock()
    waiting = patience(clock)

    assert waiting.ask(away(8)) == "answer"
    assert waiting.ask(away(2)) == "answer"

    assert clock.slept == [1, 2, 4, 8, 16, 30, 30, 30, 1, 2]


def test_an_outage_is_waited_for_no_longer_than_the_limit_in_all():
    """The last try comes at its end; what asks later waits no more."""
    clock = Clock()
    waiting = patience(clock, most=10)

    for _ in range(2):
        with pytest.raises(SpentError, match="busy for 10 s"):
            waiting.ask(away(99))

    assert clock.slept == [1, 2, 4, 3]
    assert waiting.ask(away(0)) == "answer"
    assert waiting.ask(away(1)) == "answer"


def test_without_a_limit_of_time_nothing_is_waited_for():
    clock = Clock()

    with pytest.raises(SpentError, match="busy for 0 s"):
        patience(clock, most=0).ask(away(1))

    assert clock.slept == []


@pytest.mark.parametrize(("wait", "slept"), [(7, [7]), (0, [1]), (60, [60]), (61, None)], ids=str)
def test_a_server_that_names_its_wait_gets_it_or_is_not_waited_for(wait, slept):
    clock = Clock()
    waiting = patience(clock, most=60)
    if slept is None:
        with pytest.raises(SpentError, match="busy for 0 s"):
            waiting.ask(away(1, wait))
    else:
        assert waiting.ask(away(1, wait)) == "answer"
    assert clock.slept == (slept or [])


def test_an_error_is_an_answer_too():
    clock = Clock()
    waiting = patience(clock)
    failures = iter([AwayError("busy"), ValueError("refused"), AwayError("busy")])

    def request() -> str:
        for failure in failures:
            raise failure
        return "answer"

    with pytest.raises(ValueError, match="refused"):
        waiting.ask(request)
    assert waiting.ask(request) == "answer"
    assert clock.slept == [1, 1]


def test_a_process_that_ends_waits_for_some_seconds_more():
    clock = Clock()
    waiting = patience(clock, step=0.5)

    def request() -> str:
        if clock.now == 1_003:  # in the second pause
            waiting.hurry()
        raise AwayError("busy")

    with pytest.raises(SpentError):
        waiting.ask(request)

    assert clock.now == 1_008
    assert set(clock.slept) == {0.5}
    clock.now += 0.5
    assert waiting.is_spent


def test_a_pause_is_told_at_each_step_and_ends_with_an_error_of_that():
    clock, told = Clock(), []
    waiting = patience(clock, step=1.0)

    def say(line: str) -> None:
        told.append(line)
        if len(told) == 4:
            raise KeyError("stopped")

    waiting.say = say

    with pytest.raises(KeyError):
        waiting.ask(away(9))
    assert told == [
        f"waiting for http://a.example since {gone} s: busy; next try in {left} s,"
        f" the last one in {3_600 - gone} s"
        for gone, left in ((0, 1), (1, 2), (2, 1), (3, 4))
    ]


def test_a_wait_is_logged_now_and_then(caplog: pytest.LogCaptureFixture):
    clock = Clock()

    assert patience(clock, step=1.0).ask(away(6)) == "answer"

    assert [line.partition(":")[0] for line in caplog.messages] == ["waiting for http"] * 3
    assert [re.search(r"since (\d+) s", line)[1] for line in caplog.messages] == ["0", "30", "60"]


def test_a_long_wait_is_told_and_a_short_one_is_not():
    """Failures within a minute and a half are one wait, whatever succeeds between them."""
    clock, told = Clock(), []
    waiting = patience(clock)
    waiting.when_long = lambda: told.append(clock.now)

    for second in (0, 5, 8, 200, 208, 211, 213):  # two waits; the second one is long
        clock.now = 1_000.0 + second
        waiting.wait(AwayError("busy"))
        waiting.over()

    assert told == [1_211.0, 1_213.0]


def test_a_pause_that_is_woken_is_over():
    clock, closed = Clock(), threading.Event()
    closed.set()

    assert patience(clock, sleep=closed.wait).ask(away(1)) == "answer"
    assert clock.now == 1_000


def test_a_patience_of_its_own_may_end_earlier_but_not_later():
    clock = Clock()
    waiting = patience(clock, most=20)
    waiting.begun()
    clock.now += 15

    for least, gone in ((10, 10), (60, 20)):
        before = clock.now
        with pytest.raises(SpentError, match=f"busy for {gone} s"):
            waiting.at_most(least).ask(away(99))
        assert clock.now == before + gone
    assert math.isclose(waiting.begun(), 45)


@pytest.mark.parametrize(("gone", "spent"), [(None, False), (60, False), (61, True)])
def test_a_patience_is_spent_when_its_outage_is_longer_than_the_limit(gone, spent):
    clock = Clock()
    waiting = patience(clock, most=60)
    if gone is not None:
        waiting.begun()
        clock.now += gone

    assert waiting.is_spent is spent
    waiting.over()
    assert not waiting.is_spent


def test_a_call_returns_its_result_or_raises_its_error():
    calls = EndableCalls()

    assert calls.made(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        calls.made(lambda: 1 // 0)


def test_a_call_that_takes_longer_is_left():
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        EndableCalls().made(ended.wait, 0.01)
    ended.set()


def test_calls_that_are_given_up_end_at_once_and_so_do_later_ones():
    calls, begun, ended = EndableCalls(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        ended.wait(30)

    threading.Thread(target=lambda: begun.wait(30) and calls.give_up(), daemon=True).start()
    for _ in range(2):
        with pytest.raises(CallGivenUpError):
            calls.made(slow)
    ended.set()
