"""tests/beside.py: a command while the tests are collected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long(but=1)

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
import pytest

from tests import beside
from tests.beside import pytest_addoption, pytest_sessionfinish, pytest_sessionstart

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    beside.settle(session)
"""
MODULE = """
from pathlib import Path

def test_it():
    assert Path("done").exists()
"""


def outcome(folder: Path, *commands: str, module: str = MODULE) -> tuple[int, str]:
    """Run the tests of a module, and commands of the shell beside; return the status and words."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_module.py").write_text(module)
    beside = [word for one in commands for word in ("--beside", f"sh -c '{one}'")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *beside], cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_tests_begin_when_the_command_has_ended(tmp_path: Path):
    status, text = outcome(tmp_path, "sleep 0.5; touch done", "echo begun; echo all is well")

    assert (status, "1 passed" in text) == (0, True), text
    assert "all is well" in text
    assert "begun" not in text


def test_no_test_runs_after_a_command_that_failed(tmp_path: Path):
    status, text = outcome(
        tmp_path, "touch done", "echo a.py:1: wrong type; exit 2", "exec sleep 99"
    )

    assert status == 1, text
    assert "a.py:1: wrong type" in text
    assert "passed" not in text


def test_what_cannot_be_collected_is_told_as_well(tmp_path: Path):
    status, text = outcome(tmp_path, "true", module="def test_it(:")

    assert (status, "SyntaxError" in text) == (2, True), text
