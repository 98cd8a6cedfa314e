"""Reading of files that a listing named: from a folder, without following links, or a store.

A file that changes while it is read is read once more.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from smartcrawl.model.exceptions import ChangedWhileReadError, FileTooLargeError, StoreAwayError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.drivers import SETTING, file_store_place
from smartcrawl.sources.listing.bucket import (
    PATIENCE,
    StateChangedError,
    StoreFiles,
    open_file_store,
)
from smartcrawl.sources.listing.entries import (
    Entry,
    FileValidator,
    is_validator_of_listed_file,
    listed_file_modified_at,
    listed_file_validator,
    shown_listing_path,
)
from smartcrawl.sources.listing.folder import (
    close_listed_folder,
    listed_link_is_broken,
    open_listed_below,
    open_listed_file,
    open_listing_root,
    path_inside_listing,
)
from smartcrawl.sources.stores import (
    Fault,
    file_store_fault,
    file_store_fault_reason,
    is_file_absent_in_store,
)

_PIECE: Final = 1024 * 1024  #: bytes of one read
_TRIES: Final = 2
#: Faults of a store that say nothing about its other files.
_OF_THE_FILE: Final = frozenset({Fault.REFUSED, Fault.ARCHIVED})
_T = TypeVar("_T")


class FileBody(NamedTuple):
    """A file as read: one state of it, never a mixture of two."""

    data: bytes
    size: int  #: bytes
    validator: str | None  #: of this state; None: the next run must read the file
    modified_at: int | None  #: Unix seconds


class FileHash(NamedTuple):
    """A file as hashed."""

    body_hash: bytes  #: SHA-256, as of ``extract.hashes.body_hash``
    size: int  #: bytes
    validator: str | None
    modified_at: int | None  #: Unix seconds


def read_listed_file(
    root: str | Path,
    relative: str,
    *,
    most: int,
    known: Entry | None = None,
    how: FileValidator = FileValidator.MTIME,
    follow_symlinks: bool = False,
    now_ns: int | None = None,
) -> FileBody:
    """Return a file below ``root``, of ``most`` bytes at most.

    The validator is that of ``known``, its entry in the listing, if the file did not change since.
    A file without an entry gets the one that a listing at ``now_ns`` (Unix nanoseconds, before the
    call) would give it.

    Raises:
        FileNotFoundError: there is no such file any more, or a link or something else in its place.
        PermissionError: it refuses, or ``relative`` leads out of the root.
        FileTooLargeError: it has more bytes.
        ChangedWhileReadError: it changed both times while it was read.
        StoreAwayError: the root is away, or empty.
        OSError: it could not be read.

    Source: R1-28, R1-29.
    """

    def read(opened: int, size: int) -> tuple[bytes, int]:
        if size > most:
            raise _too_large(shown_listing_path(os.path.join(root, relative)), size, most)
        data = b"".join(_pieces(opened, size))
        return data, len(data)

    data, found = _stable(str(root), relative, read, follow_symlinks)
    if known is None and now_ns is not None:
        validator = listed_file_validator(how, found, now_ns)
    else:
        validator = _validator(known, how, found)
    return FileBody(data, found.st_size, validator, listed_file_modified_at(found))


def hash_listed_file(
    root: str | Path,
    relative: str,
    *,
    known: Entry | None = None,
    how: FileValidator = FileValidator.MTIME,
    follow_symlinks: bool = False,
) -> FileHash:
    """Return the hash of a file below ``root``, of any size, which is read in pieces of 1 MiB.

    Raises:
        OSError, ListedFileError: as ``read_listed_file``.

    Source: R0-45.
    """

    def digest(opened: int, size: int) -> tuple[bytes, int]:
        hashed, count = sha256(), 0
        for piece in _pieces(opened, size):
            hashed.update(piece)
            count += len(piece)
        return hashed.digest(), count

    body_hash, found = _stable(str(root), relative, digest, follow_symlinks)
    return FileHash(
        body_hash, found.st_size, _validator(known, how, found), listed_file_modified_at(found)
    )


def _validator(known: Entry | None, how: FileValidator, found: os.stat_result) -> str | None:
    if known is None or known.size != found.st_size:
        return None
    return known.validator if is_validator_of_listed_file(known.validator, how, found) else None


def _pieces(opened: int, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, and one more than ``size`` at most."""
    left = size + 1
    while left > 0 and (piece := os.read(opened, min(left, _PIECE))):
        left -= len(piece)
        yield piece


def _stable(
    root: str, relative: str, work: Callable[[int, int], tuple[_T, int]], follow_symlinks: bool
) -> tuple[_T, os.stat_result]:
    """Return the result of ``work`` on a file that did not change meanwhile.

    ``work`` gets the open file and its size, and returns its result and the number of bytes read.
    """
    for _ in range(_TRIES):
        with _parent(root, relative, follow_symlinks) as (parent, name):
            opened = open_listed_file(name, parent)
            try:
                before = os.fstat(opened)
                result, count = work(opened, before.st_size)
                after = os.fstat(opened)
            finally:
                os.close(opened)
            named = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if count == before.st_size and _state(before) == _state(after) == _state(named):
            return result, before
    raise _changed(shown_listing_path(os.path.join(root, relative)))


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def _parent(root: str, relative: str, follow_symlinks: bool) -> Iterator[tuple[int, str]]:
    """Open the folder of a file, component by component; errors in it name the whole path."""
    path = os.path.join(root, relative)
    names = relative.split("/")
    if "\0" in relative or not {"", ".", ".."}.isdisjoint(names):
        raise PermissionError(errno.EACCES, "it is not a path below the root", path)
    try:
        top = open_listing_root(root)
    except OSError as error:
        raise _away(root, error.strerror or str(error)) from error
    try:
        if follow_symlinks:
            names = _followed(root, relative)
        parent = open_listed_below(top, names[:-1])
        try:
            yield parent, names[-1]
        finally:
            close_listed_folder(parent)
    except OSError as error:
        if not (listed_link_is_broken(error) or error.errno == errno.ENXIO):
            raise OSError(error.errno, error.strerror or str(error), path) from error
        if not os.listdir(top):
            raise _away(root, "it is empty") from error
        why = "no such file below the root, or a link or something else in its place"
        raise FileNotFoundError(errno.ENOENT, why, path) from error
    finally:
        close_listed_folder(top)


def _followed(root: str, relative: str) -> list[str]:
    """Return the names of a file below the root, without the links on the way to it."""
    real_root = os.path.realpath(root, strict=True)
    real = path_inside_listing(os.path.join(real_root, relative), real_root)
    if not real:
        raise FileNotFoundError(errno.ENOENT, "it leads out of the root")
    return real.split("/")


def _away(root: str, why: str) -> StoreAwayError:
    return StoreAwayError(
        f"{shown_listing_path(root)} cannot be read ({why}): mount it, or check that root names it"
    )


def _too_large(place: str, size: int, most: int) -> FileTooLargeError:
    return FileTooLargeError(
        f"{place} has {size} bytes, and at most {most} are read: raise max_file_size, or exclude"
        " it",
        size,
    )


def _changed(place: str) -> ChangedWhileReadError:
    return ChangedWhileReadError(
        f"{place} changed while it was read, twice: the next run reads it; crawl when its writer"
        " is done"
    )


# Stores


def read_bucket_file(
    url: str, *, most: int, etag: str | None = None, patience: float = PATIENCE
) -> FileBody:
    """Return a file of a store by the URL of its entry, of ``most`` bytes at most.

    ``etag`` is the validator of its entry. A file that has another one by now is read as it is.

    Raises:
        FileNotFoundError: the store exists, and there is no such file in it.
        PermissionError: the store refuses it, or has it in an archive.
        FileTooLargeError: it has more bytes.
        ChangedWhileReadError: it changed both times while it was read.
        StoreAwayError: the store gives no answer, or another error, or is missing.
        SettingError: its driver is not installed, or does not start.

    Source: R0-43.
    """
    place = file_store_place(url)
    try:
        files = open_file_store(place, patience=patience)
    except OSError as error:
        raise _store_error(url, error, None, patience) from error
    wanted = etag
    for _ in range(_TRIES):
        try:
            file, data = files.read(place.key, most, wanted)
        except StateChangedError:
            wanted = None
            continue
        except Exception as error:  # drivers raise any error of their libraries
            raise _store_error(url, error, files, patience) from error
        if data is None:
            raise _too_large(redacted_line(url), file.size or most + 1, most)
        known = file.date if etag is not None and etag == file.date else None
        return FileBody(data, len(data), file.etag or known, file.modified_at)
    raise _changed(redacted_line(url))


def _store_error(
    url: str, error: Exception, files: StoreFiles | None, patience: float
) -> Exception:
    """Return the error of a file, or StoreAwayError where it is none of the file alone."""
    fault = file_store_fault(error)
    if (
        fault is Fault.ABSENT
        and is_file_absent_in_store(error)
        and files is not None
        and files.exists()
    ):
        return FileNotFoundError(errno.ENOENT, "no such file in the store", url)
    who = "what its driver reads" if files is None else files.who
    remedy = fault.value.format(who=who, setting=SETTING)
    if fault in _OF_THE_FILE and files is not None:
        return PermissionError(errno.EACCES, remedy, url)
    why = file_store_fault_reason(error) or f"no answer in {patience:g} s"
    return StoreAwayError(redacted_line(f"cannot read {url} ({why}; {remedy})"))
