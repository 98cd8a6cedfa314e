"""The parts of a record's story, each from its own table (``smartcrawl why``)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import (
    Trackers,
    normalize_url,
    url_digest,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_links, unpack_stored_numbers
from smartcrawl.registry.pending_pins import pending_pins_of
from smartcrawl.registry.spellings import stored_spelling_story
from smartcrawl.reports.tables import record_table_report_row
from smartcrawl.rules.model import Fault, RemovalRule, Standing, Status, Word
from smartcrawl.sources.scope import Scope

SHOWN: Final = 20  #: links and clones that are listed

_FOUND = """
SELECT r.first_run, r.first_seen, f.url
  FROM record r LEFT JOIN record f ON f.no = r.discovered_from WHERE r.no = ?
"""
_EVENTS = """
SELECT run, at, status, standing, outcome, http_status, detail FROM event WHERE record = ?
 ORDER BY no
"""
_EVIDENCE = """
SELECT run, at, rule, detail, undone, restore IS NOT NULL FROM evidence WHERE record = ? ORDER BY no
"""
_TARGETS = """
SELECT l.no, l.scope, l.count, l.targets FROM links l JOIN record r USING (no) WHERE r.source = ?
"""
_RAW = "SELECT raw FROM links WHERE no = ?"
_LEADS = "SELECT no FROM record WHERE source = ? AND (redirect_no = ? OR canonical_no = ?)"
_URLS = "SELECT url FROM record WHERE no IN carray(?) ORDER BY no"
_STATE_OF = """
SELECT s.status, s.standing = 2 AND s.lost_count = 0 FROM record r JOIN state s USING (no)
 WHERE r.source = ? AND r.id = ?
"""
_CLONES = """
SELECT m.url FROM record r JOIN record m ON m.content = r.content AND m.no <> r.no
 WHERE r.no = ? AND (m.duplicate_of = coalesce(r.duplicate_of, r.no) OR m.no = r.duplicate_of)
 ORDER BY m.no
"""
_CHAIN = "SELECT chain FROM redirect_chain WHERE no = ?"
_PIN = "SELECT at FROM pin WHERE no = ?"
_TEXT = "SELECT c.text_length FROM record r JOIN content c ON c.no = r.content WHERE r.no = ?"
_TIMES = ("since", "firstSeen")  #: keys of evidence


def reported_story_record(connection: Connection, number: int, age: int) -> dict[str, Any]:
    """Return the row of ``registry`` for a record, with the page that first linked to it."""
    found: Any = connection.execute(_FOUND, (number,)).fetchone()
    return record_table_report_row(connection, number, age) | {"discoveredFrom": found[2]}


def reported_story_events(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Return the events of a record, oldest first."""
    run, at, _ = connection.execute(_FOUND, (number,)).fetchone()
    events: list[dict[str, Any]] = [_happened("discovered", run, at)]
    removed: dict[tuple[int, int, str], dict[str, Any]] = {}
    row: Any
    for row in connection.execute(_EVIDENCE, (number,)):
        rule = RemovalRule(row[2]).word
        more = {
            "rule": rule,
            "found": reported_evidence_times(json.loads(row[3])),
            "restorable": bool(row[5]) and row[4] is None,
            "undoneAt": iso_time(row[4]),
        }
        removed[row[0], row[1], rule] = more
    for row in connection.execute(_EVENTS, (number,)):
        run, at, status, standing, word, http_status, detail = row
        evidence = removed.pop((run, at, detail), None)
        what = "removed" if evidence else "changed"
        if detail is not None and str(detail).startswith("restored"):
            what = "restored"
        elif http_status == Fault.SNAPSHOT:
            what = "not extracted again"
        events.append(
            _happened(what, run, at)
            | {
                "status": Status(status).word,
                "standing": Standing(standing).name.lower(),
                "lastOutcome": None if word is None else Word(word).word,
                "httpStatusCode": http_status,
                "detail": detail,
            }
            | (evidence or {})
        )
    return events


def reported_evidence_times(found: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a removal with its times as ISO 8601."""
    return {key: iso_time(value) if key in _TIMES else value for key, value in found.items()}


def _happened(what: str, run: int, at: int) -> dict[str, Any]:
    return {"event": what, "run": run, "at": iso_time(at)}


def reported_links_in(
    connection: Connection, source: int, number: int, key: bytes, trackers: Trackers
) -> tuple[int, list[str]]:
    """Return the number of pages of the source that lead to a record, and the first of them."""
    needle = array("I", [number]).tobytes()
    found: set[int] = set()
    row: Any
    for no, scope, count, targets in connection.execute(_TARGETS, (source,)):
        if scope == 0 and count:  # restored: its numbers are computed by the next run
            raw: Any = connection.execute(_RAW, (no,)).get
            urls = (link.url for link in unpack_stored_links(raw))
            if any(url_digest(normalize_url(url, trackers)) == key for url in urls):
                found.add(int(str(no)))
        elif needle in targets and number in unpack_stored_numbers(targets):
            found.add(int(str(no)))
    for row in connection.execute(_LEADS, (source, number, number)):
        found.add(row[0])
    found.discard(number)
    first = numbers_for_sql(sorted(found)[:SHOWN])
    return len(found), [str(url) for (url,) in connection.execute(_URLS, (first,))]


def reported_links_out(
    connection: Connection, source: int, number: int, scope: Scope | None, trackers: Trackers
) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of links of a record, and the first of them with their status."""
    raw: Any = connection.execute(_RAW, (number,)).get
    if raw is None:
        return 0, []
    links = unpack_stored_links(raw)
    shown = []
    for link in links[:SHOWN]:
        key = url_digest(normalize_url(link.url, trackers))
        row: Any = connection.execute(_STATE_OF, (source, key)).fetchone()
        shown.append(
            {
                "url": link.url,
                "type": link.type,
                "nofollow": link.nofollow,
                "inScope": None if scope is None else scope.allows(link.url),
                "status": None if row is None else Status(row[0]).word,
            }
        )
    return len(links), shown


def reported_clones(connection: Connection, number: int) -> list[str]:
    """Return the addresses of the pages with the same content as a record."""
    return [str(url) for (url,) in connection.execute(_CLONES, (number,))]


def reported_redirect_chain(connection: Connection, number: int) -> list[str]:
    """Return the addresses of a redirect chain, the record first; empty for other pages."""
    chain: Any = connection.execute(_CHAIN, (number,)).get
    return json.loads(chain) if chain is not None else []


def reported_spellings(connection: Connection, number: int, request: str) -> dict[str, Any]:
    """Return the spellings of an address, and what each answered when several were asked last."""
    found = stored_spelling_story(connection, number)
    return {
        "request": request,
        "others": found.urls,
        "tried": [
            {"url": url, "httpStatusCode": status, "message": message}
            for url, status, message in found.tried
        ],
        "run": found.run or None,
        "at": iso_time(found.at),
    }


def reported_pinned_at(connection: Connection, number: int) -> int | None:
    """Return the time (Unix seconds) at which a record was pinned; None if it is not."""
    value: Any = connection.execute(_PIN, (number,)).get
    return None if value is None else int(value)


def reported_text_length(connection: Connection, number: int) -> int | None:
    """Return the number of characters of a stored text; 0: it has none; None: nothing is stored."""
    value: Any = connection.execute(_TEXT, (number,)).get
    return None if value is None else int(value)


def reported_pending_pins(
    connection: Connection, key: bytes, sources: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the sources for whose next run an address waits."""
    return [
        {"source": source, "at": iso_time(at), "priority": priority}
        for source, at, priority in pending_pins_of(connection, key, sources)
    ]
