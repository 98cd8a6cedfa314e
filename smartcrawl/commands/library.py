"""``scrapy library``: download, process and check the document libraries of a domain (R3.11)."""

from __future__ import annotations

import asyncio
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

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
from smartcrawl.engine.memory import return_engine_memory
from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Word
from smartcrawl.run.library_steps import LibraryStep, StepResult
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.domains import SCOPES, Domain, load_domain
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.sharepoint import SharepointSpider
from smartcrawl.terminal.command import base_command_damage
from smartcrawl.terminal.output import Output, printed_json
from smartcrawl.terminal.standard_output import OutputError, printed

ACTIONS: Final = ("download", "process", "check")
MODES: Final = ("incremental", "full")
_MOST_BATCHES: Final = 5
_SEVERITY: Final = (DONE, INCOMPLETE, HELD, FAILED)


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
            " domain.json."
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
        report = _Report(domain, action, opts)
        if action != "download":
            with base_command_damage(registry_database(options.registry)):
                self._steps(action, sources, options, report)
            self._end(report)
            return
        process = self.crawler_process
        assert isinstance(process, AsyncCrawlerProcess)
        return_engine_memory()
        asyncio.get_event_loop().create_task(self._download(process, sources, opts, report))
        process.start(stop_after_crawl=False)

    def _steps(
        self,
        action: str,
        sources: Sequence[SharepointSource],
        options: Options,
        report: _Report,
    ) -> None:
        """Process or check the sources."""
        for source in sources:
            step = LibraryStep(source, options)
            try:
                result = step.process() if action == "process" else step.check()
            except RunHeldError as error:
                report.skip(source, str(error), HELD)
            except SmartcrawlError as error:
                report.skip(source, str(error), FAILED)
            else:
                report.add_step(source, result)

    async def _download(
        self,
        process: AsyncCrawlerProcess,
        sources: Sequence[SharepointSource],
        opts: Namespace,
        report: _Report,
    ) -> None:
        try:
            for source in sources:
                force = opts.mode == "full"
                for batch in range(opts.retry_batches):
                    run = await self._crawl_library(process, source, report, force=force)
                    if run is None:
                        break
                    report.add_run(source, run, is_first=batch == 0)
                    if not _failed(run) or not self._goes_on(run):
                        break
                    force = False
        finally:
            self._end(report)
            stop_reactor()

    def _goes_on(self, run: Run) -> bool:
        """Whether a further batch may bring what this run could not have."""
        return run.failure is None and run.halt.order is None and run.result is not None

    async def _crawl_library(
        self,
        process: AsyncCrawlerProcess,
        source: SharepointSource,
        report: _Report,
        *,
        force: bool,
    ) -> Run | None:
        """Crawl one source; return its run, or None if there was none."""
        crawler = self._create_crawler(SharepointSpider)
        arguments = {"source": source.name} | ({"force": "1"} if force else {})
        try:
            await process.crawl(crawler, **arguments)
        except (RunHeldError, RunPausedError) as error:
            report.skip(source, str(error), HELD)
            return None
        except SmartcrawlError as error:
            report.skip(source, str(error), FAILED)
            return None
        run: Run | None = getattr(crawler.spider, "run", None)
        if run is None or run.result is None or run.failure is not None:
            why = "the crawl was not carried out; its log has the reason"
            if run is not None and run.failure is not None:
                why = str(run.failure)
            report.skip(source, why, FAILED)
            return None
        return run

    def _end(self, report: _Report) -> None:
        """Print the report, and set the exit status."""
        assert self.settings is not None
        self.exitcode = report.status
        try:
            with printed():
                report.print()
        except OutputError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED


def _failed(run: Run) -> int:
    """Return the number of items that a run could not have."""
    assert run.result is not None, "it ended"
    refused = 0 if run.library is None else run.library.shelf.refused
    return run.result.counts.get(Word.FAILED.word, 0) + refused


@dataclass(slots=True)
class _SourceReport:
    """One source of a report; the keys of JSON are in ``as_json``."""

    source: SharepointSource
    mode: str
    reason: str = ""  #: why it was skipped
    complete: bool = False
    reasons: list[str] = field(default_factory=list)
    listed: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    downloaded: int = 0
    processed: int = 0
    failed: int = 0
    skipped: int = 0
    withheld: int = 0
    requests: int = 0
    integrity: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("missingInMap", "missingOnDisk", "orphans", "moved", "verified"), 0
        )
    )

    def as_json(self) -> dict[str, Any]:
        """Return it under the promised keys."""
        values = asdict(self)
        del values["source"]
        ids = {"sourceId": self.source.source_id, "sourceType": str(self.source.source_type)}
        return ids | values


class _Report:
    """Results of a command, source by source."""

    def __init__(self, domain: Domain, action: str, opts: Namespace) -> None:
        self.status = DONE
        self._domain = domain
        self._action = action
        self._opts = opts
        self._sources: dict[str, _SourceReport] = {}

    def _of(self, source: SharepointSource) -> _SourceReport:
        return self._sources.setdefault(
            source.source_id, _SourceReport(source, mode=self._opts.mode)
        )

    def _worsen(self, status: int) -> None:
        self.status = max(self.status, status, key=_SEVERITY.index)

    def skip(self, source: SharepointSource, why: str, status: int) -> None:
        """Note a source that was left out (R3-68); the others go on."""
        found = self._of(source)
        found.reason, found.complete = why, False
        self._worsen(status if status == HELD else INCOMPLETE)

    def add_run(self, source: SharepointSource, run: Run, *, is_first: bool) -> None:
        """Note the run of a source; a further batch adds to the first."""
        found, result, library = self._of(source), run.result, run.library
        assert result is not None, "it ended"
        assert library is not None, "it is a library"
        found.complete, found.reasons = result.complete, list(result.reasons)
        found.requests += library.requests
        found.downloaded += library.downloaded
        found.added += library.added
        found.changed += library.changed
        found.removed += library.removed
        found.withheld = result.withheld
        found.failed = _failed(run)
        found.listed = library.listed
        found.skipped = library.skipped
        if is_first:
            found.unchanged = library.listed - library.added - library.changed - found.failed
        findings = library.findings
        found.integrity = {
            "missingInMap": findings.missing_in_map,
            "missingOnDisk": findings.missing_on_disk,
            "orphans": found.integrity["orphans"] + findings.orphans,
            "moved": found.integrity["moved"] + findings.moved,
            "verified": findings.verified,
        }
        if not result.complete or found.failed or found.withheld:
            self._worsen(INCOMPLETE)

    def add_step(self, source: SharepointSource, result: StepResult) -> None:
        """Note a step that needs no crawl."""
        found = self._of(source)
        found.complete = not result.failed
        found.processed, found.failed = result.processed, result.failed
        found.skipped, found.reasons = result.skipped, list(result.reasons)
        found.integrity |= result.integrity
        if result.failed or result.skipped:
            self._worsen(INCOMPLETE)

    def as_json(self) -> dict[str, Any]:
        """Return the report under the promised keys."""
        sources = [found.as_json() for found in self._sources.values()]
        return {
            "domain": self._domain.domain_id,
            "action": self._action,
            "mode": self._opts.mode,
            "scope": self._opts.scope,
            "dryRun": False,
            "complete": self.status == DONE,
            "sources": sources,
        }

    def print(self) -> None:
        """Print the report: JSON is the last line of standard output."""
        if self._opts.format == "json":
            print(printed_json(self.as_json(), sys.stdout))
            return
        output = Output()
        if not self._sources:
            output.say(f"{self._domain.path} declares no source of this scope.")
        for found in self._sources.values():
            _print_source(output, self._action, found)


def _print_source(output: Output, action: str, found: _SourceReport) -> None:
    output.say()
    state = (
        "complete"
        if found.complete
        else f"skipped: {found.reason}"
        if found.reason
        else "incomplete"
    )
    output.say(f"{action} of {found.source.name}: {state}")
    names = ("listed", "added", "changed", "removed", "unchanged", "downloaded", "processed",
             "failed", "skipped", "withheld")  # fmt: skip
    shown = [f"{getattr(found, name):,} {name}" for name in names if getattr(found, name)]
    if shown:
        output.say(", ".join(shown), indent=2)
    for reason in found.reasons:
        output.say(f"not complete: {reason}")
