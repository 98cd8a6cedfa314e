"""``smartcrawl embed``: make the vectors that chunks have not, out of the registry."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import closing
from functools import partial
from typing import Final

from smartcrawl.index import audit
from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.index.debts import PaidDebts, pay_embedded_index_debts, remote_index_debts
from smartcrawl.index.embedded.vectors import (
    count_index_texts_to_embed,
    forget_index_vectors,
    index_embedder_number,
    prepare_index_for_vectors,
)
from smartcrawl.index.embedding.choice import open_embedder
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.model.exceptions import EmbedderError, UsageError
from smartcrawl.registry.chunks import refused_chunk_counts
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.command import FAILED, WITHHELD, ChangingCommand, print_json
from smartcrawl.terminal.output import print_complaint

_HARMLESS: Final = "text"  #: a text that every model embeds


class Command(ChangingCommand):
    """Embed the chunks that have no vector."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[--source S | --anew] [--refused] [--dry-run]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Make the missing vectors of stored pages with the embedder that the setting "
            "EMBEDDER names. The text comes from the registry. Searches use vectors once "
            "every chunk has one. It may run while a source is being crawled. Exit "
            "status: 0 every chunk has its vector, 1 not carried out, 3 some have none "
            "yet."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--refused",
            action="store_true",
            help="try the texts that were refused before once more",
        )
        parser.add_argument(
            "--anew",
            action="store_true",
            help="drop the vectors of EMBEDDER and make all of them anew, as for another model",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Embed, or count what would be embedded."""
        embedder = open_embedder(self.options)
        if embedder is None:
            raise UsageError(
                "no embedder: set EMBEDDER to local, onnx or openai (docs/vectors.md)",
            )
        if opts.anew and sources:
            raise UsageError("--anew rebuilds the vectors of all sources: leave --source out")
        names = []
        if self.options.elasticsearch is not None:  # a later claim would win over those of a run
            names = [name for _, name in audit.audited_sources(connection, sources)]
        with (
            closing(embedder),
            self.leased(names),
            closing(index_writer_of_registry(self.options, connection)) as indexing,
        ):
            elsewhere = remote_index_debts(indexing)
            number = index_embedder_number(connection, embedder) or 0
            owed = count_index_texts_to_embed(connection, 0 if opts.anew else number, sources)
            if elsewhere is not None:
                owed += elsewhere.count_unknown(connection, number)
            if opts.refused and not opts.anew:
                refused = refused_chunk_counts(connection, number, sources)
                owed += sum(one.number for one in refused)
            if self.dry:
                self._print(embedder, PaidDebts(owed=owed), opts)
                return
            prepare_index_for_vectors(self.database)
            if embedder.destination and owed:
                print_complaint(
                    self.name,
                    f"the text of {report_noun(owed, 'chunk')} is sent to "
                    f"{embedder.destination}, model {embedder.model}",
                )
            if opts.anew:
                _forget(connection, embedder, number)
            with self.meter(owed) as meter:
                paid = pay_embedded_index_debts(
                    connection,
                    embedder,
                    sources=sources,
                    now=int(time.time()),
                    ttl=self.options.undo_ttl,
                    report=partial(meter.report, "embedded"),
                    elsewhere=elsewhere,
                    refused_too=opts.refused and not opts.anew,
                )
        if paid.error is not None:
            print_complaint(self.name, str(paid.error))
        if paid.owed:
            is_failed = paid.error is not None or paid.unanswered > 0
            self.exitcode = FAILED if is_failed and not paid.embedded else WITHHELD
        self._print(embedder, paid, opts)

    def _print(self, embedder: Embedder, paid: PaidDebts, opts: Namespace) -> None:
        facts: dict[str, object] = {
            "embedder": embedder.name,
            "model": embedder.model,
            "dimension": embedder.dimension,
            "embedded": paid.embedded,
            "refused": paid.refused,
            "owed": paid.owed,
            "dropped": paid.dropped,
            "error": None if paid.error is None else str(paid.error),
            "reasons": [{"url": url, "reason": reason} for url, reason in paid.reasons],
        }
        if opts.format == "json":
            print_json(facts)
            return
        verb = "would be embedded" if self.dry else "embedded"
        number = paid.owed if self.dry else paid.embedded
        parts = [f"{report_noun(number, 'chunk')} {verb}"]
        if paid.refused:
            parts.append(f"{report_noun(paid.refused, 'text')} refused")
        if paid.owed and not self.dry:
            parts.append(f"{report_noun(paid.owed, 'chunk')} still without a vector")
        sys.stdout.write(f"{', '.join(parts)} ({embedder.name}, {embedder.model})\n")
        for url, reason in paid.reasons:
            sys.stdout.write(f"  {url}: {reason}\n")
        if (more := paid.refused + paid.unanswered - len(paid.reasons)) > 0:
            sys.stdout.write(f"  and {more:,} more\n")


def _forget(connection: Connection, embedder: Embedder, number: int) -> None:
    """Drop the vectors of an embedder, once it has made one.

    Raises:
        EmbedderError: it makes none now, and the former ones stay.
    """
    (found,) = embedder.embed([_HARMLESS])
    if isinstance(found, RefusedText):
        raise EmbedderError(
            f"the embedder refuses every text ({found.reason}); the stored vectors stay",
            lasting=True,
        )
    with transaction(connection):
        forget_index_vectors(connection, number)
