"""Times at which jobs are due, after the clock was wrong for a while."""

from __future__ import annotations

from smartcrawl.registry.connection import Connection
from smartcrawl.sources.jobs import CronSchedule

_TAKEN = "SELECT 1 FROM job_run WHERE job = ? AND due_at = ?"


def free_job_due_time(connection: Connection, job: int, cron: str | None, now: int) -> int:
    """Return the first time from ``now`` on at which a job may be due and none of its runs was.

    ``job``: job.no. ``cron``: its stored expression; None: it runs once, and any time will do.

    Raises:
        ValueError: the expression has no such time, or this version refuses it.
    """
    schedule = None if cron is None else CronSchedule(cron)
    at = now if schedule is None else schedule.next_fire(now)
    while connection.execute(_TAKEN, (job, at)).get is not None:
        at = at + 1 if schedule is None else schedule.next_fire(at)
    return at
