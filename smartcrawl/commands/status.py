"""``smartcrawl status``: the state of each source, and its concerns (R0-78)."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from smartcrawl.commands.deliveries import deliver_command_notices
from smartcrawl.model.exceptions import RegistryError, RegistryFullError, SourceError, UsageError
from smartcrawl.model.program import program_argument, program_crawl_line
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.removal.tombstones import failed_start_sources
from smartcrawl.reports.alarms import check_data, check_line, source_alarms, uncrawled_alarms
from smartcrawl.reports.freshness import FreshnessReport, freshness_reports
from smartcrawl.reports.status import (
    SourceStatus,
    reported_concerns,
    status_report,
    status_report_data,
    status_report_verdict,
)
from smartcrawl.reports.status_text import status_report_lines
from smartcrawl.reports.text import report_noun, report_time_span, run_state_text
from smartcrawl.reports.today import vanished_sources
from smartcrawl.reports.vectors import pushed_report_text, vector_counts_lines
from smartcrawl.rules.alarms import UNKNOWN, Level, worst_level
from smartcrawl.rules.model import RunState
from smartcrawl.rules.seal import only_not_due
from smartcrawl.rules.visibility import Visibility
from smartcrawl.sources.base import declared_visibilities
from smartcrawl.terminal.command import RegistryCommand, print_json
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, print_complaint, printed_json
from smartcrawl.terminal.sources import print_wrong_tables

_SCREEN: Final = 24  #: lines of a terminal that does not say how many it has
_COLUMNS: Final = 80  #: of a line in a pipe, to count the lines of a screen
_NAMED: Final = 3  #: failed starts that are named
_BEFORE: Final = 13  #: columns of a label

#: Labels of the lines that a source keeps where there is no room for all of them.
_PARTS: Final = (
    ("", "verdict"),
    ("", "verdict", "pages"),
    ("", "verdict", "pages", "look at", "go on"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the status, in Rich's markup."""

    label: str  #: empty: the head of a source
    text: str
    command: str = ""
    yellow: bool = False
    stays: bool = False  #: whether a source keeps it where there is no room for all figures

    def print(self) -> None:
        """Print it; it may take several lines of the terminal."""
        name = f"{self.label:<11}"
        label = f"  [yellow]{name}[/]" if self.yellow else f"  [bold]{name}[/]"
        if not self.label:
            label = ""
        gap = 2 if self.text else 0
        Output().say(
            self.text, command=self.command, gap=gap, label=label, indent=_BEFORE if label else 2
        )

    def height(self, width: int) -> int:
        """Return about how many lines of the terminal it takes."""
        from rich.cells import cell_len  # noqa: PLC0415  # a pipe has no height
        from rich.text import Text  # noqa: PLC0415

        before = _BEFORE if self.label else 0
        text = cell_len(Text.from_markup(self.text).plain)
        if before + text + 2 + len(self.command) <= width:
            return 1
        own = ceil(len(self.command) / max(1, width - before))
        return max(1, ceil(text / max(1, width - before))) + own


def status_command_screen(
    whole: list[list[Line]], blocks: list[list[Line]], more: str
) -> list[list[Line]]:
    """Return the lines of the status that fit one screen, with the command that shows all.

    Without room for everything, sources keep their verdicts and pages, then their verdicts, and
    sources that are well go first.
    """
    columns, lines = shutil.get_terminal_size((_COLUMNS, _SCREEN))
    room = lines - 1  # the prompt follows
    rest = [Line("", "All figures:", more)]

    def fits(found: list[list[Line]]) -> bool:
        return sum(line.height(columns) for block in found for line in block) <= room

    total = whole[len(blocks) :]
    heads, pages, looks = (
        [[line for line in block if line.label in labels or line.stays] for block in blocks]
        for labels in _PARTS
    )
    parts = ([*looks, *total], [*pages, *total], [*heads, *total], looks, pages, heads)
    for found in (whole, *([*part, rest] for part in parts)):
        if fits(found):
            return found
    return _worst(heads, room, columns, rest)


def _worst(heads: list[list[Line]], room: int, columns: int, rest: list[Line]) -> list[list[Line]]:
    """Return as many sources as fit, those that are not well first, and the number of others."""
    heads = sorted(heads, key=lambda block: block[1].text.startswith("[green]"))
    found: list[list[Line]] = []
    left = room - 1 - sum(line.height(columns) for line in rest)
    for block in heads:
        left -= sum(line.height(columns) for line in block)
        if left < 0 and found:
            break
        found.append(block)
    others = heads[len(found) :]
    ill = sum(not block[1].text.startswith("[green]") for block in others)
    text = f"and {report_noun(len(others), 'more source')}"
    state = "all of them fresh, complete and healthy" if not ill else f"{ill} of them not well"
    return [*found, [Line("", f"{text}, {state}")], rest]


def status_command_verdict(status: SourceStatus, now: int, longest: int) -> dict[str, Any]:
    """Return the verdict on a source as the keys that docs/cli.md lists."""
    found = status_report_verdict(status, now, longest=longest)
    names = ("fresh", "complete", "healthy")
    answers = {name: why is None for name, why in zip(names, found, strict=True)}
    return {"source": status.source, **answers, "text": str(found)}


def status_command_figures(status: SourceStatus) -> list[Line]:
    """Return the figures of one source, or of all together."""
    lines = [Line(label, escape(text)) for label, text in status_report_lines(status)]
    if (vectors := status.vectors) is not None:
        lacks = vectors.owed > 0 or vectors.may_ask_again
        lines += [
            Line(label, escape(text), yellow=lacks, stays=lacks)
            for label, text in vector_counts_lines(vectors)
        ]
    pushed = [("pushed", pushed_report_text(counts)) for counts in status.pushed]
    return lines + [Line(label, escape(text)) for label, text in pushed]


class Command(RegistryCommand):
    """Print the counts of each source, and its concerns."""

    _level: Level | None = None  #: of a check; None: it failed

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
        parser.add_argument(
            "--check",
            action="store_true",
            help="one line, for cron and monitoring; exit status: 0 well, 1 a source deserves a"
            " look, 2 one is stale, failed or waits for approval, 3 the check itself failed",
        )

    def failed_exit(self, words: Sequence[str]) -> int | None:
        """Return the exit status of a failure: of a check it is not that of a source."""
        is_check = any(len(word) > len("--") and "--check".startswith(word) for word in words)
        return UNKNOWN if is_check else None

    def run(self, args: list[str], opts: Namespace) -> None:
        """Print the status, or the line of a check."""
        if opts.check and opts.details:
            raise UsageError("--check prints one line: leave --details out")
        super().run(args, opts)
        if opts.check:
            self.exitcode = UNKNOWN if self._level is None else int(self._level)

    def _check(
        self, connection: Connection, sources: list[str], now: int, opts: Namespace
    ) -> Level:
        """Print the line of a check; return the level of the worst source.

        Raises:
            RegistryError: nothing was crawled yet, or the disk of the registry is full.
        """
        starts = [] if sources else failed_start_sources(connection)
        declared = load_stored_jobs_and_sources(self.options, connection)
        alarms = source_alarms(
            connection,
            self.options,
            now,
            is_held=self.database.is_held,
            declared=declared,
            sources=sources,
            left_out=starts,
        )
        if not sources:
            known = [one.source for one in alarms]
            alarms += uncrawled_alarms(declared, known, self.options, now)
        if not alarms:
            start = program_crawl_line("https://…")
            tried = f" ({report_noun(len(starts), 'start')} failed)" if starts else ""
            raise RegistryError(f"nothing was crawled yet{tried}; start with: {start}")
        error = deliver_command_notices(self.options)  # also of sources that have become stale
        if isinstance(error, RegistryFullError):
            raise error  # no run can begin, and no notice says so
        level = worst_level(one.alarm for one in alarms)
        line = check_line(alarms, now)
        if opts.format == "json":
            found = {"at": iso_time(now), "level": level.name.lower(), "text": line}
            print(printed_json({**found, "sources": check_data(alarms, now)}, sys.stdout))
        else:
            print(escaped_text(line))
        return level

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the status of each source, and of all of them together."""
        now = int(time.time())
        if opts.check:
            self._level = self._check(connection, sources, now, opts)
            return
        starts = [] if sources else failed_start_sources(connection)
        vanished, wrong, visibilities = self._undeclared(connection, sources)
        *found, total = status_report(
            connection,
            now,
            sources=sources,
            vanished=vanished,
            wrong=wrong,
            visibilities=visibilities,
            left_out=starts,
        )
        longest = self.options.schedule.longest
        budgets = self._budgets(connection, found, now)
        if opts.format == "json":
            rows = [status_report_data(one) for one in found]
            verdicts = [status_command_verdict(one, now, longest) for one in found]
            answer = {
                "at": iso_time(now),
                "sources": rows,
                "total": status_report_data(total),
                "verdicts": verdicts,
                "freshness": [budget.data() for budget in budgets.values()],
                "failedStarts": starts,
            }
            print_json(answer)
            return
        if not found:
            print(f"nothing was crawled yet; start with: {program_crawl_line('https://…')}")
            for line in self._starts(starts):
                line.print()
            return
        blocks = [self._block(one, now, budgets.get(str(one.source))) for one in found]
        whole = [*blocks, *self._total(found, total)]
        if starts:
            whole.append(self._starts(starts))
        for lines in (
            whole if opts.details else status_command_screen(whole, blocks, self._more(opts))
        ):
            for line in lines:
                line.print()

    def _undeclared(
        self, connection: Connection, sources: list[str]
    ) -> tuple[Collection[str], Collection[str], Mapping[str, Visibility]]:
        """Return the sources that are declared no more, and those whose tables have mistakes.

        And the visibilities that the other tables declare.

        What is wrong in sources.toml is printed, and the registry shown nevertheless.
        """
        try:
            declared = load_stored_jobs_and_sources(self.options, connection)
        except SourceError as error:
            print_complaint(self.name, str(error))
            return (), (), {}
        print_wrong_tables(self.name, declared, sources)
        vanished = vanished_sources(connection, self.options, declared)
        return vanished, declared.wrong, declared_visibilities(declared)

    def _budgets(
        self, connection: Connection, found: Sequence[SourceStatus], now: int
    ) -> dict[str, FreshnessReport]:
        """Return the freshness of those sources that have a budget, by name."""
        try:
            declared = load_stored_jobs_and_sources(self.options, connection)
        except SourceError:
            return {}  # ``_undeclared`` printed why
        names = [str(status.source) for status in found]
        return freshness_reports(connection, declared, names, self.options.schedule, now)

    def _block(self, status: SourceStatus, now: int, budget: FreshnessReport | None) -> list[Line]:
        """Return the lines of one source: its run, the verdict, the figures, the concerns."""
        longest = self.options.schedule.longest
        found = status_report_verdict(status, now, longest=longest)
        name = f"[bold]{escape(str(status.source))}[/]"
        color = "green" if found.well else "yellow"
        if status.visibility is Visibility.PRIVATE:
            name = f"{name}, private"
        lines = [
            Line("", f"{name}: {escape(self._run_text(status, now))}"),
            Line("verdict", f"[{color}]{escape(str(found))}[/]"),
            *status_command_figures(status),
        ]
        if budget is not None:
            lines.append(Line("freshness", escape(budget.text())))
            lines += [
                Line("look at", escape(concern), yellow=True) for concern in budget.concerns()
            ]
        for text, words in reported_concerns(status, now, longest=longest):
            command = self.again(*words) if words else ""
            mark = f"{escape(escaped_text(text.removesuffix(':')))}{':' if words else ''}"
            lines.append(Line("look at", mark, command, yellow=True))
        if status.counts.due:
            lines.append(Line("go on", "", self.again("due", "--source", status.source)))
        return lines

    def _total(self, found: list[SourceStatus], total: SourceStatus) -> list[list[Line]]:
        if len(found) == 1:
            return []
        return [[Line("", f"[bold]all {len(found)} sources[/]"), *status_command_figures(total)]]

    def _starts(self, names: Sequence[str]) -> list[Line]:
        """Return the line of the sources that are left out; none without any."""
        if not names:
            return []
        shown = ", ".join(names[:_NAMED])
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        text = f"{report_noun(len(names), 'failed start')} left out, without a page: {shown}{more}"
        remedy = self.again("forget", "--source", names[0])
        return [Line("", f"{escape(escaped_text(text))}. To remove the first:", remedy)]

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
