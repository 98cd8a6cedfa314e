"""Origins that send bytes which no request asked for, as lane and engine of a run find them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

logger = logging.getLogger(__name__)

FRESH: Final = "fresh"  #: in Request.meta: asked on a connection of its own, used for nothing else
_MOST: Final = 2  #: connections of an origin


class Strays:
    """Counts connections on which bytes came without a request.

    An origin (scheme, host and port, as in its addresses) that did it on two of them gets one
    request a connection for the rest of the run.

    Source: docs/adr/0032.
    """

    def __init__(self) -> None:
        self._connections: Counter[str] = Counter()
        self._suspect: set[str] = set()

    def came(self, origin: str) -> None:
        """Count a connection."""
        self._connections[origin] += 1
        if self._connections[origin] == _MOST:
            self._suspect.add(origin)
            logger.info(
                "%s sends answers that no request asked for: one request a connection from now on",
                origin,
            )

    def suspects(self, origin: str) -> bool:
        """Whether an origin gets one request a connection."""
        return origin in self._suspect


def origin_of(url: str) -> str:
    """Return the origin of an absolute address."""
    end = url.find("/", 8)
    return url[:end] if end > 0 else url
