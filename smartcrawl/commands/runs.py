"""``smartcrawl runs``: the runs, with their times, counts and results."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from smartcrawl.model.program import program_crawl_line
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.tables import run_table_report
from smartcrawl.reports.text import run_state_text
from smartcrawl.rules.model import RunState
from smartcrawl.rules.seal import only_not_due
from smartcrawl.terminal.command import RegistryCommand, count_argument, print_json
from smartcrawl.terminal.output import printed_time
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_word_column,
)

_COLUMNS = (
    printed_number_column("run"),
    printed_name_column("source"),
    printed_word_column("result"),
    printed_word_column("started", "started (UTC)"),
    printed_number_column("requests", "fetched"),  # a file is read, without a request
    printed_number_column("notModified", "304"),
    printed_number_column("new"),
    printed_number_column("modified"),
    printed_number_column("failed"),
    printed_note_column("why", "not complete"),
    printed_note_column("losses", "pages"),
)
_DUE = "due"  #: the run checked every page that was due, and left out no other
#: What a run did to stored pages, by key.
_LOSSES = {
    "lost": "lost",
    "removed": "removed",
    "restored": "restored by an undo",
    "withheld": "withheld from removal",
}


class Command(RegistryCommand):
    """List the runs, newest first."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--limit",
            type=count_argument,
            metavar="N",
            help="list at most N runs, the newest (default: all)",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the runs."""
        rows = list(run_table_report(connection, sources=sources, most=opts.limit))
        if opts.format == "json":
            print_json(rows)
        else:
            print_table(_COLUMNS, (_shown(row) for row in rows), empty=_empty())


def _empty() -> str:
    return f"no runs yet; crawl something first: {program_crawl_line('https://…')}"


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run with its result in one word and its time in short."""
    result = "complete" if row["complete"] else "incomplete"
    if only_not_due(row["reasons"]):
        result = _DUE
    if row["finishedAt"] is None:
        result = RunState.OPEN.word
    elif row["state"] in (RunState.INTERRUPTED.word, RunState.CANCELLED.word):
        result = run_state_text(RunState[row["state"].upper()], row["reasons"])
    return row | {
        "run": str(row["run"]),
        "result": result,
        "started": printed_time(row["startedAt"]),
        "why": "" if result == _DUE else "; ".join(row["reasons"]),
        "losses": ", ".join(f"{row[key]:,} {word}" for key, word in _LOSSES.items() if row[key]),
    }
