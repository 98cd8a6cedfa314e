"""Crawls that a client starts: of known sources only, each in a process of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.model.processes import exit_status_signal
from smartcrawl.model.unseen import visible_text
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.items import refreshable_source_rows
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.server.jobs.program import CrawlProgram
from smartcrawl.server.mcp.answers import McpStartedRun
from smartcrawl.server.mcp.texts import McpRefusalError
from smartcrawl.server.stores import Stores

_WAIT: Final = 20.0  #: seconds in which a crawl opens its run; PostgreSQL may be far away
_STEP: Final = 0.1  #: seconds between two looks
_LAST_RUN: Final = """
SELECT coalesce(max(r.no), 0) FROM run r JOIN source o ON o.no = r.source WHERE o.name = ?
"""


class McpRefresher:
    """Starts crawls, one after another; any thread may ask."""

    def __init__(
        self,
        stores: Stores,
        options: Options,
        program: CrawlProgram,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stores = stores
        self._options = options
        self._program = program
        self._sleep = sleep
        self._turn = Lock()
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, source: str) -> McpStartedRun:
        """Start a crawl of all pages of a source, and return its run; the crawl goes on.

        Raises:
            McpRefusalError: the source is not known or is being crawled, or the crawl ended at
                once.
        """
        with self._turn:
            self._children = [child for child in self._children if child.poll() is None]
            known, before = self._stores.read(lambda connection: self._state(connection, source))
            if source not in known:
                names = ", ".join(sorted(known)) or "none"
                raise McpRefusalError(
                    f"no source that can be crawled is called '{visible_text(source)[:300]}';"
                    f" known: {names}"
                )
            if self._stores.database.is_held(source):
                raise McpRefusalError(f"{source} is being crawled already: run {before}")
            try:
                child = self._program.start_refresh(source)
            except OSError as error:
                raise McpRefusalError(f"cannot start the crawl ({error.strerror})") from error
            self._children.append(child)
            run = self._opened(child, source, before)
        log = self._program.due_log_of(source).name
        return McpStartedRun(source=source, run=run, pid=child.pid, log=log)

    def _state(self, connection: Connection, source: str) -> tuple[set[str], int]:
        """Return the names of the sources that can be crawled, and the last run of one."""
        declared = load_stored_jobs_and_sources(self._options, connection)
        return {*declared, *refreshable_source_rows(connection)}, _last_run(connection, source)

    def _opened(self, child: subprocess.Popen[bytes], source: str, before: int) -> int | None:
        """Return the run that a process opens; None if that takes too long."""
        for _ in range(int(_WAIT / _STEP)):
            status = child.poll()
            last = self._stores.read(lambda connection: _last_run(connection, source))
            if last > before:
                return last
            if status is not None:
                ended = f"exit status {status}" if status >= 0 else exit_status_signal(status)
                log = self._program.due_log_of(source).name
                raise McpRefusalError(f"the crawl ended before it began ({ended}): see {log}")
            self._sleep(_STEP)
        return None


def _last_run(connection: Connection, source: str) -> int:
    row: Any = connection.execute(_LAST_RUN, (source,)).fetchone()
    return int(row[0])
