"""Site pages: the whole page as HTML, and its content without scripts, styles and web-part data."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from smartcrawl.extract.charset import decode_charset
from smartcrawl.extract.library.cleaner import rewrite_markup
from smartcrawl.extract.library.outline import LOOSE, Node
from smartcrawl.extract.library.webparts import markup_of_web_parts
from smartcrawl.model.markdown import clean_text, one_text_line

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
