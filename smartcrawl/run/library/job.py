"""The job of the HTTP API that a process of ``smartcrawl library`` carries out (ADR 87).

A thread looks for orders. Between two items nothing is held, so that a step ends at the next one;
a crawl that is under way gets the order as any other run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.jobs import (
    CANCELLED,
    ENDED,
    PAUSED,
    LibraryJobEnd,
    begin_library_job_row,
    end_library_job_row,
    library_job_order_row,
    store_library_job_progress,
)
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder

logger = logging.getLogger(__name__)

LOOK: Final = 0.25  #: seconds between two looks for an order


_STATES: Final = {RunOrder.PAUSE: PAUSED, RunOrder.CANCEL: CANCELLED}


class LibraryJob:
    """One job, for the process that carries it out."""

    def __init__(self, database: Database, id_: str) -> None:
        self.id = id_
        self.order: RunOrder | None = None  #: that was found
        self.progress: dict[str, Any] = {}  #: what a resumed process need not repeat
        #: Returns run.no of the crawl that is under way; None: there is none.
        self.current_run: Callable[[], int | None] = lambda: None
        self._database = database
        self._connection: Connection | None = None  #: of the thread
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="library job", daemon=True)

    def begin(self) -> bool:
        """Record that this process carries out the job, and look for orders from now on.

        Return False if the job is over, or if another process carries it out.

        Raises:
            RegistryError: the registry cannot be written.
        """
        found = self._write(lambda at: begin_library_job_row(at, self.id))
        if found is None:
            return False
        self.progress = found
        self._thread.start()
        return True

    def is_ending(self) -> bool:
        """Whether an order was found, so that nothing more is to begin."""
        return self.order is not None

    def save(self, progress: Mapping[str, Any]) -> None:
        """Record what a resumed process need not repeat."""
        self.progress = dict(progress)
        self._write(lambda at: store_library_job_progress(at, self.id, self.progress))

    def end(
        self, result: Mapping[str, Any], exit_status: int, now: int, *, is_stopped: bool
    ) -> None:
        """Record the end. ``is_stopped``: something was left out because of the order."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        order = self.order if is_stopped else None
        state = ENDED if order is None else _STATES[order]
        end = LibraryJobEnd(
            state,
            exit_status,
            result=None if state == PAUSED else result,
            progress=self.progress if state == PAUSED else None,
            run=self.current_run() if state == PAUSED else None,
            reasons=["cancelled"] if state == CANCELLED else [],
        )
        self._write(lambda at: end_library_job_row(at, self.id, end, now))

    def _write(self, work: Callable[[Connection], Any]) -> Any:
        connection = self._database.open()
        try:
            return DatabaseControl(self._database, connection).write(lambda: work(connection))
        finally:
            connection.close()

    # In the thread

    def _work(self) -> None:
        ordered: int | None = None
        while not self._ended.wait(LOOK):
            try:
                if self._connection is None:
                    self._connection = self._database.open()
                if self.order is None:
                    with self._database.translated("read"):
                        self.order = library_job_order_row(self._connection, self.id)
                run = self.current_run()
                if self.order is not None and run is not None and run != ordered:
                    self._pass_on(self._connection, run, self.order)
                    ordered = run
            except RegistryError as error:
                logger.info("orders to this job wait until the registry answers: %s", error)
                self._close()
        self._close()

    def _pass_on(self, connection: Connection, run: int, order: RunOrder) -> None:
        """Give the order to the run of the crawl that is under way."""
        now = int(time.time())
        control = DatabaseControl(self._database, connection)
        control.write(lambda: order_run_row(connection, run, order, now))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
