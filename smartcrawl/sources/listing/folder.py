"""Listing of a folder of this machine, or mounted on it: one pass, and a look at its changes."""

from __future__ import annotations

import errno
import os
import stat
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from smartcrawl.model.file_urls import url_of_folder
from smartcrawl.sources.listing.entries import Entry, Skip, source_entries_in_batches
from smartcrawl.sources.listing.names import (
    listing_folder_path,
    listing_root_path,
    quoted_listing_name,
    shown_listing_path,
)
from smartcrawl.sources.listing.opening import listed_link_is_broken, path_inside_listing
from smartcrawl.sources.listing.selection import ListingRules
from smartcrawl.sources.listing.stamps import (
    RACY,
    FileValidator,
    listed_file_modified_at,
    listed_file_validator,
)
from smartcrawl.sources.listing.walk import (
    Below,
    MovedFolderError,
    SeenFolder,
    Walk,
    WalkedFolder,
    folder_state,
)
from smartcrawl.sources.stores import Fault, file_store_fault

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

    def _skip(self, skip: Skip) -> None:
        """Count an item that is left out. The second pass sees the same once more."""
        if not self._is_second:
            self.skipped[skip] += 1

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
                self._skip(skip)
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
            self._skip(skip)
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
