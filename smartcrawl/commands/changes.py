"""``smartcrawl changes``: what the last runs changed, page by page."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.changes import ChangeKind, reported_change_runs, reported_changes
from smartcrawl.reports.changes_text import (
    changes_as_atom,
    changes_as_markdown,
    how_much_changed,
    parse_changes_since,
    where_it_changed,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.command import RegistryCommand, count_argument
from smartcrawl.terminal.output import print_note, printed_json
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)

_COLUMNS: Final = (
    printed_name_column("source"),
    printed_number_column("number", "run"),
    printed_word_column("kind", "change"),
    printed_word_column("much", "how much"),
    printed_whole_column("url"),
    printed_note_column("where"),
)
_OF_TABLE: Final = 100  #: rows of a table, unless --limit says otherwise
_EMPTY: Final = "nothing changed"


class Command(RegistryCommand):
    """Print what changed."""

    formats: ClassVar = ("table", "jsonl", "markdown", "atom")

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "List the pages that were new, modified, moved, lost or removed, or came back, newest"
            " run first: of a modified page how much of its text changed, and below which headings."
            " Lines that changed on many pages of a run, such as a menu or a year, are named once."
            " Neither the source nor a snapshot is read; smartcrawl diff shows the texts. Exit"
            " status: 0 done, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--since",
            metavar="RUN|TIME|last",
            default="last",
            help="the runs after RUN, or what happened since TIME, such as 2026-11-30 or "
            "2026-11-30T08:00:00Z; last: the last run of each source (default)",
        )
        parser.add_argument(
            "--limit",
            type=count_argument,
            metavar="N",
            help=f"list at most N changes (default: {_OF_TABLE} in a table, else all)",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the changes."""
        since = parse_changes_since(opts.since)
        runs = reported_change_runs(connection, since, sources or None)
        changes = (change for _, change in reported_changes(connection, runs))
        limit = opts.limit or (_OF_TABLE if opts.format == "table" else None)
        shown = islice(changes, limit)
        match opts.format:
            case "table":
                print_table(_COLUMNS, map(_shown, shown), empty=_EMPTY)
                self._say_more(changes, opts)
            case "jsonl":
                for change in shown:
                    print(printed_json(change, sys.stdout))
            case "markdown":
                for line in changes_as_markdown(shown):
                    print(line)
            case _:
                now = iso_time(time.time()) or ""
                print(changes_as_atom(opts.source or "", list(shown), now), end="")

    def _say_more(self, changes: Iterator[dict[str, Any]], opts: Namespace) -> None:
        """Say that more changed than the table lists, or how to see the texts of a page."""
        if next(changes, None) is None:
            return
        words = ["--source", opts.source] if opts.source else []
        words += ["--since", opts.since] if opts.since != "last" else []
        print_note(
            "More pages changed; list all of them:",
            command=self.again("changes", *words, "--format", "jsonl"),
            gap=1,
        )


def _shown(change: dict[str, Any]) -> dict[str, Any]:
    """Return a change with the columns of the table."""
    much = how_much_changed(change)
    if change["kind"] == ChangeKind.SHARED:
        much = report_noun(change["pages"], "page")
    return change | {
        "number": str(change["run"]),
        "much": much,
        "where": where_it_changed(change),
    }
