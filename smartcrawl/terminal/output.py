"""Output of commands: lines and times for people, and standard output with any encoding.

Output of commands for people: the width of lines, wrapped sentences, and short times.

Lines are wrapped where a width is known: on a terminal, or where COLUMNS is set. A pipe gets one
line for each sentence and row, so that grep and awk find them whole.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING, Final

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.redaction import json_safe_text, redacted_line
from smartcrawl.terminal.markup import escape, markup_without_styles

if TYPE_CHECKING:
    from rich.console import Console

_DESCRIPTION: Final = 20  #: columns that the description of an option has at least
_DEFAULT_WIDTH: Final = 80  #: columns of a terminal that does not say how many it has
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"  #: three letters each
_YEAR: Final = timedelta(days=300)  #: older times have their year in place of the hour
#: Variables that decide about styles in place of the file, as Rich reads them.
_STYLING: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
#: A word, or a number with its unit, and the spaces after it.
_WORD: Final = re.compile(r"(?:[\d.,]+ (?=(?:%|(?:s|min|h|days|bytes|[kMGT]?B)\b)))?[^ ]+ *")


def print_any_character() -> None:
    """Let standard output and error print ``?`` for a character that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal_width(file: IO[str] | None) -> int | None:
    """Return the columns of a line; None: lines are not wrapped."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    if file is None or not file.isatty():
        return None
    try:
        return os.get_terminal_size(file.fileno()).columns or _DEFAULT_WIDTH
    except OSError:
        return _DEFAULT_WIDTH


def printed_json(value: object, file: IO[str], *, indent: int | None = None) -> str:
    """Return JSON for a file: with escapes where its encoding lacks characters of Unicode."""
    unicode = (getattr(file, "encoding", None) or "utf-8").lower().startswith("utf")
    return json_safe_text(json.dumps(value, ensure_ascii=not unicode, indent=indent))


class Output:
    """Sentences and lines for people, on one file; Rich is imported where styles are printed."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._given = file
        self.file = sys.stdout if file is None else file
        self.width = terminal_width(self.file)
        self._styled = not _STYLING.isdisjoint(os.environ) or self.file.isatty()
        self._made: Console | None = None

    @property
    def _console(self) -> Console:
        if self._made is None:
            from rich.console import Console  # noqa: PLC0415  # see the class

            self._made = Console(file=self._given, highlight=False, soft_wrap=True)
        return self._made

    def line(self, markup: str) -> None:
        """Print one line in Rich's markup, however long."""
        self._print(markup)

    def _print(self, *parts: str) -> None:
        """Print the parts of a line, each with styles of its own."""
        texts = [None if self._styled else markup_without_styles(part) for part in parts]
        plain = [text for text in texts if text is not None]
        if len(plain) == len(parts):
            print("".join(plain), file=self._given, flush=True)  # Rich flushes each line, too
            return
        from rich.text import Text  # noqa: PLC0415  # see the class

        styled = (Text.from_markup(part, emoji=False) for part in parts)
        self._console.print(Text.assemble(*styled))

    def say(
        self, markup: str = "", *, command: str = "", gap: int = 2, label: str = "", indent: int = 2
    ) -> None:
        """Print a sentence in Rich's markup, wrapped at words, and the command that goes on.

        ``label``: markup before the first line. ``indent``: columns before the others. ``gap``:
        spaces before the command. Neither the command nor a long word is broken: both can be
        copied. The command gets a line of its own where it does not fit.
        """
        end = " " * gap + command if command else ""
        if self.width is None:
            self._print(label, markup, escape(end))
            return
        from rich.text import Text  # noqa: PLC0415  # see the class

        text, before = (Text.from_markup(one, emoji=False) for one in (markup, label))
        after = Text(end)
        room = max(1, self.width - max(before.cell_len, indent))
        lines = list(text.divide(_ends(text.plain, room)))
        for line in lines:
            line.rstrip()
        if lines[-1].cell_len + after.cell_len <= room:
            lines[-1] += after
        elif command:
            lines.append(Text(command))
        self._console.print(before + lines[0])
        for line in lines[1:]:
            self._console.print(Text(" " * indent) + line)


def described_line(name: str, text: str, column: int, width: int | None) -> str:
    """Return a name and, from a column on, what it means: in lines of ``width`` columns, if known.

    Where the name leaves no room, its description is below it, as argparse prints options.

    >>> print(described_line("-s NAME", "a setting", 12, None))
      -s NAME   a setting
    >>> print(described_line("--long-option", "what it is for", 17, 24))
      --long-option
        what it is for
    """
    if width is None:
        return f"  {name}".ljust(column) + text
    column = min(column, max(4, width - _DESCRIPTION))
    lines = textwrap.wrap(
        text, max(1, width - column), break_long_words=False, break_on_hyphens=False
    )
    before = f"  {name}".ljust(column)
    if len(name) + 4 > column:
        lines.insert(0, f"  {name}")
    else:
        lines[0] = before + lines[0]
    return ("\n" + " " * column).join(lines)


def print_note(text: str, *, command: str = "", gap: int = 2) -> None:
    """Print a plain sentence on standard output, and the command that goes on."""
    Output().say(escape(text), command=command, gap=gap)


def print_complaint(name: str, text: str) -> None:
    """Print the message of a command on standard error; each line of ``text`` is a sentence."""
    output = Output(sys.stderr)
    for line in f"{name}: {text}".split("\n"):
        output.say(escape(redacted_line(line)))


def _ends(text: str, width: int) -> list[int]:
    """Return the places to break a text at its spaces; a word longer than a line stays whole.

    >>> _ends("one two three", 8), _ends("http://a.example/long is one", 8), _ends("", 8)
    ([8], [22], [])
    >>> _ends("within 12 min", 10)
    [7]
    """
    from rich.cells import cell_len  # noqa: PLC0415  # as above

    ends, start = [], 0
    for found in _WORD.finditer(text):
        if found.start() > start and cell_len(text[start : found.end()].rstrip()) > width:
            start = found.start()
            ends.append(start)
    return ends


def printed_time(iso: str | None, now: datetime | None = None) -> str | None:
    """Return a time in 12 columns or less, in UTC, for tables.

    >>> now = datetime(2026, 11, 23, tzinfo=UTC)
    >>> printed_time("2026-11-21T09:05:30Z", now), printed_time("2025-01-02T09:05:30Z", now)
    ('21 Nov 09:05', '2 Jan 2025')
    >>> printed_time(None, now) is None
    True
    """
    if iso is None:
        return None
    at = datetime.fromisoformat(iso)
    day = f"{at.day} {_MONTHS[3 * at.month - 3 : 3 * at.month]}"
    return f"{day} {at.year}" if (now or datetime.now(UTC)) - at > _YEAR else f"{day} {at:%H:%M}"


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class OutputError(SmartcrawlError):
    """Standard output could not be written."""


@contextmanager
def printed() -> Iterator[None]:
    """Print in any encoding, and end quietly when the reader stops reading, as in "… | head".

    A character that the encoding lacks is printed as ``?``.

    Raises:
        OutputError: standard output cannot be written, for example because its disk is full.
    """
    if sys.stdout is None:  # it was closed before the start
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    print_any_character()
    try:
        try:
            yield
        except SystemExit:  # for example of a parser, after the help
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # rich exits with status 1 then
            raise
        discard_output()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        discard_output()
        raise OutputError(
            f"cannot write to standard output ({error.strerror}): make room there, or redirect it"
            " to another place"
        ) from error


def discard_output() -> None:
    """Discard all further output, also what is flushed at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
