"""What a Visit passes through: extract, decide, commit. Other items pass untouched."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.engine.download.soft404 import Soft404Probe
from smartcrawl.engine.stopping import is_stopping, stop
from smartcrawl.extract import html
from smartcrawl.extract.chunks import chunks
from smartcrawl.extract.documents import FORMAT_FAULTS, DocumentReader
from smartcrawl.extract.formats import FormatError
from smartcrawl.extract.hashes import body_hash, content_hash, text_hash
from smartcrawl.extract.sitemaps import looks_like
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import (
    GivenUpError,
    RegistryError,
    RunOverError,
    SinkError,
    SnapshotError,
    SnapshotStoreError,
)
from smartcrawl.model.pages import NAMES_SIGNED, Visit
from smartcrawl.model.signatures import unsigned
from smartcrawl.rules.model import Action, Extraction, Fault, Mode, Outcome, Standing
from smartcrawl.rules.reindex import decide
from smartcrawl.rules.shield import accepts_collapse, is_collapsed, is_login
from smartcrawl.rules.traps import Trap
from smartcrawl.run.collapses import collapse_of
from smartcrawl.run.links import MAX_HOPS
from smartcrawl.run.run import Run, run_of
from smartcrawl.run.sitemaps import read_as_sitemap

logger = logging.getLogger(__name__)

NOINDEX = "not indexed: noindex"
_NOTHING = b"\0\t\n\f\r "  #: bytes that say nothing
_FLUSH_AFTER = 2.0  #: seconds that a batch may stay open


def progress_of(visit: Visit) -> dict[str, Any]:
    """Return what the signal ``page_progress`` tells of one visit (R1-08)."""
    page, word = visit.page, visit.verdict.word if visit.verdict else None
    return {
        "url": visit.url,
        "pageId": page.no,
        "depth": page.depth,
        "status": visit.http_status,
        "outcome": word.word if word is not None else None,
        "deleted": False,
    }


class VisitPipeline:
    """A pipeline step over the Visits of a run; anything else passes it untouched."""

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        self.crawler = crawler
        self.run = run

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        return cls(crawler, run_of(crawler))


class ExtractPipeline(VisitPipeline):
    """Read a new body once, and offer its links; any other answer replays the stored ones.

    Every Visit crosses here, those of failed requests too, so this is the one place where
    links are offered (R4-35; design.md 3).
    """

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        super().__init__(crawler, run)
        self._missing = Soft404Probe(crawler, run) if run is not None else None
        self._documents = (
            DocumentReader(
                run.configuration,
                run.options,
                unreadable=run.stored_pages.unreadable,
                is_stopping=partial(is_stopping, crawler),
            )
            if run is not None
            else None
        )

    async def process_item(self, item: Any) -> Any:
        """Fill in document, hashes, chunks and links; our own failure is an outcome, too."""
        run = self.run
        if not isinstance(item, Visit) or run is None or item.page.verify:
            return item
        run.turns.landed(item.page)
        try:
            if item.outcome is Outcome.NOT_MODIFIED:
                await self._confirmed(run, item)
            elif item.outcome is Outcome.REDIRECT and item.location is not None:
                self._redirect(run, item, item.location)
            elif item.body is not None:
                await self._read(run, item)
        except GivenUpError as error:
            raise DropItem(str(error), log_level="DEBUG") from error
        except Exception as error:
            damage = run.registry.database.damage(error)
            if damage is not None:
                stop(self.crawler, run, damage)
                return item
            logger.exception("cannot process %s", item.url)
            told = f"processing failed: {type(error).__name__}: {error}"
            item.fail(Fault.PROCESSING, told)
            item.document, item.links, item.targets = None, None, b""
        run.trust.learn(item)
        # Behind a seed are the pages that show whether the whole site answers so.
        waits = item.collapse is not None and not run.seeds.is_seed(item.page.no)
        if _vouches(item) and not (item.again or waits):
            run.links.replay(item.page)
        return item

    async def _confirmed(self, run: Run, visit: Visit) -> None:
        """A 304 confirms the body, but its headers may say that it is not to be indexed now.

        Nor is it what it was where the configuration is another one since.
        """
        page = visit.page
        told = [html.robots_directives(line) for line in visit.robots_tags]
        if any(noindex for noindex, _ in told):
            if page.standing is Standing.HELD:
                visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            elif page.canonical_no is not None:  # it stands aside no more: read it whole
                visit.etag = visit.last_modified = None
        elif page.extraction is Extraction.REFUSED:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(page.mode)
        elif page.extraction is Extraction.AGAIN:
            await self._read_again(run, visit)

    async def _read_again(self, run: Run, visit: Visit) -> None:
        """Read the body that is held, for the configuration is another one since (M-15)."""
        page = visit.page
        visit.extracted_again = True
        try:
            visit.body, visit.content_type = await run.stored_pages.body(page)
        except SnapshotStoreError as error:  # the store is away; the snapshot may be well
            visit.extracted_again = False
            run.extractions.unread(str(error))
            return
        except SnapshotError as error:
            visit.snapshot_error = str(error)
            return
        visit.outcome, visit.content_length = Outcome.CHANGED, page.content_length
        await self._read(run, visit)

    def _redirect(self, run: Run, visit: Visit, target: str) -> None:
        if run.seeds.move(visit.page.no, target):
            hosts = ", ".join(sorted(run.scope.hosts))
            logger.warning("the seed moved to %s: the scope is now %s", target, hosts)
            if (resolver := installed_resolver()) is not None:
                resolver.protect(run.seeds.endpoints(), run.seeds.ports())
        if not run.links.follow_redirect(visit, target):
            visit.fail(Fault.TOO_MANY_REDIRECTS, f"more than {MAX_HOPS} redirects in a row")

    async def _read(self, run: Run, visit: Visit) -> None:
        body, page = visit.body or b"", visit.page
        visit.body_hash = body_hash(body)
        told = [html.robots_directives(line) for line in visit.robots_tags]
        noindex, nofollow = any(no for no, _ in told), any(no for _, no in told)
        as_sitemap = page.kind or page.named or looks_like(body)
        if as_sitemap and read_as_sitemap(run, visit, body):
            return
        if _is_emptied(visit, body) and not run.forces(page):
            why = "status 200 with an empty body: what was there before stays"
            visit.fail(Fault.EMPTY, why)
            return
        if (
            visit.body_hash == page.body_hash
            and page.standing is Standing.HELD
            and page.configuration == page.wanted
            and not page.signs & NAMES_SIGNED  # its links are of no use without signatures
            and page.targets  # none may mean that a header said nofollow then
            and visit.url == page.url  # relative links resolve against where it answered
            and visit.outcome is Outcome.CHANGED
            and not (run.forces(page) or noindex or nofollow)
        ):
            visit.outcome = Outcome.SAME
            return
        assert self._documents is not None, "the spider has a run"
        alike = run.stored_pages.is_read_alike(visit)
        keeps = alike and run.links.keeps_links(page) and not nofollow
        known = None if run.forces(page) else run.stored_pages.language(page)
        try:
            document, readable = await self._documents.read(
                visit, body, links=not keeps, told=known, forced=run.forces(page)
            )
        except FormatError as error:
            visit.fail(FORMAT_FAULTS[error.kind], f"cannot be read: {error}")
            return
        visit.document = document
        if document.canonical is not None:
            visit.document = replace(document, canonical=unsigned(document.canonical))
        self._hash(run, visit, document)
        if not readable:
            visit.outcome = Outcome.NOT_ACCEPTABLE
            visit.error = f"not indexed: this version does not read {document.content_type}"
            visit.body = None  # nor would another that reads it again
        else:
            await self._judge(run, visit, visit.document, noindex=noindex)
        if visit.http_status == Fault.COLLAPSED:
            return  # its links are followed when it is accepted
        if keeps:
            visit.canonical_no = page.canonical_no
        else:
            self._follow(run, visit, document, nofollow=nofollow)
        if visit.outcome in (Outcome.SOFT_404, Outcome.UNPROCESSABLE):
            visit.links = None
        elif visit.outcome is Outcome.CHANGED and run.links.stands_aside(visit):
            visit.outcome = Outcome.ALIAS

    def _follow(self, run: Run, visit: Visit, document: Document, *, nofollow: bool) -> None:
        links = document.links
        if nofollow or document.nofollow or visit.page.mode is Mode.NONE:
            links = tuple(link._replace(nofollow=True) for link in links)
        run.links.follow(visit, links, canonical=document.canonical, cut=document.links_cut)
        for url in filter(run.scope.holds, document.overlong):
            run.shortcomings.refuse(Trap.URL_TOO_LONG, url)

    async def _judge(self, run: Run, visit: Visit, document: Document, *, noindex: bool) -> None:
        """Say whether what was read is to be indexed, and whether it is news."""
        page = visit.page
        if noindex or document.noindex:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            if not document.noindex:  # a 304 could not tell when the header is taken back
                visit.etag = visit.last_modified = None
        elif page.mode is not Mode.INDEX:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(page.mode)
        elif visit.outcome is Outcome.CHANGED:
            held = page.standing is Standing.HELD
            if held and (
                visit.extracted_again or visit.content_hash == run.stored_pages.content_hash(page)
            ):
                visit.outcome = Outcome.SAME
                visit.recanonical = (
                    run.options.force_on_canonical  # R0-86
                    and document.canonical != run.stored_pages.canonical_url(page)
                )
            elif visit.accepted:
                pass  # it was judged when it came
            elif self._missing is not None and await self._missing.tells(visit, document):
                visit.outcome = Outcome.SOFT_404
                visit.error = "status 200, and it says what the host says of what does not exist"
            elif held and not run.forces(page) and (fault := _shielded(run, visit, document)):
                if fault[0] is Fault.COLLAPSED and run.collapses.undecided:
                    visit.collapse = collapse_of(visit, document)
                visit.fail(*fault)
                visit.document = None
                return
            visit.chunks = chunks(document)

    async def close_spider(self) -> None:
        """End the processes that read documents."""
        if self._documents is not None:
            await self._documents.close()

    def _hash(self, run: Run, visit: Visit, document: Document) -> None:
        if run.options.content_hash_basis == "bytes":
            visit.content_hash = visit.text_hash = visit.body_hash
        else:
            visit.text_hash = text_hash(document)
            visit.content_hash = content_hash(document)
        visit.sample = html.sample_of(document)


def _vouches(visit: Visit) -> bool:
    """Whether the stored links stay in force: no new body brought others (design.md 8).

    What is held stays, whatever the page answers, and so do its links. An excluded page
    vouches for nothing, nor does an error of the page where nothing is held.
    """
    standing = visit.page.standing
    match visit.outcome:
        case Outcome.EXCLUDED:
            return bool(visit.page.kind)  # its pages live as long as it is held
        case Outcome.NOT_FOUND | Outcome.SOFT_404 | Outcome.HTTP_ERROR | Outcome.REDIRECT:
            return standing is not Standing.BARE
        case Outcome.NOT_ACCEPTABLE:
            return standing is Standing.HELD
        case _:
            return visit.links is None


def _not_indexed(mode: Mode) -> str:
    return f"not indexed: {mode.word}, by index_modes"


def _shielded(run: Run, visit: Visit, document: Document) -> tuple[Fault, str] | None:
    """Return why what answered does not take the place of what is held, or None when it may."""
    length, before = len(document.text), run.stored_pages.text_length(visit.page)
    if is_login(
        visit.body or b"", title=document.title, text_length=length, held_text_length=before
    ):
        return Fault.LOGIN, "a login form instead of the page: what was there before stays"
    page = visit.page
    found_so = page.error_count if page.http_status == Fault.COLLAPSED else 0
    collapsed = is_collapsed(text_length=length, held_text_length=before)
    if collapsed and not (accepts_collapse(found_so) or run.stored_pages.had_text(visit)):
        told = f"{length:,} of {before:,} characters are left: what was there before stays for now"
        return Fault.COLLAPSED, told
    return None


def _is_emptied(visit: Visit, body: bytes) -> bool:
    """Whether a 200 brought nothing at all where there was content."""
    page = visit.page
    return (
        visit.outcome is Outcome.CHANGED
        and page.standing is Standing.HELD
        and not body.strip(_NOTHING)
        and visit.body_hash != page.body_hash
    )


class DecidePipeline(VisitPipeline):
    """Ask the rules what to do with a visit and count the answer; change nothing."""

    def process_item(self, item: Any) -> Any:
        """Set the verdict."""
        run = self.run
        if isinstance(item, Visit) and run is not None and not item.page.verify:
            page = item.page
            force = run.forces(page) or page.configuration != page.wanted or item.recanonical
            alias = page.canonical_no is not None
            item.verdict = decide(page.standing, item.outcome, force=force, alias=alias)
            if item.verdict.action is not Action.INDEX:
                item.chunks = []
            if not item.again:
                component = "edit" if item.accepted else "visit"
                self.crawler.stats.inc_value(f"{component}/{item.verdict.word.word}")
        return item


class CommitPipeline(VisitPipeline):
    """Gather visits into batches and have them written, the registry last.

    A batch that cannot be written ends the run as interrupted: an exception here would be
    swallowed by Scrapy, and the run would look complete.
    """

    def __init__(self, crawler: Crawler, run: Run | None) -> None:
        super().__init__(crawler, run)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        if run is not None:
            run.registry.indexing.stop_when(partial(is_stopping, crawler))
            run.workers.listen(self._hurry, self._on_written)

    async def process_item(self, item: Any) -> Any:
        """Take the visit into the open batch; wait when the writer is two batches behind."""
        run = self.run
        if not isinstance(item, Visit) or run is None:
            return item
        if run.failure is not None:
            return item
        self._loop = asyncio.get_running_loop()
        if item.page.verify:
            run.batches.probe(item)
        else:
            run.batches.record(item)
            if run.watcher is not None and not item.again:
                run.watcher(progress_of(item))
        if run.batches.batch.full or run.turns.hurries:
            await self._flush(run)
        elif self._timer is None:
            self._timer = self._loop.call_later(_FLUSH_AFTER, self._flush_late)
        return item

    def _flush_late(self) -> None:
        self._timer = None
        if self.run is not None and self.run.failure is None:
            task = asyncio.ensure_future(self._flush(self.run))
            task.add_done_callback(lambda done: done.exception())

    def _hurry(self) -> None:
        """Write what this worker found, for nothing else waits for anybody."""
        if self.run is not None and self.run.batches.batch and self.run.turns.hurries:
            self._flush_late()

    def _on_written(self) -> None:
        """Tell others what is written, at once; called in the writer's thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        run = self.run
        if run is None or run.failure is not None or self._closing:
            return
        try:
            run.batches.collect()
        except (RegistryError, SinkError) as error:
            self._end(run, error)

    def _end(self, run: Run, error: RegistryError | SinkError) -> None:
        """End the run, unless others did so already."""
        if not (isinstance(error, RunOverError) and run.workers.found_over()):
            stop(self.crawler, run, error)

    async def _flush(self, run: Run) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            before = run.batches.submit(int(time.time()))
            if before is not None:
                await asyncio.wrap_future(before)
            run.batches.collect()
        except (RegistryError, SinkError) as error:
            self._end(run, error)

    async def close_spider(self) -> None:
        """Write what is left; the run is sealed after this."""
        run = self.run
        self._closing = True
        if run is None or run.failure is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        try:
            run.batches.submit(int(time.time()))
            await asyncio.to_thread(run.batches.drain)
        except (RegistryError, SinkError) as error:
            if not (isinstance(error, RunOverError) and run.workers.found_over()):
                run.failure = error
                logger.error("%s", error)
