"""The workers of one run: joining it, agreeing on its rules, leaving it last (ADR 30).

The scope and the rules that the workers of one run agree on (ADR 127).

The run has a digest of each, by its key, so that a worker with other ones can be refused by name.
No value is stored.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from hashlib import sha256
from typing import Any, Final, Self

from smartcrawl.model.exceptions import RunDiffersError
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.heartbeat import ALIVE, LOCK, TAKE, HeartbeatLease
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.runs.run_orders import store_job_process_row
from smartcrawl.registry.runs.runs import (
    LastRun,
    Notify,
    OpenRun,
    RunRequest,
    interrupt_run_row,
    joined_run_row,
    no_source_held,
    open_run_row_within,
    over_run_row,
    register_source_row,
)
from smartcrawl.rules.model import BEFORE_SEAL, RESUMABLE, RunState
from smartcrawl.rules.run_orders import Beginning

logger = logging.getLogger(__name__)


_DIGITS: Final = 16  #: hexadecimal digits of a digest
_STORE: Final = "UPDATE run SET rules = ? WHERE no = ?"
_LOOK: Final = "SELECT rules FROM run WHERE no = ?"


def digests_of_rules(values: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of each value by its key. The order of words in a list does not count.

    >>> one = digests_of_rules({"seeds": ["b", "a"], "max_depth": 3})
    >>> one == digests_of_rules({"max_depth": 3, "seeds": ["a", "b"]})
    True
    >>> one == digests_of_rules({"seeds": ["b", "a"], "max_depth": 4})
    False
    """
    return {key: _digest(_without_order(value)) for key, value in values.items()}


def _without_order(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return sorted(value)
    return value


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def differing_rules(own: Mapping[str, str], agreed: Mapping[str, str]) -> list[str]:
    """Return the keys with different digests; a key that one side does not know is no difference.

    >>> differing_rules({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "0", "d": "4"})
    ['b']
    """
    return [key for key, digest in own.items() if agreed.get(key, digest) != digest]


def store_run_row_rules(connection: Connection, run: int, rules: Mapping[str, str]) -> None:
    """Store what the workers of a run have to agree on. The caller opens the transaction."""
    connection.execute(_STORE, (json.dumps(dict(rules)), run))


def add_run_row_rules(connection: Connection, run: int, values: Mapping[str, Any]) -> None:
    """Add values on which the workers of a run have to agree from now on.

    The caller opens the transaction.
    """
    agreed = json.loads(str(connection.execute(_LOOK, (run,)).get))
    store_run_row_rules(connection, run, {**agreed, **digests_of_rules(values)})


def check_run_row_rules(
    connection: Connection, source: str, run: int, rules: Mapping[str, str]
) -> None:
    """Compare the rules of a worker with those of the run that it joins.

    Raises:
        RunDiffersError: they differ; the message names their keys.
    """
    agreed = json.loads(str(connection.execute(_LOOK, (run,)).get))
    differing = differing_rules(rules, agreed)
    if differing:
        raise RunDiffersError(source, run, differing)


_OTHERS = f"SELECT 1 FROM lease WHERE source = ? AND token <> ? AND run = ? AND {ALIVE} LIMIT 1"
_ANY = f"SELECT 1 FROM lease WHERE source = ? AND token <> ? AND run > 0 AND {ALIVE} LIMIT 1"
_ALONE = f"SELECT 1 FROM lease WHERE source = ? AND run IS NULL AND {ALIVE} LIMIT 1"
_CLOSING = f"""
SELECT {ALIVE} FROM lease WHERE source = ? AND run = ? AND token <> ? AND closes
"""
_CLOSE = "UPDATE lease SET closes = TRUE WHERE source = ? AND token = ?"
_LEAVE = f"DELETE FROM lease WHERE source = ? AND (token = ? OR (run < ? AND NOT {ALIVE}))"

_ENDING: Final = (RunState.SEALED, RunState.SETTLED)


class Turn(Enum):
    """Permission of a worker to end a run."""

    NOT_OURS = auto()  #: another worker is ending it
    OURS = auto()  #: this worker ends it
    TAKEN_OVER = auto()  #: this worker ends it, as another one died while ending it


class Membership(HeartbeatLease):
    """A worker's lease among the workers of a source, renewed by heartbeats."""

    run = 0  #: run.no; 0: not joined yet

    @classmethod
    def enter(cls, database: PostgresDatabase, source: str, since: str) -> Self:
        """Take a lease among the workers of ``source``.

        Raises:
            RunHeldError: a process crawls the source alone.
        """
        with database.translated("write"):
            connection = database.connect_worker()
            return database.retried(lambda: cls.take(connection, source, since, shared=True))

    def _overdue(self, connection: PostgresConnection) -> None:
        """Take the lease again that expired while this worker stalled."""
        if self.run:
            with transaction(connection):
                connection.execute(LOCK, (self.source,))
                if connection.execute(_ALONE, (self.source,)).get is None:
                    self._take_place(connection)
            logger.warning("this worker stalled, and works on %s again", self.source)

    def _take_place(self, connection: Connection) -> None:
        connection.execute(TAKE, {**self._place, "run": self.run})

    def join(
        self,
        connection: Connection,
        request: RunRequest,
        now: int,
        *,
        is_held: Callable[[str], bool] = no_source_held,
        notify: Notify | None = None,
    ) -> OpenRun | None:
        """Join the current run of the other workers, or open one.

        None: another worker is ending the last run; try again later. Workers with the same
        ``job`` work on the same run: a late worker gets it as ``over``, and a restarted worker
        resumes it, unless an order ended it (rules.run_orders).

        Raises:
            RunPausedError: the last run is paused, and ``resume`` is not set.
            RunDiffersError: the other workers have another scope or other rules.
            HostsBusyError: another process crawls a source that shares a host with this one.
        """
        with transaction(connection):
            connection.execute(LOCK, (self.source,))
            source, job = register_source_row(connection, request, now), request.job
            if job is not None:
                ours = LastRun.of(connection, source, job)
                if ours is not None and ours.state in (RunState.SWEPT, RunState.CANCELLED):
                    return _shared(joined_run_row(connection, source, ours, over=True))
            last = LastRun.of(connection, source)
            opened = None
            if last is not None:
                others = (self.source, self.token, last.no)
                at_work = connection.execute(_OTHERS, others).get is not None
                found = last.beginning(connection, request, at_work=at_work)
                if found is Beginning.OVER:
                    over = over_run_row(connection, source, last, now, at_work=at_work)
                    return _shared(over)
                if found is Beginning.WAIT or (at_work and last.state in _ENDING):
                    return None
                if at_work and last.state in BEFORE_SEAL:
                    check_run_row_rules(connection, self.source, last.no, request.rules)
                    opened = _shared(joined_run_row(connection, source, last))
                if job is not None and last.job == job and last.state in RESUMABLE:
                    request = replace(request, resume=True)
            if opened is None:
                opened = _shared(
                    open_run_row_within(
                        connection, request, source, now, is_held=is_held, notify=notify
                    )
                )
                store_run_row_rules(connection, opened.no, request.rules)
            self.run = opened.no
            store_job_process_row(connection, request.job_run, opened.no, now)
            self._take_place(connection)
            return opened

    def at_work(self, connection: Connection) -> bool:
        """Whether another live worker has joined a run of the source."""
        return connection.execute(_ANY, (self.source, self.token)).get is not None

    def others(self, connection: Connection) -> bool:
        """Whether another live worker works on the same run."""
        row = (self.source, self.token, self.run)
        return connection.execute(_OTHERS, row).get is not None

    def close(self, connection: Connection) -> Turn:
        """Claim the end of the run; only one live worker can have it."""
        with transaction(connection):
            connection.execute(LOCK, (self.source,))
            row = (self.source, self.run, self.token)
            before = [alive for (alive,) in connection.execute(_CLOSING, row).fetchall()]
            if any(before):
                return Turn.NOT_OURS
            self._take_place(connection)
            connection.execute(_CLOSE, (self.source, self.token))
            return Turn.TAKEN_OVER if before else Turn.OURS

    def leave(
        self, connection: Connection, now: int, reasons: list[str], notify: Notify | None = None
    ) -> bool:
        """Leave the run; the last worker closes it, interrupted or as its order says.

        Return whether it was the last one. ``notify``: writes the notices of a run that it closes.
        """
        with transaction(connection):
            connection.execute(LOCK, (self.source,))
            last = not self.others(connection)
            if last:
                is_closed = interrupt_run_row(connection, self.run, now, reasons, is_alive=True)
                if is_closed and notify is not None:
                    notify(connection, self.run, now)
            connection.execute(_LEAVE, (self.source, self.token, self.run))
            return last


def _shared(opened: OpenRun) -> OpenRun:
    return replace(opened, shared=True)
