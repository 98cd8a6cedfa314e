"""Records and complete runs, as far as the next run and the sweep depend on them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.forecast import Facts, forecast_finding
from smartcrawl.rules.model import RemovalRule, Standing, Status, Word

_ENTRIES = """
SELECT r.no, r.url, s.depth, s.status, s.standing, s.outcome, s.http_status, s.lost_count,
       s.gone_count, s.gone_since, s.seen_run, s.reached_run, s.visited_run,
       CASE WHEN r.etag IS NULL THEN 0 ELSE 1 END
       + CASE WHEN r.last_modified IS NULL THEN 0 ELSE 2 END, coalesce(r.configuration, 0),
       r.canonical_no, r.redirect_no, r.redirect_target, r.error_message,
       EXISTS (SELECT 1 FROM pin p WHERE p.no = r.no), s.next_visit, r.kind,
       r.snapshot IS NOT NULL, coalesce(i.requested OR i.generation > i.processed, FALSE),
       s.etag_marks
  FROM record r JOIN state s USING (no) LEFT JOIN item i USING (no)
 WHERE r.source = :source AND (:no IS NULL OR r.no = :no) ORDER BY r.no
"""
_COMPLETE = "SELECT no, finished_at FROM run WHERE source = ? AND complete ORDER BY no"
_CANDIDATE = "SELECT rule, run, renewed, probe, withheld, detail FROM candidate WHERE no = ?"
_SETTLED = "SELECT max(no) FROM run WHERE source = ? AND state IN (3, 4)"
_REASONS = "SELECT reasons FROM run WHERE no = ?"
_FINGERPRINT = "SELECT no FROM fingerprint WHERE hash = ?"


#: Words of pages that confirmed or renewed their content.
_ANSWERED = (Word.NEW, Word.MODIFIED, Word.UNCHANGED, Word.CLONE, Word.MOVED)


class ReportedRecord(NamedTuple):
    """The part of a record on which the next run and the sweep depend."""

    no: int
    url: str
    depth: int
    status: int
    standing: int
    word: int | None
    http_status: int | None
    lost_count: int
    gone_count: int
    gone_since: int | None
    seen_run: int
    reached_run: int
    visited_run: int
    validators: int  #: 1: an ETag, 2: a date, 3: both
    configuration: int  #: fingerprint.no of its extraction
    canonical_no: int | None
    redirect_no: int | None
    redirect_target: str | None
    message: str | None
    pinned: int
    next_visit: int | None
    kind: int  #: see Page.kind
    snapshot: int  #: whether the stored body has a snapshot
    ordered: int  #: whether an operator ordered it to be indexed anew
    etag_marks: int  #: see PageState.etag_marks

    @property
    def sound(self) -> bool:
        """Whether its content is stored, and its last visit confirmed or renewed it."""
        answered = self.word in _ANSWERED
        return self.standing == Standing.HELD and answered and not self.lost_count


@dataclass(frozen=True, slots=True)
class ReportedRuns:
    """The complete runs of a source."""

    runs: tuple[tuple[int, int], ...]  #: number, and when it was sealed

    @property
    def last(self) -> int:
        """Number of the latest run, 0 without one."""
        return self.runs[-1][0] if self.runs else 0

    def absence(self, seen_run: int) -> tuple[int, int | None]:
        """Return the number of runs after ``seen_run``, and when the first of them was sealed."""
        first = bisect_right(self.runs, seen_run, key=lambda run: run[0])
        return len(self.runs) - first, self.runs[first][1] if first < len(self.runs) else None


def reported_runs(connection: Connection, source: int) -> ReportedRuns:
    """Return the complete runs of a source."""
    rows: Any = connection.execute(_COMPLETE, (source,)).fetchall()
    return ReportedRuns(tuple(rows))


def reported_records(
    connection: Connection, source: int, number: int | None = None
) -> Iterator[ReportedRecord]:
    """Yield the records of a source, or only the one with this number."""
    row: Any
    for row in connection.execute(_ENTRIES, {"source": source, "no": number}):
        yield ReportedRecord(*row)


def reported_last_settled(connection: Connection, source: int) -> int | None:
    """Return the last run of a source that settled every record."""
    number: Any = connection.execute(_SETTLED, (source,)).get
    return None if number is None else int(number)


def reported_reasons(connection: Connection, run: int | None) -> tuple[str, ...]:
    """Return the reasons why a run was incomplete; none for no run."""
    reasons: Any = connection.execute(_REASONS, (run,)).get
    return tuple(json.loads(reasons or "[]"))


def reported_fingerprint(connection: Connection, value: bytes) -> int:
    """Return the number of a fingerprint, -1 if no run ever used it."""
    number: Any = connection.execute(_FINGERPRINT, (value,)).get
    return -1 if number is None else int(number)


def reported_facts(
    entry: ReportedRecord,
    runs: ReportedRuns,
    policy: Policy,
    *,
    reached: bool,
    aside: bool,
    is_listed: bool = False,
    is_answered: bool = True,
) -> Facts:
    """Return the facts on which a record's removal depends (rules.forecast)."""
    word = None if entry.word is None else Word(entry.word)
    status = Status(entry.status)
    found = forecast_finding(status, word, entry.http_status, policy, reached=reached, aside=aside)
    age, since = runs.absence(entry.seen_run)
    return Facts(
        Standing(entry.standing),
        found,
        entry.http_status,
        entry.lost_count,
        entry.gone_count,
        entry.gone_since,
        age,
        since,
        bool(entry.pinned),
        is_listed,
        is_answered,
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal in the registry to remove a page."""

    rule: RemovalRule
    run: int
    renewed: int
    probe: int | None
    withheld: bool
    detail: dict[str, Any]


def reported_proposal(connection: Connection, number: int) -> Proposal | None:
    """Return the proposal to remove a record."""
    row: Any = connection.execute(_CANDIDATE, (number,)).fetchone()
    if row is None:
        return None
    rule, run, renewed, probe, waits, detail = row
    return Proposal(RemovalRule(rule), run, renewed, probe, bool(waits), json.loads(detail))
