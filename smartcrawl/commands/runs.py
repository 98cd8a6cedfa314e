"""``scrapy runs``: the runs, with their times, counts and results."""

from __future__ import annotations

from argparse import Namespace

from smartcrawl.engine.command import RegistryCommand, print_json, print_table
from smartcrawl.model.ports import Connection
from smartcrawl.reports.tables import runs

_COLUMNS = (
    "run", "source", "state", "complete", "startedAt", "requests", "notModified", "new",
    "modified", "unchanged", "failed", "orphaned", "reasons",
)  # fmt: skip


class Command(RegistryCommand):
    """List the runs, newest first."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "List the runs, newest first"

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the runs."""
        rows = list(runs(connection, sources=sources))
        if opts.format == "json":
            print_json(rows)
        else:
            shown = [row | {"reasons": "; ".join(row["reasons"])} for row in rows]
            print_table(_COLUMNS, shown)
