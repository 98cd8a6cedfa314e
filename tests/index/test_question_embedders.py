"""The embedders of questions: how long a search waits for one, and when it is asked again."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.index.embedded.vectors import StoredEmbedder
from smartcrawl.index.embedding.ports import PAUSE
from smartcrawl.index.query_vectors import QuestionEmbedders, _is_of
from smartcrawl.model.exceptions import EmbedderAwayError, EmbedderError
from tests.index.embedding.embeddings_server import EmbeddingsServer, embeddings_server, vector
from tests.index.meanings import embedder_options
from tests.openai_server import Reply, error

_WAIT = 0.3  #: seconds


class Clock:
    """Seconds that a test lets pass."""

    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedders(clock: Clock) -> Iterator[QuestionEmbedders]:
    found = QuestionEmbedders(clock)
    yield found
    found.forget()


def failure(embedders: QuestionEmbedders, server: EmbeddingsServer, **changed: object) -> str:
    """Return the error of a question, which does not speak of a run."""
    with pytest.raises(EmbedderError) as found:
        embedders.answer(embedder_options(server, **changed), "a question", _WAIT)
    assert " run" not in str(found.value)
    return str(found.value)


FAILURES = {
    "busy": error("busy", 503),
    "limited": error("slow down", 429),
    "limited for an hour": error("slow down", 429, Retry_After="3600"),
    "used up": error("no more", 429, "insufficient_quota"),
    "refused key": error("no key", 401),
    "other dimension": Reply({"data": [{"index": 0, "embedding": [1.0]}], "model": "m"}),
    "no answer of the protocol": Reply({}),
}


@pytest.mark.parametrize("reply", FAILURES.values(), ids=FAILURES)
def test_an_embedder_that_failed_is_asked_nothing_for_a_minute(
    embedders: QuestionEmbedders, server: EmbeddingsServer, clock: Clock, reply: Reply
):
    server.answer = lambda asked: reply
    # EMBEDDING_WAIT_SECONDS is a wait of crawls
    first = failure(embedders, server, wait=60)
    asked = len(server.asked)
    clock.seconds += 40
    second = failure(embedders, server, wait=60)

    assert server.host in first
    assert first.partition(": it is asked")[0] == second.partition(": it is asked")[0]
    assert len(server.asked) == asked > 0
    clock.seconds += 3_600
    server.answer = lambda asked: None
    assert embedders.answer(embedder_options(server), "a", _WAIT).vector == vector("a")


def test_a_pause_says_what_is_left_of_it(
    embedders: QuestionEmbedders, server: EmbeddingsServer, clock: Clock
):
    server.answer = lambda asked: error("busy", 503)
    failure(embedders, server)
    clock.seconds += 45

    assert failure(embedders, server) == (
        f"{server.host} makes no vectors now (503, busy): it is asked again after 15 s"
    )
    clock.seconds += 15
    server.answer = lambda asked: None
    assert embedders.answer(embedder_options(server), "a", _WAIT).vector == vector("a")


def test_a_server_that_is_not_there_is_refused_at_once_and_once(
    embedders: QuestionEmbedders, server: EmbeddingsServer
):
    nowhere = embedder_options(server, url="http://127.0.0.1:1/v1", wait=60)
    began = time.monotonic()
    with pytest.raises(EmbedderAwayError, match="no connection"):
        embedders.answer(nowhere, "a", 5)

    assert time.monotonic() - began < 5
    assert embedders.answer(embedder_options(server), "a", _WAIT).vector == vector("a")


def test_a_server_that_hangs_is_waited_for_as_long_as_a_question_may_take(
    embedders: QuestionEmbedders, server: EmbeddingsServer, clock: Clock
):
    server.hangs.set()
    began = time.monotonic()
    first = failure(embedders, server)
    took = time.monotonic() - began
    asked = len(server.asked)
    second = failure(embedders, server)

    assert took < 2
    assert first == second
    assert first.startswith(f"{server.host} makes no vectors now (no vector of the question within")
    assert len(server.asked) == asked
    server.hangs.clear()
    clock.seconds += PAUSE
    assert embedders.answer(embedder_options(server), "a", 5).vector == vector("a")


def test_a_refused_question_is_no_failure_of_the_embedder(
    embedders: QuestionEmbedders, server: EmbeddingsServer
):
    server.answer = lambda asked: error("odd", 400) if "odd" in asked.texts else None

    refused = embedders.answer(embedder_options(server), "odd", _WAIT).vector
    assert "the server refuses it" in str(refused)
    assert embedders.answer(embedder_options(server), "a", _WAIT).vector == vector("a")


@pytest.mark.parametrize(
    ("stored", "named", "same"),
    [
        (("local", "table", 4), ("local", "", 0), True),
        (("onnx", "some", 4), ("onnx", "", 0), True),
        (("openai", "m", 4), ("local", "", 0), False),
        (("onnx", "some", 4), ("local", "some", 4), False),
        (("openai", "m", 4), ("openai", "m", 4), True),
        (("openai", "m", 4), ("openai", "m", 8), False),
        (("openai", "m", 4), ("openai", "other", 4), False),
    ],
)
def test_an_embedder_on_this_machine_is_known_by_its_name_and_a_server_by_its_model_too(
    stored: tuple[str, str, int], named: tuple[str, str, int], same: bool
):
    name, model, dimension = named
    options: Any = SimpleNamespace(name=name, model=model, dimension=dimension)

    assert _is_of(StoredEmbedder(1, *stored, None), options) is same
