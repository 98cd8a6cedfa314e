"""`scrapy plan --simulate`: a history is replayed under other settings, as table, JSON and SVG."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from smartcrawl.reports import simulation
from smartcrawl.rules.schedule import Schedule
from tests.crawls.commands import Crawl, Result
from tests.lab.lab import Lab, page
from tests.registry.build import LONG, Desk

pytestmark = pytest.mark.sqlite

DAY = 86_400  #: seconds
SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).resolve().parents[2]
_RUN = """
INSERT INTO run (source, state, number, complete, due, started_at, finished_at)
VALUES (1, 4, 1, ?, ?, ?, ?)
"""
_CHANGE = "INSERT INTO change (record, run, at) VALUES (?, ?, ?)"


class World:
    """A registry in a file whose history is made up, and the command over it."""

    def __init__(self, crawl: Crawl) -> None:
        crawl.data_dir.mkdir()
        self.folder = crawl.folder
        self.now = int(time.time())
        self.desk = Desk(crawl.registry)
        self.desk.connection.execute("PRAGMA synchronous = OFF").fetchall()  # it only costs time
        self._crawl = crawl

    def began(self, days: float, *urls: str) -> None:
        """Crawl some pages for the first time, so many days ago."""
        at = self.now - int(days * DAY)
        self.desk.open(now=at)
        self.desk.add(*urls, now=at)
        for number, url in enumerate(urls):
            self.desk.write(self.desk.visit(url, f"{LONG} {number}"), now=at)
        self.desk.seal(now=at)
        self.desk.rows("DELETE FROM change")

    def ran(self, *days: float, complete: bool = True, due: bool = False) -> None:
        """Runs took place so many days ago."""
        for at in (self.now - int(day * DAY) for day in days):
            self.desk.rows(_RUN, (complete, due, at, at))

    def changed(self, url: str, *days: float) -> None:
        """A page was found changed so many days ago."""
        for day in sorted(days, reverse=True):
            at = self.now - int(day * DAY)
            self.desk.rows(_CHANGE, (self.desk.number(url), 2, at))

    def run(self, *args: str, expect: int = 0) -> Result:
        return self._crawl.run("plan", *args, expect=expect)

    def told(self, days: int, *args: str) -> dict[str, Any]:
        """What it prints as JSON of the one source."""
        given = ["--simulate", str(days), "--format", "json", *args]
        (told,) = json.loads(self.run(*given).out)
        assert list(told) == list(simulation.KEYS)
        return told

    def rows(self, days: int, *args: str) -> dict[str, dict[str, Any]]:
        """The settings of the one source, by name."""
        settings = self.told(days, *args)["settings"]
        assert all(list(row) == list(simulation.SETTING_KEYS) for row in settings)
        return {row["setting"]: row for row in settings}


@pytest.fixture
def world(crawl: Crawl) -> Iterator[World]:
    world = World(crawl)
    yield world
    world.desk.close()


URLS = [f"http://a.example/{n}" for n in range(10)]


@pytest.fixture
def docs(world: World) -> World:
    """Ten pages that were crawled daily for 60 days and a half; one changed daily, one weekly."""
    world.began(60.5, *URLS)
    world.ran(*(day + 0.5 for day in range(60)))
    world.changed(URLS[0], *(day + 0.5 for day in range(60)))
    world.changed(URLS[1], *(7 * week + 3.5 for week in range(8)))
    return world


def test_a_table_compares_some_settings_with_every_run(docs: World):
    head, columns, *rows = docs.run("--simulate", "30").out.splitlines()

    assert re.fullmatch(
        r"docs, \S+Z to \S+Z: 10 pages, 34 changes, 30 complete runs; a run in 24\.0 h", head
    )
    assert re.split(r"\s{2,}", columns.strip()) == [
        "setting", "requests", "saved", "staleness", "95 % within", "waiting", "with",
    ]  # fmt: skip
    cells = {name: row for name, *row in (re.split(r"\s{2,}", row.strip()) for row in rows)}
    assert list(cells) == [
        "every run", "as set", "half the base interval", "twice the base interval",
        "back off after 1", "back off after 5",
    ]  # fmt: skip
    assert cells["every run"][:2] == ["300", "0 %"]
    assert all(cell.endswith(" h") for row in cells.values() for cell in row[2:4])
    assert cells["as set"][-1].isdecimal()
    assert cells["half the base interval"][-1] == "-s CRAWL_BASE_INTERVAL_SECONDS=43200"
    assert cells["back off after 1"][-1] == "-s UNCHANGED_CHECKS_BEFORE_BACKOFF=1"


def test_the_numbers_are_those_of_the_replay(docs: World):
    told, rows = docs.told(30), docs.rows(30)
    every, now = rows["every run"], rows["as set"]

    assert (told["source"], told["note"]) == ("docs", None)
    assert (told["pages"], told["changes"], told["wholeRuns"]) == (10, 34, 30)
    assert told["paceSeconds"] == DAY
    assert (every["requests"], every["saved"], every["savedShare"]) == (300, 0, 0)
    assert 0 < every["stalenessHours"] <= every["staleness95Hours"] <= 24
    # daily: 30; weekly: on 3 days and the sixth after each change; others: in 13 or 14 days
    assert 30 + 4 * 4 + 8 * 2 <= now["requests"] <= 30 + 5 * 4 + 8 * 3
    assert now["saved"] == 300 - now["requests"]
    assert now["savedShare"] == pytest.approx(now["saved"] / 300, abs=1e-4)
    assert now["stalenessHours"] >= every["stalenessHours"]
    assert [name for name, row in rows.items() if row["current"]] == ["as set"]
    assert (now["with"], every["with"]) == (None, None)


def test_settings_that_wait_longer_save_more_and_are_later(docs: World):
    rows = docs.rows(60)
    chain = [rows[f"back off after {n}"] for n in (5, 1)]
    chain.insert(1, rows["as set"])

    saved = [row["saved"] for row in chain]
    assert saved == sorted(saved)
    assert len(set(saved)) == 3
    assert chain[0]["stalenessHours"] <= chain[-1]["stalenessHours"]
    twice, half = rows["twice the base interval"], rows["half the base interval"]
    assert twice["requests"] < rows["as set"]["requests"] <= half["requests"] < 600


def test_the_current_setting_is_the_one_that_is_given(docs: World):
    rows = docs.rows(30)
    after = docs.rows(30, "-s", "UNCHANGED_CHECKS_BEFORE_BACKOFF=1")

    same = {"requests", "saved", "savedShare", "stalenessHours", "staleness95Hours", "waiting"}
    assert {key: after["as set"][key] for key in same} == {
        key: rows["back off after 1"][key] for key in same
    }
    assert "back off after 3" in after
    assert "back off after 1" not in after
    flat = docs.rows(30, "-s", "CRAWL_INTERVAL_STEPS=1")
    assert flat["as set"]["saved"] == 0
    assert list(flat) == ["every run", "as set", "twice the base interval"]


def test_a_setting_that_is_as_every_run_is_left_out_but_not_another_one(docs: World):
    assert "never back off" not in docs.rows(30)
    docs.ran(*(day / 8 for day in range(1, 480)))

    assert docs.rows(30)["never back off"]["saved"] > 0


@pytest.mark.parametrize(
    ("schedule", "names"),
    [
        (Schedule(base=1), ["twice", "after 1", "after 5", "never"]),
        (Schedule(longest=86_400), ["half", "after 1", "after 5", "never"]),
        (Schedule(patience=5, steps=(2, 9)), ["half", "twice", "after 1", "after 3", "never"]),
        (Schedule(steps=(1,)), ["half", "twice"]),
    ],
)
def test_only_settings_that_differ_and_are_allowed_are_tried(schedule: Schedule, names: list[str]):
    current, *others = simulation.simulation_report_settings(schedule)

    assert (current.schedule, current.option) == (schedule, None)
    assert [next(n for n in names if n in other.name) for other in others] == names
    assert all(other.schedule != schedule for other in others)


def test_each_setting_is_what_its_option_makes(docs: World):
    """What the column "with" says can be given, and gives the same numbers."""
    rows = docs.rows(60, "-s", "CRAWL_JITTER=0.5")
    tried = 0
    for row in rows.values():
        if row["with"]:
            told = docs.rows(60, "-s", "CRAWL_JITTER=0.5", "-s", row["with"])["as set"]
            assert told["requests"] == row["requests"], row["with"]
            assert told["stalenessHours"] == row["stalenessHours"]
            tried += 1
    assert tried >= 4


def test_pages_that_were_found_later_begin_later(docs: World):
    before = docs.rows(30)["every run"]["requests"]
    docs.desk.open(now=docs.now - 9 * DAY)
    docs.desk.index("http://a.example/new", "words that are new")
    docs.desk.rows("UPDATE record SET first_seen = ? WHERE no = 11", (docs.now - 9 * DAY - 9,))
    docs.desk.rows("DELETE FROM run WHERE state = 0")

    assert docs.told(30)["pages"] == 11
    assert docs.rows(30)["every run"]["requests"] == before + 10  # the first visit, and 9 days


def test_a_source_that_was_crawled_seldom_is_taken_as_crawled_daily(world: World):
    world.began(40, *URLS)
    world.ran(20, 5)
    world.ran(4, 3, complete=False)
    world.changed(URLS[0], 20, 5)

    told = world.told(30)

    assert (told["paceSeconds"], told["wholeRuns"]) == (DAY, 2)
    assert told["settings"][0]["requests"] == 300
    less = world.rows(30, "-s", f"CRAWL_BASE_INTERVAL_SECONDS={3 * DAY}")
    assert less["every run"]["requests"] == 100


def test_runs_that_asked_only_what_was_due_are_no_baseline(docs: World):
    docs.ran(*(day / 8 for day in range(1, 480)), due=True)

    told, rows = docs.told(30), docs.rows(30)

    assert told["wholeRuns"] == 30
    assert told["paceSeconds"] < DAY // 8
    assert rows["every run"]["requests"] == pytest.approx(300, rel=0.04)
    assert rows["half the base interval"]["requests"] > rows["as set"]["requests"]


def test_the_last_change_is_known_without_the_others(world: World):
    """A registry that is older than the table of changes has one of each page."""
    world.began(40, *URLS)
    world.desk.open(now=world.now - 9 * DAY)
    world.desk.write(world.desk.visit(URLS[0], "other words"), now=world.now - 9 * DAY)
    world.desk.seal(look=False, now=world.now - 9 * DAY)
    world.desk.rows("DELETE FROM change")

    assert world.told(30)["changes"] == 1


def test_without_a_change_savings_are_told_and_staleness_is_not(world: World):
    world.began(30, *URLS)
    world.ran(*range(30))

    told = world.told(30)
    shown = world.run("--simulate", "30").out

    assert told["note"] == "no change is known in this time, so nothing could be late"
    assert told["note"] in shown
    assert told["settings"][1]["saved"] > 0
    assert all(row["stalenessHours"] is row["staleness95Hours"] is None for row in told["settings"])


# The picture


def test_the_picture_shows_the_settings_of_the_table(docs: World):
    file = docs.folder / "picture.svg"
    shown = docs.run("--simulate", "30", "--svg", str(file)).out
    svg = ElementTree.parse(file).getroot()
    groups = svg.findall(f"{SVG}g")
    rows = docs.rows(30)

    assert shown.splitlines()[1:] == docs.run("--simulate", "30").out.splitlines()[1:]
    assert [group.find(f"{SVG}text").text for group in groups] == list(rows)
    marked = [group for group in groups if group.get("class") == "current"]
    assert [group.find(f"{SVG}text").text for group in marked] == ["as set"]
    places = [float(group.find(f"{SVG}circle").get("cx")) for group in groups]
    by_share = sorted(zip((row["savedShare"] for row in rows.values()), places, strict=True))
    assert [place for _, place in by_share] == sorted(places)
    assert svg.find(f"{SVG}title").text == "docs: requests saved against staleness"
    assert "every run: 0 % saved, " in svg.find(f"{SVG}desc").text


def test_the_picture_replaces_what_the_file_held_and_goes_along_with_json(docs: World):
    file = docs.folder / "picture.svg"
    file.write_text("old", encoding="utf-8")

    docs.told(30, "--svg", str(file))

    assert file.read_text("utf-8").startswith("<svg ")


@pytest.mark.parametrize("place", ["missing/picture.svg", "."])
def test_a_picture_that_cannot_be_written_is_an_error_that_says_what_to_do(docs: World, place: str):
    file = docs.folder / place
    result = docs.run("--simulate", "30", "--svg", str(file), expect=1)

    assert result.out == ""
    assert result.err.startswith(f"plan: cannot write {file} (")
    assert "give --svg a file in a folder that this user may write to" in result.err


def test_without_a_change_there_is_no_picture(world: World):
    world.began(30, *URLS)
    world.ran(*range(30))
    file = world.folder / "picture.svg"

    result = world.run("--simulate", "30", "--svg", str(file), expect=1)

    assert "docs: no change is known since" in result.err
    assert "leave --svg out, or let --simulate go back further" in result.err
    assert not file.exists()


def test_a_picture_shows_one_source(docs: World):
    (docs.folder / "sources.toml").write_text('[sources.more]\nseeds = ["http://b.example/"]\n')
    file = str(docs.folder / "picture.svg")

    result = docs.run("--simulate", "30", "--svg", file, expect=1)

    assert "a picture shows one source, but there are 2: choose one with --source" in result.err
    docs.run("--simulate", "30", "--svg", file, "--source", "docs")


# What cannot be replayed


def test_one_crawl_is_no_history_and_the_message_says_from_when_on_it_is(world: World):
    world.began(0.25, URLS[0])
    began, ready = world.now - DAY // 4, world.now - DAY // 4 + DAY

    result = world.run("--simulate", "30", expect=1)

    assert result.out == ""
    assert result.err == (
        f"plan: docs: it was crawled once, {iso(began)}, and changes show from the second run on:"
        f" crawl it again; there is something to replay from {iso(ready)} on\n"
    )


def test_a_history_below_the_base_interval_is_too_short(world: World):
    world.began(0.25, URLS[0])
    world.ran(0.2, 0.1)
    ready = world.now - DAY // 4 + DAY

    result = world.run("--simulate", "30", expect=1)

    assert "less than the base interval of 24.0 h ago" in result.err
    assert f"there is something to replay from {iso(ready)} on" in result.err
    world.run("--simulate", "30", "-s", "CRAWL_BASE_INTERVAL_SECONDS=3600")


def test_a_source_that_holds_no_page_has_nothing_to_replay(docs: World):
    docs.desk.rows("UPDATE state SET standing = 0")

    assert "docs: none of its pages is stored" in docs.run("--simulate", "30", expect=1).err


def test_of_several_sources_those_without_history_say_so(docs: World):
    (docs.folder / "sources.toml").write_text('[sources.more]\nseeds = ["http://b.example/"]\n')
    note = "it was not crawled yet; a replay needs two runs"

    shown = docs.run("--simulate", "30")
    told = json.loads(docs.run("--simulate", "30", "--format", "json").out)

    assert shown.out.splitlines()[-1] == f"more: {note}"
    assert [(one["source"], one["note"], bool(one["settings"])) for one in told] == [
        ("docs", None, True),
        ("more", note, False),
    ]


def test_no_source_at_all(world: World):
    assert "plan: no sources yet" in world.run("--simulate", "30", expect=1).err


def test_an_unknown_source(docs: World):
    result = docs.run("--simulate", "30", "--source", "nobody", expect=1)

    assert result.err == "plan: no source is called 'nobody'; known: docs\n"


@pytest.mark.parametrize("days", ["many", "0", "-3", "3651", "1.5", "", "²", "99999999999"])
def test_days_are_whole_numbers_from_1_to_3650(docs: World, days: str):
    result = docs.run(f"--simulate={days}", expect=2)

    assert f"{days!r} is not a whole number of days from 1 to 3650" in result.err


def test_the_longest_time_reaches_back_to_the_first_run(docs: World):
    told = docs.told(3650)

    assert told["since"] == iso(docs.now - int(60.5 * DAY))
    assert told["settings"][0]["requests"] == pytest.approx(10 * 61, rel=0.01)


def test_a_picture_of_a_plan_is_wrong_usage(docs: World):
    result = docs.run("--svg", "picture.svg", expect=2)

    assert "--svg needs a simulation to draw: add --simulate DAYS" in result.err


def test_nothing_is_changed(docs: World):
    before = [docs.desk.rows(f"SELECT * FROM {name}") for name in ("record", "state", "change")]
    docs.run("--simulate", "30")

    assert before == [
        docs.desk.rows(f"SELECT * FROM {name}") for name in ("record", "state", "change")
    ]


# With runs


def test_real_runs_are_a_history(lab: Lab):
    lab.pages["/"] = page("Home", "/a")
    lab.pages["/a"] = page("A", "/")
    lab.run()
    short = lab.crawl.run("plan", "--simulate", "30", expect=1)
    lab.after(days=2)
    lab.pages["/a"] = page("A", "/", text="More words than before.")
    lab.run()
    lab.after(days=2)

    (told,) = json.loads(lab.crawl.run("plan", "--simulate", "30", "--format", "json").out)

    assert "it was crawled once, " in short.err
    assert (told["pages"], told["changes"], told["wholeRuns"]) == (2, 1, 2)
    assert told["settings"][0]["setting"] == "every run"


def iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


# The manual


def test_every_key_is_documented_in_its_order():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split("\n## `smartcrawl plan`\n")[1].split("\n## ")[0]
    tables = [
        re.findall(r"^\| `(\w+)` \|", section.split(f"\n| {head} |")[1].split("\n\n")[0], re.M)
        for head in ("key of a simulation", "key of a setting")
    ]

    assert tables == [list(simulation.KEYS), list(simulation.SETTING_KEYS)]
