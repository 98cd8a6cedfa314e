"""What kills a crawl while it writes its archive; imported before its command begins.

DIES_AT     `within`: half of the archive is written; `before` or `after`: it gets its name
"""

import os
import signal
from functools import wraps
from pathlib import Path
from typing import IO, Any

from smartcrawl.run.library import report as library_archive

_write, _as_new = library_archive._write, library_archive.sharepoint_file_as_new


def _die(where: str) -> None:
    if os.environ["DIES_AT"] == where:
        os.kill(os.getpid(), signal.SIGKILL)


@wraps(_write)
def _half_written(file: IO[bytes], **more: Any) -> None:
    _write(file, **more)
    if os.environ["DIES_AT"] == "within":
        file.truncate(file.tell() // 2)
        file.flush()
        _die("within")


@wraps(_as_new)
def _placed(sibling: Path, path: Path) -> Path:
    _die("before")
    placed = _as_new(sibling, path)
    _die("after")
    return placed


if "DIES_AT" in os.environ:  # pytest imports every module for its doctests
    library_archive._write, library_archive.sharepoint_file_as_new = _half_written, _placed
