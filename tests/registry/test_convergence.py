"""Whatever is interrupted where, the registry comes to what an untroubled one holds (INV-2).

Real runs (smartcrawl.run, the pipelines, every statement) over a site of `tests.registry.world`,
with a crash before any one statement; after each COMMIT the registry must be sound, and after each
run it must hold what the model says.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from scrapy.settings import BaseSettings

from smartcrawl import pipelines
from smartcrawl.extract import html
from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.embedded.sqlite import EmbeddedIndex
from smartcrawl.model.batches import Batch
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Traffic, Visit
from smartcrawl.registry import pages
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.sqlite import SqliteConnection, SqliteDatabase, migrate
from smartcrawl.registry.pack import unpack_stored_document, unpack_stored_links
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.removal import candidates, sweep
from smartcrawl.registry.removal import settle as settle_module
from smartcrawl.registry.runs import runs
from smartcrawl.registry.writer import Written
from smartcrawl.rules import absence
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.http import http_conditional_headers, outcome_of_http_status
from smartcrawl.rules.model import Extraction, Fault, Outcome, RemovalRule, RunState, Status
from smartcrawl.run import batches as batches_module
from smartcrawl.run import run
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.site import SiteSource
from tests.choices import options
from tests.index.asking import search
from tests.registry.build import LONG, NOW, Desk, at_once, closing, index_is_sound
from tests.registry.counted import counts_are_true
from tests.registry.world import (
    DOUBTFUL,
    HELD,
    HOST,
    NOTHING,
    WORDS,
    Answer,
    Choices,
    Effect,
    Model,
    answer_of,
    healed,
    healthy,
    url_of,
)
from tests.tiers import examples

SHORT, LONG_FORM = 75, 2_500  #: examples
ENOUGH = 1_500  #: examples within which a planted fault is found
DATA = Path("/nowhere")


class Crash(BaseException):
    """The process is gone."""


class Connection(SqliteConnection):
    """A connection that dies before a statement, and tells of every COMMIT."""

    fuse: int | None = None  #: statements until it dies
    committed: Callable[[], None] | None = None

    def execute(self, statement, *values, **names):
        if self.fuse is not None:
            if self.fuse <= 0 and statement != "ROLLBACK":
                raise Crash  # and whatever it still tries
            self.fuse -= 1
        cursor = super().execute(statement, *values, **names)
        if statement == "COMMIT" and self.committed is not None:
            self.committed()
        return cursor

    def look(self, statement, *values):
        """Ask something that is no step of the run."""
        return super().execute(statement, *values).fetchall()


_SPARE: list[Connection] = []


def empty_registry() -> Connection:
    """A registry without rows; one is used again and again, with its prepared statements."""
    if _SPARE:
        return _SPARE.pop()
    connection = Connection(":memory:", statementcachesize=1_000)
    migrate(connection, Path(":memory:"))
    return connection


def put_back(connection: Connection) -> None:
    """Empty a registry and keep it."""
    connection.committed = connection.fuse = None
    tables = connection.look(
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
        " AND name <> 'sequence' AND name NOT LIKE 'chunk_words%'"
    )
    for (table,) in tables:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO chunk_words (chunk_words) VALUES ('delete-all')")
    connection.execute("UPDATE sequence SET value = 0")
    _SPARE.append(connection)


class Memory(Registry):
    """The registry over one connection, which outlives its processes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(SqliteDatabase(Path(":memory:")), connection, EMBEDDED)

    def readers(self, source: int) -> RegistryReaders:
        return OpenReaders(self.connection, source)

    def close(self) -> None:
        pass


class OpenReaders(RegistryReaders):
    def close(self) -> None:
        pass


class Inline:
    """The writer, without a thread of its own."""

    def __init__(self, registry, opened, *, judgement, merged, shelf) -> None:
        assert merged is None, "nobody shares the run"
        assert shelf is None, "it is no library"
        self._connection = registry.connection
        self._commit = RegistryCommit(
            registry.connection,
            EmbeddedIndex(registry.connection),
            run=opened.no,
            source=opened.source,
            number=opened.number,
            since=opened.last_complete,
            forced=opened.forced,
            judgement=judgement,
        )

    def submit(self, batch: Batch, now: int) -> Future[Written]:
        with transaction(self._connection):
            stale = self._commit.write(batch, now)
        future: Future[Written] = Future()
        future.set_result(Written(batch, stale))
        return future

    def close(self) -> None:
        pass


LEASE = SimpleNamespace(release=lambda: None)
CRAWLER = SimpleNamespace(settings=BaseSettings(), stats=SimpleNamespace(inc_value=lambda *_: None))


@contextmanager
def in_memory(connection: Connection) -> Iterator[None]:
    """Have Run.open work over a connection, and extraction done once for each body."""
    parse = html.parse_html
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_registry", lambda *_: Memory(connection))
        patch.setattr(SqliteDatabase, "take", lambda *_: LEASE)
        patch.setattr(batches_module, "RegistryWriter", Inline)
        patch.setattr(runs, "BATCH", 2)
        patch.setattr(
            html, "parse_html", lambda body, **told: parsed(parse, body, tuple(told.items()))
        )
        yield


@cache
def parsed(parse, body, told):
    return parse(body, **dict(told))


@dataclass(frozen=True)
class Process:
    """One start of the crawl: what changed before it, and how it ends."""

    changes: tuple[tuple[int, Answer], ...] = ()
    midway: tuple[tuple[int, Answer], ...] = ()  #: change after so many visits as its place says
    dies_at: int | None = None  #: statements
    stops_at: int | None = None  #: visits, as by a signal
    resume: bool = True
    batch: int = 3
    order: int = 0
    shut: frozenset[int] = frozenset()
    second_seed: bool = False
    undo: int | None = None  #: of so many runs ago, before it starts
    pin: bool = False


@dataclass(frozen=True)
class Story:
    """A site and what happens to it and to those who crawl it."""

    pages: tuple[Answer, ...] = (Answer(),)
    processes: tuple[Process, ...] = ()
    choices: Choices = field(default_factory=Choices)


class Crawler:
    """Plays a story over a registry in memory, and watches."""

    def __init__(self, story: Story, *, watched: bool = True) -> None:
        self.story = story
        self.world = dict(enumerate(story.pages))
        self.choices = replace(story.choices)
        self.model = Model(self.choices)
        self.seeds: tuple[int, ...] = (0,)
        self.opening = False
        self.connection = empty_registry()
        self.numbers: dict[int, int] = {}
        self.effects: dict[int, Effect] = {}
        self.doubtful: dict[int, Answer] = {}  #: that wait, by the number of their page
        self.watched = watched
        self.now = NOW
        self.state = None
        self.evidence_seen = 0
        self.undone = 0  #: the last run when an earlier one was undone, which is not counted again
        self.rose: dict[str, tuple[int, int]] = {}
        self.shut: frozenset[int] = frozenset()
        if watched:
            self.connection.committed = self.check

    # Playing

    def play(self) -> None:
        with in_memory(self.connection):
            for process in self.story.processes:
                self.start(process)

    def start(self, process: Process) -> bool:
        """Play one process; return whether it died."""
        self.now += 1_000
        for page, answer in process.changes:
            self.world[page % len(self.world)] = answer
        if process.undo is not None:
            self.undo(process)
        connection = self.connection
        connection.fuse = process.dies_at
        try:
            self.run(process)
        except Crash:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return True
        finally:
            connection.fuse = None
        return False

    def source(self, process: Process) -> Source:
        self.seeds = (0, 1) if process.second_seed else (0,)
        self.shut = process.shut - {0, 1}
        seeds = tuple(url_of(no) for no in self.seeds)
        patterns = tuple(f"/p{no}$" for no in sorted(self.shut))
        return SiteSource(name="docs", seeds=seeds, excluded_patterns=patterns)

    def options(self) -> Options:
        choices = self.choices
        return options(
            DATA,
            out_of_scope_policy="remove" if choices.remove_excluded else "orphan",
            sweep_max_ratio=choices.max_ratio,
            sweep_min_count=choices.min_count,
            policy=Policy(
                lost_threshold=choices.lost_threshold, orphan_threshold=choices.orphan_threshold
            ),
        )

    def run(self, process: Process) -> Run:
        self.effects.clear()
        source = self.source(process)
        self.model.shut = self.shut
        self.opening = True
        run = Run.open(source, self.options(), Orders(resume=process.resume), self.now)
        self.opening = False
        extract = pipelines.ExtractPipeline(CRAWLER, run)
        decide = pipelines.DecidePipeline(CRAWLER, run)

        def take(visit: Visit, answer: Answer) -> None:
            status = visit.http_status
            decide.process_item(at_once(extract.process_item(visit)))
            if visit.outcome is Outcome.UNPROCESSABLE:
                assert visit.http_status == Fault.COLLAPSED, visit.error
                self.doubtful[visit.page.no] = answer
            if self.watched:
                self.judge(visit, answer, status)
            run.batches.record(visit)

        rng = random.Random(process.order)
        width = 1 + process.order % 3
        flying, visits = [], 0
        midway = list(process.midway)
        while True:
            while len(flying) < width and (page := run.next_page(lambda _: True)) is not None:
                flying.append(page)
            if not flying:
                if not self.take_last_steps(run, take):
                    break
                continue
            if midway:
                page, answer = midway.pop(0)
                self.world[page % len(self.world)] = answer
            if process.stops_at == visits:
                run.finish("shutdown", self.now)
                return run
            page = flying.pop(rng.randrange(len(flying)))
            visit, answer = self.ask(run, page)
            if page.plan.verify:
                run.batches.probe(visit)
            else:
                take(visit, answer)
            visits += 1
            if visits % process.batch == 0:
                self.submit(run)
        self.submit(run)
        run.finish("finished", self.now)
        return run

    def take_last_steps(self, run: Run, take: Callable[[Visit, Answer], None]) -> bool:
        """Take the last steps of a run up to one that finds a page; return whether one did."""
        for step in run.ending.steps(run.ending.settle_collapsed, run.ending.late_spellings):
            assert not step(self.now) or run.ending.verifies, "there is one spelling of each page"
            found = False
            while (edit := run.collapses.take()) is not None:
                found = True
                take(edit, self.doubtful[edit.page.no])
            if found or run.pending:
                return True
        return False

    def judge(self, visit: Visit, answer: Answer, status: int | None) -> None:
        """Tell the model of a visit that is to be committed."""
        no, model = self.place(visit.page.url), self.model
        effect = model.judge(no, answer, status)
        if visit.outcome is Outcome.UNPROCESSABLE:
            effect = model.doubt(effect)
            others = [page.content for other, page in model.pages.items() if other != no]
            others += [other.answer.content for other in self.effects.values()]
            assert answer.content in others, f"no other page has the text of {visit.page.url}"
        self.effects[visit.page.no] = effect

    def submit(self, run: Run) -> None:
        self.batch = run.batches.batch
        run.batches.submit(self.now)
        run.batches.drain()

    def place(self, url: str) -> int:
        return int(url.removeprefix(f"{HOST}p"))

    def ask(self, run: Run, page) -> tuple[Visit, Answer]:
        """One request, as the middleware sends it and the spider reads its answer."""
        answer = self.world[self.place(page.url)]
        headers = http_conditional_headers(
            page.record.etag,
            page.record.last_modified,
            trusted=page.state.standing > 0
            and not run.forced
            and page.plan.extraction is not Extraction.WHOLE,
        )
        visit = Visit(
            page, Outcome.UNREACHABLE, url=page.url, traffic=Traffic(conditional=bool(headers))
        )
        visit.traffic.requests = 1
        visit.traffic.conditional_requests = int(visit.traffic.conditional)
        if answer.kind == "robots":
            visit.outcome, visit.error, visit.traffic.requests = Outcome.EXCLUDED, "disallowed", 0
            return visit, answer
        if answer.kind == "silent":
            visit.http_status, visit.error = int(Fault.RESET), "reset"
            return visit, answer
        if answer.kind == "redirect" and url_of(answer.target) == page.url:
            visit.outcome, visit.http_status = Outcome.BAD_HEADER, int(Fault.REDIRECT_LOOP)
            visit.error = "redirects in a circle"
            return visit, answer
        visit.http_status = answer.status
        if answer.kind == "page" and headers.get("If-None-Match") == answer.validator:
            visit.http_status = 304 if headers and answer.status == 200 else answer.status
        visit.outcome = outcome_of_http_status(
            visit.http_status, conditional=visit.traffic.conditional
        )
        visit.answer.etag = answer.validator if answer.kind == "page" else None
        if page.plan.verify:
            return visit, answer
        if answer.noindex == "header":
            visit.answer.robots_tags = ("noindex",)
        match visit.outcome:
            case Outcome.NOT_MODIFIED:
                visit.answer.etag = visit.answer.etag or page.record.etag
            case Outcome.CHANGED | Outcome.NOT_ACCEPTABLE:
                visit.answer.body, visit.answer.content_type = answer.body, "text/html"
            case Outcome.REDIRECT:
                visit.answer.location = url_of(answer.target)
            case _:
                visit.error = f"HTTP status {answer.status}"
        return visit, answer

    def undo(self, process: Process) -> None:
        """Bring back what an earlier run removed; only between runs."""
        last = self.last_run()
        if last is None or last[1] != RunState.SWEPT:
            return
        run, self.undone = max(1, last[0] - process.undo), last[0]
        connection = self.connection
        before = {row[0]: row for row in self.records()}
        committed, connection.committed = connection.committed, None
        with transaction(connection):
            restorer = sweep.Restorer(
                connection,
                EmbeddedIndex(connection),
                number=runs.draw_sequence_numbers(connection, "number"),
                seen_run=last[0],
                chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
            )
            undone = restorer.undo(run, self.now, pin=process.pin)
        connection.committed = committed
        if not self.watched:
            return
        restored = self.model.undo(run, pin=process.pin)
        assert {self.place(url) for url in undone.restored} == restored
        for url in before:
            if self.place(url) not in restored:
                row = next(row for row in self.records() if row[0] == url)
                assert row[1:4] == before[url][1:4], f"undo changed {url}"
        self.check()
        self.compare()

    # Watching

    def last_run(self) -> tuple[int, int, int] | None:
        rows = self.connection.look("SELECT no, state, complete FROM run ORDER BY no DESC LIMIT 1")
        return rows[0] if rows else None

    def records(self):
        return self.connection.look(
            "SELECT r.url, s.standing, r.content, r.body_hash, r.duplicate_of, r.entry, r.etag,"
            " s.lost_count, s.gone_count, s.status, s.outcome, r.no, c.text_length,"
            " r.last_modified, o.url, o.entry, o.content, l.raw, r.content_hash, s.visited_run"
            " FROM record r JOIN state s USING (no) LEFT JOIN content c ON c.no = r.content"
            " LEFT JOIN record o ON o.no = r.duplicate_of LEFT JOIN links l ON l.no = r.no"
        )

    def check(self) -> None:
        """What holds at every moment; called after each COMMIT."""
        self.follow_commit()
        rows = self.records()
        groups = defaultdict(list)
        contents, entered = set(), set()
        run = self.last_run()
        for row in rows:
            url, standing, content, body, dup, entry, etag, lost, gone = row[:9]
            length, modified, _, dup_entry, dup_content = row[12:17]
            assert (content is not None) is (standing == HELD), url
            if standing == NOTHING:
                held = (etag, modified, body, row[18])
                assert held == (None,) * 4, f"{url} keeps {held} of nothing (RD-02)"
            if content is None:
                assert (entry, dup, lost) == (0, None, 0), f"{url}: entry, clone or lost of nothing"
                continue
            contents.add(content)
            if entry:
                entered.add(content)
                assert dup is None, f"{url} has an entry and is a clone"
            if dup is not None:
                assert (dup_entry, dup_content) == (1, content), f"{url} is the clone of a stranger"
            key = None if length >= 200 else row[11] if length == 0 else body
            groups[content, key].append((url, lost, entry, dup))
            before = self.rose.get(url, (0, 0))
            assert lost <= before[0] + 1, f"{url} was lost twice in run {run}"
            assert gone <= before[1] + 1, f"{url} was gone twice in run {run}"
        for members in groups.values():
            assert any(entry for _, _, entry, _ in members), f"nobody shows {members}"
            twice = sum(entry > 0 for _, lost, entry, _ in members if not lost) > 1
            assert not twice, f"living pages show one content twice: {members}"
            if self.state == RunState.SWEPT:
                living = [m for m in members if not m[1]]
                shown = [m[2] for m in living if m[2]]
                if living:
                    assert shown == [1], f"living pages of one content: {members}"
                else:
                    assert [m[2] for m in members].count(1) == 1, f"originals: {members}"
                assert all(m[3] is None for m in members if m[1]), f"a lost clone: {members}"
            else:
                shown = [m[2] for m in members if m[2] == 1]
                assert len(shown) == 1, f"originals: {members}"
        indexed = {no for (no,) in self.connection.look("SELECT DISTINCT content FROM chunk")}
        assert indexed == entered, "the index holds other contents than have an entry"
        stored = {no for (no,) in self.connection.look("SELECT no FROM content")}
        kept = {
            no
            for (no,) in self.connection.look(
                "SELECT content FROM evidence WHERE content IS NOT NULL"
            )
        }
        assert stored == contents | kept, "content without a record or evidence"
        if self.state == RunState.SWEPT:
            assert index_is_sound(self.connection)
        if run is not None and run[0] != self.undone:
            assert counts_are_true(self.connection, run[0])

    def follow_commit(self) -> None:
        """Tell the model what is in the registry by now."""
        last = self.last_run()
        if last is None:
            return
        run, state, complete = last
        model = self.model
        if run != model.run:
            model.open(run)
            self.evidence_seen = 0
            self.state = None
            self.rose = {row[0]: (row[7], row[8]) for row in self.records()}
        rows = self.connection.look(
            "SELECT r.url FROM state s JOIN record r USING (no) WHERE s.reached_run = ?", (run,)
        )
        reached = {self.place(url) for (url,) in rows}
        if self.opening:
            offered = {*self.seeds, *(n for n, p in model.pages.items() if p.pinned)}
            model.reach(offered & reached)
            asked = self.connection.look(
                "SELECT r.url, d.pinned FROM seed d JOIN record r USING (no) WHERE d.run = ?",
                (run,),
            )
            model.asked_seeds = {self.place(url) for url, pinned in asked if not pinned}
            model.asked_pins = {self.place(url) for url, pinned in asked if pinned}
        visited = self.connection.look(
            "SELECT no, http_status = ? FROM state WHERE visited_run = ?", (DOUBTFUL, run)
        )
        model.hand_on(reached)
        for no, is_doubtful in visited:
            effect = self.effects.get(no)
            if effect is not None and (effect.said == "doubtful") == bool(is_doubtful):
                model.commit(self.effects.pop(no))
        model.hand_on(reached)
        before, self.state = self.state, state
        if state >= RunState.SEALED and state != RunState.INTERRUPTED:
            if before in (None, RunState.OPEN, RunState.VERIFYING, RunState.INTERRUPTED):
                probes = self.connection.look(
                    "SELECT r.url, c.probe, c.rule FROM candidate c JOIN record r USING (no)"
                    " WHERE c.renewed = ? AND (c.probe IS NOT NULL OR c.rule = 5)",
                    (run,),
                )
                model.probes = {self.place(url): probe for url, probe, _ in probes}
                waiting = self.connection.look(
                    "SELECT r.url, c.rule, c.run FROM candidate c JOIN record r USING (no)"
                    " WHERE c.withheld"
                )
                model.withheld = {
                    self.place(url): (RemovalRule(rule).word, first) for url, rule, first in waiting
                }
                model.hand_on()
                astray = reached ^ model.reached
                assert not astray, f"run {run} reached {reached}, not {model.reached}"
                expected = model.seal()
                assert bool(complete) is expected, (
                    f"run {run} says complete={bool(complete)}:"
                    f" {self.connection.look('SELECT reasons FROM run WHERE no = ?', (run,))}"
                )
            if before != RunState.SETTLED and state == RunState.SETTLED:
                model.settle()
            self.follow_sweep(run)
        if state == RunState.SWEPT and before != RunState.SWEPT:
            missing = set(model.proposed) - set(model.removed.get(run, {}))
            assert not missing, (
                f"run {run} did not remove {[(m, model.proposed[m]) for m in missing]}"
            )
            self.compare()

    def follow_sweep(self, run: int) -> None:
        rows = self.connection.look(
            "SELECT e.no, r.url, e.rule FROM evidence e JOIN record r ON r.no = e.record"
            " WHERE e.run = ? AND e.no > ? AND e.undone IS NULL ORDER BY e.no",
            (run, self.evidence_seen),
        )
        for no, url, rule in rows:
            self.evidence_seen = no
            page, word = self.place(url), RemovalRule(rule).word
            assert self.model.proposed.get(page) == word, (
                f"run {run} removed {url} as {word}; the model says {self.model.proposed.get(page)}"
            )
            self.model.remove(page)

    def compare(self) -> None:
        """What holds between runs: the registry is what the model says."""
        contents = self.contents()
        rows = self.records()
        known = {self.place(row[0]) for row in rows}
        assert known == set(self.model.pages), f"{known} are known, not {set(self.model.pages)}"
        for row in rows:
            page = self.model.pages[self.place(row[0])]
            told = (row[1], contents.get(row[2]), row[7], row[8], row[9] == Status.GONE)
            expected = (page.standing, page.content, page.lost, page.gone, page.tomb)
            assert told == expected, (
                f"{row[0]} is (standing, content, lost, gone, tombstone) {told}, not {expected}"
            )
            if page.standing:
                links = {link.url for link in unpack_stored_links(row[17])} if row[17] else set()
                assert links - {row[0]} == {url_of(n) for n in page.links} - {row[0]}, row[0]
        for content, word in enumerate(WORDS):
            if not word:
                continue
            found = {hit.url for hit in search(self.connection, f'"{word}"')}
            pages = {url_of(n) for n, p in self.model.pages.items() if p.content == content}
            assert found <= pages, f"{word} is found under {found}"
            assert bool(found) is bool(pages), f"{word} is not found"
        run, state, _ = self.last_run()
        if state == RunState.SWEPT and self.model.run == run:
            counts = self.connection.look("SELECT counts FROM run WHERE no = ?", (run,))
            counted = sum(json.loads(counts[0][0]).values())
            assert counted == len(rows), f"{counts} of {len(rows)} records"

    def contents(self) -> dict[int, int]:
        """What each content row says, by its title."""
        titles = {word.title(): content for content, word in enumerate(WORDS)}
        return {
            no: titles[title] for no, title in self.connection.look("SELECT no, title FROM content")
        }

    # How it ends

    def held(self) -> dict[str, tuple[object, ...]]:
        """What the sink and the registry hold, whoever is the original."""
        contents = self.contents()
        return {
            row[0]: (
                contents.get(row[2]),
                row[3],
                row[6],
                row[7],
                tuple(unpack_stored_links(row[17])) if row[17] else (),
            )
            for row in self.records()
            if row[1] > 0
        }

    def rest(self, most: int) -> int:
        """Crawl the site as it is until nothing changes; return how many runs that took."""
        with in_memory(self.connection):
            before = None
            for number in range(1, most + 2):
                self.start(Process(resume=False, shut=self.shut))
                after = (
                    self.held(),
                    self.connection.look("SELECT count(*) FROM evidence"),
                    self.connection.look(  # what is gone and not often enough is on its way
                        "SELECT no, min(gone_count, ?) FROM state WHERE standing > 0 ORDER BY no",
                        (self.choices.lost_threshold,),
                    ),
                    self.connection.look(  # a text that waits is taken by a later run
                        "SELECT no, error_count FROM state WHERE http_status = ? ORDER BY no",
                        (DOUBTFUL,),
                    ),
                )
                absent = self.connection.look(
                    "SELECT no FROM state WHERE standing > 0 AND seen_run < ?"
                    " AND no NOT IN (SELECT no FROM pin)",
                    (self.last_run()[0],),
                )
                if after == before and not absent:
                    return number
                before = after
        changed = {url for url in after[0] if after[0][url] != before[0].get(url)}
        raise AssertionError(f"nothing settled within {most} runs: {changed} {absent}")


def converges(story: Story) -> None:
    """Play a story, then heal its site and let the registry come to rest.

    It must be what the oracle says then, and what a crawl holds that met no other site.
    """
    crawler = Crawler(story)
    try:
        crawler.play()
        crawler.world = healed(crawler.world, crawler.shut)
        crawler.choices.max_ratio, crawler.choices.min_count = 1.0, 10
        choices = story.choices
        crawler.rest(choices.lost_threshold + 2 * choices.orphan_threshold + 9)
        if not any(page.pinned for page in crawler.model.pages.values()):
            expected = healthy(crawler.world, {0}, crawler.shut)
            held = {crawler.place(url): row[0] for url, row in crawler.held().items()}
            assert held == expected, f"{held} is held, not {expected}"
            assert crawler.held() == untroubled(crawler), "not what an untroubled crawl holds"
    except AssertionError as error:
        for line in crawler.model.history:
            error.add_note(line)
        raise
    put_back(crawler.connection)


def untroubled(crawler: Crawler) -> dict[str, tuple[object, ...]]:
    """What a crawl holds that knows nothing but the site as it came to be."""
    story = Story(pages=tuple(crawler.world.values()), choices=crawler.choices)
    reference = Crawler(story, watched=False)
    reference.shut = crawler.shut
    reference.rest(5)
    held = reference.held()
    put_back(reference.connection)
    return held


# Histories, decoded from few numbers: those are quick to draw and shrink to nothing


def process_of(code: int, changes: tuple[int, ...], midway: tuple[int, ...], size: int) -> Process:
    """Decode a process; 0 is one that nothing disturbs."""
    digits = Digits(code)
    return Process(
        changes=tuple((code % size, answer_of(code // size, size)) for code in changes),
        midway=tuple((code % size, answer_of(code // size, size)) for code in midway),
        dies_at=None if digits.take(3) == 0 else digits.take(260),
        stops_at=(None, None, None, None, None, 1, 3, 5)[digits.take(8)],
        resume=digits.take(2) == 0,
        batch=1 + digits.take(4),
        order=digits.take(9),
        shut=(frozenset(), frozenset(), frozenset({2}), frozenset({3, 4}))[digits.take(4)],
        second_seed=digits.take(4) == 3,
        undo=(None, None, None, 0, 1)[digits.take(5)],
        pin=digits.take(4) == 3,
    )


class Digits:
    """Small numbers out of a great one."""

    def __init__(self, code: int) -> None:
        self.code = code

    def take(self, base: int) -> int:
        self.code, digit = divmod(self.code, base)
        return digit


_CHANGES = st.lists(st.integers(0, 9 * 7**9), max_size=3)


@st.composite
def stories(draw) -> Story:
    size = draw(st.integers(6, 9))
    codes = st.integers(0, 7**9)
    pages = [answer_of(draw(codes), size) for _ in range(size - 1)]
    hub = Answer(content=draw(st.integers(0, 4)), links=tuple(range(1, size)))
    processes = draw(
        st.lists(st.tuples(st.integers(0, 2**45), _CHANGES, _CHANGES), min_size=1, max_size=7)
    )
    digits = Digits(draw(st.integers(0, 2**10)))
    choices = Choices(
        lost_threshold=1 + digits.take(3),
        orphan_threshold=1 + digits.take(3),
        max_ratio=0.3 if digits.take(5) == 4 else 1.0,
        min_count=1 + digits.take(10),
        remove_excluded=digits.take(3) == 2,
    )
    told = tuple(process_of(*process, size) for process in processes)
    return Story((hub, *pages), told, choices)


QUICK = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=examples(SHORT),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.covers("RD-02", "RD-07", "RD-08", "RD-10", "R4-14", "R4-15", "R4-16", "R4-44", "M-23")
@QUICK
@given(story=stories())
def test_whatever_is_interrupted_the_registry_converges(story: Story):
    converges(story)


def test_a_healed_world_has_no_redirect_by_way_of_an_excluded_page():
    """Nobody asks that one, so the page would keep its old content and never come to rest."""
    world = {0: Answer(links=(1,)), 1: Answer(kind="redirect", status=302, target=2)}
    world[2] = Answer(kind="redirect", status=308, target=0)
    assert healed(world)[1] == world[1]
    assert healed(world, {2})[1] == Answer(content=1)


@pytest.mark.long
@settings(QUICK, derandomize=False, print_blob=True, max_examples=LONG_FORM)
@given(story=stories())
def test_whatever_is_interrupted_the_registry_converges_in_many_more_histories(story: Story):
    converges(story)


# The machine itself can fail


def _ignores_the_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates, "lets_page_go", lambda look, policy: look.answer is not None)


def _forgets_to_promote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweep, "write_clone_places", lambda *_, **__: None)


def _settles_no_clones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle_module, "settle_clone_rows", lambda *_: None)


def _visits_again_after_a_resume(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pages, "_VISITED", "SELECT no, depth FROM state WHERE visited_run = -?")


def _ages_by_incomplete_runs(patch: pytest.MonkeyPatch) -> None:
    assert "complete" in candidates._COMPLETE
    patch.setattr(candidates, "_COMPLETE", candidates._COMPLETE.replace("complete", "state = 4"))


def _counts_a_503(patch: pytest.MonkeyPatch) -> None:
    counts = absence.AGEING[Outcome.NOT_FOUND]
    patch.setitem(absence.AGEING, Outcome.TRANSIENT, counts)


def _keeps_validators(patch: pytest.MonkeyPatch) -> None:
    own = "etag = CASE WHEN :aside THEN etag END,"
    assert own in sweep._FORGET
    patch.setattr(sweep, "_FORGET", sweep._FORGET.replace(own, ""))


def _believes_any_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        settle_module,
        "_INDEXED_PAGES",
        "SELECT no FROM state WHERE no IN carray(:numbers) AND :run",
    )


FAULTS = [
    _forgets_to_promote,
    _ignores_the_look,  # takes longest to find
    _settles_no_clones,
    _visits_again_after_a_resume,
    _ages_by_incomplete_runs,
    _counts_a_503,
    _keeps_validators,
    _believes_any_target,
]


@pytest.mark.long(but=2)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_it_would_find(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch):
    @settings(QUICK, derandomize=False, max_examples=ENOUGH, phases=[Phase.generate])
    @seed(3)
    @given(story=stories())
    def machine(story: Story):
        converges(story)

    with monkeypatch.context() as patch:
        fault(patch)
        with pytest.raises(AssertionError):
            machine()


# What the machine found


A, B, C = (url_of(page) for page in (1, 2, 3))


def missing(desk: Desk, url: str) -> Visit:
    return desk.visit(url, outcome=Outcome.NOT_FOUND, status=404)


@pytest.mark.covers("R4-16", "RD-10")
def test_what_an_interrupted_run_turned_is_settled_by_the_next(desk: Desk):
    """A page is lost in a run that dies; the next one finds no event of its own."""
    desk.index(A, LONG)
    desk.index(B, LONG)
    desk.seal()
    for _ in range(2):  # the first one dies
        desk.open()
        desk.reach(A, B)
        desk.write(missing(desk, A))
        desk.write(touched=[desk.number(B)])

    desk.seal()

    assert desk.originals() == {A: None, B: None}


@pytest.mark.covers("RD-07")
def test_an_incomplete_run_removes_no_orphan(desk: Desk):
    """It was complete when it looked; then something else ended it."""
    desk.closing = closing(orphan_threshold=1)
    for url in (A, B, C):
        desk.index(url, url)
    desk.seal()
    desk.open()
    desk.reach(A, B)
    desk.write(touched=[desk.number(A), desk.number(B)])
    assert desk.verify() == [C]

    result = desk.seal("closespider_timeout")

    assert not result.complete
    assert desk.removed == []


@pytest.mark.covers("R4-07")
def test_what_a_resumed_run_reached_is_no_orphan(desk: Desk):
    """It died while it looked; it goes on with another seed, which leads to the page."""
    desk.closing = closing(orphan_threshold=1)
    for url in (A, B, C):
        desk.index(url, url)
    desk.seal()
    desk.open()
    desk.reach(A, B)
    desk.write(touched=[desk.number(A), desk.number(B)])
    assert desk.verify() == [C]
    desk.open(resume=True)
    desk.reach(C)
    desk.write(touched=[desk.number(C)])

    desk.seal()

    assert desk.removed == []


@pytest.mark.covers("M-20")
@pytest.mark.parametrize(
    "between",
    [Answer("redirect", status=301, target=3), Answer(content=3, canonical=3)],
    ids=["redirect", "canonical"],
)
def test_a_canonical_chain_settles(between: Answer):
    """Else it is indexed by every run, and removed by every run."""
    pages = (Answer(links=(1, 2, 3)), Answer(content=1, canonical=2), between, Answer(content=2))
    crawler = Crawler(Story(pages))

    crawler.rest(6)


@pytest.mark.covers("U-06", "M-20")
def test_a_page_that_moved_to_an_alias_goes():
    """/old moved to /new?from=old, which names /new as canonical, and /new is indexed."""
    alias = Answer(content=2, canonical=3)
    pages = (Answer(links=(1, 2, 3)), Answer(content=1), alias, Answer(content=3))
    moved = Process(changes=((1, Answer("redirect", status=301, target=2)),))
    crawler = Crawler(Story(pages, (Process(), Process(), moved)))

    crawler.play()
    crawler.rest(6)

    assert A not in crawler.held()


@pytest.mark.covers("R4-15")
def test_a_page_that_is_found_again_is_not_shown_twice_while_the_run_goes_on(desk: Desk):
    desk.index(A, LONG)
    desk.index(B, LONG)
    desk.seal()
    desk.open()
    desk.reach(A, B)
    desk.write(missing(desk, A))
    desk.write(touched=[desk.number(B)])
    desk.seal()
    desk.open()
    desk.reach(A, B)

    desk.write(desk.visit(A, outcome=Outcome.NOT_MODIFIED, status=304))

    assert [hit.url for hit in search(desk.connection, "sentence") if not hit.lost] == [B]


@pytest.mark.covers("M-20")
@pytest.mark.parametrize(
    "changes",
    [
        ((2, Answer(content=2, canonical=1)),),
        ((2, Answer(content=2, canonical=3)), (3, Answer(content=3, canonical=2))),
        ((2, Answer(content=2, canonical=3)), (3, Answer("status", status=404))),
        ((2, Answer(content=2, canonical=3, noindex="header")),),
    ],
    ids=[
        "a circle",
        "to a circle",
        "to an alias of nothing",
        "to an alias that is hidden by a 304",
    ],
)
def test_who_stands_aside_is_no_matter_of_what_was_before(changes):
    """Page 1 stood aside for page 2, which names another page by now, or may not be found."""
    named = Answer(content=2, canonical=3 if changes[0][1].noindex else None)
    pages = (Answer(links=(1, 2, 3)), Answer(content=1, canonical=2), named, Answer(content=3))
    crawler = Crawler(Story(pages, (Process(), Process(), Process(changes=changes))))

    crawler.play()
    crawler.rest(6)

    assert crawler.held() == untroubled(crawler)


@pytest.mark.covers("R4-07", "U-15")
def test_an_excluded_page_vouches_for_nothing_after_a_resume():
    pages = (Answer(links=(1, 3)), Answer(content=1, links=(2,)), Answer(content=2), Answer())
    forbidden = ((1, Answer("robots")),)
    stopped = Process(changes=forbidden, stops_at=2, batch=1)
    crawler = Crawler(Story(pages, (Process(), stopped, Process())), watched=False)

    crawler.play()

    assert crawler.connection.look("SELECT reached_run FROM state ORDER BY no")[-1] == (1,)


@pytest.mark.covers("M-20")
def test_a_canonical_page_that_comes_into_scope_counts():
    """Page 3 names page 2, which the scope left out when page 3 was read."""
    alias = Answer(content=3, canonical=2)
    pages = (Answer(links=(1, 2, 3)), Answer(content=1), Answer(content=2), alias)
    crawler = Crawler(Story(pages, (Process(shut=frozenset({2})), Process())))

    crawler.play()
    crawler.rest(6)

    assert crawler.held() == untroubled(crawler)
