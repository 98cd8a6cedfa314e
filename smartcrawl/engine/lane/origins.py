"""The lane's records of the origins (scheme, host and port) that it may request pages from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.utils.request import request_httprepr

from smartcrawl.engine.download.decoding import DecodingMiddleware
from smartcrawl.engine.download.network import GuardedResolver
from smartcrawl.model.urls import url_endpoint
from smartcrawl.run.strays import run_stray_origin

_MOST_FAILURES: Final = 3  #: failures of an origin, after which the engine asks its pages


@dataclass(slots=True)
class Origin:
    """The lane's record of a scheme, host and port."""

    name: str
    refused: bool  #: whether the address guard refuses it
    size: int  #: bytes of a request without its path and its conditional headers
    failures: int = 0


class Origins:
    """Keeps the record of each origin; ``headers`` are sent with every request."""

    def __init__(self, resolver: GuardedResolver, headers: Mapping[str, str]) -> None:
        self._resolver = resolver
        self._headers = headers
        self._origins: dict[str, Origin] = {}

    def usable(self, url: str) -> Origin | None:
        """Return the origin of a URL, or None where the lane must not send requests."""
        name = run_stray_origin(url)
        origin = self._origins.get(name)
        if origin is None:
            refusal = self._resolver.refusal(*url_endpoint(url))
            sent = {key: value.encode("latin-1") for key, value in self._headers.items()}
            size = len(request_httprepr(Request(f"{name}/", headers=sent)))
            size -= len(name) + 1  # a flight adds the length of its whole URL
            origin = self._origins[name] = Origin(name, refusal is not None, size)
        return None if origin.refused or origin.failures >= _MOST_FAILURES else origin


def lane_request_headers(middlewares: Any) -> dict[str, str]:
    """Return the headers that the engine's middlewares add to every request."""
    request = Request("http://localhost/")
    for middleware in middlewares:
        if isinstance(
            middleware, DefaultHeadersMiddleware | UserAgentMiddleware | DecodingMiddleware
        ):
            middleware.process_request(request)
    return {
        name.decode("latin-1"): b",".join(values).decode("latin-1")
        for name, values in request.headers.items()
    }
