"""Heartbeat leases on a source: of one process alone, or of the workers of one run."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any, Final, Self

import psycopg

from smartcrawl.model.exceptions import RunHeldError
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.session import ConnectionLostError, PostgresConnection

logger = logging.getLogger(__name__)

BEAT: Final = 10.0  #: seconds between two heartbeats
EXPIRY: Final = 60  #: seconds after the last heartbeat, by the database's clock

ALIVE: Final = f"beat > clock_timestamp() - interval '{EXPIRY} seconds'"
#: Changes to the leases of a source wait for each other; the first number is arbitrary.
LOCK: Final = "SELECT pg_advisory_xact_lock(1936553843, hashtext(?))"
_HOLDER = f"""
SELECT pid, host, since FROM lease
 WHERE source = ? AND {ALIVE} AND (run IS NULL OR NOT ?) ORDER BY since LIMIT 1
"""
_CLEAR = f"DELETE FROM lease WHERE source = ? AND NOT (closes AND ?) AND NOT {ALIVE}"
TAKE: Final = """
INSERT INTO lease (source, token, pid, host, since, run, beat)
VALUES (:source, :token, :pid, :host, :since, :run, clock_timestamp())
ON CONFLICT (source, token) DO UPDATE SET run = excluded.run, beat = excluded.beat
"""
_BEAT = "UPDATE lease SET beat = clock_timestamp() WHERE source = ? AND token = ?"
_RELEASE = "DELETE FROM lease WHERE source = ? AND token = ?"
_IS_HELD = f"SELECT 1 FROM lease WHERE source = ? AND {ALIVE} LIMIT 1"


class HeartbeatLease:
    """The right to work on one source, renewed every ``BEAT`` seconds by its own thread.

    Another process may take over the source of a process that stalls for longer than ``EXPIRY``.
    The database refuses the stalled one's later writes: its run is closed, or was claimed with a
    higher number.
    """

    def __init__(self, connection: PostgresConnection, place: Mapping[str, Any]) -> None:
        """``place``: its row in the table ``lease``."""
        self._connection = connection
        self._place = place
        self.source, self.token = str(place["source"]), str(place["token"])
        self._done = Event()
        self._thread = Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def take(
        cls, connection: PostgresConnection, source: str, since: str, *, shared: bool = False
    ) -> Self:
        """Take the lease of ``source`` over its own connection, alone or ``shared``.

        Raises:
            RunHeldError: another process has the lease; with its pid, host and start.
        """
        place = {
            "source": source,
            "token": secrets.token_hex(16),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": since,
            "run": 0 if shared else None,
        }
        with transaction(connection):
            connection.execute(LOCK, (source,))
            holder: Any = connection.execute(_HOLDER, (source, shared)).fetchone()
            if holder is not None:
                raise RunHeldError(source, pid=holder[0], host=holder[1], since=holder[2])
            connection.execute(_CLEAR, (source, shared))
            connection.execute(TAKE, place)
        return cls(connection, place)

    @staticmethod
    def is_held(connection: PostgresConnection, source: str) -> bool:
        """Whether a process works on ``source`` now."""
        return connection.execute(_IS_HELD, (source,)).get is not None

    def _beat(self) -> None:
        while not self._done.wait(BEAT):
            try:
                self._connection.execute(_BEAT, (self.source, self.token))
                if not self._connection.changes():
                    self._overdue(self._connection)
            except (psycopg.Error, ConnectionLostError) as error:
                logger.warning("the lease of %s was not renewed: %s", self.source, error)

    def _overdue(self, connection: PostgresConnection) -> None:
        """Log that the lease expired because this process stalled."""
        logger.warning(
            "this process sent no heartbeat for %d s: another one may work on %s by now",
            EXPIRY,
            self.source,
        )

    def release(self) -> None:
        """Release the lease; a second call does nothing."""
        if self._done.is_set():
            return
        self._done.set()
        self._thread.join()
        try:
            self._connection.execute(_RELEASE, (self.source, self.token))
        except (psycopg.Error, ConnectionLostError) as error:
            logger.warning("the lease of %s was not released: %s", self.source, error)
        self._connection.close()
