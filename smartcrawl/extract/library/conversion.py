"""Content of list items and site pages, as listings carry it, as the files that are kept of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smartcrawl.extract.library.lists import (
    ListColumn,
    ListRow,
    csv_list_columns,
    csv_list_row,
    markdown_of_list_item,
)
from smartcrawl.extract.library.pages import clean_page_html, markup_of_library_page
from smartcrawl.model.library import SourceType


def extract_original_content(source_type: SourceType, content: str, url: str) -> bytes:
    """Return the original of a site page (HTML); ``content`` is that of its ``LibraryItem``.

    Raises:
        ValueError: ``content`` is not JSON of a page, or the source has no originals of one item.

    Source: R3-58.
    """
    if source_type is not SourceType.SITEPAGES:
        raise ValueError(f"no originals of single items: {source_type}")
    page = _content(content)
    if not page.keys() >= {"title", "canvas", "layout"}:
        raise ValueError("the content of a page has no title, canvas or layout")
    title, canvas, layout = page["title"], page["canvas"], page["layout"]
    if not isinstance(title, str | None) or not isinstance(canvas, str | None):
        raise ValueError("title or canvas of a page is not a text")
    if not isinstance(layout, Mapping | None):
        raise ValueError("the layout of a page is not an object")
    return markup_of_library_page(title or "", canvas, layout, url)


def extract_library_content(source_type: SourceType, content: str, url: str) -> bytes:
    """Return the text that is embedded: Markdown of a list item, cleaned HTML of a site page.

    ``content`` is that of its ``LibraryItem``, ``url`` its absolute address. The result is the one
    that its original gives: the row of the CSV, the HTML of the page.

    Raises:
        ValueError: ``content`` is not JSON of an item, or files are not converted.

    Source: R3-57, R3-58.
    """
    match source_type:
        case SourceType.SITEPAGES:
            return clean_page_html(extract_original_content(source_type, content, url), url=url)
        case SourceType.LISTS:
            _, row = csv_row_of_library_list(content)
            return markdown_of_list_item(row, url).encode()
        case _:
            raise ValueError(f"not converted: {source_type}")


def csv_row_of_library_list(content: str) -> tuple[list[ListColumn], ListRow]:
    """Return the columns and the row of a list item's ``content``, for the CSV of its list.

    Raises:
        ValueError: ``content`` is not JSON of a list item.
    """
    item = _content(content)
    columns, fields = item.get("columns"), item.get("fields")
    if not isinstance(columns, list) or not isinstance(fields, Mapping):
        raise ValueError("the content of a list item has no columns or no fields")
    if not isinstance(own := fields.get("ID"), int):
        raise ValueError("the content of a list item has no ID")
    if not all(_is_column(column) for column in columns):
        raise ValueError("a column of a list item is not a list of name, title and type")
    ordered = csv_list_columns(columns)
    return ordered, csv_list_row(ordered, own, fields)


def _is_column(column: object) -> bool:
    return (
        isinstance(column, list)
        and len(column) == len(ListColumn._fields)
        and all(isinstance(part, str) for part in column)
    )


def _content(content: str) -> Mapping[str, Any]:
    found = json.loads(content)
    if not isinstance(found, Mapping):
        raise ValueError("the content of an item is not an object")
    return found
