"""``scrapy audit``: compare the registry with the index elsewhere that it writes, and mend it."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from scrapy.exceptions import UsageError

from smartcrawl.engine.command import (
    FAILED,
    HELD,
    WITHHELD,
    ChangingCommand,
    count,
    no_registry,
    print_json,
    print_table,
)
from smartcrawl.index import audit_rows
from smartcrawl.index.audit import (
    Comparison,
    Finding,
    Findings,
    Kind,
    Mender,
    is_ahead,
    next_epoch,
    take_over,
)
from smartcrawl.index.choice import chunked, comparable, known_to, opened, opened_as
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.pages import ElasticsearchPages
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
from smartcrawl.index.writing import RemoteIndexing
from smartcrawl.model.exceptions import RegistryError, RunHeldError, SinkError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.ports import Connection
from smartcrawl.model.redaction import json_safe, shown_lines
from smartcrawl.registry.database.integrity import damaged
from smartcrawl.registry.database.sequences import last
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.repair.salvage import Copied, Salvaged, is_sound, salvage
from smartcrawl.rules.absence import Loss, withholds

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
_MENDED: Final = {
    "fetched_again": "pages have lost content or state, and are fetched whole by the next crawl",
    "sources": "sources have lost their names, and are called salvaged-NUMBER",
    "hosts": "hosts have lost their figures",
    "dropped": "rows belonged to missing ones or cannot be read, and are left out",
}
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
        return "[--repair [--max N] | --salvage] [options]"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Compare the registry with its Elasticsearch, and mend what differs"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "Check that the file of the registry is sound, and compare every page that it holds"
            " with its document in the Elasticsearch, by key, number and hash of the content."
            " --repair writes what lacks or has other content, without one download, and takes out"
            " what is too many; it takes over an index that was replaced or restored. The index"
            " beside the registry needs none of it. --salvage copies what can be read of a damaged"
            " file into a new one. Exit status: 0 all is well, or is well now; 1 not carried out,"
            " or the file is damaged; 3 they differ, or something is missing; 4 a run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--repair", action="store_true", help="mend what differs")
        parser.add_argument(
            "--salvage",
            action="store_true",
            help="copy what can be read of a damaged registry into a new file, and say what is"
            " missing; the damaged file is kept under another name",
        )
        parser.add_argument(
            "--max",
            type=count,
            metavar="N",
            help="take at most N pages out of an index that is taken over, whatever the guard says",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Salvage a registry that cannot be opened, or do as any command does."""
        if not opts.salvage:
            super().run(args, opts)
            return
        if opts.repair or args:
            raise UsageError("--salvage goes with nothing else", print_help=False)
        try:
            assert self.settings is not None
            self.options = Options.of(self.settings)
            self._salvage(opts)
        except SmartcrawlError as error:
            print(f"{self.name}: {shown_lines(str(error))}", file=sys.stderr)
            self.exitcode = HELD if isinstance(error, RunHeldError) else FAILED

    def _salvage(self, opts: Namespace) -> None:
        """Put a file with all that can be read in the place of a damaged registry."""
        place = self.options.registry
        if not isinstance(place, Path):
            raise RegistryError(
                "--salvage is for a registry in a SQLite file; of PostgreSQL restore a backup"
            )
        database = SqliteDatabase(place)
        if not database.exists():
            raise no_registry(database)
        held = database.leased()
        if held:
            print(f"audit: stop the runs of {', '.join(held)} first, then salvage", file=sys.stderr)
            self.exitcode = HELD
            return
        with database.none_runs():  # what a run wrote meanwhile would be lost
            done = None if is_sound(place) else salvage(place, int(time.time()))
        self._print_salvage(done, opts)
        if done is not None and not done.whole:
            self.exitcode = WITHHELD

    def _print_salvage(self, done: Salvaged | None, opts: Namespace) -> None:
        if opts.format == "json":
            print_json(_salvage_as_json(done))
        elif done is None:
            print("the registry is sound: there is nothing to salvage")
        else:
            rows = [
                {"table": one.table, "copied": one.rows, "missing": _missing(one)}
                for one in done.tables
                if one.rows or not one.whole
            ]
            print_table(("table", "copied", "missing"), rows)
            for name, number in done.mended.counts().items():
                if number:
                    print(f"{number:,} {_MENDED[name]}")
            print(f"the damaged file is kept as {done.aside}")
            if not done.whole:
                print("crawl every source once, so that what is missing is fetched again")

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Compare, and mend."""
        if opts.max is not None and not opts.repair:
            raise UsageError("--max goes with --repair", print_help=False)
        if isinstance(self.database, SqliteDatabase):
            found = self.database.problems(connection)  # type: ignore[arg-type]
            for problem in found[1:]:
                print(f"audit: {shown_lines(problem)}", file=sys.stderr)
            if found:
                raise damaged(self.database.path, found[0])
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
        names = [name for _, name in audit_rows.sources(connection, sources)]
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
        for _, name in audit_rows.sources(connection, sources):
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


def _missing(one: Copied) -> str:
    return "unknown" if one.missing is None else str(one.missing)


def _salvage_as_json(done: Salvaged | None) -> dict[str, Any]:
    if done is None:
        return {"sound": True}
    return {
        "sound": False,
        "whole": done.whole,
        "aside": str(done.aside),
        "tables": {one.table: {"copied": one.rows, "missing": one.missing} for one in done.tables},
        "mended": done.mended.counts(),
    }


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
