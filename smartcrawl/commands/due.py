"""``scrapy due``: crawl the pages that are due, or bring visits of single addresses forward."""

from __future__ import annotations

import sys
import time
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from scrapy.exceptions import UsageError

from smartcrawl.commands.crawl import STARTS, print_crawl_error
from smartcrawl.commands.crawl import Command as CrawlCommand
from smartcrawl.commands.due_choice import leave_out_not_due, not_due_line
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.spider_runs import DONE, FAILED, SpiderRun
from smartcrawl.model.exceptions import RegistryError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_crawl_line, program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.urls import display_url, normalize_url, url_digest
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.items import (
    make_record_rows_due,
    refreshable_source_rows,
    stored_row_of_documents_source,
)
from smartcrawl.registry.jobs import load_stored_jobs
from smartcrawl.registry.removal.purge import known_request_url
from smartcrawl.rules.seal import only_not_due
from smartcrawl.run.opening import run_source_named
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.kinds import DOCUMENTS, FILES, SITE, SPIDERS
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.terminal.command import base_command_missing_registry
from smartcrawl.terminal.output import print_complaint
from smartcrawl.terminal.sources import address_argument


class Command(CrawlCommand):
    """Visit the pages that are due, and follow the stored links of the others."""

    feed_help = SUPPRESS  # it has no items to export
    takes_addresses = False

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] | --notice URL [URL …]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return COMMANDS["due"]

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Crawl every source, or --source S, but request only the pages that are due. "
            "Of other pages the stored links are followed, so they count as reached. "
            "Sources of files are listed whole; unchanged files are not read. A source of "
            "which nothing is due is left out, unless --source names it. With "
            "--notice nothing is crawled: these addresses become due now. Exit status: 0 "
            "done, 3 a run was cut short, 4 another run is open or the last one is "
            "paused, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--source", metavar="S", help="only this source")
        parser.add_argument(
            "--notice",
            action="store_true",
            help="make these addresses due now; crawl nothing",
        )

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Restrict the run to pages that are due."""
        assert self.settings is not None
        self.settings.set("RECRAWL_POLICY", "due", priority="cmdline")
        super().process_options(args, opts)

    def run(self, args: list[str], opts: Namespace) -> None:
        """Crawl, or bring visits forward."""
        if opts.notice:
            self._notice(args, opts.source)
            return
        if args:
            raise UsageError(
                f"unexpected argument {redacted_line(args[0])!r}; to report a change: "
                f"{program_name()} due --notice URL",
            )
        if opts.source is not None:
            opts.spargs["source"] = opts.source
        super().run(list(SPIDERS), opts)

    def runs_of(
        self, spiders: Sequence[type[VisitSpider]], given: dict[str, str]
    ) -> list[SpiderRun]:
        """Return spider and arguments of each run; what was crawled by hand is a source, too."""
        return self._due_runs({spider.crawls: spider for spider in spiders}, given)

    def wanted(self, runs: list[SpiderRun], given: dict[str, str]) -> list[SpiderRun]:
        """Return the runs with something due; say of how many sources nothing is.

        A source that is named is crawled in any case. At a terminal, say what this crawl is; cron
        would mail it after every run.
        """
        due = runs if given else self._due_of(runs)
        if due and sys.stderr.isatty():
            print_complaint(
                "due",
                "crawling only the pages that are due. Of other pages the stored links "
                "are followed; sources of files are listed whole",
            )
        return due

    def _due_of(self, runs: list[SpiderRun]) -> list[SpiderRun]:
        assert self.settings is not None
        now = int(time.time())
        due, rest = leave_out_not_due(self.settings, runs, now)
        if rest:
            print_complaint("due", not_due_line(rest, len(runs), now))
        return due

    def _due_runs(
        self, spiders: Mapping[str, type[VisitSpider]], given: dict[str, str]
    ) -> list[SpiderRun]:
        """Return the runs; ``spiders``: by the name that kinds of sources have for them."""
        assert self.settings is not None
        options = Options.of(self.settings)
        declared = load_declared_sources(*options.source_files)
        named = given.get("source")
        known: dict[str, dict[str, str]] = {}
        documents: Source | None = None
        database = registry_database(options.registry)
        if database.exists():
            with database.translated("read"):
                connection = database.open()
                known = refreshable_source_rows(connection)
                documents = stored_row_of_documents_source(connection)
                connection.close()
        if named is not None and not declared.declares(named) and named in known:
            rest = {name: value for name, value in given.items() if name != "source"}
            return [_ad_hoc_run(spiders, rest, known[named])]
        if named is not None:  # an unknown one is refused here
            spider = run_source_named(options, declared, named).traits.spider
            return [SpiderRun(spiders[spider], given)]
        if given.keys() & STARTS:
            return [_ad_hoc_run(spiders, {}, given)]
        self.leave_out(declared, spiders)
        runs = [
            SpiderRun(spiders[source.traits.spider], {**given, "source": name})
            for name, source in declared.items()
        ]
        runs += [
            _ad_hoc_run(spiders, given, start)
            for name, start in known.items()
            if not declared.declares(name)
        ]
        if documents is not None and not declared.declares(DOCUMENTS.name):
            runs.append(SpiderRun(spiders[DOCUMENTS.spider], {**given, "source": DOCUMENTS.name}))
        if not runs:
            declared.check()
        if not runs and (jobs := load_stored_jobs(options)):
            raise RegistryError(
                "nothing to crawl: all sources are jobs of the HTTP API, which its "
                f"scheduler starts. To crawl one now: {program_name()} due --source "
                f"{next(iter(jobs))}"
            )
        if not runs:
            raise RegistryError(
                "nothing was crawled yet of which a source is left: start with "
                f"{program_crawl_line('https://…')}, "
                f"or declare sources in {options.sources_file}"
            )
        return runs

    def status_of(self, run: Run) -> int:
        """Return the exit status of a run; pages that were not due are no failure."""
        assert run.result is not None
        if only_not_due(run.result.reasons):
            return DONE
        return super().status_of(run)

    def _notice(self, urls: list[str], source: str | None) -> None:
        if not urls:
            raise UsageError(f"give the addresses: {program_name()} due --notice URL [URL …]")
        assert self.settings is not None
        options = Options.of(self.settings)
        now = int(time.time())
        try:
            database = registry_database(options.registry)
            if not database.exists():
                raise base_command_missing_registry(database)
            with database.translated("write"):
                connection = database.open()
                unknown = []
                with transaction(connection):
                    for word in urls:
                        url = address_argument(word, connection, options)
                        known = known_request_url(connection, url, options.trackers) or url
                        key = url_digest(normalize_url(known, options.trackers))
                        found = make_record_rows_due(connection, key, now, source=source)
                        if not found:
                            unknown.append(url)
                        for name, address in found:
                            print(f"due now  {display_url(address)} ({name})")
                connection.close()
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED
            return
        for url in unknown:
            print_complaint(
                "due",
                f"{display_url(url)} is not known{f' in {source}' if source else ''}; to "
                f"add it: {program_name()} reindex --url {redacted_line(url)}",
            )
        if unknown:
            self.exitcode = FAILED


def _ad_hoc_run(
    spiders: Mapping[str, type[VisitSpider]], given: Mapping[str, str], start: Mapping[str, str]
) -> SpiderRun:
    """Return the run of a source that no file declares; ``start``: its addresses, or its root."""
    arguments = dict(start)
    name = arguments.pop("spider", FILES.spider if "root" in start else SITE.spider)
    return SpiderRun(spiders[name], {**given, **arguments})
