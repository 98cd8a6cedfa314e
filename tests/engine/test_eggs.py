"""What the log of a scrapyd job says about its code."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from smartcrawl import __version__
from smartcrawl.engine.logs import deployed_egg, log_deployed_egg


@pytest.fixture
def egg(tmp_path: Path) -> Path:
    """An egg of version 2."""
    place = tmp_path / "eggs" / "2.egg"
    place.parent.mkdir()
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("smartcrawl/__init__.py", "")
    return place


def test_a_job_names_version_and_file(egg: Path) -> None:
    words = f"scrapyd runs version {{}}: smartcrawl {__version__} of {egg}"

    assert deployed_egg(egg, ["/usr/lib", str(egg)], None) == (words.format(2), False)
    assert deployed_egg(egg, [str(egg)], "2.0") == (words.format("2.0"), False)


def test_a_job_that_does_not_run_its_egg_says_so(egg: Path, tmp_path: Path) -> None:
    home = tmp_path / "checkout"

    hidden = deployed_egg(home, [str(home), str(egg)], None)

    assert hidden.is_hidden
    assert hidden.words.startswith(
        f"scrapyd runs smartcrawl {__version__} of {home}, and not version 2 of {egg}, which was"
    )
    assert "script/setup scrapyd" in hidden.words
    assert deployed_egg(home, [str(home)], None).is_hidden
    assert deployed_egg(egg, [str(egg), str(egg.with_name("3.egg"))], None).is_hidden is False
    older = egg.with_name("1.egg")
    older.write_bytes(egg.read_bytes())
    assert deployed_egg(older, [str(older), str(egg)], None).is_hidden


def test_the_egg_of_a_project_that_uses_smartcrawl_has_none(egg: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(egg, "w") as file:
        file.writestr("shop/__init__.py", "")

    told = deployed_egg(tmp_path, [str(tmp_path), str(egg)], "7")

    assert told == (
        f"scrapyd runs version 7 of {egg} with smartcrawl {__version__} of {tmp_path}",
        False,
    )


def test_other_processes_say_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log_deployed_egg()
    assert caplog.messages == []
    monkeypatch.setitem(sys.modules, "scrapyd", sys)
    log_deployed_egg()
    assert "not from an egg" in caplog.text
