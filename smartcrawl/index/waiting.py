"""Log lines about an index that a run waits for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.program import program_argument

logger = logging.getLogger(__name__)

_SILENCE: Final = 30.0  #: seconds between two lines about a wait
_LONG: Final = 10.0  #: seconds of a wait after which ``when_long`` is called
_APART: Final = 90.0  #: seconds without a call after which another wait begins


class Waiting:
    """Logs now and then that a run waits for an index, and ends the wait with the run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.stopping: Callable[[], bool] = lambda: False
        self.when_long: Callable[[], None] = lambda: None  #: called now and then in a long wait
        self._since = self._last = -_APART
        self._clock = clock
        self._logged = -_SILENCE

    def __call__(self, line: str) -> None:
        """Log a line unless the last one is recent; called each second of a wait.

        Raises:
            SinkError: the run is stopping.
        """
        if self.stopping():
            raise SinkError(
                f"stopped while {line.partition(';')[0]}; nothing is lost:"
                f" {program_argument('resume')} goes on"
            )
        now = self._clock()
        if now - self._last >= _APART:
            self._since = now
        self._last = now
        if now - self._since >= _LONG:
            self.when_long()
        if now - self._logged >= _SILENCE:
            self._logged = now
            logger.warning("%s", line)
