"""The registry in a SQLite file: pragmas, migrations, translated errors, leases beside it."""

from __future__ import annotations

import errno
import logging
import os
import resource
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import apsw

from smartcrawl.model.exceptions import (
    RegistryDamagedError,
    RegistryError,
    RegistryFullError,
    RegistryVersionError,
)
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers, normalize_url, url_hash
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.integrity import (
    REMEDY,
    damaged_database_error,
    database_problems,
    explained_database_damage,
    is_connection_read_only,
    is_database_fts5_damaged,
    lacking_schema_parts,
)
from smartcrawl.registry.database.lease import FileLease
from smartcrawl.registry.database.migrations import (
    is_older_layout,
    migrations,
    older_layout_error,
)
from smartcrawl.registry.pack import unpack_stored_links
from smartcrawl.sources.private_files import private_file, private_folder

logger = logging.getLogger(__name__)


_LINKS = """
SELECT l.no, lower(hex(r.id)), l.raw, r.first_seen FROM links l JOIN record r USING (no)
 ORDER BY l.no
"""
_MOST = 65_536  #: links of one page


def create_outlinks_table(connection: apsw.Connection, trackers: Trackers) -> None:
    """Give a connection the virtual table ``outlinks`` (R2-53)."""
    module = cast(Any, _OutlinksModule(_Outlinks(connection, trackers)))
    connection.create_module("outlinks", module, eponymous=True, read_only=True)


class _OutlinksModule:
    """The virtual table itself, in the form that SQLite expects.

    To import what apsw has for that takes a fifth of the time of a command.
    """

    def __init__(self, rows: _Outlinks) -> None:
        self._rows = rows

    def Connect(self, *_: Any) -> tuple[str, _OutlinksModule]:  # noqa: N802
        return f"CREATE TABLE outlinks ({', '.join(self._rows.columns)})", self

    Create = Connect

    def BestIndex(self, *_: Any) -> None:  # noqa: N802
        """Read all rows, whatever is asked."""

    def Open(self) -> _OutlinksCursor:  # noqa: N802
        return _OutlinksCursor(self._rows)

    def Disconnect(self) -> None:  # noqa: N802
        """Hold nothing."""

    Destroy = Disconnect


class _OutlinksCursor:
    """One reading of the virtual table."""

    def __init__(self, rows: _Outlinks) -> None:
        self._all = rows
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._row: tuple[Any, ...] | None = None
        self._number = 0

    def Filter(self, *_: Any) -> None:  # noqa: N802
        self._rows, self._number = self._all(), 0
        self.Next()

    def Next(self) -> None:  # noqa: N802
        self._row = next(self._rows, None)
        self._number += 1

    def Eof(self) -> bool:  # noqa: N802
        return self._row is None

    def Column(self, number: int) -> Any:  # noqa: N802
        return self._number if number < 0 or self._row is None else self._row[number]

    def Rowid(self) -> int:  # noqa: N802
        return self._number

    def Close(self) -> None:  # noqa: N802
        self._rows = iter(())


class _Outlinks:
    """The rows of the virtual table ``outlinks``."""

    columns = (
        "id",
        "source_url_hash",
        "target_url",
        "target_url_hash",
        "anchor_text",
        "link_type",
        "discovered_at",
    )

    def __init__(self, connection: apsw.Connection, trackers: Trackers) -> None:
        self._connection = connection
        self._trackers = trackers

    def __call__(self, *_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
        row: Any  # apsw types each column as any of SQLite's types
        for row in self._connection.execute(_LINKS):
            for place, link in enumerate(unpack_stored_links(row[2])):
                yield (
                    row[0] * _MOST + place,
                    row[1],
                    link.url,
                    url_hash(normalize_url(link.url, self._trackers)),
                    link.anchor,
                    link.type if link.type in ("redirect", "canonical") else "hyperlink",
                    iso_time(row[3]),
                )


_T = TypeVar("_T")

APPLICATION_ID = 0x736D6372  #: "smcr"
BUSY_TIMEOUT = 30_000  #: milliseconds; writers keep the lock for tens of them

_LOOKS = 20  #: at an empty file, 50 ms apart
_SETTLES = 10  #: tries to empty a WAL
_HEADER = 100  #: bytes of a file's header
_GROWTH = 1 << 20  #: bytes below a limit of files from which on it is taken for reached
_SHARED = 32_768  #: bytes of the smallest index of a WAL, the file that ends in -shm
_NOTHING = array("q", [0])  #: a value of no row, in place of an empty array, which SQLite refuses
_LOOK = """
SELECT (SELECT application_id FROM pragma_application_id),
       (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_schema)
"""


class SqliteDatabase:
    """A registry in a SQLite file, with its leases in a folder beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._leases = path.parent / "leases"

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    def exists(self) -> bool:
        """Whether the registry exists."""
        return self.path.exists()

    def open(self) -> SqliteConnection:
        """Connect for writing; see ``databases.Database``.

        A file that this user may only read is opened for reading.
        """
        refuse_unusable_file(self.path)
        if self._only_readable():
            return self.look()
        try:
            private_folder(self.path.parent)
        except OSError as error:
            raise RegistryError(
                f"cannot create {self.path.parent} ({error.strerror}); name another DATA_DIR that"
                " this user may write to"
            ) from error
        with suppress(OSError):  # SQLite reports the error below
            private_file(self.path)
        connection = connect_sqlite(self.path, create=True)
        migrate(connection, self.path)
        return connection

    def _only_readable(self) -> bool:
        """Whether the file exists, and this user may not write to it or to its folder."""
        places = (self.path, self.path.parent)
        return self.path.exists() and not all(os.access(place, os.W_OK) for place in places)

    def look(self) -> SqliteConnection:
        """Connect without writing anything, not even SQLite's own files beside the database.

        Raises:
            RegistryVersionError: the schema is not that of this version.
        """
        connection = self.read_only()
        migrate(connection, self.path, readonly=True)
        return connection

    def read_only(self) -> SqliteConnection:
        """Connect to a file of any schema version without writing anything."""
        path = quote(str(self.path.absolute()))
        wal, shared = (self.path.with_name(f"{self.path.name}{end}") for end in ("-wal", "-shm"))
        if not wal.exists() or not wal.stat().st_size:  # no process is writing
            uri = f"file:{path}?immutable=1"
        elif shared.exists() and shared.stat().st_size >= _SHARED:
            uri = f"file:{path}?mode=ro"
        else:  # the index of the WAL is made in memory
            uri = f"file:{path}?mode=ro&vfs=unix-none"
        with translated_sqlite_errors(self.path, "read"):
            connection = SqliteConnection(
                uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            connection.set_busy_timeout(BUSY_TIMEOUT)
            if uri.endswith("unix-none"):
                connection.execute("PRAGMA locking_mode = exclusive").fetchall()
            connection.execute("PRAGMA query_only = 1").fetchall()
        return connection

    def connect(self, *, readonly: bool = False) -> SqliteConnection:
        """Connect to a registry that ``open`` has prepared."""
        return connect_sqlite(self.path, readonly=readonly)

    def check_place(self, connection: Connection) -> None:
        """Refuse to go on where the file that a connection opened is not at its place any more.

        SQLite writes to a file that was deleted or moved as if nothing had happened.
        """
        assert isinstance(connection, SqliteConnection)
        if connection.opened is not None and connection.opened != _file_at(self.path):
            raise RegistryError(
                f"{self.path} is not the file any more that this process opened: it was deleted,"
                " moved away or replaced; what was stored since is not kept there: move it back,"
                f" or bring back a backup with {program_name()} restore FILE, and start again"
            )

    def hurry(self) -> None:
        """Do nothing: a file is not away."""

    @property
    def is_given_up(self) -> bool:
        """Return False: a file has no server that could be away."""
        return False

    def guard_commits(self) -> None:
        """Do nothing: a copy that takes the file's place is another file (``check_place``)."""

    def accept_loss(self, connection: Connection) -> None:
        """Do nothing: see ``guard_commits``."""

    def reports(self, trackers: Trackers = DEFAULT_TRACKERS) -> SqliteConnection:
        """Connect for reading, with the virtual table ``outlinks``.

        A full disk has no room for SQLite's own files: nothing is written then.
        """
        refuse_unusable_file(self.path)
        if self._only_readable():
            connection = self.look()
        else:
            try:
                migrate(connection := connect_sqlite(self.path), self.path)
                connection.only_read()
            except RegistryFullError as full:
                try:
                    connection = self.look()
                except RegistryVersionError:
                    raise full from None
        create_outlinks_table(connection, trackers)
        return connection

    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turn SQLite's errors into RegistryError."""
        return translated_sqlite_errors(self.path, doing)

    def damage(self, error: Exception) -> RegistryError | None:
        """Return the damage that an error reports, or None if it reports none."""
        if isinstance(error, apsw.NotADBError):
            return not_a_registry(self.path, error)
        is_damage = isinstance(error, apsw.CorruptError) or is_database_fts5_damaged(error)
        return damaged_database_error(self.path, error) if is_damage else None

    def is_of_data(self, error: Exception) -> bool:
        """Whether SQLite refused a value; other rows may still be written."""
        return isinstance(error, apsw.ConstraintError | apsw.TooBigError | apsw.MismatchError)

    def explained(self, error: Exception) -> RegistryError | None:
        """Return the damage that caused an unexpected error, or None if the file is sound."""
        return explained_database_damage(self.path, error)

    def retried(self, work: Callable[[], _T]) -> _T:
        """Do one transaction; in SQLite no conflict rolls it back."""
        return work()

    def take(self, source: str, since: str) -> FileLease:
        """Take the lease of ``source``."""
        return FileLease.take(self._leases, source, since)

    def leased(self) -> list[str]:
        """Return the sources that processes crawl now, without reading the file."""
        return FileLease.leased(self._leases)

    @contextmanager
    def none_runs(self) -> Iterator[None]:
        """Take the leases of all sources that were ever crawled.

        Raises:
            RunHeldError: one of them is being crawled.
        """
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with ExitStack() as stack:
            for source in FileLease.sources(self._leases):
                stack.enter_context(self.take(source, since))
            yield

    def problems(self, connection: SqliteConnection) -> list[str]:
        """Return the defects of the file, its references and its full-text index."""
        return database_problems(connection)

    def is_held(self, source: str) -> bool:
        """Whether a process crawls ``source`` now."""
        return FileLease.is_held(self._leases, source)


@contextmanager
def translated_sqlite_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn SQLite's errors into RegistryError with the file's name and the act ``doing``."""
    try:
        yield
    except apsw.NotADBError as error:
        raise not_a_registry(path, error) from error
    except apsw.CorruptError as error:
        raise damaged_database_error(path, error) from error
    except apsw.FullError as error:
        raise no_space_left(path) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.PermissionsError) as error:
        if _is_disk_full(path, error):
            raise no_space_left(path) from error
        if (limit := _file_limit_reached(path, error)) is not None:
            raise RegistryFullError(
                f"{path} cannot grow: this system limits the files of this process to"
                f" {limit:,} bytes (ulimit -f, or LimitFSIZE of systemd); raise the limit and start"
                f" again: everything committed is kept, and a crawl goes on with"
                f" {program_argument('resume')}"
            ) from error
        raise RegistryError(
            f"cannot {doing} {path} ({error}); check that the folder exists and that this user"
            " may write to it, or name another DATA_DIR"
        ) from error
    except apsw.BusyError as error:
        raise RegistryError(
            f"{path} was locked for {BUSY_TIMEOUT // 1000} s while trying to {doing} it; another"
            " program holds it open for writing: end that program and start again"
        ) from error
    except apsw.Error as error:
        if is_database_fts5_damaged(error):
            raise damaged_database_error(path, error) from error
        if isinstance(error, apsw.SQLError) and "no such " in str(error):
            found = explained_database_damage(path, error)  # a part of the schema is lost
            if found is not None:
                raise found from error
        raise RegistryError(
            f"cannot {doing} {path} ({type(error).__name__}: {error}); everything committed is"
            f" kept: start again, a crawl with {program_argument('resume')}, and report this if it"
            " comes again"
        ) from error


def no_space_left(path: Path) -> RegistryFullError:
    """Return the error of a full disk, with the remedy."""
    return RegistryFullError(
        f"no space left for {path}; free some and start again: everything committed is kept, and a"
        f" crawl goes on with {program_argument('resume')}"
    )


def _is_disk_full(path: Path, error: apsw.Error) -> bool:
    """Whether an error comes from a disk without room, or from a quota of this user.

    SQLite calls it an I/O error, or a file that cannot be opened, where the index of a WAL finds
    no room, or a quota is exceeded.
    """
    if not isinstance(error, apsw.IOError | apsw.CantOpenError):
        return False
    try:
        disk = os.statvfs(path.parent)
        if disk.f_bavail * disk.f_frsize < _SHARED:
            return True
        from tempfile import TemporaryFile  # noqa: PLC0415  # faults are rare

        with TemporaryFile(dir=path.parent, buffering=0) as probe:
            probe.write(bytes(_SHARED))
    except OSError as found:
        return found.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def _file_limit_reached(path: Path, error: apsw.Error) -> int | None:
    """Return the limit of this process for the size of a file, if a file of the registry is at it.

    SQLite calls it an I/O error.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY or not isinstance(error, apsw.IOError):
        return None
    sizes = [0]
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            sizes.append(path.with_name(f"{path.name}{end}").stat().st_size)
    return limit if max(sizes) + _GROWTH > limit else None


def not_a_registry(path: Path, error: Exception) -> RegistryDamagedError:
    """Return the error of a file without SQLite's header, with the remedies."""
    return RegistryDamagedError(
        f"{path} is not a registry ({error}); move it away, or name another DATA_DIR; if it was"
        f" one, {REMEDY}"
    )


class SqliteConnection(apsw.Connection):
    """An apsw connection that accepts the values of ``ports.Connection``."""

    dialect = "sqlite"
    has_vectors = False  #: whether the functions for vectors are loaded
    index_state: Any = None  #: what searches keep of its index
    counted: Any = None  #: what counts words in its index; None: nothing does yet
    writes = False  #: whether what it commits is moved out of the WAL when it closes
    opened: tuple[int, int] | None = None  #: device and inode of its file; None: it is not checked

    def __init__(self, *args: Any, **names: Any) -> None:
        names.setdefault("statementcachesize", 1000)  # a batch has more kinds than the default 100
        super().__init__(*args, **names)
        # Values choose no plan, as no table is analyzed. Without this, SQLite compiles a cached
        # statement that joins tables anew for each binding, which costs more than to carry it out.
        self.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.convert_binding = _bound

    @property
    def is_read_only(self) -> bool:
        """Whether it can write nothing."""
        return is_connection_read_only(self)

    def close(self, force: bool = False) -> None:
        """Close it; a connection that wrote first moves what is committed into the file itself.

        SQLite does so only when the last connection closes. Others may stay open, as those of a
        server do, and a copy of the file would then be an old state, or an empty one.
        """
        with suppress(apsw.ConnectionClosedError):  # it may be closed twice
            if self.writes and not self.in_transaction and self.total_changes():
                self.settle()
        super().close(force)

    def settle(self, tries: int = _SETTLES) -> None:
        """Move what is committed out of the WAL; wait a little for readers of an older state.

        What cannot be moved stays in the WAL, where it is as durable. ``tries``: 50 ms apart.
        """
        for left in reversed(range(tries)):
            try:
                frames, moved = self.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.BusyError:  # another process is moving it
                frames, moved = 1, 0
            except apsw.Error as error:
                logger.warning("what was committed stays in the WAL of the registry: %s", error)
                return
            if moved >= frames or not left:
                return
            time.sleep(0.05)

    def only_read(self) -> None:
        """Write nothing from now on; what was written is moved into the file itself."""
        if self.writes and self.total_changes():
            self.settle()
        self.execute("PRAGMA query_only = 1").fetchall()
        self.writes = False

    def fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert new rows into a table."""
        places = ", ".join("?" * len(columns))
        self.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


def _bound(_: apsw.Cursor, __: int, value: Any) -> Any:
    """Convert a value that SQLite has no type for."""
    if isinstance(value, Many):
        values = value.values
        if not len(values):
            return apsw.carray(_NOTHING)
        return apsw.carray(array("q", values) if isinstance(values[0], int) else tuple(values))
    raise TypeError(f"{type(value).__name__} is no value of a statement")


def connect_sqlite(path: Path, *, readonly: bool = False, create: bool = False) -> SqliteConnection:
    """Open one durable connection; ``migrate`` is the first to read the file.

    ``create``: also where the file is missing. Only the opening of a registry does that, because
    a file that was deleted meanwhile would come back empty.

    Raises:
        RegistryError: the file cannot be opened; it is never silently recreated.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    opened = _file_at(path)
    if opened is None and not create:
        raise RegistryError(
            f"cannot open {path}, which is not there: move it back, or bring back a backup with"
            f" {program_name()} restore FILE"
        )
    with translated_sqlite_errors(path, "open"):
        connection = SqliteConnection(str(path), flags=flags)
        connection.set_busy_timeout(BUSY_TIMEOUT)
        connection.execute("PRAGMA synchronous = FULL").fetchall()
        connection.execute("PRAGMA cache_size = -16000").fetchall()  # KiB, negative
        connection.execute("PRAGMA wal_autocheckpoint = 4000").fetchall()  # pages, 16 MiB
        connection.writes = True
        if readonly:
            connection.only_read()
        connection.opened = opened or _file_at(path)
    return connection


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, or None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def migrate(connection: SqliteConnection, path: Path, *, readonly: bool = False) -> None:
    """Migrate the schema to this version, all steps in one transaction.

    Raises:
        RegistryVersionError: the schema is older and ``readonly``, or of an older layout, or a
            newer version wrote it.
        RegistryError: the file belongs to another program.
    """
    latest = migrations("sqlite")[-1][0]
    with translated_sqlite_errors(path, "open"):
        application, version, tables = _looked_at(connection)
        if application != APPLICATION_ID and (application or version or tables):
            raise RegistryError(
                f"{path} belongs to another program; name another DATA_DIR or REGISTRY_URL"
            )
        if is_older_layout("sqlite", version):
            raise _older_layout(connection, path, version)
        if version > latest:
            raise RegistryVersionError(
                f"{path} has schema version {version}, this smartcrawl knows up to {latest};"
                " upgrade smartcrawl, or name another DATA_DIR"
            )
        if version < latest and readonly:
            raise RegistryVersionError(
                f"{path} has schema version {version} and may not be written to: run a command such"
                f" as {program_name()} status once as a user who may, to bring it to version"
                f" {latest}"
            )
        if version < latest:
            _switch_to_wal(connection)
            try:
                apply_migrations(connection)
            except apsw.SQLError as error:
                why = f"its schema is not that of version {version}: {error}"
                raise damaged_database_error(path, why) from error


def refuse_unusable_file(path: Path) -> None:
    """Refuse a file before SQLite opens it for writing, which would empty its WAL.

    Raises:
        RegistryDamagedError: it is empty, and a run wrote to it before.
        RegistryVersionError: it has an older layout.
    """
    _refuse_emptied_file(path)
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except OSError:
        return  # SQLite says why
    marked = header[68:72] == APPLICATION_ID.to_bytes(4)
    if not header or (marked and not is_older_layout("sqlite", int.from_bytes(header[60:64]))):
        return  # the WAL has nothing older
    try:
        with (
            translated_sqlite_errors(path, "open"),
            closing(SqliteDatabase(path).read_only()) as connection,
        ):
            refuse_older_layout(connection, path)
    except RegistryVersionError:
        raise
    except RegistryError:
        return  # the opening says what is wrong


def refuse_older_layout(connection: SqliteConnection, path: Path) -> None:
    """Refuse a registry that no step leads to this schema.

    Raises:
        RegistryVersionError: it has an older layout.
        RegistryDamagedError: only its version is older.
    """
    application, version, _ = _looked_at(connection)
    if application == APPLICATION_ID and is_older_layout("sqlite", version):
        raise _older_layout(connection, path, version)


def _older_layout(connection: apsw.Connection, path: Path, version: int) -> RegistryError:
    if not lacking_schema_parts(connection, migrations("sqlite")[-1][0]):
        return damaged_database_error(path, f"its schema is not that of version {version}")
    return older_sqlite_layout_error(path, version)


def older_sqlite_layout_error(path: Path, version: int) -> RegistryVersionError:
    """Return the error of a file with an older layout."""
    move = f"move it and the files beside it that begin with {path.name} to another folder"
    return older_layout_error(path, version, f"{move}, or name another DATA_DIR")


def _refuse_emptied_file(path: Path) -> None:
    """Refuse an empty file that a run wrote to before: it was truncated, and stays as it is.

    Raises:
        RegistryDamagedError: the file is empty, and a run wrote to it.
    """
    wal = path.with_name(f"{path.name}-wal")
    for _ in range(_LOOKS):  # another process may be creating it now
        if not path.exists() or path.stat().st_size or (wal.exists() and wal.stat().st_size):
            return
        if not any((path.parent / "leases").glob("*.lock")):
            return  # a lease file exists only after the schema does
        time.sleep(0.05)
    raise RegistryDamagedError(
        f"{path} is empty, though a run wrote to it; restore a backup, or remove the file "
        "to crawl everything again"
    )


def _looked_at(connection: SqliteConnection) -> tuple[int, int, int]:
    """Return (application id, schema version, number of tables) as of one moment."""
    row: Any = connection.execute(_LOOK).fetchone()
    return row[0], row[1], row[2]


def _switch_to_wal(connection: SqliteConnection) -> None:
    """Set WAL mode; wait for the lock, which SQLite itself does not do here."""
    until = time.monotonic() + BUSY_TIMEOUT / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = wal").fetchall()
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def apply_migrations(connection: SqliteConnection, *, until: int | None = None) -> None:
    """Run the missing steps up to schema version ``until``; None: all of them.

    Another process may be migrating at the same time.
    """
    with transaction(connection):
        version = connection.pragma("user_version")
        for number, statements in migrations("sqlite"):
            if number > version and (until is None or number <= until):
                for statement in statements:
                    connection.execute(statement).fetchall()
                connection.pragma("user_version", number)
        connection.pragma("application_id", APPLICATION_ID)
