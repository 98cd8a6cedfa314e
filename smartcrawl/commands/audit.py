"""``audit``: compare the registry with what it writes, index and libraries; repair it."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Final

from smartcrawl.commands.audit_domains import (
    AuditedDomains,
    audit_command_domains,
    files_missing_for_audit_command,
)
from smartcrawl.commands.audit_links import AuditedLinks
from smartcrawl.commands.audit_text import (
    print_audit_command,
    print_audit_command_as_json,
    print_embedded_audit_as_json,
)
from smartcrawl.commands.salvage_text import print_salvage_command
from smartcrawl.index import audit
from smartcrawl.index.audit import (
    AuditFindings,
    IndexComparison,
    IndexMender,
    Kind,
    adopt_index,
    index_mismatch,
    is_index_ahead,
    next_index_epoch,
)
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
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
    UsageError,
)
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.integrity import damaged_database_error
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.database.transactions import last_sequence_number
from smartcrawl.registry.repair.salvage import is_registry_sound, salvage_registry
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.absence import Loss, withholds_sweep
from smartcrawl.terminal.bar import Bar
from smartcrawl.terminal.command import (
    HELD,
    WITHHELD,
    ChangingCommand,
    base_command_missing_registry,
    count_argument,
)
from smartcrawl.terminal.output import Output, print_complaint, print_note

_EMBEDDED: Final = (
    "the index is part of the registry and is written in the same transaction, so they "
    "cannot differ"
)


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
                else salvage_registry(place, int(time.time()), dry=dry)
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
            if self.dry and facts.identity != sink.identity():
                self._withheld(found.counts[Kind.SURPLUS], found.documents, opts.max)

    def _repair(
        self,
        connection: Connection,
        sink: ElasticsearchSink,
        sources: list[str],
        now: int,
        opts: Namespace,
    ) -> None:
        facts = index_facts_of_registry(connection)
        wrong = sink.mismatch(facts)
        foreign = facts.identity != sink.identity()
        sealed = max(facts.sealed, facts.sealing or 0)
        if wrong is not None and not foreign and sink.highest() > sealed:
            raise SinkError(wrong)  # the registry was restored from a backup
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
            if foreign and self._withheld(gone, found.documents, opts.max):
                if opts.format != "json":
                    self._domains.print_text()
                return
            ahead = sink.openings() > facts.openings or is_index_ahead(
                found, facts, last_sequence_number(connection, "number")
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

    def _withheld(self, gone: int, documents: int, most: int | None) -> bool:
        """Whether an index that is taken over would lose too many pages; report it if so."""
        options = self.options
        ratio, least = options.sweep_max_ratio, options.sweep_min_count
        if most is None:
            loss = Loss(gone, documents)
            too_many = withholds_sweep(loss, loss, max_ratio=ratio, min_count=least)
        else:
            too_many = gone > most
        if too_many:
            self.withhold(
                f"the index is not the one that this registry wrote, and {gone} of the"
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
