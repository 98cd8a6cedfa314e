"""The sources that a caller may read, out of the registry (ADR 147).

Whatever answers a caller asks here, and puts the answer into its queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.visibility import Reader, Visibility

#: The names of private sources; an index has them, so that it costs nothing where there are none.
PRIVATE_SOURCES: Final = "SELECT name FROM source WHERE visibility = 'private'"
_SOURCES: Final = "SELECT name, visibility FROM source ORDER BY name"

#: Sources that were never crawled, and have addresses that wait for their first run.
_WAITED_FOR: Final = """
SELECT w.source FROM (SELECT source FROM pending_pin UNION SELECT source FROM ordered_address) AS w
 WHERE NOT EXISTS (SELECT 1 FROM source o WHERE o.name = w.source) ORDER BY 1
"""

#: Names of sources, in their order; None: all.
Readable = Sequence[str] | None


def readable_sources(
    connection: Connection, reader: Reader, private: Iterable[str] | None = None
) -> Readable:
    """Return the sources that a caller may read; None: every one.

    ``private``: those that are stored as private, where a query has read them already.
    """
    if reader.sees_all:
        return None
    if private is None and not reader.sources:
        private = [name for (name,) in connection.execute(PRIVATE_SOURCES)]
    if reader.reads_every(private or ()):
        return None
    rows: Any = connection.execute(_SOURCES).fetchall()
    return tuple(name for name, stored in rows if reader.may_read(name, Visibility(stored)))


def readable_waiting_sources(connection: Connection, reader: Reader) -> Readable:
    """Return what ``readable_sources`` does, and sources that are not crawled but waited for."""
    readable = readable_sources(connection, reader)
    if readable is None:
        return None
    waiting = (name for (name,) in connection.execute(_WAITED_FOR).fetchall())
    return (*readable, *(name for name in waiting if reader.may_read(name, None)))


def readable_source_names(connection: Connection, reader: Reader) -> list[str]:
    """Return the names of all sources that a caller may read."""
    rows: Any = connection.execute(_SOURCES).fetchall()
    return [name for name, stored in rows if reader.may_read(name, Visibility(stored))]


def stored_visibilities(connection: Connection) -> dict[str, Visibility]:
    """Return the visibility of each source that was ever crawled, by name."""
    rows: Any = connection.execute(_SOURCES).fetchall()
    return {name: Visibility(stored) for name, stored in rows}
