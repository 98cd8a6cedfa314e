"""Listings and downloads by Microsoft Graph.

A library without a filter is listed by its changes (``graph_delta``); lists, pages, and libraries
with a filter are listed by the items of their list. The ids are those of SharePoint, so that a
change between REST and Graph downloads nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from time import time
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.sharepoint_options import SharepointOptions, is_secure_or_loopback_url
from smartcrawl.sources.sharepoint.access import (
    Fetch,
    LibraryPlace,
    LibraryRefusedError,
    LibraryRequest,
    library_item_url,
    list_item_url,
    sharepoint_content_limit,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import LibraryClient
from smartcrawl.sources.sharepoint.drives import KnownDrive
from smartcrawl.sources.sharepoint.fields import (
    PAGE_FIELDS,
    ListField,
    graph_list_fields,
    sharepoint_list_item_content,
    sharepoint_page_content,
)
from smartcrawl.sources.sharepoint.graph_delta import DeltaListing
from smartcrawl.sources.sharepoint.graph_places import GraphPlaces
from smartcrawl.sources.sharepoint.listed import ClientListing
from smartcrawl.sources.sharepoint.paging import PageWalk
from smartcrawl.sources.sharepoint.payloads import (
    GraphColumn,
    GraphDriveItem,
    GraphListItem,
    PayloadError,
    library_page,
    sharepoint_json,
    sharepoint_payload,
)
from smartcrawl.sources.sharepoint.tokens import Tokens

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
