"""``scrapy status``: the state of each source, and its concerns (R0-78)."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from smartcrawl.engine.command import RegistryCommand, print_json
from smartcrawl.model.ports import Connection
from smartcrawl.model.redaction import escaped
from smartcrawl.model.times import iso
from smartcrawl.reports.concerns import concerns, percent, span
from smartcrawl.reports.status import Counts, SourceStatus, as_data, status_of
from smartcrawl.reports.text import counted
from smartcrawl.rules.model import RunState

_STATUSES: Final = (
    ("indexed", "indexed"),
    ("crawled", "crawled"),
    ("pending", "pending"),
    ("error", "error"),
    ("out_of_scope", "out of scope"),
    ("gone", "gone"),
)


class Command(RegistryCommand):
    """Print the counts of each source, and its concerns."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Show how each source is doing"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show for each source how many records have which status, how many pages are stored,"
            " lost, orphaned, withheld and due, how fresh they are, how often they change and fail,"
            " the bytes that were downloaded and saved, and its last run; then what deserves a"
            " look, with the command that goes on."
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the status of each source, and of all of them together."""
        now = int(time.time())
        *found, total = status_of(connection, now, sources=sources)
        if opts.format == "json":
            rows = [as_data(one) for one in found]
            print_json({"at": iso(now), "sources": rows, "total": as_data(total)})
            return
        console = Console(highlight=False, soft_wrap=True)
        for one in found:
            console.print(f"[bold]{escape(str(one.source))}[/]: {self._run_text(one, now)}")
            _print(console, one)
            for text, words in concerns(one, now, longest=self.options.schedule.longest):
                after = f":  {self.again(*words)}" if words else ""
                console.print(f"  [yellow]look at[/]    {escape(escaped(text + after))}")
            if one.counts.due:
                _line(console, "go on", self.again("due", "--source", one.source))
        if len(found) > 1:
            console.print(f"[bold]all {len(found)} sources[/]")
            _print(console, total)
        if not found:
            console.print("nothing was crawled yet")

    def _run_text(self, status: SourceStatus, now: int) -> str:
        run = status.last_run
        if run is None:
            return "no run"
        if run.finished_at is None:
            if self.database.is_held(str(status.source)):
                return f"run {run.no} goes on, begun {span(now - run.started_at)} ago"
            return f"run {run.no} was left by a process that died: go on with -a resume=1"
        text = "complete" if run.complete else "incomplete"
        if run.state is RunState.INTERRUPTED:
            text = "interrupted"
        return f"run {run.no} {text}, {span(now - run.finished_at)} ago"


def _print(console: Console, status: SourceStatus) -> None:
    counts, changes, ages = status.counts, status.changes, status.ages
    _line(console, "pages", _pages(counts))
    held = [(counts.lost, "lost"), (counts.clones, "clones"), (counts.without_text, "without text")]
    _line(console, "held", f"{counts.held:,}{_listed(held)}")
    if ages.median is not None:
        _line(
            console,
            "visited",
            f"half of the stored pages within {span(ages.median)}, 95 % within {span(ages.most)};"
            f" {percent(ages.within_day)} in the last day,"
            f" {percent(ages.within_week)} in the last 7 days",
        )
    if changes.rate is not None:
        runs = "run" if changes.runs == 1 else f"{changes.runs} runs"
        visits = "visit" if changes.compared == 1 else "visits"
        _line(
            console,
            "changes",
            f"{percent(changes.rate)} of {changes.compared:,} {visits} to stored pages, in the last"
            f" {runs}; {counted(changes.new, 'new page')}",
        )
    if counts.error_rate is not None:
        _line(console, "errors", f"{percent(counts.error_rate)} of pages, at their last visit")
    due = [(counts.ordered, "ordered"), (counts.pinned, "pinned")]
    _line(console, "due", f"{counts.due:,}{_listed(due, '; ')}")
    absent = [(counts.withheld, "removals withheld")]
    _line(console, "orphans", f"{counts.orphans:,}{_listed(absent, '; ')}")
    down, saved = status.bytes
    text = f"{decimal(down)} downloaded, {decimal(saved)} saved"
    if status.last_run is not None:
        down, saved = status.last_run.bytes
        text += f"; by the last run {decimal(down)} and {decimal(saved)}"
    _line(console, "bytes", text)


def _line(console: Console, name: str, text: str) -> None:
    console.print(f"  [bold]{name:<11}[/]{escape(text)}")


def _pages(counts: Counts) -> str:
    statuses = [(getattr(counts, name), word) for name, word in _STATUSES]
    maps = "; 1 sitemap or feed"
    if counts.sitemaps != 1:
        maps = f"; {counts.sitemaps:,} sitemaps and feeds"
    return f"{counts.pages:,}{_listed(statuses, ': ')}{maps if counts.sitemaps else ''}"


def _listed(numbers: list[tuple[int, str]], before: str = ", of them ") -> str:
    listed = ", ".join(f"{number:,} {word}" for number, word in numbers if number)
    return f"{before}{listed}" if listed else ""
