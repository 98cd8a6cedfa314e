"""Snapshot files that a killed process left behind and no row names (design.md 5)."""

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

from smartcrawl.model.ports import Connection, Many
from smartcrawl.registry.commit.snapshot_store import is_snapshot
from smartcrawl.registry.database.choices import store, stored
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.rules.model import RunState
from smartcrawl.sources.private_files import FILE, folder_like_its_parent

logger = logging.getLogger(__name__)

_OWNER: Final = ".smartcrawl-registry"  #: the file with the mark of the registry that writes there
_SHARED: Final = "shared\n"  #: its content where more than one registry did
_MARK: Final = "snapshots: "  #: what names of marks in the registry begin with
_SETTLED: Final = 60  #: seconds that a file must be older than the run
_AT_ONCE: Final = 500  #: paths of one statement
#: A file that was being written, beside its place (stores.Folder).
_PART: Final = re.compile(r"\.(.+)\.[0-9a-f]{8}")
_DAY: Final = re.compile(r"\d{4}/\d\d/\d\d")
_YEAR: Final = "[0-9]" * 4
_DIED: Final = f"""
SELECT count(*) FROM run WHERE no >= ? AND state = {int(RunState.INTERRUPTED)}
"""
_NAMED: Final = "SELECT path FROM snapshot WHERE path IN carray(?)"
_HAS_NONE: Final = "SELECT NOT EXISTS (SELECT 1 FROM snapshot)"
_FORGET: Final = f"DELETE FROM choice WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a registry knows of a folder of snapshots that it alone writes to."""

    token: str  #: also in the folder
    database: str  #: where the registry was then: a copy of it has the same mark
    since: int  #: Unix seconds; files from before may be another registry's
    looked: int = 0  #: run that looked for leftovers last
    again: str = ""  #: day, yyyy/mm/dd, of which it could not remove any; empty: none is left

    @classmethod
    def of(cls, connection: Connection, url: str) -> Self | None:
        """Return the mark of a folder; None: the registry has none."""
        found = stored(connection).get(_MARK + url)
        return None if found is None else cls(**json.loads(found))

    def keep(self, connection: Connection, url: str) -> None:
        """Write the mark to the registry."""
        with transaction(connection):
            store(connection, _MARK + url, json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Removes files of a folder of snapshots, where it is certain that nothing needs them.

    They must have the name of a snapshot, or of one that was being written; be younger than the
    mark that says that this registry alone writes to the folder; be of a day and a minute before
    this run; and be named by no row, of whichever store. It looks only where a run was interrupted
    since it looked last, and once more on another day: otherwise nothing is left behind, and no
    folder is listed.
    """

    folder: Path
    url: str  #: of the store

    def clear(
        self, connection: Connection, run: int, now: int, *, resumed: bool, database: str
    ) -> int:
        """Remove what was left behind; return how many files went.

        The caller holds the lease of the run's source, and no other source is being crawled.
        ``run`` is its number, ``resumed`` whether it goes on after it was interrupted; ``now``:
        Unix seconds.
        """
        mark = Mark.of(connection, self.url)
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
        """Mark a folder that has no mark yet; one with another's is shared from now on.

        A folder that is not there is made and marked before the first crawl writes to it, for
        that crawl may be killed, too; not where snapshots are said to be there.
        """
        if owner is not None:
            self._share(owner)
            return
        is_new = not self.folder.exists() and connection.execute(_HAS_NONE).get
        if not (is_new or any(self.folder.glob(_YEAR))):
            return  # the store may be a disk that is not mounted now
        mark = Mark(token_hex(16), database, now)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(OSError):  # not writable: then nothing is ever removed
            folder_like_its_parent(self.folder)
            with open(os.open(self.folder / _OWNER, flags, FILE), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), FILE)  # a umask may have taken the owner's own rights
                file.write(f"{mark.token}\n")
            mark.keep(connection, self.url)

    def _share(self, owner: str) -> None:
        """Note in the folder that more than one registry writes to it; no file goes any more."""
        if owner != _SHARED.strip():
            with suppress(OSError):
                (self.folder / _OWNER).write_text(_SHARED, "utf-8")

    def _candidates(self, since: int, now: int, today: str) -> Iterator[str]:
        """Yield the paths of files whose name, age and day allow that nothing needs them."""
        for year in sorted(self.folder.glob(_YEAR)):
            for file in year.glob("[0-9][0-9]/[0-9][0-9]/*"):
                day = file.parent.relative_to(self.folder).as_posix()
                if not _DAY.fullmatch(day) or day >= today:
                    continue
                part = _PART.fullmatch(file.name)
                if not is_snapshot(f"{day}/{part[1] if part else file.name}"):
                    continue
                with suppress(OSError):
                    seen = file.lstat()
                    if since < seen.st_mtime < now - _SETTLED and file.is_file():
                        yield f"{day}/{file.name}"

    def _remove(self, connection: Connection, paths: Sequence[str]) -> int:
        """Remove those that no row names; a file that was being written has no row."""
        named = {path for (path,) in connection.execute(_NAMED, (Many(paths),)).fetchall()}
        count = 0
        for path in paths:
            if path not in named:
                with suppress(OSError):
                    (self.folder / path).unlink()
                    count += 1
        return count


def forget_marks(connection: Connection) -> None:
    """Forget which folders a registry writes to alone: it lacks rows, and their files may stay."""
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
