"""The runner of jobs: it starts processes in their order, watches them, finds them again.

The commands that a server starts have a session of their own each (ADR 53). They are those of a
user: the crawl of a source by its name, or a step of a library. A process outlives its server, and
the next server finds it again.

The runner (ADR 136) is the same for each kind of work: crawls of jobs, jobs of libraries, ordered
runs. A kind says what waits, what the end of a process means, and where its result stands.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.processes import ProcessKind, ProcessRows, Started
from smartcrawl.sources.private_files import private_file, private_folder

logger = logging.getLogger(__name__)


#: Words by which a crawl prints no line of progress.
QUIET: Final = ("--progress", "none")


@dataclass(frozen=True, slots=True)
class CrawlProgram:
    """The commands that processes are started with."""

    words: Sequence[str]  #: that crawl a source of a job; the arguments of the spider follow
    environment: Mapping[str, str]  #: settings of the crawl, also secret ones
    logs: Path  #: folder of its logs
    due: Sequence[str] = ()  #: words of the command that crawls what is due of a source
    library: Sequence[str] = ()  #: words of the command of a library's steps
    #: Returns the spider of a source, which follows the words; None: the command knows it.
    spider_of: Callable[[str], str] | None = None
    plain: Sequence[str] = ()  #: words of the program; a command without a crawl follows

    def due_log_of(self, name: str) -> Path:
        """Return the log of the ordered runs of a source."""
        return self.logs / f"due-{name}.log"

    def start_refresh(self, name: str) -> subprocess.Popen[bytes]:
        """Start the crawl of all pages of a source, due or not.

        The command of what is due knows every source by its name, also one that no file declares.

        Raises:
            OSError: as of ``start``.
        """
        words = [*self.due, f"--source={name}", "-s", "RECRAWL_POLICY=always"]
        return self.start(words, self.due_log_of(name))

    def start(
        self, words: Sequence[str], log: Path, quiet: Sequence[str] = QUIET
    ) -> subprocess.Popen[bytes]:
        """Start a command; what it prints goes to a log.

        ``quiet``: the words by which it prints no line of progress.

        Raises:
            OSError: it cannot be started, or the log cannot be written.
        """
        private_folder(self.logs)
        private_file(log)
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  # words of ours, and checked names
                [*words, *quiet],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class LocalCrawls:
    """Processes that are children of this server, or were those of one that died."""

    def __init__(self, database: Database, program: CrawlProgram) -> None:
        self._database = database
        self._program = program
        self.children: dict[
            str, subprocess.Popen[bytes]
        ] = {}  #: that this server started, by the ids of their work

    def look(self, begun: Sequence[Work], now: int) -> None:
        """Forget the children whose work is over, or was taken over."""
        for id_ in self.children.keys() - {one.id for one in begun}:
            if self.children[id_].poll() is not None:
                del self.children[id_]

    def can_start(self, now: int) -> bool:
        """Whether a process can be started: always."""
        return True

    def still_has(self, id_: str) -> bool:
        """Whether the process of some work has not ended."""
        return id_ in self.children

    def start(self, begun: Work) -> Process:
        """Start a process.

        Raises:
            StartError: it cannot be started, or its log cannot be written.
        """
        try:
            words = begun.words(self._program)
            child = self._program.start(words, self._program.logs / begun.log, begun.quiet)
        except OSError as error:
            raise StartError(f"cannot start its process ({error.strerror})") from error
        self.children[begun.id] = child
        return Process.of(child.pid)

    def sight(self, begun: Work, now: int) -> Sight | Exited:
        """Return the state of the process of some work."""
        child = self.children.get(begun.id)
        if child is None:
            lives = is_at_work(self._database, begun.source, begun.started.process)
            return Sight.RUNNING if lives else Sight.GONE
        status = child.poll()
        if status is None:
            return Sight.RUNNING
        del self.children[begun.id]
        return Exited(status, child.pid)

    def place_of_log(self, begun: Work) -> str:
        """Return the name of its log."""
        return begun.log

    def reason_of_death(self, begun: Work) -> str:
        """Return the reason of work whose process died."""
        return "its process died"


MOST_STARTS: Final = 2  #: processes of some work: what died with its server is begun again once
BEAT: Final = 10  #: seconds between two signs of life of this server
#: Seconds without a sign after which a server of another machine counts as dead.
SILENCE: Final = 60
_TO_BEGIN: Final = 10  #: seconds in which a started process records itself
_FAILED: Final = 1


class StartError(SmartcrawlError):
    """A process cannot be started, and trying again would not help."""


class Sight(Enum):
    """The state of some work, as its place sees it."""

    RUNNING = "running"  #: it waits there, runs, or cannot be seen now
    GONE = "gone"  #: no process is at work; the registry knows how far it came
    NOT_STARTED = "not started"  #: the request to start it did not arrive


@dataclass(frozen=True, slots=True)
class Exited:
    """The end of a process."""

    status: int  #: exit status; negative: the signal that ended it
    pid: int | None


class Waiting(NamedTuple):
    """Work that may begin."""

    id: str
    #: A source that nothing may crawl, and whose former process has to be gone; None: any.
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """Some work that a server has begun."""

    id: str  #: the id under which its kind finds it
    name: str  #: of its source, or of the domain of its libraries
    started: Started

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the job {self.id} of {self.name}"

    @property
    def source(self) -> str | None:
        """The source whose lease its process has; None: it has none of its own."""
        return self.name

    @property
    def log(self) -> str:
        """The name of the file that gets what its process prints."""
        return f"{self.id}.log"

    @property
    def quiet(self) -> Sequence[str]:
        """The words by which its command prints no line of progress."""
        return QUIET

    @property
    def waits(self) -> bool:
        """Whether no process of it has got so far that it must go on with this server."""
        return False

    @property
    def is_spent(self) -> bool:
        """Whether it has had as many processes as it may have."""
        return self.started.starts - self.started.starts_before >= MOST_STARTS

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the words of its command line."""
        raise NotImplementedError


W = TypeVar("W", bound=Work)
W_contra = TypeVar("W_contra", bound=Work, contravariant=True)


class Kind(Generic[W]):
    """A kind of work, over one connection: what waits, and what the ends of processes mean."""

    kind: ProcessKind
    WAITING: str  #: returns columns of ``Waiting`` for what may begin at ``:now``, in its order
    LOCK: str  #: locks what waits or has begun, by its id
    BEGUN: str  #: returns what has begun and is not over, in its order; with ``:id``, that

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self.rows = ProcessRows(connection, self.kind)
        self.control = DatabaseControl(database, connection)

    def of(self, row: Sequence[Any]) -> W:
        """Return the work of a row of BEGUN."""
        raise NotImplementedError

    def waiting(self, now: int) -> list[Waiting]:
        """Return what may begin, in its order."""
        rows: list[Any] = self._connection.execute(self.WAITING, {"now": now}).fetchall()
        return [Waiting(*row) for row in rows]

    def claim(self, id_: str, now: int) -> bool:
        """Claim what waits or has begun for a process; return whether it still may have one."""
        self._connection.execute(self.LOCK, (id_,))
        return self._connection.changes() > 0 and self.rows.claim(id_, now)

    def begun(self, id_: str | None = None) -> list[W]:
        """Return what has begun and is not over, in its order."""
        with self._database.translated("read"):
            rows: list[Any] = self._connection.execute(self.BEGUN, {"id": id_}).fetchall()
        return [self.of(row) for row in rows]

    def get(self, id_: str) -> W | None:
        """Return one of them; None if it is over."""
        return next(iter(self.begun(id_)), None)

    def is_over(self, work: W, now: int) -> bool:
        """Record what the registry shows of a process at work; return whether work is over."""
        return False

    def exited(self, work: W, exited: Exited, log: str, now: int) -> str | None:
        """Record the exit of a process; return why another one is to be started, if it is."""
        raise NotImplementedError

    def died(self, work: W, why: str, now: int) -> bool:
        """Record the end of work whose process is gone; return whether it is to begin again."""
        raise NotImplementedError

    def end(self, work: W, status: int | None, now: int, *reasons: str) -> None:
        """Record the end; ``status``: of its process, None if it vanished."""
        raise NotImplementedError


class Crawls(Protocol[W_contra]):
    """A place where processes are, for one thread. It outlives connections to the registry."""

    def look(self, begun: Sequence[W_contra], now: int) -> None:
        """Look at the work that this server watches, before it is asked for one by one."""

    def can_start(self, now: int) -> bool:
        """Whether the place takes a process now; else the work waits."""

    def still_has(self, id_: str) -> bool:
        """Whether a former process of what waits may not have ended yet."""

    def start(self, begun: W_contra) -> Process | None:
        """Start a process and return it; None: the place has not started it yet.

        Raises:
            StartError: it cannot be started.
        """

    def sight(self, begun: W_contra, now: int) -> Sight | Exited:
        """Return the state of some work."""

    def place_of_log(self, begun: W_contra) -> str:
        """Return where its log is, for messages."""

    def reason_of_death(self, begun: W_contra) -> str:
        """Return the reason of work whose process is gone."""


def is_at_work(database: Database, source: str | None, process: Process | None) -> bool:
    """Whether a process, which need be no child of this server, is alive.

    ``process``: None if it is not known; then the lease of the source decides, as for one of
    another machine.
    """
    if process is not None and process.is_here:
        return process.is_alive()
    return source is not None and database.is_held(source)


class Runner(Generic[W]):
    """Starts what waits of one kind and watches its processes, for one thread."""

    def __init__(self, database: Database, kind: Kind[W], crawls: Crawls[W], most: int) -> None:
        """``most``: processes of all servers and kinds at once (MAX_RUNNING_JOBS)."""
        self._database = database
        self._control = kind.control
        self._rows = kind.rows
        self._server = Process.this()
        self._kind = kind
        self._crawls = crawls
        self._most = most
        self._beat_at = 0

    def tick(self, now: int) -> None:
        """Do all that is to be done; ``now``: Unix seconds."""
        self.watch(now)
        self.start_waiting(now)

    def watch(self, now: int) -> None:
        """Record beginnings and ends, and take over the work of dead servers."""
        begun = self._kind.begun()
        own = [work for work in begun if work.started.server == self._server]
        if own and not 0 <= now - self._beat_at < BEAT:
            ids = [work.id for work in own]
            self._control.write(lambda: self._rows.watched(ids, now))
            self._beat_at = now
        self._crawls.look(own, now)
        for work in begun:
            if work in own:
                self._look_at(work, now)
            elif self._is_dead(work.started, now) and self._take_over(work, now):
                logger.info("found %s again: its server died", work.label)

    def start_waiting(self, now: int) -> None:
        """Start what waits, in its order, as long as there is a place."""
        while (id_ := self._claimed(now)) is not None:
            work = self._kind.get(id_)
            if work is not None:
                self._start(work, now)

    def _claimed(self, now: int) -> str | None:
        """Claim what is first in line, unless all places are taken; return its id."""
        with self._database.translated("read"):
            waiting = self._kind.waiting(now) if self._rows.places() < self._most else []
        if not waiting or not self._crawls.can_start(now):
            return None
        free = {one.id for one in waiting if one.source is None or self._is_free(one)}

        def work() -> str | None:
            self._rows.lock()
            if self._rows.places() >= self._most:
                return None
            ids = (one.id for one in self._kind.waiting(now) if one.id in free)
            id_ = next(ids, None)
            return id_ if id_ is not None and self._kind.claim(id_, now) else None

        return self._control.write(work) if free else None

    def _is_free(self, one: Waiting) -> bool:
        """Whether nothing crawls a source, and the former process is gone."""
        held = one.source is not None and self._database.is_held(one.source)
        return not held and not self._crawls.still_has(one.id)

    def _is_dead(self, started: Started, now: int) -> bool:
        """Whether the server that watches a process died."""
        assert started.server is not None, "it has begun"
        since = now - started.watched_at
        if started.server.is_here:
            begins = started.process is None and 0 <= since < _TO_BEGIN
            return not begins and not started.server.is_alive()
        return since > SILENCE

    def _take_over(self, work: W, now: int) -> bool:
        server = work.started.server
        assert server is not None, "it has begun"
        return self._control.write(lambda: self._rows.take_over(work.id, server, now))

    def _look_at(self, work: W, now: int) -> None:
        if self._kind.is_over(work, now):
            return
        sight = self._crawls.sight(work, now)
        if isinstance(sight, Exited):
            after = self._kind.get(work.id)  # what it recorded before its end
            log = self._crawls.place_of_log(work)
            why = None if after is None else self._kind.exited(after, sight, log, now)
            if why is not None:
                self._begin_again(work, why, now)
        elif sight is Sight.GONE:
            why = self._crawls.reason_of_death(work)
            if self._kind.died(work, why, now):
                self._begin_again(work, why, now)
        elif sight is Sight.NOT_STARTED:
            self._control.write(lambda: self._rows.withdraw(work.id, waits=work.waits))

    def _begin_again(self, work: W, why: str, now: int) -> None:
        claims = self._crawls.can_start(now)
        if claims and self._control.write(lambda: self._kind.claim(work.id, now)):
            logger.warning("%s begins again: %s", work.label, why)
            self._start(self._kind.get(work.id) or work, now)

    def _start(self, work: W, now: int) -> None:
        try:
            process = self._crawls.start(work)
        except StartError as error:
            self._kind.end(work, _FAILED, now, str(error))
            return
        if process is not None:
            self._started(work, process)
            logger.info("began %s: process %d", work.label, process.pid)

    def _started(self, work: W, process: Process) -> None:
        self._control.write(lambda: self._rows.started(work.id, process))
