"""Crawls of web sites and files: one run per source, a closing table and an exit status."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final, NoReturn

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings
from twisted.internet.error import ReactorNotRunning

from smartcrawl.commands.crawl_dry import DryCrawl, dry_source
from smartcrawl.commands.crawl_ends import (
    NOT_BEGUN,
    CrawlEnd,
    crawl_end_line,
    crawl_end_of_run,
    print_crawl_ends,
    worst_status,
)
from smartcrawl.commands.crawl_save import check_save, save_crawled_source
from smartcrawl.commands.crawl_words import DRY_HELP, FORMAT_HELP, FORMATS, JOBS_HELP, SAVE_HELP
from smartcrawl.commands.deliveries import deliver_command_notices
from smartcrawl.commands.side_by_side import (
    Job,
    ProcessCrawls,
    SideBySide,
    WorkerSide,
    worker_side,
)
from smartcrawl.commands.spider_runs import (
    DONE,
    FAILED,
    HELD,
    INCOMPLETE,
    SpiderRun,
)
from smartcrawl.commands.summary import print_crawl_summary
from smartcrawl.engine.download.network import resolve_crawled_hosts
from smartcrawl.engine.logs import Logs
from smartcrawl.engine.memory import return_engine_memory
from smartcrawl.engine.own_spiders import feed_refusal, overwritten_feed
from smartcrawl.engine.progress import Progress
from smartcrawl.engine.project_settings import (
    REACTOR_REFUSAL,
    apply_settings_file,
    complete_scrapy_settings,
)
from smartcrawl.model.exceptions import (
    HostsBusyError,
    RunHeldError,
    RunPausedError,
    SettingError,
    SmartcrawlError,
    SourceError,
    UnknownSourceError,
    meant_word,
)
from smartcrawl.model.options import Options
from smartcrawl.model.program import OURS, program_crawl_line, program_name
from smartcrawl.model.redaction import escaped_text, redacted_line
from smartcrawl.model.urls import request_url
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.items import refreshable_source_rows
from smartcrawl.registry.jobs import load_stored_jobs
from smartcrawl.registry.runs.run_hosts import CrawledHosts, crawled_host_rows
from smartcrawl.reports.today import vanished_sources
from smartcrawl.rules.page_reading import CRAWLS_AT_ONCE
from smartcrawl.rules.side_by_side import can_run_side_by_side, default_jobs
from smartcrawl.run.opening import source_of_run_arguments
from smartcrawl.run.run import Run
from smartcrawl.run.source_hosts import known_source_hosts
from smartcrawl.sources.declared import DeclaredSources, load_declared_sources
from smartcrawl.sources.fields import declared_address_unquoted
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.spiders.site import SiteSpider
from smartcrawl.terminal.bar import REFRESH, Bars
from smartcrawl.terminal.command import base_command_damage, count_argument
from smartcrawl.terminal.output import OutputError, print_any_character, print_complaint, printed
from smartcrawl.terminal.usage import (
    check_terminal_log_file_usage,
    check_terminal_usage,
    wrap_usage,
)

logger = logging.getLogger(__name__)

#: Arguments that name what is crawled.
STARTS = frozenset({"url", "source", "sitemap", "root"})
_AGAIN: Final = 2.0  #: seconds between two looks whether another process still asks the hosts


class Command(ScrapyCrawl):
    """Crawl sources with ``site`` or ``files``; any other spider runs as with Scrapy's command."""

    _dry: DryCrawl | None = None  #: the look at an address, in place of its crawl
    _save: str | None = None  #: the name under which the source is to be declared
    _left_out: Sequence[str] = ()  #: declared sources that are not crawled, because they are wrong
    _jobs: Sequence[Job] = ()  #: the sources that workers crawl
    _bars: Bars | None = None  #: of several sources at once
    _is_json: bool = False  #: whether what came of the crawls is printed for programs
    _is_one_of_several: bool = False  #: whether each crawl gets a line in place of a table
    _worker: WorkerSide | None = None  #: None: this process is no worker of another
    _crawling: Crawler | None = None  #: of the crawl that is under way
    _busy: set[str]  #: sources that were said to wait for their hosts
    given_settings: Sequence[str] = ()  #: those of -s, before they are checked
    feed_help = "export the items of your own spider; site and files refuse it"
    takes_many: ClassVar[bool] = True  #: whether it crawls several sources at once
    takes_addresses: ClassVar[bool] = True  #: whether it crawls sources that were not crawled yet

    def long_desc(self) -> str:
        """Return the help text of the command."""
        return (
            "The spider site crawls one address (-a url=https://…), one source of "
            "sources.toml (-a source=NAME) or all web sites (neither); the spider files "
            "crawls one folder (-a root=FOLDER), one source or all sources of files; "
            "site files together crawl all of both. -a scope=PART crawls a part of the "
            "host of url (pages, host, domain or below), -a yes=1 lets stored pages get out "
            "of it. Of that source -a depth=LINKS, -a include=PATTERN, -a exclude=PATTERN, "
            "-a delay=SECONDS, -a header=LINE and -a user_agent=TEXT choose a key, which is "
            "stored. -a sitemap=URL reads a sitemap or feed as well, or alone. -a force=1 "
            "downloads every page again, even if unchanged, -a resume=1 continues an "
            "interrupted run, -a max_pages=N stops after N pages, -a lost_threshold=N removes"
            " pages that N runs in a row found gone, -a allow_private=NAME lets the seed on "
            "host NAME lead into private networks, -a job=NAME joins the run of all workers "
            "with that name. Exit status: 0 complete, 3 incomplete, 4 another run is open or "
            "the last one is paused, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add ``--progress`` to the options of Scrapy's command."""
        print_any_character()  # the parser may print the help
        super().add_options(parser)
        self.parser = parser
        wrap_usage(parser)
        parser.error = partial(self._refuse_usage, parser.error)  # type: ignore[method-assign]
        for action in parser._actions:
            if action.dest in ("output", "overwrite_output"):
                action.help = self.feed_help
        parser.add_argument(
            "--progress",
            choices=("line", "json", "none"),
            help="json: one object on standard output for each page that was visited or removed,"
            " and the closing table on standard error; none: no progress (default: line)",
        )
        if self.takes_many:
            parser.add_argument("--jobs", type=count_argument, metavar="N", help=JOBS_HELP)
            parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help=FORMAT_HELP)
        if self.takes_addresses:
            parser.add_argument("--save", metavar="NAME", help=SAVE_HELP)
            parser.add_argument("--dry-run", action="store_true", help=DRY_HELP)

    def _refuse_usage(self, refuse: Callable[[str], NoReturn], message: str) -> NoReturn:
        """Refuse a command line; the log of a job of scrapyd has the reason."""
        if self.settings is not None:
            settings = self.settings.copy()
            for name, equal, value in (one.partition("=") for one in self.given_settings):
                if name and equal:
                    settings.set(name, value, priority="cmdline")
            log_crawl_error(message, settings)
        refuse(message)

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Check the settings, and log only warnings on a terminal, unless a level was given."""
        assert self.settings is not None
        self.given_settings = opts.set
        complete_scrapy_settings(self.settings)
        check_terminal_usage(self.parser, self.settings, args, opts)
        super().process_options(args, opts)
        if opts.progress:
            self.settings.set("PROGRESS_FORMAT", opts.progress, priority="cmdline")
        self._is_json = getattr(opts, "format", FORMATS[0]) == "json"
        try:
            apply_settings_file(self.settings)
            Options.of(self.settings)
            check_terminal_log_file_usage(self.settings)
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            sys.exit(FAILED)
        asked = "LOG_LEVEL" in os.environ or (self.settings.getpriority("LOG_LEVEL") or 0) > 20
        if sys.stderr.isatty() and not asked:
            self.settings.set("LOG_LEVEL", "WARNING", priority="cmdline")
        self._worker = worker_side()
        if self._worker is not None:
            self._be_a_worker(self._worker, asked=asked)

    def _be_a_worker(self, worker: WorkerSide, *, asked: bool) -> None:
        """Leave bars and lines to the parent, and its log file as it is; ``asked``: for a level."""
        assert self.settings is not None
        self.settings.set(CRAWLS_AT_ONCE, worker.jobs, priority="cmdline")
        if self.settings["PROGRESS_FORMAT"] == "line":
            self.settings.set("PROGRESS_FORMAT", "none", priority="cmdline")
        self.settings.set("LOG_FILE_APPEND", True, priority="cmdline")
        if not asked and not self.settings["LOG_FILE"]:
            self.settings.set("LOG_LEVEL", "WARNING", priority="cmdline")

    def run(self, args: list[str], opts: Namespace) -> None:
        """Crawl the sources one after another: politeness is per host, not per source."""
        process, self._busy = self.crawler_process, set()
        assert process is not None
        spiders = process.spider_loader.list()
        if not args or not set(args) <= set(spiders):
            raise UsageError(_spider_wanted(args, spiders))
        loaded = [process.spider_loader.load(name) for name in dict.fromkeys(args)]
        ours = [spider for spider in loaded if issubclass(spider, VisitSpider)]
        if not ours and len(args) == 1:
            _refuse_options_of_sources(args[0], opts)
            super().run(args, opts)
            return
        if len(ours) < len(loaded):
            raise UsageError(
                f"only spiders that crawl sources can run together: {program_name()} "
                f"crawl {' '.join(spider.name for spider in ours) or args[0]}",
            )
        assert self.settings is not None
        has_reactor = self.settings.getbool("TWISTED_REACTOR_ENABLED")
        if not isinstance(process, AsyncCrawlerProcess) or not has_reactor:
            print_crawl_error(SettingError(REACTOR_REFUSAL), self.settings)
            self.exitcode = FAILED
            return
        for spider in ours:
            self._check_feed(feed_refusal(spider, self.settings))
        if self._worker is not None:
            self._is_one_of_several = True
            self._begin(process, self._work(process, ours))
            return
        try:
            with base_command_damage(registry_database(Options.of(self.settings).registry)):
                runs = self._runs_to_begin(ours, opts)
                self._is_one_of_several = len(runs) > 1 or self._is_json
                together = self._side_by_side(runs, getattr(opts, "jobs", None))
        except SmartcrawlError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED
            return
        if not runs:
            self._end_all([])
        elif together is not None:
            self._crawl_side_by_side(together)
        else:
            self._begin(process, self._crawl_all(process, runs))
        deliver_command_notices(Options.of(self.settings))

    def _begin(self, process: AsyncCrawlerProcess, work: Coroutine[Any, Any, None]) -> None:
        """Do the work in the event loop of this process, until it ends that."""
        return_engine_memory()
        self.exitcode = FAILED  # also if signals stop it by force
        asyncio.get_event_loop().create_task(work)
        process.start(stop_after_crawl=False)

    def _runs_to_begin(
        self, spiders: Sequence[type[VisitSpider]], opts: Namespace
    ) -> list[SpiderRun]:
        """Return the runs that are carried out; check what they would overwrite.

        Raises:
            SmartcrawlError: a source is not known, or the registry cannot be read.
        """
        assert self.settings is not None
        self._save = getattr(opts, "save", None)
        if self._save is not None:
            check_save(Options.of(self.settings), self._save, opts.spargs)
        runs = self.wanted(self.runs_of(spiders, opts.spargs), opts.spargs)
        if getattr(opts, "dry_run", False):
            runs = self._dry_runs(runs)
        if len(runs) > 1:
            self._check_feed(overwritten_feed(self.settings))
        self._warn_of_vanished()
        return runs

    def _dry_runs(self, runs: Sequence[SpiderRun]) -> list[SpiderRun]:
        """Return the run that looks at an address, in place of the one that would crawl it.

        Raises:
            SourceError: the address cannot be crawled so, or no address is given.
        """
        assert self.settings is not None
        given = runs[0].arguments
        is_site = len(runs) == 1 and runs[0].spider is SiteSpider and "url" in given
        source = source_of_run_arguments(Options.of(self.settings), given) if is_site else None
        self._dry = DryCrawl(dry_source(source), given)
        self._dry.apply(self.settings)
        return [SpiderRun(SiteSpider, self._dry.arguments)]

    def _check_feed(self, refusal: str | None) -> None:
        """Refuse a crawl that would lose what a feed is to have."""
        if refusal is not None:
            raise UsageError(refusal)

    def runs_of(
        self, spiders: Sequence[type[VisitSpider]], given: dict[str, str]
    ) -> list[SpiderRun]:
        """Return the spider and its arguments for each run.

        Without an address, a root or a source, there is one run for each declared source that the
        spiders crawl.

        Raises:
            SourceError: one source is named, and several spiders are.
        """
        assert self.settings is not None
        options = Options.of(self.settings)
        if given.keys() & STARTS:
            if len(spiders) > 1:
                raise SourceError(
                    f"{' and '.join(spider.name for spider in spiders)} together crawl "
                    "all declared sources; to crawl one source, name one spider, such "
                    f"as: {program_name()} crawl {spiders[0].name}"
                )
            return [SpiderRun(spiders[0], given)]
        by_kind = {spider.crawls: spider for spider in spiders}
        declared = load_declared_sources(*options.source_files)
        found = [
            SpiderRun(spider, {**given, "source": name})
            for name, source in declared.items()
            if (spider := by_kind.get(source.traits.spider)) is not None
        ]
        self.leave_out(declared, by_kind)
        if not found:
            declared.check()
        return found or [SpiderRun(spiders[0], given)]

    def wanted(self, runs: list[SpiderRun], given: dict[str, str]) -> list[SpiderRun]:
        """Return those of the runs that are carried out: here all; ``given``: the arguments."""
        return runs

    def leave_out(self, declared: DeclaredSources, spiders: Collection[str]) -> None:
        """Note the sources of these spiders whose tables are wrong: the others are crawled."""
        self._left_out = [
            name for name, table in declared.wrong.items() if table.spider in (None, *spiders)
        ]
        if self._left_out and declared:
            try:
                declared.check(self._left_out)
            except SourceError as error:
                print_crawl_error(error, self.settings)

    def _warn_of_vanished(self) -> None:
        """Log a warning for each stored source that is no longer declared: no run sweeps it."""
        assert self.settings is not None
        options = Options.of(self.settings)
        database = registry_database(options.registry)
        if not database.exists():
            return
        with database.translated("read"), closing(database.reports()) as connection:
            vanished = vanished_sources(connection, options)
        for name in vanished:
            logger.warning(
                "%s is no longer declared in %s: its pages stay searchable, but are "
                "neither refreshed nor removed. Declare it again, or remove it: %s "
                "forget --source %s",
                name,
                options.sources_file,
                program_name(),
                name,
            )

    def _left_out_status(self, worst: int) -> int:
        """Print which sources were left out because they are wrong; return the exit status."""
        if not self._left_out:
            return worst
        print_crawl_error(SourceError(_left_out_line(self._left_out)), self.settings)
        return FAILED

    async def _crawl_all(self, process: AsyncCrawlerProcess, runs: Sequence[SpiderRun]) -> None:
        ends: dict[int, CrawlEnd] = {}
        left, busy = deque(enumerate(runs)), dict[int, HostsBusyError]()
        try:
            while left:
                place, one = left.popleft()
                end = await self._crawl(process, one, waits=not left)
                if isinstance(end, HostsBusyError):
                    left.append((place, one))
                    busy[place] = end
                    if len(busy) < len(left):
                        continue
                    is_stopped = not await self._has_one_ended(busy.values())
                    busy.clear()
                else:
                    ends[place], is_stopped = end, end.stopped
                    busy.clear()
                    if len(runs) > 1 and NOT_BEGUN not in end.reasons:
                        self._say(end)
                if is_stopped:
                    why = (NOT_BEGUN,)
                    for n, rest in left:
                        ends[n] = CrawlEnd(_name_of(rest), INCOMPLETE, reasons=why)
                    break
        finally:
            self._end_all([ends[place] for place in sorted(ends)])
            if self._dry is not None:
                self._dry.close()
            stop_crawl_command()

    def _end_all(self, ends: Sequence[CrawlEnd]) -> None:
        """Print what came of all crawls, and set the exit status."""
        assert self.settings is not None
        self.exitcode = self._left_out_status(worst_status(ends))
        if self._dry is not None or (len(ends) < 2 and not self._is_json):
            return
        file = sys.stderr if self.settings["PROGRESS_FORMAT"] == "json" else sys.stdout
        try:
            with printed():
                folder = str(self.settings["DATA_DIR"])
                print_crawl_ends(ends, folder, is_json=self._is_json, file=file)
        except OutputError as error:
            print_crawl_error(error, self.settings)
            self.exitcode = FAILED

    def _say(self, end: CrawlEnd) -> None:
        """Print a line about the end of one of several crawls."""
        assert self.settings is not None
        if self.settings["PROGRESS_FORMAT"] != "line":
            return
        line = escaped_text(redacted_line(crawl_end_line(end)))
        name = "err" if self._is_json else "out"
        if self._bars is not None:
            self._bars.print(name, f"{line}\n")
        else:
            print(line, file=sys.stderr if self._is_json else sys.stdout, flush=True)

    # Several at once

    def _side_by_side(self, runs: Sequence[SpiderRun], jobs: int | None) -> SideBySide | None:
        """Return what crawls these sources at once; None: this process takes one after another."""
        assert self.settings is not None
        most = jobs or default_jobs(len(os.sched_getaffinity(0)))
        if min(most, len(runs)) < 2:
            return None
        if self.settings.getdict("FEEDS") or self.settings["FEED_URI"]:
            if jobs is not None:
                print_complaint(
                    "crawl",
                    f"--jobs {jobs}: the sources are crawled one after another, because one"
                    " process writes the feed; without -o, -O and FEEDS several run at once",
                )
            return None
        self._jobs = self._jobs_of(runs)
        if not can_run_side_by_side([job.hosts for job in self._jobs]):
            return None
        registry_database(Options.of(self.settings).registry).open().close()  # before they race
        self._bars = Bars(sys.stderr, enabled=self.settings["PROGRESS_FORMAT"] == "line")
        at_once = min(most, len(runs))
        return SideBySide(
            ProcessCrawls(type(self).__module__.rpartition(".")[2], at_once),
            at_once,
            self._say,
            self._bars,
            self._crawled_sources,
            self._say_busy,
        )

    def _crawled_sources(self, names: Collection[str]) -> Sequence[CrawledHosts]:
        """Return the sources that processes crawl now, but for those of these names."""
        assert self.settings is not None
        database = registry_database(Options.of(self.settings).registry)
        try:
            with (
                database.translated("read"),
                closing(database.connect(readonly=True)) as connection,
            ):
                return crawled_host_rows(connection, database.is_held, names)
        except SmartcrawlError:  # the workers look for themselves, and say what is wrong
            return ()

    def _jobs_of(self, runs: Sequence[SpiderRun]) -> list[Job]:
        """Return the runs with the hosts that each may ask; a source with a mistake has none."""
        assert self.settings is not None
        options = Options.of(self.settings)
        database = registry_database(options.registry)
        found = []
        with ExitStack() as stack:
            connection = None
            if database.exists():
                stack.enter_context(database.translated("read"))
                connection = stack.enter_context(closing(database.reports()))
            for run in runs:
                try:
                    source = run.spider.source_of(options, run.arguments)  # type: ignore[attr-defined]  # of each spider of ours
                except SmartcrawlError:
                    found.append(Job(_name_of(run), run))
                else:
                    hosts = known_source_hosts(source, options, connection)
                    found.append(Job(source.name, run, hosts))
        return found

    def _crawl_side_by_side(self, all_of_them: SideBySide) -> None:
        ends: list[CrawlEnd] = []
        try:
            with all_of_them.forwarding_signals():
                ends = all_of_them.crawl(self._jobs)
                all_of_them.crawls.close()
        finally:
            all_of_them.bars.close()
            self._end_all(ends)

    async def _work(self, process: AsyncCrawlerProcess, spiders: Sequence[type[Any]]) -> None:
        """Crawl what the parent of this worker orders, until there is no more."""
        worker, woken = self._worker, asyncio.Event()
        assert worker is not None
        loop = asyncio.get_running_loop()
        worker.listen(partial(_wake, loop, woken))
        by_name = {spider.name: spider for spider in spiders}
        try:
            while True:
                woken.clear()
                if worker.orders.empty():
                    await woken.wait()
                    continue
                if (order := worker.orders.get()) is None:
                    break
                worker.crawls = True
                reporting = asyncio.ensure_future(self._report_progress(worker))
                run = SpiderRun(by_name[order["spider"]], order["arguments"])
                end = await self._crawl(process, run)
                assert isinstance(end, CrawlEnd), "it waited for its hosts"
                reporting.cancel()
                worker.crawls = False
                worker.report("end", replace(end, source=order["name"]).as_data())
                if end.stopped:
                    break
        finally:
            self.exitcode = DONE
            stop_crawl_command()

    async def _report_progress(self, worker: WorkerSide) -> None:
        """Report the progress of the crawl that is under way, until it is cancelled."""
        began, shown = time.monotonic(), None
        progress: Progress | None = None
        while True:
            await asyncio.sleep(REFRESH)
            crawler = self._crawling
            run = None if crawler is None else getattr(crawler.spider, "run", None)
            if crawler is None or run is None or crawler.engine is None:
                continue
            if run is not shown:
                progress, shown = Progress(crawler, run, interval=REFRESH), run
            assert progress is not None, "it was made with the run"
            worker.report("facts", progress.facts(time.monotonic() - began))

    # One

    async def _crawl(
        self, process: AsyncCrawlerProcess, one: SpiderRun, *, waits: bool = True
    ) -> CrawlEnd | HostsBusyError:
        """Crawl one source, once no other process asks its hosts; return its end.

        Where it does not wait, the error says which source is crawled.
        """
        while True:
            try:
                return await self._crawl_now(process, one)
            except HostsBusyError as error:
                busy = error
            if not waits:
                self._say_busy(busy)
                return busy
            if not await self._has_one_ended([busy]):
                name = _name_of(one)
                return CrawlEnd(name, INCOMPLETE, reasons=(NOT_BEGUN,), stopped=True)

    async def _has_one_ended(self, busy: Collection[HostsBusyError]) -> bool:
        """Wait until no process crawls one of these sources; False: a signal ended the wait."""
        assert self.settings is not None
        database = registry_database(Options.of(self.settings).registry)
        with _stop_signals() as stopped:
            for error in busy:
                self._say_busy(error)  # a signal that follows it ends the wait
            others = {error.other for error in busy}
            while not stopped.is_set() and all(_is_still_held(database, one) for one in others):
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), _AGAIN)
            return not stopped.is_set()

    async def _is_free(self, error: HostsBusyError) -> bool:
        """Wait until no process crawls the other source; False: a signal ended the wait."""
        return await self._has_one_ended([error])

    def _say_busy(self, error: HostsBusyError) -> None:
        """Say once what a source waits for."""
        assert self.settings is not None
        if error.source in self._busy:
            return
        self._busy.add(error.source)
        text = redacted_line(str(error))
        if self._bars is not None:
            self._bars.print("err", f"crawl: {escaped_text(text)}\n")
        else:
            print_complaint("crawl", text)
        if self.settings.get("LOG_FILE"):
            Logs.install(self.settings)
            logger.info("%s", text)

    async def _crawl_now(self, process: AsyncCrawlerProcess, one: SpiderRun) -> CrawlEnd:
        """Crawl one source; return its end.

        Raises:
            HostsBusyError: another process crawls a source that shares a host with this one.
        """
        assert self.settings is not None
        name = _name_of(one)
        crawler = self._crawling = self._create_crawler(one.spider)
        try:
            self._set_of_job(crawler, one.arguments)
            if one.spider is SiteSpider:  # a spider of the user's own may take other arguments
                options = Options.of(self.settings)
                await resolve_crawled_hosts(
                    source_of_run_arguments(options, one.arguments), options, self.settings
                )
            await process.crawl(crawler, **one.arguments)
        except HostsBusyError:
            raise
        except (RunHeldError, RunPausedError) as error:
            return self._not_crawled(name, HELD, error)
        except UnknownSourceError as error:
            known = _known_source(Options.of(self.settings), one.arguments.get("source", ""))
            return self._not_crawled(name, FAILED, known or error)
        except SmartcrawlError as error:
            return self._not_crawled(name, FAILED, error)
        except Exception as error:
            damage = registry_database(Options.of(self.settings).registry).explained(error)
            if damage is not None:
                return self._not_crawled(name, FAILED, damage)
            logger.exception("the crawl could not be carried out")
            return CrawlEnd(name, FAILED, reasons=(f"a fault of the program: {error!r}",))
        finally:
            self._crawling = None
        return self._summed_up(crawler, name)

    def _not_crawled(self, name: str, status: int, error: SmartcrawlError) -> CrawlEnd:
        print_crawl_error(error, self.settings)
        return CrawlEnd(name, status, reasons=(redacted_line(str(error)),))

    def _summed_up(self, crawler: Crawler, name: str) -> CrawlEnd:
        """Print what came of a crawl, and save its source; return its end."""
        run: Run | None = getattr(crawler.spider, "run", None)
        if run is None or run.result is None:
            if run is not None and run.failure is not None:
                return self._not_crawled(name, FAILED, run.failure)
            return CrawlEnd(name, FAILED, reasons=("no run was opened: the log says why",))
        try:
            if self._dry is not None:
                with printed():
                    self._dry.print_report(run)
            elif not self._is_one_of_several:
                with printed():
                    print_crawl_closing_table(run, crawler.settings)
        except OutputError as error:
            return self._not_crawled(name, FAILED, error)
        stopped = crawler.stats.get_value("finish_reason") == "shutdown"
        status, why = self._status_and_error(run)
        if self._save is not None and not self._saved(run, self._save):
            status, stopped = FAILED, False
        elif run.failure is not None:
            print_crawl_error(run.failure)  # the log has it already
        return crawl_end_of_run(
            run.source.name, run.result, status, run.seconds, stopped=stopped, error=why
        )

    def _status_and_error(self, run: Run) -> tuple[int, str]:
        """Return the exit status of a run that has a result, and what failed; empty: nothing."""
        if run.failure is not None:
            return FAILED, str(run.failure)
        if run.opened.over and run.opened.order is not None:
            return DONE, ""  # its job has an end: whatever started it need not try again
        return self.status_of(run), ""

    def _saved(self, run: Run, name: str) -> bool:
        """Declare the source of a run under a name, and print that; False: it cannot be."""
        assert self.settings is not None
        try:
            path = save_crawled_source(self.settings, run, name)
        except (SmartcrawlError, OSError) as error:
            print_complaint("crawl", f"{run.source.name} was not saved as {name}: {error}")
            return False
        print_complaint(
            "crawl",
            f"{run.source.name} is called {name} now, and declared in {path}. To refresh it:"
            f" {program_name()} crawl {'' if program_name() == OURS else 'site -a source='}{name}",
        )
        return True

    def _set_of_job(self, crawler: Crawler, arguments: dict[str, str]) -> None:
        """Apply the settings of the job that the source is; those of the command line win."""
        name = arguments.get("source")
        if name is None:
            return
        assert self.settings is not None
        job = load_stored_jobs(Options.of(self.settings)).get(name)
        if job is not None:
            crawler.settings.setdict(job.run_settings(), priority="spider")

    def status_of(self, run: Run) -> int:
        """Return the exit status of a run that ended by itself."""
        return DONE if run.result is not None and run.result.complete else INCOMPLETE


def _refuse_options_of_sources(spider: str, opts: Namespace) -> None:
    """Refuse what only crawls of sources obey, where Scrapy's command crawls with a spider.

    Raises:
        UsageError: such an option is given.
    """
    given = {
        "--jobs": getattr(opts, "jobs", None) is not None,
        "--format": getattr(opts, "format", FORMATS[0]) != FORMATS[0],
        "--save": getattr(opts, "save", None) is not None,
        "--dry-run": getattr(opts, "dry_run", False),
    }
    found = [name for name, is_given in given.items() if is_given]
    if found:
        raise UsageError(
            f"{found[0]} is for sources, and {spider} crawls none: leave it out, or derive the"
            " spider from one that crawls sources"
        )


def _is_still_held(database: Database, source: str) -> bool:
    """Whether a process crawls a source; False if that cannot be read: the next try reports why."""
    try:
        return database.is_held(source)
    except SmartcrawlError:
        return False


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that a signal sets which would end a crawl: none is under way."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def stop(number: int, _: FrameType | None) -> None:
        _wake(loop, event)

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event from another thread."""
    loop.call_soon_threadsafe(event.set)


def _name_of(run: SpiderRun) -> str:
    """Return the name of a run for messages, before its source is known."""
    given = run.arguments
    named = (given[one] for one in ("source", "url", "root", "sitemap") if given.get(one))
    return redacted_line(next(named, run.spider.name))


def _left_out_line(names: Sequence[str]) -> str:
    left_out = ", ".join(map(redacted_line, names))
    return (
        f"not crawled: {left_out}. Correct the problems above in sources.toml; their "
        "stored pages stay"
    )


def _known_source(options: Options, name: str) -> SourceError | None:
    """Return how to refresh a source that was crawled without a declaration; None: it was not."""
    database = registry_database(options.registry)
    if not database.exists():
        return None
    with database.translated("read"), closing(database.reports()) as connection:
        known = refreshable_source_rows(connection)
    if name not in known:
        return None
    of_site, root = known[name].get("url"), known[name].get("root")
    again = f"{program_name()} due --source {shlex.quote(name)}"
    if (start := root or of_site) is not None and (root or "spider" not in known[name]):
        again = program_crawl_line(shlex.quote(start), is_root=root is not None)
    return SourceError(
        f"source {name!r} is known, but not declared in sources.toml. To refresh it: {again}"
    )


def _spider_wanted(args: list[str], spiders: list[str]) -> str:
    """Return the message for a command line that does not name one spider."""
    words = [declared_address_unquoted(word) or word for word in args]
    address = next((word for word in words if ":" in word or "." in word), None)
    if address is not None and request_url(address):
        return f"give an address with -a url=: {program_crawl_line(redacted_line(address))}"
    folder = next((word for word in words if "/" in word), None)
    if folder is not None:
        return (
            "give a folder with -a root=: "
            f"{program_crawl_line(redacted_line(folder), is_root=True)}"
        )
    if len(args) != 1:
        return f"name one spider, such as: {program_crawl_line('https://…')}"
    question = meant_word(args[0], spiders)
    return f"there is no spider {args[0]!r}{question}; the spiders are: {', '.join(spiders)}"


def print_crawl_error(error: SmartcrawlError, settings: BaseSettings | None = None) -> None:
    """Print an error with its remedy.

    With ``settings``, log it to their LOG_FILE, too.
    """
    print_complaint("crawl", str(error))
    if settings is not None:
        log_crawl_error(str(error), settings)


def log_crawl_error(message: str, settings: BaseSettings) -> None:
    """Log a message to the LOG_FILE, if there is one: scrapyd shows only the log of a job."""
    file = settings.get("LOG_FILE")
    if not file:
        return
    with suppress(OSError):  # the log file may be unwritable
        try:
            Logs.install(settings)  # the crawl may have failed before it opened the log
        except (SettingError, ValueError, LookupError):  # it is about a setting of the log itself
            with Path(file).open("a", encoding="utf-8") as log:
                log.write(f"ERROR: {redacted_line(message)}\n")
        else:
            logger.error("%s", message)


def print_crawl_closing_table(run: Run, settings: BaseSettings) -> None:
    """Print the closing table, and log it if there is a LOG_FILE."""
    folder = str(settings["DATA_DIR"])
    print_crawl_summary(
        run, folder, sys.stderr if settings["PROGRESS_FORMAT"] == "json" else sys.stdout
    )
    if settings.get("LOG_FILE"):
        table = StringIO()
        print_crawl_summary(run, folder, table)
        for line in filter(None, map(str.rstrip, table.getvalue().splitlines())):
            logger.info("%s", line)


def stop_crawl_command() -> None:
    """End the process of the crawls."""
    reactor: Any = sys.modules["twisted.internet.reactor"]
    with suppress(ReactorNotRunning):  # a signal may have stopped it already
        reactor.stop()
