"""A place with files over consecutive runs: exact counts, search results and reasons after each."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from smartcrawl.sources.listing.entries import RACY, quoted_listing_name
from tests.crawls.commands import Crawl
from tests.crawls.files import FilesStory, Folder, Place
from tests.crawls.places import PLACES, S3Bucket, opened_place
from tests.stores import ObjectStore

pytestmark = pytest.mark.long(but=1)

#: Files of the place at first, by name.
FIRST = {
    "guide/whale.md": "# Whale\n\nThe whale sings.",
    "guide/heron.md": "# Heron\n\nThe heron waits.",
    "notes/otter.md": "# Otter\n\nThe otter swims.",
    "notes/raven.md": "# Raven\n\nThe raven flies.",
    "page.html": '<title>Page</title><p>A gecko <a href="https://other.example/">there</a>.',
    "top.md": "# Badger\n\nThe badger digs.",
}


@dataclass(frozen=True)
class Step:
    """What happens to the place before a run, and what is true after it."""

    name: str
    edit: Callable[[Place], None]
    counts: Mapping[str, int]
    hits: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: names, by word
    why: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: lines, by name
    complete: bool = True


def write_first(place: Place) -> None:
    for name, body in FIRST.items():
        place.write(name, body)


def nothing(place: Place) -> None:
    """Change nothing."""


def write_unreadable(place: Place) -> None:
    place.write("guide/lynx.md", "# Lynx\n\nNobody sees the marten.")
    place.refuse("guide/lynx.md")


def restore(place: Place) -> None:
    place.permit("guide/lynx.md")
    place.write("top.md", FIRST["top.md"])


def counts(*, read: int = 0, **words: int) -> dict[str, int]:
    """Counts of a run that read so many files; the other unchanged ones were only listed."""
    same = words.get("unchanged", 0) - words.pop("reread", 0)
    found = words | {"requests": read, "notModified": same}
    return {key: value for key, value in found.items() if value}


def steps(place: Place) -> list[Step]:
    """The story; numbers of runs begin with 1."""
    return [
        Step(
            "first", write_first, counts(new=6, read=6),
            {"whale": ["guide/whale.md"], "gecko": ["page.html"]},
            {"guide/whale.md": ["run 1: discovered"], "page.html": ["https://other.example/"]},
        ),
        Step("again", nothing, counts(unchanged=6)),
        Step(
            "added", lambda at: at.write("guide/lynx.md", "# Lynx\n\nThe lynx listens."),
            counts(new=1, unchanged=6, read=1),
            {"lynx": ["guide/lynx.md"]}, {"guide/lynx.md": ["run 3: discovered"]},
        ),
        Step(
            "changed", lambda at: at.write("guide/whale.md", "# Porpoise\n\nA porpoise."),
            counts(modified=1, unchanged=6, read=1),
            {"whale": [], "porpoise": ["guide/whale.md"]},
            {"guide/whale.md": ["index, modified; its content was indexed (run 4)"]},
        ),
        Step(
            "same bytes with new mtime", lambda at: at.stamp("guide/heron.md"),
            counts(unchanged=7, reread=place.sees_stamps, read=place.sees_stamps),
            {"heron": ["guide/heron.md"]},
            {"guide/heron.md": ["unchanged; nothing changed, so nothing was written (run 5)"]},
        ),
        Step("again after the new mtime", nothing, counts(unchanged=7)),
        Step(
            "renamed file", lambda at: at.rename("guide/heron.md", "guide/egret.md"),
            counts(unchanged=6, moved=1, redirected=1, read=1),
            {"heron": ["guide/egret.md"]},
            {
                "guide/heron.md": ["removed, moved: ", f"-> {place.url('guide/egret.md')}"],
                "guide/egret.md": [f"moved from {place.url('guide/heron.md')}"],
            },
        ),
        Step(
            "renamed folder", lambda at: at.rename("notes", "papers"),
            counts(unchanged=5, moved=2, redirected=3, read=2),
            {"otter": ["papers/otter.md"], "raven": ["papers/raven.md"]},
            {"papers/raven.md": [f"moved from {place.url('notes/raven.md')}"]},
        ),
        Step(
            "swapped names", lambda at: at.swap("guide/whale.md", "guide/lynx.md"),
            counts(unchanged=5, modified=2, redirected=3, read=2),
            {"lynx": ["guide/whale.md"], "porpoise": ["guide/lynx.md"]},
            {"guide/lynx.md": ["index, modified; its content was indexed (run 9)"]},
        ),
        Step(
            "deleted", lambda at: at.remove("top.md"),
            counts(unchanged=6, redirected=3, deleted=1, removed=1),
            {"badger": []},
            {"top.md": ["removed, absent: not in the listing", "to bring it back: scrapy undo 10"]},
        ),
        Step(
            "unreadable", write_unreadable,
            counts(unchanged=5, redirected=3, deleted=1, read=1, **{place.refusal: 1}),
            {"porpoise": ["guide/lynx.md"], "marten": []},
            {"guide/lynx.md": [
                "the stored page stays searchable (run 11)", place.reason,
            ]},
            complete=place.refusal == "lost",
        ),
        Step(
            "restored", restore,
            counts(unchanged=5, modified=1, new=1, redirected=3, read=2),
            {"porpoise": [], "marten": ["guide/lynx.md"], "badger": ["top.md"]},
            {"top.md": ["run 10: removed, absent", "run 12: changed, Indexed, new"]},
        ),
        Step(
            "renamed back", lambda at: at.rename("papers", "notes"),
            counts(unchanged=5, moved=2, redirected=3, read=2),
            {"otter": ["notes/otter.md"], "raven": ["notes/raven.md"]},
            {"notes/otter.md": [f"moved from {place.url('papers/otter.md')}"]},
        ),
    ]  # fmt: skip


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each kind of place whose listing says what exists."""
    with opened_place(request.param, request, tmp_path) as found:
        yield found


@pytest.mark.embedded
@pytest.mark.covers(
    "R1-28", "R1-29", "R1-31", "R1-47", "R1-49", "R0-43", "R0-44", "R0-45", "M-07"
)  # fmt: skip
@pytest.mark.long
@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
def test_the_story_of_a_place(place: Place, crawl: Crawl):
    story = FilesStory(place, crawl)
    for step in steps(place):
        step.edit(place)

        story.run(expect=0 if step.complete else 3)

        assert story.counts() == step.counts, step.name
        for word, names in step.hits.items():
            assert story.hits(word) == names, f"{step.name}: {word}"
        for name, lines in step.why.items():
            shown = story.why(name)
            assert [line for line in lines if line not in shown] == [], f"{step.name}:\n{shown}"


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.covers("R0-22", "R1-29", "M-07")
def test_odd_keys_of_a_bucket_are_records_of_their_own(s3_server: ObjectStore, crawl: Crawl):
    """ATT-43. A bucket that is not there any more takes none of them along."""
    bucket = S3Bucket(s3_server)
    story = FilesStory(bucket, crawl)
    keys = [
        "a//b.md", "A/b.md", "a/b.md", "/b.md", "//b.md", "../b.md", "a/../b.md", "./b.md",
        "%41/b.md", "a?b#c.md", "~b.md",
    ]  # fmt: skip
    for n, key in enumerate(keys):
        bucket.write(key, f"# Odd {n}\n\nwhale{n} and whale")
    names = ["/".join(map(quoted_listing_name, key.split("/"))) for key in keys]

    story.run()

    assert story.counts() == {"new": len(keys), "requests": len(keys)}
    assert [story.hits(f"whale{n}") for n in range(len(keys))] == [[name] for name in names]

    bucket.vanish()
    story.run(expect=3)

    assert story.counts() == {"orphaned": len(keys)}
    assert story.reasons[0].startswith(f"listing: {bucket.root}/ (")
    assert "it is not there: create or mount it, or name another root)" in story.reasons[0]
    assert story.hits("whale") == sorted(names)


def alter_unseen(folder: Folder, name: str, body: str) -> None:
    """Write as many bytes as before, and set the time back to what it was."""
    path = folder.path / name
    was = path.stat()
    assert len(body) == was.st_size
    path.write_text(body)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.embedded
@pytest.mark.covers("R1-28")
def test_a_time_that_may_stay_while_the_bytes_change_is_never_trusted(tmp_path: Path, crawl: Crawl):
    """So is a file that was written while it was listed; one of 1969 is old enough."""
    folder = Folder(tmp_path / "tree")
    story = FilesStory(folder, crawl)
    soon = time.time() + 3_600
    for name, at in (("racy.md", soon), ("old.md", -86_400), ("later.md", 4_102_444_800)):
        folder.write(name, f"# {name}\n\nwhale")
        os.utime(folder.path / name, (at, at))
    story.run()
    alter_unseen(folder, "racy.md", "# racy.md\n\nheron")
    alter_unseen(folder, "old.md", "# old.md\n\nheron")

    story.run()

    assert story.words() == {"racy.md": "modified", "old.md": "unchanged", "later.md": "unchanged"}
    assert story.counts() == {"modified": 1, "unchanged": 2, "requests": 2, "notModified": 1}
    assert story.hits("heron") == ["racy.md"]
    folder.stamp("racy.md")
    story.run()  # its new time is trusted from now on

    story.run()

    assert story.counts() == {"unchanged": 3, "requests": 1, "notModified": 2}


@pytest.mark.embedded
@pytest.mark.covers("R1-28", "R0-45")
@pytest.mark.parametrize(("how", "read"), [("ctime", 1), ("hash", 2)])
def test_a_change_that_sets_the_time_back_is_seen_by_other_validators(
    tmp_path: Path, crawl: Crawl, how: str, read: int
):
    crawl.environment["FILE_VALIDATOR"] = how
    folder = Folder(tmp_path / "tree")
    story = FilesStory(folder, crawl)
    folder.write("a.md", "# A\n\nwhale")
    folder.write("b.md", "# B\n\nwhale")
    if how == "ctime":
        until_old(folder.path / "b.md")
    story.run()
    alter_unseen(folder, "a.md", "# A\n\nheron")

    story.run()

    assert story.words() == {"a.md": "modified", "b.md": "unchanged"}
    assert story.counts()["requests"] == read
    assert story.hits("heron") == ["a.md"]


def until_old(path: Path) -> None:
    """Wait until the ctime of a file, which no program can set, is older than what may be racy."""
    while time.time_ns() - path.stat().st_ctime_ns < RACY:
        time.sleep(0.05)
