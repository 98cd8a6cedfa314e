"""The class of a request: which rate limit counts it (R2-07), and which scope it needs."""

from __future__ import annotations

from enum import Enum
from typing import Final

from smartcrawl.server.keys import Scope

#: Paths of documents and searches.
_DATA: Final = ("/api/v1/documents/", "/api/Search/", "/mcp/")
#: Paths that read with any method; a tool that changes something asks for its scope itself.
_READING: Final = ("/mcp/",)
#: Paths that act with any method.
_ACTING: Final = ("/v2/crawler/",)
#: Paths that change every page at once.
_ADMIN: Final = ("/api/RebuildIndex/",)
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RateClass(Enum):
    """The three kinds of endpoints with a limit of their own."""

    JOBS = "jobs"
    DATA = "data"
    MONITORING = "monitoring"


def api_request_changes_something(method: str, path: str) -> bool:
    """Whether a request may change something.

    >>> api_request_changes_something("GET", "/v2/crawler/crawl")
    True
    >>> api_request_changes_something("GET", "/api/v1/jobs")
    False
    >>> api_request_changes_something("POST", "/mcp")
    False
    """
    return _is_at(path, _ACTING) or (method not in _SAFE and not _is_at(path, _READING))


def api_request_acts_by_reading(method: str, path: str) -> bool:
    """Whether a request may change something although its method only reads.

    >>> api_request_acts_by_reading("GET", "/v2/crawler/crawl")
    True
    >>> api_request_acts_by_reading("POST", "/v2/crawler/crawl")
    False
    """
    return method in _SAFE and api_request_changes_something(method, path)


def api_rate_class(method: str, path: str) -> RateClass:
    """Return the class whose limit counts a request.

    >>> api_rate_class("GET", "/api/v1/documents/1f"), api_rate_class("GET", "/api/SearchStatus")
    (<RateClass.DATA: 'data'>, <RateClass.MONITORING: 'monitoring'>)
    """
    if api_request_changes_something(method, path):
        return RateClass.JOBS
    return RateClass.DATA if _is_at(path, _DATA) else RateClass.MONITORING


def api_scope_needed(method: str, path: str) -> Scope:
    """Return the least scope for a request.

    >>> api_scope_needed("POST", "/api/RebuildIndex").name, api_scope_needed("GET", "/metrics").name
    ('ADMIN', 'READ')
    """
    if _is_at(path, _ADMIN):
        return Scope.ADMIN
    return Scope.OPERATE if api_request_changes_something(method, path) else Scope.READ


def _is_at(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these places, or below one; each ends with a slash."""
    return f"{path}/".startswith(places)
