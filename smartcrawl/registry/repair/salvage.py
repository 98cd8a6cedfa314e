"""Salvage of a damaged registry: its readable rows, copied into a new file (ADR 39).

Earlier versions stored links to numbers without a record (ADR 116) where the database had lost its
last commits under a run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple

import apsw

from smartcrawl.model.exceptions import RegistryDamagedError, RegistryError
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.commit.snapshots import delete_mark_rows
from smartcrawl.registry.connection import Connection, read_transaction, transaction
from smartcrawl.registry.database.integrity import (
    database_problems,
    lacking_schema_parts,
    registry_tables,
    unreadable_stored_values,
)
from smartcrawl.registry.database.migrations import is_older_layout, migrations
from smartcrawl.registry.database.sqlite import (
    APPLICATION_ID,
    SqliteConnection,
    apply_migrations,
    connect_sqlite,
    migrate,
    older_sqlite_layout_error,
    refuse_unusable_file,
    translated_sqlite_errors,
)
from smartcrawl.registry.pack import unpack_stored_numbers
from smartcrawl.registry.removal.tombstones import look_up_links_again
from smartcrawl.rules.model import Standing, Status
from smartcrawl.sources.private_files import private_file, private_folder

_RECORDS_AT_ONCE: Final = 2_000  #: rows of one statement
_NUMBERS = "SELECT no FROM record WHERE no > ? ORDER BY no LIMIT ?"
_LINKS = """
SELECT l.no, r.url, l.targets FROM links l JOIN record r USING (no)
 WHERE r.source = ? AND l.no > ? AND l.scope <> 0 ORDER BY l.no LIMIT ?
"""


class LinksToNowhere(NamedTuple):
    """A page with links to numbers without a record."""

    no: int
    url: str
    targets: tuple[int, ...]  #: numbers without a record


def links_to_nowhere_rows(connection: Connection, source: int) -> Iterator[LinksToNowhere]:
    """Yield the pages of a source (source.no) with links to numbers that have no record."""
    with read_transaction(connection):
        known = _numbers(connection)
        last = 0
        while rows := _some(connection, _LINKS, (source, last, _RECORDS_AT_ONCE)):
            for no, url, targets in rows:
                missing = [
                    number
                    for number in unpack_stored_numbers(targets)
                    if number >= len(known) or not known[number]
                ]
                if missing:
                    yield LinksToNowhere(no, url, tuple(missing))
            last = rows[-1][0]


def _numbers(connection: Connection) -> bytearray:
    """Return one byte a number: whether it has a record."""
    known, last = bytearray(), 0
    while rows := _some(connection, _NUMBERS, (last, _RECORDS_AT_ONCE)):
        last = rows[-1][0]
        known.extend(bytes(last + 1 - len(known)))
        for (number,) in rows:
            known[number] = 1
    return known


def _some(connection: Connection, statement: str, values: tuple[int, ...]) -> list[Any]:
    return connection.execute(statement, values).fetchall()


def mend_links_to_nowhere(connection: Connection, found: Collection[LinksToNowhere]) -> None:
    """Have the next run look up the links of pages by address; the caller's transaction."""
    missing = {number for each in found for number in each.targets}
    look_up_links_again(connection, [each.no for each in found], missing)


_FAR: Final = 250  #: depth of a page whose own is lost, until the next link to it corrects it
_AHEAD: Final = 10_000  #: claim numbers skipped, because some may be in use
#: Contents with lost chunks: beside an unreadable part, or with a gap.
_TORN_BESIDE: Final = """
INSERT OR IGNORE INTO torn
SELECT content FROM chunk WHERE no = (SELECT max(no) FROM chunk WHERE no <= :gap)
UNION SELECT content FROM chunk WHERE no = (SELECT min(no) FROM chunk WHERE no > :gap)
"""
_TORN: Final = """
INSERT OR IGNORE INTO torn
SELECT c.no FROM content c LEFT JOIN
       (SELECT content, count(*) AS count, max(position) + 1 AS most FROM chunk GROUP BY content) k
       ON k.content = c.no
 WHERE (k.content IS NULL AND c.text_length > 0) OR k.count <> k.most
"""
_SETS: Final = ("torn", "bare", "alone")  #: contents; pages; pages whose original is lost
_CHILDREN: Final = ("state", "links", "item", "pin", "candidate", "dead_letter", "spelling")
#: References to rows that may be missing: table, column, referenced table.
_LOOSE: Final = (
    ("record", "discovered_from", "record"),
    ("record", "duplicate_of", "record"),
    ("record", "redirect_no", "record"),
    ("record", "moved_from", "record"),
    ("record", "canonical_no", "record"),
    ("record", "snapshot", "snapshot"),
    ("record", "configuration", "fingerprint"),
)
_STATE: Final = f"""
INSERT INTO state (no, reached_run, seen_run, depth, status, standing)
SELECT no, 0, (SELECT coalesce(max(no), 0) FROM run), {_FAR}, 0, 0
  FROM record WHERE no NOT IN (SELECT no FROM state)
"""
#: A page with incomplete content counts as new, so that the next visit downloads it.
_BARE: Final = f"""
UPDATE state SET standing = {int(Standing.BARE)}, status = {int(Status.PENDING)}
 WHERE no IN (SELECT no FROM bare)
"""
_EMPTY: Final = """
UPDATE record SET content = NULL, entry = 0, duplicate_of = NULL, etag = NULL,
       last_modified = NULL, modified = NULL, body_hash = NULL, content_hash = NULL,
       text_hash = NULL
 WHERE no IN (SELECT no FROM bare)
"""
#: All chunks wait for their words.
_WORDS_WAIT: Final = """
INSERT INTO choice (name, value) SELECT 'words until', '0' WHERE EXISTS (SELECT 1 FROM chunk)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_SEQUENCES: Final = f"""
INSERT INTO sequence (name, value)
SELECT 'number', {_AHEAD} + max((SELECT coalesce(max(number), 0) FROM state),
                                (SELECT coalesce(max(intent), 0) FROM state),
                                (SELECT coalesce(max(number), 0) FROM run))
 UNION ALL SELECT 'address', (SELECT coalesce(max(no), 0) FROM record)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""


@dataclass(frozen=True, slots=True)
class MendedRows:
    """Changes because of missing rows, counted in rows."""

    fetched_again: int  #: pages whose content or state is lost
    sources: int  #: sources whose name is lost
    hosts: int  #: hosts whose figures are lost
    dropped: int  #: rows that referred to missing rows, or had an unreadable value

    def counts(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {
            "fetched_again": self.fetched_again,
            "sources": self.sources,
            "hosts": self.hosts,
            "dropped": self.dropped,
        }


def mend_registry_rows(
    connection: SqliteConnection, *, torn: Sequence[int], unknown: bool, links: bool
) -> MendedRows:
    """Remove references to missing rows, and reset the pages whose content is incomplete.

    ``torn``: numbers of the last chunks before unreadable parts; ``unknown``: unknown chunks are
    missing; ``links``: links of pages are missing.
    """
    with transaction(connection):
        for table in _SETS:
            connection.execute(f"CREATE TEMP TABLE {table} (no INTEGER PRIMARY KEY)").fetchall()
        unpacked = list(unreadable_stored_values(connection))
        links = links or any(table == "links" for table, _, _ in unpacked)
        dropped = _drop_unreadable(connection, unpacked) + _drop(connection)
        connection.execute(_STATE)
        for gap in torn:
            connection.execute(_TORN_BESIDE, {"gap": gap})
        if unknown:
            connection.execute("INSERT OR IGNORE INTO torn SELECT no FROM content")
        connection.execute(_TORN)
        again = _empty(connection, links=links)
        sources, hosts = _sources(connection), _hosts(connection)
        connection.execute(_SEQUENCES)
        delete_mark_rows(connection)
        connection.execute(_WORDS_WAIT)
        for table in _SETS:
            connection.execute(f"DROP TABLE {table}").fetchall()
    return MendedRows(again, sources, hosts, dropped)


def _drop_unreadable(connection: SqliteConnection, found: Sequence[tuple[str, str, int]]) -> int:
    """Delete rows with unreadable values; empty those values of runs. Return the number of rows."""
    count = 0
    for table, column, rowid in found:
        if table == "content":
            connection.execute("INSERT OR IGNORE INTO torn VALUES (?)", (rowid,))
            continue
        if table == "run":
            empty = "{}" if column in ("counts", "cut") else "[]"
            statement = f"UPDATE run SET {column} = '{empty}' WHERE no = ?"
        else:
            statement = f"DELETE FROM {table} WHERE rowid = ?"
        connection.execute(statement, (rowid,))
        count += connection.changes()
    return count


def _drop(connection: SqliteConnection) -> int:
    """Delete rows whose parent is missing, and clear references to missing rows."""
    count = 0
    for table in _CHILDREN:
        connection.execute(f"DELETE FROM {table} WHERE no NOT IN (SELECT no FROM record)")
        count += connection.changes()
    connection.execute(
        "INSERT INTO alone SELECT no FROM record"
        " WHERE duplicate_of IS NOT NULL AND duplicate_of NOT IN (SELECT no FROM record)"
    )
    for table, column, other in _LOOSE:
        connection.execute(
            f"UPDATE {table} SET {column} = NULL"
            f" WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT no FROM {other})"
        )
    connection.execute(
        "UPDATE evidence SET content = NULL, restore = NULL"
        " WHERE content IS NOT NULL AND content NOT IN (SELECT no FROM content)"
    )
    check = "PRAGMA foreign_key_check"
    rows: Any
    while rows := connection.execute(check).fetchall():
        for child, rowid, parent, _ in rows:
            if rowid is not None:
                connection.execute(f"DELETE FROM {child} WHERE rowid = ?", (rowid,))
            else:  # a seed, which has no row number
                connection.execute(
                    f"DELETE FROM {child} WHERE run NOT IN (SELECT no FROM {parent})"
                )
            count += 1
    return count


def _empty(connection: SqliteConnection, *, links: bool) -> int:
    """Clear content, validators and index entry of pages with incomplete content."""
    connection.execute(
        "INSERT OR IGNORE INTO bare SELECT r.no FROM record r JOIN state s USING (no)"
        " WHERE r.content IS NOT NULL AND (r.content IN (SELECT no FROM torn)"
        f" OR r.content NOT IN (SELECT no FROM content) OR s.standing <> {int(Standing.HELD)})"
    )
    connection.execute(
        "INSERT OR IGNORE INTO bare SELECT s.no FROM state s JOIN record r USING (no)"
        f" WHERE (s.standing = {int(Standing.HELD)} AND r.content IS NULL)"
        f" OR s.depth = {_FAR}"
    )
    if links:
        connection.execute(
            "INSERT OR IGNORE INTO bare SELECT no FROM state"
            " WHERE standing > 0 AND no NOT IN (SELECT no FROM links)"
        )
    connection.execute(_BARE)
    connection.execute(_EMPTY)
    connection.execute("DELETE FROM links WHERE no IN (SELECT no FROM bare)")
    connection.execute(
        "UPDATE evidence SET content = NULL, restore = NULL WHERE content IN (SELECT no FROM torn)"
    )
    used = "SELECT content FROM record WHERE content IS NOT NULL UNION SELECT content FROM evidence"
    connection.execute(f"DELETE FROM content WHERE no NOT IN ({used} WHERE content IS NOT NULL)")
    connection.execute("DELETE FROM chunk WHERE content NOT IN (SELECT no FROM content)")
    connection.execute("DELETE FROM remote_chunk WHERE content NOT IN (SELECT no FROM content)")
    # A clone whose original is lost becomes the index entry of the content.
    connection.execute(
        "INSERT OR IGNORE INTO alone SELECT no FROM record WHERE duplicate_of IN"
        " (SELECT no FROM bare)"
    )
    connection.execute(
        "UPDATE record SET entry = 1, duplicate_of = NULL"
        " WHERE content IS NOT NULL AND no IN (SELECT no FROM alone)"
    )
    return int(connection.execute("SELECT count(*) FROM bare").get)


def _sources(connection: SqliteConnection) -> int:
    """Name sources whose row is lost, so that their pages can be found; return their number.

    Where a source has had a login, or is private, the lost one may have been so, too.
    """
    found: Any = connection.execute(
        "SELECT DISTINCT source FROM record WHERE source NOT IN (SELECT no FROM source)"
    ).fetchall()
    private = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM login) OR EXISTS"
        " (SELECT 1 FROM source WHERE visibility = 'private')"
    ).get
    for (number,) in found:
        connection.execute(
            "INSERT INTO source (no, name, kind, created_at, visibility)"
            " VALUES (?, ?, 'site', 0, ?)",
            (number, f"salvaged-{number}", "private" if private else "public"),
        )
    return len(found)


def _hosts(connection: SqliteConnection) -> int:
    """Restore lost rows of hosts from the addresses of their pages; return their number."""
    found: Any = connection.execute(
        "SELECT host, min(url) FROM record WHERE host NOT IN (SELECT no FROM host) GROUP BY host"
    ).fetchall()
    for number, url in found:
        name = url_host_key(url)
        known = connection.execute("SELECT no FROM host WHERE name = ?", (name,)).fetchone()
        if known is None:
            connection.execute("INSERT INTO host (no, name) VALUES (?, ?)", (number, name))
        else:
            connection.execute("UPDATE record SET host = ? WHERE host = ?", (known[0], number))
    connection.execute("UPDATE state SET host = (SELECT host FROM record r WHERE r.no = state.no)")
    return len(found)


_HEADER: Final = 100  #: bytes
_PAGE: Final = 4_096  #: bytes of a page, SQLite's default
_BEGINS: Final = b"SQLite format 3\0" + _PAGE.to_bytes(2) + bytes((2, 2, 0, 64, 32, 32))
_MODES: Final = (b"\1\1", b"\2\2")  #: rollback journal, WAL
_LONGEST: Final = 1 << 62  #: longest step between two row numbers
_BESIDE: Final = ("-wal", "-shm", "-journal")


@dataclass(slots=True)
class Copied:
    """The result of copying one table."""

    table: str
    rows: int = 0  #: copied
    missing: int | None = 0  #: unreadable rows; None: an unknown number
    gaps: list[int] = field(default_factory=list)  #: last row before each unreadable part

    @property
    def whole(self) -> bool:
        """Whether every row was copied."""
        return self.missing == 0


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The result of a salvage."""

    aside: Path  #: the damaged file, under its new name
    tables: tuple[Copied, ...]
    mended: MendedRows

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return all(one.whole for one in self.tables) and not any(self.mended.counts().values())


def is_registry_sound(path: Path) -> bool:
    """Whether a registry is readable and consistent.

    Raises:
        RegistryError: the file belongs to another program, or cannot be opened.
    """
    try:
        refuse_unusable_file(path)
        with closing(connect_sqlite(path)) as connection:
            migrate(connection, path)
            return not database_problems(connection)
    except RegistryDamagedError:
        return False


def salvage_registry(
    path: Path, now: int, analyze: Callable[[Connection], object], *, dry: bool = False
) -> Salvaged:
    """Replace a damaged registry by a new file with all of its readable rows.

    The damaged file is kept under another name. Nothing is renamed before the new file is
    complete, and nothing is ever overwritten. ``now``: Unix seconds. ``analyze`` makes the words of
    the index out of the chunks that wait for them. ``dry``: the new file is only made, and deleted.

    Raises:
        RegistryError: no row can be read, or a file cannot be written.
    """
    work = path.with_name(f".{path.name}.salvage-{token_hex(4)}")
    with translated_sqlite_errors(path, "salvage"):
        try:
            private_folder(work)
            _copy_files(path, work / "damaged.db")
            _mend_header(work / "damaged.db")
            copied, mended = _copy(work / "damaged.db", work / "new.db", path, analyze)
            aside = path if dry else _swap(path, work / "new.db", now)
        except OSError as error:
            raise RegistryError(
                f"cannot salvage {path} ({error.strerror}); the folder must have room for two"
                " copies of it, and this user the right to write there"
            ) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Salvaged(aside, tuple(copied), mended)


def _copy_files(path: Path, target: Path) -> None:
    """Copy a file with its WAL or journal, because SQLite writes to a file that it opens."""
    private_file(target)
    shutil.copyfile(path, target)
    for end in ("-wal", "-journal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{end}", f"{target}{end}")


def _mend_header(path: Path) -> None:
    """Replace a header (100 bytes) that is not SQLite's; all registries have the same one."""
    with path.open("r+b") as file:
        found = file.read(_HEADER)
        if found[:18] == _BEGINS[:18] and found[20:24] == _BEGINS[20:] and found[18:20] in _MODES:
            return
        size = os.fstat(file.fileno()).st_size
        latest = migrations("sqlite")[-1][0]
        header = bytearray(_HEADER)
        header[:24] = _BEGINS
        for place, value in (
            (24, 1), (28, size // _PAGE), (40, 1), (44, 4), (56, 1), (60, latest),
            (68, APPLICATION_ID), (92, 1), (96, 3_054_000),
        ):  # fmt: skip
            header[place : place + 4] = value.to_bytes(4)
        file.seek(0)
        file.write(header)


def _copy(
    damaged: Path, new: Path, path: Path, analyze: Callable[[Connection], object]
) -> tuple[list[Copied], MendedRows]:
    """Copy every table, repair references to missing rows, and rebuild the full-text index."""
    latest = migrations("sqlite")[-1][0]
    private_file(new)
    with closing(apsw.Connection(str(damaged))) as old, closing(connect_sqlite(new)) as target:
        version = latest
        with suppress(apsw.Error):
            old.execute("PRAGMA writable_schema = ON").fetchall()
            version = _version(old, path)
        target.execute("PRAGMA journal_mode = wal").fetchall()
        apply_migrations(target, until=version)
        target.execute("BEGIN IMMEDIATE")
        copied = [_copy_table(old, target, table) for table in registry_tables(target)]
        target.execute("COMMIT")
        if not any(one.rows for one in copied if one.table not in ("sequence", "choice")):
            raise RegistryError(
                f"nothing can be read of {path}: restore a backup, or move the file away and crawl"
                " again; it is as it was"
            )
        apply_migrations(target)
        by_name = {one.table: one for one in copied}
        mended = mend_registry_rows(
            target,
            torn=by_name["chunk"].gaps,
            unknown=by_name["chunk"].missing is None,
            links=not by_name["links"].whole,
        )
        analyze(target)
        found = database_problems(target)
        if found:
            raise RegistryError(
                f"cannot salvage {path}: the copy is not sound ({found[0]}); the file is as it"
                " was: restore a backup, and report this"
            )
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return copied, mended


def _version(old: apsw.Connection, path: Path) -> int:
    """Return the schema version in a file, or a later one whose schema the file has.

    Raises:
        RegistryVersionError: the file has an older layout.
    """
    said = int(str(old.pragma("user_version")))
    known = [number for number, _ in migrations("sqlite")]
    later = [number for number in reversed(known) if number > said]
    with suppress(apsw.Error):
        if found := [number for number in later if not lacking_schema_parts(old, number)]:
            return found[0]
    if is_older_layout("sqlite", said):
        raise older_sqlite_layout_error(path, said)
    return said if said in known else known[-1]


def _copy_table(old: apsw.Connection, target: apsw.Connection, table: str) -> Copied:
    copied = Copied(table)
    wanted = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})").fetchall()]
    rowid = not _without_rowid(target, table)
    try:
        there = {name for _, name, *_ in old.execute(f"PRAGMA table_info({table})").fetchall()}
    except (apsw.Error, ValueError):
        there = set()
    columns = [name for name in wanted if name in there]
    if not columns:
        copied.missing = None  # the schema of the table is lost
        return copied
    if len(columns) < len(wanted):
        copied.missing = None  # the schema of a column is lost
    names = ", ".join(f'"{name}"' for name in columns)
    into = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    target.execute(f"DELETE FROM {table}").fetchall()
    if rowid:
        rows = _rows(old, f"SELECT rowid, {names} FROM {table}", copied)
    else:
        rows = _keyed(old, table, names, copied)
    for row in rows:
        try:
            target.execute(into, row)
            copied.rows += target.changes()
        except (apsw.ConstraintError, apsw.MismatchError):
            copied.missing = (copied.missing or 0) + 1
    if copied.gaps or copied.missing is None:
        try:
            count = int(old.execute(f"SELECT count(*) FROM {table}").get)
            copied.missing = max(count - copied.rows, 1)
        except (apsw.Error, ValueError):
            copied.missing = None
    return copied


def _without_rowid(connection: apsw.Connection, table: str) -> bool:
    statement = "SELECT wr FROM pragma_table_list WHERE name = ?"
    return bool(connection.execute(statement, (table,)).get)


def _rows(old: apsw.Connection, select: str, copied: Copied) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table by row number, skipping unreadable parts."""
    last, best = -_LONGEST, False
    statement = f"{select} WHERE rowid > ? ORDER BY rowid"
    while True:
        try:
            for number, *row in old.execute(statement, (last,)):
                last, best = number, True
                yield tuple(row)
        except (apsw.Error, ValueError):
            copied.gaps.append(last if best else 0)
            start = _next_readable(old, statement, last if best else 0)
            if start is None:
                return
            last = start
        else:
            return


def _next_readable(old: apsw.Connection, statement: str, last: int) -> int | None:
    """Return a row number after ``last`` from which rows are readable, or None."""

    def readable(number: int) -> bool:
        try:
            return bool(old.execute(f"{statement} LIMIT 1", (number,)).fetchall())
        except (apsw.Error, ValueError):
            return False

    step = 1
    while not readable(last + step):
        step *= 2
        if step > _LONGEST // 2:
            return None
    low, high = last + step // 2, last + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if readable(middle) else (middle, high)
    return high


def _keyed(
    old: apsw.Connection, table: str, names: str, copied: Copied
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table without row numbers, from the other end, too, after an error."""
    for order in ("ASC", "DESC"):
        keys = [row[1] for row in old.execute(f"PRAGMA table_info({table})").fetchall() if row[5]]
        by = ", ".join(f'"{key}" {order}' for key in keys)
        try:
            yield from old.execute(f"SELECT {names} FROM {table} ORDER BY {by}")
        except (apsw.Error, ValueError):
            copied.gaps.append(0)
        else:
            return


def _swap(path: Path, new: Path, now: int) -> Path:
    """Rename the damaged file with its companions, and put the new file in its place."""
    aside = set_registry_aside(path, now)
    new.replace(path)  # without a gap, in which a crawl would create an empty registry
    return aside


def set_registry_aside(path: Path, now: int) -> Path:
    """Give a damaged file a second name, and its companions that name alone; return the name.

    ``now``: Unix seconds.
    """
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    name, number = f"{path.name}.damaged-{stamp}", 1
    while any(path.with_name(f"{name}{end}").exists() for end in ("", *_BESIDE)):
        number += 1
        name = f"{path.name}.damaged-{stamp}-{number}"
    aside = path.with_name(name)
    os.link(path, aside)  # unlike a rename it overwrites nothing
    for end in _BESIDE:
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{end}").rename(path.with_name(f"{name}{end}"))
    return aside
