"""CSV and its kin: a line for each row, columns by tabs."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Final

from smartcrawl.extract.formats.common import (
    check_document_text,
    clean_document_text,
    corrupt_document,
    document_table_section,
    parsed_document,
)
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document

_DELIMITERS: Final = (",", ";", "\t", "|")  #: the first wins a draw
_SAMPLE: Final = 65_536  #: characters
_ROWS: Final = 50  #: of the sample


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a table: rows without empty cells at the end, no empty rows.

    The delimiter is the one that gives the most columns to the most rows. The first row is the
    title.

    Source: RFC 4180.
    """
    charset, text = decode_charset(body, content_type, markup=False)
    text = clean_document_text(text)
    check_document_text(len(text))
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    lines: list[str] = []
    try:
        for row in csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text)):
            written = "\t".join(" ".join(cell.split()) for cell in row).rstrip("\t")
            if written:
                lines.append(written)
    except csv.Error as error:
        raise corrupt_document(f"the table is broken: {error}") from error
    rows = "\n".join(lines)
    table = document_table_section(0, "", rows, head=len(lines) > 1)
    return parsed_document(url=url, text=[table] if rows else [], charset=charset)


def _delimiter(text: str) -> str:
    """Return the delimiter of the first rows."""
    lines = text[:_SAMPLE].split("\n")[:_ROWS]

    def score(delimiter: str) -> int:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        return sum(min(width, widths[0]) - 1 for width in widths if width > 1) if widths else 0

    return max(_DELIMITERS, key=score)
