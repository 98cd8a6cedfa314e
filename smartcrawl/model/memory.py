"""Memory that the C library keeps after it was freed."""

from __future__ import annotations

import ctypes
import sys


def return_freed_memory() -> None:
    """Have glibc return the freed pages below blocks that are in use, to the system.

    By itself it returns small blocks only from the end of its memory, so that one live block keeps
    all that was freed before it. This walks the whole of it: call it after work that is done once.
    Other C libraries are not changed.

    Source: malloc_trim(3).
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # musl has none
        trim(0)
