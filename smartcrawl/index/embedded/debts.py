"""Debts: chunks without a vector, embedded out of the registry without a request to any source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from smartcrawl.index.embedded.vectors import (
    count_owed_texts,
    drop_unused_vectors,
    lock_embedders,
    note_embedder,
    note_whole_embedder,
    owed_texts,
    put_vectors,
)
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.transactions import transaction

_AT_ONCE: Final = 256  #: chunks that are embedded, and whose vectors are written, together


@dataclass(slots=True)
class PaidDebts:
    """Results for the chunks that had no vector."""

    embedded: int = 0
    refused: int = 0  #: texts that can have none
    owed: int = 0  #: different chunks that still have none
    dropped: int = 0  #: vectors that no chunk used any more
    error: EmbedderError | None = None  #: why some are owed


def pay_debts(
    connection: Connection,
    embedder: Embedder,
    *,
    sources: Sequence[str] = (),
    now: int,
    ttl: int,
    report: Callable[[int], None],
    is_ending: Callable[[], bool] = lambda: False,
) -> PaidDebts:
    """Embed the chunks that have no vector; ``sources`` empty means all.

    When none is left in any source, searches use the vectors of this embedder, and those of former
    ones are unused. Vectors that are unused for ``ttl`` seconds are dropped. ``report`` is called
    with the number of chunks so far. An embedder that does not answer leaves the rest for a later
    call.
    """
    paid = PaidDebts()
    with transaction(connection):
        number = note_embedder(connection, embedder)
    try:
        for texts in owed_texts(connection, number, sources, _AT_ONCE):
            if is_ending():
                break
            found = embedder.embed([owed.text for owed in texts])
            with transaction(connection):
                number = note_embedder(connection, embedder)  # another process may drop it
                pairs = zip((owed.hash for owed in texts), found, strict=True)
                put_vectors(connection, number, pairs)
            refused = sum(isinstance(one, RefusedText) for one in found)
            paid.refused += refused
            paid.embedded += len(found) - refused
            report(paid.embedded + paid.refused)
    except EmbedderError as error:
        paid.error = error
    with transaction(connection):
        lock_embedders(connection)
        number = note_embedder(connection, embedder)
        paid.owed = count_owed_texts(connection, number, sources)
        if not paid.owed and not (sources and count_owed_texts(connection, number)):
            note_whole_embedder(connection, number, now)
            paid.dropped = drop_unused_vectors(connection, number, now=now, ttl=ttl)
    return paid
