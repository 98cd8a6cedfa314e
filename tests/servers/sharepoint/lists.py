"""Lists with typed fields, and the log of changes that a delta is read from."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.servers.sharepoint.entries import Entry, Field

if TYPE_CHECKING:
    from tests.servers.sharepoint.tenant import Site


class Change(NamedTuple):
    """One change of an entry, with its name and folder after it."""

    serial: int
    entry: Entry
    name: str
    parent: Entry | None
    deleted: bool = False


_BUILT_IN = (
    Field("Title", "Text", "Title"),
    Field("Modified", "DateTime", "Modified", read_only=True),
    Field("Created", "DateTime", "Created", read_only=True),
    Field("Author", "User", "Created By", read_only=True),
    Field("Editor", "User", "Modified By", read_only=True),
    Field("ID", "Counter", "ID", indexed=True, read_only=True),
    Field("FileLeafRef", "File", "Name"),
    Field("FileRef", "Lookup", "URL Path", hidden=True, read_only=True),
    Field("UniqueId", "Lookup", "Unique Id", hidden=True, read_only=True),
    Field("FSObjType", "Lookup", "Item Type", hidden=True, read_only=True),
)


class SharepointList:
    """What lists and libraries share: ids, fields, entries, recycle bin and changes."""

    template = 100  #: BaseTemplate: a generic list
    base_type = 0

    def __init__(self, site: Site, title: str, url_name: str) -> None:
        self.site = site
        self.title = title
        self.url_name = url_name  #: path below the site; set another to rename the library
        self.guid = str(uuid.uuid4())
        self.fields = {column.name: column for column in _BUILT_IN}
        self.entries: dict[int, Entry] = {}  #: by list item id, in its order
        self.by_guid: dict[str, Entry] = {}
        self.names: dict[tuple[int, str], Entry] = {}  #: by the id of the folder and the name
        self.bin: list[Entry] = []  #: the recycle bin, the latest last
        self.changes: list[Change] = []
        self.generation = 0  #: of its delta tokens; those of others are answered 410
        self.count_offset = 0  #: added to ItemCount
        self._next_id = 1
        self.root = Entry(self, 0, str(uuid.uuid4()), url_name, "folder", None)
        self.root.modified = self.root.created = site.tenant.now

    @property
    def path(self) -> str:
        """The server relative URL of the root folder, decoded."""
        return f"{self.site.path}/{self.url_name}"

    @property
    def item_count(self) -> int:
        """ItemCount: folders are counted, and rights trim nothing (assumed)."""
        return len(self.entries) + self.count_offset

    @property
    def visible(self) -> list[Entry]:
        """The entries that the app may see, in the order of their ids."""
        return [entry for entry in self.entries.values() if entry.seen]

    @property
    def serial(self) -> int:
        return self.changes[-1].serial if self.changes else 0

    def column(self, name: str, type_: str = "Text", title: str = "", **facts: Any) -> Field:
        """Add a column; an internal name may differ from the title."""
        self.fields[name] = Field(name, type_, title or name, **facts)
        return self.fields[name]

    def index(self, *names: str) -> None:
        """Index columns, so that filters on them are served past the threshold."""
        for name in names:
            known = self.fields[name]
            self.fields[name] = Field(**(vars(known) | {"indexed": True}))

    def entry(self, id_: int) -> Entry:
        return self.entries[id_]

    def delete_entry(self, entry: Entry) -> Entry:
        """Put an entry, and what is below it, into the recycle bin."""
        gone = [other for other in self.entries.values() if other.within(entry)]
        for other in gone:
            del self.entries[other.id]
            del self.by_guid[other.unique_id]
            self._forget_name(other)
        self.bin += [*(other for other in gone if other is not entry), entry]
        children = gone if self.site.tenant.delta_names_deleted_children else [entry]
        for other in children:
            self._note(other, deleted=True)
        return entry

    def restore_entry(self, entry: Entry) -> Entry:
        """Take an entry, and what was deleted with it, out of the recycle bin: the same ids."""
        back = [other for other in self.bin if other.within(entry)]
        self.bin = [other for other in self.bin if other not in back]
        for other in sorted(back, key=lambda other: other.id):
            self._keep(other)
            self._note(other)
        return entry

    def _new(self, name: str, kind: str, parent: Entry, modified: int | None) -> Entry:
        at = self.site.tenant.tick() if modified is None else modified
        entry = Entry(self, self._next_id, str(uuid.uuid4()), name, kind, parent)
        entry.modified = entry.created = at
        self._next_id += 1
        self._keep(entry)
        return entry

    def _keep(self, entry: Entry) -> None:
        last = next(reversed(self.entries), 0)
        self.entries[entry.id] = entry
        self.by_guid[entry.unique_id] = entry
        if entry.parent is not None:
            self.names[entry.parent.id, entry.name] = entry
        if entry.id < last:
            self.entries = dict(sorted(self.entries.items()))

    def _forget_name(self, entry: Entry) -> None:
        if entry.parent is not None:
            self.names.pop((entry.parent.id, entry.name), None)

    def _touch(self, entry: Entry, modified: int | None) -> None:
        entry.modified = self.site.tenant.tick() if modified is None else modified
        entry.version += 1

    def _note(self, entry: Entry, *, deleted: bool = False) -> Entry:
        serial = self.serial + 1
        self.changes.append(Change(serial, entry, entry.name, entry.parent, deleted))
        return entry


class GenericList(SharepointList):
    """A list of items without files.

    tasks = site.list("Tasks")
    tasks.column("Status", "Choice", choices=("Active", "Done"), indexed=True)
    task = tasks.add(Title="Sort", Status="Active")
    tasks.change(task.id, Status="Done")
    tasks.remove(task.id)
    tasks.restore(task.id)
    """

    def __init__(self, site: Site, title: str, url_name: str) -> None:
        super().__init__(site, title, f"Lists/{url_name}")

    def add(self, *, modified: int | None = None, **values: Any) -> Entry:
        """Add an item; unknown columns are an error of the test."""
        entry = self._new("", "item", self.root, modified)
        entry.name = f"{entry.id}_.000"
        return self._note(self._fill(entry, values))

    def change(self, id_: int, *, modified: int | None = None, **values: Any) -> Entry:
        """Edit fields of an item."""
        entry = self._fill(self.entries[id_], values)
        self._touch(entry, modified)
        return self._note(entry)

    def remove(self, id_: int) -> Entry:
        return self.delete_entry(self.entries[id_])

    def restore(self, id_: int) -> Entry:
        return self.restore_entry(next(entry for entry in self.bin if entry.id == id_))

    def _fill(self, entry: Entry, values: dict[str, Any]) -> Entry:
        unknown = values.keys() - self.fields.keys()
        if unknown:
            raise KeyError(f"no column {unknown} in the list {self.title}")
        entry.values |= values
        return entry
