"""A source with a budget: what a due crawl visits, what is stored, and what status and plan say."""

import json
import re
from contextlib import closing
from typing import Any

import pytest

from smartcrawl.server.explained.sources import sources_data
from tests.lab.lab import Lab, page
from tests.lab.served import served_context

DAY = 86_400
TABLE = """
[sources.docs]
seeds = ["http://lab.example/"]

[sources.docs.freshness]
target = "95% within 24h"
budget = "{budget} requests/day"
"""


def declare(lab: Lab, budget: int) -> None:
    """Declare the site as a source with a budget."""
    text = TABLE.format(budget=budget).replace("http://lab.example/", lab.site.url("/"))
    (lab.crawl.folder / "sources.toml").write_text(text)


@pytest.fixture
def docs(lab: Lab) -> Lab:
    """A site of 20 pages, below a page that links to all of them, crawled once."""
    declare(lab, 8)
    names = [f"/{number}" for number in range(19)]
    lab.pages["/"] = page("Home", *names)
    for name in names:
        lab.pages[name] = page(f"Page {name}", text=f"what page {name} says")
    lab.source = "docs"
    lab.run()
    lab.site.clear()
    return lab


def served_source(lab: Lab) -> dict[str, Any]:
    """The source, as a server answers."""
    context = served_context(lab)
    with closing(context.stores.database.open()) as connection:
        (found,) = sources_data(connection, context, ["docs"], lab.crawl.now)["sources"]
    return found


def due(lab: Lab, *args: str) -> list[str]:
    """The pages that a due crawl asks."""
    lab.site.clear()
    lab.crawl.run("due", *args, expect=None)
    return [request.path for request in lab.log if request.path != "/robots.txt"]


def test_a_due_crawl_visits_no_more_than_the_budget_and_those_that_waited_longest(docs: Lab):
    seen = []
    for _ in range(3):
        docs.after(days=1)
        asked = due(docs)
        assert len(asked) <= 8
        seen += asked

    assert len(seen) >= 20
    assert len(set(seen)) == 20, "each page had its turn before any had two"


@pytest.mark.long
def test_a_page_that_changes_each_day_is_visited_more_often_than_one_that_never_does(docs: Lab):
    calm, busy = dict.fromkeys(range(9, 19), 0), dict.fromkeys(range(9), 0)
    for day in range(20):
        for number in busy:
            docs.pages[f"/{number}"] = page(f"Page {number}", text=f"day {day} of {number}")
        docs.after(days=1)
        asked = due(docs)
        if day > 6:
            for visits in (calm, busy):
                for number in visits:
                    visits[number] += asked.count(f"/{number}")

    assert min(busy.values()) > max(calm.values())
    gaps = docs.rows("SELECT visit_gap FROM change")
    assert len(gaps) > 50
    assert {round(gap / DAY) >= 1 for (gap,) in gaps} == {True}


def test_the_next_visit_is_the_planned_one_and_due_waits_for_it(docs: Lab):
    docs.after(days=1)
    due(docs)
    now = docs.crawl.now
    rows = docs.rows("SELECT next_visit, last_checked, interval FROM state")

    assert all(after > now for after, *_ in rows)
    assert all(after == last + interval for after, last, interval in rows)
    assert due(docs) == []


def test_a_notice_a_failure_a_loss_and_a_new_page_are_visited_beyond_the_budget(docs: Lab):
    declare(docs, 1)
    docs.after(days=1)
    assert len(due(docs)) <= 1
    docs.pages["/3"] = page("Other", "/new", text="page 3 has grown")
    docs.pages["/new"] = page("New", text="a page that was not there before")
    docs.crawl.run("due", "--notice", docs.site.url("/3"), docs.site.url("/4"))
    del docs.pages["/4"]
    docs.after(hours=1)

    asked = due(docs)
    assert {"/3", "/4", "/new"} <= set(asked)
    assert docs["/4"]["lostCount"] == 1
    docs.after(hours=1)  # the wait after one failure is over
    assert "/4" in due(docs)
    assert docs["/4"]["lostCount"] == 1, "counts of a due crawl rise no faster than once a day"


def test_a_page_that_is_gone_is_removed_within_a_budget_as_without_one(docs: Lab):
    del docs.pages["/7"]
    docs.crawl.run("due", "--notice", docs.site.url("/7"))
    for _ in range(4):
        docs.after(days=2)
        due(docs)

    assert docs.rules() == {"/7": "gone"}


@pytest.mark.long
def test_each_page_is_visited_within_the_longest_interval_whatever_the_budget_is(docs: Lab):
    declare(docs, 1)
    last = dict.fromkeys([record for record in docs if record != "/robots.txt"], 0)
    for day in range(1, 31):
        docs.after(days=1)
        for path in due(docs):
            assert day - last[path] <= 14
            last[path] = day

    assert min(last.values()) > 30 - 14


def test_status_says_how_fresh_it_is_and_what_the_target_takes(docs: Lab):
    for _ in range(4):
        docs.after(days=1)
        due(docs)
    told = docs.crawl.run("status", "--details").out
    line = next(line for line in told.splitlines() if line.lstrip().startswith("freshness"))
    text = " ".join(told.split())

    assert re.search(r"about [\d.]+ % of 20 pages within 24 h; the target is 95 %\.", text), told
    assert re.search(r"Requests: it takes about \d+ a day; 8 a day buy [\d.]+ %", text), line
    (found,) = json.loads(docs.crawl.run("status", "--format", "json").out)["freshness"]
    assert (found["source"], found["target"], found["budget"]) == ("docs", 0.95, 8)
    assert (found["withinSeconds"], found["pages"]) == (DAY, 20)
    assert found["paceSeconds"] == pytest.approx(DAY, abs=900)
    assert 0 < found["fresh"] <= 1
    assert found["bought"] < 1
    served = served_source(docs)
    assert served["freshness"] == found
    (line,) = [one["text"] for one in served["figures"] if one["label"] == "freshness"]
    assert line.startswith("about ")
    assert line in text


def test_status_says_what_a_budget_that_is_too_small_buys(docs: Lab):
    for day in range(4):
        for number in range(19):
            docs.pages[f"/{number}"] = page(f"Page {number}", text=f"day {day} of {number}")
        docs.after(days=1)
        due(docs)
    told = " ".join(docs.crawl.run("status", "--details").out.split())
    assert re.search(
        r"the budget does not reach 95 % within 24 h, which takes about \d+ requests a day; 8 buy"
        r" [\d.]+ %\. Raise the budget, or lower the target",
        told,
    ), told
    assert served_source(docs)["look"][0]["text"].startswith("the budget does not reach 95 %")

    declare(docs, 1)
    told = " ".join(docs.crawl.run("status", "--details").out.split())
    assert "the budget of 1 request a day is exceeded: to visit each page every 14 days" in told
    text = (docs.crawl.folder / "sources.toml").read_text()
    (docs.crawl.folder / "sources.toml").write_text(text.replace("within 24h", "within 10min"))
    told = " ".join(docs.crawl.run("status", "--details").out.split())
    assert "no budget reaches 95 % within 10 min with a due crawl every" in told
    assert "Run due more often, or lower the target" in told


def test_a_plan_replays_the_budget(docs: Lab):
    for day in range(9):
        docs.pages["/1"] = page("Page 1", text=f"day {day}")
        docs.after(days=1)
        due(docs)
    told = docs.crawl.run("plan", "--simulate", "30", "--source", "docs").out

    assert re.search(r"^budget +\d+ +\d+ %", told, re.MULTILINE), told
    text = " ".join(told.split())
    assert re.search(
        r"budget: 8 requests a day, which keep [\d.]+ % within 24\.0 h; the target is 95 % within"
        r" 24\.0 h: it takes about \d+ requests a day",
        text,
    ), told
    (found,) = json.loads(docs.crawl.run("plan", "--simulate", "30", "--format", "json").out)
    assert [row["setting"] for row in found["settings"] if row["current"]] == ["budget"]


def test_a_plan_rehearses_the_budget(docs: Lab):
    docs.after(days=1)
    told = docs.crawl.run("plan", "-s", "RECRAWL_POLICY=due", "--limit", "50").out
    planned = set(re.findall(rf"{re.escape(docs.site.url(''))}(/\d*)$", told, re.MULTILINE))

    assert planned == set(due(docs))


@pytest.mark.parametrize(
    ("table", "problems"),
    [
        ('target = "95% within 24h"', ['has no budget: add budget = "20000 requests/day"']),
        ('budget = "9 requests/day"', ['has no target: add target = "95% within 24h"']),
        (
            'target = "soon"\nbudget = 9',
            [
                "has target = 'soon': expected a share and a time in min, h or d, up to 365d, as in"
                ' "95% within 24h"',
                "has budget = 9: expected a number from 1 to 1000000000, as in"
                ' "20000 requests/day"',
            ],
        ),
        (
            'target = "95% within 24h"\nbudget = "9 requests/day"\nbudgte = 1',
            ["has an unknown key budgte, did you mean budget?; known are target, budget"],
        ),
    ],
)
def test_nonsense_is_refused_with_the_remedy(docs: Lab, table: str, problems: list[str]):
    head = TABLE.partition("target")[0].replace("http://lab.example/", docs.site.url("/"))
    (docs.crawl.folder / "sources.toml").write_text(head + table)
    told = docs.run(expect=1).err

    for problem in problems:
        assert problem in told, told
    assert "[sources.docs] freshness" in told


def test_a_budget_that_is_no_table_and_one_of_a_folder_are_refused(docs: Lab):
    sources = docs.crawl.folder / "sources.toml"
    sources.write_text(f'[sources.docs]\nseeds = ["{docs.site.url("/")}"]\nfreshness = "95%"\n')
    told = docs.run(expect=1).err
    assert (
        "freshness is '95%': expected a table with target = \"95% within 24h\" and budget" in told
    )

    sources.write_text('[sources.docs]\nkind = "files"\nroot = "."\n[sources.docs.freshness]\n')
    assert "freshness: unknown key" in docs.run(expect=1).err


def test_an_hour_later_a_due_crawl_has_what_an_hour_saves_up(docs: Lab):
    docs.after(days=1)
    first = due(docs)
    spent = docs.rows("SELECT requests FROM run ORDER BY no DESC LIMIT 1")[0][0]
    docs.after(hours=1)

    assert len(first) == spent == 8
    assert due(docs) == [], "an hour saves up less than one request"


def test_a_notice_of_a_page_that_the_budget_left_out_is_obeyed_too(docs: Lab):
    declare(docs, 1)
    docs.after(days=1)
    due(docs)
    docs.after(hours=20)
    at = docs.crawl.now - 3_600  # the time has come
    docs.rows(f"UPDATE state SET next_visit = {at}, interval = {at} - last_checked")
    docs.crawl.run("due", "--notice", docs.site.url("/3"), docs.site.url("/4"))
    docs.after(hours=4)

    assert {"/3", "/4"} <= set(due(docs))
