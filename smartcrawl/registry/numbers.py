"""The numbers of addresses and of runs: none is given twice.

Numbers of runs: none is given twice, though a source without pages is deleted with its runs.

Hosts keep the run that found them unreliable last, Redis may still have keys of a run, and an
operator may have written down the number of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.registry.connection import Connection, draw_sequence_numbers
from smartcrawl.registry.database.databases import DatabaseControl

_BLOCK = 4096  #: numbers drawn at a time; unused ones are given back
_BLOCK_SHARED = 512  #: the same where other workers draw, too, so that none can be given back
_GIVE_BACK = "UPDATE sequence SET value = ? WHERE name = 'address' AND value = ?"


class RecordNumbers:
    """Numbers for new addresses (record.no)."""

    def __init__(self, control: DatabaseControl) -> None:
        self._control = control
        self._next = self._end = 0
        self._highest = 0  #: highest number that this process ever drew or read
        self._block = _BLOCK

    def share(self) -> None:
        """Draw smaller blocks from now on, because other workers draw, too."""
        self._block = _BLOCK_SHARED

    def draw(self) -> int:
        """Return the number of an address that was met for the first time.

        Raises:
            CommitsLostError: the registry gives out numbers again that have an address.
        """
        if self._next == self._end:
            connection = self._control.connection
            last = self._control.write(
                lambda: draw_sequence_numbers(connection, "address", self._block)
            )
            self._end = last + 1
            self._next = self._end - self._block
            if self._next <= self._highest:
                self.drop()
                raise CommitsLostError(
                    "the database lost the last commits: it gives out numbers of "
                    "addresses again that it gave out before; the next run requests the "
                    "missing pages again"
                )
            self._highest = last
        self._next += 1
        return self._next - 1

    def met(self, number: int) -> None:
        """Note a number that the registry has given to an address, maybe in another process."""
        self._highest = max(self._highest, number)

    def drop(self) -> None:
        """Forget the unused numbers: another process may draw them."""
        self._next = self._end = 0

    def give_back(self) -> None:
        """Give back the unused numbers, unless another worker has drawn since."""
        if not self._end:
            return
        values = (self._next - 1, self._end - 1)
        self._control.write(lambda: self._control.connection.execute(_GIVE_BACK, values))
        self._highest = self._next - 1
        self.drop()


_COLUMNS: Final = "source, number, forced, started_at, due, job"
_OPEN: Final = f"INSERT INTO run ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) RETURNING no"
#: SQLite gives the number of a deleted last row out again; PostgreSQL never does.
_OPEN_NEXT: Final = f"""
INSERT INTO run (no, {_COLUMNS})
SELECT 1 + max((SELECT coalesce(max(no), 0) FROM run),
               (SELECT coalesce(max(value), 0) FROM sequence WHERE name = 'run'),
               (SELECT coalesce(max(run), 0) FROM trust)), ?, ?, ?, ?, ?, ?
RETURNING no
"""
_KEEP: Final = """
INSERT INTO sequence (name, value) SELECT 'run', coalesce(max(no), 0) FROM run WHERE true
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""


def insert_run_row(connection: Connection, values: Sequence[Any]) -> int:
    """Insert a run with a number that no run ever had, and return it.

    ``values``: source, number, forced, started_at, due, job.
    """
    statement = _OPEN if connection.dialect == "postgres" else _OPEN_NEXT
    return int(connection.execute(statement, tuple(values)).get)


def keep_last_run_number(connection: Connection) -> None:
    """Remember the highest number of a run before runs are deleted. The caller's transaction."""
    if connection.dialect != "postgres":
        connection.execute(_KEEP)
