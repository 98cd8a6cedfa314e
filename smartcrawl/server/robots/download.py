"""One request for the robots.txt of a host, within limits of time and size (R2-40).

The server knows no Scrapy, so this is a client of its own. It asks public addresses only, unless
ALLOW_NETWORKS allows others: each address that a name resolves to is judged, and the connection
goes to a judged one. All work is on the event loop and never blocks it; names are resolved in
threads.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

import can_ada
import httptools
from anyio import CapacityLimiter, to_thread

from smartcrawl.extract.robots_txt import LIMIT, robots_txt_as_utf8
from smartcrawl.model.options import Options
from smartcrawl.model.urls import join_url, url_endpoint
from smartcrawl.rules.connections import METADATA_NAMES, ConnectionGuard, literal_connection_address
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS

SECONDS: Final = 5.0  #: for everything
_CONNECT_SECONDS: Final = 2.0  #: for a connection, so that time is left for the other scheme
_HEADERS: Final = 65_536  #: bytes of an answer beside its body
_PART: Final = 65_536  #: bytes read at once
_ADDRESSES: Final = 4  #: of a name, that are tried


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The answer to a request for robots.txt, or the reason why there is none."""

    origin: str  #: such as ``https://example.com``
    status: int = 0  #: 0: none
    body: bytes = b""
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the answer says nothing about the rules."""
        return self.reason is not None and not 400 <= self.status < 500


class _RobotsError(Exception):
    """The request failed; its text is the reason."""


class _NotConnectedError(_RobotsError):
    """No connection was made."""


class _Reading:
    """The answer while it arrives, by the callbacks of httptools."""

    def __init__(self) -> None:
        self.parser: Any = httptools.HttpResponseParser(self)
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.begun = False  #: whether the headers are complete
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; the first one of a name counts."""
        self.headers.setdefault(name.lower(), value)

    def on_headers_complete(self) -> None:
        """Note that the body follows."""
        self.begun = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Add a part of the body; more than is read may arrive with one part."""
        if len(self.body) <= LIMIT:
            self.body += data

    def on_message_complete(self) -> None:
        """Note the end; an interim answer is followed by the real one."""
        self.done = self.begun
        if not self.begun:
            self.headers.clear()

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(self.parser.get_status_code())

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection ends the body."""
        return self.begun and not {b"content-length", b"transfer-encoding"} & self.headers.keys()


class RobotsDownload:
    """Asks hosts for their robots.txt."""

    def __init__(self, options: Options, user_agent: str, at_once: int) -> None:
        """``at_once``: names that are resolved at once."""
        self._options = options
        self._user_agent = " ".join(user_agent.split())
        self._guard = ConnectionGuard(options.allow_networks, options.allow_ports)
        self._threads = CapacityLimiter(at_once)
        self._tls: ssl.SSLContext | None = None

    async def answer(self, host: str) -> RobotsAnswer:
        """Return the answer of a host (as ``host.name``), over https or else over http."""
        origin = ""
        try:
            async with asyncio.timeout(SECONDS):
                for origin in (f"https://{host}", f"http://{host}"):
                    try:
                        return await self._followed(origin)
                    except _NotConnectedError as error:
                        reason = str(error)
        except TimeoutError:
            reason = f"no whole answer within {SECONDS:g} s"
        except _RobotsError as error:
            reason = str(error)
        return RobotsAnswer(origin, reason=reason)

    async def _followed(self, origin: str) -> RobotsAnswer:
        """Return the answer at the end of redirects."""
        url = f"{origin}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            reading = await self._asked(url)
            status = reading.status
            location = reading.headers.get(b"location", b"").decode("latin-1")
            if status not in REDIRECTS or not location:
                break
            target = join_url(can_ada.parse(url), location)
            if target is None:
                raise _RobotsError("a redirect leads to no web address")
            url = target
        else:
            raise _RobotsError(f"more than {MAX_REDIRECTS} redirects")
        if 400 <= status < 500:
            return RobotsAnswer(origin, status, reason=f"status {status}: everything is allowed")
        if not 200 <= status < 300:
            raise _RobotsError(f"status {status}")
        return RobotsAnswer(origin, status, _text(reading))

    async def _asked(self, url: str) -> _Reading:
        """Return the answer of one request."""
        reader, writer = await self._connected(url)
        try:
            writer.write(self._request(url))
            return await _read(reader)
        except (OSError, httptools.HttpParserError) as error:
            raise _RobotsError(f"a broken answer ({type(error).__name__})") from error
        finally:
            writer.transport.abort()  # without the polite end, for which a server may let us wait

    def _request(self, url: str) -> bytes:
        parsed = can_ada.parse(url)
        lines = (
            f"GET {parsed.pathname}{parsed.search} HTTP/1.1",
            f"Host: {parsed.host}",
            f"User-Agent: {self._user_agent}",
            "Accept: text/plain, */*;q=0.1",
            "Accept-Encoding: identity",
            "Connection: close",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1", "replace")

    async def _connected(self, url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to an address that the guard allows."""
        host, port = url_endpoint(url)
        reason = ""
        tls = await self._context() if url.startswith("https://") else None
        name = host.rstrip(".") if tls is not None else None
        for address in (await self._addresses(host, port))[:_ADDRESSES]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(
                        address, port, ssl=tls, server_hostname=name
                    )
            except ssl.SSLCertVerificationError as error:
                raise _RobotsError(f"the certificate is refused: {error.verify_message}") from error
            except TimeoutError:
                reason = f"no connection within {_CONNECT_SECONDS:g} s"
            except (OSError, ValueError) as error:
                reason = f"no connection ({type(error).__name__})"
        raise _NotConnectedError(reason)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host; a single address that is not allowed refuses it."""
        found = [host]
        if literal_connection_address(host) is None and host.rstrip(".") not in METADATA_NAMES:
            try:
                found = await to_thread.run_sync(
                    _resolved, host, port, abandon_on_cancel=True, limiter=self._threads
                )
            except (OSError, ValueError) as error:  # ValueError: no name that DNS could have
                raise _RobotsError("its name is not found") from error
        for address in found:
            refusal = self._guard.refusal(address, host=host, port=port)
            if refusal is not None:
                raise _RobotsError(refusal)
        return found

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await to_thread.run_sync(_tls_context, self._options)
        return self._tls


def _resolved(host: str, port: int) -> list[str]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _tls_context(options: Options) -> ssl.SSLContext:
    """Return the context of connections, under the rules of the engine and the lane."""
    context = ssl.create_default_context()
    if not options.verify_certificates:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif options.ca_file is not None:
        context.load_verify_locations(cafile=options.ca_file)
    return context


async def _read(reader: asyncio.StreamReader) -> _Reading:
    """Read an answer to its end, or to its limits."""
    reading, size = _Reading(), 0
    while not reading.done:
        part = await reader.read(_PART)
        if not part:
            if reading.ends_with_connection:
                break
            raise _RobotsError("the answer is cut off")
        size += len(part)
        reading.parser.feed_data(part)
        if len(reading.body) > LIMIT:
            raise _RobotsError(f"more than {LIMIT:,} bytes")
        if size - len(reading.body) > 2 * LIMIT or (not reading.begun and size > _HEADERS):
            raise _RobotsError("its headers are too large")
    return reading


def _text(reading: _Reading) -> bytes:
    """Return the body of an answer in UTF-8."""
    coding = reading.headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"", b"identity"):
        raise _RobotsError("it is compressed, though that was not asked for")
    body = robots_txt_as_utf8(bytes(reading.body))
    if b"\0" in body:
        raise _RobotsError("it is no text")
    return body
