"""The base of the commands over the registry: options, opening, tables, errors."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from abc import abstractmethod
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from smartcrawl.model.exceptions import RegistryError, RunHeldError, SmartcrawlError, UsageError
from smartcrawl.model.options import Options
from smartcrawl.model.program import OURS, program_crawl_line, program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.setting_values import CMDLINE, MOST_NUMBER, given_number, given_number_bounds
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.names import (
    stored_source_names,
    stored_sources_named,
    unknown_source_error,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.absence import withholds_sweep
from smartcrawl.sources.private_files import narrow_private_data
from smartcrawl.terminal.bar import AboveBar, Bar, Meter
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, print_complaint, print_note, printed, printed_json
from smartcrawl.terminal.state_folder import data_dir_words

if TYPE_CHECKING:
    from smartcrawl.registry.removal.orders import RemovalOrder
    from smartcrawl.registry.removal.purge import Removal, Target

DONE, FAILED, WITHHELD, HELD = 0, 1, 3, 4  #: exit statuses; Scrapy has 2 for wrong usage


class RegistryCommand(BaseCommand):
    """A command that reads the registry and prints, for people or for programs."""

    formats: ClassVar[Sequence[str]] = ("table", "json")
    takes_source: ClassVar[bool] = True  #: whether one source can be chosen
    options: Options  #: set by ``run``
    database: Database  #: the one that the options name

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options that all commands have."""
        super().add_options(parser)
        if self.takes_source:
            parser.add_argument("--source", metavar="S", help="only this source")
        parser.add_argument(
            "--format",
            choices=self.formats,
            default=self.formats[0],
            help=f"default: {self.formats[0]}",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Open the registry, do the work, and print errors as messages."""
        if args and not self.takes_words:
            word = redacted_line(args[0])
            raise UsageError(f"{word!r} is not understood; to name a source: --source {word}")
        with self.complaining():
            self.options = options = Options.of(self.settings)
            self.database = registry_database(options.registry)
            if not self.database.exists():
                raise base_command_missing_registry(self.database)
            narrow_private_data(options.data_dir)
            with base_command_damage(self.database), printed():
                self._work(args, opts)

    @contextmanager
    def complaining(self) -> Iterator[None]:
        """Print an error of smartcrawl's own as a message, and set the exit status."""
        try:
            yield
        except SmartcrawlError as error:
            print_complaint(self.name, str(error))
            self.exitcode = HELD if isinstance(error, RunHeldError) else FAILED

    def _work(self, args: list[str], opts: Namespace) -> None:
        connection = self.opened()
        try:
            chosen = opts.source if self.takes_source else None
            sources = stored_sources_named(connection, chosen)
            if sources is None:
                raise unknown_source_error(opts.source, stored_source_names(connection))
            with warnings_printed(self.name):
                self.work(connection, sources, args, opts)
        finally:
            connection.close(True)  # also with unread rows

    def opened(self) -> Connection:
        """Open the registry, for reading."""
        return self.database.reports(self.options.trackers)

    def again(self, *words: object) -> str:
        """Return a command line for the same registry; ``words``: the command and its arguments."""
        line = [program_name(), str(words[0])]
        named = ["DATA_DIR", "REGISTRY_URL"]
        if program_name() == OURS:
            line += data_dir_words(self.options.data_dir)
            named = ["REGISTRY_URL"]
        for name in named:
            if self.settings.getpriority(name) == CMDLINE:
                line += ["-s", f"{name}={self.settings[name]}"]
        return shlex.join([*line, *(str(word) for word in words[1:])])

    def meter(self, total: int | None = None, units: str = "pages") -> Meter:
        """Return the display of this command's progress; ``total``: units, if known."""
        assert self.settings is not None
        enabled = self.settings["PROGRESS_FORMAT"] == "line"
        return Meter(self.name, total=total, units=units, enabled=enabled)

    @abstractmethod
    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Do the work and print the result; ``sources`` empty means all."""


def base_command_missing_registry(database: Database) -> RegistryError:
    """Return the error that a registry is missing, with the remedy."""
    folder = "--data-dir" if program_name() == OURS else "-s DATA_DIR="
    return RegistryError(
        f"there is no registry at {database} yet: crawl something first, such as"
        f" {program_crawl_line('https://…')}, or name its folder with {folder}, or its database"
        " with -s REGISTRY_URL="
    )


@contextmanager
def warnings_printed(name: str) -> Iterator[None]:
    """Print a command's warnings, such as a server that it waits for, while its log is off."""
    handler = AboveBar()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"{name}: %(message)s"))
    ours = logging.getLogger("smartcrawl")
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)


@contextmanager
def base_command_damage(database: Database) -> Iterator[None]:
    """Turn an unexpected error into that of the damaged registry, if this is its cause.

    Raises:
        RegistryDamagedError: the registry is damaged.
    """
    try:
        yield
    except (SmartcrawlError, UsageError, BrokenPipeError, UnicodeEncodeError):
        raise
    except Exception as error:
        found = database.explained(error)
        if found is None:
            raise
        raise found from error


class ChangingCommand(RegistryCommand):
    """A command that changes the registry between runs: with leases, guard and undo."""

    dry: bool = False  #: whether to print what would be done, and change nothing

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the option that every command has which may remove something."""
        super().add_options(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would be done; change nothing"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Do the work, or print what it would do."""
        self.dry = opts.dry_run
        super().run(args, opts)

    def opened(self) -> Connection:
        """Open the registry for writing, or for reading if nothing is to be changed."""
        return super().opened() if self.dry else self.database.open()

    def add_ceiling(self, parser: ArgumentParser) -> None:
        """Add the option for the most pages to remove."""
        parser.add_argument(
            "--max",
            type=count_argument,
            metavar="N",
            help="remove at most N pages, whatever the guard says",
        )

    @contextmanager
    def leased(self, sources: Iterable[str]) -> Iterator[int]:
        """Take the lease of each source, and yield the time in Unix seconds.

        A dry run takes no lease.

        Raises:
            RunHeldError: a source is being crawled.
        """
        now = int(time.time())
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        with ExitStack() as stack:
            for source in () if self.dry else sorted(set(sources)):
                stack.callback(self.database.take(source, since).release)
            with self.database.translated("write"):
                yield now

    def add_order(self, parser: ArgumentParser) -> None:
        """Add the option by which a server has an order of its API carried out."""
        parser.add_argument(
            "--order",
            metavar="ID",
            help="carry out this order of the HTTP API, which keeps the result",
        )

    @contextmanager
    def kept(
        self, connection: Connection, order: RemovalOrder, opts: Namespace
    ) -> Iterator[dict[str, Any]]:
        """Keep an approval or undo: who did it, and the result that the block puts together.

        ``order``: as a command without ``--order`` keeps it. Neither a dry run nor a block without
        a result is kept.

        Raises:
            RegistryError: the order of ``--order`` is over, or there is none.
        """
        # Commands that only read start sooner without these.
        from smartcrawl.registry.removal.orders import (  # noqa: PLC0415
            begin_removal_order_row,
            end_removal_order_row,
            store_removal_order_row,
        )

        result: dict[str, Any] = {}
        id_ = None if self.dry else opts.order
        if id_ is not None:
            with self.database.translated("write"), transaction(connection):
                begins = begin_removal_order_row(connection, id_)
            if not begins:
                raise RegistryError(f"no order {redacted_line(id_)} waits for a process")
        try:
            yield result
        except SmartcrawlError as error:
            if id_ is not None:
                with self.database.translated("write"), transaction(connection):
                    end_removal_order_row(connection, id_, int(time.time()), reasons=[str(error)])
            raise
        if self.dry or (id_ is None and not result):
            return
        with self.database.translated("write"), transaction(connection):
            if id_ is None:
                store_removal_order_row(connection, order)
            now = int(time.time())
            end_removal_order_row(connection, id_ or order.id, now, result=result)

    def guarded(
        self, connection: Connection, targets: Sequence[Target], most: int | None
    ) -> str | None:
        """Return why a removal is withheld, or None where the guard permits it."""
        from smartcrawl.registry.removal.purge import stored_removal_losses  # noqa: PLC0415  # as in purge

        if most is not None:
            return None
        options = self.options
        for number, name in sorted({(t.source_no, t.source) for t in targets}):
            of_source = [target for target in targets if target.source_no == number]
            content, records = stored_removal_losses(connection, number, of_source)
            ratio, least = options.sweep_max_ratio, options.sweep_min_count
            if withholds_sweep(content, records, max_ratio=ratio, min_count=least):
                return (
                    f"this would remove {records.removals} of the {records.pages} pages of {name}"
                    f" ({content.removals} of {content.pages} with content); more than"
                    f" {least} pages and {ratio:.0%} of a source at once, or half of it, go only"
                    " when their number is given"
                )
        return None

    def purge(
        self,
        connection: Connection,
        targets: Sequence[Target],
        now: int,
        *,
        most: int | None,
    ) -> list[Removal]:
        """Remove pages, at most ``most`` of them; a dry run only returns them."""
        # Commands that only read start sooner without these.
        from smartcrawl.index.choice import index_writer_of_registry  # noqa: PLC0415
        from smartcrawl.registry.removal.purge import Removal, remove_stored_pages  # noqa: PLC0415

        if self.dry:
            listed = sorted(targets[:most], key=lambda target: target.source)
            return [
                Removal(source, 0, tuple(target.url for target in of_source))
                for source, of_source in groupby(listed, lambda target: target.source)
            ]
        total = len(targets[:most])
        with (
            self.meter(total) as meter,
            closing(index_writer_of_registry(self.options, connection)) as indexing,
        ):
            report = partial(meter.report, "removed")
            return remove_stored_pages(connection, indexing, targets[:most], now, report=report)

    def withhold(self, why: str, *words: object) -> None:
        """Print that no page was removed, why, and the command that removes the pages."""
        Bar.erase()
        Output(sys.stderr).say(
            escape(f"{self.name}: nothing {'would be' if self.dry else 'was'} removed: {why}:"),
            command=self.again(*words),
            gap=1,
        )
        self.exitcode = WITHHELD

    def report(self, done: Sequence[Removal], left: int, opts: Namespace) -> None:
        """Print the removed pages, and the command that brings them back."""
        undo = {} if self.dry else {one.run: self.again("undo", one.run) for one in done}
        if opts.format == "json":
            rows = [
                {
                    "source": one.source,
                    "run": one.run or None,
                    "removed": list(one.urls),
                    "undo": undo.get(one.run),
                }
                for one in done
            ]
            print_json({"removals": rows, "left": left} | ({"dryRun": True} if self.dry else {}))
            return
        for one in done:
            for url in one.urls:
                print(f"{'would remove' if self.dry else 'removed'}  {url}")
            pages = f"{report_noun(len(one.urls), 'page')} of {one.source}"
            if self.dry:
                print_note(f"{pages} would be removed; nothing was changed")
            else:
                print_note(f"{pages} removed; undo with:", command=undo[one.run], gap=1)
        if not done:
            print("nothing to remove")
        if left:
            print(
                f"{left:,} more {'stays' if left == 1 else 'stay'}: --max {opts.max} is the limit"
            )


def count_argument(value: str) -> int:
    """Return the value of an option that takes a whole number of at least 1."""
    number = given_number(value)
    if number is None or not 1 <= number <= MOST_NUMBER:
        bounds = given_number_bounds(1, beyond=bool(number))
        raise ArgumentTypeError(f"{value!r} is not a whole number {bounds}")
    return number


def single_terminal_argument(args: Sequence[str], what: str, example: str) -> str:
    """Return the one argument of a command.

    Raises:
        UsageError: there is none, or more than one.
    """
    if len(args) != 1:
        raise UsageError(f"expected one {what}, such as: {example}")
    return args[0]


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(printed_json(value, sys.stdout, indent=2))
