"""``scrapy audit``: compare the registry with the index elsewhere that it writes, and mend it."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from scrapy.exceptions import UsageError

from smartcrawl.auditing import (
    Comparison,
    Finding,
    Findings,
    Kind,
    Mender,
    is_ahead,
    next_epoch,
    take_over,
)
from smartcrawl.cli import WITHHELD, ChangingCommand, count, print_json, print_table
from smartcrawl.exceptions import SinkError
from smartcrawl.indexes import chunked, comparable, known_to, opened, opened_as
from smartcrawl.logs import json_safe
from smartcrawl.ports import Connection
from smartcrawl.registry import audit
from smartcrawl.registry.indexing import RemoteIndexing
from smartcrawl.registry.sequences import last
from smartcrawl.rules.absence import Loss, withholds
from smartcrawl.sinks.elasticsearch.meta import Known
from smartcrawl.sinks.elasticsearch.pages import ElasticsearchPages
from smartcrawl.sinks.elasticsearch.sink import ElasticsearchSink, Opening

_SHOWN: Final = 20  #: differences of each kind in a table
_SILENT: Final = 2  #: seconds between two lines of progress
_COLUMNS: Final = ("difference", "source", "page", "detail")
_EMBEDDED: Final = (
    "the index lies in the registry, and one transaction writes both: they cannot differ"
)
_AHEAD: Final = (
    "the index holds numbers that this registry has not given out: it was restored from a backup,"
    " or something else writes to the index"
)
_WORDS: Final = {
    Kind.MISSING: "documents that lack",
    Kind.SURPLUS: "documents that are too many",
    Kind.CHANGED: "documents with other content",
    Kind.OPEN: "records that are open",
    Kind.DEAD: "dead letters",
}


class Command(ChangingCommand):
    """Compare registry and index, and mend what differs."""

    def syntax(self) -> str:
        """Return how it is called."""
        return "[--repair [--max N]] [options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Compare the registry with its Elasticsearch, and mend what differs"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "Compare every page that the registry holds with its document in the Elasticsearch, by"
            " key, number and hash of the content. --repair writes what lacks or has other"
            " content, without one download, and takes out what is too many; it takes over an"
            " index that was replaced or restored. The index beside the registry needs none of it."
            " Exit status: 0 both agree, or agree now; 1 not carried out; 3 they differ; 4 a run"
            " is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--repair", action="store_true", help="mend what differs")
        parser.add_argument(
            "--max",
            type=count,
            metavar="N",
            help="take at most N pages out of an index that is taken over, whatever the guard says",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Compare, and mend."""
        if opts.max is not None and not opts.repair:
            raise UsageError("--max goes with --repair", print_help=False)
        if not comparable(self.options, connection):
            self._tell_embedded(opts)
            return
        if not opts.repair:
            with (
                self.database.translated("read"),
                opened(self.options, connection, Opening.ANY) as sink,
            ):
                self._look(connection, sink, sources, opts)
            return
        names = [name for _, name in audit.sources(connection, sources)]
        with self.leased(names) as now, opened(self.options, connection, Opening.ANY) as sink:
            self._repair(connection, sink, sources, now, opts)

    def _tell_embedded(self, opts: Namespace) -> None:
        if opts.format == "json":
            print_json({"index": "embedded", "agree": True})
        else:
            print(_EMBEDDED)

    def _look(
        self, connection: Connection, sink: ElasticsearchSink, sources: list[str], opts: Namespace
    ) -> None:
        facts = known_to(connection)
        for _, name in audit.sources(connection, sources):
            if self.database.is_held(name):
                print(
                    f"audit: {name} is being crawled: what is written just now may seem to differ",
                    file=sys.stderr,
                )
        with Comparison(connection, sink, _Ticker().tell).compare(sources) as found:
            why = _strange(connection, sink, facts, found)
            self._report(found, None, why, opts)

    def _repair(
        self,
        connection: Connection,
        sink: ElasticsearchSink,
        sources: list[str],
        now: int,
        opts: Namespace,
    ) -> None:
        facts, ticker = known_to(connection), _Ticker()
        wrong = sink.mismatch(facts)
        foreign = facts.identity != sink.identity()
        if wrong is not None and not foreign and sink.highest() > facts.sealed:
            raise SinkError(wrong)  # the registry is what was restored
        with Comparison(connection, sink, ticker.tell).compare(sources) as found:
            strange = _strange(connection, sink, facts, found)
            if strange is not None and sources:
                raise SinkError(f"{strange}; to mend it, compare all of it: without --source")
            gone = found.counts[Kind.SURPLUS]
            if foreign and self._withheld(gone, found.documents, opts.max):
                return
            ahead = is_ahead(found, facts, last(connection, "number"))
            epoch = next_epoch(found, facts, sink.highest()) if foreign or ahead else facts.epoch
            with opened_as(self.options, replace(facts, epoch=epoch), Opening.ANY) as writing:
                indexing = RemoteIndexing(ElasticsearchPages(writing), chunked)
                Mender(connection, indexing, writing, now, ticker.tell).mend(found)
                if not sources:
                    take_over(connection, writing, facts, epoch)
                    indexing.seal(connection)
                with Comparison(connection, writing, ticker.tell).compare(sources) as left:
                    told = known_to(connection)
                    still = _strange(connection, writing, told, left)
                    self._report(found, left, strange, opts, still=still)

    def _withheld(self, gone: int, documents: int, most: int | None) -> bool:
        """Whether an index that is taken over would lose too much, which is told then."""
        options = self.options
        ratio, least = options.sweep_max_ratio, options.sweep_min_count
        if most is None:
            loss = Loss(gone, documents)
            too_many = withholds(loss, loss, max_ratio=ratio, min_count=least)
        else:
            too_many = gone > most
        if too_many:
            self.withhold(
                f"the index is not the one that this registry wrote, and {gone} of the"
                f" {documents} pages in it are unknown here; if it is to be taken over, give"
                " their number",
                "audit",
                "--repair",
                "--max",
                gone,
            )
        return too_many

    def _report(
        self,
        found: Findings,
        left: Findings | None,
        strange: str | None,
        opts: Namespace,
        *,
        still: str | None = None,
    ) -> None:
        if left is None:
            agree = not found.total() and strange is None
        else:
            agree = not left.total() and still is None
        if opts.format == "json":
            _print_json(found, left, strange, agree=agree)
        else:
            _print_table(found, left, strange, agree=agree)
        if not agree:
            self.exitcode = WITHHELD
            if left is None:
                only = ["--source", opts.source] if opts.source else []
                print(f"audit: mend it with: {self.again('audit', '--repair', *only)}",
                      file=sys.stderr)  # fmt: skip
            else:
                print("audit: some of it could not be mended", file=sys.stderr)


class _Ticker:
    """Says on standard error how far something is that takes longer than two seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def tell(self, doing: str, number: int) -> None:
        """Take note of how many pages were done."""
        now = self._clock()
        if now - self._last >= _SILENT:
            self._last = now
            print(f"audit: {number:,} pages {doing}", file=sys.stderr, flush=True)


def _strange(
    connection: Connection, sink: ElasticsearchSink, facts: Known, found: Findings
) -> str | None:
    """Return why the index is not the one that the registry knows; None if it is."""
    wrong = sink.mismatch(facts)
    if wrong is None and is_ahead(found, facts, last(connection, "number")):
        return _AHEAD
    return wrong


def _print_table(
    found: Findings, left: Findings | None, strange: str | None, *, agree: bool
) -> None:
    print(f"{found.pages:,} pages in the registry, {found.documents:,} documents in the index")
    if strange is not None:
        print(strange)
    shown = found if left is None else left
    rows = [_row(kind, one) for kind in Kind for one in islice(shown.of(kind), _SHOWN)]
    for kind in Kind:
        after = "" if left is None else f", {left.counts[kind]:,} left"
        print(f"{found.counts[kind]:7,} {_WORDS[kind]}{after}")
    if rows:
        print()
        print_table(_COLUMNS, rows)
    more = sum(max(0, shown.counts[kind] - _SHOWN) for kind in Kind)
    if more:
        print(f"and {more:,} more (--format json lists all)")
    if agree:
        print("registry and index agree")


def _row(kind: Kind, one: Finding) -> dict[str, Any]:
    return {
        "difference": kind,
        "source": one.source,
        "page": one.url or one.key,
        "detail": one.detail,
    }


def _print_json(
    found: Findings, left: Findings | None, strange: str | None, *, agree: bool
) -> None:
    """Print one object whose lists are never held in memory."""
    told: dict[str, Any] = {
        "index": "elasticsearch",
        "agree": agree,
        "mismatch": strange,
        "pages": found.pages,
        "documents": found.documents,
        "counts": found.counts,
        "left": None if left is None else left.counts,
    }
    print("{")
    for name, value in told.items():
        print(f"  {json.dumps(name)}: {json_safe(json.dumps(value, ensure_ascii=False))},")
    for place, kind in enumerate(Kind, 1):
        print(f"  {json.dumps(kind)}: [", end="")
        for number, one in enumerate(found.of(kind)):
            row = json_safe(json.dumps(one._asdict(), ensure_ascii=False))
            print(f"{',' if number else ''}\n    {row}", end="")
        print("]" if place == len(Kind) else "],")
    print("}")
