"""``smartcrawl undo``: restore the pages that were removed under the number of a run."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import ClassVar, Final

from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.index.remote import index_document_chunker
from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.program import program_name
from smartcrawl.model.setting_values import MOST_NUMBER, given_number
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.orders import COMMAND_LINE, RemovalAction, new_removal_order
from smartcrawl.registry.removal.purge import (
    Removals,
    forgotten_removal_counts,
    removal_rows,
    source_row_of_run,
    undo_stored_removals,
)
from smartcrawl.registry.removal.sweep import Undone, undoable_rows
from smartcrawl.reports.removals import undo_result
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import RemovalRule
from smartcrawl.terminal.command import (
    FAILED,
    ChangingCommand,
    print_json,
    single_terminal_argument,
)
from smartcrawl.terminal.output import print_complaint, print_note

_SHOWN = 10  #: runs in a message
#: Rules whose pages do not exist. A pinned page is requested, so that it ages by its answers.
_NOT_THERE: Final = (RemovalRule.GONE, RemovalRule.ABSENT, RemovalRule.MOVED)


class Command(ChangingCommand):
    """Restore removed pages."""

    takes_words: ClassVar = True

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] RUN"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Restore every page that was removed under the number of RUN, as it was: by its"
            " sweep, and by commands before the next run. The pages count as seen by the latest"
            f" run. --pin makes them seeds of their source, until {program_name()} forget."
            " Exit status: 0 something was restored, 1 nothing could be, 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--pin", action="store_true", help="keep them, whether or not a link leads there"
        )
        self.add_order(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Restore the pages of a run."""
        word = single_terminal_argument(args, "run", f"{program_name()} undo 7")
        run = given_number(word)
        if run is None or run > MOST_NUMBER:
            raise UsageError(f"{word!r} is not the number of a run; see {program_name()} runs")
        found = removal_rows(connection, sources=sources)
        known = next((entry for entry in found if entry.run == run), None)
        if known is None:
            raise RegistryError(_nothing(connection, run, sources, found))
        if self.dry:
            self._print(known, undoable_rows(connection, run), opts)
            return
        order = new_removal_order(
            known.source, RemovalAction.UNDO, run, COMMAND_LINE, int(time.time())
        )
        with (
            self.kept(connection, replace(order, is_pinned=opts.pin), opts) as result,
            self.leased([known.source]) as now,
            closing(index_writer_of_registry(self.options, connection)) as indexing,
        ):
            undone = undo_stored_removals(
                connection,
                indexing,
                run,
                now,
                pin=opts.pin,
                chunked=index_document_chunker(self.options.chunks),
            )
            if undone.restored or opts.order is not None:
                result.update(undo_result(undone))
        self._print(known, undone, opts)

    def _print(self, known: Removals, undone: Undone, opts: Namespace) -> None:
        would = "would be " if self.dry else ""
        if opts.format == "json":
            print_json(
                ({"dryRun": True} if self.dry else {})
                | {
                    "run": known.run,
                    "source": known.source,
                    "restored": list(undone.restored),
                    "kept": list(undone.kept),
                    "expired": list(undone.expired),
                    "newerRuns": sorted(set(undone.newer.values())),
                    "pinned": opts.pin,
                }
            )
        else:
            for word, urls in (
                ("restored", undone.restored),
                ("kept    ", undone.kept),
                ("expired ", undone.expired),
            ):
                for url in urls:
                    print(f"{would}{word} {url}{_because(undone, url)}")
            pages = report_noun(len(undone.restored), "page")
            pinned = ", and pinned" if opts.pin and undone.restored else ""
            print_note(f"{pages} of {known.source} {would}restored{pinned}")
            for run, count in sorted(Counter(undone.newer.values()).items()):
                print_note(
                    f"run {run} removed newer content of {report_noun(count, 'page')}; put it in"
                    " place of this with:",
                    command=self.again("undo", run),
                    gap=1,
                )
            if opts.pin:
                for text in _not_protected(undone, self.options.policy):
                    print_note(text)
        if not undone.restored:
            print_complaint("undo", f"nothing {would or 'was '}restored: {_why(known, undone)}")
            self.exitcode = FAILED


def _because(undone: Undone, url: str) -> str:
    """Return the run that decided over a page, and how, in words; "" if none did."""
    if (run := undone.changed.get(url)) is not None:
        return f": run {run} stored newer content"
    if (runs := undone.older.get(url)) is not None:
        return f": {_older(*runs)}"
    if (run := undone.newer.get(url)) is not None:
        return f": older content; run {run} removed newer one"
    if (run := undone.replaced.get(url)) is not None:
        return f": in place of the older content that undo {run} had restored"
    return ""


def _older(undone: int, confirmed: int | None) -> str:
    """Return why older content stays that an undo restored."""
    if confirmed is not None:
        return f"run {confirmed} confirmed the older content that undo {undone} had restored"
    return (
        f"undo {undone} had restored older content, which could not be brought back"
        f" (UNDO_TTL_SECONDS): {program_name()} forget its address first"
    )


def _not_protected(undone: Undone, policy: Policy) -> Iterator[str]:
    """Yield how many restored pages a pin does not keep, and the runs that remove them again."""
    counts = Counter(undone.rules.values())
    gone = sum(counts[rule] for rule in _NOT_THERE)
    if gone and policy.purge_statuses != frozenset():
        it, most = "it" if gone == 1 else "them", policy.lost_threshold
        runs = "the next run that finds {} gone removes {} again"
        if most > 1:
            runs = f"{most} runs in a row that find {{}} gone remove {{}} again"
        yield f"a pin does not keep {report_noun(gone, 'page')}: {runs.format(it, it)}"
    if refused := counts[RemovalRule.NOT_ACCEPTABLE]:
        it = "it" if refused == 1 else "them"
        yield (
            f"a pin does not keep {report_noun(refused, 'page')}: the next run that finds that the"
            f" server forbids to index {it} removes {it} again"
        )


def _why(known: Removals, undone: Undone) -> str:
    reasons = []
    if known.undone:
        were = "was" if known.undone == 1 else "were"
        reasons.append(f"{report_noun(known.undone, 'page')} {were} restored before")
    if undone.changed:
        have = "has" if len(undone.changed) == 1 else "have"
        runs = sorted({run for run in undone.changed.values() if run is not None})
        by = f", stored by {_runs(runs)}" if runs else ""
        pages = report_noun(len(undone.changed), "page")
        reasons.append(f"{pages} {have} newer content by now{by}")
    for pair, count in Counter(undone.older.values()).items():
        reasons.append(f"of {report_noun(count, 'page')} {_older(*pair)}")
    if undone.expired:
        reasons.append(
            f"the content of {report_noun(len(undone.expired), 'page')} is no longer stored"
            " (UNDO_TTL_SECONDS)"
        )
    return "; ".join(reasons)


def _runs(numbers: list[int]) -> str:
    noun = "run" if len(numbers) == 1 else "runs"
    return f"{noun} {', '.join(map(str, numbers))}"


def _nothing(connection: Connection, run: int, sources: list[str], found: list[Removals]) -> str:
    exists = source_row_of_run(connection, run)
    expired = forgotten_removal_counts(connection, sources=sources)
    if exists is None:
        what = f"there is no run {run}"
    elif sources and exists[1] not in sources:
        what = f"run {run} is of {exists[1]}"
    elif count := expired.get(run):
        were = "was" if count == 1 else "were"
        what = f"{report_noun(count, 'page')} {were} removed in run {run}, and forgotten since"
    else:
        what = f"nothing was removed in run {run}"
    if not found and expired:
        return (
            f"{what}; what was removed so far cannot be brought back any more (UNDO_TTL_SECONDS,"
            " GONE_TTL_SECONDS)"
        )
    if not found:
        return f"{what}; nothing was removed so far, so there is nothing to bring back"
    listed = "".join(
        f"\n  {entry.run}  {entry.source}: {entry.restorable} of"
        f" {report_noun(entry.count, 'page')} can"
        f" be restored, removed {iso_time(entry.at)}"
        for entry in found[:_SHOWN]
    )
    return f"{what}; runs that removed something:{listed}"
