"""libfaketime, which moves the clock of a process, as installed or unpacked from Debian."""

import re
import time
from functools import cache
from pathlib import Path

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import unpacked

_NAME = "faketime/libfaketime.so.1"


def moved_clock(at: float) -> dict[str, str]:
    """The environment of a process for which it is `at` (Unix seconds) now, and time goes on.

    Processes that it starts have the same clock. What counts seconds alone, such as a time-out,
    is not moved, and neither are the times of files.
    """
    library = _library()
    if isinstance(library, UnavailableError):
        absent(f"libfaketime is not available: {library}")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{at - time.time():+.0f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": str(Path(__file__).parent / "moved"),
    }


@cache
def _library() -> Path | UnavailableError:
    for folder in Path("/usr/lib").glob(f"*/{_NAME}"):
        return folder
    try:
        tree = unpacked("libfaketime", _in_tree, follow=re.compile("^$"))
    except UnavailableError as error:
        return error
    found = _in_tree(tree)
    return found or UnavailableError(f"{tree} has no {_NAME}: remove it")


def _in_tree(tree: Path) -> Path | None:
    return next(iter(tree.glob(f"usr/lib/*/{_NAME}")), None)
