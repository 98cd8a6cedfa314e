"""GitHub's REST API over HTTP: bounded, guarded, patient with quotas, and with its token alone."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import urljoin, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import escaped
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.http import retry_after

VARIABLE: Final = "GITHUB_TOKEN"  #: the environment variable that has the token
_IS_TOKEN: Final = re.compile(r"[\x21-\x7e]+").fullmatch
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_HOPS: Final = 3
_WAITS: Final = 10  #: pauses of one request, each at most RETRY_AFTER_MAX_WAIT
_PIECE: Final = 65_536  #: bytes
_SHOWN: Final = 200  #: characters of the API's message in ours


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
        except (ValueError, AttributeError):
            return ""
        return escaped(str(text))[:_SHOWN]


def quota_wait(status: int, headers: Mapping[str, str], now: float) -> int | None:
    """Return the seconds that a 403 or 429 asks to wait for its quota; None: it is no quota.

    >>> quota_wait(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "130"}, 100)
    30
    >>> quota_wait(429, {"retry-after": "7"}, 100), quota_wait(403, {}, 100)
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


class GithubApi:
    """Requests to one API. Redirects are followed within it, so the token goes nowhere else."""

    def __init__(
        self,
        url: str,
        *,
        guard: ConnectionGuard,
        tls: ssl.SSLContext | None = None,
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
            seconds = quota_wait(answer.status, answer.headers, self._clock())
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
            place = escaped(f"{parts.scheme}://{parts.hostname or ''}")
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
        ends = time.monotonic() + self._timeout
        connection = self._connection(url)
        parts = urlsplit(url)
        try:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request("GET", target, headers=dict(headers))
            self.requests += 1
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return ApiAnswer(response.status, self._body(response, most, ends), found)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or str(error)
            raise ApiError(
                f"the certificate of {parts.hostname} is refused ({why}): name that of its"
                " authority with CA_FILE"
            ) from error
        except (OSError, HTTPException) as error:
            why = escaped(str(error)) or type(error).__name__
            raise _AgainError(
                f"no answer of the API at {parts.hostname} ({why}): check GITHUB_API_URL and the"
                " network"
            ) from error
        finally:
            connection.close()

    def _body(self, response: HTTPResponse, most: int, ends: float) -> bytes:
        pieces, size = [], 0
        while piece := response.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise ApiError(f"an answer of the API has more than {most:,} bytes")
            if time.monotonic() > ends:
                raise _AgainError("no whole answer of the API within DOWNLOAD_TIMEOUT")
        if response.length:
            raise _AgainError("an answer of the API ended before its announced length")
        return b"".join(pieces)

    def _connection(self, url: str) -> HTTPConnection:
        """Return the connection to the host of a URL, at an address that the guard permits.

        Raises:
            ApiError: it has none.
        """
        host, port = url_endpoint(url)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _AgainError(
                f"{host} cannot be resolved ({error.strerror}): check GITHUB_API_URL"
            ) from error
        addresses = [str(address[4][0]) for address in found]
        for address in addresses:
            refusal = self._guard.refusal(address, host=host, port=port)
            if refusal is not None:
                setting = "ALLOW_PORTS" if refusal.startswith("port") else "ALLOW_NETWORKS"
                raise ApiError(f"{host}: {refusal}: permit it with {setting}")
        if urlsplit(url).scheme == "https":
            connection: HTTPConnection = HTTPSConnection(
                host, port, timeout=self._timeout, context=self._tls
            )
        else:
            connection = HTTPConnection(host, port, timeout=self._timeout)
        # The host is not resolved again: another look-up could lead elsewhere.
        connection._create_connection = (  # type: ignore[attr-defined]
            lambda place, timeout, source: socket.create_connection(
                (addresses[0], place[1]), timeout, source
            )
        )
        return connection
