"""Random histories of pages, failures and other programs, against a model of the store."""

import random
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.index.vectorstore.pushed_place import Place
from tests.index.vectorstore.store_server import STORE, Asked, stores_server
from tests.openai_server import Reply, error

_NAMES = st.sampled_from("abcde")
_SEEDS = st.integers(0, 1_000_000)


def _fault(rng: random.Random) -> Reply:
    """Return an answer of a server in trouble; some carry out the request nevertheless."""
    return rng.choice(
        [
            error("broken", 500),
            Reply({}, 503, is_done=True),
            error("slow down", 429, retry_after="3"),
            Reply(b"", breaks_off=True, is_done=True),
            Reply(b"", breaks_off=True),
            Reply(b"<html>"),
        ]
    )


class PushHistory(RuleBasedStateMachine):
    """A source and its store.

    What the store has completed of a page is never lost before a newer text is completed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        self.server = self._stack.enter_context(stores_server())
        self.place = Place(Path(folder), self.server)
        self._stack.callback(self.place.desk.close)
        self.safe: dict[str, set[str]] = {}  #: texts of a page, one of which is completed
        self.theirs: set[str] = set()
        self.numbers = count(1)

    def teardown(self) -> None:
        self._stack.close()

    @initialize()
    def begin(self) -> None:
        for name in "abc":
            self.place.put(name, f"{name} 0")
        self.theirs = {self.server.put("theirs"), self.server.put("loose", store=None)}

    # The registry

    @rule(name=_NAMES)
    def put(self, name: str) -> None:
        text = f"{name} {next(self.numbers)}"  # another one each time
        url = self.place.put(name, text)
        if url in self.safe:
            self.safe[url].add(text)

    @rule(name=_NAMES)
    def drop(self, name: str) -> None:
        url = f"http://docs.example/{name}"
        if url in self.place.expected:
            self.place.drop(name)
            self.safe.pop(url, None)

    @rule()
    def lose_the_rows(self) -> None:
        """Let the registry forget what it gave, as one that was built anew.

        An upload that is attached nowhere is known by its row alone.
        """
        if not self.server.uploads.keys() <= self.theirs | self.server.stores[STORE].keys():
            return
        self.place.desk.connection.execute("DELETE FROM store_file").fetchall()

    # The store

    @rule(place=st.integers(0, 9))
    def detach_by_hand(self, place: int) -> None:
        ours = sorted(self.server.stores[STORE].keys() - self.theirs)
        if ours:
            gone = ours[place % len(ours)]
            entry = self.server.stores[STORE].pop(gone)
            self.safe.pop(entry["attributes"]["smartcrawl_url"], None)
            del self.server.uploads[gone]

    # Pushes

    @rule(seed=_SEEDS, share=st.sampled_from([0.1, 0.3, 0.6]))
    def push_to_a_server_in_trouble(self, seed: int, share: float) -> None:
        rng = random.Random(seed)
        self.place.away = rng.choice([0, 20])

        def answer(asked: Asked) -> Reply | None:
            return _fault(rng) if rng.random() < share else None

        self.server.answer = answer
        self.server.looks = rng.choice([0, 2])
        self.place.push()
        self.server.answer = lambda asked: None

    @rule(seed=_SEEDS)
    def push_to_a_store_that_cannot_embed_some(self, seed: int) -> None:
        rng = random.Random(seed)
        self.server.fails = lambda text: "cannot be parsed" if rng.random() < 0.5 else ""
        self.place.push()
        self.server.fails = lambda text: ""

    @rule(requests=st.integers(0, 30))
    def push_that_is_stopped(self, requests: int) -> None:
        begun = len(self.server.asked)
        self.place.push(is_ending=lambda: len(self.server.asked) - begun >= requests)

    @rule()
    def push(self) -> None:
        self.place.away, self.server.looks = 100, 0
        pushed = self.place.push()
        if not pushed.is_whole:  # an upload that got no answer is looked for once more
            pushed = self.place.push()
        assert pushed.is_whole, (pushed.error, pushed.failed, pushed.in_progress)
        self.place.check()
        self.safe = {url: {text} for url, text in self.place.expected.items()}
        self.server.asked.clear()
        again = self.place.push()
        assert (again.unchanged, again.uploaded, again.detached) == (len(self.safe), 0, 0)

    @invariant()
    def nothing_of_others_is_touched(self) -> None:
        assert self.theirs <= self.server.uploads.keys()

    @invariant()
    def what_was_completed_stays(self) -> None:
        found = [
            (entry["attributes"]["smartcrawl_url"], self.server.uploads[id_]["content"])
            for id_, entry in self.server.stores[STORE].items()
            if id_ not in self.theirs and entry["status"] == "completed"
        ]
        for url, texts in self.safe.items():
            of_page = [content for each, content in found if each == url]
            assert any(f"{text}\n" in f"{content}\n" for text in texts for content in of_page), url


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=14,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def test_histories_of_pushes_end_as_a_model_says() -> None:
    run_state_machine_as_test(PushHistory, settings=_settings(10))


@pytest.mark.long
def test_many_histories_of_pushes_end_as_a_model_says() -> None:
    run_state_machine_as_test(PushHistory, settings=_settings(300))
