"""Percent-encoding in its normal form (RFC 3986, section 6.2.2)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

#: Characters that RFC 3986 allows in a path, for a class of a pattern.
PLAIN: Final = r"A-Za-z0-9\-._~!$&'()*+,;=:@/"
#: Escapes in their normal form: upper case, and not of an unreserved character.
ESCAPE: Final = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF])"
_ODD: Final = re.compile(rf"(?!{ESCAPE})%(?:[0-9A-Fa-f]{{2}})?|[^{PLAIN}?%]")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normal_url_escapes(text: str) -> str:
    """Return a part of an address with its percent-encoding in normal form.

    Surrogates of undecodable bytes (``os.fsdecode``) become escapes of these bytes.

    >>> normal_url_escapes("%7efoo%2fbar|100%")
    '~foo%2Fbar%7C100%25'

    Raises:
        ValueError: another surrogate is in it.
    """
    return _ODD.sub(_respelled, text)


def _respelled(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return quote(found, safe="", errors="surrogateescape")
    char = chr(int(found[1:], 16))
    return char if char in _UNRESERVED else found.upper()
