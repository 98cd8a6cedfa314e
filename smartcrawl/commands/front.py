"""The command line ``smartcrawl``: it greets, lists the commands, and runs one of them.

A command that needs no crawl runs without Scrapy, and only its own modules are imported. ``crawl``
and ``due`` run in Scrapy's process, with the settings of this project, from any folder.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from smartcrawl import __version__
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.model.exceptions import SmartcrawlError, nearest_word
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.terminal.output import described_line, print_complaint, printed, terminal_width

FAILED, USAGE = 1, 2  #: exit statuses; 2 is that of wrong usage
_INTERRUPTED: Final = 130  #: exit status after Ctrl-C, as of a shell
#: Options that may come before the command, and take a value.
_BEFORE: Final = ("--data-dir", "-s", "--set")
_ATTACHED: Final = re.compile(r"(--[\w-]+|-s\w+)=")  #: an option and its value in one word
_WIDTH: Final = 90  #: columns of the list of commands in a pipe
_SPACE: Final = "\0"  #: stands for a space in a path, which is not broken
_GREETING: Final = (
    f"smartcrawl {__version__} keeps a search index in step with web sites, and fetches only what"
    " changed."
)
#: The commands to begin with, and what they do.
_FIRST: Final = {
    "smartcrawl crawl https://docs.example.com/": "crawl a site; once more refreshes it",
    "smartcrawl search 'two words'": "search the crawled pages",
    "smartcrawl status": "see how each source is doing",
}
_OPTIONS: Final = {
    "--data-dir DIR": (
        "folder of all state; without it, and without $DATA_DIR and $SMARTCRAWL_DATA_DIR, it is"
        " .smartcrawl in this folder or, where there is none, the user's data folder; now it is {}"
    ),
    "-s, --set NAME=VALUE": "a setting, as often as needed; smartcrawl config lists them",
    "--version": "print the version",
}


def main_command(words: Sequence[str], settings: Any = None) -> int:
    """Run the command that the words name, and return the exit status.

    ``settings``: those of the Scrapy project whose command hands its words on; None: our own.
    """
    status = 0  # also when the reader stops reading, as in "… | head"
    try:
        with printed():
            status = _main(list(words), settings)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SmartcrawlError as error:
        print_complaint(program_name(), str(error))
        return FAILED
    return status


def _main(words: list[str], settings: Any) -> int:
    before = _options_before(words)
    if not words:
        print(_greeting(before))
        return 0
    name, *rest = words
    if name in ("--version", "-V"):
        print(f"smartcrawl {__version__}")
        return 0
    if name in ("help", "--help", "-h"):
        if not rest:
            print(commands_help(before))
            return 0
        name, rest = rest[0], ["--help"]
    if name not in COMMANDS:
        near = nearest_word(name, COMMANDS)
        meant = f"; did you mean {near}?" if near else ": smartcrawl --help lists them all"
        print(f"smartcrawl: there is no command {redacted_line(name)!r}{meant}", file=sys.stderr)
        return USAGE
    if name == "completion":
        from smartcrawl.commands import completion  # noqa: PLC0415  # as for run

        return completion.completion_command(rest)
    from smartcrawl.commands.running import run_command  # noqa: PLC0415  # greeting and help need none

    return run_command(name, [*before, *rest], settings)


def _options_before(words: list[str]) -> list[str]:
    """Take the options before the command out of ``words``, and return them."""
    found: list[str] = []
    while words and (words[0].partition("=")[0] in _BEFORE or re.match(r"-s\w+=", words[0])):
        taken = 1 if _ATTACHED.match(words[0]) else 2
        found += words[:taken]
        del words[:taken]
    return found


def _folder(before: Sequence[str]) -> str:
    """Return the folder of all state; ``before``: the options that may name it."""
    if before:
        from smartcrawl.commands.running import front_door_data_dir  # noqa: PLC0415  # as above

        return front_door_data_dir(before)
    from smartcrawl.terminal.state_folder import state_folder  # noqa: PLC0415  # as above

    return str(state_folder(None, os.environ))


def _kept(before: Sequence[str]) -> str:
    """Return the folder of all state as one word, which no line breaks."""
    return _folder(before).replace(" ", _SPACE)


def _greeting(before: Sequence[str]) -> str:
    """Return the greeting; ``before``: options of the command line."""
    last = f"smartcrawl --help lists every command. The state is in {_kept(before)}"
    return "\n".join((*_sentence(_GREETING), "", *_described(_FIRST, gap=3), "", *_sentence(last)))


def commands_help(before: Sequence[str] = ()) -> str:
    """Return the list of all commands, one line each where there is room.

    ``before``: options of the command line.
    """
    options = {name: text.replace("{}", _kept(before)) for name, text in _OPTIONS.items()}
    explained = "smartcrawl COMMAND --help explains a command. Options of every command:"
    return "\n".join(
        (
            *_sentence("usage: smartcrawl COMMAND [options] [words]"),
            "",
            *_described(COMMANDS, gap=2),
            "",
            *_sentence(explained),
            *_described(options, gap=2),
        )
    )


def _sentence(text: str) -> list[str]:
    """Return the lines of a sentence."""
    width = terminal_width(sys.stdout)
    if width is None:
        return [text.replace(_SPACE, " ")]
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_SPACE, " ") for line in lines]


def _described(texts: Mapping[str, str], *, gap: int) -> list[str]:
    """Return a line for each name, with its description ``gap`` columns after the longest."""
    column = 2 + max(map(len, texts)) + gap
    width = terminal_width(sys.stdout) or _WIDTH
    lines = [described_line(name, text, column, width) for name, text in texts.items()]
    return [line.replace(_SPACE, " ") for line in lines]
