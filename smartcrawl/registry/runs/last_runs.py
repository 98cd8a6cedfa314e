"""The last run of a source, as a process finds it that is to begin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

from smartcrawl.model.exceptions import RunPausedError
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import Beginning, beginning_after_order

_LAST = """
SELECT no, state, forced, started_at, cut, due, job, requested, requested_at FROM run
 WHERE source = ? AND (job = ? OR ? IS NULL) ORDER BY no DESC LIMIT 1
"""
_RUN_OF_JOB: Final = "SELECT run FROM job_run WHERE id = ?"


class Request(Protocol):
    """The run that a process asks for (runs.RunRequest)."""

    @property
    def source(self) -> str:
        """Name of the source."""

    @property
    def resume(self) -> bool:
        """Whether the last run may go on."""

    @property
    def job(self) -> str | None:
        """Name that all workers of one run are given."""

    @property
    def job_run(self) -> str | None:
        """Id of the job's run that asks for it (job_run.id)."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a source, before another process begins."""

    no: int
    state: RunState
    forced: bool
    started_at: int
    cut: str
    due: bool
    job: str | None
    order: RunOrder | None
    ordered_at: int | None  #: Unix seconds

    @classmethod
    def of(cls, connection: Connection, source: int, job: str | None = None) -> Self | None:
        """Read the last run of a source (source.no), or the last one of a job; None without one."""
        row: Any = connection.execute(_LAST, (source, job, job)).fetchone()
        if row is None:
            return None
        no, state, forced, started_at, cut, due, named, order, at = row
        return cls(
            no,
            RunState(state),
            bool(forced),
            started_at,
            cut,
            bool(due),
            named,
            None if order is None else RunOrder(order),
            at,
        )

    def beginning(
        self, connection: Connection, request: Request, *, at_work: bool
    ) -> Beginning | None:
        """Return the beginning that this run leaves to a process; None: it may open or resume one.

        ``at_work``: whether other workers have not left it yet.

        Raises:
            RunPausedError: it is paused, and the request neither resumes it nor has its job.
        """
        if not at_work and self._is_swept_for_job(connection, request):
            return Beginning.OVER
        same = request.job is not None and self.job == request.job
        found = beginning_after_order(
            self.order, self.state, resume=request.resume, same_job=same, at_work=at_work
        )
        if found is Beginning.REFUSED:
            at = datetime.fromtimestamp(self.ordered_at or 0, UTC)
            raise RunPausedError(request.source, self.no, at.isoformat(timespec="seconds"))
        return found

    def _is_swept_for_job(self, connection: Connection, request: Request) -> bool:
        """Whether a process is to go on with a job's run that needed no more than its sweep.

        The caller has swept it: there is no work left, and no page is asked again.
        """
        if not request.resume or request.job_run is None or self.state is not RunState.SWEPT:
            return False
        run: int | None = connection.execute(_RUN_OF_JOB, (request.job_run,)).get
        return run == self.no
