"""Vectors of the chunks that a batch writes, made before its transaction and stored in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from smartcrawl.index.embedded.sqlite import searchable_chunks
from smartcrawl.index.embedded.vectors import (
    check_answering_embedder,
    embedded_text,
    index_embedder_number,
    index_vector_hashes,
    note_index_embedder,
    put_index_vectors,
    unanswered_index_hashes,
)
from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector
from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import Action

logger = logging.getLogger(__name__)

SECONDS: Final = 2  #: after which no call about a batch begins


class BatchVectors:
    """Embeds the new chunks of each batch (``BatchEmbedding`` of the registry).

    A chunk for which the embedder gives no answer is owed: its page is written without its vector.
    A lasting error ends the calls of this run. Those of one batch end after ``SECONDS`` and when
    ``is_ending`` says so: text does not wait for a slow model, and the end of the run pays.
    """

    def __init__(
        self,
        embedder: Embedder,
        is_ending: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        unanswered: set[bytes] | None = None,
    ) -> None:
        """``clock`` measures seconds.

        ``unanswered`` gets the hashes of chunks whose answer was wrong. They are not asked again.
        """
        self.embedder = embedder
        self._is_ending, self._clock = is_ending, clock
        self._found: dict[bytes, Vector | RefusedText] = {}
        self._unanswered = set() if unanswered is None else unanswered
        self.is_off = False  #: after an error that lasts
        self._is_away = False

    def embed(self, connection: Connection, batch: Batch) -> None:
        """Ask for the vectors of a batch. No transaction is open."""
        self._found = {}
        texts = _texts(batch)
        if not texts or self.is_off:
            return
        number = index_embedder_number(connection, self.embedder)
        known = set() if number is None else index_vector_hashes(connection, number, list(texts))
        known |= self._unanswered
        owed = [hash_ for hash_ in texts if hash_ not in known]
        most, end = self.embedder.texts_at_once, self._clock() + SECONDS
        try:
            for start in range(0, len(owed), most):
                if self._is_ending() or (start and self._clock() >= end):
                    break
                some = owed[start : start + most]
                answers = self.embedder.embed([texts[hash_] for hash_ in some])
                check_answering_embedder(connection, self.embedder)
                found = dict(zip(some, answers, strict=True))
                self._found |= found
                self._unanswered |= unanswered_index_hashes(found.items())
            self._is_away = False
        except EmbedderError as error:
            self.is_off = error.lasting
            if not self._is_away:
                logger.warning("pages are stored without vectors for now: %s", error)
            self._is_away = True
        except Exception:  # of a library: a page waits for no vector
            logger.exception("pages are stored without vectors in this run")
            self.is_off = True

    def store(self, connection: Connection) -> int:
        """Store the vectors, within the transaction that has just written their chunks.

        The number of the embedder is that of this moment: another process may have dropped it, and
        an embedder of other vectors may have its former number. Returns the number of vectors.
        """
        if not self._found:
            return 0
        try:  # another process may have been the first to store its model
            check_answering_embedder(connection, self.embedder)
        except EmbedderError as error:
            logger.warning("pages are stored without vectors: %s", error)
            self.is_off = True
            return 0
        number = note_index_embedder(connection, self.embedder)
        put_index_vectors(connection, number, self._found.items())
        stored = index_vector_hashes(connection, number, list(self._found))
        return sum(not isinstance(self._found[hash_], RefusedText) for hash_ in stored)


def _texts(batch: Batch) -> dict[bytes, str]:
    """Return the texts to embed of a batch, by the hashes of their chunks."""
    found: dict[bytes, str] = {}
    for visit in batch.visits:
        document = visit.parsed.document
        if visit.action is not Action.INDEX or document is None:
            continue
        for chunk in searchable_chunks(visit.parsed.chunks):
            text = embedded_text(document.title, chunk.path, chunk.text)
            found[chunk.digest(document.title)] = text
    return found
