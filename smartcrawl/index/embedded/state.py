"""What searches of one registry ask for again and again, kept between them (ADR 161)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from smartcrawl.registry.connection import Connection

UNTIL: Final = "words until"  #: choice: the last chunk that has new words; none: all have
_MOST: Final = 10_000  #: numbers that are kept of one state
_STATE: Final = "SELECT NULL, language FROM chunk_language UNION ALL SELECT name, value FROM choice"
_VERSION: Final = "PRAGMA data_version"


@dataclass(slots=True)
class IndexState:
    """Facts about the words of a registry that hold until something is written to it."""

    languages: list[str]  #: of chunks; unknown is ""
    until: int | None  #: the last chunk that has words of this version; None: all have
    version: tuple[int, int] | None = None
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
    """Return the state of a registry's index; in SQLite the kept one if it still holds.

    PostgreSQL has no number that changes with its data.
    """
    if connection.dialect != "sqlite":
        return _read(connection)
    kept: Any = connection
    version = connection.execute(_VERSION).get, kept.total_changes()
    state: IndexState | None = kept.index_state
    if state is None or state.version != version:
        state = kept.index_state = _read(connection)
        state.version = version
    return state


def _read(connection: Connection) -> IndexState:
    languages, until = [], None
    for name, value in connection.execute(_STATE).fetchall():
        if name is None:
            languages.append(value)
        elif name == UNTIL:
            until = int(value)
    return IndexState(sorted(languages) or [""], until)
