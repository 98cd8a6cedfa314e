"""The measures of each source for monitoring: ages, pages, traffic, failures, runs, debts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, read_transaction
from smartcrawl.reports.alarms import ReportedAlarm, source_alarms
from smartcrawl.reports.text import run_state_text
from smartcrawl.rules.model import BEFORE_SEAL, Fault, RunState
from smartcrawl.rules.seal import only_not_due
from smartcrawl.sources.declared import DeclaredSources

_RUNS: Final = """
SELECT s.name, r.state, r.complete, r.reasons, count(*), sum(r.requests), sum(r.not_modified),
       sum(r.bytes_downloaded), sum(r.bytes_saved),
       sum(CASE WHEN r.finished_at > r.started_at THEN r.finished_at - r.started_at ELSE 0 END)
  FROM run r JOIN source s ON s.no = r.source GROUP BY 1, 2, 3, 4
"""
#: Pages whose last visit failed, by (extended) status.
_FAILED: Final = """
SELECT o.name, s.http_status, count(*)
  FROM state s JOIN run u ON u.no = s.reached_run JOIN source o ON o.no = u.source
 WHERE s.status = 3 GROUP BY 1, 2
"""


@dataclass(slots=True)
class Traffic:
    """What all runs of a source did together."""

    runs: Counter[str] = field(default_factory=Counter)  #: by outcome; open ones are left out
    requests: int = 0
    not_modified: int = 0
    downloaded: int = 0  #: bytes
    saved: int = 0  #: bytes
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class SourceMeasures:
    """The measures of one source."""

    reported: ReportedAlarm
    traffic: Traffic
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

    ``declared``: the sources of today, None where they cannot be read.
    """
    alarms = source_alarms(
        connection, options, now, is_held=is_held, declared=declared, sources=sources
    )
    with read_transaction(connection):
        runs: Any = connection.execute(_RUNS).fetchall()
        failed: Any = connection.execute(_FAILED).fetchall()
    traffic: dict[str, Traffic] = {}
    for name, state, complete, reasons, *sums in runs:
        outcome = run_outcome(RunState(state), json.loads(reasons), complete=bool(complete))
        _add(traffic.setdefault(name, Traffic()), outcome, sums)
    failures: dict[str, Counter[str]] = {}
    for name, status, pages in failed:
        failures.setdefault(name, Counter())[failure_reason(status)] += pages
    return [
        SourceMeasures(
            one, traffic.get(one.source, Traffic()), failures.get(one.source, Counter[str]())
        )
        for one in alarms
    ]


def _add(traffic: Traffic, outcome: str | None, sums: Sequence[Any]) -> None:
    count, requests, not_modified, downloaded, saved, seconds = map(int, sums)
    if outcome is not None:
        traffic.runs[outcome] += count
    traffic.requests += requests
    traffic.not_modified += not_modified
    traffic.downloaded += downloaded
    traffic.saved += saved
    traffic.seconds += seconds


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
