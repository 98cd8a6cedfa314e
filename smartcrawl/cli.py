"""What the commands over the registry share: options, opening, tables, errors."""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, ClassVar

import apsw
from rich.console import Console
from rich.table import Table
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from smartcrawl.exceptions import RegistryError, SmartcrawlError
from smartcrawl.options import Options
from smartcrawl.registry.reports import sources_named
from smartcrawl.registry.views import report_connection


class RegistryCommand(ScrapyCommand):
    """A command that reads the registry and prints, for people or for machines."""

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar = {"LOG_ENABLED": False}
    formats: ClassVar[Sequence[str]] = ("table", "json")
    takes_words: ClassVar[bool] = False  #: whether words beside the options mean something

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options that all of them have."""
        super().add_options(parser)
        parser.add_argument("--source", metavar="S", help="only this source")
        parser.add_argument(
            "--format", choices=self.formats, default="table", help="default: table"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Open the registry, do the work, and turn what goes wrong into a message."""
        if args and not self.takes_words:
            raise UsageError(f"{args[0]!r} is not understood; to name a source: --source {args[0]}")
        try:
            assert self.settings is not None
            options = Options.of(self.settings)
            if not options.registry.exists():
                raise RegistryError(
                    f"there is no registry at {options.registry} yet: crawl something first, such"
                    " as scrapy crawl site -a url=https://…, or name its folder with -s DATA_DIR="
                )
            connection = report_connection(options.registry, options.trackers)
            sources = sources_named(connection, opts.source)
            if sources is None:
                known = ", ".join(sources_named_all(connection)) or "none"
                raise RegistryError(f"no source is called {opts.source!r}; known: {known}")
            self.work(connection, sources, args, opts)
        except SmartcrawlError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            self.exitcode = 1
        except BrokenPipeError:
            sys.stderr.close()  # the reader has seen enough, as in "… | head"

    @property
    def name(self) -> str:
        """The word it is called by."""
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def work(
        self, connection: apsw.Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print what was asked for; ``sources`` empty means all."""


def sources_named_all(connection: apsw.Connection) -> list[str]:
    """Return the names of all sources that were ever crawled."""
    return [name for (name,) in connection.execute("SELECT name FROM source ORDER BY name")]


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, file: IO[str] | None = None
) -> None:
    """Print rows as a table; long texts are folded, never cut."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    console = Console(file=file)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
