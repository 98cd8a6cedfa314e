"""``scrapy status``: how each source is doing, and what deserves a look (R0-78)."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from smartcrawl.commands.summary import REMEDIES
from smartcrawl.engine.command import RegistryCommand, print_json
from smartcrawl.model.ports import Connection
from smartcrawl.model.redaction import escaped
from smartcrawl.model.times import iso
from smartcrawl.reports.status import Counts, SourceStatus, status_of, told
from smartcrawl.rules.model import RunState
from smartcrawl.rules.seal import NOT_DUE

MANY_ERRORS: Final = 0.1  #: share of pages whose last visit failed that deserves a look
#: What deserves a look where its count is not 0, and the command that shows or does it.
LOOKS: Final = (
    ("withheld", "withheld: removals that wait for approval", ("orphans",)),
    ("lost", "lost: held, and answered with an error that speaks of the page", ("deltamerge",)),
    ("orphans", "orphaned: no link leads there any more, or they are left out", ("orphans",)),
    ("without_text", "without text: only a script would write it", ("registry", "--no-text")),
)
_STATUSES: Final = (
    ("indexed", "indexed"),
    ("crawled", "crawled"),
    ("pending", "pending"),
    ("error", "error"),
    ("out_of_scope", "out of scope"),
    ("gone", "gone"),
)
_UNITS: Final = (("days", 86_400), ("h", 3_600), ("min", 60))


class Command(RegistryCommand):
    """Count, and say where a count deserves a look."""

    def syntax(self) -> str:
        """Return how it is called."""
        return "[options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Show how each source is doing"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "Show for each source how many records have which status, what is held, lost, orphaned,"
            " withheld and due, how fresh it is, how often its pages change and fail, the bytes"
            " that were downloaded and saved, and its last run; then what deserves a look, with"
            " the command that goes on."
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the status of each source, and of all of them together."""
        now = int(time.time())
        *found, total = status_of(connection, now, sources=sources)
        if opts.format == "json":
            rows = [told(one) for one in found]
            print_json({"at": iso(now), "sources": rows, "total": told(total)})
            return
        console = Console(highlight=False, soft_wrap=True)
        for one in found:
            console.print(f"[bold]{escape(str(one.source))}[/]: {self._run_text(one, now)}")
            _print(console, one)
            for text, command in self._looks(one, now):
                after = f":  {command}" if command else ""
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

    def _looks(self, status: SourceStatus, now: int) -> Iterator[tuple[str, str]]:
        """Yield what deserves a look, with the command that goes on; "" where there is none."""
        run, counts, only = status.last_run, status.counts, ("--source", status.source)
        longest = self.options.schedule.longest
        # That pages were not due is how due crawls end, until those of a whole round were asked.
        reasons = [] if run is None else [r for r in run.reasons if not r.startswith(f"{NOT_DUE}:")]
        for reason in reasons:
            remedy = REMEDIES.get(reason.partition(":")[0], "")
            yield f"not complete: {reason}" + (f" ({remedy})" if remedy else ""), ""
        if status.completed_at is None:
            yield "no run was complete yet, so that what no link leads to cannot be told", ""
        elif (
            run is not None
            and run.no != status.complete_run
            and (reasons or now - status.completed_at > longest)
        ):
            age = span(now - status.completed_at)
            yield f"the last complete run was {status.complete_run}, {age} ago", ""
        if (counts.error_rate or 0) > MANY_ERRORS:
            text = f"{_percent(counts.error_rate)} of the pages failed when they were visited last"
            yield text, self.again("registry", "--status", "error", *only)
        if (status.ages.most or 0) > longest:
            text = f"5 % of what is held was not visited for {span(status.ages.most)} or longer"
            yield f"{text}, and CRAWL_MAX_INTERVAL_SECONDS is {longest}", ""
        for name, text, words in LOOKS:
            if number := getattr(counts, name):
                yield f"{number:,} {text}", self.again(*words, *only)


def _print(console: Console, status: SourceStatus) -> None:
    counts, changes, ages = status.counts, status.changes, status.ages
    _line(console, "pages", _pages(counts))
    held = [(counts.lost, "lost"), (counts.clones, "clones"), (counts.without_text, "without text")]
    _line(console, "held", f"{counts.held:,}{_listed(held)}")
    if ages.median is not None:
        _line(
            console,
            "visited",
            f"half of what is held within {span(ages.median)}, 95 % within {span(ages.most)};"
            f" {_percent(ages.within_day)} in the last day,"
            f" {_percent(ages.within_week)} in the last 7 days",
        )
    if changes.rate is not None:
        runs = "run" if changes.runs == 1 else f"{changes.runs} runs"
        new = "1 new page" if changes.new == 1 else f"{changes.new:,} new pages"
        _line(
            console,
            "changes",
            f"{_percent(changes.rate)} of {changes.compared:,} visits to pages that were held, in"
            f" the last {runs}; {new}",
        )
    if counts.error_rate is not None:
        _line(console, "errors", f"{_percent(counts.error_rate)} of pages, at their last visit")
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
    maps = "; 1 sitemap or feed" if counts.sitemaps == 1 else f"; {counts.sitemaps:,} sitemaps"
    return f"{counts.pages:,}{_listed(statuses, ': ')}{maps if counts.sitemaps else ''}"


def _listed(numbers: list[tuple[int, str]], before: str = ", of them ") -> str:
    told = ", ".join(f"{number:,} {word}" for number, word in numbers if number)
    return f"{before}{told}" if told else ""


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):.1f} %".replace(".0 %", " %")


def span(seconds: int | None) -> str:
    """Return a time for people, in the largest unit of which it has two.

    >>> span(0), span(119), span(120), span(7_199), span(7_200), span(172_800)
    ('0 s', '119 s', '2 min', '120 min', '2 h', '2 days')
    """
    seconds = max(0, seconds or 0)  # a clock may have been set back
    for unit, size in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds} s"
