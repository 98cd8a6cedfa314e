"""Soft 404s: pages with status 200 whose text is that of a host's page for missing addresses."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

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
from smartcrawl.run.answers import Answer, AnswerHeaders, bot_wall_of_answer
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

KEPT_FOR: Final = 604_800  #: seconds for which an answer counts: a week

Ask = Callable[[str, str], Awaitable[Answer]]  #: requests an address of a host, without retries


class Soft404Probe:
    """Requests a missing address from each host once a week, and stores a profile of the answer."""

    def __init__(self, run: Run, ask: Ask) -> None:
        self._run = run
        self._request = ask
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
        try:
            answer = await self._request(f"{parts.scheme}://{parts.netloc}{path}", host)
        except RunHaltedError as error:  # the page would be stored unchecked
            raise GivenUpError("the run ended before its host was probed") from error
        except Exception as error:  # noqa: BLE001  # whatever failed, there is no answer
            logger.debug("no soft-404 probe of %s: %s", host, error)
            return None
        status, headers = http_status_read(answer.status), AnswerHeaders(answer.headers)
        is_wall = bot_wall_of_answer(answer.status, headers, answer.body) is not None
        if status not in (200, 404, 410) or is_wall:
            return None  # no sign of a missing address: the next run requests it again
        found = _read(answer, headers.get(b"content-type") or "", path)
        seed = self._seeds.get(host)
        if found is not None and seed is not None and is_soft404_text(found, **seed):
            found = None  # the host has the same text for everything
        self._run.hosts.not_found_read(host, found.pack() if found is not None else "")
        return found


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _read(answer: Answer, content_type: str, path: str) -> Soft404Profile | None:
    """Return the profile of a 200 for an address that cannot exist; None for any other answer."""
    if (
        http_status_read(answer.status) != 200
        or html.sniffed_media_type(content_type, answer.body) not in html.HTML_TYPES
    ):
        return None
    document = html.parse_html(answer.body, content_type=content_type, url=answer.url)
    return soft404_profile(document.title, document.text, path)
