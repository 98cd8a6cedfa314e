"""Dotted paths of the last version still load, with a warning that names the new one."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from smartcrawl._moved import MOVED

ROOT = Path(__file__).resolve().parents[1]


def named(path: str) -> object:
    """What a dotted path names, as Scrapy loads it."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_is_the_same_object_and_warns(old: str, new: str):
    with pytest.warns(FutureWarning, match=new.replace(".", r"\.")):
        found = named(old)

    assert found is named(new)


@pytest.mark.parametrize("old", MOVED)
def test_no_old_module_stays(old: str):
    file = ROOT / (old.rpartition(".")[0].replace(".", "/") + ".py")

    assert not file.exists()
    assert not file.with_suffix("").is_dir()


def test_another_name_of_an_old_module_is_no_attribute():
    module = import_module("smartcrawl.needed")

    with pytest.raises(AttributeError, match=r"'smartcrawl\.needed' has no attribute 'Other'"):
        _ = module.Other


def test_a_module_that_never_was_is_still_missing():
    with pytest.raises(ModuleNotFoundError):
        import_module("smartcrawl.never")


def test_a_crawl_takes_an_old_path_in_its_settings(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "config",
        "-s",
        "ROBOTSTXT_PARSER=smartcrawl.robots.AllowFirstRobotParser",
        "-s",
        f"DATA_DIR={tmp_path}",
    ]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "smartcrawl.extract.robots_txt.AllowFirstRobotParser now" in done.stderr


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_object_keeps_its_name_where_its_module_moves(old: str, new: str):
    assert old.rpartition(".")[2] == new.rpartition(".")[2]
