"""The live line says how far a run is."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.engine.progress import Progress
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit
from smartcrawl.rules.model import Action, Outcome, Word
from smartcrawl.rules.reindex import Verdict
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.sources.site import SiteSource

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
SETTINGS["CONCURRENT_REQUESTS"] = 16


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    options = Options.of(SETTINGS | {"DATA_DIR": str(tmp_path / "data")})
    source = SiteSource(name="docs", seeds=tuple(f"http://a.example/{n}" for n in range(30)))
    run = Run.open(source, options, Orders(), 1_750_000_000)
    yield run
    run.close()


def crawler_with(*, asked: int = 0, answered: int = 0, read: int = 0) -> Any:
    """A crawler whose engine has so many pages that are not done."""
    slot = SimpleNamespace(queue=range(answered), active=range(read))
    downloader, scraper = SimpleNamespace(active=range(asked)), SimpleNamespace(slot=slot)
    return SimpleNamespace(engine=SimpleNamespace(downloader=downloader, scraper=scraper))


def line(run: Run, elapsed: float) -> str:
    return Progress(crawler_with(), run, interval=1).line(elapsed)


def count(run: Run, word: Word, status: int, number: int, *, conditional: bool = True) -> None:
    for _ in range(number):
        visit = Visit(
            Page(1, "http://a.example/", "a.example", 0), Outcome.CHANGED, http_status=status
        )
        visit.traffic.conditional = conditional
        visit.verdict = Verdict(Action.TOUCH, word)
        run.batches.progress.count(visit)


def test_at_the_beginning_nothing_is_known_of_the_speed(run: Run):
    expected = "docs: 0 done, 30 queued, 0.0 pages/s, 0 % 304, 0 new, 0 modified"

    assert line(run, 0) == expected
    assert line(run, 5) == expected


def test_a_worker_does_not_guess_how_much_all_of_them_have_left(run: Run):
    count(run, Word.UNCHANGED, 304, 10)
    run.opened = replace(run.opened, shared=True)

    assert line(run, 4) == (
        "docs: 10 done, more with others, 2.5 pages/s, 100 % 304, 0 new, 0 modified"
    )


def test_the_line_tells_done_queued_speed_share_and_time_left(run: Run):
    count(run, Word.UNCHANGED, 304, 6)
    count(run, Word.NEW, 200, 1, conditional=False)
    count(run, Word.MODIFIED, 200, 3)

    assert line(run, 4) == (
        "docs: 10 done, 30 queued, 2.5 pages/s, 60 % 304, 1 new, 3 modified, about 12 s left"
    )


def test_a_304_that_was_not_asked_for_is_no_unchanged_page(run: Run):
    count(run, Word.FAILED, 304, 1, conditional=False)
    count(run, Word.UNCHANGED, 304, 1)

    assert "2 done" in line(run, 1)
    assert " 50 % 304" in line(run, 1)


def test_the_queue_shrinks_as_pages_are_asked(run: Run):
    for _ in range(4):
        run.next_page(lambda _: True)

    assert ", 26 queued," in line(run, 1)


def test_pages_that_the_engine_has_and_did_not_read_are_not_done(run: Run):
    """Thousands of small files wait there; the line said that 0 were queued and 0 s left."""
    for _ in range(4):
        run.next_page(lambda _: True)

    progress = Progress(crawler_with(asked=1, answered=2, read=1), run, interval=1)

    assert ", 30 queued," in progress.line(1)
    assert progress.facts(1).total == 30


def test_the_bar_has_the_same_facts(run: Run):
    count(run, Word.UNCHANGED, 304, 6)
    count(run, Word.MODIFIED, 200, 4)

    facts = Progress(crawler_with(), run, interval=1).facts(4)

    assert facts == ("docs", 10, 40, ("2.5 pages/s", "60 % 304", "12 s left"))
    assert Progress(crawler_with(), run, interval=1).facts(0).parts == ("0.0 pages/s", "60 % 304")
    run.opened = replace(run.opened, shared=True)
    assert Progress(crawler_with(), run, interval=1).facts(4)[2:] == (
        None, ("2.5 pages/s", "60 % 304"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["json", "none"])
def test_another_form_of_progress_has_no_line(run: Run, kind: str):
    crawler = get_crawler(settings_dict={"PROGRESS_FORMAT": kind})
    crawler.spider = SimpleNamespace(run=run)

    with pytest.raises(NotConfigured):
        Progress.from_crawler(crawler)


async def reported(progress: Progress) -> None:
    progress._interval = 0.01
    progress.opened()
    await asyncio.sleep(0.05)
    progress.closed()


def test_in_a_pipe_a_line_is_logged(run: Run, caplog: pytest.LogCaptureFixture):
    crawler = get_crawler(settings_dict={"PROGRESS_FORMAT": "line"})
    crawler.spider = SimpleNamespace(run=run)
    crawler.engine = crawler_with().engine
    progress = Progress.from_crawler(crawler)
    assert progress._interval == 10

    with caplog.at_level("INFO", "smartcrawl.engine.progress"):
        asyncio.run(reported(progress))

    ours = [one for one in caplog.records if one.name == "smartcrawl.engine.progress"]
    assert ours[0].getMessage().startswith("docs: 0 done, 30 queued, 0.0 pages/s")
