"""Stored bodies and their paths: one copy each, as long as a page refers to it (M-48)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import SnapshotError, SnapshotMissingError, SnapshotStoreError
from smartcrawl.model.pages import Visit
from smartcrawl.registry.commit.snapshot_store import (
    SnapshotStore,
    is_stored_snapshot_path,
    stored_snapshot_path,
)
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.choices import store_choice_row, stored_choices
from smartcrawl.rules.model import Action, RunState
from smartcrawl.sources.private_files import FILE, folder_like_its_parent

logger = logging.getLogger(__name__)


OWNER: Final = ".smartcrawl-registry"  #: file with the token of a folder
_SHARED: Final = "shared"  #: its last line if more than one registry has written there
_MARK: Final = "snapshots: "  #: prefix of the names of marks in the registry
_FORGET: Final = f"DELETE FROM choice WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'"
_FORGET_ONE: Final = "DELETE FROM choice WHERE name = ?"
_NUMBER: Final = "SELECT no FROM store WHERE url = ?"


class FolderOwner(NamedTuple):
    """The content of the file that marks a folder of snapshots."""

    token: str  #: its identity; empty: older versions dropped it
    is_shared: bool  #: whether several registries write there

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Return the mark of a folder, or None."""
        try:
            words = (folder / OWNER).read_text("utf-8", "replace").split()
        except OSError:
            return None
        return cls("".join(words[:1]).removeprefix(_SHARED), _SHARED in words)

    def share(self, folder: Path) -> None:
        """Note in a folder that several registries write to it; its identity stays."""
        if not self.is_shared:
            with suppress(OSError):
                (folder / OWNER).write_text(f"{self.token}\n{_SHARED}\n", "utf-8")


def mark_snapshot_folder(folder: Path) -> str:
    """Give a folder a new token, and return it; a missing folder is made.

    Raises:
        OSError: it is marked already, or cannot be written.
    """
    token = token_hex(16)
    folder_like_its_parent(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(folder / OWNER, flags, FILE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), FILE)  # a umask may have taken the owner's own rights
        file.write(f"{token}\n")
    return token


class RegistryPlace(NamedTuple):
    """Three signs of a registry; a copy has none of them, one that was moved has some."""

    database: str  #: its path without symbolic links, or its URL
    relation: str = ""  #: path from the folder of snapshots to its file
    file: str = ""  #: device and inode of its file

    @classmethod
    def of(cls, database: str, folder: Path) -> Self:
        """Return the signs of a registry, as a folder of snapshots sees it."""
        if "://" in database:
            return cls(database)
        path = os.path.realpath(database)
        try:
            found = os.stat(path)
        except OSError:
            return cls(path, os.path.relpath(path, folder))
        return cls(path, os.path.relpath(path, folder), f"{found.st_dev}:{found.st_ino}")

    def is_one(self, other: RegistryPlace) -> bool:
        """Whether two signs are of one registry."""
        return any(mine and mine == its for mine, its in zip(self, other, strict=True))


@dataclass(frozen=True, slots=True)
class SnapshotFolderMark:
    """A registry's mark on a snapshot folder that no other registry writes to."""

    token: str  #: the same in the registry and in the folder
    database: str  #: place of the registry then (RegistryPlace): a copy has the same mark
    since: int  #: Unix seconds; earlier files may be another registry's
    looked: int = 0  #: run.no of the last search for orphaned files
    again: str = ""  #: day (yyyy/mm/dd) whose files a further search covers; empty: none is due
    relation: str = ""
    file: str = ""
    store: int = 0  #: store.no

    @property
    def place(self) -> RegistryPlace:
        """The place of the registry when the mark was written."""
        return RegistryPlace(self.database, self.relation, self.file)

    def at(self, place: RegistryPlace, store: int) -> Self:
        """Return the mark for today's place of the registry."""
        return replace(self, store=store, **place._asdict())

    @classmethod
    def all(cls, connection: Connection) -> dict[str, Self]:
        """Return the registry's marks by their names in it."""
        found: dict[str, Self] = {}
        for name, value in stored_choices(connection).items():
            if name.startswith(_MARK):
                facts: dict[str, Any] = json.loads(value)
                if not facts.get("store"):  # an older version named it by the URL of the store
                    url = name.removeprefix(_MARK)
                    facts["store"] = connection.execute(_NUMBER, (url,)).get or 0
                    folder = folder_of_file_url(url)
                    if folder is not None and "://" not in facts["database"]:
                        facts["relation"] = os.path.relpath(facts["database"], folder)
                found[name] = cls(**facts)
        return found

    @classmethod
    def of(cls, connection: Connection, token: str) -> Self | None:
        """Return the registry's mark of the folder with a token, or None."""
        return next((m for m in cls.all(connection).values() if m.token == token), None)

    def keep(self, connection: Connection) -> None:
        """Write the mark in the place of others of its store; the caller's transaction."""
        for name, other in type(self).all(connection).items():
            if other.store == self.store or other.token == self.token:
                connection.execute(_FORGET_ONE, (name,))
        store_choice_row(connection, _MARK + self.token, json.dumps(asdict(self)))


def folder_of_file_url(url: str) -> Path | None:
    """Return the folder that a ``file://`` URL names; None: it names none."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:///") else None


def delete_mark_rows(connection: Connection) -> None:
    """Delete all marks: a registry that lacks rows must not remove the files of those rows."""
    connection.execute(_FORGET)


_ROWS: Final = "SELECT no, url FROM store ORDER BY no"
_NEW: Final = "INSERT INTO store (url) VALUES (?) ON CONFLICT (url) DO NOTHING"
_RENAME: Final = "UPDATE store SET url = ? WHERE no = ?"
_SOME: Final = "SELECT path, body_hash FROM snapshot WHERE store = ? ORDER BY no DESC LIMIT 20"
_TWINS: Final = """
       FROM snapshot o JOIN snapshot k ON k.store = :into AND k.body_hash = o.body_hash
"""
_HOLD_TWINS: Final = f"""
UPDATE record SET snapshot = (SELECT k.no {_TWINS} WHERE o.no = record.snapshot)
 WHERE snapshot IN (SELECT o.no {_TWINS} WHERE o.store = :old)
"""
_DROP_TWINS: Final = """
DELETE FROM snapshot
 WHERE store = :old AND body_hash IN (SELECT body_hash FROM snapshot WHERE store = :into)
"""
_CLASHES: Final = """
SELECT o.path, o.body_hash, o.no, k.no
  FROM snapshot o JOIN snapshot k ON k.store = :into AND k.path = o.path WHERE o.store = :old
"""
_LOSE: Final = "DELETE FROM snapshot WHERE no = ?"
_LOST: Final = "UPDATE record SET snapshot = NULL WHERE snapshot = ?"
_MOVE: Final = "UPDATE snapshot SET store = :into WHERE store = :old"
_HOLD: Final = """
UPDATE snapshot SET released = NULL
 WHERE store = ? AND released IS NOT NULL
   AND EXISTS (SELECT 1 FROM record r WHERE r.snapshot = snapshot.no)
"""
_DROP: Final = "DELETE FROM store WHERE no = ?"


def snapshot_store_number(
    connection: Connection, store: SnapshotStore, *, everywhere: bool = False
) -> int:
    """Return store.no of today's store; rows of its former spellings and places are joined.

    ``everywhere``: so are those of all other stores, whose bodies a restore has brought here. The
    caller opens the transaction.
    """
    owner = None if store.folder is None else FolderOwner.of(store.folder)
    token = "" if owner is None else owner.token
    marks = {mark.store: mark.token for mark in SnapshotFolderMark.all(connection).values()}
    rows: Any = connection.execute(_ROWS).fetchall()
    urls: dict[int, str] = dict(rows)
    same: list[int] = []
    for no, url in urls.items():
        mark = marks.get(no)
        by_mark = None if not (mark and token) else mark == token
        if everywhere or by_mark or (by_mark is None and _is_same(connection, store, no, url)):
            same.append(no)
        elif url == store.url:  # another folder is mounted there now
            connection.execute(_RENAME, (f"{url}#{mark}", no))
    if not same:
        connection.execute(_NEW, (store.url,))
        return int(connection.execute(_NUMBER, (store.url,)).get)
    marked = [no for no in same if token and marks.get(no) == token]
    named = [no for no in same if urls[no] == store.url]
    number = (marked or named or same)[0]
    for no in same:
        if no != number:
            _join(connection, store, old=no, into=number)
            if no in marks and owner is not None and not (owner.token or everywhere):
                _forget_false_share(store)
    if urls[number] != store.url:
        connection.execute(_RENAME, (store.url, number))
        logger.debug("the snapshots of %s are found in %s now", urls[number], store.url)
    return number


def _forget_false_share(store: SnapshotStore) -> None:
    """Take back that a folder is shared: an older version took its new spelling for another's."""
    if store.folder is not None:
        with suppress(OSError):
            (store.folder / OWNER).unlink()


def _is_same(connection: Connection, store: SnapshotStore, no: int, url: str) -> bool:
    """Whether a row is of today's store, by its URL, or as a former place of the same folder."""
    if url == store.url:
        return True
    former = folder_of_file_url(url)
    if store.folder is None or former is None:
        return False
    if Path(os.path.realpath(former)) == store.folder:
        return True
    try:
        if any(former.iterdir()):
            return False
    except OSError:
        pass  # it was moved, or is away
    return any(_holds(store, *row) for row in connection.execute(_SOME, (no,)).fetchall())


def _holds(store: SnapshotStore, path: str, body_hash: bytes) -> bool:
    try:
        store.get(path, bytes(body_hash))
    except SnapshotError:
        return False
    return True


def _join(connection: Connection, store: SnapshotStore, *, old: int, into: int) -> None:
    """Make the rows of one store those of another; both are of the same place."""
    names = {"old": old, "into": into}
    connection.execute(_HOLD_TWINS, names)
    connection.execute(_DROP_TWINS, names)
    clashes: Any = connection.execute(_CLASHES, names).fetchall()
    for path, body_hash, its, ours in clashes:  # one of the two was overwritten
        lost = ours if _holds(store, path, body_hash) else its
        connection.execute(_LOST, (lost,))
        connection.execute(_LOSE, (lost,))
    connection.execute(_MOVE, names)
    connection.execute(_HOLD, (into,))
    connection.execute(_DROP, (old,))


_SETTLED: Final = 60  #: least seconds between the time of a file and now
_AT_ONCE: Final = 500  #: paths of one statement
#: A partly written file, beside its final name (stores.Folder).
_PART: Final = re.compile(r"\.(.+)\.[0-9a-f]{8}")
_DAY: Final = re.compile(r"\d{4}/\d\d/\d\d")
_YEAR: Final = "[0-9]" * 4
_DIED: Final = f"""
SELECT count(*) FROM run
 WHERE no >= ? AND state IN ({int(RunState.CANCELLED)}, {int(RunState.INTERRUPTED)})
"""
_NAMED: Final = "SELECT path FROM snapshot WHERE path IN carray(?)"
_HAS_NONE: Final = "SELECT NOT EXISTS (SELECT 1 FROM snapshot)"


@dataclass(frozen=True, slots=True)
class SnapshotLeftovers:
    """Removes orphaned files from a snapshot folder.

    A file is removed only under all of these conditions. It has the name of a snapshot, or of a
    partly written one. It is younger than the mark by which this registry alone writes to the
    folder. Its day was over, and it was more than a minute old, when the run began. No row of any
    store names it.

    The folder is searched only if a run was interrupted since the last search, and once more on
    another day. Otherwise there are no orphaned files, and no folder is listed.
    """

    folder: Path
    store: int  #: store.no

    def clear(
        self, connection: Connection, run: int, now: int, *, resumed: bool, database: str
    ) -> int:
        """Remove orphaned files; return their number.

        The caller holds the lease of the run's source, and no other source is being crawled.
        ``run``: run.no; ``resumed``: the run continues an interrupted one; ``now``: Unix seconds;
        ``database``: place of the registry.
        """
        owner, place = FolderOwner.of(self.folder), RegistryPlace.of(database, self.folder)
        if owner is None:
            self._claim(connection, now, place)
            return 0
        mark = SnapshotFolderMark.of(connection, owner.token)
        if mark is None or owner.is_shared or not mark.place.is_one(place):
            owner.share(self.folder)
            return 0
        mark = mark.at(place, self.store)
        today = datetime.fromtimestamp(now, UTC).strftime("%Y/%m/%d")
        died = resumed or bool(connection.execute(_DIED, (mark.looked,)).get)
        if not died and mark.again in ("", today):
            self._keep(connection, mark)
            return 0
        found = self._candidates(mark.since, now, today)
        count = sum(self._remove(connection, some) for some in _slices(found))
        self._keep(connection, replace(mark, looked=run, again=today if died else ""))
        if count:
            logger.info("removed %d snapshot files that a killed process left behind", count)
        return count

    def _keep(self, connection: Connection, mark: SnapshotFolderMark) -> None:
        """Write a mark that has changed, as by a move of the folder or of the registry."""
        if mark != SnapshotFolderMark.of(connection, mark.token):
            with transaction(connection):
                mark.keep(connection)

    def _claim(self, connection: Connection, now: int, place: RegistryPlace) -> None:
        """Mark an unmarked folder.

        A missing folder is created and marked before the first crawl writes to it, because that
        crawl may be killed, too. It is not created if the registry has rows of snapshots.
        """
        is_new = not self.folder.exists() and connection.execute(_HAS_NONE).get
        if not (is_new or any(self.folder.glob(_YEAR))):
            return  # the store may be on a disk that is not mounted
        with suppress(OSError):  # not writable: no file is ever removed
            token = mark_snapshot_folder(self.folder)
            mark = SnapshotFolderMark(token, "", now)
            self._keep(connection, mark.at(place, self.store))

    def _candidates(self, since: int, now: int, today: str) -> Iterator[str]:
        """Yield the paths of files that may be orphaned by their name, age and day."""
        for year in sorted(self.folder.glob(_YEAR)):
            for file in year.glob("[0-9][0-9]/[0-9][0-9]/*"):
                day = file.parent.relative_to(self.folder).as_posix()
                if not _DAY.fullmatch(day) or day >= today:
                    continue
                part = _PART.fullmatch(file.name)
                if not is_stored_snapshot_path(f"{day}/{part[1] if part else file.name}"):
                    continue
                with suppress(OSError):
                    seen = file.lstat()
                    if since < seen.st_mtime < now - _SETTLED and file.is_file():
                        yield f"{day}/{file.name}"

    def _remove(self, connection: Connection, paths: Sequence[str]) -> int:
        """Remove files that no row names; return their number. Partly written files have no row."""
        named = {path for (path,) in connection.execute(_NAMED, (Many(paths),)).fetchall()}
        count = 0
        for path in paths:
            if path not in named:
                with suppress(OSError):
                    (self.folder / path).unlink()
                    count += 1
        return count


def _slices(paths: Iterator[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for path in paths:
        some.append(path)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


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
_LOSE_BODY = "DELETE FROM snapshot WHERE no = ? AND body_hash = ?"
_LOST_BODY = "UPDATE record SET snapshot = NULL WHERE snapshot = ?"
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
    connection.execute(_LOSE_BODY, (snapshot, body_hash))
    if connection.changes():
        connection.execute(_LOST_BODY, (snapshot,))


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
