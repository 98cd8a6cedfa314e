"""Listings and downloads by SharePoint's REST API.

Shapes of the API: SharePoint REST reference; the paths of libraries, not their titles, name them
(R3-36). Items are read in the order of their ID, without ``$orderby`` and without a filter on
folders: past 5,000 items the API refuses both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import time
from typing import Any, Final
from urllib.parse import quote

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.sources.sharepoint.access import (
    Fetch,
    LibraryPlace,
    LibraryRefusedError,
    LibraryRequest,
    library_item_url,
    library_origin,
    list_item_url,
    sharepoint_content_limit,
    sharepoint_site_path,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import ClientListing, LibraryClient, PageWalk
from smartcrawl.sources.sharepoint.payloads import (
    PAGE_FIELDS,
    ListField,
    PayloadError,
    RestCount,
    RestField,
    RestItem,
    RestList,
    library_page,
    rest_list_fields,
    sharepoint_json,
    sharepoint_list_item_content,
    sharepoint_page_content,
    sharepoint_payload,
)
from smartcrawl.sources.sharepoint.tokens import Tokens

ACCEPT: Final = "application/json;odata=nometadata"
_SELECTED: Final = ("Id", "UniqueId", "FileLeafRef", "FileRef", "FSObjType", "Modified")


class RestApi:
    """SharePoint's REST API for one source."""

    def __init__(
        self,
        place: LibraryPlace,
        options: SharepointOptions,
        fetch: Fetch,
        clock: Callable[[], float] = time,
    ) -> None:
        """Set up; no request is sent yet.

        Raises:
            SettingError: credentials are missing.
        """
        self._place = place
        self._options = options
        self._tokens = Tokens(options, place.site_url, fetch, clock)
        self._client = LibraryClient(self._tokens, fetch, ACCEPT)
        self._base = f"{place.site_url}/_api/web"

    def listing(self) -> RestListing:
        """Return a pass that has sent no request yet."""
        return RestListing(self._place, self._options, self._client)

    def content_request(self, item: LibraryItem) -> LibraryRequest:
        """Return the request for the bytes of a file, by its id: renaming does no harm."""
        url = f"{self._base}/GetFileById('{item.unique_id}')/$value"
        return self._tokens.authorized(LibraryRequest(url, most=sharepoint_content_limit(item)))

    def renewed(self, request: LibraryRequest) -> LibraryRequest:
        """Return a request with a new token."""
        return self._tokens.renewed(request)

    def followed(self, request: LibraryRequest, location: str) -> LibraryRequest:
        """Refuse a redirect: this API sends files itself.

        Raises:
            LibraryRefusedError: always.
        """
        raise LibraryRefusedError(
            f"it redirects to {sharepoint_words(library_origin(location))}: check site_url"
        )


def list_address(place: LibraryPlace) -> str:
    """Return the URL of a list or library in the API.

    >>> from types import SimpleNamespace
    >>> files = {"source_type": SourceType.FILES, "site_url": "https://a.example/sites/x"}
    >>> list_address(SimpleNamespace(**files, url_part="/Shared Documents"))
    "https://a.example/sites/x/_api/web/GetList('/sites/x/Shared%20Documents')"
    >>> list_address(SimpleNamespace(**files, url_part="/50% #1"))
    "https://a.example/sites/x/_api/web/GetListUsingPath(DecodedUrl='/sites/x/50%25%20%231')"
    """
    base = f"{place.site_url}/_api/web"
    if place.source_type is SourceType.LISTS:
        return f"{base}/Lists/GetByTitle('{_quoted(place.list_name)}')"
    path = f"{sharepoint_site_path(place.site_url)}{place.url_part}".rstrip("/")
    if "%" in path or "#" in path:
        return f"{base}/GetListUsingPath(DecodedUrl='{_quoted(path)}')"
    return f"{base}/GetList('{_quoted(path)}')"


def _quoted(text: str) -> str:
    """Return a text for a string of OData in a URL, where a quote is written twice."""
    return quote(text.replace("'", "''"), safe="/'")


class RestListing(ClientListing):
    """One pass over the items of a list or library, by REST."""

    def __init__(
        self, place: LibraryPlace, options: SharepointOptions, client: LibraryClient
    ) -> None:
        """Set up the pass."""
        super().__init__(place, client, options.page_size)
        self._list = list_address(place)
        self._fields: list[ListField] = []
        self._page_fields: list[str] = []
        self._ids: dict[str, int] = {}  #: of the items that were read, folders included

    def _pages(self) -> Iterator[list[LibraryItem]]:
        before = self._facts()
        match self._place.source_type:
            case SourceType.LISTS:
                self._fields = self._queried(rest_list_fields(self._all_fields()))
            case SourceType.SITEPAGES:
                names = {field.entity_property_name for field in self._all_fields()}
                self._page_fields = [name for name in PAGE_FIELDS if name in names]
        url = self._first()
        by_id = f"{self._place.site_url}/_api/web/Lists(guid'{before.id}')/items"
        walk = PageWalk(url, by_id, items=before.item_count)
        yield from self._walked(url, walk, self._items)
        if self._place.filter:
            return
        self.shortfall = 0
        if len(self._ids) < before.item_count:
            after = sharepoint_payload(
                RestCount,
                sharepoint_json(self._client.body(f"{self._list}?$select=ItemCount")),
            )
            self.shortfall = max(0, min(before.item_count, after.item_count) - len(self._ids))

    def _facts(self) -> RestList:
        more = "?$select=Id,ItemCount,RootFolder/ServerRelativeUrl&$expand=RootFolder"
        found = sharepoint_payload(RestList, sharepoint_json(self._client.body(self._list + more)))
        self.root = found.root_folder.server_relative_url.rstrip("/")
        return found

    def _all_fields(self) -> list[RestField]:
        page = library_page(self._client.body(f"{self._list}/fields"))
        if page.next is not None:
            raise PayloadError("its fields come in several pages, which the API never sends")
        return [sharepoint_payload(RestField, one) for one in page.items]

    def _first(self) -> str:
        """Return the URL of the first page."""
        selected, expanded = list(_SELECTED), []
        match self._place.source_type:
            case SourceType.FILES:
                selected.append("File/Length")
                expanded.append("File")
            case SourceType.SITEPAGES:
                selected += self._page_fields
            case SourceType.LISTS:
                for field in self._fields:
                    selected.append(f"{field.key}/{field.inner}" if field.inner else field.key)
                    expanded += [field.key] if field.inner else []
        query = f"$select={quote(','.join(dict.fromkeys(selected)), safe=',/')}"
        if expanded:
            query += f"&$expand={quote(','.join(expanded), safe=',')}"
        query += f"&$top={self._size}"
        if self._place.filter:
            query += f"&$filter={quote(self._place.filter, safe='')}"
        return f"{self._list}/items?{query}"

    # Items

    def _items(self, values: list[Any], page: int) -> Iterator[LibraryItem]:
        for number, value in enumerate(values, start=1):
            try:
                item = self._item(value)
            except PayloadError as error:
                name = value.get("FileRef") if isinstance(value, Mapping) else None
                shown = f" ({sharepoint_words(name)})" if isinstance(name, str) else ""
                self._problems.add(
                    f"item {number} of page {page}{shown} cannot be read: {error}; crawl again"
                    " later"
                )
            else:
                if item is not None:
                    yield item

    def _item(self, value: object) -> LibraryItem | None:
        """Parse an item; None for a folder.

        Raises:
            PayloadError: it does not have the documented form.
        """
        found = sharepoint_payload(RestItem, value)
        assert isinstance(value, Mapping)
        if self._ids.setdefault(found.unique_id, found.id) != found.id:
            raise PayloadError(f"UniqueId: item {self._ids[found.unique_id]} has it, too")
        if found.is_folder:
            return None
        if not found.file_ref.lower().startswith(f"{self.root.lower()}/"):
            raise PayloadError(f"FileRef: it is not below {sharepoint_words(self.root)}")
        if self._place.source_type is SourceType.LISTS:
            return sharepoint_list_item(
                self._place, self.root, found, list_fields=self._fields, value=value
            )
        content = None
        if self._place.source_type is SourceType.SITEPAGES:
            content = sharepoint_page_content(value)
            size = len(content.encode())
        elif found.file is None:
            raise PayloadError("File: a file has no length")
        else:
            size = found.file.length
        return LibraryItem(
            listitem_id=found.id,
            unique_id=found.unique_id,
            filename=found.file_leaf_ref,
            server_relative_url=found.file_ref,
            file_size=size,
            last_modified=found.modified,
            url=library_item_url(self._place.site_url, found.file_ref),
            content=content,
        )


def sharepoint_list_item(
    place: LibraryPlace,
    root: str,
    found: RestItem,
    *,
    list_fields: list[ListField],
    value: Mapping[str, Any],
) -> LibraryItem:
    """Return an item of a list; its URL is that of the form that shows it."""
    content = sharepoint_list_item_content(
        value, list_fields, item_id=found.id, list_title=place.list_name
    )
    return LibraryItem(
        listitem_id=found.id,
        unique_id=found.unique_id,
        filename=f"{found.id}.md",
        server_relative_url=f"{root}/{found.id}.md",
        file_size=len(content.encode()),
        last_modified=found.modified,
        url=list_item_url(place.site_url, root, found.id),
        content=content,
    )
