"""Whether a registry in a SQLite file can be read as it was written."""

from __future__ import annotations

import json
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from smartcrawl.model.exceptions import RegistryDamagedError

REMEDY: Final = (
    "restore a backup, or copy what can be read into a new file with scrapy audit --salvage"
)
_MOST: Final = 20  #: problems that are listed
_WORDS: Final = "chunk_words"  #: the FTS5 index
#: What SQLite may give for a column of a declared type; numbers of any size are integers here.
_TYPES: Final = {"INTEGER": "integer", "TEXT": "text", "BLOB": "blob"}
_TABLES: Final = """
SELECT name FROM sqlite_schema
 WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'
   AND name NOT LIKE 'chunk_words%'
 ORDER BY name
"""
#: Errors of what decodes stored values: text, JSON, compressed bytes, words of an enumeration.
_UNREADABLE: Final = (ValueError, zlib.error, EOFError, OverflowError)


def damaged(path: Path, why: object) -> RegistryDamagedError:
    """Return the error of a file that SQLite calls damaged, with the remedy."""
    return RegistryDamagedError(f"{path} is damaged ({' '.join(str(why).split())}); {REMEDY}")


def tables(connection: apsw.Connection) -> list[str]:
    """Return the names of the tables that hold rows of the registry's own."""
    found: Any = connection.execute(_TABLES).fetchall()
    return [name for (name,) in found]


def problems(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with a registry, at most 20 findings: pages, references, types, index.

    Every page of the file is read. The index is compared with its text where the connection may
    write.
    """
    found: list[str] = []
    try:
        checked: Any = connection.execute(f"PRAGMA integrity_check({_MOST})").fetchall()
        found += [" ".join(str(text).split()) for (text,) in checked if text != "ok"]
        if found:
            return found
        loose: Any = connection.execute("PRAGMA foreign_key_check").fetchall()
        for table, rowid, parent, _ in loose:
            found.append(f"row {rowid} of {table} refers to a missing row of {parent}")
        for table in tables(connection):
            found += _wrong_types(connection, table)
        found += _wrong_words(connection)
    except (apsw.CorruptError, apsw.NotADBError, RegistryDamagedError, *_UNREADABLE) as error:
        found.append(" ".join(str(error).split()))
    except apsw.SQLError as error:
        if not is_broken_index(error):
            raise
        found.append(str(error))
    return found[:_MOST]


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


def _wrong_words(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the full-text index: of itself, and compared with its text."""
    if connection.readonly("main") or connection.pragma("query_only"):
        return []  # integrity_check has looked at the index itself
    try:
        statement = f"INSERT INTO {_WORDS} ({_WORDS}, rank) VALUES ('integrity-check', 1)"
        connection.execute(statement).fetchall()
    except apsw.SQLError as error:
        return [f"the index of words is missing: {error}"]
    except (apsw.CorruptError, RegistryDamagedError) as error:
        return [f"the index of words does not fit its text: {error}"]
    return []


def _problems_of(path: Path) -> list[str]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(uri, flags=flags)) as connection:
        return problems(connection)


def is_broken_index(error: Exception) -> bool:
    """Whether FTS5 does not recognize its own tables: an SQLError, not a CorruptError."""
    return isinstance(error, apsw.SQLError) and "invalid fts5 file format" in str(error)


def explained(path: Path, error: Exception) -> RegistryDamagedError | None:
    """Return the damage that an unexpected error came from; None: the registry is sound.

    Every page of the file is read.
    """
    if is_broken_index(error):
        return damaged(path, error)
    try:
        found = _problems_of(path)
    except apsw.Error:
        return None
    if found:
        return damaged(path, found[0])
    if isinstance(error, (*_UNREADABLE, json.JSONDecodeError)):
        return damaged(path, f"a stored value cannot be read: {type(error).__name__}: {error}")
    return None
