"""Marks by which a folder of snapshots is known, wherever it lies (ADR 109)."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.choices import store_choice_row, stored_choices
from smartcrawl.sources.private_files import FILE, folder_like_its_parent

OWNER: Final = ".smartcrawl-registry"  #: file with the token of a folder
_SHARED: Final = "shared"  #: its last line if more than one registry has written there
_MARK: Final = "snapshots: "  #: prefix of the names of marks in the registry
_FORGET: Final = f"DELETE FROM choice WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'"
_FORGET_ONE: Final = "DELETE FROM choice WHERE name = ?"
_NUMBER: Final = "SELECT no FROM store WHERE url = ?"


class FolderOwner(NamedTuple):
    """The content of the file that marks a folder of snapshots."""

    token: str  #: its identity; empty: older versions dropped it
    is_shared: bool  #: whether several registries write there

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Return the mark of a folder, or None."""
        try:
            words = (folder / OWNER).read_text("utf-8", "replace").split()
        except OSError:
            return None
        return cls("".join(words[:1]).removeprefix(_SHARED), _SHARED in words)

    def share(self, folder: Path) -> None:
        """Note in a folder that several registries write to it; its identity stays."""
        if not self.is_shared:
            with suppress(OSError):
                (folder / OWNER).write_text(f"{self.token}\n{_SHARED}\n", "utf-8")


def mark_snapshot_folder(folder: Path) -> str:
    """Give a folder a new token, and return it; a missing folder is made.

    Raises:
        OSError: it is marked already, or cannot be written.
    """
    token = token_hex(16)
    folder_like_its_parent(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(folder / OWNER, flags, FILE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), FILE)  # a umask may have taken the owner's own rights
        file.write(f"{token}\n")
    return token


class RegistryPlace(NamedTuple):
    """Three signs of a registry; a copy has none of them, one that was moved has some."""

    database: str  #: its path without symbolic links, or its URL
    relation: str = ""  #: path from the folder of snapshots to its file
    file: str = ""  #: device and inode of its file

    @classmethod
    def of(cls, database: str, folder: Path) -> Self:
        """Return the signs of a registry, as a folder of snapshots sees it."""
        if "://" in database:
            return cls(database)
        path = os.path.realpath(database)
        try:
            found = os.stat(path)
        except OSError:
            return cls(path, os.path.relpath(path, folder))
        return cls(path, os.path.relpath(path, folder), f"{found.st_dev}:{found.st_ino}")

    def is_one(self, other: RegistryPlace) -> bool:
        """Whether two signs are of one registry."""
        return any(mine and mine == its for mine, its in zip(self, other, strict=True))


@dataclass(frozen=True, slots=True)
class SnapshotFolderMark:
    """A registry's mark on a snapshot folder that no other registry writes to."""

    token: str  #: the same in the registry and in the folder
    database: str  #: place of the registry then (RegistryPlace): a copy has the same mark
    since: int  #: Unix seconds; earlier files may be another registry's
    looked: int = 0  #: run.no of the last search for orphaned files
    again: str = ""  #: day (yyyy/mm/dd) whose files a further search covers; empty: none is due
    relation: str = ""
    file: str = ""
    store: int = 0  #: store.no

    @property
    def place(self) -> RegistryPlace:
        """The place of the registry when the mark was written."""
        return RegistryPlace(self.database, self.relation, self.file)

    def at(self, place: RegistryPlace, store: int) -> Self:
        """Return the mark for today's place of the registry."""
        return replace(self, store=store, **place._asdict())

    @classmethod
    def all(cls, connection: Connection) -> dict[str, Self]:
        """Return the registry's marks by their names in it."""
        found: dict[str, Self] = {}
        for name, value in stored_choices(connection).items():
            if name.startswith(_MARK):
                facts: dict[str, Any] = json.loads(value)
                if not facts.get("store"):  # an older version named it by the URL of the store
                    url = name.removeprefix(_MARK)
                    facts["store"] = connection.execute(_NUMBER, (url,)).get or 0
                    folder = folder_of_file_url(url)
                    if folder is not None and "://" not in facts["database"]:
                        facts["relation"] = os.path.relpath(facts["database"], folder)
                found[name] = cls(**facts)
        return found

    @classmethod
    def of(cls, connection: Connection, token: str) -> Self | None:
        """Return the registry's mark of the folder with a token, or None."""
        return next((m for m in cls.all(connection).values() if m.token == token), None)

    def keep(self, connection: Connection) -> None:
        """Write the mark in the place of others of its store; the caller's transaction."""
        for name, other in type(self).all(connection).items():
            if other.store == self.store or other.token == self.token:
                connection.execute(_FORGET_ONE, (name,))
        store_choice_row(connection, _MARK + self.token, json.dumps(asdict(self)))


def folder_of_file_url(url: str) -> Path | None:
    """Return the folder that a ``file://`` URL names; None: it names none."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:///") else None


def delete_mark_rows(connection: Connection) -> None:
    """Delete all marks: a registry that lacks rows must not remove the files of those rows."""
    connection.execute(_FORGET)
