"""The stages of the demo: where its steps are shown, for people or for programs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Final, Protocol

from rich.console import Console
from rich.text import Text

from smartcrawl.commands.demo_shell import Answer, Shell
from smartcrawl.commands.demo_steps import STEPS, Step
from smartcrawl.terminal.output import printed_json

_WIDTH: Final = 88  #: columns of the demo, at most
_INDENT: Final = 4  #: columns before the output of a command
_PAUSE_SECONDS: Final = 1.0

KEPT: Final = (
    ("search", "starter"),
    ("status",),
    ("runs",),
    ("registry",),
)  #: commands that work with the data of a demo that is over


class Stage(Protocol):
    """Shows the steps while they are carried out."""

    columns: int  #: of the output of commands
    colour: bool  #: whether commands use the colours of a terminal

    def begin(self, url: str) -> None:
        """Show where the site is."""

    def open_step(self, number: int, step: Step) -> None:
        """Show a step before its commands."""

    def type(self, command: str) -> None:
        """Show a command before it runs."""

    def answer(self, answer: Answer) -> None:
        """Show the output of a command."""

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Show the facts that were compared with the step's explanation."""

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Show what a user may do next; ``folder``: that of the data, if it is kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answers of a step's commands, and the facts that they show."""

    answers: Sequence[Answer]
    claims: Mapping[str, bool]


class TextStage:
    """Shows the steps to people; on a terminal it gives them time to read."""

    def __init__(self, *, pause: bool) -> None:
        """``pause``: wait for Enter after each step, where there is a terminal."""
        width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
        self._console = Console(width=width, highlight=False)
        self._waits = pause and sys.stdin.isatty()
        self.columns = width - _INDENT
        self.colour = self._console.is_terminal and self._console.color_system is not None

    def begin(self, url: str) -> None:
        """Show where the site is, and what the demo leaves alone."""
        text = (
            f"This demo serves a small site about bread at {url} on this computer for "
            "half a minute, and crawls it with the real commands. Their data is in a "
            "temporary folder; your data is not touched."
        )
        self._console.print(fill(text, self._console.width), markup=False)

    def open_step(self, number: int, step: Step) -> None:
        """Show the number, the title and the explanation of a step."""
        self._console.print(f"\n{number}/{len(STEPS)}  {step.title}", style="bold", markup=False)
        self._console.print(fill(step.text, self._console.width), markup=False)

    def type(self, command: str) -> None:
        """Show a command as a user types it."""
        line = Text.assemble("\n  ", ("$ ", "dim"), (command, "bold cyan"))
        self._console.print(line, soft_wrap=True)

    def answer(self, answer: Answer) -> None:
        """Show the output of a command, indented."""
        for line in Text.from_ansi(answer.shown.strip("\n")).split(allow_blank=True):
            for part in _indented(line, self._console):
                self._console.print(part, soft_wrap=True)

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Show the facts that were checked, and wait."""
        self._console.print()
        for claim, holds in result.claims.items():
            mark = ("checked: ", "green") if holds else ("not true: ", "bold red")
            self._console.print(Text.assemble("  ", mark, claim))
        if number == len(STEPS) or not self._console.is_terminal:
            return
        if self._waits:
            self._console.print(
                "\n  Press Enter to continue, Ctrl-C to end the demo ", style="dim", end=""
            )
            input()
        else:
            time.sleep(_PAUSE_SECONDS)

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Show the time that the demo took, and the commands to try next."""
        own = shell.typed(("crawl", "https://docs.example.com/"))
        self._console.print(
            f"\nAll {len(STEPS)} steps worked as explained, in {seconds:.0f} s. Crawl a site"
            f" of your own:\n  {own}",
            soft_wrap=True,
        )
        if folder is None:
            self._console.print("The data of the demo is removed.")
            return
        self._console.print("These commands work on its data (the site itself is gone):")
        for words in KEPT:
            self._console.print(f"  {shell.typed_elsewhere(words)}", soft_wrap=True, markup=False)


class JsonStage:
    """Prints one object a line for each step, when the step is over."""

    columns = _WIDTH
    colour = False

    def __init__(self, folder: Path | None) -> None:
        """``folder``: that of the data, if it is kept."""
        self._folder = folder

    def begin(self, url: str) -> None:
        """Print nothing: each command has the address."""

    def open_step(self, number: int, step: Step) -> None:
        """Print nothing before the step is over."""

    def type(self, command: str) -> None:
        """Print nothing before the step is over."""

    def answer(self, answer: Answer) -> None:
        """Print nothing before the step is over."""

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Print the object of a step."""
        row = {
            "step": number,
            "of": len(STEPS),
            "title": step.title,
            "text": step.text,
            "commands": [
                {
                    "command": answer.command,
                    "exitStatus": answer.status,
                    "output": answer.output,
                    "seconds": round(answer.seconds, 2),
                }
                for answer in result.answers
            ],
            "checked": [{"claim": claim, "holds": holds} for claim, holds in result.claims.items()],
            "shown": all(result.claims.values()),
            "folder": None if self._folder is None else str(self._folder),
        }
        print(printed_json(row, sys.stdout), flush=True)

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Print nothing: the objects of the steps are all."""


def _indented(line: Text, console: Console) -> Iterator[Text]:
    """Yield a line of output as lines that fit the console, each as far to the right as it was."""
    line.rstrip()
    lead = len(line.plain) - len(line.plain.lstrip())
    margin = " " * (_INDENT + lead)
    for part in line[lead:].wrap(console, max(console.width - len(margin), 20)):
        part.rstrip()
        yield Text.assemble(margin, part)
