"""The measures of each source for monitoring: ages, pages, traffic, failures, runs, debts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, read_transaction
from smartcrawl.registry.removal.tombstones import failed_start_sources
from smartcrawl.reports.alarms import ReportedAlarm, source_alarms
from smartcrawl.reports.text import run_state_text
from smartcrawl.rules.model import BEFORE_SEAL, Fault, RunState
from smartcrawl.rules.seal import only_not_due
from smartcrawl.sources.declared import DeclaredSources

_RUNS: Final = """
SELECT s.name, r.state, r.complete, r.reasons, count(*)
  FROM run r JOIN source s ON s.no = r.source GROUP BY 1, 2, 3, 4
"""
#: Pages whose last visit failed, by (extended) status.
_FAILED: Final = """
SELECT o.name, s.http_status, count(*)
  FROM state s JOIN run u ON u.no = s.reached_run JOIN source o ON o.no = u.source
 WHERE s.status = 3 GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class SourceMeasures:
    """The measures of one source."""

    reported: ReportedAlarm
    runs: Mapping[str, int]  #: by outcome; open ones are left out
    failures: Mapping[str, int]  #: pages whose last visit failed, by reason


def source_measures(
    connection: Connection,
    options: Options,
    now: int,
    *,
    is_held: Callable[[str], bool],
    declared: DeclaredSources | None,
    sources: Sequence[str],
) -> list[SourceMeasures]:
    """Return the measures of some sources, by name; ``now`` is in Unix seconds.

    ``declared``: the sources of today, None where they cannot be read. Addresses of which no run
    got anything are no sources.
    """
    alarms = source_alarms(
        connection,
        options,
        now,
        is_held=is_held,
        declared=declared,
        sources=sources,
        left_out=failed_start_sources(connection),
    )
    with read_transaction(connection):
        runs: Any = connection.execute(_RUNS).fetchall()
        failed: Any = connection.execute(_FAILED).fetchall()
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, state, complete, reasons, count in runs:
        outcome = run_outcome(RunState(state), json.loads(reasons), complete=bool(complete))
        if outcome is not None:
            outcomes[name][outcome] += count
    failures: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, status, pages in failed:
        failures[name][failure_reason(status)] += pages
    return [SourceMeasures(one, outcomes[one.source], failures[one.source]) for one in alarms]


#: The outcomes of runs, each of which a source has from its first run on.
OUTCOMES: Final = ("complete", "due", "incomplete", "interrupted", "paused", "cancelled")


def run_outcome(state: RunState, reasons: Sequence[str], *, complete: bool) -> str | None:
    """Return one of OUTCOMES; None: the run is open.

    >>> run_outcome(RunState.SWEPT, ["not_due: 3"], complete=False)
    'due'
    >>> run_outcome(RunState.INTERRUPTED, ["interrupted"], complete=False)
    'interrupted'
    """
    if state in BEFORE_SEAL:
        return None
    if state in (RunState.INTERRUPTED, RunState.CANCELLED):
        return run_state_text(state, reasons)
    if complete:
        return "complete"
    return "due" if only_not_due(reasons) else "incomplete"


def failure_reason(status: int | None) -> str:
    """Return the word of an (extended) status, of which there are few.

    >>> failure_reason(503), failure_reason(1103), failure_reason(None), failure_reason(1099)
    ('http_503', 'time_out', 'none', 'other')
    """
    if status is None:
        return "none"
    if status < Fault.BAD_RESPONSE:
        return f"http_{status}"
    found = next((fault for fault in Fault if fault == status), None)
    return "other" if found is None else found.name.lower()
