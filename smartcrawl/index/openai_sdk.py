"""The official SDK of OpenAI, as this project uses it: no repeats, no redirects, a key unseen.

Callers repeat requests, and honour Retry-After. Text is sent to the configured host only.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import openai

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import KEY_VARIABLE, OpenAIServerOptions
from smartcrawl.model.patience import AwayError
from smartcrawl.model.redaction import HIDDEN, redacted_line
from smartcrawl.rules.http import retry_after

_QUOTA: Final = "insufficient_quota"  #: code of a 429 that no wait ends
_SHOWN: Final = 300  #: characters of the server's message in ours
#: Loggers that would log each request.
_WORDY: Final = ("httpcore2", "httpx2", "openai")


def openai_client(options: OpenAIServerOptions, key: str, *, timeout: float) -> openai.OpenAI:
    """Return a client; it connects with the first request.

    ``key`` empty: none is sent, if requests have ``openai_headers``. ``timeout`` in seconds.
    """
    for name in _WORDY:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    return openai.OpenAI(
        api_key=key or "none",
        base_url=options.url,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultHttpxClient(
            follow_redirects=False, trust_env=options.has_proxies, verify=_trust(options.ca_file)
        ),
    )


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    """Return the TLS context that all clients with these authorities share.

    The authorities of the system are read once: that takes as long as hundreds of requests. Files
    that are put in their place count for the next process, a new ``ca_file`` for the next client.
    """
    changed = ca_file.stat().st_mtime_ns if ca_file is not None else 0
    places = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _shared_context(ca_file, changed, places)


@lru_cache(maxsize=8)
def _shared_context(
    ca_file: Path | None, changed: int, places: tuple[str | None, str | None]
) -> ssl.SSLContext:
    """Return the context of a file; ``changed`` and ``places`` differ when its authorities do."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


def openai_headers(key: str) -> Mapping[str, openai.Omit] | None:
    """Return the headers of requests: without a key, none of it."""
    return None if key else {"Authorization": openai.Omit()}


def openai_key(missing: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the key of the environment, or nothing.

    ``missing``: the message where there is none; empty: it may be missing.

    Raises:
        SettingError: the key is missing, or cannot be one.
    """
    key = environment.get(KEY_VARIABLE, "").strip()
    if not key and missing:
        raise SettingError(missing)
    if not all("!" <= character <= "~" for character in key):
        raise SettingError(
            f"{KEY_VARIABLE} has spaces or other characters that keys never have: copy it again"
        )
    return key


def openai_text_shown(text: str, key: str) -> str:
    """Return text of the server for a message: without the key, on one line, not too long."""
    line = redacted_line(text.replace(key, HIDDEN) if key else text)
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + HIDDEN


def openai_error_message(error: openai.APIStatusError) -> str:
    """Return the server's own words about an error."""
    body = error.body
    for key in ("message", "error", "detail"):
        if isinstance(body, dict) and body.get(key):
            return str(body[key])
    return str(body or error.response.reason_phrase)


def openai_lasting_remedy(error: openai.APIStatusError, address_setting: str, key: str) -> str:
    """Return the remedy for an answer that no wait changes; empty: it is of another kind.

    ``address_setting``: the setting that a redirect's place belongs in. ``key`` is not shown.
    """
    if error.status_code in (401, 403):
        return f"check {KEY_VARIABLE} and what its key may be used for"
    if error.status_code == 429 and error.code == _QUOTA:
        return "the account of the key needs credit"
    if error.status_code < 400:
        place = openai_text_shown(error.response.headers.get("location", ""), key)
        return f"it redirects to {place!r}: set {address_setting} to that"
    return ""


def openai_away_error(error: openai.APIStatusError, message: str, now: float) -> AwayError | None:
    """Return the error of a server that may answer later; None: it is no such answer.

    ``now``: Unix time, for a Retry-After that is a date.
    """
    status = error.status_code
    if status not in (408, 409, 425, 429) and status < 500:
        return None
    wait = retry_after(error.response.headers.get("retry-after"), int(now))
    return AwayError(message, wait=wait, was_refused=status == 429)
