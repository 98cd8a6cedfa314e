"""Conditional requests over aiohttp, under the guard and the limits of the engine's own."""

from __future__ import annotations

import socket
import time
from ipaddress import ip_address
from typing import Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy.settings import BaseSettings
from yarl import URL

from smartcrawl.certificates import Trust, asyncio_context
from smartcrawl.decoding import is_slow
from smartcrawl.exceptions import LaneError
from smartcrawl.handlers import MAX_HEADERS
from smartcrawl.network import GuardedResolver, addresses_of

_SENT: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  #: by us, or not at all


class Answer(NamedTuple):
    """What a server answered, as it came over the wire."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    size: int  #: bytes of the headers
    body: bytes
    latency: float  #: seconds until the headers were there
    protocol: str


class LaneClient:
    """Sends requests as they are, and takes whole answers or none.

    Names are resolved by the guard, as for the engine. What is larger, slower or longer in its
    headers than the engine takes is an error here, too: the engine finds what it is.
    """

    def __init__(
        self, settings: BaseSettings, resolver: GuardedResolver, trust: Trust | None = None
    ) -> None:
        self._rate = settings.getint("MIN_DOWNLOAD_RATE")
        self._max_size = settings.getint("DOWNLOAD_MAXSIZE")
        connector = aiohttp.TCPConnector(
            limit=settings.getint("CONCURRENT_REQUESTS"),
            limit_per_host=settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
            resolver=_Resolver(resolver),
            use_dns_cache=False,  # the guard's resolver has one
            ssl=asyncio_context(settings, trust or Trust()),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=settings.getfloat("DOWNLOAD_TIMEOUT")),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SENT,
            max_line_size=MAX_HEADERS,
            max_field_size=MAX_HEADERS,
        )

    async def ask(self, url: str, headers: dict[str, str]) -> Answer:
        """Send one GET and return the whole answer; no redirect is followed.

        Raises:
            LaneError: no whole answer within the limits came.
        """
        began = time.monotonic()
        try:
            async with self._session.get(
                URL(url, encoded=True), headers=headers, allow_redirects=False
            ) as response:
                latency = time.monotonic() - began
                told = response.raw_headers
                size = 0
                for name, value in told:
                    size += len(name) + len(value) + 4
                if size > MAX_HEADERS:
                    raise LaneError("the headers are too large")
                body = b"" if response.status == 304 else await self._body(response)
                version = response.version
        except aiohttp.ClientConnectorError as error:
            raise LaneError(f"{type(error).__name__}: {error}", sent=False) from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise LaneError(f"{type(error).__name__}: {error}") from error
        protocol = f"HTTP/{version.major}.{version.minor}" if version else "HTTP/1.1"
        return Answer(response.status, told, size, body, latency, protocol)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        announced, most = response.content_length, self._max_size
        if most and announced is not None and announced > most:
            raise LaneError("the body is too large")
        parts, size, began = [], 0, time.monotonic()
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if most and size > most:
                raise LaneError("the body is too large")
            if self._rate and is_slow(size, time.monotonic() - began, self._rate):
                raise LaneError("the body is too slow")
        return b"".join(parts)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


class _Resolver(AbstractResolver):
    """aiohttp's view of the resolver that gives allowed addresses only."""

    def __init__(self, resolver: GuardedResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host; none of them is looked up again."""
        addresses = await addresses_of(self._resolver, host, port)
        if not addresses:
            raise OSError(f"{host} has no address that may be asked")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: the resolver is the process's."""
