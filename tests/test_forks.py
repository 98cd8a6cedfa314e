"""tests/forks.py: tests in forks of the process that has collected them."""

import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests.forks import Parts

pytestmark = pytest.mark.long(but=3)

ROOT = Path(__file__).resolve().parents[1]
SHM = Path("/dev/shm")
HAS_ROOM = SHM.is_dir() and shutil.disk_usage(SHM).free >= 2 << 30
CONFTEST = """
import pytest

from tests.forks import FORK, common_folder, pytest_addoption, pytest_runtestloop
"""


def outcome(folder: Path, module: str, *words: str) -> tuple[int, str]:
    """Run the tests of a module, three at a time; return the exit status and what is printed."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_module.py").write_text(module)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--forks=3", *words], cwd=folder, check=False,
        env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_each_test_runs_once_in_one_of_some_processes(tmp_path: Path):
    module = """
import os, time
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def mine(tmp_path_factory):
    yield tmp_path_factory.getbasetemp()
    Path(f"ended.{os.getpid()}").touch()

@pytest.mark.parametrize("number", range(30))
def test_it(number, mine, tmp_path):
    time.sleep(0.01)
    print("number", number)
    assert tmp_path.is_relative_to(mine)
    with open("log", "a") as log:
        print(os.getpid(), mine, number, file=log)
"""
    status, text = outcome(tmp_path, module)

    assert (status, "30 passed" in text) == (0, True), text
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(int(number) for _, _, number in lines) == [*range(30)]
    assert len({pid for pid, _, _ in lines}) == len({folder for _, folder, _ in lines}) == 3
    assert len({Path(folder).parent for _, folder, _ in lines}) == 1
    ended = {path.suffix[1:] for path in tmp_path.glob("ended.*")}
    assert ended == {pid for pid, _, _ in lines}, "what a fork began is ended"


FOLDERS = """
from pathlib import Path

def test_one(tmp_path):
    Path("first").write_text(str(tmp_path))

def test_two():
    Path("left").write_text(str(Path(Path("first").read_text()).exists()))
"""


@pytest.mark.skipif(not HAS_ROOM, reason="/dev/shm has less than 2 GiB")
def test_folders_lie_in_memory_and_go_with_a_test_that_passed(tmp_path: Path):
    status, text = outcome(tmp_path, FOLDERS, "--forks=1")

    assert (status, "2 passed" in text) == (0, True), text
    fork = Path((tmp_path / "first").read_text()).parent
    assert fork.parent.parent == SHM
    assert (tmp_path / "left").read_text() == "False"
    assert not fork.parent.exists()


def test_folders_lie_where_the_command_line_says(tmp_path: Path):
    status, text = outcome(tmp_path, FOLDERS, "--forks=1", f"--basetemp={tmp_path / 'base'}")

    assert (status, "2 passed" in text) == (0, True), text
    assert Path((tmp_path / "first").read_text()).is_relative_to(tmp_path / "base")
    assert (tmp_path / "left").read_text() == "True"


@pytest.mark.long
def test_what_fails_is_told_with_what_it_printed(tmp_path: Path):
    module = """
import sys
import warnings
import pytest

STREAM = sys.stderr

def test_uses_a_stream_of_its_import():
    print("to it", file=STREAM)

def test_of_three(tmp_path):
    print("said before")
    assert [1, 2] == [1, 3]

def test_warns():
    warnings.warn("old words", DeprecationWarning)

def test_skipped():
    pytest.skip("not here")

@pytest.fixture
def broken():
    yield
    raise ValueError("at the end")

def test_ends_badly(broken):
    pass
"""
    status, text = outcome(tmp_path, module, "-rs")

    assert status == 1, text
    assert "1 failed, 3 passed, 1 skipped, 1 warning, 1 error" in text
    for words in ("said before", "assert [1, 2] == [1, 3]", "DeprecationWarning: old words",
                  "not here", "ValueError: at the end"):  # fmt: skip
        assert words in text
    _, again = outcome(tmp_path, module, "--last-failed")
    assert re.search(r"1 failed, 1 passed.* 1 error", again), again


def test_a_process_that_dies_fails_its_test_alone(tmp_path: Path):
    module = """
import os, signal, time
import pytest

@pytest.mark.parametrize("number", range(12))
def test_it(number):
    time.sleep(0.05)
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    status, text = outcome(tmp_path, module)

    assert (status, "1 failed, 11 passed" in text) == (1, True), text
    assert "test_module.py::test_it[5]" in text
    assert "the process of this test ended with status -9" in text


def test_where_all_die_the_run_says_that_it_is_not_whole(tmp_path: Path):
    module = """
import os
import pytest

@pytest.mark.parametrize("number", range(12))
def test_it(number):
    os._exit(0)
"""
    status, text = outcome(tmp_path, module)

    assert status == 2, text
    assert "all forks have died" in text
    assert "3 failed" in text


def test_the_first_failure_ends_the_run_where_it_is_to(tmp_path: Path):
    module = """
import time
import pytest

@pytest.mark.parametrize("number", range(300))
def test_it(number):
    time.sleep(0.01)
    assert number
"""
    status, text = outcome(tmp_path, module, "-x")

    assert (status, "1 failed" in text) == (1, True), text
    assert "stopping after 1 failures" in text
    assert int(re.search(r"(\d+) passed", text)[1]) < 100


@pytest.mark.long
def test_a_process_that_ends_in_a_teardown_fails_its_test(tmp_path: Path):
    module = """
import os
import pytest
from tests import forks

@pytest.fixture(scope="session")
def last():
    yield
    os._exit(0)

@pytest.mark.parametrize("number", range(6))
def test_it(number, last):
    pass
"""
    status, text = outcome(tmp_path, module)

    assert status != 0, text
    assert "the process of this test ended with status 0" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("_Reporting.pytest_runtest_logreport = lambda *_: None", "has run .* and not reported it"),
        ("_run = lambda *_: None", "0 of 6 tests have reports"),
    ],
)
def test_tests_without_a_report_fail_the_run(tmp_path: Path, line: str, words: str):
    module = f"""
import pytest
from tests import forks

forks.{line}

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    pass
"""
    status, text = outcome(tmp_path, module)

    assert status != 0, text
    assert re.search(words, text), text


@pytest.mark.parametrize(("tests", "forks"), [(1, 1), (2, 2), (7, 3), (100, 3), (20, 7)])
def test_forks_take_every_test_once_however_fast_they_are(tests: int, forks: int):
    parts = Parts(tests, forks)
    order = chain.from_iterable([no] * (1 + no * no) for _ in range(tests) for no in range(forks))
    found = [test for number in order if (test := parts.take(number)) is not None]

    assert sorted(found) == [*range(tests)]
    assert all(parts.take(number) is None for number in range(forks))
    assert parts.rest == 0


def test_a_fork_runs_its_part_in_order_and_then_the_later_half_of_another():
    parts = Parts(8, 2)

    assert [parts.take(0) for _ in range(6)] == [0, 1, 2, 3, 6, 7]
    assert [parts.take(1) for _ in range(3)] == [4, 5, None]


def test_a_fork_knows_which_test_follows(tmp_path: Path):
    module = """
import pytest

@pytest.fixture(scope="module", params=range(4))
def stage(request):
    with open("stages", "a") as log:
        print(request.param, file=log)

@pytest.mark.parametrize("number", range(5))
def test_it(number, stage):
    pass
"""
    status, text = outcome(tmp_path, module, "--forks=1")

    assert (status, "20 passed" in text) == (0, True), text
    assert (tmp_path / "stages").read_text().split() == ["0", "1", "2", "3"]


def test_what_a_fork_that_died_had_left_is_done_by_another():
    parts = Parts(6, 2)
    assert [parts.take(0) for _ in range(2)] == [0, 1]
    parts.give_back(0, [1])

    taken = []
    while (test := parts.take(1)) is not None:
        taken.append(test)

    assert sorted(taken) == [1, 2, 3, 4, 5]
