"""``scrapy deltamerge``: what is lost, and its removal (R4-06)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from scrapy.exceptions import UsageError

from smartcrawl.engine.command import ChangingCommand, print_json, print_table
from smartcrawl.model.ports import Connection
from smartcrawl.model.times import iso
from smartcrawl.registry.removal.purge import Target, lost

_COLUMNS = ("source", "httpStatusCode", "lostCount", "goneCount", "lastChecked", "url", "stays")


class Command(ChangingCommand):
    """List or remove what is held and answers an error."""

    def syntax(self) -> str:
        """Return how it is called."""
        return "[options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "List lost pages, or remove them with -D"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "List the pages that are held and were lost when they were visited last. With -D those"
            " whose status is in LOST_PURGE_STATUSES are removed at once, however often they were"
            " found so; scrapy undo brings them back."
            " Exit status: 0 done, 1 not carried out, 3 withheld by the guard, 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("-D", action="store_true", dest="delete", help="remove them")
        self.add_ceiling(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """List, or remove."""
        if opts.max is not None and not opts.delete:
            raise UsageError("--max goes with -D", print_help=False)
        policy = self.options.policy
        found = lost(connection, policy, sources=sources)
        if not opts.delete:
            rows = [_row(target) for target in found]
            if opts.format == "json":
                print_json(rows)
            else:
                print_table(_COLUMNS, rows)
            return
        with self.leased(target.source for target in found if target.removable) as now:
            found = [t for t in lost(connection, policy, sources=sources) if t.removable]
            why = self.guarded(connection, found, opts.max)
            if why is not None:
                only = ["--source", opts.source] if opts.source else []
                self.withhold(why, "deltamerge", "-D", *only, "--max", len(found))
                return
            done = self.purge(connection, found, now, most=opts.max)
        self.report(done, max(0, len(found) - (opts.max or len(found))), opts)


def _row(target: Target) -> dict[str, Any]:
    return {
        "url": target.url,
        "source": target.source,
        "httpStatusCode": target.http_status,
        "lostCount": target.lost_count,
        "goneCount": target.gone_count,
        "lastChecked": iso(target.last_checked),
        "removable": target.removable,
        "stays": target.why_not,
    }
