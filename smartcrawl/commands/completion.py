"""Scripts that complete ``smartcrawl`` in bash, zsh and fish, made from the commands' parsers."""

from __future__ import annotations

import shlex
import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.running import command_named, front_door_parser
from smartcrawl.model.redaction import redacted_line

_USAGE: Final = 2  #: exit status of wrong usage
_FILES: Final = ("FILE", "DIR", "PLACE")  #: names of values that are files or folders


class Option(NamedTuple):
    """One option of a command, or a word that may come first, such as a step of ``library``."""

    spellings: tuple[str, ...]
    value: str | None  #: name of its value; None: it takes none
    choices: tuple[str, ...]
    meaning: str


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
    if len(words) != 1 or words[0] not in _SCRIPTS:
        given = f", not {redacted_line(' '.join(words))!r}" if words else ""
        print(f"completion: it takes one of {', '.join(_SCRIPTS)}{given}", file=sys.stderr)
        return _USAGE
    print(_SCRIPTS[words[0]](options_of_commands()), end="")
    return 0


def options_of_commands() -> dict[str, list[Option]]:
    """Return the options of each command, as its own parser has them."""
    found = {name: _options_of(name) for name in COMMANDS if name != "completion"}
    return found | {"completion": _words(_SCRIPTS)}


def _options_of(name: str) -> list[Option]:
    command = command_named(name)
    parser = front_door_parser(name, command)
    return [*_words(getattr(command, "first_words", ())), *_options(parser)]


def _words(words: Iterable[str]) -> list[Option]:
    return [Option((word,), None, (), "") for word in words]


def _is_word(option: Option) -> bool:
    return not option.spellings[0].startswith("-")


def _options(parser: ArgumentParser) -> list[Option]:
    shown = (action for action in parser._actions if action.help != SUPPRESS)
    return [_option(action) for action in shown if action.option_strings]


def _option(action: Action) -> Option:
    takes = action.nargs != 0
    named = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    meaning = action.help or ""
    return Option(
        tuple(action.option_strings),
        named if takes else None,
        tuple(map(str, action.choices or ())),
        " ".join(meaning.replace("%%", "%").split()),
    )


def _kind(option: Option) -> str:
    """Return how the value of an option is completed: by choices, files, not at all, or none."""
    if option.value is None:
        return "none"
    if option.choices:
        return "choices"
    return "files" if option.value in _FILES else "words"


def bash_completion(commands: Mapping[str, list[Option]]) -> str:
    """Return the script for bash: commands, options, and the values of options with choices."""
    words, values = [], []
    for name, options in commands.items():
        spellings = " ".join(spelling for option in options for spelling in option.spellings)
        words.append(f"    {name}) words={shlex.quote(spellings)} ;;")
        for option in options:
            before = "|".join(f"{name}:{spelling}" for spelling in option.spellings)
            match _kind(option):
                case "choices":
                    chosen = shlex.quote(" ".join(option.choices))
                    values.append(f"    {before}) words={chosen} ;;")
                case "files":
                    values.append(f"    {before}) _smartcrawl_reply -f; return ;;")
                case "words":
                    values.append(f"    {before}) return ;;")
    first = shlex.quote(" ".join((*commands, *_FIRST)))
    return _BASH.format(first=first, words="\n".join(words), values="\n".join(values))


def zsh_completion(commands: Mapping[str, list[Option]]) -> str:
    """Return the script for zsh, with the meaning of each command and option."""
    described = " ".join(shlex.quote(f"{name}:{_plain(COMMANDS[name])}") for name in commands)
    cases = []
    for name, options in commands.items():
        specs = ["'*:word:_default'"]
        if first := [option.spellings[0] for option in options if _is_word(option)]:
            specs.insert(0, f"'1:word:({' '.join(first)})'")
        if name == "completion":
            specs.pop()  # it takes one word
        for option in options:
            if _is_word(option):
                continue
            meaning = f"[{_plain(option.meaning).translate(_BRACKETS)}]"
            value = _plain(option.value or "")
            values = {
                "none": "",
                "choices": f":{value}:({' '.join(option.choices)})",
                "files": f":{value}:_files",
                "words": f":{value}: ",
            }[_kind(option)]
            specs += [shlex.quote(f"{each}{meaning}{values}") for each in option.spellings]
        cases.append(f"  {name}) _arguments {' '.join(specs)} ;;")
    return _ZSH.format(described=described, cases="\n".join(cases))


def fish_completion(commands: Mapping[str, list[Option]]) -> str:
    """Return the script for fish, with the meaning of each command and option."""
    lines = ["complete -c smartcrawl -f"]
    for name, options in commands.items():
        about = shlex.quote(COMMANDS[name])
        lines.append(f"complete -c smartcrawl -n __fish_use_subcommand -a {name} -d {about}")
        where = f"complete -c smartcrawl -n '__fish_seen_subcommand_from {name}'"
        for option in options:
            if _is_word(option):
                lines.append(f"{where} -a {option.spellings[0]}")
                continue
            short = [f"-s {each[1:]}" for each in option.spellings if each[1] != "-"]
            long = [f"-l {each[2:]}" for each in option.spellings if each[1] == "-"]
            values = {
                "none": [],
                "choices": ["-x", f"-a {shlex.quote(' '.join(option.choices))}"],
                "files": ["-r", "-F"],
                "words": ["-x"],
            }[_kind(option)]
            about = shlex.quote(option.meaning)
            lines.append(" ".join([where, *short, *long, *values, f"-d {about}"]))
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Return a text for a specification of zsh, in which a colon ends a part."""
    return text.replace("\\", "").replace(":", "\\:")


_FIRST: Final = ("--help", "--version", "--data-dir", "--set")
_BRACKETS: Final = str.maketrans("[]", "()")
_SCRIPTS: Final = {"bash": bash_completion, "zsh": zsh_completion, "fish": fish_completion}
_BASH: Final = """\
_smartcrawl_reply() {{
    local IFS=$'\\n'
    COMPREPLY=($(IFS=$' \\t\\n'; compgen "$@" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}

_smartcrawl() {{
    local command= words={first} place
    for ((place = 1; place < COMP_CWORD; place++)); do
        case ${{COMP_WORDS[place]}} in
        --data-dir | -s | --set) ((place++)) ;;
        -*) ;;
        *) command=${{COMP_WORDS[place]}} && break ;;
        esac
    done
    case $command in
{words}
    esac
    case $command:${{COMP_WORDS[COMP_CWORD - 1]}} in
    :--data-dir) _smartcrawl_reply -d; return ;;
    :-s | :--set) return ;;
{values}
    esac
    _smartcrawl_reply -W "$words"
}}

complete -o bashdefault -o default -F _smartcrawl smartcrawl
"""
_ZSH: Final = """\
#compdef smartcrawl
_smartcrawl() {{
  local -a described
  described=({described})
  if (( CURRENT == 2 )); then
    _describe command described
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{cases}
  esac
}}
compdef _smartcrawl smartcrawl
"""
