"""The pages that one of several workers asks for, as far as it claimed them."""

from __future__ import annotations

from collections.abc import Callable

from smartcrawl.model.pages import Page
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import Frontier
from smartcrawl.run.hosts.gate import host_gate_slot
from smartcrawl.run.shared.frontier import SharedFrontier


class SharedTurns:
    """The pages that this worker claimed in Redis."""

    def __init__(self, shared: SharedFrontier, download_delay: float) -> None:
        """``download_delay``: seconds between two requests to a host."""
        self._shared = shared
        self._download_delay = download_delay
        self._batches: Batches | None = None
        self._verify: Frontier | None = None

    def write_to(self, batches: Batches) -> None:
        """Watch the batches that this worker writes."""
        self._batches = batches

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        return self._shared.claims.next(free) if self._verify is None else self._verify.next(free)

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` returned None only to let the event loop run."""
        return self._verify is not None and self._verify.resting

    @property
    def pending(self) -> bool:
        """Whether there may be pages left for this worker to ask for."""
        if self._shared.over:
            return False
        if self._verify is not None and len(self._verify):
            return True
        return self._shared.pending

    @property
    def hurries(self) -> bool:
        """Whether to write a batch at once, because this worker has nothing else to do."""
        is_writing = self._batches is not None and self._batches.is_writing
        return self._shared.claims.starve and not is_writing

    @property
    def spent(self) -> bool:
        """Whether the workers together asked for as many pages as the run may."""
        return self._shared.spent

    def verify(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier``, which are to be verified before removal."""
        self._verify = frontier

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""
        self._shared.claims.landed(page)

    def unanswered(self, page: Page) -> None:
        """Note that a page was asked for and will have no visit: it stays pending."""
        self._shared.claims.unanswered(page)

    def is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn, because robots.txt took this one.

        A claim is for one request. The first claim of a host was made before the workers knew its
        Crawl-delay, too.
        """
        first = self._shared.claims.is_first(page)
        if first is None or not (first or asked):
            return False
        host, delay = host_gate_slot(page.host), crawl_delay or 0.0
        self._shared.update_hosts(lambda hosts: hosts.robots_read(host, delay, asked=asked))
        return bool(delay or self._download_delay)

    def give_back(self, page: Page) -> None:
        """Let a page have its host's next turn, after all workers know the Crawl-delay."""
        self._shared.claims.give_back(page)
