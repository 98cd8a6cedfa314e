"""Errors of jobs and of other requests; the routes put them into the envelope of R2-09."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.sources.fields import NAME

INVALID_INPUT: Final = "INVALID_INPUT"
INVALID_CONFIG: Final = "INVALID_CONFIG"
INVALID_URL: Final = "INVALID_URL"
NOT_FOUND: Final = "NOT_FOUND"
CONFLICT: Final = "CONFLICT"
#: The message of each code (R2-10, R2-11).
_MESSAGES: Final = {
    INVALID_INPUT: "Request validation failed",
    INVALID_CONFIG: "Crawl configuration is invalid",
    INVALID_URL: "URL format is invalid",
    NOT_FOUND: "Crawl job not found",
    CONFLICT: "The job is in another state",
}
#: Parts of a definition whose errors are INVALID_CONFIG.
_CONFIGURES: Final = ("config", "filters", "schedule")
_OBJECTS: Final = ("model_type", "model_attributes_type", "dict_type")
_SUBJECT: Final = re.compile("(Input|String|List) should")
_LONGEST: Final = 255  #: characters of an unknown key that is repeated


class JobError(SmartcrawlError):
    """A request about jobs that is refused; ``message`` None: the one of the code."""

    def __init__(
        self, code: str, *, field: str | None = None, reason: str, message: str | None = None
    ) -> None:
        self.code = code
        self.message = _MESSAGES[code] if message is None else message
        self.field = field
        self.reason = reason
        super().__init__(f"{self.message}: {reason}")


def job_error_of_defect(defect: Mapping[str, Any], path: tuple[str | int, ...]) -> JobError:
    """Return an error of pydantic about a request; no text of the request is repeated.

    ``path``: of the value in the request. Its key decides the code (R2-10, R2-11).
    """
    kind = defect["type"]
    code = INVALID_CONFIG if path and path[0] in _CONFIGURES else INVALID_INPUT
    names = [part for part in path if isinstance(part, str)]
    if kind == "extra_forbidden":
        key = names.pop()
        what = f"a key of {names[-1] if names else 'the request'}"
        if NAME.fullmatch(key) and len(key) <= _LONGEST:
            names.append(key)
            what = key
        reason = f"{what} is not known: /openapi.json lists what is"
    elif kind == "missing":
        reason = f"{_place(path) if path else 'a JSON body'} is missing"
    else:
        reason = _reason(defect, path)
        if names[-1:] == ["url"] or (path[:1] == ("seed_urls",) and len(path) > 1):
            code = INVALID_URL
    return JobError(code, field=names[-1] if names else None, reason=reason)


def _reason(defect: Mapping[str, Any], path: tuple[str | int, ...]) -> str:
    """Return the sentence about a value; a rule of ours may have it whole."""
    text = str(defect["msg"])
    if defect["type"] == "value_error":
        text = str(defect["ctx"]["error"])
    elif defect["type"] in _OBJECTS:
        text = "must be a JSON object"
    text = _SUBJECT.sub("must", text)
    return f"{_place(path)} {text}" if text.startswith("must") else text


def _place(path: tuple[str | int, ...]) -> str:
    """Return the place of a value: its key, or the whole place in a list.

    >>> [_place(path) for path in ((), ("config", "max_depth"), ("urls", 3, "url"))]
    ['the body', 'max_depth', 'urls[3].url']
    """
    lists = [place - 1 for place, part in enumerate(path) if isinstance(part, int)]
    first = lists[0] if lists else max(0, len(path) - 1)
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[first:])
    return "".join(parts).removeprefix(".") or "the body"
