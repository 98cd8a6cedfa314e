"""The download of a library by a job: which run an order goes to."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.commands.library_actions import LibraryDownload
from smartcrawl.model.exceptions import HostsBusyError


class Process:
    """Opens the run of the crawl that it is given, under the next number."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.told: list[int | None] = []

    async def crawl(self, crawler: Any, **_: str) -> None:
        self.told.append(self.job.current_run())
        opened = SimpleNamespace(no=len(self.told) + 6)
        halt = SimpleNamespace(order=None)
        run = SimpleNamespace(opened=opened, halt=halt, result=None, failure=None)
        crawler.spider = SimpleNamespace(run=run)
        self.told.append(self.job.current_run())


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

    assert process.told == [None, 7, None, 9]


async def _never_asked(error: HostsBusyError) -> bool:
    raise AssertionError(error)


class BusyProcess(Process):
    """Another process asks the host of the library until the third attempt."""

    async def crawl(self, crawler: Any, **given: str) -> None:
        if len(self.told) < 2:
            self.told.append(None)
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
        job=job, words=words, is_full=False, is_paused=lambda source: False
    )
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
