"""Robots directives of a page."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = "smartcrawl"  #: our name in directives

_AGENT: Final = re.compile(r"\s*([a-z][\w.-]*)\s*:(.*)", re.DOTALL)
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


def robots_meta_directives(value: str) -> tuple[bool, bool]:
    """Return ``(noindex, nofollow)`` of one robots meta or ``X-Robots-Tag`` value.

    A robot's name and a colon address the directives up to the next name to that robot. Directives
    for smartcrawl and without a name count, others are ignored. ``none`` is both. Call it for each
    header line, because a name applies to its line only.

    Source: RFC 9309 leaves these out; developers.google.com "Robots meta tag, data-nosnippet and
    X-Robots-Tag specifications".
    """
    noindex = nofollow = False
    ours = True
    for part in value.lower().split(","):
        words = part
        if (named := _AGENT.match(part)) and named[1] not in _VALUED:
            ours = named[1] == NAME
            words = named[2]
        if ours and ":" not in words:
            said = words.split()
            noindex |= "noindex" in said or "none" in said
            nofollow |= "nofollow" in said or "none" in said
    return noindex, nofollow
