"""Sleeping in a process whose clock libfaketime moves.

Python sleeps until a moment of the monotonic clock. libfaketime takes that for a moment of the
moved one, and the call fails.
"""

import select
import time


def _sleep(seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = _sleep
