"""The closing table: what a run did, whether it saw everything, and what to do next."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from smartcrawl.registry.runs.runs import RunResult
from smartcrawl.rules.model import Word
from smartcrawl.rules.seal import NOT_DUE
from smartcrawl.rules.traps import Trap
from smartcrawl.run.batches import Progress
from smartcrawl.run.run import Run

#: What people can do about the reason that a run is incomplete, by its first word.
REMEDIES = {
    "seed_failed": "check the address, and whether the server answers it",
    "unreachable": "the server or the network was failing; run again later",
    "host_down": "its pages stay as they are; run again when the host answers",
    "robots_unknown": "no page of that host was asked; run again when its robots.txt answers",
    "too_many_links": "links beyond the first 50,000 were not followed",
    "too_many_urls": "addresses beyond the first 50,000 were not followed: split the sitemap",
    "sitemap_failed": "what only it names was not found; run again when it answers",
    "sitemap_nesting": "sitemaps below the third level were not read",
    **{trap.value: trap.words for trap in Trap},
    "max_pages": "raise or leave out max_pages to see everything",
    "pending": "the next run finds them again",
    NOT_DUE: "no run had an answer of these pages since the last complete one began; nothing is"
    " missing, but what no link leads to does not age by this run",
    "no_pages": "nothing was visited: check the seeds and the scope",
    "interrupted": "go on with -a resume=1",
}
#: What people should know about what a run did not believe, by its first word.
NOTES = {
    "temporary_redirects": "their old content stays; is a login needed?",
    "redirect_loops": "their old content stays; the server redirects in circles",
    "challenge": "a wall against bots answered; what was held before stays",
    "login": "a login form answered; what was held before stays",
    "collapsed": "hardly anything is left of too many, or the same text of several; what was"
    " there before stays, and the third run in a row that finds this believes it",
    "unsigned": "an error where no page named their signed address; what was held before stays",
    "other_version": "a 304 named another version; what was held before stays, and the next run"
    " downloads the whole page",
    "extraction_budget": "the documents of the host took more than EXTRACT_SECONDS_PER_HOST; what"
    " was held before stays, and the next run reads them",
    "canonical_ignored": "its pages are indexed under their own addresses",
}
_CHANGES = (Word.NEW, Word.MODIFIED, Word.CLONE)


def print_summary(run: Run, data_dir: str, file: IO[str] | None = None) -> None:
    """Print the closing table of a finished run to ``file``, or to standard output."""
    result = run.result
    assert result is not None, "a run is summed up when it is over"
    console = Console(file=file, highlight=False, soft_wrap=True)
    name = f"Run {result.no} of [bold]{escape(run.source.name)}[/]"
    if result.finished_at is None:
        console.print(f"\n{name} goes on without this worker; so far:")
    else:
        state = "[green]complete[/]" if result.complete else "[yellow]incomplete[/]"
        console.print(f"\n{name}: {state}, {result.finished_at - result.started_at} s")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("pages", justify="right")
    table.add_column("outcome")
    for word in Word:
        if count := result.counts.get(word.word, 0):
            table.add_row(f"{count:,}", word.word)
    console.print(table)
    console.print(
        f"{result.requests:,} requests, {result.conditional_requests:,} of them conditional,"
        f" {result.not_modified:,} answered 304;"
        f" {_size(result.bytes_downloaded)} downloaded, {_size(result.bytes_saved)} saved"
    )
    if result.reextracted:
        pages = _pages(result.reextracted)
        console.print(f"{pages} extracted again, out of snapshots: the configuration changed")
    if result.edits:
        console.print(
            f"{_pages(result.edits)} shrank to less than a tenth of the text and"
            f" {'was' if result.edits == 1 else 'were'} taken as"
            f" {'an edit' if result.edits == 1 else 'edits'}: each has a text of its own"
        )
    _print_snapshots(console, run.batches.progress)
    if result.sitemaps:
        maps = f"{result.sitemaps:,} sitemaps and feeds"
        if result.sitemaps == 1:
            maps = "1 sitemap or feed"
        console.print(f"{maps} with {result.sitemap_urls:,} addresses")
    if result.no_text:
        pages = "1 page has" if result.no_text == 1 else f"{result.no_text:,} pages have"
        console.print(
            f"{pages} no text: what only a script would write cannot be read; to list them: "
            f" {escape(_command('registry', data_dir, '--no-text'))}"
        )
    _print_looks(console, run, result, data_dir)
    changed = sum(result.counts.get(word.word, 0) for word in _CHANGES)
    if (
        result.complete
        and result.not_modified
        and not (changed or result.removed or result.withheld)
    ):
        asked, same = result.visits, result.not_modified
        share = f"all {asked:,}" if same == asked else f"{same:,} of {asked:,}"
        console.print(f"Nothing changed: {share} pages answered 304, no content was written.")
    for reason in result.reasons:
        remedy = REMEDIES.get(reason.partition(":")[0], "")
        console.print(
            f"[yellow]not complete:[/] {escape(reason)}" + (f" ({remedy})" if remedy else "")
        )
    _print_removals(console, run, result, data_dir)
    words = f"--source {shlex.quote(run.source.name)} 'your words'"
    console.print(f"Search it:  {escape(_command('search', data_dir, words))}")


def _print_looks(console: Console, run: Run, result: RunResult, data_dir: str) -> None:
    """Print how to list the pages that somebody may want to look at, and what becomes of them."""
    threshold = run.options.policy.orphan_threshold
    seen = "a complete run sees" if threshold == 1 else f"{threshold} complete runs in a row see"
    for word in (Word.FAILED, Word.LOST, Word.ORPHANED):
        count = result.counts.get(word.word, 0)
        if not count:
            continue
        why, command, which = "", "registry", f"--outcome {word.word} "
        if word is Word.ORPHANED and result.complete:
            why = f": no link led to them, and they stay until {seen} the same"
            command, which = "orphans", ""
        elif word is Word.ORPHANED:
            why = ": this run did not come to them, which says nothing, for it was cut short"
        listed = _command(command, data_dir, f"{which}--source {shlex.quote(run.source.name)}")
        console.print(f"{_pages(count)} {word.word}{why}; to list them:  {escape(listed)}")


def _print_snapshots(console: Console, progress: Progress) -> None:
    """Print of how many pages a snapshot could not be read, or not be stored."""
    told = (
        (
            "not extracted again:",
            progress.unread,
            "the store did not give their snapshots; run again when it does, and where they are"
            " gone for good, crawl once with -a force=1",
        ),
        (
            "not extracted again:",
            progress.lost,
            "their snapshots are missing or damaged; they are fetched whole when their turn comes",
        ),
        (
            "no snapshot stored:",
            progress.not_stored,
            "the store took none; when it does, crawl once with -a force=1",
        ),
    )
    for what, count, why in told:
        if count:
            console.print(f"[yellow]{what}[/] {_pages(count)} ({why})")


def _print_removals(console: Console, run: Run, result: RunResult, data_dir: str) -> None:
    """Print what was removed and what was not, with the command that goes on."""
    for note in result.notes:
        word = note.partition(":")[0]
        what = "not read" if word == "extraction_budget" else "not believed"
        console.print(f"[yellow]{what}:[/] {escape(note)} ({NOTES.get(word, '')})")
    if result.removed:
        undo = _command("undo", data_dir, str(result.no))
        console.print(f"{result.removed:,} removed; to bring them back:  {escape(undo)}")
    if result.withheld:
        share, count = run.options.sweep_max_ratio, run.options.sweep_min_count
        listed = _command("orphans", data_dir, f"--source {shlex.quote(run.source.name)}")
        approved = _command("orphans", data_dir, f"--approve {result.no} --max {result.withheld}")
        console.print(
            f"[yellow]{result.withheld:,} removals are withheld:[/] a sweep takes no more than"
            f" {share:.0%} of a source's pages and {count} of them, and never the last ones\n"
            f"  look at them:  {escape(listed)}\n  remove them:   {escape(approved)}"
        )


def _pages(count: int) -> str:
    """Return a number of pages for people.

    >>> _pages(1), _pages(1_234)
    ('1 page', '1,234 pages')
    """
    return "1 page" if count == 1 else f"{count:,} pages"


def _size(count: int) -> str:
    """Return a number of bytes for people.

    >>> _size(999), _size(1_234_567)
    ('999 B', '1.2 MB')
    """
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _command(name: str, data_dir: str, arguments: str) -> str:
    program = Path(sys.argv[0])
    shown = os.path.relpath(program) if program.is_absolute() else str(program)
    if shown.startswith("..") or program.name == "__main__.py":
        shown = "scrapy"
    told = "" if data_dir == ".smartcrawl" else f" -s DATA_DIR={shlex.quote(data_dir)}"
    return f"{shown} {name}{told} {arguments}"
