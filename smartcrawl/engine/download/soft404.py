"""Soft 404s: pages with status 200 whose text is that of a host's page for missing addresses."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Final
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from smartcrawl.engine.download.bot_walls import bot_wall_of_response
from smartcrawl.extract import html
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import GivenUpError, RunHaltedError
from smartcrawl.model.pages import Visit
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.http import http_status_read
from smartcrawl.rules.soft404 import (
    Soft404Profile,
    is_soft404_page,
    is_soft404_text,
    soft404_profile,
    soft404_random_path,
)
from smartcrawl.run.hosts.gate import host_gate_slot
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

KEPT_FOR: Final = 604_800  #: seconds for which an answer counts: a week


class Soft404Probe:
    """Requests a missing address from each host once a week, and stores a profile of the answer."""

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._run = run
        self._known: dict[str, Soft404Profile | None] = {}
        self._asked: dict[str, asyncio.Future[Soft404Profile | None]] = {}
        self._seeds: dict[str, dict[str, str]] = {}  #: texts of one seed of each host

    async def is_soft_404(self, visit: Visit, document: Document) -> bool:
        """Whether a page has the text that its host has for an address that does not exist.

        Never true of a seed.
        """
        run, page = self._run, visit.page
        if not run.options.soft_404 or not document.sections:
            return False
        texts = {"title": document.title, "text": document.text, "path": _path(visit.url)}
        if run.seeds.is_seed(page.no):
            self._seeds.setdefault(url_host_key(visit.url), texts)
            return False
        answer = await self._answer_of(visit.url)
        return answer is not None and is_soft404_page(answer, **texts)

    async def _answer_of(self, url: str) -> Soft404Profile | None:
        host = url_host_key(url)
        if host in self._known:
            return self._known[host]
        stored = self._run.hosts.stored_not_found(host, int(time.time()) - KEPT_FOR)
        if stored is not None:
            self._known[host] = Soft404Profile.unpack(stored) if stored else None
            return self._known[host]
        if host not in self._asked:
            self._asked[host] = asyncio.ensure_future(self._ask(url, host))
        self._known[host] = await asyncio.shield(self._asked[host])
        return self._known[host]

    async def _ask(self, url: str, host: str) -> Soft404Profile | None:
        """Request the probe; without an answer, or where robots.txt forbids it, None counts."""
        parts = urlsplit(url)
        path = soft404_random_path(secrets.token_hex(6))
        request = Request(
            f"{parts.scheme}://{parts.netloc}{path}",
            callback=NO_CALLBACK,
            priority=RobotsTxtMiddleware.DOWNLOAD_PRIORITY,
            meta={"download_slot": host_gate_slot(host), "dont_retry": True},
            dont_filter=True,
        )
        try:
            response = await self._crawler.engine.download_async(request)
        except RunHaltedError as error:  # the page would be stored unchecked
            raise GivenUpError("the run ended before its host was probed") from error
        except Exception as error:  # noqa: BLE001  # whatever failed, there is no answer
            logger.debug("no soft-404 probe of %s: %s", host, error)
            return None
        status = http_status_read(response.status)
        if status not in (200, 404, 410) or bot_wall_of_response(response) is not None:
            return None  # no sign of a missing address: the next run requests it again
        answer = _read(response, path)
        seed = self._seeds.get(host)
        if answer is not None and seed is not None and is_soft404_text(answer, **seed):
            answer = None  # the host has the same text for everything
        self._run.hosts.not_found_read(host, answer.pack() if answer is not None else "")
        return answer


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _read(response: Response, path: str) -> Soft404Profile | None:
    """Return the profile of a 200 for an address that cannot exist; None for any other answer."""
    header = (response.headers.get("Content-Type") or b"").decode("latin-1")
    if (
        http_status_read(response.status) != 200
        or html.sniffed_media_type(header, response.body) not in html.HTML_TYPES
    ):
        return None
    document = html.parse_html(response.body, content_type=header, url=response.url)
    return soft404_profile(document.title, document.text, path)
