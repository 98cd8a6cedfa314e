"""The spellings of one address: asked one after another, until one of them brings the page."""

from __future__ import annotations

from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import Trackers
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.spellings import find_displaced_rows, untried_spelling_rows
from smartcrawl.rules.model import Outcome, Standing
from smartcrawl.rules.spellings import BROUGHT, asks_other_spelling, deciding_spelling, denies_page
from smartcrawl.run.batches import Batches
from smartcrawl.run.due import DuePages
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.frontier.memory import FrontierDepths
from smartcrawl.run.links import Links, SignedUrls
from smartcrawl.run.offers import AddressBook
from smartcrawl.run.seeds import Seeds
from smartcrawl.sources.base import Source


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
