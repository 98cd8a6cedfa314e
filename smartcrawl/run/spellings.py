"""The spellings of one address, asked one after another, and the pages of a due crawl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from smartcrawl.model.documents import Link
from smartcrawl.model.pages import NAMES_SIGNED, Page, PageState, Visit, VisitAttempt
from smartcrawl.model.urls import Trackers, unsigned_url
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.spellings import find_displaced_rows, untried_spelling_rows
from smartcrawl.rules.model import Extraction, Outcome, Standing, Status
from smartcrawl.rules.schedule import is_due, modified_by_lastmod
from smartcrawl.rules.spellings import BROUGHT, asks_other_spelling, deciding_spelling, denies_page
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.freshness import BudgetOrder
from smartcrawl.run.frontier import Frontier, FrontierDepths
from smartcrawl.run.links import Links, SignedUrls
from smartcrawl.run.offers import AddressBook
from smartcrawl.run.seeds import Seeds
from smartcrawl.sources.base import Source

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
        self.budget: BudgetOrder | None = None  #: of the visits to stored pages
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
            or self._has_its_turn(page.no, state)
            or (modified is not None and modified > state.last_checked)
        )

    def _has_its_turn(self, number: int, state: PageState) -> bool:
        """Whether the budget chose a page; without a budget, whether the time has come."""
        chosen = None if self.budget is None else self.budget.is_chosen(number)
        if chosen is not None:
            return chosen
        return is_due(state.next_visit, state.last_checked, self.now)

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


class Spellings:
    """Chooses the next spelling of an address, and the answer that counts when none is left.

    The request address is asked first, then the other spellings, the newest first, each within
    the scope of links and under its own robots.txt.
    """

    def __init__(
        self,
        *,
        source: Source,
        seeds: Seeds,
        book: AddressBook,
        signed: SignedUrls,
        batches: Batches,
    ) -> None:
        """Take the parts of the run."""
        self._source = source
        self._seeds = seeds
        self._book = book
        self._signed = signed
        self._batches = batches

    def settled(self, visit: Visit) -> Visit | None:
        """Return the visit that counts; None: another spelling is to be asked (``following``).

        Call it for each answer, and again when its body proved to be that of an error page.
        """
        attempt, page = visit.attempt, visit.page
        if attempt is None or attempt.over or visit.outcome in BROUGHT:
            return visit
        if not self._has_spellings(page):
            return visit
        asked = attempt.spelling or _first(page)
        stored = page.state.standing is not Standing.BARE or page.record.was_held
        brought = asked == page.url and stored
        if not asks_other_spelling(visit.outcome, visit.http_status, brought=brought):
            return visit
        if self._next(page, attempt) is None and not (attempt.answers or page.plan.late):
            return visit  # it has one spelling
        attempt.answers.append(visit)
        if self._next(page, attempt) is None:
            return self._deciding(attempt)
        if visit.outcome is not Outcome.SOFT_404:
            visit.answer.body = None
        visit.postponed = True
        return None

    def is_open(self, visit: Visit) -> bool:
        """Whether a body that is no page, but an error or leads on, leaves open what counts."""
        attempt, page = visit.attempt, visit.page
        is_page = visit.outcome is not Outcome.SOFT_404 and not visit.refreshed
        if is_page or attempt is None or attempt.over:
            return False
        if not self._has_spellings(page):
            return False
        return bool(attempt.answers) or self._next(page, attempt) is not None

    def following(self, visit: Visit) -> str:
        """Begin with the next spelling after a postponed visit; return the address to request."""
        attempt = visit.attempt
        assert attempt is not None
        spelling = self._next(visit.page, attempt)
        assert spelling is not None, "settled() found one"
        attempt.begins(spelling)
        whole = self._signed.whole(spelling)
        return whole if whole is not None and unsigned_url(whole) == spelling else spelling

    def adds_nothing(self, visit: Visit) -> bool:
        """Whether a late visit only says again that the page is not there.

        What was tried is stored then, and the visit that this run committed stands.
        """
        page = visit.page
        if not (page.plan.late and denies_page(visit.outcome)):
            return False
        self._batches.count_late(visit)
        return True

    def _has_spellings(self, page: Page) -> bool:
        return not self._source.lists(page.url)

    def _next(self, page: Page, attempt: VisitAttempt) -> str | None:
        asked = {unsigned_url(url) for url in (*attempt.asked, *attempt.trail)}
        asked.add(attempt.spelling or _first(page))
        late = page.plan.late  # its request address was asked before
        own: tuple[str, ...] = () if late else (page.url,)
        for spelling in (*own, *self._book.spellings(page.no)):
            if spelling not in asked and self._allows(page, spelling):
                return spelling
        return None

    def _allows(self, page: Page, spelling: str) -> bool:
        return page.kind > 0 or self._seeds.scope.allows(spelling)

    @staticmethod
    def _deciding(attempt: VisitAttempt) -> Visit:
        attempt.over = True
        answers = [(answer.outcome, answer.http_status) for answer in attempt.answers]
        visit = attempt.answers[deciding_spelling(answers)]
        visit.postponed = False
        return visit


def _first(page: Page) -> str:
    """Return the spelling that a visit asks first."""
    plan = page.plan
    return plan.spelling or (page.url if plan.signed is None else unsigned_url(plan.signed))


class LateSpellings:
    """The pages of which this run met a spelling after their visit had failed."""

    def __init__(
        self,
        *,
        seeds: Seeds,
        registry: Registry,
        opened: OpenRun,
        links: Links,
        frontier: FrontierDepths,
        extractions: ExtractionPlan,
        due_pages: DuePages | None,
        trackers: Trackers,
    ) -> None:
        """Take the parts of the run."""
        self._seeds = seeds
        self._registry = registry
        self._opened = opened
        self._links = links
        self._frontier = frontier
        self._extractions = extractions
        self._due_pages = due_pages
        self._trackers = trackers
        self._taken: set[tuple[int, str]] = set()  #: numbers and spellings, so that each is once

    def pages(self) -> list[Page]:
        """Return the pages to ask now, each with the spelling to begin with.

        Everything that was met is in the registry.
        """
        connection, run = self._registry.connection, self._opened
        control = DatabaseControl(self._registry.database, connection)
        find_displaced_rows(control, run.source, run.no, self._trackers)
        scope = self._seeds.scope
        first: dict[int, str] = {}
        for number, urls in untried_spelling_rows(connection, run.source, run.no).items():
            left = [url for url in urls if (number, url) not in self._taken and scope.allows(url)]
            if left:
                first[number] = left[0]
                self._taken.update((number, url) for url in left)
        pages = self._links.pages(list(first))
        for page in pages:
            self._extractions.configure(page)
            page.depth = self._frontier.depth_of_visited(page)
            page.plan.spelling = first[page.no]
            page.plan.late = page.state.visited_run == run.no
            if self._due_pages is not None and not page.plan.late:
                self._due_pages.asks_after_all(page.no)
        return pages
