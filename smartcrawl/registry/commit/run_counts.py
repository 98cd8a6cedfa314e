"""The counts of a run, which each batch adds to the run's row (ADR 58).

A batch counts only the rows that it writes, before and after. So the columns equal a scan of all
pages, which they spare to those who poll.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Final

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RunOverError
from smartcrawl.registry.commit.run_samples import (
    failed_page_count,
    take_run_sample_row,
    take_run_sample_row_at_once,
)
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.rules.forecast import Mark, rate_marks_after
from smartcrawl.rules.model import Word
from smartcrawl.rules.progress import SAMPLE_SECONDS, is_sample_due

_COUNTED: Final = (
    "visits",
    "unreachable",
    "requests",
    "conditional_requests",
    "data_requests",
    "renderings",
    "not_modified",
    "bytes_downloaded",
    "bytes_saved",
    "reextracted",
)
#: The first statement of a batch locks the run's row.
_BEGIN: Final = f"""
UPDATE run SET {", ".join(f"{name} = {name} + :{name}" for name in _COUNTED)}
 WHERE no = :run AND state < 2
RETURNING visits, bytes_downloaded, words, marks, sampled_at, sample_seconds
"""
_END: Final = """
UPDATE run SET visits = :visits, queued = queued + :queued, hosts = hosts + :hosts, words = :words,
       marks = :marks
 WHERE no = :run
"""
_NEWLY_REACHED: Final = """
SELECT count(*) FROM state
 WHERE no IN carray(:numbers) AND reached_run < :run AND visited_run < :run
"""
_STANDINGS: Final = """
SELECT CASE WHEN visited_run = :run THEN coalesce(outcome, 0) WHEN reached_run = :run THEN -1 END,
       count(*)
  FROM state WHERE no IN carray(:numbers) GROUP BY 1
"""
_STANDINGS_BY_HOST: Final = """
SELECT CASE WHEN visited_run = :run THEN coalesce(outcome, 0) WHEN reached_run = :run THEN -1 END,
       count(*), host
  FROM state WHERE no IN carray(:numbers) GROUP BY 1, 3
"""
_QUEUED: Final = -1  #: in the two statements above
_KNOWN_HOSTS: Final = "SELECT host FROM run_host WHERE run = ? AND host IN carray(?)"
_HOST_NAMES: Final = "SELECT name FROM host WHERE no IN carray(?)"
_ADD_HOST: Final = "INSERT INTO run_host (run, host) VALUES (?, ?)"
_ADD_QUEUED: Final = "UPDATE run SET queued = queued + 1 WHERE no = ?"
_WORDS_OF: Final = "SELECT words FROM run WHERE no = ?"
_SET_WORDS: Final = "UPDATE run SET words = ? WHERE no = ?"
_ALL_WORDS: Final = """
SELECT outcome, count(*) FROM state WHERE visited_run = ? AND outcome IS NOT NULL GROUP BY 1
"""
_EMBEDDED: Final = "UPDATE run SET embedded = coalesce(embedded, 0) + ? WHERE no = ?"
_OWED: Final = "UPDATE run SET owed = ? WHERE no = ?"
_NO_HOSTS: Final = "DELETE FROM run_host WHERE run = ?"
_ALL_HOSTS: Final = """
INSERT INTO run_host (run, host)
SELECT DISTINCT visited_run, host FROM state WHERE visited_run = ? AND host IS NOT NULL
"""
_RECOUNT: Final = """
UPDATE run
   SET queued = (SELECT count(*) FROM state WHERE reached_run = :run AND visited_run < :run),
       hosts = (SELECT count(*) FROM run_host WHERE run = :run)
 WHERE no = :run
"""
_TOTALS: Final = "SELECT visits, bytes_downloaded FROM run WHERE no = ?"
_SET_MARKS: Final = "UPDATE run SET marks = ? WHERE no = ?"

Words = Counter[str]  #: visited pages by Word.word


@dataclass(slots=True)
class VisitedHosts:
    """Hosts whose visits are committed and counted."""

    numbers: set[int] = field(default_factory=set)  #: host.no
    names: set[str] = field(default_factory=set)

    def update(self, others: VisitedHosts) -> None:
        """Add the hosts of a batch that is committed."""
        self.numbers |= others.numbers
        self.names |= others.names


class BatchCounts:
    """The counts of one batch at a time, made and written within its transaction."""

    def __init__(self, connection: Connection, run: int, known: VisitedHosts) -> None:
        """``known``: the hosts that this process has counted; the caller adds ``hosts`` to them."""
        self._connection = connection
        self._run = run
        self._known = known
        self._visits = self._size = self._queued = 0
        self._words: Words = Counter()
        self._marks: list[Mark] = []
        self._sampled_at: int | None = None
        self._sample_seconds = SAMPLE_SECONDS
        self._visiting: list[int] = []
        self._names: Set[str] = frozenset()
        self.hosts = VisitedHosts()  #: hosts that this batch was the first to visit

    def begin(self, counts: Counter[str]) -> None:
        """Add the counts that the batch brings, which locks the row of the run.

        Raises:
            RunOverError: the run is no longer open; nothing may be written to it.
        """
        values = {name: counts[name] for name in _COUNTED}
        rows: list[Any] = self._connection.execute(_BEGIN, {**values, "run": self._run}).fetchall()
        if not rows:
            raise RunOverError(
                f"run {self._run} was closed by another process while this one worked on it;"
                " start the crawl again"
            )
        self._visits, self._size, words, marks, self._sampled_at, self._sample_seconds = rows[0]
        self._queued, self._visiting, self.hosts = 0, [], VisitedHosts()
        self._words = Counter(json.loads(words))
        self._marks = stored_rate_marks(marks)

    def reach(self, batch: Batch) -> None:
        """Count the addresses and pages that the batch reaches, before they are written."""
        self._queued += len(batch.addresses)
        if batch.reached:
            values = {"numbers": Many(tuple(batch.reached)), "run": self._run}
            self._queued += int(self._connection.execute(_NEWLY_REACHED, values).get)

    def before_visits(self, batch: Batch) -> None:
        """Subtract the pages of the visits as they are before these are written."""
        pages = (visit.page.no for visit in batch.visits if not visit.again)
        self._visiting, self._names = [*batch.touched, *batch.aside, *pages], batch.hosts.keys()
        if self._visiting:
            self._count(_STANDINGS, -1)

    def after_visits(self, now: int, stale: int) -> None:
        """Add the pages of the visits as they are now, and write the counts to the run."""
        fresh = 0
        if self._visiting and self._names and self._names <= self._known.names:
            self._count(_STANDINGS, 1)
        elif self._visiting:
            visited = self._count(_STANDINGS_BY_HOST, 1)
            fresh = self._add_hosts(sorted(visited - self._known.numbers))
        mark = Mark(now, self._visits - stale, self._size)
        values = {
            "run": self._run,
            "visits": mark.visits,
            "queued": self._queued,
            "hosts": fresh,
            "words": _dumped(self._words),
            "marks": json.dumps(rate_marks_after(self._marks, mark), separators=(",", ":")),
        }
        self._connection.execute(_END, values)
        if is_sample_due(self._sampled_at, self._sample_seconds, now):
            failed = failed_page_count(self._words)
            take_run_sample_row(self._connection, self._run, now, failed)

    def _count(self, statement: str, sign: int) -> set[int]:
        """Count the visited pages as they are; return the hosts of those that are visited."""
        hosts: set[int] = set()
        values = {"numbers": numbers_for_sql(self._visiting), "run": self._run}
        for standing, count, *host in self._connection.execute(statement, values).fetchall():
            if standing == _QUEUED:
                self._queued += sign * count
            elif standing is not None:
                hosts.update(no for no in host if no is not None)
                if standing:
                    self._words[Word(standing).word] += sign * count
        return hosts

    def _add_hosts(self, hosts: list[int]) -> int:
        """Record hosts that this process visits for the first time; return how many are new."""
        if not hosts:
            return 0
        row = (self._run, Many(hosts))
        others = {no for (no,) in self._connection.execute(_KNOWN_HOSTS, row).fetchall()}
        names = self._connection.execute(_HOST_NAMES, (Many(hosts),)).fetchall()
        self.hosts = VisitedHosts(set(hosts), {name for (name,) in names})
        fresh = [(self._run, no) for no in hosts if no not in others]
        self._connection.executemany(_ADD_HOST, fresh)
        return len(fresh)


class WordChanges:
    """Changed words of pages that a run has visited; the caller's transaction."""

    def __init__(self, connection: Connection, run: int, numbers: Iterable[int]) -> None:
        """Look at the pages before they are changed."""
        self._connection = connection
        self._run = run
        self._numbers = numbers_for_sql(numbers)
        self._before = self._words()

    def write(self) -> None:
        """Write the difference to the run."""
        words = Counter(json.loads(self._connection.execute(_WORDS_OF, (self._run,)).get))
        words.update(self._words())
        words.subtract(self._before)
        self._connection.execute(_SET_WORDS, (_dumped(words), self._run))

    def _words(self) -> Words:
        values = {"numbers": self._numbers, "run": self._run}
        rows: list[Any] = self._connection.execute(_STANDINGS, values).fetchall()
        return Counter({Word(no).word: count for no, count in rows if no is not None and no > 0})


def stored_rate_marks(text: str) -> list[Mark]:
    """Return the marks of a run."""
    return [Mark(*mark) for mark in json.loads(text)]


def count_queued_row(connection: Connection, run: int) -> None:
    """Count an address that is registered by hand as reached by a run; lock the run's row."""
    connection.execute(_ADD_QUEUED, (run,))


def count_run_row_words(connection: Connection, run: int) -> None:
    """Count the words of a run's visits by a scan, at its end."""
    rows: list[Any] = connection.execute(_ALL_WORDS, (run,)).fetchall()
    words = Counter({Word(code).word: count for code, count in rows})
    connection.execute(_SET_WORDS, (_dumped(words), run))


def begin_run_row_counts(connection: Connection, run: int, now: int) -> None:
    """Begin the window of the rate, and take a sample, when a run is opened or resumed."""
    row: Any = connection.execute(_TOTALS, (run,)).fetchone()
    connection.execute(_SET_MARKS, (json.dumps([[now, *row]]), run))
    take_run_sample_row_at_once(connection, run, now)


def count_run_row_again(connection: Connection, run: int, now: int) -> None:
    """Count a run by a scan when it is resumed, since pages may have been removed meanwhile."""
    delete_run_host_rows(connection, run)
    connection.execute(_ALL_HOSTS, (run,))
    connection.execute(_RECOUNT, {"run": run})
    count_run_row_words(connection, run)
    begin_run_row_counts(connection, run, now)


def delete_run_host_rows(connection: Connection, run: int) -> None:
    """Delete the hosts of a run that is not open any more."""
    connection.execute(_NO_HOSTS, (run,))


def _dumped(words: Words) -> str:
    """Return the words as JSON, without those that no page has."""
    return json.dumps({word: words[word] for word in sorted(words) if words[word]})


def store_embedded_chunk_counts(
    connection: Connection, run: int, embedded: int, owed: int | None = None
) -> None:
    """Add the chunks that got a vector to a run's row. The caller opens the transaction.

    ``owed``: chunks of its source that have none at its end.
    """
    connection.execute(_EMBEDDED, (embedded, run))
    if owed is not None:
        connection.execute(_OWED, (owed, run))
