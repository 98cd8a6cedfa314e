"""`orphans`, `deltamerge`, `undo`, `forget`, `why` and `plan`, as a person would type them."""

import json
import re
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.documents import Link
from smartcrawl.model.urls import display_url, url_digest, url_item_id
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.runs import runs
from smartcrawl.reports import why
from smartcrawl.rules.model import Mode, Outcome
from smartcrawl.run import plan
from smartcrawl.sources.base import SourceExtractionConfig
from smartcrawl.sources.scope import SiteScope
from tests.crawls.commands import Crawl, Result, Scrapy
from tests.index.asking import search
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import Web
from tests.registry.build import LATER, LONG, NOW, Desk, closing
from tests.registry.kept import kept_connections
from tests.registry.spare import Spare
from tests.site_server import Page, Site, html

ROOT = Path(__file__).parents[2]
SITE = "http://a.example"
SOURCES = '[sources.docs]\nseeds = ["http://a.example/"]\n'
_ERRORS = {404: Outcome.NOT_FOUND, 403: Outcome.HTTP_ERROR, 503: Outcome.TRANSIENT}


class World:
    """A registry: `crawl` writes runs into it, `run` starts commands over it."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        (folder / "data").mkdir()
        self.folder = folder
        self.place = url or folder / "data" / "registry.db"
        self.desk = Desk(folder / "data" / "registry.db")
        if url is None:
            self.desk.connection.execute("PRAGMA synchronous = OFF").fetchall()  # it costs time
        self._commands = LabCrawl(folder, Web(), url)
        self._commands.environment = {"MAX_UNVERIFIED_DAYS": "0"}  # the last runs are long ago
        if url is not None:
            self._commands.environment["REGISTRY_URL"] = url
        self._sources = folder / "sources.toml"
        self.declare(SOURCES)
        told = SourceExtractionConfig().fingerprint(Mode.INDEX)
        assert (
            runs.fingerprint_row_number(self.desk.connection, told) == 1
        )  # what a Desk extracts with
        scope = SiteScope(hosts=frozenset({"a.example"})).fingerprint()
        self.scope = runs.fingerprint_row_number(self.desk.connection, scope)

    def declare(self, text: str) -> None:
        self._sources.write_text(text, encoding="utf-8")

    def crawl(
        self,
        answers: Mapping[str, object],
        links: Mapping[str, Sequence[str]] | None = None,
        *,
        seal: bool = True,
        look: Mapping[str, int] | None = None,
        now: int = NOW,
    ) -> None:
        """One run over paths: a text is new content, True as before, a number a status."""
        desk = self.desk
        desk.open(now=now)
        for path in answers:
            desk.write(reached={desk.page(SITE + path).no: min(len(path) - 1, 1)}, now=now)
        for path, answer in answers.items():
            told: dict[str, Any] = {}
            if links and path in links:
                found = links[path]
                told["links"] = [Link(SITE + to, to, "hyperlink", False) for to in found]
                told["targets"] = [desk.number(SITE + to) for to in found]
            match answer:
                case str():
                    etag = f'"{len(answer)}"'
                    told |= {"scope": self.scope, "etag": etag}
                    visit = desk.visit(SITE + path, answer, **told)
                case True:
                    visit = desk.visit(SITE + path, outcome=Outcome.SAME, **told)
                    visit.parsed.document, visit.answer.etag = None, visit.page.record.etag
                    if path not in (links or {}):
                        visit.parsed.links = None
                case int():
                    visit = desk.visit(SITE + path, outcome=_ERRORS[answer], status=answer)
                case _:
                    visit = desk.visit(
                        SITE + path, outcome=Outcome.EXCLUDED, status=None, error="disallowed"
                    )
            desk.write(visit, now=now)
        if seal:
            desk.verify({SITE + path: status for path, status in (look or {}).items()}, now=now)
            desk.seal(now=now, look=False)

    def run(self, *args: str, expect: int | None = 0) -> Result:
        result = self._commands.run(*args, expect=None)
        assert expect in (None, result.status), f"{args}: {result}"
        assert "Traceback" not in result.err
        return result

    @contextmanager
    def crawled(self, source: str, since: str = "now") -> Iterator[None]:
        """A source that this process crawls."""
        lease = registry_database(self.place).take(source, since)
        yield
        lease.release()

    def json(self, *args: str, expect: int = 0) -> Any:
        return json.loads(self.run(*args, "--format", "json", expect=expect).out)

    def story(self, path: str) -> dict[str, Any]:
        (story,) = self.json("why", SITE + path)["records"]
        return story

    def plan(self, *args: str) -> dict[str, Any]:
        (told,) = self.json("plan", *args)
        return told

    def held(self) -> set[str]:
        """The paths that are held."""
        rows = self.desk.rows("SELECT url FROM record JOIN state USING (no) WHERE standing > 0")
        return {url.removeprefix(SITE) for (url,) in rows}

    def hits(self, query: str = "words") -> set[str]:
        return {hit.url.removeprefix(SITE) for hit in search(self.desk.connection, query)}

    def tables(self) -> list[Any]:
        """Everything that a command might change."""
        names = ("record", "state", "links", "content", "candidate", "evidence", "event", "pin")
        return [self.desk.rows(f"SELECT * FROM {name} ORDER BY no") for name in names]


@pytest.fixture
def connections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep connections to SQLite open from command to command; with --all none is."""
    is_kept = getattr(request, "param", not request.config.option.all)
    with kept_connections() if is_kept else nullcontext():
        yield


@pytest.fixture
def world(
    tmp_path: Path,
    connections: None,
    stack: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    if stack == "sqlite":
        world = World(tmp_path)
        yield world
        world.desk.close()
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    url = spare.take()
    monkeypatch.setattr(Desk, "connected", staticmethod(lambda _: PostgresDatabase(url).open()))
    world = World(tmp_path, url)
    yield world
    world.desk.close()
    spare.put_back(url)


FIRST = {"/": "home words", "/a": "words of a", "/b": "words of b", "/c": "words of c"}
LINKS = {"/": ["/a", "/b", "/c"]}


@pytest.fixture
def orphaned(world: World) -> World:
    """/b is an orphan of run 2, /c answered 404 there."""
    world.crawl(FIRST, LINKS)
    world.crawl({"/": "other words", "/a": True, "/c": 404}, {"/": ["/a", "/c"]}, now=LATER)
    return world


@pytest.fixture
def withheld(world: World) -> World:
    """/a, /b and /c are orphans whose removal the guard withheld in run 2."""
    world.desk.closing = closing(orphan_threshold=1, min_count=1)
    world.crawl(FIRST, LINKS)
    world.crawl({"/": "other words"}, {"/": []}, now=LATER)
    assert world.held() == {"/", "/a", "/b", "/c"}
    return world


@pytest.fixture
def many(world: World) -> World:
    """Twelve orphans and twelve lost pages of 26."""
    pages = {f"/{kind}{n}": f"words of {kind} {n}" for kind in "ol" for n in range(12)}
    world.crawl({"/": "home words", "/z": "words of z"} | pages, {"/": list(pages)})
    lost = {path: 404 for path in pages if path[1] == "l"}
    world.crawl({"/": "other words", "/z": True} | lost, {"/": [*lost, "/z"]}, now=LATER)
    return world


def keys(heading: str, table: str) -> list[str]:
    """The first column of one table of docs/cli.md."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split(f"\n## `smartcrawl {heading}`\n")[1].split("\n## ")[0]
    rows = section.split(f"\n| {table} |")[1].split("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)


# orphans


@pytest.mark.covers("R4-12")
def test_orphans_are_listed_and_nothing_is_changed(orphaned: World):
    before = orphaned.tables()

    (row,) = orphaned.json("orphans")
    shown = orphaned.run("orphans").out

    assert list(row) == keys("orphans", "key")
    assert (row["url"], row["rule"], row["orphanAge"]) == (f"{SITE}/b", "orphan", 1)
    assert (row["why"], row["removable"]) == ("no page links to it", True)
    assert row["withheldRun"] is row["stays"] is None
    assert f"{SITE}/b" in shown
    assert orphaned.tables() == before


@pytest.mark.covers("R4-12")
def test_orphans_are_purged_whatever_their_age_and_the_message_says_how_to_undo(orphaned: World):
    result = orphaned.run("orphans", "--purge")

    assert result.out == (f"removed  {SITE}/b\n1 page of docs removed; undo with: scrapy undo 2\n")
    assert orphaned.held() == orphaned.hits() == {"/", "/a", "/c"}
    assert orphaned.run("orphans", "--purge").out == "nothing to remove\n"


@pytest.mark.sqlite
@pytest.mark.parametrize("connections", [False], indirect=True)
def test_a_command_leaves_one_file_behind(orphaned: World):
    orphaned.desk.close()

    orphaned.run("orphans", "--purge")

    files = {path.name for path in (orphaned.folder / "data").iterdir()}
    assert files == {"registry.db", "leases"}


def test_a_purge_told_as_json(orphaned: World):
    told = orphaned.json("orphans", "--purge")

    assert list(told) == keys("orphans", "key of a removal")
    assert told == {
        "removals": [
            {"source": "docs", "run": 2, "removed": [f"{SITE}/b"], "undo": "scrapy undo 2"}
        ],
        "left": 0,
    }


def test_only_the_named_source_is_purged(orphaned: World):
    orphaned.desk.source = "other"
    orphaned.crawl(FIRST, LINKS)
    orphaned.crawl({"/": True, "/a": True, "/b": True})

    assert {row["source"] for row in orphaned.json("orphans")} == {"docs", "other"}
    assert [row["source"] for row in orphaned.json("orphans", "--source", "other")] == ["other"]
    (one,) = orphaned.json("orphans", "--purge", "--source", "other")["removals"]
    assert (one["source"], one["run"], one["removed"]) == ("other", 4, [f"{SITE}/c"])
    assert [row["url"] for row in orphaned.json("orphans")] == [f"{SITE}/b"]


@pytest.mark.parametrize(
    ("command", "left"), [(["orphans", "--purge"], "l"), (["deltamerge", "-D"], "o")]
)
def test_more_than_the_guard_allows_goes_only_by_its_number(many: World, command, left):
    before = many.tables()

    result = many.run(*command, expect=3)

    assert result.out == ""
    assert "nothing was removed: this would remove 12 of the 26 pages of docs" in result.err
    again = result.err.rpartition(": scrapy ")[2].split()
    assert again == [*command, "--max", "12"]
    assert many.tables() == before
    many.run(*again)
    assert {path[1:2] for path in many.held()} == {"", "z", left}


@pytest.mark.parametrize("command", [["orphans", "--purge"], ["deltamerge", "-D"]])
def test_no_more_than_the_number_go(many: World, command):
    told = many.json(*command, "--max", "5")

    assert (len(told["removals"][0]["removed"]), told["left"]) == (5, 7)
    assert len(many.held()) == 21
    assert "7 more stay: --max 4" not in many.run(*command, "--max", "100").out
    assert len(many.held()) == 14


def test_what_stays_because_of_the_number_is_said(many: World):
    assert "7 more stay: --max 5" in many.run("orphans", "--purge", "--max", "5").out


def test_the_command_that_goes_on_is_about_the_same_registry_and_source(many: World):
    data = f"DATA_DIR={many.folder / 'data'}"

    result = many.run("orphans", "--purge", "--source", "docs", "-s", data, expect=3)

    assert f"scrapy orphans -s {data} --purge --source docs --max 12" in result.err


def test_the_guard_is_that_of_the_settings(many: World):
    many.run("orphans", "--purge", "-s", "SWEEP_MIN_COUNT=12")

    assert len(many.held()) == 14


def test_the_guard_counts_each_source_for_itself(world: World):
    pages = {f"/{n}": f"words of {n}" for n in range(7)}
    others = {f"/z{n}": f"words of z {n}" for n in range(9)}
    for source in ("docs", "other"):
        world.desk.source = source
        world.crawl({"/": "home words"} | pages | others, {"/": [*pages, *others]})
        stay = dict.fromkeys(others, True)
        world.crawl({"/": "other words"} | stay, {"/": list(others)}, now=LATER)

    told = world.json("orphans", "--purge")["removals"]

    assert [(one["source"], len(one["removed"])) for one in told] == [("docs", 7), ("other", 7)]


def test_the_last_pages_of_a_source_do_not_go_by_themselves(world: World):
    world.crawl({"/": "home words", "/a": "words of a"}, {"/": ["/a"]})
    world.crawl({"/": 404, "/a": 404}, now=LATER)

    assert "remove 2 of the 2 pages" in world.run("deltamerge", "-D", expect=3).err


# orphans --approve


def test_what_is_withheld_is_listed_with_the_command_that_releases_it(withheld: World):
    rows = withheld.json("orphans")
    shown = withheld.run("orphans").out

    assert [(row["url"], row["withheldRun"], row["orphanAge"]) for row in rows] == [
        (f"{SITE}/{name}", 2, 1) for name in "abc"
    ]
    release = "scrapy orphans --approve 2 --max 3"
    assert shown.endswith(f"docs: 3 waiting for approval; to approve them: {release}\n")


def test_approval_needs_a_number_and_says_which(withheld: World):
    before = withheld.tables()

    result = withheld.run("orphans", "--approve", "2", expect=3)

    assert "3 withheld pages of docs go only when their number is given" in result.err
    assert result.err.endswith(": scrapy orphans --approve 2 --max 3\n")
    assert withheld.tables() == before


def test_approval_releases_at_most_the_number_and_the_rest_stays_withheld(withheld: World):
    result = withheld.run("orphans", "--approve", "2", "--max", "2")

    assert "2 pages of docs removed; undo with: scrapy undo 2" in result.out
    assert "1 more stays: --max 2" in result.out
    assert withheld.held() == withheld.hits("words") == {"/", "/c"}
    assert [row["withheldRun"] for row in withheld.json("orphans")] == [2]
    told = withheld.run("orphans", "--approve", "2", "--max", "9")
    assert "orphans: --max 9: only 1 was waiting" in told.err
    assert withheld.held() == {"/"}


def test_a_page_that_answered_since_is_not_released(withheld: World):
    """The run that found it died, so nobody refuted the proposal."""
    withheld.crawl({"/": True, "/b": True}, seal=False)

    result = withheld.run("orphans", "--approve", "2", "--max", "3")

    assert f"stays    {SITE}/b: it was reached or answered since" in result.err
    assert withheld.held() == {"/", "/b"}
    assert "undo with: scrapy undo 3" in result.out  # the latest run, though it died


def test_only_what_was_proposed_until_then_is_released(withheld: World):
    assert withheld.run("orphans", "--approve", "1", "--max", "3").out == "nothing to remove\n"
    assert len(withheld.held()) == 4


def test_an_approval_of_a_run_that_is_not_there_names_those_that_wait(withheld: World):
    result = withheld.run("orphans", "--approve", "7", "--max", "3", expect=1)

    assert result.err == (
        "orphans: there is no run 7; removals wait for approval in: 2 (see scrapy orphans)\n"
    )


def test_an_approval_looks_at_the_source_of_the_run(withheld: World):
    withheld.desk.source = "other"
    withheld.crawl({"/": "home words"})

    result = withheld.run("orphans", "--approve", "2", "--source", "other", expect=1)
    assert "there is no run 2 of other; no removal waits for approval" in result.err
    assert withheld.run("orphans", "--approve", "3", "--max", "3").out == "nothing to remove\n"


# deltamerge


@pytest.mark.covers("R4-06")
def test_lost_pages_are_listed_and_nothing_is_changed(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/a": 404, "/b": 403, "/c": 503})
    before = world.tables()

    rows = world.json("deltamerge")

    assert list(rows[0]) == keys("deltamerge", "key")
    assert [(row["url"], row["removable"], row["stays"]) for row in rows] == [
        (f"{SITE}/a", True, None),
        (f"{SITE}/b", False, "403 is not in LOST_PURGE_STATUSES"),
    ]
    assert "403 is not in LOST_PURGE_STATUSES" in world.run("deltamerge").out
    assert world.tables() == before


@pytest.mark.covers("R4-06")
def test_lost_pages_are_removed_at_once_however_often_they_were_found_so(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/a": 404, "/b": 403, "/c": 503})

    assert "undo with: scrapy undo 2" in world.run("deltamerge", "-D").out

    assert world.held() == world.hits() == {"/", "/b", "/c"}
    story = world.story("/a")
    assert (story["record"]["status"], story["record"]["effectiveStatus"]) == ("Gone", 404)
    assert (story["record"]["lastOutcome"], story["record"]["lostCount"]) == ("gone", 0)


def test_which_statuses_count_is_a_setting(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/a": 404, "/b": 403, "/c": 503})

    world.run("deltamerge", "-D", "-s", "LOST_PURGE_STATUSES=403")

    assert world.held() == {"/", "/a", "/c"}


# undo


@pytest.mark.covers("M-09")
def test_undo_brings_back_what_commands_removed_and_a_second_one_says_why_not(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.run("deltamerge", "-D")
    assert orphaned.hits() == {"/", "/a"}

    result = orphaned.run("undo", "2")
    again = orphaned.run("undo", "2", expect=1)

    assert sorted(result.out.splitlines()) == [
        "2 pages of docs restored",
        f"restored {SITE}/b",
        f"restored {SITE}/c",
    ]
    assert orphaned.hits() == {"/", "/a", "/b", "/c"}
    assert again.err == "undo: nothing was restored: 2 pages were restored before\n"
    assert orphaned.json("orphans") == []
    assert orphaned.json("deltamerge") == []


def test_undo_told_as_json(orphaned: World):
    orphaned.run("orphans", "--purge")

    told = orphaned.json("undo", "--pin", "2")

    assert list(told) == keys("undo", "key")
    assert told == {
        "run": 2,
        "source": "docs",
        "restored": [f"{SITE}/b"],
        "kept": [],
        "expired": [],
        "newerRuns": [],
        "pinned": True,
    }
    assert orphaned.story("/b")["pinnedAt"] is not None


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["real", "dry"])
def test_a_pin_names_the_runs_that_remove_its_page_again(orphaned: World, dry: tuple[str, ...]):
    orphaned.run("orphans", "--purge")
    orphaned.run("deltamerge", "-D")

    result = orphaned.run("undo", "2", "--pin", *dry)

    again = "a pin does not keep 1 page: 3 runs in a row that find it gone remove it again"
    assert again in " ".join(result.out.split())  # of /c, and not of the orphan /b


def test_without_a_pin_the_rules_are_as_ever(orphaned: World):
    orphaned.run("deltamerge", "-D")

    assert "a pin" not in orphaned.run("undo", "2").out


def test_without_pin_nothing_is_pinned(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.run("undo", "2")

    assert orphaned.story("/b")["pinnedAt"] is None


def test_newer_content_and_content_that_is_not_kept_any_more_are_told_apart(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.run("deltamerge", "-D")
    orphaned.crawl({"/": True, "/a": True, "/c": "newer words"}, now=LATER)
    orphaned.desk.connection.execute(
        "UPDATE evidence SET restore = NULL, content = NULL WHERE record = ?",
        (orphaned.desk.number(f"{SITE}/b"),),
    )

    result = orphaned.run("undo", "2", expect=1)

    assert f"kept     {SITE}/c: run 3 stored newer content\n" in result.out
    assert f"expired  {SITE}/b" in result.out
    assert "1 page has newer content by now, stored by run 3; " in result.err
    assert "the content of 1 page is no longer stored (UNDO_TTL_SECONDS)" in result.err


@pytest.fixture
def twice(world: World) -> World:
    """/b was removed with the words of run 1 by run 2, and with those of run 3 by run 4."""
    for text, now in (("words of b", NOW), ("fresh tunes", LATER)):
        home = {"/": "home words", "/a": "words of a"} if now == NOW else {"/": True, "/a": True}
        world.crawl(home | {"/b": text}, {"/": ["/a", "/b"]}, now=now)
        world.crawl({"/": True, "/a": True}, {"/": ["/a"]}, now=now + 1)
        world.run("orphans", "--purge")
    return world


def words_of(world: World) -> list[bool]:
    """Whether /b is found by the words of run 1, and by those of run 3."""
    return ["/b" in world.hits("words"), "/b" in world.hits("tunes")]


@pytest.mark.covers("M-09")
def test_the_older_of_two_removals_does_not_block_the_newer(twice: World):
    assert words_of(twice) == [False, False]
    dry = twice.json("undo", "2", "--dry-run")

    older = twice.run("undo", "2")

    assert dry["newerRuns"] == [4]
    assert older.out == (
        f"restored {SITE}/b: older content; run 4 removed newer one\n"
        "1 page of docs restored\n"
        "run 4 removed newer content of 1 page; put it in place of this with: scrapy undo 4\n"
    )
    assert words_of(twice) == [True, False]

    newer = twice.run("undo", "4")

    assert newer.out == (
        f"restored {SITE}/b: in place of the older content that undo 2 had restored\n"
        "1 page of docs restored\n"
    )
    assert words_of(twice) == [False, True]
    kept = twice.run("undo", "2", expect=1)
    assert f"kept     {SITE}/b: run 3 stored newer content\n" in kept.out
    assert kept.err.endswith("1 page has newer content by now, stored by run 3\n")


def test_neither_removal_is_spent_by_the_other(twice: World):
    for run in ("2", "4"):
        twice.run("undo", run)
    twice.run("forget", f"{SITE}/b")

    assert words_of(twice) == [False, False]
    twice.run("undo", "2")
    assert words_of(twice) == [True, False]


def test_what_a_run_confirmed_is_not_replaced_and_the_reason_names_it(twice: World):
    twice.run("undo", "2")
    now = int(time.time()) + 5  # the undo was at the time of today
    twice.crawl({"/": True, "/a": True, "/b": True}, {"/": ["/a", "/b"]}, now=now)

    kept = twice.run("undo", "4", expect=1)

    why = "run 5 confirmed the older content that undo 2 had restored"
    assert kept.out.startswith(f"kept     {SITE}/b: {why}\n")
    assert kept.err == f"undo: nothing was restored: of 1 page {why}\n"
    assert words_of(twice) == [True, False]


def test_what_a_run_stored_is_not_replaced_and_the_reason_names_it(twice: World):
    twice.run("undo", "2")
    twice.crawl({"/": True, "/a": True, "/b": "dull words"}, {"/": ["/a", "/b"]}, now=LATER + 2)

    assert f"{SITE}/b: run 5 stored newer content\n" in twice.run("undo", "4", expect=1).out


def test_older_content_that_could_not_be_brought_back_is_not_replaced(twice: World):
    twice.run("undo", "2")
    twice.desk.connection.execute(
        "UPDATE evidence SET restore = NULL, content = NULL, links = NULL WHERE run = 2"
    )

    kept = twice.run("undo", "4", expect=1)

    assert "of 1 page undo 2 had restored older content, which could not be brought" in kept.err
    twice.run("forget", f"{SITE}/b")
    twice.run("undo", "4")
    assert words_of(twice) == [False, True]


@pytest.mark.parametrize(
    ("run", "told"),
    [("9", "there is no run 9"), ("1", "nothing was removed in run 1")],
)
def test_a_run_that_removed_nothing_is_answered_with_those_that_did(orphaned: World, run, told):
    orphaned.run("orphans", "--purge")

    result = orphaned.run("undo", run, expect=1)

    assert f"undo: {told}; runs that removed something:\n  2  docs: 1 of 1 page" in result.err


def test_a_run_of_another_source_is_not_undone(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.desk.source = "other"
    orphaned.crawl({"/": "home words"})

    result = orphaned.run("undo", "2", "--source", "other", expect=1)

    assert "run 2 is of docs; nothing was removed so far" in result.err
    assert orphaned.held() == {"/", "/a", "/c"}


@pytest.mark.parametrize("ahead", [False, True], ids=["behind", "ahead"])
def test_the_least_age_of_orphans_is_not_passed_by_a_clock_that_leapt(world: World, ahead: bool):
    """It was wrong by a year in the first run without the page."""
    month = 30 * 86_400
    world.desk.closing = closing(orphan_threshold=2, orphan_min_age=month, max_ratio=1)
    world.crawl(FIRST, LINKS)
    answers, links = {"/": "other words", "/a": True, "/c": True}, {"/": ["/a", "/c"]}
    year = 365 * 86_400
    world.crawl(answers, links, now=LATER + (year if ahead else -year))
    for later in (1, 2, month // 2):
        world.crawl(answers, links, now=LATER + later)
        assert "/b" in world.held(), later

    world.crawl(answers, links, now=LATER + month + 1)

    assert "/b" not in world.held()


def test_removals_of_which_nothing_is_left_are_not_denied(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.desk.connection.execute("DELETE FROM evidence")
    orphaned.desk.connection.execute("UPDATE run SET removed = 1 WHERE no = 2")

    found = [orphaned.run("undo", run, expect=1).err for run in ("2", "1")]

    lost = "what was removed so far cannot be brought back any more (UNDO_TTL_SECONDS, GONE_TTL"
    assert f"undo: 1 page was removed in run 2, and forgotten since; {lost}" in found[0]
    assert f"undo: nothing was removed in run 1; {lost}" in found[1]


# forget


def test_an_address_is_forgotten_by_any_of_its_spellings(orphaned: World):
    result = orphaned.run("forget", "HTTP://A.example:80/a/?utm_source=x#top")

    assert f"removed  {SITE}/a\n" in result.out
    assert "undo with: scrapy undo 2" in result.out
    assert orphaned.held() == orphaned.hits() == {"/", "/b", "/c"}
    assert orphaned.story("/a")["history"][-1]["rule"] == "forgotten"


def test_forgetting_ends_a_pin_also_where_nothing_is_held(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.run("undo", "2", "--pin")
    first = orphaned.run("forget", f"{SITE}/b")
    assert "removed; it was pinned, and is no longer" in first.err
    assert orphaned.desk.rows("SELECT * FROM pin") == []

    again = orphaned.run("forget", f"{SITE}/b")

    assert again.err == f"{SITE}/b (docs): nothing is stored\n"
    assert again.out == "nothing to remove\n"


def test_a_source_of_which_nothing_is_stored_goes_as_a_whole(world: World):
    world.declare("")
    world.crawl({"": 503, "/a": 404}, {"": ["/a"]})
    world.run("reindex", "--url", f"{SITE}/a")

    dry = world.run("forget", "--source", "docs", "--dry-run")
    assert dry.err == "docs: nothing is stored; it would be removed from the registry\n"
    assert world.desk.rows("SELECT name FROM source") == [("docs",)]
    result = world.run("forget", "--source", "docs")

    assert result.err == "docs: nothing is stored; it was removed from the registry\n"
    assert result.out == ""
    for table in ("source", "run", "record", "state", "seed", "pin", "event", "item", "change"):
        assert world.desk.rows(f"SELECT * FROM {table}") == []
    assert "known: none" in world.run("forget", "--source", "docs", expect=1).err


def test_a_dry_run_says_of_a_declared_source_what_the_order_does(world: World):
    world.crawl({"": 503})
    assert world.desk.rows("UPDATE source SET declared = TRUE RETURNING name") == [("docs",)]

    dry = world.run("forget", "--source", "docs", "--dry-run")
    result = world.run("forget", "--source", "docs")

    assert dry.err == "docs: nothing is stored; it would be removed from the registry\n"
    assert result.err.endswith("docs: nothing is stored; it was removed from the registry\n")
    assert (dry.out, result.out) == ("", "")


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        ("due_run", "source, at", ("docs", NOW)),
        (
            "ordered_address",
            "source, id, url, forced, at",
            ("docs", url_digest(f"{SITE}/b"), f"{SITE}/b", 0, NOW),
        ),
    ],
)
def test_a_source_for_which_an_order_waits_stays(
    world: World, table: str, columns: str, values: tuple[object, ...]
):
    world.declare("")
    world.crawl({"": 503})
    places = ", ".join("?" * len(values))
    world.desk.connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)

    assert world.run("forget", "--source", "docs").out == "nothing to remove\n"
    assert world.desk.rows("SELECT name FROM source") == [("docs",)]


def test_a_source_of_which_elasticsearch_has_a_document_stays(world: World):
    """It refused the removal, which is tried again."""
    world.crawl({"": 503})
    assert world.desk.rows("UPDATE record SET sunk = 1 RETURNING no")

    assert world.run("forget", "--source", "docs").out == "nothing to remove\n"
    assert world.desk.rows("SELECT name FROM source") == [("docs",)]


def test_a_source_that_undo_can_bring_back_stays(world: World):
    world.declare("")
    world.crawl(FIRST, LINKS)
    world.run("forget", "--source", "docs", "--max", "99")

    again = world.run("forget", "--source", "docs")

    assert (again.out, again.err) == ("nothing to remove\n", "")
    assert world.run("undo", "1").out.startswith("restored")


def test_an_unknown_address_is_told_with_its_id_and_what_is_nearly_the_same(orphaned: World):
    result = orphaned.run("forget", "https://www.a.example/a", expect=1)

    assert re.search(r"is not known \(looked for url_[a-z2-7]{26}\)", result.err)
    assert f"did you mean {SITE}/a?" in result.err
    plain = orphaned.run("forget", "http://elsewhere.example/", expect=1)
    assert "did you mean" not in plain.err
    assert len(orphaned.held()) == 4


def test_an_address_is_forgotten_in_every_source_or_in_the_one_that_is_named(orphaned: World):
    orphaned.desk.source = "other"
    orphaned.crawl(FIRST, LINKS)
    assert orphaned.held() == {"/", "/a", "/b", "/c"}

    one = orphaned.json("forget", f"{SITE}/a", "--source", "other")["removals"]
    assert [removal["source"] for removal in one] == ["other"]
    both = orphaned.json("forget", f"{SITE}/c")["removals"]
    assert [removal["source"] for removal in both] == ["docs", "other"]
    assert "is not known in other" in orphaned.run(
        "forget", "http://b.example/", "--source", "other", expect=1
    ).err  # fmt: skip


def test_a_source_is_forgotten_only_by_the_number_of_its_pages(orphaned: World):
    orphaned.desk.connection.execute("UPDATE source SET declared = TRUE")
    before = orphaned.tables()

    held = orphaned.run("forget", "--source", "docs", expect=3)
    few = orphaned.run("forget", "--source", "docs", "--max", "3", expect=3)

    assert held.err.endswith(": scrapy forget --source docs --max 4\n")
    assert few.err.startswith(
        "forget: nothing was removed: docs has 4 pages, more than --max 3: scrapy forget"
    )
    assert orphaned.tables() == before
    assert runs.declared_source_rows(orphaned.desk.connection) == ["docs"]

    told = orphaned.run("forget", "--source", "docs", "--max", "4")
    assert "4 pages of docs removed; undo with: scrapy undo 2" in told.out
    assert "docs is declared in" in told.err
    assert (orphaned.held(), orphaned.hits()) == (set(), set())
    assert runs.declared_source_rows(orphaned.desk.connection) == []
    orphaned.run("undo", "2")
    assert len(orphaned.held()) == 4


def test_a_source_that_is_not_declared_is_forgotten_in_silence(orphaned: World):
    orphaned.declare("")

    assert orphaned.run("forget", "--source", "docs", "--max", "4").err == ""


def test_status_tells_which_source_is_declared_no_more(world: World):
    world.crawl(FIRST, LINKS, now=int(time.time()))
    world.desk.connection.execute("UPDATE source SET declared = TRUE")
    there = world.json("status")["verdicts"]
    world.declare("[sources.other]\nseeds = ['http://b.example/']\n")

    (gone,) = world.json("status")["verdicts"]
    told = world.run("status").out

    assert [verdict["fresh"] for verdict in there] == [True]
    assert (gone["fresh"], gone["complete"], gone["healthy"]) == (False, True, True)
    assert "no longer declared, so no run visits it" in gone["text"]
    assert "scrapy forget --source docs" in told
    assert "or remove it:" in " ".join(told.split())
    assert "::" not in told
    world.declare("[sources.docs\n")
    assert world.json("status")["verdicts"][0]["fresh"]  # a crawl says what is wrong there


# Between runs only


@pytest.mark.parametrize(
    "command",
    [
        ["orphans", "--purge"],
        ["deltamerge", "-D"],
        ["forget", f"{SITE}/a"],
        ["forget", "--source", "docs", "--max", "9"],
        ["undo", "2"],
    ],
)
def test_nothing_is_changed_while_a_run_is_open(orphaned: World, command):
    if command[0] == "undo":
        orphaned.run("orphans", "--purge")
    before = orphaned.tables()

    with orphaned.crawled("docs", "2026-01-01T00:00:00+00:00"):
        result = orphaned.run(*command, expect=4)

    assert f"{command[0]}: docs is being crawled by process" in result.err
    assert orphaned.tables() == before
    orphaned.run(*command)
    assert orphaned.tables() != before


def test_an_approval_waits_for_the_run_that_is_open(withheld: World):
    with withheld.crawled("docs", "now"):
        withheld.run("orphans", "--approve", "2", "--max", "3", expect=4)

    assert len(withheld.held()) == 4


def test_a_run_of_another_source_is_no_obstacle(orphaned: World):
    with orphaned.crawled("other", "now"):
        orphaned.run("orphans", "--purge")


@pytest.mark.parametrize("command", [["orphans"], ["deltamerge"], ["plan"], ["why", SITE]])
def test_what_only_reads_does_not_wait(orphaned: World, command):
    with orphaned.crawled("docs", "now"):
        orphaned.run(*command)


# Wrong arguments


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["orphans", "--max", "3"], "--max needs --purge or --approve RUN"),
        (["orphans", "--purge", "--approve", "2"], "give --purge or --approve RUN, not both"),
        (["orphans", "--purge", "--max", "0"], "'0' is not a whole number of at least 1"),
        (["orphans", "--approve", "x"], "'x' is not a whole number of at least 1"),
        (["orphans", "docs"], "to name a source: --source docs"),
        (["deltamerge", "--max", "3"], "--max needs -D"),
        (["undo"], "expected one run, such as: scrapy undo 7"),
        (["undo", "1", "2"], "expected one run"),
        (["undo", "9" * 20], f"'{'9' * 20}' is not the number of a run; see scrapy runs"),
        (["undo", "9" * 5_000], "99' is not the number of a run; see scrapy runs"),
        (
            ["orphans", "--approve", str(2**63)],
            f"'{2**63}' is not a whole number from 1 to 100000000000",
        ),
        (
            ["orphans", "--purge", "--max", "9" * 5_000],
            "99' is not a whole number from 1 to 100000000000",
        ),
        (["plan", "--limit", "9" * 20], "99' is not a whole number from 1 to 100000000000"),
        (["plan", "--simulate", "9" * 5_000], "99' is not a whole number of days from 1 to 3650"),
        (["search", "words", "--limit", "9" * 5_000], "99' is not a whole number from 1 to 1000"),
        (["undo", "last"], "'last' is not the number of a run; see scrapy runs"),
        (["forget"], "nothing given to forget"),
        (["forget", "a", "b"], "expected one URL"),
        (["forget", f"{SITE}/a", "--max", "1"], "--max needs --source, and no URL"),
        (["why"], "expected one URL"),
        (["plan", "--limit", "many"], "'many' is not a whole number of at least 1"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_is_right(orphaned: World, args, told):
    before = orphaned.tables()

    assert told in orphaned.run(*args, expect=2).err
    assert orphaned.tables() == before


@pytest.mark.parametrize(
    "args", [["orphans"], ["deltamerge"], ["undo", "1"], ["forget", SITE], ["why", SITE], ["plan"]]
)
def test_a_source_that_is_not_known_is_answered_with_those_that_are(orphaned: World, args):
    result = orphaned.run(*args, "--source", "dosc", expect=1)

    assert result.err == f"{args[0]}: no source is called 'dosc'; known: docs\n"


@pytest.mark.parametrize(
    "args", [["orphans"], ["deltamerge"], ["undo", "1"], ["forget", SITE], ["why", SITE], ["plan"]]
)
def test_without_a_registry_none_is_made(tmp_path: Path, ask: Scrapy, args):
    result = ask.run(args, {"DATA_DIR": str(tmp_path), "SOURCES_FILE": str(tmp_path / "s.toml")})

    assert (result.status, "there is no registry" in result.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["orphans", "deltamerge", "undo", "forget", "why", "plan"])
def test_the_help_says_what_a_command_does_and_its_exit_statuses(ask: Scrapy, name):
    result = ask.run([name, "--help"], {})

    assert result.status == 0
    assert "Exit status: 0" in " ".join(result.out.split())


# files


@pytest.mark.covers("R0-20", "R0-24", "R0-25", "R0-31")
@pytest.mark.parametrize("url", ["file:///srv/docs/a.md", "s3://bucket/a//b"])
def test_a_file_has_its_type_and_id_in_every_command(world: World, url: str):
    world.crawl(FIRST, LINKS)
    world.desk.open(now=LATER)
    world.desk.index(url, "words of a file", etag="2025-06-01T10:00:00.123456789Z")
    id_ = url_item_id("file", url_digest(url))
    # A site may have the name of a bucket.
    world.desk.rows("UPDATE host SET robots_error = 'away', robots_failed_at = 1")

    answer = world.json("why", url)
    (story,) = answer["records"]

    assert (answer["id"], story["record"]["id"], story["record"]["type"]) == (id_, id_, "file")
    assert story["record"]["fileEtag"] == "2025-06-01T10:00:00.123456789Z"
    assert (story["request"]["headers"], story["robots"]) == ({}, None), "it is asked without HTTP"
    assert "none, unless its validator" in world.run("why", url).out
    rows = map(json.loads, world.run("registry", "--format", "jsonl").out.splitlines())
    assert {row["type"]: row["id"] for row in rows if row["url"] == url} == {"file": id_}
    (hit,) = world.json("search", "file")
    assert (hit["id"], hit["url"]) == (id_, url)
    (ordered,) = world.json("reindex", "--id", id_, "--dry-run")["ordered"]
    assert (ordered["id"], ordered["url"]) == (id_, url)
    assert display_url(url) in world.run("reindex", "--id", id_, "--dry-run").out


@pytest.mark.covers("R0-24", "R0-25")
def test_an_unknown_file_is_looked_for_as_a_file(orphaned: World):
    url = "s3://bucket/%7Ea?sig=secret"
    id_ = url_item_id("file", url_digest("s3://bucket/~a"))

    assert orphaned.json("why", url)["id"] == id_
    said = orphaned.run("forget", url, expect=1).err
    assert f"is not known (looked for {id_})" in said


# why


def way(story: dict[str, Any]) -> str | None:
    """What is under way."""
    return next((one["text"] for one in story["removal"] if one["underWay"]), None)


def test_why_says_that_an_unchanged_page_was_indexed_again(orphaned: World):
    """By order, or for another configuration: last_indexed is the time of the visit."""
    orphaned.desk.connection.execute(
        "UPDATE record SET last_indexed ="
        " (SELECT last_checked FROM state WHERE state.no = record.no) WHERE url = ?",
        (f"{SITE}/a",),
    ).fetchall()

    (story,) = orphaned.json("why", f"{SITE}/a")["records"]
    assert story["decision"]["action"] == "index"
    assert story["decision"]["text"].endswith("index, unchanged; its content was indexed")


def test_runs_are_limited_and_say_the_zone_of_their_times(orphaned: World):
    every = orphaned.json("runs")

    assert orphaned.json("runs", "--limit", "1") == every[:1] != every
    assert "started (UTC)" in orphaned.run("runs").out.splitlines()[0]
    assert "not a whole number of at least 1" in orphaned.run("runs", "--limit", "0", expect=2).err


def test_why_of_an_indexed_page(orphaned: World):
    told = orphaned.json("why", f"{SITE}/a")
    (story,) = told["records"]

    assert list(told) == list(why.KEYS) == keys("why", "key")
    assert list(story) == list(why.STORY_KEYS) == keys("why", "key of a story")
    assert told["id"] == story["record"]["id"]
    (record,) = [row for row in _registry(orphaned) if row["url"] == f"{SITE}/a"]
    assert story["record"] == record | {"discoveredFrom": None}
    assert (story["standing"], story["record"]["lastOutcome"]) == ("held", "unchanged")
    assert story["decision"] == {
        "run": 2,
        "at": "2025-06-15T16:06:40Z",
        "outcome": "same",
        "action": "touch",
        "text": "same where content is stored: touch, unchanged;"
        " nothing changed, so nothing was written",
    }
    assert story["request"] == {
        "url": f"{SITE}/a",
        "conditional": True,
        "why": None,
        "headers": {"If-None-Match": '"10"'},
        "distrusted": [],
        "dataRequests": 0,
        "confirmedBy": None,
    }
    assert story["linksIn"] == {"count": 1, "shown": [f"{SITE}/"]}
    assert way(story) is None
    assert [one["text"] for one in story["removal"]] == [
        "3 runs in a row get 404 or 410",
        "3 complete runs in a row find no link to it",
    ]
    assert story["nextVisit"]["text"] == "in the next run that reaches it"
    assert (story["scope"], story["robots"]) == (
        {"allowed": True, "why": None, "depth": 0, "maxDepth": None},
        None,
    )
    assert [event["event"] for event in story["history"]] == ["discovered"]


def _registry(world: World) -> list[dict[str, Any]]:
    out = world.run("registry", "--format", "jsonl").out
    return [json.loads(line) for line in out.splitlines()]


def test_why_tells_the_links_of_a_page(orphaned: World):
    out = orphaned.story("/")["linksOut"]

    assert (out["count"], [(one["url"], one["status"]) for one in out["shown"]]) == (
        2,
        [(f"{SITE}/a", "Indexed"), (f"{SITE}/c", "Error")],
    )
    orphaned.declare(SOURCES + "excluded_patterns = ['/c$']\n")
    story = orphaned.story("/")["linksOut"]["shown"]
    assert [one["inScope"] for one in story] == [True, False]
    assert orphaned.story("/c")["scope"]["why"] == "one of excluded_patterns matches it"
    assert orphaned.story("/c")["nextVisit"]["text"] == "none: out of scope"


def test_why_of_a_lost_page(orphaned: World):
    story = orphaned.story("/c")

    assert story["decision"]["text"] == (
        "not_found where content is stored: hold, lost; the response was recorded; the "
        "stored page stays searchable"
    )
    assert way(story) == "2 more runs get 404"
    assert [(e["event"], e["run"]) for e in story["history"]] == [("discovered", 1), ("changed", 2)]
    assert story["history"][1]["httpStatusCode"] == 404


@pytest.mark.covers("R4-07")
def test_why_of_an_orphan_and_of_one_that_was_lost_before(orphaned: World):
    story = orphaned.story("/b")
    assert way(story) == "2 more complete runs find no link to it"
    assert story["decision"]["run"] == 2
    assert story["decision"]["text"].startswith("the last run found no link to it")
    assert story["nextVisit"]["text"] == "none, unless a page links to it again"

    orphaned.crawl({"/": True, "/a": True}, now=LATER)

    assert way(orphaned.story("/b")) == "1 more complete run finds no link to it"
    assert way(orphaned.story("/c")) == "1 more complete run finds no link to it"


def test_why_tells_the_earliest_time_when_an_age_is_set(orphaned: World):
    result = orphaned.json("why", f"{SITE}/c", "-s", "LOST_MIN_AGE=3600")
    lost = result["records"][0]["removal"][0]

    assert (lost["notBefore"], lost["minAgeSeconds"]) == ("2025-06-15T17:06:40Z", 3600)
    shown = orphaned.run("why", f"{SITE}/c", "-s", "LOST_MIN_AGE=3600").out
    assert "2 more runs get 404 (gone), not before 2025-06-15T17:06:40Z" in shown
    shown = orphaned.run("why", f"{SITE}/a", "-s", "LOST_MIN_AGE=3600").out
    assert "get 404 or 410 (gone), and at least 3600 s after the first" in shown


def _redirect(world: World, path: str, to: str) -> None:
    desk = world.desk
    desk.reach(SITE + path)
    visit = desk.visit(
        SITE + path,
        outcome=Outcome.REDIRECT,
        status=301,
        links=[Link(SITE + to, "", "redirect", False)],
        targets=[desk.number(SITE + to)],
        location=SITE + to,
    )
    desk.write(visit)


def test_why_of_a_redirect_before_and_after_its_content_went(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/b": True, "/c": True}, seal=False)
    _redirect(world, "/a", "/b")
    waiting = world.story("/a")
    assert way(waiting) == "1 more run finds that it redirects to an indexed page"
    assert waiting["redirects"] == [f"{SITE}/a", f"{SITE}/b"]
    world.desk.seal()

    story = world.story("/a")

    assert (story["standing"], story["removal"]) == ("bare", [])
    assert story["decision"]["text"] == "removed: redirect"
    assert story["history"][-1]["found"]["target"] == f"{SITE}/b"
    assert story["request"]["why"] == "no copy is stored"
    assert world.story("/b")["linksIn"]["shown"] == [f"{SITE}/", f"{SITE}/a"]


def test_why_of_an_alias(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/b": True, "/c": True}, seal=False)
    desk = world.desk
    desk.reach(f"{SITE}/a")
    number = desk.number(f"{SITE}/b")
    document_fields = {"canonical": f"{SITE}/b"}
    desk.write(
        desk.visit(
            f"{SITE}/a", "words of a, again", canonical_no=number, document_fields=document_fields
        )
    )
    assert way(world.story("/a")) == "1 more run finds its canonical page indexed"
    desk.seal()

    story = world.story("/a")

    assert (story["standing"], story["record"]["lastOutcome"]) == ("links", "redirected")
    assert story["canonical"] == {"url": f"{SITE}/b", "status": "Indexed"}
    assert story["decision"]["text"] == "removed: canonical"


def test_why_of_a_clone_and_its_original(world: World):
    world.crawl({"/": "home words", "/a": LONG, "/longer": LONG}, {"/": ["/a", "/longer"]})

    clone, original = world.story("/longer")["clones"], world.story("/a")["clones"]

    assert clone == {"original": f"{SITE}/a", "others": [f"{SITE}/a"]}
    assert original == {"original": None, "others": [f"{SITE}/longer"]}
    assert world.story("/longer")["record"]["lastOutcome"] == "clone"
    assert world.story("/a")["record"]["lastOutcome"] == "new"


def test_why_of_an_excluded_page_and_the_robots_copy(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/a": True, "/b": True, "/c": None})
    body = b"User-agent: *\nDisallow: /c"
    world.desk.connection.execute(
        "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
        (SITE, NOW, body),
    )

    story = world.story("/c")

    assert story["decision"]["outcome"] == "excluded"
    assert way(story) == "2 more complete runs leave it out"
    at = {"status": 200, "fetchedAt": "2025-06-15T15:06:40Z", "obeyed": True}
    at |= {"error": None, "failedAt": None}
    rule = {"rule": "Disallow: /c", "line": 2, "agent": "*", "isRobotsTxt": True}
    assert story["robots"] == {"allowed": False} | rule | at
    none = {"rule": None, "line": None, "agent": None, "isRobotsTxt": True}
    assert world.story("/a")["robots"] == {"allowed": True} | none | at
    remove = world.json("why", f"{SITE}/c", "-s", "OUT_OF_SCOPE_POLICY=remove")["records"][0]
    assert way(remove) == "1 more run leaves it out"


def test_why_of_what_left_the_scope(world: World):
    world.crawl(FIRST, LINKS)
    world.desk.closing = closing(in_scope=lambda url, depth: not url.endswith("/c"))
    world.crawl({"/": True, "/a": True, "/b": True}, now=LATER)

    decision = world.story("/c")["decision"]

    assert (decision["run"], decision["text"]) == (2, "out of scope, so it was not requested")
    world.desk.closing = closing()
    world.crawl({"/": True, "/a": True, "/b": True, "/c": None}, now=LATER)
    decision = world.story("/c")["decision"]
    assert (decision["run"], decision["outcome"]) == (3, "excluded")


def test_why_of_a_page_that_came_back_by_itself(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.crawl({"/": True, "/b": "words of b, again"}, now=LATER)

    decision = orphaned.story("/b")["decision"]

    assert (decision["run"], decision["outcome"]) == (3, "changed")
    assert decision["text"].startswith("changed where nothing is stored: index, new")


def test_why_of_a_tombstone(orphaned: World):
    orphaned.run("deltamerge", "-D")

    story = orphaned.story("/c")
    shown = orphaned.run("why", f"{SITE}/c").out

    assert story["decision"]["text"] == "removed: gone"
    assert (story["removal"], story["standing"]) == ([], "bare")
    last = story["history"][-1]
    assert (last["event"], last["rule"], last["restorable"]) == ("removed", "gone", True)
    assert last["found"] == {"status": 404, "lostCount": 1, "goneCount": 1}
    assert "to bring it back: scrapy undo 2" in shown
    assert "nothing stored, so nothing to remove" in shown

    orphaned.run("undo", "2")
    story = orphaned.story("/c")
    assert [event["event"] for event in story["history"]][-2:] == ["removed", "restored"]
    assert story["history"][-2]["restorable"] is False
    assert story["history"][-2]["undoneAt"] is not None
    assert story["decision"]["text"] == "restored: the sweep of run 2 was undone"


def test_why_of_a_removed_page_that_is_still_gone_counts_nothing(orphaned: World):
    orphaned.run("deltamerge", "-D")
    orphaned.crawl({"/": True, "/c": 404})

    assert orphaned.story("/c")["record"]["goneCount"] == 1
    shown = orphaned.run("why", f"{SITE}/c").out
    assert "counts" not in shown
    assert "nothing stored, so nothing to remove" in shown


def test_why_names_a_robots_txt_that_is_a_web_page(world: World):
    world.crawl(FIRST, LINKS)
    world.desk.connection.execute(
        "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
        (SITE, NOW, b"<!doctype html><title>Shop</title>"),
    )

    robots = world.story("/a")["robots"]

    assert (robots["allowed"], robots["isRobotsTxt"], robots["rule"]) == (True, False, None)
    assert "the file is not a robots.txt (perhaps a web page), so there are no rules" in world.run(
        "why", f"{SITE}/a"
    ).out.replace("\n             ", " ")


def test_a_page_behind_one_that_robots_txt_forbids_is_told_so(world: World):
    world.crawl(
        {"/": "home", "/a": "a", "/b": "b", "/c": "c"},
        {"/": ["/a"], "/a": ["/b"], "/b": ["/c"], "/c": []},
    )
    insert = "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)"
    rules = (SITE, NOW, b"User-agent: *\nDisallow: /a")
    world.desk.connection.execute(insert, rules)
    world.crawl({"/": True, "/a": None}, now=LATER)

    def decided(path: str) -> str:
        return str(world.story(path)["decision"]["text"])

    stays = "the stored page stays for now"
    forbidden = (
        "the last run reached it from no seed: robots.txt disallows the page that link to "
        f"it; {stays}"
    )
    assert decided("/b") == forbidden
    assert decided("/c") == f"the last run found no link to it; {stays}"
    assert world.plan()["skips"] == {
        "disallowed by robots.txt": 1, "robots.txt disallows the pages that link to it": 2,
    }  # fmt: skip
    world.crawl({"/": True}, {"/": []}, now=LATER)
    assert world.plan()["skips"] == {"no page links to it": 3}


def test_a_table_with_a_mistake_is_named_and_its_source_shown(orphaned: World):
    """So is one of a source that was never crawled; a file that is no TOML hides no status."""
    seed = (2, orphaned.desk.number(f"{SITE}/"))
    orphaned.desk.connection.execute("INSERT INTO seed (run, no) VALUES (?, ?)", seed)
    orphaned.declare(SOURCES + "max_dept = 2\n\n[sources.next]\n")
    problems = r"has 2 problems:\s+\[sources.docs\] max_dept: unknown key, did.*\[sources.next\]"

    printed = orphaned.run("status", "--format", "json")
    assert re.search(problems, printed.err, re.DOTALL)
    (verdict,) = json.loads(printed.out)["verdicts"]
    assert verdict["text"].startswith(
        "not fresh: its table in sources.toml has a mistake, so no run visits it;"
    )
    shown = " ".join(orphaned.run("status", "--details").out.split())
    assert "look at its table in sources.toml has a mistake: its pages stay searchable" in shown

    printed = orphaned.run("plan", "--format", "json")
    assert re.search(problems, printed.err, re.DOTALL)
    docs, new = json.loads(printed.out)
    assert (docs["source"], new["source"]) == ("docs", "next")
    assert docs["note"].startswith("its table in sources.toml has a mistake: until you")
    assert docs["skips"] == {"the table of its source in sources.toml has a mistake": 4}
    assert (docs["asks"], docs["removes"], new["note"]) == (0, {}, docs["note"])
    assert "[sources.next]" not in orphaned.run("plan", "--source", "docs").err

    printed = orphaned.run("why", f"{SITE}/a", "--format", "json")
    (story,) = json.loads(printed.out)["records"]
    assert story["scope"]["why"] == "the table of its source in sources.toml has a mistake"
    assert story["nextVisit"]["text"] == f"none: {story['scope']['why']}"
    assert "[sources.docs] max_dept" in printed.err
    assert "[sources.next]" not in printed.err

    orphaned.declare(SOURCES + "[[[")
    printed = orphaned.run("status")
    assert "sources.toml is not valid TOML" in printed.err
    assert "fresh" in printed.out


def test_why_of_a_withheld_page_has_the_command_that_goes_on(withheld: World):
    story = withheld.story("/a")

    assert story["proposal"] == {
        "rule": "orphan",
        "run": 2,
        "renewedRun": 2,
        "found": {
            "why": "no page links to it",
            "completeRuns": 1,
            "lostCount": 0,
            "goneCount": 0,
            "since": "2025-06-15T16:06:40Z",
            "lastReachedRun": 1,
        },
        "probe": 200,
        "heldByFailedLook": False,
        "withheld": True,
        "release": "scrapy orphans --approve 2 --max 1",
    }
    shown = withheld.run("why", f"{SITE}/a").out
    assert "(withheld by the guard). To approve: scrapy orphans --approve 2 --max 1" in shown


def test_why_of_a_page_that_a_failed_look_holds(world: World):
    world.desk.closing = closing(orphan_threshold=1)
    world.crawl(FIRST, LINKS)
    links = {"/": ["/a", "/b"]}
    world.crawl({"/": "other words", "/a": True, "/b": True}, links, look={"/c": 503})

    proposal = world.story("/c")["proposal"]

    assert (proposal["heldByFailedLook"], proposal["release"]) == (True, None)
    shown = world.run("why", f"{SITE}/c").out
    assert "kept, because the check before removal failed (503)" in shown
    (held,) = world.plan("-s", "ORPHAN_THRESHOLD=1")["heldByFailedLook"]["shown"]
    assert held == {"url": f"{SITE}/c", "probe": 503}
    assert world.plan("-s", "ORPHAN_THRESHOLD=1")["removes"] == {}


def test_why_of_a_page_that_a_run_has_still_to_ask(world: World):
    world.crawl({"/": "home words"}, seal=False)
    world.desk.page(f"{SITE}/new")

    story = world.story("/new")

    assert (story["record"]["status"], story["decision"]["text"]) == (
        "Pending",
        "not visited yet",
    )
    assert story["nextVisit"]["text"] == "in the current run"


def test_why_of_an_unknown_address(orphaned: World):
    told = orphaned.json("why", "https://a.example/b")
    elsewhere = orphaned.run("why", "http://b.example/").out

    assert (told["records"], told["inScopeOf"]) == ([], ["docs"])
    assert told["nearMisses"] == [f"{SITE}/b"]
    shown = orphaned.run("why", "https://a.example/b").out
    assert f"is not known (looked for {told['id']})" in shown
    assert "It is in the scope of docs" in shown
    assert f"Did you mean {SITE}/b?" in shown
    assert "No source has it in its scope." in elsewhere
    assert "leaves it out" not in shown + elsewhere


def test_why_of_an_unknown_address_says_who_leaves_it_out_and_why(orphaned: World):
    told = orphaned.json("why", f"{SITE}/a.zip")

    why = "files of type .zip are skipped"
    assert (told["inScopeOf"], told["refusedBy"]) == ([], [{"source": "docs", "why": why}])
    shown = orphaned.run("why", f"{SITE}/a.zip").out
    assert "No source has it in its scope.\ndocs leaves it out: files of type .zip" in shown


def test_why_of_an_unknown_address_names_the_line_of_robots_txt_that_forbids_it(orphaned: World):
    text = b"User-agent: *\nDisallow: /private/\n"
    orphaned.desk.rows(
        "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
        (SITE, 5, text),
    )

    answer = orphaned.json("why", f"{SITE}/private/x")
    shown = " ".join(orphaned.run("why", f"{SITE}/private/x").out.split())
    free = " ".join(orphaned.run("why", f"{SITE}/public/x").out.split())
    dared = orphaned.json("why", f"{SITE}/private/x", "-s", "ROBOTSTXT_OBEY=0")

    why = "disallowed by robots.txt, line 2: 'Disallow: /private/'"
    assert (answer["inScopeOf"], answer["refusedBy"]) == (
        ["docs"],
        [{"source": "docs", "why": why}],
    )
    assert f"It is in the scope of docs. docs leaves it out: {why}." in shown
    assert "a run requests it" not in shown
    assert "It is in the scope of docs; a run requests it once a page links to it." in free
    assert dared["refusedBy"] == []


def test_why_shows_each_source_that_knows_the_address(orphaned: World):
    orphaned.desk.source = "other"
    orphaned.crawl({"/": "their words"})

    told = orphaned.json("why", SITE)["records"]
    assert [one["record"]["source"] for one in told] == ["docs", "other"]
    one = orphaned.json("why", SITE, "--source", "other")["records"]
    assert [story["record"]["source"] for story in one] == ["other"]
    assert one[0]["scope"] == {
        "allowed": None,
        "why": "its source is no longer in sources.toml",
        "depth": 0,
        "maxDepth": None,
    }


def test_why_says_why_a_request_carries_no_validators(orphaned: World):
    orphaned.desk.connection.execute("UPDATE record SET etag = NULL WHERE url LIKE '%/a'")
    orphaned.desk.connection.execute("UPDATE record SET configuration = 9 WHERE url LIKE '%/b'")

    unproven = "no reliable validator is stored"
    assert orphaned.story("/a")["request"]["why"] == unproven
    assert orphaned.story("/b")["request"]["why"] == "extracted with other settings"
    assert orphaned.story("/b")["request"]["headers"] == {}


@pytest.mark.parametrize(
    ("etag", "said"),
    [
        (None, "a date before 1990, which hides edits"),
        ('"1-264"', "a date before 1990 and an ETag made from it; both hide edits"),
    ],
)
def test_why_names_stored_validators_that_are_not_believed(
    orphaned: World, etag: str | None, said: str
):
    """An earlier version stored them, and sent them."""
    values = (etag, "Thu, 01 Jan 1970 00:00:01 GMT")
    orphaned.desk.connection.execute(
        "UPDATE record SET etag = ?, last_modified = ? WHERE url LIKE '%/a'", values
    )

    request = orphaned.story("/a")["request"]

    assert request["conditional"] is False
    assert (request["why"], request["headers"]) == (f"its server sent {said}", {})


# plan


def test_a_plan_asks_what_links_lead_to_and_changes_nothing(orphaned: World):
    before = orphaned.tables()

    told = orphaned.plan()

    assert list(told) == list(plan.KEYS) == keys("plan", "key")
    assert (told["known"], told["asks"], told["conditional"]) == (4, 3, 3)
    assert [row["url"].removeprefix(SITE) for row in told["asked"]] == ["/", "/a", "/c"]
    assert told["skips"] == {"no page links to it": 1}
    assert told["skipped"] == [{"url": f"{SITE}/b", "why": "no page links to it"}]
    assert (told["removes"], told["note"], told["newAddresses"]) == ({}, None, 0)
    assert told["guard"] == {"withholds": False, "removals": 0, "pages": 4}
    assert orphaned.tables() == before


def test_a_plan_says_what_the_next_run_does_then(orphaned: World):
    """/b was absent twice then, /c was gone twice: half of the source."""
    orphaned.desk.closing = closing(max_ratio=1.0)
    orphaned.crawl({"/": True, "/a": True, "/c": 404}, now=LATER)
    assert orphaned.plan()["guard"]["removals"] == 2
    rows = {row["url"].removeprefix(SITE): row for row in orphaned.plan()["removed"]}
    assert (rows["/b"]["rule"], rows["/c"]["rule"]) == ("orphan", "gone")
    assert rows["/c"]["when"] == "after 1 more run gets 404"

    orphaned.crawl({"/": True, "/a": True, "/c": 404}, now=LATER)

    assert orphaned.held() == {"/", "/a"}
    after = orphaned.plan()
    assert (after["removes"], after["asks"]) == ({}, 3)  # a tombstone that is linked is asked
    assert after["unconditional"] == {"no copy is stored": 1}


@pytest.mark.parametrize("setting", ["LOST_MIN_AGE", "ORPHAN_MIN_AGE"])
def test_a_plan_knows_the_ages(orphaned: World, setting):
    orphaned.crawl({"/": True, "/a": True, "/c": 404}, now=LATER)

    removes = orphaned.plan("-s", f"{setting}=999999999")["removes"]

    assert removes == ({"orphan": 1} if setting == "LOST_MIN_AGE" else {"gone": 1})


def test_a_plan_knows_the_guard(many: World):
    few = many.plan("-s", "ORPHAN_THRESHOLD=2", "-s", "SWEEP_MAX_RATIO=0.5")
    assert (few["guard"]["withholds"], few["removes"]) == (False, {"orphan": 12})

    told = many.plan("-s", "ORPHAN_THRESHOLD=2", "--limit", "3")

    assert told["guard"] == {"withholds": True, "removals": 12, "pages": 26}
    assert [len(told[key]) for key in ("asked", "skipped", "removed")] == [3, 3, 3]
    shown = many.run("plan", "-s", "ORPHAN_THRESHOLD=2", "--limit", "3").out
    assert "and 9 more (--limit)" in shown
    assert "  removes   12 of 26 (orphan)\n" in shown
    assert "the guard would withhold them for approval" in shown


def test_a_plan_shows_what_is_withheld_now(withheld: World):
    told = withheld.plan()["withheld"]

    assert told["count"] == 3
    assert told["shown"][0] == {"url": f"{SITE}/a", "rule": "orphan", "run": 2}


def test_a_plan_follows_todays_scope_and_seeds(orphaned: World):
    seeds = 'seeds = ["http://a.example/", "http://a.example/b", "http://a.example/new"]\n'
    orphaned.declare(f"[sources.docs]\n{seeds}excluded_patterns = ['/c$']\n")

    told = orphaned.plan()

    assert [row["url"].removeprefix(SITE) for row in told["asked"]] == ["/", "/b", "/a"]
    assert told["newAddresses"] == 1
    assert told["skipped"] == [{"url": f"{SITE}/c", "why": "out of scope"}]
    remove = orphaned.plan("-s", "OUT_OF_SCOPE_POLICY=remove")
    assert remove["removes"] == {"excluded": 1}


def test_a_plan_follows_pins_and_the_depth_limit(orphaned: World):
    orphaned.run("orphans", "--purge")
    orphaned.run("undo", "2", "--pin")
    assert "/b" in {row["url"].removeprefix(SITE) for row in orphaned.plan()["asked"]}

    orphaned.declare(SOURCES + "max_depth = 1\n")
    assert orphaned.plan()["asks"] == 4
    links = array("I", [orphaned.desk.number(f"{SITE}/c")]).tobytes()
    orphaned.desk.connection.execute(
        "UPDATE links SET targets = ? WHERE no = ?", (links, orphaned.desk.number(f"{SITE}/a"))
    )
    home = array("I", [orphaned.desk.number(f"{SITE}/a")]).tobytes()
    orphaned.desk.connection.execute(
        "UPDATE links SET targets = ? WHERE no = ?", (home, orphaned.desk.number(f"{SITE}/"))
    )
    orphaned.desk.connection.execute("UPDATE state SET depth = 1 WHERE no = 2")  # /a
    assert orphaned.plan()["asks"] == 3  # /c lies two links away now


def test_a_plan_obeys_the_robots_copy(orphaned: World):
    orphaned.desk.connection.execute(
        "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
        (SITE, NOW, b"User-agent: *\nDisallow: /a"),
    )

    assert orphaned.plan()["skips"]["disallowed by robots.txt"] == 1
    assert "disallowed by robots.txt" not in orphaned.plan("-s", "ROBOTSTXT_OBEY=0")["skips"]


def test_a_plan_does_not_remove_what_may_be_asked_again(world: World):
    """No copy of robots.txt says that it is forbidden still."""
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/a": True, "/b": True, "/c": None})

    told = world.plan("-s", "OUT_OF_SCOPE_POLICY=remove")

    assert (told["asks"], told["removes"]) == (4, {})


def test_a_run_that_a_limit_cuts_removes_no_orphans(orphaned: World):
    orphaned.crawl({"/": True, "/a": True, "/c": 404}, now=LATER)
    orphaned.declare(SOURCES + "max_pages = 2\n")

    told = orphaned.plan()

    assert told["removes"] == {}  # it ends before it asks for /c, which would be gone
    assert told["skips"]["the run ends before it"] == 1
    assert told["note"].startswith("max_pages=2 ends the run early")


def test_a_source_that_vanished_is_neither_crawled_nor_swept(orphaned: World):
    orphaned.crawl({"/": True, "/a": True, "/c": 404}, now=LATER)
    orphaned.declare("")
    seed = (3, orphaned.desk.number(f"{SITE}/"))
    orphaned.desk.connection.execute("INSERT INTO seed (run, no) VALUES (?, ?)", seed)
    assert orphaned.plan()["asks"] == 3  # not declared: its last run says where it starts
    orphaned.desk.connection.execute("UPDATE source SET declared = TRUE")

    told = orphaned.plan()

    assert (told["asks"], told["removes"]) == (0, {})
    assert told["note"].startswith("no longer in sources.toml")


def test_a_source_that_was_never_crawled_starts_with_its_seeds(orphaned: World):
    orphaned.declare(SOURCES + '[sources.next]\nseeds = ["http://b.example/"]\n')

    docs, new = orphaned.json("plan")

    assert (docs["source"], new["source"]) == ("docs", "next")
    assert (new["known"], new["asks"], new["newAddresses"]) == (0, 0, 1)


def test_a_plan_knows_redirects_noindex_and_canonical_pages(withheld: World):
    """What the guard withheld is proposed again when nothing changes."""
    world = withheld
    world.crawl({"/": True}, {"/": ["/a", "/b", "/c"]}, seal=False)
    for path in ("/a", "/b"):
        _redirect(world, path, "/")
    world.desk.reach(f"{SITE}/c")
    noindex = world.desk.visit(f"{SITE}/c", outcome=Outcome.NOT_ACCEPTABLE, status=406)
    noindex.parsed.links = None
    world.desk.write(noindex)
    home = array("I", [world.desk.number(SITE + path) for path in ("/a", "/b", "/c")]).tobytes()
    world.desk.connection.execute(
        "UPDATE links SET targets = ?, scope = ? WHERE no = ?",
        (home, world.scope, world.desk.number(f"{SITE}/")),
    )
    world.desk.seal()

    told = world.plan("-s", "SWEEP_MIN_COUNT=1")

    assert told["removes"] == {"redirect": 2, "not acceptable": 1}
    assert told["guard"]["withholds"] is True
    world.run("forget", f"{SITE}/")
    assert world.plan()["removes"] == {}  # what they lead to is not indexed any more


def test_a_redirect_to_a_page_that_is_lost_removes_nothing(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/b": True, "/c": 403}, seal=False)
    _redirect(world, "/a", "/c")
    world.desk.seal()

    assert world.plan()["removes"] == {}
    world.desk.connection.execute(
        "UPDATE state SET outcome = 3, http_status = 304, lost_count = 0 WHERE no = ?",
        (world.desk.number(f"{SITE}/c"),),
    )
    assert world.plan()["removes"] == {"redirect": 1}


def test_a_page_that_names_an_indexed_canonical_page_is_removed(world: World):
    world.crawl(FIRST, LINKS)
    world.crawl({"/": True, "/b": True, "/c": True}, seal=False)
    desk = world.desk
    desk.reach(f"{SITE}/a")
    number = desk.number(f"{SITE}/b")
    links = [Link(f"{SITE}/b", "", "canonical", False)]
    told = {"links": links, "targets": [], "canonical_no": number}
    desk.write(desk.visit(f"{SITE}/a", "words of a, again", **told))

    assert world.plan()["removes"] == {"canonical": 1}
    assert world.plan("-s", "SWEEP_MIN_COUNT=0")["removes"] == {}  # named by too many of four


# With a real server


@pytest.mark.covers("M-09", "R4-12")
def test_a_purged_page_comes_back_pinned_and_is_a_seed_of_the_next_run(
    site: Site, crawl: Crawl, ask: Scrapy
):
    def run(*args: str) -> str:
        result = ask.run(list(args), crawl.own())
        assert (result.status, result.err) == (0, "")
        return result.out

    site.pages["/"] = html("Home", "/a", "/old")
    site.pages["/a"] = html("A")
    site.pages["/old"] = Page("<title>Old</title><p>granite</p>")
    crawl(site.url("/"))
    site.pages["/"] = html("Home", "/a")
    crawl(site.url("/"))
    planned = json.loads(run("plan", "--format", "json"))[0]
    assert [row["url"] for row in planned["skipped"]] == [site.url("/old")]

    assert "undo with: scrapy undo 2" in run("orphans", "--purge")
    assert crawl.hits("granite") == []
    run("undo", "2", "--pin")

    site.clear()
    planned = json.loads(run("plan", "--format", "json"))[0]
    crawl(site.url("/"))
    assert site.count("/old") == 1
    asked = {row["url"]: row["conditional"] for row in planned["asked"]}
    got = {
        site.url(request.path): "if-none-match" in request.headers
        for request in site.log
        if request.path != "/robots.txt"
    }
    assert asked == got
    assert crawl.pages()["/old"]["orphanAge"] == 0
    assert crawl.hits("granite") == ["/old"]
    story = json.loads(run("why", site.url("/old"), "--format", "json"))["records"][0]
    assert story["nextVisit"]["text"] == "in every run, because it is pinned"
    assert [way["rule"] for way in story["removal"]] == ["gone"]
