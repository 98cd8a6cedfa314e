"""HTML of a note as lines of text."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract.library.outline import INLINE, Node

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
