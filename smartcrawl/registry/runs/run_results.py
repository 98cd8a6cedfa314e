"""The figures of a run, and the addresses that it started from.

Start addresses of ad-hoc sources, taken from their last run.

A start that never brought a page, such as a mistyped address, is not used again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from smartcrawl.registry.commit.visit import EVERY_RUN
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.names import stored_page_counts
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.removal.tombstones import is_empty_source
from smartcrawl.registry.runs.runs import Role
from smartcrawl.rules.model import Word
from smartcrawl.sources.kinds import GITHUB, source_kind_named

_LAST = """
SELECT r.no, r.url, d.pinned, coalesce(r.redirect_no, r.no)
  FROM source o CROSS JOIN seed d JOIN record r ON r.no = d.no
 WHERE o.name = :name AND NOT o.declared AND d.pinned <> 1
   AND d.run = (
       SELECT coalesce(max(e.run) FILTER (WHERE s.standing > 0 OR q.last_indexed IS NOT NULL
                                             OR t.standing > 0), max(e.run))
         FROM run u JOIN seed e ON e.run = u.no JOIN record q ON q.no = e.no
              JOIN state s ON s.no = q.no LEFT JOIN state t ON t.no = q.redirect_no
        WHERE u.source = o.no AND e.pinned <> 1 AND u.no < :before)
 ORDER BY r.no
"""
_ROOT = "SELECT root FROM source WHERE name = ? AND NOT declared"
_KIND = "SELECT kind FROM source WHERE name = ?"
_ENDS = "SELECT coalesce(redirect_no, no) FROM record WHERE no IN carray(?)"


class Start(NamedTuple):
    """An address that a run started from."""

    no: int
    url: str
    role: Role
    end: int  #: number of the address that it redirects to; else ``no``


def last_start_rows(connection: Connection, name: str, before: int = EVERY_RUN) -> list[Start]:
    """Return the starts for the next run of an ad-hoc source; none if it is declared.

    ``before``: only runs with a lower number count.
    """
    rows: Any = connection.execute(_LAST, {"name": name, "before": before}).fetchall()
    return [Start(no, url, Role(role), end) for no, url, role, end in rows]


def last_root_row(connection: Connection, name: str) -> str | None:
    """Return the URL that an ad-hoc source was listed from; None: it is declared, or not listed."""
    root = connection.execute(_ROOT, (name,)).get
    return None if root is None else str(root)


def stored_start_argument_rows(connection: Connection, name: str) -> dict[str, str] | None:
    """Return the spider, and the argument that names the root, of an ad-hoc source that is listed.

    None: it is declared, or not listed.
    """
    root = last_root_row(connection, name)
    if root is None:
        return None
    kind = source_kind_named(str(connection.execute(_KIND, (name,)).get))
    return {"spider": kind.spider, ("url" if kind is GITHUB else "root"): root}


def left_out_start_rows(
    connection: Connection, before: Iterable[Start], given: Iterable[int]
) -> list[Start]:
    """Return the starts of ``before`` that are not among ``given`` (record numbers).

    A redirected address counts as its target, too.
    """
    now = set(given)
    rows: Any = connection.execute(_ENDS, (numbers_for_sql(sorted(now)),)).fetchall()
    now.update(no for (no,) in rows)
    return [start for start in before if not now & {start.no, start.end}]


UNREAD: Final = "unread_files"  #: word of the note about documents that are not read, by kind
_RESULT = """
SELECT complete, reasons, counts, started_at, finished_at, requests, conditional_requests,
       not_modified, bytes_downloaded, bytes_saved, visits, removed, withheld, reextracted, notes,
       data_requests, renderings, edits, source
  FROM run WHERE no = ?
"""
_SITEMAP_COUNTS = """
SELECT count(*), coalesce(sum(l.count), 0),
       coalesce(sum(CASE WHEN s.outcome = 10 THEN 1 ELSE 0 END), 0)
  FROM record r JOIN state s USING (no) JOIN links l USING (no)
 WHERE r.source = ? AND r.kind > 0 AND s.standing = 1 AND s.visited_run = ?
"""
#: Sitemaps and feeds that a run asked in vain, by the number of their word.
_SITEMAPS_IN_VAIN = """
SELECT s.outcome, count(*) FROM record r JOIN state s USING (no)
 WHERE r.source = ? AND r.kind > 0 AND s.visited_run = ? AND s.outcome IN (?, ?, ?)
 GROUP BY s.outcome
"""
_TURNS = "SELECT count(*) FROM event WHERE run = ?"
#: Pages without text, usually because only a script would write it.
_WITHOUT_TEXT = """
SELECT count(*) FROM content c JOIN record r ON r.content = c.no
 WHERE c.source = ? AND c.text_length = 0
"""
#: Records without content whose word is of an earlier run: this one did not reach them, or asked
#: for a removed page and found it missing again.
_EARLIER = f"""
SELECT s.outcome, s.visited_run = :run, count(*) FROM state s
 WHERE s.standing = 0 AND s.outcome IS NOT NULL
   AND (s.reached_run < :run OR s.outcome = {int(Word.GONE)})
   AND s.reached_run IN (SELECT no FROM run WHERE source = :source)
   AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.record = s.no AND e.run = :run)
 GROUP BY 1, 2
"""
_IS_ONE_STORED = """
SELECT EXISTS (SELECT 1 FROM content c JOIN record r ON r.content = c.no WHERE c.source = ?)
"""
_NAME = "SELECT name FROM source WHERE no = ?"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The figures of a run."""

    no: int
    complete: bool
    reasons: tuple[str, ...]
    counts: dict[str, int]  #: records by lastOutcome; of an unfinished run, its visits
    started_at: int
    finished_at: int | None
    requests: int
    conditional_requests: int
    not_modified: int
    bytes_downloaded: int
    bytes_saved: int
    visits: int
    removed: int  #: pages that its sweep removed
    withheld: int  #: candidates that wait for the operator's approval
    reextracted: int  #: pages re-extracted from their snapshots
    notes: tuple[str, ...]  #: ignored answers and canonical links, and why
    sitemaps: int = 0  #: sitemaps and feeds that were visited and are stored
    sitemap_urls: int = 0  #: addresses in those sitemaps and feeds
    sitemaps_excluded: int = 0  #: those of the sitemaps and feeds that ``counts`` has as excluded
    no_text: int = 0  #: stored pages without text
    is_one_stored: bool = False  #: whether a page of the source is stored
    edits: int = 0  #: collapsed pages that were accepted as edits
    turned: int = 0  #: changes of status: pages that were lost, found, excluded or removed
    earlier: dict[str, int] = field(default_factory=dict)  #: those of ``counts`` from earlier runs
    still_gone: int = 0  #: those of ``earlier`` that this run asked for, and that were missing
    #: sitemaps and feeds that ``counts`` has as failed, lost or gone, by these words
    sitemaps_in_vain: dict[str, int] = field(default_factory=dict)
    is_empty: bool = False  #: whether nothing is stored of the source, and ``forget`` deletes it
    data_requests: int = 0  #: for data of rendered pages, beside ``requests``
    renderings: int = 0  #: pages that a browser showed

    @property
    def own_counts(self) -> dict[str, int]:
        """The records by lastOutcome that this run itself reached, looked at or removed."""
        found = {word: n - self.earlier.get(word, 0) for word, n in self.counts.items()}
        return {word: n for word, n in found.items() if n > 0}


def stored_run_result(connection: Connection, run: int) -> RunResult:
    """Return the figures of a run; of an unfinished one, those that are committed."""
    row: Any = connection.execute(_RESULT, (run,)).fetchone()
    reasons, counts, notes = (json.loads(row[place]) for place in (1, 2, -5))
    maps: Any = connection.execute(_SITEMAP_COUNTS, (row[-1], run)).fetchone()
    swept = bool(counts)  # a sweep counts the whole source
    if not swept:
        counts = stored_page_counts(connection, run)
    earlier, still_gone = _earlier(connection, run, row[-1], swept=swept)
    empty = int(connection.execute(_WITHOUT_TEXT, (row[-1],)).get)
    values: list[Any] = [bool(row[0]), tuple(reasons), counts, *row[3:-5], tuple(notes), *maps]
    stored = bool(connection.execute(_IS_ONE_STORED, (row[-1],)).get)
    values += [empty, stored, max(0, row[-2]), int(connection.execute(_TURNS, (run,)).get)]
    name = str(connection.execute(_NAME, (row[-1],)).get)
    in_vain = (row[-1], run, Word.FAILED, Word.LOST, Word.GONE)
    words: Any = connection.execute(_SITEMAPS_IN_VAIN, in_vain)
    values += [earlier, still_gone, {Word(word).word: int(count) for word, count in words}]
    values += [not stored and is_empty_source(connection, name), row[-4], row[-3]]
    return RunResult(run, *values)


def _earlier(
    connection: Connection, run: int, source: int, *, swept: bool
) -> tuple[dict[str, int], int]:
    """Return the counted records whose word is of an earlier run, and how many were asked for.

    An unfinished run counts only its own visits.
    """
    rows: Any = connection.execute(_EARLIER, {"run": run, "source": source}).fetchall()
    earlier = Counter[str]()
    for code, visited, n in rows:
        if swept or visited:
            earlier[Word(code).word] += n
    return dict(earlier), sum(n for _, visited, n in rows if visited)
