"""The requests of a login by Scrapy's downloader, and the answers that wait for its proof."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.current_run import is_crawler_stopping, stop_crawler, wake_engine
from smartcrawl.engine.download.answers import CERTIFIED, OF_LOGIN, downloaded_answer
from smartcrawl.engine.scheduler import NumberScheduler
from smartcrawl.model.exceptions import RegistryError, RunHaltedError
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.model.urls import url_host_key
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.login_ports import LoginRequest, RunLogin, Settled
from smartcrawl.run.received import Answer
from smartcrawl.run.run import Run
from smartcrawl.run.session import LONGEST_WAIT

logger = logging.getLogger(__name__)

_SHARED_WAIT: Final = 1.0  #: seconds; other workers wait for the links of this one


class LoginDownloads:
    """Sends the requests of a login by the downloader of a crawl.

    Address guard, delays, TLS and limits hold for them; robots.txt does not, because nothing of
    them is a page, and because its own request must not wait for the login.
    """

    def __init__(self, crawler: Crawler, session: RunLogin) -> None:
        self._crawler, self._session = crawler, session

    async def ask(self, request: LoginRequest) -> Answer:
        """Return the answer.

        Raises:
            RunHaltedError: the run ends by order.
            Exception: there is no answer.
        """
        slot = host_gate_slot(url_host_key(request.url))
        sent = Request(
            request.url,
            method=request.method,
            body=request.body,
            headers={name: value.encode("latin-1") for name, value in request.headers.items()},
            callback=NO_CALLBACK,
            priority=RobotsTxtMiddleware.DOWNLOAD_PRIORITY,
            meta={
                OF_LOGIN: True,
                "dont_obey_robotstxt": True,
                "dont_retry": True,
                Downloader.DOWNLOAD_SLOT: slot,
            },
            dont_filter=True,
        )
        if self._session.concerns(request.url):
            sent.meta[CERTIFIED] = self._session.certificate
        return await downloaded_answer(self._crawler, sent)


class LoginKeeper:
    """Has the answers that wait for the proof of a login settled in time, and passed on."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wait = _SHARED_WAIT if run.opened.shared else LONGEST_WAIT
        if (session := run.session) is not None:
            session.ask_with(LoginDownloads(crawler, session).ask)
            session.when_waiting = self._noted

    def step(self) -> bool:
        """Settle what waits, as nothing else is left to do; return whether something waits."""
        session = self._run.session
        if session is None or self._run.failure is not None:
            return False
        if self._task is None and session.waits:
            self._begin()
        return self._task is not None

    def stop(self) -> None:
        """Stop with the run: the pages whose answers wait stay pending."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _noted(self) -> None:
        session = self._run.session
        if session is not None and session.hurries:
            self._begin()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._wait, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None and not is_crawler_stopping(self._crawler):
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._done)

    async def _work(self) -> None:
        session = self._run.session
        assert session is not None, "something waits for it"
        await self._pass_on(await session.settle())

    async def _pass_on(self, settled: Settled) -> None:
        run, engine = self._run, self._crawler.engine
        assert engine is not None, "the crawl runs"
        chain: Any = engine.scraper.itemproc
        scheduler = engine.scheduler
        assert isinstance(scheduler, NumberScheduler)
        for visit in settled.taken:
            slot = engine._slot
            if run.failure is not None or slot is None or slot.closing is not None:
                return
            try:
                await chain.take_settled(visit)
            except Exception:  # the page stays pending, and the others are taken
                logger.exception("not taken: %s", visit.url)
                run.turns.unanswered(visit.page)
        for visit in settled.again:
            attempt = VisitAttempt(visit.page, traffic=visit.traffic)
            engine.crawl(scheduler.request_of(visit.page, attempt))
        for visit in settled.dropped:
            run.turns.unanswered(visit.page)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, RegistryError):
            stop_crawler(self._crawler, self._run, error)
        elif error is not None and not isinstance(error, RunHaltedError):
            logger.error("the login could not be looked at: %s", error, exc_info=error)
        session = self._run.session
        if session is not None and session.waits:
            self._noted()
        wake_engine(self._crawler)
