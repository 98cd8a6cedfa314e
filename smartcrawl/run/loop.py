"""The loop of a run without an engine: one page after the other, then the steps of its end.

A rehearsal takes this way (``rehearsal.py``), and so do the runs of tests without a network. The
answers come from the class below; everything that decides is the run's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from smartcrawl.extract.robots_txt import robots_txt_sitemaps
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import RegistryError, SinkError, SmartcrawlError
from smartcrawl.model.pages import Page, Visit
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.reading import Reading, VisitSteps, judge_run_visit
from smartcrawl.run.run import Run
from smartcrawl.run.visits import unasked_visit

_PORTION: Final = 40  #: pages that are extracted again with one statement


class RunLoop(ABC):
    """Takes a run from its first page to its end; ``now`` is Unix seconds.

    Waiting costs no time: a host that is to be left alone is, by the clock of the loop.
    """

    def __init__(self, run: Run, now: int) -> None:
        self._run = run
        self._now = now
        self._clock = 0.0  #: monotonic seconds of this run

    async def to_the_end(self) -> None:
        """Take the whole run; its result, or its failure, is in it afterwards."""
        run = self._run
        reading = Reading(
            run,
            is_soft_404=self._is_soft_404,
            scope_moved=lambda: None,
            is_stopping=lambda: False,
        )
        self._steps = VisitSteps(run, reading, self._fail)
        if run.due_pages is not None:
            run.sitemaps.named_before(robots_txt_sitemaps)
        run.start(lambda: None, self._fail)
        try:
            if not run.opened.over:
                await self._crawl()
        except (RegistryError, SinkError) as error:
            self._fail(error)
        finally:
            await reading.close()
        try:
            with run.registry.database.translated("write"):
                run.finish("finished", self._now)
        except (RegistryError, SinkError) as error:
            self._fail(error)

    def _fail(self, error: SmartcrawlError) -> None:
        self._run.failure = self._run.failure or error

    async def _crawl(self) -> None:
        """Ask all pages, and take the last steps until none of them finds another page."""
        run, late = self._run, list[Page]()
        steps = (run.ending.settle_collapsed, lambda now: late.extend(self._late_spellings(now)))
        await self._ask_pages()
        found = True
        while found and run.failure is None:
            found = False
            for step in (run.begin_batch, *run.ending.steps(*steps)):
                with run.registry.database.translated("read"):
                    step(self._now)
                while (edit := run.collapses.take()) is not None:
                    found = True
                    await self._take(edit)
                for page in late:
                    found = True
                    await self._visit(page)
                late.clear()
                if await self._ask_pages():
                    found = True
                if found:
                    break

    async def _ask_pages(self) -> bool:
        """Ask every page that there is now; return whether there was one."""
        run, found = self._run, False
        while run.failure is None:
            page = run.next_page(self._may_ask)
            if page is not None:
                found = True
                await self._visit(page)
            elif run.due_pages is not None and (again := run.extractions.take(_PORTION)):
                found = True
                for page in again:
                    await self._take(unasked_visit(page))
            elif await self._waits():
                continue
            elif run.pending and (wait := run.gate.next_turn(self._clock)) is not None:
                self._clock += wait
            elif not run.turns.resting:
                return found
        return found

    async def _take(self, visit: Visit) -> NextRequest | None:
        """Read, judge and commit a Visit; return the request with which it goes on instead."""
        run, found = self._run, await self._steps.read(visit)
        if not isinstance(found, Visit):
            return found
        if found.page.plan.verify:
            run.batches.probe(found)
        else:
            judge_run_visit(run, found)
            run.batches.record(found)
            found.traffic.is_recorded = True
        if run.batches.batch.full:
            await run.batches.flush(self._now)
        return None

    def _may_ask(self, host: str) -> bool:
        return self._run.gate.may_ask(host_gate_slot(host), self._clock)

    def _late_spellings(self, now: int) -> list[Page]:
        """Return the pages to ask again, each at another spelling."""
        return self._run.ending.late_spellings(now)

    async def _waits(self) -> bool:
        """Wait for what may bring pages beside the answers; return False if there is nothing."""
        return False

    @abstractmethod
    async def _visit(self, page: Page) -> None:
        """Take a page from its first request to the batch that its Visit is in."""

    @abstractmethod
    async def _is_soft_404(self, visit: Visit, document: Document) -> bool:
        """Whether a page is the one that its host has for missing pages."""
