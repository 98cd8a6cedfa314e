"""``smartcrawl registry``: every record, as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from smartcrawl.index.remote import begin_index_epoch
from smartcrawl.model.exceptions import RegistryError, UsageError, meant_word
from smartcrawl.model.program import program_crawl_line, program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.tables import RECORD_KEYS, record_table_report, report_row_for_spreadsheet
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.model import Status, Word
from smartcrawl.terminal.command import RegistryCommand
from smartcrawl.terminal.output import print_note, printed_json, printed_time
from smartcrawl.terminal.tables import (
    print_table,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)
from smartcrawl.terminal.whole_places import part_of_output_file

_COLUMNS = (
    printed_word_column("status"),
    printed_word_column("http"),
    printed_word_column("lastOutcome", "outcome"),
    printed_number_column("depth"),
    printed_word_column("checked", "checked (UTC)"),
    printed_whole_column("url"),
    printed_note_column("errorMessage", "message"),
)
_STATUSES = {status.word: status for status in Status}
_OUTCOMES = {word.word: word for word in Word}
_T = TypeVar("_T")


class Command(RegistryCommand):
    """List the records."""

    formats: ClassVar = ("table", "jsonl", "csv")

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--status", metavar="X", help=f"only this status: {', '.join(_STATUSES)}"
        )
        parser.add_argument(
            "--outcome",
            metavar="X",
            help=f"only this last outcome: {', '.join(_OUTCOMES)}; a lost page whose next "
            "visit fails otherwise counts as failed",
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--no-text", action="store_true", help="only pages without text")
        which.add_argument("--sitemaps", action="store_true", help="only sitemaps and feeds")
        which.add_argument(
            "--dead", action="store_true", help="only pages that Elasticsearch refused"
        )
        which.add_argument(
            "--new-epoch",
            action="store_true",
            help="let this registry, restored from a backup, overwrite newer entries of the index",
        )
        parser.add_argument("--output", metavar="FILE", help="write to FILE, not to the terminal")

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the records."""
        if opts.new_epoch:
            self._new_epoch()
            return
        rows = record_table_report(
            connection,
            sources=sources,
            status=_named(opts.status, "status", _STATUSES),
            outcome=_named(opts.outcome, "outcome", _OUTCOMES),
            no_text=opts.no_text,
            sitemaps=opts.sitemaps,
            dead=opts.dead,
        )
        with _opened(opts.output) as file:
            if opts.format == "jsonl":
                for row in rows:
                    file.write(printed_json(row, file) + "\n")
            elif opts.format == "csv":
                writer = csv.DictWriter(file, RECORD_KEYS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(report_row_for_spreadsheet(row) for row in rows)
            else:
                shown = (_shown(row) for row in rows)
                print_table(_COLUMNS, shown, empty=_empty(opts), file=file)

    def _new_epoch(self) -> None:
        if self.options.elasticsearch is None:
            raise UsageError(
                "--new-epoch needs an index in Elasticsearch, but ELASTICSEARCH_URL is empty",
            )
        with self.database.translated("write"):
            connection = self.database.open()
            try:
                epoch, pages = begin_index_epoch(self.options, connection)
            finally:
                connection.close()
        print_note(
            f"epoch {epoch} began: {report_noun(pages, 'page')} will be written to the "
            "index again by the next run of each source; to list other entries of the "
            f"index: {program_name()} audit"
        )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the columns of the table."""
    code = row["httpStatusCode"]
    return row | {
        "http": None if code is None else str(code),
        "checked": printed_time(row["lastChecked"]),
    }


def _empty(opts: Namespace) -> str:
    """Return the sentence that stands for an empty table."""
    if any((opts.source, opts.status, opts.outcome, opts.no_text, opts.sitemaps, opts.dead)):
        return f"no record matches; to list all: {program_name()} registry"
    return f"no records yet; crawl something first: {program_crawl_line('https://…')}"


def _named(given: str | None, what: str, known: Mapping[str, _T]) -> _T | None:
    """Return the value that a word stands for, in any case; None where none was given."""
    if given is None:
        return None
    for name, value in known.items():
        if name.lower() == given.lower():
            return value
    near = meant_word(given, known)
    raise RegistryError(f"{given!r} is no {what}; there are {', '.join(known)}{near}")


@contextmanager
def _opened(output: str | None) -> Iterator[IO[Any]]:
    """Open the output file; it appears whole or not at all."""
    if output is None:
        yield sys.stdout
        return
    path = Path(output)
    if not path.name or path.is_dir():
        raise RegistryError(f"cannot write {output!r}: it names no file")
    try:
        with part_of_output_file(path) as (part, file):
            yield file
            file.flush()
            part.replace(path)
    except OSError as error:
        raise RegistryError(
            f"cannot write {path} ({error.strerror}); name a file in a folder that exists and"
            " that this user may write to"
        ) from error
