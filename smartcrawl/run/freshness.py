"""The pages that a due crawl visits within the budget of its source (ADR 181)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.registry.freshness import (
    SourceHistory,
    due_run_rows,
    freshness_terms,
    plan_next_visit_rows,
    source_history,
)
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.freshness import Freshness, requests_left
from smartcrawl.rules.schedule import Schedule

logger = logging.getLogger(__name__)

_WAITS: Final = 1
_CHOSEN: Final = 2


class BudgetOrder:
    """Which stored pages a due crawl visits, found by one pass over the records of its source."""

    def __init__(
        self,
        connection: Connection,
        opened: OpenRun,
        freshness: Freshness,
        schedule: Schedule,
        now: int,
    ) -> None:
        """``now``: Unix seconds at which the run began."""
        runs = due_run_rows(connection, opened.source)
        history, price = _priced_history(
            connection, opened.source, runs, freshness, schedule=schedule, now=now
        )
        chosen = history.chosen(requests_left(runs, freshness.budget, now), price, now)
        self._places = bytearray(max(history.numbers, default=-1) + 1)
        for no in history.numbers:
            self._places[no] = _CHOSEN if no in chosen else _WAITS
        logger.info(
            "within the budget of %d requests a day, this run visits %d of %d stored pages",
            freshness.budget,
            len(chosen),
            len(history.numbers),
        )

    def is_chosen(self, number: int) -> bool | None:
        """Whether the run visits a page; None: the budget does not decide about it."""
        place = self._places[number] if number < len(self._places) else 0
        return None if not place else place == _CHOSEN


def plan_source_visits(
    registry: Registry, opened: OpenRun, freshness: Freshness, schedule: Schedule, now: int
) -> None:
    """Store the next visits of the pages that a run visited, as its budget plans them."""
    connection = registry.connection
    runs = due_run_rows(connection, opened.source)
    history, price = _priced_history(
        connection, opened.source, runs, freshness, schedule=schedule, now=now
    )
    DatabaseControl(registry.database, connection).write(
        lambda: plan_next_visit_rows(connection, history, price, since=opened.started_at, now=now)
    )


def _priced_history(
    connection: Connection,
    source: int,
    runs: Sequence[tuple[int, int]],
    freshness: Freshness,
    *,
    schedule: Schedule,
    now: int,
) -> tuple[SourceHistory, float]:
    """Return the history of the pages of a source, and the price at which its budget is spent."""
    terms = freshness_terms(runs, freshness, schedule)
    history = source_history(connection, source, terms, schedule, now)
    bought = history.census().bought_by(history.budget_for_pages(freshness, schedule))
    return history, bought.price
