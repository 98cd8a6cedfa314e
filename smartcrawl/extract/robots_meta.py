"""What a page allows robots to do with it."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = "smartcrawl"  #: our name in directives

_AGENT: Final = re.compile(r"\s*([a-z][\w.-]*)\s*:(.*)", re.DOTALL)
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


def robots_directives(value: str) -> tuple[bool, bool]:
    """Return ``(noindex, nofollow)`` as one robots meta or ``X-Robots-Tag`` value says.

    A robot's name and a colon give what follows to that robot, up to the next name: directives for
    others are passed over, those for smartcrawl and for nobody by name count. ``none`` is both.
    Several header lines are asked one by one, because a name holds for its line only.

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
