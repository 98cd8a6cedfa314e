"""The pages of one run that wait until its queue is empty (ADR 37, 93)."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from smartcrawl.extract.hashes import text_hash_without_ids
from smartcrawl.model.documents import Document
from smartcrawl.model.pages import Collapse, Page, PageAnswer, Traffic, Visit
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.commit.snapshot_store import pack_stored_snapshot, unpack_stored_snapshot
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.model import Outcome, Standing
from smartcrawl.run.batches import Batches
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.frontier import FrontierDepths
from smartcrawl.run.links import Links

#: The fields of an answer that wait beside its body.
_HEADERS = (
    "content_length", "etag", "last_modified", "content_type", "content_encoding",
)  # fmt: skip


def collapse_in_run(visit: Visit, document: Document, *, shrank: bool, repeated: bool) -> Collapse:
    """Return the part of a doubtful page's answer that waits for the decision.

    ``shrank``: whether less than a tenth of its text is left. ``repeated``: whether another page
    got its text, and does not wait.

    >>> from smartcrawl.rules.model import Outcome
    >>> visit = Visit(Page(1, "http://a.example/", "a.example", 0), Outcome.CHANGED)
    >>> json.loads(collapse_in_run(visit, Document(), shrank=True, repeated=False).answer)["url"]
    ''
    """
    answer: dict[str, Any] = {
        "url": visit.url,
        "http_status": visit.http_status,
        "conditional": visit.traffic.conditional,
    }
    answer |= {name: getattr(visit.answer, name) for name in _HEADERS}
    answer["robots_tags"] = list(visit.answer.robots_tags)
    return Collapse(
        text_hash_without_ids(document),
        json.dumps(answer),
        pack_stored_snapshot(visit.answer.body or b""),
        shrank,
        repeated,
        visit.parsed.content_hash,
    )


class Collapses:
    """Decides once about the collapsed pages of a run, and makes visits of the accepted ones."""

    def __init__(
        self,
        *,
        registry: Registry,
        opened: OpenRun,
        links: Links,
        frontier: FrontierDepths,
        extractions: ExtractionPlan,
        batches: Batches,
    ) -> None:
        self._registry = registry
        self._run = opened.no
        self._links = links
        self._frontier = frontier
        self._extractions = extractions
        self._batches = batches
        self._tried: set[int] = set()  #: numbers of pages that this process took before
        self.accepted: deque[int] = deque()  #: numbers of pages to commit

    @property
    def waiting(self) -> int:
        """The number of collapsed pages that wait."""
        return len(collapsed.waiting_collapsed_rows(self._registry.connection, self._run))

    @property
    def undecided(self) -> bool:
        """Whether a page that collapses now has to wait: the run has not decided yet."""
        return collapsed.has_undecided_rows(self._registry.connection, self._run)

    def settle(self, now: int) -> None:
        """Decide, unless that was done, and offer the old links of withheld pages.

        All visits are in the registry afterwards. ``accepted`` has the accepted pages that were
        not committed yet. ``now`` is Unix seconds.

        Raises:
            RegistryError: the registry cannot be written, or another worker closed the run.
        """
        self._write(now)
        self._registry.collapsed.decide(self._run)
        waiting = collapsed.waiting_collapsed_rows(self._registry.connection, self._run)
        accepted = [no for no, taken in waiting.items() if taken and no not in self._tried]
        self.accepted = deque(accepted)
        withheld = [no for no in waiting if no not in accepted]
        if withheld:
            self.release(withheld, now)

    def release(self, numbers: list[int], now: int) -> None:
        """Offer the old links of withheld pages, which wait no more.

        Raises:
            RegistryError: the registry cannot be written, or another worker closed the run.
        """
        for page in self._pages(numbers):
            self._links.replay(page)
        self._write(now)
        self._registry.collapsed.drop(self._run, numbers)

    def take(self) -> Visit | None:
        """Return the next visit to commit; None: no page is left."""
        while self.accepted:
            number = self.accepted.popleft()
            self._tried.add(number)
            found = collapsed.read_collapsed_row(self._registry.connection, number)
            pages = self._pages([number])
            if found is not None and pages and pages[0].state.standing is Standing.HELD:
                return _visit(pages[0], found)
        return None

    def _write(self, now: int) -> None:
        self._batches.submit(now)
        self._batches.drain()

    def _pages(self, numbers: list[int]) -> list[Page]:
        """Return pages out of the registry, at the depth that the run found for them."""
        pages = self._links.pages(numbers)
        for page in pages:
            self._extractions.configure(page)
            page.depth = self._frontier.depth_of_visited(page)
        return pages


def _visit(page: Page, collapse: Collapse) -> Visit:
    answer: dict[str, Any] = json.loads(collapse.answer)
    return Visit(
        page=page,
        outcome=Outcome.CHANGED,
        http_status=answer["http_status"],
        url=answer["url"],
        accepted=True,
        traffic=Traffic(conditional=answer["conditional"]),
        answer=PageAnswer(
            body=unpack_stored_snapshot(collapse.body),
            robots_tags=tuple(answer["robots_tags"]),
            **{name: answer[name] for name in _HEADERS},
        ),
    )
