"""Fields of list items and files, as the REST interface has them.

| shape | source |
| --- | --- |
| `Id`, `ID`, `GUID`, `FileSystemObjectType`, `Modified`, `AuthorId` of an item | SharePoint REST \
documentation |
| `FileLeafRef`, `FileRef`, `UniqueId` only when selected | answers that clients' tests hold |
| `Length` as text, `CheckOutType` 0 online, 1 offline, 2 none, `UniqueId` of a file | SharePoint \
REST reference |
| a person or look-up is `NameId`, and `Name/Title` when expanded; several are a list | REST \
documentation, "Lookup fields" |
| a folder has no `File` when it is expanded | assumed |
| `FieldValuesAsText` | SharePoint REST reference of ListItem; its texts are assumed |
"""

from __future__ import annotations

import re
from typing import Any

from tests.servers.sharepoint.answers import RestError
from tests.servers.sharepoint.entries import Entry, Field, stamp
from tests.servers.sharepoint.lists import SharepointList

_INVALID = "-1, Microsoft.SharePoint.Client.InvalidClientQueryException"
_OWN = {
    "FileSystemObjectType", "Id", "ID", "GUID", "ContentTypeId", "Modified", "Created", "AuthorId",
    "EditorId", "OData__UIVersionString", "Attachments", "CheckoutUserId",
}  # fmt: skip
#: Of an item, but only in answers to a request that selects them.
_ASKED = {"FileLeafRef", "FileRef", "UniqueId", "FSObjType", "File_x0020_Type", "FileDirRef"}
_EXPANDED = {"File", "Folder", "FieldValuesAsText"}


def item_payload(entry: Entry, select: list[str], expand: list[str]) -> dict[str, Any]:
    """Return an item with the fields that are selected, or all that come without."""
    listed = entry.library
    check(listed, select, expand)
    names = select or [*sorted(_OWN), *(_key(f) for f in _shown(listed))]
    found: dict[str, Any] = {}
    for name in names:
        head, slash, rest = name.partition("/")
        if slash or head in expand:
            inner = _inner(entry, head, [rest] if rest else [])
            if inner is not None and isinstance(found.get(head), dict):
                found[head] |= inner
            elif inner is not None:
                found[head] = inner
        else:
            found[name] = item_value(entry, name)
    for name in expand if not select else ():
        inner = _inner(entry, name, [])
        if inner is not None:
            found[name] = inner
    return found


def _key(column: Field) -> str:
    return f"{column.name}Id" if column.leads else column.name


def _shown(listed: SharepointList) -> list[Field]:
    own = {*_OWN, *_ASKED, "Author", "Editor"}
    return [field for field in listed.fields.values() if field.name not in own]


def check(listed: SharepointList, select: list[str], expand: list[str]) -> None:
    """Refuse fields that do not exist, and those of others that are not expanded."""
    lookups = {name for name, f in listed.fields.items() if f.leads}
    known = {*_OWN, *_ASKED, *listed.fields, *(f"{name}Id" for name in lookups), "*"}
    for name in expand:
        if name not in _EXPANDED | lookups:
            raise _no_field(name)
    for name in select:
        head, slash, _ = name.partition("/")
        if slash and head in _EXPANDED | lookups and head not in expand:
            raise RestError(
                400,
                "-1, Microsoft.SharePoint.SPException",
                f"The query to field '{name}' is not valid. The $select query string must specify"
                f" the target fields and the $expand query string must contains {head}.",
            )
        if head not in known and head not in expand:
            raise _no_field(head)
        if not slash and head in lookups - _ASKED and head not in expand:
            raise RestError(
                400,
                "-1, Microsoft.SharePoint.SPException",
                f"The query to field '{head}' is not valid. The $select query string must specify"
                f" the target fields and the $expand query string must contains {head}.",
            )


def _no_field(name: str) -> RestError:
    return RestError(400, _INVALID, f"The field or property '{name}' does not exist.")


def item_value(entry: Entry, name: str) -> Any:
    """Return one field of an item."""
    match name:
        case "Id" | "ID":
            return entry.id
        case "GUID" | "UniqueId":
            return entry.unique_id
        case "FileSystemObjectType":
            return 1 if entry.kind == "folder" else 0
        case "FSObjType":
            return "1" if entry.kind == "folder" else "0"
        case "ContentTypeId":
            return "0x0120" if entry.kind == "folder" else "0x0101"
        case "Modified" | "Created":
            return stamp(entry.modified if name == "Modified" else entry.created)
        case "AuthorId" | "EditorId":
            return entry.author if name == "AuthorId" else entry.editor
        case "OData__UIVersionString":
            return f"{entry.version}.0"
        case "Attachments":
            return False
        case "CheckoutUserId":
            return entry.checked_out_by
        case "FileLeafRef":
            return entry.name
        case "FileRef":
            return entry.url
        case "FileDirRef":
            return entry.url.rpartition("/")[0]
        case "File_x0020_Type":
            return entry.name.rpartition(".")[2] if entry.is_file and "." in entry.name else None
    fields = entry.library.fields
    if name not in fields and name.endswith("Id") and name[:-2] in fields:
        return entry.values.get(name[:-2])
    value = entry.values.get(name)
    if name in fields and fields[name].type == "URL" and value is not None:
        return {"Description": value[1], "Url": value[0]}
    return list(value) if isinstance(value, (list, tuple)) else value


def filter_value(entry: Entry, name: str) -> Any:
    """Return what a filter compares; `Owner/Title` is that of the person."""
    head, slash, rest = name.partition("/")
    if slash:
        inner = _inner(entry, head, [rest])
        return inner.get(rest) if isinstance(inner, dict) else inner
    return item_value(entry, name)


def _inner(entry: Entry, name: str, names: list[str]) -> Any:
    """Return what an expanded field leads to; None if to nothing."""
    if name == "File":
        return _some(file_payload(entry), names) if entry.is_file else None
    if name == "Folder":
        known = {"Name": entry.name, "ServerRelativeUrl": entry.url}
        return _some(known, names) if entry.kind == "folder" else None
    if name == "FieldValuesAsText":
        return _some(texts(entry), names)
    own = {"Author": entry.author, "Editor": entry.editor}
    value = own.get(name, entry.values.get(name))
    if isinstance(value, (list, tuple)):
        return [_some(_led(entry, name, one), names) for one in value]
    return None if value is None else _some(_led(entry, name, value), names)


def _led(entry: Entry, name: str, id_: int) -> dict[str, Any]:
    tenant, column = entry.library.site.tenant, entry.library.fields[name]
    if column.type.startswith("User"):
        person = tenant.people[id_ - 1]
        known = {"Id": id_, "Title": person.title, "EMail": person.email, "Name": person.email}
        return known | {"ID": id_}
    other = next(one for one in entry.library.site.lists if one.title == column.other)
    there = other.entries.get(id_)
    title = there.values.get("Title") if there else None
    return {"Id": id_, "ID": id_, "Title": title}


def _some(known: dict[str, Any], names: list[str]) -> dict[str, Any]:
    if not names or names == ["*"]:
        return known
    for name in names:
        if name not in known:
            raise _no_field(name)
    return {name: known[name] for name in names}


def file_payload(entry: Entry) -> dict[str, Any]:
    """Return the properties of a file."""
    return {
        "CheckInComment": "",
        "CheckOutType": 2 if entry.checked_out_by is None else 0,
        "ContentTag": f"{{{entry.unique_id.upper()}}},{entry.version},1",
        "CustomizedPageStatus": 0,
        "ETag": f'"{{{entry.unique_id.upper()}}},{entry.version}"',
        "Exists": True,
        "Length": str(entry.size),
        "Level": 1 if entry.checked_in else 255,
        "MajorVersion": entry.version,
        "MinorVersion": 0,
        "Name": entry.name,
        "ServerRelativeUrl": entry.url,
        "TimeCreated": stamp(entry.created),
        "TimeLastModified": stamp(entry.modified),
        "Title": entry.values.get("Title"),
        "UIVersion": 512 * entry.version,
        "UIVersionLabel": f"{entry.version}.0",
        "UniqueId": entry.unique_id,
    }


def texts(entry: Entry) -> dict[str, str]:
    """Return each field as text, people and look-ups by their titles."""
    found = {}
    for name, column in entry.library.fields.items():
        value = item_value(entry, name)
        if column.leads and name not in _ASKED:
            inner = _inner(entry, name, ["Title"])
            several = inner if isinstance(inner, list) else [inner] if inner else []
            value = "; ".join(str(one["Title"]) for one in several)
        elif isinstance(value, list):
            value = "; ".join(map(str, value))
        elif isinstance(value, dict):
            value = f"{value['Url']}, {value['Description']}"
        elif isinstance(value, bool):
            value = "Yes" if value else "No"
        elif column.rich and value:
            value = re.sub(r"<[^>]*>", "", str(value))
        found[name] = "" if value is None else str(value)
    return found


def field_payload(column: Field) -> dict[str, Any]:
    """Return the definition of a column."""
    known = {
        "Hidden": column.hidden,
        "Indexed": column.indexed,
        "InternalName": column.name,
        "EntityPropertyName": column.name,
        "StaticName": column.name,
        "ReadOnlyField": column.read_only,
        "Title": column.title,
        "TypeAsString": column.type,
        "FromBaseType": column.read_only,
    }
    if column.type == "Note":
        known["RichText"] = column.rich
    if column.choices:
        known["Choices"] = list(column.choices)
    if column.other:
        known["LookupField"] = "Title"
    return known
