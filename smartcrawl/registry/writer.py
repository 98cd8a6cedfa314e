"""The writer thread of a run: batches in order, over its own connection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RegistryError, SmartcrawlError
from smartcrawl.model.program import program_argument
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.commit.batch import (
    DATA_ERRORS,
    Failed,
    RegistryCommit,
    Sharing,
    database_refusal_reason,
    first_refused_visit_row,
    store_refused_visit_row,
    store_unwritable_visit_row,
)
from smartcrawl.registry.commit.record import prepare_visits
from smartcrawl.registry.commit.run_counts import VisitedHosts, store_embedded_chunk_counts
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.index_protocols import BatchEmbedding, Sink
from smartcrawl.registry.library.shelf import LibraryShelf
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.runs.shared_reader import Reached, SharedReader

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing one batch."""

    batch: Batch
    stale: int  #: visits dropped because another write was newer
    renamed: dict[int, int] = field(default_factory=dict)  #: number -> the other worker's number
    reached: list[Reached] = field(default_factory=list)  #: its addresses, if workers share the run
    failed: list[Failed] = field(default_factory=list)  #: visits that could not be written


class RegistryWriter:
    """Writes the batches of one run, in order, in its own thread and over its own connection."""

    def __init__(
        self,
        registry: Registry,
        run: OpenRun,
        *,
        judgement: Judgement,
        merged: Callable[[str, str], str] | None = None,
        shelf: LibraryShelf | None = None,
    ) -> None:
        """``merged``: joins the stored shortcomings with new ones; None: the run is not shared.

        ``shelf``: puts the files of a library into their places; None: the source is no library.
        """
        self._shelf = shelf
        self._embedding: BatchEmbedding | None = None
        self._failure: SmartcrawlError | None = None  #: of the first batch that was not written
        self._database = registry.database
        self._snapshots = registry.snapshots
        self._connection = registry.database.connect()
        self._sharing = None if merged is None else Sharing(run.number, merged)
        self._shared = SharedReader(self._connection, run.no)
        self._new_commit = partial(
            RegistryCommit,
            self._connection,
            run=run.no,
            source=run.source,
            since=run.last_complete,
            forced=run.forced,
            judgement=judgement,
            sharing=self._sharing,
        )
        self._indexing = registry.indexing
        self._run = run.no
        self._source, self._trackers = run.source, judgement.trackers
        self._number = run.number
        self._hosts = VisitedHosts()
        self._fresh_hosts = VisitedHosts()  #: those of the batch that is being written
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")

    def embed_with(self, embedding: BatchEmbedding) -> None:
        """Store each later batch with its vectors."""
        self._embedding = embedding

    def submit(self, batch: Batch, now: int) -> Future[Written]:
        """Write a batch after all batches that were submitted before.

        A visit whose data the database or the index refuses is written as a failed one (R1-36).
        The future raises RegistryError or SinkError if the batch cannot be written; then the
        registry contains nothing of it.
        """
        return self._thread.submit(self._written, batch, now)

    def _written(self, batch: Batch, now: int) -> Written:
        """Write a batch; turn an unexpected error into RegistryError, which interrupts the run.

        Later batches rest on the addresses of earlier ones. So none is written after one that
        could not be; each of them fails with its error.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._write(batch, now)
        except SmartcrawlError as error:
            self._failure = error
            raise
        except Exception as error:
            self._failure = self._loss()
            if self._failure is not None:  # what was found missing was there before
                raise self._failure from error
            logger.exception("a batch cannot be written")
            self._failure = RegistryError(
                f"a batch cannot be written ({database_refusal_reason(error)}): nothing "
                "of it is stored. To request its pages again: "
                f"{program_argument('resume')}"
            )
            raise self._failure from error

    def _loss(self) -> SmartcrawlError | None:
        """Return the error about a registry that is not the one that was opened, if it is so."""
        try:
            self._database.check_place(self._connection)
        except SmartcrawlError as error:
            return error
        return None

    def _write(self, batch: Batch, now: int) -> Written:
        with self._database.translated("write"):
            self._database.check_place(self._connection)
            store, new = self._snapshots, {}
            if store is not None:
                new = store.put(self._connection, batch, now)
            if self._embedding is not None:
                self._embedding.embed(self._connection, batch)
            if self._shelf is not None:
                self._shelf.prepare(self._connection, batch)
            self._prepare(batch)
            failed: list[Failed] = []
            stale = self._committed(batch, new, now, failed)
            if self._shelf is not None:
                self._shelf.finish()
            reached = self._reached(batch) if self._sharing is not None else []
        for visit in batch.visits:
            visit.answer.body = None
        renamed: dict[int, int] = {}
        if self._sharing is not None:
            renamed, self._sharing.news = self._sharing.news, {}
        return Written(batch, stale, renamed, reached, failed)

    def _prepare(self, batch: Batch) -> None:
        """Make what the transaction will store, so that it holds its lock for a shorter time."""
        prepare = partial(
            prepare_visits,
            self._connection,
            self._source,
            batch.visits,
            trackers=self._trackers,
            analyzed=self._indexing.analyzed,
        )
        self._database.retried(prepare)

    def _reached(self, batch: Batch) -> list[Reached]:
        """Return the registry's rows for the addresses that a batch reached."""
        return self._shared.reached({*batch.reached, *(address.no for address in batch.addresses)})

    def _committed(
        self, batch: Batch, new: dict[bytes, str], now: int, failed: list[Failed]
    ) -> int:
        """Write a batch; visits that cannot be written become failed ones, in ``failed``."""
        while True:
            try:
                return self._database.retried(partial(self._commit_batch, batch, new, now, failed))
            except Exception as error:
                if not self._is_of_data(error):
                    raise
                failed.append(self._fail_refused(batch, new, now, error, failed))

    def _is_of_data(self, error: Exception) -> bool:
        return isinstance(error, DATA_ERRORS) or self._database.is_of_data(error)

    def _fail_refused(
        self,
        batch: Batch,
        new: dict[bytes, str],
        now: int,
        error: Exception,
        failed: list[Failed],
    ) -> Failed:
        """Turn the first visit that cannot be written into a failed one.

        It is found by trial transactions that are rolled back.

        Raises:
            RegistryError: no visit is the cause, or the failure cannot be written either.
        """

        def attempt(count: int) -> Exception | None:
            some = replace(batch, visits=batch.visits[:count])
            work = self._work(some, new, now)
            rehearse = partial(self._indexing.rehearse, self._connection, work, self._number)
            try:
                self._database.retried(rehearse)
            except Exception as found:
                if self._is_of_data(found):
                    return found
                raise
            return None

        refused = first_refused_visit_row(batch.visits, attempt)
        if refused is None or any(refused[0] is visit for visit, _ in failed):
            if isinstance(error, DATA_ERRORS):
                raise RegistryError(
                    f"a batch cannot be written ({database_refusal_reason(error)})"
                ) from error
            raise error
        visit, why = refused
        failure = store_unwritable_visit_row(visit, why)
        logger.error("%s is not stored: %s", redacted_text(visit.page.url), visit.error)
        return failure

    def _work(self, batch: Batch, new: dict[bytes, str], now: int) -> Callable[[Sink, int], int]:
        """Return a function that writes a batch within a transaction and counts stale visits."""

        def work(sink: Sink, number: int) -> int:
            commit = self._new_commit(sink, number=number, hosts=self._hosts)
            commit.begin(batch)
            if self._snapshots is not None:
                self._snapshots.note(self._connection, batch, new, now)
            stale = commit.write(batch, now)
            if self._shelf is not None:
                self._shelf.store(self._connection)
            if self._embedding is not None:
                embedded = self._embedding.store(self._connection)
                store_embedded_chunk_counts(self._connection, self._run, embedded)
            self._fresh_hosts = commit.counts.hosts
            return stale

        return work

    def _commit_batch(
        self, batch: Batch, new: dict[bytes, str], now: int, failed: list[Failed]
    ) -> int:
        dropped = 0
        work = self._work(batch, new, now)

        def refused(no: int, why: str | None) -> bool:
            nonlocal dropped
            if why is None and self._sharing is not None:
                return False  # another worker writes the same page, not the same visit
            visit = next((visit for visit in batch.visits if visit.page.no == no), None)
            if visit is None:
                return False
            if why is None:
                batch.visits.remove(visit)
                dropped += 1
            else:
                failed.append(store_refused_visit_row(visit, f"the index does not take it: {why}"))
            return True

        number = self._number if self._sharing is None else None
        stale = self._indexing.perform(
            self._connection, work, now=now, number=number, refused=refused
        )
        self._hosts.update(self._fresh_hosts)
        return stale + dropped

    @property
    def embeds_no_more(self) -> bool:
        """Whether an error of the embedder ended its calls for this run."""
        return self._embedding is not None and self._embedding.is_off

    def close(self) -> None:
        """Wait for the submitted batches and close the connection."""
        self._thread.shutdown(wait=True)
        self._connection.close()
