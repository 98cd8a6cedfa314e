"""Benchmarks run as their manual writes them, without an activated environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(p.name for p in (ROOT / "bench").iterdir() if p.is_file() and not p.suffix)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages, alone on PATH."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, symlinks=True, with_pip=False)
    return place / "bin"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The benchmarks, beside a script/setup that links the environment of this test."""
    root = tmp_path_factory.mktemp("checkout")
    copytree(ROOT / "bench", root / "bench", ignore=ignore_patterns("__pycache__", "colly"))
    for name in ("smartcrawl", "tests"):
        (root / name).symlink_to(ROOT / name)
    setup = root / "script" / "setup"
    setup.parent.mkdir()
    setup.write_text(
        f'#!/bin/sh\necho "setup $@" >>{root}/calls\n'
        f"[ -e {root}/refuses ] && exit 7\n/bin/ln -sfn {sys.prefix} {root}/.venv\n"
    )
    setup.chmod(0o755)
    return root


def run(checkout: Path, bare: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    (checkout / "calls").unlink(missing_ok=True)
    environment = {"PATH": str(bare), "HOME": os.environ["HOME"]}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip


@pytest.mark.long(but=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_benchmark_continues_in_the_projects_environment(checkout: Path, bare: Path, name: str):
    done = run(checkout, bare, f"bench/{name}", "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {name} ")
    assert (checkout / "calls").read_text() == "setup test\n"


def test_in_the_environment_nothing_is_prepared(checkout: Path, bare: Path):
    done = run(checkout, bare, sys.executable, "bench/refresh", "--help")

    assert done.returncode == 0
    assert not (checkout / "calls").exists()


def test_an_environment_that_cannot_be_prepared_ends_it(checkout: Path, bare: Path):
    (checkout / "refuses").touch()
    try:
        done = run(checkout, bare, "bench/refresh", "--help")
    finally:
        (checkout / "refuses").unlink()

    assert done.returncode == 7
    assert "usage" not in done.stdout
