"""The way of a listing through a tree: open folders, and those that are still to be entered."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from smartcrawl.sources.listing.names import quoted_listing_name
from smartcrawl.sources.listing.opening import (
    close_listed_folder,
    open_listed_below,
    open_listed_folder,
    open_listing_root,
)

_OPEN: Final = 32  #: folders that are open at once; deeper trees have theirs opened again

_MOVED: Final = "it was moved or replaced while it was listed"


class MovedFolderError(OSError):
    """A folder is not where it was when the listing came through it first."""


class Below(NamedTuple):
    """A folder in a folder, which is still to be entered."""

    name: str
    real: str | None  #: path below the root that a link with this name leads to; None: no link
    seen: SeenFolder | None = None  #: as the first pass listed it; None: it did not


@dataclass(slots=True, eq=False)
class SeenFolder:
    """A folder as the first pass listed it; a tree of 100,000 files takes a megabyte or two."""

    state: int  #: of ``folder_state``, from before its names were read
    is_doubted: bool  #: whether to list it again, whatever its state is by then
    files: bytes = b""  #: hashes of the names of its files
    below: list[Below] = field(default_factory=list)  #: the folders in it that were listed

    def hashes(self) -> frozenset[int]:
        """Return the hashes of the names of its files."""
        return frozenset(memoryview(self.files).cast("q"))


@dataclass(slots=True, eq=False)
class WalkedFolder:
    """A folder on the way, and the folders in it that are still to be entered."""

    path: str  #: path below the root, ending in a slash; that of the root is empty
    real: str  #: the same without links
    url: str  #: its address, ending in a slash
    identity: tuple[int, int]  #: device and inode
    parent: WalkedFolder | None
    behind_link: bool
    opened: int  #: file descriptor; -1: closed
    seen: SeenFolder | None  #: as the first pass listed it; None: it did not
    below: list[Below] = field(default_factory=list)  #: last one first

    def close(self) -> None:
        """Close the folder; it can be opened again."""
        if self.opened >= 0:
            close_listed_folder(self.opened)
        self.opened = -1

    def leave(self) -> None:
        """Close the folder for good, and forget its path, which is long in a deep tree."""
        self.close()
        self.path = self.real = self.url = ""

    def is_within(self, identity: tuple[int, int]) -> bool:
        """Whether this folder, or one above it on the way, has an identity."""
        folder: WalkedFolder | None = self
        while folder is not None:
            if folder.identity == identity:
                return True
            folder = folder.parent
        return False


class Walk:
    """A tree in depth, with few open folders however deep it is, and without following links.

    Each folder is opened by its name in the open folder above it, so that a folder that is replaced
    by a link meanwhile leads nowhere.
    """

    def __init__(self, root: str, url: str) -> None:
        """Open the root.

        Raises:
            OSError: it is away, refuses, or is no folder.
        """
        opened = open_listing_root(root)
        self._root = WalkedFolder("", "", url, _identity(opened), None, False, opened, None)
        self._way = [self._root]

    @property
    def root(self) -> WalkedFolder:
        return self._root

    def pending(self) -> Iterator[tuple[WalkedFolder, Below]]:
        """Yield folders to be entered, deepest first; ``enter`` each before the next one."""
        while self._way:
            folder = self._way[-1]
            if folder.below:
                yield folder, folder.below.pop()
            else:
                self._way.pop()
                if folder is not self._root:
                    folder.leave()

    def enter(self, folder: WalkedFolder, below: Below) -> WalkedFolder:
        """Open a folder that ``pending`` yielded.

        Raises:
            MovedFolderError: ``folder`` itself is not there any more.
            OSError: it refuses, or is not there any more.
        """
        if below.real is None:
            self._reopen(folder)
            opened = open_listed_folder(below.name, folder.opened)
            real = f"{folder.real}{below.name}/"
        else:
            opened = open_listed_below(self._root.opened, below.real.split("/"))
            real = f"{below.real}/"
        path = f"{folder.path}{below.name}/"
        found = WalkedFolder(
            path=path,
            real=path if real == path else real,
            url=f"{folder.url}{quoted_listing_name(below.name)}/",
            identity=_identity(opened),
            parent=folder,
            behind_link=folder.behind_link or below.real is not None,
            opened=opened,
            seen=below.seen,
        )
        if not folder.below and folder is not self._root:
            self._way.pop()
            folder.leave()
        self._way.append(found)
        if len(self._way) > _OPEN + 1:
            self._close(self._way[-_OPEN - 1])
        return found

    def _close(self, folder: WalkedFolder) -> None:
        if folder is not self._root:
            folder.close()

    def _reopen(self, folder: WalkedFolder) -> None:
        """Open a folder again, with those above it on the way that will be needed next."""
        if folder.opened >= 0:
            return
        wanted = {other.real.count("/"): other for other in self._way[-_OPEN:]}
        current = self._root.opened
        kept = True
        for depth, name in enumerate(folder.real.split("/")[:-1], 1):
            try:
                below = open_listed_folder(name, current)
            except OSError as error:
                raise MovedFolderError(error.errno, _MOVED) from error
            finally:
                if not kept:
                    close_listed_folder(current)
            current = below
            other = wanted.get(depth)
            kept = other is not None and other.opened < 0 and _identity(current) == other.identity
            if other is not None and kept:
                other.opened = current
        if folder.opened < 0:
            close_listed_folder(current)
            raise MovedFolderError(errno.ESTALE, _MOVED)

    def close(self) -> None:
        """Close all folders."""
        for folder in self._way:
            folder.close()
        self._root.close()


def folder_state(opened: int) -> tuple[int, int]:
    """Return a hash that differs once names in an open folder changed, and its time of change.

    The time is in Unix nanoseconds. Another folder has another hash, too.
    """
    found = os.fstat(opened)
    return hash((found.st_dev, found.st_ino, found.st_mtime_ns)), found.st_mtime_ns


def _identity(opened: int) -> tuple[int, int]:
    found = os.fstat(opened)
    return found.st_dev, found.st_ino
