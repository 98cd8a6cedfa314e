"""One run of one source: what is asked next, where links lead, what is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import urlsplit

from smartcrawl.addresses import AddressBook, Found, Register
from smartcrawl.exceptions import RegistryError, SmartcrawlError
from smartcrawl.frontier import Frontier
from smartcrawl.items import Address, HostTally, Link, Page, StoredRobots, Visit
from smartcrawl.ledger import Ledger
from smartcrawl.options import Options
from smartcrawl.orders import Orders, belongs, closing_of, policy_of
from smartcrawl.registry.candidates import Ending
from smartcrawl.registry.lease import Lease
from smartcrawl.registry.pack import pack_links, pack_numbers, unpack_links, unpack_numbers
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.removal import Removed
from smartcrawl.registry.runs import OpenRun, RunResult, failed_seeds, tally
from smartcrawl.registry.sqlite import SqliteRegistry, Writer, open_registry
from smartcrawl.registry.visited import Judgement
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Standing
from smartcrawl.rules.seal import Evidence, reasons
from smartcrawl.sinks.sqlite import EmbeddedIndex
from smartcrawl.sources import Source
from smartcrawl.urls import Scope, host_key


class Run:
    """The context that scheduler, middlewares, spider and pipelines share."""

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        orders: Orders,
        registry: SqliteRegistry,
        opened: OpenRun,
        lease: Lease,
    ) -> None:
        self.source = source
        self.options = options
        self.orders = orders
        self.registry = registry
        self.opened = opened
        self.scope: Scope = source.scope
        self.max_depth = source.max_depth or options.depth_limit
        self.forced = opened.forced
        self.configuration = registry.fingerprint(options.configuration)
        self.cut_by: list[str] = []  #: why it will not have seen everything
        self.failure: SmartcrawlError | None = None
        self.result: RunResult | None = None
        self._lease = lease
        self._closed = False
        self._scope_no = registry.fingerprint(self.scope.fingerprint())
        self._reader: PageReader = registry.reader(opened.source)
        self.blocked_hosts = self._reader.blocked_hosts()
        single = len(self.scope.hosts) == 1 and not self.scope.domains
        self._left = orders.max_pages or source.max_pages or -1
        rank = self._reader.last_visits if self._left > 0 else None
        self.frontier = Frontier(self._load, single_host=single, rank=rank)
        self.frontier.grow(self._reader.last_number())
        self._book = AddressBook(self._reader, registry.new_number, options.trackers)
        judgement = Judgement(policy_of(options, orders), options.schedule)
        writer = Writer(registry, opened, configuration=self.configuration, judgement=judgement)
        self.ledger = Ledger(writer, written=self._book.committed)
        self._seeds: set[int] = set()
        self._relax_all = opened.resumed
        self._verify: Frontier | None = None  #: what was not reached and is looked at
        self._reasons: tuple[str, ...] | None = None  #: as they stood before that
        self.watcher: Callable[[dict[str, Any]], None] | None = None  #: of progress events
        self._moved: frozenset[str] = frozenset()  #: hosts that a seed moved the scope to

    @classmethod
    def open(cls, source: Source, options: Options, orders: Orders, now: int) -> Self:
        """Open a run of ``source``, or go on with its last one.

        Raises:
            RunHeldError: another process crawls this source.
            RegistryError: the registry cannot be opened or written.
        """
        registry = open_registry(options.registry, EmbeddedIndex)
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        lease = Lease.take(options.registry.parent / "leases", source.name, since)
        try:
            registry.end_last(source.name, closing_of(source, options, orders), now)
            opened = registry.open_run(
                source=source.name,
                kind=source.kind,
                now=now,
                resume=orders.resume,
                forced=orders.force,
                declared=not source.ad_hoc,
            )
            run = cls(
                source=source,
                options=options,
                orders=orders,
                registry=registry,
                opened=opened,
                lease=lease,
            )
            run._begin(now)
        except BaseException:
            lease.release()
            raise
        return run

    def _begin(self, now: int) -> None:
        """Offer the seeds, and on resume whatever was reached and not visited."""
        if self.opened.resumed:
            self.frontier.mark_all(self._reader.visited(self.opened.no))
            for number, depth in self._reader.pending(self.opened.no):
                self.frontier.offer([number], depth)
        seeds = self._book.numbers(self.source.seeds, self.scope, self._register(None, 0))
        self._offer(seeds, 0)
        self._seeds = set(seeds)
        if self.opened.resumed:
            self._follow_seeds(seeds)
            if self._left > 0:
                visits, _, _ = tally(self.registry.connection, self.opened.no)
                self._left = max(0, self._left - visits)
        pins = [no for no, url in self._reader.pins() if self.scope.allows(url)]
        self._offer(pins, 0)
        self.ledger.submit(now)
        self.ledger.drain()
        self.registry.add_seeds(self.opened.no, list(self._seeds))
        self.registry.add_seeds(self.opened.no, pins, pinned=True)

    def _follow_seeds(self, seeds: Sequence[int]) -> None:
        """Find the scope where seeds that this run asked before it was interrupted moved it."""
        asked = list(seeds)
        for _ in range(MAX_REDIRECTS):
            targets = self._reader.redirects(asked, self.opened.no)
            for number, (target, _) in targets.items():
                self.seed_moved(number, target)
            asked = [no for _, no in targets.values() if no is not None]
            self._seeds.update(asked)

    # What is asked next

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page to ask for, or None when there is none now."""
        if self.failure:
            return None
        if self._verify is not None:
            return self._verify.next(free)
        if self._left == 0:
            return None
        page = self.frontier.next(free)
        if page is not None and self._left > 0:
            self._left -= 1
        return page

    @property
    def pending(self) -> bool:
        """Whether there are pages left that this run may ask for."""
        if self.failure:
            return False
        if self._verify is not None:
            return bool(len(self._verify))
        return bool(len(self.frontier)) and self._left != 0

    def _load(self, numbers: Sequence[int]) -> list[Page]:
        pages = self._book.pages(numbers, self.opened.last_complete)
        refiltered = [
            page.no for page in pages if page.targets is not None and page.scope != self._scope_no
        ]
        raw = self._reader.raw_links(refiltered) if refiltered else {}
        for page in pages:
            offered = self.frontier.depth(page.no)
            if self.forced or page.depth >= offered:
                page.depth = offered
            else:
                self.frontier.mark(page.no, page.depth)
            page.raw = raw.get(page.no)
        return pages

    def begin_verify(self, now: int) -> bool:
        """Look at what was not reached for long enough, if the run saw everything.

        Returns whether there is anything to look at; later calls return False.
        """
        if self._verify is not None:
            return False
        self.ledger.submit(now)
        self.ledger.drain()
        self._verify = Frontier(self._load_to_verify)
        self._reasons = reasons(self._evidence())
        if self._reasons:
            return False
        self.registry.begin_verify(self._ending(now))
        self._verify.grow(self._reader.last_number())
        self._verify.offer(self._reader.to_verify(self.opened.no), 0)
        return self.pending

    def _load_to_verify(self, numbers: Sequence[int]) -> list[Page]:
        pages = self._book.pages(numbers, self.opened.last_complete)
        for page in pages:
            page.verify = True
        return pages

    def _ending(self, now: int) -> Ending:
        closing = closing_of(self.source, self.options, self.orders)
        closing = replace(closing, in_scope=self._in_scope)  # a seed may have moved it
        return Ending(self.opened.no, self.opened.source, now, closing)

    def _in_scope(self, url: str, depth: int) -> bool:
        inside = self.scope.allows(url) or belongs(self.source, url)
        return inside and not (self.max_depth and depth > self.max_depth)

    # Where links lead

    def follow(
        self,
        visit: Visit,
        links: Iterable[Link],
        *,
        same_depth: bool = False,
        canonical: str | None = None,
    ) -> None:
        """Offer the links of a new body, and keep them packed on the visit to be stored.

        ``canonical``, absolute, is what the page names as its better address (M-20).
        """
        listed = list(links)
        visit.links, visit.links_count = pack_links(listed), len(listed)
        depth = self.frontier.depth(visit.page.no) + (not same_depth)
        if self.max_depth and depth > self.max_depth:
            return
        visit.targets = pack_numbers(self._targets(listed, visit.page.no, depth))
        visit.scope = self._scope_no
        visit.canonical_no = self._canonical(canonical, visit.page.no, depth)

    def _canonical(self, url: str | None, origin: int, depth: int) -> int | None:
        """Return the number of what a page names as canonical, if that is another in scope."""
        if url is None:
            return None
        found = self._book.numbers([url], self.scope, self._register(origin, depth))
        return next((number for number in found if number != origin), None)

    def stands_aside(self, visit: Visit) -> bool:
        """Whether a page still names the canonical page it stood aside for, and that is indexed."""
        number = visit.canonical_no
        return (
            number is not None
            and number == visit.page.canonical_no
            and visit.page.standing is Standing.LINKS
            and self._reader.leads_to_indexed(number, visit.page.no)
        )

    def replay(self, visit: Visit) -> None:
        """Offer the stored links of a page, filtered by today's scope (M-02; design.md 8)."""
        page = visit.page
        depth = self.frontier.depth(page.no) + 1
        if page.targets is None or (self.max_depth and depth > self.max_depth):
            return
        if page.scope == self._scope_no:
            self._offer(unpack_numbers(page.targets), depth)
            return
        raw = page.raw if page.raw is not None else self._reader.raw_links([page.no])[page.no]
        links = unpack_links(raw)
        targets = pack_numbers(self._targets(links, page.no, depth))
        named = next((link.url for link in links if link.type == "canonical"), None)
        number = page.canonical_no
        if page.standing is Standing.HELD:  # what stands aside is judged by what it was read as
            number = self._canonical(named, page.no, depth)
        self.ledger.batch.retargeted.append((page.no, self._scope_no, targets, number))

    def _targets(self, links: Iterable[Link], origin: int, depth: int) -> list[int]:
        urls = [link.url for link in links if not link.nofollow or link.type == "canonical"]
        found = self._book.numbers(urls, self.scope, self._register(origin, depth))
        numbers = [number for number in found if number != origin]
        self._offer(numbers, depth)
        return numbers

    def _register(self, origin: int | None, depth: int) -> Register:
        def register(found: Found) -> None:
            address = Address(*found, depth, origin)
            self.frontier.grow(found.no)
            self.ledger.batch.addresses.append(address)
            self._book.remember(address)

        return register

    def _offer(self, numbers: Sequence[int], depth: int) -> None:
        reached = self.ledger.batch.reached
        for number in self.frontier.offer(numbers, depth):
            if not self._book.is_new(number) or number in self.frontier.lowered:
                reached[number] = depth

    def relax(self) -> None:
        """Hand on the depth of pages that turned out to lie nearer than when they were asked."""
        if self._relax_all:  # what was still to be handed on died with the process
            self._relax_all = False
            for number, _ in self._reader.visited(self.opened.no):
                self._hand_on(number)
        while self.frontier.lowered:
            self._hand_on(self.frontier.lowered.pop())

    @property
    def relaxed(self) -> bool:
        """Whether there is no depth left to hand on."""
        return not (self._relax_all or self.frontier.lowered)

    def _hand_on(self, number: int) -> None:
        stored = self._reader.targets(number)
        if stored is None:
            return
        scope, targets, same_depth = stored
        depth = self.frontier.depth(number) + (not same_depth)
        if self.max_depth and depth > self.max_depth:
            return
        if scope == self._scope_no:
            self._offer(unpack_numbers(targets), depth)
        else:
            raw = self._reader.raw_links([number])[number]
            self._targets(unpack_links(raw), number, depth)

    def endpoints(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that were given by hand as seeds, moved or not."""
        parts = [urlsplit(url) for url in self.source.seeds]
        parts += [urlsplit(f"{part.scheme}://{host}") for part in parts for host in self._moved]
        default = {"http": 80, "https": 443}
        return [(part.hostname or "", part.port or default[part.scheme]) for part in parts]

    def is_seed(self, number: int) -> bool:
        """Whether a page is a seed of this run, or what a seed redirected to."""
        return number in self._seeds

    def seed_moved(self, number: int, target: str) -> bool:
        """Follow a seed's redirect to the same host with or without ``www.``.

        Only an ad-hoc source moves: a declared one says itself where it lies. Returns
        whether the scope moved.
        """
        moved = self.scope.moved_to(target) if self.source.ad_hoc else None
        if moved is None or not self.is_seed(number):
            return False
        self.scope = moved
        self._moved = moved.hosts
        self._scope_no = self.registry.fingerprint(moved.fingerprint())
        self._book.forget()
        return True

    def follow_redirect(self, visit: Visit, target: str) -> None:
        """Record where a redirect leads and offer its target at the same depth (M-21)."""
        visit.location = target
        self.follow(visit, [Link(target, "", "redirect", False)], same_depth=True)
        if visit.targets and self.is_seed(visit.page.no):
            self._seeds.update(unpack_numbers(visit.targets))

    def stored_robots(self, origin: str) -> StoredRobots | None:
        """Return the last robots.txt of an origin that could be read, in any run."""
        return self._reader.robots(origin)

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Keep what the robots.txt of an origin says; ``crawl_delay`` in seconds."""
        self.ledger.batch.robots[origin] = robots
        tally_ = self.ledger.batch.hosts.setdefault(host_key(origin), HostTally())
        tally_.robots = hashlib.sha256(robots.body).digest()
        tally_.crawl_delay_ms = None if crawl_delay is None else round(1000 * crawl_delay)

    def incomplete(self, reason: str) -> None:
        """Note why this run will not have seen everything, such as ``host_down: a.example``."""
        if reason not in self.cut_by and self._reasons is None:
            self.cut_by.append(reason)

    # What is written

    def stored_hash(self, page: Page) -> bytes | None:
        """Return the content hash of what is held of a page."""
        return self._reader.content_hash(page.no) if page.standing is not Standing.BARE else None

    # How it ends

    def finish(self, reason: str, now: int) -> RunResult:
        """Seal a run that ended by itself, close any other as interrupted; report it.

        ``reason`` is Scrapy's: ``finished``, ``shutdown``, or what closed the spider.
        """
        try:
            self._flush(now)
            if self.failure is not None or reason == "shutdown":
                why = str(self.failure) if self.failure else "interrupted"
                self.result = self.registry.interrupt(self.opened, (why,), now)
            else:
                found = self._reasons if self._reasons is not None else reasons(self._evidence())
                if reason != "finished":
                    found = (reason, *found)
                self.result = self.registry.end(self._ending(now), found, self._removed)
        finally:
            self.close()
        return self.result

    def _removed(self, removed: list[Removed]) -> None:
        if self.watcher is not None:
            for page in removed:
                self.watcher(
                    {
                        "url": page.url,
                        "pageId": page.no,
                        "depth": page.depth,
                        "status": page.status,
                        "outcome": page.word,
                        "deleted": True,
                    }
                )

    def _flush(self, now: int) -> None:
        if self.failure is None:
            try:
                self.ledger.submit(now)
                self.ledger.drain()
            except RegistryError as error:
                self.failure = error

    def _evidence(self) -> Evidence:
        connection = self.registry.connection
        visits, unreachable, pending = tally(connection, self.opened.no)
        if pending and self._left == 0:
            self.incomplete("max_pages")
        return Evidence(
            seeds_failed=(*self._outside(), *failed_seeds(connection, self.opened.no)),
            cut_by=tuple(self.cut_by),
            visits=visits,
            unreachable=unreachable,
            pending=pending,
        )

    def _outside(self) -> tuple[str, ...]:
        """Return the seeds that the source's own scope leaves out."""
        scope = self.source.scope
        return tuple(f"{url} (out of scope)" for url in self.source.seeds if not scope.allows(url))

    def close(self) -> None:
        """Let go of files and of the lease; what was committed stays."""
        if self._closed:
            return
        self._closed = True
        self.ledger.close()
        self._reader.close()
        self.registry.give_back()
        self.registry.close()
        self._lease.release()


def run_of(crawler: Any) -> Run | None:
    """Return the run of a Scrapy crawler's spider; None for a spider that has none."""
    return getattr(crawler.spider, "run", None)
