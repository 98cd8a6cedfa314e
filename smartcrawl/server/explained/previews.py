"""One page as it would be indexed: requested once, read as a run reads it, and stored nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Final

import can_ada
from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from smartcrawl.extract import html
from smartcrawl.extract.browser.page import Rendering
from smartcrawl.extract.formats import FORMATS, FormatError
from smartcrawl.extract.formats.common import document_too_large
from smartcrawl.extract.pool import MAX_PAGE, MIB, FormatPool
from smartcrawl.extract.repeated import document_without, marks_as_text, repeated_marks
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import RenderingError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import MAX_URL_LENGTH, join_url, url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import reason_against_host
from smartcrawl.registry.render_samples import stored_source_samples
from smartcrawl.registry.site_lists import repeated_lines_of_host
from smartcrawl.reports.decisions import AddressDecisions
from smartcrawl.reports.export import page_as_markdown
from smartcrawl.reports.today import reported_source_today
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.http import REDIRECTS
from smartcrawl.rules.render_need import Need, RenderMode, needs_browser, sample_of
from smartcrawl.rules.rendering import DATA, POLLING
from smartcrawl.rules.repeated import RepeatedLines
from smartcrawl.rules.visibility import Reader
from smartcrawl.run.received import MARKUP_TYPE, Answer
from smartcrawl.run.render_mode import render_mode
from smartcrawl.server.bodies import names_private_job_address
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_not_found, api_unavailable
from smartcrawl.server.explained.answers import MOST_TEXT, Preview
from smartcrawl.server.explained.fetching import (
    FetchedPage,
    HostTurns,
    NotFetchedError,
    PageFetch,
    TriedPage,
)
from smartcrawl.server.explained.records import ReadSources
from smartcrawl.server.explained.showing import (
    Samples,
    host_samples,
    may_show_more,
    sampled_need,
)
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.base import Source, SourceExtractionConfig
from smartcrawl.sources.jobs import declared_job_address

SECONDS: Final = 30.0  #: for the answer
RENDER_SECONDS: Final = 60.0  #: for what a browser shows of it
_AT_ONCE: Final = 2  #: previews of one server
_MOST_LINKS: Final = 200  #: that are shown
_MOST_DROPPED: Final = 300  #: lines that are shown
_LONGEST_LINE: Final = 500  #: characters of a line that is shown
_EXAMPLE: Final[dict[str, Any]] = {"url": "https://docs.example.com/guide", "source": "docs"}
_WHOLE: Final = Selected(("body",))  #: all text of a page


class TriedPreview(BaseModel):
    """A page, and the source by whose rules it is requested and read."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"examples": [_EXAMPLE]}
    )

    url: str = Field(max_length=4 * MAX_URL_LENGTH, description="Its address")
    source: str | None = Field(
        default=None,
        max_length=255,
        description="Whose scope, delay, User-Agent, login and selectors count; null: the settings",
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The rules for one request, read from the registry and the sources."""

    page: TriedPage
    config: SourceExtractionConfig
    repeated: RepeatedLines | None
    refusal: str | None  #: why it is not requested
    mode: RenderMode
    samples: Samples  #: of the pages of its source that were read both ways


class Previews:
    """Previews of one server: two at once, each host at its delay."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turns = HostTurns()
        self._room = BoundedSemaphore(_AT_ONCE)

    def preview(self, reader: Reader, tried: TriedPreview) -> dict[str, Any]:
        """Return what a page would give, under the keys of ``Preview``; it blocks its thread.

        Raises:
            ApiError: the address is invalid, no source has the name, or too many are under way.
        """
        url = _checked_address(tried.url.strip(), self._context.options)
        prepared = self._context.stores.read_moment(
            lambda seen: self._prepared(seen, reader, url, tried.source)
        )
        found = _empty(prepared.page)
        if prepared.refusal is not None:
            return found | {"sentence": f"Not requested: {prepared.refusal}."}
        if not self._room.acquire(blocking=False):
            raise api_unavailable(f"{_AT_ONCE} pages are being tried: try again in a moment")
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                return found | runner.run(self._tried(prepared))
        except TimeoutError:
            return found | {"sentence": f"Given up: no whole answer within {SECONDS:g} s."}
        except NotFetchedError as error:
            return found | {"sentence": f"Not requested to the end: {error}."}
        finally:
            self._room.release()

    def _prepared(
        self, connection: Connection, reader: Reader, url: str, name: str | None
    ) -> _Prepared:
        context, options = self._context, self._context.options
        sources = ReadSources(connection, context, reader)
        source = job = None
        if name is not None:
            if sources.may_read(name):
                source = reported_source_today(connection, sources.known, name)
            if source is None:
                raise api_not_found("Source not found", reason="no source has this name")
            job = sources.jobs.get(name)
        host, of = url_host_key(url), name or ""
        refusal = reason_against_host(connection, host, int(context.clock()))
        if refusal is not None and source is None:
            refusal = "its host gets no request at present"  # the reason may name a source
        robots, is_obeyed = sources.robots, sources.robots.is_obeyed(of)
        login = None
        if source is not None:
            about = AddressDecisions(connection, options, sources.known, robots, [source.name])
            decision = next(iter(about.decided(url)), None)
            if decision is None:
                refusal = refusal or f"its host is not in the scope of {source.name}"
            elif not decision["isTaken"]:
                refusal = refusal or decision["text"]
            login = decision and decision["login"]
        with_login = bool(login and login["isSent"])
        if with_login and context.stores.database.is_held(of):
            refusal = refusal or f"{of} is being crawled with its login: try it after that run"
        asked = getattr(source, "request", None)
        delay = options.download_delay if asked is None or asked.delay is None else asked.delay
        agent = (asked and asked.user_agent) or context.server.robots.user_agent
        if job is not None:
            delay, agent = job.config.crawl_delay_ms / 1_000, job.config.user_agent
        mode = RenderMode.NO if source is None else render_mode(source, options)
        page = TriedPage(
            url=url,
            source=source,
            user_agent=agent,
            delay=delay,
            # A stored copy may be that of a source that the caller may not read.
            asks_robots=is_obeyed and (source is None or robots.of(of).answer(url) is None),
            with_login=with_login,
            obeys_robots=is_obeyed,
            is_rendered=mode is not RenderMode.NO,
        )
        return _Prepared(
            page,
            SourceExtractionConfig.of(source, options),
            self._repeated(connection, name, host),
            refusal,
            mode,
            {} if mode is not RenderMode.AUTO else stored_source_samples(connection, of),
        )

    def _repeated(
        self, connection: Connection, name: str | None, host: str
    ) -> RepeatedLines | None:
        """Return the lines that repeat on a host of a source, where they are left out."""
        if name is None or not self._context.options.leave_out_repeated:
            return None
        return repeated_lines_of_host(connection, name, host)

    async def _tried(self, prepared: _Prepared) -> dict[str, Any]:
        """Request the page and read it.

        Raises:
            NotFetchedError: there is no answer.
            TimeoutError: it took too long.
        """
        context, server = self._context, self._context.server
        fetch = PageFetch(
            context.options,
            context.stores.database,
            server.robots.parser,
            server.robots.agent,
            self._turns,
            prepared.page,
        )
        try:
            async with asyncio.timeout(SECONDS):
                fetched = await fetch.fetched()
                found = await _read(fetched, prepared, context.options)
            if found.get("document") is None or not may_show_more(fetched.answer.body):
                return found
            return found | await _shown(fetch, fetched, prepared, context.options)
        finally:
            await fetch.close()


def _checked_address(url: str, options: Options) -> str:
    """Return the address as it is requested.

    Raises:
        ApiError: it is invalid or private.
    """
    try:
        requested = declared_job_address(url)
    except ValueError as error:
        raise ApiError("INVALID_URL", field="url", reason=f"url {error}") from error
    if names_private_job_address(requested, ConnectionGuard(options.allow_networks)):
        reason = "url names an address that ALLOW_NETWORKS does not allow"
        raise ApiError("INVALID_URL", field="url", reason=reason)
    return requested


def _empty(page: TriedPage) -> dict[str, Any]:
    return {
        "url": page.url,
        "source": None if page.source is None else page.source.name,
        "isFetched": False,
        "isIndexed": False,
        "sentence": "",
        "withLogin": page.with_login,
        "withBrowser": False,
        "status": None,
        "contentType": None,
        "bytes": None,
        "redirect": None,
        "document": None,
    }


async def _read(fetched: FetchedPage, prepared: _Prepared, options: Options) -> dict[str, Any]:
    """Return what an answer gives."""
    answer, url = fetched.answer, prepared.page.url
    header = answer.headers.get("content-type", "")
    found: dict[str, Any] = {
        "isFetched": True,
        "status": answer.status,
        "contentType": html.sniffed_media_type(header, answer.body, url) or None,
        "bytes": len(answer.body),
    }
    location = answer.headers.get("location", "")
    if answer.status in REDIRECTS and location:
        target = join_url(can_ada.parse(url), location)
        return found | {
            "redirect": target,
            "sentence": "It redirects: try the address to which it leads.",
        }
    if not 200 <= answer.status < 300:
        return found | {"sentence": f"It answered {answer.status}: nothing is indexed."}
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        sentence = "Its answer is compressed, although no compression was requested."
        return found | {"sentence": sentence}
    try:
        read = await _documents(answer.body, header, url, prepared.config, options)
    except FormatError as error:
        return found | {"sentence": f"It cannot be read: {error}."}
    if read is None:
        kind = found["contentType"] or "unknown"
        return found | {"sentence": f"Nothing is indexed: the type {kind} is not read."}
    document, whole = read
    return found | _indexed(document, whole, fetched, prepared)


async def _shown(
    fetch: PageFetch, fetched: FetchedPage, prepared: _Prepared, options: Options
) -> dict[str, Any]:
    """Return what changes by a browser, where a run of the source would show the page in one."""
    answer, url, source = fetched.answer, prepared.page.url, prepared.page.source
    header = answer.headers.get("content-type", "")
    is_page = html.sniffed_media_type(header, answer.body, url) in html.HTML_TYPES
    is_always = prepared.mode is RenderMode.ALWAYS or fetched.is_scripted
    need = Need.NEEDED if is_always else sampled_need(url, prepared.samples)
    if prepared.mode is RenderMode.NO or need is Need.PLAIN or not is_page:
        return {}
    document = Answer(url, answer.status, answer.lines, answer.body)
    try:
        async with asyncio.timeout(RENDER_SECONDS):
            shown = await fetch.shown(document)
        problem = shown.problem
    except RenderingError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"it was not shown within {RENDER_SECONDS:g} s"
    if problem:
        if need is Need.NEEDED:
            return {
                "isIndexed": False,
                "document": None,
                "sentence": f"Not indexed: the page is not rendered: {problem}.",
            }
        return {"sentence": f"It is read without a browser: {problem}."}
    rendered = document.showing(shown.html)
    read = await _documents(rendered.body, MARKUP_TYPE, url, prepared.config, options)
    assert read is not None, "the markup of a browser is a page"
    page, whole = read
    if need is Need.OPEN:
        plain = await _documents(answer.body, header, url, prepared.config, options)
        if plain is None or not _brings_more(plain[0], page, shown, source, prepared):
            return {}
    again = fetched._replace(shows_login=fetch.has_proof(rendered))
    return {"withBrowser": True} | _indexed(page, whole, again, prepared)


def _brings_more(
    plain: Document,
    page: Document,
    shown: Rendering,
    source: Source | None,
    prepared: _Prepared,
) -> bool:
    """Whether a browser brings so much to a page that the first sample of a run would take it."""
    known = {link.url for link in plain.links}
    links = [
        link.url
        for link in page.links
        if link.url not in known
        and not link.nofollow
        and (source is None or source.scope.allows(link.url))
    ]
    refused = {
        url_host_key(made.url)
        for made in shown.requests
        if made.kind in DATA and made.refused and made.refused != POLLING
    }
    sample = sample_of(plain.text, page.text, links, refused)
    others = [each.sample for each in host_samples(prepared.page.url, prepared.samples).values()]
    return bool(needs_browser(sample, others))


async def _documents(
    body: bytes, header: str, url: str, config: SourceExtractionConfig, options: Options
) -> tuple[Document, Document | None] | None:
    """Return the document of a body, and of a page also that of all its text.

    Processes with limits read it, as they read documents for a run. None: its type is not read.

    Raises:
        FormatError: this body cannot be read.
    """
    kind, seconds = html.sniffed_media_type(header, body, url), options.extract_cpu_seconds
    is_page = kind in html.HTML_TYPES
    if kind in html.TEXT_TYPES:
        return html.parse_plain_text(body[:MAX_PAGE], content_type=header, url=url), None
    if not is_page and kind not in FORMATS:
        return None
    if is_page and len(body) > MAX_PAGE:
        raise document_too_large(f"it has {len(body):,} bytes, and a preview takes {MAX_PAGE:,}")
    pool = FormatPool(1, options.extract_memory * MIB, seconds, 2 * seconds, pages_only=is_page)
    try:
        if not is_page:
            found = await pool.read(body, media_type=kind, content_type=header, url=url)
            return found, None
        chosen = config.selectors
        task = PageTask(body, header, url)
        selected = Selected(chosen.keep, chosen.drop, config.routes)
        (page,) = await pool.read_pages([task], selected)
        (whole,) = await pool.read_pages([task._replace(links=False, detect=False)], _WHOLE)
    finally:
        await pool.close()
    if isinstance(page, FormatError):
        raise page
    return page, None if isinstance(whole, FormatError) else whole


def _indexed(
    document: Document, whole: Document | None, fetched: FetchedPage, prepared: _Prepared
) -> dict[str, Any]:
    """Return the parts of a document that are indexed, and those that are left out."""
    url, source = prepared.page.url, prepared.page.source
    kept = document
    if prepared.repeated is not None:
        kept = document_without(
            document, marks_as_text(repeated_marks(document, prepared.repeated))
        )
    lines = set(_lines(kept))
    dropped = [line for line in dict.fromkeys(_lines(whole or document)) if line not in lines]
    mode = prepared.config.mode_of(url).word
    sentence, is_indexed = "It is indexed like this.", True
    if document.noindex:
        sentence, is_indexed = "Not indexed: the page says noindex.", False
    elif mode != "index":
        sentence, is_indexed = f"Not indexed: the source has its pages as {mode}.", False
    elif not kept.text.strip():
        sentence = "It has no text: scripts may write it, which a source with a browser reads."
    if fetched.shows_login is False:
        sentence += " It does not show that the login counts: it may be what anyone sees."
    links = [
        {
            "url": link.url,
            "text": link.anchor,
            "inScope": None if source is None else source.scope.allows(link.url),
        }
        for link in document.links[:_MOST_LINKS]
    ]
    return {
        "isIndexed": is_indexed,
        "sentence": sentence,
        "document": {
            "title": document.title,
            "language": document.language or None,
            "description": document.description,
            "headings": [
                {"level": section.level, "text": section.heading}
                for section in kept.sections
                if section.heading
            ],
            "text": page_as_markdown(kept, url=url)[:MOST_TEXT],
            "links": {"count": len(document.links), "shown": links},
            "dropped": {
                "count": len(dropped),
                "shown": [line[:_LONGEST_LINE] for line in dropped[:_MOST_DROPPED]],
            },
        },
    }


def _lines(document: Document) -> Iterable[str]:
    """Yield the lines of all headings and texts, with single spaces."""
    for section in document.sections:
        for line in (section.heading, *section.text.split("\n")):
            if words := " ".join(line.split()):
                yield words


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route."""
    previews = Previews(context)

    @router.post(
        "/previews",
        tags=["data"],
        summary="One page as it would be indexed: it is requested once, and stored nowhere",
        response_model=Preview,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def preview_page(request: Request, tried: TriedPreview) -> Response:
        reader = context.reader(request)
        return json_response(await to_thread.run_sync(previews.preview, reader, tried))
