"""Types of pages in the words that people use, such as pdf, by the names that servers send."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

TEXT: Final = "text"
OTHER: Final = "other"  #: a type that is not in the table, or none
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
#: The media types of each word, without parameters and in lower case.
NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "html": ("text/html", "application/xhtml+xml"),
    TEXT: ("text/plain",),
    "pdf": ("application/pdf", "application/x-pdf"),
    "docx": (
        f"{_OFFICE}.wordprocessingml.document",
        f"{_OFFICE}.wordprocessingml.template",
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.ms-word.template.macroenabled.12",
    ),
    "pptx": (
        f"{_OFFICE}.presentationml.presentation",
        f"{_OFFICE}.presentationml.slideshow",
        f"{_OFFICE}.presentationml.template",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        "application/vnd.ms-powerpoint.slideshow.macroenabled.12",
    ),
    "xlsx": (
        f"{_OFFICE}.spreadsheetml.sheet",
        f"{_OFFICE}.spreadsheetml.template",
        "application/vnd.ms-excel.sheet.macroenabled.12",
        "application/vnd.ms-excel.template.macroenabled.12",
    ),
    "xls": ("application/vnd.ms-excel",),
    "xlsb": ("application/vnd.ms-excel.sheet.binary.macroenabled.12",),
    "odt": (f"{_OPEN}.text", f"{_OPEN}.text-template"),
    "odp": (f"{_OPEN}.presentation", f"{_OPEN}.presentation-template"),
    "ods": (f"{_OPEN}.spreadsheet", f"{_OPEN}.spreadsheet-template"),
    "epub": ("application/epub+zip",),
    "eml": ("message/rfc822",),
    "markdown": ("text/markdown", "text/x-markdown"),
    "rst": ("text/x-rst", "text/rst", "text/prs.fallenstein.rst"),
    "asciidoc": ("text/asciidoc", "text/x-asciidoc"),
    "org": ("text/org", "text/x-org"),
    "latex": ("application/x-tex", "application/x-latex", "text/x-tex", "text/tex"),
    "csv": (
        "text/csv", "text/x-csv", "application/csv", "text/comma-separated-values",
        "text/tab-separated-values",
    ),
    "notebook": ("application/x-ipynb+json",),
    "json": ("application/json", "application/x-json", "text/json", "text/x-json"),
    "xml": ("application/xml", "text/xml"),
    OTHER: (),
}  # fmt: skip
#: Words for all media types with a beginning or an end, unless the table names them.
BEGINNINGS: Final[Mapping[str, str]] = {TEXT: "text/"}
ENDINGS: Final[Mapping[str, str]] = {"xml": "+xml", "json": "+json"}
_WORDS: Final = {name: word for word, names in NAMED.items() for name in names}
_ALSO: Final[Mapping[str, str]] = {
    "htm": "html", "xhtml": "html", "txt": TEXT, "md": "markdown", "adoc": "asciidoc",
    "tex": "latex", "tsv": "csv", "ipynb": "notebook", "mail": "eml",
}  # fmt: skip


@lru_cache(1_024)
def page_type(media_type: str | None) -> str:
    """Return the word for a media type, such as a Content-Type with parameters.

    >>> [page_type(one) for one in ("text/html; charset=utf-8", "Text/X-Rust", "image/svg+xml")]
    ['html', 'text', 'xml']
    >>> page_type("application/octet-stream"), page_type(None)
    ('other', 'other')
    """
    name = (media_type or "").partition(";")[0].strip().lower()
    if name in _WORDS:
        return _WORDS[name]
    for word, beginning in BEGINNINGS.items():
        if name.startswith(beginning):
            return word
    return next((word for word, end in ENDINGS.items() if name.endswith(end)), OTHER)


def page_type_asked(text: str) -> str | None:
    """Return the word that a person means: one of the table, an ending or a media type.

    >>> [page_type_asked(text) for text in ("PDF", "md", ".docx", "text/html", "word")]
    ['pdf', 'markdown', 'docx', 'html', None]
    """
    name = text.strip().lower().removeprefix(".")
    if "/" in name:
        return page_type(name)
    return name if name in NAMED else _ALSO.get(name)
