"""Entries of a listing: a file's names, size and validator, and the operator's selection.

Names of files as URLs, as paths, and as people read them.

A name is bytes. As text it is that of ``os.fsdecode``, which keeps bytes that are no UTF-8.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol, assert_never
from urllib.parse import quote, unquote_to_bytes

from smartcrawl.model.library import LibraryItem
from smartcrawl.model.redaction import HIDDEN, escaped_text
from smartcrawl.rules.files import Check, Properties, decide_change_check
from smartcrawl.sources.scope import SKIPPED_EXTENSIONS, UNREAD_DOCUMENTS

_KEPT: Final = "!$&'()*+,;=:@"  #: characters of a segment that are not escaped (RFC 3986)
_LONGEST: Final = 1_000  #: characters of a path in a message
_IS_PLAIN: Final = re.compile(rf"[A-Za-z0-9\-._~{re.escape(_KEPT)}]*").fullmatch


def quoted_listing_name(name: str) -> str:
    r"""Return one name of a path as a segment of a URL.

    >>> [quoted_listing_name(name) for name in ("a b", "ü", "\udcff", "50%")]
    ['a%20b', '%C3%BC', '%FF', '50%25']
    """
    return name if _IS_PLAIN(name) else quote(os.fsencode(name), safe=_KEPT)


def listing_root_path(root: str | Path) -> str:
    """Return the absolute path of a root, without more slashes and dots.

    >>> listing_root_path("//srv/docs//./")
    '/srv/docs'
    """
    return "/" + os.path.abspath(root).lstrip("/")


def listing_folder_path(url: str) -> str:
    r"""Return the absolute path behind the URL of an entry of a folder, exactly.

    >>> listing_folder_path("file:///srv/docs/a%23b%FF.md")
    '/srv/docs/a#b\udcff.md'
    """
    return os.fsdecode(unquote_to_bytes(url.removeprefix("file://")))


def shown_listing_path(path: str) -> str:
    r"""Return a path for a message: on one line, bytes that are no UTF-8 as ``\xff``.

    Of more than 1,000 characters only both ends are shown.

    >>> print(shown_listing_path("/srv/ü/a\nb\udcff"))
    /srv/ü/a\nb\xff
    """
    text = escaped_text(os.fsencode(path).decode(errors="backslashreplace"))
    return (
        text
        if len(text) <= _LONGEST
        else f"{text[: _LONGEST // 2]}{HIDDEN}{text[-_LONGEST // 2 :]}"
    )


#: Nanoseconds before the start of a pass. A file that changes twice within the granularity of a
#: file system's times keeps its time; FAT has the coarsest, two seconds.
RACY: Final = 2_000_000_000
_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FileValidator(StrEnum):
    """Ways to see that a local file changed (FILE_VALIDATOR)."""

    MTIME = auto()
    CTIME = auto()  #: also sees edits that set the mtime back; chmod and rename count as changes
    HASH = auto()  #: every file is read by every run


def listed_file_validator(how: FileValidator, found: os.stat_result, now_ns: int) -> str | None:
    """Return the validator of a file in a pass that began at ``now_ns`` (Unix nanoseconds).

    None: it must not be trusted. The time is less than two seconds older than the pass, or in its
    future, or no calendar has it; or files are to be compared by their hashes.
    """
    at = _time(how, found)
    return None if at is None or now_ns - at < RACY else listed_file_time(at)


def is_validator_of_listed_file(
    validator: str | None, how: FileValidator, found: os.stat_result
) -> bool:
    """Whether a trusted validator is still that of a file."""
    at = _time(how, found)
    return validator is not None and at is not None and listed_file_time(at) == validator


def _time(how: FileValidator, found: os.stat_result) -> int | None:
    match how:
        case FileValidator.MTIME:
            return found.st_mtime_ns
        case FileValidator.CTIME:
            return found.st_ctime_ns
        case FileValidator.HASH:
            return None
        case _:
            assert_never(how)


def listed_file_modified_at(found: os.stat_result) -> int | None:
    """Return the mtime of a file in Unix seconds, or None where no calendar has it."""
    seconds = found.st_mtime_ns // 1_000_000_000
    return None if _date(seconds // _DAY) is None else seconds


def listed_file_time(at: int) -> str | None:
    """Return Unix nanoseconds as ISO 8601 in UTC; None outside of the years 1 to 9999.

    >>> listed_file_time(1_795_589_419_123_456_789), listed_file_time(-1)
    ('2026-11-25T06:50:19.123456789Z', '1969-12-31T23:59:59.999999999Z')

    Source: R1-28.
    """
    seconds, nanoseconds = divmod(at, 1_000_000_000)
    day, second = divmod(seconds, _DAY)
    date = _date(day)
    if date is None:
        return None
    return f"{date}T{_clock(second // 60)}:{second % 60:02}.{nanoseconds:09}Z"


@lru_cache(maxsize=1_440)
def _clock(minute: int) -> str:
    """Return a minute of the day as hours and minutes."""
    return f"{minute // 60:02}:{minute % 60:02}"


@lru_cache(maxsize=10_000)
def _date(day: int) -> str | None:
    """Return the date of a day after 1970-01-01."""
    try:
        return (_EPOCH + timedelta(days=day)).date().isoformat()
    except OverflowError:
        return None


BATCH: Final = 1_000  #: entries at most in one batch


class Entry(NamedTuple):
    """One file of a listing."""

    url: str  #: canonical; a store's own URL without query, user and signature
    size: int  #: bytes
    validator: str | None  #: opaque, compared for equality; None: the file must be read
    modified_at: int | None  #: Unix seconds; None: unknown, or outside of the years 1 to 9999
    key: str | None = None  #: identity that no renaming changes; None: the URL is the identity
    item: LibraryItem | None = None  #: of a document library
    again: bool = False  #: whether to read it although nothing about it changed

    @property
    def identity(self) -> str:
        """The address by which the registry knows the file, whatever its name is now."""
        return self.key or self.url


class Listing(Protocol):
    """One pass over a folder or a store.

    Absence is evidence only if ``problems`` is empty after the last batch.
    """

    problems: list[str]  #: after the last batch: ``PLACE (why)`` for each part that is not listed
    skipped: Counter[str]  #: counts of files, folders and other things by ``Skip``

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries, up to 1,000 at a time, while they are listed. Call it once."""


class Skip(StrEnum):
    """Reasons why a listing leaves something out; the value is the word for people."""

    HIDDEN = "hidden"
    TYPE = "type without text"
    NOT_INCLUDED = "not included"
    EXCLUDED = "excluded"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    BROKEN_LINK = "broken symlink"
    LEAVING_LINK = "symlink that leaves the root"
    REPEATED_LINK = "symlink to a folder that is listed already"
    FIFO = "FIFO"
    SOCKET = "socket"
    DEVICE = "device"
    GONE = "removed meanwhile"
    NO_NAME = "not a name"  #: such as the marker of an empty folder in a store


def unread_kind_of_file(skip: Skip, relative: str) -> str:
    """Return the ending of a document that is not read because of it; else an empty string."""
    ending = relative.rpartition(".")[2].lower()
    return f".{ending}" if skip is Skip.TYPE and ending in UNREAD_DOCUMENTS else ""


def count_left_out(skipped: Counter[str], skip: Skip, relative: str = "") -> None:
    """Count an item that a listing leaves out; a document that is not read by its ending, too.

    >>> count_left_out(skipped := Counter(), Skip.TYPE, "plans/House.DOC")
    >>> dict(skipped)
    {<Skip.TYPE: 'type without text'>: 1, '.doc': 1}
    """
    skipped[skip] += 1
    if kind := unread_kind_of_file(skip, relative):
        skipped[kind] += 1


def source_entry_check(
    etag: str | None, size: int, entry: Entry, *, is_hash: bool = False
) -> Check:
    """Return how to find out whether a stored file, of this ETag and size, is that of an entry.

    Both must be known and equal for the file to be skipped: a validator of a folder is a date.
    One that is a hash of the content decides alone (``is_hash``).

    Source: R0-43, R0-44, R1-28.
    """
    if is_hash:
        return decide_change_check(Properties(etag), Properties(entry.validator))
    return decide_change_check(
        Properties(None, etag, size), Properties(None, entry.validator, entry.size)
    )


def source_entries_in_batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in lists of at most ``BATCH``."""
    left = iter(entries)
    while batch := list(islice(left, BATCH)):
        yield batch


_DEPTH: Final = "**"
_UNKNOWN: Final = re.compile(r"[?\[\]{}\\\0]")
_HIDDEN: Final = re.compile(r"(?:^|/)\.(?!\.?(?:/|\Z))")
_REFUSALS: Final = {
    Skip.HIDDEN: "its name, or that of a folder above it, begins with a dot",
    Skip.EXCLUDED: "one of exclude matches it, or a folder above it",
    Skip.NOT_INCLUDED: "none of include matches it",
}


@dataclass(frozen=True, slots=True)
class ListingRules:
    """Globs and switches that decide which files of a listing belong to a source.

    In a glob ``*`` stands for any characters of a name, ``**`` for any number of folders. Case
    matters. A glob covers the whole path below the root; one of ``exclude`` that matches a folder
    excludes all files below it.

    >>> rules = ListingRules(include=("**/*.md",), exclude=("drafts/",))
    >>> rules.refusal("guide/a.md"), rules.refusal("drafts/2026/a.md")
    (None, 'one of exclude matches it, or a folder above it')

    Raises:
        ValueError: a glob is wrong; with the remedy.
    """

    include: tuple[str, ...] = ()  #: at least one must match; empty: no condition
    exclude: tuple[str, ...] = ()  #: none may match
    hidden: bool = False  #: whether names that begin with a dot belong, too
    follow_symlinks: bool = False  #: whether links that stay below the root are followed
    skipped_extensions: frozenset[str] = SKIPPED_EXTENSIONS  #: lower case, without the dot
    _included: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", _compiled(self.include, r"\Z"))
        object.__setattr__(self, "_excluded", _compiled(self.exclude, r"(?:/|\Z)"))

    def skip(self, relative: str) -> Skip | None:
        """Return the reason to leave out a file, by its path below the root, or None."""
        if not self.hidden and _is_hidden(relative):
            return Skip.HIDDEN
        _, dot, extension = relative.rpartition(".")
        if dot and extension.lower() in self.skipped_extensions:
            return Skip.TYPE
        if self._included is not None and not self._included.match(relative):
            return Skip.NOT_INCLUDED
        if self._excluded is not None and self._excluded.match(relative):
            return Skip.EXCLUDED
        return None

    def skip_folder(self, relative: str) -> Skip | None:
        """Return the reason not to enter a folder, by its path below the root, or None."""
        if not self.hidden and _is_hidden(relative):
            return Skip.HIDDEN
        if self._excluded is not None and self._excluded.match(f"{relative}/"):
            return Skip.EXCLUDED
        return None

    def refusal(self, relative: str) -> str | None:
        """Return the reason why a file does not belong to the source, or None if it does."""
        skip = self.skip(relative)
        if skip is Skip.TYPE:
            return f"files of type .{relative.rpartition('.')[2].lower()} are skipped"
        return None if skip is None else _REFUSALS[skip]

    def fingerprint_parts(self) -> list[object]:
        """Return the settings that decide about a file, for a digest by ``json.dumps``."""
        return [
            sorted(set(self.include)),
            sorted(set(self.exclude)),
            self.hidden,
            self.follow_symlinks,
            sorted(self.skipped_extensions),
        ]


def _is_hidden(relative: str) -> bool:
    """Whether a name in a path begins with a dot; ``.`` and ``..`` in keys of stores do not."""
    return ("/." in relative or relative[:1] == ".") and _HIDDEN.search(relative) is not None


# Globs as regular expressions. Groups are atomic: of the places where a part of a glob may match,
# the first one is always right, so that no name of a file makes a glob try the others.


def _compiled(globs: Iterable[str], end: str) -> re.Pattern[str] | None:
    found = [_expression(glob, end) for glob in globs]
    return re.compile("|".join(found), re.DOTALL) if found else None


def _expression(glob: str, end: str) -> str:
    """Return the expression of a glob, to be matched from the start of a path."""
    parts = _names(glob)
    groups: list[list[str]] = [[]]
    for part in parts:
        if part == _DEPTH:
            groups.append([])
        else:
            groups[-1].append(_name_expression(part))
    first, *others = ["/".join(group) for group in groups]
    if not others:
        return first + end
    *middle, last = others
    text = f"{first}/" if first else ""
    text += "".join(f"(?>(?:[^/]*+/)*?{group}/)" for group in middle if group)
    return text + (f"(?:[^/]*+/)*?{last}{end}" if last else r".*+\Z")


def _name_expression(name: str) -> str:
    """Return the expression of one name of a glob, up to the slash or the end after it."""
    first, *others = map(re.escape, name.split("*"))
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>[^/]*?{text})" for text in middle if text)
    return rf"(?>{first}{found}[^/]*{last}(?=/|\Z))"


def _names(glob: str) -> list[str]:
    """Return the names of a glob.

    Raises:
        ValueError: it is wrong; with the remedy.
    """
    if not glob:
        raise ValueError("an empty glob matches nothing: write ** for all files")
    if glob.startswith("/"):
        raise ValueError(f"{glob!r} begins with a slash: write globs relative to the root")
    if found := _UNKNOWN.search(glob):
        raise ValueError(
            f"{glob!r} has the character {found[0]!r}: a glob has *, ** and plain characters;"
            " write * in its place, or one glob for each alternative"
        )
    names = glob.split("/")
    if names[-1] == "":
        names[-1] = _DEPTH
    for name in names:
        if name in ("", ".", ".."):
            raise ValueError(
                f"{glob!r} has an empty name, . or .. in it: write the path below the root"
            )
        if _DEPTH in name and name != _DEPTH:
            raise ValueError(
                f"{glob!r} has ** within a name: write ** alone between slashes, or * for a part"
                " of a name"
            )
    return names
