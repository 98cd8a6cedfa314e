"""The order to a run, read while it crawls and carried out at once (ADR 56)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Self

from scrapy import signals
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from twisted.python.failure import Failure

from smartcrawl.engine.current_run import HaltedRequestError, run_of_crawler, stop_crawler
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_orders import run_order_row
from smartcrawl.rules.model import RunOrder
from smartcrawl.rules.run_orders import ORDER_REASONS
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

LOOK: Final = 0.5  #: seconds between two looks for an order
DROP_AFTER: Final = 1.0  #: seconds from the look that found the order; 1.5 from the order at most
_FIRST_LOOK: Final = 1.0  #: seconds to wait for the first look before anything is sent
_LAST_LOOK: Final = 0.2  #: seconds to wait for a look that is under way when the run ends


class OrderWatch:
    """Reads the order of a run in a thread of its own, over a connection of its own.

    A server that is away or slow delays no page. An error of the connection is no fault of the run:
    the next look connects again, until the process waits for the server no more. That ends a
    worker, too, which has nothing in hand and asks the registry for nothing else.
    """

    def __init__(
        self,
        run: Run,
        loop: asyncio.AbstractEventLoop,
        give_up: Callable[[RegistryError], None],
    ) -> None:
        """``give_up`` ends the run; it is called in the event loop."""
        self._run = run
        self._give_up = give_up
        self._loop = loop
        self._database = registry_database(run.options.registry, patience=0)
        self._connection: Connection | None = None
        self._away = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="orders", daemon=True)
        self.found: asyncio.Future[RunOrder] = loop.create_future()
        self.looked = asyncio.Event()  #: set after the first look

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; the last connection to a file leaves no write-ahead log behind."""
        self._ended.set()
        self._thread.join(_LAST_LOOK)

    # In the thread

    def _work(self) -> None:
        order = self.look()
        if order is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.looked.set)
        while order is None and not self._ended.wait(LOOK):
            order = self.look()
        self._close()
        if order is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._report, order)

    def look(self) -> RunOrder | None:
        """Return the order; None: there is none, or the registry does not answer."""
        try:
            with self._database.translated("read"):
                if self._connection is None:
                    self._connection = self._database.connect(readonly=True)
                order = run_order_row(self._connection, self._run.opened.no)
        except RegistryError as error:
            if not self._away:
                logger.info("orders to this run wait until the registry can be read: %s", error)
            self._away = True
            self._close()
            if self._run.registry.database.is_given_up and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._give_up, error)
            return None
        self._away = False
        return order

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _report(self, order: RunOrder) -> None:
        if not self.found.done():
            self.found.set_result(order)
        self.looked.set()


class RunControl:
    """Ends a run in order when an order to it is found, within 1.5 s whatever is in flight.

    At once nothing more is sent. What is in flight may end, and is committed. After DROP_AFTER
    seconds the rest is given up, and its pages stay pending. ``engine.pause`` would not do: the
    lane goes on beside the engine.

    Source: RD-21; ADR 56.
    """

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._watch: OrderWatch | None = None
        self._closing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, if it is not over already."""
        run = run_of_crawler(crawler)
        if run is None or run.opened.over:
            raise NotConfigured  # without a reason there is no line in the log
        control = cls(crawler, run)
        crawler.signals.connect(control.opened, signal=signals.spider_opened)
        crawler.signals.connect(control.closed, signal=signals.spider_closed)
        crawler.signals.connect(control.stopped, signal=signals.engine_stopped)
        return control

    async def opened(self) -> None:
        """Begin to look for an order, which may have come while the crawl was set up.

        Raises:
            CloseSpider: it has: nothing is sent at all.
        """
        self._watch = watch = OrderWatch(
            self._run,
            asyncio.get_running_loop(),
            partial(stop_crawler, self._crawler, self._run),
        )
        watch.start()
        with suppress(TimeoutError):  # a registry that is away or slow delays no crawl
            await asyncio.wait_for(watch.looked.wait(), _FIRST_LOOK)
        if watch.found.done():
            raise CloseSpider(self._halted(watch.found.result()))
        watch.found.add_done_callback(self._obey)

    def _halted(self, order: RunOrder) -> str:
        """Send nothing more; return the reason for the end of the spider."""
        run, reason = self._run, ORDER_REASONS[order]
        logger.warning("run %d of %s is %s, as requested", run.opened.no, run.source.name, reason)
        run.halt.order = order
        return reason

    def _obey(self, found: asyncio.Future[RunOrder]) -> None:
        """Send nothing more, and end the spider."""
        engine = self._crawler.engine
        if engine is None or engine.spider is None:
            return
        reason = self._halted(found.result())
        self._crawler.signals.connect(self._reached, signal=signals.request_reached_downloader)
        self._refuse()
        self._timer = asyncio.get_running_loop().call_later(DROP_AFTER, self._drop)
        self._closing = asyncio.ensure_future(engine.close_spider_async(reason=reason))

    def _reached(self) -> None:
        """Refuse a request that reached the downloader after the order, once it is in its queue."""
        asyncio.get_running_loop().call_soon(self._refuse)

    def _refuse(self) -> None:
        """Refuse the requests that wait for the delay of their hosts."""
        engine = self._crawler.engine
        assert engine is not None
        for slot in list(engine.downloader.slots.values()):
            _refuse_queue(slot)

    def _drop(self) -> None:
        """Give up all that is under way."""
        logger.info("requests still in flight are dropped; their pages stay pending")
        self._run.halt.drop()

    def closed(self) -> None:
        """End looking: what comes now finds the run sealed, or is found by the seal."""
        if self._watch is not None:
            self._watch.stop()

    def stopped(self) -> None:
        """Drop nothing any more; until now the last batch may have waited for an embedder."""
        if self._timer is not None:
            self._timer.cancel()


def _refuse_queue(slot: Slot) -> None:
    while slot.queue:
        request, answer = slot.queue.popleft()
        error = HaltedRequestError(f"{request.url} is not requested: the run is ending")
        answer.errback(Failure(error))  # type: ignore[no-untyped-call]
