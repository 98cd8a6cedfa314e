"""Crawls of several sources at the same time: workers that take one source after another.

Each worker is a process of the same command. It gets a source as a line of JSON on its standard
input, and reports its progress and its end on a pipe of its own. A worker whose standard
input ends while it crawls ends the crawl as after a signal: its parent is gone (ADR 173).
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Any, Final, Protocol

from smartcrawl.commands.crawl_ends import NOT_BEGUN, CrawlEnd, crawl_end_of_data
from smartcrawl.commands.spider_runs import FAILED, INCOMPLETE, SpiderRun
from smartcrawl.model.exceptions import HostsBusyError
from smartcrawl.model.program import OURS, program_name
from smartcrawl.registry.runs.run_hosts import CrawledHosts
from smartcrawl.rules.side_by_side import first_to_begin, shared_host
from smartcrawl.terminal.bar import Bars, ProgressFacts

#: Environment of a worker: the number of its pipe, a comma, and how many workers there are.
CHANNEL: Final = "SMARTCRAWL_CRAWL_CHANNEL"
_TICK: Final = 0.5  #: seconds between two looks at signals
_LOOK: Final = 2.0  #: seconds between two looks at the sources of other processes


@dataclass(frozen=True, slots=True)
class Job:
    """A source to crawl, and the hosts that its run may ask."""

    name: str
    run: SpiderRun
    hosts: frozenset[str] = frozenset()

    def order(self) -> str:
        """Return the line that a worker gets."""
        given = {"spider": self.run.spider.name, "arguments": self.run.arguments}
        return json.dumps(given | {"name": self.name}) + "\n"


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a worker: an end, a state, a line that it prints, or its death."""

    worker: int
    end: CrawlEnd | None = None
    facts: ProgressFacts | None = None
    line: tuple[str, str] | None = None  #: "out" or "err", and the line
    died: str | None = None  #: why


class Crawls(Protocol):
    """The workers, by number. A worker that died is started again by the next order."""

    def begin(self, worker: int, job: Job) -> None:
        """Give a worker a source.

        Raises:
            OSError: it cannot be started.
        """

    def next_report(self, seconds: float) -> Report | None:
        """Return the next report of a worker; None: there is none within so many seconds."""

    def signal(self, number: int) -> None:
        """Send a signal to every worker that crawls."""

    def close(self) -> None:
        """End the workers, which are idle, and wait for them."""


@dataclass(slots=True)
class SideBySide:
    """Gives sources to workers, as long as no two of them share a host."""

    crawls: Crawls
    jobs: int  #: workers
    say: Callable[[CrawlEnd], None]  #: is called with each end
    bars: Bars
    #: Returns the sources that processes crawl now, but for those of these names.
    crawled: Callable[[Collection[str]], Sequence[CrawledHosts]] = lambda names: ()
    say_busy: Callable[[HostsBusyError], None] = lambda error: None  #: is called once a source
    stopping: bool = False
    _running: dict[int, Job] = field(default_factory=dict)
    _elsewhere: Sequence[CrawledHosts] = ()  #: the sources of other processes
    _looked: float | None = None  #: when, in seconds of a clock that only goes on
    _busy: set[str] = field(default_factory=set)  #: sources that were said to wait

    def crawl(self, waiting: Sequence[Job]) -> list[CrawlEnd]:
        """Crawl all sources; return their ends, in the order of the sources."""
        left, ends = list(waiting), dict[str, CrawlEnd]()
        while left or self._running:
            if not self.stopping:
                found = self._begin(left)
            else:
                found = [CrawlEnd(job.name, INCOMPLETE, reasons=(NOT_BEGUN,)) for job in left]
                left.clear()
            waits = self._running or left
            if waits and (report := self.crawls.next_report(_TICK)) is not None:
                found += self._take(report)
            for end in found:
                self.stopping = self.stopping or end.stopped
                if NOT_BEGUN not in end.reasons:
                    self.say(end)
                ends[end.source] = end
        return [ends[job.name] for job in waiting]

    def _begin(self, left: list[Job]) -> list[CrawlEnd]:
        """Give free workers what may begin; return the ends of those that could not."""
        failed: list[CrawlEnd] = []
        while left and len(self._running) < self.jobs:
            self._look_elsewhere()
            running = [job.hosts for job in self._running.values()]
            hosts = running + [other.hosts for other in self._elsewhere]
            place = first_to_begin([self._hosts_in_doubt(job) for job in left], hosts)
            self._say_busy(left[:place])
            if place is None:
                break
            job = left.pop(place)
            worker = next(n for n in range(self.jobs) if n not in self._running)
            try:
                self.crawls.begin(worker, job)
            except OSError as error:
                why = f"its process cannot be started ({error.strerror})"
                failed.append(CrawlEnd(job.name, FAILED, reasons=(why,)))
                continue
            self._running[worker] = job
        return failed

    def _hosts_in_doubt(self, job: Job) -> frozenset[str]:
        """Return the hosts for which a source has to wait.

        None where another process crawls this very source: its worker joins that run, or reports
        that the source is held, as a command of one source does.
        """
        is_crawled = any(other.source == job.name for other in self._elsewhere)
        return frozenset() if is_crawled else job.hosts

    def _look_elsewhere(self) -> None:
        """See which sources other processes crawl, now and then."""
        now = time.monotonic()
        if self._looked is None or now - self._looked >= _LOOK:
            self._elsewhere = self.crawled([job.name for job in self._running.values()])
            self._looked = now

    def _say_busy(self, passed: Sequence[Job]) -> None:
        """Say of sources that did not begin which one of another process they wait for."""
        for job in passed:
            for other in self._elsewhere if job.name not in self._busy else ():
                host = shared_host(job.hosts, other.hosts)
                if host is not None:
                    self._busy.add(job.name)
                    self.say_busy(HostsBusyError(job.name, other.source, host))
                    break

    def _take(self, report: Report) -> list[CrawlEnd]:
        """Show a report of a worker; return the end of its source, if that is it."""
        if report.line is not None:
            self.bars.print(*report.line)
        job = self._running.get(report.worker)
        if report.facts is not None and job is not None:
            self.bars.draw(report.worker, report.facts)
        if job is None or (report.end is None and report.died is None):
            return []
        del self._running[report.worker]
        self.bars.remove(report.worker)
        # One that a signal ends before its crawl begins has failed no more than those that wait.
        status = INCOMPLETE if self.stopping else FAILED
        return [report.end or CrawlEnd(job.name, status, reasons=(f"its process {report.died}",))]

    @contextmanager
    def forwarding_signals(self) -> Iterator[None]:
        """Pass signals on to the workers, which end as one crawl ends; begin no other source."""

        def forward(number: int, _: FrameType | None) -> None:
            self.stopping = True
            self.crawls.signal(number)

        before = {one: signal.signal(one, forward) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


class _Worker:
    """One process, and the threads that read its reports and its output."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        jobs: int,
        pass_on: Callable[[tuple[_Worker, Report]], None],
    ) -> None:
        self._number = number
        self._pass_on = pass_on
        reads, writes = os.pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603  # the command that this process is of
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, CHANNEL: f"{writes},{jobs}"},
                pass_fds=[writes],
                start_new_session=True,  # a Ctrl-C reaches it by its parent, once
                text=True,
                errors="replace",
            )
        except OSError:
            os.close(reads)
            raise
        finally:
            os.close(writes)
        self._printing = [
            threading.Thread(target=self._relay, args=one, daemon=True)
            for one in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for thread in self._printing:
            thread.start()
        threading.Thread(target=self._listen, args=(os.fdopen(reads),), daemon=True).start()

    def _report(self, report: Report) -> None:
        self._pass_on((self, report))

    def _relay(self, name: str, file: IO[str]) -> None:
        for line in file:
            self._report(Report(self._number, line=(name, line)))

    def _listen(self, channel: IO[str]) -> None:
        for line in channel:
            try:
                [(kind, data)] = json.loads(line).items()
            except ValueError:  # half a line, in which it was killed
                break
            if kind == "end":
                self._report(Report(self._number, end=crawl_end_of_data(data)))
            else:
                name, done, total, parts = data
                facts = ProgressFacts(name, done, total, tuple(parts))
                self._report(Report(self._number, facts=facts))
        status = self.process.wait()
        for thread in self._printing:
            thread.join(1)
        died = f"ended with status {status}" if status >= 0 else f"died of signal {-status}"
        self._report(Report(self._number, died=died))

    def send(self, text: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # its death is reported
            self.process.stdin.write(text)
            self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


class ProcessCrawls:
    """Workers that are processes of the command that this process was called with."""

    def __init__(self, name: str, jobs: int) -> None:
        """``name``: of the command; Scrapy takes it out of the words. ``jobs``: workers at once."""
        self._jobs = jobs
        words = sys.argv[1:] if program_name() == OURS else [name, *sys.argv[1:]]
        self._command = [sys.executable, "-m", program_name(), *words]
        self._reports: queue.Queue[tuple[_Worker, Report]] = queue.Queue()
        self._workers: dict[int, _Worker] = {}

    def begin(self, worker: int, job: Job) -> None:
        """Give a worker a source."""
        found = self._workers.get(worker)
        if found is None or found.process.poll() is not None:
            found = _Worker(worker, self._command, os.environ, self._jobs, self._reports.put)
            self._workers[worker] = found
        found.send(job.order())

    def next_report(self, seconds: float) -> Report | None:
        """Return the next report of a worker."""
        try:
            worker, report = self._reports.get(timeout=seconds)
        except queue.Empty:
            return None
        is_past = self._workers.get(report.worker) is not worker  # another one has its place
        return None if is_past and report.line is None else report

    def signal(self, number: int) -> None:
        """Send a signal to every worker."""
        for worker in self._workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    def close(self) -> None:
        """End the workers, and wait for them."""
        for worker in self._workers.values():
            worker.close()


class WorkerSide:
    """The worker's own side: its orders, and the pipe to its parent."""

    def __init__(self, channel: int, jobs: int) -> None:
        self.jobs = jobs  #: workers at once, this one included
        self._channel = os.fdopen(channel, "w")
        self.orders: queue.Queue[dict[str, Any] | None] = queue.Queue()  #: None: there are no more
        self.crawls = False  #: whether a crawl is under way

    def listen(self, wake: Callable[[], None]) -> None:
        """Read orders in a thread; ``wake`` is called after each."""
        threading.Thread(target=self._listen, args=(wake,), daemon=True).start()

    def _listen(self, wake: Callable[[], None]) -> None:
        rest = b""
        while read := os.read(0, 65_536):  # not by sys.stdin, whose lock would outlive its thread
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                self.orders.put(json.loads(line))
            wake()
        self.orders.put(None)
        if self.crawls:  # the parent is gone
            os.kill(os.getpid(), signal.SIGTERM)
        wake()

    def report(self, kind: str, data: Any) -> None:
        """Report an end or a state to the parent."""
        with suppress(BrokenPipeError):  # the end of standard input says the same
            self._channel.write(json.dumps({kind: data}) + "\n")
            self._channel.flush()


def worker_side() -> WorkerSide | None:
    """Return this process's side if it is a worker; else None."""
    numbers = os.environ.pop(CHANNEL, None)  # no process that it starts is one
    return None if numbers is None else WorkerSide(*map(int, numbers.split(",")))
