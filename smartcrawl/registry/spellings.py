"""The other spellings under which addresses were linked, beside their request addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.model.documents import CUT
from smartcrawl.model.urls import Trackers, normalize_url, url_digest
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_links, unpack_stored_numbers
from smartcrawl.rules.model import Outcome, Standing, Word
from smartcrawl.rules.spellings import (
    MOST_SPELLINGS,
    asks_other_spelling,
    kept_spellings,
    stored_visit_outcome,
)

_KEPT: Final = """
SELECT r.no, r.url, p.urls, coalesce(p.met_run, 0)
  FROM record r LEFT JOIN spelling p ON p.no = r.no WHERE r.no IN carray(?)
"""
_KEEP: Final = """
INSERT INTO spelling (no, urls, met_run, displaced) VALUES (?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET urls = excluded.urls, met_run = excluded.met_run,
       displaced = spelling.displaced OR excluded.displaced
"""
_TRIED: Final = """
INSERT INTO spelling (no, tried, tried_run, tried_at) VALUES (?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET tried = excluded.tried, tried_run = excluded.tried_run, tried_at = excluded.tried_at
"""
_OF_ROW: Final = "SELECT urls FROM spelling WHERE no = ?"
_STORY: Final = "SELECT urls, tried, tried_run, tried_at FROM spelling WHERE no = ?"
_MET: Final = """
SELECT p.no, r.url, p.urls, p.tried, p.tried_run, s.outcome, s.http_status, s.standing,
       s.visited_run, s.standing > 0 OR r.last_indexed IS NOT NULL
  FROM spelling p JOIN record r ON r.no = p.no JOIN state s ON s.no = p.no
 WHERE p.met_run = ? AND r.source = ? AND s.outcome IS NOT NULL
 ORDER BY p.no
"""
_DISPLACED: Final = """
SELECT p.no, s.outcome, s.http_status, s.standing, s.standing > 0 OR r.last_indexed IS NOT NULL
  FROM spelling p JOIN record r ON r.no = p.no JOIN state s ON s.no = p.no
 WHERE p.displaced AND p.tried_run = ? AND r.source = ? AND s.outcome IS NOT NULL
"""
_SOUGHT: Final = "UPDATE spelling SET displaced = :no WHERE no IN carray(:numbers)"
_TARGETS: Final = """
SELECT l.no, l.targets FROM links l JOIN record r ON r.no = l.no WHERE r.source = ?
"""
_RAW: Final = "SELECT raw FROM links WHERE no IN carray(?)"

#: What a spelling answered: address, HTTP or extended status, message.
TriedSpelling = tuple[str, int | None, str | None]


def store_spelling_rows(connection: Connection, met: Mapping[int, Sequence[str]], run: int) -> None:
    """Keep the spellings under which addresses were linked; the caller opens the transaction.

    ``met``: by number, the newest last. Nothing is written where none is new.
    """
    if not met:
        return
    rows: list[Any] = connection.execute(_KEPT, (numbers_for_sql(met),)).fetchall()
    for no, request, urls, met_run in rows:
        stored = json.loads(urls) if urls is not None else []
        kept = kept_spellings(met[no], stored, request)
        if kept == stored:
            continue
        fresh = not {*kept}.issubset(stored)
        displaced = not {*met[no], *stored}.issubset((request, *kept))
        row = (no, _dumped(kept), run if fresh else met_run, displaced)
        connection.execute(_KEEP, row)


def store_tried_rows(
    connection: Connection, tried: Mapping[int, Sequence[TriedSpelling]], run: int, now: int
) -> None:
    """Record what the spellings of addresses answered; the caller opens the transaction.

    The answers that the same run got before stay.
    """
    for no, answers in sorted(tried.items()):
        before = stored_spelling_story(connection, no)
        earlier = before.tried if before.run == run else []
        known = {url for url, _, _ in earlier}
        all_ = [*earlier, *(answer for answer in answers if answer[0] not in known)]
        connection.execute(_TRIED, (no, _dumped(all_), run, now))


def stored_spellings(connection: Connection, no: int) -> list[str]:
    """Return the other spellings of an address, the newest first."""
    urls: Any = connection.execute(_OF_ROW, (no,)).get
    return [] if urls is None else list(json.loads(urls))


class StoredSpellings(NamedTuple):
    """The other spellings of an address, and what they answered when they were tried last."""

    urls: list[str]
    tried: list[TriedSpelling]
    run: int
    at: int | None  #: Unix seconds


def stored_spelling_story(connection: Connection, no: int) -> StoredSpellings:
    """Return everything that is stored of the spellings of an address."""
    row: Any = connection.execute(_STORY, (no,)).fetchone()
    if row is None:
        return StoredSpellings([], [], 0, None)
    tried = [(str(url), status, message) for url, status, message in json.loads(row[1])]
    return StoredSpellings(json.loads(row[0]), tried, row[2], row[3])


def untried_spelling_rows(connection: Connection, source: int, run: int) -> dict[int, list[str]]:
    """Return spellings that a run met after the visit of their address had failed, by number."""
    found: dict[int, list[str]] = {}
    rows: list[Any] = connection.execute(_MET, (run, source)).fetchall()
    for no, request, urls, tried, tried_run, word, status, standing, visited, brought in rows:
        if not _asks_others(word, status, standing, brought=bool(brought)):
            continue
        asked = {request} if visited == run else set()
        if tried_run == run or visited < run:
            asked.update(url for url, _, _ in json.loads(tried))
        if left := [url for url in json.loads(urls) if url not in asked]:
            found[no] = left
    return found


def find_displaced_rows(
    control: DatabaseControl, source: int, run: int, trackers: Trackers
) -> None:
    """Keep the spellings that stored links have for pages whose kept ones all failed in a run.

    Only pages are looked at of which a spelling was dropped, because there were too many; each
    once, until another one is dropped.
    """
    rows: list[Any] = control.connection.execute(_DISPLACED, (run, source)).fetchall()
    sought = [
        no
        for no, word, status, standing, brought in rows
        if _asks_others(word, status, standing, brought=bool(brought))
    ]
    if not sought:
        return

    def work() -> None:
        connection = control.connection
        for number in sought:
            met = _linked_spellings(connection, source, number, trackers)
            tried = {url for url, _, _ in stored_spelling_story(connection, number).tried}
            fresh = [url for url in met if url not in tried][-MOST_SPELLINGS:]
            store_spelling_rows(connection, {number: fresh}, run)
        connection.execute(_SOUGHT, {"no": False, "numbers": numbers_for_sql(sought)})

    control.write(work)


def _linked_spellings(
    connection: Connection, source: int, number: int, trackers: Trackers
) -> list[str]:
    """Return the spellings under which the pages of a source link to a number."""
    rows: list[Any] = connection.execute("SELECT id FROM record WHERE no = ?", (number,)).fetchall()
    key = bytes(rows[0][0])
    holders = [
        no
        for no, targets in connection.execute(_TARGETS, (source,))
        if number in unpack_stored_numbers(targets)
    ]
    found: dict[str, None] = {}
    for (raw,) in connection.execute(_RAW, (numbers_for_sql(holders),)).fetchall():
        for url in _followed(raw):
            if url not in found and url_digest(normalize_url(url, trackers)) == key:
                found[url] = None
    return list(found)


def _asks_others(word: int, status: int | None, standing: int, *, brought: bool) -> bool:
    outcome = stored_visit_outcome(Word(word), status, Standing(standing))
    if outcome is None:
        return False
    if outcome is Outcome.EXCLUDED:
        status = None
    return asks_other_spelling(outcome, status, brought=brought)


def _followed(raw: bytes) -> Iterator[str]:
    """Yield the addresses of the links that are followed."""
    for link in unpack_stored_links(raw):
        if link.type != CUT and (not link.nofollow or link.type == "canonical"):
            yield link.url


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
