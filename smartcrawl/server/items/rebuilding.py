"""The order to visit all pages again, carried out in short transactions (R0-53, R0-68).

A server that dies leaves the place that it reached, and the next one goes on there.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Database

STEP: Final = 2_000  #: records of a transaction
_STEPS: Final = 5  #: of a tick, so that jobs are not delayed
#: What is visited again: all but tombstones. Only stored pages can be indexed anew.
_WANTED: Final = "(standing > 0 OR status <> 5)"
_COUNT: Final = f"SELECT count(*) FROM state WHERE {_WANTED}"
_ORDER: Final = """
INSERT INTO rebuild (no, forced, place, last)
SELECT 1, ?, 0, coalesce(max(no), 0) FROM record WHERE TRUE
ON CONFLICT (no) DO UPDATE
   SET forced = rebuild.forced OR excluded.forced, place = 0, last = excluded.last
"""
_PLACE: Final = "SELECT forced, place, last FROM rebuild"
_NEXT: Final = """
SELECT max(no) FROM (SELECT no FROM state WHERE no > ? AND no <= ? ORDER BY no LIMIT ?) AS page
"""
_ADVANCE: Final = "UPDATE rebuild SET place = ? WHERE place = ? AND last = ?"
_DONE: Final = "DELETE FROM rebuild WHERE place >= last"
_WITHIN: Final = "no > :place AND no <= :upto"
_DUE: Final = f"""
UPDATE state SET next_visit = :now WHERE {_WITHIN} AND {_WANTED} AND next_visit > :now
"""
_FORCE: Final = f"""
INSERT INTO item (no, requested, generation, revision)
SELECT no, TRUE, 1, 1 FROM state WHERE {_WITHIN} AND standing > 0
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + 1, revision = item.revision + 1
"""
_PENDING: Final = f"""
UPDATE state SET status = 0 WHERE {_WITHIN} AND standing > 0 AND status NOT IN (1, 2)
"""


def post_rebuild(connection: Connection, *, force: bool) -> int:
    """Order all pages to be visited again; return their number. The caller's transaction.

    With ``force`` stored pages are also indexed anew. An order under way begins again.
    """
    connection.execute(_ORDER, (force,))
    return int(connection.execute(_COUNT).get)


class Rebuilding:
    """Carries the order out, for one thread; any number of servers may do so at once."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)

    def steps(self, now: int) -> None:
        """Do some steps, if there is an order."""
        for _ in range(_STEPS):
            with self._database.translated("read"):
                row: Any = self._connection.execute(_PLACE).fetchone()
            if row is None:
                return
            self._control.write(partial(self._step, *row, now=now))

    def _step(self, forced: bool, place: int, last: int, *, now: int) -> None:
        upto = self._connection.execute(_NEXT, (place, last, STEP)).get
        upto = last if upto is None else int(upto)
        self._connection.execute(_ADVANCE, (upto, place, last))
        if not self._connection.changes():
            return  # another server took this step, or the order began again
        values = {"place": place, "upto": upto}
        if forced:
            self._connection.execute(_FORCE, values)
            self._connection.execute(_PENDING, values)
        self._connection.execute(_DUE, values | {"now": now})
        self._connection.execute(_DONE)
