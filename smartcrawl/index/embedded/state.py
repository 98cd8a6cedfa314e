"""What searches of one registry ask for again and again, kept between them (ADR 161)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from smartcrawl.registry.connection import Connection

UNTIL: Final = "words until"  #: choice: the last chunk that has new words; none: all have
_MOST: Final = 10_000  #: numbers that are kept of one state
_MOST_CHUNKS: Final = 20_000  #: chunks whose facts are kept, some 300 bytes each
_MOST_SITES: Final = 20  #: filters of sites whose contents are kept, each 80 kB at most
_MOST_CONTENTS: Final = 2_000  #: contents whose records are kept, some 1 kB each
_STATE: Final = "SELECT NULL, language FROM chunk_language UNION ALL SELECT name, value FROM choice"
_VERSION: Final = "PRAGMA data_version"
#: What a statement of PostgreSQL sees; empty in a transaction that has written something itself.
_SEEN: Final = f"""
SELECT '', CASE WHEN pg_current_xact_id_if_assigned() IS NULL
                THEN pg_postmaster_start_time()::text || ' ' || pg_current_snapshot()::text
                ELSE '' END
 UNION ALL {_STATE}
"""


class KeptRows(dict[Any, Any]):
    """What was read, by numbers or other keys; a full one begins anew.

    >>> kept = KeptRows(2)
    >>> for number in (1, 2, 3):
    ...     kept.keep({number: str(number)})
    >>> kept
    {3: '3'}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, rows: Mapping[Any, Any]) -> None:
        """Keep rows, as long as nothing is written."""
        if len(self) + len(rows) > self._most:
            self.clear()
        self.update(rows)


@dataclass(slots=True)
class IndexState:
    """Facts about a registry and its index that hold until something is written to it."""

    languages: list[str]  #: of chunks; unknown is ""
    until: int | None  #: the last chunk that has words of this version; None: all have
    version: tuple[int, int] | str = ""  #: of the data; empty: it does not hold
    chunks: KeptRows = field(default_factory=partial(KeptRows, _MOST_CHUNKS))  #: facts of chunks
    sizes: KeptRows = field(default_factory=partial(KeptRows, _MOST_CHUNKS))  #: words of chunks
    records: KeptRows = field(default_factory=partial(KeptRows, _MOST_CONTENTS))  #: of contents
    sites: KeptRows = field(default_factory=partial(KeptRows, _MOST_SITES))  #: contents at some
    _numbers: dict[Any, int] = field(default_factory=dict)

    def number(self, key: Any) -> int | None:
        """Return a number that was kept, such as how many chunks have a word."""
        return self._numbers.get(key)

    def keep(self, key: Any, number: int) -> None:
        """Keep a number as long as nothing is written."""
        if len(self._numbers) >= _MOST:
            self._numbers.clear()
        self._numbers[key] = number


def index_state(connection: Connection) -> IndexState:
    """Return the state of a registry's index, the kept one if it still holds.

    In PostgreSQL it holds as long as no transaction of the server has been committed, and is read
    each time.
    """
    kept: Any = connection
    state: IndexState | None = kept.index_state
    if connection.dialect == "sqlite":
        version = connection.execute(_VERSION).get, kept.total_changes()
        if state is None or state.version != version:
            state = kept.index_state = _read(connection, _STATE)
            state.version = version
        return state
    read = _read(connection, _SEEN)
    if state is None or not read.version or state.version != read.version:
        state = kept.index_state = read
    return state


def _read(connection: Connection, statement: str) -> IndexState:
    languages, until, version = [], None, ""
    for name, value in connection.execute(statement).fetchall():
        if name is None:
            languages.append(value)
        elif not name:
            version = value
        elif name == UNTIL:
            until = int(value)
    return IndexState(sorted(languages) or [""], until, version)
