"""Changes of single settings in ``smartcrawl.toml``, which leave everything else as it stands."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import SettingError, meant_word
from smartcrawl.model.options import Options
from smartcrawl.model.settings_file import (
    check_settings_file_place,
    has_password,
    read_applied_settings_file,
    read_settings_file,
    secret_in_settings_file,
    settings_file_places,
)
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.sources.private_files import private_folder
from smartcrawl.terminal.whole_places import part_of_output_file

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEADER: Final = re.compile(r"[ \t]*\[[ \t]*settings[ \t]*\][ \t]*(#.*)?\s*")


def change_settings_file(settings: Mapping[str, Any], values: Mapping[str, str | None]) -> Path:
    """Write settings into the file, and return its path; None: remove the setting from it.

    Without a file one is made: beside sources.toml where that is, else in the state folder.

    Raises:
        SettingError: there is no such setting, a value is wrong or a secret, or the file cannot be
            changed.
        OSError: it cannot be written.
    """
    path = read_applied_settings_file(settings).path or _new_place(settings, values)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, value in values.items():
        if name not in SETTINGS:
            raise SettingError(f"there is no setting {name!r}{meant_word(name, SETTINGS)}")
        typed = None if value is None else _checked(settings, name, value, path)
        text = text_with_setting(text, name, typed, path)
    _write(path.resolve(), text)
    read_settings_file(path)
    return path


def add_source_to_settings_file(
    settings: Mapping[str, Any], name: str, table: Mapping[str, Any]
) -> Path:
    """Write the table of a source at the end of the file, and return its path.

    Raises:
        SettingError: the file cannot be changed.
        OSError: it cannot be written.
    """
    path = read_applied_settings_file(settings).path or _new_place(settings, {})
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _write(path.resolve(), text_with_source(text, name, table, path))
    return path


def text_with_source(text: str, name: str, table: Mapping[str, Any], path: Path) -> str:
    """Return the text of a file with one more source.

    Raises:
        SettingError: the file has its sources in a form that has to be edited by hand.
    """
    wanted = tomllib.loads(text)
    wanted["sources"] = {**wanted.get("sources", {}), name: dict(table)}
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    lines = [f"[sources.{_key(name)}]", *(f"{key} = {_literal(table[key])}" for key in table)]
    added = "\n".join(lines) + "\n"
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(f"{text}{gap}{added}") == wanted:
            return f"{text}{gap}{added}"
    raise SettingError(f"{path} has its sources in another form: write there by hand\n{added}")


def _key(name: str) -> str:
    """Return a key as TOML writes it."""
    return name if _BARE.fullmatch(name) else _literal(name)


def _new_place(settings: Mapping[str, Any], values: Mapping[str, str | None]) -> Path:
    places = settings_file_places(settings)
    beside_sources, in_state = places[0], places[-1]
    named = (beside_sources.parent / name for name in ("sources.toml", "scrapy.cfg"))
    has_project = Path(str(settings["SOURCES_FILE"])).exists() or any(map(os.path.exists, named))
    return beside_sources if has_project or "DATA_DIR" in values else in_state


def _checked(settings: Mapping[str, Any], name: str, text: str, path: Path) -> Any:
    """Return the value that the file gets.

    Raises:
        SettingError: as for a value that a command is given.
    """
    setting = SETTINGS[name]
    if setting.is_secret or has_password(text):
        raise secret_in_settings_file(name)
    setting.read(text)
    value = setting.typed(text)
    before = ""
    try:
        Options.of(settings)
    except SettingError as error:
        before = str(error)
    try:
        Options.of({**settings, name: value})
    except SettingError as error:
        if str(error) != before:
            raise
    if name in ("DATA_DIR", "SOURCES_FILE"):
        check_settings_file_place(path, {**settings, name: value}, {name: value})
    return value


def text_with_setting(text: str, name: str, value: Any, path: Path) -> str:
    """Return the text of a file with another value of a setting; None: without the setting.

    Every edit is tried on the whole text, and taken only where nothing else would change.

    Raises:
        SettingError: the file has the setting in a form that has to be edited by hand.
    """
    wanted = tomllib.loads(text)
    wanted["settings"] = {**wanted.get("settings", {}), name: value}
    if value is None:
        del wanted["settings"][name]
    line = f"{name} = {_literal(value)}"
    for edited in _edits(text.splitlines(keepends=True), name, None if value is None else line):
        with suppress(tomllib.TOMLDecodeError):
            found = tomllib.loads(edited)
            if {"settings": {}, **found} == wanted:
                return edited
    raise SettingError(f"{path} has [settings] in another form: write {line} there by hand")


def _edits(lines: list[str], name: str, line: str | None) -> Iterator[str]:
    """Yield texts with the new line in place of the old one, or in its table; None: without it."""
    key = re.compile(rf"""[ \t]*(["']?){name}\1[ \t]*=""")
    old = [number for number, each in enumerate(lines) if key.match(each)]
    for start in old:
        for end in range(start + 1, len(lines) + 1):
            new = "" if line is None else f"{line}{_comment(lines[start:end])}\n"
            yield "".join([*lines[:start], new, *lines[end:]])
    if line is None:
        yield "".join(lines)
        return
    for start in [number for number, each in enumerate(lines) if _HEADER.fullmatch(each)]:
        tables = (at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("["))
        end = next(tables, len(lines))
        while not lines[end - 1].strip():
            end -= 1
        for place in (end, start + 1):
            last = "" if lines[place - 1].endswith("\n") else "\n"
            yield "".join([*lines[:place], last, f"{line}\n", *lines[place:]])
    before = "".join(lines)
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    yield f"{before}{gap}[settings]\n{line}\n"


def _comment(lines: list[str]) -> str:
    """Return the comment behind an old value of one line, with the spaces before it."""
    for found in re.finditer("#", lines[0]) if len(lines) == 1 else ():
        with suppress(tomllib.TOMLDecodeError):
            before = lines[0][: found.start()]
            tomllib.loads(before)
            return lines[0][len(before.rstrip(" \t")) :].rstrip("\r\n")
    return ""


def _literal(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_literal(value[key])}" for key in value) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole; a new one is private where its folder is."""
    if not path.parent.is_dir():
        private_folder(path.parent)
    with part_of_output_file(path) as (part, file):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        if path.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        part.replace(path)
