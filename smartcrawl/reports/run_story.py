"""One run as data: its counts while it is open, why it was not complete, and its lists of pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.commit.run_counts import stored_rate_marks
from smartcrawl.registry.commit.run_samples import failed_page_count, stored_run_samples
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import EVERY, lowest_stored_number_met
from smartcrawl.reports.remedies import NOTES, reported_reason
from smartcrawl.reports.removals import RULE_TEXTS
from smartcrawl.reports.text import report_time_span
from smartcrawl.rules.forecast import completion_at_rate, rate_of_marks
from smartcrawl.rules.model import RemovalRule, Word
from smartcrawl.rules.progress import END_WINDOW, RunEnd, Sample, estimated_run_end

_LIVE: Final = """
SELECT visits, queued, words, not_modified, conditional_requests, bytes_downloaded, hosts, marks,
       finished_at, started_at, requests
  FROM run WHERE no = ?
"""
_HOSTS: Final = """
SELECT h.name, n.delay_ms, n.in_flight, n.parked_until, n.paused_until, n.is_down, h.retry_after
  FROM host_now n JOIN host h ON h.no = n.host WHERE n.run = ? ORDER BY h.name LIMIT ?
"""
_BEFORE: Final = """
SELECT max(b.no) FROM run b JOIN run r ON r.source = b.source WHERE r.no = ? AND b.no < r.no
"""
_AFTER: Final = """
SELECT min(b.no) FROM run b JOIN run r ON r.source = b.source WHERE r.no = ? AND b.no > r.no
"""
_JOB: Final = "SELECT id FROM job_run WHERE run = ? ORDER BY no DESC LIMIT 1"
_SOURCE: Final = "SELECT source FROM run WHERE no = ?"
_SAMPLED: Final = "SELECT started_at, finished_at, sample_seconds FROM run WHERE no = ?"
MOST_HOSTS: Final = 100  #: hosts of an open run that are listed
_NEAR: Final = 1.25  #: times the earliest end up to which one time stands for both


def run_live_report(connection: Connection, run: int, now: int) -> dict[str, Any]:
    """Return the progress of a run as committed; ``now``: Unix seconds. A few rows are read."""
    row: Any = connection.execute(_LIVE, (run,)).fetchone()
    visits, queued, words, same, conditional, size, hosts, marks, finished, started, asked = row
    rate = rate_of_marks(stored_rate_marks(marks), now)
    is_open = finished is None
    listed: list[Any] = connection.execute(_HOSTS, (run, MOST_HOSTS)).fetchall() if is_open else []
    counts: Mapping[str, int] = json.loads(words)
    end = None
    if is_open:
        present = Sample(now, visits, queued, asked, same, failed_page_count(counts), size)
        recent = stored_run_samples(connection, run, now - END_WINDOW)
        end = estimated_run_end([*recent, present], now)
    return {
        "visited": visits,
        "waiting": queued if is_open else 0,
        "words": {word.word: counts[word.word] for word in Word if counts.get(word.word)},
        "share304": round(same / conditional, 4) if conditional else None,
        "bytesDownloaded": size,
        "hosts": hosts,
        "seconds": max(0, (finished or now) - started),
        "pagesPerSecond": round(rate.visits, 2) if is_open else None,
        "estimatedEnd": iso_time(completion_at_rate(queued, rate, now)) if is_open else None,
        "likelyEnd": None if end is None else iso_time(end.likely),
        "endText": run_end_text(end, queued, now) if is_open else None,
        "hostsNow": [_host(host) for host in listed],
    }


def run_end_text(end: RunEnd | None, queued: int, now: int) -> str:
    """Return when an open run may end, in words that say how much is known.

    ``queued``: pages that wait; ``now``: Unix seconds.

    >>> run_end_text(RunEnd(280, 520), 9, 100)
    'in 3 min if no further page is found, in about 7 min if as many are found as before'
    >>> run_end_text(RunEnd(280, None), 9, 100)
    'not before 3 min: pages are found as fast as they are done'
    """
    if not queued:
        return "soon: each page that is known is done"
    if end is None:
        return "not known: too few pages are done"
    least = report_time_span(end.earliest - now)
    if end.likely is None:
        return f"not before {least}: pages are found as fast as they are done"
    if end.likely - now <= _NEAR * (end.earliest - now):
        return f"in about {report_time_span(end.likely - now)}"
    return (
        f"in {least} if no further page is found, in about"
        f" {report_time_span(end.likely - now)} if as many are found as before"
    )


def run_samples_report(connection: Connection, run: int) -> dict[str, Any]:
    """Return the samples of the progress of a run, oldest first, and the seconds between two."""
    row: Any = connection.execute(_SAMPLED, (run,)).fetchone()
    started, finished, step = row
    return {
        "run": run,
        "startedAt": iso_time(started),
        "finishedAt": iso_time(finished),
        "everySeconds": step,
        "samples": [
            {
                "at": iso_time(one.at),
                "seconds": max(0, one.at - started),
                "visited": one.visits,
                "waiting": one.queued,
                "requests": one.requests,
                "notModified": one.not_modified,
                "failed": one.failed,
                "bytesDownloaded": one.size,
            }
            for one in stored_run_samples(connection, run)
        ],
    }


def _host(row: Any) -> dict[str, Any]:
    name, delay, in_flight, parked, paused, is_down, retry_after = row
    return {
        "host": name,
        "delayMs": delay,
        "inFlight": in_flight,
        "parkedUntil": iso_time(parked),
        "pausedUntil": iso_time(paused),
        "down": bool(is_down),
        "retryAfter": retry_after,
    }


def run_reason_texts(
    reasons: list[str], run: int, *, source: str = "NAME", is_library: bool = False
) -> list[dict[str, Any]]:
    """Return why a run was not complete, each reason with the setting or command that helps.

    >>> run_reason_texts(["max_pages"], 2)[0]["text"]
    'max_pages (raise or leave out max_pages to crawl everything)'
    """
    texts = [
        reported_reason(reason, run, source=source, is_library=is_library) for reason in reasons
    ]
    return [{"reason": reason, "text": text} for reason, text in zip(reasons, texts, strict=True)]


def run_note_texts(notes: list[str], program: str) -> list[dict[str, Any]]:
    """Return what a run left out or did not believe, each note with its meaning."""
    return [
        {"note": note, "text": NOTES.get(note.partition(":")[0], "").format(program=program)}
        for note in notes
    ]


def neighbour_runs(connection: Connection, run: int) -> tuple[int | None, int | None]:
    """Return the runs of the same source before and after a run."""
    before: Any = connection.execute(_BEFORE, (run,)).get
    after: Any = connection.execute(_AFTER, (run,)).get
    return before, after


def job_run_of_run(connection: Connection, run: int) -> str | None:
    """Return the id of the job's run under which the log of a run is; None: no job ran it."""
    found: Any = connection.execute(_JOB, (run,)).get
    return None if found is None else str(found)


class RunList(StrEnum):
    """A list of pages of a run."""

    NEW = "new"  #: stored for the first time in this run
    MODIFIED = "modified"
    LOST = "lost"
    FAILED = "failed"  #: at their last visit, in this run or before it
    REMOVED = "removed"


_PAGE: Final = (
    "SELECT r.no, r.url, {at}, {what} FROM {rows} ORDER BY {order} LIMIT :limit OFFSET :offset"
)
#: A page that an earlier run met in vain is new by an event, unless it was removed in between.
_NEW: Final = f"""
SELECT r.no, r.url, r.first_seen, NULL FROM record r JOIN state s ON s.no = r.no
 WHERE r.no >= :low AND r.no < :high AND r.first_run = :run AND +r.source = :source
   AND r.kind = 0 AND s.standing = 2
   AND NOT EXISTS (SELECT 1 FROM event e WHERE e.record = r.no AND e.run > :run
                      AND e.outcome = {int(Word.NEW)}
                      AND NOT EXISTS (SELECT 1 FROM evidence v
                                       WHERE v.record = r.no AND v.run < e.run))
UNION ALL
SELECT r.no, r.url, e.at, NULL FROM event e JOIN record r ON r.no = e.record
  JOIN state s ON s.no = r.no
 WHERE e.run = :run AND e.outcome = {int(Word.NEW)} AND r.first_run < :run
   AND r.kind = 0 AND s.standing = 2
 ORDER BY 1 LIMIT :limit OFFSET :offset
"""
_MODIFIED: Final = _PAGE.format(
    at="c.at",
    what="NULL",
    rows="change c JOIN record r ON r.no = c.record WHERE c.run = :run",
    order="c.no",
)
_LOST: Final = _PAGE.format(
    at="e.at",
    what="e.http_status",
    rows="event e JOIN record r ON r.no = e.record WHERE e.run = :run"
    f" AND e.outcome = {int(Word.LOST)}",
    order="e.no",
)
#: As ``failed`` of a run counts them, by the word that their last visit left.
_FAILED: Final = _PAGE.format(
    at="s.last_checked",
    what="coalesce(r.error_message, 'answered ' || s.http_status)",
    rows="state s JOIN record r ON r.no = s.no"
    f" WHERE s.outcome = {int(Word.FAILED)} AND s.visited_run <= :run AND +r.source = :source",
    order="s.no",
)
_REMOVED: Final = _PAGE.format(
    at="e.at",
    what="e.rule",
    rows="evidence e JOIN record r ON r.no = e.record WHERE e.run = :run",
    order="e.no",
)
_LISTS: Final = {
    RunList.NEW: _NEW,
    RunList.MODIFIED: _MODIFIED,
    RunList.LOST: _LOST,
    RunList.FAILED: _FAILED,
    RunList.REMOVED: _REMOVED,
}


def run_page_rows(
    connection: Connection, run: int, which: RunList, *, limit: int, offset: int
) -> list[dict[str, Any]]:
    """Return the pages of a list of a run, from ``offset`` on, in their order in the registry.

    Those that failed have no event of each visit: a run has them until a later one visits them.
    """
    values: dict[str, Any] = {"run": run, "limit": limit, "offset": offset}
    if which in (RunList.NEW, RunList.FAILED):
        source: Any = connection.execute(_SOURCE, (run,)).get
        values["source"] = source
    if which is RunList.NEW:
        _, after = neighbour_runs(connection, run)
        low = lowest_stored_number_met(connection, source, run)
        high = EVERY if after is None else lowest_stored_number_met(connection, source, after)
        values |= {"low": low, "high": high}
    rows: list[Any] = connection.execute(_LISTS[which], values).fetchall()
    return [
        {"no": no, "url": url, "at": iso_time(at), "why": _why(which, what)}
        for no, url, at, what in rows
    ]


def _why(which: RunList, what: int | str | None) -> str | None:
    if what is None or isinstance(what, str):
        return what
    if which is RunList.REMOVED:
        return RULE_TEXTS[RemovalRule(what)]
    return f"answered {what}"
