"""The address guard as the first thing that a request meets."""

from __future__ import annotations

from typing import Self
from urllib.request import getproxies

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured

from smartcrawl.model.exceptions import AddressRefusedError
from smartcrawl.model.urls import endpoint
from smartcrawl.network import GuardedResolver, installed_resolver, looked_up
from smartcrawl.run.run import run_of


class _RefusedError(AddressRefusedError, IgnoreRequest):
    """The same for Scrapy: no error of the spider, nothing to log."""


class AddressMiddleware:
    """Refuse what must not be connected to, as far as the address itself tells.

    Names are judged when they are resolved, by the resolver that connects (network). Literals,
    names of metadata services and schemes are judged here, before any handler has them; so is
    what a proxy would connect to in our place.
    """

    def __init__(self, resolver: GuardedResolver | None, *, proxied: bool = False) -> None:
        self._resolver = resolver
        self._proxied = proxied  #: whether proxies of the environment connect in our place
        self._judged: dict[tuple[str, int], str | None] = {}  #: what they would connect to

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the resolver of this process, for a spider that has a run."""
        if run_of(crawler) is None:
            raise NotConfigured("the spider has no run")
        enabled = crawler.settings.getbool("HTTPPROXY_ENABLED")
        return cls(installed_resolver(), proxied=enabled and bool(getproxies()))

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or refuse it.

        Raises:
            AddressRefusedError: it leads where no page of the web is.
        """
        url, resolver = request.url, self._resolver
        if not url.startswith(("http://", "https://")):
            scheme = url.partition(":")[0]
            raise _RefusedError(f"scheme not allowed: {scheme}")
        if resolver is None:
            return
        host, port = endpoint(url)
        refusal = resolver.refusal(host, port)
        if refusal is None and (self._proxied or "proxy" in request.meta):
            refusal = await self._judge(resolver, host, port)
        if refusal is not None:
            raise _RefusedError(refusal)

    async def _judge(self, resolver: GuardedResolver, host: str, port: int) -> str | None:
        """Look a name up that a proxy will connect to, once."""
        if (host, port) not in self._judged:
            self._judged[host, port] = await looked_up(resolver, host, port)
        return self._judged[host, port]
