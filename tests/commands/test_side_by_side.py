"""Which source a worker gets next, and what comes of workers that die or are stopped."""

import asyncio
import io
import json
import os
import queue
import signal
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from smartcrawl.commands.crawl import Command, _refuse_options_of_sources
from smartcrawl.commands.crawl_ends import (
    NOT_BEGUN,
    CrawlEnd,
    crawl_end_line,
    crawl_end_of_data,
    print_crawl_ends,
    worst_status,
)
from smartcrawl.commands.side_by_side import (
    CHANNEL,
    Job,
    ProcessCrawls,
    Report,
    SideBySide,
    _Worker,
    worker_side,
)
from smartcrawl.commands.spider_runs import DONE, FAILED, HELD, INCOMPLETE, SpiderRun
from smartcrawl.model.exceptions import HostsBusyError, RegistryError
from smartcrawl.registry.runs.run_hosts import CrawledHosts
from smartcrawl.spiders.site import SiteSpider
from smartcrawl.terminal.bar import Bars, ProgressFacts


class FakeCrawls:
    """Workers that end in the order of their beginnings, unless a plan says otherwise."""

    def __init__(self, plan: dict[str, str] | None = None) -> None:
        self.plan = plan or {}  #: by source: what becomes of it instead of a complete run
        self.begun: list[tuple[int, str]] = []
        self.most = 0  #: at once
        self.signals: list[int] = []
        self.closed = False
        self._running: list[tuple[int, str]] = []
        self._lines: list[Report] = []

    def begin(self, worker: int, job: Job) -> None:
        if self.plan.get(job.name) == "cannot start":
            raise OSError(12, "Cannot allocate memory")
        assert worker not in [number for number, _ in self._running]
        self.begun.append((worker, job.name))
        self._running.append((worker, job.name))
        self._lines.append(Report(worker, facts=ProgressFacts(job.name, 1, 2, ())))
        self.most = max(self.most, len(self._running))

    def next_report(self, seconds: float) -> Report | None:
        if self._lines:
            return self._lines.pop()
        if not self._running:
            return None
        worker, name = self._running.pop(0)
        match self.plan.get(name):
            case "dies":
                return Report(worker, died="died of signal 9")
            case "stopped":
                return Report(worker, end=CrawlEnd(name, INCOMPLETE, 1, stopped=True))
        return Report(worker, end=CrawlEnd(name, DONE, 1, complete=True))

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def close(self) -> None:
        self.closed = True


def job(name: str, *hosts: str) -> Job:
    return Job(name, SpiderRun(SiteSpider, {"source": name}), frozenset(hosts))


def crawled(
    crawls: FakeCrawls, *jobs: Job, at_once: int = 2
) -> tuple[list[CrawlEnd], list[CrawlEnd]]:
    """The ends of all sources, and those that were said."""
    said: list[CrawlEnd] = []
    together = SideBySide(crawls, at_once, said.append, Bars(io.StringIO()))
    return together.crawl(jobs), said


def test_sources_run_at_once_in_their_order_up_to_the_number_of_jobs():
    crawls = FakeCrawls()
    ends, said = crawled(crawls, job("a", "a"), job("b", "b"), job("c", "c"), at_once=2)

    assert crawls.begun == [(0, "a"), (1, "b"), (0, "c")]
    assert crawls.most == 2
    assert [end.source for end in ends] == ["a", "b", "c"]
    assert said == ends


def test_sources_of_one_host_wait_for_each_other_and_let_others_pass():
    crawls = FakeCrawls()
    jobs = [job("a", "x"), job("b", "x", "y"), job("c", "y"), job("folder")]
    ends, _ = crawled(crawls, *jobs, at_once=4)

    assert [name for _, name in crawls.begun] == ["a", "c", "folder", "b"]
    assert [end.source for end in ends] == ["a", "b", "c", "folder"], "in the order of the sources"


def test_a_source_whose_host_another_process_asks_waits_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("smartcrawl.commands.side_by_side._LOOK", 0)
    crawls = FakeCrawls()
    elsewhere = [CrawledHosts("other", frozenset({"x"}))]
    looks: list[list[str]] = []

    def crawled_elsewhere(names: Collection[str]) -> Sequence[CrawledHosts]:
        looks.append(sorted(names))
        return elsewhere if len(looks) < 6 else []

    busy: list[str] = []
    together = SideBySide(
        crawls, 2, print, Bars(io.StringIO()), crawled_elsewhere, lambda why: busy.append(str(why))
    )
    ends = together.crawl([job("a", "x"), job("b", "y"), job("c", "x")])

    assert [name for _, name in crawls.begun] == ["b", "a", "c"]
    assert [end.source for end in ends] == ["a", "b", "c"]
    assert looks[1] == ["b"], "its own sources are none of others"
    assert busy == [
        "a waits until another process has crawled other: both request x",
        "c waits until another process has crawled other: both request x",
    ]


def test_a_source_that_another_process_crawls_itself_does_not_wait():
    """Its worker joins that run, or reports that the source is held."""
    crawls, busy = FakeCrawls(), list[str]()
    others = [CrawledHosts("a", frozenset({"x"}))]
    together = SideBySide(crawls, 2, print, Bars(io.StringIO()), lambda names: others)

    def stop(error: HostsBusyError) -> None:
        busy.append(error.source)
        together.stopping = True

    together.say_busy = stop
    assert [end.why for end in together.crawl([job("a", "x"), job("b", "x")])] == ["", NOT_BEGUN]
    assert (crawls.begun, busy) == ([(0, "a")], ["b"])


def test_a_signal_ends_the_wait_for_the_host_of_another_process():
    crawls = FakeCrawls()
    others = [CrawledHosts("other", frozenset({"x"}))]
    together = SideBySide(crawls, 2, print, Bars(io.StringIO()), lambda names: others)
    together.say_busy = lambda error: setattr(together, "stopping", True)

    assert [end.why for end in together.crawl([job("a", "x")])] == [NOT_BEGUN]
    assert not crawls.begun


def test_a_registry_that_cannot_be_read_ends_the_wait_for_a_host(monkeypatch: pytest.MonkeyPatch):
    """The next try fails with the reason, in place of a command that ends without this source."""
    command, tries = Command(), list[str]()
    command.settings, command._busy = Settings(), set()

    async def crawl_now(process: object, one: SpiderRun) -> CrawlEnd:
        tries.append(one.arguments["source"])
        if len(tries) == 1:
            raise HostsBusyError("a", "other", "x")
        return CrawlEnd("a", FAILED)

    def fail(source: str) -> bool:
        raise RegistryError(f"the server of {source} is away")

    monkeypatch.setattr(command, "_crawl_now", crawl_now)
    monkeypatch.setattr("smartcrawl.commands.crawl.Options", Mock())
    monkeypatch.setattr("smartcrawl.commands.crawl.registry_database", lambda _: Mock(is_held=fail))
    end = asyncio.run(command._crawl(Mock(), job("a", "x").run))
    assert (end, tries) == (CrawlEnd("a", FAILED), ["a", "a"])


def test_the_source_whose_host_is_free_first_begins_first(monkeypatch: pytest.MonkeyPatch):
    """One after another, too: no source waits for a process that another one waits for."""
    command = Command()
    command.settings, command._busy, command.exitcode = Settings(), set(), DONE
    held, crawled, looks = {"long", "short"}, list[str](), list[str]()

    async def crawl_now(process: object, one: SpiderRun) -> CrawlEnd:
        name = one.arguments["source"]
        other = {"a": "short", "b": "long"}[name]
        if other in held:
            raise HostsBusyError(name, other, "x")
        crawled.append(name)
        held.discard("long")
        return CrawlEnd(name, DONE, 1, complete=True)

    def is_held(source: str) -> bool:
        looks.append(source)
        if len(looks) > 2:
            held.discard("short")
        assert len(looks) < 20, "it waits for ever"
        return source in held

    monkeypatch.setattr(command, "_crawl_now", crawl_now)
    monkeypatch.setattr(command, "_end_all", lambda ends: crawled.append(f"{len(ends)} ends"))
    monkeypatch.setattr("smartcrawl.commands.crawl._AGAIN", 0.001)
    monkeypatch.setattr("smartcrawl.commands.crawl.stop_crawl_command", Mock())
    monkeypatch.setattr("smartcrawl.commands.crawl.Options", Mock())
    monkeypatch.setattr(
        "smartcrawl.commands.crawl.registry_database", lambda _: Mock(is_held=is_held)
    )
    asyncio.run(command._crawl_all(Mock(), [job(name).run for name in "ab"]))
    assert crawled == ["a", "b", "2 ends"]


@pytest.mark.parametrize(("jobs", "says"), [(3, True), (None, False)])
def test_a_feed_is_written_by_one_process_and_jobs_that_were_ordered_are_told(
    capsys: pytest.CaptureFixture[str], jobs: int | None, says: bool
):
    command = Command()
    command.settings = Settings({"FEEDS": {"items.jsonl": {"format": "jsonlines"}}})

    assert command._side_by_side([job(name).run for name in "ab"], jobs) is None
    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith("crawl: --jobs 3: the sources are crawled one after another") is says


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, None),
        ({"jobs": 2}, "--jobs"),
        ({"format": "json"}, "--format"),
        ({"save": "docs"}, "--save"),
        ({"dry_run": True}, "--dry-run"),
    ],
)
def test_a_spider_of_no_source_takes_no_option_of_sources(
    given: dict[str, object], refused: str | None
):
    opts = Namespace(**{"jobs": None, "format": "table", "save": None, "dry_run": False} | given)
    if refused is None:
        _refuse_options_of_sources("plain", opts)
        return
    with pytest.raises(UsageError, match=f"{refused} is for sources, and plain crawls none"):
        _refuse_options_of_sources("plain", opts)


def test_a_worker_that_dies_is_reported_and_ends_no_other():
    crawls = FakeCrawls({"a": "dies", "b": "cannot start"})
    ends, said = crawled(crawls, job("a", "a"), job("b", "b"), job("c", "c"), at_once=2)

    assert [(end.source, end.status) for end in ends] == [("a", FAILED), ("b", FAILED), ("c", DONE)]
    assert ends[0].why == "its process died of signal 9"
    assert ends[1].why == "its process cannot be started (Cannot allocate memory)"
    assert {end.source for end in said} == {"a", "b", "c"}
    assert worst_status(ends) == FAILED


def test_a_worker_that_a_stop_ends_before_its_crawl_begins_has_not_failed():
    crawls = FakeCrawls({"a": "stopped", "b": "dies"})
    ends, _ = crawled(crawls, job("a", "a"), job("b", "b"), job("c", "c"), at_once=2)

    assert [(end.source, end.status) for end in ends] == [
        ("a", INCOMPLETE), ("b", INCOMPLETE), ("c", INCOMPLETE)
    ]  # fmt: skip
    assert worst_status(ends) == INCOMPLETE


def test_a_worker_that_has_a_successor_only_prints():
    """Its death is not that of the process that has its place now."""
    crawls = ProcessCrawls("crawl", 2)
    former: Any = object()
    printed_line = Report(0, line=("err", "a last word\n"))
    for report in (Report(0, died="died of signal 9"), printed_line):
        crawls._reports.put((former, report))

    assert [crawls.next_report(0), crawls.next_report(0)] == [None, printed_line]
    crawls._workers[0] = former
    crawls._reports.put((former, Report(0, died="died of signal 9")))
    assert crawls.next_report(0) == Report(0, died="died of signal 9")


def test_a_worker_knows_how_many_crawl_beside_it(monkeypatch: pytest.MonkeyPatch):
    """Its share of the processes that read pages depends on it."""
    reads, writes = os.pipe()
    monkeypatch.setenv(CHANNEL, f"{writes},3")
    side = worker_side()
    assert side is not None
    assert side.jobs == 3
    assert CHANNEL not in os.environ
    side.report("end", 1)
    assert os.read(reads, 100) == b'{"end": 1}\n'
    os.close(reads)
    side._channel.close()


def test_a_worker_that_dies_within_a_line_is_dead():
    code = f"import os; os.write(int(os.environ['{CHANNEL}'].split(',')[0]), b'{{\"end\": {{')"
    found: queue.Queue[tuple[_Worker, Report]] = queue.Queue()
    worker = _Worker(3, [sys.executable, "-SIc", code], {}, 2, found.put)
    _, report = found.get(timeout=30)

    assert report == Report(3, died="ended with status 0")
    worker.close()


def test_after_a_signal_no_source_begins_and_the_others_end():
    crawls = FakeCrawls({"a": "stopped"})
    ends, said = crawled(crawls, job("a", "a"), job("b", "b"), job("c", "c"), job("d", "d"))

    assert [name for _, name in crawls.begun] == ["a", "b"]
    assert [(end.source, end.why) for end in ends[2:]] == [("c", NOT_BEGUN), ("d", NOT_BEGUN)]
    assert [end.source for end in said] == ["a", "b"]
    assert worst_status(ends) == INCOMPLETE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on_to_the_workers(number: signal.Signals):
    crawls = FakeCrawls()
    together = SideBySide(crawls, 2, print, Bars(io.StringIO()))
    before = signal.getsignal(number)
    with together.forwarding_signals():
        signal.raise_signal(number)
        signal.raise_signal(number)

    assert crawls.signals == [number, number], "the second one hurries, as in one crawl"
    assert together.stopping
    assert signal.getsignal(number) is before


ENDS = [
    CrawlEnd("well", DONE, 3, complete=True, new=2, requests=1_234, seconds=5),
    CrawlEnd("due", DONE, 4, reasons=("not_due: 3",)),
    CrawlEnd("held", HELD, reasons=("another run is open",)),
    CrawlEnd("cut", INCOMPLETE, 5, reasons=("max_pages", "pending: 3"), failed=1),
    CrawlEnd("lost", FAILED, reasons=("no such folder",)),
]


def printed(*, is_json: bool) -> str:
    out = io.StringIO()
    print_crawl_ends(ENDS, "/state", is_json=is_json, file=out)
    return out.getvalue()


def test_the_table_has_the_failed_ones_first_with_the_command_that_explains_each():
    lines = printed(is_json=False).splitlines()[1:]

    assert lines[0].split()[:9] == [
        "source", "complete", "new", "modified", "lost", "removed", "failed", "requests", "seconds"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:-1]] == ["lost", "cut", "held", "well", "due"]
    assert "no such folder" in lines[1]
    assert lines[1].rstrip().endswith("-s DATA_DIR=/state lost"), "it crawls that one alone"
    assert "max_pages; pending: 3" in lines[2]
    assert lines[2].rstrip().endswith("--source cut")
    assert "1,234" in lines[4]
    assert "status" not in lines[4]
    assert lines[-1] == "5 sources: 3 to look at"


def test_programs_get_the_same():
    data = json.loads(printed(is_json=True))

    assert data["status"] == FAILED
    first, *_, last = data["sources"]
    assert first == {
        "source": "lost", "status": 1, "run": None, "complete": False,
        "reasons": ["no such folder"],
        "new": 0, "modified": 0, "lost": 0, "removed": 0, "failed": 0, "requests": 0, "seconds": 0,
        "explain": first["explain"],
    }  # fmt: skip
    assert (last["source"], last["explain"]) == ("due", None)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.source)
def test_an_end_comes_over_the_pipe_as_it_was(end: CrawlEnd):
    sent: Any = json.loads(json.dumps(end.as_data()))
    assert crawl_end_of_data(sent) == end


def test_a_line_says_what_came_of_a_source():
    assert [crawl_end_line(end) for end in ENDS] == [
        "well: complete, 2 new, 1,234 requests, 5 s",
        "due: what was due, 0 requests, 0 s",
        "held: held: another run is open",
        "cut: incomplete (max_pages; pending: 3), 1 failed, 0 requests, 0 s",
        "lost: failed: no such folder",
    ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    file.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("smartcrawl.terminal.bar._claim", lambda file: -1)
    monkeypatch.setattr("smartcrawl.terminal.bar.os.close", lambda handle: None)
    return file


def test_a_terminal_has_a_bar_a_source_and_lines_above(terminal: io.StringIO):
    bars = Bars(terminal)
    bars.draw(0, ProgressFacts("docs", 3, 10, ("1.0 pages/s",)))
    bars._next = 0
    bars.draw(1, ProgressFacts("shop", 4, None, ()))
    shown = terminal.getvalue().rpartition("\r\x1b[2K")[2].splitlines()
    assert [line.split()[0] for line in shown] == ["docs", "shop"]

    bars.print("err", "a warning\n")
    assert "\r\x1b[2K\x1b[1A\x1b[2Ka warning\ndocs" in terminal.getvalue()
    bars.remove(0)
    bars.close()
    assert terminal.getvalue().endswith("\r\x1b[2K"), "nothing stays"
