"""The end of a shared run, as far as one worker takes part in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from smartcrawl.model.exceptions import FrontierError
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.membership import Membership
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.run.depths import DepthUpdates
from smartcrawl.run.frontier.redis.frontier import RedisFrontier
from smartcrawl.run.shared.desk import OVER
from smartcrawl.run.shared.frontier import SharedFrontier
from smartcrawl.run.shortcomings import Shortcomings, merged_run_shortcomings

logger = logging.getLogger(__name__)


class SharedLastSteps:
    """The end of a run that only one of its workers ends."""

    def __init__(
        self,
        *,
        opened: OpenRun,
        registry: Registry,
        membership: Membership,
        redis: RedisFrontier,
        shared: SharedFrontier,
        reader: SharedReader,
    ) -> None:
        self._opened, self._run = opened, opened.no
        self._registry = registry
        self._membership = membership
        self._redis = redis
        self._shared = shared
        self._reader = reader
        self._handed_on = False  #: whether the links of all pages were handed on
        self._all: Shortcomings | None = None  #: of all workers, once they were read

    @property
    def ours(self) -> bool:
        """Whether this worker ends the run, and no other worker has sealed it."""
        return self._closes and not self._shared.sealed

    @property
    def _closes(self) -> bool:
        return self._shared.turn is not None and not self._shared.over

    def relax(self, depths: DepthUpdates, write: Callable[[], None]) -> None:
        """Hand on depths that became smaller, and the links of pages read in another scope."""
        if not self.ours:
            return
        write()
        try:
            self._relax(depths)
        except FrontierError:  # the courier logs it; with Redis, the turn comes back
            self._handed_on = False
            self._shared.doubt()
            return
        write()

    def _relax(self, depths: DepthUpdates) -> None:
        lowered = self._redis.lowered()
        unsure = self._shared.again or depths.scope_moved
        if unsure and not self._handed_on:
            self._handed_on = True
            depths.hand_on(self._reader.links())
        while lowered:
            depths.hand_on(self._reader.links(lowered))
            lowered = self._redis.lowered()

    def cut_by(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the reasons of all workers why the run did not see everything."""
        self._all = Shortcomings.loads(
            merged_run_shortcomings(self._reader.cut(), shortcomings.news())
        )
        return self._all.as_reasons()

    def notes(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the notes about addresses that any worker left out."""
        return (self._all or shortcomings).as_notes()

    def leave(self, why: str | None, now: int) -> RunResult | None:
        """Leave the run to the other workers; None if this worker ends it.

        A worker ends the run if it has the turn for that, or if no other worker is left.
        """
        self._shared.end()
        connection, run = self._registry.connection, self._run
        if self._shared.over or self._reader.state() in OVER:
            return stored_run_result(connection, run)
        if why is None and (self._closes or not self._membership.others(connection)):
            return None
        if not self._registry.leave(self._membership, now, why or "interrupted"):
            words = "run %d goes on without this worker"
            if self._reader.order() is not None:
                words = "run %d ends by order, as soon as its other workers have left it"
            logger.warning(words, run)
        return stored_run_result(connection, run)

    def abandon(self, why: str, now: int) -> RunResult | None:
        """Close the run as interrupted, under all of its workers."""
        self._shared.end()
        return self._registry.abandon(self._opened, (why,), now)

    def ended(self) -> None:
        """Remove the run from Redis; if that fails, a later run removes it."""
        with suppress(FrontierError):
            self._redis.retire()
