"""Workers that share runs, each the real command in a process of its own, and what came of it."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from redis import Redis

from smartcrawl.registry.pack import unpack_stored_numbers
from tests.crawls.commands import Crawl, Result
from tests.servers.processes import state_of

_SECONDS = 240  #: a lease of 60 s may run out first, on a machine that is busy
#: Seconds between two signs of life of a worker, and of waiting after Redis lost everything.
HASTE = 0.5


class Worker:
    """One worker, which goes on in the background."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._folder = folder

    @property
    def ended(self) -> bool:
        return (self._folder / "status").is_file()

    @property
    def stands_still(self) -> bool:
        """Whether it was sent SIGSTOP, which has come to pass."""
        return state_of(self.pid) == "T"

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> Result:
        """Wait until it ends."""
        until = time.monotonic() + _SECONDS
        while not self.ended:
            assert time.monotonic() < until, f"a worker does not end\n{self.said}"
            time.sleep(0.02)
        return self.result

    @property
    def result(self) -> Result:
        out, err = ((self._folder / name).read_text("utf-8") for name in ("out", "err"))
        return Result(int((self._folder / "status").read_text()), out, err)

    @property
    def said(self) -> str:
        return (self._folder / "err").read_text("utf-8")


class Crew:
    """Starts workers of the same job, and ends those that a test leaves."""

    def __init__(self, crawl: Crawl, redis_url: str) -> None:
        self.crawl = crawl
        self.redis_url = redis_url
        self._folder = crawl.folder / "crew"
        self._begun: list[Worker] = []
        self.job = ""
        self.haste = HASTE

    def begin(
        self, url: str | None, count: int = 3, *, job: str | None = None, **environment: str
    ) -> list[Worker]:
        """Start workers; without the name of a `job` it is a new one.

        Without `url` they crawl the one source that is declared.
        """
        self.job = job or uuid4().hex
        return [self.join(url, **environment) for _ in range(count)]

    def join(
        self,
        url: str | None,
        *,
        max_pages: int | None = None,
        resume: bool = False,
        **environment: str,
    ) -> Worker:
        """Start one more worker of the same job."""
        folder = self._folder / str(len(self._begun))
        folder.mkdir(parents=True)
        own = {"ARRANGED_BY": "tests.crawls.arranged", **environment}
        if self.haste:
            own["HASTE"] = str(self.haste)
        given = {} if max_pages is None else {"max_pages": max_pages}
        given |= {"resume": 1} if resume else {}
        pid = self.crawl.begin(url, folder=folder, environment=own, job=self.job, **given)
        self._begun.append(Worker(pid, folder))
        return self._begun[-1]

    def run(self, url: str, count: int = 3) -> list[Result]:
        """Crawl with several workers to the end, all of which say that it is complete."""
        return self.end(*self.begin(url, count))

    def end(self, *workers: Worker, statuses: tuple[int, ...] = (0,)) -> list[Result]:
        """Wait for workers, which end with one of these statuses, and without a traceback."""
        self.crawl._told.clear()
        results = [worker.end() for worker in workers]
        told = "".join(f"[{place}] {result}\n" for place, result in enumerate(results))
        assert {result.status for result in results} <= {*statuses}, told
        assert "Traceback" not in told, told
        return results

    def kill(self, *workers: Worker) -> None:
        """Kill workers, and let the time pass after which they are taken for dead."""
        for worker in workers:
            worker.signal(signal.SIGKILL)
        for worker in workers:
            worker.end()
        self.bury(*workers)

    def bury(self, *workers: Worker) -> None:
        """Let so much time pass that workers that are not heard of are taken for dead."""
        for worker in workers:
            self.crawl.rows(
                f"UPDATE lease SET beat = beat - interval '1 hour' WHERE pid = {worker.pid}"
            )
            with Redis.from_url(self.redis_url, decode_responses=True) as client:
                for claims in client.scan_iter("*:claims"):
                    _expire(client, claims.removesuffix("claims"), worker.pid)

    def close(self) -> None:
        for worker in self._begun:
            if not worker.ended:
                with suppress(ProcessLookupError):
                    worker.signal(signal.SIGKILL)
                worker.end()


def _expire(client: Redis, run: str, pid: int) -> None:
    """Let the leases of what a worker holds in a run be over."""
    claims: Any = client.hgetall(f"{run}claims")
    for number, told in claims.items():
        claim = json.loads(told)
        if claim["worker"].split(":")[-2] == str(pid):
            client.zadd(f"{run}leases", {number: 1}, xx=True)
            client.zadd(f"domain:flying:{claim['host']}", {f"{run}{number}": 1}, xx=True)


@contextmanager
def crew_of(crawl: Crawl, redis_url: str) -> Iterator[Crew]:
    crew = Crew(crawl, redis_url)
    try:
        yield crew
    finally:
        crew.close()


# What came of it, by URL: nothing of it depends on numbers, on times, or on who did what when

_RECORDS = """
SELECT r.url, r.kind, s.depth, s.status, s.standing, s.outcome, s.http_status, s.lost_count,
       s.gone_count, s.error_count, s.intent > 0, s.reached_run = s.visited_run,
       nullif(hex(coalesce(c.content_hash, r.content_hash)), ''), nullif(hex(c.text_hash), ''),
       c.title, r.entry,
       o.url, n.url, r.redirect_target, r.etag, r.mode
  FROM record r JOIN state s USING (no) LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of LEFT JOIN record n ON n.no = r.canonical_no
"""
_LINKS = "SELECT r.url, l.targets FROM links l JOIN record r USING (no)"
_CHUNKS = """
SELECT c.content_hash, k.position, k.title, k.headings, k.text
  FROM chunk k LEFT JOIN content c ON c.no = k.content
"""
_CANDIDATES = "SELECT r.url, c.rule, c.probe FROM candidate c JOIN record r USING (no)"
_EVIDENCE = "SELECT r.url, e.rule FROM evidence e JOIN record r ON r.no = e.record"
_RUN = "SELECT state, complete, reasons, counts, removed, withheld, visits FROM run ORDER BY no"
_VISITS = """
SELECT r.visits, (SELECT count(*) FROM state s WHERE s.visited_run = r.no)
  FROM run r ORDER BY r.no DESC LIMIT 1
"""


def facts(crawl: Crawl) -> dict[str, Any]:
    """Everything that the registry and the embedded index know, but for times and numbers."""
    urls = dict(crawl.rows("SELECT no, url FROM record"))
    *_, ended = crawl.rows(_RUN)
    state, complete, reasons, counts, *more = ended
    return {
        "records": {url: [_plain(value) for value in row] for url, *row in crawl.rows(_RECORDS)},
        "links": {
            url: sorted(urls[number] for number in unpack_stored_numbers(targets))
            for url, targets in crawl.rows(_LINKS)
        },
        "chunks": Counter(map(str, crawl.rows(_CHUNKS))),
        "candidates": sorted(crawl.rows(_CANDIDATES)),
        "evidence": sorted(crawl.rows(_EVIDENCE)),
        "run": [int(state), bool(complete), json.loads(reasons), json.loads(counts), *more],
    }


def adds_up(crawl: Crawl) -> bool:
    """Whether the visits of the last run are one for each address that it visited."""
    [(run,)] = crawl.rows("SELECT max(no) FROM run")
    assert crawl.counted(run)
    [(counted, visited)] = crawl.rows(_VISITS)
    return bool(counted == visited > 0)


def _plain(value: Any) -> Any:
    """Return what both databases say alike."""
    return int(value) if isinstance(value, bool) else value
