"""What script/test runs, and its second look at what failed, with programs that pretend."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Programs that find nothing to say.
SILENT = ("ruff", "lint-imports")
#: Fails FAILED tests of the whole run, and ends with AGAIN where it looks at them again, by name.
#: Their ids hold the seed of kill places, as those of tests/crawls/test_kill.py do, and a space.
PYTHON = f"""#!/usr/bin/env bash
echo "$*" >>asked
case "$*" in
-) exec {sys.executable} - ;;
"-m tests.tiers "*) printf 'tests/index/a\\ntests/run/b\\n' ;;
*tests/crawls/test_kill.py::*) echo "$CHAOS_SEED" >>chaos && exit "$AGAIN" ;;
*)
    echo "$CHAOS_SEED" >>chaos
    mkdir -p .pytest_cache/v/cache
    [ "$FAILED" -eq 0 ] && exit 0
    {sys.executable} -c "$NOTE" "$FAILED" >.pytest_cache/v/cache/lastfailed
    exit "${{WHOLE:-1}}"
    ;;
esac
"""
#: Prints what pytest keeps of so many tests that failed.
NOTE = """
import json, os, sys

names = (f"{no} at place" for no in range(int(sys.argv[1])))
test = "tests/crawls/test_kill.py::test_a[" + os.environ["KILL_SEED"]
print(json.dumps({f"{test}-{name}]": True for name in names}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout without content, clean, whose checks all pass."""
    for folder in ("script", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "script" / "test", tmp_path / "script")
    programs = {f".venv/bin/{name}": "#!/bin/sh\n" for name in SILENT}
    programs |= {"script/setup": "#!/bin/sh\n", ".venv/bin/python": PYTHON}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".gitignore").write_text(".*\nasked\nchaos\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def outcome(project: Path, *words: str, **values: int) -> tuple[int, str, bool]:
    """Run script/test; return its status, its words, and whether it noted the commit."""
    (project / ".test-cache/passed").unlink(missing_ok=True)
    return again(project, *words, **values)


def again(project: Path, *words: str, **values: int) -> tuple[int, str, bool]:
    """Run script/test where it passed before, or where something stands in place of that."""
    environment = os.environ | {"AGAIN": "0", "NOTE": NOTE}
    environment |= {name: str(number) for name, number in values.items()}
    done = subprocess.run(
        [project / "script" / "test", *words],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, (project / ".test-cache/passed").exists()


def looks(project: Path) -> bool:
    """Whether it looked at failed tests again."""
    return (project / "asked").read_text().count("test_kill.py::") > 0


def asked(project: Path) -> list[str]:
    """The calls of Python that check something, since the last look."""
    lines = (project / "asked").read_text().splitlines()
    (project / "asked").unlink()
    return [line for line in lines if line != "-"]


def commit_of(project: Path) -> str:
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(words, cwd=project, check=True, capture_output=True, text=True).stdout


TYPES = "--beside mypy --no-error-summary"
#: A whole run, with the words for its mutants in their place.
PYTEST = f"-m pytest -q --cache-clear {TYPES} --beside python tests/mutate_rules.py{{}} --forks=4"
SAMPLE = PYTEST.format(" --sample 60")


def test_a_first_run_has_a_sample_of_mutants_and_no_long_test(project: Path):
    assert outcome(project, FAILED=0)[::2] == (0, True)

    assert asked(project) == [SAMPLE]
    assert (project / ".test-cache/passed").read_text() == commit_of(project)
    assert not (project / ".test-cache/passed-all").exists(), "no state for a release"


def test_a_later_run_has_what_the_change_since_the_last_one_calls_for(project: Path):
    outcome(project, FAILED=0)
    asked(project)
    commit = commit_of(project).strip()

    assert again(project, FAILED=0)[0] == 0

    assert asked(project) == [
        f"-m tests.tiers {commit}",
        PYTEST.format(f" --since {commit}") + " --long-of=tests/index/a,tests/run/b",
    ]
    (project / ".test-cache/passed").write_text("0" * 40)  # of another history
    again(project, FAILED=0)
    assert asked(project) == [SAMPLE]


def test_all_has_every_mutant_and_every_test_and_a_release_may_follow(project: Path):
    assert outcome(project, "--all", FAILED=0)[0] == 0

    assert asked(project) == [PYTEST.format("") + " --all"]
    for name in ("passed", "passed-all"):
        assert (project / ".test-cache" / name).read_text() == commit_of(project)
    assert outcome(project, "--all", FAILED=1, KILL_SEED=7)[0] == 0
    name = "tests/crawls/test_kill.py::test_a[7-0 at place]"
    assert asked(project)[-1] == f"-m pytest -q --all {name}"


def test_what_is_named_is_all_that_is_run(project: Path):
    assert outcome(project, "tests/a", "-k", "b", FAILED=0)[::2] == (0, False)
    assert outcome(project, "--all", "tests/a", FAILED=0)[::2] == (0, False)
    assert outcome(project, "--quick", FAILED=0)[::2] == (0, False)

    assert asked(project) == [
        f"-m pytest -q {TYPES} tests/a -k b",
        f"-m pytest -q {TYPES} --all tests/a",
        f"-m pytest -q {TYPES} --long-of=tests/crawls/test_quick.py"
        " --forks=4 tests/rules tests/crawls/test_quick.py",
    ]


def test_a_checkout_with_changes_is_no_commit_that_passed(project: Path):
    (project / "new").touch()

    assert outcome(project, FAILED=0)[::2] == (0, False)


def test_without_a_failure_there_is_no_second_look(project: Path):
    status, output, may_release = outcome(project, FAILED=0)

    assert (status, may_release, looks(project)) == (0, True, False), output


@pytest.mark.parametrize("failed", [1, 3])
def test_what_passes_alone_is_unsteady_and_no_state_for_a_release(project: Path, failed: int):
    status, output, may_release = outcome(project, FAILED=failed)

    assert (status, may_release, looks(project)) == (0, False, True), output
    assert "UNSTEADY" in output


def test_the_second_look_names_the_tests_with_the_seeds_of_the_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("KILL_SEED", "CHAOS_SEED"):
        monkeypatch.delenv(name)
    outcome(project, FAILED=2)

    seed = asked(project)[-1].partition("[")[2].partition("-")[0]
    assert seed.isdigit(), "else pytest finds no test of this id"
    first, again = (project / "chaos").read_text().split()
    assert first.isdigit()
    assert first == again
    outcome(project, FAILED=2, KILL_SEED=7)
    names = (f"tests/crawls/test_kill.py::test_a[7-{no} at place]" for no in range(2))
    assert asked(project)[-1] == f"-m pytest -q {' '.join(names)}"


def test_what_fails_twice_fails(project: Path):
    status, output, may_release = outcome(project, FAILED=1, AGAIN=1)

    assert (status, may_release, looks(project)) == (1, False, True), output
    assert "UNSTEADY" not in output


@pytest.mark.parametrize("values", [{"FAILED": 4}, {"FAILED": 1, "WHOLE": 2}])
def test_many_failures_and_a_broken_run_get_no_second_look(project: Path, values: dict[str, int]):
    status, output, may_release = outcome(project, **values)

    assert (status, may_release, looks(project)) == (values.get("WHOLE", 1), False, False), output
