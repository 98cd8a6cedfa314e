"""Names of sources and of seeds, and the words for the outcomes of pages.

The names of seeds, and where each of them may lead.

Source: ADR 123.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.model.exceptions import UnknownNameError
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.rules.connections import SeedReach
from smartcrawl.rules.model import Word

_SOURCES = "SELECT name FROM source ORDER BY name"
#: The outcome as reports show it: a clone's *new* and *modified* read *clone* (rules.model.Word).
OUTCOME = """
    CASE WHEN s.outcome IN (1, 2) AND r.duplicate_of IS NOT NULL THEN 4 ELSE s.outcome END"""
#: Counts of the visits that an unfinished run has committed; only a settled run has stored ones.
_COUNTS = f"""
SELECT {OUTCOME}, count(*)
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = ? AND s.outcome IS NOT NULL GROUP BY 1
"""


def stored_sources_named(connection: Connection, name: str | None) -> list[str] | None:
    """Return the sources that ``name`` selects: [] for all, None if there is no such source.

    A bare host also means the ad-hoc sources of its other ports.
    """
    if name is None:
        return []
    return sources_of_name(name, stored_source_names(connection)) or None


def sources_of_name(name: str, known: Sequence[str]) -> list[str]:
    """Return those of the ``known`` sources that a name means: a host, also its other ports.

    >>> sources_of_name("a", ["a", "a:81"]), sources_of_name("b", ["b:80", "b:81"])
    (['a'], ['b:80', 'b:81'])
    """
    if name in known:
        return [name]
    return [one for one in known if name and one.rpartition(":")[0] == name]


def stored_page_counts(connection: Connection, run: int) -> dict[str, int]:
    """Return the number of pages that a run has visited so far, by outcome."""
    rows: Any = connection.execute(_COUNTS, (run,)).fetchall()
    return {Word(code).word: count for code, count in rows}


def stored_source_names(connection: Connection) -> list[str]:
    """Return the names of all sources that were ever crawled."""
    return [name for (name,) in connection.execute(_SOURCES)]


def unknown_source_error(name: str, known: Sequence[str]) -> UnknownNameError:
    """Return the error that no source has a name; ``known``: the names of all sources."""
    return UnknownNameError(f"no source is called {name!r}; known: {', '.join(known) or 'none'}")


_REACHES: Final = "SELECT name, reach FROM seed_name WHERE name IN carray(?)"
#: Of several processes that learn at once, the first one counts. An operator's word counts always.
_STORE: Final = """
INSERT INTO seed_name (name, reach) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET reach = excluded.reach WHERE excluded.reach = ?
"""


class SeedNameRows:
    """The rows of the names; they outlive their sources, so that no new source forgets them."""

    def __init__(self, control: DatabaseControl) -> None:
        self._control = control

    def reaches(self, names: Sequence[str]) -> dict[str, SeedReach | None]:
        """Return the reach of each name; None: it was never resolved."""
        connection = self._control.connection
        rows = self._control.retry(lambda: connection.execute(_REACHES, (Many(names),)).fetchall())
        found = {name: SeedReach(reach) for name, reach in rows}
        return {name: found.get(name) for name in names}

    def store(self, name: str, reach: SeedReach) -> None:
        """Store the first reach of a name, or the permission of the operator."""
        row = (name, int(reach), int(SeedReach.ANY))
        self._control.write(lambda: self._control.connection.execute(_STORE, row))
