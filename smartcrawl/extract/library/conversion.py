"""Content of list items and site pages, as listings carry it, as the files that are kept of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smartcrawl.extract.library.lists import (
    ListColumn,
    ListRow,
    list_columns,
    list_item_markdown,
    list_row,
)
from smartcrawl.extract.library.pages import clean_page_html, page_original_html
from smartcrawl.model.library import SourceType


def original_library_content(source_type: SourceType, content: str, url: str) -> bytes:
    """Return the original of a site page (HTML); ``content`` is that of its ``LibraryItem``.

    Raises:
        ValueError: ``content`` is not JSON of a page, or the source has no originals of one item.

    Source: R3-58.
    """
    if source_type is not SourceType.SITEPAGES:
        raise ValueError(f"no originals of single items: {source_type}")
    page = _content(content)
    title, canvas, layout = page.get("title"), page.get("canvas"), page.get("layout")
    return page_original_html(
        title if isinstance(title, str) else "",
        canvas if isinstance(canvas, str) else None,
        layout if isinstance(layout, Mapping) else None,
        url,
    )


def converted_library_content(source_type: SourceType, content: str, url: str) -> bytes:
    """Return the text that is embedded: Markdown of a list item, cleaned HTML of a site page.

    ``content`` is that of its ``LibraryItem``, ``url`` its absolute address. The result is the one
    that its original gives: the row of the CSV, the HTML of the page.

    Raises:
        ValueError: ``content`` is not JSON of an item, or files are not converted.

    Source: R3-57, R3-58.
    """
    match source_type:
        case SourceType.SITEPAGES:
            return clean_page_html(original_library_content(source_type, content, url), url=url)
        case SourceType.LISTS:
            _, row = library_list_row(content)
            return list_item_markdown(row, url).encode()
        case _:
            raise ValueError(f"not converted: {source_type}")


def library_list_row(content: str, item_id: int = 0) -> tuple[list[ListColumn], ListRow]:
    """Return the columns and the row of a list item's ``content``, for the CSV of its list.

    ``item_id`` is by default the field ``ID``.

    Raises:
        ValueError: ``content`` is not JSON of a list item.
    """
    item = _content(content)
    columns, fields = item.get("columns"), item.get("fields")
    if not isinstance(columns, list) or not isinstance(fields, Mapping):
        raise ValueError("the content of a list item has no columns or no fields")
    ordered = list_columns(columns)
    own = fields.get("ID", fields.get("Id", 0))
    return ordered, list_row(ordered, item_id or int(own), fields)


def _content(content: str) -> Mapping[str, Any]:
    found = json.loads(content)
    if not isinstance(found, Mapping):
        raise ValueError("the content of an item is no object")
    return found
