"""The actions of ``library``: its steps in their order, and its reports, cleanup and export."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self, cast

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import DontCloseSpider

from smartcrawl.commands.summary import summary_command_line
from smartcrawl.engine.current_run import wake_engine
from smartcrawl.engine.download.library import LIBRARY_REQUEST, library_api_of_crawl
from smartcrawl.engine.download.network import environment_proxy_endpoints, installed_resolver
from smartcrawl.engine.listing import LISTING_RUN_SETTINGS, ListingRun
from smartcrawl.index.vectorstore.ports import UploadedFile
from smartcrawl.model.exceptions import (
    HostsBusyError,
    PushError,
    RunHeldError,
    SmartcrawlError,
    SourceError,
)
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.text import report_noun
from smartcrawl.run.dry_library import DryLibrary
from smartcrawl.run.library.embedding import LibraryEmbed
from smartcrawl.run.library.job import LOOK, LibraryJob
from smartcrawl.run.library.metadata import LibraryMetadata, run_entries_in_words
from smartcrawl.run.library.report import (
    LibraryReport,
    library_run_archives,
    library_run_maps_snapshot,
    spreadsheet_of_run_maps,
)
from smartcrawl.run.library.result import FULL, LibraryResult
from smartcrawl.run.library.steps import LibraryStep, library_run_has_items
from smartcrawl.run.library.store import (
    run_attached_file_ids,
    run_domain_store,
    run_domain_store_of_name,
)
from smartcrawl.run.opening import library_source_of_run_arguments
from smartcrawl.run.pushing import RunLeftUploads
from smartcrawl.run.run import Run
from smartcrawl.sources.private_files import (
    folder_like_its_parent,
    replacing,
    write_sharepoint_source_file,
)
from smartcrawl.sources.sharepoint.domains import Domain, load_sharepoint_domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.spiders.sharepoint import SharepointSpider
from smartcrawl.terminal.command import base_command_missing_registry
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, print_complaint, printed, printed_json

logger = logging.getLogger(__name__)


ADOPT: Final = "adopt"
CRAWL: Final = "crawl"
DOWNLOAD: Final = "download"
_EMBED: Final = "embed"
#: The steps of each action, in order.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    DOWNLOAD: (DOWNLOAD,),
    "process": ("process",),
    _EMBED: (_EMBED,),
    "check": ("check",),
    CRAWL: (DOWNLOAD, "process", _EMBED),
    ADOPT: (DOWNLOAD,),
}
_STOPPED: Final = "it was stopped; nothing was changed"


@dataclass(frozen=True, slots=True)
class LibraryOrder:
    """An action at sources of a domain."""

    action: str
    domain: Domain
    sources: Sequence[SharepointSource]
    options: Options
    words: Namespace  #: options of the command line
    job: LibraryJob | None = None  #: of the HTTP API, that this process carries out

    @property
    def is_full(self) -> bool:
        """Whether every item comes again."""
        return bool(self.words.mode == FULL)

    @property
    def is_dry(self) -> bool:
        """Whether nothing is changed, and all of it only counted."""
        return bool(self.words.dry_run)

    def is_ending(self) -> bool:
        """Whether an order to the job was found, so that nothing more is to begin."""
        return self.job is not None and self.job.is_ending()

    def is_done(self, step: str, source: SharepointSource) -> bool:
        """Whether the job had done a step at a source before it was paused."""
        done = {} if self.job is None else self.job.progress.get("done", {})
        return source.source_id in done.get(step, ())

    def is_paused(self, source: SharepointSource) -> bool:
        """Whether the crawl of a source goes on, as the job was paused there."""
        return self.job is not None and self.job.progress.get("paused") == source.source_id

    def save(
        self,
        report: LibraryReport,
        *,
        done: tuple[str, SharepointSource] | None = None,
        paused: SharepointSource | None = None,
        incomplete: bool,
    ) -> None:
        """Record how far the job came: the step at a source is done, or its crawl was stopped."""
        if self.job is None:
            return
        so_far = self.job.progress
        steps = {step: list(ids) for step, ids in so_far.get("done", {}).items()}
        if done is not None:
            steps.setdefault(done[0], []).append(done[1].source_id)
        self.job.save(
            {
                "done": steps,
                "sources": report.saved(),
                "paused": None if paused is None else paused.source_id,
                "incomplete": incomplete,
            }
        )


def command_steps_of_order(order: LibraryOrder) -> tuple[str, ...]:
    """Return the steps of an order.

    A crawl embeds where a vector store is configured for its domain. A line says if it does not.
    """
    steps = ACTIONS[order.action]
    if order.action != CRAWL or _has_store(order.domain):
        return steps
    print_complaint(
        "library",
        "embed is left out of the crawl: no vector store is configured for it; OPENAI_API_KEY is"
        " the key of one",
    )
    return tuple(step for step in steps if step != _EMBED)


def _has_store(domain: Domain) -> bool:
    """Whether a vector store was made for a domain, is named in it, or has a key."""
    return bool(domain.vector_store_id or domain.vector_store_name or os.environ.get(KEY_VARIABLE))


def skip_sources_not_to_adopt(order: LibraryOrder, report: LibraryReport) -> list[SharepointSource]:
    """Return the sources with a map and without stored items; the others are skipped."""
    found = []
    for source in order.sources:
        map_ = source.folder / CRAWLER_HARDCODED_CONFIG.FILE_MAP_CSV
        if library_run_has_items(source, order.options):
            report.skip(source, "the registry already has its items: download it")
        elif not map_.is_file():
            report.skip(source, f"{map_} is missing: put the files and their map there first")
        else:
            found.append(source)
    return found


def carry_out_command_step(step: str, order: LibraryOrder, report: LibraryReport) -> None:
    """Carry out a step that needs no crawl, at each source; those that fail are skipped."""
    if step == _EMBED:
        _embed(order, report)
        return
    for source in _sources_left(order, report):
        if report.is_skipped(source):
            continue
        given = LibraryStep(source, order.options, is_dry=order.is_dry, is_ending=order.is_ending)
        with report.attempted(source):
            result = given.process() if step == "process" else given.check()
            for reason in result.reasons:
                logger.warning("%s: %s", source.name, reason)
            report.add(result, is_lacking=result.skipped > 0)


def _sources_left(order: LibraryOrder, report: LibraryReport) -> Iterator[SharepointSource]:
    """Yield the sources of an order, until an order to its job ends it."""
    for source in order.sources:
        if order.is_ending():
            report.is_stopped = True
            return
        yield source


def _embed(order: LibraryOrder, report: LibraryReport) -> None:
    """Embed each source; without a store all are skipped, and the crawl goes on (R3-116)."""
    if not order.sources:
        return
    if order.is_dry and order.action != _EMBED:
        return  # what a download would bring is not there
    if not registry_database(order.options.registry).exists():
        for source in order.sources:
            report.skip(source, f"{source.name} was never downloaded: download it first")
        return
    try:
        if order.is_dry:
            store = run_domain_store_of_name(order.domain, order.options.store_server)
        else:
            store = run_domain_store(order.domain, order.options)
    except SmartcrawlError as error:
        logger.error("embedding is skipped: %s", error)
        for source in order.sources:
            report.skip(source, str(error), is_held=isinstance(error, RunHeldError))
        return
    for source in _sources_left(order, report):
        embedding = LibraryEmbed(source, order.options, order.domain, store, is_dry=order.is_dry)
        step = embedding.preview if order.is_dry else embedding.embed
        with report.attempted(source):
            result = step(is_full=order.is_full, is_ending=order.is_ending)
            result.is_stopped = order.is_ending() and not result.complete
            if order.action != _EMBED:
                result.listed = result.unchanged = 0  # they are those of the download
            report.add(result)


class DryLibrarySpider(VisitSpider):
    """Lists a library and compares it; it opens no run, and yields nothing."""

    name = "sharepoint"
    custom_settings = LISTING_RUN_SETTINGS
    opens_run = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.library: DryLibrary
        self.result: LibraryResult | None = None
        self.why = _STOPPED  #: reason for having no result
        self._comparing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Prepare the dry run of the source that ``source=DOMAIN.SOURCE`` names.

        Raises:
            SmartcrawlError: there is none, or the registry cannot be read.
        """
        spider = super().from_crawler(crawler, *args, **kwargs)
        options = Options.of(crawler.settings)
        source = library_source_of_run_arguments(options, {"source": kwargs["source"]})
        largest = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        spider.library = DryLibrary(source, options, forced="force" in kwargs, largest=largest)
        listing_run = ListingRun(source, options, spider.library.blocked_hosts())
        spider.run = cast(Run, listing_run)  # no component asks for more of it
        spider._options, spider._ports = options, listing_run.ports()
        crawler.signals.connect(spider._opened, signal=signals.spider_opened)
        crawler.signals.connect(spider._idle, signal=signals.spider_idle)
        crawler.signals.connect(spider._closed, signal=signals.spider_closed)
        crawler.signals.connect(spider._asks, signal=signals.request_reached_downloader)
        return spider

    _options: Options
    _ports: list[tuple[str, int]]

    def _opened(self) -> None:
        resolver = installed_resolver()
        if resolver is not None:
            resolver.protect(environment_proxy_endpoints(self.crawler.settings), self._ports)
        logger.info("dry run of %s begins", self.library.source.name)
        self._comparing = asyncio.ensure_future(self._compare())

    async def _compare(self) -> None:
        try:
            await asyncio.to_thread(self.library.begin)
            api = library_api_of_crawl(self.crawler, self.library, self._options)
            self.result = await asyncio.to_thread(self.library.compared, api.listing())
        except SmartcrawlError as error:
            self.why = str(error)
        except Exception as error:
            logger.exception("cannot list %s", self.library.source.name)
            self.why = f"{type(error).__name__}: {error}"
        finally:
            wake_engine(self.crawler)

    def _asks(self, request: Request) -> None:
        """Count a request; a retry is one more."""
        self.library.requests += LIBRARY_REQUEST in request.meta

    def _idle(self) -> None:
        if self._comparing is not None and not self._comparing.done():
            raise DontCloseSpider

    async def _closed(self, reason: str) -> None:
        """Wait until the maps are removed; a listing that is under way ends by itself."""
        if self._comparing is not None:
            await asyncio.wait([self._comparing])
        if reason != "finished":
            self.result, self.why = None, _STOPPED


class LibraryDownload:
    """Downloads the sources of an order into its report; a dry run counts what that would do."""

    def __init__(
        self,
        process: AsyncCrawlerProcess,
        create_crawler: Callable[[type[Spider]], Crawler],
        order: LibraryOrder,
        report: LibraryReport,
        is_free: Callable[[HostsBusyError], Awaitable[bool]],
    ) -> None:
        """``is_free``: waits until no process crawls the other source; False: a signal came."""
        self._process = process
        self._create_crawler = create_crawler
        self._order = order
        self._report = report
        self._is_free = is_free
        self._crawler: Crawler | None = None  #: of the last source
        if order.job is not None:
            order.job.current_run = self._current_run

    def _current_run(self) -> int | None:
        """Return run.no of the last crawl that was begun; None: its run is not open yet."""
        run: Run | None = getattr(getattr(self._crawler, "spider", None), "run", None)
        return None if run is None else run.opened.no

    async def carry_out(self) -> None:
        """Crawl each source; its run requests what failed again, in batches (R3-60)."""
        order, report = self._order, self._report
        for source in _sources_left(order, report):
            if report.is_skipped(source) or order.is_done(DOWNLOAD, source):
                continue
            before = report.is_incomplete
            with report.attempted(source):
                await (self._count if order.is_dry else self._crawl)(source)
            if report.is_stopped:
                goes_on = self._current_run() is not None or order.is_paused(source)
                order.save(report, paused=source if goes_on else None, incomplete=before)
                return
            order.save(report, done=(DOWNLOAD, source), incomplete=report.is_incomplete)

    async def _crawl(self, source: SharepointSource) -> None:
        """Crawl one source, once no other process asks its hosts."""
        batches = str(self._order.words.retry_batches)
        arguments = {"source": source.name, "retry_batches": batches}
        if self._order.is_full:
            arguments["force"] = "1"
        if self._order.is_paused(source):
            arguments["resume"] = "1"
        while True:
            crawler = self._crawler = self._create_crawler(SharepointSpider)
            try:
                await self._process.crawl(crawler, **arguments)
                break
            except HostsBusyError as error:
                if not await self._may_begin(error):
                    self._report.is_stopped = True
                    return
        run: Run | None = getattr(crawler.spider, "run", None)
        assert crawler.stats is not None
        is_ended = run is not None and run.halt.order is not None
        self._report.is_stopped |= (
            is_ended or crawler.stats.get_value("finish_reason") == "shutdown"
        )
        if run is None or run.result is None or run.failure is not None:
            why = "the crawl was not carried out; its log has the reason"
            if run is not None and run.failure is not None:
                why = str(run.failure)
            self._report.skip(source, why)
            return
        assert run.library is not None, "it is a library"
        self._report.add_run(run.opened.no, run.result, run.library)

    async def _may_begin(self, error: HostsBusyError) -> bool:
        """Wait for the host of a crawl; False: a signal or an order to the job came first."""
        free = asyncio.ensure_future(self._is_free(error))
        while not (free.done() or self._order.is_ending()):
            await asyncio.wait([free], timeout=LOOK)
        if free.done():
            return free.result()
        free.cancel()
        await asyncio.wait([free])  # it takes its handlers of signals back
        return False

    async def _count(self, source: SharepointSource) -> None:
        """Count what a download of a source would do."""
        crawler = self._create_crawler(DryLibrarySpider)
        arguments = {"source": source.name} | ({"force": "1"} if self._order.is_full else {})
        await self._process.crawl(crawler, **arguments)
        spider = crawler.spider
        assert isinstance(spider, DryLibrarySpider), "it was crawled with this one"
        if spider.result is None:
            self._report.skip(source, spider.why)
            self._report.is_stopped |= spider.why == _STOPPED
            return
        spider.result.requests = spider.library.requests
        self._report.add(spider.result)


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line with one of these actions."""

    words: Sequence[str]  #: behind the action
    settings: Mapping[str, Any]
    options: Options
    opts: Namespace

    @property
    def data_dir(self) -> str:
        """The folder of all state, as it was set."""
        return str(self.settings["DATA_DIR"])


def _print_reports(line: _Line) -> bool:
    """List the archives of crawls, newest first."""
    storage = line.options.sharepoint.storage
    found = library_run_archives(storage, line.words[0] if line.words else None)
    if line.opts.format == "json":
        print(
            printed_json(
                [
                    {
                        "reportId": each.report_id,
                        "domain": each.domain,
                        "scope": each.scope,
                        "mode": each.mode,
                        "ended": f"{each.ended:%Y-%m-%dT%H:%M:%SZ}",
                        "size": each.size,
                        "path": str(each.path),
                    }
                    for each in found
                ],
                sys.stdout,
            )
        )
        return True
    output = Output()
    for each in found:
        output.say(f"{each.report_id}  {each.size:,} bytes")
    if not found:
        of = f" of {line.words[0]}" if line.words else ""
        output.say(f"There is no report{of}; to write one: {program_name()} library crawl DOMAIN")
    return True


def _clean_up(line: _Line) -> bool:
    """Remove the entries of files that the vector store or the maps lack."""
    if line.opts.files:
        return _clean_up_uploads(line)
    domain = load_sharepoint_domain(line.options.sharepoint.storage, line.words[0])
    database = registry_database(line.options.registry)
    with database.translated("write"), closing(database.open()) as connection:
        metadata = LibraryMetadata(domain, connection, datetime.now(UTC))
        try:
            found = metadata.cleanup(
                lambda: run_attached_file_ids(domain, line.options.store_server)
            )
        except PushError as error:
            raise SourceError(f"{error}; nothing was removed") from error
    for each in found.lines:
        print_complaint("library", each)
    if line.opts.format == "json":
        counts = {"removed": found.removed, "remaining": found.remaining}
        print(printed_json({"domain": domain.domain_id, "action": "cleanup", **counts}, sys.stdout))
        return True
    removed = run_entries_in_words(found.removed)
    Output().say(f"{removed} removed, {found.remaining:,} remaining")
    return True


def _clean_up_uploads(line: _Line) -> bool:
    """List the uploads that no vector store has any more; with ``--yes`` delete them."""
    server = line.options.store_server
    database = registry_database(line.options.registry)
    if not database.exists():
        raise base_command_missing_registry(database)
    with database.translated("write"), closing(database.open()) as connection:
        try:
            uploads = RunLeftUploads(connection, server)
            found = uploads.found()
        except PushError as error:
            raise SourceError(f"{error}; nothing was deleted") from error
        if line.opts.yes:
            uploads.delete(found)
    for id_, why in found.refused:
        print_complaint("library", f"{id_} is not deleted: {why}")
    if line.opts.format == "json":
        files = [
            {"file": file.id, "name": file.name, "size": file.size, "createdAt": _when(file)}
            for file in found.files
        ]
        counts = {"listed": len(files), "deleted": found.deleted, "refused": len(found.refused)}
        print(printed_json({"action": "cleanup", **counts, "files": files}, sys.stdout))
        return not found.refused
    output = Output()
    for file in found.files:
        output.say(escape(f"{file.id}  {_when(file)}  {file.size:,} bytes  {file.name}"))
    which = report_noun(len(found.files), "upload")
    verb = "is" if len(found.files) == 1 else "are"
    output.say(escape(f"{which} {verb} in no vector store of {server.destination}"))
    if line.opts.yes:
        output.say(f"{found.deleted:,} deleted")
    elif found.files:
        command = summary_command_line("library", line.data_dir, "cleanup --files --yes")
        output.say("Deleted for good with:", command=command)
    if found.elsewhere:
        elsewhere = report_noun(found.elsewhere, "upload")
        output.say(f"{elsewhere} at other servers: set VECTOR_STORE_URL to one of them")
    return not found.refused


def _when(file: UploadedFile) -> str:
    return f"{datetime.fromtimestamp(file.created_at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _export(line: _Line) -> bool:
    """Write the maps of a domain so that a spreadsheet takes no cell for a formula."""
    domain = load_sharepoint_domain(line.options.sharepoint.storage, line.words[0])
    if not line.opts.spreadsheet:
        raise SourceError(
            f"no place to write to; give a folder: {program_name()} library export "
            f"{line.words[0]} --spreadsheet FOLDER"
        )
    place = Path(line.opts.spreadsheet)
    if place.resolve().is_relative_to(line.options.sharepoint.storage.resolve()):
        raise SourceError(
            f"{place} is in {line.options.sharepoint.storage}, whose maps are read back; "
            "give another folder"
        )
    written = []
    for name, data in library_run_maps_snapshot(domain).items():
        try:
            content = spreadsheet_of_run_maps(data)
        except ValueError as error:
            raise SourceError(
                f"{name} is damaged, {error}: download {domain.domain_id}, which writes it again"
            ) from error
        path = place / name
        folder_like_its_parent(path.parent)
        write_sharepoint_source_file(path, partial(_write, data=content), replacing)
        written.append(os.fspath(path))
    if line.opts.format == "json":
        facts: dict[str, Any] = {"domain": domain.domain_id, "action": "export", "files": written}
        print(printed_json(facts, sys.stdout))
        return True
    output = Output()
    for each in written:
        output.say(each)
    if not written:
        output.say(f"{domain.domain_id} has no map: download it first.")
    return True


def _write(file: IO[bytes], *, data: bytes) -> None:
    file.write(data)


#: Each with the fewest and the most words behind its name.
OTHERS: Final[Mapping[str, tuple[Callable[[_Line], bool], int, int]]] = {
    "cleanup": (_clean_up, 0, 1),
    "export": (_export, 1, 1),
    "reports": (_print_reports, 0, 1),
}


def carry_out_library_command(
    args: Sequence[str], settings: Mapping[str, Any], opts: Namespace
) -> bool:
    """Carry out an action of this module; return whether all of it could be done.

    Raises:
        SmartcrawlError: it cannot be carried out, or standard output takes no more.
    """
    action, *words = args
    line = _Line(words, settings, Options.of(settings), opts)
    try:
        with printed():
            return OTHERS[action][0](line)
    except OSError as error:
        place = error.filename or "the storage"
        raise SourceError(f"{place} cannot be used: {error.strerror or error}") from error
