"""The vectors of a registry in PostgreSQL: its extension, their column and their indexes."""

from __future__ import annotations

import re
from typing import Final

import psycopg

from smartcrawl.model.exceptions import SettingError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.session import database_error_line

LEAST: Final = (0, 8)  #: least version of the extension: hnsw.iterative_scan
_LOCK: Final = 0x736D6376  #: "smcv"
_SHARED = "SELECT pg_advisory_xact_lock_shared(?)"
_ALONE = "SELECT pg_advisory_xact_lock(?)"
_IS_THERE = """
SELECT count(*) > 0 FROM pg_attribute
 WHERE attrelid = 'chunk_vector'::regclass AND attname = 'vector' AND NOT attisdropped
"""
_INSTALLED = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
_AVAILABLE = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
_IS_FOUND = "SELECT to_regtype('halfvec') IS NOT NULL"
_COLUMN = "ALTER TABLE chunk_vector ADD COLUMN vector halfvec"
#: Vectors of the embedder that searches use, for the view ``documents``: numbers of 4 bytes,
#: little-endian, as in SQLite.
_VIEW = """
CREATE OR REPLACE VIEW chunk_embedding AS
SELECT v.hash AS hash,
       (SELECT string_agg(substr(n.sent, 4, 1) || substr(n.sent, 3, 1) || substr(n.sent, 2, 1)
                          || substr(n.sent, 1, 1), ''::bytea ORDER BY n.place)
          FROM (SELECT float4send(number) AS sent, place
                  FROM unnest(v.vector::real[]) WITH ORDINALITY AS u (number, place)) n)
           AS embedding
  FROM chunk_vector v
 WHERE v.embedder = (SELECT e.no FROM embedder e WHERE e.whole_at IS NOT NULL
                      ORDER BY e.whole_at DESC, e.no DESC LIMIT 1)
"""
_INDEX = """
CREATE INDEX chunk_vector_{no} ON chunk_vector
 USING hnsw ((vector::halfvec({dimension})) halfvec_l2_ops) WHERE embedder = {no}
"""
_REMEDY: Final = "or leave EMBEDDER empty (docs/vectors.md)"


def prepare_vector_column(connection: Connection) -> None:
    """Add the column of vectors where it is missing. The caller is in a transaction.

    Raises:
        SettingError: the extension ``vector`` is missing, too old, or may not be created.
    """
    if connection.execute(_IS_THERE).get:
        return
    lock_vector_tables(connection)
    if connection.execute(_IS_THERE).get:  # another process was first
        return
    _prepare_extension(connection)
    connection.execute(_COLUMN)
    connection.execute(_VIEW)


def _prepare_extension(connection: Connection) -> None:
    installed: str | None = connection.execute(_INSTALLED).get
    available: str | None = connection.execute(_AVAILABLE).get
    if installed is None:
        if available is None or _version(available) < LEAST:
            raise SettingError(_missing(connection, available))
        try:
            connection.execute("CREATE EXTENSION vector")
        except psycopg.errors.InsufficientPrivilege as error:
            raise SettingError(
                "EMBEDDER needs the extension vector, which this user may not create"
                f" ({database_error_line(error)}): let an administrator run CREATE EXTENSION vector"
                f" in the database of REGISTRY_URL, {_REMEDY}"
            ) from error
    elif _version(installed) < LEAST:
        if available is None or _version(available) < LEAST:
            raise SettingError(_missing(connection, installed))
        raise SettingError(
            f"EMBEDDER needs the extension vector 0.8 or newer, and the database of REGISTRY_URL"
            f" has {installed}: let its owner run ALTER EXTENSION vector UPDATE there, {_REMEDY}"
        )
    if not connection.execute(_IS_FOUND).get:
        raise SettingError(
            "EMBEDDER needs the extension vector, which is in a schema that search_path does not"
            " name: add that schema behind the registry's in REGISTRY_URL"
            f" (?options=-csearch_path%3DNAME,SCHEMA), {_REMEDY}"
        )


def _missing(connection: Connection, version: str | None) -> str:
    found = "has none" if version is None else f"has {version}"
    major = int(connection.execute("SHOW server_version_num").get) // 10_000
    return (
        f"EMBEDDER needs the extension vector 0.8 or newer, and the server of REGISTRY_URL {found}:"
        f" install pgvector on that server (on Debian and Ubuntu the package"
        f" postgresql-{major}-pgvector), {_REMEDY}"
    )


def _version(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version.

    >>> _version("0.8.5"), _version("0.10dev")
    ((0, 8), (0, 10))
    """
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def create_vector_index(connection: Connection, embedder: int, dimension: int) -> None:
    """Create the index of a new embedder. The caller is in a transaction."""
    drop_registry_vector_index(connection, embedder)
    connection.execute(_INDEX.format(no=embedder, dimension=dimension))


def drop_registry_vector_index(connection: Connection, embedder: int) -> None:
    """Drop the index of an embedder that is gone."""
    connection.execute(f"DROP INDEX IF EXISTS chunk_vector_{embedder}")


def lock_vector_tables(connection: Connection, *, shared: bool = False) -> None:
    """Let no other transaction drop embedders, or with ``shared`` false, store vectors.

    The lock ends with the caller's transaction.
    """
    connection.execute(_SHARED if shared else _ALONE, (_LOCK,))
