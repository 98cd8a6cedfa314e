"""A source is crawled by one run at a time: a lease that shows by its heartbeat that it is held."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from threading import Event, Thread
from typing import Any, Final, Self

import psycopg

from smartcrawl.exceptions import RunHeldError
from smartcrawl.registry.session import ConnectionLostError, PostgresConnection
from smartcrawl.registry.transactions import transaction

logger = logging.getLogger(__name__)

BEAT: Final = 10.0  #: seconds between two signs of life
EXPIRY: Final = 60  #: seconds after the last one, by the clock of the database

_ALIVE: Final = f"beat > clock_timestamp() - interval '{EXPIRY} seconds'"
_TAKE = f"""
INSERT INTO lease (source, token, pid, host, since, beat)
VALUES (?, ?, ?, ?, ?, clock_timestamp())
ON CONFLICT (source) DO UPDATE
   SET token = excluded.token, pid = excluded.pid, host = excluded.host, since = excluded.since,
       beat = excluded.beat
 WHERE NOT lease.{_ALIVE}
"""
_HOLDER = "SELECT pid, host, since FROM lease WHERE source = ?"
_BEAT = "UPDATE lease SET beat = clock_timestamp() WHERE source = ? AND token = ?"
_RELEASE = "DELETE FROM lease WHERE source = ? AND token = ?"
_IS_HELD = f"SELECT 1 FROM lease WHERE source = ? AND {_ALIVE}"


class HeartbeatLease:
    """The right to crawl one source, renewed every ``BEAT`` seconds by a thread of its own.

    A process that stands still for longer than ``EXPIRY`` may find its source taken over. What it
    writes after that is refused, for its run is closed or was claimed with a higher number.
    """

    def __init__(self, connection: PostgresConnection, source: str, token: str) -> None:
        self._connection = connection
        self._values = (source, token)
        self._done = Event()
        self._thread = Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, connection: PostgresConnection, source: str, since: str) -> Self:
        """Take the lease of ``source`` over a connection of its own.

        Raises:
            RunHeldError: another process holds it; named by pid, host and since.
        """
        token = secrets.token_hex(16)
        with transaction(connection):
            row = (source, token, os.getpid(), socket.gethostname(), since)
            connection.execute(_TAKE, row)
            if not connection.changes():
                holder: Any = connection.execute(_HOLDER, (source,)).fetchone()
                raise RunHeldError(source, pid=holder[0], host=holder[1], since=holder[2])
        return cls(connection, source, token)

    @staticmethod
    def is_held(connection: PostgresConnection, source: str) -> bool:
        """Whether a process crawls ``source`` now."""
        return connection.execute(_IS_HELD, (source,)).get is not None

    def _beat(self) -> None:
        while not self._done.wait(BEAT):
            try:
                self._connection.execute(_BEAT, self._values)
            except (psycopg.Error, ConnectionLostError) as error:
                logger.warning("the lease of %s was not renewed: %s", self._values[0], error)

    def release(self) -> None:
        """Give the lease back; a second call does nothing."""
        if self._done.is_set():
            return
        self._done.set()
        self._thread.join()
        try:
            self._connection.execute(_RELEASE, self._values)
        except (psycopg.Error, ConnectionLostError) as error:
            logger.warning("the lease of %s was not given back: %s", self._values[0], error)
        self._connection.close()
