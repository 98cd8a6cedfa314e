"""Redaction of text for display: hidden secrets, escaped control characters, limited length."""

from __future__ import annotations

import json
import re
from typing import Final

LONGEST: Final = 8_192  #: characters of a message, and of each line of a traceback
HIDDEN: Final = "…"  #: mark in place of a secret, and of text that was cut off
#: Controls (C0, DEL, C1), separators of lines and paragraphs, bidirectional controls, lone
#: surrogates. Tag characters are invisible to people and read by language models.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)

_TAG = re.compile("[\U000e0000-\U000e007f]")


def escaped_text(text: str) -> str:
    r"""Return ``text`` on one line, without characters that move the cursor or turn the text.

    >>> escaped_text("Home\n2026-11-21 [root] INFO: all is well\x1b[2K\u202e")
    'Home\\n2026-11-21 [root] INFO: all is well\\x1b[2K\\u202e'
    >>> escaped_text("Bücher 日本")
    'Bücher 日本'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def json_safe_text(text: str) -> str:
    r"""Return JSON without characters that move the cursor, break a line or turn the text.

    >>> json_safe_text('{"title": "a\u2028b\x85"}')
    '{"title": "a\\u2028b\\u0085"}'
    """
    return _UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text)


def escaped_tags(text: str) -> str:
    r"""Return a text of several lines with its tag characters as escapes.

    >>> escaped_tags("spare\U000e0041\nfuse")
    'spare\\U000e0041\nfuse'
    """
    return _TAG.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


# Repetitions are possessive (*+, ++) and never backtrack, so that every pattern reads a text once,
# whatever its contents.

#: The user information of a URL ends at the last @ before the path. Programs that follow the URL
#: standard accept any number of slashes and backslashes, and drop tabs and line breaks.
_AUTHORITY = re.compile(r"""((?i:\bhttps?|\bftp):[/\\]*+|[/\\]{2,}+)([^/\\?#" <>]*+)""")
#: The same in a URL that is a parameter of another URL.
_ENCODED_AUTHORITY = re.compile(
    r"""((?:%2F){2,}+)((?:[^/\\?#" <>&%]++|%(?!2F|3F|23|26))*+)""", re.IGNORECASE
)
#: A password with / or ? or #: the apparent host has a port that is no number.
_BROKEN_AUTHORITY = re.compile(
    r"""((?<![/\\])[/\\]{2,}+)([^/\\?#"'\s<>@:\[\]]*+:(?!\d*+(?:[/\\?#"'\s<>]|\Z))[^"\s<>@]*+@?+)"""
)
#: The text before a name: DB_PASSWORD, sasToken and %3Ftoken name secrets, "design" does not.
_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
_NAMES = (
    r"(?:token|secret|password|passwd|passphrase|pwd|credentials?|(?:sharedaccess)?sig(?:nature)?"
    r"|(?:api|account|private)[_-]?key|(?:aws|shared)?access[_-]?key(?:[_-]?id)?)"
)
_HEADERS = r"(?:authorization|cookies?)"
#: Between name and value: name=, "name":, ('name', …), NAME is '…'; also percent-encoded.
_BETWEEN = (
    r"""(?:(?:\\*+["'])?+[ \t]*+(?:[:=!]=*+>?+|%3[AD])[ \t]*+|\\*+["'],[ \t]*+|[ ]is[ ](?=["']))"""
)
_SCHEME = r"(?:(?:bearer|basic)[ ]++)?+"
_STRING = r"""(?:b?"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|b?'[^'\\]*+(?:\\.[^'\\]*+)*+'?+)"""
#: A value in quotes, in escaped quotes, or several in brackets; without its end all text after it.
_QUOTED = rf"""
    \[(?P<several>{_STRING}(?:,\s*+{_STRING})*+)
    |b?"{_SCHEME}(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)
    |b?'{_SCHEME}(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)
    |(?P<quote>\\{{1,31}}+["']){_SCHEME}(?P<escaped>.*?)(?:(?=(?P=quote))|\Z)
"""
_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE
_NAME = re.compile(f"{_START}(?:{_NAMES}|{_HEADERS}){_BETWEEN}", _FLAGS)
_HEADER = re.compile(
    rf"{_START}{_HEADERS}{_BETWEEN}(?:{_QUOTED}|{_SCHEME}(?P<bare>[^\r\n]++))", _FLAGS
)
_PAIR = re.compile(
    rf"{_START}{_NAMES}{_BETWEEN}(?:{_QUOTED}"
    r"""|(?P<bare>(?:[^ \t\r\n&;"<>\\]++|\\(?!["']))++))""",
    _FLAGS,
)
#: The end of a path in quotes, as in '/etc/passwd': a sentence follows it.
_PATH_END = re.compile(rf"""[/\\]{_NAMES}["']:[ ]\Z""", _FLAGS ^ re.VERBOSE)
_CLOSING = "',.:()[]{}"  #: characters that do not belong to the end of a value without quotes


def redacted_text(text: str) -> str:
    """Return ``text`` without secrets.

    Hidden are the user information of URLs, the values of parameters, settings and headers with
    the name of a secret, and the contents of Authorization and Cookie. Where the end of a value is
    not clear, more is hidden rather than less.

    >>> redacted_text("<GET https://user:pw@a.example/?page=2&access_token=8c1f&key=7>")
    '<GET https://…@a.example/?page=2&access_token=…&key=7>'
    >>> redacted_text("{'client_secret': 'a b', 'id': 'c'}")
    "{'client_secret': '…', 'id': 'c'}"
    >>> redacted_text("Authorization: Bearer 8c1f.x")
    'Authorization: Bearer …'
    >>> redacted_text("AccountName=docs;AccountKey=8c1f==;EndpointSuffix=a.example")
    'AccountName=docs;AccountKey=…;EndpointSuffix=a.example'
    """
    for pattern in (_ENCODED_AUTHORITY, _AUTHORITY, _BROKEN_AUTHORITY):
        text = pattern.sub(_without_user, text)
    for pattern in (_HEADER, _PAIR):
        text = pattern.sub(_without_value, text)
    return text


def _without_user(found: re.Match[str]) -> str:
    slashes, authority = found.groups()
    at = max(authority.rfind("@"), authority.rfind("%40"))
    if at < 0:
        return found[0]
    name = (_NAME.findall(authority[:at]) or [""])[-1]  # the text after the @ may be its value
    return f"{slashes}{HIDDEN}{name}{authority[at:]}"


def _without_value(found: re.Match[str]) -> str:
    assert found.lastgroup is not None
    before, value = found.start(found.lastgroup) - found.start(), found[found.lastgroup]
    if found.lastgroup == "bare":
        if _PATH_END.search(found.string, max(0, found.start() - 1), found.start() + before):
            return found[0]
        value = value.rstrip(_CLOSING)
        if not value:
            return found[0]
    return found[0][:before] + HIDDEN + found[0][before + len(value) :]


def redacted_line(text: str) -> str:
    """Return ``text`` without secrets, on one line, of at most 8,192 characters."""
    text = escaped_text(redacted_text(text).rstrip())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + HIDDEN


def redacted_lines(text: str) -> str:
    """Return a text of several lines, each of them as ``shown``."""
    return "\n".join(map(redacted_line, redacted_text(text).rstrip().split("\n")))
