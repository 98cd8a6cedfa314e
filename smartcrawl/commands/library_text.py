"""The report of a library's steps as JSON or text."""

from __future__ import annotations

import sys

from smartcrawl.run.library_report import LibraryReport, LibrarySourceReport
from smartcrawl.terminal.output import Output, printed_json

_COUNTS = ("listed", "added", "changed", "removed", "unchanged", "downloaded", "processed",
           "failed", "skipped", "withheld")  # fmt: skip


def print_library_report(report: LibraryReport, output_format: str) -> None:
    """Print a report: JSON is the last line of standard output."""
    if output_format == "json":
        print(printed_json(report.as_json(), sys.stdout))
        return
    output = Output()
    if not report.sources:
        output.say(f"{report.domain.path} declares no source of this scope.")
    for found in report.sources.values():
        _print_source(output, report.action, found)


def _print_source(output: Output, action: str, found: LibrarySourceReport) -> None:
    output.say()
    state = (
        "complete"
        if found.complete
        else f"skipped: {found.reason}"
        if found.reason
        else "incomplete"
    )
    output.say(f"{action} of {found.source.name}: {state}")
    shown = [f"{getattr(found, name):,} {name}" for name in _COUNTS if getattr(found, name)]
    if shown:
        output.say(", ".join(shown), indent=2)
    for reason in found.reasons:
        output.say(f"not complete: {reason}")
