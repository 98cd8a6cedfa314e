"""From URLs to numbers: new addresses are registered, and numbers offered to the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smartcrawl.model.batches import Address
from smartcrawl.rules.model import PRIORITY
from smartcrawl.run.address_book import AddressBook, Found, Register
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import Frontier, FrontierDepths
from smartcrawl.run.limits import UrlBudget
from smartcrawl.sources.scope import Scope


class Offers:
    """Registers addresses in the open batch, and offers each to the frontier once a run."""

    def __init__(
        self, frontier: FrontierDepths, book: AddressBook, batches: Batches, budget: UrlBudget
    ) -> None:
        self.budget = budget
        self.registered: list[Found] = []  #: by the last call of ``numbers``
        self._frontier = frontier
        self._book = book
        self._batches = batches
        book.when_spelled(self._spelled)

    def _spelled(self, number: int, url: str) -> None:
        self._batches.batch.spellings.setdefault(number, []).append(url)

    def numbers(
        self,
        urls: Iterable[str],
        scope: Scope,
        depth: int,
        *,
        origin: int | None = None,
        given: bool = False,
    ) -> list[int]:
        """Return the distinct numbers of those ``urls`` that are in scope, in their order.

        New addresses are registered at ``depth`` as found on the page ``origin``, within the
        budget of the run unless they were ``given`` with the source: ``scope`` is that of links
        otherwise.
        """
        refuse = None if given else self.budget.refuse
        self.registered = []
        register = self._register(origin, depth)
        numbers = self._book.numbers(urls, scope, register, refuse, cached=not given)
        self.budget.hit |= self._book.refused
        return numbers

    def sitemap_numbers(
        self,
        urls: Iterable[str],
        scope: Scope,
        depth: int,
        *,
        origin: int | None,
        kind: int,
        given: bool,
    ) -> list[int]:
        """Return the distinct numbers of sitemaps, whose scope is another one than that of pages.

        See ``numbers``; ``kind`` is their level.
        """
        refuse = None if given else self.budget.refuse
        register = self._register(origin, depth, kind)
        numbers = self._book.numbers(urls, scope, register, refuse, cached=False)
        self.budget.hit |= self._book.refused
        return numbers

    def known(self, urls: Iterable[str], scope: Scope) -> list[int]:
        """Return the distinct numbers of those ``urls`` that are in scope and known."""
        return self._book.numbers(
            urls, scope, lambda found: None, lambda url, host, known: True, cached=False
        )

    def numbers_by_identity(self, urls: Mapping[str, str]) -> dict[str, int]:
        """Return the number of each identity; those of new addresses are registered.

        ``urls``: the URL by the identity. They come from a listing, which knows the scope; no
        budget limits them.
        """
        return self._book.numbers_by_identity(urls, self._register(None, 0))

    def _register(self, origin: int | None, depth: int, kind: int = 0) -> Register:
        def register(found: Found) -> None:
            address = Address(*found, depth, origin, kind)
            self.registered.append(found)
            self._frontier.grow(found.no)
            self._batches.batch.addresses.append(address)
            self._book.remember(address)

        return register

    def prioritize(self, number: int, priority: int) -> None:
        """Set the priority of a number that is not offered yet (R2-35)."""
        if priority != PRIORITY:
            self._frontier.priorities[number] = priority

    def offer_again(self, numbers: Iterable[int]) -> None:
        """Offer numbers that were handed out and have no visit once more."""
        assert isinstance(self._frontier, Frontier), "one process alone requests them again"
        for number in numbers:
            self._frontier.again(number)

    def offer(self, numbers: Sequence[int], depth: int) -> None:
        """Offer numbers at a depth, and record those that were unreached or are nearer now."""
        reached = self._batches.batch.reached
        for number in self._frontier.offer(numbers, depth):
            if not self._book.is_new(number) or number in self._frontier.lowered:
                reached[number] = depth
