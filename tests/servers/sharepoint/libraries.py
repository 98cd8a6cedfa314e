"""Document libraries, and the changes that people make to their files and folders."""

from __future__ import annotations

from typing import Any

from tests.servers.sharepoint.entries import Entry, Version
from tests.servers.sharepoint.lists import SharepointList
from tests.servers.sharepoint.pages import canvas


class Library(SharepointList):
    """A library; paths are relative to its root, with `/`, and not encoded.

    A name may stand in one folder once. `modified` is in Unix seconds; without it the clock of
    the tenant goes on by a second.
    """

    template = 101
    base_type = 1

    def find(self, path: str) -> Entry:
        """Return the entry of a path; KeyError if there is none."""
        entry = self._found(path)
        if entry is None:
            raise KeyError(path)
        return entry

    def files(self) -> dict[str, Entry]:
        """Return the files by their paths."""
        return {entry.path: entry for entry in self.entries.values() if entry.is_file}

    def folder(self, path: str) -> Entry:
        """Return a folder; it, and those above it, are made where they are missing."""
        at = self.root
        for name in path.split("/") if path else ():
            found = self._child(at, name)
            at = found or self._note(self._new(name, "folder", at, None))
        return at

    def add(
        self, path: str, content: bytes | str = b"", *, modified: int | None = None, **values: Any
    ) -> Entry:
        """Upload a file of a new name."""
        if self._found(path) is not None:
            raise KeyError(f"{path} is there already")
        above, _, name = path.rpartition("/")
        entry = self._new(name, "file", self.folder(above), modified)
        entry.content = content.encode() if isinstance(content, str) else content
        entry.values |= values
        return self._note(entry)

    def update(
        self, path: str, content: bytes | str, *, modified: int | None = None, **values: Any
    ) -> Entry:
        """Write other bytes into a file; the old ones are kept as a version."""
        entry = self.find(path)
        entry.versions.append(Version(entry.content, entry.modified))
        entry.content = content.encode() if isinstance(content, str) else content
        entry.values |= values
        self._touch(entry, modified)
        return self._note(entry)

    def rename(self, path: str, name: str, *, modified: int | None = None) -> Entry:
        """Rename a file or a folder where it is."""
        return self._place(self.find(path), self._parent(path), name, modified)

    def move(self, path: str, folder: str, *, modified: int | None = None) -> Entry:
        """Move a file or a folder into another folder, under its name."""
        entry = self.find(path)
        return self._place(entry, self.folder(folder), entry.name, modified)

    def relocate(self, path: str, new: str, *, modified: int | None = None) -> Entry:
        """Rename and move at once."""
        above, _, name = new.rpartition("/")
        return self._place(self.find(path), self.folder(above), name, modified)

    def swap(self, one: str, other: str) -> None:
        """Exchange the names of two files, by way of a third name."""
        self.relocate(one, f"{one}.swap")
        self.relocate(other, one)
        self.relocate(f"{one}.swap", other)

    def delete(self, path: str) -> Entry:
        """Delete a file or a folder; it lies in the recycle bin then."""
        return self.delete_entry(self.find(path))

    def restore(self, path: str) -> Entry:
        """Restore what was deleted last at a path, with its ids."""
        found = [entry for entry in self.bin if entry.path == path]
        if not found:
            raise KeyError(path)
        if self._found(path) is not None:
            raise KeyError(f"{path} is there already")
        return self.restore_entry(found[-1])

    def copy(self, path: str, new: str) -> Entry:
        """Copy a file: a new id, the same bytes."""
        return self.add(new, self.find(path).content)

    def replace(self, path: str, content: bytes | str) -> Entry:
        """Delete a file and upload another one of the same name."""
        self.delete(path)
        return self.add(path, content)

    def check_out(self, path: str, person: int = 1) -> Entry:
        """Check a file out; its time stays (assumed)."""
        entry = self.find(path)
        entry.checked_out_by = person
        return self._note(entry)

    def check_in(self, path: str, *, modified: int | None = None) -> Entry:
        """Check a file in, which is a new version."""
        entry = self.find(path)
        entry.checked_out_by, entry.checked_in = None, True
        self._touch(entry, modified)
        return self._note(entry)

    def never_checked_in(self, path: str, content: bytes | str = b"") -> Entry:
        """Upload a file that its author has not checked in yet."""
        entry = self.add(path, content)
        entry.checked_out_by, entry.checked_in = entry.author, False
        return entry

    def roll_back(self, path: str, *, keeps_time: bool = True) -> Entry:
        """Restore the version before; its time, too, unless `keeps_time` is false (assumed)."""
        entry = self.find(path)
        entry.content, at = entry.versions.pop()
        self._touch(entry, at if keeps_time else None)
        return self._note(entry)

    # Where entries are

    def _place(self, entry: Entry, folder: Entry, name: str, modified: int | None) -> Entry:
        there = self._child(folder, name)
        if there is not None and there is not entry:
            raise KeyError(f"{there.path} is there already")
        if folder.within(entry):
            raise KeyError(f"{entry.path} cannot be moved into itself")
        self._forget_name(entry)
        entry.name, entry.parent = name, folder
        self.names[folder.id, name] = entry
        if modified is not None or self.site.tenant.rename_touches:
            self._touch(entry, modified)
        return self._note(entry)

    def _parent(self, path: str) -> Entry:
        parent = self.find(path).parent
        if parent is None:
            raise KeyError(path)
        return parent

    def _found(self, path: str) -> Entry | None:
        at: Entry | None = self.root
        for name in path.split("/") if path else ():
            at = at and self._child(at, name)
        return at

    def _child(self, folder: Entry, name: str) -> Entry | None:
        return self.names.get((folder.id, name))


class PageLibrary(Library):
    """Site Pages: files `.aspx` with a title and web parts."""

    template = 119

    def page(self, path: str, title: str, *sections: Any, modified: int | None = None) -> Entry:
        """Add or edit a page; a section is a list of columns, a column a list of web parts."""
        source = canvas(sections)
        values = {"Title": title, "CanvasContent1": source}
        body = f"<%@ Page %><title>{title}</title>".encode()
        if self._found(path) is None:
            entry = self.add(path, body, modified=modified, **values)
        else:
            entry = self.update(path, body, modified=modified, **values)
        entry.layout = list(sections)
        return entry
