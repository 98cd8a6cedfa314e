"""The registry in PostgreSQL: connections, migrations, translated errors (ADR 28)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final, TypeVar

import psycopg
from psycopg import errors

from smartcrawl.model.exceptions import RegistryError, RegistryVersionError
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.heartbeat import EXPIRY, HeartbeatLease
from smartcrawl.registry.database.migrations import (
    is_older_layout,
    migrations,
    older_layout_error,
)
from smartcrawl.registry.database.session import (
    PATIENCE,
    CommitLedger,
    ConnectionLostError,
    Outage,
    PostgresConnection,
    database_error_line,
    is_passing_database_error,
)

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_LEAST: Final = 14_00_00  #: least server version, in libpq's form: functions with RETURN
_LOCK: Final = 0x736D6372  #: "smcr": concurrent migrations wait for each other
_TRIES: Final = 20
#: Classes of SQLSTATE: data exception, integrity constraint, program limit, raised by a trigger.
_OF_DATA: Final = ("22", "23", "54", "P0")
CONNECTIONS: Final = 10  #: most connections of a crawl: 8 of a worker, 2 with an embedder
STANDSTILL: Final = EXPIRY  #: seconds in a transaction that other processes wait for
LOCK_PATIENCE: Final = 1.5 * EXPIRY  #: seconds that a transaction waits for another process
#: The oldest writing transaction of another process that does not wait for a lock itself.
_HOLDER = """
SELECT a.application_name, coalesce(host(a.client_addr), 'the same machine'), a.pid,
       to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), a.state
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.pid <> :no AND a.xact_start IS NOT NULL
   AND a.wait_event_type IS DISTINCT FROM 'Lock'
   AND EXISTS (SELECT 1 FROM pg_locks l
                WHERE l.pid = a.pid AND l.granted AND l.mode <> 'AccessShareLock'
                  AND l.locktype IN ('relation', 'advisory'))
 ORDER BY a.xact_start LIMIT 1
"""
_VERSION_TABLE = "CREATE TABLE smartcrawl_schema (version INTEGER NOT NULL)"
_VERSION = "SELECT version FROM smartcrawl_schema"
_IS_THERE = "SELECT to_regclass('smartcrawl_schema') IS NOT NULL"
_TAKEN = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace
   AND relname IN ('record', 'state', 'run', 'host')
"""


class PostgresDatabase:
    """A registry in the first schema of the search path of a PostgreSQL database."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        """``patience``: seconds for which work waits for a server that is away."""
        self._url = url
        self._patience = patience
        self._ledger = CommitLedger(str(self))
        self._outage = Outage(patience)

    def __str__(self) -> str:
        """Return the URL without its password."""
        return postgres_url_without_password(self._url)

    def exists(self) -> bool:
        """Whether the registry exists."""
        with self.translated("read"), closing(PostgresConnection(self._url)) as connection:
            return bool(connection.execute(_IS_THERE).get)

    def open(self) -> PostgresConnection:
        """Connect for writing; see ``databases.Database``."""
        with self.translated("open"):
            connection = self._connection()
            self._check_session(connection)
            migrate(connection, str(self))
            connection.limit(STANDSTILL)
            connection.sign()
            return connection

    def _check_session(self, connection: PostgresConnection) -> None:
        """Check that connections have sessions of their own, which last.

        Connections that a pooler serves by turns are known by their processes: each of two has
        one of its own for as long as it is open, or they share them.

        Raises:
            RegistryError: a pooler hands out sessions for each transaction.
        """
        if not connection.is_pooled:
            return
        with closing(PostgresConnection(self._url, readonly=True)) as other:
            own, others = ([one.backend() for one in (connection, other)] for _ in range(2))
        if own != others or len(set(own)) < len(own):
            connection.close()
            raise RegistryError(
                f"{self} is behind a pooler that gives each transaction another session, as"
                " PgBouncer does with pool_mode = transaction: the limits, locks and settings of a"
                " session do not last there; name the server itself in REGISTRY_URL, or a pool with"
                " pool_mode = session"
            )

    def connect(self, *, readonly: bool = False) -> PostgresConnection:
        """Connect to a registry that ``open`` has prepared."""
        with self.translated("open"):
            connection = self._connection(readonly=readonly, idle=0 if readonly else STANDSTILL)
            if not readonly:
                connection.sign()
            return connection

    def _connection(self, *, readonly: bool = False, idle: int = 0) -> PostgresConnection:
        """Connect; ``idle``: seconds that this process may stall in a transaction, or 0."""
        return PostgresConnection(
            self._url, readonly=readonly, idle=idle, ledger=self._ledger, outage=self._outage
        )

    def look(self) -> PostgresConnection:
        """Connect for reading; a schema of another version is not migrated."""
        connection = self.connect(readonly=True)
        with self.translated("read"):
            version, latest = _version(connection), migrations("postgres")[-1][0]
        if version != latest:
            connection.close()
            refuse_older_layout(version, str(self))
            raise RegistryVersionError(
                f"{self} has schema version {version} and is only read here: run a command such as"
                f" {program_name()} status with version {latest} first, to bring it to that one"
            )
        return connection

    def check_place(self, connection: Connection) -> None:
        """Refuse to go on where the server is an older copy of the one that it was.

        Raises:
            CommitsLostError: it lacks a transaction that this process committed.
        """
        assert isinstance(connection, PostgresConnection)
        with self.translated("read"):
            connection.check_commits()

    @property
    def is_given_up(self) -> bool:
        """Whether the server has been away for as long as all work of this process waits."""
        return self._outage.is_spent

    def guard_commits(self) -> None:
        """Refuse all later writes of this process once the database lost a commit of it."""
        self._ledger.guard()

    def accept_loss(self, connection: Connection) -> None:
        """Permit a connection to write again after the database lost commits."""
        assert isinstance(connection, PostgresConnection)
        with self.translated("write"):
            connection.accept_loss()

    def reports(self, trackers: Trackers = DEFAULT_TRACKERS) -> PostgresConnection:
        """Connect for reading; only a schema of another version needs the right to write."""
        connection = self.connect(readonly=True)
        with self.translated("read"):
            self._check_session(connection)
            version = _version(connection)
        if version == migrations("postgres")[-1][0]:
            return connection
        connection.close()
        self.open().close()
        return self.connect(readonly=True)

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Turn PostgreSQL's errors into RegistryError, naming the database and the remedy."""
        try:
            yield
        except errors.LockNotAvailable as error:
            raise RegistryError(
                f"cannot {doing} {self}: {self._holder()}. Try again then, or end that process;"
                " everything committed is kept"
            ) from error
        except (psycopg.Error, ConnectionLostError) as error:
            raise RegistryError(_message(error, doing, str(self))) from error

    def damage(self, error: Exception) -> RegistryError | None:
        """Return the error about a server that is away, which ends all work; None for others.

        PostgreSQL reports damage as an ordinary error.
        """
        if not isinstance(error, psycopg.OperationalError | ConnectionLostError):
            return None
        return RegistryError(_message(error, "read", str(self)))

    def is_of_data(self, error: Exception) -> bool:
        """Whether PostgreSQL refused a value; other rows may still be written."""
        if isinstance(error, psycopg.Error) and error.sqlstate is not None:
            return error.sqlstate[:2] in _OF_DATA
        return isinstance(error, psycopg.DataError)  # such as NUL, refused before libpq gets it

    def explained(self, error: Exception) -> RegistryError | None:
        """Return the same as ``damage``: PostgreSQL finds and reports damage itself."""
        return self.damage(error)

    def retried(self, work: Callable[[], _T]) -> _T:
        """Do one transaction; repeat it if a conflict or a server restart rolled it back.

        Where it has to wait for the transaction of another process, a warning names that one.
        """
        began = time.monotonic()
        attempt, holder = 0, ""
        while True:
            try:
                return work()
            except errors.LockNotAvailable:
                if time.monotonic() - began > LOCK_PATIENCE:
                    raise
                before, holder = holder, self._holder()
                if holder != before:
                    logger.warning("waiting to write %s: %s", self, holder)
            except (psycopg.Error, ConnectionLostError) as error:
                lost = isinstance(error, ConnectionLostError)
                if not (lost or is_passing_database_error(error)):  # type: ignore[arg-type]
                    raise
                late = time.monotonic() > began + self._patience
                if late or self._outage.is_spent or attempt >= _TRIES:
                    raise
                self._outage.rest(min(0.02 * 2**attempt, 1.0))
                attempt += 1

    def _holder(self) -> str:
        """Return words for the process whose transaction others wait for."""
        try:
            with closing(self._connection(readonly=True)) as connection:
                row = connection.execute(_HOLDER, {"no": connection.backend()}).fetchone()
        except psycopg.Error as error:
            return f"another connection has a lock ({database_error_line(error)})"
        if row is None:
            return "another connection has had a lock"
        name, where, pid, since, state = row
        return (
            f"{name or 'another program'}, connected from {where} (process {pid} of the server),"
            f" has a lock since {since}; its transaction is {state}. PostgreSQL undoes one that"
            f" gives no sign of life for {STANDSTILL} s"
        )

    def hurry(self) -> None:
        """Wait for a server that is away only for some seconds more; for signal handlers, too."""
        self._outage.hurry()

    def take(self, source: str, since: str) -> HeartbeatLease:
        """Take the lease of ``source``."""
        with self.translated("write"):
            connection = self.connect_worker()
            return self.retried(lambda: HeartbeatLease.take(connection, source, since))

    def connect_worker(self) -> PostgresConnection:
        """Connect for the lease of a process, without migrating."""
        return self._connection(idle=STANDSTILL)

    def is_held(self, source: str) -> bool:
        """Whether a process crawls ``source`` now."""
        with (
            self.translated("read"),
            closing(PostgresConnection(self._url, readonly=True)) as connection,
        ):
            return HeartbeatLease.is_held(connection, source)


def postgres_url_without_password(url: str) -> str:
    """Return the URL of a database without its password.

    >>> postgres_url_without_password("postgresql://crawler:secret@db.example/registry")
    'postgresql://crawler@db.example/registry'
    """
    scheme, _, rest = url.partition("://")
    who, at, where = rest.rpartition("@")
    where = where.partition("?")[0]
    return f"{scheme}://{who.partition(':')[0]}{at}{where}"


def migrate(connection: PostgresConnection, place: str) -> None:
    """Migrate the schema to this version, in one transaction.

    Raises:
        RegistryVersionError: a newer version wrote it, it has an older layout, or the server is too
            old.
        RegistryError: the tables belong to another program, or the encoding is not UTF8.
    """
    server = connection.server_version
    if server < _LEAST:
        raise RegistryVersionError(
            f"{place} is PostgreSQL {server // 10_000}; the registry needs"
            f" {_LEAST // 10_000} or newer"
        )
    if connection.encoding != "UTF8":
        raise RegistryError(
            f"{place} is encoded in {connection.encoding}; create a database with"
            " ENCODING 'UTF8' TEMPLATE template0, and name it in REGISTRY_URL"
        )
    latest = migrations("postgres")[-1][0]
    version = _version(connection)
    refuse_older_layout(version, place)
    if version == latest:
        return
    with transaction(connection):
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        version = _version(connection)
        if version > latest:
            raise RegistryVersionError(
                f"{place} has schema version {version}, this smartcrawl knows up to {latest};"
                " upgrade smartcrawl, or name another REGISTRY_URL"
            )
        if not version:
            _refuse_others(connection, place)
            connection.execute(_VERSION_TABLE)
            connection.execute("INSERT INTO smartcrawl_schema (version) VALUES (0)")
        for number, statements in migrations("postgres"):
            if number > version:
                for statement in statements:
                    connection.define(statement)
        connection.execute("UPDATE smartcrawl_schema SET version = ?", (latest,))


def refuse_older_layout(version: int, place: str) -> None:
    """Refuse a registry that no step leads to this schema.

    Raises:
        RegistryVersionError: it has an older layout.
    """
    if is_older_layout("postgres", version):
        remedy = "name another database or schema (?options=-csearch_path%3DNAME) in REGISTRY_URL"
        raise older_layout_error(place, version, remedy)


def _version(connection: PostgresConnection) -> int:
    """Return the version of the schema, or 0."""
    return int(connection.execute(_VERSION).get) if connection.execute(_IS_THERE).get else 0


def _refuse_others(connection: PostgresConnection, place: str) -> None:
    """Refuse a schema with tables of the same names that belong to another program.

    The caller's lock excludes that another process is creating the registry just now.
    """
    taken = [name for (name,) in connection.execute(_TAKEN)]
    if taken:
        raise RegistryError(
            f"{place} has a table {taken[0]} of another program; name a database or a schema"
            " (?options=-csearch_path%3DNAME) of its own in REGISTRY_URL"
        )


_REMEDIES: Final = {
    errors.InvalidPassword: "check user and password in REGISTRY_URL",
    errors.InvalidAuthorizationSpecification: "check user and password in REGISTRY_URL",
    errors.InvalidCatalogName: "create that database, or name another one in REGISTRY_URL",
    errors.InsufficientPrivilege: "let this user create and write tables there, or name another"
    " database in REGISTRY_URL",
    errors.InvalidSchemaName: "create the schema that search_path names",
    errors.DiskFull: "free some space on its disk and start again: everything committed is kept,"
    " and a crawl goes on with {resume}",
    errors.ReadOnlySqlTransaction: "it is read-only: name the primary server in REGISTRY_URL",
}

#: Remedies of a user who only reads.
_READING: Final = {
    errors.InsufficientPrivilege: "let this user read there: GRANT USAGE ON SCHEMA and GRANT SELECT"
    " ON ALL TABLES IN SCHEMA",
}


def _message(error: Exception, doing: str, place: str) -> str:
    """Return the message of an error with its remedy."""
    what = database_error_line(error) or type(error).__name__
    kinds = _READING if doing == "read" else {}
    remedies = [remedy for kind, remedy in (_REMEDIES | kinds).items() if isinstance(error, kind)]
    remedies += [remedy for words, remedy in _WORDS if words in str(error)]
    if remedies:
        remedy = remedies[0].replace("{resume}", program_argument("resume"))
        return f"cannot {doing} {place} ({what}); {remedy}"
    if isinstance(error, psycopg.OperationalError | ConnectionLostError):
        remedy = "check that the server runs and that host, port and name in REGISTRY_URL are right"
        return f"cannot {doing} {place} ({what}); {remedy}; everything committed is kept"
    return (
        f"cannot {doing} {place} ({type(error).__name__}: {what}); everything committed is kept:"
        f" start again, a crawl with {program_argument('resume')}, and report this if it comes"
        " again"
    )


_MORE_CONNECTIONS: Final = (
    f"it has no connection left: a worker needs {CONNECTIONS}, so raise max_connections of the"
    " server (or CONNECTION LIMIT of the role or the database), or start fewer workers"
)
#: Remedies by libpq's words, for errors without a code.
_WORDS: Final = (
    ("too many clients", _MORE_CONNECTIONS),
    ("remaining connection slots", _MORE_CONNECTIONS),
    ("too many connections for", _MORE_CONNECTIONS),
    (
        "due to statement timeout",
        "the server ends statements of this user after statement_timeout, and some of a large"
        " registry take longer: ALTER ROLE … SET statement_timeout = 0; everything committed is"
        " kept",
    ),
    (
        "unsupported startup parameter",
        "a connection pooler is between: name the server itself in REGISTRY_URL",
    ),
    ("password authentication failed", "check user and password in REGISTRY_URL"),
    ("no password supplied", "give user and password in REGISTRY_URL"),
    ("no pg_hba.conf entry", "let this user in from this machine, in the server's pg_hba.conf"),
    ("does not exist", "create it, or name another one in REGISTRY_URL"),
    ("invalid URI", "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
    ("invalid connection option", "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
)
