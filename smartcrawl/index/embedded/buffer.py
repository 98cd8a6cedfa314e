"""Changes of the embedded index, buffered until a transaction writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from smartcrawl.model.documents import Chunk
from smartcrawl.registry.connection import Connection


class ChunkColumns(NamedTuple):
    """Columns of a chunk that are not searched."""

    level: int
    types: str
    repeated: int
    hash: bytes


def searchable_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks, or one empty chunk by which the title is found."""
    return list(chunks) or [Chunk((), "")]


def embedded_index_chunk_columns(title: str, chunk: Chunk) -> ChunkColumns:
    """Return the columns of a chunk that are not searched."""
    return ChunkColumns(chunk.level, ",".join(chunk.types), chunk.repeated, chunk.digest(title))


class IndexBuffer:
    """Buffers additions and removals (``ports.Sink``) until ``flush``, which subclasses define."""

    is_elsewhere: Final = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._removed: set[int] = set()
        self._added: dict[int, tuple[str, list[Chunk]]] = {}

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write nothing: only one process at a time writes to this database anyway."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Add the chunks of a content row that has none."""
        self._added[content] = (title, searchable_chunks(chunks))

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; later additions stay."""
        self._removed.add(content)
        self._added.pop(content, None)

    def moved(self, contents: Iterable[int]) -> None:
        """Do nothing: this index is about contents, whichever pages are their originals."""

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Do nothing: ids are those of the records."""

    def taken(self) -> tuple[set[int], dict[int, tuple[str, list[Chunk]]]]:
        """Return the removals and additions since the last call, by content."""
        removed, self._removed = self._removed, set()
        added, self._added = self._added, {}
        return removed, added
