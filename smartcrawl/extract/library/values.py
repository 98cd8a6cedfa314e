"""Values of list fields, as REST and Graph give them, as the text of a cell."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from smartcrawl.model.markdown import clean_text

#: Around HTML in a cell; SharePoint itself puts rich text into such an element.
_RICH: Final = '<div class="ExternalClass'
_RICH_START: Final = f'{_RICH}">'
_RICH_END: Final = "</div>"
#: Keys of objects for people, lookups and terms, the best first.
_NAMES: Final = (
    "Title", "LookupValue", "displayName", "Label", "Value", "Name", "EMail", "Email", "FileName",
)  # fmt: skip
_JOIN: Final = "; "  #: between the values of one field
#: A note that is HTML: from a tag that rich text begins with to the end of another.
_IS_RICH: Final = re.compile(
    r"\s*<(?:a|b|blockquote|br|div|em|font|h[1-6]|i|img|ol|p|pre|span|strong|table|u|ul)[\s/>].*>\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_ZONED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")


def csv_cell_of_field(type_: str, value: Any) -> str:
    """Return the text of a field; empty for one without a value.

    People, lookups and terms are named by what people see of them, several values are joined by
    ``; ``, times are ISO 8601 in UTC, numbers have no exponent, a link has its address behind its
    description. HTML stays as it is within an element that shows what it is; a ``note`` is HTML if
    it is made of elements. ``type_`` may be written as SharePoint's ``TypeAsString``.

    Source: R3-57.
    """
    text = _text(type_.lower(), value)
    return clean_text(text.replace("\r\n", "\n")).strip()


def html_of_cell(cell: str) -> str | None:
    """Return the markup of a cell of HTML, None for one of plain text."""
    return cell if cell.startswith(_RICH) else None


def _text(type_: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "Yes" if value else "No"
        case str():
            return _of_string(type_, value)
        case int() | float():
            if type_ == "boolean":
                return "Yes" if value else "No"
            return _number(value)
        case list():
            texts = (" ".join(_text(type_, one).split()) for one in value)
            return _JOIN.join(filter(None, texts))
        case Mapping():
            if isinstance(value.get("results"), list):
                return _text(type_, value["results"])
            return _of_object(value)
        case _:
            raise TypeError(f"no value of JSON: {type(value).__name__}")


def _of_string(type_: str, value: str) -> str:
    match type_:
        case "html":
            return _rich(value)
        case "note" if _IS_RICH.match(value):
            return _rich(value)
        case "boolean":
            return {"1": "Yes", "true": "Yes", "0": "No", "false": "No"}.get(value.lower(), value)
        case "date" | "datetime" if _ZONED.fullmatch(value.strip()):
            return _time(value.strip())
        case _:
            return value


def _rich(value: str) -> str:
    """Return HTML in the element that marks it; empty where it has neither text nor images."""
    value = value.strip()
    if not value or value.startswith(_RICH):
        return value
    return f"{_RICH_START}{value}{_RICH_END}"


def _number(value: float) -> str:
    """Return a number without exponent, and without a fraction that is zero."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(value: str) -> str:
    """Return a time with its zone in UTC, without a fraction that is zero."""
    try:
        found = datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return value
    return found.isoformat().replace("+00:00", "Z")


def _of_object(value: Mapping[str, Any]) -> str:
    """Return the visible text of an object: a link, or the name of a person, item or term."""
    address = value.get("Url")
    if isinstance(address, str):
        described = value.get("Description")
        if isinstance(described, str) and described.strip() not in ("", address):
            return f"{described} ({address})"
        return address
    for name in _NAMES:
        if isinstance(value.get(name), str) and value[name].strip():
            return str(value[name])
    others = [one for key, one in value.items() if not _is_about(key) and _is_plain(one)]
    if others:
        return _text("", others[0])
    return _text("", value.get("Id", value.get("LookupId")))


def _is_about(key: str) -> bool:
    """Whether a key is data about an object: its type, or an id."""
    return "odata" in key or key.startswith("__") or key.lower() in ("id", "lookupid", "wssid")


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""
