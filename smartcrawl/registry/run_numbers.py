"""Numbers of runs: none is given twice, though a source without pages is deleted with its runs.

Hosts keep the run that found them unreliable last, Redis may still have keys of a run, and an
operator may have written down the number of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.registry.connection import Connection

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
