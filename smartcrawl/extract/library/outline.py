"""The containers, lines and inline elements that a cleaned page is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from smartcrawl.extract import elements

MAX_CONTAINERS: Final = 40  #: in each other; deeper ones only separate lines

HEADINGS: Final = frozenset(elements.HEADINGS)
LISTS: Final = {"dl": ("dt", "dd"), "ol": ("li",), "ul": ("li",)}
ITEMS: Final = frozenset({"dd", "dt", "li"})
LOOSE: Final = ""  #: kind of a line without an element of its own
#: Kinds of lines that stay what they are where blocks are nested in them.
FIRM: Final = HEADINGS | {"caption", "pre"}

#: Inline elements, and what is written for them.
INLINE: Final = {
    "b": "strong", "code": "code", "del": "del", "em": "em", "i": "em", "kbd": "code", "s": "del",
    "samp": "code", "strike": "del", "strong": "strong", "sub": "sub", "sup": "sup", "tt": "code",
}  # fmt: skip
#: Elements whose text no browser shows.
UNSEEN: Final = frozenset({
    "annotation", "annotation-xml", "iframe", "noembed", "noframes", "noscript", "script", "style",
    "template", "title",
})  # fmt: skip
#: Elements that only separate lines.
BLOCKS: Final = (
    (elements.BLOCKS | elements.CONTAINERS | elements.ASIDES | elements.EDGES | elements.CELLS)
    | HEADINGS
    | elements.LAID_OUT
    | {"article", "button", "colgroup", "main", "option", "select", "textarea", "tr"}
) - {"br", "body"}


class Node:
    """One element of the cleaned page: a container, a line, or an inline element."""

    __slots__ = ("attributes", "depth", "ends_loose", "parent", "row", "started", "tag")

    def __init__(
        self, tag: str, parent: Node | None = None, attributes: Mapping[str, str] | None = None
    ) -> None:
        self.tag = tag
        self.parent = parent
        self.attributes = attributes or {}
        self.depth: int = parent.depth + 1 if parent else 0
        self.ends_loose = False  #: whether its last line has no element of its own
        self.started = False  #: of a table: whether a row or its caption is written
        self.row: Node | None = None  #: of a table: the row that cells without one share

    def path(self) -> list[Node]:
        """Return the containers from the outermost to this one, without the page itself."""
        found: list[Node] = []
        node = self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        found.reverse()
        return found

    def inside(self) -> Node:
        """Return a container in which text may stand: this one, or a new item or cell of it."""
        if self.tag in LISTS:
            return Node(LISTS[self.tag][-1], self)
        if self.tag == "table":
            return Node("td", Node("tr", self))
        return Node("td", self) if self.tag == "tr" else self


class Place(NamedTuple):
    """The place of the text that comes now."""

    container: Node
    kind: str  #: of its line: LOOSE or the name of an element
    inlines: tuple[Node, ...] = ()


class Writer(Protocol):
    """Writer of the elements and texts of a cleaned page, in their order."""

    def open(self, node: Node) -> None:
        """Begin an element."""

    def close(self, node: Node) -> None:
        """End an element."""

    def text(self, text: str) -> None:
        """Write text; white space is already what it should be."""

    def line_break(self) -> None:
        """Break the line within its element."""

    def image(self, alt: str, src: str) -> None:
        """Write an image by its description; ``src`` is empty or absolute."""
