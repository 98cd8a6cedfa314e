"""The logins of sources: who asks, and which attempts were refused (ADR 146)."""

from __future__ import annotations

import hashlib
import secrets
from enum import IntEnum
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.rules.login import login_wait

_BUSY: Final = 120  #: seconds after which an attempt that another worker began counts as dead
_COST: Final = 2**14  #: of a mark: to compute one takes 16 MiB of memory
_MARK: Final = 2  #: bytes of the mark of a configuration: enough to see that it changed

_ROW = "SELECT identity, refusals, refused_at, why, salt, mark FROM login WHERE source = ?"
_IDENTIFY = """
INSERT INTO login (source, identity) VALUES (?, ?)
ON CONFLICT (source) DO UPDATE SET identity = excluded.identity
"""
#: Validators belong to one reader: others may get other pages under the same ones.
_NO_VALIDATORS = """
UPDATE record SET etag = NULL, last_modified = NULL
 WHERE source = (SELECT no FROM source WHERE name = ?)
   AND (etag IS NOT NULL OR last_modified IS NOT NULL)
"""
_ADD = "INSERT INTO login (source) VALUES (?) ON CONFLICT (source) DO NOTHING"
_BEGIN = """
UPDATE login SET run = :run, state = :trying, at = :now
 WHERE source = :source
   AND (run IS NULL OR run <> :run OR state <> :trying OR at < :now - :busy)
"""
_HELD = """
UPDATE login SET state = ?, refusals = 0, refused_at = NULL, why = NULL, salt = NULL, mark = NULL
 WHERE source = ?
"""
_UNDECIDED = "UPDATE login SET state = ? WHERE source = ?"
_REFUSED = """
UPDATE login SET state = ?, refusals = ?, refused_at = ?, why = ?, salt = ?, mark = ?
 WHERE source = ?
"""


class LoginState(IntEnum):
    """What became of the last attempt. The numbers are stored; never renumber."""

    TRYING = 1
    HELD = 2
    REFUSED = 3
    UNDECIDED = 4  #: no answer


class RefusedLogin(NamedTuple):
    """A login that was refused, and is not tried yet."""

    why: str
    until: int  #: Unix seconds


class LoginRows:
    """The row of one source, for one run of it."""

    def __init__(self, database: Database, connection: Connection, source: str, run: int) -> None:
        self._control = DatabaseControl(database, connection)
        self._connection = connection
        self._source = source
        self._run = run

    def identify(self, identity: bytes | None) -> bool:
        """Note who asks; return whether that is another one, whose validators are dropped.

        None: the source has no login.
        """
        row = self._row()
        before = None if row is None or row[0] is None else bytes(row[0])
        if before == identity:
            return False

        def change() -> None:
            self._connection.execute(_IDENTIFY, (self._source, identity))
            self._connection.execute(_NO_VALIDATORS, (self._source,))

        self._control.write(change)
        return True

    def add(self) -> None:
        """Add the row of a source that no run has logged in yet."""
        if self._row() is None:
            self._control.write(lambda: self._connection.execute(_ADD, (self._source,)))

    def refusal(self, configuration: bytes, now: int) -> RefusedLogin | None:
        """Return the refusal that counts still; None: a login may be tried.

        It counts for a time, and as long as ``configuration`` is the one that was refused.
        """
        row = self._row()
        if row is None or row[2] is None or _mark(configuration, row[4]) != bytes(row[5]):
            return None
        until = row[2] + login_wait(row[1])
        return RefusedLogin(row[3], until) if now < until else None

    def begin(self, now: int) -> bool:
        """Begin an attempt; False: another worker of the run is at one."""
        values = {"run": self._run, "trying": int(LoginState.TRYING), "now": now}
        values |= {"busy": _BUSY}

        def claim() -> bool:
            self._connection.execute(_BEGIN, values | {"source": self._source})
            return self._connection.changes() > 0

        return self._control.write(claim)

    def held(self) -> None:
        """Note that the last attempt succeeded."""
        self._control.write(
            lambda: self._connection.execute(_HELD, (LoginState.HELD, self._source))
        )

    def undecided(self) -> None:
        """Note that the last attempt brought no answer."""
        row = (LoginState.UNDECIDED, self._source)
        self._control.write(lambda: self._connection.execute(_UNDECIDED, row))

    def refused(self, why: str, configuration: bytes, now: int) -> RefusedLogin:
        """Note that the last attempt was refused, and until when there is no other one.

        Of the configuration, which has secrets, only a mark of two bytes with a salt is stored.
        """
        row, before = self._row(), 0
        if row is not None and row[2] is not None:
            before = row[1] if _mark(configuration, row[4]) == bytes(row[5]) else 0
        salt = secrets.token_bytes(16)
        values = (LoginState.REFUSED, before + 1, now, why, salt, _mark(configuration, salt))
        self._control.write(lambda: self._connection.execute(_REFUSED, (*values, self._source)))
        return RefusedLogin(why, now + login_wait(before + 1))

    def _row(self) -> Any:
        return self._connection.execute(_ROW, (self._source,)).fetchone()


def _mark(configuration: bytes, salt: bytes) -> bytes:
    """Return two bytes that most other configurations do not have; no secret follows from them."""
    return hashlib.scrypt(configuration, salt=bytes(salt), n=_COST, r=8, p=1, dklen=_MARK)
