"""The end of a run: last links, pages to verify, evidence, and the seal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.registry.removal.settle import wall_reason_rows
from smartcrawl.registry.removal.sweep import RemovedRecordRow
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.registry.runs.runs import (
    count_run_rows,
    count_silent_rows,
    failed_pin_rows,
    failed_seed_rows,
    failed_sitemap_rows,
    kept_back_rows,
)
from smartcrawl.rules.run_orders import INTERRUPTED
from smartcrawl.rules.seal import (
    OUTSIDE,
    Evidence,
    page_limit_reason,
    reasons_against_seal,
)
from smartcrawl.run.batches import Batches
from smartcrawl.run.collapses import Collapses
from smartcrawl.run.freshness import plan_source_visits
from smartcrawl.run.frontier import Frontier
from smartcrawl.run.links import DepthUpdates, Links
from smartcrawl.run.orders import Orders, run_closing_from_orders, run_policy_from_orders
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.site_lists import SiteLists
from smartcrawl.run.spellings import DuePages, LateSpellings
from smartcrawl.run.workers import Workers
from smartcrawl.sources.base import Source, belongs_to_source
from smartcrawl.sources.site import source_freshness


class RunEnding:
    """The last steps of a run, each taken when nothing else is left to ask for.

    Only the process that ends the run takes them.
    """

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        orders: Orders,
        registry: Registry,
        workers: Workers,
        readers: RegistryReaders,
        links: Links,
        seeds: Seeds,
        depths: DepthUpdates,
        collapses: Collapses,
        due_pages: DuePages | None,
        late: LateSpellings,
        batches: Batches,
        shortcomings: Shortcomings,
        site_lists: SiteLists,
    ) -> None:
        self.verifies = False  #: whether unreached pages are being looked at
        self.reasons: tuple[str, ...] | None = None  #: why it is incomplete, before it verified
        self.ended_here = False  #: whether this process ended it, not another worker
        self._source = source
        self._options = options
        self._orders = orders
        self._registry = registry
        self._opened = workers.opened
        self._workers = workers
        self._last = workers.last_steps
        self._readers = readers
        self._links = links
        self._seeds = seeds
        self._depths = depths
        self._collapses = collapses
        self._due_pages = due_pages
        self._late = late
        self._batches = batches
        self._shortcomings = shortcomings
        self._site_lists = site_lists
        self._unnamed_followed = False

    def steps(
        self, edits: Callable[[int], object], late: Callable[[int], object]
    ) -> Iterator[Callable[[int], object]]:
        """Yield the steps of a run that has nothing left to ask for, each of which may find pages.

        ``edits`` decides about the collapsed pages that wait, and has the edits read. ``late`` asks
        the spellings that were met late. Each step takes the time in Unix seconds.
        """
        yield from (self.relax, self.follow_unnamed, self.relax, edits, self.relax)
        yield from (late, self.relax, self.begin_verify)

    # Links that were not followed yet

    def relax(self, now: int) -> None:
        """Hand on depths that became smaller, and the links of pages read in another scope."""
        self._last.relax(self._depths, lambda: self._write(now))

    def follow_unnamed(self, now: int) -> None:
        """Follow, once, the stored links of sitemaps that no page and no robots.txt named."""
        if not self._last.ours:
            return
        if not (self.verifies or self._unnamed_followed):
            self._unnamed_followed = True
            self._write_all(now)
            self._depths.follow_unnamed()
        if self._opened.shared:  # other workers are offered only links that are written
            self._write(now)

    def settle_collapsed(self, now: int) -> None:
        """Decide, once, whether the collapsed pages that wait are edits."""
        if self._last.ours and not self.verifies:
            self._collapses.settle(now)

    def late_spellings(self, now: int) -> list[Page]:
        """Return pages to ask again, each at a spelling that was met after its visit had failed."""
        if not self._last.ours or self.verifies:
            return []
        self._write_all(now)
        return self._late.pages()

    def _write(self, now: int) -> None:
        self._batches.submit(now)
        self._batches.drain()

    def _write_all(self, now: int) -> None:
        """Write the open batch, and those that are filled while it is written."""
        self._write(now)
        while self._batches.batch:
            self._write(now)

    # Pages to verify

    def begin_verify(self, now: int) -> bool:
        """Look at pages that were not reached for long enough, if the run saw everything.

        Returns whether there is a page to look at; later calls return False.
        """
        if not self._last.ours or self.verifies:
            return False
        self._write_all(now)
        turns = self._workers.turns
        if turns.pending:  # the links of pages that could not be stored
            return False
        self.verifies = True
        frontier = Frontier(self._load_to_verify)
        turns.verify(frontier)
        self.reasons = reasons_against_seal(self._evidence())
        if self.reasons:
            return False
        if not self._registry.begin_verify(self._ending(now)):  # the run has an order
            return False
        frontier.grow(self._readers.pages.last_number())
        frontier.offer(self._readers.progress.to_verify(self._opened.no), 0)
        return turns.pending

    def _load_to_verify(self, numbers: Sequence[int]) -> list[Page]:
        pages = self._links.pages(numbers)
        for page in pages:
            page.plan.verify = True
        return pages

    # The seal

    def finish(
        self,
        reason: str,
        why: str | None,
        now: int,
        removed: Callable[[list[RemovedRecordRow]], None],
    ) -> RunResult:
        """Seal, settle and sweep the run, unless this process has to leave it as it is.

        An order that came before the seal is carried out instead. ``reason`` is Scrapy's.
        ``why``: the reason why this process cannot go on, None if it has
        nothing left to do. ``removed`` is called with the pages that the sweep removes.
        """
        result = self._last.leave(why, now)
        if result is not None:
            return result
        found = self.reasons if self.reasons is not None else reasons_against_seal(self._evidence())
        if reason != "finished":
            found = (reason, *found)
        ended = self._registry.end(self._ending(now), found, removed, shared=self._opened.shared)
        if ended is not None:
            if not found:
                self._site_lists.renew(self._opened.no, now)
            if (freshness := source_freshness(self._source)) is not None:
                schedule = self._options.schedule
                plan_source_visits(self._registry, self._opened, freshness, schedule, now)
            self._last.ended()
            self.ended_here = True
            return ended
        left = self._last.leave(INTERRUPTED, now)
        assert left is not None, "a process that cannot go on leaves the run"
        return left

    def _ending(self, now: int) -> EndingRunRow:
        closing = run_closing_from_orders(self._source, self._options, self._orders)
        closing = replace(closing, in_scope=self._in_scope)  # a seed may have moved it
        notes = self._last.notes(self._shortcomings)
        return EndingRunRow(self._opened.no, self._opened.source, now, closing, notes)

    def _in_scope(self, url: str, depth: int) -> bool:
        inside = self._seeds.scope.allows(url) or belongs_to_source(self._source, url)
        return inside and not self._links.is_outside(depth)

    def _evidence(self) -> Evidence:
        connection, run = self._registry.connection, self._opened.no
        visits, unreachable, pending = count_run_rows(connection, run)
        if self._source.traits.is_listed_first:
            unreachable = 0  # the listing was whole: what it names and cannot be had hides nothing
        skipped = self._due_pages.skipped if self._due_pages is not None else 0
        pending += self._collapses.waiting - skipped  # collapsed pages vouch for no link yet
        if pending and self._workers.turns.spent:
            self._shortcomings.add(page_limit_reason(self._orders.max_pages))
        self._links.note_beyond()
        since = self._opened.last_complete
        not_due = self._readers.progress.not_asked_since(run, since) if skipped else 0
        most = self._options.redirects.most
        optional = self._source.optional_seeds
        seeds = (*self._outside(), *failed_seed_rows(connection, run, most, optional))
        policy = run_policy_from_orders(self._options, self._orders)
        sitemaps = failed_sitemap_rows(
            connection, self._opened, self._seeds.given, most, policy.lost_threshold
        )
        return Evidence(
            seeds_failed=tuple(seed for seed in map(redacted_text, seeds) if self._asked(seed)),
            pins_failed=tuple(map(redacted_text, failed_pin_rows(connection, run))),
            cut_by=(*self._last.cut_by(self._shortcomings), *self._kept_back()),
            sitemaps_failed=tuple(map(redacted_text, sitemaps)),
            walls=tuple(map(redacted_text, wall_reason_rows(connection, run, visits))),
            visits=visits,
            unreachable=unreachable,
            pending=pending,
            skipped=skipped,
            not_due=not_due,
            silent=count_silent_rows(connection, run, since) if skipped else 0,
            is_empty=self._shortcomings.is_empty,
        )

    def _asked(self, seed: str) -> bool:
        """Whether a failed seed is to blame: not where the user's own code failed on it."""
        return seed.partition(" (")[0] not in self._shortcomings.without_visit

    def _kept_back(self) -> tuple[str, ...]:
        """Return the reason that stored pages are behind redirects that the limit excludes."""
        if not self._options.redirects.is_exact:
            return ()
        urls = kept_back_rows(self._registry.connection, self._opened.no)
        if not urls:
            return ()
        more = f" and {len(urls) - 1:,} more" if len(urls) > 1 else ""
        return (f"redirects_left: {redacted_text(urls[0])}{more}",)

    def _outside(self) -> tuple[str, ...]:
        """Return the seeds that the source's own scope leaves out."""
        scope = self._source.scope
        return tuple(f"{url} {OUTSIDE}" for url in self._source.seeds if not scope.allows(url))
