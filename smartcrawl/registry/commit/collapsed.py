"""Pages whose new texts wait for the end of their run, and former texts of pages.

Source: ADR 37, 93.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from smartcrawl.model.pages import Collapse
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.rules.model import Fault, RunState, Word
from smartcrawl.rules.shield import Waiting, edits_among_waiting, may_be_edits

_PUT = """
INSERT INTO collapse (no, run, text_hash, size, answer, body, shrank, repeated, content_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET run = excluded.run, text_hash = excluded.text_hash, size = excluded.size,
       answer = excluded.answer, body = excluded.body, shrank = excluded.shrank,
       repeated = excluded.repeated, content_hash = excluded.content_hash, accepted = FALSE
"""
_DECIDED = "SELECT edits FROM run WHERE no = ?"
_SUM = """
SELECT coalesce(sum(pages), 0), coalesce(max(pages), 0), coalesce(sum(size), 0)
  FROM (SELECT count(*) AS pages, sum(size) AS size FROM collapse WHERE run = ?
         GROUP BY text_hash) AS texts
"""
#: The first statement of the decision: it makes other workers wait.
_DECIDING = "UPDATE run SET edits = edits WHERE no = ? AND edits = 0 AND state = ?"
_PAGES = """
SELECT no, text_hash, shrank, repeated, content_hash FROM collapse WHERE run = ? ORDER BY no
"""
_ASKED = """
SELECT count(*), coalesce(sum(CASE WHEN http_status IN (200, ?) THEN 1 ELSE 0 END), 0)
  FROM state WHERE visited_run = ?
"""
#: Pages that have a content: whether it stood before the last complete run and this run confirmed
#: it, and whether it came in place of another one in this run.
_HOLDERS = f"""
SELECT s.visited_run = :run AND s.outcome = {int(Word.UNCHANGED)}
       AND coalesce(r.changed_run, r.first_run)
           <= (SELECT coalesce(max(no), 0) FROM run WHERE source = :source AND complete),
       r.changed_run = :run AND r.first_run < :run
  FROM content c JOIN record r ON r.content = c.no JOIN state s ON s.no = r.no
 WHERE c.source = :source AND c.content_hash = :content
"""
_SOURCE = "SELECT source FROM run WHERE no = ?"
_ACCEPT = "UPDATE run SET edits = ? WHERE no = ? AND edits = 0"
_ACCEPTED = "UPDATE collapse SET accepted = TRUE WHERE run = ? AND no IN carray(?)"
_EMPTIED = "UPDATE collapse SET body = NULL WHERE run = ? AND NOT accepted"
_NONE: Final = -1  #: in ``run.edits``: it is decided, and no page that shrank is an edit
_WAITING = "SELECT no, accepted FROM collapse WHERE run = ? ORDER BY no"
_ANSWER = "SELECT text_hash, answer, body FROM collapse WHERE no = ? AND body IS NOT NULL"
_TAKE = "DELETE FROM collapse WHERE no = ? AND run = ? AND accepted"
_DROP = "DELETE FROM collapse WHERE run = ? AND no IN carray(?)"
_DROP_ALL = "DELETE FROM collapse WHERE run IN (SELECT no FROM run WHERE source = ?)"
_FORMER = """
INSERT INTO former_text (no, first) VALUES (?, ?)
ON CONFLICT (no) DO UPDATE
   SET fifth = former_text.fourth, fourth = former_text.third, third = former_text.second,
       second = former_text.first, first = excluded.first
"""
_HAD = "SELECT 1 FROM former_text WHERE no = ? AND ? IN (first, second, third, fourth, fifth)"
_PREFIX: Final = 8  #: bytes stored of the hash of a former text


def store_collapsed_row(connection: Connection, run: int, number: int, collapse: Collapse) -> None:
    """Store the answer of a collapsed page; the caller's transaction has locked the run's row.

    As soon as the waiting pages cannot be edits any more (``may_be_edits``), all of them are
    withheld, and their bodies are deleted.
    """
    undecided = has_undecided_rows(connection, run)
    body = collapse.body if undecided else None
    size = len(collapse.body or b"")
    row = (number, run, collapse.text_hash, size, collapse.answer, body)
    connection.execute(_PUT, (*row, collapse.shrank, collapse.repeated, collapse.content_hash))
    if undecided:
        found: Any = connection.execute(_SUM, (run,)).fetchone()
        pages, alike, total = map(int, found)
        if not may_be_edits(pages, alike=alike, size=total):
            _accept(connection, run, [], edits=0)


def has_undecided_rows(connection: Connection, run: int) -> bool:
    """Whether a run has yet to decide about its collapsed pages."""
    return int(connection.execute(_DECIDED, (run,)).get) == 0


def update_collapsed_rows(connection: Connection, run: int) -> None:
    """Decide once whether the collapsed pages of a run are edits, if there are any.

    The queue of the run is empty. An earlier decision stays.
    """
    with transaction(connection):
        connection.execute(_DECIDING, (run, RunState.OPEN))
        if not connection.changes():
            return
        pages = _waiting_pages(connection, run)
        if not pages:
            return
        found: Any = connection.execute(_ASKED, (Fault.COLLAPSED, run)).fetchone()
        asked, bodies = map(int, found)
        taken = edits_among_waiting(pages, asked=asked, bodies=bodies)
        shrunk = sum(page.shrank for page in pages if page.no in taken)
        _accept(connection, run, sorted(taken), edits=shrunk)


def _waiting_pages(connection: Connection, run: int) -> list[Waiting]:
    """Return the pages that wait, each with the number of new clones of its content."""
    rows: Any = connection.execute(_PAGES, (run,)).fetchall()
    contents = Counter(bytes(row[4]) for row in rows if row[4] is not None)
    source = connection.execute(_SOURCE, (run,)).get
    clones = {}
    for content, waiting in contents.items():
        names = {"run": run, "source": source, "content": content}
        holders: Any = connection.execute(_HOLDERS, names).fetchall()
        stands = any(standing for standing, _ in holders)
        clones[content] = waiting + sum(bool(fresh) for _, fresh in holders) if stands else 0
    return [
        Waiting(no, bytes(text), bool(shrank), bool(repeated), clones.get(content or b"", 0))
        for no, text, shrank, repeated, content in rows
    ]


def _accept(connection: Connection, run: int, numbers: list[int], *, edits: int) -> None:
    """Write the decision of a run: the accepted pages, and how many of them shrank."""
    connection.execute(_ACCEPT, (edits or _NONE, run))
    connection.execute(_ACCEPTED, (run, Many(tuple(numbers))))
    connection.execute(_EMPTIED, (run,))


def waiting_collapsed_rows(connection: Connection, run: int) -> dict[int, bool]:
    """Return the waiting pages: record number -> whether it was accepted as an edit."""
    rows: Any = connection.execute(_WAITING, (run,)).fetchall()
    return {no: bool(accepted) for no, accepted in rows}


def read_collapsed_row(connection: Connection, number: int) -> Collapse | None:
    """Return the stored answer of a collapsed page, or None if it no longer waits."""
    row: Any = connection.execute(_ANSWER, (number,)).fetchone()
    return None if row is None else Collapse(bytes(row[0]), row[1], bytes(row[2]))


def delete_collapsed_row(connection: Connection, run: int, number: int) -> bool:
    """Delete the row of an accepted page, which the caller's transaction commits.

    Return False if it was committed before.
    """
    connection.execute(_TAKE, (number, run))
    return connection.changes() > 0


def delete_collapsed_rows(connection: Connection, run: int, numbers: Iterable[int]) -> None:
    """Delete the rows of withheld pages, after their old links have been offered."""
    with transaction(connection):
        connection.execute(_DROP, (run, Many(tuple(numbers))))


def delete_source_collapsed_rows(connection: Connection, source: int) -> None:
    """Delete the waiting pages of a source, whose run is over. The caller's transaction."""
    connection.execute(_DROP_ALL, (source,))


def store_former_hashes(connection: Connection, former: Mapping[int, bytes]) -> None:
    """Store the hashes of replaced texts, by record number."""
    if former:
        rows = [(no, _number(text_hash)) for no, text_hash in sorted(former.items())]
        connection.executemany(_FORMER, rows)


def stored_row_had_text(connection: Connection, number: int, text_hash: bytes) -> bool:
    """Whether a text is one of the last five that a page had before its present one."""
    return connection.execute(_HAD, (number, _number(text_hash))).get is not None


class CollapsedPageRows:
    """The collapsed pages of a run, decided over the control connection."""

    def __init__(self, control: DatabaseControl) -> None:
        self._control = control

    def decide(self, run: int) -> None:
        """Decide once whether the collapsed pages of a run are edits.

        See ``update_collapsed_rows``.
        """
        self._control.retry(lambda: update_collapsed_rows(self._control.connection, run))

    def drop(self, run: int, numbers: Iterable[int]) -> None:
        """Delete the rows of withheld pages (``delete_collapsed_rows``)."""
        self._control.retry(lambda: delete_collapsed_rows(self._control.connection, run, numbers))


def _number(text_hash: bytes) -> int:
    return int.from_bytes(text_hash[:_PREFIX], "big", signed=True)
