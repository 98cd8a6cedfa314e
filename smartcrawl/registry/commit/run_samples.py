"""Samples of the progress of a run, written with the batches that it writes anyway (ADR 171)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.rules.model import Word
from smartcrawl.rules.progress import MOST_SAMPLES, Sample, thinned_samples

_FAILED: Final = (Word.FAILED, Word.LOST, Word.GONE)
_TAKE: Final = """
INSERT INTO run_sample
       (run, at, visits, queued, requests, not_modified, failed, bytes_downloaded)
SELECT no, :at, visits, queued, requests, not_modified, :failed, bytes_downloaded
  FROM run WHERE no = :run
ON CONFLICT (run, at) DO UPDATE
   SET visits = excluded.visits, queued = excluded.queued, requests = excluded.requests,
       not_modified = excluded.not_modified, failed = excluded.failed,
       bytes_downloaded = excluded.bytes_downloaded
"""
_TAKEN: Final = """
UPDATE run SET sampled_at = :at, sample_seconds = sample_seconds * :times WHERE no = :run
"""
_COUNT: Final = "SELECT count(*) FROM run_sample WHERE run = ?"
_TIMES: Final = "SELECT at FROM run_sample WHERE run = ? ORDER BY at"
_THIN: Final = "DELETE FROM run_sample WHERE run = ? AND at IN carray(?)"
_NOW: Final = "SELECT sampled_at, words FROM run WHERE no = ?"
_SAMPLES: Final = """
SELECT at, visits, queued, requests, not_modified, failed, bytes_downloaded
  FROM run_sample WHERE run = ? AND at >= ? ORDER BY at
"""
_EXPIRE: Final = """
DELETE FROM run_sample WHERE run IN (SELECT no FROM run WHERE source = ? AND finished_at < ?)
"""


def failed_page_count(words: Mapping[str, int]) -> int:
    """Return how many visited pages failed, by the words of a run.

    >>> failed_page_count({"new": 3, "failed": 1, "lost": 1})
    2
    """
    return sum(words.get(word.word, 0) for word in _FAILED)


def take_run_sample_row(connection: Connection, run: int, at: int, failed: int) -> None:
    """Write a sample of the row of a run; thin the samples if there are too many.

    The caller's transaction has locked the row. ``failed``: pages.
    """
    values = {"run": run, "at": at}
    connection.execute(_TAKE, {**values, "failed": failed})
    is_full = int(connection.execute(_COUNT, (run,)).get) > MOST_SAMPLES
    if is_full:
        times = [moment for (moment,) in connection.execute(_TIMES, (run,)).fetchall()]
        connection.execute(_THIN, (run, Many(thinned_samples(times))))
    connection.execute(_TAKEN, {**values, "times": 2 if is_full else 1})


def take_run_sample_row_at_once(connection: Connection, run: int, now: int) -> None:
    """Write a sample of a run that begins, is resumed or ends; the caller's transaction.

    Where the clock was put back, it replaces the last one.
    """
    row: Any = connection.execute(_NOW, (run,)).fetchone()
    last, words = row
    at = now if last is None else max(now, last)
    take_run_sample_row(connection, run, at, failed_page_count(json.loads(words)))


def stored_run_samples(connection: Connection, run: int, since: int = 0) -> list[Sample]:
    """Return the samples of a run, oldest first; ``since``: Unix seconds."""
    rows: list[Any] = connection.execute(_SAMPLES, (run, since)).fetchall()
    return [Sample(*row) for row in rows]


def expire_run_sample_rows(connection: Connection, source: int, before: int) -> None:
    """Delete the samples of a source's runs that ended before a time (Unix seconds)."""
    connection.execute(_EXPIRE, (source, before))
