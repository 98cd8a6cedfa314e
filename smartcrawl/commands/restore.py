"""``smartcrawl restore``: put a backup in the place of the registry."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import ClassVar

from smartcrawl.index.remote import begin_index_epoch, index_facts_of_registry
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.sqlite import SqliteConnection, SqliteDatabase
from smartcrawl.registry.repair.backup import (
    CopiedSnapshots,
    RegistryState,
    prepared_restore,
    registry_state,
    replace_registry,
    restore_registry_snapshots,
    snapshots_beside_backup,
    state_of_registry,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.bar import Bar
from smartcrawl.terminal.command import (
    WITHHELD,
    RegistryCommand,
    print_json,
    single_terminal_argument,
)
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, print_note, printed


class Command(RegistryCommand):
    """Put a backup in the place of the registry."""

    takes_words: ClassVar = True
    takes_source: ClassVar = False

    def syntax(self) -> str:
        """Return its usage."""
        return "[--yes] [options] FILE"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            f"Replace the registry with FILE, a backup made by {program_name()} backup, "
            "and add the missing bodies from FILE.snapshots to the store. No crawl may "
            "run; the API may. If the registry has newer work, nothing is changed unless "
            "--yes is given. If the index is in Elasticsearch, the next run of each "
            "source writes its pages again. Exit status: 0 restored, 3 the registry has "
            "newer work, 1 nothing was changed, 4 a crawl runs."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--yes",
            action="store_true",
            help="restore even if the registry has newer work, which is lost then",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Restore the backup; the registry itself may be missing or damaged."""
        word = single_terminal_argument(
            args, "file", f"{program_name()} restore registry-backup.db"
        )
        with self.complaining():
            self.options = Options.of(self.settings)
            self.database = database = registry_database(self.options.registry)
            if not isinstance(database, SqliteDatabase):
                raise RegistryError(
                    "this registry is in PostgreSQL; restore it with its own tool: "
                    f"pg_restore --clean --if-exists --dbname={database} {word}; then "
                    f"{program_name()} audit --repair, if the index is in "
                    "Elasticsearch"
                )
            with printed(), database.none_runs():
                self._restore(database, Path(word).absolute(), opts)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Do nothing: ``run`` opens no registry."""

    def _restore(self, database: SqliteDatabase, file: Path, opts: Namespace) -> None:
        path, now = database.path, int(time.time())
        with (
            self.meter(units="MiB") as meter,
            prepared_restore(path, file, partial(meter.report, "copied")) as prepared,
        ):
            state = registry_state(prepared)
            before = state_of_registry(path)
            if before is not None and before.is_newer(state) and not opts.yes:
                self._refuse(file, before, state)
                return
            epoch = self._begin_epoch(prepared)
            snapshots = self._snapshots(prepared, file)
            aside = replace_registry(path, prepared, now, readable=before is not None)
        if opts.format == "json":
            print_json(
                {
                    "file": str(file),
                    "runs": state.runs,
                    "changed": state.time,
                    "epoch": epoch,
                    "snapshots": None if snapshots is None else snapshots.copied,
                    "damaged": None if aside is None else str(aside),
                }
            )
            return
        print_note(
            f"{path} is restored: {report_noun(state.runs, 'run')}, last changed {state.time}"
        )
        if aside is not None:
            print_note(f"the damaged registry is kept as {aside}")
        if snapshots is not None:
            print_note(f"{report_noun(snapshots.copied, 'snapshot')} restored")
        if epoch is not None:
            print_note(
                f"epoch {epoch} began: the next run of each source writes its pages to "
                f"the index again; to list other entries of the index: {program_name()} "
                "audit"
            )

    def _refuse(self, file: Path, before: RegistryState, state: RegistryState) -> None:
        Bar.erase()
        runs = before.runs - state.runs
        what = f"{report_noun(runs, 'run')} more, and was" if runs > 0 else "newer work: it was"
        Output(sys.stderr).say(
            escape(
                f"restore: nothing was changed: the registry has {what} last changed at "
                f"{before.time}, the backup at {state.time}. To discard the newer work:"
            ),
            command=self.again("restore", "--yes", file),
            gap=1,
        )
        self.exitcode = WITHHELD

    def _begin_epoch(self, prepared: SqliteConnection) -> int | None:
        """Begin an epoch where the documents are in an Elasticsearch; return its number."""
        if index_facts_of_registry(prepared).identity is None:
            return None
        if self.options.elasticsearch is None:
            raise RegistryError(
                "the backup needs an index in Elasticsearch, but ELASTICSEARCH_URL is "
                "empty; nothing was changed. Set it, and restore again"
            )
        epoch, _ = begin_index_epoch(self.options, prepared)
        return epoch

    def _snapshots(self, prepared: SqliteConnection, file: Path) -> CopiedSnapshots | None:
        """Bring back the stored bodies that lie beside the backup."""
        folder = snapshots_beside_backup(file)
        if self.options.snapshot_store is None or not folder.is_dir():
            return None
        with (
            closing(SnapshotStore(folder.as_uri())) as source,
            closing(SnapshotStore.open(self.options.snapshot_store)) as store,
            self.meter(units="snapshots") as meter,
        ):
            return restore_registry_snapshots(
                prepared, source, store, partial(meter.report, "copied")
            )
