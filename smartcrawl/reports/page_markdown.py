"""A page as Markdown, with its headings, code, tables and lists restored."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from smartcrawl.model.documents import LIST, TABLE, Block, Document, Section
from smartcrawl.model.markdown import (
    clean_text,
    escape_markdown,
    escape_markdown_start,
    markdown_heading,
    one_text_line,
)
from smartcrawl.model.redaction import escaped_tags

_MOST_PADDED: Final = 100_000  #: cells of a table; Markdown itself completes rows of a larger one


def page_as_markdown(document: Document, *, title: str = "") -> str:
    """Return the text of a page as Markdown that ends with a line break; empty without any text.

    ``title``, or that of the document, becomes the first heading where the page has no heading of
    level 1. Code is fenced, tables are pipe tables with a row for the names of their columns, each
    line of a list is an item. Text is escaped where Markdown would read it as markup.

    Source: CommonMark 0.31; tables: GitHub Flavored Markdown 0.29.
    """
    parts: list[str] = []
    name = one_text_line(title or document.title)
    if name and not any(s.level == 1 and s.heading for s in document.sections):
        parts.append(markdown_heading(1, name))
    for section in document.sections:
        if heading := one_text_line(section.heading):
            parts.append(markdown_heading(section.level, heading))
        parts += _section_parts(section)
    return escaped_tags("\n\n".join(parts)) + "\n" if parts else ""


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
            yield from _paragraphs(clean_text(text[at:start]))
            yield from _items(clean_text(text[start:stop]))
            at = stop
    yield from _paragraphs(clean_text(text[at:end]))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs: what blank lines separate, or each line where there are none."""
    lines = [line.strip() for line in text.strip("\n").split("\n")]
    separated = "" in lines
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line:
            paragraph.append(line)
        if paragraph and not (line and separated):
            escaped = escape_markdown("\n".join(paragraph))
            yield "\n".join(map(escape_markdown_start, escaped.split("\n")))
            paragraph = []


def _items(text: str) -> Iterator[str]:
    lines = [line.strip() for line in text.split("\n")]
    if items := [f"- {escape_markdown_start(escape_markdown(line))}" for line in lines if line]:
        yield "\n".join(items)


def _fence(text: str, block: Block) -> Iterator[str]:
    code = clean_text(text[block.start : block.end])
    if code.strip():
        longest = max((len(run) for run in re.findall("`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{fence}\n{code}\n{fence}"


def _table(text: str, block: Block) -> Iterator[str]:
    """Yield the caption of a table, and its rows that have text; short ones are filled up."""
    yield from _paragraphs(clean_text(text[block.start : block.caption]))
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
        for line in text[block.caption or block.start : block.end].split("\n"):
            yield line.split("\t")
        return
    at = block.caption or block.start
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
    lines = (line.strip() for line in clean_text(text).split("\n"))
    escaped = escape_markdown("\n".join(filter(None, lines)), spaces=" \t")
    return escaped.replace("|", "\\|").replace("\n", "<br>")


def _table_row(cells: Sequence[str], width: int) -> str:
    padded = [*cells, *[""] * (width - len(cells))]
    return f"| {' | '.join(padded)} |"
