"""What the steps of a library still owe its items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection

_OWED: Final = """
SELECT o.name, count(*), count(i.path),
       count(*) FILTER (WHERE i.path IS NULL),
       count(*) FILTER (WHERE i.processing_error IS NOT NULL),
       count(*) FILTER (WHERE i.path IS NOT NULL AND e.no IS NULL),
       count(f.no)
  FROM library_item i JOIN source o ON o.no = i.source
  LEFT JOIN (SELECT DISTINCT source, no FROM store_file WHERE status = 'completed') e
         ON e.source = i.source AND e.no = i.no
  LEFT JOIN embed_failure f ON f.no = i.no
 GROUP BY o.no, o.name
"""


class LibraryOwed(NamedTuple):
    """Numbers of items of one library."""

    items: int = 0
    files: int = 0  #: on the disk
    not_downloaded: int = 0
    not_processed: int = 0
    not_embedded: int = 0  #: files that no vector store has
    refused: int = 0  #: files among these that a store refused


def library_owed_rows(connection: Connection) -> dict[str, LibraryOwed]:
    """Return the numbers of each library with items, by the name of its source."""
    rows: Any = connection.execute(_OWED).fetchall()
    return {name: LibraryOwed(*numbers) for name, *numbers in rows}
