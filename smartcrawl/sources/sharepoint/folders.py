"""The folder tree of a drive: Graph's changes name folders by their ids, and have no path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


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
