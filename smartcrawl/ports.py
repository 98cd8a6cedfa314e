"""What the road asks of its surroundings; design.md 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from smartcrawl.items import Chunk


class Sink(Protocol):
    """Where content is written to be searched, inside the registry's transaction."""

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Write the chunks of a content row that has none."""

    def remove(self, content: int) -> None:
        """Remove the chunks of a content row; what is put after this call stays."""

    def flush(self) -> None:
        """Write what was put and removed since the last call; the last step of a batch."""
