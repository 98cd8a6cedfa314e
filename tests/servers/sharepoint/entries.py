"""Entries of lists and libraries: files, folders and list items, as people leave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.servers.sharepoint.lists import SharepointList

#: What a field of each type holds in `Entry.values`.
FIELD_TYPES = {
    "Text": "a string",
    "Note": "a string, with HTML where the field is rich",
    "Number": "an integer or a float",
    "Boolean": "a boolean",
    "Choice": "a string",
    "MultiChoice": "a list of strings",
    "DateTime": "a string such as 2026-01-02T03:04:05Z",
    "User": "the id of a person",
    "UserMulti": "a list of such ids",
    "Lookup": "the id of an item of the other list",
    "LookupMulti": "a list of such ids",
    "URL": "a pair of address and description",
}


def stamp(seconds: int) -> str:
    """Return a time as SharePoint has it: whole seconds, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Version(NamedTuple):
    """What a file was before an update."""

    content: bytes
    modified: int


@dataclass(frozen=True)
class Field:
    """A column of a list."""

    name: str  #: internal name
    type: str  #: one of FIELD_TYPES
    title: str
    indexed: bool = False
    hidden: bool = False
    rich: bool = False  #: of a Note: HTML
    choices: tuple[str, ...] = ()
    other: str = ""  #: of a Lookup: the title of the other list
    read_only: bool = False

    @property
    def leads(self) -> bool:
        """Whether it holds ids of people or of items."""
        return self.type.startswith(("User", "Lookup"))


@dataclass(eq=False)
class Entry:
    """A file, a folder or a list item; `unique_id` and `id` outlive rename, move and update."""

    library: SharepointList = field(repr=False)
    id: int
    unique_id: str  #: GUID, lower case
    name: str
    kind: str  #: file, folder or item
    parent: Entry | None = field(repr=False)  #: None: this is the root folder
    content: bytes = field(default=b"", repr=False)
    modified: int = 0  #: Unix seconds
    created: int = 0  #: Unix seconds
    values: dict[str, Any] = field(default_factory=dict)
    author: int = 1  #: id of a person
    editor: int = 1
    version: int = 1
    claimed_size: int | None = None  #: what listings say instead of the right size
    checked_out_by: int | None = None
    checked_in: bool = True  #: ever; False: a file that only its author sees
    trimmed: bool = False  #: the app has no right to see it; ItemCount counts it
    locked: bool = False  #: its content answers 423
    versions: list[Version] = field(default_factory=list, repr=False)
    layout: list[Any] = field(default_factory=list, repr=False)  #: of a site page: its sections

    @property
    def path(self) -> str:
        """The path below the root of the list; empty for the root itself."""
        names: list[str] = []
        entry: Entry | None = self
        while entry is not None and entry.parent is not None:
            names.append(entry.name)
            entry = entry.parent
        return "/".join(reversed(names))

    @property
    def url(self) -> str:
        """The server relative URL, decoded."""
        path = self.path
        return f"{self.library.path}/{path}" if path else self.library.path

    @property
    def size(self) -> int:
        """The size that listings say."""
        return len(self.content) if self.claimed_size is None else self.claimed_size

    @property
    def seen(self) -> bool:
        """Whether the app may see it and every folder above it."""
        entry: Entry | None = self
        shows = self.library.site.tenant.shows_never_checked_in
        while entry is not None:
            if entry.trimmed or not (entry.checked_in or shows):
                return False
            entry = entry.parent
        return True

    @property
    def is_file(self) -> bool:
        return self.kind == "file"

    def within(self, folder: Entry) -> bool:
        """Whether a folder is this entry or above it."""
        entry: Entry | None = self
        while entry is not None:
            if entry is folder:
                return True
            entry = entry.parent
        return False
