"""Memory of a crawl: its garbage, and the return of what large pages took."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 50_000  #: more than were freed; a failed page leaves about 80 in cycles
_BODIES: Final = 64 * 1024 * 1024  #: bytes of bodies that may wait for the collector
_MMAP_THRESHOLD: Final = -3  #: glibc's name of the bound
_LARGE: Final = 1024 * 1024  #: bytes


def return_engine_memory() -> None:
    """Have glibc return blocks of 1 MiB and more to the system as soon as they are freed.

    By default glibc raises that bound with each such block that is freed, up to 32 MiB. The copies
    that are made of one long page then leave holes between live blocks, a fifth of the process.
    Other C libraries are not changed.

    Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_MMAP_THRESHOLD, _LARGE)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Have the garbage collector look for cycles after 50,000 new objects instead of 700.

    Objects that live by then, such as imported modules, are never looked at again. Crawls leave few
    cycles, none with the text of a page, and the looking took 6 % of a first crawl. Bodies that
    failures keep are counted by ``UndecodedBodies``.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class UndecodedBodies:
    """Frees the bodies that could not be decoded.

    The error of such a body has a traceback, which keeps the answer in a cycle of Scrapy's objects.
    """

    def __init__(self) -> None:
        self._size = 0

    def add(self, size: int) -> None:
        """Count a body of so many bytes; look for garbage, when there is enough of it."""
        self._size += size
        if self._size >= _BODIES:
            self._size = 0
            gc.collect(1)
