"""The table of started processes: of crawls, jobs of libraries, ordered runs, removals (ADR 136).

What a process was started for has a table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection

#: Columns of ``Started``.
PROCESS_COLUMNS: Final = """
p.server, p.watched_at, p.host, p.pid, p.process_start, p.starts, p.starts_before
"""
#: The first statement of a claim: two servers must not fill the last place.
_CLAIMING: Final = "UPDATE sequence SET value = value WHERE name = 'number'"
_TAKEN: Final = """
SELECT (SELECT count(*) FROM job_run k JOIN process p ON p.kind = 'crawl' AND p.id = k.id
         WHERE k.state IN ('waiting', 'running') AND p.server IS NOT NULL)
     + (SELECT count(*) FROM library_job k JOIN process p ON p.kind = 'library' AND p.id = k.id
         WHERE k.state IN ('waiting', 'running') AND p.server IS NOT NULL)
     + (SELECT count(*) FROM removal_order k JOIN process p ON p.kind = 'removal' AND p.id = k.id
         WHERE k.state IN ('waiting', 'running') AND p.server IS NOT NULL)
     + (SELECT count(*) FROM process p WHERE p.kind = 'due' AND p.server IS NOT NULL)
"""
_CLAIM: Final = """
INSERT INTO process (kind, id, server, watched_at, starts) VALUES (:kind, :id, :this, :now, 1)
ON CONFLICT (kind, id) DO UPDATE
   SET server = excluded.server, watched_at = excluded.watched_at, starts = process.starts + 1,
       host = NULL, pid = NULL, process_start = NULL
 WHERE process.server IS NULL OR process.server = excluded.server
"""
_FORGET: Final = "DELETE FROM process WHERE kind = ? AND id = ?"


class ProcessKind(StrEnum):
    """What a process was started for. The words are stored; never rename."""

    CRAWL = "crawl"  #: a run of a job, by job_run.id
    LIBRARY = "library"  #: a job of a library, by library_job.id
    DUE = "due"  #: an ordered run, by the name of its source
    REMOVAL = "removal"  #: an approval or undo of removals, by removal_order.id


@dataclass(frozen=True, slots=True)
class Started:
    """The processes of some work. Times are Unix seconds."""

    server: Process | None = None  #: that watches it; None: the work waits
    watched_at: int = 0
    process: Process | None = None  #: None: not known
    starts: int = 0  #: processes so far
    starts_before: int = 0  #: those before it was resumed last

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return that of a row with PROCESS_COLUMNS, which are null before the first start."""
        server, watched_at, host, pid, start, starts, before = row
        return cls(
            None if server is None else Process.parsed(server),
            watched_at or 0,
            None if pid is None else Process(host, pid, start),
            starts or 0,
            before or 0,
        )


class ProcessRows:
    """The rows of one kind, for a server or a process that it started; in their transactions."""

    def __init__(self, connection: Connection, kind: ProcessKind) -> None:
        self._connection = connection
        self._kind = kind
        self._this = Process.this()

    def lock(self) -> None:
        """Let no other server claim anything before the end of the transaction."""
        self._connection.execute(_CLAIMING)

    def places(self) -> int:
        """Return the number of processes that all servers have begun, of all kinds."""
        return int(self._connection.execute(_TAKEN).get)

    def claim(self, id_: str, now: int) -> bool:
        """Claim for a process what waits, or what is this server's already."""
        values = {"kind": self._kind, "id": id_, "this": str(self._this), "now": now}
        self._connection.execute(_CLAIM, values)
        return self._connection.changes() > 0

    def started(self, id_: str, process: Process) -> None:
        """Record the process that this server started, unless it has recorded itself."""
        self._record(id_, process, "pid IS NULL")

    def record_this(self, id_: str) -> None:
        """Record that this process does the work."""
        self._record(id_, self._this, "TRUE")

    def record_first(self, id_: str) -> bool:
        """Record it, unless another process does the work, or the work waits."""
        mine = "pid IS NULL OR host = :host AND pid = :pid AND process_start = :start"
        return self._record(id_, self._this, f"server IS NOT NULL AND ({mine})")

    def take_over(self, id_: str, server: Process, now: int) -> bool:
        """Take work over from a server that died; return whether no other one was first."""
        changes = "server = :this, watched_at = :now"
        return self._set(id_, changes, "server = :before", now=now, before=str(server))

    def watched(self, ids: Sequence[str], now: int) -> None:
        """Record that this server lives and watches its work."""
        for id_ in ids:
            self._set(id_, "watched_at = :now", "server = :this", now=now)

    def release(self, id_: str) -> None:
        """Let work of this server wait again."""
        self._set(id_, "server = NULL", "server = :this")

    def withdraw(self, id_: str, *, waits: bool) -> None:
        """Withdraw the last claim of this server: nothing was started.

        ``waits``: the work waits again; else this server starts it again.
        """
        self._set(id_, "starts = starts - 1", "server = :this")
        if waits:
            self.release(id_)

    def renew(self, id_: str) -> None:
        """Let paused work wait again, with as many starts as at first."""
        self._set(id_, "server = NULL, starts_before = starts", "TRUE")

    def forget(self, id_: str) -> None:
        """Forget the processes of work that is over."""
        self._connection.execute(_FORGET, (self._kind, id_))

    def _record(self, id_: str, process: Process, where: str) -> bool:
        changes = "host = :host, pid = :pid, process_start = :start"
        given = {"host": process.host, "pid": process.pid, "start": process.start}
        return self._set(id_, changes, where, **given)

    def _set(self, id_: str, changes: str, where: str, **given: Any) -> bool:
        """Change the row of some work; return whether it meets a condition."""
        statement = f"UPDATE process SET {changes} WHERE kind = :kind AND id = :id AND {where}"
        values = {"kind": self._kind, "id": id_, "this": str(self._this), **given}
        self._connection.execute(statement, values)
        return self._connection.changes() > 0
