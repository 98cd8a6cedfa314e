"""The files of a library's items, renamed in step with the registry's transactions.

Each renaming of a batch is written down first (library_move). Then the bytes that are in the way
are set aside, and every file gets its place. The transaction of the batch deletes the written
renamings: without it they are undone, with it what was set aside goes. So a crash at any moment
leaves each committed item with its bytes (ADR 83).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, NamedTuple

from smartcrawl.model.batches import Batch
from smartcrawl.model.library import LibraryFile, LibraryRow
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    delete_library_rows,
    gone_library_rows,
    library_paths_of_other_rows,
    library_rows_at,
    library_rows_of,
    place_library_rows,
    store_library_file_row,
)
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    sharepoint_embedded_path,
    sharepoint_original_path,
)

logger = logging.getLogger(__name__)

INCOMING: Final = CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_INCOMING_SUBFOLDER
#: Files whose places others took before their own removal or renaming was committed.
KEPT: Final = f"{INCOMING}/kept"
_ORIGINAL: Final = f"{CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/"
_PLACING: Final = f"{INCOMING}/placing"  #: there once files go to their places
_NOTE: Final = "INSERT INTO library_move (no, source, held, staged, target) VALUES (?, ?, ?, ?, ?)"
_NOTED: Final = "SELECT no, held, staged, target FROM library_move WHERE source = ? ORDER BY no"
_FORGET: Final = "DELETE FROM library_move WHERE source = ?"


class Move(NamedTuple):
    """One renaming: bytes that are held or staged go to a target."""

    no: int
    held: str | None  #: place of its bytes before; None: none
    staged: str | None  #: place of its new bytes; None: the held ones are renamed
    target: str

    @property
    def aside(self) -> str:
        """The place of the held bytes while renamings are under way."""
        return f"{INCOMING}/{self.no}.old"

    @property
    def origin(self) -> str:
        """The place from which the bytes go to the target."""
        return self.staged or self.aside


def library_row_staged_path(no: int) -> str:
    """Return the place of a record's new bytes, below the folder of its source."""
    return f"{INCOMING}/{no}.new"


class LibraryShelf:
    """Carries out the renamings of batches of one library source."""

    def __init__(self, folder: LibraryFolder, source: int, *, shared: Collection[str] = ()) -> None:
        """``source``: source.no. ``shared``: paths of files that belong to no single item."""
        self._folder = folder
        self._source = source
        self._shared = frozenset(shared)
        self._left: list[str] = []  #: former files of the items of the batch
        self.refused = 0  #: files that the system did not let be put into their places
        self._files: dict[int, LibraryFile] = {}  #: of the batch, by record.no
        self._moves: list[Move] = []

    def prepare(self, connection: Connection, batch: Batch) -> None:
        """Write down the renamings of a batch and carry them out. No transaction is open.

        An item whose file the system does not take gets the reason as its error.
        """
        self._files = {
            visit.page.no: visit.answer.file
            for visit in batch.visits
            if visit.answer.file is not None
        }
        self._moves, self._left = [], []
        while self._files:
            self._moves = self._planned(connection)
            self._folder.remove(_PLACING)
            rows = [(m.no, self._source, m.held, m.staged, m.target) for m in self._moves]
            with transaction(connection):
                connection.execute(_FORGET, (self._source,))
                connection.executemany(_NOTE, rows)
            failed = self._carry_out()
            if failed is None:
                return
            self._undo(self._moves)
            no, why = failed
            if no not in self._files:  # it would have made way
                no = self._in_the_way(no)
            self.refused += 1
            self._files[no] = self._files[no]._replace(
                path=None, staged=None, held=None, error=f"it cannot be put into its place: {why}"
            )

    def _in_the_way(self, no: int) -> int:
        """Return the number of the file that takes the place of another."""
        held = next(move.held for move in self._moves if move.no == no)
        return next(move.no for move in self._moves if move.target == held)

    def _carry_out(self) -> tuple[int, str] | None:
        """Do the renamings; return the number of the one that fails, and why."""
        moves = self._moves
        for move in moves:
            if move.held is not None:
                try:
                    self._folder.rename(move.held, move.aside)
                except OSError as error:
                    return move.no, error.strerror or str(error)
        if moves:
            self._folder.write(_PLACING, b"", 0)
        for move in moves:
            try:
                self._folder.rename(move.origin, move.target)
            except OSError as error:
                return move.no, error.strerror or str(error)
        return None

    def _undo(self, moves: Sequence[Move]) -> None:
        """Undo renamings, however many of them were done."""
        if self._is_there(_PLACING):
            for move in moves:
                # A person may have deleted it since the process died; then its item comes again.
                if not self._is_there(move.origin) and self._is_there(move.target):
                    self._folder.rename(move.target, move.origin)
        for move in moves:
            if move.held is not None and self._is_there(move.aside):
                self._folder.rename(move.aside, move.held)
        self._folder.remove(_PLACING)

    def _planned(self, connection: Connection) -> list[Move]:
        """Return the renamings that put each file of the batch into its place."""
        rows = library_rows_of(connection, list(self._files))
        moves: dict[int, Move] = {}
        taken: dict[str, int] = {}
        for no, file in self._files.items():
            if file.path is None or not (file.staged or file.held):
                continue
            held = self._held(rows.get(no), file)
            if file.staged is None and held is None:  # its bytes vanished meanwhile
                self._files[no] = file._replace(path=None, error="its file vanished from the disk")
                continue
            if file.staged is None and held == file.path:
                continue
            if (other := taken.get(file.path)) is not None:  # the library renamed both meanwhile
                moves[other] = moves[other]._replace(target=_kept(other, file.path))
            moves[no] = Move(no, held, file.staged, file.path)
            taken[file.path] = no
        inside = library_rows_at(connection, self._source, list(taken))
        for path, row in inside.items():
            if row.no not in moves and row.no != taken[path] and self._is_there(path):
                moves[row.no] = Move(row.no, path, None, _kept(row.no, path))
        return list(moves.values())

    def _held(self, row: LibraryRow | None, file: LibraryFile) -> str | None:
        """Return the place of the bytes that an item has now; None: there are none.

        An earlier batch may have moved them since they were read, so the place of the row counts.
        Only an item of an empty registry has no row: then it is the place of a map.
        """
        path = file.held if row is None else row.path
        return path if path is not None and self._is_there(path) else None

    def paths_under_way(self, connection: Connection) -> set[str]:
        """Return the paths from and to which renamings are written down now."""
        rows: Any = connection.execute(_NOTED, (self._source,)).fetchall()
        return {path for _, held, _, target in rows for path in (held, target)}

    def _is_there(self, path: str) -> bool:
        return self._folder.facts(path) is not None

    def store(self, connection: Connection) -> None:
        """Store the items of the batch, within its transaction, and end its renamings."""
        if not self._files:
            return
        former = self._former(connection)
        moved = {move.no: move.target for move in self._moves}
        for no, file in self._files.items():
            place = moved.get(no, file.path)
            store_library_file_row(connection, self._source, no, file._replace(path=place))
        others = [(no, path) for no, path in moved.items() if no not in self._files]
        place_library_rows(connection, others)
        connection.execute(_FORGET, (self._source,))
        self._left = self._free(connection, former)

    def _former(self, connection: Connection) -> set[str]:
        """Return the present files of items whose new original is to be processed (R3-73)."""
        new = {
            no
            for no, file in self._files.items()
            if file.path is not None and file.path.startswith(_ORIGINAL)
        }
        rows = library_rows_of(connection, sorted(new)) if new else {}
        paths = {row.path for row in rows.values() if row.path is not None}
        return paths | {sharepoint_original_path(path) for path in paths}

    def _free(
        self, connection: Connection, paths: set[str], numbers: Sequence[int] = ()
    ) -> list[str]:
        """Return those of some paths that no item refers to; ``numbers``: items that do not count.

        A processed page refers to its original, too (M-53).
        """
        if not paths:
            return []
        asked = paths | {sharepoint_embedded_path(path) for path in paths}
        kept = library_paths_of_other_rows(connection, self._source, asked, numbers)
        kept |= {sharepoint_original_path(path) for path in kept}
        return sorted(paths - kept - self._shared)

    def finish(self) -> None:
        """Remove what the renamings of a committed batch set aside."""
        for move in self._moves:
            if move.staged is not None and move.held is not None:
                self._drop(move.aside)
            if move.held is not None:
                self._folder.tidy(move.held)
        for path in self._left:
            self._drop(path)
        if self._moves:
            self._drop(_PLACING)
        self._files, self._moves, self._left = {}, [], []

    def _drop(self, path: str) -> None:
        try:
            self._folder.remove(path)
        except OSError as error:  # the next run removes it
            logger.warning("%s stays on the disk: %s", path, error.strerror)

    def recover(self, connection: Connection) -> int:
        """Undo the renamings of a process that died, and remove what it staged.

        Returns the number of renamings that were undone.

        Raises:
            OSError: the disk does not permit it.
        """
        undone = self.undo_noted(connection)
        with transaction(connection):
            connection.execute(_FORGET, (self._source,))
        left = [path for path, _, _ in self._folder.walk(INCOMING)]
        named = library_rows_at(connection, self._source, left)
        for path in left:
            if path not in named:
                self._folder.remove(path)
        return undone

    def undo_noted(self, connection: Connection) -> int:
        """Undo the renamings that are written down, on the disk alone; return their number.

        Raises:
            OSError: the disk does not permit it.
        """
        rows: Any = connection.execute(_NOTED, (self._source,)).fetchall()
        moves = [Move(no, held, staged, target) for no, held, staged, target in rows]
        self._undo(moves)
        return len(moves)

    def remove_gone(self, connection: Connection, run: int) -> int:
        """Remove the files of items that a sweep removed; return their number.

        It may be repeated: the row of an item goes after its file.
        """
        rows = gone_library_rows(connection, self._source, run)
        gone = {row.path for row in rows if row.path is not None}
        gone |= {sharepoint_original_path(path) for path in gone}
        for path in self._free(connection, gone, [row.no for row in rows]):
            self._folder.remove(path)
        for row in rows:
            logger.info("%s is removed: the library has it no more", row.server_relative_url)
        with transaction(connection):
            delete_library_rows(connection, [row.no for row in rows])
        return len(rows)


def _kept(no: int, path: str) -> str:
    """Return the place of a file whose own place another file takes."""
    return f"{KEPT}/{no}/{path.rpartition('/')[2]}"


class StoredItems:
    """Reads items for the threads of a run, one at a time; the first look-up opens the connection.

    A connection for each item would take a sixth of the CPU of a first download.
    """

    def __init__(self, database: Database, shelf: LibraryShelf) -> None:
        self._database = database
        self._shelf = shelf
        self._lock = Lock()
        self._connection: Connection | None = None

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = self._database.connect(readonly=True)
            yield self._connection

    def row(self, no: int) -> LibraryRow | None:
        """Return the stored item of a record, or None."""
        with self._opened() as connection:
            return library_rows_of(connection, [no]).get(no)

    def rests(self, row: LibraryRow) -> bool:
        """Whether the file of an item was in its place ever since its row was read."""
        with self._opened() as connection:
            now = library_rows_of(connection, [row.no]).get(row.no)
            paths = self._shelf.paths_under_way(connection)
        return now is not None and now.path == row.path and row.path not in paths

    def close(self) -> None:
        """Close the connection; idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
