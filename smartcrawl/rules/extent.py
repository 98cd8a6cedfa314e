"""The part of a host that an address given to a crawl stands for.

Source: ADR 144.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Extent(StrEnum):
    """How far a web site reaches from its seeds."""

    PAGES = "pages"  #: the seeds alone
    HOST = "host"  #: every path of the seeds' hosts
    DOMAIN = "domain"  #: the same, and all subdomains
    BELOW = "below"  #: the folders of the seeds and all below


EXTENTS: Final = tuple(extent.value for extent in Extent)


def seed_folder(path: str, linked: Iterable[str] = ()) -> str:
    """Return the folder that the path of a seed stands for; it ends with a slash.

    ``linked``: the paths to which its page links. A path without a slash at its end is a folder
    where pages below it are linked, and where it would stand for the whole host otherwise, unless
    it has the ending of a file.

    >>> seed_folder("/guide/intro.html"), seed_folder("/docs"), seed_folder("/docs/intro")
    ('/guide/', '/docs/', '/docs/')
    >>> seed_folder("/docs/intro", ["/docs/intro/first"])
    '/docs/intro/'
    """
    if path.endswith("/"):
        return path
    folder = f"{path}/"
    if any(is_below_folder(folder, one) and one != path for one in linked):
        return folder
    parent, _, name = path.rpartition("/")
    return folder if not parent and "." not in name else f"{parent}/"


def is_below_folder(folder: str, path: str) -> bool:
    """Whether a path is a folder, with its slash or without, or below it.

    >>> [is_below_folder("/docs/", path) for path in ("/docs", "/docs/a", "/docs2")]
    [True, True, False]
    """
    return path.startswith(folder) or path == folder[:-1]


def is_extent_open(extent: Extent | None, start: str | None) -> bool:
    """Whether the first answer of its seed decides how far a site of an address reaches.

    ``extent``: None where none was chosen. ``start``: the page or folder of an extent that is
    decided.
    """
    return start is None and extent in (None, Extent.PAGES, Extent.BELOW)


def default_extent(given: str, folder: str, *, lists: bool) -> Extent:
    """Return the extent of a new address for which none was chosen.

    ``given``: its path as it was given. ``folder``: that of its page, after redirects.
    ``lists``: whether it is a sitemap or a feed, which has pages of any folder.
    """
    return Extent.HOST if lists or "/" in (given, folder) else Extent.BELOW
