"""An order to the run, as the parts of this process see it."""

from __future__ import annotations

from collections.abc import Callable

from smartcrawl.rules.model import RunOrder


class Halt:
    """Ends this process's part in a run by order: nothing more is sent, then all is dropped.

    Once there is an ``order``, no request is sent, and no failure counts. ``drop`` gives up the
    requests in flight and the documents that are being read: their pages stay pending.
    """

    def __init__(self) -> None:
        self.order: RunOrder | None = None  #: set once, in the thread of the event loop
        self._drops: list[Callable[[], None]] = []

    def when_dropped(self, drop: Callable[[], None]) -> None:
        """Have ``drop`` called in the thread of the event loop, at most once."""
        self._drops.append(drop)

    def drop(self) -> None:
        """Give up all work that is under way."""
        drops, self._drops = self._drops, []
        for drop in drops:
            drop()
