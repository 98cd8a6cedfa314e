"""The download of a library by a job: which run an order goes to."""

import asyncio
from types import SimpleNamespace
from typing import Any

from smartcrawl.commands.library_actions import LibraryDownload


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
    download = LibraryDownload(process, lambda _: SimpleNamespace(stats=stats), order, report)

    assert job.current_run() is None
    for name in ("docs", "lists"):
        source: Any = SimpleNamespace(name=name)
        asyncio.run(download._crawl(source))

    assert process.told == [None, 7, None, 9]
