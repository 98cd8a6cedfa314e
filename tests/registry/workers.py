"""Workers of a run that stand still before each step, until they are told to go on.

A worker is a thread. It stands before each transaction, before it reads what is open, and before
each write to the index. A transaction is one step, since all of a run begin with the run's row; it
is a savepoint, so that everything can be undone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

from smartcrawl.index.writing import Taken
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import IndexedPage
from smartcrawl.model.exceptions import RunOverError
from smartcrawl.registry.connection import WRITING, Connection
from tests.registry.build import Elsewhere

#: How often a worker has tried, and how much it has mended, changes nothing that it does next.
_COUNTERS = {"_", "count"}
_PLAIN = (int, str, bytes, bool, type(None))


class Killed(BaseException):
    """The process is gone."""


class BrokenError(AssertionError):
    """Something is not as it must be, after these actions."""


@dataclass(frozen=True)
class Sent:
    """A write to the index that is about to happen."""

    pages: Sequence[IndexedPage]
    number: int


class Shelf:
    """An index with external versions (`external_gte`) and tombstones."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, IndexedPage]] = {}  #: by record: claim number, document
        self.checks = True  #: whether versions count

    def take(self, page: IndexedPage, number: int) -> str | None:
        """Take one document; see `PageIndex.write`."""
        before = self.held.get(page.no)
        if before is not None and self.checks:
            if number < before[0]:
                return ""
            if number == before[0] and page != before[1]:
                raise BrokenError(f"number {number} stands for two documents of {page.no}")
        self.held[page.no] = number, page
        return None

    def mark(self, no: int) -> bytes | None:
        """The hash of what a search finds of a record."""
        return self.held[no][1].mark if no in self.held else None

    def state(self) -> list[tuple[int, int, bytes | None]]:
        """Everything that counts."""
        return [(no, number, page.mark) for no, (number, page) in sorted(self.held.items())]


class Worker:
    """One worker of a run: a thread that goes on when it is told to."""

    def __init__(self, name: str, body: Callable[[Worker], None]) -> None:
        self.name = name
        self.at: Sent | str = "begin"
        self.end = ""  #: how it ended: done, over (the run was), dead
        self.failure: Exception | None = None
        self._body = body
        self._reply: Any = None
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None

    def go(self, reply: Any = None) -> None:
        """Let it do one step, with this reply of the index."""
        self._reply = reply
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def kill(self) -> None:
        """Let it die where it stands."""
        if self._thread is None:
            self.end = "dead"
        elif not self.end:
            self.go(Killed())

    def stop(self, at: Sent | str) -> Any:
        """Stand still until told to go on; in its thread."""
        self.at = at
        self._back.release()
        self._go.acquire()
        if isinstance(self._reply, Killed):
            raise self._reply
        return self._reply

    def _work(self) -> None:
        try:
            self._body(self)
            self.end = "done"
        except Killed:
            self.end = "dead"
        except RunOverError:
            self.end = "over"
        except Exception as error:  # noqa: BLE001 -- told to whoever explores
            self.end, self.failure = "failed", error
        self._back.release()

    def key(self) -> object:
        """Where it stands and what it remembers."""
        if self.end or self._thread is None:
            return self.end
        assert self._thread.ident is not None
        frame: FrameType | None = sys._current_frames()[self._thread.ident]
        found: list[object] = []
        while frame is not None:
            name = frame.f_globals["__name__"]
            if name.startswith("smartcrawl.") or frame.f_code.co_name in ("_end", "write"):
                remembered = _remembered(frame.f_locals)
                found.append((frame.f_code.co_name, frame.f_lasti, remembered))
            frame = frame.f_back
        return found


def _remembered(value: Any) -> Any:
    """What a frame holds of a worker's own, without what is read anew."""
    match value:
        case bool() | int() | str() | bytes() | None:
            return value
        case Taken():
            return value.marks, value.versions, value.dead, value.overtaken
        case IndexedPage():
            return value.no, value.mark
        case Batch():
            addresses = [(a.no, a.discovered_from) for a in value.addresses]
            visits = [(v.page.no, str(v.outcome), v.parsed.targets) for v in value.visits]
            return addresses, visits, value.reached
        case dict():
            return {
                name: _remembered(value)
                for name, value in value.items()
                if isinstance(name, _PLAIN) and name not in _COUNTERS
            }
        case list() | tuple() | set() | frozenset():
            return [_remembered(v) for v in value]
        case _ if isinstance(value, type({}.keys())):
            return sorted(value)
    return type(value).__name__


class Gate:
    """A worker's connection: it stands still before each transaction, and all can be undone."""

    def __init__(self, within: Connection, stop: Callable[[str], object]) -> None:
        self._within = within
        self._stop = stop
        self.in_transaction = False

    @property
    def dialect(self) -> str:
        return self._within.dialect

    @property
    def is_read_only(self) -> bool:
        return self._within.is_read_only

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Run a statement; transactions are savepoints of the one that is undone in the end."""
        match statement:
            case str() if statement == WRITING:
                self._stop("transaction")
                self.in_transaction = True
                return self._within.execute("SAVEPOINT step")
            case "COMMIT":
                self.in_transaction = False
                return self._within.execute("RELEASE SAVEPOINT step")
            case "ROLLBACK":
                self.in_transaction = False
                self._within.execute("ROLLBACK TO SAVEPOINT step")
                return self._within.execute("RELEASE SAVEPOINT step")
        if not self.in_transaction and "s.intent" in statement:
            self._stop("reading")
        return self._within.execute(statement, values)

    def executemany(self, statement: str, values: Any) -> Any:
        return self._within.executemany(statement, values)

    def fill(self, table: str, columns: Sequence[str], rows: Any) -> None:
        self._within.fill(table, columns, rows)

    def changes(self) -> int:
        return self._within.changes()

    def close(self, force: bool = False) -> None:
        """Others use the connection, too."""


@dataclass
class Remote(Elsewhere):
    """The index as one worker reaches it."""

    send: Callable[[Sent], list[str | None]]

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        return self.send(Sent(tuple(pages), number))


@dataclass(frozen=True)
class Place:
    """The database of a worker."""

    gate: Gate

    def connect(self, *, readonly: bool = False) -> Gate:
        return self.gate

    def translated(self, doing: str) -> AbstractContextManager[None]:
        return nullcontext()

    def retried(self, work: Callable[[], Any]) -> Any:
        return work()

    def check_place(self, connection: Any) -> None:
        """It is where it was."""

    def is_of_data(self, error: Exception) -> bool:
        return False


def never_stops(_: str) -> None:
    """Nobody else is there."""
