"""The progress of a job's last run (R2-26)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.jobs import JobStatus
from smartcrawl.rules.model import Word
from smartcrawl.server.jobs.job import Job

_LAST: Final = """
SELECT r.no, r.visits, r.bytes_downloaded FROM run r
 WHERE r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = ?)
"""
_COUNTS: Final = """
SELECT count(*) FILTER (WHERE reached_run = :run AND visited_run < :run),
       count(*) FILTER (WHERE visited_run = :run AND outcome IN (:failed, :lost)),
       count(DISTINCT host) FILTER (WHERE visited_run = :run)
  FROM state WHERE reached_run = :run OR visited_run = :run
"""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Counts of the last run of a job that was opened; zeros before the first."""

    crawled: int = 0
    queued: int = 0
    failed: int = 0
    downloaded: int = 0  #: bytes
    domains: int = 0

    @classmethod
    def of(cls, connection: Connection, job: int) -> JobProgress:
        """Return the progress as committed; ``job``: job.no."""
        run: Any = connection.execute(_LAST, (job,)).fetchone()
        if run is None:
            return cls()
        names = {"run": run[0], "failed": Word.FAILED, "lost": Word.LOST}
        queued, failed, domains = connection.execute(_COUNTS, names).get
        return cls(run[1], queued, failed, run[2], domains)

    def data(self, job: Job, now: int) -> dict[str, Any]:
        """Return progress, timing and rate; the rate is the mean since the run began."""
        seconds = _elapsed(job, now)
        pages, size = (
            (round(count / seconds, 2) if seconds else 0.0)
            for count in (self.crawled, self.downloaded)
        )
        remains = self.queued / pages if job.status is JobStatus.RUNNING and pages else None
        return {
            "progress": {
                "pages_crawled": self.crawled,
                "pages_queued": self.queued,
                "pages_failed": self.failed,
                "bytes_downloaded": self.downloaded,
                "domains_visited": self.domains,
            },
            "timing": {
                "started_at": iso_time(job.started_at),
                "elapsed_seconds": seconds,
                "estimated_completion": None if remains is None else iso_time(now + int(remains)),
            },
            "rate": {"pages_per_second": pages, "bytes_per_second": size},
        }


def _elapsed(job: Job, now: int) -> int:
    """Return how long the last run took, or has taken so far, in seconds."""
    if job.started_at is None:
        return 0
    return max(0, (now if job.completed_at is None else job.completed_at) - job.started_at)
