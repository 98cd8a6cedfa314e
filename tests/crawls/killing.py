"""Crawls that are killed: where a process dies, and what is compared in the end."""

import json
import shutil
import signal
from array import array
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.database.sqlite import connect_sqlite
from smartcrawl.registry.pack import unpack_stored_document, unpack_stored_links
from tests import servers
from tests.crawls.commands import WORDS as OUTCOMES
from tests.crawls.commands import Crawl, Remote, differences
from tests.crawls.edited_site import WORDS
from tests.registry.build import index_is_sound
from tests.site_server import Site

Which = Literal["first", "refresh"]
#: What is gone, or not linked, goes in its first run.
AT_ONCE = {"LOST_THRESHOLD": "1", "ORPHAN_THRESHOLD": "1", "RETRY_TIMES": "0"}
#: The transactions at the end of a run by the function that makes them, each with the state in
#: which a process that dies before its commit leaves the run. The last sweep counts.
LAST_STEPS = {
    "propose_unreached_rows 1": "open", "look 1": "verifying", "seal_run_row 1": "verifying",
    "settle_sealed_row 1": "sealed", "sweep_candidate_rows 1": "settled",
    "sweep_candidate_rows 2": "settled", "sweep_candidate_rows 3": "settled",
    "sweep_candidate_rows 4": "settled", "give_back 1": "swept",
}  # fmt: skip
#: Differ between a run and the same run in two parts: times.
_TIMES = {"firstSeen", "lastChecked", "lastChanged", "lastIndexed", "nextCrawlAt"}
#: The version of the row: a number that another one replaces in each start of a run.
_VERSION = {"ETag"}
#: Likewise in the evidence of a removal: times, and numbers of runs and pages.
_FOUND = {"since", "lastReachedRun", "canonicalNo", "targetNo", "firstSeen"}
_WAS = {"last_changed", "last_indexed", "changed_run", "canonical_no", "redirect_no"}
#: Numbers of runs: a run that was resumed keeps its number, one killed at its birth may not.
_RUNS = {"reachedRun", "visitedRun"}


@dataclass(frozen=True)
class Undisturbed:
    """A crawl that nobody killed: how many places it has, and what came of it."""

    places: int
    shape: dict[str, Any]
    again: dict[str, Any]  #: after one more run of the same site


@dataclass
class Stage:
    """The edited site, the registry before the edit, and how it should end.

    What comes of a crawl is the same on both databases, so one that nobody kills is made on
    SQLite only. On PostgreSQL it passes a few places more, so that those drawn from the number of
    SQLite leave out the last few; they are steps of the end.
    """

    site: Site
    known: Path
    undisturbed: dict[str, Undisturbed]
    remote: tuple[servers.Postgres, str] | None = None  #: what is known, as a database in a server

    def know(self, crawl: Crawl) -> None:
        """Let a crawl begin with what was known before the edit."""
        if isinstance(crawl.registry, Remote):
            assert self.remote is not None
            copy_database(crawl.registry, *self.remote)
        else:
            shutil.copytree(self.known, crawl.data_dir)

    def expected(self, crawl: Crawl, which: Which, *, again: bool = False) -> dict[str, Any]:
        """How a crawl should end; `again`: with one more run after it."""
        undisturbed = self.undisturbed[which]
        wanted = undisturbed.again if again else undisturbed.shape
        return on_postgres(wanted) if isinstance(crawl.registry, Remote) else wanted


def copy_database(registry: Remote, server: servers.Postgres, known: str) -> None:
    """Let a registry be a copy of a database of its server."""
    database = name_of(registry.url)
    server.execute(f"DROP DATABASE {database} WITH (FORCE)")
    server.execute(f"CREATE DATABASE {database} TEMPLATE {known}")


def name_of(url: str) -> str:
    """Return the name of a database."""
    return urlsplit(url).path.removeprefix("/")


def on_postgres(shaped: dict[str, Any]) -> dict[str, Any]:
    """A shape without what SQLite's index tells in other words: scores and snippets."""
    hits = {
        word: [
            {k: v for k, v in hit.items() if k not in {"score", "snippet"}}
            | {"chunks": [(chunk["number"], chunk["path"]) for chunk in hit["chunks"]]}
            for hit in found
        ]
        for word, found in shaped["hits"].items()
    }
    return shaped | {"hits": hits}


def run(crawl: Crawl, site: Site, place: int, *more: str, step: str = "") -> tuple[int, str]:
    """Crawl, to die at a place (0: nowhere) or in a step; return exit status and output."""
    crawl.environment |= AT_ONCE
    fate = ["step", step] if step else ["kill", str(place)]
    result = crawl.run(
        "runner", *fate, "crawl", "site", "-a", f"url={site.url('/')}", *more, expect=None
    )
    return result.status, result.out + result.err


def shape(crawl: Crawl) -> dict[str, Any]:
    """Everything that is known, without times and numbers that may differ."""
    urls = dict(crawl.rows("SELECT no, url FROM record"))
    links = {}
    for number, raw, targets in crawl.rows("SELECT no, raw, targets FROM links"):
        reached = sorted(urls[target] for target in array("I", targets))
        links[urls[number]] = [list(link) for link in unpack_stored_links(raw)], reached
    records = {}
    for record in crawl.records():
        kept = {key: value for key, value in record.items() if key not in _TIMES | _RUNS | _VERSION}
        kept["ran"] = record["reachedRun"] == record["visitedRun"] == crawl.runs()[0]["run"]
        records[record["url"]] = kept
    moving = {"lastChecked", "lastChanged", "date"}  # no page here says when it was published
    found = {word: crawl.search(word, "--limit", "1000") for word in WORDS}
    hits = {
        word: sorted(
            ({k: v for k, v in hit.items() if k not in moving} for hit in found[word]),
            key=itemgetter("url"),
        )
        for word in WORDS
    }
    # Unpacked: one that was read out of the registry is packed with its spans in their places.
    contents = sorted(
        (*row, unpack_stored_document(document))
        for *row, document in crawl.rows(
            "SELECT content_hash, text_hash, title, document FROM content"
        )
    )
    chunks = crawl.rows(
        "SELECT c.content_hash, k.position, k.title, k.headings, k.text"
        "  FROM chunk k LEFT JOIN content c ON c.no = k.content"
    )
    shaped = {
        "records": records,
        "links": links,
        "hits": hits,
        "contents": contents,
        "chunks": sorted(chunks),
        "counts": counts(crawl, 0),
        "evidence": evidence(crawl),
        "candidates": sorted(crawl.rows(_CANDIDATES)),
        "events": sorted(crawl.rows(_EVENTS), key=repr),
        "ends": crawl.rows(_ENDS)[-1:],
    }
    return on_postgres(shaped) if isinstance(crawl.registry, Remote) else shaped


_ENDS = "SELECT removed, withheld, notes FROM run WHERE state = 4 ORDER BY no"
_EVIDENCE = """
SELECT r.url, e.rule, e.detail, c.content_hash, e.restore, e.links, e.undone
  FROM evidence e JOIN record r ON r.no = e.record LEFT JOIN content c ON c.no = e.content
"""
_CANDIDATES = """
SELECT r.url, c.rule, c.probe, c.withheld FROM candidate c JOIN record r USING (no)
"""
_EVENTS = """
SELECT r.url, e.status, e.standing, e.outcome, e.http_status, e.detail
  FROM event e JOIN record r ON r.no = e.record
"""


def evidence(crawl: Crawl) -> dict[str, list[Any]]:
    """What was removed from each page and why, and what would bring it back."""
    found: dict[str, list[Any]] = {}
    # PostgreSQL gives a number anew where a transaction that took one was killed.
    configurations = dict(crawl.rows("SELECT no, hash FROM fingerprint"))
    for url, rule, detail, content, restore, links, undone in crawl.rows(_EVIDENCE):
        told = {key: value for key, value in json.loads(detail).items() if key not in _FOUND}
        was = json.loads(restore)
        kept = {
            key: None if value == "" else value for key, value in was.items() if key not in _WAS
        }
        kept["configuration"] = configurations.get(kept["configuration"])
        raw = [list(link) for link in unpack_stored_links(links)] if links else None
        found.setdefault(url, []).append([rule, told, content, kept, raw, undone])
    return found


def is_over(crawl: Crawl, run: int) -> bool:
    """Whether a run is the newest and has said whether it saw everything."""
    return state_of(crawl, run) in ("sealed", "settled", "swept")


def state_of(crawl: Crawl, run: int) -> str | None:
    """The state of a run, None when it was not begun."""
    remote = isinstance(crawl.registry, Remote)
    if not crawl.registry.exists() or not (remote or crawl.rows("SELECT 1 FROM sqlite_schema")):
        return None
    return next((found["state"] for found in crawl.runs() if found["run"] == run), None)


def counts(crawl: Crawl, back: int) -> dict[str, Any]:
    """How the run before `back` other ones ended."""
    ended = crawl.runs()[back]
    return {key: ended[key] for key in ("state", "complete", "reasons", *OUTCOMES)}


def dies(stage: Stage, crawl: Crawl, which: Which, place: int, *more: str, step: str = "") -> None:
    """Crawl, and die at a place or in a step.

    How many places there are depends a little on how fast the machine is, so the last ones may
    not be reached; then there is nothing to make up for.
    """
    if which == "refresh":
        stage.know(crawl)

    status, out = run(crawl, stage.site, place, *more, step=step)

    last = place > 0.9 * stage.undisturbed[which].places
    assert status == -signal.SIGKILL or (last and status == 0), out


def ends(crawl: Crawl, site: Site, *more: str) -> None:
    """Crawl until it is done, which may take some starts where a lease is still held."""
    for _ in range(5):
        crawl.bury()
        status, out = run(crawl, site, 0, *more)
        if status == 0:
            return
    raise AssertionError(out)


_JOB = ("-a", "job=nightly")
_STRAYS = """
SELECT c.no FROM content c
 WHERE c.no NOT IN (SELECT content FROM record WHERE content IS NOT NULL)
   AND c.no NOT IN (SELECT content FROM evidence WHERE content IS NOT NULL)
UNION ALL
SELECT k.no FROM chunk k
 WHERE k.content NOT IN (SELECT content FROM record WHERE content IS NOT NULL AND entry > 0)
"""


def is_sound(crawl: Crawl) -> bool:
    """Whether the file, the index and what points to contents are in order."""
    if isinstance(crawl.registry, Remote):
        with closing(PostgresConnection(crawl.registry.url)) as connection:
            assert index_is_sound(connection), "words that are not those of the text"
    else:
        assert crawl.rows("PRAGMA integrity_check") == [("ok",)]
        with closing(connect_sqlite(crawl.registry)) as file:
            assert index_is_sound(file)
    return crawl.rows(_STRAYS) == []


def dies_and_ends_as_if_it_never_had(stage: Stage, crawl: Crawl, which: Which, place: int) -> None:
    dies(stage, crawl, which, place)
    expected, over = stage.expected(crawl, which), is_over(crawl, 2 if which == "refresh" else 1)

    ends(crawl, stage.site, "-a", "resume=1")

    if over:  # there was nothing left to resume, so that was one more run
        assert counts(crawl, 1) == expected["counts"]
        expected = stage.expected(crawl, which, again=True)
    found = list(differences(shape(crawl), expected))
    assert not found, f"{which}, killed at place {place}: {found}"
    assert is_sound(crawl)


def dies_and_is_made_up_for_by_later_runs(stage: Stage, crawl: Crawl, place: int) -> None:
    """Without a resume it is closed; two later runs leave what the undisturbed and one more do."""
    dies(stage, crawl, "refresh", place)
    over = is_over(crawl, 2)

    ends(crawl, stage.site)
    if not over:
        ends(crawl, stage.site)

    found, expected = shape(crawl), stage.expected(crawl, "refresh", again=True)
    wrong = list(differences(but_for_counts(found), but_for_counts(expected)))
    assert wrong == [], f"killed at place {place}"
    assert is_sound(crawl)


def ends_as_if_it_had_not_died_in(stage: Stage, crawl: Crawl, step: str) -> None:
    over = is_over(crawl, 2)

    ends(crawl, stage.site, "-a", "resume=1")

    assert crawl.rows("SELECT count(*) FROM run") == [(3 if over else 2,)]
    expected = stage.expected(crawl, "refresh", again=over)
    assert list(differences(shape(crawl), expected)) == [], f"died {step}"
    assert is_sound(crawl)


def dies_and_goes_on_in_its_job(stage: Stage, crawl: Crawl, place: int) -> None:
    """However far the run of a job was, the same job goes on with it and begins no other."""
    dies(stage, crawl, "refresh", place, *_JOB)

    ends(crawl, stage.site, *_JOB)

    assert crawl.rows("SELECT count(*) FROM run") == [(2,)]
    expected = stage.expected(crawl, "refresh")
    found = list(differences(shape(crawl), expected))
    assert not found, f"killed at place {place}: {found}"
    assert is_sound(crawl)


def but_for_counts(shaped: dict[str, Any]) -> dict[str, Any]:
    """A shape without what tells whether an interrupted run met a page before a later one did.

    It counted what it found lost or gone, and what it found modified is unchanged since. So did
    the visits in vain, and the intervals that follow from both.
    """
    counted = {"lostCount", "goneCount", "crawlAttempts", "crawlIntervalSeconds"}
    return shaped | {
        "records": {
            url: {key: value for key, value in record.items() if key not in counted}
            for url, record in shaped["records"].items()
        },
        "evidence": {
            url: [(rule, content, raw, undone) for rule, _, content, _, raw, undone in removals]
            for url, removals in shaped["evidence"].items()
        },
        "events": [event[:3] for event in shaped["events"]],
    }
