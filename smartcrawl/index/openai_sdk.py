"""The official SDK of OpenAI, as this project uses it: no repeats, no redirects, a key unseen.

Callers repeat requests, and honour Retry-After. Text is sent to the configured host only.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import openai

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import HIDDEN, redacted_line

KEY_VARIABLE: Final = "OPENAI_API_KEY"
_SHOWN: Final = 300  #: characters of the server's message in ours
#: Loggers that would log each request.
_WORDY: Final = ("httpcore2", "httpx2", "openai")


def openai_client(
    url: str, key: str, *, timeout: float, ca_file: Path | None, has_proxies: bool
) -> openai.OpenAI:
    """Return a client; it connects with the first request.

    ``key`` empty: none is sent, if requests have ``openai_headers``. ``timeout`` in seconds.
    """
    for name in _WORDY:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return openai.OpenAI(
        api_key=key or "none",
        base_url=url,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultHttpxClient(
            follow_redirects=False, trust_env=has_proxies, verify=context
        ),
    )


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
            f"{KEY_VARIABLE} has spaces or other characters that no key has: copy it anew"
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
