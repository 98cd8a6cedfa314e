"""A connection to PostgreSQL that takes the shared SQL and survives server restarts."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from secrets import token_hex
from threading import Lock
from typing import Any, Final, TypeVar

import psycopg
from psycopg import ClientCursor, errors
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus

from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.model.patience import HURRY, Patience
from smartcrawl.registry.connection import READING, WRITING, Many

logger = logging.getLogger(__name__)


_WORDS: Final = {
    WRITING: "BEGIN",
    READING: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
_VALUE: Final = r"\?\d*|:[a-z_]+"
#: Texts, names, comments and casts are kept; values and arrays are replaced.
_TOKEN: Final = re.compile(
    rf"""(?P<kept>'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::)"""
    rf"|\bIN\s+carray\((?P<any>{_VALUE})\)|\bFROM\s+carray\((?P<rows>{_VALUE})\)"
    rf"|(?P<value>{_VALUE})|(?P<percent>%)"
)

_PLACE: Final = re.compile(r"(?<!%)%s")


@cache
def psycopg_statement(statement: str) -> str:
    """Return a statement in psycopg's form.

    >>> psycopg_statement("SELECT a % 2 FROM t WHERE no IN carray(?) AND url LIKE '%x' AND b = :b")
    "SELECT a %% 2 FROM t WHERE no = ANY(%s) AND url LIKE '%%x' AND b = %(b)s"
    >>> psycopg_statement("UPDATE t SET a = ?2 WHERE b = ?1")
    'UPDATE t SET a = %(p2)s WHERE b = %(p1)s'
    >>> psycopg_statement("SELECT value FROM carray(?)")  # of numbers
    'SELECT value FROM unnest(%s::bigint[]) AS t (value)'
    """
    if statement in _WORDS:
        return _WORDS[statement]
    return _TOKEN.sub(_replaced, statement)


@cache
def psycopg_binary_statement(text: str) -> str:
    """Return a statement in psycopg's form with all of its values in binary.

    >>> psycopg_binary_statement("SELECT a %% 2, b LIKE '%%s' FROM t WHERE no = ANY(%s)")
    "SELECT a %% 2, b LIKE '%%s' FROM t WHERE no = ANY(%b)"
    """
    return _PLACE.sub("%b", text)


def _replaced(found: re.Match[str]) -> str:
    if found["kept"] is not None:
        return found["kept"].replace("%", "%%")
    if found["percent"] is not None:
        return "%%"
    if found["any"] is not None:
        return f"= ANY({_place(found['any'])})"
    if found["rows"] is not None:
        return f"FROM unnest({_place(found['rows'])}::bigint[]) AS t (value)"  # typed: may be empty
    return _place(found["value"])


def _place(value: str) -> str:
    if value == "?":
        return "%s"
    return f"%(p{value[1:]})s" if value[0] == "?" else f"%({value[1:]})s"


def psycopg_values(statement: str, values: Any) -> Any:
    """Return the values of a statement in psycopg's form; () if there are none."""
    if not values:
        return ()
    if isinstance(values, Mapping):
        return {name: _bound(value) for name, value in values.items()}
    if "?1" in statement:
        return {f"p{place}": _bound(value) for place, value in enumerate(values, 1)}
    return [_bound(value) for value in values]


def _bound(value: Any) -> Any:
    return list(value.values) if isinstance(value, Many) else value


def split_insert_statement(statement: str) -> tuple[str, str, str] | None:
    """Split an INSERT into the text before its row of values, the row, and the rest.

    >>> split_insert_statement("INSERT INTO t (a, b) VALUES (?, (SELECT ?)) ON CONFLICT DO NOTHING")
    ('INSERT INTO t (a, b) VALUES ', '(?, (SELECT ?))', ' ON CONFLICT DO NOTHING')
    >>> split_insert_statement("UPDATE t SET a = ?")
    """
    before, word, rest = statement.partition("VALUES ")
    if not word or not before.lstrip().startswith("INSERT"):
        return None
    depth = 0
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return before + word, rest[: place + 1], rest[place + 1 :]
    return None


_T = TypeVar("_T")

PATIENCE: Final = 60.0  #: seconds that a server may be unreachable
_SLOW: Final = 1.0  #: seconds of a try to connect that is not repeated by each connection
_SLICE: Final = 0.5  #: seconds of sleep after which ``hurry`` is noticed
_PAUSE: Final = 0.2  #: seconds before the second try; the pauses double
_LONGEST_PAUSE: Final = 5.0
_LONGEST_NAME: Final = 63  #: bytes of a name in PostgreSQL
_AT_ONCE: Final = 500  #: rows of one statement
_OPTIONS: Final = {
    "autocommit": True,
    "cursor_factory": ClientCursor,  # values in the text: their types follow from the rest
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
LOCK_WAIT: Final = 10  #: seconds that one statement waits for another connection's transaction
_SETTINGS: Final = """
SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '{}s';
SET lock_timeout = '{}s'
"""
#: One row for each writing connection, with the number of its last transaction. PostgreSQL's own
#: transaction ids do not serve: after a crash the lost ones are used again.
_SIGN = """
INSERT INTO writer (id, last, at) VALUES (%s, 0, now()) ON CONFLICT (id) DO NOTHING;
DELETE FROM writer WHERE at < now() - interval '60 days'
"""
#: A database that lacks a commit of this process changes no row: it is an older copy.
_HAS_ALL = """
NOT EXISTS (SELECT FROM unnest(%(ids)s::text[], %(numbers)s::bigint[]) AS known (id, last)
              LEFT JOIN writer AS other ON other.id = known.id
             WHERE other.last IS NULL OR other.last < known.last)
"""
_BEGIN = f"""
BEGIN;
UPDATE writer SET last = %(number)s, at = now()
 WHERE id = %(id)s AND last = ANY(%(own)s::bigint[]) AND {_HAS_ALL}
"""
#: It waits for a transaction that is still being committed.
_LAST = "SELECT last FROM writer WHERE id = %s FOR UPDATE"
_SIGN_OFF = "DELETE FROM writer WHERE id = %s"


class _Numeric(Loader):
    """Loader of sums, as integers where they are whole."""

    def load(self, data: Any) -> int | float:
        """Return the number."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class ConnectionLostError(Exception):
    """The open transaction is lost, and the database contains nothing of it."""


class Outage(Patience):
    """The patience of a process for its database: one for all connections (ADR 117)."""

    def __init__(self, patience: float) -> None:
        """``patience``: seconds for which all work together waits."""
        super().__init__(patience, "PostgreSQL", lambda failure, _: failure, step=_SLICE)
        self._slow: tuple[float, psycopg.OperationalError] | None = None  #: see ``slow``

    def slow(self, error: psycopg.OperationalError) -> None:
        """Note a failure that took long, as of a machine that does not answer at all."""
        self._slow = time.monotonic(), error

    def failed(self, began: float, pause: float) -> bool:
        """Note a failure of work that ``began``; return whether it may be tried after ``pause``."""
        now = time.monotonic()
        since = min(began, now - self.begun())
        return now + pause <= min(since + self.most, self.end)

    def over(self) -> None:
        """Note that the server answered."""
        super().over()
        self._slow = None

    @property
    def fresh_error(self) -> psycopg.OperationalError | None:
        """The last slow failure, where it is so young that another try need not take as long."""
        if self._slow is None or not self.is_spent:
            return None
        at, error = self._slow
        return error if time.monotonic() - at < HURRY else None


class CommitLedger:
    """The last committed transaction of each writing connection of this process.

    A server that was replaced by an older copy, such as a standby that was behind, lacks some.
    """

    def __init__(self, place: str) -> None:
        """``place``: the database, as messages name it."""
        self._place = place
        self._last: dict[str, int] = {}  #: by writer.id; of connections in several threads
        self._guarded = False
        self._lock = Lock()
        self.epoch = 0  #: grows with each loss: connections sign anew
        self.lost = False  #: whether nothing may be written any more

    def guard(self) -> None:
        """Refuse all later writes of this process once a commit is lost."""
        self._guarded = True

    def lose(self, epoch: int) -> None:
        """Note that commits of an epoch are lost; connections sign anew for what they write now."""
        with self._lock:
            if epoch == self.epoch:
                self._last.clear()
                self.epoch += 1
                self.lost = self._guarded

    def note(self, signature: str, number: int, epoch: int) -> None:
        """Note the last committed transaction of a connection."""
        with self._lock:
            if epoch == self.epoch:
                self._last[signature] = number

    def forget(self, signature: str) -> None:
        """Require nothing of a connection any more."""
        with self._lock:
            self._last.pop(signature, None)

    def known(self) -> dict[str, list[Any]]:
        """Return the connections, and the number of the last transaction of each."""
        with self._lock:
            pairs = list(self._last.items())
        return {"ids": [each for each, _ in pairs], "numbers": [number for _, number in pairs]}

    def error(self) -> CommitsLostError:
        """Return the error about a loss."""
        return CommitsLostError(
            f"the database lost the last commits: {self._place} is an older copy by now, "
            "such as a standby that was behind; what it has is kept, nothing more is "
            "written to it, and the next run requests the missing pages again"
        )


class PostgresRows:
    """The rows of a statement, with the interface of apsw's cursors."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor
        self._has_rows = cursor.rownumber is not None  # the description is rebuilt at each access

    @property
    def get(self) -> Any:
        """The next row, or None; its value alone if it has one column."""
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row

    @property
    def status(self) -> str | None:
        """The server's word for what was done."""
        return self._cursor.statusmessage

    def get_description(self) -> tuple[tuple[str, str], ...]:
        """Return name and type of each column."""
        return tuple((c.name, str(c.type_code)) for c in self._cursor.description or ())

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return self._cursor.fetchone() if self._has_rows else None

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        return self._cursor.fetchall() if self._has_rows else []

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""
        while (row := self.fetchone()) is not None:
            yield row


class PostgresConnection:
    """A ``ports.Connection``, used by one thread at a time.

    If the server becomes unreachable between transactions, the connection waits for it. Within a
    transaction it raises ConnectionLostError, and the transaction can be retried: the connection
    finds out whether it was committed, even if the answer to COMMIT got lost.
    """

    dialect = "postgres"
    index_state: Any = None  #: what searches keep of its index

    def __init__(
        self,
        url: str,
        *,
        readonly: bool = False,
        idle: int = 0,
        patience: float = PATIENCE,
        ledger: CommitLedger | None = None,
        outage: Outage | None = None,
    ) -> None:
        """``idle``: seconds that this process may stall in a transaction; 0: without limit.

        ``patience``: seconds for which it waits for a server that is away, unless the process
        has an ``outage``. ``ledger``: that of the process, for ``sign``.
        """
        self._url = url
        self._readonly = readonly
        self._idle = idle
        self._outage = outage or Outage(patience)
        self._changes = 0
        self._id: str | None = None  #: writer.id; None: unsigned
        self._number = 0  #: of its last transaction
        self._committed = [0]  #: the last committed one; two where the answer to a COMMIT is owed
        self._ledger = ledger or CommitLedger(url.rpartition("@")[2])
        self._epoch = 0  #: see CommitLedger
        self._accepts = False  #: whether it may write after a loss
        self._connection = self._connected()

    @property
    def is_read_only(self) -> bool:
        """Whether it can write nothing."""
        return self._readonly

    def _connected(self) -> psycopg.Connection[Any]:
        name = f"smartcrawl {os.getpid()}@{socket.gethostname()}"[:_LONGEST_NAME]
        options: Any = _OPTIONS | {"application_name": name}
        connection: Any = psycopg.connect(self._url, **options)
        connection.adapters.register_loader("numeric", _Numeric)
        connection.execute(self._settings())
        if self._readonly:
            connection.execute("SET default_transaction_read_only = on")
        return connection  # type: ignore[no-any-return]

    def _settings(self) -> str:
        return _SETTINGS.format(self._idle, LOCK_WAIT if self._idle else 0)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.info.transaction_status != TransactionStatus.IDLE and not self.lost

    @property
    def lost(self) -> bool:
        """Whether the connection to the server is lost."""
        return self._connection.closed or self._connection.broken

    def execute(self, statement: str, values: Any = ()) -> PostgresRows:
        """Run one statement."""
        if statement == WRITING:
            return self._patiently(self._begin)
        if statement == "COMMIT":
            return self._commit()
        if self.in_transaction:
            with self._within():
                return self._run(statement, values)
        return self._patiently(lambda: self._run(statement, values))

    def _run(self, statement: str, values: Any) -> PostgresRows:
        text, given = psycopg_statement(statement), psycopg_values(statement, values)
        cursor: psycopg.Cursor[Any]
        if _are_arrays(values):  # of certain types: no need to write them as text
            cursor = psycopg.Cursor(self._connection).execute(psycopg_binary_statement(text), given)
        else:
            cursor = self._connection.execute(text, given)
        self._changes = max(cursor.rowcount, 0)
        return PostgresRows(cursor)

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Raise ConnectionLostError if the server goes away within a transaction."""
        try:
            yield
        except psycopg.Error as error:  # an InternalError if this process stalled for too long
            if self.lost:
                raise ConnectionLostError(str(error)) from error
            raise

    def limit(self, idle: int) -> None:
        """Let the server roll back a transaction that is idle for ``idle`` seconds.

        A statement that waits for another transaction for LOCK_WAIT seconds then fails.
        """
        self._idle = idle
        self._patiently(lambda: self._connection.execute(self._settings()))

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is between: the session is of another process than it said at first."""
        return self.backend() != self._connection.info.backend_pid

    def backend(self) -> int:
        """Return the number of the server's process that carries out the next statements."""
        row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
        return 0 if row is None else int(row[0])

    def sign(self) -> None:
        """Record this connection's transactions from now on, to notice lost ones."""
        self._id = token_hex(16)
        self._number, self._committed, self._epoch = 0, [0], self._ledger.epoch
        self._connection.execute(ClientCursor(self._connection).mogrify(_SIGN, (self._id,)))
        self._ledger.note(self._id, 0, self._epoch)

    def accept_loss(self) -> None:
        """Let this connection write again, though commits of this process are lost."""
        self._ledger.lose(self._ledger.epoch)  # no other connection writes any more
        self._accepts = True
        self._patiently(self.sign)

    def _begin(self) -> PostgresRows:
        """Begin a transaction.

        Raises:
            CommitsLostError: the database lacks a transaction that this process committed.
        """
        if self._id is None:
            return PostgresRows(self._connection.execute("BEGIN"))
        if self._ledger.lost and not self._accepts:
            raise self._ledger.error()
        if self._epoch != self._ledger.epoch:
            self.sign()
        self._number += 1
        known = self._ledger.known()
        while (cursor := self._begun(known)) is None:
            known = self._left_of(known, self._epoch)
        return PostgresRows(cursor)

    def _begun(self, known: dict[str, list[Any]]) -> psycopg.Cursor[Any] | None:
        """Begin a transaction; None if the database lacks one that is known as committed."""
        own = {"number": self._number, "id": self._id, "own": self._committed}
        try:
            cursor = self._connection.execute(_BEGIN, own | known)
        except psycopg.Error:
            if self.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        cursor.nextset()
        if cursor.rowcount == 1:
            return cursor
        self._connection.execute("ROLLBACK")
        return None

    def _left_of(self, known: dict[str, list[Any]], epoch: int) -> dict[str, list[Any]]:
        """Return the known transactions again, where connections were closed since ``known``.

        Raises:
            CommitsLostError: all of them are open, so that the database lacks a commit.
        """
        left = self._ledger.known()
        if self._ledger.lost or set(known["ids"]) <= set(left["ids"]):
            self._ledger.lose(epoch)
            raise self._ledger.error()
        return left

    def check_commits(self) -> None:
        """Check that the database has every transaction that this process committed.

        Raises:
            CommitsLostError: it lacks one.
        """
        if self._accepts:
            return
        if self._ledger.lost:
            raise self._ledger.error()
        epoch, known = self._ledger.epoch, self._ledger.known()
        while not self._patiently(partial(self._has_all, known)):
            known = self._left_of(known, epoch)

    def _has_all(self, known: dict[str, list[Any]]) -> bool:
        [(has_all,)] = self._connection.execute(f"SELECT {_HAS_ALL}".encode(), known).fetchall()
        return bool(has_all)

    def _commit(self) -> PostgresRows:
        """Commit; if the answer gets lost, look up whether the commit happened."""
        try:
            rows = self._run("COMMIT", ())
        except psycopg.Error as error:
            if not self.lost:
                raise
            self._committed.append(self._number)
            if self._id is None or self._patiently(self._last) != self._number:
                raise ConnectionLostError(str(error)) from error
            rows = PostgresRows(self._connection.cursor())
        if self._id is not None and rows.status != "ROLLBACK":  # of a statement that failed
            self._committed = [self._number]
            self._ledger.note(self._id, self._number, self._epoch)
        return rows

    def _last(self) -> int | None:
        row = self._connection.execute(_LAST, (self._id,)).fetchone()
        return None if row is None else int(row[0])

    def _patiently(self, work: Callable[[], _T]) -> _T:
        """Do ``work`` outside of a transaction; wait for an unreachable server."""
        began, pause = time.monotonic(), _PAUSE
        while True:
            try:
                if self.lost:
                    self._connect_again()
                done = work()
            except psycopg.OperationalError as error:
                if not (self.lost or is_passing_database_error(error)):
                    raise
                if not self._outage.failed(began, pause):
                    raise
                logger.warning("PostgreSQL is away, trying again: %s", database_error_line(error))
            else:
                self._outage.over()
                return done
            self._outage.rest(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connect_again(self) -> None:
        if (slow := self._outage.fresh_error) is not None:
            raise slow
        began = time.monotonic()
        try:
            self._connection = self._connected()
        except psycopg.OperationalError as error:
            if time.monotonic() - began > _SLOW:
                self._outage.slow(error)
            raise

    def executemany(self, statement: str, values: Iterable[Any]) -> None:
        """Run a statement for each row, hundreds of rows in one round trip."""
        rows = iter(values)
        parts = split_insert_statement(statement)
        cursor = ClientCursor(self._connection)
        while some := list(islice(rows, _AT_ONCE)):
            if parts is not None and "DO UPDATE" not in parts[2]:  # which allows a row only once
                before, row, after = parts
                each = ",".join(self._filled(cursor, row, one) for one in some)
                text = before + each + after
            else:
                text = ";".join(self._filled(cursor, statement, one) for one in some)
            self._plain(text)

    def _filled(self, cursor: ClientCursor[Any], text: str, values: Any) -> str:
        return cursor.mogrify(psycopg_statement(text), psycopg_values(text, values))

    def _plain(self, text: str) -> None:
        """Run a statement whose text includes its values."""
        with self._within():
            self._connection.execute(text.encode())

    def fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert new rows into a table."""
        command = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with self._within(), self._connection.cursor().copy(command.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def define(self, statement: str) -> None:
        """Run a statement of a schema, written in PostgreSQL's own SQL."""
        self._connection.execute(statement.encode())

    @property
    def server_version(self) -> int:
        """The version of the server, such as 150018."""
        return self._connection.info.server_version

    @property
    def encoding(self) -> str | None:
        """The encoding of the database, such as UTF8."""
        return self._connection.info.parameter_status("server_encoding")

    def changes(self) -> int:
        """Return the number of rows that the last statement wrote."""
        return self._changes

    def close(self, force: bool = False) -> None:
        """Close the connection."""
        if self._id is not None:
            self._ledger.forget(self._id)
        if self._id is not None and not self.lost and not self.in_transaction:
            with suppress(psycopg.Error):  # a later ``sign`` deletes the row
                self._connection.execute(_SIGN_OFF, (self._id,))
        self._connection.close()


def _are_arrays(values: Any) -> bool:
    """Whether all values of a statement are arrays, none of them empty."""
    if not values or not isinstance(values, tuple):
        return False
    return all(isinstance(value, Many) and len(value.values) > 0 for value in values)


def is_passing_database_error(error: psycopg.Error) -> bool:
    """Whether a retry of the failed statement may succeed."""
    kinds = (
        errors.SerializationFailure,
        errors.DeadlockDetected,
        errors.AdminShutdown,
        errors.CrashShutdown,
        errors.CannotConnectNow,
        errors.ConnectionFailure,
        errors.TooManyConnections,
    )
    if isinstance(error, kinds):
        return True
    return error.sqlstate is None and isinstance(error, psycopg.OperationalError)


def database_error_line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).partition("\n")[0]
