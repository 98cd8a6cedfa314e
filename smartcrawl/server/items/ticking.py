"""The part of the orders in the scheduler of a server (ADR 61)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.items.due_launcher import DueLauncher
from smartcrawl.server.items.rebuilding import Rebuilding
from smartcrawl.server.jobs.local import CrawlProgram


class OrderWork:
    """Carries out orders: marks all pages, and has what is due crawled."""

    def __init__(self, database: Database, program: CrawlProgram, most: int) -> None:
        """``most``: crawls at once (MAX_RUNNING_JOBS)."""
        self._database = database
        self._program = program
        self._most = most
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def __call__(self, connection: Connection) -> Callable[[int], None]:
        """Return the work of a tick over a connection; ``now``: Unix seconds."""
        rebuilding = Rebuilding(self._database, connection)
        launcher = DueLauncher(
            self._database, connection, self._program, self._most, self._children
        )

        def tick(now: int) -> None:
            rebuilding.steps(now)
            launcher.watch(now)
            launcher.start_waiting(now)

        return tick
