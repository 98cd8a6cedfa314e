"""Bodies to documents: pages in this process or others, everything else in child processes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from smartcrawl.extract import html
from smartcrawl.extract.formats import FORMATS, MAX_TEXT, FormatError, FormatFault
from smartcrawl.extract.page_readers import PageReaders
from smartcrawl.extract.page_tasks import read_page_task
from smartcrawl.extract.pool import (
    MAX_PAGE,
    MIB,
    FormatPool,
    HostParsingBudget,
    ParsingBudget,
)
from smartcrawl.extract.wire import PageTask, PartMaker, Selected
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import GivenUpError
from smartcrawl.model.pages import Unreadable, Visit
from smartcrawl.rules.model import Fault
from smartcrawl.rules.page_reading import READ_HERE, PageReading
from smartcrawl.sources.base import EXTRACTION_VERSION, SourceExtractionConfig

#: The extended status of a visit whose document cannot be read.
FORMAT_FAULTS: Final = {
    FormatFault.CORRUPT: Fault.CORRUPT,
    FormatFault.ENCRYPTED: Fault.ENCRYPTED,
    FormatFault.TOO_LARGE: Fault.BOMB,
    FormatFault.CRASHED: Fault.CRASHED,
    FormatFault.TIME_OUT: Fault.READING_TIME_OUT,
    FormatFault.MEMORY: Fault.OUT_OF_MEMORY,
    FormatFault.BUDGET: Fault.EXTRACTION_BUDGET,
}
_KINDS: Final = {fault: kind for kind, fault in FORMAT_FAULTS.items()}
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
#: Bytes of bodies that this process reads.
_MOST_OF_TYPE: Final = {
    **dict.fromkeys(html.HTML_TYPES, 32 * 1024 * 1024),
    **dict.fromkeys(html.TEXT_TYPES, MAX_TEXT),
}
_MAX_CHARSET: Final = 40  #: characters
_MAX_HEADER: Final = 1_000  #: characters
_MAX_MESSAGE: Final = 800  #: characters
_NOT_AGAIN: Final = "(found before with the same bytes: they are not read again)"
_BUDGET: Final = "extraction_budget"


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits of the processes that read documents."""

    processes: int  #: at most
    memory: int  #: MiB of each process
    cpu_seconds: int  #: of one document; twice that by the clock
    seconds_per_host: int  #: of all documents of a host in a run; 0: any
    pages: PageReading = READ_HERE  #: how downloaded pages are read


class DocumentReader:
    """Reads the bodies of a source's pages under its extraction configuration.

    Pages out of snapshots are read by several processes at once, and so are downloaded ones if
    ``DocumentLimits.pages`` says so.
    """

    def __init__(
        self,
        configuration: SourceExtractionConfig,
        limits: DocumentLimits,
        *,
        unreadable: Callable[[bytes, str], Unreadable | None],
        is_stopping: Callable[[], bool],
        maker: Callable[[], PartMaker] | None = None,
    ) -> None:
        """``maker``: of what processes make of pages beside their documents (``ReadDocument``)."""
        selectors = configuration.selectors
        self._selected = Selected(selectors.keep, selectors.drop, configuration.routes)
        self._limits = limits
        self._unreadable = unreadable
        self._is_stopping = is_stopping
        self._turns = asyncio.Semaphore(limits.processes)
        self._budget = ParsingBudget(limits.seconds_per_host)
        self._formats: FormatPool | None = None
        self._given_up = False
        self._pages = PageReaders(
            partial(
                self._pool, limits.pages.processes or limits.processes, pages_only=True, maker=maker
            ),
            self._selected,
            first=limits.pages.first if limits.pages.processes else None,
            is_stopping=is_stopping,
        )

    async def read(
        self,
        visit: Visit,
        body: bytes,
        *,
        links: bool = True,
        language: html.DetectedLanguage | None = None,
        forced: bool = False,
    ) -> tuple[Document, bool]:
        """Return the document of a body, and whether its type can be read at all.

        ``links``: whether the links of a page are wanted. ``language``: the stored language of
        the page, and the digest of the text that it was detected in. ``forced``: try again with
        bytes that could not be read before.

        Raises:
            FormatError: its type can be read, but this body cannot.
            GivenUpError: the crawl ended while it waited for a process, or was given up.

        Source: R0-59, R0-60, R0-76.
        """
        header, url = visit.answer.content_type, visit.url
        media_type = html.sniffed_media_type(header, body, url)
        most = _MOST_OF_TYPE.get(media_type)
        if most is not None and len(body) > most:
            raise FormatError(FormatFault.TOO_LARGE, f"it has more than {most:,} bytes")
        if media_type in html.HTML_TYPES:
            page = await self._page(visit, body, links=links, detect=language is None)
            return html.with_detected_language(
                page, language
            ) if language is not None else page, True
        if media_type in html.TEXT_TYPES:
            return html.keep_document_language(
                html.parse_plain_text(body, content_type=header, url=url), language
            ), True
        if media_type in FORMATS:
            document = await self._formatted(visit, body, media_type, forced=forced)
            return html.keep_document_language(document, language), True
        return Document(content_type=media_type), False

    async def _page(self, visit: Visit, body: bytes, *, links: bool, detect: bool) -> Document:
        """Return the document of an HTML page; ``detect``: whether to detect its language."""
        is_new = visit.page.record.content is None
        header = visit.answer.content_type
        task = PageTask(body, header, visit.url, links, detect=detect, is_new=is_new)
        if len(body) > MAX_PAGE:
            return read_page_task(task, self._selected)
        read = self._pages.read if visit.extracted_again else self._pages.read_downloaded
        return await read(task)

    async def _formatted(
        self, visit: Visit, body: bytes, media_type: str, *, forced: bool
    ) -> Document:
        """Return the document of a body that is no page; bytes that failed before fail at once."""
        parsed = visit.parsed
        assert parsed.body_hash is not None, "the body was hashed on arrival"
        media = _media(media_type, visit.answer.content_type)
        known = None if forced else self._unreadable(parsed.body_hash, media)
        if known is not None and known.allowed >= self._allowed(known.fault):
            parsed.unreadable = known
            raise FormatError(_KINDS[known.fault], f"{known.message} {_NOT_AGAIN}")
        if self._formats is None:
            self._formats = self._pool(self._limits.processes)
        try:
            async with self._turns:
                if self._is_stopping():
                    raise GivenUpError("the crawl ended before the document was read")
                return await self._formats.read(
                    body,
                    media_type=media_type,
                    content_type=visit.answer.content_type,
                    url=visit.url,
                    share=HostParsingBudget(self._budget, visit.page.host),
                )
        except FormatError as error:
            if self._given_up:
                raise GivenUpError("the run ended while the document was read") from error
            if error.kind is FormatFault.BUDGET:
                raise FormatError(error.kind, f"{_BUDGET}: {error}", lasting=False) from error
            if error.lasting:
                fault = FORMAT_FAULTS[error.kind]
                why = (fault, self._allowed(fault), str(error)[:_MAX_MESSAGE])
                parsed.unreadable = Unreadable(parsed.body_hash, EXTRACTION_VERSION, media, *why)
            raise

    def _allowed(self, fault: Fault) -> int:
        """Return the limit that a fault exceeded, in seconds or MiB; 0: a fault of another kind."""
        if fault is Fault.READING_TIME_OUT:
            return self._limits.cpu_seconds
        return self._limits.memory if fault is Fault.OUT_OF_MEMORY else 0

    def _pool(
        self,
        processes: int,
        *,
        pages_only: bool = False,
        maker: Callable[[], PartMaker] | None = None,
    ) -> FormatPool:
        memory, seconds = self._limits.memory * MIB, self._limits.cpu_seconds
        limits = (processes, memory, seconds, 2 * seconds)
        return FormatPool(*limits, pages_only=pages_only, maker=None if maker is None else maker())

    def give_up(self) -> None:
        """Give up the documents that are being read: each raises GivenUpError."""
        self._given_up = True
        self._pages.give_up()
        if self._formats is not None:
            self._formats.give_up()

    async def close(self) -> None:
        """End the processes that were started."""
        await self._pages.close()
        if self._formats is not None:
            await self._formats.close()


def media_of_body(header: str, body: bytes, url: str) -> str:
    """Return the type as which a body is read, with the charset that its server names.

    ``header``: its Content-Type. Equal bytes of one such type give equal documents, but for links
    that resolve against the address (``document_links_depend_on_url``).
    """
    return _media(html.sniffed_media_type(header, body, url), header)


def _media(media_type: str, header: str) -> str:
    found = _CHARSET.search(header[:_MAX_HEADER])
    return f"{media_type}; charset={found[1][:_MAX_CHARSET].lower()}" if found else media_type
