"""Drives, drive items, list items and columns, as Graph has them.

| shape | source |
| --- | --- |
| `driveItem`: `id`, `name`, `size`, `file`, `folder`, `root`, `parentReference`, `eTag`, `cTag`, \
`fileSystemInfo`, `sharepointIds` when selected | Graph documentation, driveItem resource |
| `webUrl` of an Office file leads to `_layouts/15/Doc.aspx` | answers that clients' tests hold |
| the id of a drive: `b!` and three GUIDs in base64; of an item: `01…` | assumed |
| `contentType` with `id` and `name`; the ids of folders begin with `0x0120` | Graph \
documentation, contentTypeInfo; SharePoint documentation, content type ids |
| `columnDefinition` with one facet a type | Graph documentation |
| `fields`: a person or look-up is `NameLookupId`, as text; selected by its name it is the title; \
several are a list | documentation of listItem; the title is assumed |
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import uuid
from typing import Any
from urllib.parse import quote

from tests.servers.sharepoint.entries import Entry, Field, stamp
from tests.servers.sharepoint.lists import SharepointList
from tests.servers.sharepoint.rest_items import item_value
from tests.servers.sharepoint.tenant import Site

_OFFICE = (".docx", ".xlsx", ".pptx")


def site_id(site: Site) -> str:
    return f"127.0.0.1,{site.guid},{site.web_guid}"


def drive_id(library: SharepointList) -> str:
    guids = (library.site.guid, library.site.web_guid, library.guid)
    whole = b"".join(uuid.UUID(guid).bytes_le for guid in guids)
    return f"b!{base64.urlsafe_b64encode(whole).decode().rstrip('=')}"


def item_id(entry: Entry) -> str:
    digest = hashlib.sha256(entry.unique_id.encode()).digest()[:20]
    return f"01{base64.b32encode(digest).decode()}"


def chosen(known: dict[str, Any], select: list[str]) -> dict[str, Any]:
    """Return what `$select` names; what it does not name is left out, `id` too."""
    always = {name for name in known if name.startswith("@odata")}
    return {k: v for k, v in known.items() if k in select or k in always} if select else known


def site_payload(site: Site, origin: str) -> dict[str, Any]:
    return {
        "id": site_id(site),
        "name": site.path.rpartition("/")[2],
        "displayName": site.title,
        "webUrl": origin + quote(site.path),
        "createdDateTime": "2026-01-02T03:04:05Z",
        "siteCollection": {"hostname": origin.partition("://")[2]},
    }


def drive_payload(library: SharepointList, origin: str) -> dict[str, Any]:
    return {
        "id": drive_id(library),
        "driveType": "documentLibrary",
        "name": library.title,
        "description": "",
        "webUrl": origin + quote(library.path),
        "createdDateTime": stamp(library.root.created),
    }


def list_payload(listed: SharepointList, origin: str) -> dict[str, Any]:
    kinds = {101: "documentLibrary", 119: "webPageLibrary"}
    return {
        "id": listed.guid,
        "name": listed.url_name.rpartition("/")[2],
        "displayName": listed.title,
        "webUrl": origin + quote(listed.path),
        "createdDateTime": stamp(listed.root.created),
        "list": {
            "template": kinds.get(listed.template, "genericList"),
            "hidden": False,
            "contentTypesEnabled": False,
        },
    }


def ids(entry: Entry, origin: str) -> dict[str, Any]:
    """Return the sharepointIds of an entry; the root folder has no list item."""
    site = entry.library.site
    known = {
        "listId": entry.library.guid,
        "listItemUniqueId": entry.unique_id,
        "siteId": site.guid,
        "siteUrl": origin + quote(site.path),
        "tenantId": site.tenant.id,
        "webId": site.web_guid,
    }
    return known if entry.parent is None else known | {"listItemId": str(entry.id)}


def drive_item(entry: Entry, origin: str, select: list[str]) -> dict[str, Any]:
    """Return a drive item as a delta has it, without a path."""
    library = entry.library
    guid = entry.unique_id.upper()
    known: dict[str, Any] = {
        "id": item_id(entry),
        "name": "root" if entry.parent is None else entry.name,
        "createdDateTime": stamp(entry.created),
        "lastModifiedDateTime": stamp(entry.modified),
        "webUrl": _web_url(entry, origin),
        "eTag": f'"{{{guid}}},{entry.version}"',
        "size": entry.size,
        "parentReference": {"driveType": "documentLibrary", "driveId": drive_id(library)},
        "fileSystemInfo": {
            "createdDateTime": stamp(entry.created),
            "lastModifiedDateTime": stamp(entry.modified),
        },
    }
    if entry.parent is not None:
        known["parentReference"]["id"] = item_id(entry.parent)
    if entry.is_file:
        digest = base64.b64encode(hashlib.sha256(entry.content).digest()[:20]).decode()
        media = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        known["file"] = {"mimeType": media, "hashes": {"quickXorHash": digest}}
        known["cTag"] = f'"c:{{{guid}}},{len(entry.versions) + 1}"'
    else:
        known["folder"] = {"childCount": 0}
    if entry.parent is None:
        known["root"] = {}
    if "sharepointIds" in select:
        known["sharepointIds"] = ids(entry, origin)
    return chosen(known, select)


def _web_url(entry: Entry, origin: str) -> str:
    if entry.is_file and entry.name.lower().endswith(_OFFICE):
        guid, name = quote(f"{{{entry.unique_id.upper()}}}"), quote(entry.name)
        front = f"{origin}{quote(entry.library.site.path)}/_layouts/15/Doc.aspx"
        return f"{front}?sourcedoc={guid}&file={name}&action=default&mobileredirect=true"
    return origin + quote(entry.url)


def list_item(entry: Entry, origin: str, expand: dict[str, list[str]]) -> dict[str, Any]:
    """Return a list item; `expand` holds what is selected of `fields` and `driveItem`."""
    known: dict[str, Any] = {
        "@odata.etag": f'"{entry.unique_id},{entry.version}"',
        "id": str(entry.id),
        "createdDateTime": stamp(entry.created),
        "lastModifiedDateTime": stamp(entry.modified),
        "webUrl": origin + quote(entry.url),
        "eTag": f'"{entry.unique_id},{entry.version}"',
        "contentType": _content_type(entry),
        "parentReference": {"siteId": site_id(entry.library.site)},
        "sharepointIds": ids(entry, origin),
    }
    if "fields" in expand:
        known["fields"] = fields_payload(entry, expand["fields"])
    if "driveItem" in expand and entry.kind != "item":
        known["driveItem"] = drive_item(entry, origin, expand["driveItem"])
    return known


def _content_type(entry: Entry) -> dict[str, str]:
    """Return the content type, which differs between a folder and an item."""
    id_, name = {"file": ("0x0101", "Document"), "folder": ("0x0120", "Folder")}.get(
        entry.kind, ("0x01", "Item")
    )
    return {"id": f"{id_}00{entry.library.guid.replace('-', '').upper()}", "name": name}


def fields_payload(entry: Entry, select: list[str]) -> dict[str, Any]:
    """Return the fields of an item; look-ups by their ids unless they are selected by name."""
    known: dict[str, Any] = {
        "@odata.etag": f'"{entry.unique_id},{entry.version}"',
        "id": str(entry.id),
        "ContentType": {"file": "Document", "folder": "Folder"}.get(entry.kind, "Item"),
        "Created": stamp(entry.created),
        "Modified": stamp(entry.modified),
        "AuthorLookupId": str(entry.author),
        "EditorLookupId": str(entry.editor),
        "_UIVersionString": f"{entry.version}.0",
    }
    if entry.kind != "item":
        known |= {"FileLeafRef": entry.name, "LinkFilename": entry.name}
        known |= {"FileSizeDisplay": str(entry.size)} if entry.is_file else {}
    for name, value in entry.values.items():
        column = entry.library.fields[name]
        if value is None:
            continue
        if column.leads and not isinstance(value, (list, tuple)):
            known[f"{name}LookupId"] = str(value)
        elif column.leads:
            known[name] = [
                {"LookupId": one, "LookupValue": _title(entry, name, one)} for one in value
            ]
        else:
            known[name] = item_value(entry, name)
    for name in select:
        value = {"Author": entry.author, "Editor": entry.editor}.get(name, entry.values.get(name))
        if name in entry.library.fields and entry.library.fields[name].leads and name not in known:
            known |= {} if value is None else {name: _title(entry, name, value)}
    return chosen(known, select)


def _title(entry: Entry, name: str, id_: int) -> str:
    site, column = entry.library.site, entry.library.fields[name]
    if column.type.startswith("User"):
        return site.tenant.people[id_ - 1].title
    other = next(one for one in site.lists if one.title == column.other)
    return str(other.entries[id_].values.get("Title", ""))


def column_payload(column: Field, site: Site) -> dict[str, Any]:
    """Return the definition of a column."""
    known: dict[str, Any] = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, column.name)),
        "name": column.name,
        "displayName": column.title,
        "description": "",
        "columnGroup": "Custom Columns",
        "hidden": column.hidden,
        "indexed": column.indexed,
        "readOnly": column.read_only,
        "required": False,
        "enforceUniqueValues": False,
    }
    several = column.type.endswith("Multi")
    match column.type.removesuffix("Multi") if column.leads else column.type:
        case "Note":
            kind = "richText" if column.rich else "plain"
            known["text"] = {"allowMultipleLines": True, "textType": kind, "linesForEditing": 6}
        case "Text" | "File":
            known["text"] = {"allowMultipleLines": False, "textType": "plain", "maxLength": 255}
        case "Number" | "Counter":
            known["number"] = {"decimalPlaces": "automatic", "displayAs": "number"}
        case "Boolean":
            known["boolean"] = {}
        case "Choice":
            choices = list(column.choices)
            known["choice"] = {"choices": choices, "displayAs": "dropDownMenu"}
        case "MultiChoice":
            choices = list(column.choices)
            known["choice"] = {"choices": choices, "displayAs": "checkBoxes"}
        case "DateTime":
            known["dateTime"] = {"displayAs": "default", "format": "dateTime"}
        case "User":
            known["personOrGroup"] = {"allowMultipleSelection": several, "displayAs": "account"}
        case "Lookup":
            listed = next((one.guid for one in site.lists if one.title == column.other), "")
            known["lookup"] = {
                "allowMultipleValues": several,
                "columnName": "Title",
                "listId": listed,
            }
        case "URL":
            known["hyperlinkOrPicture"] = {"isPicture": False}
    return known
