"""Paths of settings and options, from the root."""

from __future__ import annotations

from pathlib import Path

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_line


def whole_path(text: str) -> Path:
    """Return a path from the root; ``~`` at its start stands for a home folder.

    Raises:
        SettingError: there is no such home folder, or the path is relative and the current folder
            was removed.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise SettingError(
            f"the path {redacted_line(text)!r} begins with a home folder that this system does"
            " not have: write the whole path"
        ) from error
    except FileNotFoundError as error:
        raise SettingError(
            "the current folder was removed: go to another one with cd, and try again"
        ) from error


def project_folder() -> Path | None:
    """Return the folder of scrapy.cfg: this one or the next above that has it."""
    here = whole_path(".")
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / "scrapy.cfg").exists()), None)


def path_beside_project(value: str, default: str) -> Path:
    """Return a path; the default is beside scrapy.cfg, any other path is taken as given."""
    project = project_folder() if value == default else None
    return project / default if project else whole_path(value)
