"""The shell of the demo: it runs the real commands in a folder of their own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smartcrawl.commands.crawl_words import command_line_of_crawl
from smartcrawl.commands.demo_server import DemoError
from smartcrawl.model.settings_table import SETTINGS

Words = tuple[str, ...]  #: a command and its arguments, as typed after ``smartcrawl``

PROJECT: Final = "[settings]\ndefault = smartcrawl.settings\n"  #: scrapy.cfg of the folder
STATE: Final = ".smartcrawl"  #: the state of the demo, below its folder
_OURS: Final = "smartcrawl"
_SCRAPYS: Final = "scrapy"
_SECONDS: Final = 120  #: a command that takes longer hangs
_PATIENCE_SECONDS: Final = 3  #: for a command that was asked to end
_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command."""

    command: str  #: as a user types it
    status: int
    shown: str  #: its output, with the colours of a terminal if there is one
    seconds: float

    @property
    def output(self) -> str:
        """The output without colours."""
        return _ANSI.sub("", self.shown)


class Shell:
    """Runs commands by a program in ``folder``, without the user's state.

    ``called``: the program, smartcrawl or scrapy; by default the one that runs.
    """

    def __init__(
        self, folder: Path, *, columns: int, colour: bool, called: Path | None = None
    ) -> None:
        """Prepare the folder.

        Raises:
            OSError: it cannot be written.
        """
        self._folder = folder
        self._called = Path(sys.argv[0]) if called is None else called
        self._name = _name(self._called)
        self._environment = _environment(folder, columns, colour=colour)
        if self._is_file():  # messages then name it without its folder, as the demo does
            path = [str(self._called.absolute().parent), self._environment.get("PATH", os.defpath)]
            self._environment["PATH"] = os.pathsep.join(path)
        (folder / "scrapy.cfg").write_text(PROJECT, encoding="utf-8")
        for name in (STATE, "tmp"):
            (folder / name).mkdir()

    def typed(self, words: Words) -> str:
        """Return a command line as the user types it."""
        return shlex.join([self._name, *self._arguments(words)])

    def typed_elsewhere(self, words: Words) -> str:
        """Return a command line over the data of the demo that works from other folders."""
        state = self._folder / STATE
        named = ["--data-dir", str(state)] if self._name == _OURS else ["-s", f"DATA_DIR={state}"]
        return shlex.join([self._name, words[0], *named, *words[1:]])

    def run(self, words: Words) -> Answer:
        """Run a command to its end.

        It has a session of its own: a Ctrl-C reaches the demo alone, which then ends the command.

        Raises:
            DemoError: the command did not end in time.
        """
        began = time.monotonic()
        process = subprocess.Popen(  # noqa: S603  # our own program
            [*self._program(), *self._arguments(words)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise DemoError(
                f"{self.typed(words)!r} did not end within {_SECONDS} s: try again when the"
                " computer is less busy"
            ) from error
        finally:
            _end(process)
        shown = output.decode("utf-8", errors="replace")
        return Answer(self.typed(words), process.returncode, shown, time.monotonic() - began)

    def _is_file(self) -> bool:
        return self._called.stem == self._name and self._called.is_file()

    def _program(self) -> list[str]:
        """Return the words that call the program, from any folder."""
        if self._is_file():
            return [sys.executable, str(self._called.absolute())]
        return [sys.executable, "-m", self._name]

    def _arguments(self, words: Words) -> Words:
        """Return the arguments of the program: Scrapy's crawl takes its address by -a."""
        if words[0] == "crawl" and self._name == _SCRAPYS:
            return ("crawl", *command_line_of_crawl(words[1]))
        return words


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all its processes; nothing happens where it ended by itself."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also processes that read documents
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _environment(folder: Path, columns: int, *, colour: bool) -> dict[str, str]:
    """Return the environment of the commands: that of the user, without any setting of ours."""
    ours = {*SETTINGS, "SCRAPY_PROJECT", "SMARTCRAWL_DATA_DIR", "NO_COLOR", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    home = Path(__file__).parents[2]
    if "site-packages" not in home.parts:  # a checkout
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(home), kept.get("PYTHONPATH")]))
    return kept | {
        "SCRAPY_SETTINGS_MODULE": "smartcrawl.settings",
        "LOG_LEVEL": "WARNING",  # as on a terminal
        "COLUMNS": str(columns),
        "FORCE_COLOR" if colour else "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        "TMPDIR": str(folder / "tmp"),
    }


def _name(called: Path) -> str:
    """Return the name of a program."""
    name = called.parent.name if called.name == "__main__.py" else called.stem
    return _OURS if name == _OURS else _SCRAPYS
