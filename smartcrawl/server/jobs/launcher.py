"""The launcher: the processes that crawl for jobs, and their ends (docs/adr/0053).

It starts the command of a crawl by the name of its source, in a session of its own, so that a
crawl outlives its server. The next server finds it again.
"""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.jobs import EXIT_COMPLETE, EXIT_INCOMPLETE, EXIT_SOURCE_BUSY
from smartcrawl.rules.model import RunState
from smartcrawl.server.jobs.clock import JobClock
from smartcrawl.server.jobs.job import RunStage
from smartcrawl.server.jobs.processes import BegunRun, JobProcesses
from smartcrawl.sources.jobs.errors import JobError
from smartcrawl.sources.private_files import private_file, private_folder

logger = logging.getLogger(__name__)

MOST_STARTS: Final = 2  #: processes of a run: what died with its server is resumed once
BEAT: Final = 10  #: seconds between two signs of life of this server
#: Seconds without a sign after which a server of another machine counts as dead.
SILENCE: Final = 60
_TO_BEGIN: Final = 10  #: seconds in which a started process records itself
_FAILED: Final = 1
_SEALED: Final = frozenset({RunState.SEALED, RunState.SETTLED, RunState.SWEPT})


@dataclass(frozen=True, slots=True)
class CrawlProgram:
    """The command that crawls one source."""

    words: Sequence[str]  #: of the command; the arguments of the spider follow
    environment: Mapping[str, str]  #: settings of the crawl, also secret ones
    logs: Path  #: folder of its logs
    due: Sequence[str] = ()  #: words of the command that crawls what is due of a source

    def log_of(self, id_: str) -> Path:
        """Return the log of a job's run."""
        return self.logs / f"{id_}.log"

    def start(self, name: str, id_: str, *, resume: bool) -> subprocess.Popen[bytes]:
        """Start it for a source and the run of a job; what it prints goes to a log.

        Its arguments are names: seeds stay in the registry, secrets in the environment.

        Raises:
            OSError: it cannot be started, or the log cannot be written.
        """
        arguments = [f"source={name}", f"_job={id_}", *(["resume=1"] if resume else [])]
        given = [word for argument in arguments for word in ("-a", argument)]
        return self._started([*self.words, *given], self.log_of(id_))

    def due_log_of(self, name: str) -> Path:
        """Return the log of the ordered runs of a source."""
        return self.logs / f"due-{name}.log"

    def start_due(self, name: str) -> subprocess.Popen[bytes]:
        """Start the crawl of what is due of a source.

        Raises:
            OSError: as of ``start``.
        """
        return self._started([*self.due, f"--source={name}"], self.due_log_of(name))

    def _started(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        private_folder(self.logs)
        private_file(log)
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  # words of ours, and checked names
                [*words, "--progress", "none"],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class JobLauncher:
    """Starts the waiting runs of jobs and watches their processes, for one thread."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        program: CrawlProgram,
        most: int,
        children: dict[str, subprocess.Popen[bytes]],
    ) -> None:
        """``most``: crawls of all servers of this registry at once (MAX_RUNNING_JOBS).

        ``children``: the processes that this server started, by the ids of their runs; they are
        kept when the connection is renewed.
        """
        self._database = database
        self._clock = JobClock(database, connection)
        self._server = Process.this()
        self._processes = JobProcesses(database, connection, self._server)
        self._program = program
        self._most = most
        self._children = children
        self._beat_at = 0

    def watch(self, now: int) -> None:
        """Record the beginnings and ends of the runs, and take over those of dead servers."""
        if not 0 <= now - self._beat_at < BEAT:
            self._processes.watched(now)
            self._beat_at = now
        begun = self._processes.begun()
        for one in begun:
            if one.server == self._server:
                self._look_at(one, now)
            elif self._is_dead(one, now) and self._processes.take_over(one, now):
                logger.info("found the run %s of %s again: its server died", one.id, one.name)
        for id_ in self._children.keys() - {one.id for one in begun}:
            if self._children[id_].poll() is not None:  # its run is over, or was taken over
                del self._children[id_]

    def start_waiting(self, now: int) -> None:
        """Start the runs that wait, in their order, as long as there is a place."""
        while self._processes.may_claim(self._most):
            id_ = self._processes.claim(self._most, now)
            if id_ is None:
                return  # another server was first
            begun = self._processes.get(id_)
            if begun is not None:
                self._start(begun, now, resume=False)

    def _is_dead(self, begun: BegunRun, now: int) -> bool:
        """Whether the server that watches a run died."""
        if begun.server.is_here:
            begins = begun.process is None and 0 <= now - begun.watched_at < _TO_BEGIN
            return not begins and not begun.server.is_alive()
        return now - begun.watched_at > SILENCE

    def _look_at(self, begun: BegunRun, now: int) -> None:
        if begun.stage is RunStage.WAITING and begun.run is not None:
            self._began(begun, begun.run, now)
        child = self._children.get(begun.id)
        if child is None:
            if not self._is_crawling(begun):
                self._died_with_its_server(begun, now)
            return
        status = child.poll()
        if status is None:
            return
        del self._children[begun.id]
        after = self._processes.get(begun.id)  # what it recorded before its end
        if after is not None:
            self._exited(after, child.pid, status, now)

    def _began(self, begun: BegunRun, run: int, now: int) -> None:
        try:
            self._clock.began(begun.id, run, now)
        except JobError as error:
            logger.warning("the run %s of %s goes on, although %s", begun.id, begun.name, error)

    def _is_crawling(self, begun: BegunRun) -> bool:
        """Whether the process of a run, which is no child of this server, is alive."""
        process = begun.process
        if process is not None and process.is_here:
            return process.is_alive()
        return self._database.is_held(begun.name)

    def _exited(self, begun: BegunRun, pid: int, status: int, now: int) -> None:
        """Record the exit of a child."""
        if begun.stage is RunStage.WAITING and begun.run is not None:
            self._began(begun, begun.run, now)
        if status == EXIT_SOURCE_BUSY:
            other = begun.process
            if other is not None and other.pid != pid and self._is_crawling(begun):
                return  # it came second: the first process crawls for this run
            if begun.run is None:
                self._end(begun, status, now, "its source is being crawled")
            else:
                self._end(begun, None, now, "its source is being crawled by another process")
        elif status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
            self._end(begun, status, now, *begun.reasons)
        elif status < 0:
            name = signal.Signals(-status).name
            self._end(begun, None, now, f"its process was ended by {name}")
        else:
            log = self._program.log_of(begun.id).name
            self._end(begun, status, now, f"its process failed (exit status {status}): see {log}")

    def _died_with_its_server(self, begun: BegunRun, now: int) -> None:
        """Record the end of a run whose process had no parent; resume one that has not ended."""
        if begun.state in _SEALED:
            status = EXIT_COMPLETE if begun.complete else EXIT_INCOMPLETE
            self._end(begun, status, now, *begun.reasons)
        elif begun.starts >= MOST_STARTS or not begun.may_run:
            self._end(begun, None, now, "its process died")
        elif not self._database.is_held(begun.name):  # PostgreSQL notes a death within a minute
            logger.info("resuming the run %s of %s: its process died", begun.id, begun.name)
            if self._processes.claim_again(begun.id, now):
                self._start(begun, now, resume=begun.run is not None)

    def _start(self, begun: BegunRun, now: int, *, resume: bool) -> None:
        try:
            child = self._program.start(begun.name, begun.id, resume=resume)
        except OSError as error:
            logger.error("cannot start the crawl of %s: %s", begun.name, error)
            self._end(begun, _FAILED, now, f"cannot start its process ({error.strerror})")
            return
        self._children[begun.id] = child
        self._processes.started(begun.id, Process.of(child.pid))
        logger.info("crawling %s for the run %s: process %d", begun.name, begun.id, child.pid)

    def _end(self, begun: BegunRun, status: int | None, now: int, *reasons: str) -> None:
        self._clock.ended(begun.id, status, now, reasons)
        end = "vanished" if status is None else f"exit status {status}"
        logger.info("the run %s of %s ended: %s", begun.id, begun.name, end)
