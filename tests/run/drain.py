"""A worker of its own process that drains a frontier, over a ledger that stands for the registry.

Number n leads to 4n - 2 … 4n + 1, so 1 leads to all; it lies on host n % HOSTS.
"""

import json
import sqlite3
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.redis_frontier import ClaimHeartbeat
from smartcrawl.run.shared.scripts import FrontierClaim, FrontierNumber
from tests.run.stepped import Stepped

HOSTS = 7
_SCHEMA = """
CREATE TABLE IF NOT EXISTS number (no INTEGER PRIMARY KEY, depth INTEGER, visited_by TEXT);
CREATE TABLE IF NOT EXISTS fetch (no INTEGER, worker TEXT);
CREATE TABLE IF NOT EXISTS held (no INTEGER, worker TEXT);
CREATE TABLE IF NOT EXISTS twice (no INTEGER, one TEXT, other TEXT);
"""


def waiting(no: int, depth: int) -> FrontierNumber:
    return FrontierNumber(no, f"h{no % HOSTS}.example", depth)


class Ledger:
    """What is reached, what is visited, and every fetch; other processes see it at once."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing by that
        self._db.executescript(_SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        yield
        self._db.execute("COMMIT")

    def reach(self, numbers: Iterable[FrontierNumber]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO number VALUES (?, ?, NULL)",
            [(one.no, one.depth) for one in numbers],
        )

    def visited(self, no: int) -> bool:
        [[by]] = self._db.execute("SELECT visited_by FROM number WHERE no = ?", [no])
        return by is not None

    def hold(self, no: int, worker: str) -> None:
        """Note who holds a number, and who does so already."""
        self._db.execute(
            "INSERT INTO twice SELECT no, worker, ? FROM held WHERE no = ?", [worker, no]
        )
        self._db.execute("INSERT INTO held VALUES (?, ?)", [no, worker])

    def let_go(self, no: int, worker: str) -> None:
        self._db.execute("DELETE FROM held WHERE no = ? AND worker = ?", [no, worker])

    def twice(self) -> list[tuple[int, str, str]]:
        """Numbers that two workers held at a time."""
        return self._db.execute("SELECT no, one, other FROM twice").fetchall()

    def fetch(self, no: int, worker: str) -> None:
        self._db.execute("INSERT INTO fetch VALUES (?, ?)", [no, worker])

    def visit(self, no: int, worker: str) -> None:
        self._db.execute("UPDATE number SET visited_by = ? WHERE no = ?", [worker, no])

    def numbers(self, *, pending: bool) -> list[FrontierNumber]:
        rows = self._db.execute(
            "SELECT no, depth FROM number WHERE (visited_by IS NULL) = ? ORDER BY depth, no",
            [pending],
        )
        return [waiting(no, depth) for no, depth in rows]

    def count(self) -> int:
        return self._db.execute("SELECT count(*) FROM number WHERE visited_by NOTNULL").fetchone()[
            0
        ]

    def fetches(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for no, worker in self._db.execute("SELECT no, worker FROM fetch ORDER BY rowid"):
            found.setdefault(no, []).append(worker)
        return found


class Worker:
    """Claims, visits and commits until the ledger has nothing pending."""

    def __init__(self, frontier: Stepped, ledger: Ledger, total: int, settle: float) -> None:
        self._frontier = frontier
        self._ledger = ledger
        self._total = total
        self._settle = settle
        self.visits = self.stale = 0

    def refill(self) -> None:
        """Fill Redis until it keeps what it is given."""
        while True:
            try:
                if self._frontier.recover(self._settle):
                    self.fill()
                return
            except FrontierError:
                time.sleep(0.05)

    def fill(self) -> None:
        numbers = (self._ledger.numbers(pending=pending) for pending in (True, False))
        self._frontier.refill(*numbers)

    def drain(self, hold_at: int) -> None:
        done: list[FrontierClaim] = []
        found: list[FrontierNumber] = []
        while True:
            try:
                result = self._frontier.exchange(10, done=done, found=found)
                done, found = [], []
                self.stale += len(result.stale)
                if not result.claims and self._frontier.idle():
                    if not self._ledger.numbers(pending=True):
                        return
                    self.fill()
            except FrontierLostError:
                done, found = [], []  # the ledger has them
                self.refill()
                continue
            except FrontierError:
                done, found = [], []  # the frontier tells them later
                time.sleep(0.05)
                continue
            with self._ledger.transaction():
                for claim in result.claims:
                    self._ledger.hold(claim.no, self._frontier.worker)
            if not result.claims:
                time.sleep(min(0.05, result.wait or 0.05))
            if hold_at and self.visits >= hold_at and result.claims:
                self._hold(result.claims)
                hold_at = 0
                continue
            found = self._visit(result.claims)
            done = result.claims

    def _visit(self, claims: list[FrontierClaim]) -> list[FrontierNumber]:
        """Fetch what nobody has visited, and commit it with what it leads to."""
        found = []
        with self._ledger.transaction():
            for claim in claims:
                self._ledger.let_go(claim.no, self._frontier.worker)
                if self._ledger.visited(claim.no):
                    continue
                self._ledger.fetch(claim.no, self._frontier.worker)
                self._ledger.visit(claim.no, self._frontier.worker)
                self.visits += 1
                children = range(4 * claim.no - 2, min(4 * claim.no + 1, self._total) + 1)
                found += [waiting(no, claim.depth + 1) for no in children]
            self._ledger.reach(found)
        return found

    def _hold(self, claims: list[FrontierClaim]) -> None:
        """Say what is held, and hold it until a line comes; then say which of it is stale.

        It is not visited, as if the commit had failed: the ledger has it refilled.
        """
        print(json.dumps([claim.no for claim in claims]), flush=True)
        sys.stdin.readline()
        with self._ledger.transaction():
            for claim in claims:
                self._ledger.let_go(claim.no, self._frontier.worker)
        print(json.dumps([claim.no for claim in self._frontier.ack(claims)]), flush=True)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("ledger", type=Path)
    parser.add_argument("worker")
    parser.add_argument("--total", type=int, default=2_000)
    parser.add_argument("--lease", type=float, default=3)
    parser.add_argument("--crew", type=int, default=1, help="workers to wait for")
    parser.add_argument("--hold-at", type=int, default=0, help="visits after which claims are held")
    parser.add_argument("--clock", type=float, default=0, help="seconds by which it is wrong")
    given = parser.parse_args()
    if given.clock:
        right = time.time
        time.time = lambda: right() + given.clock
    frontier = Stepped(
        connect_redis(given.url), "docs", 1, per_host=50, worker=given.worker, lease=given.lease
    )
    ledger = Ledger(given.ledger)
    worker = Worker(frontier, ledger, given.total, settle=given.lease / 2)
    if frontier.begin():
        worker.fill()
    heartbeat = ClaimHeartbeat(frontier, lambda gone: None, given.lease / 6)
    heartbeat.start()
    while frontier.census().workers < given.crew:
        time.sleep(0.01)
    worker.drain(given.hold_at)
    heartbeat.stop()
    print(json.dumps({"visits": worker.visits, "stale": worker.stale}), flush=True)


if __name__ == "__main__":
    main()
