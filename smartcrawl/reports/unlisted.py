"""The parts of a source that its last listing could not read, and what that means for a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import display_url
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.entries import ReportedRecord
from smartcrawl.rules.model import Standing

_LISTING: Final = "listing: "  #: before a part among the reasons that a run is incomplete
_LAST: Final = """
SELECT r.no, r.reasons, r.cut FROM run r JOIN source o ON o.no = r.source
 WHERE o.name = ? AND r.finished_at IS NOT NULL ORDER BY r.no DESC LIMIT 1
"""


class UnlistedParts(NamedTuple):
    """The parts that the listing of the last ended run of a source lacks."""

    run: int
    parts: tuple[str, ...]  #: ``PLACE (why)`` of each

    @classmethod
    def of(cls, connection: Connection, source: str) -> Self | None:
        """Read them; None: the last run ended without a failed part, or there is no such run."""
        row: Any = connection.execute(_LAST, (source,)).fetchone()
        if row is None:
            return None
        reasons = [*json.loads(row[1]), *json.loads(row[2]).get("reasons", ())]
        parts = _parts_of(reasons)
        return cls(row[0], parts) if parts else None

    def as_data(self, entry: ReportedRecord | None, url: str) -> dict[str, Any]:
        """Return run, parts and meaning for one address; ``entry``: its record, if it has one."""
        text = _meaning(self, entry, url)
        return {"run": self.run, "parts": list(self.parts), "text": text}

    def holds(self, url: str) -> bool:
        """Whether an address may be in one of the parts.

        Parts of folders and buckets are those above it. Repositories and libraries have one part.

        >>> lacking = UnlistedParts(2, ("/docs/a (b) (refused)", "s3://bucket/x/ (no answer)"))
        >>> [lacking.holds(url) for url in ("file:///docs/a%20(b)/c.md", "file:///docs/a.md")]
        [True, False]
        >>> lacking.holds("s3://bucket/x/y"), lacking.holds("s3://bucket/xy")
        (True, False)
        """
        if url_item_kind(url) != "file":
            return True
        starts = {"/ ("}
        for path in (url, display_url(url)):
            above = (path[:end] for end, sign in enumerate(path) if sign == "/" and end)
            starts |= {f"{place}{slash} (" for place in (path, *above) for slash in ("", "/")}
        return any(part.startswith(tuple(starts)) for part in self.parts)


def _parts_of(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the parts among the reasons of a run, each once.

    >>> _parts_of(["listing: /docs/a (refused)", "no_pages", "listing: /docs/a (refused)"])
    ('/docs/a (refused)',)
    """
    found = (reason.removeprefix(_LISTING) for reason in reasons if reason.startswith(_LISTING))
    return tuple(dict.fromkeys(found))


def _meaning(lacking: UnlistedParts, entry: ReportedRecord | None, url: str) -> str:
    """Return the meaning of the failed parts for one address."""
    within = lacking.holds(url)
    if entry is None or entry.standing == Standing.BARE:
        where = "this address is in one of them" if within else "this address is in none of them"
        return f"{where}; a run reads it once a listing contains it"
    if not entry.pinned and max(entry.seen_run, entry.reached_run) >= lacking.run:
        return "this page was listed, so the failed part does not affect it"
    if within:
        return (
            "this page is in a part that could not be listed; it may still exist, so it is "
            "not removed"
        )
    return "this page was not listed; it stays until a complete listing lacks it"
