"""Pages that processes read: whatever their number, a crawl asks and leaves behind the same.

Each story is told with one process and with three. Those of `test_lab_agrees` are compared with the
lab, which reads pages itself, and which crawls without readers agree with: with one process row by
row, with three by address, as their pages may get other numbers. Documents beside pages are one
more of these, compared by address. Two more are crawls that ask many pages at a time,
and that lose all readers once.
"""

import os
import random
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

import pytest

from smartcrawl.rules.model import Fault
from tests.crawls.commands import Crawl, Scrapy, differences, readers_of
from tests.crawls.edited_site import before, edit
from tests.crawls.killing import AT_ONCE, shape
from tests.extract.made_documents import pdf
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite, Web
from tests.lab.test_lab_agrees import TALES, Tale, Teller, Told, collapse, sitemaps, walled
from tests.lab.test_lab_agrees import differences as row_differences
from tests.site_server import Page, Site, html

pytestmark = [
    pytest.mark.alone,
    pytest.mark.embedded,
    pytest.mark.sqlite,
    pytest.mark.skipif(os.name == "nt", reason="no signals, no /proc"),
]

SEED = int(os.environ["KILL_SEED"])
PDF = "application/pdf"
FELL_BACK = "pages are read in the crawling process"


#: Words of the client of a real crawl, and of that of the lab, for the same failure.
_CLIENTS = re.compile(r" \((?:_DataLoss|ResponseDataLossError)\)")


def told(value: Any) -> Any:
    """A shape without the words that each client has of its own."""
    match value:
        case str():
            return _CLIENTS.sub("", value)
        case dict():
            return {key: told(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(map(told, value))
    return value


def reading(processes: int | str) -> dict[str, str]:
    return {"READ_PROCESSES": str(processes), "SOFT_404_DETECTION": "0"}


@cache  # both sites have the same bytes
def report(text: str) -> bytes:
    return pdf(f"A {text} of a report")


def beside(site: Site, crawl: Teller) -> Told:
    """A document beside pages, which processes of its own read; both are edited."""
    site.pages["/"] = html("Home", "/a", "/report.pdf")
    for text in ("whale", "treasure"):
        site.pages["/a"] = html("A", text=text)
        site.pages["/report.pdf"] = Page(report(text), content_type=PDF)
        crawl()
        yield


TOLD = [
    pytest.param(
        tale,
        processes,
        id=f"{tale.__name__}-{processes}",
        marks=[] if (tale, processes) in ((collapse, 1), (sitemaps, 3)) else [pytest.mark.long],
    )
    for tale in (*TALES, beside)
    for processes in (1, 3)
]


@pytest.mark.parametrize(("tale", "processes"), TOLD)
def test_readers_leave_the_rows_of_a_crawl_that_reads_itself(
    tale: Tale, processes: int, tmp_path: Path, ask: Scrapy
):
    with Site() as site:
        copy = LabSite(urlsplit(site.url()).netloc)
        real = Teller(Crawl(tmp_path / "real", ask), site)
        lab = Teller(LabCrawl(tmp_path / "lab", Web(copy)), copy)
        real.crawl.environment["READ_PROCESSES"] = str(processes)
        for teller in (real, lab):
            teller.crawl.folder.mkdir()
            if tale is walled:
                teller.crawl.environment["SOFT_404_DETECTION"] = "1"
        ended = object()
        for ends in zip_longest(tale(site, real), tale(copy, lab), fillvalue=ended):
            assert ended not in ends
            assert FELL_BACK not in real.said
            if processes == 1 and tale is not beside:  # a document may end after later pages
                expected, found = lab.facts("whale treasure"), real.facts("whale treasure")
                assert not list(row_differences(expected, found))
            else:
                read = LabCrawl(real.crawl.folder, Web())
                assert not list(differences(told(shape(read)), told(shape(lab.crawl))))
                assert real.asked == lab.asked


def asked(site: Site) -> Counter[tuple[str, str, bool]]:
    conditions = {"if-none-match", "if-modified-since"}
    return Counter((r.method, r.path, bool(conditions & r.headers.keys())) for r in site.log)


@pytest.fixture(scope="module")
def edited(
    tmp_path_factory: pytest.TempPathFactory, ask: Scrapy
) -> Iterator[tuple[Site, list[tuple[object, object]]]]:
    """The site, and what a crawl that reads itself leaves and asks, before and after the edit."""
    with Site() as site:
        crawl = Crawl(tmp_path_factory.mktemp("itself"), ask)
        crawl.environment |= AT_ONCE | reading(0)
        yield site, list(both_runs(site, crawl))


def both_runs(site: Site, crawl: Crawl) -> Iterator[tuple[object, object]]:
    for prepare in (before, edit):
        if prepare is before:
            site.pages = {}
        prepare(site)
        site.clear()
        assert FELL_BACK not in crawl(site.url()).err
        yield shape(crawl), asked(site)


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 3])
def test_readers_leave_and_ask_the_same_of_many_pages_at_a_time(
    processes: int, edited: tuple[Site, list[tuple[object, object]]], crawl: Crawl
):
    site, expected = edited
    crawl.environment |= AT_ONCE | reading(processes)

    for wanted, found in zip(expected, both_runs(site, crawl), strict=True):
        assert not list(differences(found[0], wanted[0]))
        assert found[1] == wanted[1]


def test_readers_that_are_killed_at_any_time_cost_no_page(crawl: Crawl, site: Site):
    """Killed while they wait, read or start; a page that was being read is read once more."""
    before(site)
    chance = random.Random(SEED)
    crawl.environment |= AT_ONCE | reading(2)
    killed = set[int]()
    with crawl.start(site.url()) as running:
        while running.process.poll() is None:
            time.sleep(chance.random() / 2)
            with suppress(OSError):  # the crawl has just ended
                found = [pid for pid in readers_of(running.pid) if pid not in killed]
                if found and len(killed) < 4:
                    killed.add(victim := chance.choice(found))
                    os.kill(victim, signal.SIGKILL)
        result = running.end()

    assert result.status == 0, result
    assert killed
    [run] = crawl.runs()
    assert run["complete"]
    assert crawl.rows(f"SELECT count(*) FROM state WHERE http_status = {Fault.CRASHED}") == [(0,)]
    assert Counter(crawl.outcomes().values())["new"] > 100
    assert crawl.counts_add_up()


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 3])
def test_page_whose_reader_dies_once_leaves_the_same(
    processes: int, tmp_path: Path, ask: Scrapy, site: Site
):
    """All readers are stopped when the page is asked, and killed when they have it."""
    paths = [f"/{n}" for n in range(6)]
    site.pages |= {path: html(path, text=f"whale {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    itself, crawl = Crawl(tmp_path / "itself", ask), Crawl(tmp_path / "readers", ask)
    for one, number in ((itself, 0), (crawl, processes)):
        one.folder.mkdir()
        one.environment |= AT_ONCE | reading(number)
    itself(site.url())
    expected = shape(itself), asked(site)
    site.clear()
    victims: list[int] = []

    def stop() -> bool:
        if not victims:
            victims.extend(readers_of(running.pid))
            for pid in victims:
                os.kill(pid, signal.SIGSTOP)
            Timer(1, kill).start()
        return True

    def kill() -> None:
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    site.pages["/3"] = Page(site.pages["/3"], until=stop)
    with crawl.start(site.url()) as running:
        result = running.end()

    assert result.status == 0, result
    assert len(victims) >= 1
    assert FELL_BACK not in result.err
    assert not list(differences(shape(crawl), expected[0]))
    assert asked(site) == expected[1]


@pytest.mark.long
def test_crawl_with_one_core_has_its_pages_read_all_the_same(crawl: Crawl, site: Site):
    paths = [f"/{n}" for n in range(30)]
    site.pages |= {path: html(path, text=f"whale {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    crawl.environment |= reading(2)
    with crawl.start(site.url()) as running:
        os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})
        result = running.end()

    assert result.status == 0, result
    assert FELL_BACK not in result.err
    assert len(crawl.hits("whale")) == 30


@pytest.mark.long
@pytest.mark.parametrize("mib", [900, 550])
def test_where_memory_is_scarce_every_page_is_read_all_the_same(mib: int, crawl: Crawl, site: Site):
    """As with `ulimit -v`: the readers have no more address space than the crawl itself."""
    paths = [f"/{n}" for n in range(30)]
    site.pages |= {path: html(path, text=f"whale {path}") for path in paths}
    site.pages["/"] = html("Home", *paths)
    crawl.environment |= reading(2)
    with crawl.start(site.url()) as running:
        resource.prlimit(running.pid, resource.RLIMIT_AS, (mib << 20, mib << 20))
        result = running.end()

    assert result.status == 0, result
    assert len(crawl.hits("whale")) == 30
