"""The embedder ``openai``: the official SDK against a server of ours."""

import json
import logging
import math
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl import settings
from smartcrawl.index.embedding import openai
from smartcrawl.index.embedding.choice import open_embedder
from smartcrawl.index.embedding.openai import EmbeddingsApi, OpenAIEmbedder
from smartcrawl.index.embedding.ports import PAUSE, RefusedText
from smartcrawl.model.exceptions import EmbedderError, SettingError
from smartcrawl.model.option_groups import EmbedderOptions
from tests.choices import options as run_options
from tests.index.embedding.embeddings_server import (
    DIMENSION,
    Asked,
    EmbeddingsServer,
    embeddings,
    embeddings_server,
    numbers,
    unit,
    vector,
)
from tests.openai_server import KEY, Reply, error

TEXTS = ["one", "two", "three"]


class Clock:
    """Seconds that pass while an embedder sleeps, and only then."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


def options(server: EmbeddingsServer, **changed: object) -> EmbedderOptions:
    wanted = {"EMBEDDER": "openai", "EMBEDDING_URL": server.url, "EMBEDDING_MODEL": "some-model",
              "EMBEDDING_DIMENSION": DIMENSION}  # fmt: skip
    found = EmbedderOptions.of(settings.defaults | wanted)
    assert found is not None
    return replace(found, **changed)


def embedder(
    server: EmbeddingsServer, clock: Clock, key: str = KEY, **changed: object
) -> OpenAIEmbedder:
    chosen = options(server, **changed)
    api = EmbeddingsApi(chosen, key, now=lambda: 946_684_799 - 20)
    return OpenAIEmbedder(chosen, api, clock=clock, sleep=clock.sleep)


def failure(found: OpenAIEmbedder, texts: list[str] = TEXTS) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        found.embed(texts)
    return caught.value


# Right answers


def test_each_text_gets_its_vector_of_length_one(server: EmbeddingsServer, clock: Clock):
    found = embedder(server, clock)

    vectors = found.embed(TEXTS)

    assert vectors == [vector(text) for text in TEXTS]
    assert (found.name, found.model, found.dimension) == ("openai", "some-model", DIMENSION)
    assert found.destination == server.host
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"input": TEXTS, "model": "some-model", "encoding_format": "float"}
    assert asked.headers["authorization"] == f"Bearer {KEY}"


def test_nothing_is_asked_for_nothing(server: EmbeddingsServer, clock: Clock):
    assert embedder(server, clock).embed([]) == []
    assert embedder(server, clock).embed(["", " \n\t"]) == [RefusedText("the text is empty")] * 2
    assert server.asked == []


def test_an_empty_text_between_others_takes_no_vector_of_theirs(
    server: EmbeddingsServer, clock: Clock
):
    found = embedder(server, clock).embed(["one", "", "two"])

    assert found == [vector("one"), RefusedText("the text is empty"), vector("two")]


def test_half_of_a_surrogate_pair_is_left_out(server: EmbeddingsServer, clock: Clock):
    assert embedder(server, clock).embed(["a\ud800b", "\udfff"]) == [
        vector("ab"),
        RefusedText("the text is empty"),
    ]


def test_answers_in_another_order_are_assigned_by_their_index(
    server: EmbeddingsServer, clock: Clock
):
    def backwards(asked: Asked) -> Reply:
        answer = embeddings(asked.texts)
        answer["data"].reverse()
        return Reply(answer)

    server.answer = backwards

    assert embedder(server, clock).embed(TEXTS) == [vector(text) for text in TEXTS]


def test_only_models_that_can_are_asked_for_shorter_vectors(server: EmbeddingsServer, clock: Clock):
    embedder(server, clock, model="text-embedding-3-large").embed(["one"])
    embedder(server, clock, model="openai/text-embedding-3-small").embed(["one"])
    embedder(server, clock, model="text-embedding-ada-002").embed(["one"])

    assert [asked.body.get("dimensions") for asked in server.asked] == [DIMENSION, DIMENSION, None]


# Batches


def test_a_batch_has_at_most_so_many_texts(server: EmbeddingsServer, clock: Clock):
    texts = [f"text {n}" for n in range(7)]

    found = embedder(server, clock, batch_texts=3).embed(texts)

    assert found == [vector(text) for text in texts]
    assert server.batches == [texts[:3], texts[3:6], texts[6:]]


def test_a_batch_has_at_most_so_many_tokens_by_estimate(server: EmbeddingsServer, clock: Clock):
    texts = ["a" * 30, "b" * 30, "語" * 10, "c" * 60, "d"]  # 11, 11, 11, 21 and 1 tokens

    found = embedder(server, clock, batch_tokens=22).embed(texts)

    assert found == [vector(text) for text in texts]
    assert server.batches == [texts[:2], texts[2:3], texts[3:]]


def test_a_text_beyond_the_limit_of_a_batch_is_a_batch(server: EmbeddingsServer, clock: Clock):
    texts = ["b" * 100, "a", "b" * 100, "c"]

    embedder(server, clock, batch_tokens=5).embed(texts)

    assert server.batches == [["b" * 100], ["a"], ["b" * 100], ["c"]]


# A server that is away or busy


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_failure_that_may_pass_is_waited_for(server: EmbeddingsServer, clock: Clock, status: int):
    server.replies = [error("later", status)] * 3

    assert embedder(server, clock).embed(["one"]) == [vector("one")]
    assert clock.slept == [1, 2, 4]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0", 1),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 20),
        ("soon", 1),
    ],
)
def test_retry_after_is_obeyed(server: EmbeddingsServer, clock: Clock, header: str, seconds: int):
    server.replies = [error("slow down", 429, Retry_After=header)]

    assert embedder(server, clock).embed(["one"]) == [vector("one")]
    assert clock.slept == [seconds]


def test_a_429_for_an_hour_ends_soon_and_is_asked_about_once_a_pause(
    server: EmbeddingsServer, clock: Clock
):
    began = clock.seconds
    server.answer = lambda asked: error("slow down", 429) if clock.seconds < began + 3_600 else None
    found = embedder(server, clock)
    failures = []
    while clock.seconds < began + 3_600 + PAUSE:
        try:
            vectors = found.embed(["one"])
        except EmbedderError as away:
            failures.append(away)
        clock.seconds += 10  # a page in ten seconds
    first = clock.slept

    assert sum(first) <= 60
    assert first == [1, 2, 4, 8, 16, 29]  # the last try comes at the end of the wait
    assert len(server.asked) <= len(first) + 3_600 / PAUSE + 7
    assert not any(away.lasting for away in failures)
    assert str(failures[0]) == (
        f"{server.host} makes no vectors now (429, slow down): it is asked again after 60 s"
    )
    assert "after 50 s" in str(failures[1])
    assert vectors == [vector("one")]


def test_a_retry_after_beyond_the_wait_is_not_waited_for_and_not_cut_short(
    server: EmbeddingsServer, clock: Clock
):
    server.replies = [error("slow down", 429, Retry_After="300")]
    found = embedder(server, clock)

    assert "asked again after 300 s" in str(failure(found))
    clock.seconds += 299
    assert not failure(found).lasting
    assert (len(server.asked), clock.slept) == (1, [])
    clock.seconds += 1
    assert found.embed(["one"]) == [vector("one")]


def test_an_answer_ends_an_outage(server: EmbeddingsServer, clock: Clock):
    """So the next outage is waited for as long as the first."""
    found = embedder(server, clock, wait=4)
    for _ in range(3):
        server.replies = [error("later", 503)] * 2
        assert found.embed(["one"]) == [vector("one")]

    assert clock.slept == [1, 2] * 3


def test_a_refusal_of_a_text_is_an_answer_too(server: EmbeddingsServer, clock: Clock):
    found = embedder(server, clock, wait=4)
    found.embed(["one"])
    for _ in range(3):
        server.replies = [error("later", 503)] * 2 + [error("odd", 422)]
        assert found.embed(["two"]) == [RefusedText("the server refuses it: 422, odd")]

    assert clock.slept == [1, 2] * 3


def test_waits_grow_up_to_half_a_minute(server: EmbeddingsServer, clock: Clock):
    server.replies = [error("later", 503)] * 7

    assert embedder(server, clock, wait=200).embed(["one"]) == [vector("one")]
    assert clock.slept == [1, 2, 4, 8, 16, 30, 30]


def test_without_a_wait_the_first_failure_ends_the_call(server: EmbeddingsServer, clock: Clock):
    server.replies = [error("later", 503)]

    assert not failure(embedder(server, clock, wait=0)).lasting
    assert clock.slept == []


def test_a_server_that_is_away_is_waited_for_and_named(server: EmbeddingsServer, clock: Clock):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        found = embedder(server, clock, url=f"http://127.0.0.1:{port}/v1", wait=3)

        away = failure(found)

    assert not away.lasting
    assert "Connection refused" in str(away)
    assert clock.slept == [1, 2]


def test_a_server_that_hangs_is_given_up(server: EmbeddingsServer, clock: Clock):
    server.hangs.set()
    began = time.monotonic()

    away = failure(embedder(server, clock, timeout=0.2, wait=0))

    assert time.monotonic() - began < 3
    assert not away.lasting
    assert "no answer within EMBEDDING_TIMEOUT_SECONDS" in str(away)


def test_an_answer_that_comes_too_slowly_is_given_up(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: Reply(embeddings(asked.texts), pieces=50, pause=0.02)
    chosen = options(server, timeout=0.2, wait=0)
    found = OpenAIEmbedder(chosen, EmbeddingsApi(chosen, KEY), clock=clock, sleep=clock.sleep)

    away = failure(found)

    assert not away.lasting
    assert "did not come whole within EMBEDDING_TIMEOUT_SECONDS" in str(away)


def test_an_answer_without_end_is_given_up(
    server: EmbeddingsServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(openai, "_MOST_BYTES", 1 << 20)
    server.answer = lambda asked: Reply(b"[" + b" " * (2 << 20))

    away = failure(embedder(server, clock, wait=0))

    assert not away.lasting
    assert "its answer has more than 1 MiB" in str(away)


def test_an_answer_that_breaks_off_is_asked_for_again(server: EmbeddingsServer, clock: Clock):
    server.replies = [Reply(embeddings(["one"]), breaks_off=True)]

    assert embedder(server, clock).embed(["one"]) == [vector("one")]
    assert clock.slept == [1]


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><title>Maintenance</title>",
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"data": null}',
        b'{"data": [[]]}',
        b'{"data": [{"index": 0}]}',
        b'{"error": "none"}',
        b"[" * 100_000,
    ],
    ids=["HTML", "nothing", "list", "null", "no text", "no data", "lists", "no vector", "error",
         "deep"],
)  # fmt: skip
def test_an_answer_that_is_none_gives_no_vector(
    server: EmbeddingsServer, clock: Clock, body: bytes
):
    server.answer = lambda asked: Reply(body, content_type="text/html")

    away = failure(embedder(server, clock, wait=2))

    assert not away.lasting
    assert "its answer is none of /v1/embeddings" in str(away)
    assert len(str(away)) < 600
    assert len(server.asked) == 3


@pytest.mark.parametrize("hangs", [False, True], ids=["busy", "hangs"])
def test_close_wakes_a_call_that_waits(server: EmbeddingsServer, hangs: bool):
    server.answer = lambda asked: error("slow down", 429, Retry_After="30")
    if hangs:
        server.hangs.set()
    found = OpenAIEmbedder.open(options(server), {"OPENAI_API_KEY": KEY})
    caught: list[EmbedderError] = []
    waits = threading.Thread(target=lambda: caught.append(failure(found)))
    waits.start()
    while not server.asked:
        pass
    found.close()
    waits.join(5)

    assert not waits.is_alive()
    server.released.set()
    assert "the embedder was closed" in str(caught[0])
    assert "the embedder was closed" in str(failure(found))
    assert len(server.asked) == 1


# Requests that the server refuses for good


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error("Incorrect API key provided", 401, "invalid_api_key"), "check OPENAI_API_KEY"),
        (error("Country not supported", 403), "check OPENAI_API_KEY"),
        (error("No such model", 404, "model_not_found"), "and EMBEDDING_MODEL"),
        (error("Not here", 405), "check EMBEDDING_URL, which ends in /v1"),
        (error("You exceeded your quota", 429, "insufficient_quota"), "needs credit"),
        (Reply(b"", 308, {"Location": "http://127.0.0.1:1/v1"}), "set EMBEDDING_URL to that"),
    ],
    ids=["401", "403", "404", "405", "quota", "308"],
)
def test_a_refusal_that_lasts_stops_asking(
    server: EmbeddingsServer, clock: Clock, reply: Reply, message: str
):
    server.replies = [reply]
    found = embedder(server, clock)

    first, second = failure(found), failure(found)

    assert first.lasting
    assert second.lasting
    assert message in str(first)
    assert str(second) == str(first)
    assert len(server.asked) == 1
    assert clock.slept == []


def test_texts_are_not_sent_to_where_a_redirect_leads(server: EmbeddingsServer, clock: Clock):
    with embeddings_server() as other:
        server.replies = [Reply(b"", 307, {"Location": f"{other.url}/embeddings"})]

        assert failure(embedder(server, clock)).lasting
        assert other.asked == []


def test_a_server_that_refuses_every_text_is_asked_a_few_times(
    server: EmbeddingsServer, clock: Clock
):
    server.answer = lambda asked: error("dimensions are not supported", 400)
    found = embedder(server, clock)

    stopped = failure(found, [f"text {n}" for n in range(100)])

    assert stopped.lasting
    assert "refuses every text (400, dimensions are not supported)" in str(stopped)
    assert len(server.asked) <= 10
    assert failure(found).lasting


# Texts that the server refuses


def too_long(most: int) -> "EmbeddingsServer.answer":
    def answer(asked: Asked) -> Reply | None:
        long = any(len(text) > most for text in asked.texts)
        message = "This model's maximum context length is 8192 tokens"
        return error(message, 400, "context_length_exceeded") if long else None

    return answer


def test_a_text_that_is_too_long_is_divided(server: EmbeddingsServer, clock: Clock):
    server.answer = too_long(12)

    found = embedder(server, clock).embed(["short", "first half second half", "other"])

    halves = [numbers("first half"), numbers(" second half")]
    units = [[n / math.dist(half, [0] * DIMENSION) for n in half] for half in halves]
    mean = unit([sum(pair) for pair in zip(*units, strict=True)])
    assert found[0] == vector("short")
    assert isinstance(found[1], bytes)
    assert struct.unpack("<4f", found[1]) == pytest.approx(struct.unpack("<4f", mean), abs=1e-6)
    assert found[2] == vector("other")
    assert ["first half", " second half"] in server.batches


def test_a_text_whose_parts_are_too_long_is_refused_by_name(server: EmbeddingsServer, clock: Clock):
    server.answer = too_long(12)

    short, long, other = embedder(server, clock).embed(["short", "x" * 100_000, "other"])

    assert (short, other) == (vector("short"), vector("other"))
    assert long == RefusedText(
        "it is too long, and its parts are refused, too:"
        " 400, This model's maximum context length is 8192 tokens"
    )
    assert max(len(asked.texts) for asked in server.asked) == 3


@pytest.mark.parametrize("words", [2, 3, 8, 16])
def test_a_text_has_up_to_16_parts(server: EmbeddingsServer, clock: Clock, words: int):
    server.answer = too_long(8)
    text = " ".join(["seven__"] * words)

    (found,) = embedder(server, clock).embed([text])

    assert isinstance(found, bytes)
    taken = [one for asked in server.asked if too_long(8)(asked) is None for one in asked.texts]
    assert " ".join(map(str.strip, taken)) == text
    assert math.hypot(*struct.unpack("<4f", found)) == pytest.approx(1)


@pytest.mark.parametrize(
    "message",
    [
        "input is too large to process. increase the physical batch size",
        "the input length exceeds the context length",
    ],
)
def test_a_text_is_too_long_by_the_message_of_an_error_500(
    server: EmbeddingsServer, clock: Clock, message: str
):
    """As of llama.cpp and Ollama; other errors 500 pass."""
    server.answer = lambda asked: error(message, 500) if len(asked.texts[0]) > 5 else None

    (found,) = embedder(server, clock).embed(["one two"])

    assert isinstance(found, bytes)
    assert clock.slept == []


def test_a_server_that_begins_to_refuse_everything_refuses_no_text_for_good(
    server: EmbeddingsServer, clock: Clock
):
    """Such as one that answers 400 while its model is being loaded."""
    found = embedder(server, clock)
    found.embed(["one"])
    server.answer = lambda asked: error("not now", 400)

    stopped = failure(found, ["two", "three"])

    assert stopped.lasting
    assert "it refuses every text (400, not now)" in str(stopped)


def test_texts_that_are_refused_one_after_another_are_refused_where_others_are_not(
    server: EmbeddingsServer, clock: Clock
):
    odd = {"a", "b", "c"}
    server.answer = lambda asked: error("odd", 400) if odd & {*asked.texts} else None

    refused = RefusedText("the server refuses it: 400, odd")
    assert embedder(server, clock).embed([*"abc", "d"]) == [refused] * 3 + [vector("d")]


def test_a_text_is_too_long_by_the_status_413_alone(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: error("no", 413) if len(asked.texts[0]) > 5 else None

    (found,) = embedder(server, clock).embed(["one two"])

    assert isinstance(found, bytes)
    assert server.batches == [["one two"], ["one", " two"]]


def test_a_message_of_a_server_is_cut_off(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: error("no " * 1_000, 401)

    assert len(str(failure(embedder(server, clock)))) < 600


def test_no_half_without_a_word_is_sent(server: EmbeddingsServer, clock: Clock):
    server.answer = too_long(5)

    assert embedder(server, clock).embed(["aaaa    "]) == [vector("aaaa")]


def test_a_refused_text_leaves_the_others_of_its_batch(server: EmbeddingsServer, clock: Clock):
    texts = [f"text {n}" for n in range(20)]
    server.answer = lambda asked: error("odd", 422) if "text 11" in asked.texts else None

    found = embedder(server, clock).embed(texts)

    assert [n for n, each in enumerate(found) if each != vector(texts[n])] == [11]
    assert found[11] == RefusedText("the server refuses it: 422, odd")
    assert len(server.asked) <= 12


def test_a_first_text_that_is_refused_does_not_stop_the_run(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: error("odd", 400) if "bad" in asked.texts else None

    found = embedder(server, clock).embed(["bad", "good"])

    assert found == [RefusedText("the server refuses it: 400, odd"), vector("good")]


def test_a_request_that_is_too_large_is_divided(server: EmbeddingsServer, clock: Clock):
    texts = [f"text {n}" for n in range(8)]
    server.answer = lambda asked: Reply(b"", 413) if len(asked.texts) > 2 else None

    assert embedder(server, clock).embed(texts) == [vector(text) for text in texts]


# Vectors that are wrong


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([1.0, float("nan"), 0.0, 0.0], "its vector has a number that is not finite"),
        ([1.0, float("inf"), 0.0, 0.0], "its vector has a number that is not finite"),
        ([1, 10**400, 0, 0], "its vector has a number that is not finite"),
        ([0.0, 0.0, 0.0, -0.0], "its vector has only zeros"),
        ([1.0, 2.0], "its vector has 2 numbers instead of 4"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], "its vector has 5 numbers instead of 4"),
        ([], "its vector has 0 numbers instead of 4"),
        (["1", "2", "3", "4"], "its vector is not a list of numbers"),
        ([True, False, True, False], "its vector is not a list of numbers"),
        ("AACAPwAAAEA=", "its vector is not a list of numbers"),
        (None, "its vector is not a list of numbers"),
    ],
)
def test_a_wrong_vector_is_a_failure_of_its_text_alone(
    server: EmbeddingsServer, clock: Clock, wrong: object, reason: str
):
    server.answer = lambda asked: Reply(
        embeddings(asked.texts, [numbers("one"), wrong, numbers("three")])
    )

    found = embedder(server, clock).embed(TEXTS)

    assert found == [vector("one"), RefusedText(reason, lasting=False), vector("three")]


def test_a_half_that_has_no_vector_leaves_its_text_without_one(
    server: EmbeddingsServer, clock: Clock
):
    def answer(asked: Asked) -> Reply | None:
        if len(asked.texts) == 2:
            return Reply(embeddings(asked.texts, [numbers("a"), [0.0] * DIMENSION]))
        return error("too long", 400)

    server.answer = answer

    found = embedder(server, clock).embed(["a b"])

    assert found == [RefusedText("its vector has only zeros", lasting=False)]


def test_halves_that_cancel_each_other_out_refuse_their_text(
    server: EmbeddingsServer, clock: Clock
):
    def answer(asked: Asked) -> Reply | None:
        if len(asked.texts) == 2:
            return Reply(embeddings(asked.texts, [[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
        return error("too long", 400)

    server.answer = answer

    assert embedder(server, clock).embed(["a b"]) == [RefusedText("its vector has only zeros")]


def test_tiny_and_huge_numbers_are_a_vector_all_the_same(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: Reply(
        embeddings(asked.texts, [[3e-300, 4e-300, 0, 0], [3e300, -4e300, 0, 0]])
    )

    assert embedder(server, clock).embed(["one", "two"]) == [
        unit([3, 4, 0, 0]), unit([3, -4, 0, 0]),
    ]  # fmt: skip


@pytest.mark.parametrize("texts", [["one"], TEXTS], ids=["one text", "several"])
def test_a_dimension_that_no_vector_has_stops_asking(
    server: EmbeddingsServer, clock: Clock, texts: list[str]
):
    found = embedder(server, clock, dimension=8)

    stopped = failure(found, texts)

    assert stopped.lasting
    assert "have 4 numbers, and EMBEDDING_DIMENSION is 8" in str(stopped)
    assert "set EMBEDDING_DIMENSION=4" in str(stopped)
    asked = len(server.asked)
    failure(found)
    assert len(server.asked) == asked == (1 if len(texts) > 1 else 2)


@pytest.mark.parametrize(
    "other", [None, error("no", 400), Reply(embeddings(["text"], [[1.0] * 3]))],
    ids=["right", "refused", "of another length"],
)  # fmt: skip
def test_a_single_vector_of_another_length_is_a_wrong_answer_unless_another_text_has_it_too(
    server: EmbeddingsServer, clock: Clock, other: Reply | None
):
    found = embedder(server, clock)
    server.replies = [Reply(embeddings(["one"], [[1.0] * 5])), other]

    assert found.embed(["one"]) == [
        RefusedText("its vector has 5 numbers instead of 4", lasting=False)
    ]
    assert [asked.texts for asked in server.asked] == [["one"], ["text"]]
    assert found.embed(["one"]) == [vector("one")]


def test_a_second_wrong_answer_asks_for_no_other_text_where_that_was_right(
    server: EmbeddingsServer, clock: Clock
):
    found = embedder(server, clock)
    wrong = Reply(embeddings(["one"], [[1.0] * 5]))
    server.replies = [wrong, None, wrong]

    for _ in range(2):
        assert isinstance(found.embed(["one"])[0], RefusedText)
    assert [asked.texts for asked in server.asked] == [["one"], ["text"], ["one"]]


def test_another_dimension_in_the_middle_of_a_run_stops_asking(
    server: EmbeddingsServer, clock: Clock
):
    found = embedder(server, clock)
    found.embed(TEXTS)
    server.answer = lambda asked: Reply(embeddings(asked.texts, [[1.0] * 5 for _ in asked.texts]))

    assert found.embed(["one"]) == [
        RefusedText("its vector has 5 numbers instead of 4", lasting=False)
    ]
    assert failure(found).lasting


def test_another_model_in_the_middle_of_a_run_stops_asking(server: EmbeddingsServer, clock: Clock):
    """Its vectors look like those of the first one, and mean something else."""
    found = embedder(server, clock)
    found.embed(TEXTS)
    server.answer = lambda asked: Reply(embeddings(asked.texts) | {"model": "other-model"})

    stopped = failure(found)

    assert stopped.lasting
    assert "the model 'other-model' after 'some-model'" in str(stopped)


def test_a_server_that_does_not_name_its_model_is_believed(server: EmbeddingsServer, clock: Clock):
    found = embedder(server, clock)
    server.replies = [None, Reply(embeddings(["one"]) | {"model": None}), None]

    assert [found.embed(["one"]) for _ in range(3)] == [[vector("one")]] * 3


def test_a_first_vector_that_is_none_does_not_name_a_dimension(
    server: EmbeddingsServer, clock: Clock
):
    server.replies = [Reply(embeddings(["one"], [None]))]

    assert embedder(server, clock).embed(["one"]) == [
        RefusedText("its vector is not a list of numbers", lasting=False)
    ]


# Answers that do not fit the texts


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="half a batch"),
        pytest.param(lambda data: data[len(data) // 2 :], id="the other half"),
        pytest.param(lambda data: [*data, data[0] | {"index": len(data)}], id="one more"),
        pytest.param(lambda data: [each | {"index": 0} for each in data], id="index 0 only"),
        pytest.param(lambda data: [*data, data[-1] | {"index": 0}], id="one index twice"),
        pytest.param(lambda data: [each | {"index": each["index"] + 1} for each in data], id="1…"),
        pytest.param(lambda data: [each | {"index": None} for each in data], id="no index"),
        pytest.param(lambda data: [each | {"index": "0"} for each in data], id="index as text"),
    ],
)
def test_a_batch_that_does_not_fit_is_asked_for_in_parts(
    server: EmbeddingsServer, clock: Clock, change
):
    """Never is a vector taken for another text's."""

    def answer(asked: Asked) -> Reply | None:
        reply = embeddings(asked.texts)
        if len(asked.texts) > 1:
            reply["data"] = change(reply["data"])
        return Reply(reply)

    server.answer = answer

    assert embedder(server, clock).embed(TEXTS) == [vector(text) for text in TEXTS]


def test_a_text_that_gets_no_vector_may_have_one_later(server: EmbeddingsServer, clock: Clock):
    def answer(asked: Asked) -> Reply:
        reply = embeddings(asked.texts)
        reply["data"] = [each for each in reply["data"] if each["embedding"] != numbers("two")]
        return Reply(reply)

    server.answer = answer

    found = embedder(server, clock).embed(TEXTS)

    reason = "the server refuses it: it gave 0 vectors for 1 text"
    refused = RefusedText(reason, lasting=False)
    assert found == [vector("one"), refused, vector("three")]


def test_a_server_that_gives_no_vector_at_all_stops_asking(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: Reply(embeddings([]))

    assert failure(embedder(server, clock)).lasting
    assert len(server.asked) <= 4


def test_the_index_of_a_single_vector_may_be_missing(server: EmbeddingsServer, clock: Clock):
    server.answer = lambda asked: Reply({"data": [{"embedding": numbers("one")}]})

    assert embedder(server, clock).embed(["one"]) == [vector("one")]


# The key, the way, the log


def test_the_key_is_in_no_message_and_no_log(
    server: EmbeddingsServer, clock: Clock, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2"):
        caplog.set_level(logging.DEBUG, logger=name)
    replies = [
        error(f"Incorrect API key provided: {KEY}", 401),
        error(f"bad key {KEY}\x1b[2K\nINFO: all is well", 503),
        Reply(f"<p>{KEY}</p>".encode()),
        error(f"{KEY} is too long", 400),
        Reply(b"", 302, {"Location": f"http://a.example/?k={KEY}"}),
    ]
    found = []
    for reply in replies:
        server.answer = lambda asked, reply=reply: reply
        made = embedder(server, clock, wait=0)
        found += [str(failure(made)), repr(made), repr(made._api), repr(made._api._client)]

    assert len(caplog.records) > 10
    texts = "\n".join([*found, caplog.text, *(str(vars(record)) for record in caplog.records)])
    assert KEY not in texts
    assert "\x1b" not in texts
    assert "…" in found[0]


def test_a_log_is_quiet_unless_it_is_asked_for(
    server: EmbeddingsServer, clock: Clock, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)

    embedder(server, clock).embed(TEXTS)

    assert [record.name for record in caplog.records if record.name != "asyncio"] == []


def test_proxies_of_the_environment_count_only_where_they_are_asked_for(
    server: EmbeddingsServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    with embeddings_server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy.host}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)

        embedder(server, clock).embed(["one"])
        assert (len(server.asked), len(proxy.asked)) == (1, 0)
        embedder(server, clock, has_proxies=True).embed(["one"])
        assert (len(server.asked), len(proxy.asked)) == (1, 1)


def test_addresses_of_the_environment_do_not_count(
    server: EmbeddingsServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    with embeddings_server() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        embedder(server, clock).embed(["one"])

        assert (len(server.asked), len(other.asked)) == (1, 0)


def test_a_server_without_a_certificate_that_is_trusted_gets_no_text(
    server: EmbeddingsServer, clock: Clock
):
    found = embedder(server, clock, url=server.url.replace("http:", "https:"), wait=0)

    assert not failure(found).lasting
    assert server.asked == []


def test_without_a_key_none_is_sent(server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    found = OpenAIEmbedder.open(options(server), {})

    assert found.embed(["one"]) == [vector("one")]
    assert "authorization" not in server.asked[0].headers
    assert KEY not in json.dumps(server.asked[0].headers)


def test_the_key_is_that_of_the_environment(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    OpenAIEmbedder.open(options(server)).embed(["one"])

    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_openai_needs_a_key_and_a_key_has_no_spaces(server: EmbeddingsServer):
    theirs = options(server, url="https://api.openai.com/v1")

    with pytest.raises(SettingError, match="has no OPENAI_API_KEY: set it to a key"):
        OpenAIEmbedder.open(theirs, {"OPENAI_API_KEY": " "})
    for wrong in ("sk-geheim 1", "sk-geheim\r\nHost: evil.example", "sk-gehëim"):
        with pytest.raises(SettingError, match="copy it again") as caught:
            OpenAIEmbedder.open(options(server), {"OPENAI_API_KEY": wrong})
        assert "geh" not in str(caught.value)
    OpenAIEmbedder.open(theirs, {"OPENAI_API_KEY": KEY}).close()


def test_an_authority_of_the_operator_is_trusted(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, tmp_path
):
    """It is read for the first client, and again when it has changed."""
    loaded = []
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations",
        lambda self, cafile=None, **rest: loaded.append(cafile),
    )  # fmt: skip
    path = tmp_path / "ca.pem"
    for second in (1, 1, 2):
        path.touch()
        os.utime(path, (second, second))
        EmbeddingsApi(options(server, ca_file=path), KEY).close()

    assert loaded.count(path) == 2
    EmbeddingsApi(options(server), KEY).close()
    loaded.clear()
    EmbeddingsApi(options(server), KEY).close()
    assert loaded == []  # the system's own


def test_a_missing_package_is_named_with_its_extra(
    server: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("openai", "embeddings_api"):
        monkeypatch.delitem(sys.modules, f"smartcrawl.index.embedding.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(SettingError) as caught:
        open_embedder(run_options(tmp_path, embedder=options(server)))

    assert "the embedder 'openai' needs a package that is not installed" in str(caught.value)
    assert "pip install 'openai==" in str(caught.value)


def test_the_settings_choose_the_embedder(
    server: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    found = open_embedder(run_options(tmp_path, embedder=options(server)))

    assert isinstance(found, OpenAIEmbedder)
    assert found.embed(["one"]) == [vector("one")]
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
