"""Notebooks of Jupyter: their Markdown, and their code without what it printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from smartcrawl.extract.formats import markdown
from smartcrawl.extract.formats.common import corrupt_document, document_too_large
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document
from smartcrawl.model.placed_spans import without_ids

_DIGITS: Final = 9
_BACKTICKS: Final = re.compile("`{3,}")
_INLINE_DATA: Final = re.compile(r"\((?:data:|attachment:)[^()\s]*\)")  #: pictures in the notebook


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a notebook: cells in their order, code as code.

    Outputs, metadata and pictures within it are left out.

    Raises:
        FormatError: CORRUPT if it does not parse or has no cells, TOO_LARGE as of Markdown.

    Source: Jupyter notebook format 3 and 4.
    """
    charset, text = decode_charset(body, content_type, markup=False)
    try:
        notebook = json.loads(text, parse_int=_short_number)
    except RecursionError as error:
        raise document_too_large("the notebook is nested too deep") from error
    except ValueError as error:
        raise corrupt_document(f"the notebook is no JSON: {error}") from error
    parts = [part for part in _cells(notebook) if part.strip()]
    rendered = markdown.read_format(
        "\n\n".join(parts).encode("utf-8", "replace"),
        content_type="text/markdown; charset=utf-8",
        url=url,
    )
    return replace(without_ids(rendered), charset=charset)


def _short_number(digits: str) -> int:
    """Return the beginning of a number: Python refuses to parse more than 4,300 digits."""
    return int(digits[:_DIGITS])


def _cells(notebook: Any) -> Iterator[str]:
    """Yield the Markdown of each cell."""
    if not isinstance(notebook, dict):
        raise corrupt_document("the notebook has no cells")
    sheets = notebook.get("worksheets", ())  # of format 3
    cells = [notebook, *(sheets if isinstance(sheets, list) else ())]
    for one in cells:
        listed = one.get("cells", ()) if isinstance(one, dict) else ()
        for cell in listed if isinstance(listed, list) else ():
            if isinstance(cell, dict):
                yield _cell(cell)


def _cell(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        return ""
    match cell.get("cell_type"):
        case "code":
            longest = max(map(len, _BACKTICKS.findall(source)), default=2)
            fence = "`" * (longest + 1)
            return f"{fence}\n{source}\n{fence}" if source.strip() else ""
        case "heading":  # of format 3
            level = str(cell.get("level", "1"))
            return f"{'#' * (int(level) if level in '123456' else 1)} {source}"
        case "markdown":
            return _INLINE_DATA.sub("()", source)
        case _:
            return ""
