"""Addresses that a source had before one of its runs, by their numbers."""

from __future__ import annotations

from typing import Final

from smartcrawl.registry.connection import Connection

EVERY: Final = 1 << 62  #: higher than any record.no
#: Numbers ascend in the order in which the runs of a source found the addresses, so that the last
#: records are enough: the plus sign keeps SQLite from reading all of the source by an index.
_MET_SINCE = """
SELECT min(no) FROM record
 WHERE +source = :source
   AND no > coalesce((SELECT no FROM record WHERE +source = :source AND first_run < :since
                       ORDER BY no DESC LIMIT 1), 0)
"""


def lowest_stored_number_met(connection: Connection, source: int, run: int) -> int:
    """Return the lowest number that ``run`` or a later run found in a source, else ``EVERY``.

    ``source``: source.no.
    """
    first = connection.execute(_MET_SINCE, {"source": source, "since": run}).get
    return EVERY if first is None else int(first)
