"""The way of a Visit through its run: settled among its spellings, read, and judged."""

from __future__ import annotations

from collections.abc import Callable

from smartcrawl.model.exceptions import GivenUpError, RegistryError
from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Action
from smartcrawl.rules.reindex import Verdict
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.reading import Reading, run_verdict_of_visit
from smartcrawl.run.run import Run


class VisitSteps:
    """The steps that the pipelines of a crawl take, as does a run of tests without a network."""

    def __init__(
        self, run: Run, reading: Reading, damaged: Callable[[RegistryError], None]
    ) -> None:
        """``damaged`` ends the run, because its registry cannot be read or written."""
        self._run = run
        self._reading = reading
        self._damaged = damaged

    async def read(self, visit: Visit) -> Visit | NextRequest | None:
        """Fill in a Visit, and return the one that counts, or the request with which it goes on.

        An answer that does not bring the page waits while another spelling of the address is
        asked. None: the visit has no end that is to be stored.

        Raises:
            GivenUpError: the run ended before its document was read; the page stays pending.
        """
        run, reading = self._run, self._reading
        if visit.attempt is not None and visit.attempt.away is not None:  # on the way
            visit = reading.on_the_way(visit)
            if visit.respelled is not None:
                return _postponed(visit, *visit.respelled)
        settled = run.spellings.settled(visit)
        if settled is None:
            return _postponed(visit, run.spellings.following(visit))
        visit = settled
        if visit.page.plan.verify:
            return visit
        try:
            self._note(await reading.take(visit))
            if visit.respelled is not None:
                return _postponed(visit, *visit.respelled)
            if run.spellings.is_open(visit):  # its body is no page
                settled = run.spellings.settled(visit)
                if settled is None:
                    return _postponed(visit, run.spellings.following(visit))
                visit = settled
                self._note(await reading.take(visit))
        except GivenUpError:
            if not (visit.again or visit.accepted):
                run.turns.unanswered(visit.page)
            raise
        if visit.page.plan.late and run.spellings.adds_nothing(visit):
            visit.postponed = True
            return None
        return visit

    def _note(self, damage: RegistryError | None) -> None:
        if damage is not None:
            self._damaged(damage)


def judge_run_visit(run: Run, visit: Visit) -> Verdict:
    """Set the verdict of the rules on a Visit, and return it.

    The look at an unreached page gets none.
    """
    visit.verdict = verdict = run_verdict_of_visit(run, visit)
    if verdict.action is not Action.INDEX:
        visit.parsed.chunks = []
    return verdict


def _postponed(visit: Visit, url: str, cookie: str = "") -> NextRequest:
    visit.postponed = True
    return NextRequest(url, cookie)
