"""GitHub's REST API over HTTP: bounded, guarded, patient with quotas, and with its token alone."""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urljoin, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import ConnectionGuard, connection_remedy
from smartcrawl.rules.http import retry_after
from smartcrawl.sources.proxies import Proxy
from smartcrawl.sources.web_client import (
    CertificateError,
    RefusedHostError,
    SlowError,
    TooLargeError,
    UnknownHostError,
    WebAnswer,
    WebClient,
    WebError,
)

VARIABLE: Final = "GITHUB_TOKEN"  #: the environment variable that has the token
_IS_TOKEN: Final = re.compile(r"[\x21-\x7e]+").fullmatch
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_HOPS: Final = 3
_WAITS: Final = 10  #: pauses of one request, each at most RETRY_AFTER_MAX_WAIT
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
            f"{VARIABLE} has spaces or other characters that tokens never have: copy it again"
        )
    return token or None


class ApiError(Exception):
    """The API gave no usable answer; the message names the reason and the remedy."""


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
        self._web = WebClient(guard, tls=tls, proxy=proxy)
        self._proxy = proxy
        self._timeout = timeout
        self._retries = retries
        self._longest_wait = longest_wait
        self._wait = wait
        self._clock = clock
        self._headers = {
            "Accept": "application/vnd.github+json",
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
            answer = self._asked(url, headers, most)
            seconds = github_quota_wait(answer.status, answer.headers, self._clock())
            if seconds is not None:
                waits += 1
                self._pause(seconds, waits)
            elif answer.status in _REDIRECTS:
                url, moved = self._target(url, answer), True
            else:
                return ApiAnswer(answer.status, answer.body, answer.headers, moved)
        raise ApiError("the API redirects in a circle: check GITHUB_API_URL")

    def _pause(self, seconds: int, waits: int) -> None:
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

    def _target(self, url: str, answer: WebAnswer) -> str:
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

    def _asked(self, url: str, headers: dict[str, str], most: int) -> WebAnswer:
        """Return the answer of a URL; passing failures are tried again.

        Raises:
            ApiError: there is no whole answer.
        """
        host, proxy = url_endpoint(url)[0], self._proxy
        try:
            return self._web.ask_now(
                url, headers, most=most, seconds=self._timeout, retries=self._retries
            )
        except CertificateError as error:
            why = f"the certificate of {host} was refused {_certificate(error)}"
        except RefusedHostError as error:
            remedy = connection_remedy(str(error), host)
            why = f"{host}: {error}{f': {remedy}' if remedy else ''}"
        except TooLargeError as error:
            why = f"an answer of the API has {error}"
        except UnknownHostError as error:
            why = f"{error}: check {'the proxy of the environment' if proxy else 'GITHUB_API_URL'}"
        except WebError as error:
            through = f" through the proxy {proxy.host}:{proxy.port}" if proxy else ""
            reason = _LATE if isinstance(error, SlowError) else escaped_text(str(error))
            why = (
                f"no answer of the API at {host}{through} ({reason}): check GITHUB_API_URL and the"
                " network"
            )
        raise ApiError(why)


def _certificate(error: CertificateError) -> str:
    """Return why a certificate is refused, and the remedy."""
    why = error.reason
    if error.code in _UNKNOWN_AUTHORITY:
        return f"({why}): give the certificate of its authority with ca_file (CA_FILE)"
    return (
        f"({why}): renew or correct the certificate at the server, or accept any certificate with"
        " verify_certificates = false (VERIFY_CERTIFICATES=0)"
    )
