"""The result of the step embed at one source, with the keys of its JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class EmbedResult:
    """The figures of an embedding."""

    store: str  #: id of the vector store
    items: int = 0  #: that the store is to have
    unchanged: int = 0  #: that it had
    uploaded: int = 0
    attached: int = 0
    detached: int = 0
    left: int = 0  #: uploads of this registry that the store has no more, and the account still has
    completed: int = 0
    failed: int = 0  #: items that could not be embedded
    skipped: int = 0  #: items whose file could not be given
    adopted: int = 0
    in_progress: int = 0
    is_whole: bool = True
    reasons: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it under the promised keys."""
        return {
            "uploaded": self.uploaded,
            "attached": self.attached,
            "detached": self.detached,
            "left": self.left,
            "completed": self.completed,
            "embedFailed": self.failed,
            "skipped": self.skipped,
            "adopted": self.adopted,
            "inProgress": self.in_progress,
            "vectorStoreId": self.store,
        }
