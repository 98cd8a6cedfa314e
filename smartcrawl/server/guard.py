"""Access: keys, and without one the defence against web pages in a browser here.

A server on loopback needs no key. Any web page may send requests to it, so it checks ``Host``
(DNS rebinding) and ``Origin`` and ``Sec-Fetch-Site`` (requests across sites). A proxy beside it may
pass on requests of other machines: the headers that proxies add show that.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.server.errors import ApiError, api_unavailable, send_error_response
from smartcrawl.server.keys import Key, KeyCache
from smartcrawl.server.limits import RequestCounts, api_request_acts_by_reading, api_scope_needed

#: Paths that answer without a key, for probes.
OPEN: Final = frozenset({"/health", "/ready"})
#: Headers that proxies add: of RFC 7239, of RFC 9110 7.6.3, and those in use.
_OF_PROXIES: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
#: Header of a GET that acts, where there is no key. Previews of mail, and agents that fetch what
#: they see, do not send it, and no page of another site can.
ORDER_HEADER: Final = "X-Smartcrawl"
ORDER_PARAMETER: Final = {
    "name": ORDER_HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ["order"]},
    "description": "Any word; needed where there is no API key",
}
_NO_ORDER: Final = f"a GET that starts work takes the header {ORDER_HEADER}: order, or an API key"
#: Readers of feeds know no header of ours, and so may give the key as password of Basic (RFC 7617).
#: A browser sends it unasked afterwards, but this path only reads.
FEED_PATH: Final = "/api/v1/changes.atom"
#: It takes no API key: the key of a notice is verified at the host that it is about (ADR 176).
INDEXNOW_PATH: Final = "/indexnow"
#: Below it the token or the signature of a source counts, and no API key.
HOOKS: Final = "/api/v1/hooks/"
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
_CHALLENGE_OF_FEED: Final = {"WWW-Authenticate": 'Basic realm="smartcrawl", charset="UTF-8"'}


class Identity:
    """The layer that finds the key of a request; it refuses none, so that limits count all."""

    def __init__(self, app: ASGIApp, keys: KeyCache, counts: RequestCounts) -> None:
        """``counts``: a client above its limit costs no look-up of a key that is not known."""
        self._app = app
        self._keys = keys
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its key, or with the error that ``Guard`` answers."""
        if scope["type"] == "http":
            scope["smartcrawl.key"] = None
            scope["smartcrawl.refused"] = None
            try:
                scope["smartcrawl.key"] = await self._key(scope)
            except ApiError as error:
                scope["smartcrawl.refused"] = error
            except RegistryError:
                scope["smartcrawl.refused"] = api_unavailable("the registry is not available")
        await self._app(scope, receive, send)

    async def _key(self, scope: Scope) -> Key | None:
        if scope["path"].startswith(HOOKS):
            return None
        text = _text_of_key(scope["headers"], is_feed=scope["path"] == FEED_PATH)
        if text is None:
            return None
        key = self._keys.cached(text)
        if key is None and not self._keys.knew(text):
            self._counts.refuse_spent(scope)
        if key is None:
            key = await to_thread.run_sync(self._keys.look_up, text)
        if key is None:
            raise _unauthorized("the API key is unknown, expired or revoked", scope["path"])
        return key


def _text_of_key(headers: Iterable[tuple[bytes, bytes]], *, is_feed: bool) -> str | None:
    """Return the key that a request has; None without one.

    ``is_feed``: it may also be the password of Basic, whatever the name of the user.

    Raises:
        ApiError: it has two, or credentials of another kind.
    """
    given = set()
    for name, value in headers:
        if name == b"x-api-key":
            given.add(value.decode("latin-1"))
        elif name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            if is_feed and scheme.lower() == "basic":
                given.add(_password(text))
                continue
            if scheme.lower() != "bearer":
                raise _unauthorized("Authorization takes: Bearer, and an API key")
            given.add(text.strip())
    if len(given) > 1:
        raise _unauthorized("the request has several API keys")
    return given.pop() if given else None


def _password(text: str) -> str:
    """Return the password of Basic.

    Raises:
        ApiError: it has none.
    """
    try:
        _, colon, password = b64decode(text.strip(), validate=True).decode().partition(":")
    except ValueError:
        colon = password = ""
    if not (colon and password):
        raise _unauthorized("Authorization: Basic takes the API key as password", FEED_PATH)
    return password


def _unauthorized(reason: str, path: str = "") -> ApiError:
    challenge = _CHALLENGE_OF_FEED if path == FEED_PATH else _CHALLENGE
    return ApiError("UNAUTHORIZED", reason=reason, headers=challenge)


class Guard:
    """The layer that refuses whom ``Identity`` did not find, and what a key does not permit."""

    def __init__(self, app: ASGIApp, server: ServerOptions) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refused = self._refused(scope) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await send_error_response(scope, receive, send, refused)

    def _refused(self, scope: Scope) -> ApiError | None:
        refused: ApiError | None = scope["smartcrawl.refused"]
        key: Key | None = scope["smartcrawl.key"]
        method, path = scope["method"], scope["path"]
        if refused is not None:
            return refused
        if key is not None:
            needed = api_scope_needed(method, path)
            if key.scope < needed:
                return ApiError("FORBIDDEN", reason=f"this takes a key of scope {_word(needed)}")
            return None
        if path.startswith(HOOKS):
            return None
        headers = Headers(scope=scope)
        if path == INDEXNOW_PATH and self._server.takes_indexnow:
            reason = request_of_other_site(headers)
            return ApiError("FORBIDDEN", reason=reason) if reason else None
        if self._server.keys_required:
            if path in OPEN:
                return None
            return _unauthorized("send an API key: Authorization: Bearer sc_…, or X-API-Key", path)
        if path not in OPEN and is_request_of_proxy(headers):
            return _unauthorized("the request came through a proxy: send an API key")
        reason = request_across_sites(headers, self._server.host)
        if reason is None and api_request_acts_by_reading(method, path):
            reason = None if headers.get(ORDER_HEADER) else _NO_ORDER
        return ApiError("FORBIDDEN", reason=reason) if reason else None


def _word(scope: object) -> str:
    return str(getattr(scope, "name", scope)).lower()


def is_request_of_proxy(headers: Headers) -> bool:
    """Whether a proxy passed a request on: it may be of another machine."""
    return any(name in headers for name in _OF_PROXIES)


def request_across_sites(headers: Headers, host: str, *, is_navigation: bool = False) -> str | None:
    """Return why a request without a key may come from a web page of elsewhere, or None.

    ``is_navigation``: a browser goes to a page that only reads, from wherever its link stands.
    """
    named = headers.getlist("host")
    if len(named) != 1 or not is_local_host_header(named[0], host):
        return "Host must name this machine, such as localhost; or send an API key"
    return request_of_other_site(headers, is_navigation=is_navigation)


def request_of_other_site(headers: Headers, *, is_navigation: bool = False) -> str | None:
    """Return why a request is one of a web page of another site than that of ``Host``, or None.

    Only browsers say so; ``is_navigation`` as of ``request_across_sites``.
    """
    origin = headers.get("origin")
    if origin is not None and _site(origin) != headers.get("host", "").lower():
        return "Origin is another site; send an API key"
    if is_navigation:
        return None
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "Sec-Fetch-Site is another site; send an API key"
    return None


def _site(origin: str) -> str:
    """Return host and port of an origin; nothing where it has none, as that of a private page."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as http://[
        return ""


def is_local_host_header(host: str, bound: str) -> bool:
    """Whether a ``Host`` names this machine, and no name that a DNS server resolves.

    >>> [is_local_host_header(host, "127.0.0.1") for host in ("localhost:80", "127.0.0.1", "[::1]")]
    [True, True, True]
    >>> [is_local_host_header(host, "127.0.0.1") for host in ("a.example", "127.0.0.1.a.example")]
    [False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("localhost", bound) or ip_address(name).is_loopback
    except ValueError:
        return False
