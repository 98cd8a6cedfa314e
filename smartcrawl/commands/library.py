"""``library``: bring the document libraries of a domain up to date, step by step (R3.11)."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import UsageError

from smartcrawl.commands.crawl import Command as CrawlCommand
from smartcrawl.commands.crawl import print_crawl_error, stop_crawl_command
from smartcrawl.commands.deliveries import deliver_command_notices
from smartcrawl.commands.library_actions import (
    ACTIONS,
    ADOPT,
    CRAWL,
    DOWNLOAD,
    OTHERS,
    LibraryDownload,
    LibraryOrder,
    carry_out_command_step,
    carry_out_library_command,
    command_steps_of_order,
    skip_sources_not_to_adopt,
)
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.spider_runs import DONE, FAILED, HELD, INCOMPLETE
from smartcrawl.commands.summary import summary_command_line
from smartcrawl.engine.memory import return_engine_memory
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.library.items import TRIMMED
from smartcrawl.reports.remedies import NOTES, reported_reason
from smartcrawl.reports.text import report_noun
from smartcrawl.run.library.job import LibraryJob
from smartcrawl.run.library.report import LibraryReport, write_library_run_archive
from smartcrawl.run.library.result import COUNTS, LibraryResult
from smartcrawl.run.orders import MOST_RETRY_BATCHES
from smartcrawl.run.pushing import run_left_uploads_in_words
from smartcrawl.sources.sharepoint.domains import SCOPES, load_sharepoint_domain
from smartcrawl.terminal.command import base_command_damage
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, OutputError, print_complaint, printed, printed_json

_COUNTS = [name for name in COUNTS if name != "requests"]


def print_library_report(report: LibraryReport, output_format: str, data_dir: str) -> None:
    """Print a report: JSON is the last line of standard output."""
    if output_format == "json":
        print(printed_json(report.as_json(), sys.stdout))
        return
    output = Output()
    if not report.sources:
        output.say(escape(f"{report.domain.path} declares no source of this scope."))
    action = f"dry run of {report.action}" if report.is_dry else report.action
    for found in report.sources.values():
        _print_source(output, action, found)
        if found.runs:
            _print_looks(output, found, data_dir)
        if found.embedded is not None and found.embedded.left:
            command = summary_command_line("library", data_dir, "cleanup --files")
            left = run_left_uploads_in_words(found.embedded.left, command, is_dry=report.is_dry)
            output.say(escape(left))
    if report.archive:
        output.say()
        output.say(f"Report: {report.archive}")
    if report.is_dry:
        output.say()
        output.say("This was a dry run: nothing was changed.")


def _print_source(output: Output, action: str, found: LibraryResult) -> None:
    output.say()
    state = (
        "complete"
        if found.complete
        else f"skipped: {found.reason}"
        if found.reason
        else "incomplete"
    )
    output.say(escape(f"{action} of {found.source.name}: {state}"))
    shown = [f"{getattr(found, name):,} {name}" for name in _COUNTS if getattr(found, name)]
    if shown:
        output.say(", ".join(shown), indent=2)
    if found.embedded is not None:
        words = [
            f"{number:,} {name}"
            for name, number in found.embedded.as_json().items()
            if isinstance(number, int) and number
        ]
        output.say(", ".join([f"vector store {found.embedded.vector_store_id}", *words]), indent=2)
    for reason in found.shown_reasons():
        if reason.startswith(f"{TRIMMED}:"):
            output.say(escape(f"{reason} ({NOTES[TRIMMED]})"))
        elif found.complete:  # a line of the check
            output.say(escape(reason))
        else:
            run = found.runs[-1] if found.runs else 0
            output.say(escape(f"not complete: {reported_reason(reason, run, is_library=True)}"))


def _print_looks(output: Output, found: LibraryResult, data_dir: str) -> None:
    """Print the commands that list the items that failed, and the removals that wait."""
    only = f"--source {found.source.name}"
    if found.failed:
        which = report_noun(found.failed, "item")
        listed = summary_command_line("registry", data_dir, f"--outcome failed {only}")
        output.say(f"{which} failed; see the reasons with:", command=listed)
    if found.withheld:
        which = report_noun(found.withheld, "removal")
        verb = "waits" if found.withheld == 1 else "wait"
        listed = summary_command_line("orphans", data_dir, only)
        output.say(f"{which} {verb} for approval. List them:", command=listed)


MODES: Final = ("incremental", "full")
_JOB: Final = "_job"  #: id of a job of the HTTP API, which starts the command with it


class Command(CrawlCommand):
    """Bring the files of a domain's libraries up to date, step by step."""

    feed_help = SUPPRESS  # it has no items to export
    takes_addresses = False
    takes_many = False
    first_words: ClassVar[Sequence[str]] = (*ACTIONS, *OTHERS)  #: completed in the shells

    def syntax(self) -> str:
        """Return its usage."""
        return f"({' | '.join(self.first_words)}) DOMAIN [options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return COMMANDS["library"]

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "download lists each library of DOMAIN, downloads what is new or changed, removes what"
            " is gone, checks the disk and writes the maps. process turns list items into Markdown"
            " and cleans site pages. embed makes the vector store of DOMAIN equal to the files."
            " check compares disk, maps and registry, and corrects the disk without a download."
            " crawl downloads, processes, embeds and archives a report; reports lists the archives."
            " adopt downloads what the maps of another program do not have. cleanup removes"
            " outdated entries of the metadata of embedded files; cleanup --files lists the uploads"
            " that no vector store has any more, and with --yes deletes them. export writes the"
            " maps for spreadsheets. DOMAIN is a folder of PERSISTENT_STORAGE_PATH/domains with a"
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
            help="full: download every item again (default: incremental)",
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
            "--spreadsheet", metavar="FOLDER", help="for export: the folder to write the maps to"
        )
        parser.add_argument(
            "--files",
            action="store_true",
            help="for cleanup, without DOMAIN: list uploads that are in no vector store any more",
        )
        parser.add_argument(
            "--yes", action="store_true", help="for cleanup --files: delete them from the account"
        )
        parser.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: table"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Carry out the steps of an action, each at one source after another."""
        self._check_words(args, opts)
        assert self.settings is not None
        if args[0] in OTHERS:
            self._carry_out_other(args, opts)
            return
        try:
            order = self._order(args, opts)
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED
            return
        if order.job is not None and not order.job.begin():
            self.exitcode = HELD
            return
        steps = command_steps_of_order(order)
        report = _begun_report(order)
        if order.action == ADOPT and not skip_sources_not_to_adopt(order, report):
            self._end(report, order)
            return
        if DOWNLOAD not in steps:
            self._carry_out(steps, order, report)
            self._end(report, order)
            return
        process = self.crawler_process
        assert isinstance(process, AsyncCrawlerProcess)
        return_engine_memory()
        self.exitcode = FAILED  # also if signals stop it by force
        asyncio.get_event_loop().create_task(self._crawl_and_end(process, order, report, steps))
        process.start(stop_after_crawl=False)
        if not report.is_dry:
            deliver_command_notices(Options.of(self.settings))

    def _carry_out_other(self, args: list[str], opts: Namespace) -> None:
        """Carry out an action that is no step."""
        assert self.settings is not None
        try:
            with base_command_damage(registry_database(Options.of(self.settings).registry)):
                is_whole = carry_out_library_command(args, dict(self.settings), opts)
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED
        else:
            self.exitcode = DONE if is_whole else INCOMPLETE

    def _check_words(self, args: list[str], opts: Namespace) -> None:
        """Check the command line.

        Raises:
            UsageError: it does not name a step and a domain, or has options of other commands.
        """
        known = dict.fromkeys(ACTIONS, (1, 1))
        known |= {action: (least, most) for action, (_, least, most) in OTHERS.items()}
        least, most = known.get(args[0], (0, -1)) if args else (0, -1)
        if (opts.files and args != ["cleanup"]) or (opts.yes and not opts.files):
            raise UsageError(
                "--files needs the step cleanup without a DOMAIN, and --yes needs "
                f"--files: {program_name()} library cleanup --files --yes",
            )
        if args == ["cleanup"] and not opts.files:
            least = 1  # a domain
        if not least <= len(args) - 1 <= most:
            raise UsageError(
                f"give a step and a domain: {program_name()} library {'|'.join(known)} DOMAIN",
            )
        if opts.spargs.keys() - {_JOB} or opts.output or opts.overwrite_output:
            raise UsageError(
                "-a, -o and -O are not allowed here; the sources are those of the "
                f"domain, and pages are stored in the registry: {program_name()} library "
                f"{' '.join(args)}",
            )
        if not 1 <= opts.retry_batches <= MOST_RETRY_BATCHES:
            raise UsageError(
                f"--retry-batches is {opts.retry_batches}: expected 1 to {MOST_RETRY_BATCHES}",
            )

    def _order(self, args: list[str], opts: Namespace) -> LibraryOrder:
        """Return the order of the command line.

        Raises:
            SmartcrawlError: there is no such domain or source, or a setting is missing.
        """
        action, domain_id = args
        assert self.settings is not None
        options = Options.of(self.settings)
        domain = load_sharepoint_domain(options.sharepoint.storage, domain_id)
        sources = domain.sources(opts.scope, opts.source)
        if DOWNLOAD in ACTIONS[action] and sources:
            options.sharepoint.required()
        id_ = opts.spargs.get(_JOB)
        job = None if id_ is None else LibraryJob(registry_database(options.registry), id_)
        return LibraryOrder(action, domain, sources, options, opts, job)

    async def _crawl_and_end(
        self,
        process: AsyncCrawlerProcess,
        order: LibraryOrder,
        report: LibraryReport,
        steps: Sequence[str],
    ) -> None:
        """Carry out an action that begins with a download."""
        started = datetime.now(UTC)
        try:
            first, *further = steps
            assert first == DOWNLOAD, "other steps need what it brings"
            download = LibraryDownload(process, self._create_crawler, order, report, self._is_free)
            await download.carry_out()
            if not report.is_stopped:
                self._carry_out(further, order, report)
                if order.action == CRAWL:
                    self._archive(order, report, started)
        finally:
            self._end(report, order)
            stop_crawl_command()

    def _carry_out(self, steps: Sequence[str], order: LibraryOrder, report: LibraryReport) -> None:
        """Carry out steps that need no crawl."""
        with base_command_damage(registry_database(order.options.registry)):
            for step in steps:
                carry_out_command_step(step, order, report)

    def _archive(self, order: LibraryOrder, report: LibraryReport, started: datetime) -> None:
        """Write the archive of a crawl; without one the crawl is incomplete (R3-20, R3-23)."""
        if report.is_dry or report.is_stopped:
            return
        parameters = {
            "domain_id": order.domain.domain_id,
            "mode": report.mode,
            "scope": report.scope,
            "source_id": order.words.source,
            "dry_run": report.is_dry,
            "retry_batches": order.words.retry_batches,
        }
        keep = order.options.sharepoint.reports_keep
        try:
            write_library_run_archive(report, parameters, (started, datetime.now(UTC)), keep=keep)
        except (OSError, SmartcrawlError) as error:
            print_complaint("library", f"the report of the crawl could not be written: {error}")
            report.is_lacking = True

    def _end(self, report: LibraryReport, order: LibraryOrder) -> None:
        """Print the report, or record it with its job, and set the exit status."""
        assert self.settings is not None
        report.is_lacking |= report.is_stopped
        self.exitcode = library_exit_status(report)
        if order.job is not None:
            stopped = report.is_stopped
            order.job.end(report.as_json(), self.exitcode, int(time.time()), is_stopped=stopped)
            return
        try:
            with printed():
                print_library_report(report, order.words.format, str(self.settings["DATA_DIR"]))
        except OutputError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED


def _begun_report(order: LibraryOrder) -> LibraryReport:
    """Return the report of an order; that of a job which goes on begins where it was paused."""
    mode, scope = order.words.mode, order.words.scope
    report = LibraryReport(order.domain, order.action, mode, scope, is_dry=order.is_dry)
    if order.job is not None:
        report.restore(order.job.progress.get("sources", ()), order.sources)
        report.is_lacking = bool(order.job.progress.get("incomplete", False))
    return report


def library_exit_status(report: LibraryReport) -> int:
    """Return the exit status of a report."""
    return INCOMPLETE if report.is_lacking else HELD if report.is_held else DONE
