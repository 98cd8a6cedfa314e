"""``smartcrawl deltamerge``: lost pages, and their removal (R4-06)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from smartcrawl.model.exceptions import UsageError
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.orders import RemovalAction, removal_order_of_command
from smartcrawl.registry.removal.purge import lost_page_rows
from smartcrawl.reports.removals import approval_result, lost_page_report
from smartcrawl.terminal.command import ChangingCommand, print_json
from smartcrawl.terminal.output import printed_time
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)

_COLUMNS = (
    printed_name_column("source"),
    printed_word_column("http"),
    printed_number_column("lostCount", "times lost"),
    printed_number_column("goneCount", "times gone"),
    printed_word_column("checked", "checked (UTC)"),
    printed_whole_column("url"),
    printed_note_column("stays", "why -D keeps it"),
)


class Command(ChangingCommand):
    """List or remove stored pages that now answer with an error."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "List the stored pages that returned an error about the page at their last "
            "visit. -D removes those whose status is in LOST_PURGE_STATUSES at once, no "
            f"matter how often they were found so; {program_name()} undo brings them "
            "back. Exit status: 0 done, 1 not carried out, 3 withheld by the guard, 4 a "
            "run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("-D", action="store_true", dest="delete", help="remove them")
        self.add_ceiling(parser)
        self.add_order(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """List lost pages, or remove them with -D."""
        if opts.max is not None and not opts.delete:
            raise UsageError("--max needs -D")
        if opts.order is not None and not opts.delete:
            raise UsageError("--order needs -D")
        policy = self.options.policy
        found = lost_page_rows(connection, policy, sources=sources)
        if not opts.delete:
            rows = [lost_page_report(target) for target in found]
            if opts.format == "json":
                print_json(rows)
            else:
                shown = [
                    row
                    | {
                        "http": str(row["httpStatusCode"]),
                        "checked": printed_time(row["lastChecked"]),
                    }
                    for row in rows
                ]
                print_table(_COLUMNS, shown, empty="no stored page is lost")
            return
        names = sorted({target.source for target in found if target.removable})
        order = removal_order_of_command(connection, names, RemovalAction.LOST, opts.max)
        with self.kept(connection, order, opts) as result, self.leased(names) as now:
            found = [t for t in lost_page_rows(connection, policy, sources=sources) if t.removable]
            why = self.guarded(connection, found, opts.max)
            if why is not None:
                only = ["--source", opts.source] if opts.source else []
                self.withhold(why, "deltamerge", "-D", *only, "--max", len(found))
                return
            done = self.purge(connection, found, now, most=opts.max)
            left = max(0, len(found) - (opts.max or len(found)))
            if opts.order is not None or (done and len(names) == 1):
                result.update(approval_result(done, (), left))
        self.report(done, left, opts)
