"""The names of seeds, and where each of them may lead.

Source: ADR 123.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smartcrawl.registry.connection import Many
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.rules.connections import SeedReach

_REACHES: Final = "SELECT name, reach FROM seed_name WHERE name IN carray(?)"
#: Of several processes that learn at once, the first one counts. An operator's word counts always.
_STORE: Final = """
INSERT INTO seed_name (name, reach) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET reach = excluded.reach WHERE excluded.reach = ?
"""


class SeedNameRows:
    """The rows of the names; they outlive their sources, so that no new source forgets them."""

    def __init__(self, control: DatabaseControl) -> None:
        self._control = control

    def reaches(self, names: Sequence[str]) -> dict[str, SeedReach | None]:
        """Return the reach of each name; None: it was never resolved."""
        connection = self._control.connection
        rows = self._control.retry(lambda: connection.execute(_REACHES, (Many(names),)).fetchall())
        found = {name: SeedReach(reach) for name, reach in rows}
        return {name: found.get(name) for name in names}

    def store(self, name: str, reach: SeedReach) -> None:
        """Store the first reach of a name, or the permission of the operator."""
        row = (name, int(reach), int(SeedReach.ANY))
        self._control.write(lambda: self._control.connection.execute(_STORE, row))
