"""The pages that a due crawl asks for, and the others, which count as reached (M-11, U-16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from smartcrawl.model.documents import Link
from smartcrawl.model.pages import NAMES_SIGNED, Page
from smartcrawl.rules.model import Extraction, Standing, Status
from smartcrawl.rules.schedule import is_due, modified_by_lastmod
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.frontier.memory import Frontier
from smartcrawl.run.links import Links
from smartcrawl.run.seeds import Seeds

SKIPPED: Final = 1
ASKED_AFTER_ALL: Final = 2  #: it was skipped before


class DuePages:
    """Chooses the pages that are due; the others are skipped and count as reached.

    The stored links of a skipped page are followed, so that the pages behind it are found.
    """

    def __init__(  # noqa: PLR0917  # all are parts of one run
        self,
        links: Links,
        seeds: Seeds,
        frontier: object,
        extractions: ExtractionPlan,
        batches: Batches,
        now: int,
    ) -> None:
        """``frontier``: one in memory. ``now``: Unix seconds."""
        assert isinstance(frontier, Frontier), "one process alone asks for due pages"
        self.skipped = 0  #: pages
        self._skipped = bytearray()  #: by number
        self._links = links
        self._seeds = seeds
        self._frontier = frontier
        self._extractions = extractions
        self._batches = batches
        self.now = now  #: Unix seconds at which the run began
        self._modified: dict[int, int] = {}  #: Unix seconds of the last change, as sitemaps say

    def due(self, pages: Iterable[Page]) -> list[Page]:
        """Return those pages that are due; skip the others."""
        asked = []
        for page in pages:
            if self._is_due(page):
                asked.append(page)
            else:
                self._skip(page)
        if self._batches.batch.full:
            self._batches.submit(self.now)
            self._batches.collect()
        return asked

    def _is_due(self, page: Page) -> bool:
        state = page.state
        modified = self._modified.get(page.no)
        return (
            state.ordered
            or page.record.signs & NAMES_SIGNED
            > 0  # its signed links can be read from its body alone
            or (_needs_a_visit(page) and not state.error_count)
            or state.last_checked is None
            or is_due(state.next_visit, state.last_checked, self.now)
            or (modified is not None and modified > state.last_checked)
        )

    def _skip(self, page: Page) -> None:
        if page.no >= len(self._skipped):
            self._skipped.extend(bytes(len(self._frontier.reached) - len(self._skipped)))
        if not self._skipped[page.no]:
            self._batches.batch.skipped.append(page.no)
            if page.record.moved:
                self._seeds.follow_stored(page)
        self._skipped[page.no] = SKIPPED
        self.skipped += 1
        if page.plan.extraction is Extraction.AGAIN:
            self._extractions.again.put(page.no)
        if page.kind or page.state.status is not Status.OUT_OF_SCOPE:
            self._links.replay(page)

    def notice(self, entries: Iterable[Link], stored: Sequence[Link]) -> None:
        """Bring forward the pages that a sitemap reports as modified since it was read last.

        An entry with an unchanged lastmod is no news, whatever time it states. ``stored``: the
        entries that the sitemap had before.
        """
        before = {link.url: link.anchor for link in stored}
        news: dict[str, int] = {}
        for link in entries:
            if link.anchor and link.anchor != before.get(link.url):
                modified = modified_by_lastmod(link.anchor, self.now)
                if modified is not None:
                    news[link.url] = modified
        for number, modified in self._links.numbers_of(news).items():
            self._modified[number] = modified
            self._batches.batch.noticed.append((number, modified))
            if self.asks_after_all(number):
                self._frontier.again(number)

    def asks_after_all(self, number: int) -> bool:
        """Count a page as asked; return whether it was skipped before."""
        if number >= len(self._skipped) or self._skipped[number] != SKIPPED:
            return False
        self._skipped[number] = ASKED_AFTER_ALL
        self.skipped -= 1
        return True


def _needs_a_visit(page: Page) -> bool:
    """Whether today's configuration asks for more than the page's snapshot can give."""
    plan = page.plan
    match plan.extraction:
        case Extraction.STANDS:
            return False
        case Extraction.REFUSED:
            return not page.record.noted  # asked once: its removal may wait for approval
        case Extraction.AGAIN:
            return page.state.standing is not Standing.HELD
        case Extraction.WHOLE:
            return not plan.waits
        case _:
            assert_never(plan.extraction)
