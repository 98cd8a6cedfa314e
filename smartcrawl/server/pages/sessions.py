"""Sessions of the pages: a cookie stands for an API key for twelve hours (ADR 167).

The registry has the hash of a cookie and the id of its key, so that a session survives a restart of
the server, counts at every server of the registry, and ends with its key.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.registry.connection import Connection
from smartcrawl.server.keys import Key, api_key_of_row
from smartcrawl.server.stores import Stores

SESSION_SECONDS: Final = 43_200
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
#: Browsers take a cookie of this name only from its own host, and only over TLS.
_HOST_PREFIX: Final = "__Host-"
_SESSION: Final = "smartcrawl_session"
_FORM: Final = "smartcrawl_form"  #: of a visitor without a session, for the token of the login
_INSERT: Final = "INSERT INTO page_session (hash, key, ends) VALUES (?, ?, ?)"
_SWEEP: Final = "DELETE FROM page_session WHERE ends <= ?"
_END: Final = "DELETE FROM page_session WHERE hash = ?"
_FIND: Final = """
SELECT k.id, k.name, k.scope, k.created, k.expires, k.revoked, k.sources
  FROM page_session s JOIN api_key k ON k.id = s.key WHERE s.hash = ? AND s.ends > ?
"""


@dataclass(frozen=True, slots=True)
class PageSession:
    """A session that counts, with its key."""

    token: str = field(repr=False)
    key: Key

    @property
    def client(self) -> str:
        """The name by which its requests are counted."""
        return f"session:{_hash(self.token).hex()[:32]}"


def begin_page_session(connection: Connection, key: Key, now: float) -> str:
    """Store a session of a key, and return the text of its cookie; sweep those that have ended."""
    token = secrets.token_urlsafe(32)
    connection.execute(_SWEEP, (int(now),))
    connection.execute(_INSERT, (_hash(token), key.id, int(now) + SESSION_SECONDS))
    return token


def end_page_session(connection: Connection, token: str) -> None:
    """End a session; nothing happens where it has ended."""
    connection.execute(_END, (_hash(token),))


def find_page_session(connection: Connection, token: str, now: float) -> PageSession | None:
    """Return the session of a cookie; None where it has ended, or its key counts no more."""
    row = connection.execute(_FIND, (_hash(token), int(now))).fetchone()
    key = None if row is None else api_key_of_row(row)
    return PageSession(token, key) if key is not None and key.counts(now) else None


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()


class PageSessions:
    """The layer that finds the session of a request and its key; it refuses none."""

    def __init__(self, app: ASGIApp, stores: Stores, clock: Callable[[], float]) -> None:
        self._app = app
        self._stores = stores
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its session."""
        scope["smartcrawl.session"] = session = await self._session(scope)
        scope["smartcrawl.key"] = None if session is None else session.key
        await self._app(scope, receive, send)

    async def _session(self, scope: Scope) -> PageSession | None:
        token = _cookie(scope, _SESSION)
        if token is None:
            return None
        now = self._clock()
        return await self._stores.read_little(lambda seen: find_page_session(seen, token, now))


def page_session_of(scope: Scope) -> PageSession | None:
    """Return the session of a request, which the layer has found."""
    session: PageSession | None = scope["smartcrawl.session"]
    return session


def page_form_token(scope: Scope) -> str:
    """Return the token that forms of this visitor carry; "" for one without any cookie.

    It is made of a cookie that no other site reads: the session's, else the one of forms.
    """
    session = page_session_of(scope)
    known = session.token if session is not None else _cookie(scope, _FORM)
    return "" if known is None else _form_token(known)


def _form_token(cookie: str) -> str:
    return hmac.digest(cookie.encode(), b"form", sha256).hex()


def set_page_session_cookie(request: Request, response: Response, token: str) -> None:
    """Give the browser the cookie of a new session."""
    _set_cookie(request, response, _SESSION, token)


def drop_page_session_cookie(request: Request, response: Response) -> None:
    """Take the cookie of a session from the browser."""
    name, secure = _name(request.scope, _SESSION)
    response.delete_cookie(name, secure=secure, httponly=True, samesite="lax")


def new_page_form_cookie() -> tuple[str, str]:
    """Return a new cookie of forms, and the token that belongs to it."""
    cookie = secrets.token_urlsafe(32)
    return cookie, _form_token(cookie)


def set_page_form_cookie(request: Request, response: Response, cookie: str) -> None:
    """Give the browser a cookie of forms."""
    _set_cookie(request, response, _FORM, cookie)


def _set_cookie(request: Request, response: Response, kind: str, value: str) -> None:
    name, secure = _name(request.scope, kind)
    response.set_cookie(
        name, value, max_age=SESSION_SECONDS, httponly=True, samesite="lax", secure=secure
    )


def _cookie(scope: Scope, kind: str) -> str | None:
    """Return the value of a cookie that this server may have set."""
    found = Request(scope).cookies.get(_name(scope, kind)[0])
    return found if found is not None and _TOKEN.fullmatch(found) else None


def _name(scope: Scope, kind: str) -> tuple[str, bool]:
    """Return the name of a cookie, and whether it is for TLS only."""
    secure = scope.get("scheme") == "https"
    return f"{_HOST_PREFIX if secure else ''}{kind}", secure
