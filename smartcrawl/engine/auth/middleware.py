"""The credentials of a source on the requests for its pages, origin by origin."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured

from smartcrawl.engine.current_run import run_of_crawler, stop_crawler
from smartcrawl.engine.download.answers import (
    AS_PAGE,
    AS_PROOF,
    CERTIFIED,
    OF_LOGIN,
    OWN_COOKIE,
    WORN,
)
from smartcrawl.model.exceptions import LogsOutError, NotLoggedInError, RegistryError
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.rules.cookies import joined_cookies
from smartcrawl.run.login_ports import RunLogin
from smartcrawl.run.run import Run


class _NotLoggedInError(NotLoggedInError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""


class _LogsOutError(LogsOutError, IgnoreRequest):
    """The same error, ignored by Scrapy."""


class AuthMiddleware:
    """Adds the credentials of the source to the requests for its pages, origin by origin.

    robots.txt and requests of a user's own spider get none. The first page waits for the login.
    """

    def __init__(self, crawler: Crawler, run: Run, session: RunLogin) -> None:
        self._crawler, self._run, self._session = crawler, run, session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the login of the crawler's run."""
        run = run_of_crawler(crawler)
        if run is None or run.session is None:
            raise NotConfigured  # without words, which Scrapy would log as a warning
        return cls(crawler, run, run.session)

    async def process_request(self, request: Request) -> None:
        """Add the credentials that this address gets, and remove those of an earlier request.

        Raises:
            LogsOutError: the request would end the session.
            NotLoggedInError: nothing is asked any more.
        """
        meta, session = request.meta, self._session
        attempt = meta.get("attempt")
        if OF_LOGIN in meta or not (isinstance(attempt, VisitAttempt) or meta.get(AS_PAGE)):
            return
        undress_request(request)
        url = request.url
        if session.logs_out(url):
            raise _LogsOutError("a request for it would end the login: it logs out")
        if not session.concerns(url):
            return
        if not (meta.get(AS_PROOF) or await self._is_ready()):
            raise _NotLoggedInError(f"{url} is not requested: {session.over}")
        if isinstance(attempt, VisitAttempt):
            credentials = dict(session.dress(attempt, url, request.method))
        else:
            credentials = dict(session.credentials(url, request.method))
        if session.certificate is not None:
            meta[CERTIFIED] = session.certificate
        own = (request.headers.get("Cookie") or b"").decode("latin-1")
        meta[OWN_COOKIE], meta[WORN] = own, tuple(credentials)
        if "Cookie" in credentials:
            credentials["Cookie"] = joined_cookies(credentials["Cookie"], own)
        for name, value in credentials.items():
            request.headers[name] = value.encode("latin-1")

    async def _is_ready(self) -> bool:
        try:
            return await self._session.ready()
        except RegistryError as error:  # it has the attempts of other workers
            stop_crawler(self._crawler, self._run, error)
            return False


def undress_request(request: Request) -> None:
    """Remove the credentials that a request got before it was changed or repeated."""
    request.meta.pop(CERTIFIED, None)
    for name in request.meta.pop(WORN, ()):
        request.headers.pop(name, None)
    own = request.meta.pop(OWN_COOKIE, "")
    if own:
        request.headers["Cookie"] = own.encode("latin-1")
