"""The fields of list items and site pages, as the content of their items: JSON for conversion.

A list item: ``{"list": title of the list, "columns": [[internal name, display name, type], ...],
"fields": {internal name: value, "ID": 3}}``. Each visible column is there, in the order of the
list. Fields without a value are left out; people and lookups are texts, or lists of texts. A type
is SharePoint's own, or ``html`` of a text with markup.

A page: ``{"title": ..., "canvas": CanvasContent1 or null, "layout": canvasLayout or null}``.

``smartcrawl.extract.library.pages`` reads it. It is the same of both APIs, so
that changing the API changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.sources.sharepoint.payloads import GraphColumn, RestField, sharepoint_json_text

_CANVAS: Final = "CanvasContent1"  #: the web parts of a page
_WIKI: Final = "WikiField"  #: text of a page of an older kind
PAGE_FIELDS: Final = ("Title", _CANVAS, _WIKI)
_HTML: Final = "html"
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
        kind = _HTML if field.rich_text else field.type_as_string
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
        return _HTML
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
