"""``scrapy library``: download, process and check the document libraries of a domain (R3.11)."""

from __future__ import annotations

import asyncio
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Final

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import UsageError

from smartcrawl.commands.crawl import (
    DONE,
    FAILED,
    HELD,
    INCOMPLETE,
    print_crawl_error,
    stop_reactor,
)
from smartcrawl.commands.crawl import Command as CrawlCommand
from smartcrawl.commands.library_dry import DryLibrarySpider, dry_run_library
from smartcrawl.engine.memory import return_engine_memory
from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.run.library_report import (
    LibraryReport,
    LibrarySourceReport,
    failed_library_items,
)
from smartcrawl.run.library_steps import LibraryStep
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.domains import SCOPES, load_domain
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.sharepoint import SharepointSpider
from smartcrawl.terminal.command import base_command_damage
from smartcrawl.terminal.output import Output, printed_json
from smartcrawl.terminal.standard_output import OutputError, printed

ACTIONS: Final = ("download", "process", "check")
MODES: Final = ("incremental", "full")
_MOST_BATCHES: Final = 5


class Command(CrawlCommand):
    """Bring the files of a domain's libraries up to date, step by step."""

    feed_help = SUPPRESS  # it has no items to export

    def syntax(self) -> str:
        """Return its usage."""
        return f"{'|'.join(ACTIONS)} DOMAIN [options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Download, process or check the document libraries of a domain"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "download lists each library of DOMAIN, downloads what is new or changed, removes what"
            " is gone, checks the disk and writes the maps. process turns list items into Markdown"
            " and cleans site pages. check compares disk, maps and registry, and corrects the disk"
            " without a download. DOMAIN is a folder of PERSISTENT_STORAGE_PATH/domains with a"
            " domain.json. With --dry-run all of it is only counted."
            " Exit status: 0 done, 3 a source is skipped or incomplete, or items failed, 4 another"
            " step is at a source, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--mode",
            choices=MODES,
            default=MODES[0],
            help="full: every item comes again (default: incremental)",
        )
        parser.add_argument(
            "--scope",
            choices=tuple(SCOPES),
            default="all",
            help="the sources of one kind (default: all)",
        )
        parser.add_argument("--source", metavar="ID", help="only the source with this source_id")
        parser.add_argument(
            "--retry-batches",
            metavar="N",
            type=int,
            default=2,
            help="1 to 5: how often failed items are tried, after all others (default: 2)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would be done; change nothing"
        )
        parser.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: table"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Carry out a step for each source, one after another."""
        if len(args) != 2 or args[0] not in ACTIONS:
            raise UsageError(
                f"name a step and a domain: {program_name()} library {'|'.join(ACTIONS)} DOMAIN",
                print_help=False,
            )
        if opts.spargs or opts.output or opts.overwrite_output:
            raise UsageError(
                "-a, -o and -O are refused: the sources are those of the domain, and pages go to"
                f" the registry: {program_name()} library {' '.join(args)}",
                print_help=False,
            )
        if not 1 <= opts.retry_batches <= _MOST_BATCHES:
            raise UsageError(
                f"--retry-batches is {opts.retry_batches}: it takes 1 to {_MOST_BATCHES}",
                print_help=False,
            )
        action, domain_id = args
        assert self.settings is not None
        options = Options.of(self.settings)
        try:
            domain = load_domain(options.sharepoint.storage, domain_id)
            sources = domain.sources(opts.scope, opts.source)
            if action == "download" and sources:
                options.sharepoint.required()
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED
            return
        report = LibraryReport(domain, action, opts.mode, opts.scope, is_dry=opts.dry_run)
        if action != "download":
            with base_command_damage(registry_database(options.registry)):
                self._steps(action, sources, options, report)
            self._end(report, opts.format)
            return
        process = self.crawler_process
        assert isinstance(process, AsyncCrawlerProcess)
        return_engine_memory()
        self.exitcode = FAILED  # also if signals stop it by force
        asyncio.get_event_loop().create_task(self._download(process, sources, opts, report))
        process.start(stop_after_crawl=False)

    def _steps(
        self,
        action: str,
        sources: Sequence[SharepointSource],
        options: Options,
        report: LibraryReport,
    ) -> None:
        """Process or check the sources."""
        for source in sources:
            step = LibraryStep(source, options, is_dry=report.is_dry)
            try:
                result = step.process() if action == "process" else step.check()
            except RunHeldError as error:
                report.skip(source, str(error), is_held=True)
            except SmartcrawlError as error:
                report.skip(source, str(error))
            else:
                report.add_step(source, result)

    async def _download(
        self,
        process: AsyncCrawlerProcess,
        sources: Sequence[SharepointSource],
        opts: Namespace,
        report: LibraryReport,
    ) -> None:
        try:
            for source in sources:
                force = opts.mode == "full"
                if report.is_dry:
                    crawler = self._create_crawler(DryLibrarySpider)
                    if not await dry_run_library(process, crawler, source, report, forced=force):
                        break
                    continue
                for batch in range(opts.retry_batches):
                    run = await self._crawl_library(process, source, report, force=force)
                    if run is None:
                        break
                    report.add_run(source, run, is_first=batch == 0)
                    if not failed_library_items(run) or not self._goes_on(run):
                        break
                    force = False
        finally:
            self._end(report, opts.format)
            stop_reactor()

    def _goes_on(self, run: Run) -> bool:
        """Whether a further batch may bring what this run could not have."""
        return run.failure is None and run.halt.order is None and run.result is not None

    async def _crawl_library(
        self,
        process: AsyncCrawlerProcess,
        source: SharepointSource,
        report: LibraryReport,
        *,
        force: bool,
    ) -> Run | None:
        """Crawl one source; return its run, or None if there was none."""
        crawler = self._create_crawler(SharepointSpider)
        arguments = {"source": source.name} | ({"force": "1"} if force else {})
        try:
            await process.crawl(crawler, **arguments)
        except (RunHeldError, RunPausedError) as error:
            report.skip(source, str(error), is_held=True)
            return None
        except SmartcrawlError as error:
            report.skip(source, str(error))
            return None
        run: Run | None = getattr(crawler.spider, "run", None)
        if run is None or run.result is None or run.failure is not None:
            why = "the crawl was not carried out; its log has the reason"
            if run is not None and run.failure is not None:
                why = str(run.failure)
            report.skip(source, why)
            return None
        return run

    def _end(self, report: LibraryReport, output_format: str) -> None:
        """Print the report, and set the exit status."""
        assert self.settings is not None
        self.exitcode = _status(report)
        try:
            with printed():
                _print_report(report, output_format)
        except OutputError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED


def _status(report: LibraryReport) -> int:
    """Return the exit status of a report."""
    return HELD if report.is_held else INCOMPLETE if report.is_incomplete else DONE


def _print_report(report: LibraryReport, output_format: str) -> None:
    """Print a report: JSON is the last line of standard output."""
    if output_format == "json":
        print(printed_json(report.as_json(), sys.stdout))
        return
    output = Output()
    if not report.sources:
        output.say(f"{report.domain.path} declares no source of this scope.")
    for found in report.sources.values():
        _print_source(output, report.action, found, is_dry=report.is_dry)
    if report.is_dry:
        output.say()
        output.say("This was a dry run: nothing was changed.")


def _print_source(output: Output, action: str, found: LibrarySourceReport, *, is_dry: bool) -> None:
    output.say()
    state = (
        "complete"
        if found.complete
        else f"skipped: {found.reason}"
        if found.reason
        else "incomplete"
    )
    action = f"dry run of {action}" if is_dry else action
    output.say(f"{action} of {found.source.name}: {state}")
    names = ("listed", "added", "changed", "removed", "unchanged", "downloaded", "processed",
             "failed", "skipped", "withheld")  # fmt: skip
    shown = [f"{getattr(found, name):,} {name}" for name in names if getattr(found, name)]
    if shown:
        output.say(", ".join(shown), indent=2)
    for reason in found.reasons:
        output.say(f"not complete: {reason}")
