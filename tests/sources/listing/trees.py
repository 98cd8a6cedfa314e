"""Trees of files with what a listing must bear, and listings of them."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smartcrawl.sources.listing.entries import (
    Entry,
    FileValidator,
    ListingRules,
    listing_folder_path,
)
from smartcrawl.sources.listing.folder import FolderListing

LATER = 10_000_000_000  #: nanoseconds; a pass that begins so much later trusts today's files
SHM = Path("/dev/shm")
#: Root may do everything, unless it gives these rights up before a program starts.
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@contextmanager
def on(place: str, tmp_path: Path) -> Iterator[Path]:
    """An empty folder on a disk, or in memory where there is /dev/shm."""
    if place == "disk" or not SHM.is_dir():
        (tmp_path / "root").mkdir()
        yield tmp_path / "root"
        return
    folder = Path(tempfile.mkdtemp(prefix="smartcrawl-listing-", dir=SHM))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def listing_of(
    root: str | Path,
    rules: ListingRules | None = None,
    validator: FileValidator = FileValidator.MTIME,
    now_ns: int | None = None,
) -> FolderListing:
    now = time.time_ns() + LATER if now_ns is None else now_ns
    return FolderListing(root, rules=rules or ListingRules(), validator=validator, now_ns=now)


def entries_of(listing: FolderListing) -> list[Entry]:
    return [entry for batch in listing.batches() for entry in batch]


def names_of(root: Path, entries: list[Entry]) -> set[bytes]:
    """The paths of entries below a root, as the file system has them."""
    start = os.fsencode(root) + b"/"
    paths = [os.fsencode(listing_folder_path(entry.url)) for entry in entries]
    assert all(path.startswith(start) for path in paths)
    assert len(set(paths)) == len(paths)
    return {path.removeprefix(start) for path in paths}


def files_below(root: Path) -> set[bytes]:
    """The same by the standard library."""
    found = set()
    for folder, _, files in os.walk(os.fsencode(root)):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.add(os.path.relpath(path, os.fsencode(root)))
    return found


def listen(path: Path) -> socket.socket:
    """Make a socket, whose address is short whatever the path is."""
    found = socket.socket(socket.AF_UNIX)
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        found.bind(f"/proc/self/fd/{opened}/{path.name}")
    finally:
        os.close(opened)
    return found


def chain(root: Path, depth: int, name: str = "d", *, beside: str | None = None) -> None:
    """Make folders one in another, deeper than a path may be long, with a file in the last one."""
    current = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        if beside is not None:
            os.mkdir(beside, dir_fd=current)
            inner = os.open(beside, os.O_RDONLY, dir_fd=current)
            os.close(os.open("f.md", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
            os.close(inner)
        os.mkdir(name, dir_fd=current)
        below = os.open(name, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(os.open("last.md", os.O_CREAT | os.O_WRONLY, dir_fd=current))
    os.close(current)


def as_bound_user(program: str, *arguments: str | Path) -> str:
    """Run Python code as a user whom the modes of files bind; return its output."""
    done = subprocess.run(
        [*BOUND, sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert not done.returncode, done.stderr
    return done.stdout
