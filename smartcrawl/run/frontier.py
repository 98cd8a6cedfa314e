"""The frontier of one process: numbers in memory, breadth first per host.

Pinned pages may have a priority (R2-35): within their host, those of a smaller one than the usual
come first, those of a larger one when no other page of the host waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count

from smartcrawl.model.pages import Page
from smartcrawl.rules.model import PRIORITY

UNREACHED = 255  #: a value in ``FrontierDepths.reached``
DEEPEST = 254  #: a value in ``FrontierDepths.reached``; deeper pages have their exact depth aside

_REFILL = 100  #: numbers looked up with one statement
_REFILL_RANKED = 8  #: the same where pages found meanwhile may be more urgent
_READY = 200  #: most built pages of one host; further pages wait as numbers
_TURN = 20  #: refills without a page after which the event loop goes on
_LOOK_AHEAD = 1_000  #: most built pages of full hosts, while it looks for a free host
_PRIORITY_STEP = 1_000_000  #: seconds of waiting that a step of priority is worth (R2-42)


class FrontierQueue:
    """Numbers, first in first out, four bytes each."""

    def __init__(self) -> None:
        self._numbers = array("I")
        self._head = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._head

    def put(self, number: int) -> None:
        """Add a number at the end."""
        self._numbers.append(number)

    def take(self, most: int) -> array[int]:
        """Take up to ``most`` numbers from the front."""
        taken = self._numbers[self._head : self._head + most]
        self._head += len(taken)
        if self._head > 4096 and self._head * 2 > len(self._numbers):
            del self._numbers[: self._head]
            self._head = 0
        return taken


class RankedFrontierQueue:
    """Numbers by rank, smallest first; equal ranks in the order of insertion."""

    def __init__(self, rank: Callable[[Sequence[int]], dict[int, int]]) -> None:
        self._rank = rank
        self._heap: list[tuple[int, int, int]] = []
        self._new: list[int] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap) + len(self._new)

    def put(self, number: int) -> None:
        """Add a number; the next ``take`` looks up its rank."""
        self._new.append(number)

    def take(self, most: int) -> array[int]:
        """Take up to ``most`` numbers of the smallest rank."""
        ranks = self._rank(self._new) if self._new else {}
        for number in self._new:
            heappush(self._heap, (ranks.get(number, 0), next(self._order), number))
        self._new.clear()
        return array("I", [heappop(self._heap)[2] for _ in range(min(most, len(self._heap)))])


class FrontierDepths(ABC):
    """The numbers that were offered in a run, and their depths.

    ``reached`` has one byte a number: its depth, or UNREACHED.
    """

    def __init__(self) -> None:
        self.reached = bytearray()
        self.lowered: set[int] = set()  #: reached again, at a smaller depth than before
        self.priorities: dict[int, int] = {}  #: of pinned pages, where it is not PRIORITY
        self._deep: dict[int, int] = {}

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of addresses that wait."""

    def grow(self, number: int) -> None:
        """Make room for numbers up to ``number``."""
        missing = number + 1 - len(self.reached)
        if missing > 0:
            self.reached.extend(
                bytes([UNREACHED]) * (missing + 1024 if missing < 1024 else missing)
            )

    def is_reached(self, number: int) -> bool:
        """Whether ``number`` was offered in this run."""
        return number < len(self.reached) and self.reached[number] != UNREACHED

    def depth(self, number: int) -> int:
        """Return the smallest depth at which ``number`` was offered in this run."""
        depth = self.reached[number]
        return self._deep.get(number, depth) if depth == DEEPEST else depth

    def mark(self, number: int, depth: int) -> None:
        """Mark a number as reached without offering it: its visit is over (resume)."""
        self.grow(number)
        self.reached[number] = min(depth, DEEPEST)
        if depth >= DEEPEST:
            self._deep[number] = depth

    def depth_of_visited(self, page: Page) -> int:
        """Return the depth of a page that this run has visited, maybe in another process."""
        self.grow(page.no)
        if self.reached[page.no] == UNREACHED or page.depth < self.depth(page.no):
            self.mark(page.no, page.depth)
        return self.depth(page.no)

    def offer(self, numbers: Sequence[int], depth: int) -> list[int]:
        """Offer numbers at a depth; return those that were unreached, or are shallower now."""
        if numbers:
            self.grow(max(numbers))  # another process may have registered some
        reached, byte = self.reached, min(depth, DEEPEST)
        news = [number for number in numbers if reached[number] > byte]
        if depth >= DEEPEST:
            deep = self._deep
            news += [n for n in numbers if reached[n] == DEEPEST and deep.get(n, DEEPEST) > depth]
        fresh: list[int] = []
        for number in news:
            if reached[number] == UNREACHED:
                fresh.append(number)
            else:
                self.lowered.add(number)
            reached[number] = byte
            if depth >= DEEPEST:
                self._deep[number] = depth
            else:
                self._deep.pop(number, None)
        if fresh:
            self._put(fresh)
        return news

    @abstractmethod
    def _put(self, fresh: Sequence[int]) -> None:
        """Add numbers that were offered for the first time to those that wait."""


class Frontier(FrontierDepths):
    """Takes every address as a number, and returns it once per run, as a Page.

    ``load`` turns numbers into pages with one statement. ``single_host``: whether there is no
    other host to look for behind a full one. With ``rank`` (numbers to last visits) the oldest
    visit comes first: a limited run begins with the pages that the last one did not reach. A step
    of priority then counts as ``_PRIORITY_STEP``.
    """

    def __init__(
        self,
        load: Callable[[Sequence[int]], list[Page]],
        *,
        single_host: bool = False,
        rank: Callable[[Sequence[int]], dict[int, int]] | None = None,
    ) -> None:
        super().__init__()
        self._load = load
        self._look_ahead = 1 if single_host else _LOOK_AHEAD
        self._rank = rank
        self._inbox = FrontierQueue() if rank is None else RankedFrontierQueue(self._ranked)
        self._refill_size = _REFILL_RANKED if rank is not None else _REFILL
        self._urgent: list[tuple[int, int, int]] = []  #: heap of (priority, order, number)
        self._later: list[tuple[int, int, int]] = []  #: the same; their hosts are not known yet
        self._last: dict[str, FrontierQueue] = {}  #: numbers of ``_later`` by host
        self._order = count()
        self._ready: dict[str, deque[Page]] = {}
        self._waiting: dict[str, FrontierQueue] = {}
        self._built = 0
        self._pending = 0
        self.resting = False  #: whether the last ``next`` stopped early: call it again soon

    def __len__(self) -> int:
        """Return the number of addresses that wait."""
        return self._pending

    def mark_all(self, reached: Iterable[tuple[int, int]]) -> None:
        """Mark many (number, depth) pairs at once (see ``mark``), after ``grow``."""
        depths = self.reached
        for number, depth in reached:
            if depth < DEEPEST:
                depths[number] = depth
            else:
                self.mark(number, depth)

    def _put(self, fresh: Sequence[int]) -> None:
        self._pending += len(fresh)
        if self.priorities and self._rank is None:
            fresh = self._set_apart(fresh)
        for number in fresh:
            self._inbox.put(number)

    def _set_apart(self, fresh: Sequence[int]) -> list[int]:
        """Put numbers with a priority into their queues; return the other ones."""
        usual = []
        for number in fresh:
            priority = self.priorities.get(number, PRIORITY)
            if priority == PRIORITY:
                usual.append(number)
            else:
                heap = self._urgent if priority < PRIORITY else self._later
                heappush(heap, (priority, next(self._order), number))
        return usual

    def _ranked(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the ranks of numbers: last visits, moved by their priorities."""
        assert self._rank is not None
        ranks = self._rank(numbers)
        if self.priorities:
            for number in self.priorities.keys() & set(numbers):
                step = self.priorities[number] - PRIORITY
                ranks[number] = ranks.get(number, 0) + step * _PRIORITY_STEP
        return ranks

    def next(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        self.resting = False
        for _ in range(_TURN):
            for host, pages in self._ready.items():
                if pages and free(host):
                    page = pages.popleft()
                    self._built -= 1
                    self._pending -= 1
                    self._rotate(host)
                    return page
            if not self._refill(free):
                return None
        self.resting = True
        return None

    def again(self, number: int) -> None:
        """Let a number that was taken without a page wait once more."""
        self._inbox.put(number)
        self._pending += 1

    def _rotate(self, host: str) -> None:
        """Put ``host`` behind the other hosts."""
        if len(self._ready) > 1:
            pages = self._ready.pop(host)
            if pages or host in self._waiting:
                self._ready[host] = pages

    def _refill(self, free: Callable[[str], bool]) -> bool:
        """Build the next pages; return False when no page could be asked now."""
        if self._refill_from(self._waiting, free, _REFILL):
            return True
        if self._built < self._look_ahead and (self._urgent or len(self._inbox)):
            numbers = _popped(self._urgent) if self._urgent else self._inbox.take(self._refill_size)
            for page in self._loaded(numbers):
                self._place(page)
            return True
        if self._later:  # no page of a free host is left but those
            for page in self._loaded(_popped(self._later)):
                self._last.setdefault(page.host, FrontierQueue()).put(page.no)
            return True
        return self._refill_from(self._last, free, _REFILL_RANKED)

    def _refill_from(
        self, queues: dict[str, FrontierQueue], free: Callable[[str], bool], most: int
    ) -> bool:
        """Build up to ``most`` pages of a host that is ``free``; return False without one."""
        for host, queue in list(queues.items()):
            if free(host):
                pages = self._loaded(queue.take(most))
                if not len(queue):
                    del queues[host]
                self._ready.setdefault(host, deque()).extend(pages)
                self._built += len(pages)
                return True
        return False

    def _loaded(self, numbers: array[int]) -> list[Page]:
        """Return the pages of numbers that waited; those without a page wait no more."""
        pages = self._load(numbers)
        self._pending -= len(numbers) - len(pages)
        return pages

    def _place(self, page: Page) -> None:
        ready = self._ready.setdefault(page.host, deque())
        if page.host in self._waiting or len(ready) >= _READY:
            self._waiting.setdefault(page.host, FrontierQueue()).put(page.no)
        else:
            ready.append(page)
            self._built += 1


def _popped(heap: list[tuple[int, int, int]]) -> array[int]:
    """Take the numbers of a refill from a heap."""
    return array("I", [heappop(heap)[2] for _ in range(min(_REFILL, len(heap)))])
