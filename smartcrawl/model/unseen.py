"""Characters that are not seen: format characters, fillers, variation selectors and tags.

They can spell words to a language model that no person reads. Where a script, or a symbol, needs
one of them, it stays.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from smartcrawl.model.redaction import escaped_text

#: Format characters and those that Unicode lets a renderer ignore (Default_Ignorable_Code_Point).
_UNSEEN: Final = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS: Final = "\u200c\u200d"
#: Scripts whose letters need joiners: Arabic to N'Ko, the Brahmic ones with Tibetan, Myanmar and
#: Khmer, Mongolian, forms of Arabic, and those beyond the basic plane with Adlam.
_JOINED: Final = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1700-\u18af\u1a20-\u1aaf\u1b00-\u1c4f\ua840-\ua8df"
    "\ua980-\uaa7f\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff"
    "\U0001e900-\U0001e95f]"
)
_TEXT: Final = "\ufe0e"  #: selects the form of a symbol that is text
_PICTURE: Final = "\ufe0f"  #: selects its form that is a picture
_KEYS: Final = tuple("0123456789#*")  #: they are pictures of keys, with a selector
_SYMBOLS: Final = tuple("©®‼⁉ℹ〰")  #: beside those that Unicode calls symbols
_MONGOLIAN: Final = re.compile("[\u1800-\u18af]")
_IDEOGRAPH: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


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
