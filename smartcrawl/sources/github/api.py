"""GitHub's REST API over HTTP: bounded, guarded, patient with quotas, and with its token alone."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Timer
from typing import Final, Self
from urllib.parse import urljoin, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import ConnectionGuard, connection_remedy
from smartcrawl.rules.http import retry_after
from smartcrawl.sources.github.tunnels import TunnelConnection

VARIABLE: Final = "GITHUB_TOKEN"  #: the environment variable that has the token
_IS_TOKEN: Final = re.compile(r"[\x21-\x7e]+").fullmatch
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_HOPS: Final = 3
_WAITS: Final = 10  #: pauses of one request, each at most RETRY_AFTER_MAX_WAIT
_PIECE: Final = 65_536  #: bytes
_LATE: Final = "nothing whole within DOWNLOAD_TIMEOUT"
_SHOWN: Final = 200  #: characters of the API's message in ours
#: OpenSSL's numbers of a chain whose authority is unknown (openssl-verification-options(1)).
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 27})


def github_token() -> str | None:
    """Return the token of the environment; None: there is none.

    Raises:
        SettingError: it cannot be one; its characters are not shown.
    """
    token = os.environ.get(VARIABLE, "").strip()
    if token and not _IS_TOKEN(token):
        raise SettingError(
            f"{VARIABLE} has spaces or other characters that no token has: copy it anew"
        )
    return token or None


class ApiError(Exception):
    """The API gave no usable answer; the message names the reason and the remedy."""


class _AgainError(ApiError):
    """A failure that another try may not meet."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)  #: names in lower case
    moved: bool = False  #: whether it came by a redirect

    @property
    def message(self) -> str:
        """The API's own words about an error; empty without any."""
        try:
            text = json.loads(self.body).get("message", "")
        except (ValueError, AttributeError, RecursionError):
            return ""
        return escaped_text(str(text))[:_SHOWN]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that connects to the API in place of this machine."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)  #: value of Proxy-Authorization


def github_quota_wait(status: int, headers: Mapping[str, str], now: float) -> int | None:
    """Return the seconds that a 403 or 429 asks to wait for its quota; None: it is no quota.

    >>> github_quota_wait(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "130"}, 100)
    30
    >>> github_quota_wait(429, {"retry-after": "7"}, 100), github_quota_wait(403, {}, 100)
    (7, None)
    """
    if status not in (403, 429):
        return None
    asked = retry_after(headers.get("retry-after"), int(now))
    if asked is not None:
        return asked
    if headers.get("x-ratelimit-remaining", "").strip() == "0":
        reset = headers.get("x-ratelimit-reset", "").strip()
        until = int(reset) if reset.isdecimal() and len(reset) < 12 else int(now) + 60
        return max(0, until - int(now))
    return 60 if status == 429 else None


class _Deadline:
    """Ends a connection after some seconds, however slowly bytes come on it."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._kept: socket.socket | None = None
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._kept is not None:
            self._kept.close()

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or will in a moment."""
        return time.monotonic() >= self._ends

    def watch(self, opened: socket.socket) -> socket.socket:
        """End this connection in time; the copy of its descriptor survives a change to TLS."""
        self._kept = opened.dup()
        return opened

    def check(self) -> None:
        """Refuse what came of a connection that ended.

        Raises:
            TimeoutError: it did.
        """
        if self.is_over:
            raise TimeoutError

    def _end(self) -> None:
        if self._kept is not None:
            with suppress(OSError):  # the server ended it, too
                self._kept.shutdown(socket.SHUT_RDWR)


class GithubApi:
    """Requests to one API. Redirects are followed within it, so the token goes nowhere else."""

    def __init__(
        self,
        url: str,
        *,
        guard: ConnectionGuard,
        tls: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        token: str | None = None,
        user_agent: str = "smartcrawl",
        timeout: float = 30,
        retries: int = 2,
        longest_wait: int = 60,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set up requests to ``url``, which has no slash at its end.

        ``timeout``: seconds of a whole answer. ``longest_wait``: seconds of a pause.
        ``wait`` pauses and returns whether the crawl ends meanwhile.
        """
        self.url = url
        self.requests = 0  #: that were sent
        self._guard = guard
        self._tls = tls
        self._proxy = proxy
        self._timeout = timeout
        self._retries = retries
        self._longest_wait = longest_wait
        self._wait = wait
        self._clock = clock
        self._headers = {
            "Accept": "application/vnd.github+json",
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, *, most: int, etag: str | None = None) -> ApiAnswer:
        """Return the answer for a path below the API, which begins with a slash.

        ``most``: bytes of its body. ``etag``: that of an answer which is known already.

        Raises:
            ApiError: there is no whole answer, or the quota is spent for longer than is waited.
        """
        url, moved, waits = f"{self.url}{path}", False, 0
        headers = self._headers | ({} if etag is None else {"If-None-Match": etag})
        for _ in range(_WAITS + _HOPS):
            answer = self._tried(url, headers, most)
            seconds = github_quota_wait(answer.status, answer.headers, self._clock())
            if seconds is not None:
                waits += 1
                self._pause(seconds, waits, answer)
            elif answer.status in _REDIRECTS:
                url, moved = self._target(url, answer), True
            else:
                return ApiAnswer(answer.status, answer.body, answer.headers, moved)
        raise ApiError("the API redirects in a circle: check GITHUB_API_URL")

    def _pause(self, seconds: int, waits: int, answer: ApiAnswer) -> None:
        """Wait for the quota.

        Raises:
            ApiError: it takes too long, or the crawl ends.
        """
        if seconds > self._longest_wait or waits > _WAITS:
            until = datetime.fromtimestamp(self._clock() + seconds, UTC).strftime("%H:%M UTC")
            more = (
                "crawl after that"
                if "Authorization" in self._headers
                else (f"crawl after that, or set {VARIABLE}, which has a larger quota")
            )
            raise ApiError(f"the API's quota is spent until {until}: {more}")
        if self._wait(seconds + 1):
            raise ApiError("the crawl ended while it waited for the API's quota")

    def _target(self, url: str, answer: ApiAnswer) -> str:
        """Return the target of a redirect.

        Raises:
            ApiError: it leads out of the API.
        """
        target = urljoin(url, answer.headers.get("location", ""))
        parts = urlsplit(target)
        if not target.startswith(f"{self.url}/") or "/../" in parts.path or "%2e" in target.lower():
            place = escaped_text(f"{parts.scheme}://{parts.hostname or ''}")
            raise ApiError(f"the API redirects to {place}: check GITHUB_API_URL")
        return target.partition("#")[0]

    def _tried(self, url: str, headers: Mapping[str, str], most: int) -> ApiAnswer:
        """Return the answer of a URL; passing failures are tried again.

        Raises:
            ApiError: there is no whole answer.
        """
        for tries in range(self._retries + 1):
            try:
                answer = self._asked(url, headers, most)
            except _AgainError:
                if tries == self._retries:
                    raise
            else:
                if answer.status < 500 or tries == self._retries:
                    return answer
        raise AssertionError("the last try returns or raises")

    def _asked(self, url: str, headers: Mapping[str, str], most: int) -> ApiAnswer:
        host = urlsplit(url).hostname
        with _Deadline(self._timeout) as deadline, closing(self._connection(url, deadline)) as way:
            try:
                target, more = self._line(url)
                way.request("GET", target, headers={**headers, **more})
                self.requests += 1
                response = way.getresponse()
                found = {name.lower(): value for name, value in response.getheaders()}
                body = self._body(response, most)
                deadline.check()
            except ssl.SSLCertVerificationError as error:
                raise ApiError(
                    f"the certificate of {host} is refused {_certificate(error)}"
                ) from error
            except (OSError, HTTPException) as error:
                why = (
                    _LATE if deadline.is_over else escaped_text(str(error)) or type(error).__name__
                )
                raise _AgainError(
                    f"no answer of the API at {host}{self._through} ({why}): check GITHUB_API_URL"
                    " and the network"
                ) from error
            return ApiAnswer(response.status, body, found)

    @property
    def _through(self) -> str:
        """Words about the proxy, without its password."""
        proxy = self._proxy
        return "" if proxy is None else f" through the proxy {proxy.host}:{proxy.port}"

    def _line(self, url: str) -> tuple[str, dict[str, str]]:
        """Return the target of a request for a URL, and the headers that only a proxy gets."""
        parts = urlsplit(url)
        if self._proxy is None or parts.scheme == "https":  # a tunnel leads to the API itself
            return (f"{parts.path}?{parts.query}" if parts.query else parts.path), {}
        return url, self._proxy_headers()

    def _proxy_headers(self) -> dict[str, str]:
        assert self._proxy is not None
        authorization = self._proxy.authorization
        return {} if authorization is None else {"Proxy-Authorization": authorization}

    def _body(self, response: HTTPResponse, most: int) -> bytes:
        pieces, size = [], 0
        while piece := response.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise ApiError(f"an answer of the API has more than {most:,} bytes")
        if response.length:
            raise ConnectionError("it ended before its announced length")
        return b"".join(pieces)

    def _connection(self, url: str, deadline: _Deadline) -> HTTPConnection:
        """Return a connection to the host of a URL, or to the proxy that connects to it.

        Raises:
            ApiError: the guard refuses the host, or it has no address.
        """
        host, port = url_endpoint(url)
        proxy, secure = self._proxy, urlsplit(url).scheme == "https"
        place = (host, port)
        if proxy is None:
            address = self._address(host, port)
        else:
            with suppress(_AgainError):  # a name that only the proxy knows
                self._address(host, port)
            place = (proxy.host, proxy.port)
            address = _addresses(*place, "the proxy of the environment")[0]
        connection: HTTPConnection
        if secure:
            connection = TunnelConnection(*place, timeout=self._timeout, context=self._tls)
        else:
            connection = HTTPConnection(*place, timeout=self._timeout)
        if proxy is not None and secure:
            connection.set_tunnel(host, port, headers=self._proxy_headers())
        # The host is not resolved again: another look-up could lead elsewhere.
        connection._create_connection = (  # type: ignore[attr-defined]
            lambda place, timeout, source: deadline.watch(
                socket.create_connection((address, place[1]), timeout, source)
            )
        )
        return connection

    def _address(self, host: str, port: int) -> str:
        """Return an address of a host, all of whose addresses the guard permits.

        Raises:
            ApiError: it refuses one, or there is none.
        """
        addresses = _addresses(host, port, "GITHUB_API_URL")
        for address in addresses:
            refusal = self._guard.refusal(address, host=host, port=port)
            if refusal is not None:
                remedy = connection_remedy(refusal, host)
                raise ApiError(f"{host}: {refusal}{f': {remedy}' if remedy else ''}")
        return addresses[0]


def _addresses(host: str, port: int, named_by: str) -> list[str]:
    """Return the addresses of a host; ``named_by``: the place to correct.

    Raises:
        ApiError: it has none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _AgainError(
            f"{host} cannot be resolved ({error.strerror}): check {named_by}"
        ) from error
    return [str(address[4][0]) for address in found]


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    """Return why a certificate is refused, and the remedy."""
    why = error.verify_message or str(error)
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return f"({why}): name the certificate of its authority with ca_file (CA_FILE)"
    return (
        f"({why}): renew or correct the certificate at the server, or accept any certificate with"
        " verify_certificates = false (VERIFY_CERTIFICATES=0)"
    )
