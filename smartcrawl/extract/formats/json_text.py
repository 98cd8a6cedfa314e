"""JSON: keys and values in reading order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from smartcrawl.extract.formats.common import (
    MAX_TEXT,
    check_document_text,
    clean_document_text,
    corrupt_document,
    document_too_large,
    parsed_document,
)
from smartcrawl.extract.sections import markup_line
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document, Section

_TITLES: Final = ("title", "name", "headline")  #: keys of the outermost object, best first

_MAX_JSON: Final = 5 * MAX_TEXT  #: characters, syntax included


class _Object(list[tuple[str, Any]]):
    """The pairs of an object; a key may occur twice."""


#: Numbers are kept as texts: Python refuses to parse more than 4,300 digits.
_AS_WRITTEN: Final[dict[str, Any]] = {
    "object_pairs_hook": _Object,
    "parse_int": str,
    "parse_float": str,
    "parse_constant": str,
}


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of JSON: ``key: value`` for plain values, else the key above its values.

    Numbers stay as they are written, ``null`` is no text.

    Raises:
        FormatError: CORRUPT if it does not parse, TOO_LARGE if it is nested too deep.

    Source: RFC 8259.
    """
    charset, text = decode_charset(body, content_type, markup=False)
    if len(text) > _MAX_JSON:
        raise document_too_large(f"the JSON has more than {_MAX_JSON:,} characters")
    try:
        value = json.loads(text, **_AS_WRITTEN)
    except ValueError as error:
        raise corrupt_document(f"not well-formed JSON: {error}") from error
    lines: list[str] = []
    size = 0
    for found in _lines(value):
        size += len(found) + 1
        check_document_text(size)
        lines.append(found)
    written = "\n".join(lines)
    return parsed_document(
        url=url,
        text=[Section(0, "", written)] if written else [],
        title=_title(value),
        charset=charset,
    )


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of ``value``, without recursion."""
    open_: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    while open_:
        entry = next(open_[-1], None)
        if entry is None:
            open_.pop()
            continue
        key, value = markup_line(clean_document_text(entry[0])), entry[1]
        if isinstance(value, list):
            pairs = value if isinstance(value, _Object) else [("", item) for item in value]
            open_.append(iter(pairs))
            plain = ""
        elif isinstance(value, bool):
            plain = str(value).lower()
        else:
            plain = clean_document_text(value).strip() if value is not None else ""
        if key or plain:
            yield f"{key}: {plain}" if key and plain else key or plain


def _title(value: Any) -> str:
    outermost = dict(value) if isinstance(value, _Object) else {}
    texts = (outermost.get(key) for key in _TITLES)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")
