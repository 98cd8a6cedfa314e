"""The counts in the row of a run, compared with a scan of all pages (ADR 58)."""

import json
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import Word

_COLUMNS = "SELECT queued, hosts, words, visits, bytes_downloaded, marks FROM run WHERE no = ?"
_QUEUED = "SELECT count(*) FROM state WHERE reached_run = :run AND visited_run < :run"
_HOSTS = "SELECT count(DISTINCT host) FROM state WHERE visited_run = ?"
_WORDS = """
SELECT outcome, count(*) FROM state WHERE visited_run = ? AND outcome IS NOT NULL GROUP BY 1
"""


def stored_counts(connection: Connection, run: int) -> tuple[int, int, dict[str, int]]:
    """What the row of the run has: queued pages, hosts, words."""
    row: Any = connection.execute(_COLUMNS, (run,)).fetchall()[0]
    last = json.loads(row[5])[-1]
    assert last[1:] == [row[3], row[4]], f"the newest mark {last} is not of now: {row}"
    return row[0], row[1], json.loads(row[2])


def scanned(connection: Connection, run: int) -> tuple[int, int, dict[str, int]]:
    """What a scan of all pages finds."""
    queued = connection.execute(_QUEUED, {"run": run}).fetchall()[0][0]
    hosts = connection.execute(_HOSTS, (run,)).fetchall()[0][0]
    rows: Any = connection.execute(_WORDS, (run,)).fetchall()
    return queued, hosts, {Word(code).word: count for code, count in rows}


def counts_are_true(connection: Connection, run: int) -> bool:
    """Whether both are the same; raises when they are not."""
    assert stored_counts(connection, run) == scanned(connection, run), f"the counts of run {run}"
    return True
