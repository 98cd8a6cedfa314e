"""A fetch by urllib, for tests against the SharePoint of tests/servers."""

import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from smartcrawl import settings as module
from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.sources.sharepoint.access import (
    LibraryAnswer,
    LibraryRequest,
    LibraryUnreachableError,
)
from tests.servers.sharepoint import SharepointServer

_SETTINGS = {name: getattr(module, name) for name in dir(module) if name.isupper()}


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class LoopbackFetch:
    """One connection a request; no repeats, no redirects."""

    def __init__(self, server: SharepointServer) -> None:
        context = ssl.create_default_context(cafile=server.ca_file)
        self._opener = build_opener(_Stay, HTTPSHandler(context=context), ProxyHandler({}))
        self.requests: list[LibraryRequest] = []

    def __call__(self, request: LibraryRequest) -> LibraryAnswer:
        self.requests.append(request)
        sent = Request(request.url, request.body, dict(request.headers), method=request.method)
        try:
            try:
                with self._opener.open(sent, timeout=5) as response:
                    return self._answer(response)
            except HTTPError as error:
                with error:
                    return self._answer(error)
        except (OSError, HTTPException) as error:
            raise LibraryUnreachableError(f"no whole answer ({error}); crawl again") from None

    def _answer(self, response: Any) -> LibraryAnswer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return LibraryAnswer(response.status, headers, response.read())


def options_of(found: dict[str, str], folder: Any, **more: Any) -> SharepointOptions:
    """Return the options of settings that differ from the shipped ones."""
    return SharepointOptions.of(_SETTINGS | found | more, folder)
