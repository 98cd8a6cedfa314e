"""Listings and downloads by Microsoft Graph: a library's site, drive and list, and its delta.

An item of a delta has no path, a renamed folder comes without the items below it, and a deleted
item without its name. So a known drive has all files with the ids of their folders, and the tree of
folders. With the changes it makes a whole listing, which is compared as any other.

Shapes of the API: Microsoft Graph, ``driveItem: delta``.

A library without a filter is listed by its changes (``DeltaListing``); lists, pages, and libraries
with a filter are listed by the items of their list. The ids are those of SharePoint, so that a
change between REST and Graph downloads nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import attrgetter
from time import time
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.option_groups import SharepointOptions, is_secure_or_loopback_url
from smartcrawl.sources.sharepoint.access import (
    DriveFile,
    DriveToken,
    DriveUpdate,
    Fetch,
    Folder,
    FolderTree,
    KnownDrive,
    LibraryError,
    LibraryPlace,
    LibraryRefusedError,
    LibraryRequest,
    library_item_url,
    list_item_url,
    sharepoint_content_limit,
    sharepoint_place_shown,
    sharepoint_site_path,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import (
    ClientListing,
    LibraryClient,
    PageWalk,
    sharepoint_refusal,
)
from smartcrawl.sources.sharepoint.payloads import (
    PAGE_FIELDS,
    AnswerPage,
    GraphColumn,
    GraphDriveItem,
    GraphListItem,
    GraphPlace,
    ListField,
    PayloadError,
    graph_list_fields,
    library_page,
    sharepoint_json,
    sharepoint_list_item_content,
    sharepoint_page_content,
    sharepoint_payload,
)
from smartcrawl.sources.sharepoint.tokens import Tokens

_FACTS: Final = "$select=id,webUrl"
_NAMED: Final = 5  #: libraries of a site that a message names, at most


class GraphPlaces:
    """Look-ups of the places of one source."""

    def __init__(self, place: LibraryPlace, base: str, client: LibraryClient) -> None:
        """Set up; ``base``: GRAPH_URL."""
        self.base = base
        self._place = place
        self._client = client
        self.root = ""  #: server relative URL of the list, set by ``list``
        self._site = ""
        self._list = ""

    @property
    def library_path(self) -> str:
        """The server relative URL of the library as the source has it."""
        return f"{sharepoint_site_path(self._place.site_url)}{self._place.url_part}".rstrip("/")

    def site(self) -> str:
        """Return the address of the site in Graph; it is asked for once."""
        if not self._site:
            parts, path = urlsplit(self._place.site_url), sharepoint_site_path(self._place.site_url)
            name = parts.hostname or ""
            name += f":{quote(path)}" if path else ""
            found = self._get(f"{self.base}/sites/{name}?{_FACTS}")
            self._site = f"{self.base}/sites/{quote(found.id, safe=',')}"
        return self._site

    def drive(self, id_: str = "") -> GraphPlace:
        """Return the drive of the library; ``id_``: that of an earlier listing.

        Raises:
            LibraryRefusedError: the library has no drive, or the drive has another path now.
        """
        if id_:
            answer = self._client.answer(f"{self.base}/drives/{quote(id_, safe='!')}?{_FACTS}")
            if answer.status != 404:  # its library was deleted, and maybe made anew
                found = sharepoint_payload(GraphPlace, sharepoint_json(self._client.good(answer)))
                if self._is_library(found):
                    return found
        return self._of_path(f"{self.site()}/drives?{_FACTS}", "drive")

    def list(self) -> str:
        """Return the address of the list in Graph, and set ``root``.

        Raises:
            LibraryRefusedError: there is none.
        """
        if self._list:
            return self._list
        if self._place.source_type is SourceType.LISTS:
            title = quote(self._place.list_name, safe="")
            found = self._get(f"{self.site()}/lists/{title}?{_FACTS}")
        else:  # system: so that the library of pages is among them
            found = self._of_path(f"{self.site()}/lists?{_FACTS},system", "list")
        self.root = graph_path(found)
        self._list = f"{self.site()}/lists/{quote(found.id, safe='')}"
        return self._list

    def _get(self, url: str) -> GraphPlace:
        return sharepoint_payload(GraphPlace, sharepoint_json(self._client.body(url)))

    def _of_path(self, url: str, kind: str) -> GraphPlace:
        others: list[str] = []
        for found in self._all(url):
            if self._is_library(found):
                return found
            if kind == "drive" and len(others) < _NAMED:  # most lists are no libraries
                others.append(self._url_part(found))
        known = f"; the site has {', '.join(map(sharepoint_words, others))}" if others else ""
        raise LibraryRefusedError(
            f"the site has no {kind} at {sharepoint_words(self.library_path)}: it was renamed, or"
            f" the app may not read it; correct sharepoint_url_part in domain.json{known}"
        )

    def _url_part(self, found: GraphPlace) -> str:
        """Return the sharepoint_url_part that would name a place of the site."""
        return graph_path(found).removeprefix(sharepoint_site_path(self._place.site_url))

    def _all(self, url: str) -> Iterator[GraphPlace]:
        walk: PageWalk | None = None
        while True:
            page = library_page(self._client.body(url))
            for one in page.items:
                yield sharepoint_payload(GraphPlace, one)
            if page.next is None:
                return
            walk = walk or PageWalk(url, items=0)
            url = walk.following(page.next, url)

    def _is_library(self, found: GraphPlace) -> bool:
        return graph_path(found).lower() == self.library_path.lower()


def graph_path(found: GraphPlace) -> str:
    """Return the server relative path of a place, decoded."""
    return unquote(urlsplit(found.web_url).path).rstrip("/")


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


_ACCEPT: Final = "application/json;odata.metadata=none"
#: Lets a filter name a column that is not indexed; where that takes too long, it is refused.
_PREFER: Final = "HonorNonIndexedQueriesWarningMayFailRandomly"
_LARGEST_LISTING: Final = 1_000_000  #: pages
_ITEM: Final = "id,webUrl,lastModifiedDateTime,sharepointIds,contentType"
_DRIVE_ITEM: Final = "driveItem($select=id,name,size,file,folder,package)"


class GraphApi:
    """Microsoft Graph for one source."""

    def __init__(
        self,
        place: LibraryPlace,
        options: SharepointOptions,
        fetch: Fetch,
        *,
        known: KnownDrive | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """Set up; no request is sent yet.

        ``known``: the drive as the last listing had it; None: all of it is to be asked for.

        Raises:
            SettingError: credentials are missing.
        """
        self._place = place
        self._options = options
        self._known = known
        self._tokens = Tokens(options, options.graph_url, fetch, clock)
        self._client = LibraryClient(self._tokens, fetch, _ACCEPT)
        self._places = GraphPlaces(place, options.graph_url, self._client)
        self._delta: DeltaListing | None = None
        self._drive_items: dict[str, str] = {}  #: looked up: addresses by unique ids

    def listing(self) -> DeltaListing | ItemsListing:
        """Return a pass that has sent no request yet."""
        if self._place.source_type is SourceType.FILES and not self._place.filter:
            self._delta = DeltaListing(
                self._place,
                self._places,
                self._client,
                at=self._token_place(),
                known=self._known,
                page_size=self._options.page_size,
            )
            return self._delta
        return ItemsListing(self._place, self._places, self._client, self._options.page_size)

    def _token_place(self) -> str:
        """Return the text by which a token is known to be of another API, app or library."""
        place, options = self._place, self._options
        parts = [options.graph_url, options.tenant, options.client_id]
        return json.dumps([*parts, place.site_url, place.url_part])

    def content_request(self, item: LibraryItem) -> LibraryRequest:
        """Return the request for the bytes of a file; its answer is a redirect."""
        url = f"{self._address(item)}/content"
        return self._tokens.authorized(LibraryRequest(url, most=sharepoint_content_limit(item)))

    def renewed(self, request: LibraryRequest) -> LibraryRequest:
        """Return a request with a new token."""
        return self._tokens.renewed(request)

    def followed(self, request: LibraryRequest, location: str) -> LibraryRequest:
        """Return the request for the download address: it has a secret, and gets no token.

        Raises:
            LibraryRefusedError: the address is not one to send a secret to.
        """
        if not is_secure_or_loopback_url(location):
            shown = sharepoint_words(location.partition("?")[0])
            raise LibraryRefusedError(f"the download is at {shown}, which is not an https address")
        return LibraryRequest(location, most=request.most)

    def _address(self, item: LibraryItem) -> str:
        """Return the address of a file in Graph; one that no listing named is looked up."""
        if self._delta is not None and item.unique_id in self._delta.ids:
            return self._of_drive(self._delta.drive, self._delta.ids[item.unique_id])
        address = self._drive_items.get(item.unique_id)
        if address is None:
            of_list = f"{self._places.list()}/items/{item.listitem_id}/driveItem"
            found = sharepoint_json(self._client.body(f"{of_list}?$select=id,parentReference"))
            parent = found.get("parentReference")
            drive = parent.get("driveId") if isinstance(parent, Mapping) else None
            id_ = sharepoint_payload(GraphDriveItem, found).id
            if not isinstance(drive, str):
                raise LibraryRefusedError("the file has no drive; crawl again later")
            address = self._drive_items[item.unique_id] = self._of_drive(drive, id_)
        return address

    def _of_drive(self, drive: str, id_: str) -> str:
        base = self._options.graph_url
        return f"{base}/drives/{quote(drive, safe='!')}/items/{quote(id_, safe='!')}"


class ItemsListing(ClientListing):
    """One pass over the items of a list, by Graph, which counts no items."""

    def __init__(
        self, place: LibraryPlace, places: GraphPlaces, client: LibraryClient, page_size: int
    ) -> None:
        """Set up the pass."""
        super().__init__(place, client, page_size)
        self._places = places
        self._headers = {"Prefer": _PREFER} if place.filter else {}
        self._fields: list[ListField] = []

    def _pages(self) -> Iterator[list[LibraryItem]]:
        address = self._places.list()
        self.root = self._places.root
        if self._place.source_type is SourceType.LISTS:
            self._fields = self._visible_fields(address)
        url = self._first(address)
        base = re.escape(urlsplit(self._places.base).path.lower())
        walk = PageWalk(url, items=_LARGEST_LISTING, also=f"{base}/sites/.+/lists/.+/items")
        yield from self._walked(url, walk, self._items, self._headers)

    def _visible_fields(self, address: str) -> list[ListField]:
        page = library_page(self._client.body(f"{address}/columns"))
        if page.next is not None:
            raise PayloadError("its columns come in several pages, which the API never sends")
        found = graph_list_fields(sharepoint_payload(GraphColumn, one) for one in page.items)
        return self._queried(found)

    def _first(self, address: str) -> str:
        """Return the URL of the first page."""
        match self._place.source_type:
            case SourceType.FILES:
                expanded = f"fields($select=FileLeafRef),{_DRIVE_ITEM}"
            case SourceType.SITEPAGES:
                expanded = f"fields($select={','.join(PAGE_FIELDS)})"
            case SourceType.LISTS:
                names = dict.fromkeys(["Title", *(field.key for field in self._fields)])
                expanded = f"fields($select={','.join(map(quote, names))})"
        query = f"$select={_ITEM}&$expand={expanded}&$top={self._size}"
        if self._place.filter:
            query += f"&$filter={quote(self._place.filter, safe='')}"
        return f"{address}/items?{query}"

    # Items

    def _items(self, values: list[Any], page: int) -> Iterator[LibraryItem]:
        for number, value in enumerate(values, start=1):
            try:
                item = self._item(sharepoint_payload(GraphListItem, value))
            except PayloadError as error:
                self._problems.add(
                    f"item {number} of page {page} cannot be read: {error}; crawl again later"
                )
            else:
                if item is not None:
                    yield item

    def _item(self, found: GraphListItem) -> LibraryItem | None:
        """Return an item; None for a folder.

        Raises:
            PayloadError: it does not have the documented form.
        """
        item_id, unique_id = (
            found.sharepoint_ids.list_item_id,
            found.sharepoint_ids.list_item_unique_id,
        )
        if item_id is None or unique_id is None:
            raise PayloadError("sharepointIds: an item has no ids")
        if found.is_folder:
            return None
        path = unquote(urlsplit(found.web_url).path)
        if not path.lower().startswith(f"{self.root.lower()}/"):
            raise PayloadError(f"webUrl: it is not below {sharepoint_words(self.root)}")
        content, url = None, library_item_url(self._place.site_url, path)
        match self._place.source_type:
            case SourceType.LISTS:
                path = f"{self.root}/{item_id}.md"
                url = list_item_url(self._place.site_url, self.root, item_id)
                content = sharepoint_list_item_content(
                    found.fields,
                    self._fields,
                    item_id=item_id,
                    list_title=self._place.list_name,
                )
            case SourceType.SITEPAGES:
                content = self._page_content(found.fields, unique_id)
        size = found.drive_item.size if found.drive_item is not None else None
        if content is not None:
            size = len(content.encode())
        if size is None:
            raise PayloadError("driveItem.size: a file has none")
        return LibraryItem(
            listitem_id=item_id,
            unique_id=unique_id,
            filename=path.rpartition("/")[2],
            server_relative_url=path,
            file_size=size,
            last_modified=found.last_modified_date_time,
            url=url,
            content=content,
        )

    def _page_content(self, fields: Mapping[str, Any], unique_id: str) -> str:
        """Return the content of a page; where its list does not show the text, the page does."""
        if "CanvasContent1" in fields:
            return sharepoint_page_content(fields)
        address = f"{self._places.site()}/pages/{unique_id}/microsoft.graph.sitePage"
        answer = self._client.answer(f"{address}?$expand=canvasLayout")
        if answer.status == 404:  # a page of another kind, such as a wiki page
            return sharepoint_page_content(fields)
        found = sharepoint_json(self._client.good(answer))
        return sharepoint_page_content(
            {"Title": found.get("title"), **fields}, found.get("canvasLayout")
        )
