"""Pages that are near to a query in meaning, and their chunks to show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.index.embedded.conditions import NO_CONDITION
from smartcrawl.index.embedded.vectors import index_halfvec_text
from smartcrawl.index.ranking import MOST_SHOWN, NearPage, Ranked, RankedPart, VectorQuery
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.program import extra_installation
from smartcrawl.registry.chunks import vector_table
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.rules.vectors import fuse

#: Distances are those of vectors of length 1: their squares are 2 - 2 cos.
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT v.hash, {distance} AS distance FROM {table} v
     WHERE v.embedder = :embedder AND v.vector IS NOT NULL {filter}
     ORDER BY distance LIMIT :most
)
"""
_OF_NEAR = """
  FROM near n JOIN chunk k ON k.hash = n.hash
  JOIN content c ON c.no = k.content JOIN content p ON p.no = k.content
 WHERE {conditions}
"""
#: In SQLite the chunk is that of the least distance.
_PAGES: Final = {
    "sqlite": "SELECT k.content, min(n.distance), k.no"
    + _OF_NEAR
    + "GROUP BY k.content ORDER BY 2, k.content LIMIT :pool",
    "postgres": "SELECT * FROM (SELECT DISTINCT ON (k.content) k.content, n.distance, k.no"
    + _OF_NEAR
    + "ORDER BY k.content, n.distance, k.no) AS best ORDER BY 2, 1 LIMIT :pool",
}
_CHUNKS = """
SELECT content, no, headings, text, position FROM (
    SELECT k.content, k.no, k.headings, k.text, k.position,
           row_number() OVER (PARTITION BY k.content ORDER BY {distance}, k.position) AS place
      FROM chunk k JOIN {table} v ON v.hash = k.hash
     WHERE k.content IN carray(:contents) AND v.embedder = :embedder AND v.vector IS NOT NULL
) AS near WHERE place <= :most ORDER BY content, place
"""
_FILTER = """
AND EXISTS (SELECT 1 FROM chunk k JOIN content c ON c.no = k.content
              JOIN chunk p ON p.no = k.no WHERE k.hash = v.hash AND {conditions})
"""
_SIZE = "SELECT count(*) FROM {table} WHERE embedder = ?"
_IS_MANY = """
SELECT count(*) FROM (SELECT 1 FROM chunk_vector WHERE embedder = ? LIMIT ?) AS few
"""
_EXACT = {
    "sqlite": "vec_distance_L2(v.vector, :vector)",
    "postgres": "v.vector <-> :vector::halfvec",
}
#: The expression of the index of an embedder; that of _EXACT is of none.
_BY_INDEX = "v.vector::halfvec({dimension}) <-> :vector::halfvec({dimension})"
#: The index is read on until the filter lets enough through. It gives vectors nearly in order.
_ITERATE = """
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false),
       set_config('hnsw.ef_search', ?, false)
"""
_MOST_EXACT: Final = 10_000  #: vectors that PostgreSQL compares one by one
_MOST_SEARCHED: Final = 1_000  #: most that hnsw.ef_search takes
_PER_PAGE: Final = 10  #: chunks that are looked at for each page that is wanted, at first
_MORE: Final = 8  #: times as many are looked at next


def nearest_pages(
    connection: Connection,
    near: VectorQuery,
    *,
    conditions: str,
    values: dict[str, Any],
    pool: int,
) -> list[NearPage]:
    """Return at most ``pool`` contents with a chunk near a query, the nearest first.

    ``conditions`` on the content ``c`` and on ``p.content``, with their values. Among many vectors
    in PostgreSQL the index finds nearly all of the nearest; where it finds too few, and elsewhere,
    the query is compared with every vector.

    Raises:
        SettingError: the package with the functions for vectors is missing.
    """
    names = values | {"embedder": near.embedder, "vector": near.vector, "pool": pool}
    most = pool * _PER_PAGE
    if connection.dialect == "postgres":
        names["vector"] = index_halfvec_text(near.vector)
        if connection.execute(_IS_MANY, (near.embedder, _MOST_EXACT + 1)).get > _MOST_EXACT:
            distance = _BY_INDEX.format(dimension=len(near.vector) // 4)
            names["embedder"] = near.embedder
            connection.execute(_ITERATE, (str(min(most, _MOST_SEARCHED)),))
            statement = _statement(connection, distance, conditions)
            rows = connection.execute(statement, names | {"most": most}).fetchall()
            if len(rows) == pool:
                return [NearPage(*row) for row in rows]
    else:
        load_embedded_index_functions(connection)
    statement = _statement(connection, _EXACT[connection.dialect], conditions)
    size = _SIZE.format(table=vector_table(connection))
    while True:
        rows = connection.execute(statement, names | {"most": most}).fetchall()
        if len(rows) == pool or most > connection.execute(size, (near.embedder,)).get:
            return [NearPage(*row) for row in rows]
        most *= _MORE  # a page with many near chunks hides others


def nearest_chunks(
    connection: Connection, near: VectorQuery, contents: Sequence[int], most: int
) -> dict[int, list[RankedPart]]:
    """Return at most ``most`` chunks of each of some contents, those nearest to a query first.

    Raises:
        SettingError: the package with the functions for vectors is missing.
    """
    vector: object = near.vector
    if connection.dialect == "postgres":
        vector = index_halfvec_text(near.vector)
    else:
        load_embedded_index_functions(connection)
    statement = _CHUNKS.format(distance=_EXACT[connection.dialect], table=vector_table(connection))
    names = {
        "embedder": near.embedder,
        "vector": vector,
        "contents": Many(sorted(set(contents))),
        "most": most,
    }
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, *facts in connection.execute(statement, names).fetchall():
        found[content].append(RankedPart(*facts))
    return found


def _statement(connection: Connection, distance: str, conditions: str) -> str:
    is_limited = conditions != NO_CONDITION
    near = _NEAR.format(
        distance=distance,
        table=vector_table(connection),
        filter=_FILTER.format(conditions=conditions) if is_limited else "",
    )
    of_pages = conditions.replace("p.content", "k.content")
    return near + _PAGES[connection.dialect].format(conditions=of_pages)


def load_embedded_index_functions(connection: Any) -> None:
    """Load the functions of sqlite-vec into a connection, once.

    Raises:
        SettingError: the package is missing.
    """
    if connection.has_vectors:
        return
    try:
        import sqlite_vec  # noqa: PLC0415  # of the extras vectors and openai
    except ImportError as error:
        raise SettingError(
            f"vectors need the package sqlite-vec: run {extra_installation('vectors')}"
        ) from error
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    finally:
        connection.enable_load_extension(False)
    connection.has_vectors = True


def parts_of_hits(
    connection: Connection, best: Sequence[Ranked], near: VectorQuery | None
) -> list[list[RankedPart]]:
    """Return the parts to show of each of some pages, best first, by one query for all.

    First the part of the ranking, then those with words of the query and those near to it, joined
    by their ranks. ``near`` None: only words count.
    """
    nearest = {}
    if near is not None:
        contents = [one.page.key for one in best]
        nearest = nearest_chunks(connection, near, contents, MOST_SHOWN)
    return [_parts_of_hit(one, nearest.get(one.page.key, ())) for one in best]


def _parts_of_hit(one: Ranked, nearest: Sequence[RankedPart]) -> list[RankedPart]:
    if one.part is None:
        return []
    by_words = [one.part, *one.others] if one.found else []
    known = {part.key: part for part in (one.part, *one.others, *nearest)}
    lists = [[part.key for part in by_words], [part.key for part in nearest]]
    keys = dict.fromkeys([one.part.key, *(key for key, _ in fuse(lists))])
    return [known[key] for key in keys][:MOST_SHOWN]
