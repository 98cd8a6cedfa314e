"""Documents that wait beside the engine: their number, their size, and the way of all others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.engine import reextraction
from smartcrawl.engine.reextraction import DocumentPipelineTasks
from smartcrawl.model.pages import Page, PageAnswer, Visit
from smartcrawl.rules.model import Outcome

URL = "https://docs.example/"


class Pipelines:
    """Stands for Scrapy's item pipelines, in which each document waits until it is released."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.release = asyncio.Event()
        self.error: Exception | None = None
        self.slot = SimpleNamespace(closing=None)
        self.checks = 0

    def _check_if_closing(self) -> None:
        self.checks += 1

    async def start_itemproc_async(self, visit: Visit, response: None) -> None:
        self.begun.append(visit.url)
        await self.release.wait()
        if self.error is not None:
            raise self.error


def document(name: str, size: int = 10, kind: str = "application/pdf") -> Visit:
    page = Page(1, URL + name, "docs.example", 0)
    return Visit(
        page,
        Outcome.CHANGED,
        url=page.url,
        answer=PageAnswer(content_type=kind, body=b"%PDF-".ljust(size)),
    )


def waiting_in(pipelines: Pipelines) -> DocumentPipelineTasks:
    crawler: Any = SimpleNamespace(engine=SimpleNamespace(scraper=pipelines))
    return DocumentPipelineTasks(crawler)


def test_so_many_documents_wait_and_the_rest_takes_the_ordinary_way(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(reextraction, "MOST", 3)

    async def scene() -> None:
        pipelines = Pipelines()
        documents = waiting_in(pipelines)
        assert [documents.take(document(f"{n}.pdf")) for n in range(5)] == [True] * 3 + [False] * 2
        pipelines.release.set()
        await asyncio.sleep(0.01)
        assert documents.take(document("later.pdf")), "the places are free again"
        await asyncio.sleep(0.01)
        assert pipelines.begun == [URL + name for name in ("0.pdf", "1.pdf", "2.pdf", "later.pdf")]

    asyncio.run(scene())


@pytest.mark.parametrize("error", [None, ValueError("of a pipeline")])
def test_so_many_bytes_wait_and_are_given_back(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
):
    """Also where a pipeline raises; otherwise no document could wait any more."""
    monkeypatch.setattr(reextraction, "MOST_BYTES", 100)

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        pipelines = Pipelines()
        pipelines.error = error
        documents = waiting_in(pipelines)
        taken = [documents.take(document(f"{size}.pdf", size)) for size in (60, 41, 40)]
        assert taken == [True, False, True]
        pipelines.release.set()
        await asyncio.sleep(0.01)
        assert documents.take(document("large.pdf", 100))
        assert not documents.take(document("small.pdf", 6))
        await asyncio.sleep(0.01)

    asyncio.run(scene())


def test_pages_do_not_wait_beside_the_engine():
    async def scene() -> None:
        pipelines = Pipelines()
        page = document("page", kind="text/html; charset=utf-8")
        page.answer.body = b"<!doctype html><title>Page</title>"
        assert not waiting_in(pipelines).take(page)
        assert pipelines.begun == []

    asyncio.run(scene())


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("closing", "checks"),
    [(None, 0), (SimpleNamespace(called=False), 1), (SimpleNamespace(called=True), 0)],
)
def test_the_last_document_lets_a_spider_close_that_waits_for_it(closing: Any, checks: int):
    async def scene() -> None:
        pipelines = Pipelines()
        documents = waiting_in(pipelines)
        documents.take(document("a.pdf"))
        await asyncio.sleep(0.01)
        pipelines.slot.closing = closing
        pipelines.release.set()
        await asyncio.sleep(0.01)
        assert pipelines.checks == checks

    asyncio.run(scene())
