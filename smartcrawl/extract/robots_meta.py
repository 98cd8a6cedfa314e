"""Robots directives of a page."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

NAME: Final = "smartcrawl"  #: our name in directives

_AGENT: Final = re.compile(r"\s*([a-z][\w.-]*)\s*:(.*)", re.DOTALL)
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


_EXPIRY: Final = "unavailable_after:"
_DATE_PARTS: Final = 2  #: between commas: "Wed, 25 Jun 2025 15:00:00 GMT" has two


def robots_meta_directives(value: str, now: float = 0) -> tuple[bool, bool]:
    """Return ``(noindex, nofollow)`` of one robots meta or ``X-Robots-Tag`` value.

    ``now`` is Unix seconds: an ``unavailable_after`` in the past is noindex. A date that cannot be
    read is none.

    A robot's name and a colon address the directives up to the next name to that robot. Directives
    for smartcrawl and without a name count, others are ignored. ``none`` is both. Call it for each
    header line, because a name applies to its line only.

    Source: RFC 9309 leaves these out; developers.google.com "Robots meta tag, data-nosnippet and
    X-Robots-Tag specifications".
    """
    noindex = nofollow = False
    ours = True
    parts = value.lower().split(",")
    for at, part in enumerate(parts):
        words = part
        if (named := _AGENT.match(part)) and named[1] not in _VALUED:
            ours = named[1] == NAME
            words = named[2]
        if ours and ":" not in words:
            said = words.split()
            noindex |= "noindex" in said or "none" in said
            nofollow |= "nofollow" in said or "none" in said
        elif ours and words.strip().startswith(_EXPIRY):
            date = words.strip().removeprefix(_EXPIRY)
            noindex |= _is_past([date, *parts[at + 1 : at + _DATE_PARTS]], now)
    return noindex, nofollow


def _is_past(parts: list[str], now: float) -> bool:
    """Whether the date that begins with the first of these parts, cut at commas, is over.

    >>> _is_past([" wed", " 25 jun 2025 15:00:00 gmt"], 2e9), _is_past([" 2025-06-25"], 1e9)
    (True, False)
    """
    texts = [",".join(parts[:count]).strip() for count in range(1, len(parts) + 1)]
    moment = next(filter(None, map(_moment, texts)), None)
    return moment is not None and moment.timestamp() <= now


def _moment(text: str) -> datetime | None:
    """Return a date of RFC 822, RFC 850 or ISO 8601; without a zone it is UTC."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.upper())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None
