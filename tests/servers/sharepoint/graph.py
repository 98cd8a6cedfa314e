"""Microsoft Graph, version 1.0: sites, drives, list items and site pages.

| shape | source |
| --- | --- |
| `/sites/{host}:{path}`, `/sites/{id}/drives`, `/sites/{id}/lists/{id or title}/items` | Graph \
documentation, "Get a site by path" and others |
| `/content` answers 302 to an address that needs no `Authorization` | driveitem-get-content |
| that address refuses one that is sent | assumed |
| `/pages/microsoft.graph.sitePage`, `/pages/{id}/microsoft.graph.sitePage`, each with \
`$expand=canvasLayout` | sitepage-get; that a list may expand it, too, is assumed |
| a filter on a column that is not indexed: 400, unless `Prefer` honors it | its text documented, \
the status assumed; that the threshold then refuses it is assumed |
| 401 `InvalidAuthenticationToken`, 403 `accessDenied`, 404 `itemNotFound` | "Error responses" |
| `/drives` leaves the library of site pages out | assumed |
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

from tests.servers.sharepoint.answers import Answer, GraphError, Request, as_json
from tests.servers.sharepoint.entries import Entry, stamp
from tests.servers.sharepoint.graph_delta import delta
from tests.servers.sharepoint.graph_items import (
    chosen,
    column_payload,
    drive_id,
    drive_item,
    drive_payload,
    item_id,
    list_item,
    list_payload,
    site_id,
    site_payload,
)
from tests.servers.sharepoint.libraries import PageLibrary
from tests.servers.sharepoint.lists import GenericList, SharepointList
from tests.servers.sharepoint.odata import Filter, QueryError
from tests.servers.sharepoint.pages import layout
from tests.servers.sharepoint.rest_items import filter_value
from tests.servers.sharepoint.tenant import Site

if TYPE_CHECKING:
    from tests.servers.sharepoint.server import SharepointServer

_MEDIA = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false"
_HONORS = "HonorNonIndexedQueriesWarningMayFailRandomly"
_UNINDEXED = (
    "Field '{name}' cannot be referenced in filter or orderby as it is not indexed. Provide the"
    f" 'Prefer: {_HONORS}' header to allow this, but be warned that such queries may fail on large"
    " lists."
)


def answer(server: SharepointServer, request: Request) -> Answer:
    """Answer one request."""
    try:
        _check_token(server, request)
        return _Graph(server, request).answer()
    except GraphError as error:
        return error.answer()
    except QueryError as error:
        return GraphError(400, "invalidRequest", str(error)).answer()


def download(server: SharepointServer, request: Request) -> Answer:
    """Answer a request to a download address."""
    entry = server.tickets.get(request.path)
    if "authorization" in request.headers:
        return Answer(401, b"Unauthorized", {"Content-Type": "text/plain"})
    if entry is None or entry.library.by_guid.get(entry.unique_id) is not entry:
        return Answer(404, b"Not Found", {"Content-Type": "text/plain"})
    return Answer(200, entry.content, {"Content-Type": "application/octet-stream"})


def download_path(tenant: str, unique_id: str) -> str:
    """The path of the download address of a file, which cannot be guessed."""
    return f"/download/{hashlib.sha256(f'{tenant}{unique_id}'.encode()).hexdigest()}"


def _check_token(server: SharepointServer, request: Request) -> None:
    given = request.headers.get("authorization", "")
    token = server.issuer.token(given)
    hosts = (request.origin.partition("://")[2], "graph.microsoft.com")
    text = None
    if token is None:
        text = "Invalid token." if given else "Access token is empty."
    elif token.audience not in hosts:
        text = "Access token validation failure. Invalid audience."
    elif token.expired:
        text = "Lifetime validation failed, the token is expired."
    if text is not None:
        raise GraphError(401, "InvalidAuthenticationToken", text)


class _Graph:
    """One request."""

    def __init__(self, server: SharepointServer, request: Request) -> None:
        self.server = server
        self.tenant = server.tenant
        self.request = request
        self.options = {key.lstrip("$"): value for key, value in request.options.items()}
        self.select = [name for name in self.options.get("select", "").split(",") if name]
        self.expand = _expansions(self.options.get("expand", ""))
        self.web = server.origin("rest")

    def answer(self) -> Answer:
        if self.request.method != "GET":
            raise GraphError(405, "notAllowed", "Only GET is answered here.")
        path = unquote(self.request.path).removeprefix("/v1.0/").rstrip("/")
        if found := re.match(r"sites/[^/]+?:(/.*?)(?::(?:/(.*))?)?$", path):
            site = self.tenant.find_site(found[1])
            return self._of_site(self._allowed(site), (found[2] or "").split("/"))
        match path.split("/"):
            case ["sites", id_, *rest]:
                site = next((site for site in self.tenant.sites if site_id(site) == id_), None)
                return self._of_site(self._allowed(site), rest or [""])
            case ["drives", id_, *rest]:
                drives = [one for site in self.tenant.sites for one in site.lists]
                drive = next((one for one in drives if drive_id(one) == id_), None)
                if drive is None:
                    raise GraphError(404, "itemNotFound", "The drive could not be found.")
                self._allowed(drive.site)
                return self._of_drive(drive, rest)
        raise _nothing()

    def _allowed(self, site: Site | None) -> Site:
        if site is None:
            raise GraphError(404, "itemNotFound", "Requested site could not be found")
        if not site.allowed:
            raise GraphError(403, "accessDenied", "Access denied")
        return site

    def _of_site(self, site: Site, rest: list[str]) -> Answer:
        match rest:
            case [""]:
                return self._one(site_payload(site, self.web))
            case ["drives"]:
                drives = [
                    one for one in site.lists if not isinstance(one, (GenericList, PageLibrary))
                ]
                return self._many([drive_payload(one, self.web) for one in drives])
            case ["lists"]:
                return self._many([list_payload(one, self.web) for one in site.lists])
            case ["lists", name, *more]:
                for one in site.lists:
                    if name.lower() in (one.guid, one.title.lower()):
                        return self._of_list(one, more)
                raise GraphError(404, "itemNotFound", "The specified list was not found")
            case ["pages", *more]:
                pages = next((one for one in site.lists if isinstance(one, PageLibrary)), None)
                if pages is not None:
                    return self._of_pages(pages, more)
        raise _nothing()

    # Drives

    def _of_drive(self, drive: SharepointList, rest: list[str]) -> Answer:
        match rest:
            case []:
                return self._one(drive_payload(drive, self.web))
            case ["list"]:
                return self._one(list_payload(drive, self.web))
            case ["root"]:
                return self._one(drive_item(drive.root, self.web, self.select))
            case ["root", "delta" | "delta()" | "microsoft.graph.delta()"]:
                return delta(drive, self.request, self.web)
            case ["items", id_, *more]:
                entry = next((one for one in drive.visible if item_id(one) == id_), None)
                if entry is None:
                    raise GraphError(404, "itemNotFound", "The resource could not be found.")
                return self._of_item(entry, more)
        raise _nothing()

    def _of_item(self, entry: Entry, rest: list[str]) -> Answer:
        match rest:
            case []:
                known = drive_item(entry, self.web, self.select)
                if entry.is_file and (
                    not self.select or "@microsoft.graph.downloadUrl" in self.select
                ):
                    known["@microsoft.graph.downloadUrl"] = self._ticket(entry)
                return self._one(known)
            case ["content"] if entry.is_file:
                if entry.locked:
                    raise GraphError(423, "resourceLocked", "The resource is locked.")
                return Answer(302, b"", {"Location": self._ticket(entry)})
        raise _nothing()

    def _ticket(self, entry: Entry) -> str:
        """Return an address that gives the bytes of a file to anyone who knows it."""
        path = download_path(self.tenant.id, entry.unique_id)
        self.server.tickets[path] = entry
        return f"{self.server.origin('content')}{path}?tempauth=v1.{path[-16:]}"

    # Lists

    def _of_list(self, one: SharepointList, rest: list[str]) -> Answer:
        match rest:
            case []:
                return self._one(list_payload(one, self.web))
            case ["columns"]:
                columns = one.fields.values()
                return self._many([column_payload(column, one.site) for column in columns])
            case ["items"]:
                return self._items(one)
            case ["items", id_] if id_.isdigit() and int(id_) in one.entries:
                return self._one(list_item(one.entries[int(id_)], self.web, self.expand))
            case ["items", id_, "driveItem"]:  # driveitem-get.md
                entry = one.entries.get(int(id_))
                if entry is not None and entry.seen:
                    return self._one(drive_item(entry, self.web, self.select))
        raise GraphError(404, "itemNotFound", "The resource could not be found.")

    def _items(self, one: SharepointList) -> Answer:
        found = one.visible
        if text := self.options.get("filter"):
            passes = self._filter(one, text)
            found = [entry for entry in found if passes(entry)]
        return self._page(found, lambda entry: list_item(entry, self.web, self.expand))

    def _filter(self, one: SharepointList, text: str) -> Callable[[Entry], bool]:
        chosen_ = Filter(text)
        names = {name.removeprefix("fields/") for name in chosen_.fields}
        if any(not name.startswith("fields/") for name in chosen_.fields):
            raise QueryError("Only fields of a list item may be filtered.")
        for name in sorted(names):
            column = one.fields.get(name) or one.fields.get(name.removesuffix("LookupId"))
            if column is None and name.lower() != "id":
                raise QueryError(f"Field '{name}' is not recognized")
            if name.lower() == "id" or (column is not None and column.indexed):
                continue
            if _HONORS not in self.request.headers.get("prefer", ""):
                raise QueryError(_UNINDEXED.format(name=name))
            if one.item_count > self.tenant.threshold:
                raise QueryError("The request is over the list view threshold.")

        def value(entry: Entry, name: str) -> Any:
            plain = name.removeprefix("fields/")
            if plain.endswith("LookupId"):
                return str(filter_value(entry, plain.removesuffix("LookupId") + "Id"))
            return filter_value(entry, "Id" if plain == "id" else plain)

        return lambda entry: chosen_.passes(lambda name: value(entry, name))

    # Pages of a site

    def _of_pages(self, pages: PageLibrary, rest: list[str]) -> Answer:
        found = [entry for entry in pages.visible if entry.is_file]
        match rest:
            case [] | ["microsoft.graph.sitePage"]:
                return self._page(found, lambda entry: self._site_page(entry, bool(rest)))
            case [id_] | [id_, "microsoft.graph.sitePage"]:
                for entry in found:
                    if entry.unique_id == id_.lower():
                        return self._one(self._site_page(entry, len(rest) > 1))
        raise GraphError(404, "itemNotFound", "The page could not be found.")

    def _site_page(self, entry: Entry, whole: bool) -> dict[str, Any]:
        known: dict[str, Any] = {
            "@odata.type": "#microsoft.graph.sitePage",
            "@odata.etag": f'"{{{entry.unique_id.upper()}}},{entry.version}"',
            "id": entry.unique_id,
            "name": entry.name,
            "title": entry.values.get("Title"),
            "description": "",
            "webUrl": self.web + quote(entry.url),
            "createdDateTime": stamp(entry.created),
            "lastModifiedDateTime": stamp(entry.modified),
            "pageLayout": "article",
            "parentReference": {"siteId": entry.library.site.guid},
            "publishingState": {"level": "published", "versionId": f"{entry.version}.0"},
        }
        if whole and "canvasLayout" in self.expand:
            known["canvasLayout"] = layout(entry.layout)
        return known

    # Forms

    def _one(self, known: dict[str, Any]) -> Answer:
        return as_json(chosen(known, self._kept()), _MEDIA)

    def _kept(self) -> list[str]:
        return [*self.select, *self.expand] if self.select else []

    def _many(self, rows: list[dict[str, Any]], following: str = "") -> Answer:
        context = f"{self.request.origin}/v1.0/$metadata#collection"
        payload: dict[str, Any] = {"@odata.context": context}
        if following:
            payload["@odata.nextLink"] = following
        payload["value"] = [chosen(row, self._kept()) for row in rows]
        return as_json(payload, _MEDIA)

    def _page(self, found: list[Entry], row: Callable[[Entry], dict[str, Any]]) -> Answer:
        """Return the page that `$skiptoken` names, of entries in the order of their ids."""
        most = min(int(self.options.get("top", 200)), 5_000)
        after = -1
        if token := self.options.get("skiptoken"):
            after = int(base64.urlsafe_b64decode(token).rpartition(b"=")[2])
        left = [entry for entry in found if entry.id > after]
        page = left[:most]
        if len(left) <= most:
            return self._many([row(entry) for entry in page])
        word = base64.urlsafe_b64encode(f"Paged=TRUE&p_ID={page[-1].id}".encode()).decode()
        options = self.request.options | {"$skiptoken": word}
        query = urlencode(options, quote_via=quote, safe="$,()=")
        url = f"{self.request.origin}{self.request.path}?{query}"
        return self._many([row(entry) for entry in page], url)


def _expansions(text: str) -> dict[str, list[str]]:
    """Return what each expanded name selects; empty: all."""
    found = {}
    for name, inner in re.findall(r"([\w.]+)(?:\(\$?select=([^)]*)\))?", text):
        found[name] = [one for one in inner.split(",") if one]
    return found


def _nothing() -> GraphError:
    return GraphError(400, "BadRequest", "Resource not found for the segment.")
