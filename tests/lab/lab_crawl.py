"""`Crawl` of tests/crawls without processes: the same words, runs by the driver of the lab."""

import asyncio
import io
import logging
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from smartcrawl import settings as shipped
from smartcrawl.commands import library as library_command
from smartcrawl.commands.crawl import Command as CrawlCommand
from smartcrawl.commands.due import Command as DueCommand
from smartcrawl.commands.library import Command as LibraryCommand
from smartcrawl.commands.running import run_command
from smartcrawl.commands.spider_runs import DONE, FAILED, HELD, SEVERITY
from smartcrawl.commands.summary import print_crawl_summary
from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.run.opening import open_run, orders_of_run_arguments, source_of_run_arguments
from smartcrawl.run.run import Run
from smartcrawl.sources.kinds import SPIDERS
from smartcrawl.spiders.base import VisitSpider
from smartcrawl.spiders.files import FilesSpider
from smartcrawl.spiders.github import GithubSpider
from smartcrawl.spiders.sharepoint import SharepointSpider
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.log_lines import printed_line_formatter
from smartcrawl.terminal.output import print_complaint
from tests.crawls.commands import Crawl, Remote, Result
from tests.lab.driver import Driver
from tests.lab.lab_site import Web
from tests.lab.listed_driver import LabProcess
from tests.registry.build import begin_registry
from tests.servers.sharepoint.server import SharepointServer

#: Spiders of listed sources; libraries are crawled by `library download`, too.
_LISTED: dict[str, type[VisitSpider]] = {
    "files": FilesSpider,
    "github": GithubSpider,
    "sharepoint": SharepointSpider,
}
_SPIDERS = {"site", "documents", *_LISTED}  #: that a lab has
_time, _time_ns = time.time, time.time_ns  #: of the machine


@dataclass(frozen=True, slots=True)
class Ran(Result):
    """A run of the lab: what the command would have left behind, and the figures of the run."""

    result: RunResult | None = None  #: None: it could not be opened

    def __getattr__(self, name: str) -> Any:
        """A figure of the run, such as `removed`."""
        return getattr(self.result, name)


class LabCrawl(Crawl):
    """Crawls the sites of a `Web`, at the time of its own clock."""

    def __init__(self, folder: Path, web: Web, url: str | None = None) -> None:
        """`url`: PostgreSQL; None: a file."""
        no_process: Any = None
        super().__init__(folder, no_process, url)
        self.web = web
        self.sharepoint: SharepointServer | None = None  #: for libraries, see tests/lab/conftest.py
        self._ahead = 0  #: seconds that the story let pass beside those of the machine

    def after(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        """Let time pass."""
        self._ahead += int(86_400 * days + 3_600 * hours + seconds)
        self._told.clear()

    @property
    def now(self) -> int:
        """The time of this crawl, Unix seconds."""
        return int(_time()) + self._ahead

    def prepare(self, module: str) -> None:
        """Import a module that commands will need."""
        import_module(module)

    def start(self, *args: object, **options: object) -> NoReturn:
        raise AssertionError("only a real crawl goes on in the background")

    def begin(self, *args: object, **options: object) -> NoReturn:
        raise AssertionError("only real crawls go on beside each other")

    def python(self, *args: object, **options: object) -> NoReturn:
        raise AssertionError("only a real crawl is a process")

    def _run(self, args: list[str], *, expect: int | None, traceback: bool = False) -> Result:
        assert "ARRANGED_BY" not in self.environment, "only a process of its own can be arranged"
        is_crawl = args[0] == "crawl" or (args[0] == "due" and "--notice" not in args)
        result = self._crawl(args) if is_crawl else self._command(args)
        assert expect is None or result.status == expect, f"expected {expect}; {args}: {result}"
        assert traceback or "Traceback" not in result.err, f"{args}: {result}"
        return result

    def _ask(self, *args: str) -> Any:
        if args not in self._told:
            result = self._command(list(args))
            assert (result.status, result.err) == (0, ""), f"{args}: {result}"
            self._told[args] = result.out
        return self._told[args]

    # Runs

    def _crawl(self, args: list[str]) -> Ran:
        words, given, chosen = _crawl_words(args)
        is_due = words == ["due"]
        assert is_due or (words[0] == "crawl" and set(words[1:]) <= _SPIDERS), (
            f"only a real crawl has {words}"
        )
        if not isinstance(self.registry, Remote) and not is_due:
            begin_registry(self.registry)  # as the command would, which takes a while
        command: Any = DueCommand() if is_due else CrawlCommand()
        if is_due:
            chosen["RECRAWL_POLICY"] = "due"
        with self._inside(["scrapy", *args]) as (out, err):
            command.settings = settings = _settings(chosen)
            with _logged(settings, err):
                spiders = list(SPIDERS) if is_due else words[1:]
                status, run = self._crawl_all(command, spiders, given, chosen)
        return Ran(status, _read(out), _read(err), result=None if run is None else run.result)

    def _crawl_all(
        self, command: Any, spiders: list[str], given: dict[str, str], chosen: dict[str, str]
    ) -> tuple[int, Run | None]:
        """Crawl what a command line asks for; return the exit status, and the last run."""
        worst, run = DONE, None
        try:
            runs = command.runs_of([_Spider(name, name) for name in spiders], given)
            command._warn_of_vanished()
        except SmartcrawlError as error:
            print_complaint("crawl", str(error))
            return FAILED, None
        for one in runs:
            assert one.spider.name in _SPIDERS, f"only a real crawl has {one}"
            status, run = self._crawl_source(command, one.spider.name, one.arguments, chosen)
            worst = max(worst, status, key=SEVERITY.index)
        return worst, run

    def _crawl_source(
        self, command: Any, spider: str, given: dict[str, str], chosen: dict[str, str]
    ) -> tuple[int, Run | None]:
        """Crawl the source of these arguments; return the exit status, and the run if it began."""
        run, settings = None, command.settings
        try:
            if spider in _LISTED:
                run = self._crawl_listed(_LISTED[spider], given, chosen)
            else:
                options, orders = Options.of(settings), orders_of_run_arguments(given)
                run = open_run(source_of_run_arguments(options, given), options, orders, self.now)
                asyncio.run(Driver(run, self.web, settings, self.now).to_the_end())
        except SmartcrawlError as error:
            print_complaint("crawl", str(error))
            is_held = isinstance(error, RunHeldError | RunPausedError)
            return (HELD if is_held else FAILED), run
        if run.result is not None:
            print_crawl_summary(run, str(settings["DATA_DIR"]))
        if run.failure is not None:
            print_complaint("crawl", str(run.failure))
            return FAILED, run
        return (FAILED if run.result is None else command.status_of(run)), run

    def _crawl_listed(
        self, spider: type[VisitSpider], given: dict[str, str], chosen: dict[str, str]
    ) -> Run:
        process = self._process(chosen)
        crawler: Any = process.create_crawler(spider)
        try:
            process.run(process.crawl(crawler, **given))
        finally:
            process.end()
        run: Run = crawler.spider.run
        return run

    def _process(self, chosen: Mapping[str, str]) -> LabProcess:
        return LabProcess(_settings(chosen), self.now, self.sharepoint)

    # Other commands

    def _library(self, args: list[str]) -> Result:
        """Run `scrapy library` with crawls of the lab."""
        command: Any = LibraryCommand()
        with (
            self._inside(["scrapy", *args]) as (out, err),
            patch.object(library_command, "stop_crawl_command", lambda: None),
        ):
            process = self._process({})
            command.settings, command.crawler_process = process.settings, process
            parser = ArgumentParser(prog=f"scrapy {args[0]}", conflict_handler="resolve")
            command.add_options(parser)
            try:
                opts, words = parser.parse_known_args(args[1:])
                command.process_options(words, opts)
                with _logged(process.settings, err):
                    command.run(words, opts)
                status = int(command.exitcode)
            except UsageError as error:
                print(error, file=sys.stderr)
                status = 2
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            finally:
                process.end()
        return Result(status, _read(out), _read(err))

    def _command(self, args: list[str]) -> Result:
        assert args[0] != "runner", "only a real crawl can be killed"
        if args[0] == "library":
            return self._library(args)
        with self._inside(["scrapy", *args]) as (out, err):
            try:
                status = _notice(args[1:]) if args[0] == "due" else _carried_out(args)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
        return Result(status, _read(out), _read(err))

    @contextmanager
    def _inside(self, argv: list[str]) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
        """Be a process of this object: its environment, settings, clock, output and name."""
        environment = {**os.environ, **self.own()}
        values = {name: environment.get(name, value) for name, value in shipped.defaults.items()}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, self.own()))
            stack.enter_context(patch.dict(vars(shipped), values))
            stack.enter_context(patch.object(sys, "argv", argv))
            stack.enter_context(patch.object(time, "time", lambda: _time() + self._ahead))
            stack.enter_context(
                patch.object(time, "time_ns", lambda: _time_ns() + self._ahead * 10**9)
            )
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            yield out, err


class _Spider(NamedTuple):
    """What a command asks about a spider before it crawls."""

    name: str
    crawls: str


def _settings(chosen: Mapping[str, str]) -> Settings:
    """Return the settings of a project, and those of a command line."""
    settings = Settings()
    settings.setmodule("smartcrawl.settings", priority="project")
    settings.setdict(chosen, priority="cmdline")
    return settings


def _notice(words: list[str]) -> int:
    """Bring visits forward, as `scrapy due --notice` does."""
    command: Any = DueCommand()
    command.settings = _settings({})
    command._notice([word for word in words if word != "--notice"], None)
    return int(command.exitcode)


def _carried_out(args: list[str]) -> int:
    """Run a command that needs no Scrapy."""
    command = import_module(f"smartcrawl.commands.{args[0]}").Command
    assert issubclass(command, BaseCommand), f"only a real command is `{args[0]}`"
    return run_command(args[0], args[1:])


def _crawl_words(args: list[str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return the words, arguments and settings of the command line of a crawl."""
    words: list[str] = []
    given: dict[str, str] = {}
    chosen: dict[str, str] = {}
    rest = iter(args)
    for word in rest:
        if word in ("-a", "-s"):
            name, _, value = next(rest).partition("=")
            (given if word == "-a" else chosen)[name] = value
        elif word == "--source":
            given["source"] = next(rest)
        else:
            words.append(word)
    return words, given, chosen


@contextmanager
def _logged(settings: Mapping[str, Any], err: io.TextIOWrapper) -> Iterator[None]:
    """Write the log to the standard error of the run, as a crawl does."""
    root = logging.getLogger()
    handler = logging.StreamHandler(err)
    handler.setFormatter(printed_line_formatter(str(settings["LOG_FORMAT"])))
    handler.setLevel(str(settings["LOG_LEVEL"]))
    root.addHandler(handler)
    level = root.level
    root.setLevel(str(settings["LOG_LEVEL"]))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return data.decode("utf-8")
