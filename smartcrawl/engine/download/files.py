"""The download handler of files: it reads what the listing of its run named, and nothing else."""

from __future__ import annotations

import asyncio
import mimetypes
from typing import Final, Self

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.model.exceptions import FileTooLargeError
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.model.times import iso_time
from smartcrawl.run.run import Run
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.listing.reading import read_folder_file
from smartcrawl.sources.listing.stamps import FileValidator

TOO_LARGE: Final = 413  #: status of a file that is not read, because it has too many bytes
_TEXT_TYPES: Final = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".rst": "text/plain",
}  # fmt: skip


class FileHandler(BaseDownloadHandler):
    """Reads files below the root of the run's source, each as an answer of a server.

    Missing is 404, refused is 403, larger than the limit is 413. A store that is away raises.
    """

    def __init__(self, crawler: Crawler, run: Run, source: FilesSource) -> None:
        super().__init__(crawler)
        self._run = run
        self._source = source
        self._scope = source.scope
        self._most = source.max_file_size or crawler.settings.getint("DOWNLOAD_MAXSIZE")

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
        url = attempt.page.url
        return await asyncio.to_thread(self._answer, url, attempt.page.no)

    def _answer(self, url: str, number: int) -> Response:
        source, listed = self._source, self._run.listed
        assert listed is not None, "the source is listed"
        relative = self._scope.relative(url)
        try:
            body = read_folder_file(
                source.folder,
                relative,
                most=self._most,
                known=listed.entry(number),
                how=FileValidator(self._run.options.file_validator),
                follow_symlinks=source.follow_symlinks,
            )
        except FileNotFoundError:
            return Response(url, status=404)
        except PermissionError:
            return Response(url, status=403)
        except FileTooLargeError as error:
            return Response(url, status=TOO_LARGE, headers={"Content-Length": str(error.size)})
        headers: dict[str, str] = {}
        media = media_type_of_name(relative)
        if media is not None:
            headers["Content-Type"] = media
        if body.validator is not None:
            headers["ETag"] = body.validator
        if body.modified_at is not None:
            headers["Last-Modified"] = iso_time(body.modified_at) or ""
        return Response(url, headers=headers, body=body.data)


def media_type_of_name(name: str) -> str | None:
    """Return the media type that the ending of a name stands for; None: its bytes decide.

    >>> media_type_of_name("a/b.html"), media_type_of_name("README"), media_type_of_name("a.MD")
    ('text/html', None, 'text/markdown')
    """
    _, dot, ending = name.rpartition(".")
    if not dot or "/" in ending:
        return None
    found = _TEXT_TYPES.get(f".{ending.lower()}")
    return found or mimetypes.guess_type(f"name.{ending}", strict=False)[0]
