"""The guard of connections (``rules.connections``) in Twisted's resolver, and certificates.

Every connection passes the resolver, address literals included.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies

from cryptography import x509
from OpenSSL import SSL, _util
from OpenSSL.crypto import X509
from scrapy import Request
from scrapy.core.downloader.contextfactory import _ScrapyClientContextFactory
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.resolver import CachingHostnameResolver
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.ssl import _make_ssl_context
from service_identity.hazmat import DNS_ID, IPAddress_ID, ServiceID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IOpenSSLClientConnectionCreator,
    IResolutionReceiver,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from smartcrawl.engine.project_settings import end_scrapy_process
from smartcrawl.model.exceptions import CertificateError, SettingError, SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_argument
from smartcrawl.model.urls import url_endpoint
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.names import stored_source_names
from smartcrawl.rules.connections import (
    METADATA_NAMES,
    ConnectionGuard,
    SeedReach,
    bare_connection_host,
    literal_connection_address,
)
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.client_certificates import ClientCertificate
from smartcrawl.sources.proxies import Proxy, proxy_of_source
from smartcrawl.sources.trust import CertificateTrust

#: OpenSSL's numbers of errors in a chain (openssl-verification-options(1)).
_NOT_YET, _EXPIRED = 9, 10
_SELF_SIGNED, _SELF_SIGNED_ROOT = 18, 19
_NO_ISSUER: Final = frozenset({2, 20, 21, 27})
_SHOWN: Final = 3  #: names of a certificate that a message lists
_LONGEST: Final = 100  #: characters of a name in a message

_FIX: Final = "renew or correct the certificate at the server"
_TRUST: Final = "give the certificate of its authority with ca_file (CA_FILE)"
_CHAIN: Final = "have the server send its whole chain"
_OFF: Final = "or accept any certificate with verify_certificates = false (VERIFY_CERTIFICATES=0)"


def lane_tls_context(
    settings: BaseSettings,
    trust: CertificateTrust,
    certificate: ClientCertificate | None = None,
) -> ssl.SSLContext:
    """Return the TLS context of connections over asyncio: those of the lane.

    Versions and ciphers are those of Scrapy's settings. ``certificate``: shown to the server.
    """
    context = _make_ssl_context(settings)
    context.check_hostname = False  # first: it would refuse CERT_NONE with a check of names
    context.verify_mode = ssl.CERT_REQUIRED if trust.verify else ssl.CERT_NONE
    context.check_hostname = trust.verify
    context.hostname_checks_common_name = False
    if trust.verify:
        context.load_default_certs()
        if trust.ca_file is not None:
            context.load_verify_locations(cafile=trust.ca_file)
    if certificate is not None:
        context.load_cert_chain(certificate.chain, certificate.key)
    return context


class ContextFactory(_ScrapyClientContextFactory):
    """TLS connections of Scrapy's engine, all from one context.

    Scrapy's own factory makes a context for each request. With verification each of them would
    load the authorities of the system.
    """

    trust = CertificateTrust()
    certificate: ClientCertificate | None = None  #: shown to the servers

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        """Return the creator of connections to a host."""
        return _Creator(self._shared, hostname.decode("ascii"), verify=self.trust.verify)

    @cached_property
    def _shared(self) -> SSL.Context:
        context = self._get_cert_options().getContext()
        if self.certificate is not None:
            context.use_certificate_chain_file(str(self.certificate.chain))
            context.use_privatekey_file(str(self.certificate.key))
        if not self.trust.verify:
            return context
        paths = ssl.get_default_verify_paths()  # as the lane, with SSL_CERT_FILE and SSL_CERT_DIR
        if paths.cafile or paths.capath:
            context.load_verify_locations(paths.cafile, paths.capath)
        else:
            context.set_default_verify_paths()
        if self.trust.ca_file is not None:
            context.load_verify_locations(str(self.trust.ca_file))
        return context


@implementer(IOpenSSLClientConnectionCreator)
class _Creator:
    """Creator of the TLS connections to one host."""

    def __init__(self, context: SSL.Context, host: str, *, verify: bool) -> None:
        self._context = context
        self._host = host.strip("[]").rstrip(".")  # the dot of the root is in no certificate
        self._verify = verify

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return a connection; a wrong certificate ends it with a CertificateError."""
        connection = SSL.Connection(self._context, None)
        if not _is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("ascii"))  # never for an address
        if self._verify:
            mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            connection.set_verify(mode, _verifier(tlsProtocol, self._host))
        else:
            connection.set_verify(SSL.VERIFY_NONE)
        return connection


def _verifier(protocol: Any, host: str) -> Callable[[SSL.Connection, X509, int, int, int], bool]:
    """Return the callback that verifies each certificate of a chain, the server's own last."""
    kept: list[Any] = [protocol]  # cleared at the end: OpenSSL keeps the callback

    def verified(_: SSL.Connection, found: X509, code: int, depth: int, ok: int) -> bool:
        problem = None
        try:
            if not ok:
                problem = download_tls_chain_problem(code, found.to_cryptography(), depth)
            elif depth == 0:
                problem = download_tls_name_problem(found, host)
        except Exception as error:  # noqa: BLE001  # OpenSSL would lose it, and trust the certificate
            problem = f"it cannot be read ({type(error).__name__}: {error}): {_FIX}, {_OFF}"
        if problem is not None:
            refusal: Any = CertificateError(f"the certificate of {host} was refused: {problem}")
            for transport in kept:
                transport.failVerification(Failure(refusal))  # type: ignore[no-untyped-call]
        if problem is not None or depth == 0:
            kept.clear()
        return problem is None

    return verified


def download_tls_chain_problem(code: int, found: x509.Certificate, depth: int) -> str:
    """Return the meaning of OpenSSL's error number for a certificate, and the remedy.

    ``depth`` is 0 for the server's own certificate, more for those of its authorities.
    """
    issuer = _shown(found.issuer.rfc4514_string())
    which = f"its authority ({_shown(found.subject.rfc4514_string())})" if depth else "it"
    if code == _EXPIRED:
        return f"{which} expired on {_day(found.not_valid_after_utc)}: {_FIX}, {_OFF}"
    if code == _NOT_YET:
        day = _day(found.not_valid_before_utc)
        return f"{which} is not valid before {day}: check this machine's clock, {_FIX}, {_OFF}"
    if code == _SELF_SIGNED:
        return f"it is self-signed ({issuer}): {_TRUST}, {_OFF}"
    if code == _SELF_SIGNED_ROOT:
        return f"its issuer is unknown, a self-signed authority ({issuer}): {_TRUST}, {_OFF}"
    if code in _NO_ISSUER:
        return f"its issuer is unknown ({issuer}): {_TRUST}, {_CHAIN}, {_OFF}"
    words = _util.ffi.string(_util.lib.X509_verify_cert_error_string(code)).decode()
    return f"{words} ({code}): {_FIX}, {_OFF}"


def download_tls_name_problem(found: X509, host: str) -> str | None:
    """Return why a certificate does not belong to a host, and the remedy; None: it does."""
    wanted: ServiceID = IPAddress_ID(host) if _is_address(host) else DNS_ID(host)
    try:
        verify_service_identity(extract_patterns(found), [wanted], [])
    except Exception:  # noqa: BLE001  # of any class: Twisted accepts a certificate without names
        names = _names(found.to_cryptography())
        shown = ", ".join(map(_shown, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
        whose = f"it is for {shown}" if names else "it names no host"
        return f"wrong name, {whose}: {_FIX}, {_OFF}"
    return None


def _names(found: x509.Certificate) -> list[str]:
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in extension.value]


def _shown(text: str) -> str:
    """Return a text from the server, printable and short enough for a message."""
    clean = "".join(sign if sign.isprintable() else "?" for sign in text)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}…"


def _day(when: datetime) -> str:
    return when.date().isoformat()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


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


def source_proxy_endpoints(source: Source) -> list[tuple[str, int]]:
    """Return host and port of the proxy of a source, if it has one.

    Raises:
        SettingError: the variable of its address lacks it.
    """
    proxy = proxy_of_source(source.name, source.request.proxy)
    return [] if proxy is None else [(proxy.host, proxy.port)]


def environment_proxy_endpoints(settings: BaseSettings) -> list[tuple[str, int]]:
    """Return host and port of each proxy of the environment, if HTTPPROXY_ENABLED is set."""
    if not settings.getbool("HTTPPROXY_ENABLED"):
        return []
    urls = [url if "//" in url else f"http://{url}" for url in getproxies().values()]
    return [url_endpoint(url) for url in urls]


_RESOLVER: Final = "smartcrawl.engine.download.network.GuardedResolver"
_SECONDS: Final = 10  #: after which the run begins, and meets the name server itself


async def resolve_crawled_hosts(
    source: Source, options: Options, settings: Mapping[str, Any]
) -> None:
    """Refuse a source that was never crawled if no host of its seeds and sitemaps resolves.

    With a proxy, or a resolver of the user's own, names are not looked up here.

    Raises:
        SourceError: no host has an address; nothing was recorded.
    """
    if source.request.proxy is not None:
        return
    if str(settings["HTTPPROXY_ENABLED"]) in ("1", "True", "true"):
        return
    if settings["TWISTED_DNS_RESOLVER"] != _RESOLVER:
        return
    urls = (*source.seeds, *source.sitemaps)
    hosts = dict.fromkeys(urlsplit(url).hostname or "" for url in urls)
    if not hosts:  # the source of single pages has only pinned ones
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reason = await _unresolved(hosts)
            if reason is not None and not _is_known(source.name, options):
                raise SourceError(_refusal(list(hosts), reason))


def _refusal(hosts: list[str], reason: str) -> str:
    names = f"the host name {hosts[0]}" if len(hosts) == 1 else f"none of {', '.join(hosts)}"
    can = "cannot" if len(hosts) == 1 else "can"
    return (
        f"{names} {can} be resolved ({reason}); nothing was recorded. Check the spelling, "
        "and that this machine is online"
    )


async def _unresolved(hosts: Iterable[str]) -> str | None:
    """Return why no host resolves, or None as soon as one does."""
    reason = "no name"
    for host in hosts:
        try:
            await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError:
            reason = "not a host name"
        else:
            return None
    return reason


def _is_known(source: str, options: Options) -> bool:
    """Whether the registry has the source, so that a run of it records the failure."""
    database = registry_database(options.registry)
    if not database.exists():
        return False
    with database.translated("read"):
        connection = database.open()
        try:
            return source in stored_source_names(connection)
        finally:
            connection.close()
