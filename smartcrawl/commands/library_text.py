"""The report of a library's steps as JSON or text."""

from __future__ import annotations

import sys

from rich.markup import escape

from smartcrawl.commands.summary import summary_command_line
from smartcrawl.registry.library.shortfall import TRIMMED
from smartcrawl.reports.remedies import NOTES, reported_reason
from smartcrawl.reports.text import report_noun
from smartcrawl.run.library.report import LibraryReport
from smartcrawl.run.library.result import COUNTS, LibraryResult
from smartcrawl.run.pushing import run_left_uploads_in_words
from smartcrawl.terminal.output import Output, printed_json

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
