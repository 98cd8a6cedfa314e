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
        self._formats: FormatPool | None = None
        self._pages: Portions | None = None

    async def read(
        self, visit: Visit, body: bytes, *, links: bool = True, told: html.Told | None = None
    ) -> tuple[Document, bool]:
        """Return the document of a body, and whether its type can be read at all.

        ``links``: whether those of a page are wanted. ``told``: the language of the same body as it
        was told before.

        Raises:
            FormatError: it can, but not this one.

        Source: R0-59, R0-60.
        """
        header, url = visit.content_type, visit.url
        media_type = html.media_type(header, body, url)
        if media_type in html.HTML_TYPES:
            if visit.extracted_again and len(body) <= MAX_PAGE:
                task = PageTask(body, header, url, links, detect=told is None)
                if self._pages is None:
                    self._pages = Portions(self._pool(pages_only=True), self._selected)
                page = await self._pages.read(task)
                return html.with_language(page, told) if told is not None else page, True
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
            if self._formats is None:
                self._formats = self._pool()
            document = await self._formats.read(
                body, media_type=media_type, content_type=header, url=url
            )
            return document, True
        return Document(content_type=media_type), False

    def _pool(self, *, pages_only: bool = False) -> FormatPool:
        options = self._options
        processes, memory = options.extract_processes, options.extract_memory * MIB
        seconds = options.extract_cpu_seconds
        return FormatPool(processes, memory, seconds, 2 * seconds, pages_only=pages_only)

    async def close(self) -> None:
        """End the processes; those that were not needed never started."""
        if self._pages is not None:
            await self._pages.close()
        if self._formats is not None:
            await self._formats.close()
