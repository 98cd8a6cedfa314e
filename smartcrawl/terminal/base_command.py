"""The base of every command that needs no crawl: it runs under Scrapy, and without it.

``scrapy search`` and ``smartcrawl search`` are one class. It has the interface of ScrapyCommand
without being one, because the import of Scrapy would be most of the time of a search. Under Scrapy
the class is registered as a ScrapyCommand (``smartcrawl.commands``), and takes Scrapy's options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from smartcrawl.model.exceptions import UsageError
from smartcrawl.terminal.output import print_any_character
from smartcrawl.terminal.usage import check_terminal_usage, wrap_usage


class CommandSettings(Mapping[str, Any]):
    """The part of Scrapy's Settings that commands use; those without Scrapy have no more."""

    @abstractmethod
    def getbool(self, name: str) -> bool:
        """Return a setting as a switch."""

    @abstractmethod
    def getint(self, name: str) -> int:
        """Return a setting as a whole number."""

    @abstractmethod
    def getfloat(self, name: str) -> float:
        """Return a setting as a number."""

    @abstractmethod
    def getpriority(self, name: str) -> int | None:
        """Return how strong the origin of a setting is; CMDLINE if it was given with -s."""


class BaseCommand(ABC):
    """A command with options of its own; ``carry_out`` does its work."""

    requires_project = True
    requires_crawler_process = False
    crawler_process: None = None
    default_settings: ClassVar[Mapping[str, Any]] = {"LOG_ENABLED": False}
    takes_words: ClassVar[bool] = False  #: whether it takes words beside the options
    exitcode = 0
    settings: Any = None  #: Scrapy's or CommandSettings; set before ``add_options``
    under_scrapy = True  #: whether Scrapy's command line calls it
    parser: ArgumentParser

    @property
    def name(self) -> str:
        """The name of the command."""
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def syntax(self) -> str:
        """Return its usage."""

    @abstractmethod
    def short_desc(self) -> str:
        """Return one line for the list of commands."""

    def long_desc(self) -> str:
        """Return its help text."""
        return self.short_desc()

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of all commands: those of Scrapy where it calls."""
        print_any_character()  # the parser may print the help
        self.parser = parser
        wrap_usage(parser)
        if self.under_scrapy:
            import_module("scrapy.commands").ScrapyCommand.add_options(self, parser)

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Apply the options of all commands, and refuse those that no command has.

        Without Scrapy the caller did so (``smartcrawl.commands.running``).
        """
        if self.under_scrapy:
            import_module("smartcrawl.engine.project_settings").complete_scrapy_settings(
                self.settings
            )
            check_terminal_usage(self.parser, self.settings, args, opts, words=self.takes_words)
            import_module("scrapy.commands").ScrapyCommand.process_options(self, args, opts)

    def run(self, args: list[str], opts: Namespace) -> None:
        """Carry the command out; wrong usage is reported by the command line that calls."""
        try:
            self.carry_out(args, opts)
        except UsageError as error:
            if not self.under_scrapy:
                raise
            wrong = import_module("scrapy.exceptions").UsageError
            raise wrong(str(error), print_help=error.print_help) from error

    @abstractmethod
    def carry_out(self, args: list[str], opts: Namespace) -> None:
        """Do the work, and set ``exitcode`` where it failed."""
