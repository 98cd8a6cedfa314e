"""A process that halts behind one of its commits, until a test lets it go on.

HALTS_BEHIND   number of the commit, from 1, and a folder: `NUMBER FOLDER`. There the file `halted`
               appears, and the process waits for the file `go`. The file `commits` has a line for
               each commit.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock

from smartcrawl.registry import connection
from smartcrawl.registry.connection import WRITING, Connection

_SECONDS = 120  #: after which a forgotten process goes on

if "HALTS_BEHIND" in os.environ:  # pytest imports every module for its doctests
    _given, _, _folder = os.environ["HALTS_BEHIND"].partition(" ")
    _numbers, _lock, _within = count(1), Lock(), connection._within

    @contextmanager
    def within(connection: Connection, begin: str) -> Iterator[None]:
        """Do the transaction, and halt behind it if it is the one."""
        with _within(connection, begin):
            yield
        if begin != WRITING:
            return
        with _lock:
            number = next(_numbers)
            with Path(_folder, "commits").open("a") as file:
                print(number, file=file)
        if number == int(_given):
            Path(_folder, "halted").touch()
            end = time.monotonic() + _SECONDS
            while not Path(_folder, "go").exists() and time.monotonic() < end:
                time.sleep(0.02)

    connection._within = within
