"""Alarms: whether a source is well, deserves a look, or has to be repaired (ADR 174)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import INTERRUPTED, ORDER_REASONS
from smartcrawl.rules.seal import NO_PAGES, SEED_FAILED

UNKNOWN: Final = 3  #: exit status of a check that itself failed


class Level(IntEnum):
    """How a source is. The numbers are the exit statuses of ``status --check``."""

    WELL = 0
    LOOK = 1  #: it deserves a look
    ALARM = 2  #: it is stale, failed, or waits for approval


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source may do without an alarm."""

    max_age: int  #: seconds since the last time that it was seen whole; 0: any age
    max_failed: float  #: share of its pages whose last visit failed, 0 to 1


@dataclass(frozen=True, slots=True)
class Condition:
    """The facts about a source that decide its level. Times are in Unix seconds."""

    begun_at: int | None  #: when its first run began; None: there was no run
    seen_at: int | None  #: when a run last saw all that it was to see; None: none did yet
    is_visited: bool = True  #: whether a run visits it: it is declared, and its table is right
    fault: str | None = None  #: why its last run failed; None: it did not
    failed: float = 0.0  #: share of its pages whose last visit failed
    waiting: int = 0  #: removals that wait for approval
    looks: tuple[str, ...] = ()  #: facts that deserve a look, in words


@dataclass(frozen=True, slots=True)
class Alarm:
    """The level of a source, and why."""

    level: Level
    reasons: tuple[str, ...] = ()  #: words of a line; the first one is the most important


#: Words of reasons that say that a source could not be reached, or what it sent was not believed.
_OUTAGES: Final = (SEED_FAILED, "unreachable", "wall", NO_PAGES)
#: Reasons of a run that a person ended.
_BY_HAND: Final = frozenset({INTERRUPTED, ORDER_REASONS[RunOrder.PAUSE]})


def last_run_fault(state: RunState, reasons: Sequence[str], *, has_died: bool) -> str | None:
    """Return why the last run of a source failed, in words; None: it did not.

    ``has_died``: it is open, and no process is at it. A run that was paused, cancelled or stopped
    did not fail, and neither did one that a limit cut short.

    >>> last_run_fault(RunState.SWEPT, ["seed_failed: http://a.example/"], has_died=False)
    'its last run failed: seed_failed'
    >>> last_run_fault(RunState.SWEPT, ["max_pages", "pending: 7"], has_died=False)
    """
    if has_died:
        return "the process of its last run died"
    if state is RunState.INTERRUPTED:
        why = [reason for reason in reasons if reason not in _BY_HAND]
        return f"its last run was cut short: {why[0].partition(':')[0]}" if why else None
    words = [reason.partition(":")[0] for reason in reasons]
    found = [word for word in words if word in _OUTAGES]
    return f"its last run failed: {found[0]}" if found else None


def source_age(condition: Condition, now: int) -> int:
    """Return the seconds since a source was seen whole, or since its first run began.

    A clock that was set back makes no age negative.
    """
    since = condition.begun_at if condition.seen_at is None else condition.seen_at
    return 0 if since is None else max(0, now - since)


def is_source_stale(condition: Condition, limits: Limits, now: int) -> bool:
    """Whether a source was not seen whole for longer than it may be.

    A source that no run visits any more is not stale: that is no news, but a decision or a mistake
    that has a line of its own.
    """
    aged = bool(limits.max_age) and source_age(condition, now) > limits.max_age
    return condition.is_visited and aged


def source_alarm(condition: Condition, limits: Limits, now: int) -> Alarm:
    """Return the level of a source with its reasons.

    >>> limits = Limits(max_age=86_400, max_failed=0.1)
    >>> source_alarm(Condition(0, 0, waiting=3), limits, 90_000).reasons
    ('stale', '3 removals wait for approval')
    """
    found = []
    if is_source_stale(condition, limits, now):
        found.append("stale")
    if condition.fault is not None:
        found.append(condition.fault)
    if condition.failed > limits.max_failed:
        found.append(f"{100 * condition.failed:.3g} % of its pages failed")
    if condition.waiting:
        removals = "removal waits" if condition.waiting == 1 else "removals wait"
        found.append(f"{condition.waiting:,} {removals} for approval")
    if found:
        return Alarm(Level.ALARM, tuple(found))
    return Alarm(Level.LOOK if condition.looks else Level.WELL, condition.looks)


def worst_level(alarms: Iterable[Alarm]) -> Level:
    """Return the worst level; that of no source at all is WELL."""
    return max((alarm.level for alarm in alarms), default=Level.WELL)
