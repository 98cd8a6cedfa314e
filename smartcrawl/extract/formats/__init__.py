"""Readers of documents other than pages: PDF, Office, EPUB, Markdown, tables and data.

The readers are pure, and bounded where a format lets a small file grow: text, unpacked size,
members, nesting. Time and memory are bounded by the process that runs them (``extract.pool``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Final, Protocol, cast

from smartcrawl.extract import sniff
from smartcrawl.extract.formats.common import MAX_TEXT, FormatError, FormatFault
from smartcrawl.extract.links import document_base_url
from smartcrawl.model.documents import Document

__all__ = [
    "FORMATS",
    "MAX_TEXT",
    "FormatError",
    "FormatFault",
    "check_document_format",
    "load_format_readers",
    "read_document",
]

#: The module of this package that reads each type.
_READERS: Final[Mapping[str, str]] = {
    sniff.PDF: "pdf",
    sniff.DOCX: "docx",
    sniff.PPTX: "pptx",
    sniff.XLSX: "xlsx",
    sniff.XLS: "workbooks",
    sniff.XLSB: "workbooks",
    sniff.ODS: "workbooks",
    sniff.ODT: "odt",
    sniff.ODP: "odt",
    sniff.EML: "eml",
    sniff.EPUB: "epub",
    sniff.MARKDOWN: "markdown",
    sniff.RST: "rst",
    sniff.ASCIIDOC: "asciidoc",
    sniff.ORG: "org",
    sniff.LATEX: "latex",
    sniff.CSV: "csv_text",
    sniff.JSON: "json_text",
    sniff.NOTEBOOK: "notebook",
    sniff.XML: "xml_text",
}
FORMATS: Final = frozenset(_READERS)  #: MIME types that are read here


class _Reader(Protocol):
    """A module of this package that reads one type."""

    def read_format(self, body: bytes, *, content_type: str, url: str) -> Document:
        """Return the document of a body."""


def read_document(body: bytes, *, media_type: str, content_type: str, url: str) -> Document:
    """Return the document of a body in one of the ``FORMATS``: title, text by headings, links.

    ``media_type`` is the type as sniffed, ``content_type`` the header as received (for its
    charset), ``url`` the one that answered. Equal bytes give equal documents on every machine.

    Raises:
        FormatError: the body cannot be read, for any reason.
        ValueError: ``url`` is not absolute, or ``media_type`` is none of ``FORMATS``.

    Source: R0-60, R0-17, R0-46.
    """
    check_document_format(media_type, url)
    reader = cast(_Reader, import_module(f"{__name__}.{_READERS[media_type]}"))
    try:
        document = reader.read_format(body, content_type=content_type, url=url)
    except FormatError:
        raise
    except MemoryError as error:
        what = "the document needs more memory than one document may have"
        raise FormatError(FormatFault.MEMORY, what) from error
    except RecursionError as error:
        raise FormatError(FormatFault.TOO_LARGE, "the document is nested too deep") from error
    except Exception as error:  # of any library, over foreign bytes
        what = f"its reader failed: {type(error).__name__}: {str(error)[:200]}"
        raise FormatError(FormatFault.CRASHED, what) from error
    return replace(document, content_type=media_type)


def load_format_readers() -> None:
    """Import all readers and their libraries, so that nothing is opened later."""
    for name in _READERS.values():
        import_module(f"{__name__}.{name}")


def check_document_format(media_type: str, url: str) -> None:
    """Raise ValueError unless ``media_type`` is one of ``FORMATS`` and ``url`` absolute."""
    if media_type not in FORMATS:
        raise ValueError(f"not a format that is read: {media_type!r}")
    document_base_url(url)
