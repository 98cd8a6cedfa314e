"""The embedders that this process asks for the vectors of questions, and their pauses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Final, NamedTuple

from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.embedding.patience import PAUSE
from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector
from smartcrawl.index.embedding.waiting import Waiting
from smartcrawl.model.embedder_options import ON_THIS_MACHINE, EmbedderOptions
from smartcrawl.model.exceptions import EmbedderAwayError, EmbedderError
from smartcrawl.rules.vectors import Answering

SECONDS: Final = 2.0  #: that a server has to answer a question
_MOST_OPEN: Final = 2  #: embedders that stay open: the former one and that of the settings


class QuestionAnswer(NamedTuple):
    """The answer of an embedder to a question."""

    vector: Vector | RefusedText
    model: str  #: of the embedder that was asked
    answering: Answering  #: as it answered


class _Pause(NamedTuple):
    """The time in which an embedder is asked nothing."""

    until: float
    error: EmbedderError


class QuestionEmbedders:
    """Embedders for questions; one that failed is asked nothing for a minute, by no search.

    A server is not waited for: a search by words is better than a late one. It may be used by
    several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` measures seconds."""
        self._clock, self._lock = clock, Lock()
        self._open: dict[EmbedderOptions, Embedder] = {}
        self._pauses: dict[EmbedderOptions, _Pause] = {}
        self._answering: dict[EmbedderOptions, Answering] = {}
        self._waiting: Waiting[Vector | RefusedText] = Waiting()

    def answer(
        self, options: EmbedderOptions, text: str, seconds: float = SECONDS
    ) -> QuestionAnswer:
        """Return the vector of a question; a server has ``seconds`` to answer.

        Raises:
            EmbedderError: it did not answer, or failed less than a minute ago.
            SettingError: it cannot be opened.
        """
        self._check_pause(options)
        embedder = self._opened(options)
        if options.name in ON_THIS_MACHINE:
            found = embedder.embed_query(text)
            return QuestionAnswer(found, embedder.model, Answering(None, None))
        try:
            found = self._waiting.made(lambda: embedder.embed_query(text), max(0.0, seconds))
        except TimeoutError:
            within = f"no vector of the question within {SECONDS:g} s"
            error = EmbedderAwayError(str(embedder.destination), within, PAUSE)
            raise self._failed(options, embedder, error) from None
        except EmbedderError as error:
            raise self._failed(options, embedder, error) from None
        answering = Answering(embedder.answered_by, embedder.location)
        self._answering[options] = answering
        return QuestionAnswer(found, embedder.model, answering)

    def last_answering(self, options: EmbedderOptions) -> Answering | None:
        """Return how a server answered last; None: it was not asked."""
        return self._answering.get(options)

    def forget(self) -> None:
        """Close all embedders, and end their pauses."""
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
            self._pauses.clear()
            self._answering.clear()
        for embedder in closing:
            embedder.close()

    def _check_pause(self, options: EmbedderOptions) -> None:
        with self._lock:
            pause = self._pauses.get(options)
            if pause is None:
                return
            left = pause.until - self._clock()
            if left <= 0:
                del self._pauses[options]
                return
        raise _as_of_now(pause.error, left)

    def _opened(self, options: EmbedderOptions) -> Embedder:
        with self._lock:
            if options not in self._open:
                patient = replace(options, wait=0, timeout=min(options.timeout, int(SECONDS) + 1))
                opened = open_embedder_of(patient)
                while len(self._open) >= _MOST_OPEN:
                    self._open.pop(next(iter(self._open)))  # another thread may use it
                self._open[options] = opened
            return self._open[options]

    def _failed(
        self, options: EmbedderOptions, embedder: Embedder, error: EmbedderError
    ) -> EmbedderError:
        """Begin a pause; return the error of this failure, or of the one that began it before."""
        seconds = error.seconds if isinstance(error, EmbedderAwayError) else PAUSE
        with self._lock:
            pause = self._pauses.setdefault(options, _Pause(self._clock() + seconds, error))
            if self._open.get(options) is embedder:
                del self._open[options]
        embedder.close()  # what still waits asks nothing more
        return _as_of_now(pause.error, pause.until - self._clock())


def _as_of_now(error: EmbedderError, left: float) -> EmbedderError:
    if isinstance(error, EmbedderAwayError):
        return EmbedderAwayError(error.host, error.reason, left)
    return EmbedderError(str(error), lasting=error.lasting)
