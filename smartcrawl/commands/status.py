"""``smartcrawl status``: the state of each source, and its concerns (R0-78)."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Collection

from rich.markup import escape

from smartcrawl.commands.status_text import (
    Line,
    status_command_figures,
    status_command_screen,
    status_command_verdict,
)
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.program import program_argument, program_crawl_line
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.reports.concerns import reported_concerns, status_report_verdict
from smartcrawl.reports.sources_today import vanished_sources
from smartcrawl.reports.status import SourceStatus, status_report, status_report_data
from smartcrawl.reports.text import report_time_span, run_state_text
from smartcrawl.rules.model import RunState
from smartcrawl.rules.seal import only_not_due
from smartcrawl.terminal.command import RegistryCommand, print_json
from smartcrawl.terminal.output import print_complaint
from smartcrawl.terminal.sources import print_wrong_tables


class Command(RegistryCommand):
    """Print the counts of each source, and its concerns."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show for each source how many records have which status, how many pages are "
            "stored, lost, orphaned, waiting for approval and due, how fresh they are, "
            "how often they change and fail, the bytes downloaded and saved, and the "
            "last run; then what needs attention, with the command that helps."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--details",
            action="store_true",
            help="all figures of every source, even if they fill more than one screen",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the status of each source, and of all of them together."""
        now = int(time.time())
        vanished, wrong = self._undeclared(connection, sources)
        *found, total = status_report(
            connection, now, sources=sources, vanished=vanished, wrong=wrong
        )
        longest = self.options.schedule.longest
        if opts.format == "json":
            rows = [status_report_data(one) for one in found]
            verdicts = [status_command_verdict(one, now, longest) for one in found]
            answer = {
                "at": iso_time(now),
                "sources": rows,
                "total": status_report_data(total),
                "verdicts": verdicts,
            }
            print_json(answer)
            return
        if not found:
            print(f"nothing was crawled yet; start with: {program_crawl_line('https://…')}")
            return
        blocks = [self._block(one, now) for one in found]
        whole = [*blocks, *self._total(found, total)]
        for lines in (
            whole if opts.details else status_command_screen(whole, blocks, self._more(opts))
        ):
            for line in lines:
                line.print()

    def _undeclared(
        self, connection: Connection, sources: list[str]
    ) -> tuple[Collection[str], Collection[str]]:
        """Return the sources that are declared no more, and those whose tables have mistakes.

        What is wrong in sources.toml is printed, and the registry shown nevertheless.
        """
        try:
            declared = load_stored_jobs_and_sources(self.options, connection)
        except SourceError as error:
            print_complaint(self.name, str(error))
            return (), ()
        print_wrong_tables(self.name, declared, sources)
        return vanished_sources(connection, self.options, declared), declared.wrong

    def _block(self, status: SourceStatus, now: int) -> list[Line]:
        """Return the lines of one source: its run, the verdict, the figures, the concerns."""
        longest = self.options.schedule.longest
        found = status_report_verdict(status, now, longest=longest)
        name = f"[bold]{escape(str(status.source))}[/]"
        color = "green" if found.well else "yellow"
        lines = [
            Line("", f"{name}: {escape(self._run_text(status, now))}"),
            Line("verdict", f"[{color}]{escape(str(found))}[/]"),
            *status_command_figures(status),
        ]
        for text, words in reported_concerns(status, now, longest=longest):
            command = self.again(*words) if words else ""
            mark = f"{escape(escaped_text(text))}{':' if words else ''}"
            lines.append(Line("look at", mark, command, yellow=True))
        if status.counts.due:
            lines.append(Line("go on", "", self.again("due", "--source", status.source)))
        return lines

    def _total(self, found: list[SourceStatus], total: SourceStatus) -> list[list[Line]]:
        if len(found) == 1:
            return []
        return [[Line("", f"[bold]all {len(found)} sources[/]"), *status_command_figures(total)]]

    def _more(self, opts: Namespace) -> str:
        only = ["--source", opts.source] if opts.source else []
        return self.again("status", "--details", *only)

    def _run_text(self, status: SourceStatus, now: int) -> str:
        run = status.last_run
        if run is None:
            return "no run"
        if run.finished_at is None:
            if self.database.is_held(str(status.source)):
                return (
                    f"run {run.no} is running, started {report_time_span(now - run.started_at)} ago"
                )
            resume = program_argument("resume")
            return f"the process of run {run.no} died: continue with {resume}"
        text = "complete" if run.complete else "incomplete"
        if run.state in (RunState.INTERRUPTED, RunState.CANCELLED):
            text = run_state_text(run.state, run.reasons)
        elif not run.complete and only_not_due(run.reasons):
            text = "checked the pages that were due"
        return f"run {run.no} {text}, {report_time_span(now - run.finished_at)} ago"
