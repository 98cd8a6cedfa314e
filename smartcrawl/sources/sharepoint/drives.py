"""A drive of Microsoft Graph at a delta token, with its tree of folders.

Graph's changes name folders by their ids, and have no path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol


class Folder(NamedTuple):
    """One folder below the root."""

    name: str
    parent: str  #: id of its folder


class FolderTree:
    """Folders by id, with their paths."""

    def __init__(self, root: str, path: str, folders: Mapping[str, Folder]) -> None:
        """Set up; ``root``: id of the root folder, whose server relative URL is ``path``."""
        self._root = root
        self._folders = folders
        self._paths: dict[str, str | None] = {root: path}

    def path(self, id_: str) -> str | None:
        """Return the path of a folder; None where it, or a folder above it, is not in the tree."""
        way: list[str] = []
        at = id_
        while at not in self._paths:
            folder = self._folders.get(at)
            if folder is None or at in way:
                self._paths[at] = None
                break
            way.append(at)
            at = folder.parent
        for one in reversed(way):
            above = self._paths[self._folders[one].parent]
            self._paths[one] = None if above is None else f"{above}/{self._folders[one].name}"
        return self._paths[id_]


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
