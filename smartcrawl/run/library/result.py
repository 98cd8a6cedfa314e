"""The result of a library's steps at one source, with the keys of its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Self

from smartcrawl.rules.library import integrity_line
from smartcrawl.sources.sharepoint.source import SharepointSource

FULL: Final = "full"  #: mode in which every item comes again
MOST_LIBRARY_REASONS: Final = 100  #: in a result; the log has all


@dataclass(frozen=True, slots=True)
class Integrity:
    """The counts of a check of the disk."""

    missing_in_map: int = 0
    missing_on_disk: int = 0
    orphans: int = 0
    moved: int = 0
    verified: int = 0

    def __str__(self) -> str:
        """Return the line of the log (R3-139)."""
        missing = self.missing_in_map + self.missing_on_disk
        return integrity_line(missing, self.orphans, self.moved, self.verified)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The counts of an embedding in a vector store."""

    uploaded: int = 0
    attached: int = 0
    detached: int = 0
    left: int = 0  #: uploads of this registry that the store has no more, and the account still has
    completed: int = 0
    embed_failed: int = 0  #: items that could not be embedded
    adopted: int = 0
    in_progress: int = 0
    vector_store_id: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it under the promised keys."""
        return _keyed(asdict(self))


@dataclass(slots=True)
class LibraryResult:
    """What came of one step or of several; the keys of JSON are those of ``as_json``."""

    source: SharepointSource
    mode: str = "incremental"
    reason: str = ""  #: why it was skipped
    complete: bool = True
    reasons: list[str] = field(default_factory=list)
    listed: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    downloaded: int = 0
    processed: int = 0
    failed: int = 0
    skipped: int = 0
    withheld: int = 0
    requests: int = 0
    integrity: Integrity = Integrity()
    embedded: Embedded | None = None
    runs: list[int] = field(default_factory=list)  #: run.no of each run
    adopted: int = 0  #: files that a map of another program named
    is_stopped: bool = False  #: whether an order ended it before all items were done

    def add(self, other: LibraryResult) -> None:
        """Add what came of a further step."""
        self.complete &= other.complete
        self.embedded = other.embedded or self.embedded
        self.reasons += other.reasons
        self.runs += other.runs
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.integrity = Integrity(
            *(
                getattr(self.integrity, each.name) + getattr(other.integrity, each.name)
                for each in fields(Integrity)
            )
        )

    def shown_reasons(self) -> list[str]:
        """Return the first reasons, and the number of the others, which the log has, too."""
        shown, most = self.reasons, MOST_LIBRARY_REASONS
        # Of a download, only the first were kept.
        more = max(len(shown), self.failed if self.runs else 0) - most
        if more <= 0:
            return list(shown)
        return [*shown[:most], f"{more:,} more, each with a line in the log"]

    def as_json(self) -> dict[str, Any]:
        """Return it under the promised keys."""
        source = self.source
        values = {"source_id": source.source_id, "source_type": str(source.source_type)}
        values |= self._values() | {"reasons": self.shown_reasons()}
        del values["runs"], values["adopted"]
        return _keyed(values) | (self.embedded.as_json() if self.embedded else {})

    def saved(self) -> dict[str, Any]:
        """Return it as JSON, for a job that goes on later."""
        return {"source_id": self.source.source_id, **self._values()}

    def _values(self) -> dict[str, Any]:
        values = asdict(replace(self, embedded=None))
        for name in ("source", "embedded", "is_stopped"):
            del values[name]
        return values

    @classmethod
    def restored(cls, source: SharepointSource, saved: Mapping[str, Any]) -> Self:
        """Return what ``saved`` returned."""
        values = {**saved, "integrity": Integrity(**saved["integrity"])}
        del values["source_id"]
        return cls(source, **values)


#: Names of the counts of a result.
COUNTS: Final = tuple(each.name for each in fields(LibraryResult) if each.type == "int")


def _keyed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under keys such as ``sourceId``, as all results have them."""
    return {
        re.sub("_(.)", lambda found: found[1].upper(), name): (
            _keyed(value) if isinstance(value, dict) else value
        )
        for name, value in values.items()
    }
