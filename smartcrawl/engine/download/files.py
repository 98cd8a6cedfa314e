"""The download handler of files: it reads what the listing of its run named, and nothing else."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Self

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.extract import sniff
from smartcrawl.model.exceptions import FileTooLargeError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.model.times import iso_time
from smartcrawl.rules.files import Check
from smartcrawl.rules.model import Extraction, Standing, Status
from smartcrawl.run.run import Run
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.listing.entries import Entry, FileValidator, source_entry_check
from smartcrawl.sources.listing.reading import (
    hash_listed_file,
    read_bucket_file,
    read_listed_file,
)
from smartcrawl.sources.stores import Fault

TOO_LARGE: Final = 413  #: status of a file that is not read, because it has too many bytes
_NO_LIMIT: Final = 2**40  #: bytes of a file where MAX_FILE_SIZE is 0
# fmt: off
#: Endings whose type the bytes do not prove. The table is fixed: /etc/mime.types, which differs by
#: machine, calls a.rs XML and a.rst a type that has no reader.
_MEDIA_TYPES: Final = {
    "htm": "text/html", "html": "text/html", "shtml": "text/html",
    "xht": "application/xhtml+xml", "xhtml": "application/xhtml+xml",
    "md": sniff.MARKDOWN, "markdown": sniff.MARKDOWN,
    "mdx": sniff.MARKDOWN, "qmd": sniff.MARKDOWN, "ipynb": sniff.NOTEBOOK,
    "csv": sniff.CSV, "tsv": sniff.CSV, "json": sniff.JSON, "xml": sniff.XML,
    "pdf": sniff.PDF, "docx": sniff.DOCX, "pptx": sniff.PPTX, "xlsx": sniff.XLSX,
    "odt": sniff.ODT, "epub": sniff.EPUB,
    "txt": "text/plain", "rst": "text/plain",
    "eml": "message/rfc822", "mht": "message/rfc822", "mhtml": "message/rfc822",
}
# fmt: on


class FileHandler(BaseDownloadHandler):
    """Reads files below the root of the run's source, each as an answer of a server.

    Missing is 404, refused is 403, larger than the limit is 413. A store that is away raises.
    The flag of an answer 404 or 403 is its reason, for people.
    """

    def __init__(self, crawler: Crawler, run: Run, source: FilesSource) -> None:
        super().__init__(crawler)
        self._run = run
        self._source = source
        self._scope = source.scope
        self._how = FileValidator(run.options.file_validator)
        most = source.max_file_size or crawler.settings.getint("MAX_FILE_SIZE")
        self._most = most or _NO_LIMIT

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider."""
        run = run_of_crawler(crawler)
        if run is None or not isinstance(run.source, FilesSource):
            raise NotConfigured("only a crawl of files reads files")
        return cls(crawler, run, run.source)

    async def download_request(self, request: Request) -> Response:
        """Read the file of a request of the run.

        Raises:
            ListedFileError: its store is away, or it changed while it was read.
            OSError: it cannot be read.
        """
        url = request.url
        attempt = request.meta.get("attempt")
        if not isinstance(attempt, VisitAttempt) or not self._scope.holds(attempt.page.url):
            return Response(url, status=403)
        return await asyncio.to_thread(self._answer, attempt.page)

    def _answer(self, page: Page) -> Response:
        url = page.url
        assert self._run.listed is not None, "the source is listed"
        entry = self._run.listed.entry(page.no)
        if entry is not None and entry.size > self._most:
            return _too_large(url, entry.size)
        try:
            return self._confirmed(page, entry) or self._read(page, entry)
        except FileNotFoundError as error:
            return Response(url, status=404, flags=[error.strerror or "no such file"])
        except PermissionError as error:
            return Response(url, status=403, flags=[self._refusal(error)])
        except FileTooLargeError as error:
            return _too_large(url, error.size)

    def _refusal(self, error: PermissionError) -> str:
        """Return the reason and the remedy; the error of a store is the remedy already."""
        why = error.strerror or "refused"
        if not self._source.is_local:
            return why
        remedy = Fault.REFUSED.value.format(who="this user")
        return f"{why}; {remedy}"

    def _confirmed(self, page: Page, entry: Entry | None) -> Response | None:
        """Return a 304 for an unchanged file that need not be read, or None.

        A file of which only links are stored is unchanged if its properties are (R0-44). A large
        one is hashed in pieces, so that it enters the memory only when it is to be read (R0-45).
        """
        record, plan = page.record, page.plan
        if entry is None or self._run.forces(page) or plan.extraction is not Extraction.STANDS:
            return None
        check = source_entry_check(record.etag, record.content_length, entry)
        if check is Check.SKIP and _has_links_alone(page):
            return Response(
                page.url, status=304, headers=downloader_headers_of_file(entry.validator, None)
            )
        if check is not Check.HASH or not self._source.is_local:
            return None
        found = hash_listed_file(
            self._source.folder,
            self._scope.relative(page.url),
            known=entry,
            how=self._how,
            follow_symlinks=self._source.follow_symlinks,
        )
        if found.body_hash != record.body_hash:
            return None
        headers = downloader_headers_of_file(found.validator, found.modified_at)
        return Response(page.url, status=304, headers=headers)

    def _read(self, page: Page, entry: Entry | None) -> Response:
        relative = self._scope.relative(page.url)
        if self._source.is_local:
            body = read_listed_file(
                self._source.folder,
                relative,
                most=self._most,
                known=entry,
                how=self._how,
                follow_symlinks=self._source.follow_symlinks,
                now_ns=time.time_ns(),  # a resumed run may read before its listing comes so far
            )
        else:
            etag = None if entry is None else entry.validator
            body = read_bucket_file(page.url, most=self._most, etag=etag)
        headers = downloader_headers_of_file(body.validator, body.modified_at)
        media = downloader_media_type(relative)
        if media is not None:
            headers["Content-Type"] = media
        return Response(page.url, headers=headers, body=body.data)


def _too_large(url: str, size: int) -> Response:
    """Return the answer of a file that is not read, because it has too many bytes."""
    return Response(url, status=TOO_LARGE, headers={"Content-Length": str(size)})


def _has_links_alone(page: Page) -> bool:
    """Whether an answer of the file is stored without its content, such as noindex."""
    state = page.state
    return (
        state.standing is Standing.LINKS
        and state.status is Status.CRAWLED
        and not state.lost_count
        and not page.plan.doubted
    )


def downloader_headers_of_file(validator: str | None, modified_at: int | None) -> dict[str, str]:
    """Return validator and time of a listed file, Unix seconds, as headers of an answer."""
    headers: dict[str, str] = {}
    if validator is not None:
        headers["ETag"] = validator
    if modified_at is not None:
        headers["Last-Modified"] = iso_time(modified_at) or ""
    return headers


def downloader_media_type(name: str) -> str | None:
    """Return the media type that the ending of a name stands for; None: its bytes decide.

    >>> [downloader_media_type(name) for name in ("a/b.html", "README", "a.MD", "a.rs")]
    ['text/html', None, 'text/markdown', None]
    """
    _, dot, ending = name.rpartition(".")
    return _MEDIA_TYPES.get(ending.lower()) if dot else None
