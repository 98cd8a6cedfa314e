"""Counts of the files that vector stores have of sources and pages, by the registry alone."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.reports.text import report_noun

_OF_SOURCES: Final = """
SELECT f.source, v.id, count(*) FILTER (WHERE f.status = 'completed'),
       count(*) FILTER (WHERE f.status <> 'completed')
  FROM store_file f JOIN vector_store v ON v.no = f.store
 GROUP BY f.source, v.no, v.id ORDER BY v.no
"""
_OF_PAGE: Final = """
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
    rows: Any = connection.execute(_OF_SOURCES)
    for source, *counts in rows:
        found[source].append(StoreCounts(*counts))
    return dict(found)


def reported_store_files_of_page(connection: Connection, no: int) -> list[dict[str, Any]]:
    """Return the files of the record with a number: store, id of the file, and status."""
    rows: Any = connection.execute(_OF_PAGE, (no,))
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
