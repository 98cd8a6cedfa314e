"""Bodies to documents: new pages here, everything else in processes of their own."""

from __future__ import annotations

from typing import Final

from smartcrawl.configuration import Configuration
from smartcrawl.extract import html
from smartcrawl.extract.formats import FORMATS, MAX_TEXT, FormatError, FormatFault
from smartcrawl.extract.pool import MIB, FormatPool
from smartcrawl.extract.portions import MAX_PAGE, Portions
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.items import Document, Visit
from smartcrawl.options import Options
from smartcrawl.rules.model import Fault

#: The extended status of a visit whose document cannot be read.
FORMAT_FAULTS: Final = {
    FormatFault.CORRUPT: Fault.CORRUPT,
    FormatFault.ENCRYPTED: Fault.ENCRYPTED,
    FormatFault.TOO_LARGE: Fault.BOMB,
    FormatFault.CRASHED: Fault.CRASHED,
    FormatFault.TIME_OUT: Fault.READING_TIME_OUT,
    FormatFault.MEMORY: Fault.OUT_OF_MEMORY,
}


class Documents:
    """Reads what a source's pages answer, as its configuration has it.

    A page that was downloaded is read here, for the network takes longer; those that lie ready in
    snapshots are read by several processes at once.
    """

    def __init__(self, configuration: Configuration, options: Options) -> None:
        self._selected = Selected(configuration.selectors.keep, configuration.selectors.drop)
        self._options = options
        self._pool: FormatPool | None = None
        self._portions: Portions | None = None

    async def read(self, visit: Visit, body: bytes, *, links: bool = True) -> tuple[Document, bool]:
        """Return the document of a body, and whether its type can be read at all.

        ``links``: whether those of a page are wanted.

        Raises:
            FormatError: it can, but not this one.

        Source: R0-59, R0-60.
        """
        header, url = visit.content_type, visit.url
        media_type = html.media_type(header, body, url)
        if media_type in html.HTML_TYPES:
            if visit.extracted_again and len(body) <= MAX_PAGE:
                return await self._pages().read(PageTask(body, header, url, links)), True
            keep, drop = self._selected
            document = html.parse(
                body, content_type=header, url=url, keep=keep, drop=drop, links=links
            )
            return document, True
        if media_type in html.TEXT_TYPES:
            if len(body) > MAX_TEXT:
                raise FormatError(FormatFault.TOO_LARGE, f"it has more than {MAX_TEXT:,} bytes")
            return html.parse_text(body, content_type=header, url=url), True
        if media_type in FORMATS:
            document = await self._formats().read(
                body, media_type=media_type, content_type=header, url=url
            )
            return document, True
        return Document(content_type=media_type), False

    def _pages(self) -> Portions:
        if self._portions is None:
            self._portions = Portions(self._formats(), self._selected)
        return self._portions

    def _formats(self) -> FormatPool:
        """Return the processes that read documents; none starts before the first document."""
        if self._pool is None:
            options = self._options
            seconds = options.extract_cpu_seconds
            self._pool = FormatPool(
                options.extract_processes, options.extract_memory * MIB, seconds, 2 * seconds
            )
        return self._pool

    async def close(self) -> None:
        """End those processes."""
        if self._portions is not None:
            self._portions.close()
        if self._pool is not None:
            await self._pool.close()
