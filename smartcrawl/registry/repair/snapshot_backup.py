"""Copies of the stored bodies that a registry names, beside its backup (ADR 108)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import (
    SnapshotDamagedError,
    SnapshotError,
    SnapshotMissingError,
)
from smartcrawl.registry.commit.snapshot_store import (
    SnapshotStore,
    is_stored_snapshot_path,
    stored_snapshot_path_aside,
)
from smartcrawl.registry.commit.store_rows import snapshot_store_number
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.transactions import transaction

_AT_ONCE: Final = 100  #: bodies between two writes
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
        rows: Any = connection.execute(_ROWS, (last, _AT_ONCE)).fetchall()
        if not rows:
            return
        yield [(path, bytes(body_hash)) for path, body_hash in rows]
        last = rows[-1][0]
