"""HTTP requests beside those of the crawl: to permitted addresses, each answer whole and bounded.

Every address that a name resolves to is judged, and the connection goes to a judged one: a second
look-up could lead elsewhere. Requests are made on an event loop, or in a thread without one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import can_ada
import httptools

from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import METADATA_NAMES, ConnectionGuard
from smartcrawl.sources.proxies import Proxy

_HEAD: Final = 65_536  #: bytes of an answer before its body
_PART: Final = 65_536  #: bytes read at once
_ADDRESSES: Final = 4  #: of a name, that are tried
_LENGTHS: Final = frozenset({"content-length", "transfer-encoding"})


class WebError(Exception):
    """There is no whole answer; the text is the reason."""


class UnknownHostError(WebError):
    """A name has no address."""


class UnconnectedError(WebError):
    """No address of a host takes a connection."""


class SlowError(WebError):
    """The answer took too long."""


class RefusedHostError(WebError):
    """The guard does not permit an address or the port of a host."""


class TooLargeError(WebError):
    """The answer has too many bytes."""


class CertificateError(WebError):
    """The certificate of a host is refused."""

    def __init__(self, error: ssl.SSLCertVerificationError) -> None:
        self.reason = error.verify_message or str(error)
        self.code = error.verify_code  #: of OpenSSL
        super().__init__(f"the certificate was refused: {self.reason}")


_LASTING: Final = (RefusedHostError, TooLargeError, CertificateError)  #: another try has them, too


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]  #: names in lower case; the first one of a name counts
    body: bytes
    lines: tuple[tuple[bytes, bytes], ...] = ()  #: all headers, as they came


class WebClient:
    """Asks hosts; it follows no redirects, and keeps no connection."""

    def __init__(
        self,
        guard: ConnectionGuard | None,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        connect_seconds: float | None = None,
    ) -> None:
        """``guard`` None: any address is permitted. ``connect_seconds``: for each address."""
        self._guard = guard
        self._tls = tls
        self._proxy = proxy
        self._connect_seconds = connect_seconds

    def ask_now(
        self,
        url: str,
        headers: dict[str, str],
        *,
        most: int,
        seconds: float,
        body: bytes | None = None,
        retries: int = 0,
    ) -> WebAnswer:
        """Return what ``ask`` does, in a thread without an event loop.

        ``seconds``: for all of one try. ``retries``: after a passing failure or a status of 5xx.

        Raises:
            WebError: the last try brought no whole answer.
        """
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            for left in range(retries, -1, -1):
                try:
                    asked = self.ask(url, headers, most=most, body=body)
                    answer = runner.run(asyncio.wait_for(asked, seconds))
                except TimeoutError as error:
                    if not left:
                        raise SlowError(f"no whole answer within {seconds:g} s") from error
                except WebError as error:
                    if not left or isinstance(error, _LASTING):
                        raise
                else:
                    if not left or answer.status < 500:
                        return answer
        raise AssertionError("the last try returns or raises")

    async def ask(
        self, url: str, headers: dict[str, str], *, most: int, body: bytes | None = None
    ) -> WebAnswer:
        """Return the answer of an http(s) URL: to GET, or to POST with a body.

        ``most``: bytes of its body.

        Raises:
            WebError: there is no whole answer.
        """
        parsed = can_ada.parse(url)
        secure = parsed.protocol == "https:"
        target = f"{parsed.pathname}{parsed.search}"
        sent = {"Host": parsed.host, "Accept-Encoding": "identity", "Connection": "close"} | headers
        if self._proxy is not None and not secure:  # a tunnel leads to the host itself
            target = f"http://{parsed.host}{target}"
            sent |= self._proxy.headers
        if body is not None:
            sent["Content-Length"] = str(len(body))
        try:
            async with self._connected(url, secure=secure) as (reader, writer):
                writer.write(_head("GET" if body is None else "POST", target, sent) + (body or b""))
                return await _read(reader, most)
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(error) from error
        except (OSError, ValueError, httptools.HttpParserError) as error:
            raise WebError(f"a broken answer ({type(error).__name__})") from error

    @asynccontextmanager
    async def _connected(
        self, url: str, *, secure: bool
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect to the host of a URL, or to the proxy that connects to it."""
        host, port = url_endpoint(url)
        tls = self._tls or ssl.create_default_context() if secure else None
        name = host.rstrip(".") if secure else None
        proxy = self._proxy
        if proxy is None:
            addresses = await self._permitted(host, port)
            reader, writer = await self._opened(addresses, port, ssl=tls, server_hostname=name)
        else:
            with suppress(UnknownHostError):  # a name that only the proxy knows
                await self._permitted(host, port)
            addresses = await _addresses(proxy.host, proxy.port)
            reader, writer = await self._opened(addresses, proxy.port)
        try:
            if proxy is not None and tls is not None:
                place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"  # RFC 9110, 9.3.6
                writer.write(_head("CONNECT", place, {"Host": place} | proxy.headers))
                status = (await _read(reader, 0, head_only=True)).status
                if not 200 <= status < 300:
                    raise WebError(f"status {status} instead of a tunnel")
                await writer.start_tls(tls, server_hostname=name)
            yield reader, writer
        finally:
            writer.transport.abort()  # without the polite end, for which a server may let us wait

    async def _permitted(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host; a single one that is not permitted refuses it."""
        found = [host] if host.rstrip(".") in METADATA_NAMES else await _addresses(host, port)
        for address in found:
            refusal = self._guard and self._guard.refusal(address, host=host, port=port)
            if refusal is not None:
                raise RefusedHostError(refusal)
        return found

    async def _opened(
        self, addresses: Sequence[str], port: int, **tls: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the first address that takes one."""
        reason = ""
        for address in addresses[:_ADDRESSES]:
            try:
                async with asyncio.timeout(self._connect_seconds):
                    return await asyncio.open_connection(address, port, **tls)
            except ssl.SSLCertVerificationError:
                raise
            except (OSError, ValueError) as error:
                reason = f"no connection ({_words(error)})"
        raise UnconnectedError(reason)


async def _addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, each once."""
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: no name that DNS could have
        raise UnknownHostError(
            f"{host} cannot be resolved ({getattr(error, 'strerror', error)})"
        ) from error
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _words(error: Exception) -> str:
    """Return the system's own words, where it has some: asyncio says others."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or "timed out"


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Return a request without its body; no value can begin another line."""
    lines = (f"{name}: {' '.join(value.split())}\r\n" for name, value in headers.items())
    head = f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
    return head.encode("latin-1", "replace")


class _Reading:
    """The answer while it arrives, by the callbacks of httptools."""

    def __init__(self) -> None:
        self.parser: Any = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.lines: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.begun = False  #: whether the headers are complete
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header."""
        self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        self.lines.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the body follows."""
        self.begun = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Add a part of the body."""
        self.body += data

    def on_message_complete(self) -> None:
        """Note the end; an interim answer is followed by the real one."""
        self.done = self.begun
        if not self.begun:
            self.headers.clear()
            self.lines.clear()

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(self.parser.get_status_code())


async def _read(reader: asyncio.StreamReader, most: int, *, head_only: bool = False) -> WebAnswer:
    """Read an answer to its end, or to its limits."""
    reading, size = _Reading(), 0
    while not (reading.done or (head_only and reading.begun)):
        part = await reader.read(_PART)
        if not part:
            if reading.begun and not _LENGTHS & reading.headers.keys():
                break  # the end of the connection is that of the body
            raise WebError("the answer is cut off")
        size += len(part)
        reading.parser.feed_data(part)
        if len(reading.body) > most:
            raise TooLargeError(f"more than {most:,} bytes")
        if size - len(reading.body) > 2 * most + _HEAD or (not reading.begun and size > _HEAD):
            raise WebError("its headers are too large")
    lines = tuple(reading.lines)
    return WebAnswer(reading.status, reading.headers, bytes(reading.body), lines)
