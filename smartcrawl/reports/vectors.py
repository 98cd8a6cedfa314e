"""Counts of the chunks that have vectors, and of the files that vector stores have."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.model.option_groups import ON_THIS_MACHINE
from smartcrawl.model.program import program_name
from smartcrawl.registry.chunks import (
    INDEXED_EMBEDDER,
    has_remote_chunk_rows,
    refused_reasons_text,
    remote_chunk_table,
    vector_table,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.choices import stored_choices
from smartcrawl.reports.text import report_noun

#: The embedder that was used last for all chunks, else the latest one.
_EMBEDDER: Final = """
SELECT whole_at IS NOT NULL, no, name, model, dimension FROM embedder
 ORDER BY whole_at IS NULL, whole_at DESC, no DESC LIMIT 1
"""
#: Others that are built beside it. One that was given up has unused vectors only.
_BUILT: Final = """
SELECT e.no, e.name, e.model, e.dimension FROM embedder e
 WHERE e.no <> :embedder
   AND (EXISTS (SELECT 1 FROM {vector} v WHERE v.embedder = e.no AND v.unused_since IS NULL)
        OR NOT EXISTS (SELECT 1 FROM {vector} v WHERE v.embedder = e.no))
 ORDER BY e.no DESC
"""
_COUNTS: Final = """
SELECT {key}, count(DISTINCT k.hash), count(DISTINCT v.hash) FILTER (WHERE v.refused IS NULL),
       count(DISTINCT v.hash) FILTER (WHERE v.refused IS NOT NULL)
  FROM {pages} JOIN {chunks} k ON k.content = {content}
  LEFT JOIN {vector} v ON v.hash = k.hash AND v.embedder = :embedder
 WHERE k.hash IS NOT NULL GROUP BY 1
"""
_REASONS: Final = """
SELECT DISTINCT v.refused FROM record r JOIN {chunks} k ON k.content = r.content
  JOIN {vector} v ON v.hash = k.hash
 WHERE r.no = :no AND v.embedder = :embedder AND v.refused IS NOT NULL ORDER BY 1
"""
_REASONS_OF_SOURCES: Final = """
SELECT c.source, v.refused, count(DISTINCT v.hash)
  FROM {vector} v JOIN {chunks} k ON k.hash = v.hash JOIN content c ON c.no = k.content
 WHERE v.embedder = :embedder AND v.refused IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 2
"""
_OF_SOURCES: Final = {"key": "c.source", "pages": "content c", "content": "c.no"}
_OF_PAGE: Final = {
    "key": "r.no",
    "pages": "(SELECT no, content FROM record WHERE no = :no) r",
    "content": "r.content",
}


class VectorCounts(NamedTuple):
    """The vectors of different chunks."""

    embedder: str
    model: str
    chunks: int
    embedded: int
    refused: int  #: their text can have no vector
    indexed: bool = True  #: whether the index has vectors of this embedder
    building: VectorCounts | None = None  #: of the embedder that is built beside this one
    reasons: Sequence[str] = ()  #: why texts are refused, the most frequent one first

    @property
    def may_ask_again(self) -> bool:
        """Whether a refused text may get a vector: a model on this machine refuses it for ever."""
        return self.refused > 0 and self.embedder not in ON_THIS_MACHINE

    @property
    def owed(self) -> int:
        """Chunks that are without a vector until a later run."""
        return self.chunks - self.embedded - self.refused

    def as_data(self) -> dict[str, Any]:
        """Return them as JSON."""
        building = None if self.building is None else self.building.as_data()
        return {
            **self._asdict(),
            "owed": self.owed,
            "building": building,
            "reasons": list(self.reasons),
        }

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> VectorCounts:
        """Return the counts that ``as_data`` returned as JSON.

        >>> counts = VectorCounts("local", "m", 9, 6, 1)
        >>> both = counts._replace(building=counts)
        >>> VectorCounts.of_data(both.as_data()) == both
        True
        """
        found = cls(**{name: data[name] for name in cls._fields})
        found = found._replace(reasons=tuple(found.reasons))
        if data["building"] is None:
            return found
        return found._replace(building=cls.of_data(data["building"]))


def reported_vectors_by_source(connection: Connection) -> dict[int, VectorCounts]:
    """Return the counts of sources, by their numbers; empty where no embedder was ever used."""
    return _counts(connection, _OF_SOURCES, {})


def reported_vectors_of_page(connection: Connection, no: int) -> VectorCounts | None:
    """Return the counts of the record with a number; None: no embedder, or no text."""
    return _counts(connection, _OF_PAGE, {"no": no}).get(no)


def vector_counts_lines(counts: VectorCounts) -> list[tuple[str, str]]:
    """Return the counts in words, each with its label: those of searches, and those beside.

    >>> counts = VectorCounts("local", "m", 9, 9, 0)
    >>> vector_counts_lines(counts)
    [('vectors', '9 of 9 chunks (local, m)')]
    >>> vector_counts_lines(counts._replace(building=VectorCounts("openai", "n", 9, 0, 0)))[1]
    ('building', '0 of 9 chunks (openai, n), 9 owed')
    """
    lines = [("vectors", vector_counts_text(counts))]
    if counts.building is not None:
        lines.append(("building", vector_counts_text(counts.building)))
    return lines


def vector_counts_text(counts: VectorCounts) -> str:
    """Return the counts of one embedder in words.

    >>> vector_counts_text(VectorCounts("local", "m", 9, 6, 1))
    '6 of 9 chunks (local, m), 1 refused, 2 owed'
    >>> "not in the index" in vector_counts_text(VectorCounts("local", "m", 9, 9, 0, False))
    True
    >>> vector_counts_text(VectorCounts("local", "m", 9, 8, 1, reasons=("it is empty",)))
    '8 of 9 chunks (local, m), 1 refused (it is empty)'
    """
    text = f"{counts.embedded:,} of {report_noun(counts.chunks, 'chunk')}"
    text += f" ({counts.embedder}, {counts.model})"
    why = f" ({refused_reasons_text(counts.reasons)})" if counts.reasons else ""
    more = ((counts.refused, f"refused{why}"), (counts.owed, "owed"))
    text += "".join(f", {number:,} {word}" for number, word in more if number)
    if not counts.indexed:
        text += f"; not in the index: {program_name()} reindex --from-registry"
    return text


def _counts(
    connection: Connection, parts: dict[str, str], names: dict[str, int]
) -> dict[int, VectorCounts]:
    embedder: Any = connection.execute(_EMBEDDER).fetchone()
    if embedder is None:
        return {}
    is_whole, number, *facts = embedder
    indexed = stored_choices(connection).get(INDEXED_EMBEDDER)
    is_there = not has_remote_chunk_rows(connection) or indexed == json.dumps(facts)
    found = _counts_of(connection, parts, names | {"embedder": number}, facts)
    if not is_there:
        found = {key: counts._replace(indexed=False) for key, counts in found.items()}
    if is_whole:
        for other, *other_facts in _built(connection, number):
            if is_there or indexed != json.dumps(other_facts):
                beside = _counts_of(connection, parts, names | {"embedder": other}, other_facts)
                return {
                    key: counts._replace(building=beside.get(key)) for key, counts in found.items()
                }
    return found


def _built(connection: Connection, number: int) -> list[Any]:
    statement = _BUILT.format(vector=vector_table(connection))
    return connection.execute(statement, {"embedder": number}).fetchall()


def _counts_of(
    connection: Connection, parts: dict[str, str], names: dict[str, int], facts: list[Any]
) -> dict[int, VectorCounts]:
    tables = {"vector": vector_table(connection), "chunks": remote_chunk_table(connection)}
    rows = connection.execute(_COUNTS.format(**tables, **parts), names).fetchall()
    found = {key: VectorCounts(*facts[:2], *counts) for key, *counts in rows}
    if "no" in names:  # of one page
        reasons = [why for (why,) in connection.execute(_REASONS.format(**tables), names)]
        return {key: counts._replace(reasons=tuple(reasons)) for key, counts in found.items()}
    reasons_of = defaultdict(list)
    for key, why, _ in connection.execute(_REASONS_OF_SOURCES.format(**tables), names).fetchall():
        reasons_of[key].append(why)
    return {key: counts._replace(reasons=tuple(reasons_of[key])) for key, counts in found.items()}


_PUSHED: Final = """
SELECT f.source, v.id, count(*) FILTER (WHERE f.status = 'completed'),
       count(*) FILTER (WHERE f.status <> 'completed')
  FROM store_file f JOIN vector_store v ON v.no = f.store
 GROUP BY f.source, v.no, v.id ORDER BY v.no
"""
_PUSHED_OF_PAGE: Final = """
SELECT v.id, f.file, f.status FROM store_file f JOIN vector_store v ON v.no = f.store
 WHERE f.no = ? ORDER BY v.no, f.intended_at, f.intent
"""


class StoreCounts(NamedTuple):
    """The files of a source in one vector store."""

    store: str  #: its id
    completed: int  #: pages that searches in it find
    open: int  #: files of which a push has still to hear, or that it has to remove

    def as_data(self) -> dict[str, Any]:
        """Return them as JSON."""
        return {"vectorStoreId": self.store, "completed": self.completed, "open": self.open}


def reported_stores_by_source(connection: Connection) -> dict[int, list[StoreCounts]]:
    """Return the counts of sources, by their numbers; empty where nothing was pushed."""
    found: dict[int, list[StoreCounts]] = defaultdict(list)
    rows: Any = connection.execute(_PUSHED)
    for source, *counts in rows:
        found[source].append(StoreCounts(*counts))
    return dict(found)


def reported_store_files_of_page(connection: Connection, no: int) -> list[dict[str, Any]]:
    """Return the files of the record with a number: store, id of the file, and status."""
    rows: Any = connection.execute(_PUSHED_OF_PAGE, (no,))
    return [
        {"vectorStoreId": store, "file": file, "status": status} for store, file, status in rows
    ]


def pushed_report_text(counts: StoreCounts) -> str:
    """Return the counts in words.

    >>> pushed_report_text(StoreCounts("vs_1", 1200, 3))
    '1,200 pages in vs_1, 3 open'
    """
    more = f", {counts.open:,} open" if counts.open else ""
    return f"{report_noun(counts.completed, 'page')} in {counts.store}{more}"
