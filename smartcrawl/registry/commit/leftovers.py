"""Orphaned snapshot files of a killed process (design.md 5)."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Final, Self

from smartcrawl.registry.commit.snapshot_store import is_stored_snapshot_path
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.choices import store_choice_row, stored_choices
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.rules.model import RunState
from smartcrawl.sources.private_files import FILE, folder_like_its_parent

logger = logging.getLogger(__name__)

_OWNER: Final = ".smartcrawl-registry"  #: file with the mark of the folder's registry
_SHARED: Final = "shared\n"  #: its content if more than one registry has written there
_MARK: Final = "snapshots: "  #: prefix of the names of marks in the registry
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
_FORGET: Final = f"DELETE FROM choice WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'"


@dataclass(frozen=True, slots=True)
class SnapshotFolderMark:
    """A registry's mark on a snapshot folder that no other registry writes to."""

    token: str  #: the same in the registry and in the folder
    database: str  #: place of the registry then: a copy elsewhere has the same mark
    since: int  #: Unix seconds; earlier files may be another registry's
    looked: int = 0  #: run.no of the last search for orphaned files
    again: str = ""  #: day (yyyy/mm/dd) whose files a further search covers; empty: none is due

    @classmethod
    def of(cls, connection: Connection, url: str) -> Self | None:
        """Return the registry's mark of a folder, or None."""
        found = stored_choices(connection).get(_MARK + url)
        return None if found is None else cls(**json.loads(found))

    def keep(self, connection: Connection, url: str) -> None:
        """Write the mark to the registry."""
        with transaction(connection):
            store_choice_row(connection, _MARK + url, json.dumps(asdict(self)))


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
    url: str  #: of the store

    def clear(
        self, connection: Connection, run: int, now: int, *, resumed: bool, database: str
    ) -> int:
        """Remove orphaned files; return their number.

        The caller holds the lease of the run's source, and no other source is being crawled.
        ``run``: run.no; ``resumed``: the run continues an interrupted one; ``now``: Unix seconds;
        ``database``: place of the registry.
        """
        mark = SnapshotFolderMark.of(connection, self.url)
        owner = self._owner()
        if mark is None or owner is None:
            self._claim(connection, now, database, owner)
            return 0
        if owner != mark.token or mark.database != database:
            self._share(owner)
            return 0
        today = datetime.fromtimestamp(now, UTC).strftime("%Y/%m/%d")
        died = resumed or bool(connection.execute(_DIED, (mark.looked,)).get)
        if not died and mark.again in ("", today):
            return 0
        found = self._candidates(mark.since, now, today)
        count = sum(self._remove(connection, some) for some in _slices(found))
        replace(mark, looked=run, again=today if died else "").keep(connection, self.url)
        if count:
            logger.info("removed %d snapshot files that a killed process left behind", count)
        return count

    def _owner(self) -> str | None:
        try:
            return (self.folder / _OWNER).read_text("utf-8", "replace").strip()
        except OSError:
            return None

    def _claim(self, connection: Connection, now: int, database: str, owner: str | None) -> None:
        """Mark an unmarked folder; declare one with another registry's mark shared.

        A missing folder is created and marked before the first crawl writes to it, because that
        crawl may be killed, too. It is not created if the registry has rows of snapshots.
        """
        if owner is not None:
            self._share(owner)
            return
        is_new = not self.folder.exists() and connection.execute(_HAS_NONE).get
        if not (is_new or any(self.folder.glob(_YEAR))):
            return  # the store may be on a disk that is not mounted
        mark = SnapshotFolderMark(token_hex(16), database, now)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(OSError):  # not writable: no file is ever removed
            folder_like_its_parent(self.folder)
            with open(os.open(self.folder / _OWNER, flags, FILE), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), FILE)  # a umask may have taken the owner's own rights
                file.write(f"{mark.token}\n")
            mark.keep(connection, self.url)

    def _share(self, owner: str) -> None:
        """Note in the folder that several registries write to it; no file is removed any more."""
        if owner != _SHARED.strip():
            with suppress(OSError):
                (self.folder / _OWNER).write_text(_SHARED, "utf-8")

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


def delete_mark_rows(connection: Connection) -> None:
    """Delete all marks: a registry that lacks rows must not remove the files of those rows."""
    connection.execute(_FORGET)


def _slices(paths: Iterator[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for path in paths:
        some.append(path)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some
