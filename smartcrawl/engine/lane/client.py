"""Conditional requests of the lane, with the address guard and the limits of the engine."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from scrapy.settings import BaseSettings

from smartcrawl.engine.download.network import (
    GuardedResolver,
    lane_tls_context,
    resolve_allowed_addresses,
)
from smartcrawl.engine.lane.connections import ClosedError, LaneAnswer, LaneConnection
from smartcrawl.model.exceptions import LaneError
from smartcrawl.model.urls import url_endpoint
from smartcrawl.run.hosts import Strays, run_stray_origin
from smartcrawl.sources.client_certificates import ClientCertificate
from smartcrawl.sources.trust import CertificateTrust

logger = logging.getLogger(__name__)

_TARGET: Final = re.compile(r"[!-\"$-~]+")  #: a target of a request line: no space, no fragment
_BREAKS: Final = re.compile(r"[\r\n\0]")
_OTHER_ADDRESS: Final = 2.0  #: seconds after which the next address of a host is tried
_MOST_CHECKS: Final = 1.0  #: most seconds between two checks of timeouts


class LaneClient:
    """Sends requests unchanged, and returns whole answers only.

    The address guard resolves names, as for the engine, and the client connects only to its
    addresses. The limits of the engine for the size, the rate and the headers of an answer apply.
    An answer counts when its connection is found clean (``LaneAnswer.clean``).
    """

    def __init__(
        self,
        settings: BaseSettings,
        resolver: GuardedResolver,
        trust: CertificateTrust | None = None,
        headers: Callable[[str], Mapping[str, str]] = lambda origin: {},
        unasked: Strays | None = None,
        *,
        certificate_of: Callable[[str], ClientCertificate | None] = lambda origin: None,
    ) -> None:
        """Read the settings, once; ``headers`` returns those of each request to an origin.

        ``unasked`` counts connections with bytes that no request asked for, for the engine, too.
        ``certificate_of`` returns the one that an origin is shown.
        """
        self.rate = settings.getint("MIN_DOWNLOAD_RATE")
        self.max_size = settings.getint("DOWNLOAD_MAXSIZE")
        self.most_connections = 2 * settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self.resolver = resolver
        self._headers = headers
        self.unasked = unasked or Strays()
        self.ends: Callable[[], bool] = lambda: False  #: whether no request may be sent any more
        self.strays = 0  #: connections of the lane that received bytes without a request
        self._most_idle = settings.getint("CONCURRENT_REQUESTS")
        self._timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        #: Whether a request is sent again here; the engine asks once more, whatever the failure.
        self._resends = settings.getint("RETRY_TIMES") > 1
        self._settings = settings
        self._trust = trust or CertificateTrust()
        self._certificate_of = certificate_of
        self._tls: dict[ClientCertificate | None, ssl.SSLContext] = {}
        self._origins: dict[str, _Origin] = {}
        self._connections: dict[LaneConnection, None] = {}
        self._checks: asyncio.TimerHandle | None = None

    async def ask(
        self, url: str, headers: Mapping[str, str], *, of_browser: bool = False
    ) -> LaneAnswer:
        """Send one GET and return the whole answer; no redirect is followed.

        Header values are sent as Latin-1, the way they were received (RD-04). Those ``of_browser``
        take the place of the crawler's own.

        Raises:
            LaneError: no whole answer within the limits came.
        """
        name = run_stray_origin(url)
        target = url[len(name) :] or "/"
        if not _TARGET.fullmatch(target):
            raise LaneError(f"{url} cannot be sent as it is", sent=False)
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = _Origin(self, name)
        own = _lines(headers)
        head = origin.head_without(headers) if of_browser else origin.head
        request = b"GET %b HTTP/1.1\r\n%b%b\r\n" % (target.encode("ascii"), head, own)
        deadline = time.monotonic() + self._timeout
        connection = origin.taken()
        if connection is None:
            connection = await self._opened(origin, deadline)
        try:
            return await connection.send(request, deadline)
        except ClosedError:  # between two requests, as servers may
            if not self._resends:
                raise
        connection = await self._opened(origin, deadline)
        try:
            return await connection.send(request, deadline)
        except LaneError as error:
            error.times = 2
            raise

    def head_of(self, origin: str) -> bytes:
        """Return the header lines of each request to an origin, but for that of its host."""
        return _lines(self._headers(origin))

    async def _opened(self, origin: _Origin, deadline: float) -> LaneConnection:
        """Return a connection, unless the run ends meanwhile."""
        connection = await origin.opened(deadline)
        if self.ends():
            raise LaneError("the run ends", sent=False)
        return connection

    def tls(self, origin: str) -> ssl.SSLContext:
        """Return the TLS context of the connections to an origin, with the engine's settings."""
        certificate = self._certificate_of(origin)
        if certificate not in self._tls:
            self._tls[certificate] = lane_tls_context(self._settings, self._trust, certificate)
        return self._tls[certificate]

    def began(self, connection: LaneConnection) -> None:
        """Watch a new connection, and close the oldest of too many idle ones."""
        spare = [one for one in self._connections if one.is_spare]
        for one in spare[: max(0, len(spare) - self._most_idle + 1)]:
            one.close()
        self._connections[connection] = None
        if self._checks is None:
            self._check()

    def ended(self, connection: LaneConnection) -> None:
        """Stop watching a connection that ended."""
        self._connections.pop(connection, None)

    def _check(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check(now)
        self._checks = None
        if self._connections:
            seconds = min(_MOST_CHECKS, self._timeout / 4)
            self._checks = asyncio.get_running_loop().call_later(seconds, self._check)

    def abort(self) -> None:
        """Abort the connections: their requests fail, and unsettled answers do not count."""
        for connection in list(self._connections):
            connection.abort()

    async def close(self) -> None:
        """Close the connections; their unsettled answers do not count."""
        if self._checks is not None:
            self._checks.cancel()
        self.abort()
        await asyncio.sleep(0)  # transports close in the next turn of the loop


class _Origin:
    """The connections to a scheme, host and port."""

    def __init__(self, client: LaneClient, name: str) -> None:
        self.name = name
        self._client = client
        self._scheme, _, authority = name.partition("://")
        self._host, self._port = url_endpoint(name)
        if not authority or re.search(r"[@?#\s]", authority) or not authority.isascii():
            raise LaneError(f"{name} is not asked by the lane", sent=False)
        self._named = b"Host: %b\r\n%b" % (
            authority.encode("ascii"),
            client.head_of(name),
        )
        self._idle: dict[LaneConnection, None] = {}  #: used from the end
        self._open: set[LaneConnection] = set()
        self._opening = 0  #: connections that are being opened
        self._serial = 0
        self._waiting: list[asyncio.Future[None]] = []  #: requests that wait for a connection
        self._first: str | None = None  #: the address that was connected to last

    @property
    def one_request_each(self) -> bool:
        """Whether no connection is used twice."""
        return self._client.unasked.suspects(self.name)

    @property
    def head(self) -> bytes:
        """The header lines of each request to this origin."""
        return self._named + b"Connection: close\r\n" if self.one_request_each else self._named

    def head_without(self, names: Iterable[str]) -> bytes:
        """Return the same without headers of these names."""
        left_out = {name.lower().encode("latin-1") for name in names}
        lines = self.head.splitlines(keepends=True)
        return b"".join(n for n in lines if n.partition(b":")[0].lower() not in left_out)

    def taken(self) -> LaneConnection | None:
        """Return an idle connection, or None when a new one is needed."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_usable:
                return connection
        return None

    async def opened(self, deadline: float) -> LaneConnection:
        """Return a new connection, or one that became idle meanwhile.

        Raises:
            LaneError: the host has no address that may be asked, or that can be connected to.
        """
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                while self._opening + len(self._open) >= self._client.most_connections:
                    turn = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    await turn
                    connection = self.taken()
                    if connection is not None:
                        return connection
                self._opening += 1
                try:
                    return await self._connected()
                finally:
                    self._opening -= 1
                    self._wake()
        except (OSError, TimeoutError, ValueError) as error:
            raise LaneError(f"{type(error).__name__}: {error}", sent=False) from error

    async def _connected(self) -> LaneConnection:
        addresses = await resolve_allowed_addresses(self._client.resolver, self._host, self._port)
        if not addresses:
            raise OSError(f"{self._host} has no address that may be asked")
        if self._first in addresses:
            addresses.remove(self._first)
            addresses.insert(0, self._first)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_OTHER_ADDRESS):
                    return await self._connected_to(address)
            except (OSError, TimeoutError) as error:
                logger.debug("%s at %s: %s", self._host, address, error)
        return await self._connected_to(addresses[-1])

    async def _connected_to(self, address: str) -> LaneConnection:
        """Connect to an address of the guard, without resolving a name."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        numeric = ip_address(address.partition("%")[0])
        sock = socket.socket(socket.AF_INET6 if numeric.version == 6 else socket.AF_INET)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, (address, self._port))
            took = time.monotonic() - began
            client, secure = self._client, self._scheme == "https"
            self._serial += 1
            _, connection = await loop.create_connection(
                lambda: LaneConnection(
                    self,
                    sock,
                    tls=secure,
                    max_size=client.max_size,
                    rate=client.rate,
                    serial=self._serial - 1,
                ),
                sock=sock,
                ssl=client.tls(self.name) if secure else None,
                server_hostname=self._host if secure else None,
            )
        except BaseException:
            sock.close()
            raise
        if not connection.is_usable:
            raise OSError("bytes came before the first request, or the end")
        connection.opened(took)
        self._first = address
        self._open.add(connection)
        client.began(connection)
        return connection

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                return

    # Reports of connections

    def usable(self, connection: LaneConnection) -> None:
        """Add a connection to the idle ones."""
        self._idle[connection] = None
        self._wake()

    def strayed(self) -> None:
        """Count a connection that received bytes without a request."""
        self._client.strays += 1
        self._client.unasked.came(self.name)

    def lost(self, connection: LaneConnection) -> None:
        """Remove a connection that ended."""
        self._idle.pop(connection, None)
        self._open.discard(connection)
        self._client.ended(connection)
        self._wake()


def _lines(headers: Mapping[str, str]) -> bytes:
    """Return header lines.

    Raises:
        LaneError: a value would break its line.
    """
    for value in headers.values():
        if _BREAKS.search(value):
            raise LaneError("a header would break its line", sent=False)
    return b"".join([f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()])
