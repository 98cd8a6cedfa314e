"""Redaction of text for display: hidden secrets, escaped and unseen characters, limits.

Characters that are not seen: format characters, fillers, variation selectors and tags.

They can spell words to a language model that no person reads. Where a script, or a symbol, needs
one of them, it stays.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

from smartcrawl.model.late_patterns import late_pattern

#: Format characters and those that Unicode lets a renderer ignore (Default_Ignorable_Code_Point).
_UNSEEN: Final = late_pattern(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS: Final = "\u200c\u200d"
#: Scripts whose letters need joiners: Arabic to N'Ko, the Brahmic ones with Tibetan, Myanmar and
#: Khmer, Mongolian, forms of Arabic, and those beyond the basic plane with Adlam.
_JOINED: Final = late_pattern(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1700-\u18af\u1a20-\u1aaf\u1b00-\u1c4f\ua840-\ua8df"
    "\ua980-\uaa7f\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff"
    "\U0001e900-\U0001e95f]"
)
_TEXT: Final = "\ufe0e"  #: selects the form of a symbol that is text
_PICTURE: Final = "\ufe0f"  #: selects its form that is a picture
_KEYS: Final = tuple("0123456789#*")  #: they are pictures of keys, with a selector
_SYMBOLS: Final = tuple("©®‼⁉ℹ〰")  #: beside those that Unicode calls symbols
_MONGOLIAN: Final = late_pattern("[\u1800-\u18af]")
_IDEOGRAPH: Final = late_pattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def visible_text(text: str) -> str:
    r"""Return ``text`` on one line, with each character that is not seen as an escape.

    >>> visible_text("spare\u200b \ufefffuse\U000e0041")
    'spare\\u200b \\ufefffuse\\U000e0041'
    >>> visible_text("क्\u200dष") == "क्\u200dष"
    True

    Source: ATT-64.
    """
    return escaped_text(_UNSEEN.sub(_shown, text))


def _shown(found: re.Match[str]) -> str:
    """Return a character if its place needs it, else its escape."""
    char, text, place = found[0], found.string, found.start()
    before, after = text[max(place - 1, 0) : place], text[place + 1 : place + 2]
    return char if _is_needed(char, before, after) else char.encode("unicode_escape").decode()


def _is_needed(char: str, before: str, after: str) -> bool:
    if char in _JOINERS and _is_joined(before) and _is_joined(after):
        return True
    if char == "\u200d":  # pictures of several people, professions …
        return (_is_symbol(before) or before == _PICTURE) and _is_symbol(after)
    if char in (_TEXT, _PICTURE):
        return _is_symbol(before) or before in _KEYS
    if "\u180b" <= char <= "\u180f":  # a selector of Mongolian
        return _MONGOLIAN.match(before) is not None and not _UNSEEN.match(before)
    return "\U000e0100" <= char <= "\U000e01ef" and _IDEOGRAPH.match(before) is not None


def _is_joined(char: str) -> bool:
    """Whether a character is a letter, or a mark of one, of a script that needs joiners."""
    is_seen = _JOINED.match(char) is not None and _UNSEEN.match(char) is None
    return is_seen and unicodedata.category(char)[0] in "LM"


def _is_symbol(char: str) -> bool:
    return char in _SYMBOLS or (char > "\xff" and unicodedata.category(char) in ("So", "Sm", "Sk"))


LONGEST: Final = 8_192  #: characters of a message, and of each line of a traceback
HIDDEN: Final = "…"  #: mark in place of a secret, and of text that was cut off
#: Controls (C0, DEL, C1), separators of lines and paragraphs, bidirectional controls, lone
#: surrogates. Tag characters are invisible to people and read by language models.
_UNSAFE = late_pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON = late_pattern(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)

_TAG = late_pattern("[\U000e0000-\U000e007f]")


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
_AUTHORITY = late_pattern(r"""((?i:\bhttps?|\bftp):[/\\]*+|[/\\]{2,}+)([^/\\?#" <>]*+)""")
#: The same in a URL that is a parameter of another URL.
_ENCODED_AUTHORITY = late_pattern(
    r"""((?:%2F){2,}+)((?:[^/\\?#" <>&%]++|%(?!2F|3F|23|26))*+)""", re.IGNORECASE
)
#: A password with / or ? or #: the apparent host has a port that is no number.
_BROKEN_AUTHORITY = late_pattern(
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
_NAME = late_pattern(f"{_START}(?:{_NAMES}|{_HEADERS}){_BETWEEN}", _FLAGS)
_HEADER = late_pattern(
    rf"{_START}{_HEADERS}{_BETWEEN}(?:{_QUOTED}|{_SCHEME}(?P<bare>[^\r\n]++))", _FLAGS
)
_PAIR = late_pattern(
    rf"{_START}{_NAMES}{_BETWEEN}(?:{_QUOTED}"
    r"""|(?P<bare>(?:[^ \t\r\n&;"<>\\]++|\\(?!["']))++))""",
    _FLAGS,
)
#: The end of a path in quotes, as in '/etc/passwd': a sentence follows it.
_PATH_END = late_pattern(rf"""[/\\]{_NAMES}["']:[ ]\Z""", _FLAGS ^ re.VERBOSE)
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
