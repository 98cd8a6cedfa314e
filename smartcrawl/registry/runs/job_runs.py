"""The record of a job's run that its crawl makes: run and process (ADR 53, 57)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder

PREFIX: Final = "jb_"  #: of the ids of jobs' runs, beside those of scrapyd
_RECORD: Final = """
UPDATE job_run SET run = ?, host = ?, pid = ?, process_start = ?
 WHERE id = ? AND state IN ('waiting', 'running') RETURNING requested
"""
_ORDERS: Final = frozenset(RunOrder)


def store_job_process_row(connection: Connection, job_run: str | None, run: int, now: int) -> None:
    """Record that this process crawls for a job; None: it does for none. The caller's transaction.

    ``run``: run.no. The crawl records it itself, so that it is true if the server died. An order
    that came while the process started is passed on to the run.
    """
    if job_run is None:
        return
    this = Process.this()
    row = (run, this.host, this.pid, this.start, job_run)
    requested = connection.execute(_RECORD, row).get
    if requested in _ORDERS:
        order_run_row(connection, run, RunOrder(requested), now)
