"""Two servers as processes of their own on one registry: a due time is fired once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.server.jobs.conftest import NOW, Office

HOUR, DAY = 3_600, 86_400
MONTH = 30 * DAY
STEP = 2 * HOUR
ROOT = Path(__file__).resolve().parents[3]


class Ticker:
    """One of the processes."""

    def __init__(self, office: Office) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.jobs.ticker", str(office.place)],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def ready(self) -> "Ticker":
        assert self._stdout.readline() == "ready\n"
        return self

    def send(self, now: int) -> None:
        self._stdin.write(f"{now}\n")
        self._stdin.flush()

    def fired(self) -> list[str]:
        line = self._stdout.readline()
        assert line, "the process ended"
        return line.split()

    def kill(self) -> list[str]:
        """Kill it in whatever it does; return what it had reported until then."""
        os.kill(self._process.pid, signal.SIGKILL)
        printed, _ = self._process.communicate()
        return printed.split()


@pytest.mark.long
@pytest.mark.covers("R2-23")
def test_two_servers_of_which_one_dies_fire_each_time_of_a_month_once(office: Office):
    """Both tick at the same moment; one clock is late, is put back at times, and its server dies.

    A server that dies is replaced by one that starts while the other goes on. It may die between
    the transaction of a fire and its report, so the rows of the registry count.
    """
    places = random.Random(23)
    office.create("six-hourly", cron="15 */6 * * *")
    office.create("weekly", cron="30 4 * * 1")
    steady, late = Ticker(office).ready(), Ticker(office).ready()
    deaths = set(range(20, MONTH // STEP, 90))
    starting: Ticker | None = None
    said: list[str] = []
    for step in range(MONTH // STEP):
        now = NOW + (step + 1) * STEP
        if starting is not None and step - 10 in deaths:
            late, starting = starting.ready(), None
        steady.send(now)
        if starting is None:
            late.send(now - places.choice([0, 0, 60, STEP, DAY]))
        if step in deaths:
            said += late.kill()
            starting = Ticker(office)
        said += steady.fired()
        if starting is None:
            said += late.fired()
        office.connection.execute(
            "UPDATE job_run SET state = 'ended', ended_at = ? WHERE state = 'waiting'", (now,)
        )
    for ticker in (steady, late):
        ticker.kill()

    fired = office.rows("SELECT j.name, k.due_at, k.id FROM job_run k JOIN job j ON j.no = k.job")
    due = [time for name, time, _ in fired if name == "six-hourly"]
    assert sorted(due) == list(range(NOW + 2 * HOUR + 900, NOW + MONTH, 6 * HOUR))
    assert Counter(name for name, _, _ in fired) == {"six-hourly": 120, "weekly": 5}
    assert max(Counter(said).values()) == 1
    assert set(said) <= {run for _, _, run in fired}
    assert len(said) >= len(fired) - len(deaths)
    assert office.rows("SELECT count(*) FROM job_run WHERE state = 'skipped'") == [(0,)]
