"""What large pages took of the process's memory, given back."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_MMAP_THRESHOLD: Final = -3  #: glibc's name of the bound
_LARGE: Final = 1024 * 1024  #: bytes


def give_back_large() -> None:
    """Let a block of 1 MiB and more go back to the system as soon as it is free.

    Left alone, glibc raises the bound up to 32 MiB with each such block that is freed: the copies
    that are made of one long page, one after the other, then leave holes between what stays, a
    fifth of the process. Other libraries are left as they are.

    Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_MMAP_THRESHOLD, _LARGE)
