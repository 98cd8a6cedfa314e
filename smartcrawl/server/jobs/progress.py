"""The progress of a job's last run (R2-26): one row, which the run's batches count in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.commit.run_counts import stored_rate_marks
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.jobs import JobStatus
from smartcrawl.rules.model import Word
from smartcrawl.rules.rate import Mark, completion_at_rate, rate_of_marks
from smartcrawl.server.jobs.job import Job

_LAST: Final = """
SELECT r.visits, r.queued, r.words, r.bytes_downloaded, r.hosts, r.marks FROM run r
 WHERE r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = ?)
"""
_FAILED: Final = (Word.FAILED, Word.LOST, Word.GONE)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Counts of the last run of a job that was opened; zeros before the first."""

    crawled: int = 0
    queued: int = 0
    failed: int = 0
    downloaded: int = 0  #: bytes
    domains: int = 0
    marks: tuple[Mark, ...] = ()  #: of the last minute

    @classmethod
    def of(cls, connection: Connection, job: int) -> JobProgress:
        """Return the progress as committed; ``job``: job.no."""
        run: Any = connection.execute(_LAST, (job,)).fetchone()
        if run is None:
            return cls()
        crawled, queued, stored, downloaded, hosts, marks = run
        words = json.loads(stored)
        failed = sum(words.get(word.word, 0) for word in _FAILED)
        return cls(crawled, queued, failed, downloaded, hosts, tuple(stored_rate_marks(marks)))

    def data(self, job: Job, now: int) -> dict[str, Any]:
        """Return progress, timing and rate; the rate is that of the last minute."""
        rate = rate_of_marks(self.marks, now)
        running = job.status is JobStatus.RUNNING
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
                "elapsed_seconds": _elapsed(job, now),
                "estimated_completion": iso_time(
                    completion_at_rate(self.queued, rate, now) if running else None
                ),
            },
            "rate": {
                "pages_per_second": round(rate.visits, 2),
                "bytes_per_second": round(rate.size, 2),
            },
        }


def _elapsed(job: Job, now: int) -> int:
    """Return how long the last run took, or has taken so far, in seconds."""
    if job.started_at is None:
        return 0
    return max(0, (now if job.completed_at is None else job.completed_at) - job.started_at)
