"""Mistyped options, settings and files on a command line, refused before anything is done.

Scrapy parses with ``parse_known_args``, because its commands take words of any number; argparse
then leaves options that it does not know among the words. ``search --limt 3`` would look for
"--limt 3".
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from smartcrawl.model.exceptions import SettingError, nearest_word
from smartcrawl.model.redaction import redacted_line
from smartcrawl.terminal.output import print_complaint, terminal_width

_USAGE: Final = "usage: "  #: what argparse begins the line with
_OPTION: Final = re.compile(r"-(?!\d|\Z)")  #: "-" alone and negative numbers are words
_AFTER: Final = " A word that begins with a dash goes after --"
_ADDRESS: Final = re.compile(r"[/:]|\A\d+ ")  #: or the number of a run: no words of a query
_LIKE_OPTION: Final = 0.7  #: similarity from which an option is proposed
_MISTYPED: Final = 0.8  #: similarity from which an unknown setting is a mistyped one


def check_terminal_usage(
    parser: ArgumentParser,
    settings: Collection[str],
    args: list[str],
    opts: Namespace,
    *,
    words: bool = False,
    notes: bool = True,
    elsewhere: Callable[[str], str | None] = lambda option: None,
) -> None:
    """Refuse unknown options and mistyped settings; ``words``: the command takes words.

    ``settings`` has the names of the known settings. ``notes``: whether other unknown settings
    are reported; a command that Scrapy parses again reports them there. ``elsewhere`` returns
    where that is said what an unknown option means; None: it is nowhere.

    The parser prints the message, and ends the process with the status of wrong usage. The ``--``
    before words with a dash is taken out of ``args``.
    """
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args[:end]):
        if _OPTION.match(word):
            problem = elsewhere(word.partition("=")[0]) or _no_option(parser, word)
            parser.error(problem + _dashed(problem, args[:place], word) if words else problem)
    del args[end : end + 1]
    for setting in opts.set:
        if not setting.partition("=")[0] or "=" not in setting:
            after = f".{_AFTER}" if words else ""
            parser.error(f"-s is {redacted_line(setting)!r}: expected NAME=VALUE{after}")
    for problem in _settings_problems(opts.set, settings):
        parser.error(problem)
    for note in _settings_notes(opts.set, settings) if notes else ():
        print(f"note: {note}", file=sys.stderr)
    if (pidfile := getattr(opts, "pidfile", None)) and (
        reason := terminal_output_file_refusal(Path(pidfile))
    ):
        parser.error(f"--pidfile is {pidfile!r}, which cannot be written: {reason}")


def wrap_usage(parser: ArgumentParser) -> None:
    """Let a parser print its usage and its errors in lines of the terminal."""
    width = terminal_width(sys.stdout)
    if width is not None and parser.usage:
        usage = textwrap.wrap(
            _USAGE + " ".join(parser.usage.split()), width, subsequent_indent=" " * len(_USAGE),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        parser.usage = "\n".join(usage).removeprefix(_USAGE)
    parser.error = partial(_print_usage_error, parser)  # type: ignore[method-assign]


def _print_usage_error(parser: ArgumentParser, message: str) -> NoReturn:
    """Print how the command is used and what is wrong, and end the process with status 2."""
    parser.print_usage(sys.stderr)
    print_complaint(parser.prog, f"error: {message}")
    sys.exit(2)


def _no_option(parser: ArgumentParser, word: str) -> str:
    option = word.partition("=")[0]
    known = [name for action in parser._actions for name in action.option_strings]
    long = [name for name in known if name.startswith("--")]
    near = nearest_word(f"--{option.lstrip('-')}", long, least=_LIKE_OPTION)
    question = f", did you mean {near}?" if near else ": --help lists them"
    return f"there is no option {redacted_line(option)}{question}"


def _dashed(problem: str, before: Sequence[str], word: str) -> str:
    """Return the remedy where ``word`` was meant as one; ``before``: the words before it."""
    stop = "" if problem.endswith("?") else "."
    query = " ".join((*before, word))
    if not before or _ADDRESS.search(query):
        return f"{stop}{_AFTER}"
    return f"{stop}{_AFTER}, or into quotes: {redacted_line(repr(query))}"


def _unknown(given: Iterable[str], settings: Collection[str]) -> list[str]:
    names = (one.partition("=")[0] for one in given)
    return [name for name in names if name and name not in settings]


def _settings_problems(given: Sequence[str], settings: Collection[str]) -> list[str]:
    """Return a message for each setting of ``-s`` whose name is nearly that of a known one."""
    problems = []
    for name in _unknown(given, settings):
        near = nearest_word(name.upper(), settings, least=_MISTYPED)
        if near is not None:
            problems.append(f"there is no setting {redacted_line(name)}, did you mean {near}?")
    return problems


def _settings_notes(given: Sequence[str], settings: Collection[str]) -> list[str]:
    """Return a message for each other unknown setting: code of the user's own may read it."""
    return [
        f"no setting of smartcrawl or Scrapy is called {redacted_line(name)}; it has an "
        "effect only if your own code reads it"
        for name in _unknown(given, settings)
    ]


def check_terminal_log_file_usage(settings: Mapping[str, Any]) -> None:
    """Check that the log can be written, before anything else is.

    Raises:
        SettingError: the folder of LOG_FILE is missing, or this user may not write there.
    """
    file = settings["LOG_FILE"]
    reason = terminal_output_file_refusal(Path(file)) if file else None
    if reason is not None:
        raise SettingError(f"LOG_FILE is {str(file)!r}, which cannot be written: {reason}")


def terminal_output_file_refusal(path: Path) -> str | None:
    """Return why a file cannot be written, with the remedy; None if it probably can."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"there is no folder {folder}; make it, or name another file"
    if path.is_dir():
        return "it is a folder; name a file"
    if not os.access(path if path.exists() else folder, os.W_OK):
        return "this user may not write there; name another file"
    return None
