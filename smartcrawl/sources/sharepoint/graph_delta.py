"""The changes of a drive since the last listing, by Graph's delta.

An item of a delta has no path, a renamed folder comes without the items below it, and a deleted
item without its name. So the facts of a listing have the tree of folders; the items below a folder
that moved are read back from the registry, and get their new paths.

Shapes of the API: Microsoft Graph, ``driveItem: delta``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, urljoin, urlsplit

from smartcrawl.model.library import LibraryItem
from smartcrawl.sources.sharepoint.access import (
    LibraryError,
    LibraryPlace,
    library_item_url,
    place_shown,
    words_shown,
)
from smartcrawl.sources.sharepoint.asking import LibraryClient, library_refusal
from smartcrawl.sources.sharepoint.folders import Folder, FolderTree, moved_folders
from smartcrawl.sources.sharepoint.graph_places import GraphPlaces, graph_path
from smartcrawl.sources.sharepoint.listed import ClientListing
from smartcrawl.sources.sharepoint.paging import PageWalk
from smartcrawl.sources.sharepoint.payloads import (
    AnswerPage,
    GraphDriveItem,
    GraphPlace,
    PayloadError,
    json_text,
    library_page,
    library_payload,
)

#: Returns the stored items whose server relative URL is below a folder's.
Stored = Callable[[str], Iterable[LibraryItem]]
_VERSION: Final = 1  #: of the form of facts
_BATCH: Final = 1_000  #: items
_MOST_PAGES: Final = 1_000_000
_SELECT: Final = (
    "$select=id,name,size,lastModifiedDateTime,parentReference,sharepointIds,file,folder,package,"
    "root,deleted"
)


class DriveFacts(NamedTuple):
    """Facts of a listing that the next one needs."""

    base: str  #: GRAPH_URL
    drive: str
    root: str  #: server relative URL of the library
    delta: str  #: URL of the changes since
    root_id: str
    folders: dict[str, Folder]
    files: dict[str, str]  #: unique ids by the drive's ids: a deleted item may have the latter only

    def dumps(self) -> str:
        """Return the facts as JSON."""
        return json_text({"version": _VERSION, **self._asdict()})

    @classmethod
    def loads(cls, text: str) -> Self | None:
        """Return the facts of ``dumps``; None for those of another version, and for none."""
        try:
            found = json.loads(text) if text else None
        except ValueError:
            return None
        if not isinstance(found, dict) or found.pop("version", None) != _VERSION:
            return None
        folders = {id_: Folder(*folder) for id_, folder in found.pop("folders").items()}
        return cls(**found, folders=folders)


class _Change(NamedTuple):
    """One item of a delta."""

    name: str
    parent: str
    is_folder: bool
    is_deleted: bool
    is_root: bool
    item_id: int
    unique_id: str
    size: int
    modified: int


class DeltaListing(ClientListing):
    """One pass over a drive: all of it, or its changes since the last pass. Graph counts no items.

    With ``is_delta``, its pages are the changed items only. Nothing comes before the last answer:
    an item may come twice, and then the last one counts.
    """

    def __init__(
        self,
        place: LibraryPlace,
        places: GraphPlaces,
        client: LibraryClient,
        *,
        facts: str,
        stored: Stored,
        page_size: int,
    ) -> None:
        """Set up the pass; ``facts``: those of the last listing that was committed."""
        super().__init__(place, client, page_size)
        self.drive = ""  #: id; set before the first item comes
        self.files: dict[str, str] = {}  #: unique ids by the drive's ids
        self._places = places
        self._known = DriveFacts.loads(facts)
        self._stored = stored
        self._folders: dict[str, Folder] = {}
        self._root_id = ""
        self._changes: dict[str, _Change] = {}

    def _pages(self) -> Iterator[list[LibraryItem]]:
        delta = self._read()
        batch: list[LibraryItem] = []
        for item in self._items():
            batch.append(item)
            if len(batch) == _BATCH:
                yield batch
                batch = []
        yield batch
        if not self.problems:
            self.facts = DriveFacts(
                self._places.base,
                self.drive,
                self.root,
                delta,
                self._root_id,
                self._folders,
                self.files,
            ).dumps()

    # Answers

    def _read(self) -> str:
        """Read all answers, and return the URL of the changes after them."""
        known = self._known
        if known is not None and known.base != self._places.base:
            known = None
        drive = self._places.drive(known.drive if known is not None else "")
        self.drive, self.root = drive.id, graph_path(drive)
        if known is None or (known.drive, known.root) != (self.drive, self.root):
            self._known = None
            return self._walk(self._whole(drive))
        self.is_delta = True
        self._folders, self.files = dict(known.folders), dict(known.files)
        self._root_id = known.root_id
        try:
            return self._walk(known.delta)
        except _ResyncError as resync:
            self.notes.append(
                f"{place_shown(self._place)}: the server has forgotten the last listing; everything"
                " is listed and compared"
            )
            self.is_delta, self._known, self._root_id = False, None, ""
            self._folders, self.files, self._changes = {}, {}, {}
            return self._walk(resync.url or self._whole(drive))

    def _whole(self, drive: GraphPlace) -> str:
        address = f"{self._places.base}/drives/{quote(drive.id, safe='!')}/root/delta"
        return f"{address}?{_SELECT}&$top={self._size}"

    def _walk(self, url: str) -> str:
        base = urlsplit(self._places.base).path.lower()
        walk = PageWalk(url, items=_MOST_PAGES, also=f"{re.escape(base)}/.+/delta(\\(.*\\))?")
        while True:
            page = self._page(url, walk)
            for number, value in enumerate(page.items, start=1):
                self._take(value, number, walk.page)
            if page.next is None:
                if page.delta is None:
                    raise PayloadError(
                        f"page {walk.page} of its listing has no link to another one"
                    )
                return walk.checked(page.delta, url)
            url = walk.following(page.next, url)

    def _page(self, url: str, walk: PageWalk) -> AnswerPage:
        answer = self._client.answer(url)
        if answer.status == 410 and self._known is not None:
            location = answer.headers.get("location", "")
            raise _ResyncError(walk.checked(urljoin(url, location), url) if location else "")
        try:
            if answer.status != 200:
                raise library_refusal(answer)
            return library_page(answer.body)
        except (LibraryError, PayloadError) as error:
            raise type(error)(f"page {walk.page} of its listing: {error}") from error

    def _take(self, value: Any, number: int, page: int) -> None:
        """Take an item of an answer; the last one of an id counts."""
        try:
            found = library_payload(GraphDriveItem, value)
            change = _change(found)
        except PayloadError as error:
            self._problems.add(
                f"item {number} of page {page} cannot be read: {error}; crawl again later"
            )
            return
        self._changes.pop(found.id, None)
        self._changes[found.id] = change

    # Items

    def _items(self) -> Iterator[LibraryItem]:
        """Yield the changed items, and those below folders that moved."""
        before = dict(self._folders)
        for id_, change in self._changes.items():
            if change.is_root:
                self._root_id = id_
            elif change.is_deleted:
                self._folders.pop(id_, None)
            elif change.is_folder:
                self._folders[id_] = Folder(change.name, change.parent)
        if not self._root_id:
            raise PayloadError("the listing has no root folder")
        tree = FolderTree(self._root_id, self.root, self._folders)
        reported: set[str] = set()
        for id_, change in self._changes.items():
            if change.is_deleted:
                unique_id = self.files.pop(id_, change.unique_id)
                if unique_id and id_ not in before:
                    self.removed.add(unique_id)
            elif not change.is_folder:
                item = self._item(change, tree)
                if item is not None:
                    self.files[id_] = item.unique_id
                    reported.add(item.unique_id)
                    yield item
        if not self.is_delta:
            self.removed.clear()
        if self.is_delta:
            yield from self._below_moved(before, tree, reported | self.removed)

    def _item(self, change: _Change, tree: FolderTree) -> LibraryItem | None:
        folder = tree.path(change.parent)
        if folder is None:
            self._problems.add(f"the folder of {words_shown(change.name)} is unknown; crawl again")
            return None
        path = f"{folder}/{change.name}"
        return LibraryItem(
            listitem_id=change.item_id,
            unique_id=change.unique_id,
            filename=change.name,
            server_relative_url=path,
            file_size=change.size,
            last_modified=change.modified,
            url=library_item_url(self._place.site_url, path),
        )

    def _below_moved(
        self, folders: dict[str, Folder], tree: FolderTree, reported: set[str]
    ) -> Iterator[LibraryItem]:
        """Yield the stored items below folders that moved; those below deleted ones are removed."""
        old = FolderTree(self._root_id, self.root, folders)
        moved = moved_folders(old, tree, folders)
        if not moved:
            return
        by_path = {old.path(id_): id_ for id_ in folders}
        gone: set[str] = set()
        for path in moved.values():
            for item in self._stored(path):
                if item.unique_id in reported:
                    continue
                id_ = by_path.get(item.server_relative_url.rpartition("/")[0])
                if id_ is None:
                    self._problems.add(
                        f"the folder of {words_shown(item.server_relative_url)} is unknown; crawl"
                        " again"
                    )
                    continue
                folder = tree.path(id_)
                if folder is None:
                    gone.add(item.unique_id)
                    continue
                now = f"{folder}/{item.filename}"
                yield item._replace(
                    server_relative_url=now, url=library_item_url(self._place.site_url, now)
                )
        self.removed |= gone
        self._folders = {id_: one for id_, one in self._folders.items() if tree.path(id_)}
        self.files = {id_: unique for id_, unique in self.files.items() if unique not in gone}


class _ResyncError(LibraryError):
    """The server has forgotten the last listing; ``url``: where a whole one begins."""

    def __init__(self, url: str) -> None:
        super().__init__("the server has forgotten the last listing")
        self.url = url


def _change(found: GraphDriveItem) -> _Change:
    """Return an item of a delta.

    Raises:
        PayloadError: a part is missing that its kind has.
    """
    ids = found.sharepoint_ids
    item_id = ids.list_item_id if ids is not None else None
    unique_id = ids.list_item_unique_id if ids is not None else None
    parent = found.parent_reference.id if found.parent_reference is not None else None
    is_deleted, is_root = found.deleted is not None, found.root is not None
    if not is_deleted and not is_root:
        lacking: dict[str, object] = {"name": found.name, "parentReference.id": parent}
        if not found.is_folder:
            lacking |= {
                "file": found.file,
                "size": found.size,
                "lastModifiedDateTime": found.last_modified_date_time,
                "sharepointIds.listItemId": item_id,
                "sharepointIds.listItemUniqueId": unique_id,
            }
        missing = [name for name, value in lacking.items() if value is None]
        if missing:
            shown = words_shown(found.name or found.id)
            raise PayloadError(f"{missing[0]}: {shown} has none")
    return _Change(
        name=found.name or "",
        parent=parent or "",
        is_folder=found.is_folder,
        is_deleted=is_deleted and not is_root,
        is_root=is_root,
        item_id=item_id or 0,
        unique_id=unique_id or "",
        size=found.size or 0,
        modified=found.last_modified_date_time or 0,
    )
