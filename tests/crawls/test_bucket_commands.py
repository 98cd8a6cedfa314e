"""The commands over buckets: each takes them as it takes folders, repositories and web sites."""

import json
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.files import FilesStory
from tests.crawls.places import S3Bucket
from tests.stores import ObjectStore

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.embedded]
covers = pytest.mark.covers
FIRST = {
    "a.md": "# Apples\n\nApples grow on trees.",
    "b.md": "# Bread\n\nBread is baked.",
    "sub/c d.md": "# Cheese\n\nCheese ripens.",
}
ODD = "sub/c%20d.md"  #: the last of them, as its URL has it


@pytest.fixture
def story(s3_server: ObjectStore, crawl: Crawl) -> FilesStory:
    """Three objects of a bucket that were crawled once, without a declaration."""
    story = FilesStory(S3Bucket(s3_server), crawl)
    for name, text in FIRST.items():
        story.place.write(name, text)
    story.run()
    return story


def answer(story: FilesStory, *words: str) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(story.crawl.run(*words, "--format", "json").out)


def due(story: FilesStory, *words: str, expect: int = 0) -> None:
    """List the bucket now: without its name the listing of just now would do."""
    name = story.crawl.runs()[0]["source"]
    story.forget()
    story.crawl.run("due", "--source", name, *words, expect=expect)


@covers("R0-43", "R0-44", "R1-08")
def test_plan_due_and_progress_of_a_bucket_tell_the_same(story: FilesStory):
    place = story.place
    [quiet] = answer(story, "plan")
    assert (quiet["isListed"], quiet["known"], quiet["note"]) == (True, 3, None)
    assert (quiet["asks"], quiet["newAddresses"]) == (0, 0)
    assert quiet["skips"] == {"unchanged": 3}

    place.write("a.md", "# Apples\n\nApples are red.")
    place.write("new.md", "# New\n\nNew words.")
    place.remove("b.md")
    [plan] = answer(story, "plan")
    assert plan["asked"] == [
        {
            "url": place.url("a.md"),
            "conditional": False,
            "why": "its validator or size changed",
        },
        {"url": place.url("new.md"), "conditional": False, "why": "new"},
    ]
    assert plan["skips"] == {"unchanged": 1, "not in the listing": 1}
    assert plan["removes"] == {"absent": 1}
    assert plan["removed"][0]["url"] == place.url("b.md")

    start = f"root={place.root}"
    result = story.crawl.run("crawl", "files", "-a", start, "--progress", "json")
    story.forget()
    assert story.counts() == {
        "new": 1, "modified": 1, "unchanged": 1, "deleted": 1, "removed": 1, "requests": 2,
        "notModified": 1,
    }  # fmt: skip
    events = [json.loads(line) for line in result.out.splitlines()]
    assert len(events) == 4
    assert {(e["url"], e["outcome"], e["status"], e["deleted"]) for e in events} == {
        (place.url("a.md"), "modified", 200, False),
        (place.url("new.md"), "new", 200, False),
        (place.url(ODD), "unchanged", 304, False),
        (place.url("b.md"), "deleted", 200, True),
    }

    [one] = answer(story, "why", place.url("b.md"))["records"]
    assert one["decision"]["text"] == "removed: absent"
    assert one["nextVisit"]["text"] == "none, unless the listing contains it again"
    due(story)
    assert story.counts() == {"unchanged": 3, "deleted": 1, "notModified": 3}


def test_why_of_objects_of_a_bucket(story: FilesStory):
    place = story.place
    [one] = answer(story, "why", place.url("a.md"))["records"]
    assert one["record"]["type"] == "file"
    assert one["record"]["fileEtag"]
    assert (one["robots"], one["pinnedAt"], one["scope"]["allowed"]) == (None, None, True)
    assert one["request"]["headers"] == {}  # the ETag is that of the listing
    assert one["nextVisit"]["text"] == "in the next run that lists it as changed"
    assert [way["rule"] for way in one["removal"]] == ["absent", "gone"]
    [same] = answer(story, "why", place.url("sub/c d.md"))["records"]
    assert same["record"]["url"] == place.url(ODD)

    unknown = answer(story, "why", place.url("none.md"))
    hidden = answer(story, "why", place.url(".git/config"))
    name = story.crawl.runs()[0]["source"]
    assert (unknown["records"], unknown["listedBy"], unknown["inScopeOf"]) == ([], [name], [name])
    assert "begins with a dot" in hidden["refusedBy"][0]["why"]


@covers("R0-51")
def test_orders_of_objects_of_a_bucket_pin_nothing(story: FilesStory):
    place = story.place
    name = story.crawl.runs()[0]["source"]
    for words in (["--url", place.url("a.md")], ["--pattern", "sub/c d"]):
        ordered = story.crawl.run("reindex", *words).out
        assert "1 page will be fetched whole" in ordered
    assert f"ordered  {place.root}/sub/c d.md ({name})" in ordered  # as people know it
    [plan] = answer(story, "plan")
    assert plan["unconditional"] == {"reindexing was ordered": 2}
    assert story.crawl.rows("SELECT count(*) FROM pin") == [(0,)]
    due(story, "--source", name)
    assert story.counts() == {"unchanged": 3, "requests": 2, "notModified": 1}

    said = story.crawl.run("reindex", "--url", place.url("n o.md"), expect=1).err
    assert (
        f"{place.root}/n o.md is not known; if the file exists, the next run of {name} reads it"
        in said
    )


def test_forget_registry_and_status_of_a_bucket(story: FilesStory):
    place = story.place
    story.crawl.run("forget", place.url("a.md"))
    story.forget()
    held = [record["url"] for record in story.crawl.records(status="indexed")]
    assert held == [place.url("b.md"), place.url(ODD)]
    assert story.hits("apples") == []

    due(story, "-a", f"root={place.root}")
    assert story.counts() == {"new": 1, "unchanged": 2, "requests": 1, "notModified": 2}
    assert story.hits("apples") == ["a.md"]

    for key in FIRST:
        place.remove(key)
    due(story, expect=3)
    [found] = answer(story, "status")["sources"]
    assert (found["pages"], found["held"]) == (3, 3)
    text = " ".join(story.crawl.run("status").out.split())
    assert f"listing: {place.root} (it has no file, and 3 files are stored)" in text
    assert "no page links" not in text
    [plan] = answer(story, "plan")
    assert (plan["asks"], plan["removes"]) == (0, {})
    assert plan["note"].startswith(f"cannot be listed: {place.root}")
