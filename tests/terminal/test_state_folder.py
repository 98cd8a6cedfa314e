"""The folder of all state: the command line, the environment, this folder, the user's folder."""

import os
from pathlib import Path

import pytest

from smartcrawl.model.exceptions import SettingError
from smartcrawl.terminal.state_folder import data_dir_words, default_state_folder, state_folder

NAMED = {"DATA_DIR": "/srv/one", "SMARTCRAWL_DATA_DIR": "/srv/two"}


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Work in an empty folder, with a data folder of the user."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("given", "environment", "folder"),
    [
        ("/srv/zero", NAMED, "/srv/zero"),
        (None, NAMED, "/srv/one"),
        (None, {"SMARTCRAWL_DATA_DIR": "/srv/two"}, "/srv/two"),
        (None, NAMED | {"DATA_DIR": " "}, "/srv/two"),
    ],
)
def test_the_strongest_name_counts(given: str | None, environment: dict[str, str], folder: str):
    Path(".smartcrawl").mkdir()

    assert state_folder(given, environment) == Path(folder)


def test_a_relative_name_starts_in_this_folder():
    assert state_folder("state", {}) == Path.cwd() / "state"


def test_without_a_name_the_folder_is_the_local_one_or_that_of_the_user(tmp_path: Path):
    assert state_folder(None, {}) == tmp_path / "home" / "smartcrawl"

    Path(".smartcrawl").mkdir()
    assert state_folder(None, {}) == Path.cwd() / ".smartcrawl"


def test_a_file_is_no_folder_of_state(tmp_path: Path):
    Path(".smartcrawl").touch()

    assert default_state_folder() == tmp_path / "home" / "smartcrawl"


def test_a_command_line_names_the_folder_only_where_it_is_not_the_default():
    assert data_dir_words(default_state_folder()) == []
    assert data_dir_words(Path("/srv/one")) == ["--data-dir", "/srv/one"]


def test_a_home_folder_that_does_not_exist_is_named():
    with pytest.raises(SettingError, match="'~no-such-user/x' begins with a home folder"):
        state_folder("~no-such-user/x", {})


def test_in_a_folder_that_was_removed_only_a_whole_path_is_a_folder():
    Path.cwd().rmdir()

    for given in ("state", None):
        with pytest.raises(SettingError, match="the current folder was removed"):
            state_folder(given, {})
    assert state_folder("/srv/one", {}) == Path("/srv/one")
    assert data_dir_words(Path("/srv/one")) == ["--data-dir", "/srv/one"]


def test_a_folder_of_another_user_is_not_taken_by_itself(monkeypatch: pytest.MonkeyPatch):
    local = Path(".smartcrawl").absolute()
    local.mkdir()
    if os.geteuid() == 0:
        os.chown(local, 4242, -1)
    owner = local.stat().st_uid
    for user in (owner, 0):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert default_state_folder() == local
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(SettingError, match=r"\.smartcrawl belongs to another user"):
        state_folder(None, {})
    assert state_folder(".smartcrawl", {}) == local, "it was named"
