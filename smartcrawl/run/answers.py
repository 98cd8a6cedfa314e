"""Answers of servers, walls and soft 404s among them, as the parts of a run read them."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import re2

from smartcrawl.extract import html
from smartcrawl.extract.sniff import is_garbled_text
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import GivenUpError, RunHaltedError
from smartcrawl.model.pages import Visit
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.http import http_status_read
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.shield import MARKS, START, decide_challenge
from smartcrawl.rules.soft404 import (
    Soft404Profile,
    is_soft404_page,
    is_soft404_text,
    soft404_profile,
    soft404_random_path,
)
from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


class NextRequest(NamedTuple):
    """The request with which a visit goes on."""

    url: str
    cookie: str = ""  #: "": none
    is_whole: bool = False  #: whether it is the GET after a HEAD: the rest is as in that request


def bot_wall_of_answer(status: int, headers: AnswerHeaders, body: bytes) -> str | None:
    """Return the name of the bot wall that answered instead of a page, None without one.

    Nearly every page has none of the signs. One search for all of them shows that, in a sixth of
    the time of a search for each.
    """
    read = body if _HINT.search(body[:START]) else b""
    return decide_challenge(status, headers.joined(), read)


def _hint() -> Any:
    """Return a pattern that matches every body with all signs of a mark."""
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1  # bytes of any encoding
    signs = sorted({mark.signs[0] for mark in MARKS})
    either = "|".join(re.escape(sign).replace('"', "[\"']") for sign in signs)
    return re2.compile(either.encode(), options)


_HINT: Final = _hint()


BLANK: Final = b"\0\t\n\f\r "  #: bytes of an empty body

_EMPTY: Final = "status 200 with an empty body; the stored page stays"
_GARBLED: Final = (
    "the body is binary although its Content-Type is text: is it compressed twice, or "
    "without a Content-Encoding?"
)


def damage_of_body(visit: Visit, body: bytes, *, forced: bool) -> tuple[Fault, str] | None:
    """Return why a body is not that of its page, or None.

    ``forced``: an order of the operator accepts an empty body, and never a garbled one.

    Source: ADR 12, 20.
    """
    if not forced and _is_emptied(visit, body):
        return Fault.EMPTY, _EMPTY
    held = visit.page.state.standing is Standing.HELD
    content_type = visit.answer.content_type or ""
    if not visit.extracted_again and is_garbled_text(content_type, body, held=held):
        return Fault.BAD_ENCODING, _GARBLED
    return None


def _is_emptied(visit: Visit, body: bytes) -> bool:
    """Whether a 200 has an empty body, and the stored page had another one."""
    page = visit.page
    return (
        visit.outcome is Outcome.CHANGED
        and page.state.standing is Standing.HELD
        and not body.strip(BLANK)
        and visit.parsed.body_hash != page.record.body_hash
    )


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
            if self._run.choice is not None and _is_page(answer):
                answer = await self._run.choice.probed(answer, host)
        except RunHaltedError as error:  # the page would be stored unchecked
            raise GivenUpError("the run ended before its host was probed") from error
        except Exception as error:  # noqa: BLE001  # whatever failed, there is no answer
            logger.debug("no soft-404 probe of %s: %s", host, error)
            return None
        status, headers = http_status_read(answer.status), AnswerHeaders(answer.headers)
        is_wall = bot_wall_of_answer(answer.status, headers, answer.body) is not None
        if status not in (200, 404, 410) or is_wall:
            return None  # no sign of a missing address: the next run requests it again
        found = _read(answer, path)
        seed = self._seeds.get(host)
        if found is not None and seed is not None and is_soft404_text(found, **seed):
            found = None  # the host has the same text for everything
        self._run.hosts.not_found_read(host, found.pack() if found is not None else "")
        return found


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _is_page(answer: Answer) -> bool:
    """Whether an answer is a 200 with HTML."""
    is_html = html.sniffed_media_type(answer.content_type, answer.body) in html.HTML_TYPES
    return http_status_read(answer.status) == 200 and is_html


def _read(answer: Answer, path: str) -> Soft404Profile | None:
    """Return the profile of a 200 for an address that cannot exist; None for any other answer."""
    if not _is_page(answer):
        return None
    document = html.parse_html(answer.body, content_type=answer.content_type, url=answer.url)
    return soft404_profile(document.title, document.text, path)
