"""The facts by which ``due`` chooses sources (ADR 173)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.model.pages import NAMES_SIGNED
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import RunState
from smartcrawl.rules.schedule import DAY
from smartcrawl.rules.seal import only_not_due
from smartcrawl.rules.source_due import SourceFacts

#: Columns of ``state`` of a page whose next visit is brought forward to ``:now``. It has no
#: interval, so that no budget puts this visit off, also where its time has come already
#: (``freshness``).
FORWARD: Final = (
    "next_visit = CASE WHEN next_visit > :now THEN :now ELSE next_visit END, interval = NULL"
)
_SOURCE: Final = "SELECT no, configuration FROM source WHERE name = ?"
_LAST: Final = """
SELECT no, state, complete, reasons, started_at, owed FROM run
 WHERE source = ? ORDER BY no DESC LIMIT 1
"""
_WAITS: Final = """
SELECT EXISTS (SELECT 1 FROM pending_pin WHERE source = :name)
    OR EXISTS (SELECT 1 FROM ordered_address WHERE source = :name)
    OR EXISTS (SELECT 1 FROM item i JOIN record r USING (no)
                WHERE r.source = :source AND (i.requested OR i.generation > i.processed))
"""
#: A page that a wrong clock dated, and one whose links expire, are due at once (``DuePages``).
_NEXT: Final = f"""
SELECT min(CASE WHEN s.next_visit IS NULL OR s.last_checked IS NULL
                  OR s.last_checked > :now + {DAY} OR r.signs % {2 * NAMES_SIGNED} >= {NAMES_SIGNED}
                THEN 0 ELSE s.next_visit END)
  FROM record r JOIN state s USING (no)
 WHERE r.source = :source AND s.reached_run >= :run
"""
#: A listing has looked at each file that was due before it.
_NEXT_LISTED: Final = """
SELECT min(s.next_visit) FROM record r JOIN state s USING (no)
 WHERE r.source = :source AND s.reached_run >= :run AND s.next_visit > :listed_at
"""
_NOTE: Final = "UPDATE source SET fresh_at = ?, configuration = ? WHERE no = ?"
_STILL_FRESH: Final = "UPDATE source SET fresh_at = ? WHERE name = ?"
_UNLIKE: Final = "UPDATE source SET configuration = NULL WHERE name = ?"
_OUTCOME: Final = "SELECT complete, reasons FROM run WHERE no = ?"
_FRESH_AT: Final = "SELECT name, fresh_at FROM source"


def note_fresh_source_row(
    connection: Connection, source: int, run: int, now: int, configuration: bytes
) -> None:
    """Note on a source (source.no) that this run left nothing overdue, if that is so.

    ``configuration``: of the run (``run.configuration``). The caller opens the transaction.
    """
    row: Any = connection.execute(_OUTCOME, (run,)).fetchone()
    complete, reasons = row
    if complete or only_not_due(json.loads(reasons)):
        connection.execute(_NOTE, (now, configuration, source))


def note_still_fresh_rows(connection: Connection, names: Sequence[str], now: int) -> None:
    """Note on sources that nothing of them was due; the caller opens the transaction."""
    connection.executemany(_STILL_FRESH, [(now, name) for name in names])


def make_source_row_due(connection: Connection, name: str) -> None:
    """Have the next ``due`` take a source, whatever its pages say, as after a change of its table.

    The caller opens the transaction.
    """
    connection.execute(_UNLIKE, (name,))


def fresh_source_times(connection: Connection) -> dict[str, int | None]:
    """Return by source the Unix second at which nothing of it was overdue; None: never."""
    return dict(connection.execute(_FRESH_AT).fetchall())


def stored_source_facts(
    connection: Connection, name: str, now: int, *, configuration: bytes, is_listed: bool
) -> SourceFacts | None:
    """Return the facts that decide when a source is due; None: it has had no run.

    ``configuration``: that which its next run would have. ``now``: Unix seconds.
    """
    found: Any = connection.execute(_SOURCE, (name,)).fetchone()
    if found is None:
        return None
    source, before = found
    last: Any = connection.execute(_LAST, (source,)).fetchone()
    if last is None:
        return None
    run, state, complete, reasons, started_at, owed = last
    values = {"source": source, "name": name, "run": run, "now": now, "listed_at": started_at}
    ended = state == RunState.SWEPT and (complete or only_not_due(json.loads(reasons)))
    has_orders = bool(owed) or bool(connection.execute(_WAITS, values).get)
    next_visit: Any = connection.execute(_NEXT_LISTED if is_listed else _NEXT, values).get
    return SourceFacts(
        left_nothing=bool(ended),
        is_as_then=before is not None and bytes(before) == configuration,
        has_orders=has_orders,
        next_visit=next_visit,
        listed_at=started_at if is_listed else None,
    )
