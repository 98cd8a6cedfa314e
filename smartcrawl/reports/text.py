"""Numbers in words, for tables and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import ORDER_REASONS

_UNITS: Final = (("days", 86_400), ("h", 3_600), ("min", 60))


def report_noun(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> report_noun(1, "page"), report_noun(1_234, "page")
    ('1 page', '1,234 pages')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def report_time_span(seconds: int | None) -> str:
    """Return a time in the largest unit of which it has at least two.

    >>> [report_time_span(seconds) for seconds in (0, 119, 120, 7_199, 7_200, 172_800)]
    ['0 s', '119 s', '2 min', '120 min', '2 h', '2 days']
    """
    seconds = max(0, seconds or 0)  # a clock may have been set back
    for unit, size in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds} s"


def run_state_text(state: RunState, reasons: Sequence[str]) -> str:
    """Return the state of a run that ended before its seal, in one word.

    >>> run_state_text(RunState.INTERRUPTED, ["paused"])
    'paused'
    >>> run_state_text(RunState.INTERRUPTED, ["interrupted"])
    'interrupted'
    >>> run_state_text(RunState.CANCELLED, ["cancelled", "the disk is full"])
    'cancelled'
    """
    paused = ORDER_REASONS[RunOrder.PAUSE]
    return paused if state is RunState.INTERRUPTED and paused in reasons else state.word
