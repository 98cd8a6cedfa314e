"""Notices in the registry: written with their cause, claimed by one process, sent in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.rules.notices import (
    CLAIM,
    KEPT,
    PATIENCE,
    Event,
    is_given_up,
    may_claim,
    retry_delay,
)

LOST: Final = "its table [notify.NAME] was removed"  #: error of a notice whose target is none now

_WRITE: Final = """
INSERT INTO notice (id, target, event, source, run, data, at)
SELECT :id, :target, :event, :source, :run, :data, :at
 WHERE NOT EXISTS (SELECT 1 FROM notice_target WHERE name = :target AND closed_at IS NOT NULL)
"""
_FORGET: Final = "DELETE FROM notice WHERE ended_at < ?"
_KNOW: Final = "INSERT INTO notice_target (name) VALUES (?) ON CONFLICT DO NOTHING"
_WAITING: Final = """
SELECT DISTINCT target FROM notice WHERE state = 'waiting' AND target IN carray(?)
"""
#: Locks the row, so that of two processes the second one sees the claim of the first.
_LOCK: Final = "UPDATE notice_target SET failures = failures WHERE name = ?"
_TARGET: Final = """
SELECT failures, next_at, claimed_by, claimed_until, closed_at FROM notice_target WHERE name = ?
"""
_CLAIM: Final = "UPDATE notice_target SET claimed_by = ?, claimed_until = ? WHERE name = ?"
_RELEASE: Final = """
UPDATE notice_target SET claimed_by = NULL, claimed_until = NULL
 WHERE name = ? AND claimed_by = ?
"""
_FIRST: Final = """
SELECT no, id, event, source, run, data, at, attempts FROM notice
 WHERE target = ? AND state = 'waiting' ORDER BY no LIMIT 1
"""
_END: Final = """
UPDATE notice SET state = ?, ended_at = ?, attempts = attempts + 1, error = ? WHERE no = ?
"""
_TRIED: Final = "UPDATE notice SET attempts = attempts + 1, error = ? WHERE no = ?"
_WELL: Final = "UPDATE notice_target SET failures = 0, next_at = 0, reason = NULL WHERE name = ?"
_FAILED: Final = """
UPDATE notice_target SET failures = failures + 1, next_at = ?, reason = ? WHERE name = ?
"""
_CLOSE: Final = "UPDATE notice_target SET closed_at = ?, reason = ? WHERE name = ?"
_CLOSED: Final = """
UPDATE notice SET state = 'given up', ended_at = ?, error = ?
 WHERE target = ? AND state = 'waiting'
"""
#: Of a target without a table no later notice waits for an earlier one.
_LOST: Final = """
UPDATE notice SET state = 'given up', ended_at = :now, error = :error
 WHERE state = 'waiting' AND at <= :before AND NOT target IN carray(:targets)
"""
_WITHOUT_TABLE: Final = """
SELECT DISTINCT target FROM notice WHERE state = 'waiting' AND NOT target IN carray(?) ORDER BY 1
"""
_LIST: Final = """
SELECT n.id, n.target, n.event, n.source, n.run, n.at, n.attempts, n.state, n.ended_at, n.error,
       CASE WHEN n.state = 'waiting' THEN t.next_at END, t.closed_at
  FROM notice n LEFT JOIN notice_target t ON t.name = n.target
 WHERE :every OR n.target IN carray(:targets) ORDER BY n.no DESC LIMIT :most
"""
_AGAIN: Final = """
UPDATE notice SET state = 'waiting', ended_at = NULL, at = :now
 WHERE state = 'given up' AND (:every OR target IN carray(:targets))
"""
_OPEN: Final = """
UPDATE notice_target SET failures = 0, next_at = 0, closed_at = NULL, reason = NULL
 WHERE :every OR name IN carray(:targets)
"""
_STALE: Final = "SELECT source FROM stale_source"
_NOW_STALE: Final = "INSERT INTO stale_source (source, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
_NO_LONGER: Final = "DELETE FROM stale_source WHERE source = ?"
_CLOSED_TARGETS: Final = "SELECT name, reason FROM notice_target WHERE closed_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notice that waits."""

    no: int
    id: str
    event: Event
    source: str
    run: int | None
    data: Mapping[str, Any]
    at: int  #: Unix seconds
    attempts: int


def write_notice_row(
    connection: Connection,
    target: str,
    event: Event,
    now: int,
    *,
    data: Mapping[str, Any],
    source: str = "",
    run: int | None = None,
) -> None:
    """Write a notice, in the transaction of what caused it; a closed target gets none."""
    connection.execute(_FORGET, (now - KEPT,))
    values = {
        "id": f"msg_{token_hex(16)}",
        "target": target,
        "event": str(event),
        "source": source,
        "run": run,
        "data": json.dumps(data, ensure_ascii=False),
        "at": now,
    }
    connection.execute(_WRITE, values)


def waiting_notice_targets(connection: Connection, names: Sequence[str]) -> list[str]:
    """Return which of these targets have a notice that waits."""
    return [str(name) for (name,) in connection.execute(_WAITING, (Many(list(names)),)).fetchall()]


def claim_notice_target_row(connection: Connection, name: str, owner: str, now: int) -> bool:
    """Claim a target for a process, or extend its claim; the caller opens the transaction.

    False: another process has it, it is closed, or it is too early after a failure.
    """
    connection.execute(_KNOW, (name,))
    connection.execute(_LOCK, (name,))
    row: Any = connection.execute(_TARGET, (name,)).fetchone()
    _, next_at, claimed_by, claimed_until, closed_at = row
    is_ours = claimed_by == owner
    if closed_at is not None or not may_claim(
        next_at=next_at, claimed_until=None if is_ours else claimed_until, now=now
    ):
        return False
    connection.execute(_CLAIM, (owner, now + CLAIM, name))
    return True


def release_notice_target_row(connection: Connection, name: str, owner: str) -> None:
    """Give a claim back."""
    connection.execute(_RELEASE, (name, owner))


def first_notice_row(connection: Connection, target: str) -> StoredNotice | None:
    """Return the oldest notice that waits for a target, or None."""
    row: Any = connection.execute(_FIRST, (target,)).fetchone()
    if row is None:
        return None
    no, key, event, source, run, data, at, attempts = row
    return StoredNotice(no, key, Event(event), source, run, json.loads(data), at, attempts)


def end_notice_row(connection: Connection, target: str, notice: StoredNotice, now: int) -> None:
    """Note that a target took a notice."""
    connection.execute(_END, ("delivered", now, None, notice.no))
    connection.execute(_WELL, (target,))


def fail_notice_row(
    connection: Connection, target: str, notice: StoredNotice, now: int, error: str
) -> None:
    """Note that a target did not take a notice, which is tried again later or given up."""
    row: Any = connection.execute(_TARGET, (target,)).fetchone()
    connection.execute(_FAILED, (now + retry_delay(row[0] + 1), error, target))
    if is_given_up(notice.at, now):
        connection.execute(_END, ("given up", now, error, notice.no))
    else:
        connection.execute(_TRIED, (error, notice.no))


def give_up_lost_notice_rows(connection: Connection, names: Sequence[str], now: int) -> None:
    """Give up notices that are a day old, and whose target is none of ``names``: no table has it.

    The caller opens the transaction. ``now``: Unix seconds.
    """
    values = {"now": now, "error": LOST, "before": now - PATIENCE, "targets": Many(list(names))}
    connection.execute(_LOST, values)


def end_lost_notices(connection: Connection, names: Sequence[str], now: int) -> None:
    """Do what ``give_up_lost_notice_rows`` does in a transaction, where notices wait for others."""
    if lost_notice_targets(connection, names):
        with transaction(connection):
            give_up_lost_notice_rows(connection, names, now)


def lost_notice_targets(connection: Connection, names: Sequence[str]) -> list[str]:
    """Return the targets of notices that wait, and that are none of ``names``."""
    rows = connection.execute(_WITHOUT_TABLE, (Many(list(names)),)).fetchall()
    return [str(name) for (name,) in rows]


def close_notice_target_row(connection: Connection, target: str, now: int, reason: str) -> None:
    """Note that a target wants nothing any more; what waits for it is given up."""
    connection.execute(_CLOSE, (now, reason, target))
    connection.execute(_CLOSED, (now, reason, target))


def closed_notice_targets(connection: Connection) -> dict[str, str]:
    """Return the targets that are closed, each with the reason."""
    return dict(connection.execute(_CLOSED_TARGETS).fetchall())


LISTED_KEYS: Final = (
    "id", "target", "event", "source", "run", "at", "attempts", "state", "endedAt", "error",
    "nextAt", "closedAt",
)  # fmt: skip


def listed_notice_rows(
    connection: Connection, targets: Sequence[str], most: int
) -> list[dict[str, Any]]:
    """Return the last notices under LISTED_KEYS, newest first; ``targets`` empty: of all."""
    values = {"every": not targets, "targets": Many(list(targets)), "most": most}
    rows = connection.execute(_LIST, values).fetchall()
    return [dict(zip(LISTED_KEYS, row, strict=True)) for row in rows]


def retry_notice_rows(connection: Connection, targets: Sequence[str], now: int) -> int:
    """Have what was given up wait again, and open the targets; return the number of notices."""
    values = {"every": not targets, "targets": Many(list(targets))}
    connection.execute(_OPEN, values)
    connection.execute(_AGAIN, values | {"now": now})
    return connection.changes()


def stale_source_rows(connection: Connection) -> set[str]:
    """Return the sources that notices have called stale."""
    return {str(name) for (name,) in connection.execute(_STALE).fetchall()}


def note_stale_source_row(connection: Connection, source: str, now: int) -> bool:
    """Note that a source is stale; False: another process was first."""
    connection.execute(_NOW_STALE, (source, now))
    return connection.changes() > 0


def note_recovered_source_row(connection: Connection, source: str) -> bool:
    """Note that a source is not stale any more; False: it was not, or another was first."""
    connection.execute(_NO_LONGER, (source,))
    return connection.changes() > 0
