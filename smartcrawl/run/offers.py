"""From URLs to numbers: new addresses are registered, and numbers offered to the frontier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from smartcrawl.model.batches import Address
from smartcrawl.model.options import Options
from smartcrawl.model.pages import ListedRecord, Page
from smartcrawl.model.urls import Trackers, normalize_url, unsigned_url, url_digest, url_host_key
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.runs.run_results import UNREAD
from smartcrawl.rules.model import PRIORITY
from smartcrawl.rules.traps import TrapBudget
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier import Frontier, FrontierDepths
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.scope import Scope

NO_SPELLINGS: Final[Mapping[int, Sequence[str]]] = MappingProxyType({})
_CACHE = 40_000  #: addresses in each of two generations
_OUTSIDE = 0  #: number of addresses out of scope
_REFUSED = -1  #: number of addresses in scope that a limit refused


class Found(NamedTuple):
    """An address that is not in the registry yet."""

    no: int
    id: bytes
    url: str
    identity: str | None  #: the normalized source when it differs from ``url``
    host: str


Register = Callable[[Found], None]
#: URL and host of a new address, and the numbers of the known ones on its page
Refuse = Callable[[str, str, Collection[int]], bool]
Spelled = Callable[[int, str], None]  #: number and another spelling of a known address
LeftOut = Callable[[str, str], None]  #: kind of a document that is not read, and its URL


class AddressBook:
    """Finds the numbers of addresses: in a cache, in open batches, in the registry.

    A new address is in the registry only when its batch is committed; until then it is served
    from memory.
    """

    def __init__(
        self,
        reader: PageReader,
        new_number: Callable[[], int],
        trackers: Trackers,
        looked_up: Callable[[int], None] = lambda number: None,
    ) -> None:
        """``looked_up`` is called with the highest number of addresses that others registered."""
        self._looked_up = looked_up
        self._reader = reader
        self._new_number = new_number
        self._trackers = trackers
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._ids: dict[bytes, int] = {}
        self._uncommitted: dict[int, Address] = {}
        self._renamed: dict[int, int] = {}  #: new numbers by the old ones
        self.refused = False  #: whether the last call of ``numbers`` left out a refused address
        self._spelled: Spelled = lambda number, url: None
        self._left_out: LeftOut = lambda kind, url: None
        self._met: dict[int, list[str]] = {}  #: other spellings that are not committed yet
        self.asked: dict[int, str] = {}  #: number -> spelling that is asked first in this run

    def when_spelled(self, spelled: Spelled) -> None:
        """Call ``spelled`` for each link to a known address that is not its request address."""
        self._spelled = spelled

    def when_left_out(self, left_out: LeftOut) -> None:
        """Call ``left_out`` for each link to a document that only its kind leaves out."""
        self._left_out = left_out

    def numbers(
        self,
        urls: Iterable[str],
        scope: Scope,
        register: Register,
        refuse: Refuse | None = None,
        *,
        cached: bool = True,
        linked: bool = True,
    ) -> list[int]:
        """Return the distinct numbers of those ``urls`` that are in scope, in their order.

        ``register`` is called for each new address, unless ``refuse`` refuses it. ``cached``:
        whether ``scope`` is the one of the cache; sitemaps have another scope. ``linked``: whether
        these are links, so that other spellings in them are kept.
        """
        young, old = (self._young, self._old) if cached else ({}, {})
        found: list[int] = []
        missing: list[tuple[int, str]] = []
        for url in urls:
            number = young.get(url)
            if number is None:
                number = old.get(url)
                if number is None:
                    missing.append((len(found), url))
                    number = _OUTSIDE
                else:
                    young[url] = number
            found.append(number)
        if missing:
            inside = [entry for entry in missing if scope.allows(entry[1])]
            self._look_up(inside, found, register, refuse, meets=linked)
            for place, url in missing:
                young[url] = found[place]
                if found[place] == _OUTSIDE and (kind := scope.unread_kind(url)):
                    self._left_out(kind, url)
        if cached and len(young) > _CACHE:
            self._old, self._young = young, {}
        if renamed := self._renamed:
            found = [renamed.get(number, number) for number in found]
        self.refused = _REFUSED in found
        return [number for number in dict.fromkeys(found) if number > _OUTSIDE]

    def stored_listed(self, identities: Sequence[str]) -> dict[str, ListedRecord]:
        """Return those identities of files in scope that are in the registry.

        The identity of a file is its URL, or the key that its listing has for it.
        """
        ids = {name: url_digest(normalize_url(name, self._trackers)) for name in identities}
        stored = self._reader.listed(tuple(ids.values()))
        return {name: stored[key] for name, key in ids.items() if key in stored}

    def numbers_by_identity(self, urls: Mapping[str, str], register: Register) -> dict[str, int]:
        """Return the number of each identity, all of which are in scope; nothing is cached.

        ``urls``: the URL by the identity, which may be that URL.
        """
        ids = self._ids
        keys = {name: url_digest(normalize_url(name, self._trackers)) for name in urls}
        stored = self._reader.numbers([key for key in keys.values() if key not in ids])
        found: dict[str, int] = {}
        for name, url in urls.items():
            key = keys[name]
            number = ids.get(key) or stored.get(key)
            if number is None:
                number = ids[key] = self._new_number()
                normal = normalize_url(name, self._trackers)
                other = None if normal == url else normal
                register(Found(number, key, url, other, url_host_key(url)))
            found[name] = number
        return found

    def _look_up(
        self,
        missing: list[tuple[int, str]],
        found: list[int],
        register: Register,
        refuse: Refuse | None,
        *,
        meets: bool,
    ) -> None:
        """Put the numbers of ``missing``, places and URLs in scope, into ``found``."""
        inside: list[tuple[int, str, str, bytes]] = []
        for place, linked in missing:
            url = unsigned_url(linked)  # links may name the session id that a pattern excluded
            identity = normalize_url(url, self._trackers)
            inside.append((place, url, identity, url_digest(identity)))
        ids = self._ids
        unknown = {key for _, _, _, key in inside if key not in ids}
        stored = self._reader.addresses(tuple(unknown))
        known = [number for number, _ in stored.values()]
        if known:
            self._looked_up(max(known))
        for place, url, identity, key in inside:
            number = ids.get(key)
            if number is not None:
                request = self._uncommitted[number].url
            elif key in stored:
                number, request = stored[key]
            else:
                request = url
                host = url_host_key(url)
                if refuse is not None and refuse(url, host, known):
                    found[place] = _REFUSED
                    continue
                number = ids[key] = self._new_number()
                other = None if identity == url else identity
                register(Found(number, key, url, other, host))
            found[place] = number
            if meets and url != request:
                self._meet(number, url)

    def remember(self, address: Address) -> None:
        """Serve a new address from memory until it is committed."""
        self._uncommitted[address.no] = address

    def is_new(self, number: int) -> bool:
        """Whether a number's address is not in the registry yet."""
        return number in self._uncommitted

    def committed(
        self, addresses: Iterable[Address], spellings: Mapping[int, Sequence[str]] = NO_SPELLINGS
    ) -> None:
        """Forget addresses and spellings that are in the registry now."""
        for address in addresses:
            self._uncommitted.pop(address.no, None)
            self._ids.pop(address.id, None)
        for number, urls in spellings.items():
            left = [url for url in self._met.pop(number, ()) if url not in urls]
            if left:
                self._met[number] = left

    # Spellings

    def _meet(self, number: int, url: str) -> None:
        """Note the spelling of a link that is not the request address."""
        met = self._met.setdefault(number, [])
        if url not in met:
            met.append(url)
            self._spelled(number, url)

    def spellings(self, number: int) -> list[str]:
        """Return the other spellings of an address, the newest first."""
        met = reversed(self._met.get(number, ()))
        return list(dict.fromkeys([*met, *self._reader.spellings(number)]))

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Serve the numbers of the workers that registered these addresses first."""
        self._renamed.update(renamed)
        for number in [number for number in self.asked if number in renamed]:
            self.asked.setdefault(renamed[number], self.asked.pop(number))
        self.committed([self._uncommitted[no] for no in renamed if no in self._uncommitted])

    def pages(self, numbers: Sequence[int], since: int) -> list[Page]:
        """Return the pages of ``numbers`` in their order (PageReader.pages)."""
        uncommitted = self._uncommitted
        stored = [number for number in numbers if number not in uncommitted]
        pages = self._reader.pages(stored, since) if stored else []
        if len(stored) == len(numbers):
            return pages
        by_number = {page.no: page for page in pages}
        for number in numbers:
            if number in uncommitted:
                a = uncommitted[number]
                by_number[number] = Page(no=number, url=a.url, host=a.host, depth=a.depth)
        return [by_number[number] for number in numbers if number in by_number]

    def forget(self) -> None:
        """Clear the cache, because the scope moved."""
        self._young.clear()
        self._old.clear()


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

    def leave_unread(self, kind: str, url: str) -> None:
        """Count a link to a document of a kind that is not read, such as ``.doc``."""
        self._shortcomings.count(f"{UNREAD} {kind}", url)

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
        book.when_left_out(budget.leave_unread)

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
