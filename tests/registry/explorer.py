"""Every order in which workers of one run may take their steps, with crashes and late messages.

The functions are the product's: `RegistryWriter`, `RegistryCommit`, `RemoteIndexing`, `runs`.
Whoever explores says which worker goes on, which one dies, and which message comes late; after each
step everything must be as it has to (ADR 30, 130).
"""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from smartcrawl.index.remote import index_document_chunker
from smartcrawl.index.writing import RemoteIndexing
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, IndexedPage
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import WRITING, Connection, draw_sequence_numbers
from smartcrawl.registry.runs import runs
from smartcrawl.registry.writer import RegistryWriter
from smartcrawl.rules.clones import MIN_CLONE_TEXT
from smartcrawl.rules.model import RunState
from smartcrawl.run.shortcomings import merged_run_shortcomings
from tests.registry.build import NOW, Desk
from tests.registry.counted import scanned, stored_counts
from tests.registry.workers import (
    BrokenError,
    Gate,
    Place,
    Remote,
    Sent,
    Shelf,
    Worker,
    never_stops,
)

Action = tuple[str, str]  #: what happens, and to whom
FAULTS = ("dies", "dies having sent", "is not heard", "sends twice")

_ENTRIES = """
SELECT r.no, s.intent, CASE WHEN r.entry > 0 THEN c.content_hash END, c.content_hash,
       coalesce(c.text_length, 0), s.standing = 2 AND s.lost_count = 0,
       s.attempts, CASE WHEN s.visited_run = ? THEN 1 ELSE 0 END
  FROM record r JOIN state s USING (no) LEFT JOIN content c ON c.no = r.content
 ORDER BY r.no
"""
_RUN = "SELECT visits, state FROM run WHERE no = ?"
_PENDING = """
SELECT r.url FROM state s JOIN record r USING (no)
 WHERE s.reached_run = ? AND s.visited_run < ? ORDER BY r.no
"""
_DEAD = "SELECT no FROM dead_letter"
_URLS = "SELECT count(*), count(DISTINCT url) FROM record"
_STORED = (
    *(
        f"SELECT * FROM {table} ORDER BY 1"
        for table in (
            "record", "state", "content", "run", "links", "candidate", "evidence", "change",
            "event", "dead_letter",
        )
    ),
    "SELECT value FROM sequence WHERE name = 'address'",  # the next claim is higher than all
)  # fmt: skip
#: Claim numbers are from here on, so that they are known by their looks.
FIRST_CLAIM = 10**12
_CLAIM = re.compile(r"\b10{6}\d{6}\b")
CHUNKED = index_document_chunker(DEFAULT_CHUNK_SIZE)


@dataclass
class Scene:
    """A registry and an index in the midst of a run, and what its two workers are to write."""

    desk: Desk
    shelf: Shelf
    batches: tuple[bytes, bytes]  #: pickled: each try has its own
    claims: tuple[int, int]
    rest: Callable[[Desk, list[str]], Batch]  #: what a survivor finds at pages that are left
    base: Connection

    @property
    def run(self) -> runs.OpenRun:
        assert self.desk.run is not None
        return self.desk.run


def write(scene: Scene, gate: Gate, remote: RemoteIndexing, batch: Batch, claim: int) -> None:
    """Write a batch as a worker of a run that is shared does."""
    opened = replace(scene.run, number=claim, shared=True)
    registry: Any = SimpleNamespace(database=Place(gate), snapshots=None, indexing=remote)
    writer = RegistryWriter(
        registry,
        opened,
        judgement=Judgement(scene.desk.closing.policy),
        merged=merged_run_shortcomings,
    )
    writer._write(batch, NOW)  # in this thread
    writer.close()


@dataclass
class Try:
    """One order of steps, as far as it went."""

    scene: Scene
    faults: int  #: that may still happen
    done: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with the scene as it was."""
        scene = self.scene
        self.shelf = Shelf()
        self.shelf.held, self.shelf.checks = dict(scene.shelf.held), scene.shelf.checks
        self.late: dict[tuple[int, int], IndexedPage] = {}  #: under way, by number and record
        scene.base.execute(WRITING)
        self.gate = Gate(scene.base, never_stops)
        scene.desk.connection = self.gate  # type: ignore[assignment]
        self._attempts = {row[0]: row[6] for row in self._entries()}
        self._stored: str | None = None  #: the registry, as read last
        self.workers = {
            "A": Worker("A", lambda worker: self._write(worker, 0)),
            "B": Worker("B", lambda worker: self._write(worker, 1)),
            "end": Worker("end", self._end),
        }

    def close(self) -> None:
        """Undo everything."""
        for worker in self.workers.values():
            worker.kill()
        self.scene.base.execute("ROLLBACK")
        self.scene.desk.connection = self.scene.base

    # What workers do

    def _own(self, worker: Worker) -> tuple[Gate, RemoteIndexing]:
        gate = Gate(self.scene.base, worker.stop)
        return gate, RemoteIndexing(Remote(worker.stop), CHUNKED)

    def _write(self, worker: Worker, which: int) -> None:
        batch = pickle.loads(self.scene.batches[which])
        write(self.scene, *self._own(worker), batch, self.scene.claims[which])

    def _end(self, worker: Worker) -> None:
        """Visit what the dead have left, and end the run (Registry.end)."""
        scene = self.scene
        gate, remote = self._own(worker)
        ending = scene.desk.ending()
        if left := self._pending():
            claim = draw_sequence_numbers(self.gate, "number")
            write(scene, gate, remote, scene.rest(scene.desk, left), claim)
        runs.seal_run_row(gate, ending.run, (), NOW)
        remote.mend(gate, ending.source, number=None, now=NOW)
        runs.settle_sealed_row(gate, ending, remote)
        runs.sweep_candidate_rows(gate, remote, ending, lambda _: None)

    # What may happen next

    def actions(self) -> list[Action]:
        """What may happen now; the first one leads on without any fault."""
        found: list[Action] = []
        faults: list[Action] = []
        for worker in self.workers.values():
            if worker.end or (worker.at == "begin" and not self._may_begin(worker)):
                continue
            found.append(("go", worker.name))
            if worker.at != "begin":
                faults.append(("dies", worker.name))
            if isinstance(worker.at, Sent):
                faults += [(word, worker.name) for word in FAULTS[1:]]
        found += [("arrives", f"{number} {no}") for number, no in sorted(self.late)]
        return found + faults if self.faults else found

    def _may_begin(self, worker: Worker) -> bool:
        if worker.name != "end":
            return True
        ends = [self.workers[name].end for name in "AB"]
        return all(ends) or (any(ends) and not self._pending())

    def _pending(self) -> list[str]:
        no = self.scene.run.no
        return [url for (url,) in self.gate.execute(_PENDING, (no, no)).fetchall()]

    def take(self, action: Action) -> None:
        """Let something happen."""
        self.done.append(action)
        word, whom = action
        if word == "arrives":
            number, no = map(int, whom.split())
            self.shelf.take(self.late.pop((number, no)), number)
            return
        worker = self.workers[whom]
        sent = worker.at if isinstance(worker.at, Sent) else None
        self.faults -= word != "go"
        if word in ("dies having sent", "sends twice"):
            assert sent is not None
            self.late |= {(sent.number, page.no): page for page in sent.pages}
        if word.startswith("dies"):
            worker.kill()
            return
        reply = None
        if sent is not None:
            reply = [self.shelf.take(page, sent.number) for page in sent.pages]
        if word != "is not heard":  # then it is sent again
            worker.go(reply)
            self._stored = None
        if worker.failure is not None:
            raise BrokenError(f"{whom} failed: {worker.failure!r}") from worker.failure

    def key(self) -> int:
        """Everything that what comes next depends on; of claim numbers their order only."""
        if self._stored is None:
            rows = [self.gate.execute(statement).fetchall() for statement in _STORED]
            self._stored = repr(rows)
        late = sorted((*key, page.mark) for key, page in self.late.items())
        workers = [(worker.at == "begin", worker.key()) for worker in self.workers.values()]
        told = f"{self._stored}{(self.shelf.state(), late, workers, self.faults)}"
        ranks = {number: str(rank) for rank, number in enumerate(sorted({*_CLAIM.findall(told)}))}
        return hash(_CLAIM.sub(lambda found: ranks[found[0]], told))

    # What must be so

    def _entries(self) -> list[Any]:
        return self.gate.execute(_ENTRIES, (self.scene.run.no,)).fetchall()

    def check(self) -> None:
        """What holds at any moment."""
        entries = self._entries()
        visits, state = self.gate.execute(_RUN, (self.scene.run.no,)).fetchone()
        visited = 0
        for no, intent, entry, _, _, _, attempts, is_visited in entries:
            if not intent and self.shelf.mark(no) != entry:
                raise BrokenError(f"record {no} is clean, and the index holds something else of it")
            if attempts != self._attempts.get(no, 0) + is_visited:
                raise BrokenError(f"record {no} was not visited once")
            visited += is_visited
        if visits != visited:
            raise BrokenError(f"{visits} visits are counted, and {visited} pages were visited")
        run = self.scene.run.no
        if stored_counts(self.gate, run) != scanned(self.gate, run):
            raise BrokenError(f"the counts of run {run} are wrong")
        addresses, distinct = self.gate.execute(_URLS).fetchone()
        if addresses != distinct:
            raise BrokenError("an address has two records")
        settled = state in (RunState.SETTLED, RunState.SWEPT)
        self._check_contents(entries, settled=settled)
        ends = {worker.end for worker in self.workers.values() if worker.at != "begin"}
        if ends == {"done"} and any(intent for _, intent, *_ in entries):
            raise BrokenError("nobody died nor is at work, and a record is open")

    def _check_contents(self, entries: list[Any], *, settled: bool) -> None:
        """What living pages hold is found; under one of them only, once the run is settled.

        Until then it may be found under a page that was lost meanwhile.
        """
        living_entries, all_entries = Counter[bytes](), Counter[bytes]()
        held, open_ = set(), set()
        for no, intent, _, content, length, living, *_ in entries:
            mark = self.shelf.mark(no)
            if content is not None and length >= MIN_CLONE_TEXT and living:
                held.add(content)
            if intent:
                open_ |= {content, mark}
            elif mark is not None:
                all_entries[mark] += 1
                living_entries[mark] += living
        for content in held - open_:
            times = living_entries[content]
            if times > 1 or not all_entries[content] or (settled and not times):
                raise BrokenError(f"a content that is held is found {times} times")

    def check_end(self) -> None:
        """What holds when nobody is at work any more."""
        ends = {name: worker.end for name, worker in self.workers.items()}
        _, state = self.gate.execute(_RUN, (self.scene.run.no,)).fetchone()
        if ends["end"] == "done" and (state != RunState.SWEPT or self._pending()):
            raise BrokenError("the run did not come to its end")
        for shared in (False, True):
            with self._undone():
                self._heal(shared=shared)

    def _heal(self, *, shared: bool) -> None:
        """Begin the next run: what is open is written, and late messages change nothing."""
        desk, remote = self.scene.desk, RemoteIndexing(Remote(self._receive), CHUNKED)
        ending = desk.ending()
        before = runs.last_run_row(self.gate, desk.source)
        assert before is not None
        if before[2] in (RunState.SEALED, RunState.SETTLED):
            runs.settle_sealed_row(self.gate, ending, remote)
            runs.sweep_candidate_rows(self.gate, remote, ending, lambda _: None)
        opened = runs.open_run_row(self.gate, runs.RunRequest(desk.source, "site"), NOW)
        number = None if shared else opened.number
        remote.mend(self.gate, opened.source, number=number, now=NOW)
        self._check_healed("after the next run has begun")
        for (number, _), page in sorted(self.late.items()):
            self.shelf.take(page, number)
        self._check_healed("after late messages came in the next run")

    def _receive(self, sent: Sent) -> list[str | None]:
        return [self.shelf.take(page, sent.number) for page in sent.pages]

    def _check_healed(self, when: str) -> None:
        dead = {no for (no,) in self.gate.execute(_DEAD).fetchall()}
        for no, intent, entry, *_ in self._entries():
            if no not in dead and (intent or self.shelf.mark(no) != entry):
                raise BrokenError(f"record {no} is not as the index has it {when}")

    @contextmanager
    def _undone(self) -> Iterator[None]:
        held = dict(self.shelf.held)
        self.scene.base.execute("SAVEPOINT end_of_it")
        yield
        self.scene.base.execute("ROLLBACK TO SAVEPOINT end_of_it")
        self.scene.base.execute("RELEASE SAVEPOINT end_of_it")
        self.shelf.held = held


@dataclass
class Explored:
    """What came of it."""

    states: int = 0
    ends: int = 0  #: of them, with nobody at work
    tries: int = 0
    left: int = 0  #: orders that were not tried, for want of time


def explore(scene: Scene, *, faults: int, most: int) -> Explored:
    """Try every order of steps with at most so many faults, in at most ``most`` tries.

    Raises:
        BrokenError: something was not as it must be; the message ends in what happened.
    """
    found, graph = Explored(), Graph()
    waiting: list[tuple[list[Action], int]] = [([], 0)]
    while waiting and found.tries < most:
        found.tries += 1
        actions, before = waiting.pop()
        with tried(scene, faults, actions) as one:
            while graph.adds(before, key := one.key(), one.done):
                others = _look(one, found)
                if not others:
                    break
                waiting += (([*one.done, other], key) for other in others[1:])
                one.take(others[0])
                before = key
    found.states, found.left = len(graph.paths), len(waiting)
    graph.check()
    return found


@dataclass
class Graph:
    """The states that were seen, and what leads from one to the other."""

    paths: dict[int, list[Action]] = field(default_factory=dict)  #: by state
    alone: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def adds(self, before: int, key: int, done: list[Action]) -> bool:
        """Add a state that these actions led to; whether it is new."""
        if done and done[-1][0] == "go":
            self.alone[done[-1][1]][before] = key
        if key in self.paths:
            return False
        self.paths[key] = list(done)
        return True

    def check(self) -> None:
        """Whoever goes on alone comes to an end: nobody goes round in a circle."""
        for name, leads in self.alone.items():
            good: set[int] = set()
            for start in leads:
                here, passed = start, set[int]()
                while here in leads and here not in good:
                    if here in passed:
                        told = _told(self.paths[here])
                        raise BrokenError(f"{name} goes round in a circle, after: {told}")
                    passed.add(here)
                    here = leads[here]
                good |= passed


def _told(actions: list[Action]) -> str:
    return "; ".join(f"{whom} {word}" for word, whom in actions)


def sample(scene: Scene, *, faults: int, tries: int, rng: random.Random) -> Explored:
    """Try some orders of steps, drawn at random; see `explore`."""
    found = Explored()
    for _ in range(tries):
        found.tries += 1
        with tried(scene, faults, []) as one:
            while others := _look(one, found):
                found.states += 1
                weights = [1 if word in FAULTS else 5 for word, _ in others]
                one.take(*rng.choices(others, weights))
    return found


def _look(one: Try, found: Explored) -> list[Action]:
    """Check a state, and return what may happen next."""
    one.check()
    if all(worker.end for worker in one.workers.values()):
        found.ends += 1
        one.check_end()
    return one.actions()


@contextmanager
def tried(scene: Scene, faults: int, actions: list[Action]) -> Iterator[Try]:
    """Let some actions happen, and undo them."""
    one = Try(scene, faults)
    try:
        for action in actions:
            one.take(action)
        yield one
    except BrokenError as violation:
        raise BrokenError(f"{violation}, after: {_told(one.done)}") from violation.__cause__
    finally:
        one.close()
