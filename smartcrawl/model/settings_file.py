"""The file ``smartcrawl.toml``: settings, and sources, beside sources.toml or in the state folder.

A value counts where neither the command line nor the environment gives another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import SettingError, SmartcrawlError, meant_word
from smartcrawl.model.notify_targets import NotifyTarget, notify_targets
from smartcrawl.model.openai_server import path_beside_project, project_folder
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.setting_values import PathText, Setting
from smartcrawl.model.settings_table import SETTINGS

SETTINGS_FILE: Final = "smartcrawl.toml"
_SOURCES: Final = "sources.toml"
_TABLES: Final = ("settings", "sources", "notify")
_PLACES: Final = ("DATA_DIR", "SOURCES_FILE")  #: settings that lead to the file
_SECRET: Final = re.compile("KEY|TOKEN|PASSWORD|SECRET")
_USER: Final = re.compile(r"//[^/@:]*@")  #: a user without a password in an address


class FileSettings(NamedTuple):
    """The settings of a file."""

    path: Path | None  #: None: there is no such file
    values: Mapping[str, Any]  #: by name


def settings_file_places(settings: Mapping[str, Any]) -> list[Path]:
    """Return where the file may be: beside sources.toml, and in the state folder."""
    return _places(
        path_beside_project(str(settings["SOURCES_FILE"]).strip(), _SOURCES),
        path_beside_project(str(settings["DATA_DIR"]).strip(), ".smartcrawl"),
    )


def settings_file_of(sources_file: Path, data_dir: Path) -> Path | None:
    """Return the file beside sources.toml or in the state folder; None where there is none.

    Raises:
        SettingError: there are two.
    """
    return _only(_places(sources_file, data_dir))


def _places(sources_file: Path, data_dir: Path) -> list[Path]:
    return list(dict.fromkeys((sources_file.parent / SETTINGS_FILE, data_dir / SETTINGS_FILE)))


def _only(places: list[Path]) -> Path | None:
    found = [path for path in places if os.path.lexists(path)]
    if len({path.resolve() for path in found}) > 1:
        raise SettingError(
            f"there are two files of settings, {found[0]} and {found[1]}: move all settings into"
            " one of them, and remove the other one"
        )
    return found[0] if found else None


def load_settings_file(
    settings: Mapping[str, Any], is_given: Callable[[str], bool]
) -> FileSettings:
    """Return the settings of the file; ``settings`` lead to it.

    ``is_given``: whether a setting has a stronger value than that of the file.

    Raises:
        SettingError: there are two files; it cannot be read; something in it is wrong, or leads
            to another file.
    """
    places = settings_file_places(settings)
    path = _only(places)
    if path is None:
        return FileSettings(None, {})
    if path == places[0] and not is_given("SOURCES_FILE"):
        _check_owner(path)
    values = read_settings_file(path)
    moved = {name: value for name, value in values.items() if name in _PLACES}
    moved = {name: value for name, value in moved.items() if not is_given(name)}
    if moved:
        check_settings_file_place(path, {**settings, **moved}, moved)
    return FileSettings(path, values)


def read_applied_settings_file(settings: Mapping[str, Any]) -> FileSettings:
    """Return the settings of the file that ``settings`` have taken over.

    Raises:
        SettingError: the file cannot be used.
    """
    path = _only(settings_file_places(settings))
    return FileSettings(path, {} if path is None else read_settings_file(path))


def check_settings_file_place(
    path: Path, settings: Mapping[str, Any], moved: Mapping[str, Any]
) -> None:
    """Check that ``settings`` still lead to the file, of which ``moved`` are in it.

    Raises:
        SettingError: they lead to another one, or nowhere.
    """
    places = settings_file_places(settings)
    _only(places)
    if path not in places:
        raise SettingError(
            f"{path}: with {' and '.join(moved)} in it, settings are looked for in"
            f" {places[0].parent} and {places[1].parent}, and not in this file: move it there, or"
            f" give {' and '.join(moved)} with -s or as environment variable"
        )


def data_dir_of_settings_file(sources_file: str) -> str | None:
    """Return the state folder that the file beside ``sources_file`` names, or None.

    Raises:
        SettingError: something in the file is wrong.
    """
    path = path_beside_project(sources_file, _SOURCES).parent / SETTINGS_FILE
    if not os.path.lexists(path):
        return None
    if sources_file == _SOURCES:
        _check_owner(path)
    value = read_settings_file(path).get("DATA_DIR")
    return None if value is None else str(value)


def _check_owner(path: Path) -> None:
    """Refuse a file of another user in a folder that the command was called in by chance."""
    user = os.geteuid()
    if project_folder() is None and user and path.stat().st_uid not in (user, 0):
        raise SettingError(
            f"{path} belongs to another user: go to another folder with cd, or name the"
            " sources.toml beside it with -s SOURCES_FILE="
        )


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the settings of a file by name; paths in it start beside it.

    Raises:
        SettingError: it cannot be read, or with all its problems.
    """
    content = parsed_toml_file(path, SettingError, "move it away")
    if content is None:
        raise SettingError(f"{path} is a link to a file that is not there: correct or remove it")
    problems = [
        f"{key}: unknown table{meant_word(key, _TABLES)}; known are [settings], [sources.NAME] and"
        " [notify.NAME]"
        for key in content
        if key not in _TABLES
    ]
    problems += notify_targets(content.get("notify", {}), path.absolute().parent)[1]
    table = content.get("settings", {})
    if not isinstance(table, dict):
        problems.append("settings: expected a table; write its keys below a line [settings]")
        table = {}
    values = {}
    for name, value in table.items():
        try:
            values[name] = _checked(name, value, path.absolute().parent)
        except SettingError as error:
            problems.append(f"[settings] {error}")
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise SettingError("\n  ".join([f"{path} has {count}:", *problems]))
    return values


def load_notify_targets(path: Path | None) -> tuple[NotifyTarget, ...]:
    """Return the targets of notices in a file; ``path`` None: there is no file.

    Raises:
        SettingError: something in the file is wrong.
    """
    if path is None or not (content := parsed_toml_file(path, SettingError, "move it away")):
        return ()
    found, problems = notify_targets(content.get("notify", {}), path.absolute().parent)
    if problems:
        raise SettingError("\n  ".join([f"{path}:", *problems]))
    return tuple(found)


def _checked(name: str, value: Any, folder: Path) -> Any:
    """Return the value of a key of the file; ``folder`` has the file."""
    setting = SETTINGS.get(name)
    if setting is None and _SECRET.search(name.upper()):
        raise secret_in_settings_file(name)
    if setting is None:
        hint = meant_word(name.upper(), SETTINGS)
        raise SettingError(
            f"{name}: there is no such setting{hint or f'; {program_name()} config lists them'};"
            " a setting of Scrapy is given with -s"
        )
    if setting.is_secret or has_password(value):
        raise secret_in_settings_file(name)
    is_typed = isinstance(value, setting.written) and (
        not isinstance(value, bool) or bool in setting.written
    )
    if not is_typed:
        raise SettingError(f"{name} is {value!r}: expected {setting.takes_written}")
    value = _from(folder, setting, value)
    setting.read(value)
    return value


def _from(folder: Path, setting: Setting, value: Any) -> Any:
    """Return a value whose path, if it is one, starts at the root."""
    if isinstance(setting, PathText) and value.strip():
        path = Path(value.strip()).expanduser()
        return value if value.startswith("~") else str(folder / path)
    prefix = "sqlite:///"
    if setting.name == "REGISTRY_URL" and value.startswith(prefix) and value != prefix:
        path = value.removeprefix(prefix)
        return value if path.startswith("~") else f"{prefix}{folder / path}"
    return value


def has_password(value: object) -> bool:
    """Whether an address in a value has a password or another secret.

    >>> has_password("postgresql://me:8c1f@db.example/x"), has_password("redis://a.example/0")
    (True, False)
    >>> has_password("postgresql://me@db.example/x"), has_password("https://a.example/?sig=8c1f")
    (False, True)
    """
    plain = _USER.sub("//", str(value))
    return redacted_text(plain) != plain


def secret_in_settings_file(name: str) -> SettingError:
    """Return the error of a secret that would stand in the file; its value is not repeated."""
    return SettingError(
        f"{name} has a secret, and {SETTINGS_FILE} takes none: give it in the environment"
        f" variable {name}"
    )


def parsed_toml_file(path: Path, kind: type[SmartcrawlError], remedy: str) -> dict[str, Any] | None:
    """Return the tables of a TOML file; None where there is no such file.

    Raises:
        SmartcrawlError: of this kind; it cannot be read. ``remedy``: where the user lacks rights.
    """
    import tomllib  # noqa: PLC0415  # a search without a file needs none

    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        return None
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines())}, the end of the file"
        reason = str(error).replace("at end of document", end)
        raise kind(
            f"{path} is not valid TOML: {reason};"
            " write a text in quotes, a pattern with backslashes in single quotes"
        ) from error
    except UnicodeDecodeError as error:
        raise kind(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except OSError as error:
        raise kind(
            f"{path} cannot be read ({error.strerror}): give this user the right to read it,"
            f" or {remedy}"
        ) from error
