"""Markup of what a browser shows: elements, shadow trees and frames of the same site."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from smartcrawl.rules.rendering import is_same_site

MAX_MARKUP: Final = 8 * 1024 * 1024  #: characters
_ELEMENT, _TEXT, _SHADOW = 1, 3, 11  #: types of nodes
_VOID: Final = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source",
        "track", "wbr",
    }
)  # fmt: skip
_SKIPPED: Final = frozenset({"script", "style", "noscript", "template"})
_TAG: Final = re.compile(r"<[^<>]*>")
_HREF: Final = re.compile(r"""<(?:a|area|link|meta)\b[^<>]*""")
_FRAMES: Final = frozenset({"iframe", "frame"})
_OF_BROWSER: Final = "user-agent"  #: shadow trees of its own elements, such as <details>


class TooLargeError(Exception):
    """The markup of a page is too long."""


class _Nodes:
    """The nodes of one document of a snapshot."""

    def __init__(self, document: Mapping[str, Any], strings: Sequence[str]) -> None:
        nodes = document["nodes"]
        self._strings = strings
        self._names: list[int] = nodes["nodeName"]
        self._values: list[int] = nodes["nodeValue"]
        self._attributes: list[list[int]] = nodes["attributes"]
        self.types: list[int] = nodes["nodeType"]
        self.children: dict[int, list[int]] = {}
        for node, parent in enumerate(nodes["parentIndex"]):
            self.children.setdefault(parent, []).append(node)
        kinds = nodes.get("shadowRootType", {"index": [], "value": []})
        self._shadows = {
            node: strings[kind] for node, kind in zip(kinds["index"], kinds["value"], strict=True)
        }
        frames = nodes.get("contentDocumentIndex", {"index": [], "value": []})
        self.frames: dict[int, int] = dict(zip(frames["index"], frames["value"], strict=True))
        self.url = self._string(document["documentURL"])
        self.base = self._string(document["baseURL"]) or self.url

    def _string(self, number: int) -> str:
        return self._strings[number] if number >= 0 else ""

    def name(self, node: int) -> str:
        return self._string(self._names[node]).lower()

    def text(self, node: int) -> str:
        return self._string(self._values[node])

    def attributes(self, node: int) -> dict[str, str]:
        pairs = iter(self._attributes[node])
        return {
            self._string(name): self._string(value)
            for name, value in zip(pairs, pairs, strict=True)
        }

    def shadow(self, node: int) -> int | None:
        """Return the root of the shadow tree that a page gave an element."""
        for child in self.children.get(node, ()):
            if self.types[child] == _SHADOW and self._shadows.get(child) != _OF_BROWSER:
                return child
        return None

    def by_slot(self, node: int) -> dict[str, list[int]]:
        """Return the children of an element by the slots of its shadow tree."""
        found: dict[str, list[int]] = {}
        for child in self.light(node):
            is_element = self.types[child] == _ELEMENT
            slot = self.attributes(child).get("slot", "") if is_element else ""
            found.setdefault(slot, []).append(child)
        return found

    def light(self, node: int) -> list[int]:
        """Return the children of an element beside its shadow trees."""
        return [child for child in self.children.get(node, ()) if self.types[child] != _SHADOW]


#: Slots of a shadow tree: the elements that its host has for each name.
_Slots = Mapping[str, Sequence[int]]
#: What is still to write: markup, or a node of a document with the slots around it.
_Rest = list[str | tuple[_Nodes, int, _Slots]]


def markup_of_snapshot(snapshot: Mapping[str, Any], url: str) -> str:
    """Return the markup of a page from a snapshot of its documents (DOMSnapshot).

    ``url``: the requested address, which relative links start from. Scripts, styles and templates
    are left out, and frames of other sites.

    Raises:
        TooLargeError: it is longer than ``MAX_MARKUP``.
    """
    documents = [_Nodes(document, snapshot["strings"]) for document in snapshot["documents"]]
    page = documents[0]
    parts, length = ["<!doctype html>"], 0
    if page.base.partition("#")[0] != url.partition("#")[0]:
        parts.append(f'<base href="{escape(page.base)}">')
    rest: _Rest = [(page, node, {}) for node in reversed(page.light(0))]
    while rest:
        part = rest.pop()
        if isinstance(part, tuple):
            rest += reversed(_written(documents, *part))
            continue
        length += len(part)
        if length > MAX_MARKUP:
            raise TooLargeError
        parts.append(part)
    return "".join(parts)


def _written(documents: Sequence[_Nodes], nodes: _Nodes, node: int, slots: _Slots) -> _Rest:
    """Return what a node is written as."""
    if nodes.types[node] == _TEXT:
        return [escape(nodes.text(node), quote=False)]
    name = nodes.name(node)
    if nodes.types[node] != _ELEMENT or name in _SKIPPED or name.startswith("::"):
        return []
    if name in _FRAMES:
        return _frame(documents, nodes, node)
    is_page = nodes is documents[0]
    if name == "base" and is_page:
        return []  # the first element of the markup says it
    attributes = nodes.attributes(node)
    if not is_page and "href" in attributes:
        attributes["href"] = _absolute(nodes.base, attributes["href"])
    opened = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    rest: _Rest = [f"<{name}{opened}>"]
    if name in _VOID:
        return rest
    shadow = nodes.shadow(node)
    if shadow is not None:
        inside = nodes.by_slot(node)
        rest += [(nodes, child, inside) for child in nodes.children.get(shadow, ())]
    else:
        children: Sequence[int] = nodes.light(node)
        if name == "slot":
            children = slots.get(attributes.get("name", "")) or children
        rest += [(nodes, child, slots) for child in children]
    rest.append(f"</{name}>")
    return rest


def _frame(documents: Sequence[_Nodes], nodes: _Nodes, node: int) -> _Rest:
    """Return the body of the document in a frame, if it is of the same site."""
    number = nodes.frames.get(node)
    if number is None:
        return []
    inside = documents[number]
    host = urlsplit(documents[0].url).hostname or ""
    if not is_same_site(host, urlsplit(inside.base).hostname or ""):
        return []
    bodies = [
        part
        for root in inside.light(0)
        for part in inside.light(root)
        if inside.types[part] == _ELEMENT and inside.name(part) in ("body", "frameset")
    ]
    children = [child for body in bodies for child in inside.light(body)]
    return ["<div>", *((inside, child, {}) for child in children), "</div>"]


def _absolute(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return href


def markup_words(markup: str) -> int:
    """Return the number of words in the body of such markup."""
    return len(_TAG.sub(" ", markup[markup.find("<body") :]).split())


def shown_digest(markup: str) -> bytes:
    """Return a digest of the text and the links of such markup, whatever else is in it."""
    words = " ".join(_TAG.sub(" ", markup).split())
    links = "\n".join(_HREF.findall(markup))
    return hashlib.sha256(f"{words}\n{links}".encode("utf-8", "surrogatepass")).digest()
