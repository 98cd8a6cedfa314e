"""Runs in the registry: opened, resumed, sealed, settled. One statement a step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import apsw

from smartcrawl.registry.clones import settle_run
from smartcrawl.registry.database import transaction
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.model import RunState, Word

_NEXT = "UPDATE sequence SET value = value + ? WHERE name = ? RETURNING value"
_SOURCE = (
    "INSERT INTO source (name, kind, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING"
)
_SOURCE_NO = "SELECT no FROM source WHERE name = ?"
_LAST_RUN = """
SELECT no, state, forced, started_at FROM run WHERE source = ? ORDER BY no DESC LIMIT 1
"""
_LAST_COMPLETE = "SELECT max(no) FROM run WHERE source = ? AND complete = 1"
_INTERRUPT = "UPDATE run SET state = ?, finished_at = ?, reasons = ? WHERE no = ? AND state < ?"
_OPEN = "INSERT INTO run (source, number, forced, started_at) VALUES (?, ?, ?, ?) RETURNING no"
_REOPEN = """
UPDATE run SET number = ?, state = 0, complete = 0, finished_at = NULL, reasons = '[]',
       forced = ?
 WHERE no = ?
"""
_FINGERPRINT = "INSERT INTO fingerprint (hash) VALUES (?) ON CONFLICT (hash) DO NOTHING"
_FINGERPRINT_NO = "SELECT no FROM fingerprint WHERE hash = ?"
_SEED = "INSERT INTO seed (run, no) VALUES (?, ?) ON CONFLICT DO NOTHING"
_SEEDS = """
SELECT r.no, r.url, r.error_message FROM seed d JOIN record r USING (no) WHERE d.run = ?
 ORDER BY r.no
"""
_ANSWER = """
SELECT s.http_status, s.seen_run, r.redirect_no FROM record r JOIN state s USING (no)
 WHERE r.no = ?
"""
_SEAL = """
UPDATE run SET state = ?, complete = ?, reasons = ?, finished_at = ? WHERE no = ? AND state = 0
"""
_SETTLED = "UPDATE run SET state = ?, counts = ? WHERE no = ? AND state = ?"
#: Every record of a source was reached by one of its runs, so reached_run names the source.
_ORPHANED = """
UPDATE state SET outcome = :word
 WHERE reached_run < :run AND standing > 0
   AND reached_run IN (SELECT no FROM run WHERE source = :source)
"""
#: Also what an interrupted run met first and nobody reached since: it has no word yet.
_SKIPPED = """
UPDATE state SET outcome = :word
 WHERE (reached_run = :run AND visited_run < :run)
    OR (outcome IS NULL AND reached_run IN (SELECT no FROM run WHERE source = :source))
"""
_COUNTS = """
SELECT CASE WHEN s.outcome IN (1, 2) AND r.duplicate_of IS NOT NULL THEN 4 ELSE s.outcome END,
       count(*)
  FROM record r JOIN state s USING (no) WHERE r.source = ? AND s.outcome IS NOT NULL GROUP BY 1
"""
_PENDING_COUNT = "SELECT count(*) FROM state WHERE reached_run = :run AND visited_run < :run"
_TALLY = "SELECT visits, unreachable FROM run WHERE no = ?"
_RESULT = """
SELECT complete, reasons, counts, started_at, finished_at, requests, conditional_requests,
       not_modified, bytes_downloaded, bytes_saved, visits FROM run WHERE no = ?
"""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run as it begins, or goes on."""

    no: int
    source: int  #: source.no
    number: int  #: claim number
    started_at: int
    forced: bool
    resumed: bool
    interrupted: int | None  #: run before this one that did not end by itself
    last_complete: int  #: run.no; 0 without one


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a finished run reports."""

    no: int
    complete: bool
    reasons: tuple[str, ...]
    counts: dict[str, int]  #: records by lastOutcome
    started_at: int
    finished_at: int | None
    requests: int
    conditional_requests: int
    not_modified: int
    bytes_downloaded: int
    bytes_saved: int
    visits: int


def draw(connection: apsw.Connection, name: str, count: int = 1) -> int:
    """Draw ``count`` numbers of a sequence and return the last."""
    return int(connection.execute(_NEXT, (count, name)).get)


def open_run(
    connection: apsw.Connection, *, source: str, kind: str, now: int, resume: bool, forced: bool
) -> OpenRun:
    """Open a run of ``source``, or go on with its last one. The caller holds the lease.

    A run that was not settled was left by a dead process. With ``resume`` it goes on, even
    where nothing but its end is missing. Without, one that was sealed is settled now, and one
    that is open is closed as interrupted, never complete. With ``resume`` and nothing to go on
    with a new run opens.
    """
    last: Any
    with transaction(connection):
        connection.execute(_SOURCE, (source, kind, now))
        source_no = int(connection.execute(_SOURCE_NO, (source,)).get)
        last = connection.execute(_LAST_RUN, (source_no,)).fetchone()
        if resume and last is not None and last[1] != RunState.SETTLED:
            number = draw(connection, "number")
            again = bool(last[2]) or forced
            connection.execute(_REOPEN, (number, again, last[0]))
            complete = int(connection.execute(_LAST_COMPLETE, (source_no,)).get or 0)
            return OpenRun(last[0], source_no, number, last[3], again, True, None, complete)
    if last is not None and last[1] == RunState.SEALED:
        settle(connection, last[0], source_no)
    with transaction(connection):
        interrupted = None
        if last is not None and last[1] in (RunState.OPEN, RunState.INTERRUPTED):
            interrupted = int(last[0])
            if last[1] == RunState.OPEN:
                interrupt(connection, interrupted, now, ["interrupted"])
        number = draw(connection, "number")
        complete = int(connection.execute(_LAST_COMPLETE, (source_no,)).get or 0)
        no = int(connection.execute(_OPEN, (source_no, number, forced, now)).get)
        return OpenRun(no, source_no, number, now, forced, False, interrupted, complete)


def interrupt(connection: apsw.Connection, run: int, now: int, reasons: list[str]) -> None:
    """Close a run that did not end by itself."""
    values = (RunState.INTERRUPTED, now, json.dumps(reasons), run, RunState.SETTLED)
    connection.execute(_INTERRUPT, values)


def fingerprint(connection: apsw.Connection, value: bytes) -> int:
    """Return the small integer that stands for a fingerprint."""
    with transaction(connection):
        connection.execute(_FINGERPRINT, (value,))
        return int(connection.execute(_FINGERPRINT_NO, (value,)).get)


def add_seeds(connection: apsw.Connection, run: int, numbers: list[int]) -> None:
    """Remember what the run was asked for, to judge it at the seal."""
    connection.executemany(_SEED, [(run, number) for number in numbers])


def failed_seeds(connection: apsw.Connection, run: int) -> tuple[str, ...]:
    """Return the seeds that did not end, through redirects, in 200 or 304 in scope, and why."""
    seeds: Any = connection.execute(_SEEDS, (run,)).fetchall()
    return tuple(
        f"{url} ({error})" if error else str(url)
        for no, url, error in seeds
        if not _answered(connection, run, no)
    )


def _answered(connection: apsw.Connection, run: int, no: int | None) -> bool:
    for _ in range(MAX_REDIRECTS + 1):
        if no is None:
            return False
        row: Any = connection.execute(_ANSWER, (no,)).fetchone()
        http_status, seen_run, redirect_no = row  # seen: reached, and robots.txt allowed it
        if seen_run != run or http_status not in {200, 304, *REDIRECTS}:
            return False
        if http_status not in REDIRECTS:
            return True
        no = redirect_no
    return False


def tally(connection: apsw.Connection, run: int) -> tuple[int, int, int]:
    """Return (visits, unreachable visits, pending addresses) of a run."""
    row: Any = connection.execute(_TALLY, (run,)).fetchone()
    return row[0], row[1], int(connection.execute(_PENDING_COUNT, {"run": run}).get)


def seal(connection: apsw.Connection, run: int, reasons: tuple[str, ...], now: int) -> bool:
    """Say once and for all whether the run saw everything; False when somebody did already."""
    with transaction(connection):
        values = (RunState.SEALED, not reasons, json.dumps(list(reasons)), now, run)
        connection.execute(_SEAL, values)
        return connection.changes() > 0


def settle(connection: apsw.Connection, run: int, source: int) -> None:
    """Give every record its word for this run, elect the originals of clones, count.

    Nothing is removed: what was not reached is called orphaned and stays.
    """
    with transaction(connection):
        names = {"run": run, "source": source, "word": Word.ORPHANED}
        connection.execute(_ORPHANED, names)
        connection.execute(_SKIPPED, names | {"word": Word.SKIPPED})
        settle_run(connection, run, source)
        counts = {Word(code).word: n for code, n in connection.execute(_COUNTS, (source,))}
        values = (RunState.SETTLED, json.dumps(counts), run, RunState.SEALED)
        connection.execute(_SETTLED, values)


def result(connection: apsw.Connection, run: int) -> RunResult:
    """Return the report of a run."""
    row: Any = connection.execute(_RESULT, (run,)).fetchone()
    return RunResult(run, bool(row[0]), tuple(json.loads(row[1])), json.loads(row[2]), *row[3:])
