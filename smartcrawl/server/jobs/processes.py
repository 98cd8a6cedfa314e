"""The processes of jobs' runs in the registry: claimed, started, found again (ADR 53).

Every method is one transaction, and any number of servers may call it at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.jobs import JobAction, order_in_force
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.server.jobs.job import RunStage

_CLOSED: Final = frozenset({RunState.INTERRUPTED, RunState.CANCELLED})
_SEALED: Final = frozenset({RunState.SEALED, RunState.SETTLED, RunState.SWEPT})
_OPEN = "k.state IN ('waiting', 'running')"
#: The first statement of a claim: two servers must not fill the last place.
CLAIMING = "UPDATE sequence SET value = value WHERE name = 'number'"
#: Crawls that have begun: also ordered runs (items.due_runs) and jobs of libraries.
PLACES = f"""
SELECT (SELECT count(*) FROM job_run k WHERE {_OPEN} AND server IS NOT NULL)
     + (SELECT count(*) FROM due_run WHERE server IS NOT NULL)
     + (SELECT count(*) FROM library_job k WHERE {_OPEN} AND server IS NOT NULL)
"""
_MAY_RUN = """
(j.status IN ('created', 'scheduled', 'running')
 OR (j.status = 'paused' AND k.requested = 'resume'))
AND j.deleted_at IS NULL
"""
_NEXT = f"""
SELECT k.id, j.name, k.requested FROM job_run k JOIN job j ON j.no = k.job
 WHERE k.state = 'waiting' AND k.server IS NULL AND {_MAY_RUN} ORDER BY k.no
"""
_CLAIM = """
UPDATE job_run SET server = :server, watched_at = :now, starts = starts + 1, host = NULL,
       pid = NULL, process_start = NULL
 WHERE id = :id AND state IN ('waiting', 'running')
   AND coalesce(server, '') = coalesce(:before, '')
"""
#: A crawl that has recorded itself already is the truth.
_STARTED = """
UPDATE job_run SET host = ?, pid = ?, process_start = ? WHERE id = ? AND pid IS NULL
"""
_RELEASE = """
UPDATE job_run SET server = NULL WHERE id = ? AND server = ? AND state = 'waiting'
"""
#: A run that has begun stays with its server, which starts it again.
_WITHDRAW = f"""
UPDATE job_run AS k SET starts = starts - 1,
       server = CASE WHEN state = 'waiting' AND run IS NULL THEN NULL ELSE server END
 WHERE id = ? AND server = ? AND {_OPEN}
"""
_TAKE_OVER = f"""
UPDATE job_run AS k SET server = ?, watched_at = ? WHERE id = ? AND server = ? AND {_OPEN}
"""
_WATCHED = f"UPDATE job_run AS k SET watched_at = ? WHERE server = ? AND {_OPEN}"
_BEGUN = f"""
SELECT k.id, j.name, k.state, k.run, k.host, k.pid, k.process_start, k.server, k.watched_at,
       k.starts, {_MAY_RUN}, r.state, r.complete, r.reasons, k.requested, r.requested,
       k.starts_before
  FROM job_run k JOIN job j ON j.no = k.job LEFT JOIN run r ON r.no = k.run
 WHERE {_OPEN} AND k.server IS NOT NULL
"""
_ALL_BEGUN = f"{_BEGUN} ORDER BY k.no"
_ONE_BEGUN = f"{_BEGUN} AND k.id = ?"


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run of a job that a server has begun. Times are Unix seconds."""

    id: str
    name: str  #: of the source
    stage: RunStage
    run: int | None  #: run.no, once it is open
    process: Process | None  #: that crawls; None: not known yet
    server: Process  #: that watches it
    watched_at: int
    starts: int  #: processes so far
    starts_before: int  #: those before it was resumed last
    may_run: bool  #: the job is neither cancelled, deleted, nor paused and not resumed
    state: RunState | None  #: of the run
    complete: bool
    reasons: tuple[str, ...]  #: why the run is incomplete
    order: RunOrder | None  #: that the run ends
    resumes: bool  #: the job was resumed, and its run is not open yet

    @property
    def has_opened(self) -> bool:
        """Whether its run is or was open; before it goes on, a paused one is not."""
        return self.run is not None and self.state is not RunState.INTERRUPTED

    @property
    def is_sealed(self) -> bool:
        """Whether the run asked every page that it wanted to ask."""
        return self.state in _SEALED

    @property
    def is_swept(self) -> bool:
        """Whether the run is over, and has removed what it found to be gone."""
        return self.state is RunState.SWEPT


def is_api_job_order_obeyed(database: Database, begun: BegunRun) -> bool:
    """Whether a run ended by an order, and its source is free; its process may still be there."""
    closed = begun.stage is RunStage.RUNNING and begun.state in _CLOSED
    return closed and begun.order is not None and not database.is_held(begun.name)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run of a job that may begin."""

    id: str
    name: str  #: of the source
    resumes: bool  #: it was paused, and goes on


class JobProcesses:
    """The runs that this server has begun, and those of the others, for one thread."""

    def __init__(self, database: Database, connection: Connection, server: Process) -> None:
        """``server``: this process."""
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)
        self._server = server

    def claimable(self, most: int) -> list[WaitingRun]:
        """Return the runs that wait, in their order, if there is a place; ``claim`` locks."""
        with self._database.translated("read"):
            free = int(self._connection.execute(PLACES).get) < most
            return self._waiting() if free else []

    def claim(self, most: int, now: int, but: Collection[str] = ()) -> str | None:
        """Claim the waiting run that is first in line, unless ``most`` runs have begun already.

        Return its id; None: there is none, or no place. All servers count together. ``but``: ids
        of runs that cannot begin yet.
        """

        def work() -> str | None:
            self._connection.execute(CLAIMING)
            if int(self._connection.execute(PLACES).get) >= most:
                return None
            for one in self._waiting():
                if one.id not in but:
                    return one.id if self._claim(one.id, None, now) else None
            return None

        return self._control.write(work)

    def release(self, id_: str) -> None:
        """Put a run of this server that was not opened back among those that wait."""
        self._control.write(lambda: self._connection.execute(_RELEASE, (id_, str(self._server))))

    def claim_again(self, id_: str, now: int) -> bool:
        """Claim a run of this server for another process; return whether it still is open."""
        return self._control.write(lambda: self._claim(id_, str(self._server), now))

    def started(self, id_: str, process: Process) -> None:
        """Record the process that this server started for a run."""
        row = (process.host, process.pid, process.start, id_)
        self._control.write(lambda: self._connection.execute(_STARTED, row))

    def withdraw(self, id_: str) -> None:
        """Withdraw the last claim of this server: nothing was started, and the run waits again."""
        row = (id_, str(self._server))
        self._control.write(lambda: self._connection.execute(_WITHDRAW, row))

    def take_over(self, begun: BegunRun, now: int) -> bool:
        """Take a run over from a server that died; return whether no other one was first."""

        def work() -> bool:
            row = (str(self._server), now, begun.id, str(begun.server))
            self._connection.execute(_TAKE_OVER, row)
            return self._connection.changes() > 0

        return self._control.write(work)

    def watched(self, now: int) -> None:
        """Record that this server lives and watches its runs."""
        row = (now, str(self._server))
        self._control.write(lambda: self._connection.execute(_WATCHED, row))

    def begun(self) -> list[BegunRun]:
        """Return the runs that servers have begun and that are not over, in their order."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(_ALL_BEGUN).fetchall()
        return [_begun_run(row) for row in rows]

    def get(self, id_: str) -> BegunRun | None:
        """Return one of them; None if it is over."""
        with self._database.translated("read"):
            row: Any = self._connection.execute(_ONE_BEGUN, (id_,)).fetchone()
        return None if row is None else _begun_run(row)

    def _waiting(self) -> list[WaitingRun]:
        rows: list[Any] = self._connection.execute(_NEXT).fetchall()
        return [WaitingRun(id_, name, word == JobAction.RESUME) for id_, name, word in rows]

    def _claim(self, id_: str, before: str | None, now: int) -> bool:
        values = {"server": str(self._server), "now": now, "id": id_, "before": before}
        self._connection.execute(_CLAIM, values)
        return self._connection.changes() > 0


def _begun_run(row: Sequence[Any]) -> BegunRun:
    host, pid, start = row[4:7]
    return BegunRun(
        id=row[0],
        name=row[1],
        stage=RunStage(row[2]),
        run=row[3],
        process=None if pid is None else Process(host, pid, start),
        server=Process.parsed(row[7]),
        watched_at=row[8],
        starts=row[9],
        starts_before=row[16],
        may_run=bool(row[10]),
        state=None if row[11] is None else RunState(row[11]),
        complete=bool(row[12]),
        reasons=tuple(json.loads(row[13] or "[]")),
        order=order_in_force(row[14], row[15]),
        resumes=row[14] == JobAction.RESUME,
    )
