"""The whole story of one address, out of every table that knows a part of it (``scrapy why``)."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from smartcrawl.model.ports import Connection
from smartcrawl.model.times import iso
from smartcrawl.model.urls import (
    Trackers,
    digest,
    host_key,
    normalize,
    request_url,
)
from smartcrawl.registry.pack import numbers, unpack_links, unpack_numbers
from smartcrawl.registry.runs.runs import Role
from smartcrawl.registry.runs.starts import last_starts
from smartcrawl.reports.tables import record
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.forecast import Facts, finding
from smartcrawl.rules.model import Fault, Rule, Standing, Status, Word
from smartcrawl.sources.declared import Source
from smartcrawl.sources.scope import Scope

SHOWN: Final = 20  #: links and clones that are listed

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
_CANDIDATE = "SELECT rule, run, renewed, probe, withheld, detail FROM candidate WHERE no = ?"
_PIN = "SELECT at FROM pin WHERE no = ?"
_ROBOTS_FAILED = """
SELECT robots_error, robots_failed_at FROM host
 WHERE name = ? AND robots_failed_at > coalesce(robots_fetched_at, 0)
"""
_ROBOTS = "SELECT fetched_at, status, body FROM robots WHERE origin = ?"
_KNOWN = "SELECT DISTINCT url FROM record WHERE id = ?"
_SETTLED = "SELECT max(no) FROM run WHERE source = ? AND state IN (3, 4)"
_FINGERPRINT = "SELECT no FROM fingerprint WHERE hash = ?"
_NUMBER = "SELECT no FROM record WHERE source = ? AND id = ?"
_STORED = "SELECT scope, targets, raw FROM links WHERE no = ?"


class Entry(NamedTuple):
    """One record, as far as the next run and the sweep depend on it."""

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
    snapshot: int  #: whether there is one of the body that is held
    ordered: int  #: whether somebody ordered it to be indexed anew
    etag_marks: int  #: see Page.etag_marks

    @property
    def sound(self) -> bool:
        """Whether its content is held, and its last visit answered so."""
        answered = self.word in (Word.NEW, Word.MODIFIED, Word.UNCHANGED, Word.CLONE)
        return self.standing == Standing.HELD and answered and not self.lost_count


@dataclass(frozen=True, slots=True)
class Past:
    """The complete runs of a source."""

    runs: tuple[tuple[int, int], ...]  #: number, and when it was sealed

    @property
    def last(self) -> int:
        """The latest, 0 without one."""
        return self.runs[-1][0] if self.runs else 0

    def absence(self, seen_run: int) -> tuple[int, int | None]:
        """Return how many there were after ``seen_run``, and when the first of them was sealed."""
        first = bisect_right(self.runs, seen_run, key=lambda run: run[0])
        return len(self.runs) - first, self.runs[first][1] if first < len(self.runs) else None


def past(connection: Connection, source: int) -> Past:
    """Return the complete runs of a source."""
    rows: Any = connection.execute(_COMPLETE, (source,)).fetchall()
    return Past(tuple(rows))


def entries(connection: Connection, source: int, number: int | None = None) -> Iterator[Entry]:
    """Yield the records of a source, or the one with this number."""
    row: Any
    for row in connection.execute(_ENTRIES, {"source": source, "no": number}):
        yield Entry(*row)


def last_settled(connection: Connection, source: int) -> int | None:
    """Return the last run of a source that gave every record its word."""
    number: Any = connection.execute(_SETTLED, (source,)).get
    return None if number is None else int(number)


def fingerprint_no(connection: Connection, value: bytes) -> int:
    """Return the integer that stands for a fingerprint, -1 when no run ever used it."""
    number: Any = connection.execute(_FINGERPRINT, (value,)).get
    return -1 if number is None else int(number)


def number_of(connection: Connection, source: int, key: bytes) -> int | None:
    """Return the number of an id (32 bytes) in a source."""
    number: Any = connection.execute(_NUMBER, (source, key)).get
    return None if number is None else int(number)


def stored_links(connection: Connection, number: int) -> tuple[int, bytes, bytes] | None:
    """Return (scope, packed targets, packed raw links) of a record."""
    row: Any = connection.execute(_STORED, (number,)).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def facts_of(entry: Entry, runs: Past, policy: Policy, *, reached: bool, aside: bool) -> Facts:
    """Return what a record's removal depends on (rules.forecast)."""
    word = None if entry.word is None else Word(entry.word)
    told = (Status(entry.status), word, entry.http_status, policy)
    found = finding(*told, reached=reached, aside=aside)
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
    )


def record_of(connection: Connection, number: int, age: int) -> dict[str, Any]:
    """Return what ``scrapy registry`` tells of a record, and where it was found first."""
    found: Any = connection.execute(_FOUND, (number,)).fetchone()
    return record(connection, number, age) | {"discoveredFrom": found[2]}


def history(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Return what happened to a record, oldest first."""
    run, at, _ = connection.execute(_FOUND, (number,)).fetchone()
    events: list[dict[str, Any]] = [_happened("discovered", run, at)]
    removed: dict[tuple[int, int, str], dict[str, Any]] = {}
    row: Any
    for row in connection.execute(_EVIDENCE, (number,)):
        rule = Rule(row[2]).word
        more = {
            "rule": rule,
            "found": told(json.loads(row[3])),
            "restorable": bool(row[5]) and row[4] is None,
            "undoneAt": iso(row[4]),
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


def told(found: dict[str, Any]) -> dict[str, Any]:
    """Return what was found of a page that may go, its times as ISO 8601."""
    return {key: iso(value) if key == "since" else value for key, value in found.items()}


def _happened(what: str, run: int, at: int) -> dict[str, Any]:
    return {"event": what, "run": run, "at": iso(at)}


def links_in(
    connection: Connection, source: int, number: int, key: bytes, trackers: Trackers
) -> tuple[int, list[str]]:
    """Return how many pages of the source lead to a record, and the first of them."""
    needle = array("I", [number]).tobytes()
    found: set[int] = set()
    row: Any
    for no, scope, count, targets in connection.execute(_TARGETS, (source,)):
        if scope == 0 and count:  # restored: its numbers are computed by the next run
            raw: Any = connection.execute(_RAW, (no,)).get
            urls = (link.url for link in unpack_links(raw))
            if any(digest(normalize(url, trackers)) == key for url in urls):
                found.add(int(str(no)))
        elif needle in targets and number in unpack_numbers(targets):
            found.add(int(str(no)))
    for row in connection.execute(_LEADS, (source, number, number)):
        found.add(row[0])
    found.discard(number)
    first = numbers(sorted(found)[:SHOWN])
    return len(found), [str(url) for (url,) in connection.execute(_URLS, (first,))]


def links_out(
    connection: Connection, source: int, number: int, scope: Scope | None, trackers: Trackers
) -> tuple[int, list[dict[str, Any]]]:
    """Return how many links a record has, and the first of them: in scope, known, indexed?"""
    raw: Any = connection.execute(_RAW, (number,)).get
    if raw is None:
        return 0, []
    links = unpack_links(raw)
    shown = []
    for link in links[:SHOWN]:
        key = digest(normalize(link.url, trackers))
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


def clones(connection: Connection, number: int) -> list[str]:
    """Return the other pages of a record's group of equal content."""
    return [str(url) for (url,) in connection.execute(_CLONES, (number,))]


def redirect_chain(connection: Connection, number: int) -> list[str]:
    """Return the addresses that a redirect leads through, itself first; none for other pages."""
    chain: Any = connection.execute(_CHAIN, (number,)).get
    return json.loads(chain) if chain is not None else []


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a sweep may do to a page, as it stands in the registry."""

    rule: Rule
    run: int
    renewed: int
    probe: int | None
    withheld: bool
    detail: dict[str, Any]


def proposal(connection: Connection, number: int) -> Proposal | None:
    """Return the proposal to remove a record."""
    row: Any = connection.execute(_CANDIDATE, (number,)).fetchone()
    if row is None:
        return None
    rule, run, renewed, probe, waits, detail = row
    return Proposal(Rule(rule), run, renewed, probe, bool(waits), json.loads(detail))


def pinned_at(connection: Connection, number: int) -> int | None:
    """Return when (Unix seconds) a record was pinned."""
    value: Any = connection.execute(_PIN, (number,)).get
    return None if value is None else int(value)


class KeptRobots:
    """The answers of the robots.txt copies that are kept.

    ``read`` makes of a body a function that says what it says to an address.
    """

    def __init__(
        self, connection: Connection, read: Callable[[bytes], Callable[[str], Any]]
    ) -> None:
        self._connection = connection
        self._read = read
        self._known: dict[str, tuple[Callable[[str], Any] | None, int, int] | None] = {}

    def answer(self, url: str) -> tuple[Any, int, int] | None:
        """Return (what it says, status, when read) for an address; None without a copy.

        What it says is None where the status means that there are no rules.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._known:
            row: Any = self._connection.execute(_ROBOTS, (origin,)).fetchone()
            self._known[origin] = row and (
                self._read(row[2]) if row[1] < 400 else None,
                row[1],
                row[0],
            )
        found = self._known[origin]
        if found is None:
            return None
        says, status, fetched_at = found
        return says(url) if says is not None else None, status, fetched_at

    def failure(self, url: str) -> tuple[str, int] | None:
        """Return (why, when) its robots.txt could not be had, if that came after the copy."""
        row: Any = self._connection.execute(_ROBOTS_FAILED, (host_key(url),)).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))


def source_today(
    connection: Connection, declared: Mapping[str, Source], name: str
) -> Source | None:
    """Return a source as its next run would take it; None when it is not declared any more.

    An ad-hoc source is what its last run started from (starts.last_starts).
    """
    if name in declared:
        return declared[name]
    starts = last_starts(connection, name)
    seeds = tuple(start.url for start in starts if start.role is Role.SEED)
    sitemaps = tuple(start.url for start in starts if start.role is Role.SITEMAP)
    return Source(name=name, seeds=seeds, sitemaps=sitemaps, ad_hoc=True) if starts else None


def near_misses(connection: Connection, url: str, trackers: Trackers) -> list[str]:
    """Return known addresses that differ from ``url`` in scheme, slash or www. only."""
    known = request_url(url) or request_url(f"https://{url}")
    if known is None:
        return []
    scheme, _, rest = known.partition("://")
    host, _, path = rest.partition("/")
    other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    paths: Sequence[str] = (path, path.rstrip("/"), f"{path}/", path.partition("?")[0])
    found: dict[str, None] = {}
    for way in (scheme, "http" if scheme == "https" else "https"):
        for name in (host, other):
            for tail in paths:
                key = digest(normalize(f"{way}://{name}/{tail}", trackers))
                for (near,) in connection.execute(_KNOWN, (key,)):
                    found[str(near)] = None
    return list(found)
