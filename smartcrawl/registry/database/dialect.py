"""Translation of the shared SQL of ``ports.Connection`` for PostgreSQL and psycopg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from smartcrawl.registry.connection import Many
from smartcrawl.registry.database.transactions import READING, WRITING

_WORDS: Final = {
    WRITING: "BEGIN",
    READING: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
_VALUE: Final = r"\?\d*|:[a-z_]+"
#: Texts, names, comments and casts are kept; values and arrays are replaced.
_TOKEN: Final = re.compile(
    rf"""(?P<kept>'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::)"""
    rf"|\bIN\s+carray\((?P<any>{_VALUE})\)|\bFROM\s+carray\((?P<rows>{_VALUE})\)"
    rf"|(?P<value>{_VALUE})|(?P<percent>%)"
)

_PLACE: Final = re.compile(r"(?<!%)%s")


@cache
def psycopg_statement(statement: str) -> str:
    """Return a statement in psycopg's form.

    >>> psycopg_statement("SELECT a % 2 FROM t WHERE no IN carray(?) AND url LIKE '%x' AND b = :b")
    "SELECT a %% 2 FROM t WHERE no = ANY(%s) AND url LIKE '%%x' AND b = %(b)s"
    >>> psycopg_statement("UPDATE t SET a = ?2 WHERE b = ?1")
    'UPDATE t SET a = %(p2)s WHERE b = %(p1)s'
    >>> psycopg_statement("SELECT value FROM carray(?)")  # of numbers
    'SELECT value FROM unnest(%s::bigint[]) AS t (value)'
    """
    if statement in _WORDS:
        return _WORDS[statement]
    return _TOKEN.sub(_replaced, statement)


@cache
def psycopg_binary_statement(text: str) -> str:
    """Return a statement in psycopg's form with all of its values in binary.

    >>> psycopg_binary_statement("SELECT a %% 2, b LIKE '%%s' FROM t WHERE no = ANY(%s)")
    "SELECT a %% 2, b LIKE '%%s' FROM t WHERE no = ANY(%b)"
    """
    return _PLACE.sub("%b", text)


def _replaced(found: re.Match[str]) -> str:
    if found["kept"] is not None:
        return found["kept"].replace("%", "%%")
    if found["percent"] is not None:
        return "%%"
    if found["any"] is not None:
        return f"= ANY({_place(found['any'])})"
    if found["rows"] is not None:
        return f"FROM unnest({_place(found['rows'])}::bigint[]) AS t (value)"  # typed: may be empty
    return _place(found["value"])


def _place(value: str) -> str:
    if value == "?":
        return "%s"
    return f"%(p{value[1:]})s" if value[0] == "?" else f"%({value[1:]})s"


def psycopg_values(statement: str, values: Any) -> Any:
    """Return the values of a statement in psycopg's form; () if there are none."""
    if not values:
        return ()
    if isinstance(values, Mapping):
        return {name: _bound(value) for name, value in values.items()}
    if "?1" in statement:
        return {f"p{place}": _bound(value) for place, value in enumerate(values, 1)}
    return [_bound(value) for value in values]


def _bound(value: Any) -> Any:
    return list(value.values) if isinstance(value, Many) else value


def split_insert_statement(statement: str) -> tuple[str, str, str] | None:
    """Split an INSERT into the text before its row of values, the row, and the rest.

    >>> split_insert_statement("INSERT INTO t (a, b) VALUES (?, (SELECT ?)) ON CONFLICT DO NOTHING")
    ('INSERT INTO t (a, b) VALUES ', '(?, (SELECT ?))', ' ON CONFLICT DO NOTHING')
    >>> split_insert_statement("UPDATE t SET a = ?")
    """
    before, word, rest = statement.partition("VALUES ")
    if not word or not before.lstrip().startswith("INSERT"):
        return None
    depth = 0
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return before + word, rest[: place + 1], rest[place + 1 :]
    return None
