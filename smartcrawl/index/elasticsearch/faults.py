"""Errors of an Elasticsearch as messages with remedies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from smartcrawl.index.elasticsearch import library
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.patience import AwayError, Patience
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_line

#: Statuses after which the same request may succeed: overload, a proxy, a node that starts.
PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
#: Statuses that concern the user, not a document.
FORBIDDEN: Final = frozenset({401, 403})
REBUILD: Final = f"to rebuild it from the registry: {program_name()} reindex --from-registry"
_PRESSURE: Final = re.compile(r"_operation_bytes=(\d+), max_\w*bytes=(\d+)")


_T = TypeVar("_T")


def index_patience(most: float, server: str, **others: Any) -> Patience:
    """Return the patience for an Elasticsearch; ``most`` is SINK_WAIT_SECONDS.

    ``others``: as of Patience.
    """

    def spent(failure: AwayError, gone: float) -> SinkError:
        return SinkError(
            f"{server} took nothing for {gone:.0f} s (SINK_WAIT_SECONDS): {failure}. Nothing is"
            " lost: start the run again when it answers, and it goes on where it stopped"
        )

    return Patience(most, server, spent, **({"first": 0.5, "step": 1.0} | others))


def index_answer(name: str, request: Callable[[], _T], patience: Patience | None = None) -> _T:
    """Return the answer to a request, repeated while its errors may pass.

    ``name`` is the server. Without patience, or with one of no time, it is sent once.

    Raises:
        SinkError: the request is refused, or the wait takes too long. The run can be resumed.
    """

    def asked() -> _T:
        try:
            return request()
        except (library.ApiError, library.TransportError) as error:
            if not (patience and patience.most and is_passing_index_fault(error)):
                raise index_refusal(error, name) from error
            raise AwayError(index_fault_reason(error)) from error

    return asked() if patience is None else patience.ask(asked)


def is_passing_index_fault(error: library.ApiError | library.TransportError) -> bool:
    """Whether the same request may succeed later: nothing was wrong with it."""
    if isinstance(error, library.ApiError):
        return (
            not isinstance(error, library.UnsupportedProductError) and error.meta.status in PASSING
        )
    return not isinstance(error, library.SSLError)


def index_fault_reason(error: library.ApiError | library.TransportError) -> str:
    """Return the reason of an error, on one line, without secrets."""
    if isinstance(error, library.UnsupportedProductError):
        return "it does not say that it is an Elasticsearch"
    if isinstance(error, library.ApiError):
        return f"status {error.meta.status}, {index_error_text(error.body)}"
    if isinstance(error, library.ConnectionTimeout):
        return "no answer in time"
    cause = str(error.errors[-1] if error.errors else error.message)
    return redacted_line(cause.rpartition("] ")[2].rpartition("): ")[2])[:300]


def is_elasticsearch_request_too_large(error: library.ApiError) -> bool:
    """Whether the server never takes a request of this size, however long it is waited for.

    A status 429 says so by two numbers: the request's bytes, and a smaller limit for all requests
    together (``indexing_pressure.memory.limit``, a tenth of the server's memory by default).
    """
    if error.meta.status == 413:
        return True
    found = _PRESSURE.search(index_error_text(error.body)) if error.meta.status == 429 else None
    return found is not None and int(found[1]) > int(found[2])


def index_error_text(body: Any) -> str:
    """Format the error in the body of an answer, or in one of its items."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return redacted_line(str(error))[:300] or "without a reason"
    parts = [error.get("type"), error.get("reason")]
    cause = error.get("caused_by")
    if isinstance(cause, dict):
        parts.append(cause.get("reason"))
    return redacted_line(": ".join(str(part) for part in parts if part))[:600] or "without a reason"


def index_refusal(error: library.ApiError | library.TransportError, name: str) -> SinkError:
    """Return the error with its remedy; ``name`` is the server that refused."""
    why = index_fault_reason(error)
    if isinstance(error, library.UnsupportedProductError):
        return SinkError(f"the server at {name} is not an Elasticsearch: correct ELASTICSEARCH_URL")
    if isinstance(error, library.SSLError):
        return SinkError(
            f"{name} cannot be trusted, or talks without TLS: {why}; name the certificate that"
            " signed its own in ELASTICSEARCH_CA_CERTS, or write http:// in ELASTICSEARCH_URL"
        )
    if not isinstance(error, library.ApiError):
        return SinkError(f"{name} cannot be reached: {why}; start it, or correct ELASTICSEARCH_URL")
    match error.meta.status:
        case 401:
            return SinkError(
                f"{name} does not know this user: {why}; correct ELASTICSEARCH_API_KEY, or"
                " ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD"
            )
        case 403:
            return index_forbidden(name, why)
        case 404:
            return index_missing(name, why)
        case _ if is_passing_index_fault(error):
            return SinkError(f"{name} is not ready: {why}; try again when it is")
        case _:
            return SinkError(f"{name} refused a request: {why}")


def index_forbidden(name: str, why: str) -> SinkError:
    """Return the error of a user without the right to write, or of a blocked index."""
    return SinkError(
        f"{name} does not let this user write: {why}; give the user or API key the right to"
        " manage index templates, and all rights to the indices of ELASTICSEARCH_INDEX_PREFIX,"
        " and take write blocks off them"
    )


def index_unreadable(name: str, error: library.ApiError, prefix: str) -> SinkError:
    """Return the error of a user without the right to search."""
    return SinkError(
        f"{name} does not let this user read: {index_fault_reason(error)}; give the user or API key"
        f" the rights read and view_index_metadata of {prefix} and {prefix}-*"
    )


def index_missing(name: str, why: str) -> SinkError:
    """Return the error of an index that has disappeared."""
    return SinkError(f"{name} lacks what this registry wrote: {why}; {REBUILD}")
