"""The figures of a status in words, each with its label, for the terminal and for pages."""

from __future__ import annotations

from typing import Final

from rich.filesize import decimal

from smartcrawl.reports.status import Cost, SourceStatus, StatusReportCounts, reported_percent
from smartcrawl.reports.text import report_noun, report_time_span

_STATUSES: Final = (
    ("indexed", "indexed"),
    ("crawled", "crawled"),
    ("pending", "pending"),
    ("error", "error"),
    ("out_of_scope", "out of scope"),
    ("gone", "gone"),
)


def status_report_lines(status: SourceStatus) -> list[tuple[str, str]]:
    """Return the figures of one source, or of all together; those of vectors are apart."""
    counts, changes, ages = status.counts, status.changes, status.ages
    lines = [("pages", _pages(counts))]
    clones = "clone" if counts.clones == 1 else "clones"
    held = [(counts.lost, "lost"), (counts.clones, clones), (counts.without_text, "without text")]
    lines.append(("stored", f"{counts.held:,}{_listed(held)}"))
    if ages.median is not None:
        lines.append(
            (
                "visited",
                f"half of the stored pages within {report_time_span(ages.median)}, 95 % within"
                f" {report_time_span(ages.most)}; {reported_percent(ages.within_day)} in the last"
                " day,"
                f" {reported_percent(ages.within_week)} in the last 7 days",
            )
        )
    if changes.rate is not None:
        runs = "run" if changes.runs == 1 else f"{changes.runs} runs"
        visits = "visit" if changes.compared == 1 else "visits"
        lines.append(
            (
                "changes",
                f"{reported_percent(changes.rate)} of {changes.compared:,} {visits} to stored"
                " pages, in the"
                f" last {runs}; {report_noun(changes.new, 'new page')}",
            )
        )
    if counts.error_rate is not None:
        lines.append(
            ("errors", f"{reported_percent(counts.error_rate)} of pages, at their last visit")
        )
    due = [(counts.ordered, "ordered"), (counts.pinned, "pinned")]
    lines.append(("due", f"{counts.due:,}{_listed(due, '; ')}"))
    removals = "removal withheld" if counts.withheld == 1 else "removals withheld"
    lines.append(("orphans", f"{counts.orphans:,}{_listed([(counts.withheld, removals)], '; ')}"))
    down, saved = status.bytes
    text = f"{decimal(down)} downloaded, {decimal(saved)} saved"
    if status.last_run is not None:
        down, saved = status.last_run.bytes
        text += f"; by the last run {decimal(down)} and {decimal(saved)}"
    lines.append(("bytes", text))
    if status.cost.requests:
        lines.append(("cost", _cost(status.cost)))
    return lines


def _cost(cost: Cost) -> str:
    answered = f", {cost.not_modified:,} of them answered 304" if cost.not_modified else ""
    span = report_time_span(cost.seconds)
    return f"{report_noun(cost.requests, 'request')}{answered}; runs of {span}"


def _pages(counts: StatusReportCounts) -> str:
    statuses = [(getattr(counts, name), word) for name, word in _STATUSES]
    maps = "; 1 sitemap or feed"
    if counts.sitemaps != 1:
        maps = f"; {counts.sitemaps:,} sitemaps and feeds"
    return f"{counts.pages:,}{_listed(statuses, ': ')}{maps if counts.sitemaps else ''}"


def _listed(numbers: list[tuple[int, str]], before: str = ", of them ") -> str:
    listed = ", ".join(f"{number:,} {word}" for number, word in numbers if number)
    return f"{before}{listed}" if listed else ""
