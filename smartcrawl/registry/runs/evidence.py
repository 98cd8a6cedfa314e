"""Evidence for the seal of a run: failed seeds, failed sitemaps, pending pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from smartcrawl.model.urls import is_same_url_place
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.runs.runs import OpenRun, Role
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.model import Fault

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
        AND http_status NOT IN ({int(Fault.LOGIN)}, {int(Fault.EXTRACTION_BUDGET)})
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
