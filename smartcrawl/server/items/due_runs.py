"""Ordered runs of the due pages of a source: at most one waits for each (ADR 61).

A run that died leaves its pages due, so that it is begun anew instead of resumed. Any number of
servers may call all of this at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.processes import exit_status_signal
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, Started
from smartcrawl.rules.run_orders import EXIT_COMPLETE, EXIT_INCOMPLETE, EXIT_SOURCE_BUSY
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, Kind, Work

logger = logging.getLogger(__name__)

BUSY_AGAIN: Final = 5  #: seconds until a run whose source was busy tries again
#: It locks the row that waits, so that a claim comes after all that its order wrote.
_ORDER: Final = """
INSERT INTO due_run (source, at) VALUES (?, ?)
ON CONFLICT (source) DO UPDATE SET at = min(due_run.at, excluded.at)
"""
_IS_ORDERED: Final = "SELECT 1 FROM due_run WHERE source = ?"


def post_due_run(connection: Connection, source: str, now: int) -> None:
    """Order a run of the due pages of a source, unless one waits. The caller's transaction."""
    connection.execute(_ORDER, (source, now))


@dataclass(frozen=True, slots=True)
class DueRun(Work):
    """An ordered run that a server has begun, by the name of its source."""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the ordered run of {self.name}"

    @property
    def log(self) -> str:
        """The name of the log that all ordered runs of its source share."""
        return f"due-{self.name}.log"

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the command of what is due of its source."""
        return [*program.due, f"--source={self.name}"]


class DueRuns(Kind[DueRun]):
    """The ordered runs.

    One waits while all pages are being marked, while its source is being crawled, while its job is
    paused or begins, and for older jobs.
    """

    kind = ProcessKind.DUE
    WAITING = """
SELECT d.source, d.source FROM due_run d LEFT JOIN process b ON b.kind = 'due' AND b.id = d.source
 WHERE d.at <= :now AND b.server IS NULL AND NOT EXISTS (SELECT 1 FROM rebuild)
   AND NOT EXISTS (SELECT 1 FROM job j WHERE j.name = d.source AND j.deleted_at IS NULL
                      AND j.status = 'paused')
   AND NOT EXISTS (SELECT 1 FROM job_run k JOIN job j ON j.no = k.job
                     LEFT JOIN process p ON p.kind = 'crawl' AND p.id = k.id
                    WHERE k.state IN ('waiting', 'running') AND j.deleted_at IS NULL
                      AND (j.name = d.source AND p.server IS NOT NULL
                           OR p.server IS NULL AND k.fired_at < d.at
                              AND j.status IN ('created', 'scheduled', 'running')))
 ORDER BY d.at, d.no
"""
    LOCK = "DELETE FROM due_run WHERE source = ?"
    BEGUN = f"""
SELECT p.id, {PROCESS_COLUMNS} FROM process p
 WHERE p.kind = 'due' AND p.server IS NOT NULL AND p.id = coalesce(:id, p.id) ORDER BY p.id
"""

    def of(self, row: Sequence[Any]) -> DueRun:
        """Return the run of a row."""
        return DueRun(row[0], row[0], Started.of(row[1:]))

    def exited(self, work: DueRun, exited: Exited, log: str, now: int) -> None:
        """Record the exit of a process."""
        status = exited.status
        if status == EXIT_SOURCE_BUSY:
            self._again(work, now + BUSY_AGAIN, is_new=True)
        elif status < 0:
            self.died(work, f"its process was ended by {exit_status_signal(status)}", now)
        elif status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
            self.control.write(lambda: self.rows.forget(work.id))
            logger.info("%s ended: exit status %d", work.label, status)
        else:
            self.end(work, status, now, f"exit status {status}: see {log}")

    def died(self, work: DueRun, why: str, now: int) -> bool:
        """Let it wait again, once."""
        if work.is_spent:
            self.end(work, None, now, why)
        else:
            logger.warning("%s begins again: %s", work.label, why)
            self._again(work, now, is_new=False)
        return False

    def end(self, work: DueRun, status: int | None, now: int, *reasons: str) -> None:
        """Forget a run that failed: its pages stay due."""
        self.control.write(lambda: self.rows.forget(work.id))
        logger.error("%s failed: %s", work.label, "; ".join(reasons))

    def _again(self, work: DueRun, at: int, *, is_new: bool) -> None:
        """Let a run wait until ``at`` at least; with another that waits it is one, and new."""

        def again() -> None:
            if is_new or self._connection.execute(_IS_ORDERED, (work.id,)).get is not None:
                self.rows.forget(work.id)
            else:
                self.rows.release(work.id)
            post_due_run(self._connection, work.name, at)

        self.control.write(again)
