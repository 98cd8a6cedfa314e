"""The heartbeat of a worker, also while its event loop is busy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.frontier.redis.exchanges import FrontierClaim
from smartcrawl.run.frontier.redis.frontier import HEARTBEAT, RedisFrontier

logger = logging.getLogger(__name__)


class ClaimHeartbeat:
    """Renews the claims of a worker, in a thread of its own, until it is stopped.

    ``gone`` is called in that thread, with the claims that other workers may have now. Where Redis
    does not answer, one warning is logged. A lost frontier is handled by the next ``exchange``.

    Source: ADR 30; docs/redis.md.
    """

    def __init__(
        self,
        frontier: RedisFrontier,
        gone: Callable[[list[FrontierClaim]], None],
        seconds: float = HEARTBEAT,
    ) -> None:
        self._frontier = frontier
        self._gone = gone
        self._seconds = seconds
        self._ended = Event()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin; the first beat comes after ``seconds``."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the current beat."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        silent = False
        while not self._ended.wait(self._seconds):
            try:
                gone = self._frontier.renew()
            except FrontierLostError:
                continue
            except FrontierError as error:
                if not silent:
                    logger.warning(
                        "%s; until then other workers may take over the claims of this one", error
                    )
                silent = True
                continue
            silent = False
            if gone:
                self._gone(gone)
