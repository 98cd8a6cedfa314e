"""``smartcrawl demo``: a first crawl, a refresh, a removal and its undo, in half a minute."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Final

from smartcrawl.commands.demo_stage import (
    STATE,
    STEPS,
    DemoError,
    JsonStage,
    Result,
    Scene,
    Shell,
    Site,
    Stage,
    TextStage,
    serving_demo_site,
)
from smartcrawl.model.exceptions import SmartcrawlError, UsageError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.output import print_complaint, printed

DONE, FAILED, STOPPED = 0, 1, 130  #: exit statuses
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Command(BaseCommand):
    """Show the work of a crawl, on a site that comes with the program."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Serve a small site on this computer and crawl it with the real commands: a "
            "first crawl, a search, a refresh, an edit, a lost page, its removal and the "
            "undo, each explained and checked. It takes half a minute, does not touch "
            "your data, and removes its own at the end. Exit status: 0 every step worked "
            "as explained, 1 one did not, 130 stopped by Ctrl-C."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--keep", action="store_true", help="keep the data and print its folder"
        )
        parser.add_argument(
            "--pause", action="store_true", help="wait for Enter after each step, on a terminal"
        )
        parser.add_argument(
            "--format",
            choices=("text", "json"),
            default="text",
            help="json: one object a line for each step (default: text)",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Show all steps; print errors as messages."""
        if args:
            word = redacted_line(args[0])
            raise UsageError(f"unexpected argument {word!r}: demo takes options only")
        _listen()
        try:
            self.exitcode = FAILED  # also when the reader stops reading, as in "… | head"
            with printed():
                _show(opts)
                self.exitcode = DONE
        except SmartcrawlError as error:
            print_complaint("demo", str(error))
            self.exitcode = FAILED
        except (KeyboardInterrupt, EOFError):
            print(file=sys.stderr)  # a terminal shows ^C in this line
            print_complaint("demo", "stopped before its end")
            self.exitcode = STOPPED


def _show(opts: Namespace) -> None:
    """Show all steps.

    Raises:
        DemoError: the demo could not be carried out, or a step did not show its facts.
    """
    began = time.monotonic()
    site = Site()
    with _folder(keep=opts.keep) as folder, serving_demo_site(site) as url:
        kept = folder if opts.keep else None
        stage: Stage = JsonStage(kept) if opts.format == "json" else TextStage(pause=opts.pause)
        with _disk_trouble():
            shell = Shell(folder, columns=stage.columns, colour=stage.colour)
        stage.begin(url)
        play_demo(Scene(site, url, folder / STATE / "registry.db"), shell, stage)
        stage.end(shell, time.monotonic() - began, kept)


def play_demo(scene: Scene, shell: Shell, stage: Stage) -> None:
    """Carry out all steps.

    Raises:
        DemoError: a step did not show the facts that it explains.
    """
    for number, step in enumerate(STEPS, 1):
        stage.open_step(number, step)
        if step.changes_site:
            scene.site.change()
        scene.site.answers.clear()
        scene.answers.clear()
        for words in step.commands(scene):
            stage.type(shell.typed(words))
            answer = shell.run(words)
            scene.answers.append(answer)
            stage.answer(answer)
            if answer.status:
                stage.close_step(number, step, Result(scene.answers, {"it worked": False}))
                raise _not_shown(number, f"{answer.command!r} failed ({answer.status})")
        claims = step.claims(scene)
        stage.close_step(number, step, Result(scene.answers, claims))
        false = [claim for claim, holds in claims.items() if not holds]
        if false:
            raise _not_shown(number, f"not true: {false[0]}")


def _not_shown(number: int, fact: str) -> DemoError:
    return DemoError(
        f"step {number} did not work as explained: {fact}. See the output of its "
        "commands; --keep keeps the data"
    )


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """Make the folder of all data of the demo, and remove it at the end unless ``keep``."""
    with _disk_trouble():
        folder = Path(mkdtemp(prefix="smartcrawl-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            print_complaint("demo", f"its data is in {folder}; remove it with: rm -r {folder}")


@contextmanager
def _disk_trouble() -> Iterator[None]:
    """Explain an error of the temporary folder.

    Raises:
        DemoError: the folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise DemoError(
            f"the temporary folder cannot be written ({error.strerror or error}): free some space"
            " there, or name another folder with the environment variable TMPDIR"
        ) from error


def _listen() -> None:
    """Let the signals that end a program end the demo: with its commands, server and folder."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    """End the demo; further signals do not disturb its end."""
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt
