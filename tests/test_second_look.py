"""The second look of script/test at tests that failed beside others, with programs that pretend."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Programs that find nothing to say.
SILENT = ("ruff", "mypy", "lint-imports")
#: Fails FAILED tests of the whole run, and ends with AGAIN where it looks at them again.
PYTHON = f"""#!/usr/bin/env bash
echo "$*" >>asked
case "$*" in
-) exec {sys.executable} - ;;
*--collect-only*) ;;
tests/mutate_rules.py) ;;
*--last-failed*) exit "$AGAIN" ;;
*)
    mkdir -p .pytest_cache/v/cache
    [ "$FAILED" -eq 0 ] && exit 0
    {sys.executable} -c 'import json, sys; print(json.dumps(dict.fromkeys(range(int(sys.argv[1])), True)))' \\
        "$FAILED" >.pytest_cache/v/cache/lastfailed
    exit "${{WHOLE:-1}}"
    ;;
esac
"""  # noqa: E501


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout without content, clean, whose checks all pass."""
    for folder in ("script", ".venv/bin", "smartcrawl/rules", "tests/rules"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "script" / "test", tmp_path / "script")
    programs = {f".venv/bin/{name}": "#!/bin/sh\n" for name in SILENT}
    programs |= {"script/setup": "#!/bin/sh\n", ".venv/bin/python": PYTHON}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".gitignore").write_text(".*\nasked\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def outcome(project: Path, **values: int) -> tuple[int, str, bool]:
    """Run script/test; return its status, its words, and whether a release may follow."""
    environment = os.environ | {"AGAIN": "0"} | {name: str(n) for name, n in values.items()}
    done = subprocess.run(
        [project / "script" / "test"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, (project / ".test-cache/passed").exists()


def looks(project: Path) -> int:
    return (project / "asked").read_text().count("--last-failed")


def test_without_a_failure_there_is_no_second_look(project: Path):
    status, output, may_release = outcome(project, FAILED=0)

    assert (status, may_release, looks(project)) == (0, True, 0), output


@pytest.mark.parametrize("failed", [1, 3])
def test_what_passes_alone_is_unsteady_and_no_state_for_a_release(project: Path, failed: int):
    status, output, may_release = outcome(project, FAILED=failed)

    assert (status, may_release, looks(project)) == (0, False, 1), output
    assert "UNSTEADY" in output


def test_what_fails_twice_fails(project: Path):
    status, output, may_release = outcome(project, FAILED=1, AGAIN=1)

    assert (status, may_release, looks(project)) == (1, False, 1), output
    assert "UNSTEADY" not in output


@pytest.mark.parametrize("values", [{"FAILED": 4}, {"FAILED": 1, "WHOLE": 2}])
def test_many_failures_and_a_broken_run_get_no_second_look(project: Path, values: dict[str, int]):
    status, output, may_release = outcome(project, **values)

    assert (status, may_release, looks(project)) == (values.get("WHOLE", 1), False, 0), output
