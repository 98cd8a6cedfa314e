"""``scrapy orphans``: what no link leads to, what the guard withheld, and their removal (R4-12)."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from scrapy.exceptions import UsageError

from smartcrawl.engine.command import ChangingCommand, count, print_json, print_table
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.ports import Connection
from smartcrawl.model.times import iso
from smartcrawl.registry.removal.purge import Target, orphans, source_of_run, withheld
from smartcrawl.rules.model import Word

_COLUMNS = (
    "source", "rule", "why", "orphanAge", "lastOutcome", "lastChecked", "withheldRun", "url",
)  # fmt: skip


class Command(ChangingCommand):
    """List or remove what no link leads to; release what the guard withheld."""

    def syntax(self) -> str:
        """Return how it is called."""
        return "[options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "List orphans and withheld removals; remove or approve them"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "List the pages that are held and that the latest complete run did not reach or could"
            " not ask, and those whose removal the guard withheld. --purge removes the orphans at"
            " once, whatever their age. --approve RUN --max N releases what was withheld in RUN or"
            " earlier and was neither reached nor answered since, at most N pages; scrapy undo"
            " brings them back."
            " Exit status: 0 done, 1 not carried out, 3 withheld by the guard, 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--purge", action="store_true", help="remove the orphans")
        parser.add_argument(
            "--approve",
            type=count,
            metavar="RUN",
            help="remove what the guard withheld in RUN or earlier, at most --max pages",
        )
        self.add_ceiling(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """List, remove, or approve."""
        if opts.purge and opts.approve is not None:
            raise UsageError("--purge or --approve RUN, not both", print_help=False)
        if opts.approve is not None:
            self._approve(connection, sources, opts)
        elif opts.purge:
            self._purge(connection, sources, opts)
        elif opts.max is not None:
            raise UsageError("--max goes with --purge or --approve RUN", print_help=False)
        else:
            self._list(connection, sources, opts)

    def _list(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        waiting = withheld(connection, sources=sources)
        runs = {target.no: target for target in waiting}
        listed = orphans(connection, sources=sources)
        ages = {target.no: target.age for target in listed}
        found = [target for target in listed if target.no not in runs]
        found = sorted([*found, *waiting], key=lambda target: (target.source, target.no))
        rows = [_row(target, ages.get(target.no, 0)) for target in found]
        if opts.format == "json":
            print_json(rows)
            return
        print_table(_COLUMNS, rows)
        for source in sorted({target.source for target in waiting}):
            ready = [t for t in waiting if t.source == source and t.removable]
            if ready:
                run = max(t.run or 0 for t in ready)
                release = self.again("orphans", "--approve", run, "--max", len(ready))
                print(f"\nwithheld in {source}: {len(ready)}; release them with: {release}")

    def _purge(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        found = orphans(connection, sources=sources)
        with self.leased(target.source for target in found) as now:
            found = orphans(connection, sources=sources)
            why = self.guarded(connection, found, opts.max)
            if why is not None:
                only = ["--source", opts.source] if opts.source else []
                self.withhold(why, "orphans", "--purge", *only, "--max", len(found))
                return
            done = self.purge(connection, found, now, most=opts.max)
        self.report(done, max(0, len(found) - (opts.max or len(found))), opts)

    def _approve(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        run = opts.approve
        known = source_of_run(connection, run)
        if known is None or (sources and known[1] not in sources):
            raise RegistryError(self._no_such_run(connection, sources, run))
        with self.leased([known[1]]) as now:
            waiting = withheld(connection, sources=[known[1]], run=run)
            ready = [target for target in waiting if target.removable]
            if ready and opts.max is None:
                why = (
                    f"{len(ready)} withheld pages of {known[1]} go only when their number is given"
                )
                self.withhold(why, "orphans", "--approve", run, "--max", len(ready))
                return
            done = self.purge(connection, ready, now, most=opts.max)
        for target in waiting:
            if not target.removable:
                print(f"stays    {target.url}: {target.why_not}", file=sys.stderr)
        if opts.max is not None and opts.max > len(ready):
            print(f"orphans: --max {opts.max}: only {len(ready)} were waiting", file=sys.stderr)
        self.report(done, max(0, len(ready) - (opts.max or 0)), opts)

    def _no_such_run(self, connection: Connection, sources: list[str], run: int) -> str:
        runs = sorted({t.run for t in withheld(connection, sources=sources) if t.run is not None})
        told = ", ".join(str(number) for number in runs)
        waits = f"removals are withheld in: {told}" if told else "no removal is withheld"
        where = f" of {', '.join(sources)}" if sources else ""
        return f"there is no run {run}{where}; {waits} (see scrapy orphans)"


def _row(target: Target, age: int) -> dict[str, Any]:
    detail = json.loads(target.detail)
    word = None if target.word is None else Word(target.word).word
    return {
        "url": target.url,
        "source": target.source,
        "status": target.status.word,
        "rule": target.rule.word,
        "why": detail.get("why") or detail.get("target") or detail.get("canonical"),
        "orphanAge": age,
        "lastOutcome": word,
        "httpStatusCode": target.http_status,
        "reachedRun": target.reached_run,
        "lastChecked": iso(target.last_checked),
        "withheldRun": target.run,
        "removable": target.removable,
        "stays": target.why_not,
    }
