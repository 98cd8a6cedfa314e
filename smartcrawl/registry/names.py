"""Names of sources, and the words for the outcomes of pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smartcrawl.model.exceptions import UnknownNameError
from smartcrawl.registry.connection import Connection
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
