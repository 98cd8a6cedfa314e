"""The bar on a terminal: one process has it, log lines go above it, and it is gone at the end."""

import io
import logging
import os
import pty
import re
import select
import sys
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from smartcrawl.terminal.bar import AboveBar, Bar, Meter, ProgressFacts, print_progress_line

FACTS = ProgressFacts("docs.example.com", 50, 200, ("24.6 pages/s", "97 % 304", "6 s left"))
CLEAR = "\r\x1b[2K"


class Terminal:
    """A terminal that a test reads."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self.file = self.open()

    def open(self) -> IO[str]:
        return os.fdopen(os.dup(self.theirs), "w", encoding="utf-8")

    def shown(self) -> str:
        """What was written since the last call, without colors."""
        found = b""
        while select.select([self._ours], [], [], 0.1)[0]:
            found += os.read(self._ours, 65_536)
        return re.sub(r"\x1b\[[0-9;]*m", "", found.decode())

    def close(self) -> None:
        self.file.close()
        os.close(self.theirs)
        os.close(self._ours)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_it_is_one_line_that_is_erased_at_the_end(terminal: Terminal):
    bar = Bar.on(terminal.file)
    assert bar is not None
    bar.draw(FACTS)
    first = terminal.shown()
    bar.close()

    assert first.startswith(f"{CLEAR}docs.example.com ━")
    assert first.endswith(" 50 of 200, 24.6 pages/s, 97 % 304, 6 s left")
    assert "\n" not in first
    assert len(first.removeprefix(CLEAR)) <= 79
    assert terminal.shown() == CLEAR


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("name", ["docs", "a-source-whose-name-is-longer-than-a-table-likes"])
def test_it_never_fills_its_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int, name: str
):
    monkeypatch.setenv("COLUMNS", str(columns))
    bar = Bar.on(terminal.file)
    assert bar is not None
    bar.draw(FACTS._replace(name=name, done=123_456, total=234_567), "x" * 93)
    line = terminal.shown().removeprefix(CLEAR)
    bar.close()

    assert len(line) < columns
    assert ("x" * 93 in line) is (columns >= 104)
    if columns == 80:
        assert "123,456 of 234,567, 24.6 pages/s, 97 % 304" in line


def test_without_a_total_there_is_no_share(terminal: Terminal):
    bar = Bar.on(terminal.file)
    assert bar is not None
    bar.draw(FACTS._replace(total=None))
    line = terminal.shown()
    bar.close()

    assert "━" not in line
    assert " 50, 24.6 pages/s" in line


def test_a_terminal_has_one_bar(terminal: Terminal):
    first = Bar.on(terminal.file)
    other = terminal.open()
    assert first is not None
    assert Bar.on(other) is None, "another process reports in plain lines"
    first.close()
    second = Bar.on(other)
    assert second is not None
    second.close()
    other.close()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_has_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, term: str
):
    monkeypatch.setenv("TERM", term)
    assert Bar.on(terminal.file) is None
    assert Bar.on(io.StringIO()) is None


def test_a_log_line_does_not_mix_with_the_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    handler = AboveBar()
    bar = Bar.on(terminal.file)
    assert bar is not None
    bar.draw(FACTS)
    terminal.shown()

    handler.emit(logging.LogRecord("a", logging.WARNING, "", 0, "look at this", None, None))
    handler.emit(logging.LogRecord("a", logging.WARNING, "", 0, "and at that", None, None))

    assert terminal.shown().replace("\r\n", "\n") == f"{CLEAR}look at this\nand at that\n"
    bar.draw(FACTS)
    assert terminal.shown().startswith(f"{CLEAR}docs")
    bar.close()


def test_a_terminal_that_is_gone_ends_no_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    file = os.fdopen(theirs, "w", encoding="utf-8")
    bar = Bar.on(file)
    assert bar is not None
    bar.draw(FACTS)
    os.close(ours)
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(logging, "raiseExceptions", False)

    for _ in range(2):  # what could not be written stays in the buffer
        bar.draw(FACTS)
        AboveBar().emit(logging.LogRecord("a", logging.WARNING, "", 0, "a line", None, None))
        print_progress_line("reindex: 3 pages written")
    bar.close()
    with pytest.raises(OSError, match="Input/output error"):
        file.close()


def test_a_closed_file_ends_no_work(monkeypatch: pytest.MonkeyPatch, terminal: Terminal):
    bar = Bar.on(terminal.file)
    assert bar is not None
    bar.draw(FACTS)
    terminal.file.close()
    monkeypatch.setattr(sys, "stderr", terminal.file)

    bar.draw(FACTS)
    print_progress_line("reindex: 3 pages written")
    bar.close()


# The progress of commands


def clock(*seconds: float) -> Callable[[], float]:
    times = iter(seconds)
    return lambda: next(times)


def test_a_command_in_a_pipe_prints_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]):
    with Meter("reindex", total=9, clock=clock(0, 1, 9.9, 10, 11, 19.9, 21)) as meter:
        for number in range(1, 7):
            meter.report("written", number)

    assert capsys.readouterr().err == "reindex: 3 pages written\nreindex: 6 pages written\n"


def test_a_command_on_a_terminal_draws_a_bar_after_two_seconds(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    with Meter("reindex", total=200, clock=clock(0, 1.9, 2, 2.1, 2.5)) as meter:
        meter.report("written", 10)
        assert terminal.shown() == ""
        meter.report("written", 20)
        assert terminal.shown().endswith(" 20 of 200, written, 10.0 pages/s, 18 s left")
        meter.report("written", 30)
        assert terminal.shown() == "", "it is drawn twice a second"
        meter.report("written", 40)
        assert "40 of 200" in terminal.shown()
    assert terminal.shown() == CLEAR


def test_progress_can_be_turned_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    with Meter("reindex", enabled=False) as meter:
        meter.report("written", 10)
    assert terminal.shown() == ""
