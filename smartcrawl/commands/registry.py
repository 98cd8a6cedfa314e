"""``scrapy registry``: every record, as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from scrapy.exceptions import UsageError

from smartcrawl.engine.command import RegistryCommand, print_table
from smartcrawl.index.choice import begin_epoch
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.meant import meant
from smartcrawl.model.ports import Connection
from smartcrawl.model.redaction import json_safe
from smartcrawl.reports.tables import RECORD_KEYS, records, spreadsheet_row
from smartcrawl.reports.text import counted
from smartcrawl.rules.model import Status, Word
from smartcrawl.sources.private_files import file_like_its_folder

_COLUMNS = (
    "status",
    "httpStatusCode",
    "lastOutcome",
    "depth",
    "lastChecked",
    "url",
    "errorMessage",
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

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "List the record of every page"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--status", metavar="X", help=f"only this status: {', '.join(_STATUSES)}"
        )
        parser.add_argument(
            "--outcome", metavar="X", help=f"only this last outcome: {', '.join(_OUTCOMES)}"
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--no-text", action="store_true", help="only pages without text")
        which.add_argument("--sitemaps", action="store_true", help="only sitemaps and feeds")
        which.add_argument(
            "--dead", action="store_true", help="only pages that Elasticsearch refused as they are"
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
        rows = records(
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
                    file.write(json_safe(json.dumps(row, ensure_ascii=False)) + "\n")
            elif opts.format == "csv":
                writer = csv.DictWriter(file, RECORD_KEYS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(spreadsheet_row(row) for row in rows)
            else:
                print_table(_COLUMNS, rows, file=file)

    def _new_epoch(self) -> None:
        if self.options.elasticsearch is None:
            raise UsageError(
                "--new-epoch is for a registry that writes to an Elasticsearch:"
                " ELASTICSEARCH_URL is empty",
                print_help=False,
            )
        with self.database.translated("write"):
            connection = self.database.open()
            try:
                epoch, pages = begin_epoch(self.options, connection)
            finally:
                connection.close()
        print(
            f"epoch {epoch} began: {counted(pages, 'page')} will be written to the index anew by"
            " the next run of each source; scrapy audit lists the other entries of the index"
        )


def _named(word: str | None, what: str, known: Mapping[str, _T]) -> _T | None:
    """Return the value that a word stands for, in any case; None where none was given."""
    if word is None:
        return None
    for name, value in known.items():
        if name.lower() == word.lower():
            return value
    raise RegistryError(f"{word!r} is no {what}; there are {', '.join(known)}{meant(word, known)}")


@contextmanager
def _opened(output: str | None) -> Iterator[IO[Any]]:
    """Open the output file; it appears whole or not at all."""
    if output is None:
        yield sys.stdout
        return
    path = Path(output)
    if not path.name or path.is_dir():
        raise RegistryError(f"cannot write {output!r}: it names no file")
    part = path.with_name(f".{path.name}.part")
    try:
        file_like_its_folder(part)
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RegistryError(
            f"cannot write {path} ({error.strerror}); name a file in a folder that exists and"
            " that this user may write to"
        ) from error
