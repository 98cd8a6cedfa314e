"""Faults that tests script: which request of a pattern goes wrong, and how.

server.fail("429", "/items", retry_after=1)             # the next one
server.fail("503", r"/items", nth=2, times=3)           # the second, third and fourth
server.fail("cut", r"\\$value", times=None)              # each
server.fail("edit", "/items", edit=lambda payload: payload["value"].pop())

| kind | what is answered |
| --- | --- |
| a number, e.g. `429`, `503`, `500`, `403`, `404`, `423` | that status, with `Retry-After` if \
`retry_after` is given (SharePoint documentation, "Avoid getting throttled") |
| `expired` | 401 of an expired token |
| `html` | 200 with a page in place of JSON, as a proxy or a sign-in page does |
| `cut` | half of the body, and then the connection ends |
| `half` | half of the body, with a `Content-Length` that fits |
| `empty` | 200 without a body |
| `closed` | no answer at all |
| `slow` | the right answer after `seconds` |
| `foreign` | the next link leads to `host` |
| `circle` | the next link leads to the same request |
| `drop` | the item of the position `item` is left out |
| `broken` | the item of the position `item` lacks its ids |
| `redirect` | 302 to `location` |
| `edit` | the JSON, after `edit` has changed it |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from tests.servers.sharepoint.answers import Answer, GraphError, Request, RestError, Work

_NEXT = ("odata.nextLink", "@odata.nextLink", "__next")
_IDS = ("Id", "ID", "UniqueId", "id", "sharepointIds", "GUID")
_PAGE = b"<!DOCTYPE html><html><title>Sign in</title><body>Please sign in.</body></html>"


@dataclass
class Fault:
    """One fault, and the requests of its pattern that have been counted so far."""

    kind: str
    pattern: str  #: regular expression, searched in path and query, decoded
    nth: int = 1  #: the first of the matching requests that goes wrong
    times: int | None = 1  #: how many go wrong; None: all from there on
    place: str = ""  #: signin, rest, graph or content; empty: each
    retry_after: int | str | None = None
    seconds: float = 1.0
    host: str = "evil.example.com"
    location: str = "https://login.microsoftonline.com/"
    item: int = 0
    edit: Callable[[dict[str, Any]], Any] | None = None
    seen: int = field(default=0, init=False)
    hit: int = field(default=0, init=False)  #: how often it has struck

    def strikes(self, request: Request) -> bool:
        """Count a request, and say whether it goes wrong."""
        if self.place not in ("", request.place) or not re.search(self.pattern, request.target):
            return False
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.hit >= self.times):
            return False
        self.hit += 1
        return True

    def answer(self, request: Request, work: Work) -> Answer:
        """Return the answer that is wrong."""
        if self.kind.isdigit():
            return self._status(request, int(self.kind))
        match self.kind:
            case "expired":
                return self._expired(request)
            case "html":
                return Answer(200, _PAGE, {"Content-Type": "text/html; charset=utf-8"})
            case "empty":
                return Answer(200, b"", {"Content-Type": "application/json"})
            case "closed":
                return Answer(200, closed=True)
            case "redirect":
                return Answer(302, b"", {"Location": self.location})
        found = work(request)
        match self.kind:
            case "cut":
                return replace(found.settled(), cut=True)
            case "half":
                whole = found.settled()
                return replace(whole, body=whole.body[: len(whole.body) // 2])
            case "slow":
                return replace(found, delay=self.seconds)
        if found.payload is None:
            raise AssertionError(f"{self.kind} wants JSON: {request.target}")
        self._change(request, found.payload)
        return found

    def _change(self, request: Request, payload: dict[str, Any]) -> None:
        inner = payload.get("d", payload)
        rows = inner.get("value", inner.get("results"))
        link = next((name for name in _NEXT if name in inner), None)
        match self.kind:
            case "foreign" if link:
                parts = urlsplit(inner[link])
                inner[link] = parts._replace(netloc=self.host).geturl()
            case "circle" if link:
                query = f"?{request.query}" if request.query else ""
                inner[link] = f"{request.origin}{request.path}{query}"
            case "drop":
                del rows[self.item]
            case "broken":
                for name in _IDS:
                    rows[self.item].pop(name, None)
            case "edit" if self.edit is not None:
                self.edit(payload)
            case _:
                raise AssertionError(f"no fault {self.kind} of {request.target}")

    def _status(self, request: Request, status: int) -> Answer:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if request.place == "graph":
            codes = {403: "accessDenied", 404: "itemNotFound", 423: "resourceLocked"}
            codes |= {429: "activityLimitReached", 503: "serviceNotAvailable"}
            code = codes.get(status, "generalException")
            return GraphError(status, code, f"The answer is {status}.", headers).answer()
        if request.place == "content" or status in (429, 503):
            media = {"Content-Type": "text/html"}
            return Answer(status, b"<h1>The server is busy.</h1>", headers | media)
        codes = {
            403: "-2147024891, System.UnauthorizedAccessException",
            404: "-2147024894, System.IO.FileNotFoundException",
            423: "-2147018894, Microsoft.SharePoint.SPFileLockException",
        }
        code = codes.get(status, "-1, Microsoft.SharePoint.SPException")
        return RestError(status, code, f"The answer is {status}.", headers).answer()

    def _expired(self, request: Request) -> Answer:
        if request.place == "graph":
            text = "Lifetime validation failed, the token is expired."
            return GraphError(401, "InvalidAuthenticationToken", text).answer()
        body = b'{"error_description":"Invalid JWT token. The token is expired."}'
        return Answer(401, body, {"Content-Type": "application/json"})
