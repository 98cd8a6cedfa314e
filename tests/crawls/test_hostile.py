"""Whatever a server does to us: kinds of misbehaviour, crawled twice into one registry.

`script/test --all` crawls every kind, and `script/test` one in three of each group.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from smartcrawl.rules.http import outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.reindex import decide
from tests.crawls.commands import WORDS, Crawl, Record, Result, Scrapy
from tests.hostile.kinds import NEW, Kind, Told
from tests.hostile_server import GOOD, KINDS, HostileServer
from tests.tiers import some

_MEMORY = 300 * 1024  #: KiB
_RUNS = (1, 2)
#: Impatient, and never done with the host, though most of what it answers is no answer.
_SETTINGS: dict[str, object] = {
    "DOWNLOAD_TIMEOUT": 20,  # large answers come beside 500 others, on a machine that is busy
    "DOWNLOAD_MAXSIZE": 4 * 1024 * 1024,
    "RETRY_TIMES": 0,
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "HOST_FAILURES_TO_PARK": 1_000_000,
    "LOG_LEVEL": "WARNING",
}
#: Kinds that a test speaks of.
_NAMED = ("/validator/k9", "/validator/date_future", "/validator/star")
#: Kinds that are crawled.
CRAWLED = some(KINDS, 6, always=lambda kind: kind.reason or kind.path in _NAMED)
#: `scrapy` with a third of the patience for slow bodies; it tells the most memory that it had.
#: Not ru_maxrss: that of a child begins with what its parent had.
_SCRAPY = """
import atexit, re, sys
from smartcrawl.engine.download import decoding
assert decoding._PATIENCE == 10
decoding._PATIENCE = 3

def tell():
    print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

atexit.register(tell)
from scrapy.cmdline import execute
execute(["scrapy", *sys.argv[1:]])
"""


@dataclass
class Crawled:
    """What both runs left behind."""

    server: HostileServer
    crawl: Crawl
    results: dict[int, Result] = field(default_factory=dict)
    records: dict[int, dict[str, Record]] = field(default_factory=dict)  #: by run and path
    runs: dict[int, Record] = field(default_factory=dict)

    def run(self, number: int) -> None:
        self.server.round = number
        args = self.crawl._crawl_arguments(self.server.url(), "site", _SETTINGS, {})
        self.results[number] = self.crawl.python("-c", _SCRAPY, *args, expect=None, traceback=True)
        self.runs[number] = self.crawl.runs()[0]
        self.records[number] = {
            _path(record["url"].removeprefix(self.server.origin)): record
            for record in self.crawl.records()
        }


def _path(path: str) -> str:
    """Return a path without the slash at its end, which is that of the last answer."""
    return path if path == "/" else path.removesuffix("/")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[Crawled]:
    """The hostile site after two runs; nothing may be crawled on it any more."""
    with HostileServer(tuple(CRAWLED)) as server:
        crawled = Crawled(server, Crawl(tmp_path_factory.mktemp("hostile"), ask))
        for number in _RUNS:
            crawled.run(number)
        yield crawled


def held(kind: Kind) -> Told:
    """What becomes of a page that is held when it takes to this misbehaviour."""
    if kind.held is not None:
        return kind.held
    status = kind.first.status
    assert status is not None
    if kind.first.word == "excluded":
        outcome = Outcome.NOT_ACCEPTABLE
    elif status in set(Fault):
        outcome = Fault(status).outcome
    else:
        outcome = outcome_of_http_status(status, conditional=True)
    return kind.first._replace(word=decide(Standing.HELD, outcome).word.word)


def cases() -> list[tuple[int, str, Told]]:
    """Return run, path and record of each page."""
    found: list[tuple[int, str, Told]] = []
    for kind in CRAWLED:
        found += [(1, kind.path, kind.first), (2, kind.path, kind.then)]
        if kind.twin is not None:
            found += [(1, kind.twin, NEW), (2, kind.twin, held(kind))]
    return found


def _says(message: str | None, words: str) -> bool:
    return words.lower() in (message or "").lower()


def test_each_kind_is_recorded_as_what_it_is(crawled: Crawled):
    """ATT-29, ATT-41, and kinds of other attacks.

    One test for all pages: more of them would run beside each other, and each process of pytest
    would crawl the whole site for its share.
    """
    wrong = []
    for run, path, expected in cases():
        record = crawled.records[run][path]
        message = record["errorMessage"]
        fits = message is None if expected.message is None else _says(message, expected.message)
        if (record["lastOutcome"], record["lastStatusCode"]) != expected[:2] or not fits:
            wrong.append(
                (run, path, expected, record["lastOutcome"], record["lastStatusCode"], message)
            )
    assert len(cases()) > 2.9 * len(CRAWLED), "two runs, and the twin of every second kind"
    assert wrong == []


def test_pages_in_order_are_new_and_then_unchanged(crawled: Crawled):
    for path in GOOD:
        first, second = (crawled.records[run][path] for run in _RUNS)
        assert (first["lastOutcome"], first["httpStatusCode"]) == ("new", 200)
        assert (second["lastOutcome"], second["lastStatusCode"]) == ("unchanged", 304)
        asked = [crawled.server.count(path, round=run) for run in _RUNS]
        # The engine asks again where another page's answer ended the connection (ADR 32).
        assert asked in ([1, 1], [1, 2])
    assert [crawled.records[run]["/"]["lastOutcome"] for run in _RUNS] == ["new", "unchanged"]


def test_nothing_that_a_server_says_is_an_error_of_ours(crawled: Crawled):
    for run, result in crawled.results.items():
        assert "Traceback" not in result.err + result.out, result
        statuses = {record["httpStatusCode"] for record in crawled.records[run].values()}
        assert Fault.PROCESSING not in statuses


def test_nobody_else_is_asked(crawled: Crawled):
    assert crawled.server.victim_hits == []
    host = crawled.server.origin.removeprefix("http://")
    assert {request.headers.get("host", host) for request in crawled.server.log} == {host}


def test_what_is_not_to_be_believed_leads_nowhere_and_is_held_nowhere(crawled: Crawled):
    """Neither error bodies nor halves of pages nor second answers."""
    asked = {request.path for request in crawled.server.log}

    assert {path for path in asked if path.startswith(("/never", "/forbidden"))} == set()
    assert [hit["url"] for hit in crawled.crawl.search("unbelievable")] == []


def test_what_never_was_a_page_is_held_as_nothing(crawled: Crawled):
    hashes = ("contentHash", "textHash", "bodyHash", "lastIndexed", "httpEtag")
    for kind in CRAWLED:
        if kind.first.word == "failed":
            for run in _RUNS:
                record = crawled.records[run][kind.path]
                assert [record[name] for name in hashes] == [None] * len(hashes), record


def test_what_was_held_outlives_every_misbehaviour(crawled: Crawled):
    survivors = 0
    for kind in CRAWLED:
        if kind.twin is not None and held(kind).word in ("failed", "lost"):
            before, after = (crawled.records[run][kind.twin] for run in _RUNS)
            for name in ("contentHash", "textHash", "bodyHash", "httpEtag", "lastIndexed"):
                assert after[name] == before[name], after
            assert before["contentHash"] is not None
            survivors += 1
    assert survivors > len(CRAWLED) / 6


def test_each_record_has_one_word_and_the_run_counts_them_all(crawled: Crawled):
    for run in _RUNS:
        records = crawled.records[run].values()
        assert {record["lastOutcome"] for record in records} <= set(WORDS)
        assert sum(crawled.runs[run][word] for word in WORDS) == len(records)


def test_the_run_is_incomplete_and_says_why(crawled: Crawled):
    for run in _RUNS:
        told = crawled.runs[run]
        assert not told["complete"]
        assert crawled.results[run].status == 3
        assert any(reason.startswith("unreachable: ") for reason in told["reasons"])
        assert f"too_many_links: {crawled.server.url('/markup/links_60000')}" in told["reasons"]


@pytest.mark.parametrize(
    "kind", [kind for kind in CRAWLED if kind.reason], ids=lambda kind: kind.path[1:]
)
def test_what_is_not_followed_is_among_the_reasons(crawled: Crawled, kind: Kind):
    reasons = crawled.runs[1]["reasons"]
    assert any(reason.startswith(str(kind.reason)) for reason in reasons), reasons


def test_a_maze_is_left_before_its_end(crawled: Crawled):
    for kind in CRAWLED:
        if kind.group == "maze" and kind.reason:
            rooms = {
                request.path
                for request in crawled.server.log
                if re.match(rf"{kind.path}(?:[/?;]|\Z)", request.path) and request.round == 1
            }
            assert 1 < len(rooms) < 40, kind


def test_nothing_is_sent_that_a_server_planted(crawled: Crawled):
    """Neither passwords nor referrers nor lines within lines; a cookie to its own page alone."""
    planted = {"authorization", "proxy-authorization", "referer", "x-split", "upgrade"}
    for request in crawled.server.log:
        assert not planted & request.headers.keys(), request
        own = "/redirect/cookie_" in request.path
        assert request.headers.get("cookie") in (None, "seen=1" if own else None), request
        assert request.method == "GET"
        assert re.fullmatch(r"/[!-~]{0,2082}", request.path), request


def test_a_validator_that_proves_nothing_is_not_kept(crawled: Crawled):
    records = crawled.records[2]
    assert records["/validator/k9"]["httpEtag"] is None
    assert records["/validator/date_future"]["lastModifiedReceived"] is None
    assert records["/validator/star"]["httpEtag"] is None


@pytest.mark.parametrize(
    "command",
    [("search", "escapes"), ("registry",), ("runs",), ("crawl",)],
    ids=lambda args: args[0],
)
def test_what_people_read_gives_no_orders_to_their_terminal(
    crawled: Crawled, command: tuple[str, ...]
):
    if command == ("crawl",):
        shown = "".join(result.out + result.err for result in crawled.results.values())
    else:
        shown = crawled.crawl.run(*command).out

    assert set(re.findall(r"[\0-\x08\x0b-\x1f\x7f-\x9f]", shown)) == set()


def test_a_table_gives_no_orders_to_a_spreadsheet(crawled: Crawled):
    table = crawled.crawl.run("registry", "--format", "csv").out

    cells = {cell for row in csv.reader(io.StringIO(table)) for cell in row}

    assert {cell for cell in cells if re.match(r"[=+@\t\r]|-\D", cell)} == set()


def test_a_crawl_of_bombs_takes_little_memory(crawled: Crawled):
    for result in crawled.results.values():
        told = re.search(r"(?m)^peak (\d+)$", result.out)
        assert told is not None, result
        assert int(told[1]) < _MEMORY
