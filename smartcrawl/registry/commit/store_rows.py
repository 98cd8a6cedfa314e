"""The row of today's store of snapshots: one, however its place is spelt (ADR 109)."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import SnapshotError
from smartcrawl.registry.commit.folder_marks import (
    OWNER,
    FolderOwner,
    SnapshotFolderMark,
    folder_of_file_url,
)
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.connection import Connection

logger = logging.getLogger(__name__)

_ROWS: Final = "SELECT no, url FROM store ORDER BY no"
_NEW: Final = "INSERT INTO store (url) VALUES (?) ON CONFLICT (url) DO NOTHING"
_NUMBER: Final = "SELECT no FROM store WHERE url = ?"
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
