"""Mistyped settings and files on a command line, refused before anything is done."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.meant import nearest
from smartcrawl.model.redaction import shown

_MISTYPED: Final = 0.8  #: similarity from which an unknown setting is a mistyped one


def check_usage(parser: ArgumentParser, settings: Mapping[str, Any], opts: Namespace) -> None:
    """Refuse mistyped settings, and a file for the process id that cannot be written.

    Settings that resemble no known one get a note: code of the user's own may read them. The parser
    prints the message, and ends the process with the status of wrong usage.
    """
    for name in _unknown(opts.set, settings):
        near = nearest(name.upper(), _known(settings), least=_MISTYPED)
        if near is not None:
            parser.error(f"there is no setting {shown(name)}; did you mean {near}?")
        print(
            f"note: no setting of smartcrawl or Scrapy is called {shown(name)}; it has an effect"
            " only if code of your own reads it",
            file=sys.stderr,
        )
    pid_file = getattr(opts, "pidfile", None)  # an option of Scrapy's command line
    if pid_file and (reason := unwritable(Path(pid_file))):
        parser.error(f"--pidfile is {pid_file!r}, which cannot be written: {reason}")


def _unknown(given: Iterable[str], settings: Mapping[str, Any]) -> list[str]:
    names = [name for name, _, _ in (one.partition("=") for one in given) if name not in settings]
    known = _known(settings) if names else ()
    return [name for name in names if name and name not in known]


def _known(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of all settings: those of the project, of smartcrawl and of Scrapy."""
    modules = map(import_module, ("smartcrawl.settings", "scrapy.settings.default_settings"))
    return {*settings, *(name for module in modules for name in vars(module) if name.isupper())}


def check_log_file(settings: Mapping[str, Any]) -> None:
    """Check that the log can be written, before anything else is.

    Raises:
        SettingError: the folder of LOG_FILE is missing, or this user may not write there.
    """
    file = settings["LOG_FILE"]
    reason = unwritable(Path(file)) if file else None
    if reason is not None:
        raise SettingError(f"LOG_FILE is {str(file)!r}, which cannot be written: {reason}")


def unwritable(path: Path) -> str | None:
    """Return why a file cannot be written, with the remedy; None if it probably can."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"there is no folder {folder}; make it, or name another file"
    if path.is_dir():
        return "it is a folder; name a file"
    if not os.access(path if path.exists() else folder, os.W_OK):
        return "this user may not write there; name another file"
    return None
