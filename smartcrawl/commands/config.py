"""``smartcrawl config``: every setting with its value, its origin and its meaning."""

from __future__ import annotations

import os
import re
import sys
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import isfinite
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import SettingError, SmartcrawlError, similar_words
from smartcrawl.model.options import Options
from smartcrawl.model.program import OURS, program_name
from smartcrawl.model.redaction import HIDDEN, redacted_lines, redacted_text
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_file import SETTINGS_FILE, read_applied_settings_file
from smartcrawl.model.settings_table import SETTINGS, TABLE
from smartcrawl.terminal import tables
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.changed_settings import change_settings_file
from smartcrawl.terminal.command import FAILED, print_json
from smartcrawl.terminal.output import OutputError, print_note, printed
from smartcrawl.terminal.state_folder import VARIABLES
from smartcrawl.terminal.tables import print_table

MASK: Final = "***"  #: shown in place of a secret
KEYS: Final = ("name", "group", "value", "source", "default", "meaning", "unit")
_COLUMNS: Final = (
    tables.printed_word_column("name", "setting"),
    tables.printed_name_column("value"),
    tables.printed_word_column("source", "from"),
    tables.printed_name_column("default"),
    tables.printed_note_column("meaning"),
)
_ARGUMENTS: Final = (
    tables.printed_word_column("argument"),
    tables.printed_name_column("overrides", "counts before"),
    tables.printed_note_column("meaning"),
)
_SECRET = re.compile("KEY|TOKEN|PASSWORD|SECRET")
#: Schemes whose address may have the name of a user, or a container, before the host. For others it
#: may be a token.
_NAMES: Final = frozenset({"abfs", "abfss", "hdfs", "postgres", "postgresql", "sftp", "smb", "ssh"})
_SWITCH: Final = {"1": True, "true": True, "0": False, "false": False}


class Override(NamedTuple):
    """An argument of the spider, and the settings that it overrides."""

    argument: str
    overrides: tuple[str, ...]  #: names of settings, or of limits of a source
    meaning: str


class _Assign(Action):
    """``--set NAME VALUE``; ``--set NAME=VALUE`` is ``-s``, as for every other command."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, _option: Any = None
    ) -> None:
        """Keep the setting."""
        if "=" in values[0]:
            namespace.set = [*namespace.set, values[0]]
            namespace.names = [*namespace.names, *values[1:]]  # words of the command
        elif len(values) == 2:
            namespace.assigned = [*namespace.assigned, (values[0].upper(), values[1])]
        else:
            raise ArgumentError(self, "expected NAME VALUE; put a value of several words in quotes")


OVERRIDES: Final = (
    Override("lost_threshold", ("LOST_THRESHOLD",), "N: runs that must find 404 or 410"),
    Override(
        "force",
        ("RECRAWL_POLICY", "TRUST_SAMPLE_RATIO"),
        "1: every page is asked, and without validators",
    ),
    Override("max_pages", ("max_pages",), "N: pages of a run; else what sources.toml says"),
)


class Command(BaseCommand):
    """Print the settings; it needs no registry."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] [NAME …]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show every setting, or those that are named, with its value, where that comes from,"
            " its default and its meaning; then the arguments of the spider that override settings."
            " Secrets are masked. --set and --unset change the file smartcrawl.toml, which every"
            " command reads."
            " Exit status: 0 done, 1 a value is wrong, or there is no such setting."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--changed", action="store_true", help="only settings that differ from their defaults"
        )
        parser.add_argument(
            "--set",
            dest="assigned",
            action=_Assign,
            default=[],
            nargs="+",
            metavar=("NAME", "VALUE"),
            help="write a setting into smartcrawl.toml",
        )
        parser.set_defaults(names=[])
        parser.add_argument(
            "--unset",
            action="append",
            default=[],
            metavar="NAME",
            help="remove a setting from smartcrawl.toml",
        )
        parser.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: table"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Print the settings, then the error of the first wrong one."""
        settings = self.settings
        args = [*args, *opts.names]
        if opts.assigned or opts.unset:
            self._change(opts)
            return
        try:
            file = read_applied_settings_file(settings)
            # Scrapy's command line has set it already, where it has its option for it.
            level = not any(one.startswith("LOG_LEVEL=") for one in opts.set)
            rows = config_command_rows(
                settings, config_command_settings(args, settings), by_level=level, file=file.values
            )
        except SettingError as error:
            self._fail(redacted_lines(str(error)))
            return
        if opts.changed:
            rows = [row for row in rows if row["source"] != "default"]
        names = {row["name"] for row in rows}
        everything = not (args or opts.changed)
        arguments = [one for one in OVERRIDES if everything or names.intersection(one.overrides)]
        wrong = config_command_error(settings)
        try:
            with printed():
                if opts.format == "json":
                    print_json({
                        "settings": rows,
                        "arguments": [one._asdict() for one in arguments],
                        "file": None if file.path is None else str(file.path),
                        "error": wrong,
                    })  # fmt: skip
                else:
                    _print(rows, arguments)
                    if file.path is not None:
                        print_note(f"smartcrawl.toml is {file.path}")
        except OutputError as error:
            self._fail(str(error))
        if wrong is not None:
            self._fail(wrong)

    def _change(self, opts: Namespace) -> None:
        """Write the file of settings, or print why it stays as it is."""
        values: dict[str, str | None] = dict(opts.assigned)
        values |= dict.fromkeys(name.upper() for name in opts.unset)
        try:
            path = change_settings_file(self.settings, values)
        except (SmartcrawlError, OSError) as error:
            self._fail(f"nothing was written: {redacted_lines(str(error))}")
            return
        for name, value in values.items():
            print(f"{name} is set in {path}" if value is not None else f"{name} is not in {path}")
            if name in os.environ:
                print_note(f"the environment variable {name} counts before the file")

    def _fail(self, message: str) -> None:
        print(f"config: {message}", file=sys.stderr)
        self.exitcode = FAILED


def config_command_settings(names: Sequence[str], settings: Any) -> list[str]:
    """Return the names of these settings, whatever their case; all where none is named.

    Raises:
        SettingError: there is no such setting.
    """
    for name in names:
        if name.upper() in SETTINGS:
            continue
        if name.upper() in settings:
            raise SettingError(
                f"{name.upper()} is not among the settings of smartcrawl:"
                f" scrapy settings --get {name.upper()} prints it"
            )
        near = similar_words(name.upper(), SETTINGS, most=3)
        hint = f": {program_name()} config prints them all"
        if near:
            hint = f"; did you mean {' or '.join(near)}?"
        raise SettingError(f"there is no setting {name!r}{hint}")
    wanted = {name.upper() for name in names}
    return [name for name in SETTINGS if not wanted or name in wanted]


def config_command_rows(
    settings: Any,
    wanted: Collection[str],
    *,
    by_level: bool = False,
    file: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each setting, under KEYS.

    ``by_level``: a given LOG_LEVEL is of -L. ``file``: the settings of smartcrawl.toml.
    """
    rows = []
    for group, one in ((group, one) for group, those in TABLE.items() for one in those):
        if one.name not in wanted:
            continue
        source = config_command_value_source(settings, one.name, file or {})
        if by_level and source == "-s" and one.name == "LOG_LEVEL":
            source = "-L"
        values = (_typed(settings[one.name], one.default), one.default)
        shown = [config_command_value_masked(one.name, each) for each in values]
        row = (one.name, group, shown[0], source, shown[1], one.meaning, one.unit_and_bounds)
        rows.append(dict(zip(KEYS, row, strict=True)))
    return rows


def config_command_value_source(settings: Any, name: str, file: Mapping[str, Any]) -> str:
    """Return where the value of a setting comes from.

    ``-s`` includes the settings that scrapyd passes on to a job: it calls the crawl with -s. A
    *settings module* is a module of the user that changes settings which it took over from ours.
    """
    if (settings.getpriority(name) or 0) >= CMDLINE:
        return "-s"
    if name == "DATA_DIR" and program_name() == OURS:
        by_default = SETTINGS_FILE if name in file else "default"
        return "environment" if any(map(os.environ.get, VARIABLES)) else by_default
    value = str(settings[name])
    if name in os.environ and value == os.environ[name]:
        return "environment"
    if name in file and value == str(file[name]):
        return SETTINGS_FILE
    return "default" if value == str(SETTINGS[name].default) else "settings module"


def config_command_value_masked(name: str, value: object) -> object:
    """Return the value of a setting with its secrets masked.

    >>> config_command_value_masked("API_KEYS", "8c1f"), config_command_value_masked("API_KEYS", "")
    ('***', '')
    >>> config_command_value_masked("SNAPSHOT_STORE", "ftp://me:pw@a.example/x?sig=8c1f")
    'ftp://***@a.example/x?sig=***'
    >>> config_command_value_masked("SNAPSHOT_STORE", "abfs://docs@a.example/x")
    'abfs://docs@a.example/x'
    >>> config_command_value_masked("DEPTH_LIMIT", 3)
    3
    """
    if value in (None, ""):
        return value
    if SETTINGS[name].is_secret if name in SETTINGS else _SECRET.search(name):
        return MASK
    if isinstance(value, bool | int | float):
        return value
    plain = [str(one) for one in value] if isinstance(value, list | tuple) else str(value)
    text = redacted_text(str(plain))
    bare = _without_name(str(plain))
    return (
        plain if text == str(plain) or bare == redacted_text(bare) else text.replace(HIDDEN, MASK)
    )


def _without_name(text: str) -> str:
    """Return an address without the name before its host, where that is no secret.

    >>> _without_name("sftp://me@a.example/x"), _without_name("https://me@a.example/x")
    ('sftp://a.example/x', 'https://me@a.example/x')
    """
    scheme, slashes, rest = text.partition("://")
    name, at, after = rest.partition("@")
    is_name = scheme.lower() in _NAMES and at and not set(name) & set("/:%?#")
    return f"{scheme}{slashes}{after}" if is_name else text


def config_command_error(settings: Any) -> str | None:
    """Return the error of the first setting with an invalid value; None if all are valid."""
    try:
        Options.of(settings)
    except SmartcrawlError as error:
        message = str(error)
        name = message.partition(" ")[0]
        if name in SETTINGS and SETTINGS[name].is_secret:
            value = settings[name]
            for text in (repr(value), str(value)):
                message = message.replace(text, MASK) if text else message
        return redacted_lines(message)
    return None


def _typed(value: object, default: object) -> object:
    """Convert a text to the type of the default, where the text can be read as that.

    >>> [_typed("7", 0), _typed("0.5", 0), _typed("1", True), _typed("inf", 0), _typed("7", "")]
    [7, 0.5, True, 'inf', '7']
    """
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        return _SWITCH.get(value.lower(), value)
    with suppress(ValueError):
        return int(value)
    with suppress(ValueError):
        return float(value) if isfinite(float(value)) else value
    return value


def _print(rows: Sequence[dict[str, Any]], arguments: Sequence[Override]) -> None:
    print_table(_COLUMNS, _lines(rows), empty="Every setting has its default.")
    if arguments:
        print()
        cells = [
            {
                "argument": f"-a {one.argument}=",
                "overrides": ", ".join(one.overrides),
                "meaning": one.meaning,
            }
            for one in arguments
        ]
        print_table(_ARGUMENTS, cells)


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of the table, groups with their heading."""
    for group, found in groupby(rows, lambda row: row["group"]):
        yield group
        for row in found:
            default = "" if row["source"] == "default" else _cell(row["default"])
            yield row | {"value": _cell(row["value"]), "default": default}


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return "empty" if value in (None, "") else str(value)
