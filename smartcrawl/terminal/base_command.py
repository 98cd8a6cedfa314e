"""The base of every command that needs no crawl, and so no Scrapy, whose import takes longer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, ClassVar


class BaseCommand(ABC):
    """A command with words and options of its own, which each front door takes alike."""

    takes_words: ClassVar[bool] = False  #: whether it takes words beside the options
    exitcode = 0
    settings: Any = None  #: our own, or those of a Scrapy project; set before ``run``

    @property
    def name(self) -> str:
        """The name of the command."""
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def syntax(self) -> str:
        """Return its usage."""

    def long_desc(self) -> str:
        """Return its help text; empty: its line in the list of commands is enough."""
        return ""

    def add_options(self, parser: ArgumentParser) -> None:  # noqa: B027  # not every command has some
        """Add its options."""

    def failed_exit(self, words: Sequence[str]) -> int | None:
        """Return the exit status of every failure; None: each failure has its own.

        ``words``: the command line, which may be wrong.
        """
        return None

    @abstractmethod
    def run(self, args: list[str], opts: Namespace) -> None:
        """Do the work, and set ``exitcode`` where it failed.

        Raises:
            UsageError: it does not take these words or options.
        """
