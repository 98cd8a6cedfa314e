"""Workers of their own processes drain one frontier, whatever happens to them and to Redis."""

import ast
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from redis import Redis

from tests.run.drain import HOSTS, Ledger, waiting

ROOT = Path(__file__).parents[2]
TOTAL = 2_000
_SECONDS = 180


class Crew:
    """Worker processes over one ledger."""

    def __init__(self, url, path):
        self._url = url
        self._path = path
        self.ledger = Ledger(path)
        self.ledger.reach([waiting(1, 0)])
        self.processes = {}

    def start(self, name, **options):
        given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.processes[name] = process = subprocess.Popen(
            [sys.executable, "-m", "tests.run.drain", self._url, self._path, name, *given],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return process

    def until(self, visits):
        """Wait until so many numbers are visited."""
        deadline = time.monotonic() + _SECONDS
        while self.ledger.count() < visits:
            assert time.monotonic() < deadline, f"{self.ledger.count()} visits"
            time.sleep(0.005)

    def end(self):
        """Wait for all, and end who takes too long; return what those who ended well said last."""
        said = {}
        for name, process in self.processes.items():
            watch = threading.Timer(_SECONDS, process.kill)
            watch.start()
            output = process.stdout.read()  # some of it may have been read, and be buffered
            if process.wait() == 0:
                said[name] = json.loads(output.splitlines()[-1])
            watch.cancel()
        return said

    def check(self, *, total=TOTAL, dead=""):
        """Every number was visited, and fetched once; no two held one, but for who was ``dead``."""
        assert self.ledger.numbers(pending=True) == []
        assert self.ledger.count() == total
        fetches = self.ledger.fetches()
        assert set(fetches) == set(range(1, total + 1))
        assert all(len(workers) == 1 for workers in fetches.values())
        assert [row for row in self.ledger.twice() if row[1] != dead] == []


@pytest.fixture
def crew(redis_url, tmp_path):
    made = Crew(redis_url, tmp_path / "ledger.db")
    yield made
    for process in made.processes.values():
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.long(but=1)
@pytest.mark.parametrize("clocks", [(0, 0), (-3_600, 0, 3_600)], ids=["2", "3-an-hour-apart"])
def test_redis_workers_visit_every_number_once(crew, redis_url, clocks):
    for number, clock in enumerate(clocks):
        crew.start(f"w{number}", clock=clock, crew=len(clocks), total=5_000)
    said = crew.end()

    crew.check(total=5_000)
    assert sum(each["visits"] for each in said.values()) == 5_000
    assert all(each["visits"] > 100 for each in said.values())
    assert all(each["stale"] == 0 for each in said.values())
    with Redis.from_url(redis_url) as client:
        assert client.scard("docs:1:ready_domains") == client.hlen("docs:1:claims") == 0
        assert client.hlen("domain:last_crawl") == HOSTS


@pytest.mark.long
def test_redis_worker_that_is_killed_loses_nothing(crew):
    """kill -9 while it holds claims."""
    victim = crew.start("victim", hold_at=20, crew=3)
    crew.start("w1", crew=3)
    crew.start("w2", crew=3)
    held = json.loads(victim.stdout.readline())
    victim.send_signal(signal.SIGKILL)
    crew.end()

    crew.check(dead="victim")
    assert held
    assert all(worker != "victim" for no in held for worker in crew.ledger.fetches()[no])


@pytest.mark.long
def test_redis_worker_that_is_killed_anywhere_loses_nothing(crew):
    """The commit may be made and the ack not: then no worker fetches it again."""
    for name in ("victim", "w1", "w2"):
        crew.start(name, crew=3)
    crew.until(300)
    crew.processes["victim"].send_signal(signal.SIGKILL)
    crew.until(600)
    crew.start("late")
    said = crew.end()

    crew.check(dead="victim")
    assert set(said) == {"w1", "w2", "late"}


@pytest.mark.long
def test_redis_worker_that_slept_past_its_lease_is_told_so(crew):
    """SIGSTOP and SIGCONT: its late ack changes nothing."""
    sleeper = crew.start("sleeper", hold_at=20, lease=1, crew=2)
    crew.start("w1", lease=1, crew=2)
    held = json.loads(sleeper.stdout.readline())
    time.sleep(1.2)  # it is alive and keeps what it holds
    assert crew.ledger.numbers(pending=True)
    sleeper.send_signal(signal.SIGSTOP)
    crew.until(TOTAL)
    sleeper.send_signal(signal.SIGCONT)
    sleeper.stdin.write("\n")
    sleeper.stdin.flush()
    stale = json.loads(sleeper.stdout.readline())
    said = crew.end()

    crew.check(dead="sleeper")
    assert sorted(stale) == sorted(held)
    assert all(crew.ledger.fetches()[no] == ["w1"] for no in held)
    assert set(said) == {"sleeper", "w1"}


@pytest.mark.long
def test_redis_workers_go_on_when_it_is_flushed(crew, redis_url):
    """FLUSHALL in mid-run, twice: nothing is lost, and what the living hold stays theirs."""
    holder = crew.start("holder", hold_at=60, crew=3)
    for name in ("w1", "w2"):
        crew.start(name, crew=3)
    held = json.loads(holder.stdout.readline())
    with Redis.from_url(redis_url) as client:
        for visits in (300, 800):
            crew.until(visits)
            client.flushall()
    crew.until(1_000)
    assert not {waiting.no for waiting in crew.ledger.numbers(pending=False)} & set(held)
    holder.stdin.write("\n")
    holder.stdin.flush()
    stale = json.loads(holder.stdout.readline())
    said = crew.end()

    crew.check()
    assert stale == []
    assert len(said) == 3


@pytest.mark.long
def test_redis_workers_go_on_when_it_starts_again_without_its_data(crew, redis):
    for number in range(3):
        crew.start(f"w{number}", crew=3)
    for visits in (300, 1_000):
        crew.until(visits)
        redis.kill()
        time.sleep(0.2)
        redis.start()
    said = crew.end()

    crew.check()
    assert len(said) == 3


FRONTIER = [
    ROOT / "smartcrawl/run/shared" / name
    for name in ("connection.py", "redis_frontier.py", "scripts.py")
]


@pytest.mark.parametrize("path", FRONTIER, ids=lambda path: path.name)
def test_redis_frontier_never_asks_a_workers_clock(path):
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else
                     [alias.name for alias in node.names])
    }  # fmt: skip

    assert not imported & {"time", "datetime"}
