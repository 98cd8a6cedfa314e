"""Items as a check compares them: all of a source are in memory at once, so each takes little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from smartcrawl.model.library import LibraryRow
from smartcrawl.registry.library.shelf import KEPT

_T = TypeVar("_T")


class CheckedRow(NamedTuple):
    """An item without what only maps have."""

    no: int  #: record.no
    unique_id: str
    path: str | None  #: below the folder of the source, with slashes; None: there is no file
    file_size: int  #: bytes
    last_modified: int  #: Unix microseconds
    has_error: bool  #: the library would not give it

    @classmethod
    def of(cls, row: LibraryRow) -> CheckedRow:
        """Return a stored item as one that is checked."""
        has_error = row.sharepoint_error is not None
        return cls(row.no, row.unique_id, row.path, row.file_size, row.last_modified, has_error)

    @property
    def is_kept(self) -> bool:
        """Whether its file made way for another: it has a place that the map never had."""
        return self.path is not None and self.path.startswith(f"{KEPT}/")


class MadeOfRows(Mapping[str, _T]):
    """Values made of rows, by unique id; each is made when it is asked for, and kept nowhere."""

    def __init__(
        self, rows: Mapping[str, CheckedRow], made: Callable[[CheckedRow], _T | None]
    ) -> None:
        """``made`` returns None for a row that is left out."""
        self._rows, self._made = rows, made

    def __getitem__(self, unique_id: str) -> _T:
        made = self._made(self._rows[unique_id])
        if made is None:
            raise KeyError(unique_id)
        return made

    def __iter__(self) -> Iterator[str]:
        return (unique_id for unique_id in self._rows if unique_id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
