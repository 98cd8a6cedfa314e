"""A crawl that goes on while something is measured."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.measure import BENCH, CACHE
from bench.serve import serve
from bench.served import TICKS, peak, pin
from bench.site import build
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database

_BEGUN = 200  #: pages after which it counts as under way


class Crawl:
    """A crawl on the last core, and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection, run: int) -> None:
        self._process = process
        self._connection = connection
        self.run = run  #: its number

    def check(self) -> None:
        """End the benchmark if the crawl has ended."""
        if self._process.poll() is not None:
            raise SystemExit("the crawl ended before the measurement did")

    def pages(self) -> int:
        """Return how many pages it has written."""
        looked = "SELECT count(*) FROM state WHERE visited_run = ?"
        return int(self._connection.execute(looked, (self.run,)).get)

    def cpu(self) -> float:
        """Return its CPU seconds, with those of the processes that it started."""
        return _cpu(self._process.pid)

    def rss(self) -> float:
        """Return the peak of its resident memory in MiB."""
        return peak(self._process.pid)


def _cpu(pid: int) -> float:
    place = Path(f"/proc/{pid}")
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    started = [
        child for file in place.glob("task/*/children") for child in file.read_text().split()
    ]
    return sum(map(int, fields[11:15])) / TICKS + sum(map(_cpu, map(int, started)))


@contextmanager
def crawling(folder: Path, pages: int, *settings: str) -> Iterator[Crawl]:
    """Crawl a site of so many pages into the registry of a folder; the block ends the crawl."""
    root = CACHE / f"site-{pages}"
    build(root, pages)
    with (
        closing(registry_database(folder / "registry.db").open()) as connection,
        serve(root) as url,
    ):
        runs = "SELECT coalesce(max(no), 0) FROM run"
        before = connection.execute(runs).get
        process = subprocess.Popen(
            [sys.executable, str(BENCH / "ours.py"), url, str(folder), *settings],
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: pin(-1),  # noqa: PLW1509  # one thread starts it
        )  # fmt: skip
        crawl = Crawl(process, connection, before + 1)
        try:
            while crawl.pages() < _BEGUN:
                crawl.check()
                time.sleep(0.1)
            yield crawl
        finally:
            process.kill()
            process.wait()
