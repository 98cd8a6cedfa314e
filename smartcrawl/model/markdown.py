"""Text as Markdown in which no character of it is markup (CommonMark 0.31)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: Stands for markup in a text that is escaped; cleaned text has no such character.
MARK: Final = "\0"

_DEEPEST: Final = 6  #: level of a heading

_WHITE_CONTROLS: Final = "\v\f\r\x1c\x1d\x1e\x1f\x85"
#: For ``str.translate``: control characters go, those that are white space become a space.
_CONTROLS: Final = {
    code: " " if chr(code) in _WHITE_CONTROLS else None
    for code in range(0xA0)
    if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\t\n"
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_PUNCTUATION: Final = re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
#: Characters that may be markup within a paragraph, as runs where Markdown counts them.
_INLINE: Final = re.compile(
    rf"\*+|_+|`+|~+|\\(?=[{_PUNCTUATION}{MARK}]|\n|\Z)|!(?={MARK})|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=[(:])"
)
_ANY: Final = re.compile(r"[\\`*_~<&\[\]!]")
_IN_PAIRS: Final = "*_`~"  #: one run of them alone marks nothing
#: Before a character that makes a line a heading, item, quote or fence; or the whole line a rule,
#: an underline or the second row of a table.
_LINE_START: Final = re.compile(
    r"(?=#{1,6}(?:[ \t]|$)|[-+*](?:[ \t]|$)|>|~~~|```|\[[ xX]\]|[-=_*|:][-=_*|: \t]*$)"
)
_NUMBERED: Final = re.compile(r"(\d{1,9})(?=[.)](?:[ \t]|$))")
_CLOSING: Final = re.compile(r"(?:(?<=[ \t])|^)#+$")  #: of a heading; Markdown leaves it out


def text_as_markdown_line(text: str) -> str:
    """Return text as one line in which Markdown finds no markup; not for the start of a block."""
    return escape_markdown(one_text_line(text))


def markdown_heading(level: int, text: str) -> str:
    """Return a heading of one line of text; a level beyond 1 to 6 becomes the nearest one."""
    closing = _CLOSING.search(text)
    escaped = escape_markdown(text[: closing.start()] if closing else text)
    if closing:
        escaped += closing[0].replace("#", "\\#")
    return f"{'#' * min(max(level, 1), _DEEPEST)} {escaped}"


def escape_markdown(text: str, spaces: str = " \t\n") -> str:
    """Escape the characters of a paragraph that would be emphasis, code, links or HTML.

    ``spaces``: the characters that are white space in Markdown. Beside markup that a mark stands
    for, no backtick is alone.
    """
    runs: dict[str, int] = dict.fromkeys(_IN_PAIRS, 0)
    runs["`"] = int(MARK in text)
    for run in _INLINE.finditer(text):
        if run[0][0] in runs:
            runs[run[0][0]] += 1

    def escaped(run: re.Match[str]) -> str:
        mark = run[0][0]
        if mark in runs and (runs[mark] < 2 or _is_plain(text, run, spaces)):
            return run[0]
        return "".join(f"\\{character}" for character in run[0])

    return _INLINE.sub(escaped, text)


def escape_all_markdown(text: str) -> str:
    """Escape each character that could be markup, whatever text follows it in the paragraph."""
    return _ANY.sub(r"\\\g<0>", text)


def _is_plain(text: str, run: re.Match[str], spaces: str) -> bool:
    """Whether a run of ``*`` or ``_`` is between spaces, or of ``_`` within a word."""
    mark = run[0][0]
    if mark not in "*_":
        return False
    before = text[run.start() - 1] if run.start() else " "
    after = text[run.end()] if run.end() < len(text) else " "
    if mark == "_" and before.isalnum() and after.isalnum():
        return True
    return before in spaces and after in spaces


def escape_markdown_start(line: str) -> str:
    """Escape the character that would make a line a heading, an item, a quote, a rule or code."""
    found = _NUMBERED.match(line) or _LINE_START.match(line)
    return f"{line[: found.end()]}\\{line[found.end() :]}" if found else line


def one_text_line(text: str) -> str:
    """Return text without control characters as one line, with single spaces."""
    return " ".join(clean_text(text).split())


def clean_text(text: str) -> str:
    """Return text without control characters, and with U+FFFD for halves of surrogate pairs."""
    return _SURROGATE.sub("\ufffd", text.translate(_CONTROLS))
