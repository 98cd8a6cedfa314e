"""Renamed files of listed sources: found, taken over, and given back by an undo (ADR 65)."""

from __future__ import annotations

import json
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.rules.files import FileRecord, renamed_records
from smartcrawl.rules.model import RemovalRule, Standing, Word

WHY = "its bytes are at another address"

_ABSENT = f"""
SELECT r.no, r.url, r.body_hash, s.standing, c.detail, p.no IS NOT NULL
  FROM candidate c JOIN record r USING (no) JOIN state s USING (no) LEFT JOIN pin p USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.ABSENT)}
"""
#: A pinned file is read whether the listing has it or not, so its old name is reached and answers
#: 404.
_PINNED_AND_MISSING = """
SELECT r.no, r.url, r.body_hash, s.standing, s.lost_since
  FROM pin p JOIN record r USING (no) JOIN state s USING (no)
 WHERE p.source = :source AND s.visited_run = :run AND s.reached_run = :run
   AND s.http_status = 404 AND s.lost_count > 0
"""
#: Files that the last complete run did not have, and tombstones that answered again.
_NEW = f"""
SELECT r.no, r.url, r.body_hash, s.standing, r.first_run > :since, r.first_seen
  FROM record r JOIN state s USING (no)
 WHERE r.source = :source AND s.seen_run = :run AND s.standing > 0 AND s.lost_count = 0
   AND (r.first_run > :since OR (s.visited_run = :run AND s.outcome = {int(Word.NEW)}))
"""
_LAST_COMPLETE = """
SELECT coalesce(max(no), 0) FROM run WHERE source = :source AND complete AND no < :run
"""
_MOVES = f"""
INSERT INTO candidate (no, source, run, renewed, rule, detail)
VALUES (:old, :source, :run, :run, {int(RemovalRule.MOVED)}, :detail)
ON CONFLICT (no) DO UPDATE
   SET renewed = excluded.renewed, rule = excluded.rule, detail = excluded.detail
"""
_TAKE = """
UPDATE record
   SET moved_from = :old,
       first_seen = CASE WHEN :is_new THEN (SELECT first_seen FROM record WHERE no = :old)
                         ELSE first_seen END
 WHERE no = :new
"""
_TAKE_CHANGES = """
INSERT INTO change (record, run, at, visit_gap, words, added, removed, line_count, lines, detail,
                    body, is_shared)
SELECT CAST(:new AS BIGINT), run, at, visit_gap, words, added, removed, line_count, lines, detail,
       body, is_shared
  FROM change WHERE record = :old ORDER BY no
"""
_MOVED = f"""
UPDATE state SET outcome = {int(Word.MOVED)}, number = :number
 WHERE no = :new AND number < :number
"""
#: A pin that the new record has already stays as it is, and so does that of the old one.
_MOVE_PIN = """
UPDATE pin SET no = :heir WHERE no = :pinned
   AND NOT EXISTS (SELECT 1 FROM pin WHERE no = :heir)
"""
_LEADS = "UPDATE record SET redirect_target = :target, redirect_no = :new WHERE no = :old"
_GIVE = """
UPDATE record SET moved_from = NULL, first_seen = coalesce(:first_seen, first_seen)
 WHERE no = :new AND moved_from = :old
"""
_GIVE_CHANGES = """
DELETE FROM change WHERE record = :new AND run IN (SELECT run FROM change WHERE record = :old)
"""
_NEW_AGAIN = f"""
UPDATE state SET number = :number,
       outcome = CASE standing WHEN {int(Standing.HELD)} THEN {int(Word.NEW)}
                               ELSE {int(Word.EXCLUDED)} END
 WHERE no = :new AND outcome = {int(Word.MOVED)} AND number < :number
"""


def propose_renamed_rows(connection: Connection, ending: EndingRunRow, *, complete: bool) -> None:
    """Turn candidates for absence into moves where new files have their bytes.

    Only complete runs of listed sources have such candidates. A pinned file that answered 404 is
    one of them. Call it before the guard. Content is never replaced by links alone, so only files
    of the same standing match.
    """
    absent: list[Any] = connection.execute(_ABSENT, ending.names).fetchall()
    if complete:
        absent += _pinned_and_missing(connection, ending)
    if not absent:
        return
    since = int(connection.execute(_LAST_COMPLETE, ending.names).get)
    rows: list[Any] = connection.execute(_NEW, ending.names | {"since": since}).fetchall()
    new = [row for row in rows if ending.closing.lists(row[1])]
    details = {no: json.loads(detail) for no, _, _, _, detail, _ in absent}
    pinned = {row[0] for row in absent if row[5]}
    found = {no: (url, is_new, first_seen) for no, url, _, _, is_new, first_seen in new}
    moves: list[dict[str, object]] = []
    for standing in (Standing.HELD, Standing.LINKS):
        sides = (
            [FileRecord(*row[:3]) for row in rows if row[3] == standing] for rows in (absent, new)
        )
        for no, old in renamed_records(*sides).items():
            url, is_new, first_seen = found[no]
            detail = details[old] | {"why": WHY, "target": url, "targetNo": no}
            if is_new:
                detail["firstSeen"] = first_seen
            if old in pinned:
                detail["pinned"] = True
            moves.append(ending.names | {"old": old, "detail": json.dumps(detail)})
    connection.executemany(_MOVES, moves)


def _pinned_and_missing(connection: Connection, ending: EndingRunRow) -> list[tuple[Any, ...]]:
    """Return the pinned files that answered 404, as rows of _ABSENT."""
    rows: list[Any] = connection.execute(_PINNED_AND_MISSING, ending.names).fetchall()
    return [
        (*row[:4], json.dumps({"status": 404, "since": row[4]}), True)
        for row in rows
        if ending.closing.lists(row[1])
    ]


def new_record_number(detail: str) -> int:
    """Return the number of the record that a renamed file has now, from its evidence (JSON)."""
    return int(json.loads(detail)["targetNo"])


def take_over_record_row(connection: Connection, old: int, detail: str, *, number: int) -> None:
    """Give discovery, changes and pin of a removed record to the record of its new name."""
    found = json.loads(detail)
    is_new = "firstSeen" in found
    names = {"old": old, "new": found["targetNo"], "is_new": is_new, "number": number}
    connection.execute(_LEADS, names | {"target": found["target"]})
    connection.execute(_TAKE, names)
    if is_new:
        connection.execute(_TAKE_CHANGES, names)
    connection.execute(_MOVED, names)
    if found.get("pinned"):
        connection.execute(_MOVE_PIN, {"pinned": old, "heir": found["targetNo"]})


def give_back_record_row(connection: Connection, old: int, detail: str, *, number: int) -> None:
    """Undo ``take_over_record_row``, if the record of the new name still has what it took over."""
    found = json.loads(detail)
    first_seen = found.get("firstSeen")
    names = {"old": old, "new": found["targetNo"], "first_seen": first_seen, "number": number}
    connection.execute(_GIVE, names)
    if not connection.changes():
        return
    if found.get("pinned"):
        connection.execute(_MOVE_PIN, {"pinned": found["targetNo"], "heir": old})
    if first_seen is not None:
        connection.execute(_GIVE_CHANGES, names)
    connection.execute(_NEW_AGAIN, names)
