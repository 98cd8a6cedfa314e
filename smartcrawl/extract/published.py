"""When a page was published, and who wrote it, where it says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from smartcrawl.extract.reader import SeenMarkup
from smartcrawl.extract.sections import markup_line

MAX_AUTHOR: Final = 200  #: characters
_MAX_AUTHORS: Final = 10
_MAX_DATA: Final = 262_144  #: characters of a script with data
_MAX_OBJECTS: Final = 1_000  #: of such a script that are looked at
_LATEST: Final = 4_102_444_800  #: Unix seconds: the year 2100; a later date is a mistake


class Publication(NamedTuple):
    """What a page says of its publication."""

    published: int | None = None  #: Unix seconds
    author: str = ""


def page_publication(seen: SeenMarkup) -> Publication:
    """Return when a page was published and by whom.

    A date is that of ``article:published_time``, else of JSON-LD, else of a ``<time>`` that says
    that it is the publication's, else the first in the only article. An author is that of JSON-LD,
    else of the meta elements ``author`` and ``article:author``; an address is no name.
    """
    if not seen.said and not seen.data:
        return Publication()
    said = seen.said
    objects = [one for text in seen.data for one in _objects(text)]
    dates = [said.get("article:published_time", "")]
    dates += [one["datePublished"] for one in objects if isinstance(one.get("datePublished"), str)]
    dates += [said.get("time published", ""), said.get("date", "")]
    if len(seen.articles) == 1:
        dates.append(said.get("time", ""))
    names = [_names(one.get("author")) for one in objects if "datePublished" in one]
    names += [said.get("author", ""), said.get("article:author", "")]
    published = next((at for at in map(unix_time, dates) if at is not None), None)
    return Publication(published, next((name for name in map(_name, names) if name), ""))


def unix_time(text: str) -> int | None:
    """Return a date of ISO 8601 in Unix seconds; without a zone it is UTC.

    >>> unix_time("2024-05-01"), unix_time("2024-05-01T10:00:00+02:00"), unix_time("yesterday")
    (1714521600, 1714550400, None)
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return int(at) if 0 <= at <= _LATEST else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of JSON-LD, the outer ones first; nothing of what is no JSON."""
    if len(text) > _MAX_DATA:
        return
    try:
        waiting: list[Any] = [json.loads(text, strict=False)]
    except (ValueError, RecursionError):
        return
    for one in waiting:  # grows
        if len(waiting) > _MAX_OBJECTS:
            return
        if isinstance(one, dict):
            yield one
            waiting += (one.get("@graph"), one.get("mainEntity"))
        elif isinstance(one, list):
            waiting += one


def _names(author: Any) -> str:
    """Return the names of authors in JSON-LD: texts, objects with a name, or lists of these."""
    some = author if isinstance(author, list) else [author]
    names = [one.get("name") if isinstance(one, dict) else one for one in some[:_MAX_AUTHORS]]
    return ", ".join(dict.fromkeys(name for name in names if isinstance(name, str)))


def _name(text: str) -> str:
    """Return a name as one line; nothing of an address."""
    line = markup_line(text.replace("\0", " "))
    return "" if "://" in line else line[:MAX_AUTHOR].rstrip()
