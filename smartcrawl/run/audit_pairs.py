"""Comparison of what is expected with what is found, in any order and in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

import apsw

_SCHEMA: Final = """
CREATE TABLE expected (key BLOB PRIMARY KEY, value BLOB, name BLOB, needed INTEGER) WITHOUT ROWID;
CREATE TABLE found (key BLOB, place INTEGER, value BLOB, name BLOB, PRIMARY KEY (key, place))
  WITHOUT ROWID;
BEGIN
"""
_EXPECT: Final = "INSERT OR REPLACE INTO expected VALUES (?, ?, ?, ?)"
_FIND: Final = "INSERT INTO found VALUES (?, ?, ?, ?)"
_IS_EXPECTED: Final = "SELECT 1 FROM expected WHERE key = ?"
_EXPECTED: Final = "SELECT value FROM expected WHERE key = ?"
#: A key whose values are all others is changed, once. Beside the right value, others are surplus.
_DIFFERENCES: Final = """
SELECT 'missing', e.key, e.name, NULL
  FROM expected e
 WHERE e.needed AND NOT EXISTS (SELECT 1 FROM found f WHERE f.key = e.key)
 UNION ALL
SELECT 'changed', e.key, e.name, (SELECT value FROM found f WHERE f.key = e.key LIMIT 1)
  FROM expected e
 WHERE e.value IS NOT NULL AND EXISTS (SELECT 1 FROM found f WHERE f.key = e.key)
   AND NOT EXISTS (SELECT 1 FROM found f WHERE f.key = e.key AND f.value = e.value)
 UNION ALL
SELECT 'surplus', f.key, f.name, f.value
  FROM found f LEFT JOIN expected e USING (key)
 WHERE e.key IS NULL
    OR (e.needed AND f.place <> (SELECT min(place) FROM found s
                                  WHERE s.key = f.key AND s.value IS coalesce(e.value, s.value)))
 ORDER BY 2, 1
"""


class Difference(StrEnum):
    """Kind of a difference."""

    MISSING = "missing"  #: expected, and not found
    CHANGED = "changed"  #: found with another value
    SURPLUS = "surplus"  #: found, and not expected, or once more than expected


class Pair(NamedTuple):
    """One difference between both sides."""

    difference: Difference
    key: str
    name: str  #: for people
    value: str  #: that was found; empty: none was


class Pairs:
    """Two sides, each a set of keys with a value; both are in a temporary file."""

    def __init__(self) -> None:
        self._place = 0
        self._database = apsw.Connection("")  # temporary, on disk as soon as it is large
        self._database.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        self._database.close()

    def expect(
        self, key: str, value: str | None, name: str = "", *, is_needed: bool = True
    ) -> None:
        """Add what is to be found; ``value`` None: any.

        ``is_needed``: whether it must be found, and only once.
        """
        values = (_bytes(key), None if value is None else _bytes(value), _bytes(name or key))
        self._database.execute(_EXPECT, (*values, is_needed))

    def expected(self, key: str) -> str | None:
        """Return the value that is expected under a key; None: none, or any."""
        value: Any = self._database.execute(_EXPECTED, (_bytes(key),)).get
        return None if value is None else _text(value)

    def is_expected(self, key: str) -> bool:
        """Whether something is expected under a key."""
        return self._database.execute(_IS_EXPECTED, (_bytes(key),)).get is not None

    def find(self, key: str, value: str, name: str = "") -> None:
        """Add what was found."""
        self._place += 1
        self._database.execute(
            _FIND, (_bytes(key), self._place, _bytes(value), _bytes(name or key))
        )

    def differences(self) -> Iterator[Pair]:
        """Yield the differences, by key."""
        row: Any
        for row in self._database.execute(_DIFFERENCES):
            kind, key, name, value = row
            yield Pair(Difference(kind), _text(key), _text(name), _text(value or b""))


def _bytes(text: str) -> bytes:
    """Return text as bytes; names of files may have halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
