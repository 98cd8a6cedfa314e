"""Listing of a folder of this machine, or mounted on it, in one pass."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from smartcrawl.model.file_urls import url_of_folder
from smartcrawl.sources.listing.entries import Entry, Skip, source_entries_in_batches
from smartcrawl.sources.listing.names import (
    listing_root_path,
    quoted_listing_name,
    shown_listing_path,
)
from smartcrawl.sources.listing.opening import listed_link_is_broken, path_inside_listing
from smartcrawl.sources.listing.selection import ListingRules
from smartcrawl.sources.listing.stamps import (
    FileValidator,
    listed_file_modified_at,
    listed_file_validator,
)
from smartcrawl.sources.listing.walk import Below, MovedFolderError, Walk, WalkedFolder
from smartcrawl.sources.stores import Fault, file_store_fault

_KINDS: Final = {
    stat.S_IFLNK: Skip.SYMLINK,
    stat.S_IFIFO: Skip.FIFO,
    stat.S_IFSOCK: Skip.SOCKET,
}


class FolderListing:
    """One pass over a folder; the work grows with its files, the memory with its widest folder.

    No link is followed without ``follow_symlinks``. With it, a link to a folder that is above it,
    or that another link led to before, is skipped, so that circles end; and so is a link that
    leaves the root.

    Source: R1-28, R1-29.
    """

    def __init__(
        self, root: str | Path, *, rules: ListingRules, validator: FileValidator, now_ns: int
    ) -> None:
        """Set up the pass over ``root``, a folder's absolute path; it begins at ``now_ns``."""
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self._root = listing_root_path(root)
        self._rules = rules
        self._validator = validator
        self._now_ns = now_ns
        self._linked: set[tuple[int, int]] = set()  # folders that a link led to

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the files of the folder, up to 1,000 at a time. Call it once."""
        return source_entries_in_batches(self._entries())

    def _entries(self) -> Iterator[Entry]:
        url = url_of_folder(self._root)
        try:
            walk = Walk(self._root, url if url.endswith("/") else f"{url}/")
        except OSError as error:
            self._problem("", error)
            return
        try:
            yield from self._folder(walk.root)
            for folder, below in walk.pending():
                entered = self._enter(walk, folder, below)
                if entered is not None:
                    yield from self._folder(entered)
        finally:
            walk.close()

    def _enter(self, walk: Walk, folder: WalkedFolder, below: Below) -> WalkedFolder | None:
        """Enter a folder, unless it is gone, refuses, or is in a circle of links."""
        try:
            entered = walk.enter(folder, below)
        except MovedFolderError as error:
            self._problem(folder.path, error)
            folder.below.clear()
            return None
        except FileNotFoundError:
            self.skipped[Skip.GONE] += 1
            return None
        except OSError as error:
            self._problem(f"{folder.path}{below.name}", error)
            return None
        if not entered.behind_link:
            return entered
        if entered.identity in self._linked or folder.is_within(entered.identity):
            self.skipped[Skip.REPEATED_LINK] += 1
            return None
        self._linked.add(entered.identity)
        return entered

    def _folder(self, folder: WalkedFolder) -> Iterator[Entry]:
        """Yield the files of one folder, and note the folders in it."""
        refused: list[OSError] = []
        try:
            with os.scandir(folder.opened) as items:
                for item in items:
                    try:
                        entry = self._item(folder, item)
                    except FileNotFoundError:
                        self.skipped[Skip.GONE] += 1
                    except OSError as error:
                        refused.append(error)
                    else:
                        if entry is not None:
                            yield entry
        except OSError as error:
            self._problem(folder.path, error)
        folder.below.sort(reverse=True)
        if refused:
            self._problem(folder.path, refused[0], len(refused))

    def _item(self, folder: WalkedFolder, item: os.DirEntry[str]) -> Entry | None:
        """Return the entry of a file; None for anything else, which is counted or noted."""
        if item.is_file(follow_symlinks=False):
            skip = self._rules.skip(folder.path + item.name)
            if skip is None:
                return self._entry(folder, item.name, item.stat(follow_symlinks=False))
            self.skipped[skip] += 1
        elif item.is_dir(follow_symlinks=False):
            self._below(folder, Below(item.name, None))
        elif self._rules.follow_symlinks and item.is_symlink():
            return self._link(folder, item.name)
        else:
            found = item.stat(follow_symlinks=False)
            self.skipped[_KINDS.get(stat.S_IFMT(found.st_mode), Skip.DEVICE)] += 1
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
            self.skipped[skip] += 1

    def _link(self, folder: WalkedFolder, name: str) -> Entry | None:
        """Follow a link to a file, or note one to a folder, if it stays below the root."""
        try:
            root = os.path.realpath(self._root, strict=True)
            real = path_inside_listing(os.path.join(root, folder.real, name), root)
            found = os.stat(os.path.join(root, real or ""), follow_symlinks=False)
        except OSError as error:
            if not listed_link_is_broken(error):
                raise
            self.skipped[Skip.BROKEN_LINK] += 1
            return None
        if real is None:
            self.skipped[Skip.LEAVING_LINK] += 1
        elif real == "":
            self.skipped[Skip.REPEATED_LINK] += 1
        elif stat.S_ISDIR(found.st_mode):
            self._below(folder, Below(name, real))
        elif not stat.S_ISREG(found.st_mode):
            self.skipped[_KINDS.get(stat.S_IFMT(found.st_mode), Skip.DEVICE)] += 1
        elif skip := self._rules.skip(folder.path + name):
            self.skipped[skip] += 1
        else:
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
        elif fault is Fault.OTHER:
            remedy = "check the disk or the mount"
        self.problems.append(f"{place} ({why}; {remedy})")
