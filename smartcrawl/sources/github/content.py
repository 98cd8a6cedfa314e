"""Files of a tree as entries of a listing, and bodies that are no content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, Final

from smartcrawl.sources.github.source import is_repository_path, quoted_repository_path
from smartcrawl.sources.listing.entries import Entry, ListingRules, Skip, unread_kind_of_file

if TYPE_CHECKING:  # each spider of the project is loaded by every crawl
    from smartcrawl.sources.github.payloads import TreeItem

LFS_REASON: Final = "not content: a Git LFS pointer, which stands for a file in another store"
#: Modes of what is listed and not read.
_SKIPPED_MODES: Final[Mapping[str, Skip]] = {"120000": Skip.SYMLINK, "160000": Skip.SUBMODULE}
_LONGEST_POINTER: Final = 1_024  #: bytes, less than which a pointer has by its specification
_UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"  #: in a name that is no UTF-8
_POINTER: Final = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\r?\n"
    rb"(?:[a-z0-9.-]+ [^\n]*\n)*?"
    rb"oid sha256:[0-9a-f]{64}\r?\n"
    rb"size [0-9]+\r?\n?"
).fullmatch


def github_blob_sha(body: bytes, *, like: str | None = None) -> str:
    """Return the SHA of a body as a blob of git; ``like``: a SHA, whose length decides the hash.

    >>> github_blob_sha(b"hello\\n")
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    data = b"blob %d\0" % len(body) + body
    if like is not None and len(like) == 64:
        return sha256(data).hexdigest()
    return sha1(data, usedforsecurity=False).hexdigest()


def is_github_lfs_pointer(body: bytes) -> bool:
    r"""Whether a body is a pointer of Git LFS instead of a file's content.

    >>> version = b"version https://git-lfs.github.com/spec/v1\n"
    >>> is_github_lfs_pointer(version + b"oid sha256:" + b"0" * 64 + b"\nsize 12345\n")
    True
    >>> is_github_lfs_pointer(version + b"A pointer begins like this.\n")
    False
    """
    return len(body) < _LONGEST_POINTER and _POINTER(body) is not None


def path_below_github_folder(path: str, folder: str) -> str | None:
    """Return the path of an item below a folder; None: it is elsewhere, or the folder itself.

    >>> [path_below_github_folder(path, "docs") for path in ("docs/a.md", "docs2/a.md")]
    ['a.md', None]
    >>> path_below_github_folder("a", "")
    'a'
    """
    if not folder:
        return path
    return path[len(folder) + 1 :] if path.startswith(f"{folder}/") else None


def github_listing_entries(
    items: Iterable[TreeItem],
    *,
    root: str,
    folder: str,
    prefix: str,
    rules: ListingRules,
    kinds: Counter[str] | None = None,
) -> Iterator[Entry | Skip]:
    """Yield the entry of each file below a folder, and the reason for each that is left out.

    ``root``: URL of the pages of ``folder``. ``prefix``: path of the tree that was asked for, with
    a slash at its end; empty for that of the commit. The validator is the SHA of the blob.
    ``kinds`` counts documents that are not read, such as ``.doc``.

    Source: R0-43, R0-44.
    """
    for item in items:
        if item.is_folder:
            continue
        path = prefix + item.path
        relative = path_below_github_folder(path, folder)
        if relative is None and path != folder:
            continue
        skip = _SKIPPED_MODES.get(item.mode)
        if _UNREADABLE in path or not is_repository_path(path):
            skip = skip or Skip.NO_NAME  # no address leads to it: the API cannot spell it, or ..
        skip = skip or rules.skip(relative or path.rpartition("/")[2])
        if skip is not None:
            if kinds is not None and (kind := unread_kind_of_file(skip, path)):
                kinds[kind] += 1
            yield skip
            continue
        url = root if relative is None else f"{root}/{quoted_repository_path(relative)}"
        yield Entry(url, item.size or 0, item.sha, None)
