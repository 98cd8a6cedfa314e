"""Whether a notice from outside counts: key files of IndexNow, tokens of hooks (R1-53).

Source: the documentation of IndexNow, "Verifying ownership via the key"; that of GitHub,
"Validating webhook deliveries".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

#: Whether a text is a key of IndexNow.
is_indexnow_key: Final[Callable[[str], object]] = re.compile(r"[A-Za-z0-9-]{8,128}").fullmatch
FETCH_SECONDS: Final = 600  #: for which a host is not asked again for a key file
#: For which a verified key counts while another key keeps its host from being asked.
VERIFIED_SECONDS: Final = 86_400


def has_indexnow_key(body: bytes, key: str) -> bool:
    r"""Whether a key file has a key: each of its lines is a key, so that no web page is one.

    >>> has_indexnow_key(b"\xef\xbb\xbf0123-4567\r\n", "0123-4567")
    True
    >>> has_indexnow_key(b"<p>\n0123-4567\n</p>", "0123-4567")
    False
    """
    try:
        lines = body.decode("utf-8-sig").split()
    except UnicodeDecodeError:
        return False
    return key in lines and all(map(is_indexnow_key, lines))


@dataclass(frozen=True, slots=True)
class KeyFetch:
    """A request for the key file of a host, and what came of it."""

    at: float  #: Unix seconds
    key: str
    url: str  #: of the file
    reason: str | None = None  #: why the key does not count; None: the file has it


@dataclass(frozen=True, slots=True)
class HostFetches:
    """What is remembered of a host."""

    last: KeyFetch | None = None
    verified: KeyFetch | None = None  #: the last one whose file had its key

    def after(self, fetch: KeyFetch) -> HostFetches:
        """Return what is remembered after one more request; a key that its file lost is not."""
        if fetch.reason is None:
            return HostFetches(fetch, fetch)
        known = self.verified
        is_lost = known is not None and (known.key, known.url) == (fetch.key, fetch.url)
        return HostFetches(fetch, None if is_lost else known)


class KeyVerdict(Enum):
    """What is done about the key of a notice."""

    ACCEPT = auto()  #: it is verified
    FETCH = auto()  #: ask the host for the file
    REFUSE = auto()  #: the last request found that the file lacks it
    WAIT = auto()  #: the host was asked for another key; it is not asked again yet


def judge_indexnow_key(known: HostFetches, key: str, url: str, now: float) -> KeyVerdict:
    """Return what is done about a key whose file is at ``url``; ``now``: Unix seconds.

    >>> seen = HostFetches().after(KeyFetch(1000, "key-of-a", "https://a.example/key-of-a.txt"))
    >>> judge_indexnow_key(seen, "key-of-a", "https://a.example/key-of-a.txt", 1599).name
    'ACCEPT'
    >>> judge_indexnow_key(seen, "another1", "https://a.example/another1.txt", 1599).name
    'WAIT'
    """
    last, verified = known.last, known.verified
    if last is None or not 0 <= now - last.at < FETCH_SECONDS:
        return KeyVerdict.FETCH
    if verified is not None and (verified.key, verified.url) == (key, url):
        return KeyVerdict.ACCEPT if now - verified.at < VERIFIED_SECONDS else KeyVerdict.WAIT
    return KeyVerdict.REFUSE if (last.key, last.url) == (key, url) else KeyVerdict.WAIT


def is_signed_notice(secret: str, body: bytes, signature: str) -> bool:
    """Whether a body is signed, as ``X-Hub-Signature-256`` has it; compared in constant time.

    >>> is_signed_notice("It's a Secret to Everybody", b"Hello, World!", "sha256="
    ...     "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
    True
    """
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))


def is_notice_token(secret: str, token: str) -> bool:
    """Whether a token is the secret of a hook; compared in constant time."""
    return hmac.compare_digest(secret.encode(), token.encode(errors="replace"))
