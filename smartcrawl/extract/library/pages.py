"""Site pages and the content of list items, as the files that are kept of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from smartcrawl.extract.library.lists import (
    ListColumn,
    ListRow,
    csv_list_columns,
    csv_list_row,
    markdown_of_list_item,
)
from smartcrawl.extract.library.markup import LOOSE, Node, rewrite_markup
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.library import SourceType
from smartcrawl.model.markdown import clean_text, one_text_line


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


_LINES: Final = frozenset({
    "blockquote", "caption", "dd", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p",
    "pre", "table", "td", "th", "tr", "ul",
})  # fmt: skip


def markup_of_library_page(
    title: str, canvas: str | None, layout: Mapping[str, Any] | None, url: str
) -> bytes:
    """Return a site page as one HTML document: its title and all web parts, as they came.

    ``canvas`` is CanvasContent1 of REST. ``layout`` is canvasLayout of Graph. Its sections become
    ``<div>``; of web parts without ``innerHtml`` the texts, links and images follow that the server
    names for its search. ``url`` is the page's absolute address.

    Source: R3-58; sitePage, textWebPart and standardWebPart in the documentation of Graph.
    """
    name = escape(one_text_line(title))
    parts = [canvas] if canvas else []
    parts += [f"<div>{part}</div>" for part in markup_of_web_parts(layout or {})]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{name}</title>\n"
        f'<link rel="canonical" href="{escape(clean_text(url))}"/>\n'
        f"</head>\n<body>\n<h1>{name}</h1>\n{body}\n</body>\n</html>\n"
    ).encode("utf-8", "replace")


def clean_page_html(original: bytes, *, url: str = "") -> bytes:
    """Return the content of a page: title, headings, texts, lists, tables, links, images' texts.

    The document is well-formed XML, too, and cleaning it again changes nothing. Links are absolute;
    ``url`` is the address that they refer to, by default the page's canonical one. Nothing is
    copied but text, so that no script, style, handler, form, frame or web-part data remains.

    Source: R3-58.
    """
    _, markup = decode_charset(original, "", markup=True)
    title, writer = rewrite_markup(markup, url, _HtmlWriter)
    return (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{_escaped(title)}</title>\n</head>\n<body>\n{writer.html()}</body>\n</html>\n"
    ).encode("utf-8", "replace")


class _HtmlWriter:
    """Writer of HTML that is well-formed XML; white space is written between blocks only."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._is_fresh = True

    def html(self) -> str:
        """Return all that was written."""
        return "".join(self._parts)

    def open(self, node: Node) -> None:
        """Begin an element."""
        if node.tag == LOOSE:
            return
        attributes = "".join(f' {key}="{escape(text)}"' for key, text in node.attributes.items())
        self._tag(f"<{node.tag}{attributes}>", "\n" if node.tag in _LINES else "")
        self._is_fresh = False

    def close(self, node: Node) -> None:
        """End an element."""
        if node.tag == LOOSE:
            return
        self._parts.append(f"</{node.tag}>")
        self._is_fresh = node.tag in _LINES
        if self._is_fresh:
            self._parts.append("\n")

    def text(self, text: str) -> None:
        """Write text."""
        self._parts.append(escape(text, quote=False))
        self._is_fresh = False

    def line_break(self) -> None:
        """Break the line within its element."""
        self._parts.append("<br/>")

    def image(self, alt: str, src: str) -> None:
        """Write an image by its description."""
        source = f' src="{escape(src)}"' if src else ""
        self._tag(f'<img alt="{escape(alt)}"{source}/>', "")
        self._is_fresh = False

    def _tag(self, tag: str, before: str) -> None:
        if before and not self._is_fresh:
            self._parts.append(before)
        self._parts.append(tag)


def _escaped(text: str) -> str:
    return escape(text, quote=False)


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
