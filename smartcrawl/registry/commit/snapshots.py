"""Stored bodies and their paths: one copy each, as long as a page refers to it (M-48)."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import SnapshotError, SnapshotMissingError, SnapshotStoreError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.commit.leftovers import SnapshotLeftovers
from smartcrawl.registry.commit.snapshot_store import SnapshotStore, stored_snapshot_path
from smartcrawl.registry.commit.store_rows import snapshot_store_number
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.rules.model import Action

logger = logging.getLogger(__name__)

_PATIENCE = 3  #: consecutive failed batches before a run gives up the store
_KEYS = "SELECT no, id FROM record WHERE no IN carray(?)"
_KNOWN = "SELECT body_hash, path FROM snapshot WHERE store = ? AND body_hash IN carray(?)"
_TAKEN = "SELECT path FROM snapshot WHERE store = ? AND path IN carray(?)"
_PUT = """
INSERT INTO snapshot (store, body_hash, path, content_type, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_KEEP = "UPDATE snapshot SET released = NULL WHERE store = ? AND body_hash IN carray(?)"
_NUMBERS = "SELECT body_hash, no FROM snapshot WHERE store = ? AND body_hash IN carray(?)"
#: Snapshot numbers are reused: the hash confirms that the snapshot is still the page's own.
_WHERE = """
SELECT p.store, t.url, p.path, p.body_hash, coalesce(r.content_type, p.content_type)
  FROM record r JOIN snapshot p ON p.no = r.snapshot AND p.body_hash = r.body_hash
       JOIN store t ON t.no = p.store
 WHERE r.no = ?
"""
_RELEASE = """
UPDATE snapshot SET released = :now
 WHERE no = :no AND released IS NULL AND NOT EXISTS (SELECT 1 FROM record WHERE snapshot = :no)
"""
_OTHERS = "SELECT EXISTS (SELECT 1 FROM snapshot WHERE store <> ?)"
_STORE_OF = "SELECT store FROM snapshot WHERE no = ?"
_ANY = "SELECT path, body_hash FROM snapshot WHERE store = ? AND released IS NULL LIMIT 1"
_LOSE = "DELETE FROM snapshot WHERE no = ? AND body_hash = ?"
_LOST = "UPDATE record SET snapshot = NULL WHERE snapshot = ?"
_EXPIRE = """
DELETE FROM snapshot WHERE no IN (
    SELECT p.no FROM snapshot p WHERE p.store = ? AND p.released < ?
       AND NOT EXISTS (SELECT 1 FROM record r WHERE r.snapshot = p.no)
     ORDER BY p.no LIMIT 1000)
RETURNING path
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a snapshot in the store."""

    path: str  #: below the store
    body_hash: bytes
    content_type: str  #: header as received


def release_snapshot_row(connection: Connection, snapshot: int | None, now: int) -> None:
    """Release a snapshot that a page no longer needs; the file is removed later (``expire``)."""
    if snapshot is not None:
        connection.execute(_RELEASE, {"no": snapshot, "now": now})


def delete_lost_snapshot_row(
    connection: Connection, snapshot: int | None, body_hash: bytes | None
) -> None:
    """Delete the row of a snapshot whose file is missing or damaged, for all pages that share it.

    The next visit that downloads the same body stores it again.
    """
    connection.execute(_LOSE, (snapshot, body_hash))
    if connection.changes():
        connection.execute(_LOST, (snapshot,))


class Snapshots:
    """Stores bodies before their batch is written, and reads them back.

    Every method takes the connection of the thread that calls it.
    """

    def __init__(self, store: SnapshotStore, connection: Connection) -> None:
        self._store = store
        self._failures = 0  #: consecutive batches of which nothing could be stored
        self._no = snapshot_store_number(connection, store)
        self._has_others: bool | None = None  #: whether other stores have rows; None: not looked
        self._is_away = False

    def leftovers(self) -> SnapshotLeftovers | None:
        """Return the remover of orphaned files; None if the store is no folder."""
        folder = self._store.folder
        return None if folder is None else SnapshotLeftovers(folder, self._no)

    def put(self, connection: Connection, batch: Batch, now: int) -> dict[bytes, str]:
        """Store the bodies of a batch; return the paths of the new ones by hash.

        A stored body whose file is missing is written again to its path. An error is noted on the
        visit. The caller has no open transaction: a file without a row is overwritten when its
        path is used next.
        """
        wanted = [visit for visit in batch.visits if visit.answer.body is not None]
        if not wanted:
            return {}
        keys: dict[int, bytes] = {address.no: address.id for address in batch.addresses}
        numbers = array("q", [visit.page.no for visit in wanted])
        keys.update(connection.execute(_KEYS, (Many(numbers),)).fetchall())
        hashes = {visit.parsed.body_hash for visit in wanted if visit.parsed.body_hash is not None}
        values: Any = (self._no, Many(tuple(hashes)))
        rows: Any = connection.execute(_KNOWN, values).fetchall()
        known: dict[bytes, str] = dict(rows)
        again = self._missing(known)
        paths = {digest: known[digest] for digest in again}
        bodies: dict[bytes, bytes] = {}
        fresh: dict[bytes, tuple[bytes, str]] = {}
        for visit in wanted:
            digest = visit.parsed.body_hash
            if digest is None or visit.answer.body is None or digest in bodies:
                continue
            if digest not in known:
                document = visit.parsed.document
                kind = visit.answer.content_type if document is None else document.content_type
                fresh[digest] = (keys[visit.page.no], kind)
            if digest in fresh or digest in again:
                bodies[digest] = visit.answer.body
        paths |= self._paths(connection, fresh, now, set(paths.values()))
        self._step_aside(paths, fresh, bodies, now)
        failed = self._put(paths, bodies)
        for visit in wanted:
            visit.snapshot_error = failed.get(visit.parsed.body_hash or b"")
        new = paths.keys() - known.keys() - failed.keys()
        return {digest: paths[digest] for digest in new}

    def _missing(self, known: Mapping[bytes, str]) -> set[bytes]:
        """Return the hashes of snapshots whose files may be missing; all of a store given up."""
        if self._failures >= _PATIENCE:
            return set(known)
        found = self._store.holds(list(known.values()))
        return {digest for digest, there in zip(known, found, strict=True) if not there}

    def _put(self, paths: dict[bytes, str], bodies: dict[bytes, bytes]) -> dict[bytes, str]:
        """Store bodies; return the errors by hash.

        A store that failed for several consecutive batches is given up for the rest of the run:
        each attempt at a store that does not answer takes a minute.
        """
        if self._failures >= _PATIENCE:
            return dict.fromkeys(bodies, "the store failed before in this run")
        files = [(paths[digest], body) for digest, body in bodies.items()]
        errors = self._store.put_many(files, new=True)
        failed = {d: str(e) for d, e in zip(bodies, errors, strict=True) if e is not None}
        if failed and not self._failures:
            logger.warning(
                "snapshots are not stored: %s; the closing table counts the pages",
                next(iter(failed.values())),
            )
        if bodies:
            self._failures = self._failures + 1 if len(failed) == len(bodies) else 0
        return failed

    def note(self, connection: Connection, batch: Batch, new: dict[bytes, str], now: int) -> None:
        """Set the snapshot number of each visit; the caller's transaction."""
        stored: dict[bytes, list[Visit]] = {}
        for visit in batch.visits:
            digest = visit.parsed.body_hash
            if (
                visit.answer.body is not None
                and digest is not None
                and visit.snapshot_error is None
            ):
                stored.setdefault(digest, []).append(visit)
        if not stored:
            return
        rows = [
            (self._no, digest, new[digest], visits[0].answer.content_type or None, now)
            for digest, visits in stored.items()
            if digest in new
        ]
        connection.executemany(_PUT, rows)
        # Stored ones, too: another run may be about to release them.
        kept = [digest for digest in stored if digest not in new]
        connection.execute(_KEEP, (self._no, Many(kept)))
        found: Any = connection.execute(_NUMBERS, (self._no, Many(list(stored)))).fetchall()
        numbers = {bytes(digest): int(no) for digest, no in found}
        for digest, visits in stored.items():
            for visit in visits:
                visit.snapshot = numbers.get(digest)
                if visit.snapshot is None:
                    visit.snapshot_error = "another run wrote to its snapshot at the same time"

    def _paths(
        self,
        connection: Connection,
        fresh: Mapping[bytes, tuple[bytes, str]],
        now: int,
        taken: set[str],
    ) -> dict[bytes, str]:
        """Return paths for new bodies, given the page id and the media type of each.

        If a path is in use or ``taken``, the body's hash is added to it.
        """
        if not fresh:
            return {}
        paths = {digest: stored_snapshot_path(now, *named) for digest, named in fresh.items()}
        rows: Any = connection.execute(_TAKEN, (self._no, Many(list(paths.values())))).fetchall()
        taken = taken.union(path for (path,) in rows)
        for digest, path in paths.items():
            if path in taken:
                paths[digest] = stored_snapshot_path(now, *fresh[digest], body_hash=digest)
            taken.add(paths[digest])
        return paths

    def _step_aside(
        self,
        paths: dict[bytes, str],
        fresh: Mapping[bytes, tuple[bytes, str]],
        bodies: dict[bytes, bytes],
        now: int,
    ) -> None:
        """Choose other paths for new bodies whose paths have files that no row names.

        They are another registry's, or a killed process left them. A file under a second path that
        has the body already is not written again: it goes out of ``bodies``.
        """
        if self._failures >= _PATIENCE:
            return
        taken = self._taken(paths, fresh)
        for digest in taken:
            paths[digest] = stored_snapshot_path(now, *fresh[digest], body_hash=digest)
        for digest in self._taken(paths, taken):
            try:
                self._store.get(paths[digest], digest)
            except SnapshotError:
                paths[digest] = stored_snapshot_path(
                    now, *fresh[digest], body_hash=digest, whole=True
                )
            else:
                del bodies[digest]

    def _taken(self, paths: Mapping[bytes, str], digests: Iterable[bytes]) -> list[bytes]:
        looked = list(digests)
        found = self._store.holds([paths[digest] for digest in looked])
        return [digest for digest, there in zip(looked, found, strict=True) if there]

    def is_readable(self, connection: Connection, snapshot: int) -> bool:
        """Whether a snapshot is in today's store, and that store answers.

        The store is asked once, for one of its bodies: where it is away, each page is as if it had
        no snapshot.
        """
        if self._has_others is None:
            self._has_others = bool(connection.execute(_OTHERS, (self._no,)).get)
            self._is_away = self._looks_away(connection)
        if self._is_away:
            return False
        return not self._has_others or connection.execute(_STORE_OF, (snapshot,)).get == self._no

    def _looks_away(self, connection: Connection) -> bool:
        row: Any = connection.execute(_ANY, (self._no,)).fetchone()
        if row is None:
            return False
        try:
            self._store.get(row[0], bytes(row[1]))
        except SnapshotStoreError as error:
            logger.warning(
                "the snapshots are away: %s; pages whose configuration changed are fetched whole",
                error,
            )
            return True
        except SnapshotError:  # it answers: this one is missing or damaged
            return False
        return False

    def find(self, connection: Connection, page: int) -> Place:
        """Return the place of the snapshot of a page; other pages may share it.

        Raises:
            SnapshotStoreError: it is in another store than today's.
            SnapshotMissingError: a visit of a page that shared it found it missing or damaged.
        """
        row: Any = connection.execute(_WHERE, (page,)).fetchone()
        if row is None:
            raise SnapshotMissingError("the snapshot that it shared with another page is lost")
        if row[0] != self._no:
            raise SnapshotStoreError(f"its snapshot is in {row[1]}, not in SNAPSHOT_STORE")
        return Place(row[2], row[3], row[4] or "")

    async def read(self, place: Place) -> bytes:
        """Return the body of a snapshot; a remote store is read in a thread.

        Raises:
            SnapshotError: the snapshot cannot be read, or is damaged.
        """
        if self._store.url.startswith("file:"):
            return self._store.get(place.path, place.body_hash)
        return await asyncio.to_thread(self._store.get, place.path, place.body_hash)

    def expire(self, connection: Connection, before: int) -> int:
        """Remove snapshots released before a time (Unix seconds); return the number of files.

        The rows are deleted first, so that a crash in between leaves only an orphaned file.
        """
        count = 0
        while True:
            with transaction(connection):
                rows: list[Any] = connection.execute(_EXPIRE, (self._no, before)).fetchall()
            if not rows:
                return count
            for error in self._store.remove_many([path for (path,) in rows]):
                if error is not None:
                    logger.warning("%s", error)
            count += len(rows)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def stored_snapshot_is_due(visit: Visit, *, forced: bool = False) -> bool:
    """Whether the body of a visit becomes the page's stored body, so that a snapshot is due.

    ``forced``: also if the body has a snapshot already, because its file may be missing.
    """
    page = visit.page
    if visit.answer.body is None or visit.extracted_again or visit.kind:
        return False
    if visit.action not in (Action.INDEX, Action.LIST, Action.TOUCH):
        return False
    if forced or page.record.snapshot is None:
        return True
    unknown = visit.action is Action.TOUCH and visit.parsed.body_hash is None
    return not unknown and visit.parsed.body_hash != page.record.body_hash
