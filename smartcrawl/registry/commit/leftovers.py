"""Orphaned snapshot files of a killed process (ADR 23)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from smartcrawl.registry.commit.folder_marks import (
    FolderOwner,
    RegistryPlace,
    SnapshotFolderMark,
    mark_snapshot_folder,
)
from smartcrawl.registry.commit.snapshot_store import is_stored_snapshot_path
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.rules.model import RunState

logger = logging.getLogger(__name__)

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
