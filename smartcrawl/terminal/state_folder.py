"""The folder of all state for ``smartcrawl``, which is called from any folder.

``scrapy`` keeps its rule: DATA_DIR, which by default is beside scrapy.cfg.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import path_beside_project, whole_path

LOCAL: Final = ".smartcrawl"
_SOURCES: Final = "sources.toml"
#: Environment variables that name the folder, the strongest first.
VARIABLES: Final = ("DATA_DIR", "SMARTCRAWL_DATA_DIR")


def default_state_folder() -> Path:
    """Return ``.smartcrawl`` of the current folder if it exists, else the user's data folder.

    Raises:
        SettingError: the current folder was removed, or its ``.smartcrawl`` belongs to another
            user, who could read and change the pages in it.
    """
    local = whole_path(LOCAL)
    if not local.is_dir():
        from platformdirs import user_data_dir  # noqa: PLC0415  # a tenth of a command's start

        return whole_path(user_data_dir("smartcrawl", appauthor=False))
    user = os.geteuid()
    if user and local.stat().st_uid not in (user, 0):  # the administrator may use every folder
        raise SettingError(
            f"{local} belongs to another user: go to another folder with cd, or name a folder of"
            " your own with --data-dir"
        )
    return local


def state_folder(
    given: str | None, environment: Mapping[str, str], sources_file: str | None = None
) -> Path:
    """Return the folder of all state.

    ``given`` is the folder of the command line, which may name ``sources_file``, too. Without it,
    the first environment variable with a value counts, then the ``smartcrawl.toml`` beside
    sources.toml, and then ``default_state_folder``.

    Raises:
        SettingError: it is below the home of a user who does not exist, or the current folder was
            removed.
    """
    named = [given, *(environment.get(name) for name in VARIABLES)]
    value = next((one for one in named if one and one.strip()), None)
    if value is None:
        value = _of_file(sources_file or environment.get("SOURCES_FILE") or _SOURCES)
    return default_state_folder() if value is None else whole_path(value.strip())


def _of_file(sources_file: str) -> str | None:
    """Return the folder that the file of settings beside sources.toml names, or None."""
    folder = path_beside_project(sources_file, _SOURCES).parent
    if not os.path.lexists(folder / "smartcrawl.toml"):  # without the import of all settings
        return None
    from smartcrawl.model.settings_file import data_dir_of_settings_file  # noqa: PLC0415

    return data_dir_of_settings_file(sources_file)


def data_dir_words(folder: Path) -> list[str]:
    """Return the words that name ``folder`` on a command line; none where it is the default."""
    with suppress(SettingError):  # where there is no default, the folder is named
        if folder == default_state_folder():
            return []
    return ["--data-dir", os.fspath(folder)]
