"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC with Z (M-44).

    >>> iso_time(1705744800)
    '2024-01-20T10:00:00Z'
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:-6] + "Z"
