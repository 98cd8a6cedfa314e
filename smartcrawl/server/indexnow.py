"""IndexNow: a site says which of its pages changed, and their visits come forward (R1-53).

New addresses in the scope of a source are offered to its next run. A notice takes no API key. Its
own key must be in a file of the host that it is about, and that host is asked for the file only if
a source has pages of it, once in ten minutes (ADR 176).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smartcrawl.model.exceptions import SettingError, SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import normalize_url, request_url, url_digest, url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import is_host_of_stored_pages
from smartcrawl.registry.items import (
    KnownAddress,
    PendingPin,
    known_address_rows,
    make_noticed_rows_due,
    recorded_ids,
    store_pending_pin_rows,
    waiting_offer_counts,
)
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.visibility import readable_sources
from smartcrawl.rules.http import REDIRECTS
from smartcrawl.rules.incoming import (
    FETCH_SECONDS,
    HostFetches,
    KeyFetch,
    KeyVerdict,
    has_indexnow_key,
    judge_indexnow_key,
)
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.answers import NoticeAnswer
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.server.frontier import Candidate, Holders, PostedUrl
from smartcrawl.server.guard import INDEXNOW_PATH
from smartcrawl.server.queries import (
    Query,
    described_api_query,
    json_response,
    read_api_query,
    refuse_api_query,
)
from smartcrawl.server.robots import api_web_client
from smartcrawl.sources.indexnow import (
    MOST_ADDRESSES,
    Ignored,
    IndexNowNotice,
    NoticeError,
    NoticeFault,
    indexnow_notice,
)
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.proxies import Proxy, proxy_of_source
from smartcrawl.sources.web_client import WebClient, WebError

logger = logging.getLogger(__name__)

SECONDS: Final = 5.0  #: for a key file
ANSWER_SECONDS: Final = 2.0  #: after which a notice is answered before its key is verified
_LARGEST: Final = 16_384  #: bytes of a key file
AT_ONCE: Final = 8  #: key files
_WAITING: Final = 32  #: notices that wait for key files
_HOSTS: Final = 10_000  #: that are remembered
MOST_OFFERED: Final = 10_000  #: new addresses that wait for the next run of a source
_MESSAGE: Final = "The key of the notice is not that of its host"


class KeyFileDownload:
    """Asks hosts for key files, by the guard of addresses and by the proxies of sources."""

    def __init__(
        self,
        options: Options,
        user_agent: str,
        web: WebClient | None = None,
        proxy_of: Callable[[str], Proxy | None] = lambda url: None,
    ) -> None:
        """``web``: asks them; None: a client of its own.

        ``proxy_of``: returns the proxy by which an address is asked, in a thread; it may raise
        SettingError.
        """
        self._options = options
        self._headers = {"User-Agent": user_agent, "Accept": "text/plain, */*;q=0.1"}
        self._web = web
        self._proxy_of = proxy_of

    async def body(self, url: str) -> bytes:
        """Return a key file. A redirect may lead from http to https of the same address alone.

        Raises:
            WebError: there is none.
        """
        web = await to_thread.run_sync(self._client, url)
        answer = await web.ask(url, self._headers, most=_LARGEST)
        if answer.status in REDIRECTS:
            secure = f"https:{url.partition(':')[2]}"
            if url == secure or request_url(answer.headers.get("location", "")) != secure:
                raise WebError("a redirect leads elsewhere")
            answer = await web.ask(secure, self._headers, most=_LARGEST)
        if answer.status != 200:
            raise WebError(f"status {answer.status}")
        return answer.body

    def _client(self, url: str) -> WebClient:
        try:
            proxy = self._proxy_of(url)
        except SettingError as error:
            logger.error("%s", error)  # the sender of a notice may be anyone
            raise WebError("the proxy of its source cannot be had") from error
        if proxy is not None:
            return api_web_client(self._options, proxy=proxy)
        if self._web is None:
            self._web = api_web_client(self._options)
        return self._web


class KeyFiles:
    """The key files of hosts, each asked once for all who wait for it."""

    def __init__(
        self, download: Callable[[str], Awaitable[bytes]], clock: Callable[[], float]
    ) -> None:
        self._download = download
        self._clock = clock
        self._known: OrderedDict[str, HostFetches] = OrderedDict()
        self._pending: dict[str, tuple[str, asyncio.Task[None]]] = {}

    async def verify(self, notice: IndexNowNotice) -> None:
        """Return once the key of a notice is known to be that of its host.

        Raises:
            ApiError: it is not, or the host must not be asked now.
        """
        pending = self._pending.get(notice.host)
        if pending is not None:
            url, task = pending
            if url != notice.key_url:
                raise _wait(FETCH_SECONDS)
            await asyncio.shield(task)
        verdict = self._verdict(notice)
        if verdict is KeyVerdict.FETCH:
            if len(self._pending) >= AT_ONCE:
                raise _wait(SECONDS)
            task = asyncio.ensure_future(self._fetch(notice))
            self._pending[notice.host] = notice.key_url, task
            task.add_done_callback(lambda _: self._pending.pop(notice.host, None))
            await asyncio.shield(task)
            verdict = self._verdict(notice)
        if verdict is KeyVerdict.ACCEPT:
            return
        last = self._known[notice.host].last
        assert last is not None, "the host was asked"
        if verdict is KeyVerdict.REFUSE:
            reason = f"{notice.key_url}: {last.reason}; it is asked again after ten minutes"
            raise ApiError("FORBIDDEN", _MESSAGE, field="key", reason=reason)
        raise _wait(last.at + FETCH_SECONDS - self._clock())

    def _verdict(self, notice: IndexNowNotice) -> KeyVerdict:
        known = self._known.get(notice.host, HostFetches())
        return judge_indexnow_key(known, notice.key, notice.key_url, self._clock())

    async def _fetch(self, notice: IndexNowNotice) -> None:
        at, reason = self._clock(), None
        try:
            async with asyncio.timeout(SECONDS):
                body = await self._download(notice.key_url)
            if not has_indexnow_key(body, notice.key):
                reason = "the file does not have the key"
        except TimeoutError:
            reason = f"no whole answer within {SECONDS:g} s"
        except WebError as error:
            reason = str(error)
        known = self._known.pop(notice.host, HostFetches())
        self._known[notice.host] = known.after(KeyFetch(at, notice.key, notice.key_url, reason))
        while len(self._known) > _HOSTS:
            self._known.popitem(last=False)


def _wait(seconds: float) -> ApiError:
    reason = "the host of a notice is asked for one key file in ten minutes"
    headers = {"Retry-After": str(max(1, int(seconds) + 1))}
    return ApiError("RATE_LIMITED", "Too many keys", field="key", reason=reason, headers=headers)


@dataclass(frozen=True, slots=True)
class PreparedNotice:
    """A verified notice, and what sources may take of its addresses that have no record."""

    notice: IndexNowNotice
    keys: Mapping[bytes, str]  #: the addresses by their ids (32 bytes)
    reader: Reader
    new: Mapping[bytes, Candidate]  #: that sources take, by their ids
    names: Sequence[str]  #: of the sources that take addresses


def prepared_notice(
    connection: Connection, notice: IndexNowNotice, context: Context, reader: Reader
) -> PreparedNotice:
    """Return a verified notice with what sources may take of it; nothing is written.

    The sources are those that the reader sees, and only those in whose scope an address is: no
    single page is added.
    """
    options = context.options
    keys = {url_digest(normalize_url(url, options.trackers)): url for url in notice.urls}
    known = recorded_ids(connection, list(keys), readable_sources(connection, reader))
    posted = [one for key, url in keys.items() if key not in known and (one := _posted(url))]
    if not posted:
        return PreparedNotice(notice, keys, reader, {}, ())
    holders = Holders(connection, options, context.server.robots, reader)
    taken = [one for one in holders.candidates(posted) if one.sources not in ((), _SINGLE)]
    return PreparedNotice(notice, keys, reader, {one.id: one for one in taken}, holders.names)


_SINGLE: Final = (DOCUMENTS.name,)


def _posted(url: str) -> PostedUrl | None:
    """Return an address as one that is posted; None: it has a secret, or is too long."""
    try:
        return PostedUrl(url=url)
    except ValidationError:
        return None


def carry_out_indexnow(
    connection: Connection, prepared: PreparedNotice, now: int
) -> dict[str, Any]:
    """Bring the visits of the pages of a verified notice forward, and offer what is new.

    Returns the answer. ``now``: Unix seconds. The caller opens the transaction.
    """
    keys, notice = prepared.keys, prepared.notice
    readable = readable_sources(connection, prepared.reader)
    waiting: Mapping[bytes, KnownAddress] = {}
    if prepared.new:  # first: other requests that post addresses wait for this one
        waiting = known_address_rows(connection, list(prepared.new), prepared.names)
    found = {row.key for row in make_noticed_rows_due(connection, list(keys), now, readable)}
    offered = {key for key, known in waiting.items() if not known.is_record} - found
    counts = Counter(waiting_offer_counts(connection, prepared.names))
    ignored, pins = list(notice.ignored), list[PendingPin]()
    for key, url in keys.items():
        if key in found or key in offered:
            continue
        one = prepared.new.get(key)
        if one is None:
            ignored.append((url, Ignored.UNKNOWN))
            continue
        sources = [source for source in one.sources if counts[source] < MOST_OFFERED]
        if not sources:
            ignored.append((url, Ignored.FULL))
            continue
        counts.update(sources)
        offered.add(key)
        pins += (
            PendingPin(source, key, one.url, one.host, now, one.priority, pinned=False)
            for source in sources
        )
    store_pending_pin_rows(connection, pins)
    return _answer(len(found), len(offered), ignored, is_verified=True)


def _answer(
    due: int, offered: int, ignored: Sequence[tuple[str, Ignored]], *, is_verified: bool
) -> dict[str, Any]:
    return {
        "verified": is_verified,
        "due": due,
        "offered": offered,
        "ignored": [{"url": url, "reason": why.value} for url, why in ignored],
    }


class _Notices:
    """Takes the notices of requests."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stores = context.stores
        user_agent = context.server.robots.user_agent
        download = KeyFileDownload(context.options, user_agent, proxy_of=self._proxy_of)
        self._files = KeyFiles(download.body, context.clock)
        self._waiting: set[asyncio.Task[dict[str, Any]]] = set()

    async def take(
        self, request: Request, host: str | None, key: str, place: str | None, urls: Sequence[str]
    ) -> Response:
        """Answer a notice: 200 when its visits are brought forward, 202 while its key is checked.

        Raises:
            ApiError: it is refused.
        """
        reader = self._context.reader(request)
        try:
            notice = await to_thread.run_sync(indexnow_notice, host, key, place, urls)
        except NoticeError as error:
            code = "INVALID_INPUT" if error.fault is NoticeFault.MALFORMED else "UNPROCESSABLE"
            raise ApiError(code, field=error.field, reason=str(error)) from error
        if not await to_thread.run_sync(self._stores.read, lambda c: _is_ours(c, notice, reader)):
            field = "url" if host is None else "host"
            reason = f"no page of {notice.host} is crawled here"
            raise ApiError("UNPROCESSABLE", field=field, reason=reason)
        if len(self._waiting) >= _WAITING:
            raise _wait(SECONDS)
        task = asyncio.ensure_future(self._carried_out(notice, reader))
        self._waiting.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=ANSWER_SECONDS)
        if task.done():
            return json_response(task.result())
        response = json_response(_answer(0, 0, notice.ignored, is_verified=False))
        response.status_code = 202
        return response

    async def _carried_out(self, notice: IndexNowNotice, reader: Reader) -> dict[str, Any]:
        await self._files.verify(notice)
        prepared = await to_thread.run_sync(
            self._stores.read,
            lambda connection: prepared_notice(connection, notice, self._context, reader),
        )
        now = int(self._context.clock())
        return await self._stores.write_in_turn(
            lambda connection: carry_out_indexnow(connection, prepared, now)
        )

    def _proxy_of(self, url: str) -> Proxy | None:
        options = self._context.options
        return self._stores.read(lambda connection: proxy_of_key_file(connection, url, options))

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        """Log why a notice failed: its sender may have got 202."""
        self._waiting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            reason = error.reason if isinstance(error, ApiError) else error
            logger.info("a notice of IndexNow was refused: %s", reason)


def proxy_of_key_file(connection: Connection, url: str, options: Options) -> Proxy | None:
    """Return the proxy of the first source, by name, that has pages of a host and a proxy.

    Raises:
        SettingError: its variable lacks the address.
    """
    try:
        declared = load_stored_jobs_and_sources(options, connection)
    except SourceError:  # each request that reads the file logs what is wrong
        return None
    host = url_host_key(url)
    for name in sorted(declared):
        proxy = declared[name].request.proxy
        if proxy is not None and is_host_of_stored_pages(connection, host, [name]):
            return proxy_of_source(name, proxy)
    return None


def _is_ours(connection: Connection, notice: IndexNowNotice, reader: Reader) -> bool:
    return is_host_of_stored_pages(connection, notice.host, readable_sources(connection, reader))


_URL: Final = "https://docs.example.com/guide"
_KEY: Final = "0f6c2a9e4b7d4d1e"
_KEY_TEXT: Final = "Of the file: 8 to 128 of the characters a-z, A-Z, 0-9 and -"
_PLACE_TEXT: Final = "The address of the key file; by default KEY.txt at the root of the host"
_PLACE: Final = f"https://docs.example.com/{_KEY}.txt"


class NoticeQuery(Query):
    """A notice of one address."""

    url: str = Field(min_length=1, description="The page that changed", examples=[_URL])
    key: str = Field(description=_KEY_TEXT, examples=[_KEY])
    key_location: str | None = Field(
        default=None, alias="keyLocation", description=_PLACE_TEXT, examples=[_PLACE]
    )


class NoticeBody(BaseModel):
    """A notice of many addresses; the protocol may add keys."""

    model_config = ConfigDict(strict=True, extra="ignore")

    host: str = Field(min_length=1, max_length=255, examples=["docs.example.com"])
    key: str = Field(description=_KEY_TEXT, examples=[_KEY])
    key_location: str | None = Field(
        default=None, alias="keyLocation", description=_PLACE_TEXT, examples=[_PLACE]
    )
    urls: list[str] = Field(
        alias="urlList", min_length=1, max_length=MOST_ADDRESSES, examples=[[_URL]]
    )


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of notices."""
    notices = _Notices(context)

    async def refuse_when_off() -> None:
        if not context.server.takes_indexnow:
            raise api_not_found(reason="notices of IndexNow are off: set API_INDEXNOW to take them")

    described: dict[str, Any] = {
        "tags": ["items"],
        "response_model": NoticeAnswer,
        "responses": {
            202: {"model": NoticeAnswer, "description": "The key is still being checked"},
            404: {},
            422: {},
        },
    }

    @router.get(
        INDEXNOW_PATH,
        summary="Notice of a page that changed, by IndexNow",
        dependencies=[Depends(refuse_when_off)],
        openapi_extra={"parameters": described_api_query(NoticeQuery)},
        **described,
    )
    async def notice_page(request: Request) -> Response:
        query = read_api_query(NoticeQuery, request)
        return await notices.take(request, None, query.key, query.key_location, [query.url])

    @router.post(
        INDEXNOW_PATH,
        summary="Notice of pages that changed, by IndexNow",
        dependencies=[Depends(refuse_when_off), Depends(refuse_api_query)],
        **described,
    )
    async def notice_pages(request: Request, body: NoticeBody) -> Response:
        return await notices.take(request, body.host, body.key, body.key_location, body.urls)
