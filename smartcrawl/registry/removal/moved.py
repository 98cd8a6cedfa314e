"""Renamed files of listed sources: found, taken over, and given back by an undo (docs/adr/0065)."""

from __future__ import annotations

import json
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.rules.model import RemovalRule, Standing, Word
from smartcrawl.rules.renames import FileRecord, renamed_records

WHY = "its bytes are at another address"

_ABSENT = f"""
SELECT r.no, r.url, r.body_hash, s.standing, c.detail
  FROM candidate c JOIN record r USING (no) JOIN state s USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.ABSENT)}
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
UPDATE candidate SET rule = {int(RemovalRule.MOVED)}, detail = ? WHERE no = ?
"""
_TAKE = """
UPDATE record
   SET moved_from = :old,
       first_seen = CASE WHEN :is_new THEN (SELECT first_seen FROM record WHERE no = :old)
                         ELSE first_seen END
 WHERE no = :new
"""
_TAKE_CHANGES = """
INSERT INTO change (record, run, at)
SELECT CAST(:new AS BIGINT), run, at FROM change WHERE record = :old ORDER BY no
"""
_MOVED = f"""
UPDATE state SET outcome = {int(Word.MOVED)}, number = :number
 WHERE no = :new AND number < :number
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


def propose_renamed(connection: Connection, ending: EndingRunRow) -> None:
    """Turn candidates for absence into moves where new files have their bytes.

    Only complete runs of listed sources have such candidates. Call it before the guard. Content is
    never replaced by links alone, so only files of the same standing match.
    """
    absent: list[Any] = connection.execute(_ABSENT, ending.names).fetchall()
    if not absent:
        return
    since = int(connection.execute(_LAST_COMPLETE, ending.names).get)
    new: list[Any] = connection.execute(_NEW, ending.names | {"since": since}).fetchall()
    details = {no: json.loads(detail) for no, _, _, _, detail in absent}
    found = {no: (url, is_new, first_seen) for no, url, _, _, is_new, first_seen in new}
    moves: list[tuple[str, int]] = []
    for standing in (Standing.HELD, Standing.LINKS):
        sides = (
            [FileRecord(*row[:3]) for row in rows if row[3] == standing] for rows in (absent, new)
        )
        for no, old in renamed_records(*sides).items():
            url, is_new, first_seen = found[no]
            detail = details[old] | {"why": WHY, "target": url, "targetNo": no}
            if is_new:
                detail["firstSeen"] = first_seen
            moves.append((json.dumps(detail), old))
    connection.executemany(_MOVES, moves)


def new_record(detail: str) -> int:
    """Return the number of the record that a renamed file has now, from its evidence (JSON)."""
    return int(json.loads(detail)["targetNo"])


def take_over(connection: Connection, old: int, detail: str, *, number: int) -> None:
    """Give the discovery and the changes of a removed record to the record of its new name."""
    found = json.loads(detail)
    is_new = "firstSeen" in found
    names = {"old": old, "new": found["targetNo"], "is_new": is_new, "number": number}
    connection.execute(_LEADS, names | {"target": found["target"]})
    connection.execute(_TAKE, names)
    if is_new:
        connection.execute(_TAKE_CHANGES, names)
    connection.execute(_MOVED, names)


def give_back(connection: Connection, old: int, detail: str, *, number: int) -> None:
    """Undo ``take_over``, if the record of the new name still has what it took over."""
    found = json.loads(detail)
    first_seen = found.get("firstSeen")
    names = {"old": old, "new": found["targetNo"], "first_seen": first_seen, "number": number}
    connection.execute(_GIVE, names)
    if not connection.changes():
        return
    if first_seen is not None:
        connection.execute(_GIVE_CHANGES, names)
    connection.execute(_NEW_AGAIN, names)
