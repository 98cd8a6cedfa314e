"""``audit``: compare the registry with what it writes, index and libraries; repair it."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from smartcrawl.index import audit
from smartcrawl.index.audit import (
    AuditFindings,
    Finding,
    IndexComparison,
    IndexMender,
    Kind,
    adopt_index,
    index_mismatch,
    is_index_ahead,
    next_index_epoch,
)
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
from smartcrawl.index.embedded.reanalysis import analyze_stored_texts
from smartcrawl.index.remote import (
    has_remote_index,
    index_facts_of_registry,
    open_index_to_compare,
    open_remote_index,
    remote_indexing_of_sink,
)
from smartcrawl.model.exceptions import (
    RegistryError,
    SinkError,
    SourceError,
    UsageError,
)
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, last_sequence_number, transaction
from smartcrawl.registry.database.integrity import damaged_database_error
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.repair.salvage import (
    Copied,
    LinksToNowhere,
    Salvaged,
    is_registry_sound,
    links_to_nowhere_rows,
    mend_links_to_nowhere,
    salvage_registry,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.absence import Loss, withholds_sweep
from smartcrawl.run.library.audit import DomainAudit, DomainFindings, run_domain_audit_summary
from smartcrawl.run.library.comparison import Difference, Place
from smartcrawl.sources.sharepoint.domains import load_sharepoint_domain, sharepoint_domain_ids
from smartcrawl.terminal.bar import Bar
from smartcrawl.terminal.command import (
    HELD,
    WITHHELD,
    ChangingCommand,
    base_command_missing_registry,
    count_argument,
    print_json,
)
from smartcrawl.terminal.output import Output, print_complaint, print_note, printed_json
from smartcrawl.terminal.tables import (
    Column,
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)


@dataclass(slots=True)
class AuditedLinks:
    """Pages with links to addresses that have no record, by source."""

    found: list[tuple[str, LinksToNowhere]]
    mended: bool = False

    @classmethod
    def of(cls, connection: Connection, sources: list[tuple[int, str]]) -> Self:
        """Look for them in some sources, given by number and name."""
        return cls(
            [(name, page) for no, name in sources for page in links_to_nowhere_rows(connection, no)]
        )

    @property
    def agree(self) -> bool:
        """Whether each link leads to a record, or is looked up again by the next run."""
        return self.mended or not self.found

    def mend(self, connection: Connection) -> None:
        """Have the next run look up the links of these pages; the caller has the leases."""
        with transaction(connection):
            mend_links_to_nowhere(connection, [page for _, page in self.found])
        self.mended = True

    def print_text(self) -> None:
        """Print the first pages, with what becomes of them."""
        if not self.found:
            return
        count = len(self.found)
        verb = "links" if count == 1 else "link"
        after = "; the next run resolves their links again" if self.mended else ""
        print(f"{report_noun(count, 'page')} {verb} to addresses that have no record{after}")
        for source, page in islice(self.found, SHOWN):
            print(f"  {source}  {page.url}  {report_noun(len(page.targets), 'link')}")
        if count > SHOWN:
            print(f"  and {count - SHOWN:,} more (--format json lists all)")

    def as_json(self) -> list[dict[str, Any]]:
        """Return the pages as objects of JSON."""
        return [
            {"source": source, "url": page.url, "no": page.no, "targets": list(page.targets)}
            for source, page in self.found
        ]


SHOWN: Final = 20  #: differences of a domain, or of a kind, in a table


def audit_command_columns(thing: str) -> tuple[Column, ...]:
    """Return the columns of a table of differences; ``thing``: the name of what differs."""
    return (
        printed_word_column("difference"),
        printed_name_column("source"),
        printed_whole_column(thing),
        printed_note_column("detail"),
    )


_COLUMNS: Final = audit_command_columns("item")
#: Names of the places, as they follow "missing in".
_PLACES: Final = {
    Place.FILES: "on disk",
    Place.FILES_MAP: "in files_map.csv",
    Place.VECTORSTORE_MAP: "in vectorstore_map.csv",
    Place.VECTOR_STORE: "in the vector store",
    Place.METADATA: "in files_metadata.json",
}


@dataclass(frozen=True, slots=True)
class AuditedDomains:
    """The findings of each domain, and those that are left after a repair."""

    found: list[tuple[DomainFindings, DomainFindings | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  #: of domains that cannot be read

    @property
    def agree(self) -> bool:
        """Whether no difference is left, and everything was compared."""
        after = (found if left is None else left for found, left in self.found)
        return not self.problems and all(findings.agree for findings in after)

    @property
    def is_empty(self) -> bool:
        """Whether there is no domain."""
        return not (self.found or self.problems)

    def print_text(self) -> None:
        """Print the counts, and the first differences as a table."""
        for found, left in self.found:
            _print_domain(found, left)

    def print_json(self) -> None:
        """Print one JSON array; its lists of differences are streamed, not kept in memory."""
        print("[", end="")
        for number, (found, left) in enumerate(self.found):
            print(f"{',' if number else ''}\n    {{")
            for key, value in run_domain_audit_summary(found, left).items():
                print(f"      {json.dumps(key)}: {printed_json(value, sys.stdout)},")
            print('      "differences": [', end="")
            shown = found if left is None else left
            for place, difference in enumerate(shown):
                row = printed_json(difference._asdict(), sys.stdout)
                print(f"{',' if place else ''}\n        {row}", end="")
            print("]\n    }", end="")
        print("]", end="")


@contextmanager
def audit_command_domains(
    connection: Connection,
    options: Options,
    names: Sequence[str],
    *,
    reads_data: bool,
    is_mending: bool,
    tick: Callable[[str, int], None],
) -> Iterator[AuditedDomains]:
    """Compare the domains of some sources, all where none is named, and repair them.

    ``tick`` is called with a participle, and the number of items so far.

    Raises:
        SmartcrawlError: a repair cannot be carried out.
    """
    audited = AuditedDomains()
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        tick("compared", done)

    with ExitStack() as stack:
        for domain_id in sharepoint_domain_ids(options.sharepoint.storage):
            if names and not any(name.startswith(f"{domain_id}.") for name in names):
                continue
            try:
                domain = load_sharepoint_domain(options.sharepoint.storage, domain_id)
            except SourceError as error:
                audited.problems.append(str(error))
                continue
            audit = DomainAudit(domain, options, connection, names, reads_data=reads_data)
            if not audit.has_items():
                continue
            found = stack.enter_context(audit.compare(count))
            left = None
            if is_mending and found.agree:
                left = found
            elif is_mending:
                reasons = audit.mend(found)
                left = stack.enter_context(audit.compare(count))
                left.reasons += reasons
            audited.found.append((found, left))
        yield audited


def _print_domain(found: DomainFindings, left: DomainFindings | None) -> None:
    print(f"{found.domain}: {report_noun(found.items, 'item')} in the registry")
    shown = found if left is None else left
    for place, where in _PLACES.items():
        for difference, number in found.counts[place].items():
            after = 0 if left is None else left.counts[place][difference]
            if number or after:
                tail = "" if left is None else f", {after:,} left"
                print(f"{number:7,} {difference} {where}{tail}")
    rows: list[dict[str, Any]] = [
        {
            "difference": each.difference,
            "source": each.source,
            "item": each.item,
            "detail": f"{_PLACES[each.place]}{each.detail and ': '}{each.detail}",
        }
        for each in islice(shown, SHOWN)
    ]
    if rows:
        print()
        print_table(_COLUMNS, rows)
    if shown.total() > SHOWN:
        print(f"and {shown.total() - SHOWN:,} more (--format json lists all)")
    if shown.agree:
        print("records, disk, maps, vector store and metadata agree")


def files_missing_for_audit_command(audited: AuditedDomains) -> list[str]:
    """Return the domains some files of which only a download brings back."""
    return [
        found.domain
        for found, left in audited.found
        if left is not None and left.counts[Place.FILES][Difference.MISSING]
    ]


_INDEX_COLUMNS: Final = audit_command_columns("page")
#: Names of the kinds of differences, for 1 and for any other number.
_WORDS: Final = {
    Kind.MISSING: ("missing document", "missing documents"),
    Kind.SURPLUS: ("surplus document", "surplus documents"),
    Kind.LINKED: ("linked document without a record", "linked documents without a record"),
    Kind.CHANGED: ("document with other content", "documents with other content"),
    Kind.VECTORS: ("document with other vectors", "documents with other vectors"),
    Kind.OPEN: ("open record", "open records"),
    Kind.DEAD: ("dead letter", "dead letters"),
}


def print_audit_command(
    found: AuditFindings, left: AuditFindings | None, strange: str | None, *, agree: bool
) -> None:
    """Print the counts and the first differences as a table."""
    pages, documents = (
        report_noun(found.pages, "page"),
        report_noun(found.documents, "document"),
    )
    print(f"{pages} in the registry, {documents} in the index")
    if strange is not None:
        print_note(strange)
    shown = found if left is None else left
    rows = [_row(kind, one) for kind in Kind for one in islice(shown.of(kind), SHOWN)]
    for kind in Kind:
        number = found.counts[kind]
        after = "" if left is None else f", {left.counts[kind]:,} left"
        print(f"{number:7,} {_WORDS[kind][number != 1]}{after}")
    if rows:
        print()
        print_table(_INDEX_COLUMNS, rows)
    more = sum(max(0, shown.counts[kind] - SHOWN) for kind in Kind)
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


def print_audit_command_as_json(
    found: AuditFindings,
    left: AuditFindings | None,
    strange: str | None,
    parts: tuple[AuditedDomains, AuditedLinks],
    *,
    agree: bool,
) -> None:
    """Print one JSON object; its lists are streamed, not kept in memory.

    ``agree``: whether registry and index do.
    """
    domains, links = parts
    facts: dict[str, Any] = {
        "index": "elasticsearch",
        "agree": agree and domains.agree and links.agree,
        "mismatch": strange,
        "pages": found.pages,
        "documents": found.documents,
        "counts": found.counts,
        "left": None if left is None else left.counts,
    }
    print("{")
    for key, value in facts.items():
        print(f"  {json.dumps(key)}: {printed_json(value, sys.stdout)},")
    for place, kind in enumerate(Kind, 1):
        print(f"  {json.dumps(kind)}: [", end="")
        for number, one in enumerate(found.of(kind)):
            row = printed_json(one._asdict(), sys.stdout)
            print(f"{',' if number else ''}\n    {row}", end="")
        print("]" if place == len(Kind) else "],")
    _print_parts_as_json(domains, links)


def print_embedded_audit_as_json(domains: AuditedDomains, links: AuditedLinks) -> None:
    """Print one JSON object about an index that is part of the registry."""
    agree = domains.agree and links.agree
    print(f'{{\n  "index": "embedded",\n  "agree": {json.dumps(agree)}')
    _print_parts_as_json(domains, links)


def _print_parts_as_json(domains: AuditedDomains, links: AuditedLinks) -> None:
    """Print the end of an object, with the keys of domains and links where there are some."""
    if links.found:
        print(f'  , "nowhere": {printed_json(links.as_json(), sys.stdout)}')
    if not domains.is_empty:
        print('  , "domains": ', end="")
        domains.print_json()
        print()
    print("}")


#: Effects of a salvage, for 1 row and for any other number.
_MENDED: Final = {
    "fetched_again": (
        "page has lost content or state; the next crawl downloads it again",
        "pages have lost content or state; the next crawl downloads them again",
    ),
    "sources": (
        "source has lost its name and is now called salvaged-NUMBER",
        "sources have lost their names and are now called salvaged-NUMBER",
    ),
    "hosts": ("host has lost its figures", "hosts have lost their figures"),
    "dropped": (
        "row is unreadable or belongs to a missing one, and is left out",
        "rows are unreadable or belong to missing ones, and are left out",
    ),
}


def print_salvage_command(done: Salvaged | None, *, as_json: bool, dry: bool = False) -> None:
    """Print how many rows of each table were copied, and which are missing.

    ``dry``: nothing was changed.
    """
    if as_json:
        print_json(_as_json(done) | ({"dryRun": True} if dry else {}))
    elif done is None:
        print("the registry is not damaged; there is nothing to salvage")
    else:
        rows = [
            {"table": one.table, "copied": one.rows, "missing": _missing(one)}
            for one in done.tables
            if one.rows or not one.whole
        ]
        print_table(
            (
                printed_word_column("table"),
                printed_number_column("copied"),
                printed_number_column("missing"),
            ),
            rows,
        )
        for name, rows_of in done.mended.counts().items():
            if rows_of:
                print(f"{rows_of:,} {_MENDED[name][rows_of != 1]}")
        if dry:
            print_note(f"nothing was changed: {done.aside} would be kept under another name")
            return
        print_note(f"the damaged file is kept as {done.aside}")
        if not done.whole:
            print_note("crawl every source once, to download missing content again")


def _missing(one: Copied) -> str:
    return "unknown" if one.missing is None else str(one.missing)


def _as_json(done: Salvaged | None) -> dict[str, Any]:
    if done is None:
        return {"sound": True}
    return {
        "sound": False,
        "whole": done.whole,
        "aside": str(done.aside),
        "tables": {one.table: {"copied": one.rows, "missing": one.missing} for one in done.tables},
        "mended": done.mended.counts(),
    }


_EMBEDDED: Final = (
    "the index is part of the registry and is written in the same transaction, so they "
    "cannot differ"
)


_NEWER: Final = "is newer than this registry, which was restored from a backup"


def _takeover(sink: ElasticsearchSink, facts: Known) -> tuple[bool, bool]:
    """Return whether an index is of another registry, and whether its own one was restored."""
    if facts.identity != sink.identity():
        return True, False
    sealed = max(facts.sealed, facts.sealing or 0)
    return False, sink.mismatch(facts) is not None and sink.highest() > sealed


class Command(ChangingCommand):
    """Compare the registry with index and libraries, and repair differences."""

    _domains: AuditedDomains
    _links: AuditedLinks

    def syntax(self) -> str:
        """Return its usage."""
        return "[--repair [--max N] | --salvage] [options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Check the registry file for damage, and compare every stored page with its "
            "document in Elasticsearch by key, number and content hash. --repair writes "
            "missing and different documents without any download, and removes surplus "
            "ones; it also takes over an index that was replaced or restored. The "
            "embedded index needs no comparison. For document libraries, the records are "
            "compared with disk, maps, vector store and files_metadata.json; --repair "
            "corrects them from the files on disk, and the next download fetches the "
            "rest. --salvage copies the readable part of a damaged registry into a new "
            "file. Exit status: 0 registry and index agree, or agree now; 1 not carried "
            "out, or the file is damaged; 3 they differ, or something is missing; 4 a "
            "run is open."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument("--repair", action="store_true", help="repair the differences")
        parser.add_argument(
            "--salvage",
            action="store_true",
            help="copy the readable part of a damaged registry into a new file and print how "
            "much is missing; the damaged file is kept under another name",
        )
        parser.add_argument(
            "--read-data",
            action="store_true",
            help="also read every file of document libraries and compare its bytes",
        )
        parser.add_argument(
            "--max",
            type=count_argument,
            metavar="N",
            help="remove at most N pages from an index that is taken over, whatever the guard says",
        )

    def opened(self) -> Connection:
        """Open the registry, in the same way for a dry run."""
        return self.database.open()

    def run(self, args: list[str], opts: Namespace) -> None:
        """Salvage a registry that cannot be opened, or open it and compare."""
        if not opts.salvage:
            super().run(args, opts)
            return
        if opts.repair or args:
            raise UsageError("--salvage cannot be combined with other options")
        with self.complaining():
            self.options = Options.of(self.settings)
            self._salvage(opts)

    def _salvage(self, opts: Namespace) -> None:
        """Replace a damaged registry with a copy of everything that can be read of it."""
        place = self.options.registry
        if not isinstance(place, Path):
            raise RegistryError(
                "--salvage needs a registry in a SQLite file; with PostgreSQL, restore a backup"
            )
        database = SqliteDatabase(place)
        if not database.exists():
            raise base_command_missing_registry(database)
        held = database.leased()
        if held:
            print_complaint("audit", f"stop the runs of {', '.join(held)} first, then salvage")
            self.exitcode = HELD
            return
        dry = opts.dry_run
        with database.none_runs():  # writes of a run in the meantime would be lost
            done = (
                None
                if is_registry_sound(place)
                else salvage_registry(place, int(time.time()), analyze_stored_texts, dry=dry)
            )
        print_salvage_command(done, as_json=opts.format == "json", dry=dry)
        if done is not None and not done.whole:
            self.exitcode = WITHHELD

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Compare registry and index, and repair them with --repair."""
        if opts.max is not None and not opts.repair:
            raise UsageError("--max needs --repair")
        if isinstance(self.database, SqliteDatabase):
            found = self.database.problems(connection)  # type: ignore[arg-type]
            for problem in found[1:]:
                print_complaint("audit", problem)
            if found:
                raise damaged_database_error(self.database.path, found[0])
        with (
            self.meter() as meter,
            audit_command_domains(
                connection,
                self.options,
                sources,
                reads_data=opts.read_data,
                is_mending=opts.repair and not self.dry,
                tick=meter.report,
            ) as domains,
        ):
            self._print_domain_problems(domains)
            self._audit_links(connection, sources, opts)
            self._audit_index(connection, sources, domains, opts)

    def _print_domain_problems(self, domains: AuditedDomains) -> None:
        """Print what keeps domains from agreeing, beside their differences."""
        Bar.erase()
        for problem in domains.problems:
            print_complaint("audit", problem)
        for found, left in domains.found:
            for reason in (found if left is None else left).reasons:
                print_complaint("audit", f"{found.domain}: {reason}")
        for domain in files_missing_for_audit_command(domains):
            line = self.again("library", "download", domain)
            Output(sys.stderr).say("audit: download the missing files with:", command=line, gap=1)

    def _audit_links(self, connection: Connection, sources: list[str], opts: Namespace) -> None:
        """Look for links to numbers without a record; with --repair they are looked up again."""
        audited = audit.audited_sources(connection, sources)
        with self.database.translated("read"):
            self._links = AuditedLinks.of(connection, audited)
        if self._links.found and opts.repair and not self.dry:
            with self.leased([name for _, name in audited]):
                self._links.mend(connection)
        if opts.format != "json":
            self._links.print_text()

    def _audit_index(
        self, connection: Connection, sources: list[str], domains: AuditedDomains, opts: Namespace
    ) -> None:
        """Compare registry and index, and repair them with --repair."""
        self._domains = domains
        if not has_remote_index(self.options, connection):
            self._print_embedded(opts)
            return
        if not opts.repair or self.dry:
            with (
                self.database.translated("read"),
                open_remote_index(self.options, connection, Opening.LOOKED) as sink,
            ):
                self._look(connection, sink, sources, opts)
            return
        names = [name for _, name in audit.audited_sources(connection, sources)]
        with (
            self.leased(names) as now,
            open_remote_index(self.options, connection, Opening.ANY) as sink,
        ):
            self._repair(connection, sink, sources, now, opts)

    def _print_embedded(self, opts: Namespace) -> None:
        domains = self._domains
        if opts.format != "json":
            domains.print_text()
            print_note(_EMBEDDED)
        else:
            print_embedded_audit_as_json(domains, self._links)
        self._print_repair(opts, agree=domains.agree)

    def _look(
        self, connection: Connection, sink: ElasticsearchSink, sources: list[str], opts: Namespace
    ) -> None:
        facts = index_facts_of_registry(connection)
        for _, name in audit.audited_sources(connection, sources):
            if self.database.is_held(name):
                print_complaint(
                    "audit",
                    f"{name} is being crawled; pages written just now may show as different",
                )
        with (
            self.meter(audit.audited_index_page_count(connection, sources)) as meter,
            IndexComparison(connection, sink, meter.report, self.options.trackers).compare(
                sources
            ) as found,
        ):
            why = index_mismatch(connection, sink, facts, found)
            self._report(found, None, why, opts)
            if self.dry and found.total():
                counts = found.counts
                kinds = (Kind.MISSING, Kind.CHANGED, Kind.VECTORS)
                writes = report_noun(sum(counts[kind] for kind in kinds), "document")
                goes = report_noun(counts[Kind.SURPLUS], "document")
                print_complaint("audit", f"--repair would write {writes} and remove {goes}")
            foreign, restored = _takeover(sink, facts) if self.dry else (False, False)
            if foreign or restored:
                gone = found.counts[Kind.SURPLUS]
                self._withheld(gone, found.documents, opts.max, restored=restored)

    def _repair(
        self,
        connection: Connection,
        sink: ElasticsearchSink,
        sources: list[str],
        now: int,
        opts: Namespace,
    ) -> None:
        facts = index_facts_of_registry(connection)
        foreign, restored = _takeover(sink, facts)
        with (
            self.meter(audit.audited_index_page_count(connection, sources)) as meter,
            IndexComparison(connection, sink, meter.report, self.options.trackers).compare(
                sources
            ) as found,
        ):
            strange = index_mismatch(connection, sink, facts, found)
            if strange is not None and sources:
                raise SinkError(
                    f"{strange}; to repair it, compare the whole index: leave --source out"
                )
            gone = found.counts[Kind.SURPLUS]
            if (foreign or restored) and self._withheld(
                gone, found.documents, opts.max, restored=restored
            ):
                if opts.format != "json":
                    self._domains.print_text()
                return
            ahead = (
                restored
                or sink.openings() > facts.openings
                or is_index_ahead(found, facts, last_sequence_number(connection, "number"))
            )
            epoch = (
                next_index_epoch(found, facts, sink.highest()) if foreign or ahead else facts.epoch
            )
            with open_index_to_compare(
                self.options, replace(facts, epoch=epoch), Opening.ANY
            ) as writing:
                indexing = remote_indexing_of_sink(writing, self.options)
                IndexMender(connection, indexing, writing, now, meter.report).mend(found)
                if not sources:
                    adopt_index(connection, writing, facts, epoch)
                    indexing.seal(connection)
                with IndexComparison(
                    connection, writing, meter.report, self.options.trackers
                ).compare(sources) as left:
                    still = index_mismatch(
                        connection, writing, index_facts_of_registry(connection), left
                    )
                    self._report(found, left, strange, opts, still=still)

    def _withheld(self, gone: int, documents: int, most: int | None, *, restored: bool) -> bool:
        """Whether an index that is taken over would lose too many pages; report it if so."""
        options = self.options
        ratio, least = options.sweep_max_ratio, options.sweep_min_count
        if most is None:
            loss = Loss(gone, documents)
            too_many = withholds_sweep(loss, loss, max_ratio=ratio, min_count=least)
        else:
            too_many = gone > most
        if too_many:
            what = _NEWER if restored else "is not the one that this registry wrote"
            self.withhold(
                f"the index {what}, and {gone} of the"
                f" {report_noun(documents, 'page')} in it {'is' if gone == 1 else 'are'} unknown"
                " here; to take it over, give their number",
                "audit",
                "--repair",
                "--max",
                gone,
            )
        return too_many

    def _report(
        self,
        found: AuditFindings,
        left: AuditFindings | None,
        strange: str | None,
        opts: Namespace,
        *,
        still: str | None = None,
    ) -> None:
        Bar.erase()
        if left is None:
            agree = not found.total() and strange is None
        else:
            agree = not left.total() and still is None
        if opts.format == "json":
            parts = self._domains, self._links
            print_audit_command_as_json(found, left, strange, parts, agree=agree)
        else:
            self._domains.print_text()
            print_audit_command(found, left, strange, agree=agree)
        if left is not None and not agree:
            self.exitcode = WITHHELD
            print_complaint("audit", "some differences could not be repaired")
        self._print_repair(opts, agree=agree and self._domains.agree)

    def _print_repair(self, opts: Namespace, *, agree: bool) -> None:
        """Print the command that repairs differences, unless it is this one."""
        if agree and self._links.agree:
            return
        self.exitcode = WITHHELD
        if not opts.repair or self.dry:
            only = ["--source", opts.source] if opts.source else []
            repair = self.again("audit", "--repair", *only)
            Output(sys.stderr).say("audit: repair it with:", command=repair, gap=1)
