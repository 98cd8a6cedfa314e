"""The row of a library's job, as its process reads and writes it (ADR 87).

The process records its own end, so that it is true if the server that started it died.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.processes import ProcessKind, ProcessRows
from smartcrawl.rules.model import RunOrder

PAUSED: Final = "paused"
CANCELLED: Final = "cancelled"
ENDED: Final = "ended"
_OPEN: Final = "state IN ('waiting', 'running')"
_BEGIN: Final = f"""
UPDATE library_job SET state = 'running' WHERE id = ? AND {_OPEN} RETURNING progress
"""
_ORDER: Final = "SELECT requested FROM library_job WHERE id = ?"
_PROGRESS: Final = f"UPDATE library_job SET progress = ? WHERE id = ? AND {_OPEN}"
_END: Final = f"""
UPDATE library_job SET state = ?, requested = NULL, run = ?, progress = coalesce(?, progress),
       result = ?, reasons = ?, exit_status = ?, ended_at = ?
 WHERE id = ? AND {_OPEN}
"""
_ORDERS: Final = frozenset(RunOrder)


class LibraryJobEnd(NamedTuple):
    """The end of a job's process."""

    state: str  #: PAUSED, CANCELLED or ENDED
    exit_status: int | None  #: None: it died, or did not begin
    result: Mapping[str, Any] | None = None  #: JSON; None: it is paused
    progress: Mapping[str, Any] | None = None  #: JSON that a resumed process begins with
    run: int | None = None  #: run.no of the run that is paused
    reasons: Sequence[str] = ()


def begin_library_job_row(connection: Connection, id_: str) -> dict[str, Any] | None:
    """Record that this process carries out a job; return its progress so far.

    None: the job is over, was never ordered, or another process carries it out. The caller's
    transaction.
    """
    if not ProcessRows(connection, ProcessKind.LIBRARY).record_first(id_):
        return None
    found = connection.execute(_BEGIN, (id_,)).get
    return None if found is None else dict(json.loads(found))


def library_job_order_row(connection: Connection, id_: str) -> RunOrder | None:
    """Return the order to a job; one row is read."""
    found = connection.execute(_ORDER, (id_,)).get
    return RunOrder(found) if found in _ORDERS else None


def store_library_job_progress(
    connection: Connection, id_: str, progress: Mapping[str, Any]
) -> None:
    """Record what a resumed process need not repeat. The caller's transaction."""
    connection.execute(_PROGRESS, (json.dumps(progress), id_))


def end_library_job_row(connection: Connection, id_: str, end: LibraryJobEnd, now: int) -> None:
    """Record the end of a job's process. The caller's transaction."""
    values = (
        end.state,
        end.run,
        None if end.progress is None else json.dumps(end.progress),
        None if end.result is None else json.dumps(end.result),
        json.dumps(list(end.reasons)),
        end.exit_status,
        None if end.state == PAUSED else now,
        id_,
    )
    connection.execute(_END, values)
