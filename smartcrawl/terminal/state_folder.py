"""The folder of all state for ``smartcrawl``, which is called from any folder.

``scrapy`` keeps its rule: DATA_DIR, which by default is beside scrapy.cfg.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_data_dir

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.whole_path import whole_path

LOCAL: Final = ".smartcrawl"
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
        return whole_path(user_data_dir("smartcrawl", appauthor=False))
    user = os.geteuid()
    if user and local.stat().st_uid not in (user, 0):  # the administrator may use every folder
        raise SettingError(
            f"{local} belongs to another user: go to another folder with cd, or name a folder of"
            " your own with --data-dir"
        )
    return local


def state_folder(given: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder of all state.

    ``given`` is the folder of the command line. Without it, the first environment variable with a
    value counts, and then ``default_state_folder``.

    Raises:
        SettingError: it is below the home of a user who does not exist, or the current folder was
            removed.
    """
    named = [given, *(environment.get(name) for name in VARIABLES)]
    value = next((one for one in named if one and one.strip()), None)
    return default_state_folder() if value is None else whole_path(value.strip())


def data_dir_words(folder: Path) -> list[str]:
    """Return the words that name ``folder`` on a command line; none where it is the default."""
    with suppress(SettingError):  # where there is no default, the folder is named
        if folder == default_state_folder():
            return []
    return ["--data-dir", os.fspath(folder)]
