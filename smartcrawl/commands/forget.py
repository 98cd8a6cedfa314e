"""``smartcrawl forget``: remove an address, or a whole source, by order of the operator."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.program import program_name
from smartcrawl.model.urls import (
    display_url,
    normalize_url,
    url_digest,
    url_item_id,
)
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.items import delete_pending_pin_rows
from smartcrawl.registry.removal.orders import (
    COMMAND_LINE,
    RemovalAction,
    RemovalOrder,
    new_removal_order,
)
from smartcrawl.registry.removal.purge import (
    KnownRecord,
    forgettable_page_rows,
    known_record_rows,
    known_request_url,
    undeclare_source_row,
    unpin_rows,
)
from smartcrawl.registry.removal.tombstones import delete_empty_source_rows, is_empty_source
from smartcrawl.registry.runs.runs import last_run_row
from smartcrawl.reports.removals import approval_result
from smartcrawl.reports.text import report_noun
from smartcrawl.reports.why import reported_near_misses
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.terminal.command import ChangingCommand, count_argument, single_terminal_argument
from smartcrawl.terminal.output import print_complaint
from smartcrawl.terminal.sources import address_argument


class Command(ChangingCommand):
    """Forget an address or a source."""

    takes_words: ClassVar = True

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] URL | PATH | --source S"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Remove the stored page of URL, in every source that has it or only in "
            "--source S, and unpin it; without URL, remove every page of --source S. "
            f"{program_name()} undo brings the content back. An address that is still "
            "linked and in scope comes back with the next run; to leave it out, use "
            "excluded_patterns. So does a file that still exists; use exclude. Exit "
            "status: 0 done, 1 not carried out, 3 withheld by the guard, 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--max",
            type=count_argument,
            metavar="N",
            help="with --source: remove it if it has at most N pages",
        )
        self.add_order(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Forget the address or the source."""
        if args:
            if opts.max is not None:
                raise UsageError("--max needs --source, and no URL")
            word = single_terminal_argument(args, "URL", f"{program_name()} forget URL")
            url = address_argument(word, connection, self.options)
            self._address(connection, sources, url, opts)
        elif opts.order is not None:
            raise UsageError("--order needs a URL")
        elif opts.source is None:
            raise UsageError(
                f"nothing given to forget: {program_name()} forget URL, or "
                f"{program_name()} forget --source S",
            )
        else:
            self._source(connection, sources, opts)

    def _address(
        self, connection: Connection, sources: list[str], url: str, opts: Namespace
    ) -> None:
        trackers = self.options.trackers
        identity = normalize_url(known_request_url(connection, url, trackers) or url, trackers)
        key = url_digest(identity)
        found = [
            page
            for page in known_record_rows(connection, key, url)
            if not sources or page.source in sources
        ]
        with self.database.translated("write"):
            waiting = delete_pending_pin_rows(connection, key, sources, dry=self.dry)
        for source in waiting:
            state = "would be unpinned" if self.dry else "was to be pinned, and is no longer"
            print(f"{display_url(url)} ({source}): it {state}", file=sys.stderr)
        if not found and not waiting:
            near = reported_near_misses(connection, url, trackers)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            where = f" in {', '.join(sources)}" if sources else ""
            sought = url_item_id(url_item_kind(identity), key)
            raise RegistryError(
                f"{display_url(url)} is not known{where} (looked for {sought}){meant or ';'}"
                f" {program_name()} registry lists all known addresses"
            )
        with (
            self.kept(connection, _order(connection, found, url), opts) as result,
            self.leased(page.source for page in found) as now,
        ):
            targets = [page.forgotten() for page in found if page.held]
            done = self.purge(connection, targets, now, most=None)
            if not self.dry:
                unpin_rows(connection, [page.no for page in found])
            if done or opts.order is not None:
                result.update(approval_result(done, (), 0))
        for page in found:
            if not page.held or page.pinned:
                shown = display_url(page.url)
                print(f"{shown} ({page.source}): {self._state(page)}", file=sys.stderr)
        self.report(done, 0, opts)

    def _state(self, page: KnownRecord) -> str:
        """Return in words what was or would be done to a page of which not all is usual."""
        state = "nothing is stored"
        if page.held:
            state = "would be removed" if self.dry else "removed"
        if not page.pinned:
            return state
        return state + (
            "; it would be unpinned" if self.dry else "; it was pinned, and is no longer"
        )

    def _emptied(self, connection: Connection, name: str) -> bool:
        """Take the marks off a source, and delete it where nothing is stored of it.

        Return whether it was or, in a dry run, would be deleted.
        """
        if self.dry:
            return is_empty_source(connection, name)
        undeclare_source_row(connection, name)
        with transaction(connection):
            return delete_empty_source_rows(connection, name)

    def _source(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        if len(sources) > 1:
            raise RegistryError(f"{opts.source!r} means {', '.join(sources)}: name one of them")
        name = sources[0]
        with self.leased([name]) as now:
            targets = forgettable_page_rows(connection, name)
            why = self.guarded(connection, targets, opts.max)
            if why is None and opts.max is not None and opts.max < len(targets):
                why = f"{name} has {report_noun(len(targets), 'page')}, more than --max {opts.max}"
            if why is not None:
                self.withhold(why, "forget", "--source", name, "--max", len(targets))
                return
            done = self.purge(connection, targets, now, most=None)
            emptied = self._emptied(connection, name)
        declared = load_declared_sources(*self.options.source_files)
        if not self.dry and declared.declares(name):
            print_complaint(
                "forget",
                f"{name} is declared in {declared.file_of(name)}; unless you remove "
                "its table there, the next crawl brings it back",
            )
        if emptied:
            was = "would be" if self.dry else "was"
            print(
                f"{name}: nothing is stored; it {was} removed from the registry",
                file=sys.stderr,
            )
        if done or not emptied or opts.format == "json":
            self.report(done, 0, opts)


def _order(connection: Connection, found: Sequence[KnownRecord], url: str) -> RemovalOrder:
    """Return what is done as it is kept: under the last run of a source, which undoes it."""
    source = found[0].source if found else ""
    last = last_run_row(connection, source)
    run = 0 if last is None else last[0]
    now = int(time.time())
    order = new_removal_order(source, RemovalAction.FORGET, run, COMMAND_LINE, now)
    return replace(order, url=display_url(url))
