"""Runs in the registry: opened, resumed, sealed by their evidence, settled, swept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, Self

from smartcrawl.model.exceptions import RunPausedError
from smartcrawl.model.urls import is_same_url_place
from smartcrawl.registry.commit import record
from smartcrawl.registry.commit.changes import settle_change_rows
from smartcrawl.registry.commit.collapsed import delete_source_collapsed_rows
from smartcrawl.registry.commit.run_counts import (
    begin_run_row_counts,
    count_run_row_again,
    count_run_row_words,
    delete_run_host_rows,
)
from smartcrawl.registry.commit.run_samples import (
    expire_run_sample_rows,
    take_run_sample_row_at_once,
)
from smartcrawl.registry.connection import Connection, draw_sequence_numbers, transaction
from smartcrawl.registry.index_protocols import Indexing, Sink
from smartcrawl.registry.numbers import insert_run_row
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.removal.candidates import (
    GOES,
    EndingRunRow,
    candidate_row_evidence,
    propose_absent_rows,
    steady_run_time,
    verified_orphan_rows,
)
from smartcrawl.registry.removal.settle import settle_record_rows
from smartcrawl.registry.removal.sweep import (
    BATCH,
    Candidate,
    RecordRemover,
    RemovedRecordRow,
    expire_undo_rows,
)
from smartcrawl.registry.removal.tombstones import delete_expired_tombstone_rows
from smartcrawl.registry.rendered import delete_unused_data_rows
from smartcrawl.registry.runs.run_hosts import claim_host_rows
from smartcrawl.registry.runs.run_orders import (
    lock_run_row,
    run_order_row,
    store_job_process_row,
    withdraw_run_order_row,
)
from smartcrawl.registry.source_due import note_fresh_source_row
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.model import RESUMABLE, Fault, RemovalRule, RunOrder, RunState, Word
from smartcrawl.rules.run_orders import (
    INTERRUPTED,
    Beginning,
    beginning_after_order,
    state_after_order,
)
from smartcrawl.rules.visibility import Visibility

_SEEDS = """
SELECT r.no, r.url FROM seed d JOIN record r USING (no)
 WHERE d.run = ? AND d.pinned = ? ORDER BY r.no
"""
_WHY = """
SELECT CASE WHEN s.outcome <> 10 THEN s.http_status END, s.visited_run, r.error_message,
       r.redirect_target, r.redirect_no
  FROM record r JOIN state s USING (no) WHERE r.no = ?
"""
#: In a CROSS JOIN, SQLite reads state first, which is narrow, and a record only where it counts.
_SITEMAPS = """
SELECT r.no, r.url, CASE WHEN s.outcome <> 10 THEN s.http_status END,
       coalesce(r.error_message, 'redirected to ' || r.redirect_target), s.outcome = 5,
       r.redirect_no, s.standing = 1, s.gone_count
  FROM state s CROSS JOIN record r
 WHERE r.no = s.no AND (s.standing = 0 OR s.no IN carray(:given)
                        OR (s.standing = 1 AND s.outcome IN (5, 7, 8, 9)))
   AND r.source = :source AND (r.kind = 0 OR s.standing <> 1 OR s.outcome IN (5, 7, 8, 9))
   AND (s.visited_run = :run OR (s.reached_run = :run AND :due))
   AND ((r.kind > 0 AND (s.standing = 0 OR (s.standing = 1 AND (r.signs & 4) <> 0)))
        OR r.no IN carray(:given))
 ORDER BY r.no
"""
_SITEMAP_END = """
SELECT r.kind > 0 AND s.standing = 1, s.visited_run, s.http_status, s.outcome = 5, r.redirect_no
  FROM record r JOIN state s USING (no) WHERE r.no = ?
"""
_ANSWER = """
SELECT s.http_status, s.seen_run, r.redirect_no, s.visited_run
  FROM record r JOIN state s USING (no) WHERE r.no = ?
"""
_MISSING = """
SELECT s.http_status, s.seen_run = :run, s.visited_run = :run AND s.outcome = 10,
       s.standing = 0, r.redirect_target
  FROM record r JOIN state s USING (no) WHERE r.no = :no
"""
_TARGETS = """
SELECT r.redirect_no FROM state s JOIN record r USING (no)
 WHERE s.reached_run = :run AND s.outcome = 5
"""
_MISSED = """
SELECT r.url, s.standing > 0, r.redirect_no FROM state s JOIN record r USING (no)
 WHERE no IN carray(:numbers) AND s.reached_run < :run
"""
_PENDING_COUNT = "SELECT count(*) FROM state WHERE reached_run = :run AND visited_run < :run"
#: See rules.seal.counts_as_unanswered.
_SILENT = f"""
SELECT count(*) FROM state
 WHERE reached_run = :run AND visited_run < :run AND visited_run > :since
   AND error_count > 0
   AND (http_status = 429 OR (http_status >= 500 AND http_status <> {int(Fault.TOO_MANY_REDIRECTS)}
        AND http_status NOT IN ({int(Fault.LOGIN)}, {int(Fault.EXTRACTION_BUDGET)},
                                {int(Fault.NO_BROWSER)})
        AND http_status NOT BETWEEN {int(Fault.NOT_A_SITEMAP)} AND {int(Fault.OUT_OF_MEMORY)}))
"""
_TALLY = "SELECT visits, unreachable FROM run WHERE no = ?"


_NO_OPTIONAL: Final[Mapping[str, str]] = MappingProxyType({})


def failed_seed_rows(
    connection: Connection,
    run: int,
    max_redirects: int = MAX_REDIRECTS,
    optional: Mapping[str, str] = _NO_OPTIONAL,
) -> tuple[str, ...]:
    """Return the failed seeds, each with the reason, which is that of the last redirect's target.

    A seed must end in 200 or 304 in scope, after redirects. ``optional``: seeds that need not
    exist (Source.optional_seeds).
    """
    hops = max(max_redirects, MAX_REDIRECTS)
    seeds: Any = connection.execute(_SEEDS, (run, Role.SEED)).fetchall()
    return tuple(
        f"{url}{_reason_of_failure(connection, run, no, hops)}"
        for no, url in seeds
        if not (
            _answered(connection, run, no, hops)
            or (url in optional and _is_missing(connection, run, no, optional[url]))
        )
    )


def failed_pin_rows(connection: Connection, run: int) -> tuple[str, ...]:
    """Return the pinned addresses of which their hosts said nothing, each with the reason.

    Any answer of the host is enough. An address that robots.txt forbids has none.
    """
    pins: Any = connection.execute(_SEEDS, (run, Role.PIN)).fetchall()
    return tuple(
        f"{url}{_reason_of_failure(connection, run, no, MAX_REDIRECTS)}"
        for no, url in pins
        if not _host_answered(connection, run, no)
    )


def _reason_of_failure(connection: Connection, run: int, no: int, hops: int) -> str:
    """Return why a page failed in brackets, with a space before; "" if nothing is known.

    A redirect is named with the reason of the page at its end, if that failed in this run.
    """
    first: str | None = None  # target of the page itself
    page: int | None = no
    for hop in range(hops + 1):
        row: Any = connection.execute(_WHY, (page,)).fetchone()
        status, visited, error, target, page = row
        if hop and visited != run:
            break
        if error is not None:
            way = f"redirected to {first}: " if hop else ""
            return f" ({way}{_error_with_fault(status, error)})"
        first = target if hop == 0 else first
        if first is None or page is None:
            break
    return f" (redirected to {first})" if first else ""


def _error_with_fault(status: int | None, error: str) -> str:
    """Return an error message, with its number if it is a fault (extended status)."""
    is_fault = status is not None and status >= Fault.BAD_RESPONSE
    return f"{status}: {error}" if is_fault else error


def failed_sitemap_rows(
    connection: Connection,
    run: OpenRun,
    given: Collection[int],
    max_redirects: int = MAX_REDIRECTS,
    lost_threshold: int = 3,
) -> tuple[str, ...]:
    """Return the failed sitemaps, each with the reason.

    A failed sitemap brought no addresses. One that the operator has ``given`` must bring addresses.
    So must one that brought some in an earlier run (BROUGHT), until ``lost_threshold`` runs found
    it gone. For another one that a robots.txt or a sitemap names, any clear answer is enough, even
    a 404. Rules of robots.txt that forbid a stored sitemap are no failure.
    """
    names = {
        "source": run.source,
        "run": run.no,
        "due": bool(run.due),
        "given": numbers_for_sql(given),
    }
    failed = []
    row: Any
    for row in connection.execute(_SITEMAPS, names).fetchall():
        no, url, status, error, moved, redirect_no, is_stored, gone = row
        held = False
        if moved:
            hops = max(max_redirects, MAX_REDIRECTS)
            held, status = _sitemap_end(connection, run.no, redirect_no, hops)
        is_owed = gone < lost_threshold if is_stored else _says_nothing(status)
        if not held and (no in given or is_owed):
            failed.append(f"{url} ({error or 'it is a page'})")
    return tuple(failed)


def _sitemap_end(
    connection: Connection, run: int, no: int | None, hops: int
) -> tuple[bool, int | None]:
    """Return whether the target of a redirected sitemap is stored, and the target's status.

    A redirect out of scope, in a circle or over too many hops counts as a redirect loop.
    """
    for _ in range(hops + 1):
        if no is None:
            break
        held, visited, status, moved, no = connection.execute(_SITEMAP_END, (no,)).fetchone()
        if visited != run:
            break
        if not moved:
            return bool(held), status
    return False, int(Fault.REDIRECT_LOOP)


def _says_nothing(status: int | None) -> bool:
    """Whether an (extended) status leaves open if the sitemap exists."""
    if status is None or status == Fault.NOT_A_SITEMAP:
        return False
    return status == 429 or status >= 500


def _host_answered(connection: Connection, run: int, no: int) -> bool:
    row: Any = connection.execute(_ANSWER, (no,)).fetchone()
    asked = run in (row[1], row[3])  # or skipped: its last answer counts
    return bool(asked and row[0] is not None and row[0] < Fault.BAD_RESPONSE)


def _is_missing(connection: Connection, run: int, no: int, front: str) -> bool:
    """Whether the answer of a seed says that there is none.

    So does a 404, a 410, or a redirect to ``front``. Rules of robots.txt that forbid a seed are no
    failure as long as nothing is stored under it.
    """
    row: Any = connection.execute(_MISSING, {"run": run, "no": no}).fetchone()
    http_status, seen, excluded, is_bare, target = row
    if excluded:
        return bool(is_bare)
    if not seen:
        return False
    leads_away = http_status in REDIRECTS and target is not None
    return http_status in (404, 410) or (leads_away and is_same_url_place(target, front))


def _answered(connection: Connection, run: int, no: int | None, hops: int) -> bool:
    for _ in range(hops + 1):
        if no is None:
            return False
        row: Any = connection.execute(_ANSWER, (no,)).fetchone()
        http_status, seen_run, redirect_no, _ = row  # seen: reached, and robots.txt allowed it
        if seen_run != run or http_status not in {200, 304, *REDIRECTS}:
            return False
        if http_status not in REDIRECTS:
            return True
        no = redirect_no
    return False


def kept_back_rows(connection: Connection, run: int) -> list[str]:
    """Return the stored pages that a run missed because it followed no redirect to them.

    They are the targets of redirects, also by way of further stored redirects.
    """
    rows: Any = connection.execute(_TARGETS, {"run": run}).fetchall()
    found: list[str] = []
    seen: set[int] = set()
    while numbers := {no for (no,) in rows if no is not None} - seen:
        seen |= numbers
        values = {"run": run, "numbers": numbers_for_sql(numbers)}
        behind: list[Any] = connection.execute(_MISSED, values).fetchall()
        found += [url for url, is_stored, _ in behind if is_stored]
        rows = [(target,) for _, is_stored, target in behind if not is_stored]
    return sorted(found)


def count_run_rows(connection: Connection, run: int) -> tuple[int, int, int]:
    """Return (visits, unreachable visits, pending addresses) of a run."""
    row: Any = connection.execute(_TALLY, (run,)).fetchone()
    return row[0], row[1], int(connection.execute(_PENDING_COUNT, {"run": run}).get)


def count_silent_rows(connection: Connection, run: int, since: int) -> int:
    """Return how many skipped pages had failed in a visit after run ``since``."""
    return int(connection.execute(_SILENT, {"run": run, "since": since}).get)


#: Writes the notices of a run (run.no) that has ended, in the transaction that ends it.
Notify = Callable[[Connection, int, int], None]
_LAST = """
SELECT no, state, forced, started_at, cut, due, job, requested, requested_at FROM run
 WHERE source = ? AND (job = ? OR ? IS NULL) ORDER BY no DESC LIMIT 1
"""
_RUN_OF_JOB: Final = "SELECT run FROM job_run WHERE id = ?"


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a source, before another process begins."""

    no: int
    state: RunState
    forced: bool
    started_at: int
    cut: str
    due: bool
    job: str | None
    order: RunOrder | None
    ordered_at: int | None  #: Unix seconds

    @classmethod
    def of(cls, connection: Connection, source: int, job: str | None = None) -> Self | None:
        """Read the last run of a source (source.no), or the last one of a job; None without one."""
        row: Any = connection.execute(_LAST, (source, job, job)).fetchone()
        if row is None:
            return None
        no, state, forced, started_at, cut, due, named, order, at = row
        return cls(
            no,
            RunState(state),
            bool(forced),
            started_at,
            cut,
            bool(due),
            named,
            None if order is None else RunOrder(order),
            at,
        )

    def beginning(
        self, connection: Connection, request: RunRequest, *, at_work: bool
    ) -> Beginning | None:
        """Return the beginning that this run leaves to a process; None: it may open or resume one.

        ``at_work``: whether other workers have not left it yet.

        Raises:
            RunPausedError: it is paused, and the request neither resumes it nor has its job.
        """
        if not at_work and self._is_swept_for_job(connection, request):
            return Beginning.OVER
        same = request.job is not None and self.job == request.job
        found = beginning_after_order(
            self.order, self.state, resume=request.resume, same_job=same, at_work=at_work
        )
        if found is Beginning.REFUSED:
            at = datetime.fromtimestamp(self.ordered_at or 0, UTC)
            raise RunPausedError(request.source, self.no, at.isoformat(timespec="seconds"))
        return found

    def _is_swept_for_job(self, connection: Connection, request: RunRequest) -> bool:
        """Whether a process is to go on with a job's run that needed no more than its sweep.

        The caller has swept it: there is no work left, and no page is asked again.
        """
        if not request.resume or request.job_run is None or self.state is not RunState.SWEPT:
            return False
        run: int | None = connection.execute(_RUN_OF_JOB, (request.job_run,)).get
        return run == self.no


#: Of several workers that open a source, the first whose seed answers decides about it.
_SOURCE = """
INSERT INTO source (name, kind, created_at, declared, root, scope, start, chosen, visibility)
VALUES (:name, :kind, :now, :declared, :root, :scope, :start, :chosen,
        coalesce(CAST(:visibility AS text), 'public'))
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, root = excluded.root,
  visibility = coalesce(CAST(:visibility AS text), source.visibility),
  scope = CASE WHEN :decides AND source.start IS DISTINCT FROM CAST(:before AS text)
               THEN source.scope ELSE excluded.scope END,
  start = CASE WHEN :decides AND source.start IS DISTINCT FROM CAST(:before AS text)
               THEN source.start ELSE excluded.start END,
  chosen = CASE WHEN :decides AND source.start IS DISTINCT FROM CAST(:before AS text)
                THEN source.chosen ELSE excluded.chosen END
"""
_DECLARED = "SELECT name FROM source WHERE declared ORDER BY name"
_SOURCE_NO = "SELECT no FROM source WHERE name = ?"
_LAST_OF = """
SELECT r.no, r.source, r.state FROM run r JOIN source o ON o.no = r.source
 WHERE o.name = ? ORDER BY r.no DESC LIMIT 1
"""
_IS_THERE = "SELECT 1 FROM run WHERE no = ? AND source = ? AND started_at = ?"
_IS_COMPLETE = "SELECT complete FROM run WHERE no = ?"
_LAST_COMPLETE = "SELECT max(no) FROM run WHERE source = ? AND complete"
_INTERRUPT = """
UPDATE run SET state = ?, complete = FALSE, finished_at = ?, reasons = ?
 WHERE no = ? AND state < ?
"""
_REOPEN = """
UPDATE run SET number = ?, state = 0, complete = FALSE, finished_at = NULL, reasons = '[]',
       forced = ?
 WHERE no = ? AND requested IS NULL AND state IN (0, 1, 9)
"""
#: A resumed run renews and verifies the candidates again that it still does not reach.
_LOOK_AGAIN = "UPDATE candidate SET renewed = renewed - 1, probe = NULL WHERE renewed = ?"
_FINGERPRINT = """
INSERT INTO fingerprint (hash, extraction) VALUES (?, ?)
ON CONFLICT (hash) DO UPDATE SET extraction = excluded.extraction
 WHERE fingerprint.extraction IS DISTINCT FROM excluded.extraction
"""
_FINGERPRINT_NO = "SELECT no FROM fingerprint WHERE hash = ?"
_SEED = """
INSERT INTO seed (run, no, pinned) VALUES (?, ?, ?)
ON CONFLICT (run, no) DO UPDATE SET pinned = min(seed.pinned, excluded.pinned)
"""
_SEAL = """
UPDATE run SET state = ?, complete = ?, reasons = ?, finished_at = ?
 WHERE no = ? AND state < 2 AND requested IS NULL
"""
_NO_HOSTS_NOW = "DELETE FROM host_now WHERE run = ?"
_VERIFYING = "UPDATE run SET state = ? WHERE no = ? AND state = ? AND requested IS NULL"
_SETTLED = "UPDATE run SET state = ? WHERE no = ? AND state = ?"
_SWEPT = "UPDATE run SET state = ?, counts = ?, held = ? WHERE no = ? AND state = ?"
#: The first statement of each step of a sweep: concurrent sweeps wait for each other.
_SWEEPING = "UPDATE run SET removed = removed WHERE no = ? AND state = ?"
_REMOVED = "UPDATE run SET removed = removed + ? WHERE no = ?"
_CANDIDATES = f"""
SELECT no, rule, detail, probe FROM candidate
 WHERE source = :source AND renewed = :run AND NOT withheld AND {GOES}
 ORDER BY no LIMIT :most
"""
#: One scan of the narrow table; _CLONES counts the clones among the new and modified.
_COUNTS = """
SELECT outcome, count(*), count(*) FILTER (WHERE standing = 2) FROM state
 WHERE outcome IS NOT NULL AND reached_run IN (SELECT no FROM run WHERE source = ?) GROUP BY 1
"""
_CLONES = """
SELECT s.outcome, count(*) FROM record r JOIN state s USING (no)
 WHERE r.duplicate_of IS NOT NULL AND +r.source = ? AND s.outcome IN (1, 2) GROUP BY 1
"""


class Role(IntEnum):
    """The role of an address that a run started from. The numbers are stored; never renumber."""

    SEED = 0
    PIN = 1  #: registered by hand
    SITEMAP = 2  #: given by the operator


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The part of its host that a source has, as the registry stores it (ADR 144)."""

    scope: str | None = "host"  #: None: its first answer decides
    start: str | None = None  #: the page or folder that it is of; None: not known yet
    chosen: str = "{}"  #: JSON: what was chosen when it was crawled, by key
    decides: bool = False  #: whether the first answer of the seed decides
    before: str | None = None  #: of one that decides: the stored start, which is out of date


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The run that a process asks for."""

    source: str  #: source.name
    kind: str  #: kind of the source
    root: str | None = None  #: URL that is listed, of a source that is not declared
    resume: bool = False  #: resume the last run if it was interrupted
    forced: bool = False  #: download and extract every page anew
    declared: bool = False  #: sources.toml names the source
    due: bool = False  #: request only the pages that are due
    job: str | None = None  #: workers with the same job work on the same run
    job_run: str | None = None  #: job_run.id, if a job of the HTTP API asks for it
    #: digests of scope and rules, which workers that join must have, too (run_rules)
    rules: Mapping[str, str] = field(default_factory=dict)
    part: SourcePart = SourcePart()
    visibility: Visibility | None = None  #: which its table declares; None: the stored one stays
    hosts: frozenset[str] = frozenset()  #: that the run may ask (rules.side_by_side)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that a process has opened, resumed or joined."""

    no: int
    source: int  #: source.no
    number: int  #: claim number
    started_at: int
    forced: bool
    resumed: bool
    interrupted: int | None  #: run.no of an unfinished run before this one
    last_complete: int  #: run.no; 0 without one
    cut: str = "{}"  #: JSON: why it did not see everything so far (shortcomings.Shortcomings)
    due: bool = False  #: it requests only pages that are due
    shared: bool = False  #: other workers may work on it, too
    joined: bool = False  #: other workers opened it
    over: bool = False  #: it had ended already; there is no work to do
    order: RunOrder | None = None  #: the order that ended it, if it is over


def last_run_row(connection: Connection, source: str) -> tuple[int, int, RunState] | None:
    """Return (run.no, source.no, state) of the last run of a source, or None."""
    row: Any = connection.execute(_LAST_OF, (source,)).fetchone()
    return None if row is None else (row[0], row[1], RunState(row[2]))


def no_source_held(source: str) -> bool:
    """Return False: no other process crawls anything."""
    return False


def open_run_row(
    connection: Connection,
    request: RunRequest,
    now: int,
    *,
    is_held: Callable[[str], bool] = no_source_held,
    notify: Notify | None = None,
) -> OpenRun:
    """Open a run, or resume the last one of its source. The caller holds the lease.

    An unsealed last run belongs to a dead process. With ``resume`` it goes on, even if only its
    end is missing; without, it is closed as interrupted, never complete. A sealed run is over: the
    caller has settled and swept it. With ``resume`` and no run to resume, a new run opens; only a
    job whose run was swept has no work left (``LastRun.beginning``). A run that an order
    ended is not gone on with unasked (rules.run_orders). ``is_held``: whether a process has the
    lease of a source. ``notify``: writes the notices of a run whose process died.

    Raises:
        RunPausedError: the last run is paused, and ``resume`` is not set.
        HostsBusyError: another process crawls a source that shares a host with this one.
    """
    with transaction(connection):
        source = register_source_row(connection, request, now)
        last = LastRun.of(connection, source)
        found = None if last is None else last.beginning(connection, request, at_work=False)
        if last is not None and found is Beginning.OVER:
            return over_run_row(connection, source, last, now)
        opened = open_run_row_within(
            connection, request, source, now, is_held=is_held, notify=notify
        )
        store_job_process_row(connection, request.job_run, opened.no, now)
        return opened


def over_run_row(
    connection: Connection, source: int, last: LastRun, now: int, *, at_work: bool = False
) -> OpenRun:
    """Return a run for a process that has no work: an order ended it, or it was swept already.

    If its processes died before they carried out the order, it is carried out now. ``at_work``:
    whether other workers have not left it yet.
    """
    if not at_work:
        interrupt_run_row(connection, last.no, now, [INTERRUPTED])
    return joined_run_row(connection, source, last, over=True)


def joined_run_row(
    connection: Connection, source: int, last: LastRun, *, over: bool = False
) -> OpenRun:
    """Return a run that other processes opened, for one more."""
    return OpenRun(
        last.no,
        source,
        draw_sequence_numbers(connection, "number"),
        last.started_at,
        last.forced,
        resumed=True,
        interrupted=None,
        last_complete=last_complete_row(connection, source),
        cut=last.cut,
        due=last.due,
        joined=True,
        over=over,
        order=last.order if over else None,
    )


def register_source_row(connection: Connection, request: RunRequest, now: int) -> int:
    """Return the number of a source (source.no), registering the source if it is new."""
    part = request.part
    row = {
        "name": request.source,
        "kind": request.kind,
        "now": now,
        "declared": request.declared,
        "root": request.root,
        "scope": part.scope,
        "start": part.start,
        "chosen": part.chosen,
        "decides": part.decides,
        "before": part.before,
        "visibility": request.visibility,
    }
    connection.execute(_SOURCE, row)
    return int(connection.execute(_SOURCE_NO, (request.source,)).get)


def open_run_row_within(
    connection: Connection,
    request: RunRequest,
    source: int,
    now: int,
    *,
    is_held: Callable[[str], bool] = no_source_held,
    notify: Notify | None = None,
) -> OpenRun:
    """Open a run as ``open_run_row`` does; ``source`` is source.no; the caller's transaction."""
    forced = request.forced
    last = LastRun.of(connection, source)
    if request.resume and last is not None and last.state in RESUMABLE:
        withdraw_run_order_row(connection, last.no)
        number = draw_sequence_numbers(connection, "number")
        claim_host_rows(connection, request.source, source, request.hosts, is_held)
        again = last.forced or forced
        connection.execute(_REOPEN, (number, again, last.no))
        if connection.changes():  # it is not cancelled
            connection.execute(_LOOK_AGAIN, (last.no,))
            count_run_row_again(connection, last.no, now)
            complete = last_complete_row(connection, source)
            given = (last.cut, last.due)
            return OpenRun(
                last.no, source, number, last.started_at, again, True, None, complete, *given
            )
    interrupted = None
    if last is not None and last.state in RESUMABLE:
        last.beginning(connection, request, at_work=False)
        interrupted = last.no
        if last.state != RunState.INTERRUPTED:
            interrupt_run_row(connection, interrupted, now, [INTERRUPTED])
            if notify is not None:  # its process could not
                notify(connection, interrupted, now)
    if last is not None:
        delete_run_host_rows(connection, last.no)  # only the last run can be resumed
    delete_source_collapsed_rows(connection, source)
    number = draw_sequence_numbers(connection, "number")
    claim_host_rows(connection, request.source, source, request.hosts, is_held)
    complete = last_complete_row(connection, source)
    row = (source, number, forced, now, request.due, request.job)
    no = insert_run_row(connection, row)
    begin_run_row_counts(connection, no, now)
    return OpenRun(no, source, number, now, forced, False, interrupted, complete, due=request.due)


def last_complete_row(connection: Connection, source: int) -> int:
    """Return the last complete run of a source (run.no), or 0."""
    return int(connection.execute(_LAST_COMPLETE, (source,)).get or 0)


def declared_source_rows(connection: Connection) -> list[str]:
    """Return the sources that sources.toml declared at their last crawl."""
    return [str(name) for (name,) in connection.execute(_DECLARED)]


def is_run_row_there(connection: Connection, run: OpenRun) -> bool:
    """Whether the registry has this run, and not another one of its number."""
    row = (run.no, run.source, run.started_at)
    return connection.execute(_IS_THERE, row).get is not None


def interrupt_run_row(
    connection: Connection, run: int, now: int, reasons: list[str], *, is_alive: bool = False
) -> bool:
    """Close a run that did not end normally, as its order says; the caller's transaction.

    ``is_alive``: whether its process closes it, so that its counts are those of now. False: it was
    sealed or closed before.
    """
    lock_run_row(connection, run)
    state, ends = state_after_order(run_order_row(connection, run), tuple(reasons))
    values = (state, now, json.dumps(list(ends)), run, RunState.SEALED)
    connection.execute(_INTERRUPT, values)
    is_closed = connection.changes() > 0
    if is_alive and is_closed:
        take_run_sample_row_at_once(connection, run, now)
    connection.execute(_NO_HOSTS_NOW, (run,))
    return is_closed


def fingerprint_row_number(
    connection: Connection, value: bytes, extraction: int | None = None
) -> int:
    """Return the number of a fingerprint (fingerprint.no), a small integer.

    ``extraction``: EXTRACTION_VERSION, if it is the fingerprint of an extraction configuration.
    """
    with transaction(connection):
        connection.execute(_FINGERPRINT, (value, extraction))
        return int(connection.execute(_FINGERPRINT_NO, (value,)).get)


def add_seed_rows(
    connection: Connection, run: int, given: Iterable[int], role: Role = Role.SEED
) -> None:
    """Record the addresses that a run starts from; they are checked before it is sealed."""
    connection.executemany(_SEED, [(run, number, role) for number in given])


def seal_run_row(connection: Connection, run: int, reasons: tuple[str, ...], now: int) -> bool:
    """Seal a run: complete without ``reasons``.

    False if another process has sealed it, or an order came before (``is_run_row_before_seal``).
    """
    with transaction(connection):
        values = (RunState.SEALED, not reasons, json.dumps(list(reasons)), now, run)
        connection.execute(_SEAL, values)
        sealed = connection.changes() > 0
        if sealed:
            take_run_sample_row_at_once(connection, run, now)
        connection.execute(_NO_HOSTS_NOW, (run,))
        delete_run_host_rows(connection, run)
        return sealed


def propose_unreached_rows(connection: Connection, ending: EndingRunRow) -> bool:
    """Propose the pages that a run did not reach; each is verified before it is removed.

    False if the run has an order: none is proposed.
    """
    with transaction(connection):
        connection.execute(_VERIFYING, (RunState.VERIFYING, ending.run, RunState.OPEN))
        if run_order_row(connection, ending.run) is not None:
            return False
        propose_absent_rows(connection, ending)
        return True


def settle_sealed_row(connection: Connection, ending: EndingRunRow, indexing: Indexing) -> None:
    """Settle a sealed run; only the first of several processes does it."""

    def work(sink: Sink, _: int) -> None:
        connection.execute(_SETTLED, (RunState.SETTLED, ending.run, RunState.SEALED))
        if connection.changes():
            complete = bool(connection.execute(_IS_COMPLETE, (ending.run,)).get)
            settle_record_rows(connection, ending, sink, complete=complete)
            count_run_row_words(connection, ending.run)
            settle_change_rows(connection, ending.run)

    indexing.perform(connection, work, now=ending.now)


def sweep_candidate_rows(
    connection: Connection,
    indexing: Indexing,
    ending: EndingRunRow,
    removed: Callable[[list[RemovedRecordRow]], None],
    notify: Notify | None = None,
) -> None:
    """Remove the candidates of a settled run that are not withheld, in batches; then count.

    ``notify``: writes the notices of the run, in its last transaction.

    A sweep is resumable between any two batches, and idempotent when several processes run it.
    """
    run, source, now = ending.run, ending.source, ending.now
    away = verified_orphan_rows(connection, run, source, ending.closing.policy)
    names = ending.names | {"most": BATCH, "looked_away": numbers_for_sql(away)}

    def is_ours() -> bool:
        connection.execute(_SWEEPING, (run, RunState.SETTLED))
        return connection.changes() > 0

    def work(sink: Sink, number: int) -> tuple[list[RemovedRecordRow], bool]:
        if not is_ours():
            return [], False
        rows: list[Any] = connection.execute(_CANDIDATES, names).fetchall()
        remover = RecordRemover(connection, sink, source=source, run=run, number=number)
        candidates = [
            Candidate(row[0], RemovalRule(row[1]), candidate_row_evidence(*row[2:])) for row in rows
        ]
        gone = remover.remove(candidates, now)
        moved = {one.no for one in candidates if one.rule is RemovalRule.MOVED}
        count = sum(page.stood and page.no not in moved for page in gone)
        connection.execute(_REMOVED, (count, run))
        return gone, len(rows) == BATCH

    more = True
    while more:
        gone, more = indexing.perform(connection, work, now=now)
        removed(gone)
    with transaction(connection):
        if not is_ours():
            return
        steady = steady_run_time(connection, ending)
        expire_undo_rows(connection, source, steady - ending.closing.undo_ttl)
        if ending.closing.gone_ttl:
            record.purge_unreadable_rows(connection, steady - ending.closing.gone_ttl)
            expire_run_sample_rows(connection, source, steady - ending.closing.gone_ttl)
        if connection.execute(_IS_COMPLETE, (run,)).get:
            delete_expired_tombstone_rows(connection, replace(ending, now=steady))
            delete_unused_data_rows(connection, ending.source)
        delete_source_collapsed_rows(connection, source)
        found, held = _count(connection, source)
        counts = {word.word: n for word, n in found.items()}
        values = (RunState.SWEPT, json.dumps(counts), held, run, RunState.SETTLED)
        connection.execute(_SWEPT, values)
        if (configuration := ending.closing.configuration) is not None:
            note_fresh_source_row(connection, source, run, now, configuration)
        if notify is not None:
            notify(connection, run, now)


def _count(connection: Connection, source: int) -> tuple[dict[Word, int], int]:
    """Return the number of records of a source by word, and of its stored pages.

    Each record counts once.
    """
    found: Any = connection.execute(_COUNTS, (source,)).fetchall()
    counts = Counter({Word(code): n for code, n, _ in found})
    clones: Any = connection.execute(_CLONES, (source,)).fetchall()
    for code, n in clones:
        counts[Word(code)] -= n
        counts[Word.CLONE] += n
    held = sum(held for *_, held in found)
    return {word: n for word, n in sorted(counts.items()) if n}, held
