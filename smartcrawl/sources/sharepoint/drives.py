"""A drive as it was at one delta token: its stored items, and their changes by a listing.

Token and items belong together: the changes since a token make a whole listing only of the items
at that token. So both are stored in one transaction (ADR 84).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from smartcrawl.sources.sharepoint.folders import Folder


class DriveToken(NamedTuple):
    """A delta token, and the drive that it is of."""

    place: str  #: API, app and library: a token of another place is dropped
    drive: str  #: id
    root: str  #: server relative URL of the library
    root_id: str
    delta: str  #: URL of the changes since


class DriveFile(NamedTuple):
    """One file of a drive, which names its folder and has no path."""

    id: str
    parent: str  #: id of its folder
    name: str
    listitem_id: int
    unique_id: str
    file_size: int  #: bytes
    last_modified: int  #: Unix microseconds


class KnownDrive(Protocol):
    """A drive as it was at a token: all of its files and folders."""

    @property
    def token(self) -> DriveToken:
        """The token."""

    def folders(self) -> dict[str, Folder]:
        """Return the folders by id."""

    def files(self) -> Iterable[DriveFile]:
        """Yield the files, in order of their list item ids."""


class DriveUpdate(NamedTuple):
    """The changes of a known drive by a complete listing, or the whole drive anew."""

    token: DriveToken
    is_whole: bool  #: whether it replaces the known drive
    folders: Mapping[str, Folder]  #: new and changed, by id
    files: Iterable[DriveFile]  #: new and changed
    gone: Iterable[str]  #: ids of removed files and folders
