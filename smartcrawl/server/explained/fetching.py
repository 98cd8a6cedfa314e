"""One request for a page that is tried: guarded, in turn, by the rules of a source, with its login.

Nothing is stored but the refusal of a login, so that no number of tries locks an account.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import urldefrag

from anyio import sleep

from smartcrawl.extract.browser.page import (
    BrowserAnswer,
    BrowserRefusal,
    BrowserRequest,
    Rendering,
)
from smartcrawl.extract.robots_txt import Answer as RobotsAnswer
from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.model.exceptions import RenderingError, SettingError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key, url_origin
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.runs.logins import LoginRows
from smartcrawl.rules.model import Fault
from smartcrawl.rules.rendering import LOGS_OUT, forbidden_by_robots
from smartcrawl.run.login import source_secrets
from smartcrawl.run.login_ports import LoginRequest
from smartcrawl.run.received import Answer
from smartcrawl.run.session import LoginSession
from smartcrawl.run.shown_pages import passed_page_headers, without_cookies
from smartcrawl.server.explained.showing import ShownPages
from smartcrawl.server.robots import RobotsDownload, api_web_client
from smartcrawl.sources.base import Source
from smartcrawl.sources.proxies import Proxy, proxy_of_source
from smartcrawl.sources.site import SiteSource
from smartcrawl.sources.web_client import WebAnswer, WebClient, WebError

MOST_BYTES: Final = 8 * 1024 * 1024  #: of an answer
_LONGEST_WAIT: Final = 10.0  #: seconds for the turn of a host
_MOST_HOSTS: Final = 1_000  #: whose last request is kept
_NO_RUN: Final = 0  #: in the row of a login: it is tried by no run


class NotFetchedError(Exception):
    """A page is not requested, or gave no whole answer, for the reason in the text."""


class HostTurns:
    """The turns of hosts: all previews together keep its delay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free: dict[str, float] = {}  #: when each may be requested again
        self._lock = Lock()

    def wait(self, host: str, delay: float) -> float:
        """Take the next turn of a host, and return the seconds until it.

        Raises:
            NotFetchedError: it comes too late.
        """
        with self._lock:
            now = self._clock()
            at = max(now, self._free.get(host, 0.0))
            if at - now > _LONGEST_WAIT:
                raise NotFetchedError(
                    f"{host} was requested a moment ago, and its delay is {delay:g} s: try again in"
                    f" {at - now:.0f} s"
                )
            if len(self._free) >= _MOST_HOSTS:
                self._free = {name: free for name, free in self._free.items() if free > now}
            self._free[host] = at + delay
            return at - now


@dataclass(frozen=True, slots=True)
class TriedPage:
    """A page that is to be requested once."""

    url: str
    source: Source | None
    user_agent: str
    delay: float  #: seconds between two requests to a host
    asks_robots: bool  #: whether robots.txt is obeyed, and no copy is stored
    with_login: bool  #: whether it gets the credentials of the source
    obeys_robots: bool = True  #: whether robots.txt counts for what a browser asks for the page
    is_rendered: bool = False  #: whether a browser may show it, and the proof of its login


class FetchedPage(NamedTuple):
    """A whole answer, and whether it shows the proof of a login."""

    answer: WebAnswer
    shows_login: bool | None  #: whether it shows the proof of the login; None: there is none
    is_scripted: bool = False  #: whether only scripts write the proof, so that all is rendered


@dataclass(slots=True)
class PageFetch:
    """The request for one page, after robots.txt and the login if the source needs them."""

    options: Options
    database: Database
    robots_parser: type[Any]
    robots_agent: str | None  #: for which robots.txt is read; None: the User-Agent
    turns: HostTurns
    page: TriedPage
    _proxy: Proxy | None = field(init=False)
    _web: WebClient = field(init=False)
    _login_web: WebClient = field(init=False)  #: shows the certificate of the login
    _session: LoginSession | None = field(init=False, default=None)
    _browser: ShownPages | None = field(init=False, default=None)
    _robots: dict[str, Callable[[str], RobotsAnswer]] = field(init=False, default_factory=dict)
    _robots_turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Make the client, with the rules of the engine for certificates and proxies.

        Raises:
            NotFetchedError: the proxy of the source cannot be had.
        """
        source = self.page.source
        try:
            self._proxy = (
                None if source is None else proxy_of_source(source.name, source.request.proxy)
            )
        except SettingError as error:
            raise NotFetchedError(str(error)) from error
        self._web = api_web_client(
            self.options, source=source, permitted=self._permitted(), proxy=self._proxy
        )
        self._login_web = self._web
        if isinstance(source, SiteSource) and self.page.is_rendered:
            self._browser = ShownPages(self.options, source, self.page.user_agent)

    def _permitted(self) -> tuple[str, ...]:
        """Return the addresses whose ports are permitted: those of the source, as in a run."""
        source = self.page.source
        if not isinstance(source, SiteSource):
            return ()
        login = () if source.auth is None or source.auth.login is None else (source.auth.login,)
        return (self.page.url, *source.seeds, *source.login_origins, *login)

    async def fetched(self) -> FetchedPage:
        """Return the answer to one request, without following redirects.

        Raises:
            NotFetchedError: there is none.
        """
        page = self.page
        if page.asks_robots:
            await self._obey_robots()
        if not page.with_login:
            return FetchedPage(
                await self._asked(self._web, page.url, self._headers(page.url)), None
            )
        connection = self.database.connect()
        try:
            return await self._with_login(connection)
        finally:
            connection.close()

    async def shown(self, document: Answer) -> Rendering:
        """Return what a browser shows of a page that was fetched.

        Raises:
            RenderingError: there is no browser, or it ended.
        """
        assert self._browser is not None, "the page is one that a browser may show"
        return await self._browser.shown(
            document, self._answer_of, has_login=self._session is not None
        )

    async def close(self) -> None:
        """End the browser, if one was started."""
        if self._browser is not None:
            await self._browser.close()

    def has_proof(self, document: Answer) -> bool | None:
        """Whether a page shows the proof of the login; None: there is none."""
        return None if self._session is None else self._session.shows(document)

    async def _answer_of(self, asked: BrowserRequest) -> BrowserAnswer | BrowserRefusal:
        """Return the answer to a request that a page makes in the browser, as in a run."""
        url, session = urldefrag(asked.url).url, self._session
        if session is not None and session.logs_out(url):
            return BrowserRefusal(LOGS_OUT)
        try:
            if self.page.obeys_robots and not (await self._robots_answer(url)).allowed:
                return BrowserRefusal(forbidden_by_robots(url_host_key(url)))
            own = {name.lower(): value for name, value in self._headers(url).items()}
            passed = passed_page_headers(asked.headers)
            headers = {name.lower(): value for name, value in passed.items()} | own
            web = self._web
            if session is not None and session.concerns(url):
                web, credentials = self._login_web, session.credentials(url, asked.method)
                headers |= {name.lower(): value for name, value in credentials.items()}
            body = asked.body.encode() if asked.method == "POST" else None
            found = await self._asked(web, url, headers, body=body)
        except NotFetchedError as error:
            return BrowserRefusal(str(error))
        lines = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in found.lines]
        answer = BrowserAnswer(found.status, lines, found.body)
        return answer if session is None else without_cookies(answer)

    async def _obey_robots(self) -> None:
        """Ask for robots.txt, and obey it."""
        answer = await self._robots_answer(self.page.url)
        if not answer.allowed:
            raise NotFetchedError(f"disallowed by robots.txt, line {answer.line}: {answer.rule!r}")

    async def _robots_answer(self, url: str) -> RobotsAnswer:
        """Return what robots.txt says of an address; each origin is asked for it once."""
        page, origin = self.page, url_origin(url)
        async with self._robots_turn:
            if origin not in self._robots:
                await self._turn(url)
                download = RobotsDownload(self.options, page.user_agent, self._web)
                try:
                    found = await download.of_origin(origin)
                except WebError as error:
                    raise NotFetchedError(
                        f"a crawl asks for {origin}/robots.txt first, and there was no answer:"
                        f" {error}"
                    ) from error
                # An answer of 4xx has no body, which allows all.
                says = robots_txt_answers(self.robots_parser, self.robots_agent or page.user_agent)
                self._robots[origin] = says(found.body)
        return self._robots[origin](url)

    async def _with_login(self, connection: Connection) -> FetchedPage:
        """Log in as a run does, then ask for the page."""
        source = self.page.source
        assert isinstance(source, SiteSource), "it has a login"
        try:
            secrets = source_secrets(source)
        except SettingError as error:
            raise NotFetchedError(f"the login cannot be made: {error}") from error
        rows = LoginRows(self.database, connection, source.name, _NO_RUN)
        rows.add()
        session = self._session = LoginSession(source, secrets, rows)
        if (shown := session.certificate) is not None:
            self._login_web = api_web_client(
                self.options,
                source=source,
                permitted=self._permitted(),
                certificate=(str(shown.chain), str(shown.key)),
                proxy=self._proxy,
            )

        async def ask(request: LoginRequest) -> Answer:
            headers = self._headers(request.url) | dict(request.headers)
            found = await self._asked(
                self._login_web if session.concerns(request.url) else self._web,
                request.url,
                headers,
                body=request.body if request.method == "POST" else None,
            )
            return Answer(request.url, found.status, found.lines, found.body)

        session.ask_with(ask)
        if self._browser is not None:
            session.show_with(self._proof)
        if not await session.ready():
            raise NotFetchedError(str(session.over))
        url = self.page.url
        credentials = session.credentials(url)
        found = await self._asked(self._login_web, url, self._headers(url) | dict(credentials))
        shows = session.shows(Answer(url, found.status, found.lines, found.body))
        return FetchedPage(found, shows, session.is_proof_scripted)

    async def _proof(self, document: Answer) -> Answer:
        """Return the proof page of the login as a browser shows it.

        Raises:
            RenderingError: it could not be rendered.
        """
        found = await self.shown(document)
        if found.problem:
            raise RenderingError(f"the page is not rendered: {found.problem}", Fault.RENDERING)
        return document.showing(found.html)

    def _headers(self, url: str) -> dict[str, str]:
        """Return the headers of a request; those of the source go to its seeds' origins."""
        page = self.page
        found = {"User-Agent": page.user_agent, "Accept": "text/html,*/*;q=0.8"}
        source = page.source
        if isinstance(source, SiteSource) and url_origin(url) in map(url_origin, source.seeds):
            found |= dict(source.request.headers)
        return found

    async def _asked(
        self, web: WebClient, url: str, headers: Mapping[str, str], *, body: bytes | None = None
    ) -> WebAnswer:
        """Send one request in its turn."""
        await self._turn(url)
        try:
            return await web.ask(url, dict(headers), most=MOST_BYTES, body=body)
        except WebError as error:
            raise NotFetchedError(f"no answer from {url_host_key(url)}: {error}") from error

    async def _turn(self, url: str) -> None:
        await sleep(self.turns.wait(url_host_key(url), self.page.delay))
