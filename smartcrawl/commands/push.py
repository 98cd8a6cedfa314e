"""``smartcrawl push``: make a vector store equal to the stored pages of a source."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from typing import Any

from smartcrawl.index.vectorstore.ports import Pushed
from smartcrawl.model.exceptions import PushHeldError, UsageError
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.text import report_noun
from smartcrawl.run.pushing import (
    push_run_source,
    run_left_uploads_in_words,
    run_would_push,
)
from smartcrawl.terminal.command import FAILED, HELD, WITHHELD, ChangingCommand, print_json
from smartcrawl.terminal.output import print_complaint


class Command(ChangingCommand):
    """Push the pages of a source to a vector store."""

    def syntax(self) -> str:
        """Return its usage."""
        return "--source NAME [--dry-run]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Upload the new and changed pages of a source to the vector store "
            "VECTOR_STORE_ID of the server VECTOR_STORE_URL, as Markdown files, and "
            "remove the files of removed pages. Their text comes from the registry. "
            "Files of other programs are not touched; files removed from the store "
            "remain in the account. It may run while the source is being crawled. Exit "
            "status: 0 the store has every page, 1 not carried out, 3 it lacks some, 4 "
            "another process pushes to it."
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Check the options, then do the work."""
        if not opts.source:
            raise UsageError(
                f"give a source, such as: {program_name()} {self.name} --source NAME",
            )
        super().run(args, opts)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Push, or count what would be pushed."""
        options = self.options.vector_store
        if options is None:
            raise UsageError(
                "no vector store: set VECTOR_STORE_ID to its id (docs/vector-stores.md)",
            )
        if len(sources) > 1:
            raise UsageError(f"give one source of: {', '.join(sources)}")
        source = sources[0]
        would = run_would_push(connection, options, source)
        if self.dry:
            self._print(would, source, options, opts)
            return
        if would.uploaded:
            print_complaint(
                self.name,
                f"the text of {report_noun(would.uploaded, 'page')} is sent to "
                f"{options.destination}, vector store {options.store}",
            )
        try:
            with self.database.translated("write"), self.meter(would.pages) as meter:
                report = partial(meter.report, "pushed")
                pushed = push_run_source(connection, self.database, options, source, report=report)
        except PushHeldError as error:
            print_complaint(self.name, str(error))
            self.exitcode = HELD
            return
        for url, why in pushed.failed:
            print_complaint(self.name, f"{url}: {why}")
        if pushed.error is not None:
            print_complaint(self.name, pushed.error)
        if not pushed.is_whole:
            did = pushed.completed or pushed.detached or pushed.adopted or pushed.error is None
            self.exitcode = WITHHELD if did else FAILED
        self._print(pushed, source, options, opts)

    def _print(
        self, pushed: Pushed, source: str, options: VectorStoreOptions, opts: Namespace
    ) -> None:
        if opts.format == "json":
            print_json(_facts(pushed, source, options))
            return
        would = "would be " if self.dry else ""
        parts = [
            f"{report_noun(pushed.pages, 'page')} of {source}",
            f"{pushed.unchanged:,} unchanged",
            f"{pushed.completed:,} {would}pushed",
        ]
        numbers = {
            f"{would}removed": pushed.detached,
            "adopted": pushed.adopted,
            "failed": len(pushed.failed),
            "still in progress": len(pushed.in_progress),
        }
        parts += [f"{number:,} {word}" for word, number in numbers.items() if number]
        sys.stdout.write(f"{', '.join(parts)} ({options.store})\n")
        if pushed.left:
            command = self.again("library", "cleanup", "--files")
            line = run_left_uploads_in_words(pushed.left, command, is_dry=self.dry)
            sys.stdout.write(f"{line}\n")


def _facts(pushed: Pushed, source: str, options: VectorStoreOptions) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "source": source,
        "vectorStoreId": options.store,
        "pages": pushed.pages,
        "unchanged": pushed.unchanged,
        "uploaded": pushed.uploaded,
        "completed": pushed.completed,
        "adopted": pushed.adopted,
        "detached": pushed.detached,
        "left": pushed.left,
        "failed": [{"url": url, "why": why} for url, why in pushed.failed],
        "inProgress": pushed.in_progress,
        "error": pushed.error,
    }
    return facts | ({"dryRun": True} if pushed.is_dry else {})
