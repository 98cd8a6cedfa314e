"""A page as Markdown, with its headings, code, tables and lists restored."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from smartcrawl.model.documents import LIST, TABLE, Block, Document, Section

_MOST_PADDED: Final = 100_000  #: cells of a table; Markdown itself completes rows of a larger one
_DEEPEST: Final = 6  #: level of a heading

_WHITE_CONTROLS: Final = "\v\f\r\x1c\x1d\x1e\x1f\x85"
#: For ``str.translate``: control characters go, those that are white space become a space.
_CONTROLS: Final = {
    code: " " if chr(code) in _WHITE_CONTROLS else None
    for code in range(0xA0)
    if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\t\n"
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_PUNCTUATION: Final = re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
#: Characters that may be markup within a paragraph, as runs where Markdown counts them.
_INLINE: Final = re.compile(
    rf"\*+|_+|`+|~+|\\(?=[{_PUNCTUATION}]|\n|\Z)|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=[(:])"
)
_IN_PAIRS: Final = "*_`~"  #: one run of them alone marks nothing
#: Before a character that makes a line a heading, item, quote or fence; or the whole line a rule,
#: an underline or the second row of a table.
_LINE_START: Final = re.compile(
    r"(?=#{1,6}(?:[ \t]|$)|[-+*](?:[ \t]|$)|>|~~~|```|\[[ xX]\]|[-=_*|:][-=_*|: \t]*$)"
)
_NUMBERED: Final = re.compile(r"(\d{1,9})(?=[.)](?:[ \t]|$))")
_CLOSING: Final = re.compile(r"(?:(?<=[ \t])|^)#+$")  #: of a heading; Markdown leaves it out


def page_as_markdown(document: Document, *, title: str = "") -> str:
    """Return the text of a page as Markdown that ends with a line break; empty without any text.

    ``title``, or that of the document, becomes the first heading where the page has no heading of
    level 1. Code is fenced, tables are pipe tables with a row for the names of their columns, each
    line of a list is an item. Text is escaped where Markdown would read it as markup.

    Source: CommonMark 0.31; tables: GitHub Flavored Markdown 0.29.
    """
    parts: list[str] = []
    name = _one_line(title or document.title)
    if name and not any(s.level == 1 and s.heading for s in document.sections):
        parts.append(_heading(1, name))
    for section in document.sections:
        if heading := _one_line(section.heading):
            parts.append(_heading(section.level, heading))
        parts += _section_parts(section)
    return "\n\n".join(parts) + "\n" if parts else ""


def text_as_markdown_line(text: str) -> str:
    """Return text as one line in which Markdown finds no markup; not for the start of a block."""
    return _inline(_one_line(text))


def _section_parts(section: Section) -> Iterator[str]:
    """Yield the blocks of a section and the text between them, in reading order."""
    text = section.text
    lists = deque(block for block in section.blocks if block.kind == LIST)
    at = 0
    for block in section.blocks:
        if block.kind == LIST or block.start < at:
            continue
        yield from _lines_between(text, at, block.start, lists)
        yield from _table(text, block) if block.kind == TABLE else _fence(text, block)
        at = block.end
    yield from _lines_between(text, at, len(text), lists)


def _lines_between(text: str, at: int, end: int, lists: deque[Block]) -> Iterator[str]:
    """Yield the paragraphs and lists of a part of the text without code and tables.

    Lists that end before it are taken away, so that each is looked at once.
    """
    while lists and lists[0].end <= at:
        lists.popleft()
    for block in lists:
        start, stop = max(block.start, at), min(block.end, end)
        if block.start >= end:
            break
        if start < stop:
            yield from _paragraphs(_clean(text[at:start]))
            yield from _items(_clean(text[start:stop]))
            at = stop
    yield from _paragraphs(_clean(text[at:end]))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs: what blank lines separate, or each line where there are none."""
    lines = [line.strip() for line in text.strip("\n").split("\n")]
    separated = "" in lines
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line:
            paragraph.append(line)
        if paragraph and not (line and separated):
            escaped = _inline("\n".join(paragraph))
            yield "\n".join(map(_line_start, escaped.split("\n")))
            paragraph = []


def _items(text: str) -> Iterator[str]:
    lines = [line.strip() for line in text.split("\n")]
    if items := [f"- {_line_start(_inline(line))}" for line in lines if line]:
        yield "\n".join(items)


def _fence(text: str, block: Block) -> Iterator[str]:
    code = _clean(text[block.start : block.end])
    if code.strip():
        longest = max((len(run) for run in re.findall("`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{fence}\n{code}\n{fence}"


def _table(text: str, block: Block) -> Iterator[str]:
    """Yield a table; rows without text are left out, short ones are filled up."""
    rows = [[_cell(cell) for cell in row] for row in _rows(text, block)]
    head = rows.pop(0) if rows and block.head else []
    rows = [row for row in rows if any(row)]
    width = max(map(len, (head, *rows)))
    if not any(head) and not rows:
        return
    pads = width * len(rows) <= _MOST_PADDED
    body = [_table_row(row, width if pads else 0) for row in rows]
    yield "\n".join([_table_row(head, width), _table_row(["---"] * width, width), *body])


def _rows(text: str, block: Block) -> Iterator[list[str]]:
    """Yield the texts of the cells of each row. All text of the block is in one of them."""
    if not block.rows:
        for line in text[block.start : block.end].split("\n"):
            yield line.split("\t")
        return
    at = block.start
    for ends in block.rows:
        cells: list[str] = []
        for end in ends:
            stop = min(max(at, end), block.end)
            cells.append(text[at:stop])
            at = stop
        yield cells
    if text[at : block.end].strip():
        yield [text[at : block.end]]


def _cell(text: str) -> str:
    lines = (line.strip() for line in _clean(text).split("\n"))
    escaped = _inline("\n".join(filter(None, lines)), spaces=" \t")
    return escaped.replace("|", "\\|").replace("\n", "<br>")


def _table_row(cells: Sequence[str], width: int) -> str:
    padded = [*cells, *[""] * (width - len(cells))]
    return f"| {' | '.join(padded)} |"


def _heading(level: int, text: str) -> str:
    closing = _CLOSING.search(text)
    escaped = _inline(text[: closing.start()] if closing else text)
    if closing:
        escaped += closing[0].replace("#", "\\#")
    return f"{'#' * min(max(level, 1), _DEEPEST)} {escaped}"


def _inline(text: str, spaces: str = " \t\n") -> str:
    """Escape the characters of a paragraph that would be emphasis, code, links or HTML.

    ``spaces``: the characters that are white space in Markdown.
    """
    runs: dict[str, int] = dict.fromkeys(_IN_PAIRS, 0)
    for run in _INLINE.finditer(text):
        if run[0][0] in runs:
            runs[run[0][0]] += 1

    def escaped(run: re.Match[str]) -> str:
        mark = run[0][0]
        if mark in runs and (runs[mark] < 2 or _is_plain(text, run, spaces)):
            return run[0]
        return "".join(f"\\{character}" for character in run[0])

    return _INLINE.sub(escaped, text)


def _is_plain(text: str, run: re.Match[str], spaces: str) -> bool:
    """Whether a run of ``*`` or ``_`` is between spaces, or of ``_`` within a word."""
    mark = run[0][0]
    if mark not in "*_":
        return False
    before = text[run.start() - 1] if run.start() else " "
    after = text[run.end()] if run.end() < len(text) else " "
    if mark == "_" and before.isalnum() and after.isalnum():
        return True
    return before in spaces and after in spaces


def _line_start(line: str) -> str:
    """Escape the character that would make a line a heading, an item, a quote, a rule or code."""
    found = _NUMBERED.match(line) or _LINE_START.match(line)
    return f"{line[: found.end()]}\\{line[found.end() :]}" if found else line


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())


def _clean(text: str) -> str:
    """Return text without control characters, and with U+FFFD for halves of surrogate pairs."""
    return _SURROGATE.sub("\ufffd", text.translate(_CONTROLS))
