"""The download of a library by a job: which run an order goes to."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.commands.library_actions import LibraryDownload, LibraryOrder
from smartcrawl.model.exceptions import HostsBusyError
from smartcrawl.run.library.report import LibraryReport


class Process:
    """Opens the run of the crawl that it is given, under the next number."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.current_runs: list[int | None] = []

    async def crawl(self, crawler: Any, **_: str) -> None:
        self.current_runs.append(self.job.current_run())
        opened = SimpleNamespace(no=len(self.current_runs) + 6)
        halt = SimpleNamespace(order=None)
        run = SimpleNamespace(opened=opened, halt=halt, result=None, failure=None)
        crawler.spider = SimpleNamespace(run=run)
        self.current_runs.append(self.job.current_run())


def test_an_order_to_a_job_goes_to_the_run_that_its_crawl_has_open():
    job = SimpleNamespace(current_run=None)
    process: Any = Process(job)
    report: Any = SimpleNamespace(is_stopped=False, skip=lambda source, why: None)
    words = SimpleNamespace(retry_batches=0)
    order: Any = SimpleNamespace(
        job=job, words=words, is_full=False, is_paused=lambda source: False
    )
    stats = SimpleNamespace(get_value=lambda name: "finished")
    download = LibraryDownload(
        process, lambda _: SimpleNamespace(stats=stats), order, report, _never_asked
    )

    assert job.current_run() is None
    for name in ("docs", "lists"):
        source: Any = SimpleNamespace(name=name)
        asyncio.run(download._crawl(source))

    assert process.current_runs == [None, 7, None, 9]


async def _never_asked(error: HostsBusyError) -> bool:
    raise AssertionError(error)


class BusyProcess(Process):
    """Another process asks the host of the library until the third attempt."""

    async def crawl(self, crawler: Any, **given: str) -> None:
        if len(self.current_runs) < 2:
            self.current_runs.append(None)
            raise HostsBusyError("d.docs", "d.lists", "contoso.sharepoint.com")
        await super().crawl(crawler, **given)


@pytest.mark.parametrize("is_free", [True, False])
def test_a_library_waits_until_no_other_process_asks_its_host(is_free: bool):
    job = SimpleNamespace(current_run=None)
    process: Any = BusyProcess(job)
    skipped: list[str] = []
    report: Any = SimpleNamespace(is_stopped=False, skip=lambda source, why: skipped.append(why))
    words = SimpleNamespace(retry_batches=0)
    order: Any = SimpleNamespace(
        job=job, words=words, is_full=False, is_paused=lambda source: False,
        is_ending=lambda: False,
    )  # fmt: skip
    stats = SimpleNamespace(get_value=lambda name: "finished")
    asked: list[str] = []

    async def ask(error: HostsBusyError) -> bool:
        asked.append(error.other)
        return is_free

    download = LibraryDownload(process, lambda _: SimpleNamespace(stats=stats), order, report, ask)
    source: Any = SimpleNamespace(name="d.docs")
    asyncio.run(download._crawl(source))

    assert report.is_stopped is not is_free
    assert asked == ["d.lists"] * (2 if is_free else 1)
    assert len(skipped) == is_free, "the run of the double has no result"


class WaitingJob:
    """A job whose library waits for a host; an order or a signal ends the wait."""

    id = "job"

    def __init__(self, *, is_ordered: bool, paused: str | None) -> None:
        self.progress: dict[str, Any] = {} if paused is None else {"paused": paused}
        self.current_run: Any = None
        self.is_ordered = is_ordered
        self.looks = 0

    def is_ending(self) -> bool:
        self.looks += 1
        return self.is_ordered and self.looks > 2  # the order comes while the library waits

    def save(self, progress: dict[str, Any]) -> None:
        self.progress = progress


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("paused", [None, "docs"])
def test_a_job_that_ends_while_its_library_waits_for_a_host_has_no_run_to_go_on_with(
    is_ordered: bool, paused: str | None
):
    job: Any = WaitingJob(is_ordered=is_ordered, paused=paused)
    process: Any = BusyProcess(job)
    source: Any = SimpleNamespace(name="d.docs", source_id="docs")
    words: Any = SimpleNamespace(retry_batches=0, mode="incremental", dry_run=False)
    order = LibraryOrder("crawl", *cast(Any, (None, [source], None)), words, job)
    report = LibraryReport(cast(Any, None), "crawl", "incremental", "domain")
    is_given_up = False

    async def ask(error: HostsBusyError) -> bool:
        nonlocal is_given_up
        try:
            await asyncio.sleep(60 if is_ordered else 0)
        except asyncio.CancelledError:
            is_given_up = True
            raise
        return False

    stats = SimpleNamespace(get_value=lambda name: "finished")
    download = LibraryDownload(process, lambda _: SimpleNamespace(stats=stats), order, report, ask)
    asyncio.run(download.carry_out())

    assert (report.is_stopped, is_given_up) == (True, is_ordered)
    assert (job.progress["paused"], job.progress["done"]) == (paused, {})
