"""The proxies of the environment for addresses that are no page's own: API and raw files."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.settings import BaseSettings

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.urls import url_endpoint
from smartcrawl.sources.github.api import Proxy

_CHOSEN = "_scheme_proxy"  #: in the meta of a request whose proxy is one of the environment
_OURS = (_CHOSEN, "proxy", "_auth_proxy")
_AUTHORIZATION = "Proxy-Authorization"


class EnvironmentProxies:
    """Chooses proxies as Scrapy's middleware does for pages, if HTTPPROXY_ENABLED is set."""

    def __init__(self, settings: BaseSettings) -> None:
        self._chooser: HttpProxyMiddleware | None = None
        if settings.getbool("HTTPPROXY_ENABLED"):
            self._chooser = HttpProxyMiddleware(settings["HTTPPROXY_AUTH_ENCODING"])

    def proxy_of(self, url: str) -> Proxy | None:
        """Return the proxy that connects to the host of a URL; None: this machine does.

        Raises:
            SettingError: it speaks TLS itself, which only Scrapy's requests for http can do.
        """
        request = Request(url)
        self.choose(request)
        found: Any = request.meta.get("proxy")
        if found is None:
            return None
        host, port = url_endpoint(found)
        if urlsplit(found).scheme != "http":
            name = f"{urlsplit(url).scheme}_proxy"
            raise SettingError(
                f"{name} names {host} by another scheme than http, which is not supported: name a"
                f" proxy by http://, or except {urlsplit(url).hostname} with no_proxy"
            )
        given = request.headers.get(_AUTHORIZATION)
        return Proxy(host, port, None if given is None else given.decode("latin-1"))

    def choose(self, request: Request) -> None:
        """Give a request the proxy of its own URL, in place of one of another URL.

        A proxy that a middleware of the user chose is left as it is.
        """
        if request.meta.get(_CHOSEN):
            for name in _OURS:
                request.meta.pop(name, None)
            request.headers.pop(_AUTHORIZATION, None)
        if self._chooser is not None:
            self._chooser.process_request(request)


def environment_proxy_endpoints(settings: BaseSettings) -> list[tuple[str, int]]:
    """Return host and port of each proxy of the environment, if HTTPPROXY_ENABLED is set."""
    if not settings.getbool("HTTPPROXY_ENABLED"):
        return []
    urls = [url if "//" in url else f"http://{url}" for url in getproxies().values()]
    return [url_endpoint(url) for url in urls]
