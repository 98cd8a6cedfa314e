"""The closing table of a run: its counts, what it missed, and the commands that go on."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import IO

from smartcrawl.model.program import (
    OURS,
    program_argument,
    program_as_typed,
    program_crawl_line,
    program_name,
)
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.reports.remedies import NOTES, reported_reason, unreached_page_reason
from smartcrawl.reports.removals import withholding_text
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.model import Word
from smartcrawl.rules.run_orders import ORDER_REASONS
from smartcrawl.rules.seal import only_by_order, only_not_due, seed_led_to
from smartcrawl.run.batches import RunCounters
from smartcrawl.run.run import Run
from smartcrawl.run.site_starts import other_site_part, site_part_words
from smartcrawl.sources.kinds import SHAREPOINT
from smartcrawl.sources.site import SiteSource
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output
from smartcrawl.terminal.state_folder import LOCAL, data_dir_words
from smartcrawl.terminal.tables import print_table, printed_number_column, printed_word_column

#: What a run may have found where it is not said that nothing changed.
_NEWS = (Word.NEW, Word.MODIFIED, Word.CLONE, Word.LOST)
_STILL_GONE = "still gone"  #: of removed pages that were asked for again, and are missing
#: Of a shared run that this worker left by order, and others have not left yet.
_LEFT = {
    order: f"will be {word} once its other workers have left it"
    for order, word in ORDER_REASONS.items()
}

#: What became of the pages of a note, by its first word.
_NOTED = {
    "extraction_budget": "not read",
    "trimmed": "withheld",
    "endless": "left out",
    "faulty_parts": "left out",
    "unread_files": "left out",
}


def print_crawl_summary(run: Run, data_dir: str, file: IO[str] | None = None) -> None:
    """Print the closing table of a finished run to ``file``, or to standard output."""
    result = run.result
    assert result is not None, "a run is summed up when it is over"
    output = Output(file)
    _print_state(output, run, result)
    ways = {kind.is_listed for kind in run.source.kinds}
    _print_counts(output, result, ways)
    _print_reading(output, run, result, data_dir)
    _print_looks(output, run, result, data_dir)
    _print_unchanged(output, result, ways)
    is_meant = only_not_due(result.reasons) or only_by_order(result.reasons)
    for reason in result.reasons:
        name, is_library = run.source.name, SHAREPOINT in run.source.kinds
        words = reported_reason(reason, result.no, source=name, is_library=is_library)
        mark = "left out:" if is_meant else "[yellow]not complete:[/]"
        output.say(f"{mark} {escape(words)}")
        if (led := seed_led_to(reason)) is not None:
            start = program_crawl_line(shlex.quote(led)).split(" ", 2)[2]
            line = summary_command_line("crawl", data_dir, start)
            output.say("  to crawl where it leads:", command=line, indent=4)
    _print_removals(output, run, result, data_dir)
    _print_part(output, run, result, data_dir)
    words = f"--source {shlex.quote(run.source.name)} 'your words'"
    if result.is_one_stored:
        output.say("Search it:", command=summary_command_line("search", data_dir, words))
    elif result.is_empty and run.source.ad_hoc and result.finished_at and not result.complete:
        name = f"--source {shlex.quote(run.source.name)}"
        output.say(
            "Nothing was stored. To remove this source:",
            command=summary_command_line("forget", data_dir, name),
        )
    if program_name() == OURS and (place := _place(run, data_dir)):
        output.line(f"Stored in:  {escape(place)}")


def _place(run: Run, data_dir: str) -> str:
    """Return where the pages are; empty: in the folder that needs no name."""
    if isinstance(run.options.registry, str):
        return str(registry_database(run.options.registry))
    return "" if Path(data_dir) == Path(LOCAL).absolute() else data_dir


def _print_part(output: Output, run: Run, result: RunResult, data_dir: str) -> None:
    """Print which part of its host a new address stands for, and how to get the other."""
    source = run.source
    if not (isinstance(source, SiteSource) and source.by_default) or result.is_empty:
        return
    found = run.seeds.decided or source
    others, other = other_site_part(found)
    option = program_argument("scope", other)
    start = program_crawl_line(shlex.quote(redacted_text(source.seeds[0]))).split(" ", 2)[2]
    output.say(
        f"This is {escape(site_part_words(found))}. {others}:",
        command=summary_command_line("crawl", data_dir, f"{start} {option}"),
    )


def _print_state(output: Output, run: Run, result: RunResult) -> None:
    name = f"Run {result.no} of [bold]{escape(run.source.name)}[/]"
    output.say()
    if result.finished_at is None:
        order = run.halt.order
        left = "continues without this worker" if order is None else _LEFT[order]
        output.say(f"{name} {left}; so far:")
        return
    state = "[green]complete[/]" if result.complete else "[yellow]incomplete[/]"
    if only_not_due(result.reasons):
        state = "[green]checked the pages that were due[/]"
    elif only_by_order(result.reasons):
        state = "[yellow]incomplete, as requested[/]"
    for word in ORDER_REASONS.values():
        if word in result.reasons:
            state = f"[yellow]{word}[/]"
    seconds = run.seconds
    if seconds is None:  # another process began it: the clock may have been set back since
        seconds = max(0, result.finished_at - result.started_at)
    output.say(f"{name}: {state}, {seconds} s")


def _print_counts(output: Output, result: RunResult, ways: set[bool]) -> None:
    """Print the pages by outcome, the requests and the bytes; sitemaps have a line of their own.

    Records whose outcome is of an earlier run, such as removed pages, are left out.
    ``ways``: in which pages are found: True by a listing, False by links.
    """
    pages = Counter(result.own_counts)
    pages[Word.EXCLUDED.word] -= result.sitemaps_excluded
    pages.subtract(result.sitemaps_in_vain)
    rows = [{"pages": pages[one.word], "outcome": one.word} for one in Word if pages[one.word] > 0]
    if result.still_gone:
        rows.append({"pages": result.still_gone, "outcome": _STILL_GONE})
    print_table(
        (printed_number_column("pages"), printed_word_column("outcome")), rows, file=output.file
    )
    if ways == {True, False}:
        output.say(
            f"{report_noun(result.requests, 'request')} for files and pages; "
            f"{result.not_modified:,} unchanged by the listing or a 304; "
            f"{_size(result.bytes_downloaded)} read, {_size(result.bytes_saved)} saved"
        )
        return
    if True in ways:
        output.say(
            f"{report_noun(result.requests, 'file')} read, {result.not_modified:,} "
            f"unchanged by the listing; {_size(result.bytes_downloaded)} read, "
            f"{_size(result.bytes_saved)} saved"
        )
        return
    output.say(
        f"{report_noun(result.requests, 'request')}, {result.conditional_requests:,} of them"
        f" conditional, {result.not_modified:,} answered 304;"
        f" {_size(result.bytes_downloaded)} downloaded, {_size(result.bytes_saved)} saved"
    )
    if result.data_requests or result.renderings:
        output.say(
            f"{report_noun(result.renderings, 'rendering')};"
            f" {report_noun(result.data_requests, 'request')} more, for data of rendered pages"
        )


def _print_reading(output: Output, run: Run, result: RunResult, data_dir: str) -> None:
    """Print which pages were extracted again, shrank or have no text, and the sitemaps."""
    if result.reextracted:
        pages = report_noun(result.reextracted, "page")
        output.say(
            f"{pages} extracted again from stored snapshots, because the configuration changed"
        )
    if result.edits == 1:
        output.say(
            "1 page shrank to less than a tenth of its text; taken as an edit, as few pages did"
        )
    elif result.edits:
        output.say(
            f"{result.edits:,} pages shrank to less than a tenth of their text; taken as "
            "edits, as few pages did"
        )
    _print_snapshots(output, run.batches.progress)
    if result.sitemaps:
        maps = f"{result.sitemaps:,} sitemaps and feeds"
        if result.sitemaps == 1:
            maps = "1 sitemap or feed"
        urls = "1 address" if result.sitemap_urls == 1 else f"{result.sitemap_urls:,} addresses"
        output.say(f"{maps} with {urls}")
    if in_vain := sum(result.sitemaps_in_vain.values()):
        brought = "1 sitemap or feed" if in_vain == 1 else f"{in_vain:,} sitemaps and feeds"
        listed = f"--sitemaps --source {shlex.quote(run.source.name)}"
        output.say(
            f"{brought} could not be read. List all:",
            command=summary_command_line("registry", data_dir, listed),
        )
    if result.no_text:
        have = "has" if result.no_text == 1 else "have"
        them = "it" if result.no_text == 1 else "them"
        script = ": text written by scripts in the browser is not seen"
        output.say(
            f"{report_noun(result.no_text, 'page')} {have} no "
            f"text{'' if run.source.traits.is_listed else script}. List {them}:",
            command=summary_command_line(
                "registry", data_dir, f"--no-text --source {shlex.quote(run.source.name)}"
            ),
        )


def _print_looks(output: Output, run: Run, result: RunResult, data_dir: str) -> None:
    """Print which pages failed or were orphaned, how long they stay, and how to list them."""
    threshold = run.options.policy.orphan_threshold
    seen = "a complete run sees" if threshold == 1 else f"{threshold} complete runs in a row see"
    for one in (Word.FAILED, Word.LOST, Word.ORPHANED):
        count, before = result.own_counts.get(one.word, 0), result.earlier.get(one.word, 0)
        count -= result.sitemaps_in_vain.get(one.word, 0)
        if not count:
            continue
        them, they_stay = ("it", "it stays") if count == 1 else ("them", "they stay")
        why, command, which = "", "registry", f"--outcome {one.word} "
        if one is Word.LOST:
            why = ": it now returns an error; its last good copy is still searchable"
            if count > 1:
                why = ": they now return errors; their last good copies are still searchable"
        elif one is Word.ORPHANED and run.source.traits.is_listed:
            why = ": not in the listing any more"
            if len(run.source.kinds) > 1:
                why += f", or no page links to {them}"
            if not result.complete:
                why = f": the listing was incomplete, so nothing counts against {them}"
        elif one is Word.ORPHANED and (result.complete or only_not_due(result.reasons)):
            why = f": no page links to {them} any more; {they_stay} until {seen} the same"
            command, which = "orphans", ""
        elif one is Word.ORPHANED and only_by_order(result.reasons):
            why = f": this run was ordered to leave {them} out, so nothing counts against {them}"
        elif one is Word.ORPHANED:
            why = (
                f": {unreached_page_reason(result.reasons, them)}, so nothing counts against {them}"
            )
        listed = summary_command_line(
            command, data_dir, f"{which}--source {shlex.quote(run.source.name)}"
        )
        found = f"{report_noun(count, 'page')} {one.word}"
        if before:  # the command lists by word
            found, them = f"{found} in this run, {before:,} in earlier ones", "them"
        output.say(f"{found}{why}. List {them}:", command=listed)


def _print_unchanged(output: Output, result: RunResult, ways: set[bool]) -> None:
    """Print that nothing changed, where a complete run found no change and few failures.

    A page that never answered 200, as behind a dead link, is failed in every run. Where more pages
    failed than answered 304, most of the source was not seen.
    ``ways``: see ``_print_counts``.
    """
    counts = result.own_counts
    news = sum(counts.get(one.word, 0) for one in _NEWS)
    news += counts.get(Word.FAILED.word, 0) > result.not_modified
    written = result.reextracted or result.edits or result.removed
    if not result.complete or news or written or result.withheld or result.turned:
        return
    asked, same = result.visits, result.not_modified
    if True in ways:
        if same == asked > 0:
            by, what = ("listing or a 304", "page") if False in ways else ("listing", "file")
            pages = report_noun(same, what)
            output.say(f"Nothing changed: the {by} confirms {pages}; no content was written.")
        return
    if asked == same == 1:
        output.say("Nothing changed: the only page returned 304; no content was written.")
    elif same:
        share = f"all {asked:,}" if same == asked else f"{same:,} of {asked:,}"
        what = "pages and sitemaps" if result.sitemaps else "pages"
        output.say(f"Nothing changed: {share} {what} returned 304; no content was written.")


def _print_snapshots(output: Output, progress: RunCounters) -> None:
    """Print how many snapshots could not be read or stored, and the remedy."""
    force = program_argument("force")
    failures = (
        (
            "not extracted again:",
            progress.unread,
            "the snapshot store could not be reached; the next run reads them again, or "
            "downloads them if it is still away",
        ),
        (
            "not extracted again:",
            progress.lost,
            "their snapshots are missing or damaged; they are downloaded again at their next visit",
        ),
        (
            "no snapshot stored:",
            progress.not_stored,
            f"the snapshot store could not be written to; once it can, crawl once with {force}",
        ),
    )
    for what, count, why in failures:
        if count:
            output.say(f"[yellow]{what}[/] {report_noun(count, 'page')} ({why})")


def _print_removals(output: Output, run: Run, result: RunResult, data_dir: str) -> None:
    """Print which removals were made, withheld or refused, with the command that goes on."""
    for note in result.notes:
        kind = note.partition(":")[0]
        what = _NOTED.get(kind, "not used")
        meant = NOTES.get(kind, "").format(program=program_name())
        output.say(f"[yellow]{what}:[/] {escape(note)} ({meant})")
    if result.removed:
        undo = summary_command_line("undo", data_dir, str(result.no))
        back = f"{'it' if result.removed == 1 else 'them'} back"
        if moved := result.own_counts.get(Word.MOVED.word, 0):
            back += f", including the old addresses of {report_noun(moved, 'renamed file')}"
        output.say(f"{result.removed:,} removed. To bring {back}:", command=undo)
    if result.withheld:
        share, count = run.options.sweep_max_ratio, run.options.sweep_min_count
        listed = summary_command_line(
            "orphans", data_dir, f"--source {shlex.quote(run.source.name)}"
        )
        approved = summary_command_line(
            "orphans", data_dir, f"--approve {result.no} --max {result.withheld}"
        )
        verb = "is" if result.withheld == 1 else "are"
        them = "it" if result.withheld == 1 else "them"
        why = withholding_text(share, count)
        if any(note.startswith("trimmed:") for note in result.notes):
            why = "the listing may lack items that the app cannot see"
        withheld = report_noun(result.withheld, "removal")
        output.say(f"[yellow]{withheld} {verb} withheld:[/] {why}")
        output.say(f"  look at {them}:", command=listed, indent=4)
        if result.complete or not run.source.traits.is_listed:
            output.say(f"  remove {them}:", command=approved, gap=3, indent=4)
        else:  # what the listing did not see may be there
            output.say(f"  {them} can be removed once a run is complete", indent=4)


def _size(count: int) -> str:
    """Return a number of bytes in the largest unit that keeps it at 1 or above.

    >>> _size(999), _size(1_234_567)
    ('999 B', '1.2 MB')
    """
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def summary_command_line(name: str, data_dir: str, arguments: str) -> str:
    """Return the command line of a command over the same registry."""
    setting = "" if data_dir == LOCAL else f" -s DATA_DIR={shlex.quote(data_dir)}"
    if program_name() == OURS:
        setting = "".join(f" {shlex.quote(word)}" for word in data_dir_words(Path(data_dir)))
    return f"{program_as_typed()} {name}{setting} {arguments}"
