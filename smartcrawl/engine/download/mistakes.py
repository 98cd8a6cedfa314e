"""Mistakes in a user's own code, distinguished from failed downloads, with their places."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Final

from scrapy.exceptions import IgnoreRequest
from twisted.python.failure import Failure

from smartcrawl.engine.download.faults import download_fault
from smartcrawl.rules.model import Fault

_LIBRARIES: Final = tuple(
    Path(folder).resolve()
    for folder in (
        Path(__file__).parents[2],
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        sysconfig.get_path("stdlib"),
    )
)


class OwnCodeError(Exception):
    """A request failed by a mistake in a user's own component; the cause has its place."""


def own_code_place(failure: Failure) -> str:
    """Return the class of an error that a user's own code raised, with its file and line.

    The last line of that code counts, also where it called into a library.
    """
    error: BaseException = failure.value  # type: ignore[assignment]  # never None here
    if isinstance(error, OwnCodeError) and error.__cause__ is not None:
        error = error.__cause__
    found = _places(error)
    if not found:
        return type(error).__name__
    own = [place for place in found if not _is_of_library(place[0])]
    file, line, function = (own or found)[-1]
    return f"{type(error).__name__} at {_short(Path(file))}:{line}, in {function}"


def is_own_code_error(error: BaseException, url: str) -> bool:
    """Whether a request failed by a mistake in a user's own component, not by its download."""
    if isinstance(error, OSError | IgnoreRequest) or not isinstance(error, Exception):
        return False
    if download_fault(error, url)[0] is not Fault.NETWORK:
        return False
    return not all(_is_of_library(file) for file, _, _ in _places(error))


def _places(error: BaseException) -> list[tuple[str, int, str]]:
    return [
        (frame.f_code.co_filename, line, frame.f_code.co_qualname)
        for frame, line in walk_tb(error.__traceback__)
    ]


@cache
def _is_of_library(file: str) -> bool:
    return file.startswith("<") or any(
        Path(file).resolve().is_relative_to(folder) for folder in _LIBRARIES
    )


def _short(file: Path) -> Path:
    """Return a file below the current folder, or below one of modules, by its shorter path."""
    for folder in (Path.cwd(), *map(Path, filter(None, sys.path))):
        if file.is_relative_to(folder):
            return file.relative_to(folder)
    return file
