"""The embedded index, in the registry's own database (ADR 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from smartcrawl.index.embedded import postgres, sqlite
from smartcrawl.index.embedded.finding import IndexTables
from smartcrawl.index.embedded.state import index_state
from smartcrawl.index.ranking import QueryMeaning
from smartcrawl.index.searching import PLAIN, Answer, AnswerForm, find_index_hits
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import AnalyzingSink
from smartcrawl.registry.visibility import Readable


def embedded_index(connection: Connection) -> AnalyzingSink:
    """Return the index that writes over a connection of the registry, in its transaction."""
    if connection.dialect == "postgres":
        return postgres.PostgresIndex(connection)
    return sqlite.EmbeddedIndex(connection)


def search_embedded_index(
    connection: Connection,
    query: str,
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    offset: int = 0,
    marks: tuple[str, str] = ("[", "]"),
    language: str = "",
    meaning: QueryMeaning | None = None,
    readable: Readable = None,
    form: AnswerForm = PLAIN,
) -> Answer:
    """Return the pages that answer ``query``, best first; ``sources`` empty means all.

    ``meaning`` finds the vector of a query, where meaning counts, too. ``readable``: the sources
    of which anything counts; None: all.
    """
    state = index_state(connection)
    is_sqlite = connection.dialect == "sqlite"
    matching = sqlite.Fts5(state.until, state) if is_sqlite else postgres.TsVector()
    found = find_index_hits(
        query,
        partial(IndexTables, connection, matching, state=state, readable=readable),
        sources=sources,
        limit=limit,
        offset=offset,
        marks=marks,
        language=language,
        meaning=meaning,
        readable=readable,
        form=form,
    )
    return Answer(found.hits, found.meant, facets=found.facets)
