"""The address of a repository, as people copy it from a browser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from smartcrawl.sources.fields import declared_field_text
from smartcrawl.sources.listing.entries import quoted_listing_name

DEFAULT_REF: Final = "HEAD"  #: GitHub's own name for the tip of the default branch
_EXAMPLE: Final = "https://github.com/OWNER/REPO or https://github.com/OWNER/REPO/tree/REF/FOLDER"
_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}").fullmatch
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}").fullmatch
_SSH: Final = re.compile(r"(?:ssh://)?git@([^:/]+)[:/](.+)").fullmatch
_PLACES: Final = ("tree", "blob")  #: words of an address before a ref


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """A repository, and the place in it.

    The names of branches contain slashes, so the end of the ref is not known from ``place`` alone:
    the repository decides (``splits``). The addresses of pages need no split.
    """

    web: str  #: origin of the web pages, as in https://github.com
    owner: str
    name: str
    place: str  #: REF or REF/FOLDER, as ``os.fsdecode`` gives it; empty: all of HEAD

    @property
    def repository(self) -> str:
        """``OWNER/REPO``."""
        return f"{self.owner}/{self.name}"

    @property
    def front(self) -> str:
        """The address of the repository itself, without a slash at its end."""
        return f"{self.web}/{self.repository}"

    @property
    def wiki(self) -> str:
        """The address of the front of the wiki, if the repository has one."""
        return f"{self.front}/wiki"

    @property
    def url(self) -> str:
        """The canonical address, without a slash at its end."""
        return (
            f"{self.front}/tree/{quoted_repository_path(self.place)}" if self.place else self.front
        )

    @property
    def root(self) -> str:
        """The URL that those of all pages begin with, without a slash at its end."""
        return f"{self.front}/blob/{quoted_repository_path(self.place or DEFAULT_REF)}"

    def splits(self) -> Iterator[tuple[str, str]]:
        """Yield each way to split the place into a ref and a folder, shortest ref first.

        >>> list(repository_address("https://github.com/o/r/tree/release/2/docs").splits())
        [('release', '2/docs'), ('release/2', 'docs'), ('release/2/docs', '')]
        """
        names = (self.place or DEFAULT_REF).split("/")
        for count in range(1, len(names) + 1):
            yield "/".join(names[:count]), "/".join(names[count:])


def quoted_repository_path(path: str) -> str:
    """Return a path with slashes as a part of a URL.

    >>> quoted_repository_path("a b/ü#.md")
    'a%20b/%C3%BC%23.md'
    """
    return "/".join(map(quoted_listing_name, path.split("/")))


def repository_address(text: str) -> RepositoryAddress:
    """Return the repository of an address as the operator wrote it.

    >>> repository_address("https://github.com/octo/docs.git/").url
    'https://github.com/octo/docs'
    >>> repository_address("https://github.com/octo/docs/blob/main/a%20b.md?plain=1#L3").root
    'https://github.com/octo/docs/blob/main/a%20b.md'

    Raises:
        ValueError: it is no address of a repository; with the remedy.
    """
    text = text.strip()
    given = declared_field_text(text)
    if found := _SSH(text):
        path = found[2].removesuffix("/").removesuffix(".git")
        raise ValueError(f"is {given}, an address for git: write https://{found[1]}/{path}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in ("https", "http"):
        raise ValueError(f"is {given}: it takes the address of a repository, as in {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "contains credentials: leave them out, and give a token in the environment variable"
            " GITHUB_TOKEN"
        )
    host = f"[{host}]" if ":" in host else host
    default = port is None or port == (443 if parts.scheme == "https" else 80)
    web = f"{parts.scheme}://{host}" + ("" if default else f":{port}")
    owner, name, place = _repository(parts.path, given)
    return RepositoryAddress(web, owner, name, place)


def _repository(path: str, given: str) -> tuple[str, str, str]:
    """Return owner, name and place of a repository by the path of its address.

    Raises:
        ValueError: it has none; with the remedy.
    """
    decoded = os.fsdecode(unquote_to_bytes(path))
    names = decoded.strip("/").split("/")
    if len(names) < 2 or not _OWNER(names[0]):
        raise ValueError(f"is {given}, which names no repository: it takes {_EXAMPLE}")
    owner, name, *rest = names
    name = name if rest else name.removesuffix(".git")
    if not _NAME(name) or name in (".", ".."):
        raise ValueError(f"is {given}, which names no repository: it takes {_EXAMPLE}")
    if not rest:
        return owner, name, ""
    word, *place = rest
    if word not in _PLACES or not place:
        raise ValueError(
            f"is {given}, a page of GitHub that is not a folder of a repository: write {_EXAMPLE}"
        )
    if not is_repository_path("/".join(place)):
        raise ValueError(
            f"is {given}, with an empty name, . or .. in its path: it takes {_EXAMPLE}"
        )
    return owner, name, "/".join(place)


def is_repository_path(path: str) -> bool:
    """Whether a path leads down from a folder: no name in it is empty, ``.`` or ``..``.

    >>> [is_repository_path(path) for path in ("a/b", "a//b", "../b", "/a", "")]
    [True, False, False, False, False]
    """
    return "\0" not in path and not any(name in ("", ".", "..") for name in path.split("/"))
