"""A plan is what the next run does, if everything answers as it did last time."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.rules.model import RemovalRule
from tests.crawls.commands import path_of
from tests.lab.lab import Lab, Page, page
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.lab.test_lab_agrees import TALES, Tale, Teller, collapse, tables

#: What one run was ordered to do, and the next one is not.
_ORDERS = {"force", "lost_threshold", "max_pages", "resume"}
_LAST = "(SELECT max(no) FROM run)"
_ASKED = f"""
SELECT r.url FROM record r JOIN state s USING (no)
 WHERE s.visited_run = {_LAST} AND s.seen_run = {_LAST} AND r.first_run < {_LAST}
"""
_REFUSED = f"""
SELECT r.url FROM record r JOIN state s USING (no)
 WHERE s.visited_run = {_LAST} AND s.seen_run < {_LAST} AND r.first_run < {_LAST}
"""
_REMOVED = f"SELECT rule, count(*) FROM evidence WHERE run = {_LAST} GROUP BY rule"
_WITHHELD = f"SELECT rule FROM candidate WHERE withheld AND renewed = {_LAST}"


def planned(crawl: LabCrawl, settings: dict[str, object]) -> dict[str, Any]:
    """The plan of the one source, with every page."""
    words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    [plan] = json.loads(crawl.run("plan", "--format", "json", "--limit", "9999", *words).out)
    assert isinstance(plan, dict)
    return plan


def check(crawl: LabCrawl, site: LabSite, plan: dict[str, Any]) -> None:
    """Compare a plan with the run that followed."""
    asked = {path_of(row["url"]): row["conditional"] for row in plan["asked"]}
    assert sorted(asked) == sorted(path_of(url) for (url,) in crawl.rows(_ASKED))
    validators = {"if-none-match", "if-modified-since"}
    first: dict[str, bool] = {}
    for request in site.log:
        first.setdefault(request.path, bool(validators & request.headers.keys()))
    if not site.ignores_conditions:  # it does not note them either
        assert asked == {path: first.get(path, asked[path]) for path in asked}
    refused = {path_of(url) for (url,) in crawl.rows(_REFUSED)}
    assert refused <= {path_of(row["url"]) for row in plan["skipped"]}
    rules = Counter({RemovalRule(rule).word: count for rule, count in crawl.rows(_REMOVED)})
    held = Counter(RemovalRule(rule).word for (rule,) in crawl.rows(_WITHHELD))
    assert plan["removes"] == dict(rules + held)
    assert plan["guard"]["withholds"] is bool(held)
    assert plan["guard"]["removals"] == (rules + held).total()
    run = crawl.runs()[0]
    not_due = [reason for reason in run["reasons"] if reason.startswith("not_due:")]
    assert (plan["note"] is None) is (not run["reasons"] or run["reasons"] == not_due), run


class Planner(Teller):
    """Tells a story, and knows with which settings and start it ran last."""

    site: LabSite
    crawl: LabCrawl

    def __call__(self, *, settings: dict[str, object] | None = None, **arguments: object) -> None:
        self.settings = settings or {}
        self.start = {name: value for name, value in arguments.items() if name not in _ORDERS}
        super().__call__(settings=settings, **arguments)


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    "tale",
    [tale for tale in TALES if tale is not collapse],  # a collapse that comes again is accepted
    ids=lambda tale: tale.__name__,
)
def test_a_plan_is_what_the_next_run_does(tale: Tale, site: LabSite, crawl: LabCrawl):
    teller = Planner(crawl, site)
    for _ in tale(site, teller):
        before = tables(crawl)
        site.clear()
        plan = planned(crawl, {"RETRY_TIMES": 0, **teller.settings})
        assert (site.log, tables(crawl)) == ([], before)

        teller(settings=teller.settings, **teller.start)

        check(crawl, site, plan)


def small(lab: Lab, *paths: str) -> None:
    """A home page that links to some pages."""
    lab.pages["/"] = page("Home", *paths)
    for path in paths:
        lab.pages[path] = page(path, text=f"treasure of {path}")


def test_a_run_that_its_source_limits(lab: Lab):
    small(lab, "/a", "/b", "/c")
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\nmax_pages = 2\n')
    lab.source = "docs"
    for _ in range(3):
        lab.run(expect=3)
        plan = planned(lab.crawl, lab.settings)
        assert plan["note"].startswith("max_pages=2 ends the run early")
        lab.run(expect=3)
        check(lab.crawl, lab.site, plan)


def test_pages_that_a_new_scope_leaves_out(lab: Lab):
    small(lab, "/a", "/b", "/c")
    seeds = f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\n'
    lab.crawl.declare(seeds)
    lab.source = "docs"
    lab.run()
    lab.crawl.declare(f"{seeds}excluded_patterns = ['/b$']\n")
    lab.settings["OUT_OF_SCOPE_POLICY"] = "remove"

    plan = planned(lab.crawl, lab.settings)

    assert plan["removes"] == {"excluded": 1}
    assert [row["when"] for row in plan["removed"]] == ["after 1 more run leaves it out"]
    lab.run()
    check(lab.crawl, lab.site, plan)


def test_a_seed_that_failed_makes_the_next_run_incomplete_too(lab: Lab):
    small(lab, "/a", "/b")
    lab.run()
    lab.pages["/"] = Page("later", status=500)
    lab.run(expect=3)

    plan = planned(lab.crawl, lab.settings)

    assert plan["note"].startswith("the run would be incomplete (seed_failed: ")
    lab.run(expect=3)
    check(lab.crawl, lab.site, plan)


def test_a_new_seed_is_counted_and_makes_nothing_incomplete(lab: Lab):
    small(lab, "/a", "/b")
    seed = lab.site.url("/")
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{seed}"]\n')
    lab.source = "docs"
    lab.run()
    lab.pages["/new"] = page("New")
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{seed}", "{seed}new"]\n')

    plan = planned(lab.crawl, lab.settings)

    assert (plan["newAddresses"], plan["note"]) == (1, None)
    lab.run()
    check(lab.crawl, lab.site, plan)


def test_pages_that_are_downloaded_whole_to_check_their_validators(lab: Lab):
    small(lab, "/a", "/b")
    lab.run()
    lab.after(days=60)
    lab.settings["MAX_UNVERIFIED_DAYS"] = 30

    plan = planned(lab.crawl, lab.settings)

    assert plan["unconditional"] == {"its validators are checked by a whole download": 3}
    lab.run()
    check(lab.crawl, lab.site, plan)


def test_the_guard_withholds_in_the_plan_what_it_withholds_in_the_run(lab: Lab):
    paths = [f"/{n}" for n in range(12)]
    small(lab, *paths)
    lab.run()
    for path in paths:
        lab.pages[path] = Page("gone", status=410)
    lab.run()
    lab.run()

    plan = planned(lab.crawl, lab.settings)

    assert plan["guard"] == {"withholds": True, "removals": 12, "pages": 13}
    assert lab.run().withheld == 12
    check(lab.crawl, lab.site, plan)


@pytest.mark.parametrize(
    ("answer", "rule", "when"),
    [
        (Page(redirect="/new"), "redirect", "finds that it redirects to an indexed page"),
        (Page("no", status=406), "not acceptable", "finds that it must not be indexed"),
        (Page("gone", status=410), "gone", "gets 410"),
    ],
    ids=["redirect", "not acceptable", "gone"],
)
def test_a_plan_says_what_the_next_run_must_find_to_remove_a_page(
    lab: Lab, answer: Page, rule: str, when: str
):
    paths = [f"/{n}" for n in range(12)]
    small(lab, *paths, "/new")
    lab.run()
    lab.pages |= dict.fromkeys(paths, answer)
    lab.run()
    lab.run()  # the guard withholds them

    plan = planned(lab.crawl, lab.settings)

    assert plan["removes"] == {rule: 12}
    assert {row["when"] for row in plan["removed"]} == {f"after 1 more run {when}"}


def test_a_plan_of_a_folder(crawl: LabCrawl, tmp_path: Path):
    tree, moments = tmp_path / "tree", iter(range(1_600_000_000, 1_700_000_000, 1_000))
    tree.mkdir()

    def write(name: str, text: str) -> None:
        (tree / name).write_text(text)
        moment = next(moments)
        os.utime(tree / name, (moment, moment))

    for name in ("same", "edited", "lost", "emptied"):
        write(f"{name}.md", f"# {name}\n\na whale of a page named {name}")
    crawl(spider="files", root=tree)
    write("edited.md", "# edited\n\ntreasure in the attic")
    write("emptied.md", "")
    write("new.md", "# new")
    (tree / "lost.md").unlink()

    plan = planned(crawl, {})
    crawl(spider="files", root=tree)

    read = crawl.rows(
        f"SELECT r.url, r.first_run = {_LAST} FROM record r JOIN state s USING (no)"
        f" WHERE s.visited_run = {_LAST} AND s.http_status <> 304"
    )
    assert sorted(row["url"] for row in plan["asked"]) == sorted(url for url, _ in read)
    assert plan["newAddresses"] == sum(bool(is_new) for _, is_new in read) == 1
    assert plan["unconditional"] == {"its validator or size changed": 2}
    assert plan["skips"] == {"unchanged": 1, "not in the listing": 1}
    assert plan["removes"] == {
        RemovalRule(rule).word: count for rule, count in crawl.rows(_REMOVED)
    }
    assert plan["removes"] == {"absent": 1}


def test_a_plan_leaves_no_file_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    folder = lab.crawl.folder / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    small(lab, "/a")
    lab.run()

    planned(lab.crawl, lab.settings)

    assert list(folder.iterdir()) == []
