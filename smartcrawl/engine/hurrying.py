"""Signals that end a process, noticed even while its event loop waits for the registry."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def hurrying_at_signals(hurry: Callable[[], None]) -> Iterator[None]:
    """Call ``hurry`` at once where a signal ends the process, before the handler that is there.

    Scrapy's handler only leaves a message to the event loop, which may wait for a minute.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours: dict[signal.Signals, _Hurried] = {}
    for number in _SIGNALS:
        before = signal.getsignal(number)
        if callable(before):
            ours[number] = _Hurried(before, hurry)
            signal.signal(number, ours[number])
    try:
        yield
    finally:
        for number, handler in ours.items():
            before = handler.before
            if signal.getsignal(number) is handler:
                signal.signal(number, before)


class _Hurried:
    """A handler of a signal, before the one that was there."""

    def __init__(
        self, before: Callable[[int, FrameType | None], Any], hurry: Callable[[], None]
    ) -> None:
        self.before = before
        self._hurry = hurry

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hurry, then do what was done before."""
        self._hurry()
        self.before(number, frame)
