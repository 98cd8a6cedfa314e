"""What a transaction puts into the index beside the registry and takes out, until it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from smartcrawl.model.documents import Chunk
from smartcrawl.model.ports import Connection


def searchable(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks so that there is one to be found by the title."""
    return list(chunks) or [Chunk((), "")]


class Buffer:
    """Keeps what is put and removed (``ports.Sink``) until ``flush``, which each index has."""

    is_elsewhere: Final = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._removed: set[int] = set()
        self._added: dict[int, tuple[str, list[Chunk]]] = {}

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write nothing: whoever writes to the index at all waits for the others."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Write the chunks of a content row that has none."""
        self._added[content] = (title, searchable(chunks))

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; what is put after this call stays."""
        self._removed.add(content)
        self._added.pop(content, None)

    def moved(self, contents: Iterable[int]) -> None:
        """Nothing is to be done: the index holds contents, whoever their originals are."""

    def taken(self) -> tuple[set[int], dict[int, tuple[str, list[Chunk]]]]:
        """Return what was removed and what was put since the last call, by content."""
        removed, self._removed = self._removed, set()
        added, self._added = self._added, {}
        return removed, added
