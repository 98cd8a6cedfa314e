"""The spider of document libraries: the listing names the items, each becomes one Visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from smartcrawl.model.exceptions import AddressRefusedError, DefiniteRefusalError
from smartcrawl.model.library import LIBRARY_FILE, LISTED_ENTRY
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.rules.model import Outcome
from smartcrawl.run.opening import library_source_of_run_arguments
from smartcrawl.sources.kinds import SHAREPOINT
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.files import ListedSpider, visit_of_spider_answer

#: Errors that a further request meets again.
_DEFINITE: Final = (AddressRefusedError, DefiniteRefusalError)


class SharepointSpider(ListedSpider):
    """One Visit for each new or changed item of a library; the listing confirms the others."""

    name = "sharepoint"
    crawls = SHAREPOINT.spider
    custom_settings = {  # noqa: RUF012  # as Scrapy has it
        "DOWNLOAD_HANDLERS": dict.fromkeys(
            ("http", "https"), "smartcrawl.engine.download.library.LibraryHandler"
        ),
    }

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> SharepointSource:
        """Return the source that ``source=DOMAIN.SOURCE`` names.

        Raises:
            SourceError: there is none, or an argument is unknown.
            SettingError: credentials are missing.
        """
        return library_source_of_run_arguments(options, arguments)

    def parse(self, response: Response, **_: Any) -> Iterator[Visit]:
        """Turn the answer of the handler into the Visit of its item, if it is one of a run."""
        if "attempt" not in response.meta:
            return
        visit = visit_of_spider_answer(response)
        if visit.outcome is Outcome.TRANSIENT and self._keep(response.meta):
            return
        file = response.meta.get(LIBRARY_FILE)
        if file is not None:
            visit.answer.content_length = file.item.file_size
            visit.url = file.item.url
            if visit.outcome is not Outcome.CHANGED:
                file = file._replace(error=visit.error)
        visit.answer.file = file
        yield visit

    def errback(self, failure: Failure) -> Iterator[Visit | Request]:
        """Yield the Visit of an item that could not be had; its file and fields stay (R3-75).

        It has none before its last batch.
        """
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        file = request.meta.get(LIBRARY_FILE)
        is_definite = isinstance(failure.value, _DEFINITE)
        for found in super().errback(failure):
            if not is_definite and self._keep(request.meta):
                return
            if isinstance(found, Visit) and file is not None:
                found.answer.file = file._replace(path=None, staged=None, error=found.error)
            yield found

    def _keep(self, meta: Mapping[str, Any]) -> bool:
        """Keep an item that failed for the next batch; return False if there is none (R3-60)."""
        entry: Entry | None = meta.get(LISTED_ENTRY)
        assert self.run is not None, "the crawl has a run"
        assert self.run.library is not None, "it is that of a library"
        attempt: VisitAttempt = meta["attempt"]
        return entry is not None and self.run.library.retries.keep(attempt.page.no, entry)
