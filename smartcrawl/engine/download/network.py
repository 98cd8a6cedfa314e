"""The guard of connections (``rules.connections``) in Twisted's resolver.

Every connection passes the resolver, address literals included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.resolver import CachingHostnameResolver
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IResolutionReceiver
from zope.interface import implementer

from smartcrawl.engine.project_settings import end_scrapy_process
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_argument
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import (
    METADATA_NAMES,
    ConnectionGuard,
    SeedReach,
    bare_connection_host,
    literal_connection_address,
)
from smartcrawl.run.run import Run
from smartcrawl.sources.web_client import Proxy


class GuardedResolver(CachingHostnameResolver):
    """Twisted's name resolver, giving allowed addresses only (TWISTED_DNS_RESOLVER).

    It is installed once per process and guards from the first ``protect`` of a run; a plain
    spider of the user's own may connect to any address. Connections go to the addresses that it
    gives, without another look-up. ``refused`` has the reason by host and port, which
    distinguishes a refusal from a failed look-up.
    """

    def __init__(self, reactor: ReactorBase, cache_size: int) -> None:
        super().__init__(reactor, cache_size)
        self.guard = ConnectionGuard()
        self.guarding = False
        self.refused: dict[tuple[str, int], str] = {}
        self.learnt: Callable[[str, SeedReach], None] | None = None  #: stores the reach of a name

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> Self:
        """Read ALLOW_NETWORKS and ALLOW_PORTS, once."""
        resolver = super().from_crawler(crawler, reactor)
        try:
            options = Options.of(crawler.settings)
        except SettingError as error:  # before there is any spider
            end_scrapy_process(error)
        resolver.guard = ConnectionGuard(options.allow_networks, options.allow_ports)
        return resolver

    def protect(
        self, endpoints: Iterable[tuple[str, int]], ports: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Guard from now on, and permit these (host, port) pairs.

        ``endpoints`` were named by the operator, such as seeds, and may resolve to anything;
        ``ports`` belong to hosts that the source names with them.
        """
        self.guarding = True
        for host, port in endpoints:
            self.guard.permit(host, port)
        for host, port in ports:
            self.guard.permit_port(host, port)

    def hold(
        self,
        reaches: Mapping[str, SeedReach | None],
        learnt: Callable[[str, SeedReach], None] | None,
    ) -> None:
        """Hold the names of seeds to their reaches; ``learnt`` stores one that is new."""
        self.learnt = learnt
        for host, reach in reaches.items():
            self.guard.hold(host, reach)

    def answer_refusal(self, addresses: Sequence[str], host: str, port: int) -> str | None:
        """Return why a host that resolved to ``addresses`` is refused; learn its reach if not."""
        for address in addresses:
            if (refusal := self.guard.refusal(address, host=host, port=port)) is not None:
                return refusal
        name = bare_connection_host(host)
        if (refusal := self.guard.reach_refusal(addresses, host=host, port=port)) is not None:
            return f"{refusal}; to permit that name: {program_argument('allow_private', name)}"
        reach = self.guard.learn(addresses, host=host)
        if reach is not None and self.learnt is not None:
            self.learnt(name, reach)
        return None

    def refusal(self, host: str, port: int) -> str | None:
        """Return why a host is refused by its spelling, without a look-up: literals and names."""
        if not self.guarding:
            return None
        bare = bare_connection_host(host)
        if bare.rstrip(".") in METADATA_NAMES or literal_connection_address(bare) is not None:
            return self.guard.refusal(bare, host=bare, port=port)
        return None  # judged when it is resolved

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        """Resolve a name or pass a literal on, without the addresses that the guard refuses."""
        receiver: Any = resolutionReceiver
        if self.guarding:
            receiver = _Filter(resolutionReceiver, self, hostName, portNumber)
        return super().resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )


@implementer(IResolutionReceiver)
class _Filter:
    """Passes the addresses of a host on if all of them are allowed, otherwise none.

    A mixture of allowed and forbidden addresses is the sign of an attack, not of a network.
    """

    def __init__(self, receiver: Any, resolver: GuardedResolver, host: str, port: int) -> None:
        self._receiver = receiver
        self._resolver = resolver
        self._host = host
        self._port = port
        self._found: list[Any] = []

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        self._receiver.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: Any) -> None:
        self._found.append(address)

    def resolutionComplete(self) -> None:
        key = bare_connection_host(self._host), self._port
        addresses = [address.host for address in self._found]
        refusal = self._resolver.answer_refusal(addresses, self._host, self._port)
        if refusal is None:
            self._resolver.refused.pop(key, None)
            for address in self._found:
                self._receiver.addressResolved(address)
        else:
            self._resolver.refused[key] = refusal
        self._receiver.resolutionComplete()


@implementer(IResolutionReceiver)
class _Found:
    """Gathers the addresses of a host until the look-up is complete."""

    def __init__(self, done: Deferred[list[str]]) -> None:
        self._done = done
        self._addresses: list[str] = []

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        pass

    def addressResolved(self, address: Any) -> None:
        self._addresses.append(address.host)

    def resolutionComplete(self) -> None:
        self._done.callback(self._addresses)


async def resolve_allowed_addresses(resolver: GuardedResolver, host: str, port: int) -> list[str]:
    """Look a host up; return the addresses that may be connected to, none if it is refused."""
    done: Deferred[list[str]] = Deferred()
    resolver.resolveHostName(_Found(done), host, port)
    return await maybe_deferred_to_future(done)


async def resolve_for_proxy(resolver: GuardedResolver, host: str, port: int) -> str | None:
    """Look a host up that a proxy will connect to; return why it is refused, None if it is not.

    A name that cannot be resolved here is not refused: the proxy may know it.
    """
    await resolve_allowed_addresses(resolver, host, port)
    return resolver.refused.get((bare_connection_host(host), port))


class AddressCheck:
    """Judges the address of each request, before it is sent."""

    def __init__(self, resolver: GuardedResolver | None, *, proxied: bool = False) -> None:
        self._resolver = resolver
        self._proxied = proxied  #: whether proxies of the environment make the connections
        self._looked_up: dict[tuple[str, int], str | None] = {}  #: refusals of proxied hosts

    async def refusal(self, url: str, *, proxied: bool) -> str | None:
        """Return why a request may not be sent, None when it may.

        ``proxied``: whether the request names a proxy. The hosts of such requests are looked up
        once, because the resolver does not see them.
        """
        if not url.startswith(("http://", "https://")):
            scheme = url.partition(":")[0]
            return f"scheme not allowed: {scheme}"
        resolver = self._resolver
        if resolver is None:
            return None
        host, port = url_endpoint(url)
        refusal = resolver.refusal(host, port)
        if refusal is not None or not (self._proxied or proxied):
            return refusal
        if (host, port) not in self._looked_up:
            self._looked_up[host, port] = await resolve_for_proxy(resolver, host, port)
        return self._looked_up[host, port]


def protect_run_connections(run: Run, proxies: Iterable[tuple[str, int]] = ()) -> None:
    """Guard the connections of a run, and permit those to its seeds and to proxies."""
    resolver = installed_resolver()
    if resolver is None:
        return
    seeds = run.seeds
    resolver.hold(seeds.reaches(run.orders.allow_private), seeds.store_reach)
    resolver.protect([*seeds.endpoints(), *proxies], seeds.ports())


def downloads_have_proxies() -> bool:
    """Whether the environment names proxies."""
    return bool(getproxies())


def resolver_refusal(url: str) -> str | None:
    """Return why the host of ``url`` was refused when it was resolved."""
    resolver = installed_resolver()
    return resolver.refused.get(url_endpoint(url)) if resolver is not None else None


def installed_resolver() -> GuardedResolver | None:
    """Return the resolver of this process, or None where another one was configured."""
    from twisted.internet import reactor  # noqa: PLC0415  # importing it installs one

    resolver = getattr(reactor, "nameResolver", None)
    return resolver if isinstance(resolver, GuardedResolver) else None


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
                f"{name} gives the proxy {host} with a scheme other than http, which is "
                f"not supported: write http://, or add {urlsplit(url).hostname} to "
                "no_proxy"
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
