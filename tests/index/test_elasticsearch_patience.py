"""Waiting for an Elasticsearch: how long, how often, and what is said meanwhile."""

import pytest
from elasticsearch import ConnectionTimeout

from smartcrawl.index.elasticsearch.faults import index_answer, index_patience
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.patience import LONGEST_PAUSE, AwayError, Patience

NAME = "http://search.example:9200"


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def patience(clock: Clock, lines: list[str], seconds: float = 3_600) -> Patience:
    found = index_patience(seconds, NAME, clock=lambda: clock.now, sleep=clock.sleep)
    found.say = lines.append
    return found


def test_elasticsearch_pauses_double_up_to_the_longest():
    clock, lines = Clock(), []
    waiting = patience(clock, lines)
    pauses = []
    for _ in range(10):
        before = clock.now
        waiting.wait(AwayError("status 503"))
        pauses.append(clock.now - before)

    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert pauses[-1] == LONGEST_PAUSE


def test_elasticsearch_wait_is_told_each_second():
    clock, lines = Clock(), []
    waiting = patience(clock, lines)
    for _ in range(3):
        waiting.wait(AwayError("status 503"))

    assert lines == [
        f"waiting for {NAME} since {gone} s: status 503; next try in {left} s,"
        f" the last one in {3_600 - gone} s"
        for gone, left in ((0, 0), (0, 1), (2, 2), (2, 1))
    ]


def test_elasticsearch_wait_ends_when_its_time_is_over():
    clock, lines = Clock(), []
    waiting = patience(clock, lines, seconds=10)
    for _ in range(5):
        waiting.wait(AwayError("status 429, too much"))
    with pytest.raises(SinkError) as caught:
        waiting.wait(AwayError("status 429, too much"))

    assert clock.now == 1_010
    assert str(caught.value) == (
        f"{NAME} took nothing for 10 s (SINK_WAIT_SECONDS): status 429, too much. Nothing is lost:"
        " start the run again when it answers, and it goes on where it stopped"
    )


def test_elasticsearch_that_takes_something_is_waited_for_anew():
    clock, lines = Clock(), []
    waiting = patience(clock, lines, seconds=10)
    for _ in range(20):
        waiting.wait(AwayError("status 429"))
        waiting.wait(AwayError("status 429"))
        waiting.over()

    assert clock.now == 1_000 + 20 * 1.5


def test_elasticsearch_without_patience_is_not_waited_for():
    clock, lines = Clock(), []

    with pytest.raises(SinkError, match="took nothing for 0 s"):
        patience(clock, lines, seconds=0).wait(AwayError("status 503"))

    assert lines == []


def test_elasticsearch_patience_may_end_earlier_but_not_later():
    for least, seconds in ((10, 10), (60, 20)):
        clock, lines = Clock(), []
        waiting = patience(clock, lines, seconds=20).at_most(least)
        with pytest.raises(SinkError, match=f"took nothing for {seconds} s"):
            index_answer(NAME, Away(7), waiting)
        assert clock.now == 1_000 + seconds
        assert lines


class Away:
    """A request that fails so often."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self) -> str:
        self.times -= 1
        if self.times >= 0:
            raise ConnectionTimeout("too slow")
        return "answer"


def test_elasticsearch_is_asked_until_it_answers():
    clock, lines = Clock(), []
    waiting = patience(clock, lines)

    assert index_answer(NAME, Away(3), waiting) == "answer"
    assert clock.now == 1_000 + 0.5 + 1 + 2
    assert index_answer(NAME, Away(1), waiting) == "answer"
    assert clock.now == 1_000 + 3.5 + 0.5
    assert "no answer in time" in lines[0]
