"""Tokens of OAuth 2.0 for a client that asks in its own name (RFC 6749 section 4.4)."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

LEAST_SECONDS: Final = 10  #: that a token must last: shorter ones would end before their pages
_EARLY: Final = 60  #: seconds before its end in which a token is renewed
_TOKEN: Final = re.compile(r"[!-~]+")
_WORD: Final = re.compile(r"[a-z_]{1,40}")


class GrantedToken(NamedTuple):
    """A token, and when it ends."""

    value: str
    renewed_at: float  #: Unix seconds from which another one is asked for
    until: float  #: Unix seconds; infinite: its server does not say


def client_grant_body(scope: str | None) -> bytes:
    """Return the form that asks for a token.

    >>> client_grant_body("docs.read wiki.read")
    b'grant_type=client_credentials&scope=docs.read+wiki.read'
    """
    fields = {"grant_type": "client_credentials"}
    return urlencode(fields if scope is None else fields | {"scope": scope}).encode()


def client_authorization(client: str, secret: str) -> str:
    """Return the header Authorization of a client at a token endpoint (RFC 6749 section 2.3.1).

    >>> client_authorization("bot", "a:b")
    'Basic Ym90OmElM0Fi'
    """
    pair = f"{quote_plus(client)}:{quote_plus(secret)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def granted_token(body: bytes, asked_at: float) -> GrantedToken:
    """Return the token of an answer to a request that was sent at ``asked_at``.

    >>> granted_token(b'{"access_token": "8c1f", "token_type": "bearer", "expires_in": 600}', 0)
    GrantedToken(value='8c1f', renewed_at=540, until=600)

    Raises:
        ValueError: there is none that a crawl can use; its text shows nothing of the answer.
    """
    found = _json_object(body)
    value, kind = found.get("access_token"), found.get("token_type", "Bearer")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise ValueError("its answer has no access_token")
    if not isinstance(kind, str) or kind.casefold() != "bearer":
        raise ValueError("its token is of another type than Bearer")
    if found.get("expires_in") is None:
        return GrantedToken(value, math.inf, math.inf)
    try:
        seconds = int(found["expires_in"])
    except (TypeError, ValueError, OverflowError):
        raise ValueError("its expires_in is no number") from None
    if seconds < LEAST_SECONDS:
        raise ValueError(f"its tokens last for fewer than {LEAST_SECONDS} seconds")
    early = min(_EARLY, seconds // 4)
    return GrantedToken(value, asked_at + seconds - early, asked_at + seconds)


def token_refusal(body: bytes) -> str:
    """Return the word for the reason in an answer that grants no token, with a comma; or nothing.

    >>> token_refusal(b'{"error": "invalid_client"}'), token_refusal(b"<html>")
    (', invalid_client', '')
    """
    word = _json_object(body).get("error")
    return f", {word}" if isinstance(word, str) and _WORD.fullmatch(word) else ""


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
