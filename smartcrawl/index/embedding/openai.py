"""The embedder ``openai``: vectors by any server with ``/v1/embeddings``.

One request for vectors to ``/v1/embeddings``, by the official SDK, and the kinds of its failure.

The SDK neither repeats a request nor follows a redirect here: repeats are those of ``patience.py``,
and texts are sent to the configured host only.

A batch has as many texts as fit its two limits. Texts that the server refuses are found by halves:
a batch is divided until the refused text is alone, and a text that is too long is embedded in
parts.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import Any, Final, Self

import httpx2  # the HTTP client of the SDK
import openai

from smartcrawl.index.embedding.ports import (
    PAUSE,
    RefusedText,
    Vector,
    mean_of_vectors,
    normed_vector,
)
from smartcrawl.index.openai_sdk import (
    openai_away_error,
    openai_client,
    openai_error_message,
    openai_headers,
    openai_key,
    openai_lasting_remedy,
    openai_text_shown,
)
from smartcrawl.model.exceptions import EmbedderAwayError, EmbedderError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.option_groups import EmbedderOptions
from smartcrawl.model.patience import AwayError, CallGivenUpError, EndableCalls, Patience
from smartcrawl.model.redaction import redacted_line

_READ: Final = 1_000  #: characters of a server's message that are read
_MOST_BYTES: Final = 256 << 20  #: of an answer; 2,048 vectors of 4,000 numbers take 180 MB
#: Models that give shorter vectors when asked to; others refuse the parameter.
_SHORTENS: Final = re.compile(r"\btext-embedding-3")
#: Words of servers for a text, or a request, that is too long.
_TOO_LONG: Final = re.compile(
    r"too (?:long|large|many)|maxim|max_|exceed|length|context|token|\bsize\b|\blimit",
    re.IGNORECASE,
)
#: Words of servers that answer 500 to a text that is too long, and mean that text.
_INPUT_TOO_LONG: Final = re.compile(
    r"\b(?:input|prompt|text|sequence|tokens?)\b.{0,60}?\b(?:too (?:long|large|many)|exceeds?)\b",
    re.IGNORECASE,
)


class UnfitError(Exception):
    """The server refuses these texts, or its answer does not fit them; others may have vectors."""

    def __init__(self, reason: str, *, is_too_long: bool = False, lasting: bool = True) -> None:
        """``lasting``: the texts are refused; False: another answer may fit them."""
        super().__init__(reason)
        self.is_too_long, self.lasting = is_too_long, lasting


class EmbeddingsApi:
    """A server with ``/v1/embeddings``. Its ``repr`` and its errors contain no key."""

    def __init__(
        self,
        options: EmbedderOptions,
        key: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare the client; it connects with the first request.

        ``key`` empty: none is sent. ``clock`` measures seconds, ``now`` is Unix time.
        """
        self._model, self._url, self._key = options.model, options.url, key
        self._host, self._seconds = options.destination, options.timeout
        is_shortened = _SHORTENS.search(options.model)
        self._dimensions = options.dimension if is_shortened else openai.omit
        self._clock, self._now = clock, now
        self._client = openai_client(options, key, timeout=options.timeout)

    def embeddings(self, texts: Sequence[str]) -> tuple[list[object], str]:
        """Return the server's vector of each text, in order and unchecked, and its model's name.

        Raises:
            AwayError: it may answer later.
            UnfitError: it refuses these texts, or its answer is not one vector for each.
            EmbedderError: another request is of no use, such as with a wrong key.
        """
        try:
            with self._client.embeddings.with_streaming_response.create(
                input=list(texts),
                model=self._model,
                dimensions=self._dimensions,
                encoding_format="float",
                extra_headers=openai_headers(self._key),
            ) as response:
                body = self._body(response)
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        except openai.APIConnectionError as error:
            raise AwayError(self._shown(_connection_reason(error))) from None
        except httpx2.HTTPError as error:  # while the body came
            raise AwayError(self._shown(f"its answer broke off: {error}")) from None
        return self._ordered(body, len(texts))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, response: Any) -> bytes:
        """Return the body of an answer that comes whole within the timeout."""
        end, pieces, size = self._clock() + self._seconds, [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise AwayError(f"its answer has more than {_MOST_BYTES >> 20} MiB")
            if self._clock() > end:
                raise AwayError("its answer did not come whole within EMBEDDING_TIMEOUT_SECONDS")
        return b"".join(pieces)

    def _ordered(self, body: bytes, count: int) -> tuple[list[object], str]:
        """Return the vectors of an answer in the order of the texts, which ``index`` says."""
        try:
            answer = json.loads(body)
            data, model = answer["data"], str(answer.get("model") or "")
            found = {}
            for item in data:
                index = item.get("index", 0)
                if index in found:
                    reason = "its vectors cannot be assigned to the texts by their index"
                    raise UnfitError(reason, lasting=False)
                found[index] = item["embedding"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise AwayError(
                f"its answer is none of /v1/embeddings, it begins {self._shown(_beginning(body))!r}"
            ) from None
        if found.keys() != set(range(count)):
            vectors = "1 vector" if len(found) == 1 else f"{len(found)} vectors"
            reason = f"it gave {vectors} for {count} text{'s' * (count != 1)}"
            raise UnfitError(reason, lasting=False)
        return [found[index] for index in range(count)], model

    def _failure(self, error: openai.APIStatusError) -> Exception:
        """Return the error for an answer with an error status."""
        status = error.status_code
        message = self._shown(f"{status}, {openai_error_message(error)}")
        if remedy := openai_lasting_remedy(error, "EMBEDDING_URL", self._key):
            return self._lasting(message, remedy)
        if status == 500 and _INPUT_TOO_LONG.search(openai_error_message(error)[:_READ]):
            return UnfitError(message, is_too_long=True)
        if away := openai_away_error(error, message, self._now()):
            return away
        if status in (400, 413, 422):
            too_long = status == 413 or _TOO_LONG.search(openai_error_message(error)) is not None
            return UnfitError(message, is_too_long=too_long)
        return self._lasting(message, "check EMBEDDING_URL, which ends in /v1, and EMBEDDING_MODEL")

    def _lasting(self, message: str, remedy: str) -> EmbedderError:
        return EmbedderError(f"{self._host} makes no vectors ({message}): {remedy}", lasting=True)

    def _shown(self, text: str) -> str:
        return openai_text_shown(text, self._key)


def _connection_reason(error: openai.APIConnectionError) -> str:
    if isinstance(error, openai.APITimeoutError):
        return "no answer within EMBEDDING_TIMEOUT_SECONDS"
    return f"no connection: {error.__cause__ or error}"


def _beginning(body: bytes) -> str:
    return body[:80].decode("utf-8", "replace").strip()


_HARMLESS: Final = "text"  #: a text that every model embeds
_DIVISIONS: Final = 4  #: halves of halves of a text that is too long: up to 16 parts
_BYTES_PER_TOKEN: Final = 3  #: fewer than English has (4), about as many as Chinese


class OpenAIEmbedder:
    """Embeds texts by a server, which gets their text and the key, and nothing else.

    A failure that lasts, such as a refused key, ends all requests of this object. A server that is
    away is waited for at most ``EMBEDDING_WAIT_SECONDS`` in each outage.
    """

    name: Final = "openai"
    texts_at_once: Final = 256

    def __init__(
        self,
        options: EmbedderOptions,
        api: EmbeddingsApi,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """``clock`` measures seconds; ``sleep`` waits for as many, None: until it is closed."""
        self.model, self.dimension = options.model, options.dimension
        self.destination: str | None = options.destination
        self.location = options.url
        self._api, self._options = api, options
        self._closed = Event()
        self._calls = EndableCalls()
        host, self._clock, nap = options.destination, clock, sleep or self._closed.wait
        self._patience = Patience(options.wait, host, self._paused_by, clock=clock, sleep=nap)
        self._patience.say = lambda line: None  # the run says what it lacks
        self._pause: tuple[float, str] | None = None  #: end of a pause, and the last reason
        self._stopped = ""  #: message of the failure that lasts
        self._is_proved = False  #: whether this server has made a vector
        self._answers = False  #: whether it has made one since it last refused a text
        self.answered_by = ""  #: the model's name in the first answer

    @classmethod
    def open(cls, options: EmbedderOptions, environment: Mapping[str, str] = os.environ) -> Self:
        """Prepare an embedder with the key of the environment; it connects with the first text.

        Raises:
            SettingError: the key is missing where it is needed, or cannot be one.
        """
        missing = (
            f"the embedder 'openai' needs a key, and the environment has no {KEY_VARIABLE}: set it"
            " to a key of the API, or EMBEDDING_URL to a server of your own"
        )
        key = openai_key(missing if options.needs_key else "", environment)
        return cls(options, EmbeddingsApi(options, key))

    def embed(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        """Return the vector of each text, or why it has none, in the order of the texts.

        Raises:
            EmbedderError: the server is away, or refuses all requests; ``lasting`` says which.
        """
        whole = [text.encode("utf-8", "ignore").decode() for text in texts]
        found: list[Vector | RefusedText] = [RefusedText("the text is empty")] * len(whole)
        for places in self._batches(whole):
            answers = self._embedded([whole[place] for place in places])
            for place, answer in zip(places, answers, strict=True):
                found[place] = answer
        return found

    def embed_query(self, text: str) -> Vector | RefusedText:
        """Return the vector of a question, which is embedded like any other text.

        Raises:
            EmbedderError: as of ``embed``.
        """
        return self.embed([text])[0]

    def end_pause(self) -> None:
        """Let the next call ask the server, although an outage has just ended its requests."""
        self._patience.over()
        self._pause = None

    def close(self) -> None:
        """Close connections; a call that waits in another thread ends with an EmbedderError."""
        self._closed.set()
        self._calls.give_up()
        self._api.close()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the places of the texts of each batch; empty texts are left out."""
        batch: list[int] = []
        tokens = 0
        for place, text in enumerate(texts):
            if not text.strip():
                continue
            cost = 1 + len(text.encode()) // _BYTES_PER_TOKEN
            is_full = len(batch) == self._options.batch_texts
            if batch and (is_full or tokens + cost > self._options.batch_tokens):
                yield batch
                batch, tokens = [], 0
            batch.append(place)
            tokens += cost
        if batch:
            yield batch

    def _embedded(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        """Return the answers to one batch; it is divided where the server refuses it."""
        try:
            vectors = self._answered(texts)
        except UnfitError as error:
            if len(texts) == 1:
                return [self._alone(texts[0], error)]
            middle = len(texts) // 2
            return [*self._embedded(texts[:middle]), *self._embedded(texts[middle:])]
        return [normed_vector(vector, self.dimension) for vector in vectors]

    def _alone(self, text: str, error: UnfitError) -> Vector | RefusedText:
        """Return the answer to a text that the server refused alone: of its parts, or why not.

        Where it refused the last text, too, and embedded none between, it may refuse everything.

        Raises:
            EmbedderError: it does.
        """
        refused = RefusedText(f"the server refuses it: {error}", lasting=error.lasting)
        if error.is_too_long:
            try:
                return self._of_halves(text, _DIVISIONS)
            except UnfitError as again:
                reason = f"it is too long, and its parts are refused, too: {again}"
                refused = RefusedText(reason, lasting=again.lasting)
        if not self._answers:
            self._probe(error)
        self._answers = False
        return refused

    def _of_halves(self, text: str, divisions: int) -> Vector | RefusedText:
        """Return the vector of a text out of those of its halves, which are divided where needed.

        Raises:
            UnfitError: the server refuses a part, and it is not to be divided any more.
        """
        halves = _halves(text)
        try:
            found = [normed_vector(half, self.dimension) for half in self._answered(halves)]
        except UnfitError as error:
            if not error.is_too_long or divisions == 1:
                raise
            found = [self._of_half(half, divisions - 1) for half in halves]
        parts = []
        for part in found:
            if isinstance(part, RefusedText):
                return part
            parts.append(part)
        return mean_of_vectors(parts, self.dimension)

    def _of_half(self, text: str, divisions: int) -> Vector | RefusedText:
        try:
            (found,) = self._answered([text])
        except UnfitError as error:
            if not error.is_too_long:
                raise
            return self._of_halves(text, divisions)
        return normed_vector(found, self.dimension)

    def _probe(self, error: UnfitError) -> None:
        """Find out whether the server refuses a text or everything.

        Raises:
            EmbedderError: everything.
        """
        try:
            self._answered([_HARMLESS])
        except UnfitError:
            raise self._stop(
                f"it refuses every text ({error})",
                "check EMBEDDING_URL, EMBEDDING_MODEL and EMBEDDING_DIMENSION",
            ) from None

    def _answered(self, texts: Sequence[str]) -> list[object]:
        """Return the server's vectors, after waiting for it where it is away.

        Raises:
            UnfitError: the server refuses these texts.
            EmbedderError: it is away for too long, refuses all requests, or has another model.
        """
        vectors, model = self._requested(texts)
        self._check_model(vectors, model)
        return vectors

    def _requested(self, texts: Sequence[str]) -> tuple[list[object], str]:
        """Return the server's vectors and the name of its model, as ``_answered`` does."""
        if self._pause is not None and (left := self._pause[0] - self._clock()) > 0:
            raise EmbedderAwayError(self._options.destination, self._pause[1], left)
        return self._patience.ask(lambda: self._called(texts))

    def _called(self, texts: Sequence[str]) -> tuple[list[object], str]:
        if self._stopped:
            raise EmbedderError(self._stopped, lasting=True)
        try:
            return self._calls.made(lambda: self._api.embeddings(texts))
        except CallGivenUpError:
            closed = "the embedder was closed; no request is sent"
            raise EmbedderError(closed, lasting=True) from None
        except EmbedderError as error:
            self._stopped = str(error)
            raise

    def _paused_by(self, failure: AwayError, _: float) -> EmbedderAwayError:
        """Give the server a pause after an outage that took too long; return its error.

        In the pause every call fails at once, and one try after it finds out whether the outage is
        over: an absent server does not hold up a crawl.
        """
        pause = max(PAUSE, float(failure.wait or 0))
        self._pause = (self._clock() + pause, str(failure))
        return EmbedderAwayError(self._options.destination, str(failure), pause)

    def _check_model(self, vectors: Sequence[object], model: str) -> None:
        """Refuse the vectors of another model.

        Raises:
            EmbedderError: they have another dimension, or the server names another model than
                before.
        """
        lengths = {len(vector) if isinstance(vector, list) else 0 for vector in vectors}
        length = max(lengths)
        if length == self.dimension:
            self._is_proved = self._answers = True
        elif len(lengths) == 1 and length and (len(vectors) > 1 or self._has_all(length)):
            raise self._stop(
                f"its vectors have {length} numbers, and EMBEDDING_DIMENSION is {self.dimension}",
                f"set EMBEDDING_DIMENSION={length}, or another EMBEDDING_MODEL",
            )
        self.answered_by = self.answered_by or model
        if model and model != self.answered_by:
            raise self._stop(
                f"it answers with the model {redacted_line(model)!r} after"
                f" {redacted_line(self.answered_by)!r}",
                "vectors of two models cannot be compared: let it keep one",
            )

    def _has_all(self, length: int) -> bool:
        """Whether a single vector of another length is what the model makes of every text.

        If no vector was right before, another text is asked for: the answer alone may be wrong.
        """
        if self._is_proved:
            return False
        try:
            vectors, _ = self._requested([_HARMLESS])
        except UnfitError:
            return False
        [other] = [len(vector) if isinstance(vector, list) else 0 for vector in vectors]
        self._is_proved = other == self.dimension
        return other == length

    def _stop(self, reason: str, remedy: str) -> EmbedderError:
        """Return the error after which this object asks nothing more."""
        self._stopped = f"{self.destination} makes no vectors that can be used, {reason}: {remedy}"
        return EmbedderError(self._stopped, lasting=True)


def _halves(text: str) -> list[str]:
    """Return both halves of a text, divided at the white space nearest to its middle, if any."""
    middle = len(text) // 2
    after, before = text.find(" ", middle), text.rfind(" ", 0, middle)
    places = [place for place in (before, after) if place > 0]
    cut = min(places, key=lambda place: abs(place - middle), default=middle)
    return [half for half in (text[:cut], text[cut:]) if half.strip()]
