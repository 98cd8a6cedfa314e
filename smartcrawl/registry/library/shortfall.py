"""The items that a library counts and its listing lacks, as its source stores them (R3-69).

Rights trim the answers of a library, and not its count. The first difference is accepted. A greater
one withholds the removals of its run, and is accepted with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from smartcrawl.registry.connection import Connection

_LOOK: Final = "SELECT listing FROM source WHERE no = ?"
_STORE: Final = "UPDATE source SET listing = ? WHERE no = ?"
_KEY: Final = "shortfall"


TRIMMED: Final = "trimmed"  #: the first word of the note of a run


def stored_trimmed_note(items: int) -> str:
    """Return the note of a run that lacked items beyond those accepted.

    >>> stored_trimmed_note(1)
    'trimmed: the library counts 1 item more than it lists'
    """
    counted = "1 item" if items == 1 else f"{items:,} items"
    return f"{TRIMMED}: the library counts {counted} more than it lists"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A number of lacking items that is accepted, and a greater one that is not."""

    accepted: int
    trimmed_run: int | None = None  #: run.no of the last run that found more
    trimmed: int = 0  #: how many it found

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the stored one."""
        stored: dict[str, Any] = json.loads(text)
        return cls(stored[_KEY], stored.get("trimmed_run"), stored.get("trimmed", 0))

    def stored(self) -> str:
        """Return it as JSON."""
        if self.trimmed_run is None:
            return json.dumps({_KEY: self.accepted})
        run = {"trimmed_run": self.trimmed_run, "trimmed": self.trimmed}
        return json.dumps({_KEY: self.accepted} | run)


def stored_library_shortfall(connection: Connection, source: int) -> Shortfall | None:
    """Return the stored shortfall of a library; None: the source has none."""
    text = connection.execute(_LOOK, (source,)).get
    if text is None or _KEY not in json.loads(text):
        return None
    return Shortfall.parsed(text)


def stored_trimmed_items(connection: Connection, source: int, run: int) -> int:
    """Return how many items a run of a library lacked beyond those accepted; else 0."""
    found = stored_library_shortfall(connection, source)
    is_of_run = found is not None and found.trimmed_run == run
    return found.trimmed if found is not None and is_of_run else 0


def accept_library_shortfall_row(connection: Connection, source: int) -> None:
    """Accept what the last trimmed run lacked, with its removals. The caller's transaction."""
    found = stored_library_shortfall(connection, source)
    if found is not None and found.trimmed_run is not None:
        connection.execute(_STORE, (Shortfall(found.trimmed).stored(), source))
