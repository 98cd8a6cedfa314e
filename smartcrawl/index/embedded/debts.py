"""Debts: chunks without a vector, embedded out of the registry without a request to any source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from smartcrawl.index.embedded.vectors import (
    OwedText,
    check_answering_embedder,
    count_index_texts_to_embed,
    drop_unused_index_vectors,
    index_page_of_chunk,
    index_texts_to_embed,
    lock_index_embedders,
    note_index_embedder,
    note_whole_index_embedder,
    put_index_vectors,
    unanswered_index_hashes,
)
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.registry.chunks import owe_refused_chunks
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.transactions import transaction

_SHOWN: Final = 5  #: texts without a vector whose pages and reasons are shown


@dataclass(slots=True)
class PaidDebts:
    """Results for the chunks that had no vector."""

    embedded: int = 0
    refused: int = 0  #: texts that can have none
    unanswered: int = 0  #: texts whose answer was wrong; they are owed
    owed: int = 0  #: different chunks that still have none
    reasons: list[tuple[str, str]] = field(default_factory=list)  #: the first: page, why no vector
    dropped: int = 0  #: vectors that no chunk used any more
    error: EmbedderError | None = None  #: why some are owed


class DebtsElsewhere(Protocol):
    """Debts of chunks that an index elsewhere has."""

    def note_chunks(self, connection: Connection, is_ending: Callable[[], bool]) -> bool:
        """Note the chunks of contents that were stored without an embedder; whether of all."""

    def owed_texts(
        self, connection: Connection, embedder: int, sources: Sequence[str], most: int
    ) -> Iterator[list[OwedText]]:
        """Yield chunks without a vector, as ``vectors.index_texts_to_embed`` does."""

    def write(self, connection: Connection, sources: Sequence[str], now: int) -> None:
        """Write the pages whose documents lack vectors that the registry has.

        Raises:
            SinkError: the index takes nothing any more.
        """

    def lacking(self, connection: Connection, sources: Sequence[str] = ()) -> list[int]:
        """Return the pages whose documents lack vectors, or have too many."""

    def searched(self, connection: Connection) -> int | None:
        """Return the embedder whose vectors the documents have, or None."""


def pay_embedded_index_debts(
    connection: Connection,
    embedder: Embedder,
    *,
    sources: Sequence[str] = (),
    now: int,
    ttl: int,
    report: Callable[[int], None],
    is_ending: Callable[[], bool] = lambda: False,
    is_off: bool = False,
    elsewhere: DebtsElsewhere | None = None,
    unanswered: Collection[bytes] = (),
    refused_too: bool = False,
) -> PaidDebts:
    """Embed the chunks that have no vector; ``sources`` empty means all.

    When none is left in any source, searches use the vectors of this embedder, and those of former
    ones are unused. Vectors that are unused for ``ttl`` seconds are dropped, even while some are
    owed. ``report`` is called with the number of chunks so far. An embedder that does not answer
    leaves the rest for a later call; so does a wrong answer with its text, which is asked once.
    With ``is_off`` it is not asked at all. ``elsewhere``: the debts of an index that is elsewhere;
    its documents are written, too. ``unanswered``: hashes of chunks that are not asked for.
    With ``refused_too`` texts that were refused before are asked for again.

    Raises:
        SinkError: the index elsewhere takes nothing any more; the registry has the vectors.
    """
    paid, is_known, searched, wrong = PaidDebts(), True, None, set(unanswered)
    is_lacking = False
    number = _noted(connection, embedder, sources if refused_too else None)
    if elsewhere is not None:
        is_known = elsewhere.note_chunks(connection, is_ending)
    owed_of = index_texts_to_embed if elsewhere is None else elsewhere.owed_texts
    try:
        for owed_texts in owed_of(connection, number, sources, embedder.texts_at_once):
            if is_off or is_ending():
                break
            if texts := [owed for owed in owed_texts if owed.hash not in wrong]:
                wrong |= _pay_texts(connection, embedder, texts, paid)
            report(paid.embedded + paid.refused)
    except EmbedderError as error:
        paid.error = error
    if elsewhere is not None:
        elsewhere.write(connection, sources, now)
    with transaction(connection):
        lock_index_embedders(connection)
        number = note_index_embedder(connection, embedder)
        if elsewhere is not None:
            searched = elsewhere.searched(connection)
            is_lacking = searched == number and bool(elsewhere.lacking(connection))
        paid.owed = count_index_texts_to_embed(connection, number, sources)
        is_paid = not paid.owed and not (sources and count_index_texts_to_embed(connection, number))
        if is_paid and is_known and not is_lacking:
            note_whole_index_embedder(connection, number, now)
        if is_known and not is_ending():
            paid.dropped = drop_unused_index_vectors(
                connection, number, now=now, ttl=ttl, searched=searched
            )
    return paid


def _noted(connection: Connection, embedder: Embedder, asked_again: Sequence[str] | None) -> int:
    """Return the number of an embedder; texts of some sources that were refused become debts."""
    with transaction(connection):
        number = note_index_embedder(connection, embedder)
        if asked_again is not None:
            owe_refused_chunks(connection, number, asked_again)
    return number


def _pay_texts(
    connection: Connection, embedder: Embedder, texts: Sequence[OwedText], paid: PaidDebts
) -> set[bytes]:
    """Embed some texts; return the hashes of those whose answer was wrong."""
    found = embedder.embed([owed.text for owed in texts])
    check_answering_embedder(connection, embedder)
    pairs = list(zip((owed.hash for owed in texts), found, strict=True))
    with transaction(connection):
        number = note_index_embedder(connection, embedder)  # another process may drop it
        put_index_vectors(connection, number, pairs)
    wrong = unanswered_index_hashes(pairs)
    without = 0
    for hash_, one in pairs:
        if isinstance(one, RefusedText):
            without += 1
            if len(paid.reasons) < _SHOWN:
                paid.reasons.append((index_page_of_chunk(connection, hash_), one.reason))
    paid.unanswered += len(wrong)
    paid.refused += without - len(wrong)
    paid.embedded += len(found) - without
    return wrong
