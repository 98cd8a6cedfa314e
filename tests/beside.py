"""Run commands while the tests are collected: ``--beside "mypy --no-error-summary"``.

Collecting keeps one core busy for a quarter of a minute. No test runs where a command fails.
"""

import shlex
import subprocess
from typing import Final

import pytest

_COMMANDS: Final = pytest.StashKey[dict[str, "subprocess.Popen[str]"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--beside", action="append", default=[], metavar="COMMAND", help="run it while collecting"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_COMMANDS] = {
            command: subprocess.Popen(
                shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for command in session.config.option.beside
        }


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End commands whose results are not awaited: collecting, or another command, failed."""
    for running in session.config.stash.get(_COMMANDS, {}).values():
        if running.poll() is None:
            running.kill()
            running.wait()  # not for the end of what it prints: its own children may go on


def settle(session: pytest.Session) -> None:
    """Wait for the end of the commands, before the first test, and print their last lines.

    Raises:
        pytest.exit.Exception: a command failed; with what it printed.
    """
    for command, running in session.config.stash.get(_COMMANDS, {}).items():
        printed, _ = running.communicate()
        if running.returncode:
            pytest.exit(f"{command} failed:\n{printed}", returncode=1)
        if printed:
            print(printed.splitlines()[-1], flush=True)
