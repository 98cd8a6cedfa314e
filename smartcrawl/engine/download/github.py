"""The download handler of repositories: raw files of the commit that was listed, and the wiki."""

from __future__ import annotations

import time
from typing import Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.files import TOO_LARGE, downloader_media_type
from smartcrawl.engine.download.headers import BoundedHttpHandler
from smartcrawl.engine.download.network import AddressCheck, EnvironmentProxies, installed_resolver
from smartcrawl.model.exceptions import AddressRefusedError, StoreAwayError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.run.run import Run
from smartcrawl.sources.github.api import VARIABLE, github_quota_wait, github_token
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.listing.entries import Entry

_ENTRY: Final = "listed_entry"  #: in the meta of a request and of its retries
_SENT: Final = ("User-Agent", "Accept", "Accept-Encoding", "Accept-Language")


class RepositoryHandler(BoundedHttpHandler):
    """Reads a file under the URL of its page: the raw file of the listed commit.

    What a commit contains does not go away, so no answer is evidence against a page: one that is
    not the file is a fault of the place. A pinned file that the listed commit lacks is missing, as
    its listing says. The token goes to the raw origin, never across a redirect.
    Pages of the wiki, and robots.txt and probes that they need, are requested as on the web.
    """

    def __init__(self, crawler: Crawler, run: Run, source: GithubSource) -> None:
        super().__init__(crawler)
        assert run.listed is not None, "the source is listed"
        self._listed = run.listed
        self._source = source
        self._scope = source.scope
        self._most = source.max_file_size or crawler.settings.getint("MAX_FILE_SIZE")
        self._token = github_token()
        self._proxies = EnvironmentProxies(crawler.settings)
        self._check = AddressCheck(installed_resolver())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None or not isinstance(run.source, GithubSource):
            raise NotConfigured("only a crawl of a repository reads its files")
        return cls(crawler, run, run.source)

    async def download_request(self, request: Request) -> Response:
        """Read the file of a request of the run, or request a page of the wiki.

        Raises:
            StoreAwayError: the raw origin did not answer with the file.
        """
        attempt = request.meta.get("attempt")
        page = attempt.page if isinstance(attempt, VisitAttempt) else None
        if self._is_of_wiki(page):
            return await super().download_request(request)
        if page is None or not self._scope.holds_file(page.url):
            return Response(request.url, status=403)
        await self._listed.located.wait()
        place = self._listed.place
        if place is None:
            raise StoreAwayError("its repository could not be listed")
        entry: Entry | None = request.meta.setdefault(_ENTRY, self._listed.entry(page.no))
        headers = {} if entry is None or entry.validator is None else {"ETag": entry.validator}
        if entry is not None and self._most and entry.size > self._most:
            headers["Content-Length"] = str(entry.size)
            return Response(page.url, status=TOO_LARGE, headers=headers)
        media = downloader_media_type(self._scope.relative(page.url))
        if media is not None:
            headers["Content-Type"] = media
        answer = await self._ask_raw(request, place + page.url[len(self._scope.root) :])
        if answer.status == 404 and entry is None:
            await self._listed.ended.wait()
            if self._listed.lacks(page.no):
                return Response(page.url, status=404, flags=["the listed commit has no such file"])
        encoding = answer.headers.get("Content-Encoding")
        if encoding is not None:
            headers["Content-Encoding"] = encoding.decode("latin-1")
        return self._judged(page.url, answer, headers)

    def _is_of_wiki(self, page: Page | None) -> bool:
        """Whether a request is for the wiki: for one of its pages, or for no page at all."""
        if page is None:
            return self._scope.wiki is not None
        return self._scope.holds_wiki(page.url)

    async def _ask_raw(self, request: Request, url: str) -> Response:
        """Return the answer of the raw origin, through the proxy of its own address.

        Raises:
            AddressRefusedError: a proxy would connect to a forbidden address.
        """
        request.meta["download_maxsize"] = self._most  # unpacked, too
        asked = downloader_request_of_raw_file(request, url, self._token)
        self._proxies.choose(asked)
        if asked.meta.get("proxy"):
            refusal = await self._check.refusal(url, proxied=True)
            if refusal is not None:
                raise AddressRefusedError(refusal)
        answer = await super().download_request(asked)
        request.meta["download_latency"] = asked.meta.get("download_latency", 0)
        return answer

    def _judged(self, url: str, answer: Response, headers: dict[str, str]) -> Response:
        """Return an answer as one of the page at ``url``.

        Raises:
            StoreAwayError: it is not the file, and no passing fault.
        """
        status = answer.status
        if status == 200:
            return Response(url, headers=headers, body=answer.body)
        given = _texts(answer)
        seconds = github_quota_wait(status, given, time.time())
        if seconds is not None:
            return Response(url, status=429, headers={"Retry-After": str(seconds)})
        if status >= 500 or status in (408, 425):
            return Response(
                url,
                status=status,
                headers={name: value for name, value in given.items() if name == "retry-after"},
            )
        raise StoreAwayError(
            f"HTTP status {status} for a file of the listed commit: check GITHUB_RAW_URL, and that"
            f" the token of {VARIABLE} may read the repository"
        )


def downloader_request_of_raw_file(request: Request, url: str, token: str | None) -> Request:
    """Return the request for a raw file in place of that for its page."""
    sent = (*_SENT, "Proxy-Authorization") if request.meta.get("proxy") else _SENT
    headers = {name: request.headers[name] for name in sent if name in request.headers}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}".encode("ascii")
    return request.replace(url=url, method="GET", headers=headers)


def _texts(answer: Response) -> dict[str, str]:
    """Return the headers of an answer, names in lower case."""
    return {
        name.decode("latin-1").lower(): (answer.headers.get(name) or b"").decode("latin-1")
        for name in answer.headers
    }
