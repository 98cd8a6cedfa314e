"""Markup rewritten from scratch: no element or attribute of it is copied, only its meaning.

What is written has so little grammar that reading it again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import can_ada

from smartcrawl.extract import reader
from smartcrawl.extract.reader import MAX_DEPTH, TooDeepError, feed_markup, flattened_markup
from smartcrawl.model.markdown import clean_text, one_text_line
from smartcrawl.model.urls import MAX_URL_LENGTH

MAX_CONTAINERS: Final = 40  #: in each other; deeper ones only separate lines

HEADINGS: Final = frozenset(reader.HEADINGS)
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
    (reader.BLOCKS | reader.CONTAINERS | reader.ASIDES | reader.EDGES | reader.CELLS)
    | HEADINGS
    | reader.LAID_OUT
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


_SCHEMES: Final = ("http:", "https:", "mailto:", "tel:")
_ODD: Final = re.compile("[^\t\n\r -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\r")
_SPACE: Final = " \t\n\r\f"
_SPACES: Final = re.compile(f"[{_SPACE}]+")
_SPAN: Final = re.compile(r"[1-9]\d{0,2}")
_MAX_BREAKS: Final = 2  #: one after another

WriterT = TypeVar("WriterT", bound=Writer)


def rewrite_markup(markup: str, url: str, new_writer: Callable[[], WriterT]) -> tuple[str, WriterT]:
    """Write the visible content of markup; return the text of its first ``<title>`` and the writer.

    ``url`` is what relative links refer to; if it is empty, the page's canonical address is.
    Markup that is nested beyond ``MAX_DEPTH`` keeps lines, links and images only. The time is
    linear in the size.
    """
    encoded = markup.encode("utf-8", "replace")
    try:
        return _rewritten(encoded, _Cleaner(url, MAX_DEPTH), new_writer())
    except TooDeepError:
        flat = flattened_markup(encoded)
        return _rewritten(flat, _Cleaner(url, len(flat)), new_writer())


def cleaned_markup_address(href: str, base: str) -> str:
    """Return the absolute address of a link; empty where it leads nowhere or is none to keep.

    Kept are web pages, mail and telephone numbers, without credentials.

    >>> cleaned_markup_address("../b?c#d", "https://example.com/x/y")
    'https://example.com/b?c#d'
    >>> cleaned_markup_address("java\\nscript:alert(1)", "https://example.com/")
    ''
    """
    href = href.strip()
    if not href or href.startswith("#"):
        return ""
    try:
        found = can_ada.parse(base) + href if base else can_ada.parse(href)
    except (ValueError, TypeError):
        return ""
    if found.protocol not in _SCHEMES:
        return ""
    if found.has_credentials():
        found.username = found.password = ""
    text = str(found)
    return text if len(text) <= MAX_URL_LENGTH else ""


class _Cleaner:
    """Target of lxml's parser, which calls it for each tag and text."""

    def __init__(self, url: str, max_depth: int) -> None:
        self.writer: Writer  # set before the first call
        self._base = url
        self._max_depth = max_depth
        self._titles: list[str] | None = None
        self._in_title = False
        self._place = Place(Node("body"), "p")
        self._open: list[tuple[str, Place, bool]] = []  # tag, place before it, whether a block
        self._muted = 0  # elements open since the text is unseen
        self._bare_links: list[tuple[int, str]] = []  # texts written before a link, its address
        self._line: Node | None = None
        self._written: list[Node] = []  # elements open in the writer
        self._texts = 0
        self._pieces: list[str] = []  # the text since the last tag
        self.data = self._pieces.append  # called by the parser, as often as once a character
        self._space = ""  # white space that is written before the next text of the line
        self._breaks = 0

    @property
    def title(self) -> str:
        """The text of the first ``<title>``."""
        return one_text_line("".join(self._titles or []))

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Process a start tag; called by the parser.

        Raises:
            TooDeepError: too many elements are open.
        """
        self._end_text()
        if len(self._open) + self._muted >= self._max_depth:
            raise TooDeepError
        if self._muted or _is_unseen(tag, attributes):
            self._muted += 1
            if tag == "title" and self._titles is None:
                self._titles, self._in_title = [], True
            return
        before, is_block = self._place, tag in BLOCKS
        if is_block:
            self._end_line()
            self._place = self._block_place(tag, attributes)
        elif tag == "a":
            is_block = self._begin_link(attributes)
        elif tag in INLINE:
            self._begin_inline(INLINE[tag])
        self._open.append((tag, before, is_block))
        match tag:
            case "br":
                self._breaks += self._line is not None
            case "img":
                self._image(attributes)
            case "link" if not self._base and attributes.get("rel") == "canonical":
                self._base = cleaned_markup_address(attributes.get("href", ""), "")

    def end(self, tag: str) -> None:
        """Process an explicit or implied end tag; called by the parser."""
        self._end_text()
        if self._muted:
            self._muted -= 1
            self._in_title = self._in_title and self._muted > 0
            return
        if not self._open:
            return
        opened, before, is_block = self._open.pop()
        if opened == "a" and is_block:
            texts, address = self._bare_links.pop()
            if texts == self._texts:
                self._add_text(address)
        if is_block:
            self._end_line()
        self._place = before

    def close(self) -> None:
        """Close all elements of the writer; called by the parser at the end."""
        self._end_text()
        self._close_to(0)

    def _end_text(self) -> None:
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        if self._muted:
            if self._in_title and self._titles is not None:
                self._titles.append(text)
            return
        if _ODD.search(text):
            text = _ODD.sub(_plain, text.replace("\r\n", "\n"))
        core = text.strip(_SPACE)
        if not core:
            self._space = self._space + text if self._place.kind == "pre" else " "
            return
        start = text.index(core[0])
        before, after = text[:start], text[start + len(core) :]
        if self._place.kind == "pre":
            self._space += before
        else:
            core = _SPACES.sub(" ", core)
            self._space = " " if before else self._space
        self._begin_text()
        self.writer.text(core)
        self._space = after if self._place.kind == "pre" or not after else " "

    def _end_line(self) -> None:
        self._line, self._space, self._breaks = None, "", 0

    def _block_place(self, tag: str, attributes: Mapping[str, str]) -> Place:
        """Return the place of the content of a block."""
        container, kind, inlines = self._place
        if tag in HEADINGS:
            return Place(container, tag, inlines)
        if tag in reader.LAID_OUT:
            return Place(container, "pre", inlines)
        if tag == "caption" and container.tag == "table":
            return Place(container, "caption", inlines)
        if new := self._container(tag, attributes):
            return Place(new, "p" if tag == "blockquote" else LOOSE, inlines)
        return Place(container, kind if kind in FIRM else "p", inlines)

    def _container(self, tag: str, attributes: Mapping[str, str]) -> Node | None:
        """Return the new container of a block, None if it only separates lines."""
        outer = self._place.container
        if tag in LISTS or tag in ("blockquote", "table"):
            return Node(tag, outer.inside()) if outer.depth < MAX_CONTAINERS else None
        if tag in ITEMS:
            return Node(tag, outer) if tag in LISTS.get(outer.tag, ()) else None
        if tag == "tr" and outer.tag == "table":
            outer.row = Node("tr", outer)
            return outer.row
        if tag in reader.CELLS and outer.tag in ("table", "tr"):
            if outer.tag == "table":
                outer.row = outer.row or Node("tr", outer)
                outer = outer.row
            cell = Node(tag, outer, _spans(attributes))
            self._write_path(cell.path())  # an empty cell counts, too
            return cell
        return None

    def _begin_inline(self, tag: str, attributes: Mapping[str, str] | None = None) -> None:
        container, kind, inlines = self._place
        if tag == "a":
            inlines = tuple(node for node in inlines if node.tag != "a")
        elif any(node.tag == tag for node in inlines):
            return
        self._place = Place(container, kind, (*inlines, Node(tag, None, attributes)))

    def _begin_link(self, attributes: Mapping[str, str]) -> bool:
        """Begin a link; return whether it is data of a web part, which is a line of its own."""
        address = cleaned_markup_address(attributes.get("href", ""), self._base)
        if not address:
            return False
        is_data = "data-sp-prop-name" in attributes
        if is_data:
            self._end_line()
            self._bare_links.append((self._texts, address))
        self._begin_inline("a", {"href": address})
        return is_data

    def _image(self, attributes: Mapping[str, str]) -> None:
        alt = one_text_line(_ODD.sub(_plain, attributes.get("alt", "")))
        if alt:
            src = cleaned_markup_address(attributes.get("src", ""), self._base)
            self._begin_text()
            self.writer.image(alt, src if src.startswith("http") else "")

    def _begin_text(self) -> None:
        """Open all elements in which the next text is, and write the white space before it."""
        indent = ""
        if self._line is None:
            self._line = self._new_line()
            indent = self._space.rpartition("\n")[2] if self._line.tag == "pre" else ""
            self._space = ""
        line, inlines = self._line, self._place.inlines
        path = [*(line.parent or line).path(), line, *inlines]
        self._close_to(_common(self._written, path))
        if self._breaks:
            for _ in range(min(self._breaks, _MAX_BREAKS)):
                self.writer.line_break()
        elif self._space:
            self.writer.text(self._space)
        self._breaks, self._space = 0, ""
        self._write_path(path)
        if indent:
            self.writer.text(indent)
        self._texts += 1

    def _new_line(self) -> Node:
        """Return the element of a new line, in its container."""
        place = self._place
        kind, outer = place.kind, place.container
        if kind == "caption" and not outer.started:
            return Node(kind, outer)
        inner = outer.inside()
        if kind == "caption" or (kind == LOOSE and inner.ends_loose):
            kind = LOOSE if kind == "caption" else "p"
        return Node(kind, inner)

    def _write_path(self, path: list[Node]) -> None:
        """Have exactly these elements open in the writer."""
        common = _common(self._written, path)
        self._close_to(common)
        for node in path[common:]:
            if node.parent is not None:
                node.parent.ends_loose = node.tag == LOOSE
                node.parent.started = True
            self._written.append(node)
            self.writer.open(node)

    def _close_to(self, count: int) -> None:
        while len(self._written) > count:
            self.writer.close(self._written.pop())


def _rewritten(markup: bytes, cleaner: _Cleaner, writer: WriterT) -> tuple[str, WriterT]:
    cleaner.writer = writer
    feed_markup(markup, cleaner)
    cleaner.close()
    return cleaner.title, writer


def _is_unseen(tag: str, attributes: Mapping[str, str]) -> bool:
    """Whether browsers show nothing of an element; ids of web parts are data, not text."""
    if tag == "template" and "shadowrootmode" in attributes:
        return False  # browsers show a declarative shadow root
    return tag in UNSEEN or "data-sp-componentid" in attributes


def _spans(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the numbers of columns and rows that a cell covers, where they are above 1."""
    return {
        name: attributes[name]
        for name in ("colspan", "rowspan")
        if _SPAN.fullmatch(attributes.get(name, "")) and attributes[name] != "1"
    }


def _plain(match: re.Match[str]) -> str:
    found = clean_text(match[0])
    return "" if found in ("\ufffe", "\uffff") else found


def _common(one: list[Node], other: list[Node]) -> int:
    """Return the number of equal elements at the begin of two paths."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first is not second:
            break
        count += 1
    return count


_CELLS: Final = ("td", "th")
_WITHIN: Final = frozenset(INLINE.values()) | {"a"}


class NoteWriter:
    """Writer of text: a line for each block and each outermost row of a table."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._rows = 0  #: rows of tables that are open
        self._cells = 0  #: of the outermost row that is open
        self._links: list[int] = []  #: where the text of each open link begins

    def note(self) -> str:
        """Return the lines."""
        self._end_line()
        return "\n".join(self._lines)

    def open(self, node: Node) -> None:
        """Begin an element."""
        if node.tag == "a":
            self._links.append(len(self._line))
        elif node.tag in _CELLS and self._rows == 1:
            self._line += [" | "] if self._cells else []
            self._cells += 1
        elif node.tag not in _WITHIN:
            self.line_break()
        if node.tag == "tr":
            self._rows += 1

    def close(self, node: Node) -> None:
        """End an element; behind the text of a link follows its address, if that differs."""
        if node.tag == "a":
            address = node.attributes["href"]
            text = "".join(self._line[self._links.pop() :])
            if text.strip() not in (address, address.removeprefix("mailto:")):
                self._line.append(f" ({address})")
        elif node.tag == "tr":
            self._rows -= 1
            if not self._rows:
                self._cells = 0
        if node.tag not in _WITHIN and node.tag not in _CELLS:
            self.line_break()

    def text(self, text: str) -> None:
        """Write text."""
        self._line.append(text)

    def line_break(self) -> None:
        """End a line; within a table only a space divides lines of a cell."""
        if self._rows:
            self._line.append(" ")
        else:
            self._end_line()

    def image(self, alt: str, src: str) -> None:
        """Write the description of an image."""
        self._line.append(alt)

    def _end_line(self) -> None:
        text = "".join(self._line)
        if text.strip(" |"):
            self._lines.append(text)
        self._line.clear()
