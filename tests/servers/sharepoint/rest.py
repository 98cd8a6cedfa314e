"""The REST interface of SharePoint: lists, items with pages and filters, files.

| shape | source |
| --- | --- |
| `web/lists/getbytitle('…')`, `lists(guid'…')`, `GetList('…')`, `GetFileById('…')/$value` | \
SharePoint REST documentation |
| `GetListUsingPath(DecodedUrl='…')`, `GetFileByServerRelativePath(DecodedUrl=@p)`; the others \
read `%` and `#` in a name as parts of a URL | "Supporting % and # in files and folders" |
| `odata=verbose` (`d.results`, `__next`), `minimalmetadata`, `nometadata` (`value`, \
`odata.nextLink`) | REST documentation; read by Office365-REST-Python-Client |
| `$skiptoken=Paged=TRUE&p_ID=…`, 100 items a page, at most 5,000 | likewise |
| Past the threshold a filter on `Id` is served, on an unindexed column or with `$orderby` not | \
Microsoft support; measured by others |
| 401 `Unsupported app only token.` for a token by secret | sp-dev-docs #8480 |
| The words of 404 for lists; 401 for an expired token | assumed |
"""

from __future__ import annotations

from typing import Any, NoReturn
from urllib.parse import parse_qs, quote, unquote, urlencode

from tests.servers.sharepoint import answers
from tests.servers.sharepoint.answers import Answer, Request, RestError, as_json
from tests.servers.sharepoint.entries import Entry, stamp
from tests.servers.sharepoint.lists import SharepointList
from tests.servers.sharepoint.odata import Call, Filter, QueryError, calls
from tests.servers.sharepoint.rest_items import (
    check,
    field_payload,
    file_payload,
    filter_value,
    item_payload,
    texts,
)
from tests.servers.sharepoint.signin import Issuer
from tests.servers.sharepoint.tenant import Tenant

_BAD = "-1, Microsoft.SharePoint.Client.InvalidClientQueryException"


def answer(tenant: Tenant, issuer: Issuer, request: Request) -> Answer:
    """Answer one request."""
    verbose = "odata=verbose" in request.headers.get("accept", "").replace(" ", "")
    try:
        refused = _refused(issuer, request)
        return refused or _Rest(tenant, request).answer()
    except RestError as error:
        return error.answer(verbose)
    except QueryError as error:
        return RestError(400, _BAD, str(error)).answer(verbose)


def _refused(issuer: Issuer, request: Request) -> Answer | None:
    """Return the answer to a token that is not right."""
    token = issuer.token(request.headers.get("authorization", ""))
    text = None
    if token is None or token.audience != request.origin.partition("://")[2]:
        text = "Invalid JWT token."
    elif token.expired:
        text = "Invalid JWT token. The token is expired."
    elif not token.by_certificate:
        text = "Unsupported app only token."
    if text is None:
        return None
    why = f'3001000;reason="{text}";category="invalid_client"'
    realm = f'Bearer realm="{issuer.tenant.id}",client_id="00000003-0000-0ff1-ce00-000000000000"'
    headers = {"x-ms-diagnostics": why, "WWW-Authenticate": realm}
    return as_json({"error_description": text}, "application/json", 401, **headers)


class _Rest:
    """One request to a site."""

    def __init__(self, tenant: Tenant, request: Request) -> None:
        self.tenant = tenant
        self.request = request
        self.options = request.options
        accept = request.headers.get("accept", "").replace(" ", "")
        self.form = next(
            (form for form in ("verbose", "nometadata") if f"odata={form}" in accept),
            "minimalmetadata",
        )
        self.select = self._names("$select")
        self.expand = self._names("$expand")

    def _names(self, option: str) -> list[str]:
        return [name.strip() for name in self.options.get(option, "").split(",") if name.strip()]

    def answer(self) -> Answer:
        front, found, rest = self.request.path.partition("/_api/")
        site = self.tenant.find_site(unquote(front)) if found else None
        if site is None:
            return Answer(404, b"404 FILE NOT FOUND", {"Content-Type": "text/plain"})
        if not site.allowed:
            raise answers.denied()
        self.site = site
        self.api = f"{self.request.origin}{quote(site.path)}/_api"
        path = calls(rest, self.options)
        if not path:
            raise answers.no_resource()
        if path[0].name == "contextinfo":
            return self._context()
        if self.request.method != "GET":
            raise RestError(405, "-1, System.NotSupportedException", "Only GET is answered here.")
        if path[0].name != "web":
            raise answers.no_resource()
        return self._web(path[1:])

    def _context(self) -> Answer:
        known = {
            "FormDigestTimeoutSeconds": 1800,
            "FormDigestValue": "0xABCD,02 Jan 2026 03:04:05 -0000",
            "LibraryVersion": "16.0.0.0",
            "SiteFullUrl": self._absolute(self.site.path),
            "WebFullUrl": self._absolute(self.site.path),
        }
        inner = {"GetContextWebInformation": known} if self.form == "verbose" else known
        return self._sent(inner)

    def _absolute(self, path: str) -> str:
        return self.request.origin + quote(path)

    def _web(self, path: list[Call]) -> Answer:
        site = self.site
        match path:
            case []:
                known = {"Id": site.web_guid, "Title": site.title, "ServerRelativeUrl": site.path}
                return self._entity(known | {"Url": self._absolute(site.path)}, "SP.Web", "Web")
            case [Call("lists")]:
                return self._many([self._list(one) for one in site.lists], "SP.List")
            case [Call("siteusers")]:
                people = [
                    {"Id": one.id, "Title": one.title, "Email": one.email, "LoginName": one.email}
                    for one in self.tenant.people
                ]
                return self._many(people, "SP.User")
            case [Call("lists", arguments) as call, *rest] if arguments:
                return self._of_list(self._by_guid(str(call.first)), rest)
            case [Call("lists"), Call("getbyid") as call, *rest]:
                return self._of_list(self._by_guid(str(call.first)), rest)
            case [Call("lists"), Call("getbytitle") as call, *rest]:
                return self._of_list(self._by_title(str(call.first)), rest)
            case [Call("getlist") as call, *rest]:
                return self._of_list(self._by_path(_url(call.first)), rest)
            case [Call("getlistusingpath") as call, *rest]:
                return self._of_list(self._by_path(_decoded(call)), rest)
            case [Call("getfilebyid") as call, *rest]:
                return self._of_file(self._file(str(call.first).strip("{}").lower()), rest)
            case [Call("getfilebyserverrelativeurl") as call, *rest]:
                return self._of_file(self._file_at(_url(call.first)), rest)
            case [Call("getfilebyserverrelativepath") as call, *rest]:
                return self._of_file(self._file_at(_decoded(call)), rest)
        raise answers.no_resource()

    # What is meant

    def _by_guid(self, guid: str) -> SharepointList:
        for one in self.site.lists:
            if one.guid == guid.strip("{}").lower():
                return one
        text = "List does not exist. The page you selected contains a list that does not exist."
        raise RestError(404, "-2130575322, Microsoft.SharePoint.SPException", text)

    def _by_title(self, title: str) -> SharepointList:
        for one in self.site.lists:
            if one.title.lower() == title.lower():
                return one
        raise answers.no_list(title)

    def _by_path(self, path: str) -> SharepointList:
        whole = path if path.startswith("/") else f"{self.site.path}/{path}"
        for one in self.site.lists:
            if one.path.lower() == whole.rstrip("/").lower():
                return one
        raise answers.no_file(whole)

    def _file(self, guid: str) -> Entry:
        for one in self.site.lists:
            entry = one.by_guid.get(guid)
            if entry is not None and entry.is_file and entry.seen:
                return entry
        raise answers.no_file()

    def _file_at(self, path: str) -> Entry:
        for one in self.site.lists:
            for entry in one.visible:
                if entry.is_file and entry.url.lower() == path.lower():
                    return entry
        raise answers.no_file(path)

    # Answers

    def _of_list(self, one: SharepointList, rest: list[Call]) -> Answer:
        match rest:
            case []:
                return self._entity(self._list(one), "SP.List", f"Web/Lists(guid'{one.guid}')")
            case [Call("itemcount")]:
                return self._value("ItemCount", one.item_count)
            case [Call("rootfolder")]:
                known = {"Name": one.url_name, "ServerRelativeUrl": one.path}
                return self._entity(known | {"UniqueId": one.root.unique_id}, "SP.Folder", "Web")
            case [Call("fields")]:
                return self._many([field_payload(f) for f in one.fields.values()], "SP.Field")
            case [Call("items", {}) as call] if not call.arguments:
                return self._items(one)
            case [Call("items") | Call("getitembyid") as call, *rest]:
                return self._item(one, call.first, rest)
        raise answers.no_resource()

    def _item(self, one: SharepointList, id_: Any, rest: list[Call]) -> Answer:
        entry = one.entries.get(id_)
        if entry is None or not entry.seen:
            text = "Item does not exist. It may have been deleted by another user."
            raise RestError(404, "-2130575338, System.ArgumentException", text)
        match rest:
            case []:
                known = item_payload(entry, self.select, self.expand)
                return self._entity(known, "SP.ListItem", "Web")
            case [Call("file"), *more] if entry.is_file:
                return self._of_file(entry, more)
            case [Call("fieldvaluesastext")]:
                return self._entity(texts(entry), "SP.FieldStringValues", "Web")
        raise answers.no_resource()

    def _of_file(self, entry: Entry, rest: list[Call]) -> Answer:
        match rest:
            case []:
                return self._entity(file_payload(entry), "SP.File", "Web")
            case [Call("$value")]:
                if entry.locked:
                    raise answers.locked(entry.name)
                tag = f'"{{{entry.unique_id.upper()}}},{entry.version}"'
                headers = {"Content-Type": "application/octet-stream", "ETag": tag}
                return Answer(200, entry.content, headers)
            case [Call("listitemallfields")]:
                known = item_payload(entry, self.select, self.expand)
                return self._entity(known, "SP.ListItem", "Web")
        raise answers.no_resource()

    def _list(self, one: SharepointList) -> dict[str, Any]:
        known: dict[str, Any] = {
            "Id": one.guid,
            "Title": one.title,
            "BaseTemplate": one.template,
            "BaseType": one.base_type,
            "Created": stamp(one.root.created),
            "EntityTypeName": one.url_name.replace(" ", "_x0020_"),
            "Hidden": False,
            "ItemCount": one.item_count,
            "LastItemModifiedDate": stamp(
                max((entry.modified for entry in one.entries.values()), default=one.root.created)
            ),
            "ParentWebUrl": self.site.path,
        }
        if "RootFolder" in self.expand:
            known["RootFolder"] = {"Name": one.url_name, "ServerRelativeUrl": one.path}
        return known

    def _items(self, one: SharepointList) -> Answer:
        check(one, self.select, self.expand)
        most = int(self.options.get("$top", self.tenant.default_page))
        most = min(most, self.tenant.most_page)
        after = 0
        if token := self.options.get("$skiptoken"):
            after = int(parse_qs(token).get("p_ID", ["0"])[0])
        found = [entry for entry in one.visible if entry.id > after]
        found = self._chosen(one, found)
        page, more = found[:most], len(found) > most
        rows = [item_payload(entry, self.select, self.expand) for entry in page]
        if self.form != "nometadata":
            for entry, row in zip(page, rows, strict=True):
                self._described(row, "SP.ListItem", f"Web/Lists(guid'{one.guid}')", entry.version)
        following = self._next(one, page[-1].id) if more else None
        return self._many(rows, "", following)

    def _chosen(self, one: SharepointList, found: list[Entry]) -> list[Entry]:
        """Return what passes the filter, in its order; refuse what the threshold forbids."""
        large = one.item_count > self.tenant.threshold
        indexed = {"Id", "ID", *(name for name, f in one.fields.items() if f.indexed)}
        order, _, direction = self.options.get("$orderby", "ID").partition(" ")
        chosen = Filter(self.options["$filter"]) if self.options.get("$filter") else None
        if chosen is not None:
            heads = {name.partition("/")[0] for name in chosen.fields}
            check(one, sorted(heads - one.fields.keys()), [])
            plain = {name if name in indexed else name.removesuffix("Id") for name in heads}
            if large and not plain <= indexed:
                raise answers.throttled_query()
            found = [e for e in found if chosen.passes(lambda name, e=e: filter_value(e, name))]  # type: ignore[misc]
        if order not in ("ID", "Id"):
            if large and order not in indexed:
                raise answers.throttled_query()
            found = sorted(found, key=lambda entry: str(filter_value(entry, order)))
        return found[::-1] if direction.strip() == "desc" else found

    def _next(self, one: SharepointList, last: int) -> str:
        options = {key: value for key, value in self.options.items() if key != "$skiptoken"}
        options["$skiptoken"] = f"Paged=TRUE&p_ID={last}"
        path = self.request.path
        if self.tenant.next_by_guid:
            path = f"{quote(self.site.path)}/_api/Web/Lists(guid'{one.guid}')/items"
        return f"{self.request.origin}{path}?{urlencode(options, quote_via=quote)}"

    # Forms

    def _described(self, known: dict[str, Any], kind: str, place: str, version: int = 1) -> None:
        uri = f"{self.api}/{place}"
        if "Id" in known and kind == "SP.ListItem":
            uri += f"/Items({known['Id']})"
        if self.form == "verbose":
            several = {key: value for key, value in known.items() if isinstance(value, list)}
            known |= {key: {"results": value} for key, value in several.items()}
            known["__metadata"] = {"id": uri, "uri": uri, "type": kind, "etag": f'"{version}"'}
        elif self.form == "minimalmetadata":
            own = {"odata.type": kind, "odata.id": uri, "odata.etag": f'"{version}"'}
            known |= own | {"odata.editLink": uri.removeprefix(f"{self.api}/")}

    def _entity(self, known: dict[str, Any], kind: str, place: str) -> Answer:
        heads = {name.partition("/")[0] for name in self.select}
        if heads and kind != "SP.ListItem":
            unknown = heads - known.keys() - {"*"}
            if unknown:
                text = f"The field or property '{min(unknown)}' does not exist."
                raise RestError(400, _BAD, text)
            known = known if "*" in heads else {k: v for k, v in known.items() if k in heads}
        self._described(known, kind, place)
        if self.form == "minimalmetadata":
            known = {"odata.metadata": f"{self.api}/$metadata#{kind}/@Element"} | known
        return self._sent(known)

    def _value(self, name: str, value: Any) -> Answer:
        return self._sent({name: value} if self.form == "verbose" else {"value": value})

    def _many(self, rows: list[dict[str, Any]], kind: str, following: str | None = None) -> Answer:
        if kind and self.select:
            heads = {name.partition("/")[0] for name in self.select}
            rows = [{k: v for k, v in row.items() if k in heads} for row in rows]
        for row in rows if kind else ():
            self._described(row, kind, "Web")
        if self.form == "verbose":
            more = {"__next": following} if following else {}
            return self._sent({"results": rows} | more)
        known: dict[str, Any] = {"value": rows}
        if following:
            known = {"odata.nextLink": following} | known
        if self.form == "minimalmetadata":
            known = {"odata.metadata": f"{self.api}/$metadata#SP.ListData"} | known
        return self._sent(known)

    def _sent(self, known: dict[str, Any]) -> Answer:
        media = f"application/json;odata={self.form};streaming=true;charset=utf-8"
        return as_json({"d": known} if self.form == "verbose" else known, media)


def _url(text: Any) -> str:
    """Return the path of a URL: its `%` are decoded, and it ends before `#` and `?`."""
    return unquote(str(text).partition("#")[0].partition("?")[0])


def _decoded(call: Call) -> str:
    found = call.arguments.get("DecodedUrl", call.arguments.get("decodedurl"))
    if found is None:
        _bad("The parameter DecodedUrl is missing.")
    return str(found)


def _bad(text: str) -> NoReturn:
    raise RestError(400, _BAD, text)
