"""Origins that send bytes without a request, as the lane and the engine find them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

logger = logging.getLogger(__name__)

FRESH: Final = "fresh"  #: in Request.meta: sent on a connection that is used for no other request
_MOST: Final = 2  #: connections with stray bytes after which an origin is suspect


class Strays:
    """Counts connections on which bytes came without a request.

    An origin (scheme, host and port, as in its addresses) with two such connections gets one
    request per connection for the rest of the run.

    Source: ADR 32.
    """

    def __init__(self) -> None:
        self._connections: Counter[str] = Counter()
        self._suspect: set[str] = set()

    def came(self, origin: str) -> None:
        """Count a connection of an origin with stray bytes."""
        self._connections[origin] += 1
        if self._connections[origin] == _MOST:
            self._suspect.add(origin)
            logger.info(
                "%s sends answers that no request asked for: one request a connection from now on",
                origin,
            )

    def suspects(self, origin: str) -> bool:
        """Whether an origin gets one request per connection."""
        return origin in self._suspect


def run_stray_origin(url: str) -> str:
    """Return the origin of an absolute address."""
    end = url.find("/", 8)
    return url[:end] if end > 0 else url
