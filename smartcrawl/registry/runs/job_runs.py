"""The record of a job's run that its crawl makes: the run, and the process (docs/adr/0053)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection

PREFIX: Final = "jb_"  #: of the ids of jobs' runs, beside those of scrapyd
_RECORD: Final = """
UPDATE job_run SET run = ?, host = ?, pid = ?, process_start = ?
 WHERE id = ? AND state IN ('waiting', 'running')
"""


def record_job_process(connection: Connection, job_run: str | None, run: int) -> None:
    """Record that this process crawls for a job; None: it does for none. The caller's transaction.

    ``run``: run.no. The crawl records it itself, so that it is true if the server died.
    """
    if job_run is not None:
        this = Process.this()
        connection.execute(_RECORD, (run, this.host, this.pid, this.start, job_run))
