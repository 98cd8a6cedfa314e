"""The items of a drive, by Graph's delta: those at the last token, and the changes since.

An item of a delta has no path, a renamed folder comes without the items below it, and a deleted
item without its name. So a known drive has all files with the ids of their folders, and the tree of
folders. With the changes it makes a whole listing, which is compared as any other.

Shapes of the API: Microsoft Graph, ``driveItem: delta``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from smartcrawl.model.library import LibraryItem
from smartcrawl.sources.sharepoint.access import (
    LibraryError,
    LibraryPlace,
    library_item_url,
    sharepoint_place_shown,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import LibraryClient, sharepoint_refusal
from smartcrawl.sources.sharepoint.drives import (
    DriveFile,
    DriveToken,
    DriveUpdate,
    Folder,
    FolderTree,
    KnownDrive,
)
from smartcrawl.sources.sharepoint.graph_places import GraphPlaces, graph_path
from smartcrawl.sources.sharepoint.listed import ClientListing
from smartcrawl.sources.sharepoint.paging import PageWalk
from smartcrawl.sources.sharepoint.payloads import (
    AnswerPage,
    GraphDriveItem,
    GraphPlace,
    PayloadError,
    library_page,
    sharepoint_payload,
)

_BATCH: Final = 1_000  #: items
_MOST_PAGES: Final = 1_000_000
_REFUSED: Final = (400, 404, 410)  #: statuses of a token that is not taken any more
_SELECT: Final = (
    "$select=id,name,size,lastModifiedDateTime,parentReference,sharepointIds,file,folder,package,"
    "root,deleted"
)


class _Change(NamedTuple):
    """One item of a delta."""

    file: DriveFile  #: of a folder: its id, name and parent
    is_folder: bool
    is_deleted: bool
    is_root: bool


class DeltaListing(ClientListing):
    """One pass over a drive, of which all is listed. Graph counts no items.

    Where the drive is known, only the changes since are asked for. Nothing comes before the last
    answer: an item may come twice, and then the last one counts.
    """

    def __init__(
        self,
        place: LibraryPlace,
        places: GraphPlaces,
        client: LibraryClient,
        *,
        at: str,
        known: KnownDrive | None,
        page_size: int,
    ) -> None:
        """Set up the pass; ``at``: API, app and library, as in ``DriveToken.place``."""
        super().__init__(place, client, page_size)
        self.drive = ""  #: id; set before the first item comes
        self.ids: dict[str, str] = {}  #: the drive's ids of files by their unique ids
        self._places = places
        self._at = at
        self._known = known if known is not None and known.token.place == at else None
        self._folders: dict[str, Folder] = {}  #: all
        self._tree = FolderTree("", "", {})
        self._root_id = ""
        self._changes: dict[str, _Change] = {}
        self._changed: list[DriveFile] = []  #: new and changed, in order of their list item ids
        self._gone: list[str] = []

    def _pages(self) -> Iterator[list[LibraryItem]]:
        delta = self._read()
        items = map(self._item, self._files())
        while batch := list(islice(items, _BATCH)):
            yield batch
        if self.problems:
            return
        self.update = DriveUpdate(
            DriveToken(self._at, self.drive, self.root, self._root_id, delta),
            self._known is None,
            {
                id_: self._folders[id_]
                for id_, change in self._changes.items()
                if change.is_folder and self._tree.path(id_) is not None and not change.is_root
            },
            self._changed,
            self._gone,
        )

    # Answers

    def _read(self) -> str:
        """Read all answers, and return the URL of the changes after them."""
        known = self._known.token if self._known is not None else None
        drive = self._places.drive(known.drive if known is not None else "")
        self.drive, self.root = drive.id, graph_path(drive)
        if known is None or (known.drive, known.root) != (self.drive, self.root):
            return self._read_whole(self._whole(drive))
        try:
            delta = self._walk(known.delta)
            self._grow()
            return delta
        except _ResyncError as resync:
            self.notes.append(
                f"{sharepoint_place_shown(self._place)}: {resync}; everything is listed"
            )
            return self._read_whole(resync.url or self._whole(drive))

    def _read_whole(self, url: str) -> str:
        """Read all of the drive."""
        self._known, self._changes = None, {}
        delta = self._walk(url)
        self._grow()
        return delta

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
        if answer.status in _REFUSED and self._known is not None:
            location = answer.headers.get("location", "")
            raise _ResyncError(
                "the server has forgotten the last listing",
                walk.checked(urljoin(url, location), url) if location else "",
            )
        try:
            if answer.status != 200:
                raise sharepoint_refusal(answer)
            return library_page(answer.body)
        except (LibraryError, PayloadError) as error:
            raise type(error)(f"page {walk.page} of its listing: {error}") from error

    def _take(self, value: Any, number: int, page: int) -> None:
        """Take an item of an answer; the last one of an id counts."""
        try:
            found = sharepoint_payload(GraphDriveItem, value)
            change = _change(found)
        except PayloadError as error:
            self._problems.add(
                f"item {number} of page {page} cannot be read: {error}; crawl again later"
            )
            return
        self._changes.pop(found.id, None)
        self._changes[found.id] = change

    # Items

    def _grow(self) -> None:
        """Let the changes make the tree of folders.

        Raises:
            PayloadError: there is no root folder.
            _ResyncError: the changes name a folder that is not known.
        """
        known = self._known
        self._folders = {} if known is None else known.folders()
        self._root_id = "" if known is None else known.token.root_id
        for id_, change in self._changes.items():
            if change.is_root:
                self._root_id = id_
            elif change.is_deleted:
                self._folders.pop(id_, None)
            elif change.is_folder:
                self._folders[id_] = Folder(change.file.name, change.file.parent)
        if not self._root_id:
            raise PayloadError("the listing has no root folder")
        self._tree = FolderTree(self._root_id, self.root, self._folders)
        changed = [
            change.file
            for change in self._changes.values()
            if not (change.is_folder or change.is_deleted)
        ]
        self._changed = sorted(changed, key=attrgetter("listitem_id"))
        for change in self._changes.values():
            if not (change.is_deleted or change.is_root):
                self._check_folder(change.file)

    def _check_folder(self, file: DriveFile) -> None:
        """Check that the folder of a changed file or folder is known.

        Raises:
            _ResyncError: it is not, so all must be listed.
        """
        if self._tree.path(file.parent) is not None:
            return
        if self._known is not None:
            raise _ResyncError("a folder of its changes is unknown")
        self._problems.add(f"the folder of {sharepoint_words(file.name)} is unknown; crawl again")

    def _files(self) -> Iterator[DriveFile]:
        """Yield all files of the drive, and note what is gone."""
        if self._known is not None:
            self._gone = [id_ for id_, change in self._changes.items() if change.is_deleted]
            self._gone += [id_ for id_ in self._folders if self._tree.path(id_) is None]
        known = self._unchanged({file.unique_id for file in self._changed})
        for file in merge(known, self._changed, key=attrgetter("listitem_id")):
            if self._tree.path(file.parent) is not None:
                self.ids[file.unique_id] = file.id
                yield file

    def _unchanged(self, reported: set[str]) -> Iterator[DriveFile]:
        """Yield the known files that no change names; those below a removed folder are gone."""
        for file in self._known.files() if self._known is not None else ():
            if file.id in self._changes:
                continue
            if file.unique_id in reported or self._tree.path(file.parent) is None:
                self._gone.append(file.id)
            else:
                yield file

    def _item(self, file: DriveFile) -> LibraryItem:
        path = f"{self._tree.path(file.parent)}/{file.name}"
        return LibraryItem(
            listitem_id=file.listitem_id,
            unique_id=file.unique_id,
            filename=file.name,
            server_relative_url=path,
            file_size=file.file_size,
            last_modified=file.last_modified,
            url=library_item_url(self._place.site_url, path),
        )


class _ResyncError(LibraryError):
    """The last listing is of no use; ``url``: where a whole one begins, empty: at its beginning."""

    def __init__(self, why: str, url: str = "") -> None:
        super().__init__(why)
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
            shown = sharepoint_words(found.name or found.id)
            raise PayloadError(f"{missing[0]}: {shown} has none")
    return _Change(
        DriveFile(
            found.id,
            parent or "",
            found.name or "",
            item_id or 0,
            unique_id or "",
            found.size or 0,
            found.last_modified_date_time or 0,
        ),
        is_folder=found.is_folder,
        is_deleted=is_deleted and not is_root,
        is_root=is_root,
    )
