"""Crawls as processes of this machine (ADR 53).

Each is the command of a crawl by the name of its source, in a session of its own, so that a crawl
outlives its server. The next server finds it again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smartcrawl.model.processes import Process
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.crawls import Exited, Sight, StartError, api_job_is_crawling
from smartcrawl.server.jobs.logs import job_log
from smartcrawl.server.jobs.processes import BegunRun
from smartcrawl.sources.private_files import private_file, private_folder


@dataclass(frozen=True, slots=True)
class CrawlProgram:
    """The command that crawls one source."""

    words: Sequence[str]  #: of the command; the arguments of the spider follow
    environment: Mapping[str, str]  #: settings of the crawl, also secret ones
    logs: Path  #: folder of its logs
    due: Sequence[str] = ()  #: words of the command that crawls what is due of a source
    library: Sequence[str] = ()  #: words of the command of a library's steps
    #: Returns the spider of a source, which follows the words; None: the command knows it.
    spider_of: Callable[[str], str] | None = None

    def start(self, name: str, id_: str, *, resume: bool) -> subprocess.Popen[bytes]:
        """Start it for a source and the run of a job; what it prints goes to a log.

        Its arguments are names: seeds stay in the registry, secrets in the environment.

        Raises:
            OSError: it cannot be started, or the log cannot be written.
        """
        arguments = [f"source={name}", f"_job={id_}", *(["resume=1"] if resume else [])]
        given = [word for argument in arguments for word in ("-a", argument)]
        spider = [] if self.spider_of is None else [self.spider_of(name)]
        return self._started([*self.words, *spider, *given], job_log(self.logs, id_))

    def due_log_of(self, name: str) -> Path:
        """Return the log of the ordered runs of a source."""
        return self.logs / f"due-{name}.log"

    def start_due(self, name: str) -> subprocess.Popen[bytes]:
        """Start the crawl of what is due of a source.

        Raises:
            OSError: as of ``start``.
        """
        return self._started([*self.due, f"--source={name}"], self.due_log_of(name))

    def start_refresh(self, name: str) -> subprocess.Popen[bytes]:
        """Start the crawl of all pages of a source, due or not.

        The command of what is due knows every source by its name, also one that no file declares.

        Raises:
            OSError: as of ``start``.
        """
        every = ["-s", "RECRAWL_POLICY=always"]
        return self._started([*self.due, f"--source={name}", *every], self.due_log_of(name))

    def start_library(
        self, action: str, domain: str, id_: str, words: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """Start a job of a library; ``words``: the options of its steps.

        Raises:
            OSError: as of ``start``.
        """
        steps = [*self.library, action, domain, *words, "-a", f"_job={id_}"]
        return self._started(steps, job_log(self.logs, id_))

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


class LocalCrawls:
    """Crawls that are children of this server, or were those of one that died."""

    def __init__(
        self,
        database: Database,
        program: CrawlProgram,
        children: dict[str, subprocess.Popen[bytes]],
    ) -> None:
        """``children``: the processes that this server started, by the ids of their runs."""
        self._database = database
        self._program = program
        self._children = children

    def look(self, begun: Sequence[BegunRun], now: int) -> None:
        """Forget the children whose runs are over, or were taken over."""
        for id_ in self._children.keys() - {one.id for one in begun}:
            if self._children[id_].poll() is not None:
                del self._children[id_]

    def can_start(self, now: int) -> bool:
        """Whether a process can be started: always."""
        return True

    def still_has(self, id_: str) -> bool:
        """Whether the process of a run has not ended."""
        return id_ in self._children

    def start(self, begun: BegunRun, *, resume: bool) -> Process:
        """Start a process.

        Raises:
            StartError: it cannot be started, or its log cannot be written.
        """
        try:
            child = self._program.start(begun.name, begun.id, resume=resume)
        except OSError as error:
            raise StartError(f"cannot start its process ({error.strerror})") from error
        self._children[begun.id] = child
        return Process.of(child.pid)

    def sight(self, begun: BegunRun, now: int) -> Sight | Exited:
        """Return the state of a run's process."""
        child = self._children.get(begun.id)
        if child is None:
            lives = api_job_is_crawling(self._database, begun.name, begun.process)
            return Sight.CRAWLING if lives else Sight.GONE
        status = child.poll()
        if status is None:
            return Sight.CRAWLING
        del self._children[begun.id]
        return Exited(status, child.pid)

    def place_of_log(self, begun: BegunRun) -> str:
        """Return the name of a run's log."""
        return job_log(self._program.logs, begun.id).name

    def reason_of_death(self, begun: BegunRun) -> str:
        """Return the reason of a run whose process died."""
        return "its process died"
