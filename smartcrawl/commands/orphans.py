"""``smartcrawl orphans``: orphaned pages, withheld removals, and what removes them (R4-12)."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.library.items import accept_library_shortfall_row
from smartcrawl.registry.removal.orders import (
    COMMAND_LINE,
    RemovalAction,
    new_removal_order,
    removal_order_of_command,
)
from smartcrawl.registry.removal.purge import (
    emptied_page_rows,
    orphaned_page_rows,
    source_row_of_run,
    withheld_candidate_rows,
)
from smartcrawl.reports.removals import approval_result, reported_orphans
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.command import ChangingCommand, count_argument, print_json
from smartcrawl.terminal.output import print_note, printed_time
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_whole_column,
    printed_word_column,
)

_COLUMNS = (
    printed_name_column("source"),
    printed_word_column("rule"),
    printed_word_column("absent"),
    printed_word_column("checked", "checked (UTC)"),
    printed_word_column("withheld"),
    printed_whole_column("url"),
    printed_note_column("why"),
)


class Command(ChangingCommand):
    """List or remove orphaned pages; release withheld removals."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "List the stored pages that the latest complete run did not reach or was not "
            "allowed to request, and those whose removal waits for approval. --purge "
            "removes the orphans at once, whatever their age. --approve RUN --max N "
            "removes at most N pages that were withheld in RUN or earlier, or whose "
            "folder, bucket or library was empty in RUN, and that no run has seen since; "
            f"{program_name()} undo brings them back. Exit status: 0 done, 1 not carried "
            "out, 3 withheld by the guard, 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--purge", action="store_true", help="remove the orphans")
        parser.add_argument(
            "--approve",
            type=count_argument,
            metavar="RUN",
            help="approve the removals withheld in RUN or earlier, at most --max of them",
        )
        self.add_ceiling(parser)
        self.add_order(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """List orphans, remove them, or approve withheld removals."""
        if opts.purge and opts.approve is not None:
            raise UsageError("give --purge or --approve RUN, not both")
        if opts.order is not None and opts.approve is None and not opts.purge:
            raise UsageError("--order needs --purge or --approve RUN")
        if opts.approve is not None:
            self._approve(connection, sources, opts)
        elif opts.purge:
            self._purge(connection, sources, opts)
        elif opts.max is not None:
            raise UsageError("--max needs --purge or --approve RUN")
        else:
            self._list(connection, sources, opts)

    def _list(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        found = reported_orphans(connection, sources)
        if opts.format == "json":
            print_json(found.rows)
            return
        rows = [_shown(row) for row in found.rows]
        print_table(_COLUMNS, rows, empty="no orphans, and no removal waits for approval")
        for one in found.releases:
            release = self.again("orphans", "--approve", one.run, "--max", one.pages)
            them = "it" if one.pages == 1 else "them"
            print()
            text = f"{one.source}: {one.pages} waiting for approval; to approve {them}:"
            print_note(text, command=release, gap=1)

    def _purge(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        found = orphaned_page_rows(connection, sources=sources)
        names = sorted({target.source for target in found})
        order = removal_order_of_command(connection, names, RemovalAction.ORPHANS, opts.max)
        with self.kept(connection, order, opts) as result, self.leased(names) as now:
            found = orphaned_page_rows(connection, sources=sources)
            why = self.guarded(connection, found, opts.max)
            if why is not None:
                only = ["--source", opts.source] if opts.source else []
                self.withhold(why, "orphans", "--purge", *only, "--max", len(found))
                return
            done = self.purge(connection, found, now, most=opts.max)
            left = max(0, len(found) - (opts.max or len(found)))
            if opts.order is not None or (done and len(names) == 1):
                result.update(approval_result(done, (), left))
        self.report(done, left, opts)

    def _approve(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        run = opts.approve
        known = source_row_of_run(connection, run)
        if known is None or (sources and known[1] not in sources):
            raise RegistryError(self._no_such_run(connection, sources, run))
        order = new_removal_order(
            known[1], RemovalAction.APPROVE, run, COMMAND_LINE, int(time.time())
        )
        kept = self.kept(connection, replace(order, most=opts.max), opts)
        with kept as result, self.leased([known[1]]) as now:
            waiting = withheld_candidate_rows(connection, sources=[known[1]], run=run)
            withheld = {target.no for target in waiting}
            emptied = emptied_page_rows(connection, run)
            waiting += [target for target in emptied if target.no not in withheld]
            ready = [target for target in waiting if target.removable]
            if ready and opts.max is None:
                pages = report_noun(len(ready), "withheld page")
                goes = "goes only when its" if len(ready) == 1 else "go only when their"
                why = f"{pages} of {known[1]} {goes} number is given"
                self.withhold(why, "orphans", "--approve", run, "--max", len(ready))
                return
            done = self.purge(connection, ready, now, most=opts.max)
            if done and not self.dry and len(ready) <= opts.max:
                with transaction(connection):
                    accept_library_shortfall_row(connection, known[0])
            left = max(0, len(ready) - (opts.max or 0))
            if done or opts.order is not None:
                result.update(approval_result(done, waiting, left))
        for target in waiting:
            if not target.removable:
                print(f"stays    {target.url}: {target.why_not}", file=sys.stderr)
        if opts.max is not None and opts.max > len(ready):
            were = "was" if len(ready) == 1 else "were"
            print(f"orphans: --max {opts.max}: only {len(ready)} {were} waiting", file=sys.stderr)
        self.report(done, left, opts)

    def _no_such_run(self, connection: Connection, sources: list[str], run: int) -> str:
        runs = sorted(
            {
                t.run
                for t in withheld_candidate_rows(connection, sources=sources)
                if t.run is not None
            }
        )
        listed = ", ".join(str(number) for number in runs)
        waits = (
            f"removals wait for approval in: {listed}"
            if listed
            else "no removal waits for approval"
        )
        where = f" of {', '.join(sources)}" if sources else ""
        return f"there is no run {run}{where}; {waits} (see {program_name()} orphans)"


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return an orphan with the columns of the table."""
    return row | {
        "absent": report_noun(row["orphanAge"], "run"),
        "checked": printed_time(row["lastChecked"]),
        "withheld": None if row["withheldRun"] is None else f"in run {row['withheldRun']}",
    }
