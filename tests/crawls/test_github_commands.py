"""The commands over repositories: each takes them as it takes folders and web sites."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Result
from tests.crawls.repositories import NAME, PAGES, SITE, WEB, Story

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.embedded]
covers = pytest.mark.covers
IN_SCOPE = {"allowed": True, "why": None, "depth": None, "maxDepth": None}


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    """A repository of five files that was crawled once, without a declaration."""
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with Story.begun(tmp_path, crawl) as story:
        crawl.environment |= story.peer.settings
        story.run()
        story.peer.log.clear()
        yield story


def answer(story: Story, *words: str) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(story.crawl.run(*words, "--format", "json").out)


def due(story: Story) -> Result:
    """List the repository now: without its name the listing of just now would do."""
    name = story.crawl.runs()[0]["source"]
    story.peer.log.clear()
    return story.crawl.run("due", "--source", name)


def edit(story: Story) -> None:
    """Change a file, add one, rename one, and remove one."""
    docs = story.docs
    docs.write("top.md", "# Wolverine\n\nA wolverine.")
    docs.write("new.md", "# Lynx\n\nThe lynx listens.")
    docs.remove("guide/heron.md")
    docs.commit()


@covers("R0-43", "R0-44")
def test_the_plan_of_a_repository_is_what_its_next_run_does(story: Story):
    quiet = answer(story, "plan")[0]
    assert (quiet["isListed"], quiet["known"], quiet["note"]) == (True, 5, None)
    assert (quiet["asks"], quiet["newAddresses"]) == (0, 0)
    assert quiet["skips"] == {"unchanged": 5}
    assert story.asked()[1] == 0

    edit(story)
    plan = answer(story, "plan")[0]
    assert (plan["asks"], plan["newAddresses"]) == (1, 1)
    assert plan["asked"] == [
        {
            "url": f"{PAGES}/top.md",
            "conditional": False,
            "why": "its validator or size changed",
        },
        {"url": f"{PAGES}/new.md", "conditional": False, "why": "new"},
    ]
    assert plan["skips"] == {"unchanged": 3, "not in the listing": 1}
    assert plan["removes"] == {"absent": 1}
    assert plan["removed"][0]["url"] == f"{PAGES}/guide/heron.md"
    due(story)
    run = story.crawl.runs()[0]
    assert (run["requests"], run["new"], run["modified"], run["removed"]) == (2, 1, 1, 1)


def test_the_plan_of_a_repository_that_is_away_removes_nothing(story: Story):
    story.peer.quota = 0
    spent = answer(story, "plan")[0]
    story.peer.quota = 10
    del story.peer.repositories[NAME]
    gone = answer(story, "plan")[0]
    for plan, why in ((spent, "the API's quota is spent"), (gone, "HTTP status 404, Not Found")):
        assert (plan["asks"], plan["newAddresses"], plan["removes"]) == (0, 0, {})
        assert plan["note"].startswith(f"cannot be listed: {WEB} (")
        assert why in plan["note"]
        assert plan["note"].endswith("nothing is removed for missing from the listing")


def test_no_command_that_asks_the_api_takes_a_token_that_cannot_be_one(story: Story):
    story.crawl.environment["GITHUB_TOKEN"] = "ghp_a b"
    for words, status in ((["plan"], 1), (["due"], 1), (["status"], 0)):
        result = story.crawl.run(*words, expect=status)
        assert ("copy it again" in result.err) is (status == 1)
        assert "ghp_a" not in result.out + result.err
    assert len(story.crawl.runs()) == 1
    assert story.peer.log == []


def test_why_knows_a_file_of_a_repository(story: Story):
    url = f"{PAGES}/guide/whale.md"
    (one,) = answer(story, "why", url)["records"]
    assert one["record"]["url"] == url
    assert (one["scope"], one["robots"], one["pinnedAt"]) == (IN_SCOPE, None, None)
    assert one["nextVisit"]["text"] == "in the next run that lists it as changed"
    assert [way["rule"] for way in one["removal"]] == ["absent", "gone"]
    assert one["request"]["headers"] == {}  # the SHA is that of the listing, and is sent nowhere
    assert story.peer.log == []

    edit(story)
    due(story)
    (one,) = answer(story, "why", f"{PAGES}/guide/heron.md")["records"]
    assert one["decision"]["text"] == "removed: absent"
    assert one["nextVisit"]["text"] == "none, unless the listing contains it again"


def test_why_of_an_unknown_file_says_which_listing_would_have_it(story: Story):
    name = story.crawl.runs()[0]["source"]
    data = answer(story, "why", f"{PAGES}/none.md")
    hidden = answer(story, "why", f"{PAGES}/.github/none.md")
    other = answer(story, "why", f"{SITE}/blob/main/none.md")
    assert (data["records"], data["inScopeOf"], data["listedBy"]) == ([], [name], [name])
    assert [one["source"] for one in hidden["refusedBy"]] == [name]
    assert "begins with a dot" in hidden["refusedBy"][0]["why"]
    assert (other["records"], other["inScopeOf"]) == ([], [])


@covers("R0-51")
@pytest.mark.parametrize(
    "words",
    [["--url", f"{PAGES}/guide/whale.md"], ["--pattern", "guide/whale"]],
    ids=["url", "pattern"],
)
def test_reindex_orders_a_file_without_pinning_it(story: Story, words: list[str]):
    story.crawl.run("reindex", *words)
    plan = answer(story, "plan")[0]
    assert (plan["asks"], plan["unconditional"]) == (1, {"reindexing was ordered": 1})
    assert story.crawl.rows("SELECT count(*) FROM pin") == [(0,)]

    due(story)
    run = story.crawl.runs()[0]
    assert (run["complete"], run["requests"], run["unchanged"]) == (True, 1, 5)
    assert [path.split("/", 4)[4] for _, path in story.peer.asked("raw")] == ["guide/whale.md"]
    due(story)
    assert story.asked() == (1, 0)


def test_reindex_of_an_unknown_file_names_the_run_that_lists_it(story: Story):
    name = story.crawl.runs()[0]["source"]
    result = story.crawl.run("reindex", "--url", f"{PAGES}/none.md", expect=1)
    assert f"is not known; if the file exists, the next run of {name} reads it" in result.err
    assert f"due --source {name}" in result.err


def test_a_forgotten_file_comes_back_with_the_next_listing(story: Story):
    story.crawl.run("forget", f"{PAGES}/top.md")
    held = [record["url"] for record in story.crawl.records(status="indexed")]
    assert len(held) == 4
    assert f"{PAGES}/top.md" not in held
    assert story.hits("badger") == []

    story.docs.write("new.md", "# Lynx\n\nThe lynx listens.")
    story.docs.commit()
    due(story)
    assert story.counts() == {"new": 2, "unchanged": 4, "requests": 2, "notModified": 4}
    assert story.hits("badger") == ["top.md"]


def test_status_and_due_speak_of_the_listing(story: Story):
    name = story.crawl.runs()[0]["source"]
    story.peer.quota = 0
    story.docs.remove("top.md")
    story.docs.commit()
    assert story.crawl.run("due", expect=3).status == 3
    found = answer(story, "status")["sources"][0]
    assert (found["pages"], found["held"]) == (5, 5)
    text = " ".join(story.crawl.run("status").out.split())
    assert "quota is spent until" in text
    assert "no page links" not in text

    story.peer.quota = 10
    story.crawl.run("due", "--source", name)
    assert story.counts()["removed"] == 1


@covers("R1-08")
def test_the_progress_has_an_event_for_each_unchanged_file(story: Story):
    edit(story)
    for expected in (
        {("top.md", "modified", 200, False), ("new.md", "new", 200, False),
         ("guide/heron.md", "deleted", 200, True), ("guide/whale.md", "unchanged", 304, False),
         ("notes/otter.md", "unchanged", 304, False), ("notes/raven.md", "unchanged", 304, False)},
        {(name, "unchanged", 304, False) for name in
         ("top.md", "new.md", "guide/whale.md", "notes/otter.md", "notes/raven.md")},
    ):  # fmt: skip
        result = story.crawl.run("crawl", "github", "-a", f"url={WEB}", "--progress", "json")
        events = [json.loads(line) for line in result.out.splitlines()]
        assert {
            (e["url"].removeprefix(f"{PAGES}/"), e["outcome"], e["status"], e["deleted"])
            for e in events
        } == expected
        assert len(events) == len(expected)
    assert story.docs.sha("HEAD") not in result.out
