"""Depths that became smaller, and stored links, handed on to the pages that they lead to."""

from __future__ import annotations

from collections.abc import Iterable

from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.run.frontier.memory import FrontierDepths
from smartcrawl.run.links import Links
from smartcrawl.run.seeds import Seeds


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
