"""The base of every command that needs no crawl: it runs under Scrapy, and without it.

``scrapy search`` and ``smartcrawl search`` are one class. It has the interface of ScrapyCommand
without being one, because the import of Scrapy would be most of the time of a search. Under Scrapy
the class is registered as a ScrapyCommand (``smartcrawl.commands``), and takes Scrapy's options.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from smartcrawl.engine.usage import check_usage
from smartcrawl.model.exceptions import UsageError
from smartcrawl.model.meant import nearest
from smartcrawl.model.redaction import shown

_LIKE_OPTION = 0.7  #: similarity from which an option is proposed for a mistyped one
CMDLINE = 40  #: priority of settings that are given with -s, as Scrapy counts


class CommandSettings(Mapping[str, Any]):
    """The part of Scrapy's Settings that commands use; those without Scrapy have no more."""

    @abstractmethod
    def getbool(self, name: str) -> bool:
        """Return a setting as a switch."""

    @abstractmethod
    def getpriority(self, name: str) -> int | None:
        """Return how strong the origin of a setting is; CMDLINE if it was given with -s."""


class BaseCommand(ABC):
    """A command with options of its own; ``carry_out`` does its work."""

    requires_project = True
    requires_crawler_process = False
    crawler_process: None = None
    default_settings: ClassVar[Mapping[str, Any]] = {"LOG_ENABLED": False}
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
        self.parser = parser
        if self.under_scrapy:
            import_module("scrapy.commands").ScrapyCommand.add_options(self, parser)

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Apply the options of all commands, and refuse those that no command has."""
        if self.under_scrapy:
            check_usage(self.parser, self.settings, opts)
            import_module("scrapy.commands").ScrapyCommand.process_options(self, args, opts)
            import_module("smartcrawl.engine.project_settings").complete(self.settings)
        with_known_options(self.parser, args)

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


def with_known_options(parser: ArgumentParser, args: list[str]) -> None:
    """Refuse words that begin with a dash; those after ``--`` are words like any other.

    argparse leaves options that it does not know among the words, so that ``--limt 3`` would be
    searched for. The ``--`` itself is taken out of ``args``. The parser prints the message, and
    ends the process with the status of wrong usage.
    """
    end = args.index("--") if "--" in args else len(args)
    for word in args[:end]:
        if re.match(r"-(?!\d|\Z)", word):
            option = word.partition("=")[0]
            known = [name for action in parser._actions for name in action.option_strings]
            near = nearest(f"--{option.lstrip('-')}", known, least=_LIKE_OPTION)
            meant = f"; did you mean {near}?" if near else ": --help lists them."
            parser.error(
                f"there is no option {shown(option)}{meant} A word that begins with a dash goes"
                " after --"
            )
    del args[end : end + 1]
