"""Site pages: the whole page as HTML, and its content without scripts, styles and web-part data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from smartcrawl.extract.library.markup import LOOSE, Node, rewrite_markup
from smartcrawl.extract.sniff import decode_charset
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
