"""The links of visited and stored pages, followed within the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from smartcrawl.extract.sitemaps import parsed_llms_txt_url
from smartcrawl.model.documents import CUT, Link
from smartcrawl.model.options import Options
from smartcrawl.model.pages import NAMES_SIGNED, Page, Visit
from smartcrawl.model.urls import (
    Trackers,
    is_signed_url,
    normalize_url,
    sessionless_url,
    unsigned_url,
    url_host_key,
)
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.pack import (
    pack_stored_links,
    pack_stored_numbers,
    unpack_stored_links,
    unpack_stored_numbers,
)
from smartcrawl.registry.pages import PageReader, RegistryReaders
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.depth import DepthLimits
from smartcrawl.rules.http import RedirectLimit
from smartcrawl.rules.model import Outcome, Standing
from smartcrawl.rules.seal import depth_reason_kind
from smartcrawl.rules.traps import ENDLESS, Chains, Trap, chain_of_url
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier import FrontierDepths
from smartcrawl.run.offers import AddressBook, Offers
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.base import Source
from smartcrawl.sources.kinds import SITE


class DepthUpdates:
    """Offers the stored links of pages again, when their depth or the scope changed."""

    def __init__(
        self,
        *,
        opened: OpenRun,
        readers: RegistryReaders,
        frontier: FrontierDepths,
        links: Links,
        seeds: Seeds,
    ) -> None:
        self._run = opened.no
        self._readers = readers
        self._frontier = frontier
        self._links = links
        self._seeds = seeds
        self._all = opened.resumed  #: whether the depths of all visited pages are to be handed on
        self._moves = seeds.moves  #: moves of the scope that were taken into account

    @property
    def scope_moved(self) -> bool:
        """Whether a seed moved the scope away from the one that the source declares."""
        return self._seeds.scope_moved

    @property
    def relaxed(self) -> bool:
        """Whether there is no depth left to hand on."""
        return not (self._all or self._moves != self._seeds.moves or self._frontier.lowered)

    def relax(self) -> None:
        """Hand on the depth of pages that turned out to be nearer than when they were asked for."""
        progress = self._readers.progress
        if self._all:  # the depths that an interrupted process had not handed on
            self._all = False
            for number, _ in progress.visited(self._run):
                self._hand_on(number)
        elif self._moves != self._seeds.moves:  # pages visited before led elsewhere then
            for number in progress.visited_elsewhere(self._run, self._seeds.scope_no):
                self._hand_on(number)
        self._moves = self._seeds.moves
        while self._frontier.lowered:
            self._hand_on(self._frontier.lowered.pop())

    def hand_on(self, links: Iterable[tuple[int, int, bytes, bool, int]]) -> None:
        """Offer stored links, given as (depth, scope, targets, same depth, number) of pages."""
        for depth, scope, targets, same_depth, number in links:
            below = depth + (not same_depth)
            if self._links.is_too_deep(below):
                self._links.leave_out(number, scope, targets, below)
            else:
                self._links.lead_on(number, scope, targets, below)

    def _hand_on(self, number: int) -> None:
        stored = self._readers.pages.targets(number)
        if stored is None:
            return
        scope, targets, same_depth = stored
        self.hand_on([(self._frontier.depth(number), scope, targets, same_depth, number)])

    def follow_unnamed(self) -> None:
        """Follow the stored links of sitemaps that were not named in this run.

        Their pages live as long as the stored sitemap; it is the sitemap that ages.
        """
        for number, depth, scope, targets in self._readers.progress.unnamed_sitemaps(self._run):
            self._links.lead_on(number, scope, targets, depth)


MAX_SIGNED: Final = 100_000  #: such addresses that one run remembers


class SignedUrls:
    """Removes the signature or session id of a link, and adds it when the address is requested."""

    def __init__(self, trackers: Trackers) -> None:
        self.urls: dict[str, str] = {}  #: whole addresses, by normalized URL
        self._trackers = trackers

    def bare(self, url: str) -> str:
        """Return an address without signature and session id; this run remembers the whole one."""
        bare = unsigned_url(url)
        if bare != url and len(self.urls) < MAX_SIGNED:
            self.urls[normalize_url(bare, self._trackers)] = url
        return bare

    def whole(self, url: str) -> str | None:
        """Return an address as this run linked it; None: it has neither of them."""
        return self.urls.get(normalize_url(url, self._trackers))


_KEPT: Final = 1000  #: distinct addresses and numbers that are looked up again at the end


class BeyondDepth:
    """Notes links of the deepest pages, of which other pages may lead to the targets, too.

    A run that left an address out has seen a part of its source, so that no absence counts. Where
    every target was reached another way, nothing was left out.
    """

    def __init__(
        self,
        *,
        ordered: int,
        seeds: Seeds,
        offers: Offers,
        shortcomings: Shortcomings,
        is_reached: Callable[[int], bool],
        url_of: Callable[[int], str],
        at_once: bool,
    ) -> None:
        """Take the parts of the run; ``ordered``: its limit.

        ``at_once``: other workers may end the run, so that each notes what it leaves out.
        """
        self._kind = depth_reason_kind(ordered)
        self._seeds = seeds
        self._offers = offers
        self._shortcomings = shortcomings
        self._is_reached = is_reached
        self._url_of = url_of
        self._at_once = at_once
        self._urls: dict[str, None] = {}
        self._numbers: dict[int, None] = {}
        self._overflow: str | None = None  #: an address that was not kept

    def leave(self, links: Iterable[Link]) -> None:
        """Leave out the targets of links that were read from a body."""
        scope = self._seeds.scope.linked
        for link in links:
            followed = link.type == "canonical" or not link.nofollow
            if link.type != CUT and followed and scope.allows(link.url):
                if len(self._urls) < _KEPT:
                    self._urls[link.url] = None
                elif link.url not in self._urls:
                    self._overflow = link.url
        if self._at_once:
            self.note()

    def leave_stored(self, numbers: Iterable[int]) -> None:
        """Leave out the targets of stored links."""
        for number in numbers:
            if self._is_reached(number):
                continue
            if len(self._numbers) < _KEPT:
                self._numbers[number] = None
            elif number not in self._numbers:
                self._overflow = self._overflow or self._url_of(number)
        if self._at_once:
            self.note()

    def note(self) -> None:
        """Note the addresses that nothing led to after all; once for each."""
        left = {no: self._url_of(no) for no in self._numbers if not self._is_reached(no)}
        scope = self._seeds.scope.linked
        for url in self._urls:
            known = self._offers.known([url], scope)
            if not known:
                left.setdefault(-len(left) - 1, url)
            elif not self._is_reached(known[0]):
                left[known[0]] = url
        for url in left.values():
            self._shortcomings.count(self._kind, url)
        if self._overflow is not None and not left:
            self._shortcomings.count(self._kind, self._overflow)
        self._urls, self._numbers, self._overflow = {}, {}, None


MAX_NESTING: Final = 3  #: levels of sitemaps: an index of indexes of sitemaps
_Value = TypeVar("_Value")


class SitemapLinks:
    """Offers sitemaps, which need not fit the patterns of the scope.

    The pages that a sitemap lists have the depth of the sitemap.
    """

    def __init__(
        self,
        *,
        seeds: Seeds,
        reader: HostReader,
        offers: Offers,
        batches: Batches,
        signed: SignedUrls,
        options: Options,
    ) -> None:
        self._seeds = seeds
        self._reader = reader
        self._offers = offers
        self._batches = batches
        self._signed = signed
        self._from_robots = options.sitemaps_from_robots
        self._with_llms_txt = options.llms_txt
        self._kinds: dict[int, int] = {}  #: levels of the sitemaps that were named in this run
        self._elsewhere: list[tuple[str, Sequence[str]]] = []  #: named by origins out of scope

    def kind(self, number: int) -> int:
        """Return the level of a sitemap that was named in this run; 0: it was not."""
        return self._kinds.get(number, 0)

    def begin(self, source: Source) -> None:
        """Offer the ``/llms.txt`` beside the seeds and sitemaps of a site, where it is in scope.

        It is a guess: like a sitemap that robots.txt names, it may be absent.
        """
        if self._with_llms_txt and source.kind == SITE.name:
            urls = dict.fromkeys(map(parsed_llms_txt_url, map(self._signed.bare, source.starts)))
            self.offer(urls, (), kind=1, depth=0)

    def named(self, origin: str, urls: Sequence[str]) -> None:
        """Offer the sitemaps that the robots.txt of ``origin`` names, on any host."""
        if not (self._from_robots and urls):
            return
        if self._seeds.scope.holds(origin) and not self._seeds.is_open:
            urls = [self._signed.bare(url) for url in urls]
            self.offer(urls, map(url_host_key, urls), kind=1, depth=0)
        else:
            self._elsewhere.append((origin, urls))

    def named_elsewhere(self) -> None:
        """Offer the sitemaps that were named out of scope, now that the scope is another one."""
        elsewhere, self._elsewhere = self._elsewhere, []
        for origin, urls in elsewhere:
            self.named(origin, urls)

    def named_before(self, sitemaps: Callable[[bytes, str], Sequence[str]]) -> None:
        """Offer the sitemaps that the stored robots.txt of the scope's origins name.

        For a run that may have no reason to request robots.txt again. ``sitemaps`` reads the body
        of the robots.txt of an origin.
        """
        for origin in self._reader.robots_origins():
            stored = self._reader.robots(origin) if self._seeds.scope.holds(origin) else None
            if stored is not None:
                self.named(origin, sitemaps(stored.body, origin))

    def offer(
        self,
        urls: Iterable[str],
        hosts: Iterable[str],
        *,
        kind: int,
        depth: int,
        origin: int | None = None,
        given: bool = False,
    ) -> list[int]:
        """Offer the sitemaps that are in scope or on one of ``hosts``; return their numbers.

        ``kind`` is their level, ``origin`` the page that names them; ``given``: with the source.
        """
        scope = self._seeds.scope.with_sitemaps_of(hosts)
        found = self._offers.sitemap_numbers(
            urls, scope, depth, origin=origin, kind=kind, given=given
        )
        numbers = [number for number in found if number != origin]
        for number in numbers:
            if kind < self._kinds.get(number, MAX_NESTING + 1):
                self._kinds[number] = self._batches.batch.kinds[number] = kind
        self._offers.offer(numbers, depth)
        return numbers

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Take the numbers of other workers for addresses that they registered first."""
        renumber_run_sitemap_offers(self._kinds, renamed)


def renumber_run_sitemap_offers(values: dict[int, _Value], renamed: Mapping[int, int]) -> None:
    """Move the values of renamed numbers to the new numbers, where these have none.

    >>> values = {1: 10, 2: 20, 3: 30}
    >>> renumber_run_sitemap_offers(values, {1: 7, 2: 3})
    >>> values
    {3: 30, 7: 10}
    """
    for number in [number for number in values if number in renamed]:
        values.setdefault(renamed[number], values.pop(number))


SITEMAP: Final = "sitemap"  #: type of a link from a sitemap to another sitemap
REDIRECT: Final = "redirect"  #: type of the single link that stores a redirect
_UNFILTERED: Final = 0  #: scope number of incomplete targets: the raw links are filtered again


class _KeptRedirect(NamedTuple):
    """A redirect that was not followed, because too many in a row led to its page."""

    page: Page
    link: Link | None  #: None: that of the stored page
    depth: int
    within: int  #: redirects within the visit before it


class Links:
    """Offers the targets of links, and finds the depth and the kind of each target."""

    def __init__(
        self,
        *,
        source: Source,
        depths: DepthLimits,
        beyond: BeyondDepth,
        last_complete: int,
        seeds: Seeds,
        reader: PageReader,
        frontier: FrontierDepths,
        book: AddressBook,
        offers: Offers,
        sitemaps: SitemapLinks,
        signed: SignedUrls,
        batches: Batches,
        shortcomings: Shortcomings,
        redirects: RedirectLimit,
        hops_of: Callable[[int], int] = lambda number: 0,
    ) -> None:
        """Take the parts of the run.

        ``last_complete``: number of the last complete run.
        ``hops_of`` returns the number of redirects through which other workers found an address.
        """
        self._source = source
        self._depths = depths
        self._beyond = beyond
        self._last_complete = last_complete
        self._seeds = seeds
        self._reader = reader
        self._frontier = frontier
        self._book = book
        self._offers = offers
        self._sitemaps = sitemaps
        self._signed = signed
        self._batches = batches
        self._shortcomings = shortcomings
        self._hops: dict[int, int] = {}  #: number of redirects that led to a page, on the best way
        self._kept_back: dict[int, _KeptRedirect] = {}
        self._hops_of = hops_of
        self._with_sitemaps = False  #: whether those that were given are offered
        self._redirects = redirects
        self._chains = Chains()

    # Beginning

    def begin(self) -> None:
        """Offer the seeds and sitemaps that were given with the source."""
        source, seeds = self._source, self._seeds
        numbers: list[int] = []
        for url in map(self._signed.bare, source.linked_seeds):
            for number in self._offers.numbers([url], seeds.scope, 0, given=True):
                numbers.append(number)
                self._book.asked.setdefault(number, url)  # as it was typed this time
        numbers = list(dict.fromkeys(numbers))
        self._offers.offer(numbers, 0)
        seeds.seeds = set(numbers)
        self._with_sitemaps = False
        if not seeds.is_open:
            self.begin_sitemaps()

    def begin_sitemaps(self) -> None:
        """Offer the sitemaps that were given with the source, when its scope is decided; once."""
        source, seeds = self._source, self._seeds
        if self._with_sitemaps:
            return
        self._with_sitemaps = True
        sitemaps = [self._signed.bare(url) for url in source.sitemaps]
        hosts = [*map(url_host_key, sitemaps)]
        for url in sitemaps:
            for number in self._sitemaps.offer([url], hosts, kind=1, depth=0, given=True):
                seeds.given.add(number)
                self._book.asked.setdefault(number, url)
        self._sitemaps.begin(source)

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Replace the numbers of addresses that other workers registered first."""
        self._book.rename(renamed)
        self._seeds.rename(renamed)
        self._sitemaps.rename(renamed)
        renumber_run_sitemap_offers(self._hops, renamed)
        renumber_run_sitemap_offers(self._kept_back, renamed)

    def pages(self, numbers: Sequence[int]) -> list[Page]:
        """Return the pages of ``numbers``, prepared for this run.

        Each has its sitemap kind in this run, its signature, and its raw links where another scope
        filtered the stored targets.
        """
        pages = self._book.pages(numbers, self._last_complete)
        scope_no = self._seeds.scope_no
        refiltered = [
            page.no
            for page in pages
            if page.record.targets is not None and page.record.scope != scope_no
        ]
        raw = self._reader.raw_links(refiltered) if refiltered else {}
        signed = len(self._signed.urls) > 0
        asked = self._book.asked
        for page in pages:
            page.raw = raw.get(page.no)
            if signed:
                page.plan.signed = self._signed.whole(page.url)
            if asked and page.plan.signed is None:
                spelling = asked.get(page.no)
                page.plan.spelling = None if spelling == page.url else spelling
            named = self._sitemaps.kind(page.no)
            if page.kind or page.state.standing is Standing.BARE:
                page.kind = named or page.kind
            else:  # stored as a page: its answer decides whether it is a sitemap
                page.plan.named = named
        return pages

    def keeps_links(self, page: Page) -> bool:
        """Whether the stored links of a page are complete, so that an equal body gives no others.

        They are complete if today's scope filtered them and no limit cut them. A link with a
        signature must be read from the body again, because signatures are not stored.
        """
        record = page.record
        return (
            record.targets is not None
            and record.scope == self._seeds.scope_no
            and not record.signs & NAMES_SIGNED
        )

    def is_too_deep(self, depth: int) -> bool:
        """Whether a depth exceeds the limit of the source, or that of this run alone."""
        return self._depths.is_too_deep(depth)

    def is_outside(self, depth: int) -> bool:
        """Whether a depth exceeds the limit of the source, so that its pages are out of scope."""
        return self._depths.excludes(depth)

    def note_beyond(self) -> None:
        """Note the addresses that this run left out because it was to go less deep."""
        self._beyond.note()

    # Links of a visit

    def follow(
        self,
        visit: Visit,
        links: Iterable[Link],
        *,
        same_depth: bool = False,
        canonical: str | None = None,
        cut: bool = False,
        overlong: Sequence[str] = (),
    ) -> None:
        """Offer the links of a new body, and pack them on the visit to be stored.

        ``canonical``: the absolute canonical URL of the page (M-20). ``cut``: whether the page has
        more links than are stored. ``overlong``: beginnings of addresses that are too long. Marks
        of both are stored, because they make later runs incomplete, too.
        """
        parsed = visit.parsed
        page, links = visit.page, list(links)
        self.decide_scope(visit, links)
        listed = [
            link._replace(url=self._bare(link.url)) if "?" in link.url or ";" in link.url else link
            for link in links
        ]
        parsed.names_signed |= any(
            link.url != bare.url and is_signed_url(link.url)
            for link, bare in zip(links, listed, strict=True)
        )
        if cut:
            listed.append(Link(visit.url, "", CUT, False))
        listed += [Link(url, Trap.URL_TOO_LONG, CUT, False) for url in overlong]
        follows = self._source.kind_of(page.url).follows_links
        chain = chain_of_url(page.url) if follows and not visit.kind else None
        if chain is not None:
            listed = self._without_rest(visit, chain, listed)
        parsed.links, parsed.links_count = pack_stored_links(listed), len(listed)
        if not follows:
            return
        depth = self._frontier.depth(page.no) + (not same_depth)
        if self.is_too_deep(depth):
            if self._depths.leaves_out(depth):
                self._beyond.leave(listed)
            return
        numbers, whole = self._targets(listed, page, visit.kind, depth)
        if chain is not None:
            self._count(visit, chain)
        parsed.targets = pack_stored_numbers(numbers)
        parsed.scope = self._seeds.scope_no if whole else _UNFILTERED
        parsed.canonical_no = self._canonical(canonical, page.no, depth)

    def decide_scope(self, visit: Visit, links: Iterable[Link] = ()) -> None:
        """Let the first answer of its seed that is no redirect decide the scope of an open source.

        ``links``: those of the answer.
        """
        seeds = self._seeds
        if not (seeds.is_open and seeds.is_seed(visit.page.no)) or (
            visit.outcome is Outcome.REDIRECT and visit.parsed.targets
        ):
            return
        leads = [link.url for link in links if link.type != CUT]
        if visit.outcome is not Outcome.REDIRECT or not leads:
            seeds.decide(visit.url, leads, lists=bool(visit.kind))

    def _count(self, visit: Visit, chain: str) -> None:
        """Count a page of a chain, and the pages of the chain to which it led first."""
        fresh = {found.no: chain_of_url(found.url) == chain for found in self._offers.registered}
        content = _new_content(visit)
        if content is not None:
            self._chains.brought(visit.page.no, chain, content, news=not all(fresh.values()))
        for number, is_member in fresh.items():
            if is_member:
                self._chains.leads(number)

    def _without_rest(self, visit: Visit, chain: str, links: list[Link]) -> list[Link]:
        """Return the links of a page of a chain, with marks in place of those that are left out.

        These are further pages of a chain that has ended in this run or ends with this page, or had
        ended when the page got the content that it still has. Known pages are followed.
        """
        page, left = visit.page, set[str]()
        if page.raw is not None and visit.outcome is Outcome.SAME:
            stored = unpack_stored_links(page.raw)
            left = {link.url for link in stored if link.type == CUT and link.anchor == ENDLESS}
        scope, content = self._seeds.scope.linked, _new_content(visit)
        ended = self._chains.has_ended(chain) or (
            content is not None
            and self._chains.is_last(page.no, chain, content)
            and not self._has_news(links, chain)
        )
        if not (left or ended):
            return links
        return [
            Link(link.url, ENDLESS, CUT, False)
            if (link.url in left or (ended and chain_of_url(link.url) == chain))
            and link.type != CUT
            and scope.allows(link.url)
            and not self._offers.known([link.url], scope)
            else link
            for link in links
        ]

    def _has_news(self, links: Iterable[Link], chain: str) -> bool:
        """Whether a new link leads out of a chain; call it for few pages."""
        scope = self._seeds.scope.linked
        return any(
            not link.nofollow
            and link.type != CUT
            and chain_of_url(link.url) != chain
            and scope.allows(link.url)
            and not self._offers.known([link.url], scope)
            for link in links
        )

    def _bare(self, url: str) -> str:
        """Return a link without signature and session id, to be stored and offered.

        A link that an excluded pattern matches as it stands in the page stays as it is, and out of
        scope.
        """
        excludes = self._seeds.scope.linked.excludes
        if sessionless_url(url) != url and excludes(url) and not is_signed_url(url):
            return url
        return self._signed.bare(url)

    def _canonical(self, url: str | None, origin: int, depth: int) -> int | None:
        """Return the number of a canonical URL; None unless it is another page in scope."""
        if url is None:
            return None
        url = self._bare(url)
        found = self._offers.numbers([url], self._seeds.scope.linked, depth, origin=origin)
        return next((number for number in found if number != origin), None)

    def stands_aside(self, visit: Visit) -> bool:
        """Whether a page is still the alias of the same canonical page, which is indexed.

        Only the canonical page is in the index.
        """
        number = visit.parsed.canonical_no
        return (
            number is not None
            and number == visit.page.record.canonical_no
            and visit.page.state.standing is Standing.LINKS
            and self._reader.leads_to_indexed(number, visit.page.no)
        )

    def follow_redirect(self, visit: Visit, target: str) -> bool:
        """Record the target of a redirect and offer it at the same depth (M-21).

        Returns False, without following it, if the chain of redirects is an error of the server.
        A limit that was chosen is followed to the letter: the target is recorded and not offered.
        """
        number, within = visit.page.no, visit.redirects
        visit.answer.location = target = self._bare(target)
        if not self.may_follow(number, within):
            if self._redirects.is_exact:
                self._record_redirect(visit, target)
                link, depth = Link(target, "", REDIRECT, False), self._frontier.depth(number)
                self._kept_back[number] = _KeptRedirect(visit.page, link, depth, within)
            return self._redirects.is_exact
        hops = self.hops_to(number) + within + 1
        waiting = len(self._frontier)
        self.follow(visit, [Link(target, "", REDIRECT, False)], same_depth=True)
        targets = unpack_stored_numbers(visit.parsed.targets)
        if len(self._frontier) > waiting:  # the target is new in this run
            self._hops.update(dict.fromkeys(targets, hops))
        self._seeds.redirected(number, targets)
        return True

    def may_follow(self, number: int, within: int = 0) -> bool:
        """Whether a redirect of this page is followed, after those that led to the page.

        ``within``: redirects that the visit followed to other spellings of its address.
        """
        return self.hops_to(number) + within < self._redirects.followed

    def hops_to(self, number: int) -> int:
        """Return the number of redirects in a row that led to a page."""
        return max(self._hops.get(number, 0), self._hops_of(number))

    def _reached(self, numbers: Iterable[int], hops: int = 0) -> None:
        """Note a shorter way to pages, and follow the redirects that were kept back there.

        ``hops``: redirects in a row on that way; 0: a page links to them.
        """
        for number in numbers:
            if self._hops.get(number, 0) <= hops:
                continue
            self._hops[number] = hops
            kept = self._kept_back.get(number)
            if kept is None or hops + kept.within >= self._redirects.followed:
                continue
            del self._kept_back[number]
            links = [kept.link] if kept.link else self._stored_links(number)
            waiting = len(self._frontier)
            targets, _ = self._targets(links, kept.page, kept.page.kind, kept.depth)
            further = hops + kept.within + 1
            if len(self._frontier) > waiting:
                self._hops.update(dict.fromkeys(targets, further))
            self._reached(targets, further)

    def _stored_links(self, number: int) -> list[Link]:
        return unpack_stored_links(self._reader.raw_links([number])[number])

    def _is_kept_back(self, page: Page) -> bool:
        """Whether the stored link of a page is a redirect that may not be followed."""
        moved = page.record.moved and page.state.standing is Standing.BARE
        return self._redirects.is_exact and moved and not self.may_follow(page.no)

    def _record_redirect(self, visit: Visit, target: str) -> None:
        """Store the target of a redirect as a link, without offering or registering it."""
        known = self._book.numbers(
            [target],
            self._seeds.scope.linked,
            lambda found: None,
            lambda url, host, known: True,
            cached=False,
            linked=False,
        )
        parsed = visit.parsed
        parsed.links, parsed.links_count = (
            pack_stored_links([Link(target, "", REDIRECT, False)]),
            1,
        )
        parsed.targets = pack_stored_numbers([no for no in known if no != visit.page.no])
        parsed.scope = _UNFILTERED  # a run that may follow it filters the link again

    def numbers_of(self, urls: Mapping[str, int]) -> dict[int, int]:
        """Return ``urls`` with each URL replaced by its number; the URLs were just followed."""
        found: dict[int, int] = {}
        for url, value in urls.items():
            numbers = self._offers.numbers([url], self._seeds.scope.linked, 0)
            found.update(dict.fromkeys(numbers, value))
        return found

    # Stored links

    def replay(self, page: Page) -> None:
        """Offer the stored links of a page, filtered by today's scope (M-02; ADR 131)."""
        record, state = page.record, page.state
        if not self._source.kind_of(page.url).follows_links:
            return
        same_depth = page.kind or (record.moved and state.standing is Standing.BARE)
        depth = self._frontier.depth(page.no) + (not same_depth)
        if record.targets is None:
            return
        if self._is_kept_back(page):
            self._kept_back[page.no] = _KeptRedirect(page, None, depth, 0)
            return
        if self.is_too_deep(depth):
            self.leave_out(page.no, record.scope, record.targets, depth, raw=page.raw)
            return
        if self._redirects.is_exact and record.moved and state.standing is Standing.BARE:
            followed = dict.fromkeys(
                unpack_stored_numbers(record.targets), self.hops_to(page.no) + 1
            )
            self._hops = followed | self._hops
            self._reached(followed, self.hops_to(page.no) + 1)  # a shorter way counts
        elif self._redirects.is_exact and self._hops:
            self._reached(unpack_stored_numbers(record.targets))
        scope_no = self._seeds.scope_no
        if record.scope == scope_no:
            self._offers.offer(unpack_stored_numbers(record.targets), depth)
            return
        raw = page.raw if page.raw is not None else self._reader.raw_links([page.no])[page.no]
        links = unpack_stored_links(raw)
        numbers, whole = self._targets(links, page, page.kind, depth)
        named = next((link.url for link in links if link.type == "canonical"), None)
        number = record.canonical_no
        if state.standing is Standing.HELD:  # an alias keeps its stored canonical page
            number = self._canonical(named, page.no, depth)
        if whole:
            targets = pack_stored_numbers(numbers)
            self._batches.batch.retargeted.append((page.no, scope_no, targets, number))

    def leave_out(
        self, number: int, scope: int, targets: bytes, depth: int, *, raw: bytes | None = None
    ) -> None:
        """Note the stored links of a page that are too deep, where that is so by order."""
        if not self._depths.leaves_out(depth):
            return
        if scope == self._seeds.scope_no:
            self._beyond.leave_stored(unpack_stored_numbers(targets))
        else:
            self._beyond.leave(unpack_stored_links(raw or self._reader.raw_links([number])[number]))

    def lead_on(self, number: int, scope: int, targets: bytes, depth: int) -> None:
        """Offer the stored links of a page at ``depth``; filter them again if the scope changed."""
        if self._redirects.is_exact and any(map(self._is_kept_back, self._book.pages([number], 0))):
            return
        if scope == self._seeds.scope_no:
            self._offers.offer(unpack_stored_numbers(targets), depth)
            return
        [page] = self._book.pages([number], 0)
        if not self._source.kind_of(page.url).follows_links:
            return
        links = self._stored_links(number)
        self._targets(links, page, page.kind, depth)

    def _is_cut(self, mark: Link, page: Page, kind: int) -> bool:
        """Whether a mark says that links of a page are missing; note the reason."""
        if not mark.anchor:
            self._shortcomings.count("too_many_urls" if kind else "too_many_links", page.url)
        elif self._seeds.scope.linked.holds(mark.url):
            self._shortcomings.refuse(Trap(mark.anchor), mark.url)
        else:
            return False
        return True

    def _targets(
        self, links: Sequence[Link], page: Page, kind: int, depth: int
    ) -> tuple[list[int], bool]:
        """Offer the targets of links that are in scope today.

        Returns their numbers, and whether these are complete. If a limit left a target out, the
        next run filters the stored links again; no run is complete until one follows that target.
        """
        urls, sitemaps, moved = [], [], []
        whole, self._offers.budget.hit = True, False
        exact = self._redirects.is_exact
        for link in links:
            if link.type == CUT and link.anchor == ENDLESS:
                whole, scope = False, self._seeds.scope.linked
                known = self._offers.known([link.url], scope)
                urls += [link.url] * bool(known)  # another page led to it
                if not known and scope.allows(link.url):
                    self._shortcomings.leave_chain(link.url)
            elif link.type == CUT:
                whole = not self._is_cut(link, page, kind) and whole
            elif link.type == REDIRECT and exact and not self.may_follow(page.no):
                whole = False
            elif link.type == SITEMAP:
                sitemaps.append(link.url)
            elif kind and link.type == REDIRECT:
                moved.append(link.url)
            elif not link.nofollow or link.type == "canonical":
                urls.append(link.url)
        found = self._offers.numbers(urls, self._seeds.scope.linked, depth, origin=page.no)
        numbers = [number for number in found if number != page.no]
        if exact and self._hops and not any(link.type == REDIRECT for link in links):
            self._reached(numbers)
        self._offers.offer(numbers, depth)
        for listed, nesting in ((moved, kind), (sitemaps, kind + 1)):
            # A top-level sitemap may move to any host, because robots.txt may name any host.
            hosts = [page.host, *(map(url_host_key, listed) if nesting == 1 else ())]
            if listed and nesting > MAX_NESTING:
                whole = False
                self._shortcomings.count("sitemap_nesting", listed[0])
            elif listed:
                numbers += self._sitemaps.offer(
                    listed, hosts, origin=page.no, kind=nesting, depth=depth
                )
        return list(dict.fromkeys(numbers)), whole and not self._offers.budget.hit


def _new_content(visit: Visit) -> bytes | None:
    """Return the hash of the content of a page that has none stored; None: it is no such page."""
    is_new = visit.page.state.standing is Standing.BARE and visit.http_status == 200
    return visit.parsed.content_hash if is_new else None
