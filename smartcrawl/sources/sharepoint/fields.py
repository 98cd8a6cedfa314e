"""The fields of list items and site pages, as the content of their items: JSON for conversion.

A list item: ``{"id": 3, "title": "…", "link": "https://…/DispForm.aspx?ID=3", "fields": [{"name":
display name, "type": type of SharePoint, "value": raw value or null}, …]}``. Each visible field is
there, in the order of the list; people and lookups are texts, or lists of texts.

A page: ``{"Title": …, "CanvasContent1": …, "LayoutWebpartsContent": …, "BannerImageUrl": …}``, each
a text or null; a wiki page has ``"WikiField": "…"`` besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from smartcrawl.sources.sharepoint.payloads import GraphColumn, RestField, json_text

PAGE_FIELDS: Final = ("Title", "CanvasContent1", "LayoutWebpartsContent", "BannerImageUrl")
_WIKI: Final = "WikiField"  #: text of a page of an older kind
ALL_PAGE_FIELDS: Final = (*PAGE_FIELDS, _WIKI)
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
    type: str  #: SharePoint's TypeAsString
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
        found.append(
            ListField(field.title, field.type_as_string, field.entity_property_name, inner)
        )
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


def queried_fields(fields: Sequence[ListField]) -> tuple[list[ListField], list[ListField]]:
    """Return the fields that one query can have, and the lookups beyond its limit."""
    lookups = [field for field in fields if field.is_lookup]
    beyond = lookups[MOST_LOOKUPS:]
    return [field for field in fields if field not in beyond], beyond


def list_item_content(
    item: Mapping[str, Any], fields: Sequence[ListField], *, item_id: int, link: str
) -> str:
    """Return the content of a list item."""
    rows = [
        {"name": field.name, "type": field.type, "value": _value(item.get(field.key), field)}
        for field in fields
    ]
    title = item.get("Title")
    return json_text({
        "id": item_id,
        "title": title if isinstance(title, str) else "",
        "link": link,
        "fields": rows,
    })  # fmt: skip


def page_content(item: Mapping[str, Any]) -> str:
    """Return the content of a site page."""
    found: dict[str, str | None] = {}
    for name in PAGE_FIELDS:
        value = item.get(name)
        if isinstance(value, Mapping):  # BannerImageUrl is an address with a description
            value = value.get("Url")
        found[name] = value if isinstance(value, str) else None
    wiki = item.get(_WIKI)
    if isinstance(wiki, str) and wiki:
        found[_WIKI] = wiki
    return json_text(found)


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
    return value


def page_of_layout(title: str | None, layout: object) -> dict[str, Any]:
    """Return the fields of a page by Graph's canvasLayout, whose texts are in reading order."""
    found = []
    for part in _web_parts(layout):
        inner = part.get("innerHtml")
        if isinstance(inner, str):
            found.append(f'<div data-sp-rte="">{inner}</div>')
        data = part.get("data")
        served = data.get("serverProcessedContent") if isinstance(data, Mapping) else None
        if isinstance(served, Mapping):
            texts = "".join(
                f"<p>{escape(text)}</p>" for text in _texts(served, "searchablePlainTexts")
            )
            texts += "".join(_texts(served, "htmlStrings"))
            texts += "".join(
                f'<a href="{escape(link)}">{escape(link)}</a>' for link in _texts(served, "links")
            )
            found.append(f'<div data-sp-htmlproperties="">{texts}</div>')
    return {"Title": title, "CanvasContent1": f"<div>{''.join(found)}</div>"}


def _web_parts(layout: object) -> Iterator[Mapping[str, Any]]:
    """Yield the web parts of a layout: of its sections by columns, then of its vertical section."""
    if not isinstance(layout, Mapping):
        return
    columns: list[Any] = []
    for section in _objects(layout.get("horizontalSections")):
        columns += _objects(section.get("columns"))
    columns.append(layout.get("verticalSection"))
    for column in columns:
        if isinstance(column, Mapping):
            yield from _objects(column.get("webparts"))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _texts(served: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a list of keys and values."""
    values = served.get(name)
    if isinstance(values, Mapping):
        return [one for one in values.values() if isinstance(one, str)]
    return [one["value"] for one in _objects(values) if isinstance(one.get("value"), str)]
