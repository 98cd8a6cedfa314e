"""The steps of a run inside Scrapy: opening, idle work, verification, end."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from pydispatch.dispatcher import getReceivers
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from smartcrawl.engine.current_run import is_crawler_stopping, run_of_crawler, wake_engine
from smartcrawl.engine.delays import download_slot_now
from smartcrawl.engine.download.network import (
    environment_proxy_endpoints,
    installed_resolver,
    protect_run_connections,
    source_proxy_endpoints,
)
from smartcrawl.engine.memory import rare_garbage_collection
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.engine.signals import confirmed_page_signal_event, page_progress
from smartcrawl.engine.vectors import (
    close_embedder_at_crawler_end,
    drop_embedding_at_crawler_end,
    log_embedding_at_crawler_start,
    pay_debts_at_crawler_end,
)
from smartcrawl.extract.robots_txt import robots_txt_sitemaps
from smartcrawl.index.vectorstore.ports import Pushed
from smartcrawl.model.exceptions import PushHeldError, RegistryError, SinkError, SmartcrawlError
from smartcrawl.model.pages import Page, Visit
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.visibility import Visibility
from smartcrawl.run.pushing import push_run_source, run_left_uploads_in_words
from smartcrawl.run.run import Run

if TYPE_CHECKING:
    from smartcrawl.engine.auth.keeper import LoginKeeper

logger = logging.getLogger(__name__)


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def hurrying_at_signals(hurry: Callable[[], None]) -> Iterator[None]:
    """Call ``hurry`` at once where a signal ends the process, before the handler that is there.

    Scrapy's handler only leaves a message to the event loop, which may wait for a minute.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours: dict[signal.Signals, _Hurried] = {}
    for number in _SIGNALS:
        before = signal.getsignal(number)
        if callable(before):
            ours[number] = _Hurried(before, hurry)
            signal.signal(number, ours[number])
    try:
        yield
    finally:
        for number, handler in ours.items():
            before = handler.before
            if signal.getsignal(number) is handler:
                signal.signal(number, before)


class _Hurried:
    """A handler of a signal, before the one that was there."""

    def __init__(
        self, before: Callable[[int, FrameType | None], Any], hurry: Callable[[], None]
    ) -> None:
        self.before = before
        self._hurry = hurry

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hurry, then do what was done before."""
        self._hurry()
        self.before(number, frame)


class EditSubmitter:
    """The last step of a run: decide, then send the waiting answers through the pipelines."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._task: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """Whether waiting answers are being committed."""
        return self._task is not None

    def step(self, now: int) -> None:
        """Take the step; ``now`` is Unix seconds.

        Raises:
            RegistryError: the registry cannot be written.
            DontCloseSpider: answers are being committed now.
        """
        self._run.ending.settle_collapsed(now)
        if count := len(self._run.collapses.accepted):
            pages = "1 page" if count == 1 else f"{count} pages"
            logger.info(
                "%s shrank to less than a tenth of their text, or share one new text; taken "
                "as edits",
                pages,
            )
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._done)
            raise DontCloseSpider

    async def _work(self) -> None:
        chain: Any = self._crawler.engine.scraper.itemproc
        run = self._run
        while not (run.failure or is_crawler_stopping(self._crawler)):
            visit = run.collapses.take()
            if visit is None:
                return
            try:
                await chain.take(visit)
            except Exception:  # the page stays withheld, and the others are taken
                logger.exception("not taken as an edit: %s", visit.url)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("saving edits failed: %s", error, exc_info=error)
        wake_engine(self._crawler)

    def stop(self) -> None:
        """Stop with the run; when it is resumed, it finds the waiting answers again."""
        if self._task is not None:
            self._task.cancel()


_STATE = "SELECT r.state, s.visibility FROM run r JOIN source s ON s.no = r.source WHERE r.no = ?"


async def push_pages_at_crawler_end(crawler: Crawler, run: Run) -> None:
    """Make the vector store equal to the pages of a run that was swept.

    A store knows no keys, so a private source is pushed by the command alone.

    An error leaves the rest to the next run, or to ``push``: it is no failure of the run.
    """
    options = run.options.vector_store
    if options is None or run.failure is not None or run.opened.over:
        return
    try:
        with run.registry.database.translated("write"):
            pushed = await asyncio.to_thread(_push, run, lambda: not crawler.crawling)
    except PushHeldError as error:
        logger.info("%s", error)
        return
    except SmartcrawlError as error:
        logger.error("%s is not pushed: %s", run.source.name, error)
        return
    if pushed is None:
        return
    for name in ("completed", "detached", "adopted"):
        crawler.stats.set_value(f"push/{name}", getattr(pushed, name))
    crawler.stats.set_value("push/failed", len(pushed.failed))
    for url, why in pushed.failed:
        logger.warning("%s was not pushed: %s", url, why)
    if pushed.error is not None:
        logger.warning("%s", pushed.error)
    logger.info(
        "%s of %s in the vector store %s: %d pushed, %d removed",
        report_noun(pushed.unchanged + pushed.completed, "page"),
        run.source.name,
        options.store,
        pushed.completed,
        pushed.detached,
    )
    if pushed.left:
        command = f"{program_name()} library cleanup --files"
        logger.info("%s", run_left_uploads_in_words(pushed.left, command))
    if not pushed.is_whole:
        logger.warning("the next run, or %s push, tries again", program_name())


def _push(run: Run, is_ending: Callable[[], bool]) -> Pushed | None:
    """Push; None: the run was not swept, or its source is private."""
    options, database = run.options.vector_store, run.registry.database
    assert options is not None, "the caller looked"
    with closing(database.connect()) as connection:
        ((state, visibility),) = connection.execute(_STATE, (run.opened.no,)).fetchall()
        if state != RunState.SWEPT:
            return None
        if visibility == Visibility.PRIVATE:
            logger.info(
                "%s is private, and all who search the vector store would read it: it is pushed by"
                " %s push --source %s alone",
                run.source.name,
                program_name(),
                run.source.name,
            )
            return None
        return push_run_source(connection, database, options, run.source.name, is_ending=is_ending)


class RunLifecycle:
    """Opens a run, does its idle steps (depths, edits, verification), and ends it."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._edits = EditSubmitter(crawler, run)
        self._logins: LoginKeeper | None = None  #: None: no answer waits for a login
        self._signals = ExitStack()  # handlers that shorten waits
        self._collection = ExitStack()  # of garbage, as rarely as it is while the spider is open

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        lifecycle = cls(crawler, run)
        crawler.signals.connect(lifecycle.opened, signal=signals.spider_opened)
        crawler.signals.connect(lifecycle.idle, signal=signals.spider_idle)
        crawler.signals.connect(lifecycle.closed, signal=signals.spider_closed)
        crawler.signals.connect(lifecycle.failed, signal=signals.item_error)
        return lifecycle

    def failed(self, item: Any) -> None:
        """Leave a page pending whose visit no pipeline could commit."""
        if isinstance(item, Visit) and not item.postponed:
            self._run.turns.unanswered(item.page)

    def opened(self) -> None:
        """Log the beginning of the run, and an interrupted run that was closed."""
        run = self._run
        if run.opened.interrupted is not None:
            resume = f" ({program_argument('resume')} would have continued it)"
            logger.warning(
                "run %d of %s was interrupted and is now closed; this is a new run%s",
                run.opened.interrupted,
                run.source.name,
                "" if run.library is not None else resume,  # its commands have no such argument
            )
        if run.session is not None:
            from smartcrawl.engine.auth.keeper import LoginKeeper  # noqa: PLC0415  # few runs need it

            self._logins = LoginKeeper(self._crawler, run)
        proxies = environment_proxy_endpoints(self._crawler.settings)
        protect_run_connections(run, [*proxies, *source_proxy_endpoints(run.source)])
        run.batches.observe = partial(download_slot_now, self._crawler)
        if run.due_pages is not None:  # it may not fetch robots.txt again
            run.sitemaps.named_before(robots_txt_sitemaps)
        if getReceivers(self._crawler, page_progress):
            run.watcher = self._send
            if run.listed is not None:
                run.listed.confirmed = self._send_confirmed
        self._collection.enter_context(rare_garbage_collection())
        self._signals.enter_context(hurrying_at_signals(run.registry.database.hurry))
        if run.opened.over:
            logger.warning("nothing is requested: %s", _over_words(run))
            return
        log_embedding_at_crawler_start(run.options)
        drop_embedding_at_crawler_end(self._crawler, run)
        verb = "goes on" if run.opened.resumed else "begins"
        logger.info("run %d of %s %s", run.opened.no, run.source.name, verb)
        if not run.options.robots_obeyed and any(kind.asks_robots for kind in run.source.kinds):
            is_key = run.source.request.obey_robots is False
            why = "obey_robots = false in its table" if is_key else "ROBOTSTXT_OBEY is off"
            logger.info("%s: robots.txt is not obeyed, because %s", run.source.name, why)

    def _send_confirmed(self, page: Page) -> None:
        self._send(confirmed_page_signal_event(page))

    def _send(self, event: dict[str, Any]) -> None:
        """Send a progress event to the listeners, from any thread."""
        send = partial(self._crawler.signals.send_catch_log, signal=page_progress, event=event)
        if threading.current_thread() is threading.main_thread():
            send()
        else:
            self._loop.call_soon_threadsafe(send)

    def idle(self) -> None:
        """Do the steps of an idle run, one after another, until one of them finds pages to ask."""
        run = self._run
        if run.failure is not None or run.extractions.pending or run.opened.over:
            return
        if self._edits.under_way or (self._logins is not None and self._logins.step()):
            raise DontCloseSpider
        engine = self._crawler.engine
        steps = run.ending.steps(self._edits.step, self._ask_late_spellings)
        for step in (run.begin_batch, *steps, None):
            scheduler = engine.scheduler
            request = scheduler.next_request() if scheduler is not None else None
            if request is not None:
                engine.crawl(request)  # wakes the engine; DontCloseSpider alone would not
                raise DontCloseSpider
            if engine.downloader.active:  # requests of the lane are in flight
                raise DontCloseSpider
            if run.turns.resting:
                raise DontCloseSpider
            if isinstance(scheduler, NumberScheduler) and scheduler.has_requests:
                raise DontCloseSpider  # late spellings wait for their hosts
            if run.extractions.pending:  # pages that were skipped just now
                wake_engine(self._crawler)
                raise DontCloseSpider
            if step is None or run.pending or run.failure is not None:
                return  # the engine stays open while pages wait for a host
            try:
                with run.registry.database.translated("read"):
                    step(int(time.time()))
            except (RegistryError, SinkError) as error:
                run.failure = error
                return

    def _ask_late_spellings(self, now: int) -> None:
        """Ask the spellings that were met after the visits of their addresses had failed."""
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        for page in self._run.ending.late_spellings(now):
            scheduler.enqueue_request(scheduler.request_of(page))

    async def closed(self, reason: str) -> None:
        """Seal the run, or close it as interrupted."""
        run = self._run
        self._edits.stop()
        if self._logins is not None:
            self._logins.stop()
        self._loop = asyncio.get_running_loop()
        try:
            with run.registry.database.translated("write"):
                await asyncio.to_thread(run.finish, reason, int(time.time()))
        except (RegistryError, SinkError) as error:
            run.failure = run.failure or error
            logger.error("%s", error)
        try:
            if reason != "shutdown":
                await pay_debts_at_crawler_end(self._crawler, run)
                await push_pages_at_crawler_end(self._crawler, run)
        finally:
            if (resolver := installed_resolver()) is not None:
                resolver.learnt = None  # the registry of the run is closed
            close_embedder_at_crawler_end(run)
            self._collection.close()
            self._signals.close()
        if stale := run.batches.progress.stale:
            logger.warning("visits dropped because they came after the run had ended: %d", stale)


def _over_words(run: Run) -> str:
    """Return why the run of this process's job is over, with the remedy."""
    no, name, job = run.opened.no, run.source.name, run.orders.job
    match run.opened.order:
        case RunOrder.PAUSE:
            resume = program_argument("resume")
            return f"run {no} of {name} (job {job}) is paused; continue with {resume}"
        case RunOrder.CANCEL:
            why = f"run {no} of {name} (job {job}) was cancelled"
        case None:
            why = f"job {job} has ended; it was run {no} of {name}"
    return f"{why}; to start a new run, give another job name"
