"""What a listing lacks goes at once; what was not listed stays."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.file_urls import url_of_folder
from tests.crawls.commands import Crawl, Remote, Scrapy
from tests.crawls.files import LONG_AGO, FilesStory, Folder

pytestmark = [pytest.mark.long(but=2), pytest.mark.alone, pytest.mark.embedded]

both_databases = pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
#: Six files in each of two folders.
NAMES = [f"{folder}/{n}.md" for folder in ("guide", "notes") for n in range(6)]


@dataclass
class Known:
    """A folder and the registry of its first crawl, as they were then."""

    root: Path
    tree: Path
    data: Path


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Known:
    base = tmp_path_factory.mktemp("known")
    folder = Folder(base / "place" / "tree")
    for name in NAMES:
        folder.write(name, f"# {name}\n\ntreasure of {name.replace('/', ' ')}")
    crawl = Crawl(base, ask)
    FilesStory(folder, crawl).run()
    shutil.copytree(folder.path, base / "copy")
    return Known(folder.path, base / "copy", crawl.data_dir)


@pytest.fixture
def story(known: Known, crawl: Crawl) -> FilesStory:
    """The folder after its first crawl."""
    shutil.rmtree(known.root.parent)
    known.root.parent.mkdir()
    shutil.copytree(known.tree, known.root)
    story = FilesStory(Folder(known.root, now=LONG_AGO + 1_000_000), crawl)
    if isinstance(crawl.registry, Remote):
        story.run()
    else:
        shutil.copytree(known.data, crawl.data_dir)
    return story


def path_of(story: FilesStory) -> Path:
    return Path(story.place.root)


def remove_root(root: Path) -> None:
    root.rename(root.with_name("aside"))


def empty_root(root: Path) -> None:
    remove_root(root)
    root.mkdir()


def root_is_a_file(root: Path) -> None:
    remove_root(root)
    root.write_text("treasure")


def refuse_root(root: Path) -> None:
    root.chmod(0)


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize(
    ("become", "why"),
    [
        (remove_root, "No such file or directory; it is not there: create or mount it, or name"),
        (empty_root, "it has no file, and 12 files are stored"),
        (root_is_a_file, "Not a directory"),
        (refuse_root, "Permission denied; check what this user may do there"),
    ],
)
def test_a_root_that_is_away_removes_nothing(
    story: FilesStory, become: Callable[[Path], None], why: str
):
    root = path_of(story)
    become(root)

    result = story.run(expect=3)

    reason, *others = story.reasons
    assert others == ["no_pages"]
    assert reason.startswith(f"listing: {root} ({why}")
    assert reason in result.out
    assert story.counts() == {"orphaned": 12}
    assert len(story.hits("treasure")) == 12


@both_databases
@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize("how", ["refused", "failing"])
def test_a_folder_that_is_not_listed_to_its_end_removes_nothing_anywhere(
    story: FilesStory, how: str
):
    guide = path_of(story) / "guide"
    story.place.remove("notes/0.md")
    story.place.write("notes/7.md", "# More\n\ntreasure")
    shut = guide.with_name("shut")
    shut.mkdir()
    if how == "refused":
        guide.chmod(0)
        shut.chmod(0)
        story.run(expect=3)
    else:
        with story.disk(FAILS_IN=str(guide)):
            story.run(expect=3)

    reason, *others = sorted(story.reasons)
    assert [other.partition(" (")[0] for other in others] == (
        [f"listing: {shut}"] if how == "refused" else []
    )
    assert reason.startswith(f"listing: {guide}")
    assert {"refused": "Permission denied", "failing": "Input/output error"}[how] in reason
    listed = 5 if how == "refused" else 6
    assert story.counts() == {
        "new": 1, "unchanged": listed, "orphaned": 12 - listed, "requests": 1,
        "notModified": listed,
    }  # fmt: skip
    assert len(story.hits("treasure")) == 13
    guide.chmod(0o755)
    shut.chmod(0o755)

    story.run()

    assert story.counts() == {"unchanged": 12, "deleted": 1, "removed": 1, "notModified": 12}
    assert len(story.hits("treasure")) == 12


def test_why_names_the_part_that_the_last_listing_could_not_read(story: FilesStory):
    guide = path_of(story) / "guide"
    guide.chmod(0)
    story.place.remove("notes/0.md")
    story.run(expect=3)
    source = story.crawl.runs()[0]["source"]
    part = f"{guide} (Permission denied; check what this user may do there)"
    meanings = {
        "notes/1.md": "this page was listed, so the failed part does not affect it",
        "notes/0.md": "this page was not listed; it stays until a complete listing lacks it",
        "guide/1.md": "this page is in a part that could not be listed; it may still exist, so it"
        " is not removed",
    }

    for name, text in meanings.items():
        (one,) = explained(story, name)["records"]
        assert one["unlisted"] == {"run": 2, "parts": [part], "text": text}
        shown = " ".join(story.why(name).split())
        assert f"listing not complete in run 2: {part}; {text}" in shown

    text = "this address is in one of them; a run reads it once a listing contains it"
    unknown = explained(story, "guide/new.md")["unlisted"]
    assert unknown == [{"source": source, "run": 2, "parts": [part], "text": text}]
    shown = " ".join(story.why("guide/new.md").split())
    assert f"The listing of {source} was not complete in run 2: {part}; {text}." in shown
    (elsewhere,) = explained(story, "new.md")["unlisted"]
    assert elsewhere["text"].startswith("this address is in none of them; ")

    guide.chmod(0o755)
    story.run()

    (one,) = explained(story, "guide/1.md")["records"]
    assert one["unlisted"] is None
    assert explained(story, "new.md")["unlisted"] == []


def explained(story: FilesStory, name: str) -> Any:
    """What ``why`` says of a file as data."""
    return json.loads(story.crawl.run("why", story.place.url(name), "--format", "json").out)


@both_databases
def test_a_folder_that_was_emptied_on_purpose_is_approved(story: FilesStory):
    empty_root(path_of(story))
    result = story.run(expect=3)
    remedy = "mount it; or, if it is empty on purpose, remove its pages: scrapy orphans --approve 2"
    assert remedy in result.out
    assert remedy in " ".join(story.crawl.run("status").out.split())

    refused = story.crawl.run("orphans", "--approve", "2", expect=3)

    assert "12 withheld pages" in refused.err
    assert len(story.hits("treasure")) == 12

    story.crawl.run("orphans", "--approve", "2", "--max", "12")
    story.forget()

    assert story.hits("treasure") == []
    assert "removed, absent: not in the listing" in story.why("guide/0.md")

    story.run()

    assert story.reasons == []
    story.crawl.run("undo", "2")
    story.forget()
    assert len(story.hits("treasure")) == 12


@both_databases
@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize("when", ["before it is read", "to where the run was before"])
def test_a_folder_that_is_renamed_while_it_is_listed_is_found(story: FilesStory, when: str):
    """Nothing is there at its old name, and the listing was where the new one is before."""
    root = path_of(story)
    (root / "a").mkdir()
    for folder in (root, root / "a", root / "guide", root / "notes"):
        os.utime(folder, (LONG_AGO, LONG_AGO))
    new = "k" if when == "before it is read" else "a/k"
    with story.disk(WHEN_LISTED=json.dumps({str(root / "guide"): f"mv ../notes ../{new}"})):
        story.run()

    assert story.reasons == []
    assert story.counts() == {
        "unchanged": 6, "moved": 6, "redirected": 6, "requests": 6, "notModified": 6
    }  # fmt: skip
    assert story.hits("treasure") == sorted(name.replace("notes", new) for name in NAMES)


@both_databases
@pytest.mark.covers("R1-29", "M-07")
def test_a_device_that_is_not_mounted_any_more_removes_nothing(story: FilesStory):
    """Another device cannot be mounted here: the registry has it that one was."""
    notes = path_of(story) / "notes"
    for n in range(1, 6):
        story.place.remove(f"notes/{n}.md")
    facts = json.dumps({"mounts": {f"{url_of_folder(str(notes))}/": 12_345}})
    story.crawl.rows(f"UPDATE source SET listing = '{facts}'")

    for _ in range(2):
        result = story.run(expect=3)

        why = "the device that was mounted there is not any more, and 5 files are missing"
        assert story.reasons == [f"listing: {notes} ({why})"]
        assert (
            "mount it; or, if it is empty on purpose, remove its pages: scrapy orphans"
            in result.out
        )
        assert len(story.hits("treasure")) == 12

    story.crawl.run("orphans", "--approve", "3", "--max", "5")
    story.run()

    assert len(story.hits("treasure")) == 7


@pytest.mark.parametrize("become", [remove_root, refuse_root])
def test_a_folder_that_could_not_be_listed_is_not_approved(
    story: FilesStory, become: Callable[[Path], None]
):
    become(path_of(story))
    story.run(expect=3)

    result = story.crawl.run("orphans", "--approve", "2", "--max", "12")

    assert "--max 12: only 0 were waiting" in result.err
    assert len(story.hits("treasure")) == 12


def test_files_that_came_back_are_not_removed_with_an_emptied_folder(
    story: FilesStory,
):
    root = path_of(story)
    empty_root(root)
    story.run(expect=3)
    root.rmdir()
    root.with_name("aside").rename(root)
    story.run()

    result = story.crawl.run("orphans", "--approve", "2", "--max", "12")

    assert "--max 12: only 0 were waiting" in result.err
    assert len(story.hits("treasure")) == 12


@both_databases
@pytest.mark.covers("R1-29", "M-07", "R4-12")
def test_half_of_a_folder_goes_only_when_somebody_approves(story: FilesStory):
    shutil.rmtree(path_of(story) / "guide")

    result = story.run()

    assert "6 removals are withheld" in result.out
    assert story.counts() == {
        "unchanged": 6, "orphaned": 6, "withheld": 6, "notModified": 6,
    }  # fmt: skip
    assert len(story.hits("treasure")) == 12

    story.crawl.run("orphans", "--approve", "2", "--max", "6")

    assert story.hits("treasure") == NAMES[6:]
    assert "removed, absent" in story.why("guide/0.md")


@pytest.mark.covers("R1-29", "M-07")
def test_small_folders(tmp_path: Path, crawl: Crawl):
    """The last file of a folder stays: an empty root may be a disk that is not mounted."""
    went = {1: 0, 2: 1, 3: 2, 4: 0}  # files that are removed, by how many there are
    folders = {files: Folder(tmp_path / f"of{files}") for files in went}
    crawl.declare(
        "".join(
            f'[sources.of{files}]\nkind = "files"\nroot = "{folder.root}"\n'
            for files, folder in folders.items()
        )
    )
    for files, folder in folders.items():
        for n in range(files):
            folder.write(f"{n}.md", f"# {n}\n\ntreasure {n} of {files}")
    crawl(spider="files", settings={"LOG_LEVEL": "WARNING"})
    for files, removed in {1: 1, 2: 1, 3: 2, 4: 2}.items():
        for n in range(removed):
            folders[files].remove(f"{n}.md")

    crawl(spider="files", expect=3)  # of the last file

    for files, removed in went.items():
        [run, _] = crawl.runs(source=f"of{files}")
        assert (run["removed"], run["withheld"]) == (removed, 2 if files == 4 else 0), files
        assert run["complete"] is (files > 1)
        assert len(crawl.records(source=f"of{files}", status="Indexed")) == files - removed


@pytest.mark.covers("R1-29", "M-07")
def test_a_file_out_of_todays_globs_is_excluded_and_not_absent(story: FilesStory):
    """Whether it is still there does not matter: the listing leaves it out either way."""
    source = story.crawl.runs()[0]["source"]
    story.crawl.declare(
        f'[sources.{source}]\nkind = "files"\nroot = "{story.place.root}"\n'
        'exclude = ["guide/0*", "*/1.md"]'
    )
    story.source = source
    story.place.remove("guide/0.md")

    story.run()

    assert story.counts() == {"unchanged": 9, "excluded": 3, "notModified": 9}
    assert len(story.hits("treasure")) == 12
    assert "one of exclude matches it" in story.why("guide/1.md")


@pytest.mark.covers("R1-29", "R1-47", "M-07")
def test_a_file_that_goes_after_it_was_listed_is_lost_and_absent_in_the_next_run(
    story: FilesStory,
):
    story.place.stamp("guide/0.md")
    with story.when_read({"guide/0.md": "rm guide/0.md"}):
        story.run()

    assert story.counts() == {"unchanged": 11, "lost": 1, "requests": 1, "notModified": 11}
    record = story["guide/0.md"]
    assert (record["effectiveStatus"], record["lostCount"], record["goneCount"]) == (200, 1, 1)
    assert "lost, answered 404" in story.why("guide/0.md")
    assert len(story.hits("treasure")) == 12

    story.run()

    assert story.counts() == {"unchanged": 11, "deleted": 1, "removed": 1, "notModified": 11}


@pytest.mark.covers("R1-29", "R1-47")
def test_a_file_that_refuses_for_many_runs_is_never_removed(story: FilesStory):
    story.place.stamp("guide/0.md")
    story.place.refuse("guide/0.md")

    for lost in (1, 2, 3):
        story.run(settings={"LOST_THRESHOLD": 1, "ORPHAN_THRESHOLD": 1})

        assert story.counts() == {"unchanged": 11, "lost": 1, "requests": 1, "notModified": 11}
        assert story["guide/0.md"]["lostCount"] == lost
    assert len(story.hits("treasure")) == 12


@both_databases
@pytest.mark.covers("R1-29", "M-07")
def test_undo_brings_files_back_until_the_next_run_unless_they_are_pinned(story: FilesStory):
    before = {name: story[name]["contentHash"] for name in ("guide/0.md", "guide/1.md")}
    for name in before:
        story.place.remove(name)
    story.run()
    assert story.counts() == {"unchanged": 10, "deleted": 2, "removed": 2, "notModified": 10}

    story.crawl.run("undo", "2")

    assert {name: story[name]["contentHash"] for name in before} == before
    assert len(story.hits("treasure")) == 12
    story.run()
    assert story.counts()["removed"] == 2

    story.crawl.run("undo", "3", "--pin")
    story.run()

    assert story.counts() == {"unchanged": 10, "lost": 2, "requests": 2, "notModified": 10}
    assert len(story.hits("treasure")) == 12


@pytest.mark.long
@pytest.mark.covers("R1-36", "R1-29")
@pytest.mark.parametrize("first", [True, False], ids=["first", "refresh"])
def test_an_interrupted_run_that_is_resumed_reads_no_file_twice(story: FilesStory, first: bool):
    """But for the two that were in flight, of which nothing was stored."""
    if first:
        shutil.rmtree(story.crawl.data_dir)
    for name in NAMES[:8]:
        os.utime(path_of(story) / name, (1_600_000_000, 1_600_000_000))
    expected = set(NAMES if first else NAMES[:8])
    with story.reads(INTERRUPTED="3") as before:
        story.run(expect=3, settings={"CONCURRENT_REQUESTS": 2})
    assert 3 <= len(before) < len(expected)
    run = story.crawl.runs()[0]["run"]
    stored = {name for name, record in story.files.items() if record["visitedRun"] == run}
    with story.reads() as after:
        story.run(resume=1)

    assert len(set(after)) == len(after)
    assert set(after) == expected - stored
    assert len(set(before) & set(after)) <= 2
    assert story.crawl.runs()[0]["run"] == run
    assert story.counts() == (
        {"new": 12, "requests": 12} if first else {"unchanged": 12, "requests": 8, "notModified": 4}
    )
