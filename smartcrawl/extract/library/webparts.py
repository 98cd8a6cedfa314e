"""Web parts of a canvasLayout of Graph as markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any


def markup_of_web_parts(layout: Mapping[str, Any]) -> Iterator[str]:
    """Yield the markup of all web parts, section by section, the vertical section last.

    A text web part has its own (``innerHtml``). Any other has the texts, links and images that the
    server names (``serverProcessedContent``); it may have none.

    Source: canvasLayout, textWebPart and standardWebPart in the documentation of Graph.
    """
    columns = [
        column
        for section in _mappings(layout.get("horizontalSections"))
        for column in _mappings(section.get("columns"))
    ]
    vertical = layout.get("verticalSection")
    for column in [*columns, *_mappings([vertical])]:
        for part in _mappings(column.get("webparts")):
            inner = part.get("innerHtml")
            yield inner if isinstance(inner, str) else _named_content(part)


def _named_content(part: Mapping[str, Any]) -> str:
    """Return the content of a web part without markup of its own; each piece is a line."""
    data = _mapping(part.get("data"))
    served = _mapping(data.get("serverProcessedContent"))
    texts, links = _pairs(served, "searchablePlainTexts"), _pairs(served, "links")
    titles = {_root(key): text for key, text in texts if key.lower().endswith("title")}
    named = {_root(key): titles.get(_root(key), "") for key, _ in links if "[" in key}
    lines = [f"<p>{escape(text)}</p>" for key, text in texts if text != named.get(_root(key))]
    lines += [markup for _, markup in _pairs(served, "htmlStrings")]
    lines += [
        f'<p><a href="{escape(address)}">{escape(named.get(_root(key)) or address)}</a></p>'
        for key, address in links
    ]
    alt = _mapping(data.get("properties")).get("altText")
    described = escape(alt) if isinstance(alt, str) else ""
    lines += [
        f'<p><img alt="{described}" src="{escape(address)}"></p>'
        for _, address in _pairs(served, "imageSources")
    ]
    return "\n".join(lines)


def _root(key: str) -> str:
    """Return the part of a key that the fields of one entry share.

    >>> _root("items[0].sourceItem.url")
    'items[0]'
    """
    return key.partition(".")[0]


def _pairs(served: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """Return keys and texts of a list of ``key`` and ``value``, or of an object."""
    listed = served.get(name)
    pairs = (
        listed.items()
        if isinstance(listed, Mapping)
        else [(one.get("key"), one.get("value")) for one in _mappings(listed)]
    )
    return [(str(key), text) for key, text in pairs if isinstance(text, str) and text]


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _mappings(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
