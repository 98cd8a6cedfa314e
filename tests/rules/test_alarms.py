"""When a source is an alarm, when it deserves a look, and when it is well (ADR 174)."""

import pytest

from smartcrawl.rules.alarms import (
    UNKNOWN,
    Alarm,
    Condition,
    Level,
    Limits,
    last_run_fault,
    source_age,
    source_alarm,
    worst_level,
)
from smartcrawl.rules.model import RunState

NOW = 1_790_000_000
DAY = 86_400
LIMITS = Limits(max_age=7 * DAY, max_failed=0.1)


def alarm(limits: Limits = LIMITS, **known: object) -> Alarm:
    return source_alarm(Condition(**{"begun_at": 0, "seen_at": NOW} | known), limits, NOW)


def test_a_source_is_well_up_to_its_limits():
    assert alarm(seen_at=NOW - 7 * DAY, failed=0.1) == Alarm(Level.WELL)


@pytest.mark.parametrize(
    ("known", "reasons"),
    [
        ({"seen_at": NOW - 7 * DAY - 1}, ("stale",)),
        ({"begun_at": NOW - 7 * DAY - 1, "seen_at": None}, ("stale",)),
        ({"fault": "its last run failed: wall"}, ("its last run failed: wall",)),
        ({"failed": 0.125}, ("12.5 % of its pages failed",)),
        ({"waiting": 1}, ("1 removal waits for approval",)),
        ({"waiting": 1_200}, ("1,200 removals wait for approval",)),
        ({"seen_at": 0, "waiting": 2, "failed": 1.0},
         ("stale", "100 % of its pages failed", "2 removals wait for approval")),
    ],
)  # fmt: skip
def test_an_alarm_has_all_of_its_reasons(known: dict[str, object], reasons: tuple[str, ...]):
    assert alarm(**known, looks=("3 lost",)) == Alarm(Level.ALARM, reasons)


def test_facts_that_deserve_a_look_are_no_alarm():
    assert alarm(looks=("3 lost", "1 orphaned")) == Alarm(Level.LOOK, ("3 lost", "1 orphaned"))


def test_a_source_that_no_run_visits_is_not_stale():
    assert alarm(seen_at=0, is_visited=False, looks=("no longer declared",)).level is Level.LOOK


def test_a_limit_of_0_is_any_age():
    assert alarm(Limits(0, 0.1), seen_at=0).level is Level.WELL


@pytest.mark.parametrize(
    ("begun", "seen", "age"),
    [(NOW - 50, NOW - 20, 20), (NOW - 50, None, 50), (None, None, 0), (NOW - 50, NOW + 9, 0)],
)
def test_the_age_counts_from_the_last_time_or_the_first_run(
    begun: int | None, seen: int | None, age: int
):
    """A clock that was set back makes no age negative."""
    assert source_age(Condition(begun, seen), NOW) == age


@pytest.mark.parametrize(
    ("state", "reasons", "has_died", "fault"),
    [
        (RunState.OPEN, (), True, "the process of its last run died"),
        (RunState.OPEN, (), False, None),
        (RunState.SWEPT, (), False, None),
        (RunState.SWEPT, ("max_pages", "pending: 7"), False, None),
        (RunState.SWEPT, ("max_pages", "seed_failed: x", "wall: y"), False,
         "its last run failed: seed_failed"),
        (RunState.SWEPT, ("unreachable: 9 of 9 visits",), False,
         "its last run failed: unreachable"),
        (RunState.SWEPT, ("wall: x",), False, "its last run failed: wall"),
        (RunState.SWEPT, ("no_pages",), False, "its last run failed: no_pages"),
        (RunState.INTERRUPTED, ("interrupted",), False, None),
        (RunState.INTERRUPTED, ("paused",), False, None),
        (RunState.INTERRUPTED, ("interrupted", "the disk is full: x", "index_away"), False,
         "its last run was cut short: the disk is full"),
        (RunState.CANCELLED, ("cancelled",), False, None),
    ],
)  # fmt: skip
def test_a_run_failed_where_nobody_ended_it(
    state: RunState, reasons: tuple[str, ...], has_died: bool, fault: str | None
):
    assert last_run_fault(state, reasons, has_died=has_died) == fault


def test_the_worst_source_counts():
    levels = [Alarm(Level.LOOK), Alarm(Level.ALARM), Alarm(Level.WELL)]
    assert worst_level(levels) is Level.ALARM
    assert worst_level([]) is Level.WELL
    assert [*map(int, Level), UNKNOWN] == [0, 1, 2, 3]  # the exit statuses
