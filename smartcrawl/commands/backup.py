"""``smartcrawl backup``: copy the registry into a file, at any time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from smartcrawl.model.exceptions import RegistryError, SettingError
from smartcrawl.model.program import program_name
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.repair.backup import (
    CopiedSnapshots,
    back_up_registry,
    copy_registry_snapshots,
    remove_other_snapshots,
    snapshots_beside_backup,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.command import (
    WITHHELD,
    RegistryCommand,
    print_json,
    single_terminal_argument,
)
from smartcrawl.terminal.output import print_complaint, print_note

_MIB = 1 << 20


class Command(RegistryCommand):
    """Copy the registry into a file."""

    takes_words: ClassVar = True
    takes_source: ClassVar = False

    def syntax(self) -> str:
        """Return its usage."""
        return "[--snapshots] [options] FILE"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Copy the registry, as of one moment, into FILE. Crawls and the API may keep "
            "running. The copy is written under another name, checked, and then renamed; "
            "an older backup of this name is replaced. --snapshots also copies the "
            "stored bodies into the folder FILE.snapshots, leaving out those already "
            f"there. {program_name()} restore brings both back. Exit status: 0 the backup "
            "is whole, 3 some stored bodies are missing, 1 nothing was written."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--snapshots",
            action="store_true",
            help="also copy the stored bodies into FILE.snapshots",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Write the backup."""
        word = single_terminal_argument(args, "file", f"{program_name()} backup registry-backup.db")
        target = Path(word).absolute()
        database = self.database
        if not isinstance(database, SqliteDatabase):
            raise RegistryError(
                "this registry is in PostgreSQL; back it up with its own tool: pg_dump "
                f"--format=custom --file={target} {database}"
            )
        with self.meter(units="MiB") as meter:
            state = back_up_registry(database, target, partial(meter.report, "copied"))
        facts: dict[str, Any] = {
            "file": str(target),
            "size": target.stat().st_size,
            "runs": state.runs,
            "changed": state.time,
        }
        found = self._snapshots(target) if opts.snapshots else None
        if found is not None:
            facts |= {
                "snapshots": str(snapshots_beside_backup(target)),
                "copied": found.copied,
                "kept": found.kept,
                "missing": found.missing,
            }
        if opts.format == "json":
            print_json(facts)
        else:
            size = f"{facts['size'] / _MIB:,.1f} MiB"
            print_note(f"{target}: {report_noun(state.runs, 'run')}, {size}, checked")
            if found is not None:
                print_note(
                    f"{facts['snapshots']}: {report_noun(found.stored, 'snapshot')},"
                    f" {found.copied:,} of them new"
                )
        if found is not None and found.missing:
            print_complaint(
                "backup",
                f"{report_noun(found.missing, 'snapshot')} missing in the store and not "
                "copied; after a restore, their pages are downloaded again",
            )
            self.exitcode = WITHHELD

    def _snapshots(self, target: Path) -> CopiedSnapshots:
        """Copy the stored bodies that the backup names."""
        if self.options.snapshot_store is None:
            raise SettingError(
                "SNAPSHOT_STORE is off, so no bodies are stored; leave --snapshots out"
            )
        folder = snapshots_beside_backup(target)
        with (
            closing(SqliteDatabase(target).read_only()) as copy,
            closing(SnapshotStore(self.options.snapshot_store)) as source,
            closing(SnapshotStore.open(folder.as_uri())) as store,
            self.meter(units="snapshots") as meter,
        ):
            found = copy_registry_snapshots(copy, source, store, partial(meter.report, "copied"))
            found.removed = remove_other_snapshots(copy, folder)
        return found
