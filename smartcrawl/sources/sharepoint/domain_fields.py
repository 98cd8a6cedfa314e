"""The fields of a domain.json: checks and messages (R3-08 to R3-10).

A message has the file, the key, the reason and the remedy. All problems of a file are collected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from smartcrawl.model.library import SourceType
from smartcrawl.model.urls import request_url
from smartcrawl.sources.fields import declared_field_text
from smartcrawl.sources.sharepoint.paths import sharepoint_path_problem

DOMAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  #: of a domain and of a source
DOMAIN_ID_RULE: Final = "1 to 64 letters, digits, '_' and '-'"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class DomainPlace(NamedTuple):
    """The place of a field, for messages."""

    path: Path
    key: str

    def sub(self, key: str) -> DomainPlace:
        """Return the place of a field of the object here."""
        return DomainPlace(self.path, f"{self.key}.{key}")

    def __str__(self) -> str:
        return f"{self.path}: {self.key}"


def sharepoint_json_type(value: object) -> str:
    """Return the name of the type of a JSON value."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return "an object"


def declared_domain_text(at: DomainPlace, value: object, problems: list[str]) -> str:
    """Return a text; a problem is noted, and then it is empty."""
    if not isinstance(value, str):
        problems.append(f"{at} is {sharepoint_json_type(value)}: it takes a text in quotes")
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        problems.append(f"{at} has half of a surrogate pair: write the whole character")
        return ""
    return value


def declared_library_tables(
    path: Path, source_type: SourceType, content: Mapping[str, Any], problems: list[str]
) -> list[object]:
    """Return the sources of one kind as they are declared."""
    given = content.get(source_type, [])
    if isinstance(given, list):
        return given
    problems.append(
        f"{path}: {source_type} is {sharepoint_json_type(given)}: it takes a list of objects"
    )
    return []


def declared_library_source(
    at: DomainPlace, source_type: SourceType, table: object, problems: list[str]
) -> dict[str, Any]:
    """Return the fields of a declared source; a field with a problem is left out."""
    if not isinstance(table, dict):
        problems.append(
            f"{at} is {sharepoint_json_type(table)}: it takes an object with source_id and site_url"
        )
        return {}
    checks = {"source_id": _checked_id, "site_url": _checked_site_url, "filter": _checked_filter}
    if source_type is SourceType.LISTS:
        checks["list_name"] = _checked_list_name
    else:
        checks["sharepoint_url_part"] = _checked_url_part
    fields: dict[str, Any] = {"source_type": source_type}
    for key, check in checks.items():
        before = len(problems)
        if key not in table and key != "filter":
            problems.append(f"{at.sub(key)} is missing: give {_GIVE[key]}")
            continue
        text = declared_domain_text(at.sub(key), table.get(key, ""), problems)
        if len(problems) > before:
            continue
        try:
            fields["url_part" if key == "sharepoint_url_part" else key] = check(text)
        except ValueError as error:
            problems.append(f"{at.sub(key)} is {declared_field_text(text)}: {error}")
    return fields


#: What to give for a key that a source must have.
_GIVE: Final = {
    "source_id": f'{DOMAIN_ID_RULE}, as in "source01"',
    "site_url": 'the address of the site, as in "https://contoso.sharepoint.com/sites/MyProject"',
    "sharepoint_url_part": 'the path of the library in its address, as in "/Shared Documents"',
    "list_name": "the title of the list, as its page shows it",
}


def _checked_id(text: str) -> str:
    """Return a ``source_id``.

    Raises:
        ValueError: it contains other characters.
    """
    if not DOMAIN_ID.fullmatch(text):
        raise ValueError(f"it takes {DOMAIN_ID_RULE}")
    return text


def _checked_site_url(text: str) -> str:
    """Return the URL of a site as it is requested, without a slash at its end.

    Raises:
        ValueError: it is no address of a site.
    """
    url = request_url(text)
    if url is None or "?" in text or "#" in text:
        raise ValueError(f"it takes {_GIVE['site_url']}, without ? and #")
    parts = urlsplit(url)
    if "@" in text.partition("//")[2].partition("/")[0]:
        raise ValueError("it has a user name or password: remove it, credentials are settings")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("it is not encrypted: write https, http is for this machine only")
    path = unquote(text.partition("//")[2].partition("/")[2]).rstrip("/")
    if path and (problem := sharepoint_path_problem(path)) is not None:
        raise ValueError(f"{problem}: give {_GIVE['site_url']}")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name
        return False


def _checked_url_part(text: str) -> str:
    """Return the path of a library in its site, without a slash at its end.

    A percent sign is a character of its name: the path is written as people read it.

    Raises:
        ValueError: it is no such path.
    """
    if not text.startswith("/") or text == "/":
        raise ValueError(f"it takes {_GIVE['sharepoint_url_part']}, which begins with a slash")
    if "?" in text:
        raise ValueError("it has a query: give the path alone, without ? and what follows it")
    if _CONTROL.search(text):
        raise ValueError("it has a control character: remove it")
    part = text.rstrip("/")
    problem = sharepoint_path_problem(part[1:])
    if problem is not None:
        raise ValueError(f"{problem}: give {_GIVE['sharepoint_url_part']}")
    return part


def _checked_list_name(text: str) -> str:
    """Return the title of a list.

    Raises:
        ValueError: it is empty or has a control character.
    """
    if not text.strip():
        raise ValueError(f"it takes {_GIVE['list_name']}")
    if _CONTROL.search(text):
        raise ValueError("it has a control character: remove it")
    return text


def _checked_filter(text: str) -> str:
    """Return an OData expression, which is sent as it is; blanks alone are none.

    Raises:
        ValueError: it has a control character.
    """
    if _CONTROL.search(text):
        raise ValueError("it has a control character: write the expression on one line")
    return text if text.strip() else ""
