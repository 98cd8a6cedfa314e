"""Scripts that complete ``smartcrawl`` in bash, zsh and fish, made from the commands' parsers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.running import add_common_options, command_named, front_door_parser
from smartcrawl.model.redaction import redacted_line

_USAGE: Final = 2  #: exit status of wrong usage
_SHELLS: Final = ("bash", "zsh", "fish")
#: The part of shtab that completes a value, by its name.
_PLACES: Final = {"FILE": "FILE", "DIR": "DIRECTORY", "PLACE": "FILE"}


def completion_command(words: Sequence[str]) -> int:
    """Print the script for a shell, and return the exit status."""
    if list(words) in (["-h"], ["--help"]):
        print(
            "usage: smartcrawl completion SHELL\n\n"
            "Print a script for the shell to read:\n\n"
            'bash, in ~/.bashrc:\n  eval "$(smartcrawl completion bash)"\n'
            'zsh, in ~/.zshrc, after compinit:\n  eval "$(smartcrawl completion zsh)"\n'
            "fish, once:\n  smartcrawl completion fish > \\\n"
            "  ~/.config/fish/completions/smartcrawl.fish"
        )
        return 0
    if len(words) != 1 or words[0] not in _SHELLS:
        given = f", not {redacted_line(' '.join(words))!r}" if words else ""
        print(f"completion: expected one of {', '.join(_SHELLS)}{given}", file=sys.stderr)
        return _USAGE
    import shtab  # noqa: PLC0415  # every start of scrapy imports this module

    print(shtab.complete(_parser_of_all_commands(), words[0]))
    return 0


def _parser_of_all_commands() -> ArgumentParser:
    """Return a parser of the whole command line, with that of each command below it."""
    parser = ArgumentParser(prog="smartcrawl")
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    add_common_options(parser)
    _complete_places(parser)
    commands = parser.add_subparsers()
    for name, text in COMMANDS.items():
        below = commands.add_parser(name, help=text, add_help=False)
        if name == "completion":
            below.add_argument("shell", choices=_SHELLS)
            continue
        command = command_named(name)
        if first := getattr(command, "first_words", ()):
            below.add_argument("step", choices=first)
        for action in front_door_parser(name, command)._actions:
            below._add_action(action)
        _complete_places(below)
    return parser


def _complete_places(parser: ArgumentParser) -> None:
    """Complete files and folders; a colon in the name of a value would end a part of zsh's."""
    import shtab  # noqa: PLC0415  # as above

    action: Any
    for action in parser._actions:
        if isinstance(action.metavar, str):
            if action.metavar in _PLACES:
                action.complete = getattr(shtab, _PLACES[action.metavar])
            action.metavar = action.metavar.replace(":", "\\:")
