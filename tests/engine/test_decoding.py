"""Bodies that come too slowly, and their retries."""

import pytest
from scrapy import Request
from scrapy.exceptions import StopDownload

from smartcrawl.engine.download import decoding
from smartcrawl.engine.download.decoding import SlowBodies

RATE = 1_024


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(decoding, "time", clock)
    return clock


def test_a_body_is_given_up_when_it_is_too_slow_for_too_long(clock: Clock):
    bodies, request = SlowBodies(RATE), Request("http://a.example/")
    for _ in range(10):
        bodies.received(b"x" * 900, request)
        clock.now += 1

    with pytest.raises(StopDownload) as stopped:
        bodies.received(b"x", request)
    assert stopped.value.fail


def test_a_body_that_keeps_the_rate_may_take_its_time(clock: Clock):
    bodies, request = SlowBodies(RATE), Request("http://a.example/")
    for _ in range(60):
        bodies.received(b"x" * 1_100, request)
        clock.now += 1


def test_a_further_try_begins_anew(clock: Clock):
    """The time between two tries does not count for the second body."""
    bodies, first = SlowBodies(RATE), Request("http://a.example/", meta={"attempt": 1})
    bodies.received(b"try again", first)
    clock.now += 11

    bodies.received(b"here it is", first.replace(dont_filter=True))
