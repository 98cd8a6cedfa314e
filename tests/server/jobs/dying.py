"""Kill the first process that gets to a step of a job's life; imported when Python starts.

JOB_DIES_AT    WHEN MODULE FUNCTION FILE: ``WHEN`` is before or after the call of the function. Of
               all processes that get there, the one that creates FILE dies.
JOB_DIES_WITH  server: the crawl kills the server that started it, and then itself, as the end of
               a container does
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any


def _first(file: str) -> bool:
    """Whether this is the first process that asks."""
    with suppress(FileExistsError):
        open(file, "x").close()
        return True
    return False


def _die() -> None:
    if os.environ.get("JOB_DIES_WITH") == "server":
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def dying(work: Callable[..., Any], when: str, file: str) -> Callable[..., Any]:
    """Return a function before or after which the first process dies."""

    @wraps(work)
    def dies(*args: Any, **options: Any) -> Any:
        if when == "before" and _first(file):
            _die()
        answer = work(*args, **options)
        if when == "after" and _first(file):
            _die()
        return answer

    return dies


def arrange() -> None:
    """Prepare this process, if it is the server or a crawl that the step belongs to."""
    when, module, name, file = os.environ["JOB_DIES_AT"].split(" ", 3)
    command = "serve" if module.startswith("smartcrawl.server.") else "crawl"
    if command not in sys.orig_argv:
        return
    place: Any = importlib.import_module(module)
    *owners, name = name.split(".")
    for owner in owners:
        place = getattr(place, owner)
    setattr(place, name, dying(getattr(place, name), when, file))


if "JOB_DIES_AT" in os.environ:
    arrange()
