"""Pages that only a sitemap names: whatever becomes of it, they live as long as it is held.

Real runs over a registry in memory, and a model that was written from ADR 17.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smartcrawl import pipelines
from smartcrawl.extract import sitemaps
from smartcrawl.model.pages import Traffic, Visit
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.http import http_conditional_headers, outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.sources.site import SiteSource
from tests.choices import options
from tests.registry.build import NOW, at_once
from tests.registry.test_convergence import CRAWLER, DATA, empty_registry, in_memory, put_back
from tests.tiers import examples

HOST = "http://a.example"
MAP = f"{HOST}/map.xml"
FILLERS = 30  #: pages that are always linked, so that one failure is no outage
ONLY = (1, 2, 3)  #: pages that only the sitemap names
MOST = 2  #: addresses that are taken of a sitemap here
THRESHOLD = 2  #: of lost and of orphaned pages
SPOKEN = ("ok", "cut", "other", "gone")  #: answers that speak of the sitemap


@dataclass(frozen=True)
class Step:
    """One run: whether robots.txt names the sitemap, and what it answers."""

    named: bool = True
    answer: str = "ok"  #: ok, cut, other, gone, down, silent, robots
    pages: frozenset[int] = frozenset()


@dataclass
class Model:
    """What the sitemap and its pages are after each run."""

    links: frozenset[int] | None = None  #: that are held; None: it is not held
    cut: bool = False  #: whether it had more than are held
    brought: bool = False  #: whether it named pages once
    gone: int = 0
    absent: int = 0  #: complete runs since it was reached and allowed
    ages: dict[int, int] = field(default_factory=dict)  #: of pages that are held
    complete: bool = True

    def run(self, step: Step) -> None:
        """Let one run happen."""
        before = self.links
        reached = before or frozenset()
        self.complete = not self.cut
        if step.named and step.answer != "robots":
            self.absent = 0
        if step.named and step.answer == "ok":
            self.links, self.gone = frozenset(sorted(step.pages)[:MOST]), 0
            self.brought |= bool(step.pages or before)
            self.cut = len(step.pages) > MOST
            self.complete = not self.cut
            reached = self.links
        elif step.named and step.answer == "gone":
            self.gone += before is not None
            if self.brought and before is not None:
                self.complete &= self.gone >= THRESHOLD
        elif step.named and step.answer != "robots" and self.brought and before is not None:
            self.complete = False
        elif step.named and step.answer in ("down", "silent", "cut"):
            self.complete = before is not None and not self.cut
        self._age(reached)
        if before is not None and (not step.named or step.answer == "robots"):
            self.absent += self.complete
        if before is not None and self._goes(step):
            self.links, self.gone, self.absent, self.cut = None, 0, 0, False

    def _goes(self, step: Step) -> bool:
        if step.named and step.answer == "gone":
            return self.gone >= THRESHOLD
        away = not step.named or step.answer == "robots"
        long_enough = self.absent >= max(1, THRESHOLD - self.gone)
        looked_at = step.answer in (*SPOKEN, "robots")
        return away and self.complete and long_enough and looked_at

    def _age(self, reached: frozenset[int]) -> None:
        for page in ONLY:
            if page in reached:
                self.ages[page] = 0
            elif page in self.ages:
                self.ages[page] += self.complete
                if self.ages[page] >= THRESHOLD:
                    del self.ages[page]


class Player:
    """Plays steps over a registry."""

    def __init__(self) -> None:
        self.connection = empty_registry()
        self.now = NOW

    def play(self, step: Step) -> None:
        self.now += 1_000
        policy = Policy(lost_threshold=THRESHOLD, orphan_threshold=THRESHOLD)
        choices = options(DATA, sweep_max_ratio=1.0, policy=policy)
        source = SiteSource(name="docs", seeds=(f"{HOST}/",))
        run = Run.open(source, choices, Orders(), self.now)
        extract = pipelines.ExtractPipeline(CRAWLER, run)
        decide = pipelines.DecidePipeline(CRAWLER, run)
        run.sitemaps_named(HOST, [MAP] if step.named else [])
        while True:
            page = run.next_page(lambda _: True)
            if page is None:
                for end in (run.ending.follow_unnamed, run.ending.begin_verify):
                    if not run.pending:
                        end(self.now)
                if not run.pending:
                    break
                continue
            visit = self.ask(run, page, step)
            if page.plan.verify:
                run.batches.probe(visit)
            else:
                decide.process_item(at_once(extract.process_item(visit)))
                run.batches.record(visit)
        run.finish("finished", self.now)
        self.complete = run.result.complete

    def ask(self, run: Run, page, step: Step) -> Visit:
        headers = http_conditional_headers(page.record.etag, None, trusted=page.state.standing > 0)
        visit = Visit(
            page, Outcome.UNREACHABLE, url=page.url, traffic=Traffic(conditional=bool(headers))
        )
        visit.traffic.requests, visit.kind = 1, page.kind
        body, etag, status = self.answer(page.url, step)
        if status is None:
            visit.http_status, visit.error = int(Fault.RESET), "reset"
            return visit
        if status == 0:
            visit.outcome, visit.error, visit.traffic.requests = Outcome.EXCLUDED, "disallowed", 0
            return visit
        visit.http_status = 304 if etag and headers.get("If-None-Match") == etag else status
        visit.outcome = outcome_of_http_status(
            visit.http_status, conditional=visit.traffic.conditional
        )
        visit.answer.etag = etag
        if visit.outcome is Outcome.CHANGED and not page.plan.verify:
            visit.answer.body = body
            visit.answer.content_type = "application/xml" if page.kind else "text/html"
            if b"<html" in body:
                visit.answer.content_type = "text/html"
        return visit

    def answer(self, url: str, step: Step) -> tuple[bytes, str | None, int | None]:
        """Return body, ETag and status; None for silence, 0 where robots.txt forbids it."""
        path = url.removeprefix(HOST)
        if path == "/":
            links = "".join(f'<a href="/f{n}">x</a>' for n in range(FILLERS))
            return f"<html><title>Home</title>{links}".encode(), '"home"', 200
        if url != MAP:
            return f"<html><title>{path}</title>the words of {path}".encode(), f'"{path}"', 200
        listed = "".join(f"<url><loc>/only{n}</loc></url>" for n in sorted(step.pages))
        whole = f"<urlset>{listed}</urlset>".encode()
        return {
            "ok": (whole, f'"{sorted(step.pages)}"', 200),
            "cut": (whole[:-3], None, 200),
            "other": (b"nothing of that name", None, 200),
            "gone": (b"", None, 404),
            "down": (b"", None, 503),
            "silent": (b"", None, None),
            "robots": (b"", None, 0),
        }[step.answer]

    def standings(self) -> dict[str, int]:
        rows = self.connection.look(
            "SELECT r.url, s.standing FROM record r JOIN state s USING (no)"
        )
        return {url.removeprefix(HOST): standing for url, standing in rows}


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([True, True, False]),
        st.sampled_from(["ok", "ok", "cut", "other", "gone", "down", "silent", "robots"]),
        st.frozensets(st.sampled_from(ONLY)),
    ),
    min_size=1,
    max_size=9,
)


@pytest.mark.covers("M-02", "R4-35")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_pages_live_as_long_as_their_sitemap_is_held(steps: list[Step]):
    player, model = Player(), Model()
    try:
        with in_memory(player.connection), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sitemaps, "MAX_ENTRIES", MOST)
            for place, step in enumerate(steps):
                player.play(step)
                model.run(step)
                told = SimpleNamespace(step=place, of=step, model=model)
                found = player.standings()
                assert player.complete == model.complete, told
                assert (found.get("/map.xml", 0) == 1) == (model.links is not None), told
                held = {n for n in ONLY if found.get(f"/only{n}") == 2}
                assert held == set(model.ages), told
    finally:
        put_back(player.connection)
