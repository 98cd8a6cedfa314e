"""Backups of a registry and of the bodies that it names, and their way back (ADR 108)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import apsw

from smartcrawl.model.exceptions import (
    RegistryDamagedError,
    RegistryError,
    SnapshotDamagedError,
    SnapshotError,
    SnapshotMissingError,
)
from smartcrawl.registry.commit.snapshot_store import (
    SnapshotStore,
    is_stored_snapshot_path,
    stored_snapshot_path_aside,
)
from smartcrawl.registry.commit.snapshots import snapshot_store_number
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.integrity import database_problems, registry_tables
from smartcrawl.registry.database.sqlite import (
    APPLICATION_ID,
    SqliteConnection,
    SqliteDatabase,
    connect_sqlite,
    migrate,
    refuse_older_layout,
    refuse_unusable_file,
    translated_sqlite_errors,
)
from smartcrawl.registry.repair.salvage import set_registry_aside
from smartcrawl.sources.private_files import private_file, private_folder

_AT_ONCE: Final = 2_000  #: database pages, 8 MiB, between two reports
_NO_BACKUP: Final = "{} is not a backup of a registry; give another file"
_BESIDE: Final = ("-wal", "-shm", "-journal")
#: Columns with the time of something that was done, not of something that is due.
_TIMES: Final = ("at", "started_at", "ended_at", "created_at", "updated_at", "fired_at", "left_at")

Report = Callable[[int], None]  #: called with the MiB copied so far


@dataclass(frozen=True, slots=True)
class RegistryState:
    """Marks of the work that a registry has."""

    runs: int  #: that were ever opened
    sequences: tuple[tuple[str, int], ...]  #: last drawn numbers
    changed_at: int  #: Unix seconds of the last run, event, order or key; 0: none

    def is_newer(self, other: RegistryState) -> bool:
        """Whether this registry has work that ``other`` lacks."""
        before = dict(other.sequences)
        return (
            self.runs > other.runs
            or self.changed_at > other.changed_at
            or any(value > before.get(name, 0) for name, value in self.sequences)
        )

    @property
    def time(self) -> str:
        """The time of the last change, as ISO 8601."""
        if not self.changed_at:
            return "never"
        return datetime.fromtimestamp(self.changed_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def registry_state(connection: Connection) -> RegistryState:
    """Return the marks of the work that a registry in SQLite has."""
    runs = int(connection.execute("SELECT coalesce(max(no), 0) FROM run").get)
    rows: Any = connection.execute("SELECT name, value FROM sequence ORDER BY name").fetchall()
    changed = 0
    for table in registry_tables(connection):  # type: ignore[arg-type]  # SQLite's alone
        columns: Any = connection.execute(f"PRAGMA table_info({table})").fetchall()
        for name in sorted({row[1] for row in columns} & set(_TIMES)):
            changed = max(
                changed,
                int(connection.execute(f"SELECT coalesce(max({name}), 0) FROM {table}").get),
            )
    return RegistryState(runs, tuple((str(n), int(v)) for n, v in rows), changed)


def back_up_registry(database: SqliteDatabase, target: Path, report: Report) -> RegistryState:
    """Copy a registry, as of one moment, into a file that is complete or not there.

    Other processes may write meanwhile. The copy is checked as ``audit`` checks a registry, is for
    its owner alone, and replaces a former backup by a rename.

    Raises:
        RegistryError: ``target`` is no backup, or cannot be written; or the copy is not sound.
    """
    refuse_other_file(target, database.path)
    part = target.with_name(f".{target.name}.{token_hex(8)}.part")
    try:
        with _written(target):
            try:
                private_file(part)
                with closing(database.connect(readonly=True)) as source:
                    _copy_registry(source, part, report)
                state = _check(part, target)
                _sync(part)
                part.replace(target)
                _sync(target.parent)
            finally:
                _remove(part)
    except RegistryDamagedError as error:
        raise RegistryError(
            f"no backup was written: {error}; {target} is as it was"
            if target.exists()
            else f"no backup was written: {error}"
        ) from error
    return state


def refuse_other_file(target: Path, registry: Path) -> None:
    """Refuse to write a backup over anything but a former backup.

    Raises:
        RegistryError: the file is the registry itself, or none of smartcrawl's.
    """
    if not target.name or target.is_dir():
        raise RegistryError(f"{target} is a folder: name a file in it, such as {target}/backup.db")
    if not target.exists():
        return
    if registry.exists() and target.samefile(registry):
        raise RegistryError(f"{target} is the registry itself; name another file for its backup")
    try:
        with target.open("rb") as file:
            header = file.read(72)
    except OSError as error:
        raise RegistryError(
            f"cannot read {target} ({error.strerror}); name another file for the backup"
        ) from error
    if header and header[68:72] != APPLICATION_ID.to_bytes(4):
        raise RegistryError(_NO_BACKUP.format(target))


@contextmanager
def prepared_restore(path: Path, file: Path, report: Report) -> Iterator[SqliteConnection]:
    """Yield a checked copy of the backup ``file``, in the schema of this version.

    The copy is made in the folder of the registry at ``path``, and deleted at the end.

    Raises:
        RegistryError: ``file`` is no registry, is not sound, or cannot be read.
    """
    if not file.is_file():
        raise RegistryError(f"there is no backup {file}; give a file that backup wrote")
    if path.exists() and file.samefile(path):
        raise RegistryError(f"{file} is the registry itself; name the file that backup wrote")
    work = path.with_name(f".{path.name}.restore-{token_hex(8)}")
    try:
        private_folder(path.parent)
        private_folder(work)
        new = work / "new.db"
        with _read(file):
            private_file(new)
            with closing(SqliteDatabase(file).read_only()) as source:
                _copy_registry(source, new, report)
        _check(new, file)
        with closing(connect_sqlite(new)) as connection:
            migrate(connection, new)
            yield connection
    except OSError as error:
        raise RegistryError(
            f"cannot restore {file} ({error.strerror}); {path.parent} must have room for a copy,"
            " and this user the right to write there"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def state_of_registry(path: Path) -> RegistryState | None:
    """Return the marks of the registry at ``path``; None if it is missing or damaged."""
    if not path.exists():
        return None
    try:
        refuse_unusable_file(path)
        with closing(connect_sqlite(path)) as connection:
            migrate(connection, path)
            return registry_state(connection)
    except RegistryDamagedError:
        return None


def replace_registry(
    path: Path, prepared: SqliteConnection, now: int, *, readable: bool
) -> Path | None:
    """Put a prepared copy in the place of a registry, for processes that have it open, too.

    A registry that is not ``readable`` is kept under another name, which is returned. The caller
    has the leases of all sources. ``now``: Unix seconds.

    Raises:
        RegistryError: the registry is as it was.
    """
    aside = None
    if path.exists() and not readable:
        aside = set_registry_aside(path, now)
        path.unlink()
    with translated_sqlite_errors(path, "restore"):
        private_file(path)
        with closing(connect_sqlite(path)) as target:
            target.execute("PRAGMA journal_mode = wal").fetchall()
            with target.backup("main", prepared, "main") as copying:
                copying.step(-1)  # one transaction: readers see the old registry, or the new one
    return aside


def _copy_registry(source: SqliteConnection, target: Path, report: Report) -> None:
    """Copy a registry as of one moment."""
    size = int(str(source.pragma("page_size")))
    with closing(SqliteConnection(str(target))) as copy:
        source.execute("BEGIN").fetchall()  # else each write of others begins the copy anew
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            with copy.backup("main", source, "main") as copying:
                while not copying.done:
                    copying.step(_AT_ONCE)
                    report((copying.page_count - copying.remaining) * size >> 20)
        finally:
            source.execute("ROLLBACK").fetchall()


def _check(copy: Path, name: Path) -> RegistryState:
    """Return the state of a copy.

    Raises:
        RegistryDamagedError: it is not sound.
    """
    with closing(connect_sqlite(copy)) as connection:
        if connection.pragma("application_id") != APPLICATION_ID:
            raise RegistryDamagedError(_NO_BACKUP.format(name))
        refuse_older_layout(connection, name)
        if found := database_problems(connection):
            raise RegistryDamagedError(f"{name} is not sound ({found[0]})")
        state = registry_state(connection)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return state


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    for end in ("", *_BESIDE):
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{end}").unlink()


@contextmanager
def _written(target: Path) -> Iterator[None]:
    """Turn errors of writing a backup into RegistryError with its name."""
    try:
        with translated_sqlite_errors(target, "write"):
            yield
    except OSError as error:
        raise RegistryError(
            f"cannot write {target} ({error.strerror}); name a file in a folder that exists, has"
            " room, and that this user may write to"
        ) from error


@contextmanager
def _read(file: Path) -> Iterator[None]:
    """Turn errors of reading a backup into RegistryError with its name."""
    try:
        with translated_sqlite_errors(file, "read"):
            yield
    except RegistryDamagedError as error:
        if isinstance(error.__cause__, apsw.NotADBError):
            raise RegistryError(_NO_BACKUP.format(file)) from error
        raise


_BODIES_AT_ONCE: Final = 100  #: bodies between two writes
_ROWS: Final = """
SELECT path, body_hash FROM snapshot WHERE path > ? GROUP BY path ORDER BY path LIMIT ?
"""
_PATH: Final = "UPDATE snapshot SET path = ? WHERE path = ? AND body_hash = ?"


@dataclass(slots=True)
class CopiedSnapshots:
    """The result of copying stored bodies."""

    copied: int = 0
    kept: int = 0  #: that were there already
    missing: int = 0  #: that the store they came from lacks; their pages are fetched whole
    removed: int = 0  #: files of former backups that no row names any more

    @property
    def stored(self) -> int:
        """The number of bodies that are there now."""
        return self.copied + self.kept


def snapshots_beside_backup(file: Path) -> Path:
    """Return the folder of the bodies that belong to a backup.

    >>> snapshots_beside_backup(Path("/backup/docs.db")).name
    'docs.db.snapshots'
    """
    return file.with_name(f"{file.name}.snapshots")


def copy_registry_snapshots(
    connection: Connection,
    source: SnapshotStore,
    target: SnapshotStore,
    report: Callable[[int], None],
    *,
    aside: bool = False,
) -> CopiedSnapshots:
    """Copy the bodies that a registry names from one store to another.

    A body that is in ``target`` already, unaltered, is left there. ``report`` is called with the
    number of bodies that were looked at so far. ``aside``: where another file has its path, that
    one stays, and the row gets another path.

    Raises:
        SnapshotStoreError: ``target`` cannot be written, or ``source`` cannot be read.
    """
    found = CopiedSnapshots()
    for rows in _portions(connection):
        files = []
        for path, body_hash in rows:
            if _has(target, path, body_hash):
                found.kept += 1
                continue
            try:
                body = source.get(path, body_hash)
            except (SnapshotMissingError, SnapshotDamagedError):
                found.missing += 1
                continue
            place = path
            if aside and target.holds([path]) == [True]:
                place = stored_snapshot_path_aside(path, body_hash)
                connection.execute(_PATH, (place, path, body_hash))
            files.append((place, body))
        for error in target.put_many(files):
            if error is not None:
                raise error
        found.copied += len(files)
        report(found.stored + found.missing)
    return found


def restore_registry_snapshots(
    connection: Connection,
    source: SnapshotStore,
    target: SnapshotStore,
    report: Callable[[int], None],
) -> CopiedSnapshots:
    """Bring the bodies of a backup into today's store, where its registry finds them from now on.

    Raises:
        SnapshotStoreError: ``target`` cannot be written, or ``source`` cannot be read.
    """
    found = copy_registry_snapshots(connection, source, target, report, aside=True)
    with transaction(connection):
        snapshot_store_number(connection, target, everywhere=True)
    return found


def remove_other_snapshots(connection: Connection, folder: Path) -> int:
    """Remove the bodies in a folder of backups that no row names; return their number."""
    named = {path for rows in _portions(connection) for path, _ in rows}
    other = [
        path
        for file in folder.glob("[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]/*")
        if is_stored_snapshot_path(path := file.relative_to(folder).as_posix())
        and path not in named
    ]
    with closing(SnapshotStore(folder.as_uri())) as store:
        errors = store.remove_many(other)
    return sum(error is None for error in errors)


def _has(store: SnapshotStore, path: str, body_hash: bytes) -> bool:
    try:
        store.get(path, body_hash)
    except SnapshotError:
        return False
    return True


def _portions(connection: Connection) -> Iterator[list[tuple[str, bytes]]]:
    """Yield the rows of all stored bodies, some at a time."""
    last = ""
    while True:
        rows: Any = connection.execute(_ROWS, (last, _BODIES_AT_ONCE)).fetchall()
        if not rows:
            return
        yield [(path, bytes(body_hash)) for path, body_hash in rows]
        last = rows[-1][0]
