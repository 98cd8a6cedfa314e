"""Listing of a folder of this machine, or mounted on it: one pass, and a look at its changes."""

from __future__ import annotations

import errno
import os
import stat
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from smartcrawl.model.file_urls import url_of_folder
from smartcrawl.sources.listing.entries import (
    RACY,
    Entry,
    FileValidator,
    ListingRules,
    Skip,
    count_left_out,
    listed_file_modified_at,
    listed_file_validator,
    listing_folder_path,
    listing_root_path,
    quoted_listing_name,
    shown_listing_path,
    source_entries_in_batches,
)
from smartcrawl.sources.stores import Fault, file_store_fault

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_listing_root(root: str) -> int:
    """Open the root of a listing, which may be a link itself."""
    return os.open(root, _FOLDER)


def open_listed_folder(name: str, parent: int) -> int:
    """Open a folder in an open folder; a link in its place is NotADirectoryError."""
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def open_listed_below(root: int, names: Sequence[str]) -> int:
    """Open a folder below an open root; ``root`` stays open."""
    current = os.dup(root)
    for name in names:
        try:
            below = open_listed_folder(name, current)
        finally:
            os.close(current)
        current = below
    return current


def open_listed_file(name: str, parent: int) -> int:
    """Open a regular file in an open folder, without waiting for a FIFO or a device.

    Raises:
        FileNotFoundError: there is none, or something else has its name.
        OSError: it cannot be opened.
    """
    before = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):  # to open a device may already do something
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file")
    opened = os.open(name, _FILE, dir_fd=parent)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise FileNotFoundError(errno.ENOENT, "it is not a regular file")


def path_inside_listing(path: str, root: str) -> str | None:
    """Return the path, below a real root, that an existing path leads to, or None if none.

    Raises:
        OSError: the path leads nowhere, or cannot be followed.
    """
    real = os.path.realpath(path, strict=True)
    if real == root:
        return ""
    start = root.rstrip("/") + "/"
    return real[len(start) :] if real.startswith(start) else None


def listed_link_is_broken(error: OSError) -> bool:
    """Whether an error of ``inside`` means that the link leads nowhere."""
    return error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def close_listed_folder(opened: int) -> None:
    """Close a folder that was open for reading, where an error means nothing."""
    with suppress(OSError):
        os.close(opened)


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


_KINDS: Final = {
    stat.S_IFLNK: Skip.SYMLINK,
    stat.S_IFIFO: Skip.FIFO,
    stat.S_IFSOCK: Skip.SOCKET,
}
_GONE: Final = "what it names was gone a moment later, twice"


class _RepeatedlyGoneError(OSError):
    """Names in a folder that led nowhere a moment later, in both passes."""


class FolderListing:
    """Two passes over a folder; the work grows with its files, the memory with its folders.

    The first pass lists everything. The second lists again, once, each folder that changed since
    the first, or that named what was gone a moment later (ADR 119). A file is named once.

    No link is followed without ``follow_symlinks``. With it, a link to a folder that is above it,
    or that another link led to before, is skipped, so that circles end; and so is a link that
    leaves the root.

    Source: R1-28, R1-29.
    """

    def __init__(
        self, root: str | Path, *, rules: ListingRules, validator: FileValidator, now_ns: int
    ) -> None:
        """Set up the passes over ``root``, a folder's absolute path; they begin at ``now_ns``."""
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.mounts: dict[str, int] = {}  #: devices mounted at folders, by their URLs
        self._root = listing_root_path(root)
        self._rules = rules
        self._validator = validator
        self._now_ns = now_ns
        self._linked: set[tuple[int, int]] = set()  # folders that a link led to
        self._top: SeenFolder | None = None  # the root as the first pass listed it
        self._is_second = False  # whether the first pass has ended

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the files of the folder, up to 1,000 at a time. Call it once."""
        return source_entries_in_batches(self._entries())

    def has(self, url: str) -> bool:
        """Whether a file is there, by the URL of its entry."""
        return os.path.lexists(listing_folder_path(url))

    def _entries(self) -> Iterator[Entry]:
        yield from self._passed()
        if self._top is not None:
            self._is_second = True
            yield from self._passed()

    def _passed(self) -> Iterator[Entry]:
        """Yield the files that one pass finds first."""
        url = url_of_folder(self._root)
        try:
            walk = Walk(self._root, url if url.endswith("/") else f"{url}/")
        except OSError as error:
            self._problem("", error)
            return
        try:
            walk.root.seen = self._top
            above = os.stat("..", dir_fd=walk.root.opened).st_dev
            self._note_mount(walk.root, above)
            yield from self._folder(walk.root)
            self._top = walk.root.seen
            for folder, below in walk.pending():
                entered = self._enter(walk, folder, below)
                if entered is not None:
                    yield from self._folder(entered)
                    self._remember(folder, below, entered)
        finally:
            walk.close()

    def _note_mount(self, folder: WalkedFolder, above: int) -> None:
        """Note that another device is mounted at a folder than the one above it has."""
        device = folder.identity[0]
        if device != above and not folder.behind_link:
            self.mounts[folder.url] = device

    def _remember(self, folder: WalkedFolder, below: Below, entered: WalkedFolder) -> None:
        """Keep a folder that the first pass listed for the second."""
        if not self._is_second and folder.seen is not None:
            folder.seen.below.append(below._replace(seen=entered.seen))

    def _enter(self, walk: Walk, folder: WalkedFolder, below: Below) -> WalkedFolder | None:
        """Enter a folder, unless it is gone, refuses, or is in a circle of links."""
        try:
            entered = walk.enter(folder, below)
        except MovedFolderError as error:
            self._gone(folder, error)
            folder.below.clear()
            return None
        except FileNotFoundError:
            if below.seen is None:  # else the first pass listed it, and its files are known
                self._gone(folder)
            return None
        except OSError as error:
            self._problem(f"{folder.path}{below.name}", error)
            return None
        self._note_mount(entered, folder.identity[0])
        if not entered.behind_link or below.seen is not None:
            return entered
        if entered.identity in self._linked or folder.is_within(entered.identity):
            self._skip(Skip.REPEATED_LINK)
            return None
        self._linked.add(entered.identity)
        return entered

    def _gone(self, folder: WalkedFolder, moved: MovedFolderError | None = None) -> None:
        """Note that a folder named what was gone a moment later: that proves no absence.

        ``moved``: it is the folder itself that is not there any more.
        """
        self._skip(Skip.GONE)
        if self._is_second:
            self._problem(folder.path, moved or _RepeatedlyGoneError(errno.ENOENT, _GONE))
        elif folder.seen is not None:
            folder.seen.is_doubted = True

    def _skip(self, skip: Skip, relative: str = "") -> None:
        """Count an item that is left out. The second pass sees the same once more."""
        if not self._is_second:
            count_left_out(self.skipped, skip, relative)

    def _folder(self, folder: WalkedFolder) -> Iterator[Entry]:
        """Yield the files of one folder, and note the folders in it."""
        state, changed_at = folder_state(folder.opened)
        known = folder.seen
        if known is not None and known.state == state and not known.is_doubted:
            folder.below = sorted(known.below, key=_name, reverse=True)
            return
        # A time that is less than two seconds older than the pass may hide a change (RACY).
        seen = SeenFolder(state, is_doubted=self._now_ns - changed_at < RACY)
        files = _Names(known)
        folder.seen = seen
        refused: list[OSError] = []
        try:
            with os.scandir(folder.opened) as items:
                for item in items:
                    try:
                        entry = self._item(folder, item, files)
                    except FileNotFoundError:
                        self._gone(folder)
                    except OSError as error:
                        refused.append(error)
                    else:
                        if entry is not None:
                            yield entry
        except OSError as error:
            self._problem(folder.path, error)
        seen.files = files.packed()
        folder.below = files.with_known(folder.below)
        folder.below.sort(key=_name, reverse=True)
        if refused:
            self._problem(folder.path, refused[0], len(refused))

    def _item(self, folder: WalkedFolder, item: os.DirEntry[str], files: _Names) -> Entry | None:
        """Return the entry of a file; None for anything else, which is counted or noted."""
        if item.is_file(follow_symlinks=False):
            if item.name in files:
                return None
            skip = self._rules.skip(folder.path + item.name)
            entry = None
            if skip is None:
                entry = self._entry(folder, item.name, item.stat(follow_symlinks=False))
            else:
                self._skip(skip, item.name)
            files.add(item.name)
            return entry
        if item.is_dir(follow_symlinks=False):
            self._below(folder, Below(item.name, None))
        elif self._rules.follow_symlinks and item.is_symlink():
            return self._link(folder, item.name, files)
        else:
            found = item.stat(follow_symlinks=False)
            self._skip(_KINDS.get(stat.S_IFMT(found.st_mode), Skip.DEVICE))
        return None

    def _entry(self, folder: WalkedFolder, name: str, found: os.stat_result) -> Entry:
        return Entry(
            folder.url + quoted_listing_name(name),
            found.st_size,
            listed_file_validator(self._validator, found, self._now_ns),
            listed_file_modified_at(found),
        )

    def _below(self, folder: WalkedFolder, below: Below) -> None:
        skip = self._rules.skip_folder(folder.path + below.name)
        if skip is None:
            folder.below.append(below)
        else:
            self._skip(skip)

    def _link(self, folder: WalkedFolder, name: str, files: _Names) -> Entry | None:
        """Follow a link to a file, or note one to a folder, if it stays below the root."""
        if name in files:
            return None
        try:
            root = os.path.realpath(self._root, strict=True)
            real = path_inside_listing(os.path.join(root, folder.real, name), root)
            found = os.stat(os.path.join(root, real or ""), follow_symlinks=False)
        except OSError as error:
            if not listed_link_is_broken(error):
                raise
            self._skip(Skip.BROKEN_LINK)
            return None
        if real is None:
            self._skip(Skip.LEAVING_LINK)
        elif real == "":
            self._skip(Skip.REPEATED_LINK)
        elif stat.S_ISDIR(found.st_mode):
            self._below(folder, Below(name, real))
        elif not stat.S_ISREG(found.st_mode):
            self._skip(_KINDS.get(stat.S_IFMT(found.st_mode), Skip.DEVICE))
        elif skip := self._rules.skip(folder.path + name):
            self._skip(skip, name)
        else:
            files.add(name)
            return self._entry(folder, name, found)
        return None

    def _problem(self, path: str, error: OSError, files: int = 0) -> None:
        """Record a part that could not be listed, by its path below the root."""
        place = shown_listing_path(os.path.join(self._root, path).rstrip("/") or "/")
        why = error.strerror or str(error)
        if files:
            why = f"{files} {'file' if files == 1 else 'files'} in it: {why}"
        fault = file_store_fault(error)
        remedy = fault.value.format(who="this user", setting="root")
        if isinstance(error, MovedFolderError):
            remedy = "the next run lists it"
        elif isinstance(error, _RepeatedlyGoneError):
            remedy = "crawl again when nothing is moved in it"
        elif fault is Fault.OTHER:
            remedy = "check the disk or the mount"
        problem = f"{place} ({why}; {remedy})"
        if problem not in self.problems:
            self.problems.append(problem)


class _Names:
    """The files of one folder while it is listed."""

    def __init__(self, known: SeenFolder | None) -> None:
        """``known``: the folder as the first pass listed it."""
        self._found = array("q")  # hashes
        self._known = frozenset() if known is None else known.hashes()
        self._below = {} if known is None else {below.name: below.seen for below in known.below}

    def __contains__(self, name: str) -> bool:
        """Whether the first pass named a file."""
        return bool(self._known) and hash(name) in self._known

    def add(self, name: str) -> None:
        """Take a file."""
        self._found.append(hash(name))

    def packed(self) -> bytes:
        """Return the hashes of the names that were taken."""
        return self._found.tobytes()

    def with_known(self, found: list[Below]) -> list[Below]:
        """Return folders as the first pass listed them, where it did."""
        return [below._replace(seen=self._below.get(below.name)) for below in found]


def _name(below: Below) -> str:
    return below.name
