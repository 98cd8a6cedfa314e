"""``smartcrawl reindex``: order pages to be fetched whole and indexed anew by their next visit."""

from __future__ import annotations

import os
import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.index import audit
from smartcrawl.index.remote import write_index_anew
from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.file_urls import display_file_url
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.program import program_crawl_line, program_name
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.urls import display_url, normalize_url, request_url
from smartcrawl.registry import items
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.items import ItemRow
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.registry.removal.purge import known_request_url
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.text import report_noun
from smartcrawl.reports.today import reported_address_holders, reported_source_today
from smartcrawl.sources.base import Source
from smartcrawl.sources.files import STORE_SCHEMES
from smartcrawl.sources.scope import compile_scope_pattern
from smartcrawl.terminal.command import ChangingCommand, count_argument, print_json
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, print_complaint, print_note
from smartcrawl.terminal.sources import address_argument

_SOURCES = "SELECT name FROM source ORDER BY name"


class Command(ChangingCommand):
    """Order pages to be indexed anew."""

    def syntax(self) -> str:
        """Return its usage."""
        return "--url URL | --id ID | --pattern RE | --source S | --from-registry [--dry-run]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Have pages fetched whole and indexed again at their next visit, even if "
            f"unchanged. They are due at once: the next {program_name()} due or "
            f"{program_name()} crawl requests them. If a page is being fetched right now, "
            "the order counts for its next visit. An address given with --url stays a "
            f"seed until {program_name()} forget URL. An unknown one is added once no run "
            "of its source is open. --from-registry rebuilds the index in Elasticsearch "
            "from the stored pages; searches use the old index until the new one is "
            "complete. Exit status: 0 done, 1 not carried out, 4 a run of the source is "
            "under way."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--url", metavar="URL", help="this address, or the file at this path")
        which.add_argument(
            "--id", metavar="ID", help=f"this id, as {program_name()} registry prints it"
        )
        which.add_argument(
            "--pattern",
            metavar="RE",
            help="stored pages whose address matches this regular expression",
        )
        which.add_argument(
            "--from-registry",
            action="store_true",
            help="rebuild the index in Elasticsearch, without any download",
        )
        parser.add_argument(
            "--limit",
            type=count_argument,
            default=20,
            metavar="N",
            help="list at most N pages (default: 20)",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Find the pages, and order them."""
        if opts.from_registry:
            self._rebuild(connection, opts)
            return
        if not (opts.url or opts.id or opts.pattern or opts.source):
            raise UsageError(
                "give pages: --url URL, --id ID, --pattern RE, or --source S for a whole source",
            )
        now = int(time.time())
        with self.database.translated("write"):
            if opts.url:
                found, new = self._address(connection, sources, opts.url, now, opts.dry_run)
            else:
                found, new = self._known(connection, sources, opts), []
                if not opts.dry_run:
                    with transaction(connection):
                        items.store_order_rows(connection, [item.no for item in found], now)
        self._report(found, new, opts)
        if opts.url:
            ordered = [(item.source, item.url) for item in found] or new
            self._warn_of_robots(connection, ordered)

    def _known(self, connection: Connection, sources: list[str], opts: Namespace) -> list[ItemRow]:
        if opts.id:
            found = [
                i
                for i in items.item_rows_by_id(connection, opts.id)
                if not sources or i.source in sources
            ]
            if not found:
                raise RegistryError(
                    f"{opts.id} is not known; to list all known ids: {program_name()} registry"
                )
            return found
        if not opts.pattern:
            return items.stored_page_rows(connection, sources)
        try:
            pattern = compile_scope_pattern(opts.pattern)
        except ValueError as error:
            raise RegistryError(
                f"--pattern is {opts.pattern!r}, which is not a regular expression "
                f"({error}): put a backslash before special characters"
            ) from error
        return items.stored_page_rows(
            connection,
            sources,
            lambda url: any(map(pattern.search, filter(None, (url, display_file_url(url))))),
        )

    def _address(
        self, connection: Connection, sources: list[str], url: str, now: int, dry: bool
    ) -> tuple[list[ItemRow], list[tuple[str, str]]]:
        """Return the items of an address, and the (source, address) of a new registration."""
        word, url = url, address_argument(url, connection, self.options)
        trackers = self.options.trackers
        wanted = known_request_url(connection, url, trackers)
        if wanted is None and url.partition("://")[0] in ("file", *STORE_SCHEMES):
            wanted = normalize_url(url)
        if wanted is None:
            raise RegistryError(
                f"--url is {word!r}: expected an http or https address, as in"
                " https://docs.example.com/, or a path"
            )
        known = [
            item
            for item in items.item_rows_by_url(connection, wanted, trackers)
            if not sources or item.source in sources
        ]
        declared = load_stored_jobs_and_sources(self.options, connection)
        if known:
            if not dry:
                with transaction(connection):
                    for item in known:
                        self._order(connection, declared, item, wanted, now)
            return known, []
        name = self._holder(connection, sources, declared, wanted)
        if _is_listed(connection, declared, name, wanted):
            raise RegistryError(
                f"{display_url(wanted)} is not known; if the file exists, the next run of "
                f"{name} reads it: {self.again('due', '--source', name)}"
            )
        if dry:
            return [], [(name, wanted)]
        with self.leased([name]), transaction(connection):  # a run gives out numbers of its own
            items.register_address_row(connection, name, wanted, trackers, now, force=True)
        return [], [(name, wanted)]

    def _warn_of_robots(self, connection: Connection, ordered: Sequence[tuple[str, str]]) -> None:
        """Print that the stored robots.txt forbids an address that is pinned, and the remedy.

        The address is ordered nevertheless: its server may have another robots.txt by now.
        """
        known = load_stored_jobs_and_sources(self.options, connection)
        robots = RobotsOfSources(
            connection,
            robots_txt_answers,
            RobotsOptions.of(self.settings),
            obeyed=setting_value(self.settings, "ROBOTSTXT_OBEY"),
            jobs=stored_jobs_of_sources(connection, known),
            sources=known,
        )
        refused: dict[str, str] = {}
        for source, url in ordered:
            requested = request_url(url)  # only a URL that can be requested has a robots.txt
            if requested is not None and robots.is_obeyed(source) and url not in refused:
                why = robots.of(source).forbids(requested)
                refused |= {} if why is None else {url: why}
        for url, why in refused.items():
            is_ordered, ends = ("would be", "would end") if self.dry else ("is", "ends")
            text = (
                f"note: {display_url(url)} {is_ordered} ordered, but no run may fetch it: {why}."
                f" Until robots.txt allows it, each run of its source {ends} incomplete."
            )
            command = "" if self.dry else self.again("forget", url)
            after = "" if self.dry else " To cancel the order:"
            Output(sys.stderr).say(escape(f"{text}{after}"), command=command, gap=1)

    def _rebuild(self, connection: Connection, opts: Namespace) -> None:
        if opts.source or opts.dry_run:
            raise UsageError(
                "--from-registry rebuilds everything; give no other pages and no --dry-run"
            )
        if self.options.elasticsearch is None:
            raise UsageError(
                "--from-registry needs an index in Elasticsearch, but ELASTICSEARCH_URL is empty",
            )
        rows: Any = connection.execute(_SOURCES).fetchall()
        total = audit.audited_index_page_count(connection, [])
        with self.leased([name for (name,) in rows]) as now, self.meter(total) as meter:
            done = write_index_anew(self.options, connection, now, partial(meter.report, "written"))
        if opts.format == "json":
            print_json({"written": done.pages, "kept": done.left})
        else:
            written = report_noun(done.pages, "page")
            print_note(f"the index was rebuilt from the registry: {written}, no download")
        if done.left:
            print_complaint(
                "reindex",
                f"kept, because this registry did not make them: {', '.join(done.left)}; "
                "delete them in Elasticsearch if they are of no use",
            )

    def _order(
        self,
        connection: Connection,
        declared: Mapping[str, Source],
        item: ItemRow,
        url: str,
        now: int,
    ) -> None:
        """Order a known page; only what links lead to becomes a seed as well."""
        if _is_listed(connection, declared, item.source, url):
            items.store_order_rows(connection, [item.no], now)
        else:
            items.register_address_row(
                connection, item.source, url, self.options.trackers, now, force=True
            )

    def _holder(
        self,
        connection: Connection,
        sources: list[str],
        declared: Mapping[str, Source],
        url: str,
    ) -> str:
        """Return the one source that an address belongs to."""
        rows: Any = connection.execute(_SOURCES).fetchall()
        names = sources or [name for (name,) in rows]
        found = reported_address_holders(connection, declared, names, url)
        holders = found.holders
        if len(holders) == 1:
            return holders[0]
        shown = display_url(url)
        if holders:
            raise RegistryError(
                f"{shown} is in the scope of {', '.join(holders)}: choose one with --source"
            )
        refused = "; ".join(f"{name}: {why}" for name, why in found.refusals.items())
        if refused:
            raise RegistryError(
                f"{shown} is not known, and its sources leave it out: {refused}. See "
                f"{self.options.sources_file}; files of some types cannot be read at all"
            )
        where = f"the scope of {', '.join(sources)}" if sources else "the scope of no source"
        raise RegistryError(
            f"{shown} is not known, and in {where}: widen a source in "
            f"{self.options.sources_file}, or crawl it: {_crawl_line(url)}"
            if not sources
            else f"{shown} is not known, and not in {where}"
        )

    def _report(self, found: list[ItemRow], new: list[tuple[str, str]], opts: Namespace) -> None:
        rows: list[tuple[str, str, str | None]] = [(i.source, i.url, i.id) for i in found]
        rows += [(source, url, None) for source, url in new]
        if opts.format == "json":
            ordered = [
                {"source": s, "url": u, "id": i, "registered": i is None} for s, u, i in rows
            ]
            print_json({"dryRun": opts.dry_run, "ordered": ordered})
            return
        verb = "would order" if opts.dry_run else "ordered"
        for source, url, known in rows[: opts.limit]:
            word = "registers" if known is None else verb
            print(f"{word}  {display_url(url)} ({source})")
        if len(rows) > opts.limit:
            print(f"and {len(rows) - opts.limit:,} more (--limit)")
        if not rows:
            print("no stored page matches", file=sys.stderr)
            return
        by_source = Counter(source for source, _, _ in rows)
        pages = report_noun(len(rows), "page")
        print(
            f"{pages} {'would be' if opts.dry_run else 'will be'} fetched whole and indexed again"
        )
        if not opts.dry_run:
            them = "it" if len(rows) == 1 else "them"
            for source in sorted(by_source):
                print_note(f"to fetch {them} now:", command=self.again("due", "--source", source))


def _is_listed(connection: Connection, declared: Mapping[str, Source], name: str, url: str) -> bool:
    """Whether a listing of a source says if the page at ``url`` exists."""
    source = reported_source_today(connection, declared, name)
    return source is not None and source.lists(url)


def _crawl_line(url: str) -> str:
    """Return the command line that crawls an address, or the folder of a file."""
    path = display_file_url(url)
    if path is None:
        return program_crawl_line(url)
    return program_crawl_line(shlex.quote(os.path.dirname(path)), is_root=True)
