"""The claims of one worker, and their pages until they are asked."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from smartcrawl.model.pages import Page
from smartcrawl.registry.runs.membership import Membership
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.run.frontier.memory import FrontierDepths
from smartcrawl.run.frontier.redis.exchanges import FrontierClaim
from smartcrawl.run.shared.courier import Courier

logger = logging.getLogger(__name__)


class Claims:
    """Turns claims into pages, and sends the end of each claim to Redis.

    All methods belong to the event loop's thread, except ``reserve``.
    """

    def __init__(
        self, depths: FrontierDepths, courier: Courier, membership: Membership, reader: SharedReader
    ) -> None:
        self._depths = depths
        self._courier = courier
        self._membership = membership
        self._reader = reader
        self._load: Callable[[Sequence[int]], list[Page]] = lambda numbers: []
        self._claimed: Callable[[FrontierClaim], None] = lambda claim: None
        self._ready: deque[Page] = deque()
        self._claims: dict[int, FrontierClaim] = {}  #: by number
        self._asked: set[int] = set()  #: claimed numbers whose requests are not over

    def attach(
        self, load: Callable[[Sequence[int]], list[Page]], claimed: Callable[[FrontierClaim], None]
    ) -> None:
        """Set the functions that load pages, and that are notified of each claim before that."""
        self._load, self._claimed = load, claimed

    @property
    def ready(self) -> int:
        """The number of pages that can be asked."""
        return len(self._ready)

    @property
    def asked(self) -> int:
        """The number of claims whose requests are not over."""
        return len(self._asked)

    @property
    def starve(self) -> bool:
        """Whether this worker has no page to ask, and none whose request is not over."""
        return not self._ready and not self._asked

    def reserve(self, claims: Iterable[FrontierClaim]) -> None:
        """Count new claims as asked; called in the courier's thread, before ``take``."""
        for claim in claims:
            self._asked.add(claim.no)

    def take(self, claims: Sequence[FrontierClaim]) -> None:
        """Load the pages of new claims; claims without a page to visit are done.

        If that fails, as where the registry is away, all of them are given back.
        """
        try:
            self._take(claims)
        except BaseException:
            numbers = {claim.no for claim in claims}
            self._ready = deque(page for page in self._ready if page.no not in numbers)
            for number in numbers:
                self._claims.pop(number, None)
            self.refuse(claims)
            raise

    def _take(self, claims: Sequence[FrontierClaim]) -> None:
        known = self._registered(claims)
        depths = self._depths
        for claim in claims:
            self._claims[claim.no] = claim
        for claim in known:
            depths.grow(claim.no)
            if claim.depth < depths.depth(claim.no):
                depths.mark(claim.no, claim.depth)
            self._claimed(claim)
        pages = self._load([claim.no for claim in known])
        fresh = [page for page in pages if page.state.visited_run < self._membership.run]
        self._ready.extend(fresh)
        over = {claim.no for claim in claims}.difference(page.no for page in fresh)
        self._courier.send(done=[self._claims.pop(no) for no in over])
        self._asked.difference_update(over)

    def refuse(self, claims: Iterable[FrontierClaim]) -> None:
        """Release new claims: this worker asks no more pages."""
        self._asked.difference_update(claim.no for claim in claims)
        self._courier.send(released=claims)

    def _registered(self, claims: Sequence[FrontierClaim]) -> Sequence[FrontierClaim]:
        """Return the claims whose numbers the registry reserved; only these get room in memory."""
        if all(claim.no < len(self._depths.reached) for claim in claims):
            return claims
        last = self._reader.last_number()
        known = [claim for claim in claims if claim.no <= last]
        if len(known) < len(claims):
            logger.warning(
                "numbers in Redis that the registry does not have are not asked: %d; look which"
                " other program writes to this Redis",
                len(claims) - len(known),
            )
        return known

    def next(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        for page in self._ready:
            if free(page.host):
                self._ready.remove(page)
                return page
        return None

    def is_first(self, page: Page) -> bool | None:
        """Whether the claim of a page is the first of its host; None: the page has no claim."""
        claim = self._claims.get(page.no)
        return None if claim is None else claim.first

    def give_back(self, page: Page) -> None:
        """Release a page that was not asked, so that any worker may claim it."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.send(released=[claim])

    def landed(self, page: Page) -> None:
        """Report the requests of a page as over: its host may get another request."""
        claim = self._claims.get(page.no)
        if claim is not None and page.no in self._asked:
            self._asked.discard(page.no)
            self._courier.send(landed=[claim])

    def unanswered(self, page: Page) -> None:
        """End the claim of a page that was asked and gets no visit: the page stays pending."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.send(done=[claim])

    def visited(self, numbers: Sequence[int]) -> list[FrontierClaim]:
        """Remove the claims of visited numbers, and return them."""
        claims = [self._claims.pop(no) for no in numbers if no in self._claims]
        self._asked.difference_update(numbers)
        return claims

    def drop(self, claims: Iterable[FrontierClaim]) -> None:
        """Remove claims that other workers may have by now."""
        for claim in claims:
            if self._claims.get(claim.no) == claim:
                del self._claims[claim.no]
                self._asked.discard(claim.no)
                self._ready = deque(page for page in self._ready if page.no != claim.no)

    def release(self) -> None:
        """Give all claims back."""
        self._courier.send(released=self._claims.values())
        self._ready.clear()
        self._claims.clear()
        self._asked.clear()
