"""Processes of this machine, children of a server that outlive it (ADR 53)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from smartcrawl.model.processes import Process
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.program import CrawlProgram
from smartcrawl.server.jobs.runner import Exited, Sight, StartError, Work, is_at_work


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
            child = self._program.start(words, self._program.logs / begun.log)
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
