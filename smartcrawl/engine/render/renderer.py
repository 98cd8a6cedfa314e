"""Renders the pages of a run in one browser, whose requests the downloader of the crawl answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import urldefrag

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.download.answers import AS_PAGE, AS_PROOF, answer_of_scrapy_response
from smartcrawl.engine.download.faults import download_fault, is_own_code_error
from smartcrawl.extract.browser.launch import Browser, BrowserOptions, find_browser
from smartcrawl.extract.browser.page import (
    BrowserAnswer,
    BrowserRefusal,
    BrowserRequest,
    Rendering,
    render_page,
)
from smartcrawl.extract.browser.pipe import BrowserError
from smartcrawl.extract.sniff import HTML_TYPES, sniffed_media_type
from smartcrawl.model.exceptions import (
    RenderingError,
    RobotsDisallowedError,
    RunHaltedError,
)
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.urls import normalize_url, url_host_key
from smartcrawl.rules.absence import LIKE_200
from smartcrawl.rules.data_requests import Way
from smartcrawl.rules.model import Fault
from smartcrawl.rules.rendering import (
    DOCUMENT,
    FEW_WORDS,
    LOGS_OUT,
    NO_BROWSER,
    PageRequestRules,
    forbidden_by_robots,
)
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.login_ports import RunLogin
from smartcrawl.run.received import MARKUP_TYPE, Answer, encoded_markup
from smartcrawl.run.rendered import DataQuestion
from smartcrawl.run.run import Run
from smartcrawl.run.shown_pages import (
    page_render_order,
    page_request_rules,
    passed_page_headers,
    without_cookies,
)
from smartcrawl.run.visits import page_is_trusted
from smartcrawl.sources.site import SiteSource

logger = logging.getLogger(__name__)

_BRINGS: Final = LIKE_200 | {200}
_MOST_SHARED: Final = 64 * 1024 * 1024  #: bytes of answers that pages of a run share
_STARTS: Final = 2  #: of a browser for one page: it may have ended by another
_MOST_ENDS: Final = 6  #: of browsers in a row, each before it had rendered a page
#: Headers of a document that say nothing of what its scripts wrote.
_OF_DOCUMENTS: Final = (
    "ETag", "Last-Modified", "Content-Encoding", "Content-Length", "Transfer-Encoding",
)  # fmt: skip


#: Asks for an address with headers; None: the downloader is to ask.
LaneAsking = Callable[[str, Mapping[str, str]], Awaitable[Answer | None]]


class _RenderingError(RenderingError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""


class PageRenderer:
    """Shows the HTML pages of a run in a browser, which it starts when the first one comes."""

    def __init__(self, crawler: Crawler, run: Run, source: SiteSource) -> None:
        self._crawler = crawler
        self._run = run
        assert run.choice is not None, "its source may be rendered"
        self._choice = run.choice
        self._pages = run.choice.pages
        self._pages.drive(self)
        self.lane: LaneAsking | None = None  #: asks for data beside the downloader
        self._source = source
        self._browser: Browser | None = None
        self._missing: BrowserError | None = None  #: why there is no browser in this run
        self._has_started = False  #: whether a browser did in this run
        self._ends = 0  #: of browsers, since one rendered a page
        self._starting = asyncio.Lock()
        self._turns = asyncio.Semaphore(setting_value(crawler.settings, "RENDER_PAGES"))
        self._answers = SharedAnswers(crawler, self._pages.asked, run.session)
        if run.session is not None:
            session = self._choice.session = run.session
            session.show_with(self.proof)
            self._pages.login = lambda: session.number

    def rules(self, url: str) -> PageRequestRules:
        """Return which requests a page may make."""
        return page_request_rules(self._source, url)

    def concerns(self, request: Request, response: Response) -> bool:
        """Whether an answer is a page that is to be rendered, or confirmed by its data."""
        attempt = request.meta.get("attempt")
        if not isinstance(attempt, VisitAttempt) or attempt.page.plan.verify or attempt.page.kind:
            return False
        if request.method != "GET":
            return False
        if response.status == 304:
            return attempt.traffic.conditional and attempt.page.rendering is not None
        if response.status not in _BRINGS or not response.body:
            return False
        header = (response.headers.get("Content-Type") or b"").decode("latin-1")
        return sniffed_media_type(header, response.body) in HTML_TYPES

    async def taken(self, request: Request, response: Response) -> Response | Request:
        """Return the answer of a page as it is, by its data, or by what it shows.

        Or the next request of its visit.

        Raises:
            RenderingError: it could not be rendered; the stored page stays.
        """
        attempt: VisitAttempt = request.meta["attempt"]
        trusted = page_is_trusted(self._run, attempt.page, request.url)
        if response.request is None:
            response.request = request
        document = answer_of_scrapy_response(response)
        try:
            found = await self._choice.take(attempt, document, trusted=trusted)
        except _RenderingError:
            raise
        except RenderingError as error:
            raise _RenderingError(str(error), error.fault) from error
        if found is None:
            return response
        match found.way:
            case Way.CONFIRMED:
                return _with_status(response, 304)
            case Way.NOT_FOUND:
                return _with_status(response, 404)
            case Way.AGAIN:
                return request.replace(dont_filter=True)
            case Way.SHOWN:
                return _with_markup(request, response, found.markup, found.leads_to)

    def leads_to(self, url: str, found: Rendering, words: int) -> str:
        """Return where a rendered page leads: elsewhere, or to another route of its document."""
        if self._source.has_hash_routes and self._is_elsewhere(url, found.url):
            return found.url
        return found.moved_to if words < FEW_WORDS else ""

    def _is_elsewhere(self, url: str, shown: str) -> bool:
        """Whether a page ended at another hash route of its document than the one asked for."""
        trackers = self._run.options.trackers
        is_same_place = urldefrag(url).url == urldefrag(shown).url
        return is_same_place and normalize_url(url, trackers) != normalize_url(shown, trackers)

    async def render(self, document: Answer) -> Rendering:
        """Show a page in the browser; once more in another one, if this one ends meanwhile.

        Raises:
            RenderingError: there is no browser.
        """
        async with self._turns:
            return await self._render(document)

    async def proof(self, document: Answer) -> Answer:
        """Return the proof page of a login as a browser shows it.

        It waits for no other page, and its requests for no login, which waits for it.

        Raises:
            RenderingError: it could not be rendered.
        """
        found = await self._render(document, is_proof=True)
        if found.problem:
            raise _RenderingError(f"the page is not rendered: {found.problem}", Fault.RENDERING)
        return document.showing(found.html)

    async def ask(self, question: DataQuestion) -> Answer | str:
        """Return the answer to a request for data, by the lane where it can be; or why not."""
        if self.lane is not None and question.method == "GET" and self._run.session is None:
            answer = await self.lane(question.url, question.headers)
            if answer is not None:
                self._pages.asked()
                return answer
        asked = BrowserRequest(
            question.method, question.url, question.headers, "Fetch", question.body
        )
        found = await self._answers.download(asked)
        if isinstance(found, BrowserRefusal):
            return found.reason
        headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in found.headers
        ]
        return Answer(question.url, found.status, headers, found.body)

    async def _render(self, document: Answer, *, is_proof: bool = False) -> Rendering:
        agent = self._crawler.settings["USER_AGENT"] or ""
        order = page_render_order(self._source, document.url, self.rules(document.url), agent)
        answers = PageAnswers(self._answers, document, is_proof=is_proof)
        found = Rendering(order.url, problem="the browser ended")
        for _ in range(_STARTS):
            browser = await self._running()
            try:
                found = await render_page(browser, order, answers.answer)
            except BrowserError as error:
                found.problem = str(error)
            if browser.alive:
                self._ends = 0
                break
        return found

    async def _running(self) -> Browser:
        """Return the browser, started where there is none.

        Raises:
            RenderingError: it cannot be started in this run.
        """
        async with self._starting:
            if self._browser is not None and not self._browser.alive:
                await self._browser.close()
                self._browser = None
                self._ended()
            while self._browser is None and self._missing is None:
                try:
                    self._browser = await Browser.start(self._browser_options())
                    self._has_started = True
                except BrowserError as error:
                    if self._has_started:
                        self._ended()
                    else:
                        self._lack(error)
            if self._browser is None:
                raise _RenderingError(f"{NO_BROWSER} ({self._missing})", Fault.NO_BROWSER)
            return self._browser

    def _ended(self) -> None:
        """Count the end of a browser; too many in a row leave none."""
        self._ends += 1
        if self._ends >= _MOST_ENDS:
            self._lack(BrowserError(f"the browser ended {_MOST_ENDS} times in a row"))

    def _lack(self, error: BrowserError) -> None:
        """Render no page any more in this run."""
        self._missing = error
        logger.warning("no page is rendered in this run: %s", error)

    def _browser_options(self) -> BrowserOptions:
        """Return how the settings have the browser started.

        Raises:
            BrowserError: there is none.
        """
        options = self._run.options
        return BrowserOptions(
            find_browser(options.render_browser),
            options.render_memory_mb,
            sandbox=options.render_sandbox == "on",
        )

    async def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            await self._browser.close()


def _with_status(response: Response, status: int) -> Response:
    """Return an answer that says no more than a status."""
    return response.replace(status=status, headers=_headers_of_page(response), body=b"")


def _with_markup(request: Request, response: Response, markup: str, leads_to: str) -> Response:
    """Return an answer with the markup of a rendered page as its body."""
    headers = _headers_of_page(response)
    headers["Content-Type"] = MARKUP_TYPE
    if leads_to:
        headers["Refresh"] = f"0; url={leads_to}"
    return response.replace(
        cls=HtmlResponse,
        headers=headers,
        body=encoded_markup(markup),
        encoding="utf-8",
        request=request,
    )


def _headers_of_page(response: Response) -> Headers:
    """Return the headers of a document that also hold for what its scripts wrote."""
    headers = response.headers.copy()
    for name in _OF_DOCUMENTS:
        headers.pop(name, None)
    return headers


class SharedAnswers:
    """The answers that pages of a run share, such as scripts and menus: each is asked once."""

    def __init__(
        self, crawler: Crawler, count: Callable[[], None], session: RunLogin | None
    ) -> None:
        """``count`` is called with each request that is sent; ``session``: its login."""
        self._crawler = crawler
        self._count = count
        self._session = session
        self._answers: dict[tuple[str, str, str], asyncio.Task[BrowserAnswer | BrowserRefusal]] = {}
        self._size = 0

    async def of(self, asked: BrowserRequest) -> BrowserAnswer | BrowserRefusal:
        """Return the answer to a request, downloaded where no page asked the same before."""
        headers = {name.lower(): value for name, value in asked.headers.items()}
        login = 0 if self._session is None else self._session.number
        key = (asked.method, asked.url, f"{login} {headers.get('accept', '')} {asked.body}")
        if "cookie" in headers or "authorization" in headers:
            return await self.download(asked)
        task = self._answers.get(key)
        if task is None:
            task = self._answers[key] = asyncio.ensure_future(self._first(key, asked))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _first(
        self, key: tuple[str, str, str], asked: BrowserRequest
    ) -> BrowserAnswer | BrowserRefusal:
        is_kept = False
        try:
            answer = await self.download(asked)
            if isinstance(answer, BrowserAnswer):
                self._size += len(answer.body)
                is_kept = answer.status < self._least_error and self._size <= _MOST_SHARED
            return answer
        finally:
            if not is_kept:
                del self._answers[key]

    @property
    def has_login(self) -> bool:
        """Whether the downloader logs in, so that the browser gets no cookies."""
        return self._session is not None

    @property
    def _least_error(self) -> int:
        """The least status of answers that may say something else a moment later."""
        return 400 if self.has_login else 500

    async def download(
        self, asked: BrowserRequest, *, is_proof: bool = False
    ) -> BrowserAnswer | BrowserRefusal:
        """Return the answer of the downloader; ``is_proof``: no login is waited for."""
        engine = self._crawler.engine
        assert engine is not None, "the crawl runs"
        url = urldefrag(asked.url).url
        host = url_host_key(url)
        if self._session is not None and self._session.logs_out(url):
            return BrowserRefusal(LOGS_OUT)
        request = Request(
            url,
            method=asked.method,
            headers=_headers(asked.headers),
            body=asked.body.encode(),
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                "handle_httpstatus_all": True,
                AS_PAGE: True,
                AS_PROOF: is_proof,
                Downloader.DOWNLOAD_SLOT: host_gate_slot(host),
            },
        )
        self._count()
        try:
            answer = _browser_answer(await engine.download_async(request))
            return without_cookies(answer) if self.has_login else answer
        except RunHaltedError:
            raise
        except RobotsDisallowedError:
            return BrowserRefusal(forbidden_by_robots(host))
        except Exception as error:  # without an answer the page goes on without it
            if is_own_code_error(error, url):
                raise
            return BrowserRefusal(download_fault(error, url)[1])


class PageAnswers:
    """Answers the requests of one page: its document is at hand, all others are downloaded."""

    def __init__(self, shared: SharedAnswers, document: Answer, *, is_proof: bool = False) -> None:
        self._shared = shared
        self._document = document
        self._is_proof = is_proof

    async def answer(self, asked: BrowserRequest) -> BrowserAnswer | BrowserRefusal:
        """Return the answer to a request of the page."""
        document = self._document
        if asked.kind == DOCUMENT and asked.url == urldefrag(document.url).url:
            lines = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in document.headers]
            answer = BrowserAnswer(document.status, lines, document.body)
            return without_cookies(answer) if self._shared.has_login else answer
        if self._is_proof:
            return await self._shared.download(asked, is_proof=True)
        return await self._shared.of(asked)


def _headers(given: Mapping[str, str]) -> dict[str, bytes]:
    return {
        name: value.encode("latin-1", "replace")
        for name, value in passed_page_headers(given).items()
    }


def _browser_answer(response: Response) -> BrowserAnswer:
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        for value in values
    ]
    return BrowserAnswer(response.status, headers, response.body)
