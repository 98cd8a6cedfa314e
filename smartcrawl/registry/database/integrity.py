"""Integrity checks of a registry in a SQLite file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import apsw
from backports.zstd import ZstdError

from smartcrawl.model.documents import Chunk
from smartcrawl.model.exceptions import RegistryDamagedError
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.migrations import migrations
from smartcrawl.registry.pack import unpack_stored_document, unpack_stored_links

REMEDY: Final = (
    f"restore a backup, or copy what can be read into a new file with"
    f" {program_name()} audit --salvage"
)
_MOST: Final = 20  #: problems listed at most
_WORDS: Final = "chunk_words"  #: the FTS5 index
#: Chunks without words, and words without chunks; chunks may wait for words of a new analysis.
_APART: Final = """
SELECT (SELECT count(*) FROM chunk
         WHERE no NOT IN (SELECT id FROM chunk_words_docsize)
           AND no <= coalesce((SELECT CAST(value AS INTEGER) FROM choice
                                WHERE name = 'words until'), 9223372036854775807)),
       (SELECT count(*) FROM chunk_words_docsize WHERE id NOT IN (SELECT no FROM chunk))
"""
_CHUNKS: Final = "SELECT title, headings, text, hash FROM chunk WHERE hash IS NOT NULL"
_BETWEEN: Final = " > "  #: headings of a chunk
_MOST_CUTS: Final = 10  #: places between headings that may be parts of one
#: SQLite's type of the values in a column of a declared type.
_TYPES: Final = {"INTEGER": "integer", "TEXT": "text", "BLOB": "blob"}
_TABLES: Final = """
SELECT name FROM sqlite_schema
 WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'
   AND name NOT LIKE 'chunk_words%'
 ORDER BY name
"""
#: Errors of decoding stored values: text, JSON, compressed bytes, words of an enumeration.
_UNREADABLE: Final = (ValueError, zlib.error, ZstdError, EOFError, OverflowError)
#: Columns of compressed values, with their decoders.
_PACKED: Final[tuple[tuple[str, str, Callable[[bytes], object]], ...]] = (
    ("links", "raw", unpack_stored_links),
    ("content", "document", unpack_stored_document),
    ("evidence", "links", unpack_stored_links),
)
#: Columns of JSON.
_JSON: Final = (
    ("run", "reasons"), ("run", "counts"), ("run", "notes"), ("run", "cut"),
    ("candidate", "detail"), ("evidence", "detail"), ("evidence", "restore"),
    ("not_found", "profile"), ("collapse", "answer"), ("spelling", "urls"),
    ("spelling", "tried"), ("data_request", "headers"), ("data_request", "noise"),
    ("render_sample", "refused"),
)  # fmt: skip
_SCHEMA: Final = """
SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'
 ORDER BY type <> 'table', type, name
"""


def damaged_database_error(path: Path, why: object) -> RegistryDamagedError:
    """Return the error of a damaged file, with the remedy."""
    return RegistryDamagedError(f"{path} is damaged ({' '.join(str(why).split())}); {REMEDY}")


def registry_tables(connection: apsw.Connection) -> list[str]:
    """Return the names of the registry's own tables, without those of SQLite and FTS5."""
    found: Any = connection.execute(_TABLES).fetchall()
    return [name for (name,) in found]


def database_problems(connection: apsw.Connection) -> list[str]:
    """Return the defects of a registry, at most 20.

    Database pages, schema, references, types, compressed values and the full-text index are
    checked. The whole file is read. The index is compared with its text if the connection may
    write.
    """
    found: list[str] = []
    try:
        checked: Any = connection.execute(f"PRAGMA integrity_check({_MOST})").fetchall()
        found += [" ".join(str(text).split()) for (text,) in checked if text != "ok"]
        # First the lost part of a schema, as its pages may be reported as never used.
        found[:0] = lacking_schema_parts(connection)
        if found:
            return found[:_MOST]
        loose: Any = connection.execute("PRAGMA foreign_key_check").fetchall()
        for table, rowid, parent, _ in loose:
            found.append(f"row {rowid} of {table} refers to a missing row of {parent}")
        for table in registry_tables(connection):
            found += _wrong_types(connection, table)
        for table, column, rowid in unreadable_stored_values(connection):
            found.append(f"{table}.{column} of row {rowid} cannot be read")
        found += _wrong_words(connection)
    except (apsw.CorruptError, apsw.NotADBError, RegistryDamagedError, *_UNREADABLE) as error:
        found.append(" ".join(str(error).split()))
    except apsw.SQLError as error:
        if not is_database_fts5_damaged(error):
            raise
        found.append(str(error))
    return found[:_MOST]


def lacking_schema_parts(connection: apsw.Connection, version: int | None = None) -> list[str]:
    """Return the tables, views, indexes, triggers and columns that a schema lacks.

    ``version``: schema version; None: the one in the file.
    """
    version = int(str(connection.pragma("user_version"))) if version is None else version
    there = _shape(connection)
    found = []
    for (kind, name), columns in _made(version).items():
        if (kind, name) not in there:
            found.append(f"the {kind} {name} is missing")
        elif lost := columns - there[kind, name]:
            found.append(f"the {kind} {name} lacks {', '.join(sorted(lost))}")
    return found


@lru_cache
def _made(version: int) -> dict[tuple[str, str], frozenset[str]]:
    """Return the shape of a new registry of a schema version."""
    with closing(apsw.Connection(":memory:")) as connection:
        for number, statements in migrations("sqlite"):
            for statement in statements if number <= version else ():
                connection.execute(statement).fetchall()
        return _shape(connection)


def _shape(connection: apsw.Connection) -> dict[tuple[str, str], frozenset[str]]:
    """Return the columns of everything in a schema, by kind and name."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    named: Any = connection.execute(_SCHEMA).fetchall()
    for kind, name in named:
        try:
            columns: Any = connection.execute(f'PRAGMA table_xinfo("{name}")').fetchall()
        except apsw.SQLError:
            continue  # a view of a missing table
        found[kind, name] = frozenset(column[1] for column in columns)
    return found


def unreadable_stored_values(connection: apsw.Connection) -> Iterator[tuple[str, str, int]]:
    """Yield (table, column, row number) of each stored value that cannot be unpacked."""
    value: Any
    for table, column, unpack in _PACKED:
        for rowid, value in connection.execute(f"SELECT rowid, {column} FROM {table}"):
            try:
                if value is not None:
                    unpack(value)
            except (*_UNREADABLE, TypeError, LookupError):
                yield table, column, int(str(rowid))
    for table, column in _JSON:
        statement = f"SELECT rowid FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid(%s)"
        for (rowid,) in connection.execute(statement % column):
            yield table, column, int(str(rowid))


def _wrong_types(connection: apsw.Connection, table: str) -> list[str]:
    """Return the columns of a table with values of another type than they were written with."""
    columns: Any = connection.execute(f"PRAGMA table_info({table})").fetchall()
    checked = [(name, _TYPES[kind]) for _, name, kind, *_ in columns if kind in _TYPES]
    sums = ", ".join(f"total(typeof(\"{n}\") NOT IN ('{t}', 'null'))" for n, t in checked)
    if not sums:
        return []
    counts: Any = connection.execute(f"SELECT {sums} FROM {table}").fetchone()
    return [
        f"{int(count)} values of {table}.{name} are no {kind}"
        for (name, kind), count in zip(checked, counts, strict=True)
        if count
    ]


def is_connection_read_only(connection: apsw.Connection) -> bool:
    """Whether a connection can write nothing."""
    return connection.readonly("main") or bool(connection.pragma("query_only"))


def _wrong_words(connection: apsw.Connection) -> list[str]:
    """Return the defects of the full-text index, in itself and against the chunks that it has."""
    if is_connection_read_only(connection):
        return []  # integrity_check has checked the index itself
    try:
        statement = f"INSERT INTO {_WORDS} ({_WORDS}, rank) VALUES ('integrity-check', 1)"
        connection.execute(statement).fetchall()
    except apsw.SQLError as error:
        return [f"the index of words is missing: {error}"]
    except (apsw.CorruptError, RegistryDamagedError) as error:
        return [f"the index of words does not fit its text: {error}"]
    counts: Any = connection.execute(_APART).fetchone()
    if any(counts):
        return [f"the index of words does not fit its text: {counts[0]} chunks have no words in it,"
                f" {counts[1]} of it are of no chunk"]  # fmt: skip
    changed = sum(not _is_as_written(*row) for row in connection.execute(_CHUNKS))
    if changed:
        return [f"the index of words does not fit its text: {changed} chunks have another text than"
                " they were written with"]  # fmt: skip
    return []


def _is_as_written(title: Any, path: Any, text: Any, digest: Any) -> bool:
    """Whether a chunk has the text of its digest; a heading may have the sign between headings."""
    names = path.split(_BETWEEN)
    for cuts in range(1 << min(len(names) - 1, _MOST_CUTS) if path else 1):
        headings = names[:1] if path else []
        for place, name in enumerate(names[1:]):
            if cuts >> place & 1:
                headings[-1] += f"{_BETWEEN}{name}"
            else:
                headings.append(name)
        if Chunk(tuple(headings), text).digest(title) == digest:
            return True
    return False


def _problems_of(path: Path) -> list[str]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(uri, flags=flags)) as connection:
        return database_problems(connection)


def is_database_fts5_damaged(error: Exception) -> bool:
    """Whether FTS5 does not recognize its own tables, which is an SQLError, no CorruptError."""
    return isinstance(error, apsw.SQLError) and "invalid fts5 file format" in str(error)


def explained_database_damage(path: Path, error: Exception) -> RegistryDamagedError | None:
    """Return the damage that caused an unexpected error, or None if the registry is sound.

    The whole file is read.
    """
    if is_database_fts5_damaged(error):
        return damaged_database_error(path, error)
    try:
        found = _problems_of(path)
    except apsw.Error:
        return None
    if found:
        return damaged_database_error(path, found[0])
    if isinstance(error, OverflowError):  # of a value that a statement was given
        return None
    if isinstance(error, (*_UNREADABLE, json.JSONDecodeError)):
        return damaged_database_error(
            path, f"a stored value cannot be read: {type(error).__name__}: {error}"
        )
    return None
