"""The budget of new addresses: a run does not follow addresses that look endless."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from smartcrawl.model.options import Options
from smartcrawl.registry.hosts import HostReader
from smartcrawl.rules.traps import TrapBudget
from smartcrawl.run.shortcomings import Shortcomings


class UrlBudget:
    """Checks new addresses against the budget of one run, and counts the refused ones."""

    def __init__(
        self,
        reader: HostReader,
        options: Options,
        shortcomings: Shortcomings,
        started_at: int,
        *,
        is_linked: Callable[[int], bool],
    ) -> None:
        """``started_at``: start of the run, in Unix seconds.

        ``is_linked`` says of a number whether this run offered it.
        """
        self.hit = False  #: whether an address was refused; the caller resets it
        self._reader = reader
        self._is_linked = is_linked
        self._options = options
        self._shortcomings = shortcomings
        self._started_at = started_at
        self._budget: TrapBudget | None = None  #: None: no new address was found so far

    def refuse(self, url: str, host: str, known: Collection[int]) -> bool:
        """Whether a new address is not followed, because it looks endless.

        ``known``: numbers of the known addresses that the same page links.
        """
        budget = self._budget
        if budget is None:
            budget = self._budget = self._new_budget()
        trap = budget.refuse(url, host, known)
        if trap is not None:
            self._shortcomings.refuse(trap, url)
        return trap is not None

    def _new_budget(self) -> TrapBudget:
        """Return a budget that counts the addresses in the registry, too."""
        budget = TrapBudget(
            year=datetime.fromtimestamp(self._started_at, UTC).year,
            per_host=self._options.host_url_budget,
            hosts=self._options.max_hosts,
            is_linked=self._is_linked,
        )
        for known, count in self._reader.host_counts():
            budget.known(known, count)
        budget.seen(self._reader.session_urls())
        return budget
