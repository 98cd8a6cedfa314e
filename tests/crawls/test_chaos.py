"""Workers, Redis, PostgreSQL and Elasticsearch go away at random while a site is crawled.

Whatever happened: what registry and index hold in the end is what one worker over a file, which
nobody disturbed, makes of the same site. What is done, and when, is drawn with CHAOS_SEED (printed
in pytest's header; set it to repeat a run). One run, and two minutes of them with `--all`.

Source: INV-1, 2, 10, 22; docs/operations/losses.md.
"""

import json
import os
import random
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as RedisClient

from tests import servers
from tests.crawls import crew_site
from tests.crawls.commands import Crawl, Scrapy, differences, wait_until
from tests.crawls.crew import Crew, Worker, adds_up, facts
from tests.site_server import Site

SEED = int(os.environ["CHAOS_SEED"])
_WORKERS = 3
_LONG = 120.0  #: seconds
_RUN = 60.0  #: seconds after which a run that is left alone is over
#: What is gone, or not linked, goes in its first run, whoever looked at it before.
AT_ONCE = {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1"}
#: What a worker says that starts while a server is away: it is to be started again.
_AWAY = ("check that the server runs", "start it, or correct REDIS_URL", "is waking up")
#: Columns of facts() that count runs, which an interrupted one makes more of.
_COUNTING = (6, 7, 8)


class Chaos:
    """Crawls with workers that are disturbed, and started again, until the run is complete."""

    def __init__(
        self,
        crew: Crew,
        site: Site,
        redis: servers.Redis,
        postgres: servers.Postgres,
        elasticsearch: servers.Elasticsearch,
        dice: random.Random,
    ) -> None:
        self._crew = crew
        self._site = site
        self._redis, self._postgres = redis, postgres
        self._elasticsearch = elasticsearch
        self._dice = dice
        self._workers: list[Worker] = []
        self._began = 0.0
        self.story: list[str] = []  #: what was done
        #: What may happen, and how often in comparison.
        self.deeds: dict[Callable[[], None], int] = {
            self.kill_worker: 4,
            self.halt_worker: 3,
            self.outlast_worker: 3,
            self.stop_worker: 2,
            self.flush_redis: 2,
            self.kill_redis: 2,
            self.kill_postgres: 3,
            self.kill_both: 1,
            self.halt_elasticsearch: 2,
        }

    def run(self, disturbances: int) -> None:
        """Crawl the site as it is now to a complete end, disturbed so many times."""
        self._note("run")
        first = self._runs()
        asked = len(self._site.log)
        self._workers = self._crew.begin(self._site.url("/"), _WORKERS)
        wait_until(lambda: len(self._site.log) > asked + 5, "the crawl is under way")
        until = time.monotonic() + _RUN + 10 * disturbances
        while not self._is_complete(first) or any(not worker.ended for worker in self._workers):
            assert time.monotonic() < until, f"the run does not end: {self._state()}"
            if disturbances:
                time.sleep(self._dice.uniform(0.2, 1.0))
                [deed] = self._dice.choices([*self.deeds], [*self.deeds.values()])
                self._note(deed.__name__)
                deed()
                disturbances -= 1
            else:
                time.sleep(0.1)
            self._replace(first)
        self._note("complete")

    def _replace(self, first: int) -> None:
        """Start others in the place of those that ended, until the run is complete."""
        gone = [worker for worker in self._workers if worker.ended]
        self._workers = [worker for worker in self._workers if not worker.ended]
        for worker in gone:
            said = worker.result
            at_start = said.status == 1 and any(words in said.err for words in _AWAY)
            assert at_start or said.status in (0, 3, -signal.SIGKILL), f"{self.told()}: {said}"
            assert "Traceback" not in said.err, f"{self.told()}: {said}"
        if not self._is_complete(first):
            missing = _WORKERS - len(self._workers)
            self._workers += [self._crew.join(self._site.url("/")) for _ in range(missing)]

    def _note(self, what: str) -> None:
        self._began = self._began or time.monotonic()
        self.story.append(f"{what} at {time.monotonic() - self._began:.1f} s")

    def _runs(self) -> int:
        found = self._crew.crawl.rows("SELECT to_regclass('run') IS NOT NULL")
        return self._crew.crawl.rows("SELECT count(*) FROM run")[0][0] if found[0][0] else 0

    def _is_complete(self, first: int) -> bool:
        """Whether a run after the `first` ones is."""
        if self._runs() <= first:
            return False
        [(state, complete)] = self._crew.crawl.rows(
            "SELECT state, complete FROM run ORDER BY no DESC LIMIT 1"
        )
        return state == 4 and bool(complete)

    def told(self) -> str:
        return f"seed {SEED}: {', '.join(self.story)}"

    def _state(self) -> str:
        """What is known of a run that does not end."""
        rows = self._crew.crawl.rows
        told = [self.told()]
        told += map(str, rows("SELECT no, state, reasons, job FROM run"))
        told += map(str, rows("SELECT pid, run, closes, now() - beat FROM lease"))
        told += [f"{worker.pid}: {worker.said}" for worker in self._workers]
        with RedisClient.from_url(self._crew.redis_url) as client:
            told += [f"{key}: {client.type(key)}" for key in client.scan_iter()]
        return "\n".join(told)

    # What may happen

    def _some(self) -> list[Worker]:
        """One worker that is there, if any is."""
        there = [worker for worker in self._workers if not worker.ended]
        return [self._dice.choice(there)] if there else []

    def kill_worker(self) -> None:
        for worker in self._some():
            self._crew.kill(worker)

    def halt_worker(self) -> None:
        """Not for so long that it is taken for dead."""
        for worker in self._some():
            worker.signal(signal.SIGSTOP)
            time.sleep(self._dice.uniform(0.2, 1.5))
            worker.signal(signal.SIGCONT)

    def outlast_worker(self) -> None:
        """For so long that others take over what it holds."""
        for worker in self._some():
            worker.signal(signal.SIGSTOP)
            self._crew.bury(worker)
            time.sleep(self._dice.uniform(0.2, 1.5))
            worker.signal(signal.SIGCONT)

    def stop_worker(self) -> None:
        for worker in self._some():
            if "Spider opened" in worker.said:  # earlier ones die of it, as any process does
                worker.signal(self._dice.choice([signal.SIGTERM, signal.SIGINT]))

    def flush_redis(self) -> None:
        with RedisClient.from_url(self._redis.url) as client:
            client.flushall()

    def kill_redis(self) -> None:
        self._redis.kill()
        time.sleep(self._dice.uniform(0, 1.5))
        self._redis.start()

    def kill_postgres(self) -> None:
        self._postgres.kill()
        time.sleep(self._dice.uniform(0, 1.5))
        self._postgres.start()

    def kill_both(self) -> None:
        self._redis.kill()
        self._postgres.kill()
        self._redis.start()
        self._postgres.start()

    def halt_elasticsearch(self) -> None:
        family = self._elasticsearch.processes()
        for relative in family:
            os.kill(relative.pid, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0.5, 2))
        for relative in family:
            os.kill(relative.pid, signal.SIGCONT)

    def kill_elasticsearch(self) -> None:
        self._elasticsearch.kill()
        self._elasticsearch.start()


class Reference:
    """What one worker over a file makes of the same site."""

    def __init__(self, crawl: Crawl, site: Site) -> None:
        self._crawl = crawl
        self.url = site.url("/")
        crawl.environment |= AT_ONCE

    def run(self) -> None:
        self._crawl(self.url)

    def facts(self) -> dict[str, Any]:
        return but_for_counts(facts(self._crawl))

    def texts(self) -> Counter[str]:
        """What the index holds of each content, as often as it holds it."""
        rows = self._crawl.rows("SELECT content, text FROM chunk ORDER BY content, position")
        found: dict[int, list[str]] = {}
        for content, text in rows:
            found.setdefault(content, []).append(text)
        return Counter("\n".join(texts) for texts in found.values())


def but_for_counts(known: dict[str, Any]) -> dict[str, Any]:
    """Facts without what the number of runs decides, and without the index."""
    records = {
        url: [value for place, value in enumerate(row) if place not in _COUNTING]
        for url, row in known["records"].items()
    }
    return known | {"records": records, "chunks": None}


def texts_in(elasticsearch: servers.Elasticsearch, prefix: str) -> Counter[str]:
    """What Elasticsearch holds of each page, tombstones left out."""
    elasticsearch.ask("POST", f"/{prefix}-pages*/_refresh")
    body = json.dumps({"size": 5_000, "query": {"match_all": {}}}).encode()
    request = urllib.request.Request(
        f"{elasticsearch.url}/{prefix}-pages*/_search", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        hits = [hit["_source"] for hit in json.load(answer)["hits"]["hits"]]
    return Counter(
        "\n".join(
            value
            for chunk in hit["chunks"]
            for name, value in chunk.items()
            if name.startswith("text")
        )
        for hit in hits
        if not hit.get("deleted")
    )


@pytest.fixture
def reference(tmp_path: Path, ask: Scrapy, site: Site) -> Reference:
    folder = tmp_path / "reference"
    folder.mkdir()
    return Reference(Crawl(folder, ask), site)


@pytest.fixture
def chaos(
    crew: Crew,
    site: Site,
    redis: servers.Redis,
    postgres: servers.Postgres,
    own_elasticsearch: servers.Elasticsearch,
    own_elasticsearch_prefix: str,
) -> Iterator[Chaos]:
    crew.crawl.environment |= AT_ONCE | {
        "ELASTICSEARCH_URL": own_elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": own_elasticsearch_prefix,
    }
    made = Chaos(crew, site, redis, postgres, own_elasticsearch, random.Random(SEED))
    yield made
    print(made.told())


def ends_alike(
    crew: Crew, reference: Reference, own_elasticsearch: servers.Elasticsearch, chaos: Chaos
) -> None:
    """Let both crawl the site as it is now once more, undisturbed, and compare."""
    crew.run(reference.url)
    reference.run()

    wrong = "\n".join(differences(but_for_counts(facts(crew.crawl)), reference.facts()))
    assert not wrong, f"{chaos.told()}\n{wrong}"
    assert adds_up(crew.crawl), chaos.told()
    prefix = crew.crawl.environment["ELASTICSEARCH_INDEX_PREFIX"]
    assert texts_in(own_elasticsearch, prefix) == reference.texts(), chaos.told()
    assert crew.crawl.rows("SELECT count(*) FROM state WHERE intent > number") == [(0,)]
    crew.crawl.run("audit")  # exit status 0: they agree page by page


@pytest.mark.long
def test_workers_in_chaos_find_what_one_finds(
    chaos: Chaos,
    crew: Crew,
    site: Site,
    reference: Reference,
    own_elasticsearch: servers.Elasticsearch,
):
    crew_site.build(site, delay=0.04)
    reference.run()
    chaos.run(5)

    ends_alike(crew, reference, own_elasticsearch, chaos)


@pytest.mark.long
def test_workers_in_two_minutes_of_chaos_find_what_one_finds(
    chaos: Chaos,
    crew: Crew,
    site: Site,
    reference: Reference,
    own_elasticsearch: servers.Elasticsearch,
):
    chaos.deeds[chaos.kill_elasticsearch] = 1
    crew.haste = 0  # as it is outside of tests
    crew_site.build(site, delay=0.04)
    until, states, dice = time.monotonic() + _LONG, 0, random.Random(SEED)
    while time.monotonic() < until:
        reference.run()
        chaos.run(dice.randrange(2, 7))
        states += 1
        crew_site.edit(site, random.Random(f"{SEED}/{states}"), delay=0.04)

    assert states > 2
    ends_alike(crew, reference, own_elasticsearch, chaos)
