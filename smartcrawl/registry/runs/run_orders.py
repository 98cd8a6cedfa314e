"""The order to a run: to pause, or to be cancelled (ADR 56); and the record of a job's run.

The order to a run: to pause, or to be cancelled (ADR 56).

The order is a column of the run, so that it reaches each of its workers, on whichever machine.
"""

from __future__ import annotations

from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.processes import ProcessKind, ProcessRows
from smartcrawl.rules.model import BEFORE_SEAL, RunOrder, RunState

_SEALED: Final = int(RunState.SEALED)
_INTERRUPTED: Final = int(RunState.INTERRUPTED)
#: A later pause changes nothing about a cancelled run.
_ORDER: Final = f"""
UPDATE run SET requested = :order, requested_at = :now
 WHERE no = :run AND state < {_SEALED} AND coalesce(requested, '') <> 'cancel'
"""
#: No process works on an interrupted run, so that the order can be carried out at once.
_CANCEL: Final = f"""
UPDATE run SET state = {int(RunState.CANCELLED)}, requested = 'cancel', requested_at = :now,
       reasons = '["cancelled"]', complete = FALSE
 WHERE no = :run AND state = {_INTERRUPTED}
"""
_LOCK: Final = "UPDATE run SET requested = requested WHERE no = ?"
_LOOK: Final = "SELECT requested FROM run WHERE no = ?"
_STATE: Final = "SELECT state FROM run WHERE no = ?"
_WITHDRAW: Final = f"""
UPDATE run SET requested = NULL, requested_at = NULL
 WHERE no = ? AND requested = 'pause' AND state IN (0, 1, {_INTERRUPTED})
"""


def order_run_row(connection: Connection, run: int, order: RunOrder, now: int) -> bool:
    """Order a run to end; return whether it takes the order. The caller's transaction.

    A run takes it before it is sealed. An interrupted run, a paused one among them, can only be
    cancelled, which is done at once. ``run``: run.no.
    """
    values = {"run": run, "order": order, "now": now}
    connection.execute(_ORDER, values)
    if connection.changes():
        return True
    if order is RunOrder.CANCEL:
        connection.execute(_CANCEL, values)
        return connection.changes() > 0
    return False


def run_order_row(connection: Connection, run: int) -> RunOrder | None:
    """Return the order to a run; one row is read. ``run``: run.no."""
    found = connection.execute(_LOOK, (run,)).get
    return None if found is None else RunOrder(found)


def lock_run_row(connection: Connection, run: int) -> None:
    """Let an order that comes from now on wait for this transaction."""
    connection.execute(_LOCK, (run,))


def is_run_row_before_seal(connection: Connection, run: int) -> bool:
    """Whether a run is open: a process may work on it, or died."""
    found = connection.execute(_STATE, (run,)).get
    return found is not None and RunState(found) in BEFORE_SEAL


def withdraw_run_order_row(connection: Connection, run: int) -> bool:
    """Withdraw a pause, so that the run may be resumed; return whether there was one."""
    connection.execute(_WITHDRAW, (run,))
    return connection.changes() > 0


PREFIX: Final = "jb_"  #: of the ids of jobs' runs, beside those of scrapyd
_RECORD: Final = """
UPDATE job_run SET run = ? WHERE id = ? AND state IN ('waiting', 'running') RETURNING requested
"""
_ORDERS: Final = frozenset(RunOrder)


def store_job_process_row(connection: Connection, job_run: str | None, run: int, now: int) -> None:
    """Record that this process crawls for a job; None: it does for none. The caller's transaction.

    ``run``: run.no. The crawl records it itself, so that it is true if the server died. An order
    that came while the process started is passed on to the run.
    """
    if job_run is None:
        return
    row: Any = connection.execute(_RECORD, (run, job_run)).fetchone()
    if row is None:
        return
    ProcessRows(connection, ProcessKind.CRAWL).record_this(job_run)
    if row[0] in _ORDERS:
        order_run_row(connection, run, RunOrder(row[0]), now)
