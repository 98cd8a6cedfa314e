"""The budget of new addresses: a run does not follow addresses that look endless."""

from __future__ import annotations

from datetime import UTC, datetime

from smartcrawl.model.options import Options
from smartcrawl.registry.host_facts import HostReader
from smartcrawl.rules.traps import Trap, TrapBudget
from smartcrawl.run.shortcomings import Shortcomings


class UrlBudget:
    """Checks new addresses against the budget of one run, and counts the refused ones."""

    def __init__(
        self, reader: HostReader, options: Options, shortcomings: Shortcomings, started_at: int
    ) -> None:
        """``started_at``: start of the run, in Unix seconds."""
        self.hit = False  #: whether a limit on numbers refused an address; the caller resets it
        self._reader = reader
        self._options = options
        self._shortcomings = shortcomings
        self._started_at = started_at
        self._budget: TrapBudget | None = None  #: None: no new address was found so far

    def refuse(self, url: str, host: str) -> bool:
        """Whether a new address is not followed, because it looks endless."""
        budget = self._budget
        if budget is None:
            budget = self._budget = self._new_budget()
        trap = budget.refuse(url, host)
        if trap is not None:
            self._shortcomings.refuse(trap, url)
            self.hit = self.hit or trap in (Trap.HOST_BUDGET, Trap.TOO_MANY_HOSTS)
        return trap is not None

    def _new_budget(self) -> TrapBudget:
        """Return a budget that counts the addresses in the registry, too."""
        budget = TrapBudget(
            year=datetime.fromtimestamp(self._started_at, UTC).year,
            per_host=self._options.host_url_budget,
            hosts=self._options.max_hosts,
        )
        for known, count in self._reader.host_counts():
            budget.known(known, count)
        budget.seen(self._reader.session_urls())
        return budget
