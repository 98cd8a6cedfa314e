"""Web parts of modern site pages, in the two forms that REST and Graph have.

| shape | source |
| --- | --- |
| `CanvasContent1`: `div`s with `data-sp-canvascontrol`, `data-sp-controldata`, `data-sp-rte` | \
assumed, after pages that the PnP tools write |
| `data-sp-webpart`, `data-sp-webpartdata`, `data-sp-htmlproperties` | assumed, likewise |
| Graph: `horizontalSections`, `columns`, `webparts`, `innerHtml`, `webPartType`, `data` | \
Graph documentation, sitepage-get.md |
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

#: The columns of a section, each a list of web parts.
Section = list[list[Any]]


class Text(NamedTuple):
    """A text web part."""

    html: str


class WebPart(NamedTuple):
    """A standard web part: its data, and the HTML that search reads."""

    title: str
    type: str = "c4bd7b2f-7b6e-4599-8485-16504575f590"  #: of a hero
    properties: dict[str, Any] = {}
    html: str = ""  #: data-sp-htmlproperties, e.g. links and images


def canvas(sections: Iterable[Section]) -> str:
    """Return CanvasContent1 of sections."""
    parts = []
    for zone, section in enumerate(sections, 1):
        for place, column in enumerate(section, 1):
            for order, part in enumerate(column, 1):
                position = {
                    "zoneIndex": zone,
                    "sectionIndex": place,
                    "controlIndex": order,
                    "sectionFactor": 12 // len(section),
                    "layoutIndex": 1,
                }
                parts.append(_control(part, position))
    return f"<div>{''.join(parts)}</div>"


def _control(part: Text | WebPart, position: dict[str, int]) -> str:
    id_ = str(uuid.uuid5(uuid.NAMESPACE_OID, repr((part, position))))
    facts: dict[str, Any] = {"id": id_, "position": position, "emphasis": {}}
    if isinstance(part, Text):
        data = escape(json.dumps(facts | {"controlType": 4, "editorType": "CKEditor"}))
        inner = f'<div data-sp-rte="">{part.html}</div>'
    else:
        data = escape(json.dumps(facts | {"controlType": 3, "webPartId": part.type}))
        known = escape(json.dumps(_data(part)))
        inner = (
            f'<div data-sp-webpart="" data-sp-webpartdataversion="1.0" '
            f'data-sp-webpartdata="{known}"><div data-sp-componentid="">{part.type}</div>'
            f'<div data-sp-htmlproperties="">{part.html}</div></div>'
        )
    return (
        f'<div data-sp-canvascontrol="" data-sp-canvasdataversion="1.0" '
        f'data-sp-controldata="{data}">{inner}</div>'
    )


def _data(part: WebPart) -> dict[str, Any]:
    return {
        "id": part.type,
        "title": part.title,
        "dataVersion": "1.0",
        "properties": part.properties,
        "serverProcessedContent": {"htmlStrings": {}, "searchablePlainTexts": {}, "links": {}},
    }


def layout(sections: Iterable[Section]) -> dict[str, Any]:
    """Return the canvasLayout of Graph."""
    return {
        "horizontalSections": [
            {
                "layout": ("oneColumn", "twoColumns", "threeColumns")[min(len(section), 3) - 1],
                "id": str(zone),
                "emphasis": "none",
                "columns": [
                    {
                        "id": str(place),
                        "width": 12 // len(section),
                        "webparts": [_webpart(part) for part in column],
                    }
                    for place, column in enumerate(section, 1)
                ],
            }
            for zone, section in enumerate(sections, 1)
        ]
    }


def _webpart(part: Text | WebPart) -> dict[str, Any]:
    id_ = str(uuid.uuid5(uuid.NAMESPACE_OID, repr(part)))
    if isinstance(part, Text):
        return {
            "@odata.type": "#microsoft.graph.textWebPart",
            "id": id_,
            "innerHtml": part.html,
        }
    return {
        "@odata.type": "#microsoft.graph.standardWebPart",
        "id": id_,
        "webPartType": part.type,
        "data": _data(part),
    }
