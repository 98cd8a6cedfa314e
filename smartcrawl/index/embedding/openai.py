"""The embedder ``openai``: vectors by any server with ``/v1/embeddings``.

A batch has as many texts as fit its two limits. Texts that the server refuses are found by halves:
a batch is divided until the refused text is alone, and a text that is too long is embedded in
parts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import Final, Self

from smartcrawl.index.embedding.embeddings_api import EmbeddingsApi, UnfitError
from smartcrawl.index.embedding.patience import EmbedderPatience
from smartcrawl.index.embedding.ports import (
    RefusedText,
    Vector,
    mean_of_vectors,
    normed_vector,
)
from smartcrawl.index.embedding.waiting import GivenUpError, Waiting
from smartcrawl.index.openai_sdk import openai_key
from smartcrawl.index.outage import AwayError
from smartcrawl.model.embedder_options import EmbedderOptions
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.redaction import redacted_line

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
        self._waiting: Waiting[tuple[list[object], str]] = Waiting()
        self._patience = EmbedderPatience(
            options.destination, options.wait, clock, sleep or self._closed.wait
        )
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
        self._patience.end_outage()

    def close(self) -> None:
        """Close connections; a call that waits in another thread ends with an EmbedderError."""
        self._closed.set()
        self._waiting.give_up()
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
        self._patience.check_pause()
        while True:
            if self._stopped:
                raise EmbedderError(self._stopped, lasting=True)
            try:
                vectors, model = self._waiting.made(lambda: self._api.embeddings(texts))
            except GivenUpError:
                closed = "the embedder was closed: nothing is asked"
                raise EmbedderError(closed, lasting=True) from None
            except AwayError as failure:
                self._patience.wait(failure)
            except UnfitError:
                self._patience.end_outage()
                raise
            except EmbedderError as error:
                self._stopped = str(error)
                raise
            else:
                self._patience.end_outage()
                return vectors, model

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
