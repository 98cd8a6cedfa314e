"""The answers of SharePoint's REST API and of Microsoft Graph, parsed strictly.

The fields of list items and site pages, as the content of their items: JSON for conversion.

A list item: ``{"list": title of the list, "columns": [[internal name, display name, type], ...],
"fields": {internal name: value, "ID": 3}}``. Each visible column is there, in the order of the
list. Fields without a value are left out; people and lookups are texts, or lists of texts. A type
is SharePoint's own, or ``html`` of a text with markup.

A page: ``{"title": ..., "canvas": CanvasContent1 or null, "layout": canvasLayout or null}``.

``smartcrawl.extract.library.pages`` reads it. It is the same of both APIs, so
that changing the API changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic.alias_generators import to_camel, to_pascal
from pydantic_core import from_json

from smartcrawl.sources.sharepoint.access import sharepoint_words

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HTML: Final = re.compile(rb"\s*+(?:\xef\xbb\xbf)?+\s*+<(?:!doctype|html|\?xml|head|body)", re.I)
_MOST: Final = 2**53  #: numbers beyond are no sizes and no ids


class PayloadError(ValueError):
    """An answer of the API does not have the documented form; the message says where."""


def _guid(value: object) -> object:
    """Return a GUID in lower case, without braces."""
    if not isinstance(value, str):
        return value
    return value.replace("{", "").replace("}", "").lower()


def _number(value: object) -> object:
    """Return a number that came as text: REST writes Int64 so."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 17:
        return int(value)
    return value


def _microseconds(value: object) -> object:
    """Return a time with an offset as Unix microseconds."""
    if not isinstance(value, str):
        raise ValueError("it is not a time")  # pydantic reports this kind
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("it is a time without an offset")
    return (found - _EPOCH) // _MICROSECOND


Guid = Annotated[
    str,
    BeforeValidator(_guid),
    StringConstraints(pattern=r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
]
Whole = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=_MOST)]
ItemId = Annotated[int, BeforeValidator(_number), Field(ge=1, lt=_MOST)]
Moment = Annotated[int, BeforeValidator(_microseconds), Field(ge=0, lt=_MOST)]
Name = Annotated[str, StringConstraints(min_length=1)]
ServerPath = Annotated[str, StringConstraints(pattern=r"^/")]


class Payload(BaseModel):
    """A part of an answer; what is not needed is not read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


# REST


class _RestPayload(Payload):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_pascal)


class RestFolder(_RestPayload):
    """The root folder of a list."""

    server_relative_url: ServerPath


class RestList(_RestPayload):
    """The answer about a list or library."""

    id: Guid
    item_count: Whole  #: folders included
    root_folder: RestFolder


class RestCount(_RestPayload):
    """The answer about the number of items, asked for again."""

    item_count: Whole


class RestFile(_RestPayload):
    """The file of an item of a library."""

    length: Whole  #: bytes


class RestItem(_RestPayload):
    """One item of a list or library: a file, a folder or a list item."""

    id: ItemId
    unique_id: Guid
    file_leaf_ref: Name  #: name, not checked: it may be ``..`` or have NUL in it
    file_ref: ServerPath
    fs_obj_type: Annotated[int, BeforeValidator(_number), Field(ge=0, le=1, alias="FSObjType")]
    modified: Moment
    file: RestFile | None = None  #: files have it

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.fs_obj_type == 1


class RestField(_RestPayload):
    """One field of a list."""

    internal_name: Name
    entity_property_name: Name  #: its name in an item
    title: str  #: its display name
    type_as_string: Name
    hidden: bool
    read_only_field: bool
    lookup_field: str | None = None  #: of a lookup: the field that is shown
    rich_text: bool | None = None  #: of a text of several lines: it has markup


# Graph


class _GraphPayload(Payload):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel)


class GraphSharepointIds(_GraphPayload):
    """The ids by which SharePoint knows a thing."""

    list_item_id: ItemId | None = None
    list_item_unique_id: Guid | None = None


class GraphParent(_GraphPayload):
    """The folder of an item."""

    id: Name | None = None


class GraphDriveItem(_GraphPayload):
    """One item of a drive: a file, a folder, a notebook or the root; or a deleted one."""

    id: Name
    name: str | None = None  #: deleted items may have none; an empty one is no path on disk
    size: Whole | None = None
    last_modified_date_time: Moment | None = None
    parent_reference: GraphParent | None = None
    sharepoint_ids: GraphSharepointIds | None = None
    file: Mapping[str, Any] | None = None
    folder: Mapping[str, Any] | None = None
    package: Mapping[str, Any] | None = None  #: a notebook, which is a folder
    root: Mapping[str, Any] | None = None
    deleted: Mapping[str, Any] | None = None

    @property
    def is_folder(self) -> bool:
        """Whether other items can be in it."""
        return any(one is not None for one in (self.folder, self.package, self.root))


class GraphContentType(_GraphPayload):
    """The content type of an item of a list."""

    id: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is that of folders, or one made of it."""
        return self.id is not None and self.id.lower().startswith("0x0120")


class GraphListItem(_GraphPayload):
    """One item of a list, with its fields, and the item of the drive where it has one."""

    sharepoint_ids: GraphSharepointIds
    web_url: Name
    last_modified_date_time: Moment
    fields: Mapping[str, Any]
    drive_item: GraphDriveItem | None = None
    content_type: GraphContentType | None = None

    @property
    def is_folder(self) -> bool:
        """Whether other items can be in it."""
        if self.content_type is not None and self.content_type.is_folder:
            return True
        return self.drive_item is not None and self.drive_item.is_folder


class GraphColumn(_GraphPayload):
    """One column of a list; its facet names its type."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)
    name: Name
    display_name: str
    hidden: bool = False
    read_only: bool = False


class GraphPlace(_GraphPayload):
    """A site, a list or a drive."""

    id: Name
    web_url: Name
    display_name: str | None = None


# Parsing


class AnswerPage(NamedTuple):
    """One answer with several items, not parsed yet."""

    items: list[Any]
    next: str | None  #: URL of the next page
    delta: str | None  #: URL of the changes after this pass; Graph's last page has it


_Model = TypeVar("_Model", bound=Payload)


def sharepoint_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer.

    Raises:
        PayloadError: it is none; with the remedy.
    """
    if _HTML.match(body):
        raise PayloadError(
            "it is HTML instead of JSON: check the address, and whether a proxy or a "
            "sign-in page responds instead"
        )
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise PayloadError(f"it is not complete JSON ({sharepoint_words(str(error))})") from error
    if not isinstance(found, dict):
        raise PayloadError("it is not a JSON object")
    return found


def library_page(body: bytes) -> AnswerPage:
    """Parse an answer with several items.

    Raises:
        PayloadError: it does not have the documented form.
    """
    found = sharepoint_json(body)
    items = found.get("value")
    if not isinstance(items, list):
        raise PayloadError("it has no list named value")
    following = found.get("@odata.nextLink", found.get("odata.nextLink"))
    delta = found.get("@odata.deltaLink")
    if not isinstance(following, str | None) or not isinstance(delta, str | None):
        raise PayloadError("its link to the next page is not a text")
    return AnswerPage(items, following, delta)


def sharepoint_payload(model: type[_Model], value: object) -> _Model:
    """Parse one object of an answer.

    Raises:
        PayloadError: it does not have the documented form.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise PayloadError(f"{where}: {sharepoint_words(first['msg'])}") from error


def sharepoint_error_words(body: bytes) -> tuple[str, str]:
    """Return code and message of an error of either API; empty without any."""
    try:
        found = sharepoint_json(body)
    except PayloadError:
        return "", ""
    error = found.get("odata.error", found.get("error"))
    if isinstance(error, str):  # as the sign-in writes it
        return error, str(found.get("error_description", ""))
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message")
    if isinstance(message, dict):
        message = message.get("value")
    return str(error.get("code", "")), message if isinstance(message, str) else ""


def sharepoint_json_text(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_CANVAS: Final = "CanvasContent1"  #: the web parts of a page
_WIKI: Final = "WikiField"  #: text of a page of an older kind
PAGE_FIELDS: Final = ("Title", _CANVAS, _WIKI)
_RICH: Final = "html"
#: Lookups and people of one query, at most: the limit of SharePoint and Graph.
MOST_LOOKUPS: Final = 12
_PEOPLE: Final = frozenset({"User", "UserMulti"})
_LOOKUPS: Final = frozenset({"Lookup", "LookupMulti"})
#: Types without text.
_WITHOUT_TEXT: Final = frozenset({
    "Attachments", "Computed", "ContentTypeId", "Counter", "CrossProjectLink", "File", "Guid",
    "Integer", "ModStat", "PageSeparator", "Recurrence", "Thumbnail", "ThreadIndex", "Threading",
    "WorkflowEventType", "WorkflowStatus",
})  # fmt: skip
#: Read-only fields that are shown.
_SHOWN: Final = frozenset({"Author", "Editor", "Created", "Modified"})
#: Columns that Graph shows as if they had text.
_OF_ITSELF: Final = frozenset({"Attachments", "ContentType", "FileLeafRef", "ID"})
#: Types of SharePoint by the facets of Graph's columns.
_FACETS: Final[Mapping[str, str]] = {
    "boolean": "Boolean", "calculated": "Calculated", "choice": "Choice", "currency": "Currency",
    "dateTime": "DateTime", "geolocation": "Geolocation", "hyperlinkOrPicture": "URL",
    "lookup": "Lookup", "number": "Number", "personOrGroup": "User", "term": "TaxonomyFieldType",
    "text": "Text",
}  # fmt: skip


class ListField(NamedTuple):
    """One visible field of a list."""

    name: str  #: display name
    type: str  #: SharePoint's TypeAsString, or ``html``
    key: str  #: its name in an item
    inner: str = ""  #: of people and lookups: the field that is shown

    @property
    def is_lookup(self) -> bool:
        """Whether its value is in another list, that of people included."""
        return self.type in _PEOPLE | _LOOKUPS


def rest_list_fields(fields: Iterable[RestField]) -> list[ListField]:
    """Return the visible fields of a list, in its order."""
    found = []
    for field in fields:
        is_shown = not field.read_only_field or field.internal_name in _SHOWN
        if field.hidden or field.type_as_string in _WITHOUT_TEXT:
            continue
        if not is_shown and field.type_as_string != "Calculated":
            continue
        inner = ""
        if field.type_as_string in _PEOPLE:
            inner = "Title"
        elif field.type_as_string in _LOOKUPS:
            inner = field.lookup_field or "Id"
        kind = _RICH if field.rich_text else field.type_as_string
        found.append(ListField(field.title, kind, field.entity_property_name, inner))
    return found


def graph_list_fields(columns: Iterable[GraphColumn]) -> list[ListField]:
    """Return the visible fields of a list by its columns, as ``rest_list_fields`` does."""
    found = []
    for column in columns:
        facets = column.model_extra or {}
        kind = next((_FACETS[facet] for facet in _FACETS if facets.get(facet) is not None), "")
        if column.hidden or not kind or column.name in _OF_ITSELF:
            continue
        if column.read_only and column.name not in _SHOWN and kind != "Calculated":
            continue
        found.append(ListField(column.display_name, _graph_type(kind, facets), column.name))
    return found


def _graph_type(kind: str, facets: Mapping[str, Any]) -> str:
    """Return SharePoint's type, which names texts of several lines and several values."""

    def has(facet: str, flag: str) -> bool:
        value = facets.get(facet)
        return isinstance(value, Mapping) and value.get(flag) is True

    text = facets.get("text")
    if isinstance(text, Mapping) and text.get("textType") == "richText":
        return _RICH
    if kind == "Text" and has("text", "allowMultipleLines"):
        return "Note"
    if kind == "User" and has("personOrGroup", "allowMultipleSelection"):
        return "UserMulti"
    if kind == "Lookup" and has("lookup", "allowMultipleValues"):
        return "LookupMulti"
    if kind == "TaxonomyFieldType" and has("term", "allowMultipleValues"):
        return "TaxonomyFieldTypeMulti"
    choice = facets.get("choice")
    if kind == "Choice" and isinstance(choice, Mapping) and choice.get("displayAs") == "checkBoxes":
        return "MultiChoice"
    return kind


def sharepoint_query_fields(
    fields: Sequence[ListField],
) -> tuple[list[ListField], list[ListField]]:
    """Return the fields that one query can have, and the lookups beyond its limit."""
    lookups = [field for field in fields if field.is_lookup]
    beyond = lookups[MOST_LOOKUPS:]
    return [field for field in fields if field not in beyond], beyond


def sharepoint_list_item_content(
    item: Mapping[str, Any], fields: Sequence[ListField], *, item_id: int, list_title: str
) -> str:
    """Return the content of a list item."""
    values = {field.key: _value(item.get(field.key), field) for field in fields}
    known: dict[str, object] = {
        key: value for key, value in values.items() if value not in (None, "", [])
    }
    known["ID"] = item_id
    return sharepoint_json_text({
        "list": list_title,
        "columns": [[field.key, field.name, field.type] for field in fields],
        "fields": known,
    })  # fmt: skip


def sharepoint_page_content(item: Mapping[str, Any], layout: object = None) -> str:
    """Return the content of a site page; ``layout``: Graph's canvasLayout.

    It counts where the page has no text of its own.
    """
    title, canvas = item.get("Title"), item.get(_CANVAS) or item.get(_WIKI)
    is_text = isinstance(canvas, str)
    return sharepoint_json_text({
        "title": title if isinstance(title, str) else None,
        "canvas": canvas if is_text else None,
        "layout": layout if isinstance(layout, Mapping) and not is_text else None,
    })  # fmt: skip


def _value(value: object, field: ListField) -> object:
    """Return a value without the metadata of OData; of people and lookups the texts."""
    if isinstance(value, Mapping):
        several = value.get("results")
        if isinstance(several, list):
            return [_value(one, field) for one in several]
        if field.is_lookup:
            for name in (field.inner, "LookupValue", "Title"):
                if isinstance(value.get(name), str | int | float):
                    return value[name]
            return None
        return {
            name: _value(one, field)
            for name, one in value.items()
            if "odata" not in name and not name.startswith("__")
        }
    if isinstance(value, list):
        return [_value(one, field) for one in value]
    if isinstance(value, float) and value.is_integer():  # REST has 3.0 where Graph has 3
        return int(value)
    return value
