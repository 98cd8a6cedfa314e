"""One command of ``smartcrawl``, parsed and carried out: without Scrapy where it needs none."""

from __future__ import annotations

import gc
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from smartcrawl import settings as of_module
from smartcrawl.commands.crawl_words import (
    CrawlWords,
    command_line_of_scrapy_crawl,
    file_refusal,
    option_elsewhere,
)
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.model.exceptions import SmartcrawlError, UsageError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_file import load_settings_file
from smartcrawl.sources.kinds import SHAREPOINT, SITE, SPIDERS
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.output import print_complaint
from smartcrawl.terminal.state_folder import VARIABLES, state_folder
from smartcrawl.terminal.usage import check_terminal_usage, wrap_usage

_PROJECT = 20  #: priority of a settings module, as Scrapy counts


class PlainSettings(dict[str, Any]):
    """Settings by name, with Scrapy's answers: None for a name that has no value."""

    def __init__(self) -> None:
        super().__init__({name: value for name, value in vars(of_module).items() if name.isupper()})
        self._given: set[str] = set()

    def __missing__(self, name: str) -> None:
        """Return None."""

    def set(self, name: str, value: object, priority: str) -> None:
        """Set a value; ``priority``: "cmdline" if it was given with -s."""
        self[name] = value
        if priority == "cmdline":
            self._given.add(name)

    def apply_file(self) -> None:
        """Take the values of smartcrawl.toml that nothing stronger gives.

        Raises:
            SettingError: the file cannot be used.
        """
        file = load_settings_file(self, self._is_given)
        for name, value in file.values.items():
            if name != "DATA_DIR" and not self._is_given(name):  # the folder of state is known
                self[name] = value

    def _is_given(self, name: str) -> bool:
        variables = VARIABLES if name == "DATA_DIR" else (name,)
        return name in self._given or any(variable in os.environ for variable in variables)

    def getpriority(self, name: str) -> int | None:
        """Return how strong the origin of a setting is; None where there is no such setting."""
        if name not in self:
            return None
        return CMDLINE if name in self._given else _PROJECT


_OF_PROJECT = "smartcrawl.settings"


def run_command(name: str, words: Sequence[str], settings: Any = None) -> int:
    """Run one command, and return its exit status; wrong usage ends the process with status 2.

    ``settings``: those of a Scrapy project, where its command hands the words on.
    """
    if name == "crawl":
        return _run_in_scrapy(name, _crawl_words(words))
    command = command_named(name)
    if not isinstance(command, BaseCommand):
        return _run_in_scrapy(name, words)
    if settings is not None:
        command.settings = settings
    with _failing_with(command.failed_exit(words)):
        return _run_ours(name, command, words)


@contextmanager
def _failing_with(status: int | None) -> Iterator[None]:
    """End the process with this status at every failure in the block; None: with that of each."""
    if status is None:
        yield
        return
    try:
        yield
    except SmartcrawlError as error:
        print_complaint(program_name(), str(error))
        raise SystemExit(status) from None
    except SystemExit as end:
        raise SystemExit(end.code and status) from None
    except Exception:  # noqa: BLE001  # Python would end with 1, which a check has for something else
        import traceback  # noqa: PLC0415  # an error of ours is rare

        traceback.print_exc()
        raise SystemExit(status) from None


def _run_ours(name: str, command: BaseCommand, words: Sequence[str]) -> int:
    """Run a command that knows nothing of Scrapy, and return its exit status."""
    parser = front_door_parser(name, command)
    opts, args = parser.parse_known_args(words)
    known = _known_settings(command.settings, opts)
    check_terminal_usage(parser, known, args, opts, words=command.takes_words)
    _apply(command.settings, opts)
    _begin_garbage_collection()
    try:
        command.run(args, opts)
    except UsageError as error:
        parser.error(str(error))
    return command.exitcode


def command_named(name: str) -> Any:
    """Return the command of this name, with its settings: the words of ``crawl`` are its own."""
    if name == "crawl":
        return CrawlWords()
    command = import_module(f"smartcrawl.commands.{name}").Command()
    is_ours = isinstance(command, BaseCommand)
    command.settings = PlainSettings() if is_ours else _scrapys_settings(command)
    return command


def front_door_parser(name: str, command: Any) -> ArgumentParser:
    """Return the parser of a command, with the options that every command has."""
    parser = ArgumentParser(
        prog=f"{program_name()} {name}",
        usage=f"{program_name()} {name} {command.syntax()}",
        description=command.long_desc() or COMMANDS[name],
        conflict_handler="resolve",
    )
    wrap_usage(parser)
    command.add_options(parser)
    add_common_options(parser)
    return parser


def front_door_data_dir(words: Sequence[str]) -> str:
    """Return the folder of all state for the options before a command; wrong ones end the process.

    Raises:
        SettingError: there can be no such folder.
    """
    parser = ArgumentParser(prog="smartcrawl", add_help=False)
    wrap_usage(parser)
    add_common_options(parser)
    return _folder(parser.parse_args(words))[0]


def add_common_options(parser: ArgumentParser) -> None:
    """Add the options of every command."""
    parser.add_argument("--data-dir", metavar="DIR", help="folder of all state")
    own = parser._option_string_actions.get("--set")  # that of config
    names = ("-s",) if own is not None and own.dest != "set" else ("-s", "--set")
    parser.add_argument(
        *names, dest="set", action="append", default=[], metavar="NAME=VALUE",
        help="a setting, as often as needed",
    )  # fmt: skip


def _apply(settings: Any, opts: Namespace) -> None:
    """Apply the settings of a command line; a Scrapy project has a folder of state of its own."""
    folder, given = _folder(opts)
    for setting in opts.set:
        name, _, value = setting.partition("=")
        settings.set(name, value, priority="cmdline")
    if given or isinstance(settings, PlainSettings):
        settings.set("DATA_DIR", folder, priority="cmdline" if given else "project")
    if isinstance(settings, PlainSettings):
        settings.apply_file()
    else:
        import_module("smartcrawl.engine.project_settings").apply_settings_file(
            settings, are_ours=True
        )


def _folder(opts: Namespace) -> tuple[str, bool]:
    """Return the folder of all state, and whether the command line names it.

    DATA_DIR is taken out of the settings of the command line: its path is absolute from here on.
    """
    prefix = "DATA_DIR="
    named = [setting.removeprefix(prefix) for setting in opts.set if setting.startswith(prefix)]
    opts.set = [setting for setting in opts.set if not setting.startswith(prefix)]
    given = opts.data_dir or (named[-1] if named else None)
    sources = dict(setting.partition("=")[::2] for setting in opts.set).get("SOURCES_FILE")
    return str(state_folder(given, os.environ, sources)), given is not None


def _crawl_words(words: Sequence[str]) -> list[str]:
    """Return the words of Scrapy's command for those of ``smartcrawl crawl``."""
    parser = front_door_parser("crawl", CrawlWords())
    opts, args = parser.parse_known_args(words)
    settings = PlainSettings()
    check_terminal_usage(
        parser,
        _known_settings(settings, opts),
        args,
        opts,
        notes=False,
        elsewhere=option_elsewhere,
    )
    spider = None
    if args and args[0] in SPIDERS and opts.spargs:
        spider = args.pop(0)  # the words of Scrapy's command
    if len(args) > 1:
        parser.error("expected one address, folder or source; declare several in sources.toml")
    _apply(settings, Namespace(set=list(opts.set), data_dir=opts.data_dir))
    declared = _declared(settings)
    named = opts.source or (args[0] if args else "")
    if args and args[0] not in declared and (refusal := file_refusal(args[0])) is not None:
        parser.error(refusal)
    if named not in declared and _is_of_library(settings, named):
        declared[named] = SHAREPOINT.spider
    return command_line_of_scrapy_crawl(opts, args, declared, spider=spider)


def _is_of_library(settings: PlainSettings, name: str) -> bool:
    """Whether a name is DOMAIN.SOURCE, and there is a domain of document libraries of this id."""
    from smartcrawl.sources.sharepoint.domains import sharepoint_domain_ids  # noqa: PLC0415  # only a crawl needs it

    domain_id, dot, source_id = name.partition(".")
    if not dot or not source_id:
        return False
    try:
        return domain_id in sharepoint_domain_ids(Options.of(settings).sharepoint.storage)
    except SmartcrawlError:
        return False  # the crawl reports it


def _declared(settings: PlainSettings) -> dict[str, str]:
    """Return the spiders of the declared sources by name; none where the crawl reports an error."""
    from smartcrawl.sources.declared import load_declared_sources  # noqa: PLC0415  # only a crawl needs them

    try:
        declared = load_declared_sources(*Options.of(settings).source_files)
    except SmartcrawlError:
        return {}
    wrong = {name: table.spider or SITE.spider for name, table in declared.wrong.items()}
    return {name: source.traits.spider for name, source in declared.items()} | wrong


def _known_settings(settings: Mapping[str, Any], opts: Namespace) -> set[str]:
    """Return the names of our settings, and Scrapy's where one of ``-s`` is not ours."""
    names = set(settings)
    if any(given.partition("=")[0] not in names for given in opts.set):
        from scrapy.settings import default_settings  # noqa: PLC0415  # it costs an import of Scrapy

        names.update(name for name in vars(default_settings) if name.isupper())
    return names


def _scrapys_settings(command: Any) -> Any:
    from scrapy.settings import Settings  # noqa: PLC0415  # most commands need no Scrapy

    settings = Settings()
    settings.setmodule(_OF_PROJECT, priority="project")
    settings.setdict(command.default_settings, priority="command")
    return settings


def _begin_garbage_collection() -> None:
    """Look for garbage from here on, but not among the modules that were imported so far.

    The program starts without a collector: looking at modules took a tenth of a short crawl.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _run_in_scrapy(name: str, words: Sequence[str]) -> int:
    """Run a command in Scrapy's process, as ``scrapy`` does inside the project."""
    from scrapy.crawler import AsyncCrawlerProcess  # noqa: PLC0415  # as above
    from scrapy.exceptions import UsageError as ScrapysUsageError  # noqa: PLC0415

    command = import_module(f"smartcrawl.commands.{name}").Command()
    command.settings = settings = _scrapys_settings(command)
    parser = front_door_parser(name, command)
    opts, args = parser.parse_known_args(words)
    folder, given = _folder(opts)
    try:
        settings.set("DATA_DIR", folder, priority="cmdline" if given else "project")
        command.process_options(args, opts)
        if command.requires_crawler_process:
            command.crawler_process = AsyncCrawlerProcess(settings)
        _begin_garbage_collection()
        if opts.profile:
            from cProfile import Profile  # noqa: PLC0415  # as above

            profile = Profile()
            profile.runcall(command.run, args, opts)
            profile.dump_stats(opts.profile)
        else:
            command.run(args, opts)
    except (ScrapysUsageError, UsageError) as error:
        parser.error(str(error))
    return int(command.exitcode)
