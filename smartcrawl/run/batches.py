"""The batches of a run: visits and addresses, given to the writer in order."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from smartcrawl.index.embedded.batch_vectors import BatchVectors
from smartcrawl.index.embedding.ports import Embedder
from smartcrawl.model.batches import Batch, HostNow, HostTally
from smartcrawl.model.options import Options
from smartcrawl.model.pages import ListedRecord, Visit
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.commit.snapshots import stored_snapshot_is_due
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.library.shelf import LibraryShelf
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.writer import RegistryWriter, Written
from smartcrawl.rules.model import Action, Extraction, Outcome, Standing, Status, Word
from smartcrawl.rules.seal import counts_as_unanswered, is_unanswered_status
from smartcrawl.run.orders import Orders, run_closing_from_orders
from smartcrawl.run.shortcomings import Shortcomings, merged_run_shortcomings
from smartcrawl.sources.base import Source


@dataclass(slots=True)
class RunCounters:
    """Counts of this process, for the progress line; the registry has those of the run."""

    words: dict[str, int] = field(default_factory=dict)
    visits: int = 0
    not_modified: int = 0
    stale: int = 0  #: visits that were too late and were dropped
    unread: int = 0  #: pages whose snapshots the store did not return
    lost: int = 0  #: pages whose snapshots are missing or damaged
    not_stored: int = 0  #: pages whose bodies the snapshot store did not take

    def count(self, visit: Visit) -> None:
        """Count one decided visit; an accepted visit only changes the word of an earlier one."""
        self.visits += not (visit.accepted or visit.page.plan.late)
        self.not_modified += visit.not_modified
        if visit.accepted and self.words.get("failed"):
            self.words["failed"] -= 1
        if visit.verdict is not None:
            word = visit.verdict.word.word
            self.words[word] = self.words.get(word, 0) + 1

    def fail(self, word: Word) -> None:
        """Count a visit as failed that was counted under ``word``."""
        self.words[word.word] -= 1
        self.words["failed"] = self.words.get("failed", 0) + 1


class Batches:
    """The open batch of a run, and the batches on their way to the registry."""

    def __init__(
        self,
        writer: RegistryWriter,
        *,
        written: Callable[[Written], None],
        shortcomings: Shortcomings,
        keeps_bodies: bool = False,
        forced: bool = False,
        shared: bool = False,
    ) -> None:
        """``written`` is called for each batch that is in the registry.

        ``keeps_bodies``: whether bodies get snapshots. ``forced``: whether unchanged bodies do,
        too. ``shared``: whether other workers write to the run.
        """
        self.batch = Batch()
        self._shortcomings = shortcomings
        self.keeps_bodies = keeps_bodies
        self._forced = forced
        self._shared = shared
        self.on_written: Callable[[], None] | None = None  #: called in the writer's thread
        self.progress = RunCounters()
        self._writer = writer
        self._written = written
        self.observe: Callable[[str], HostNow] | None = None  #: current delay and state of a host
        self._seen: dict[str, HostNow] = {}  #: hosts of this run, as they were written last
        self._submitted: deque[Future[Written]] = deque()
        self.embedder: Embedder | None = None  #: of the whole run; who opened it closes it
        self.unanswered = set[bytes]()  #: hashes of chunks that it answered wrongly in this run
        self.is_stopping: Callable[[], bool] | None = None  #: whether no vector is waited for

    def embed_with(self, embedder: Embedder) -> None:
        """Store the chunks of later batches with their vectors."""
        self.embedder = embedder
        self._writer.embed_with(
            BatchVectors(
                embedder,
                lambda: self.is_stopping is not None and self.is_stopping(),
                unanswered=self.unanswered,
            )
        )

    def probe(self, visit: Visit) -> None:
        """Add the look at an unreached page to the open batch; it is no visit."""
        traffic = visit.traffic
        counts = self.batch.counts
        counts["requests"] += traffic.requests
        counts["conditional_requests"] += traffic.conditional_requests
        counts["not_modified"] += visit.not_modified
        counts["bytes_downloaded"] += traffic.wire_bytes
        visit.answer.body = None
        self.batch.probes.append(visit)

    def confirm(self, records: Sequence[ListedRecord]) -> None:
        """Add stored files that their listing shows to be unchanged; none was requested."""
        self._count_listed(records)
        self.batch.touched.extend(record.no for record in records)
        word, words = Word.UNCHANGED.word, self.progress.words
        words[word] = words.get(word, 0) + len(records)

    def set_aside(self, records: Sequence[ListedRecord]) -> None:
        """Add listed files that were read before and are not to be indexed, and are the same."""
        self._count_listed(records)
        self.batch.aside.extend(record.no for record in records)

    def _count_listed(self, records: Sequence[ListedRecord]) -> None:
        batch, progress, count = self.batch, self.progress, len(records)
        batch.counts["visits"] += count
        batch.counts["not_modified"] += count
        batch.counts["bytes_saved"] += sum(record.content_length for record in records)
        for host, crawled in Counter(record.host for record in records).items():
            batch.tally(host).crawled += crawled
        progress.visits += count
        progress.not_modified += count

    def record(self, visit: Visit) -> None:
        """Add a decided visit to the open batch."""
        answer, parsed = visit.answer, visit.parsed
        batch, page = self.batch, visit.page
        record, state = page.record, page.state
        if answer.body is not None:
            if self.keeps_bodies and stored_snapshot_is_due(
                visit, forced=self._forced or state.ordered or _lacked_body(visit)
            ):
                batch.bodies += len(answer.body)
            else:
                answer.body = None
        if visit.again and not visit.extracted_again:
            return  # its snapshot could not be read: the page stays as it is
        batch.counts["reextracted"] += visit.extracted_again and not visit.lost_snapshot
        self.progress.lost += visit.lost_snapshot
        if visit.again:
            batch.visits.append(visit)
            batch.text += sum(len(chunk.text) for chunk in parsed.chunks)
            return
        unreachable = counts_as_unanswered(visit.outcome, visit.http_status)
        if visit.accepted:
            self._record_accepted(visit, unreachable=unreachable)
            return
        self.note_tried(visit)
        if page.plan.late:
            self._record_late(visit, unreachable=unreachable)
            return
        if visit.collapse is not None:
            batch.bodies += len(visit.collapse.body)
        saved = record.content_length if visit.not_modified else 0
        counts = batch.counts
        counts["visits"] += 1
        counts["unreachable"] += unreachable
        counts["not_modified"] += visit.not_modified
        counts["bytes_saved"] += saved
        _add_to_host(batch.tally(page.host), visit)
        self._count_traffic(visit)
        self.progress.count(visit)
        if visit.error:
            visit.error = redacted_text(visit.error)
        if (
            visit.outcome is Outcome.NOT_MODIFIED
            and visit.http_status == 304
            and visit.action is Action.TOUCH
            and state.standing is Standing.HELD
            and state.status is Status.INDEXED
            and not record.noted
            and not state.lost_count
            and answer.etag == record.etag
            and answer.last_modified == record.last_modified
            and visit.url == page.url
            and visit.snapshot_error is None
            and not (visit.attempt is not None and visit.attempt.waits)
        ):
            batch.touched.append(page.no)
            return
        batch.visits.append(visit)
        if parsed.document is not None:
            batch.text += sum(len(chunk.text) for chunk in parsed.chunks)

    def note_tried(self, visit: Visit) -> None:
        """Add what the spellings of an address answered, and the request address that ends."""
        page = visit.page
        if tried := visit.tried:
            self.batch.tried[page.no] = [
                (url, status, None if error is None else redacted_text(error))
                for url, status, error in tried
            ]
        if visit.url == page.url or visit.answer.file is not None:
            return
        if visit.verdict is not None and visit.action not in (Action.NOTE, Action.HOLD):
            self.batch.spellings.setdefault(page.no, []).append(page.url)

    def _record_late(self, visit: Visit, *, unreachable: bool) -> None:
        """Add the answer of another spelling; its page was counted before, by a visit that failed.

        Only the difference to that visit counts, and the requests.
        """
        batch, state = self.batch, visit.page.state
        before = is_unanswered_status(state.http_status)
        batch.counts["unreachable"] += unreachable - before
        tally, failed = batch.tally(visit.page.host), _is_failed(visit)
        had_failed = state.status is Status.ERROR
        tally.crawled += had_failed - failed
        tally.failed += failed - had_failed
        tally.downloaded += visit.traffic.wire_bytes
        self._count_traffic(visit)
        word = "lost" if state.lost_count else "failed"
        if self.progress.words.get(word):
            self.progress.words[word] -= 1
        self.progress.count(visit)
        if visit.error:
            visit.error = redacted_text(visit.error)
        batch.visits.append(visit)
        batch.text += sum(len(chunk.text) for chunk in visit.parsed.chunks)

    def count_late(self, visit: Visit) -> None:
        """Add the requests of a late visit that is not written."""
        self.batch.tally(visit.page.host).downloaded += visit.traffic.wire_bytes
        self._count_traffic(visit)
        self.note_tried(visit)

    def _count_traffic(self, visit: Visit) -> None:
        traffic, counts = visit.traffic, self.batch.counts
        counts["requests"] += traffic.requests
        counts["conditional_requests"] += traffic.conditional_requests
        counts["bytes_downloaded"] += traffic.wire_bytes

    def _record_accepted(self, visit: Visit, *, unreachable: bool) -> None:
        """Add an answer that waited; its visit was counted before, as one without an answer."""
        batch = self.batch
        if not unreachable:
            batch.counts["unreachable"] -= 1
        if not _is_failed(visit):
            tally = batch.tally(visit.page.host)
            tally.crawled += 1
            tally.failed -= 1
        self.progress.count(visit)
        if visit.error:
            visit.error = redacted_text(visit.error)
        batch.visits.append(visit)
        batch.text += sum(len(chunk.text) for chunk in visit.parsed.chunks)

    def submit(self, now: int) -> Future[Written] | None:
        """Give the open batch to the writer; return the batch before last, if still written."""
        if self._shortcomings.changed:
            self._shortcomings.changed = False
            self.batch.cut = (
                self._shortcomings.news() if self._shared else self._shortcomings.dumps()
            )
        if self.batch:
            self._look_at_hosts()
            submitted = self._writer.submit(self.batch, now)
            self._submitted.append(submitted)
            if (notify := self.on_written) is not None:
                submitted.add_done_callback(lambda _: notify())
            self.batch = Batch()
        return self._submitted[0] if len(self._submitted) > 1 else None

    def _look_at_hosts(self) -> None:
        """Record the delay and the state of this batch's hosts, and of hosts that are paused."""
        if self.observe is None:
            return
        seen = self._seen
        passing = [host for host, now in seen.items() if now.will_change]
        for host in {*self.batch.hosts, *passing}:
            now = self.observe(host)
            if now != seen.get(host):
                seen[host] = self.batch.tally(host).now = now

    def collect(self) -> None:
        """Pass on the batches that are written.

        Raises:
            RegistryError: a batch could not be written; nothing of it is in the registry.
        """
        while self._submitted and self._submitted[0].done():
            written = self._submitted.popleft().result()
            self._written(written)
            self.progress.stale += written.stale
            for visit, word in written.failed:
                if not visit.again:
                    self.progress.fail(word)
            self.progress.not_stored += sum(
                visit.snapshot_error is not None and not visit.lost_snapshot
                for visit in written.batch.visits
            )

    async def flush(self, now: int) -> None:
        """Submit the open batch, and wait while the writer is two batches behind.

        Raises:
            RegistryError: as ``collect``.
        """
        before = self.submit(now)
        if before is not None:
            await asyncio.wrap_future(before)
        self.collect()

    def drain(self) -> None:
        """Wait until everything submitted is written (see ``collect``)."""
        while self._submitted:
            self._submitted[0].exception()
            self.collect()

    @property
    def is_writing(self) -> bool:
        """Whether a batch is on its way to the registry."""
        return bool(self._submitted)

    @property
    def embeds_no_more(self) -> bool:
        """Whether an error of the embedder ended its calls for this run."""
        return self._writer.embeds_no_more

    def close(self) -> None:
        """Wait for the submitted batches and close the writer."""
        self._writer.close()


def open_run_batches(
    *,
    source: Source,
    options: Options,
    orders: Orders,
    registry: Registry,
    opened: OpenRun,
    shortcomings: Shortcomings,
    written: Callable[[Written], None],
    shelf: LibraryShelf | None = None,
) -> Batches:
    """Return the batches of a run, judged by its source, settings and orders.

    ``shelf``: that of a library's files; None: the source is no library.
    """
    closing = run_closing_from_orders(source, options, orders)
    pace = closing.pace if opened.due else 0
    judgement = Judgement(closing.policy, options.schedule, pace, options.trackers)
    merge = merged_run_shortcomings if opened.shared else None
    return Batches(
        RegistryWriter(registry, opened, judgement=judgement, merged=merge, shelf=shelf),
        written=written,
        shortcomings=shortcomings,
        keeps_bodies=registry.snapshots is not None and source.keeps_snapshots,
        forced=opened.forced,
        shared=opened.shared,
    )


def _add_to_host(tally: HostTally, visit: Visit) -> None:
    failed = _is_failed(visit)
    tally.crawled += not failed
    tally.failed += failed
    tally.downloaded += visit.traffic.wire_bytes
    tally.response_ms += 0 if failed else visit.answer.response_ms


def _lacked_body(visit: Visit) -> bool:
    """Whether a page was asked whole because its snapshot could not be read."""
    attempt = visit.attempt
    is_lost = attempt is not None and attempt.lost_body
    return is_lost or visit.page.plan.extraction is Extraction.WHOLE


def _is_failed(visit: Visit) -> bool:
    """Whether a visit counts as failed for its host, as it does for a job."""
    return visit.verdict is None or visit.verdict.word in (Word.FAILED, Word.LOST)
