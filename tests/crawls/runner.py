"""`scrapy crawl`, with something arranged inside its process: python -m tests.crawls.runner …

    kill N            die by SIGKILL at the N-th place (0: never; the number of places is printed)
    step STEP         die in a step of a run's end, such as "before the commit of seal_run_row 1"
    full PAGES        the registry's file may grow by that many pages only
    locks             print for how many seconds each transaction held the write lock
    objects           count what the collector would have to find

The rest of the line are arguments of scrapy. Places are before and after the begin, and before and
after the commit, of every transaction, and before and after each step of a library's files on disk.
`Crawl.run("runner", …)` does the same in a fork.
"""

import gc
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
from lxml.etree import _Element
from parsel import Selector
from scrapy import Request
from scrapy.cmdline import execute
from scrapy.http import Response

from smartcrawl.commands import crawl, library
from smartcrawl.index import writing
from smartcrawl.model.batches import Batch
from smartcrawl.registry import connection as transactions
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database import databases, sqlite
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.runs import runs

_BATCH = 5  #: visits, so that a small site has many transactions
#: Removals of one transaction: more of them than there are would leave no place to die in between.
SWEPT_AT_ONCE = 4


class Places:
    """Counts the places that a process passes, and ends it at one of them."""

    def __init__(self, last: int) -> None:
        self.passed = 0
        self.last = last
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self.passed += 1
            if self.passed == self.last:
                os.kill(os.getpid(), signal.SIGKILL)


def _replaced(name: str, old: object, new: object) -> None:
    """Put `new` in the place of a function that modules have imported by name."""
    found = [
        module
        for key, module in list(sys.modules.items())
        if key.startswith("smartcrawl") and getattr(module, name, None) is old
    ]
    assert len(found) > 1, f"{name} is imported by nobody: has it moved?"
    for module in found:
        setattr(module, name, new)


def kill(number: str) -> None:
    places = Places(int(number))

    @contextmanager
    def transaction(connection: Connection) -> Iterator[None]:
        places.step()
        connection.execute(transactions.WRITING)
        places.step()
        try:
            yield
            places.step()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        places.step()

    _sweeps_in_parts()
    Batch.MAX_VISITS = Batch.MAX_TOUCHED = _BATCH
    for name in ("write", "rename", "remove"):
        setattr(LibraryFolder, name, _stepped(getattr(LibraryFolder, name), places))
    _replaced("transaction", transactions.transaction, transaction)
    if places.last == 0:
        _at_exit(lambda: print(f"places: {places.passed}"))


def _stepped(real: Any, places: Places) -> Any:
    def stepped(*args: Any) -> Any:
        places.step()
        found = real(*args)
        places.step()
        return found

    return stepped


def step(last: str) -> None:
    """Die in a step that no number of transactions before it moves: it is told by who makes it."""
    passed: Counter[str] = Counter()

    def die(where: str, name: str) -> None:
        if last == f"{where} {name} {passed[name]}":
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def transaction(connection: Connection) -> Iterator[None]:
        caller = sys._getframe(2)  # of contextlib's __enter__
        assert caller.f_back is not None
        name, work = caller.f_code.co_name, caller.f_locals.get("work")
        if work is not None:  # who asked for it
            name = work.__qualname__.partition(".<locals>")[0].rpartition(".")[2]
        batch = caller.f_back.f_locals.get("batch")
        if batch is not None and batch.probes:
            name = "look"
        if batch is not None and any(visit.accepted for visit in batch.visits):
            name = "edit"
        passed[name] += 1
        with transactions.transaction(connection):
            die("after the begin of", name)
            yield
            die("before the commit of", name)
        die("after the commit of", name)

    _sweeps_in_parts()
    for module in (collapsed, runs, databases, writing):
        assert module.transaction is transactions.transaction  # type: ignore[attr-defined]
        module.transaction = transaction  # type: ignore[attr-defined]


def _sweeps_in_parts() -> None:
    assert runs.BATCH > 100
    runs.BATCH = SWEPT_AT_ONCE


def locks() -> None:
    held: list[float] = []
    real = transactions.transaction

    @contextmanager
    def transaction(connection: Connection) -> Iterator[None]:
        with real(connection):
            began = time.monotonic()
            yield
        held.append(time.monotonic() - began)

    _replaced("transaction", real, transaction)
    _at_exit(lambda: print("held:", *(f"{seconds:.4f}" for seconds in held)))


def full(pages: str) -> None:
    real = sqlite.connect_sqlite

    def connect(*args: Any, **kwargs: Any) -> apsw.Connection:
        connection = real(*args, **kwargs)
        if connection.pragma("page_count") > 1:  # not before its tables are made
            connection.pragma("max_page_count", connection.pragma("page_count") + int(pages))
        return connection

    sqlite.connect_sqlite = connect


def objects() -> None:
    gc.disable()

    def told() -> None:
        kinds = (Selector, Response, Request, _Element)
        counts = Counter(
            kind.__name__ for item in gc.get_objects() for kind in kinds if isinstance(item, kind)
        )
        print("alive:", *(f"{kind.__name__}={counts[kind.__name__]}" for kind in kinds))

    _at_exit(told)


def _at_exit(report: Any) -> None:
    """Call `report` when the last crawl is over, in the crawling process."""
    real_end = library.Command._end

    def end(*args: Any) -> None:
        report()
        real_end(*args)

    library.Command._end = end  # type: ignore[method-assign]
    real = crawl.print_crawl_summary

    def print_summary(*args: Any) -> None:
        real(*args)
        report()

    crawl.print_crawl_summary = print_summary


def main() -> None:
    what, *rest = sys.argv[1:]
    match what:
        case "kill":
            kill(rest.pop(0))
        case "step":
            step(rest.pop(0))
        case "full":
            full(rest.pop(0))
        case "locks":
            locks()
        case "objects":
            objects()
        case _:
            raise SystemExit(__doc__)
    execute(["scrapy", *rest])


if __name__ == "__main__":
    main()
