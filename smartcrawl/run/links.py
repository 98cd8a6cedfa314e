"""Where links lead: from addresses to numbers, each offered to the frontier once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from smartcrawl.model.batches import Address
from smartcrawl.model.documents import Link
from smartcrawl.model.options import Options
from smartcrawl.model.pages import NAMES_SIGNED, Page, Visit
from smartcrawl.model.urls import endpoint, has_port, host_key
from smartcrawl.registry.pack import pack_links, pack_numbers, unpack_links, unpack_numbers
from smartcrawl.registry.readers import Readers
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Standing
from smartcrawl.run.address_book import AddressBook, Found, Register
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import Depths
from smartcrawl.run.limits import UrlBudget
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.signed_urls import SignedUrls
from smartcrawl.sources.declared import Source
from smartcrawl.sources.scope import Scope

MAX_NESTING: Final = 3  #: levels of sitemaps: an index of indexes of sitemaps
MAX_HOPS: Final = 2 * MAX_REDIRECTS  #: redirects that are followed from address to address
SITEMAP: Final = "sitemap"  #: type of a link to another sitemap; any other leads to a page
REDIRECT: Final = "redirect"  #: type of the one link that a redirect is
CUT: Final = "cut"  #: type of a link to the page itself: there are more links than are kept
_UNFILTERED: Final = 0  #: stands for a scope where stored numbers do not tell all


class Links:
    """Follows links within the scope, and knows the depth and the kind of what they lead to.

    A sitemap is an address of its own kind: it need not fit the patterns of the scope, and
    what it lists lies as deep as itself.
    """

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        registry: Registry,
        opened: OpenRun,
        readers: Readers,
        frontier: Depths,
        book: AddressBook,
        batches: Batches,
        shortcomings: Shortcomings,
        hops_of: Callable[[int], int] = lambda number: 0,
    ) -> None:
        """``hops_of``: by how many redirects in a row others found an address."""
        self.scope: Scope = source.scope
        self.scope_no = registry.fingerprint(self.scope.fingerprint())
        self.max_depth = source.max_depth or options.depth_limit
        self.seeds: set[int] = set()
        self.given: set[int] = set()  #: sitemaps given by hand: like seeds, they have to answer
        self._source = source
        self._registry = registry
        self._opened = opened
        self._pages = readers.pages
        self._progress = readers.progress
        self._host_reader = readers.hosts
        self._frontier = frontier
        self._book = book
        self._batches = batches
        self._shortcomings = shortcomings
        self._options = options
        self._limits = UrlBudget(readers.hosts, options, shortcomings, opened.started_at)
        self._kinds: dict[int, int] = {}  #: of sitemaps that were named in this run
        self._hops: dict[int, int] = {}  #: redirects in a row that led to a page
        self._hops_of = hops_of
        self._relax_all = opened.resumed
        self._moved = False  #: whether the scope did, since depths were handed on
        self._elsewhere: list[tuple[str, Sequence[str]]] = []  #: named outside of the scope
        self._signed = SignedUrls(options.trackers)

    # How it begins

    def begin(self) -> None:
        """Offer the seeds and sitemaps that were given, and what was registered by hand."""
        source = self._source
        given = [self._signed.bare(url) for url in source.seeds]
        seeds = self._book.numbers(given, self.scope, self._register(None, 0))
        self.offer(seeds, 0)
        self.seeds = set(seeds)
        sitemaps = [self._signed.bare(url) for url in source.sitemaps]
        hosts = map(host_key, sitemaps)
        self.given = set(self._sitemaps(sitemaps, hosts, kind=1, depth=0, given=True))

    def follow_seeds(self) -> None:
        """Find the scope where seeds that this run asked before it was interrupted moved it."""
        for those in (self.seeds, self.given):
            asked = list(those)
            for _ in range(MAX_REDIRECTS):
                targets = self._progress.redirects(asked, self._opened.no)
                for number, (target, _) in targets.items():
                    self.seed_moved(number, target)
                asked = [no for _, no in targets.values() if no is not None]
                those.update(asked)

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Learn that other workers met addresses first, under other numbers."""
        self._book.rename(renamed)
        for these in (self.seeds, self.given):
            theirs = {renamed[number] for number in these if number in renamed}
            these.difference_update(renamed)
            these.update(theirs)
        for told in (self._kinds, self._hops):
            for number in [number for number in told if number in renamed]:
                told.setdefault(renamed[number], told.pop(number))

    def pages(self, numbers: Sequence[int]) -> list[Page]:
        """Return the pages of ``numbers``, each with the kind and the links that count today."""
        pages = self._book.pages(numbers, self._opened.last_complete)
        refiltered = [
            page.no for page in pages if page.targets is not None and page.scope != self.scope_no
        ]
        raw = self._pages.raw_links(refiltered) if refiltered else {}
        signed = len(self._signed.urls) > 0
        for page in pages:
            page.raw = raw.get(page.no)
            if signed:
                page.signed = self._signed.whole(page.url)
            named = self._kinds.get(page.no, 0)
            if page.kind or page.standing is Standing.BARE:
                page.kind = named or page.kind
            else:  # it was a page so far: what it answers tells what it is
                page.named = named
        return pages

    def keeps_links(self, page: Page) -> bool:
        """Whether a page that is read alike has all of its links in the registry.

        It has where they were filtered by today's scope, no limit left one out, and none is of use
        only with the signature that its body names.
        """
        return (
            page.targets is not None
            and page.scope == self.scope_no
            and not page.signs & NAMES_SIGNED
        )

    # What a visit leads to

    def follow(
        self,
        visit: Visit,
        links: Iterable[Link],
        *,
        same_depth: bool = False,
        canonical: str | None = None,
        cut: bool = False,
    ) -> None:
        """Offer the links of a new body, and keep them packed on the visit to be stored.

        ``canonical``, absolute, is what the page names as its better address (M-20). ``cut``:
        whether there are more links than are kept, which every later run has to know.
        """
        page, links = visit.page, list(links)
        listed = [
            link._replace(url=self._signed.bare(link.url)) if "?" in link.url else link
            for link in links
        ]
        visit.names_signed = any(
            link.url != bare.url for link, bare in zip(links, listed, strict=True)
        )
        if cut:
            listed.append(Link(visit.url, "", CUT, False))
        visit.links, visit.links_count = pack_links(listed), len(listed)
        depth = self._frontier.depth(page.no) + (not same_depth)
        if self.max_depth and depth > self.max_depth:
            return
        numbers, whole = self._targets(listed, page, visit.kind, depth)
        visit.targets = pack_numbers(numbers)
        visit.scope = self.scope_no if whole else _UNFILTERED
        visit.canonical_no = self._canonical(canonical, page.no, depth)

    def _canonical(self, url: str | None, origin: int, depth: int) -> int | None:
        """Return the number of what a page names as canonical, if that is another in scope."""
        if url is None:
            return None
        url = self._signed.bare(url)
        found = self._book.numbers(
            [url], self.scope, self._register(origin, depth), self._limits.refuse
        )
        return next((number for number in found if number != origin), None)

    def stands_aside(self, visit: Visit) -> bool:
        """Whether a page still names the canonical page it stood aside for, and that is indexed."""
        number = visit.canonical_no
        return (
            number is not None
            and number == visit.page.canonical_no
            and visit.page.standing is Standing.LINKS
            and self._pages.leads_to_indexed(number, visit.page.no)
        )

    def replay(self, page: Page) -> None:
        """Offer the stored links of a page, filtered by today's scope (M-02; design.md 8)."""
        same_depth = page.kind or (page.moved and page.standing is Standing.BARE)
        depth = self._frontier.depth(page.no) + (not same_depth)
        if page.targets is None or (self.max_depth and depth > self.max_depth):
            return
        if page.scope == self.scope_no:
            self.offer(unpack_numbers(page.targets), depth)
            return
        raw = page.raw if page.raw is not None else self._pages.raw_links([page.no])[page.no]
        links = unpack_links(raw)
        numbers, whole = self._targets(links, page, page.kind, depth)
        named = next((link.url for link in links if link.type == "canonical"), None)
        number = page.canonical_no
        if page.standing is Standing.HELD:  # what stands aside is judged by what it was read as
            number = self._canonical(named, page.no, depth)
        if whole:
            targets = pack_numbers(numbers)
            self._batches.batch.retargeted.append((page.no, self.scope_no, targets, number))

    def skipped_redirect(self, page: Page) -> None:
        """Let a seed that is not asked lead where it led when it was asked last."""
        for these in (self.seeds, self.given):
            if page.no in these:
                target, number = self._pages.redirect(page.no)
                if target is not None and these is self.seeds:
                    self.seed_moved(page.no, target)
                if number is not None:
                    these.add(number)

    def numbers_of(self, urls: Mapping[str, int]) -> dict[int, int]:
        """Return what is told of addresses that were just followed, by their numbers."""
        found: dict[int, int] = {}
        for url, told in urls.items():
            numbers = self._book.numbers(
                [url], self.scope, self._register(None, 0), self._limits.refuse
            )
            found.update(dict.fromkeys(numbers, told))
        return found

    def follow_redirect(self, visit: Visit, target: str) -> bool:
        """Record where a redirect leads and offer its target at the same depth (M-21).

        Returns False, and follows nothing, when too many redirects in a row lead here. What more
        than five lead to counts for nothing (rules.moves.fates); a few more are followed, because
        the later ones of a chain may be linked by themselves.
        """
        number = visit.page.no
        visit.location = target = self._signed.bare(target)
        hops = max(self._hops.get(number, 0), self._hops_of(number)) + 1
        if hops > MAX_HOPS:
            return False
        waiting = len(self._frontier)
        self.follow(visit, [Link(target, "", REDIRECT, False)], same_depth=True)
        targets = unpack_numbers(visit.targets)
        if len(self._frontier) > waiting:  # nothing else led there so far
            self._hops.update(dict.fromkeys(targets, hops))
        for these in (self.seeds, self.given):
            if number in these:
                these.update(targets)
        return True

    def _targets(
        self, links: Iterable[Link], page: Page, kind: int, depth: int
    ) -> tuple[list[int], bool]:
        """Offer what the links of a page lead to today.

        Returns the numbers, and whether they are all: what a limit left out may be asked for
        by a later run, and until then no run has seen everything.
        """
        urls, sitemaps, moved = [], [], []
        whole, self._limits.hit = True, False
        for link in links:
            if link.type == CUT:
                whole = False
                self._shortcomings.count("too_many_urls" if kind else "too_many_links", page.url)
            elif link.type == SITEMAP:
                sitemaps.append(link.url)
            elif kind and link.type == REDIRECT:
                moved.append(link.url)
            elif not link.nofollow or link.type == "canonical":
                urls.append(link.url)
        register = self._register(page.no, depth)
        found = self._book.numbers(urls, self.scope, register, self._limits.refuse)
        numbers = [number for number in found if number != page.no]
        self.offer(numbers, depth)
        for listed, nesting in ((moved, kind), (sitemaps, kind + 1)):
            # What robots.txt may name anywhere may move anywhere.
            hosts = [page.host, *(map(host_key, listed) if nesting == 1 else ())]
            if listed and nesting > MAX_NESTING:
                whole = False
                self._shortcomings.count("sitemap_nesting", listed[0])
            elif listed:
                numbers += self._sitemaps(listed, hosts, origin=page.no, kind=nesting, depth=depth)
        return list(dict.fromkeys(numbers)), whole and not self._limits.hit

    def _register(self, origin: int | None, depth: int, kind: int = 0) -> Register:
        def register(found: Found) -> None:
            address = Address(*found, depth, origin, kind)
            self._frontier.grow(found.no)
            self._batches.batch.addresses.append(address)
            self._book.remember(address)

        return register

    def offer(self, numbers: Sequence[int], depth: int) -> None:
        """Offer numbers at a depth, and note which of them that reached or brought nearer."""
        reached = self._batches.batch.reached
        for number in self._frontier.offer(numbers, depth):
            if not self._book.is_new(number) or number in self._frontier.lowered:
                reached[number] = depth

    # Sitemaps

    def sitemaps_named(self, origin: str, urls: Sequence[str]) -> None:
        """Offer the sitemaps that the robots.txt of ``origin`` names, wherever they lie."""
        if not (self._options.sitemaps_from_robots and urls):
            return
        if self.scope.holds(origin):
            urls = [self._signed.bare(url) for url in urls]
            self._sitemaps(urls, map(host_key, urls), kind=1, depth=0)
        else:
            self._elsewhere.append((origin, urls))

    def sitemaps_known(self, sitemaps: Callable[[bytes, str], Sequence[str]]) -> None:
        """Offer the sitemaps that the kept robots.txt of the scope's origins name.

        For a run that may have no reason to read robots.txt again. ``sitemaps`` reads the body of
        the robots.txt of an origin.
        """
        for origin in self._host_reader.robots_origins():
            kept = self._host_reader.robots(origin) if self.scope.holds(origin) else None
            if kept is not None:
                self.sitemaps_named(origin, sitemaps(kept.body, origin))

    def follow_unnamed(self) -> None:
        """Follow the stored links of sitemaps that nobody named in this run.

        Their pages live as long as the sitemap is held; it is the sitemap that ages.
        """
        for number, depth, scope, targets in self._progress.unnamed_sitemaps(self._opened.no):
            self._lead_on(number, scope, targets, depth)

    def _sitemaps(
        self,
        urls: Iterable[str],
        hosts: Iterable[str],
        *,
        kind: int,
        depth: int,
        origin: int | None = None,
        given: bool = False,
    ) -> list[int]:
        """Offer sitemaps that lie in scope or on one of ``hosts``; return their numbers."""
        scope = replace(
            self.scope,
            hosts=self.scope.hosts.union(hosts),
            url_patterns=(),
            skipped_extensions=frozenset(),
        )
        register = self._register(origin, depth, kind)
        found = self._book.sitemaps(urls, scope, register, None if given else self._limits.refuse)
        numbers = [number for number in found if number != origin]
        for number in numbers:
            if kind < self._kinds.get(number, MAX_NESTING + 1):
                self._kinds[number] = self._batches.batch.kinds[number] = kind
        self.offer(numbers, depth)
        return numbers

    # Depth

    def relax(self) -> None:
        """Hand on the depth of pages that turned out to lie nearer than when they were asked."""
        if self._relax_all:  # what was still to be handed on died with the process
            self._relax_all = False
            for number, _ in self._progress.visited(self._opened.no):
                self._hand_on(number)
        elif self._moved:  # what was asked before it led elsewhere, then
            for number in self._progress.visited_elsewhere(self._opened.no, self.scope_no):
                self._hand_on(number)
        self._moved = False
        while self._frontier.lowered:
            self._hand_on(self._frontier.lowered.pop())

    @property
    def relaxed(self) -> bool:
        """Whether there is no depth left to hand on."""
        return not (self._relax_all or self._moved or self._frontier.lowered)

    def hand_on(self, links: Iterable[tuple[int, int, bytes, bool, int]]) -> None:
        """Offer what pages lead to, given as (depth, scope, targets, same depth, number)."""
        for depth, scope, targets, same_depth, number in links:
            below = depth + (not same_depth)
            if not (self.max_depth and below > self.max_depth):
                self._lead_on(number, scope, targets, below)

    def _hand_on(self, number: int) -> None:
        stored = self._pages.targets(number)
        if stored is None:
            return
        scope, targets, same_depth = stored
        depth = self._frontier.depth(number) + (not same_depth)
        if self.max_depth and depth > self.max_depth:
            return
        self._lead_on(number, scope, targets, depth)

    def _lead_on(self, number: int, scope: int, targets: bytes, depth: int) -> None:
        """Offer the stored links of a page, read again where another scope filtered them."""
        if scope == self.scope_no:
            self.offer(unpack_numbers(targets), depth)
            return
        [page] = self._book.pages([number], 0)
        links = unpack_links(self._pages.raw_links([number])[number])
        self._targets(links, page, page.kind, depth)

    # Where the scope lies

    @property
    def scope_moved(self) -> bool:
        """Whether a seed moved the scope away from the one that the source declares."""
        return self.scope != self._source.scope

    def endpoints(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that were given by hand."""
        return [endpoint(url) for url in (*self._source.seeds, *self._source.sitemaps)]

    def ports(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that the source names as its own."""
        return [endpoint(f"http://{host}/") for host in self.scope.hosts if has_port(host)]

    def is_seed(self, number: int) -> bool:
        """Whether a page is a seed of this run, or what a seed redirected to."""
        return number in self.seeds

    def seed_moved(self, number: int, target: str) -> bool:
        """Follow a seed's redirect to the same host with or without ``www.``.

        Only an ad-hoc source moves: a declared one says itself where it lies. Returns
        whether the scope moved.
        """
        moved = self.scope.moved_to(target) if self._source.ad_hoc else None
        if moved is None or not self.is_seed(number):
            return False
        self.scope = moved
        self.scope_no = self._registry.fingerprint(moved.fingerprint())
        self._book.forget()
        self._moved = True
        elsewhere, self._elsewhere = self._elsewhere, []
        for origin, urls in elsewhere:
            self.sitemaps_named(origin, urls)
        return True
