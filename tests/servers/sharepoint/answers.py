"""Requests as the server reads them, and answers before they are sent.

| shape | source |
| --- | --- |
| `odata.error{code, message{lang, value}}` | SharePoint REST documentation, "Handle errors" |
| `-2147024860, …SPQueryThrottledException`, 500 | Microsoft support, list view threshold |
| `-2147024894, System.IO.FileNotFoundException`; `-1, …ResourceNotFoundException` | error texts \
that tests of several clients quote |
| `-2147024891, System.UnauthorizedAccessException`, 403 | likewise |
| `-2130575338, …SPException`; `…SPFileLockException`, 423 | quoted; that a download answers so \
is assumed |
| Graph `error{code, message, innerError}` | Graph documentation, "Error responses" |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from tests.servers.sharepoint.odata import options


@dataclass(frozen=True)
class Request:
    """One request; `origin` is that of the listener which got it."""

    method: str
    place: str  #: signin, rest, graph or content
    origin: str
    path: str  #: not decoded
    query: str  #: not decoded
    headers: dict[str, str] = field(repr=False)  #: names in lower case
    body: bytes = field(default=b"", repr=False)

    @property
    def options(self) -> dict[str, str]:
        return options(self.query)

    @property
    def target(self) -> str:
        """Path and query, decoded: what patterns of faults and of the log are matched with."""
        return unquote(self.path) + (f"?{unquote(self.query)}" if self.query else "")


@dataclass(frozen=True)
class Answer:
    """An answer; `payload` is the JSON that becomes its body, where a fault may edit it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    payload: dict[str, Any] | None = None
    cut: bool = False  #: send half of the body only, and close
    closed: bool = False  #: close without an answer
    delay: float = 0  #: seconds

    def settled(self) -> Answer:
        """Return it with the body of its payload."""
        if self.payload is None:
            return self
        body = json.dumps(self.payload, ensure_ascii=False).encode()
        return replace(self, body=body, payload=None)


def as_json(payload: dict[str, Any], media: str, status: int = 200, **headers: str) -> Answer:
    return Answer(status, b"", {"Content-Type": media, **headers}, payload)


@dataclass(frozen=True)
class RestError(Exception):
    """An error of the REST interface."""

    status: int
    code: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    def answer(self, verbose: bool = False) -> Answer:
        inner = {"code": self.code, "message": {"lang": "en-US", "value": self.message}}
        form = "verbose" if verbose else "minimalmetadata"
        media = f"application/json;odata={form};streaming=true;charset=utf-8"
        payload = {"error" if verbose else "odata.error": inner}
        return as_json(payload, media, self.status, **self.headers)


@dataclass(frozen=True)
class GraphError(Exception):
    """An error of Graph."""

    status: int
    code: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    def answer(self) -> Answer:
        inner = {
            "date": "2026-01-02T03:04:05",
            "request-id": "5b0e7f0e-8f0f-4b0c-9c66-7a4e1ad6a001",
            "client-request-id": "5b0e7f0e-8f0f-4b0c-9c66-7a4e1ad6a001",
        }
        error = {"code": self.code, "message": self.message, "innerError": inner}
        return as_json({"error": error}, "application/json", self.status, **self.headers)


def no_list(title: str) -> RestError:
    return RestError(
        404,
        "-1, System.ArgumentException",
        f"List '{title}' does not exist at site with URL.",
    )


def no_file(url: str = "") -> RestError:
    text = f"The file {url} does not exist." if url else "File Not Found."
    return RestError(404, "-2147024894, System.IO.FileNotFoundException", text)


def no_resource() -> RestError:
    code = "-1, Microsoft.SharePoint.Client.ResourceNotFoundException"
    return RestError(404, code, "Cannot find resource for the request.")


def throttled_query() -> RestError:
    return RestError(
        500,
        "-2147024860, Microsoft.SharePoint.SPQueryThrottledException",
        "The attempted operation is prohibited because it exceeds the list view threshold.",
    )


def denied() -> RestError:
    return RestError(
        403,
        "-2147024891, System.UnauthorizedAccessException",
        "Access denied. You do not have permission to perform this action or access this resource.",
    )


def locked(name: str) -> RestError:
    return RestError(
        423,
        "-2147018894, Microsoft.SharePoint.SPFileLockException",
        f'The file "{name}" is locked for exclusive use by Ada Lovelace.',
    )


Work = Callable[[Request], Answer]
