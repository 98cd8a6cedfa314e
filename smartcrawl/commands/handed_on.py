"""The commands of ``scrapy`` that hand words and settings on to those of ``smartcrawl``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand

from smartcrawl.commands.front import main_command
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.engine.project_settings import complete_scrapy_settings
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.usage import check_terminal_usage, wrap_usage


class HandedOn:
    """Takes the options of Scrapy itself, such as ``--logfile``; all other words are handed on."""

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}
    ours: ClassVar[type[BaseCommand]]

    def syntax(self) -> str:
        """Return the usage of the command."""
        return self.ours().syntax()

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return COMMANDS[_name(self)]

    def add_options(self: Any, parser: ArgumentParser) -> None:
        """Add Scrapy's options; ``--help`` is handed on, too."""
        super().add_options(parser)  # type: ignore[misc]  # that of ScrapyCommand
        parser.add_argument("-h", "--help", action="store_true")
        parser.set_defaults(assigned=[])
        if _name(self) == "config":  # its --set is no -s
            parser.add_argument("--set", dest="assigned", action="append", nargs="+")
        wrap_usage(parser)
        self.parser = parser

    def process_options(self: Any, args: list[str], opts: Namespace) -> None:
        """Apply Scrapy's options, but for ``-s``."""
        complete_scrapy_settings(self.settings)
        self.given, opts.set = [word for one in opts.set for word in ("-s", one)], []
        self.given += [word for one in opts.assigned for word in ("--set", *one)]
        check_terminal_usage(self.parser, self.settings, [], opts)
        super().process_options(args, opts)  # type: ignore[misc]  # as above

    def run(self: Any, args: list[str], opts: Namespace) -> None:
        """Carry out the command of ``smartcrawl``."""
        words = [_name(self), *self.given, *(["--help"] if opts.help else ()), *args]
        self.exitcode = main_command(words, self.settings)


def hand_commands_on() -> None:
    """Put a class for Scrapy into the module of each command that needs no crawl, and has one."""
    for name in COMMANDS.keys() - {"completion"}:
        module: Any = import_module(f"{__package__}.{name}")
        ours = getattr(module, "Command", object)
        if issubclass(ours, BaseCommand):
            of_module = {"__module__": module.__name__, "ours": ours}
            module.HandedOn = type("HandedOn", (HandedOn, ScrapyCommand), of_module)


def _name(command: object) -> str:
    return type(command).__module__.rpartition(".")[2]
