"""Run a command while the tests are collected: ``--beside "mypy --no-error-summary"``.

Collecting keeps one core busy for a quarter of a minute. No test runs where the command fails.
"""

import shlex
import subprocess
from typing import Final

import pytest

_COMMAND: Final = pytest.StashKey["subprocess.Popen[str]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beside", default="", metavar="COMMAND", help="run it while collecting")


def pytest_sessionstart(session: pytest.Session) -> None:
    words = shlex.split(session.config.option.beside)
    if words and not hasattr(session.config, "workerinput"):
        session.config.stash[_COMMAND] = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End a command that nobody waits for, as nothing could be collected."""
    command = session.config.stash.get(_COMMAND, None)
    if command is not None and command.poll() is None:
        command.kill()
        command.communicate()


def settle(session: pytest.Session) -> None:
    """Wait for the end of the command, before the first test.

    Raises:
        pytest.exit.Exception: the command failed; with what it printed.
    """
    if (command := session.config.stash.get(_COMMAND, None)) is not None:
        printed, _ = command.communicate()
        if command.returncode:
            pytest.exit(f"{session.config.option.beside} failed:\n{printed}", returncode=1)
