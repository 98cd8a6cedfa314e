"""Files that cannot be read: they are read again when they, or the extraction, are others."""

import json

import pytest

from tests.crawls.files import FilesStory, Folder
from tests.crawls.repositories import Story
from tests.crawls.test_crawl_formats import docx
from tests.crawls.test_files_renamed import Counted, folder, story
from tests.crawls.test_github_story import story as repository

__all__ = ["folder", "repository", "story"]

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.embedded]

BROKEN = "no workbook at all"
LISTED = {"unchanged": 1, "failed": 2, "notModified": 3}
READ = {"unchanged": 1, "failed": 2, "requests": 2, "notModified": 1}


def reason(story: FilesStory, name: str) -> tuple[int, str, str]:
    record = story[name]
    return record["lastStatusCode"], record["lastOutcome"], record["errorMessage"]


@pytest.mark.covers("R1-28", "R0-43", "R0-44")
def test_a_file_that_cannot_be_read_is_read_when_it_changed(story: Counted, folder: Folder):
    """It stays failed, with its reason; so does the page that it had before."""
    folder.write("a.xlsx", BROKEN)
    folder.write("b.docx", docx("whale"))
    folder.write("c.md", "# C\n\nheron")
    with story.reads() as read:
        story.run()
    assert (read, story.counts()["failed"]) == (["a.xlsx", "b.docx", "c.md"], 1)
    folder.write("b.docx", docx("whale")[:-400])
    story.run()
    reasons = {name: reason(story, name) for name in ("a.xlsx", "b.docx")}
    assert {status for status, _, _ in reasons.values()} == {1205}
    story.extracted()

    for _ in range(2):
        assert json.loads(story.crawl._ask("plan", "--format", "json"))[0]["asks"] == 0
        with story.reads() as read:
            result = story.run()

        assert (read, story.extracted()) == ([], [])
        assert story.counts() == LISTED
        assert {name: reason(story, name) for name in reasons} == reasons
        assert "2  failed" in result.out
        assert story.hits("whale") == ["b.docx"]

    folder.stamp("a.xlsx")  # the same bytes with another time
    assert json.loads(story.crawl._ask("plan", "--format", "json"))[0]["asks"] == 1
    with story.reads() as read:
        story.run()
    assert (read, story.counts()["failed"]) == (["a.xlsx"], 2)

    folder.write("a.xlsx", docx("otter"))
    folder.write("b.docx", docx("raven"))
    folder.rename("a.xlsx", "a.docx")
    story.run()
    assert story.hits("otter") == ["a.docx"]
    assert (story.hits("whale"), story.hits("raven")) == ([], ["b.docx"])


@pytest.mark.covers("R1-28")
def test_who_asks_for_it_has_an_unreadable_file_read(story: Counted, folder: Folder):
    folder.write("a.xlsx", BROKEN)
    folder.write("b.xlsx", BROKEN)
    folder.write("c.md", "# C\n\nheron")
    story.run()
    story.extracted()

    story.run(force=1)
    assert len(story.extracted()) == 3
    story.crawl.rows("UPDATE record SET unread_extraction = unread_extraction - 1")
    story.run()  # another version could not read them
    assert story.extracted() == ["a.xlsx", "b.xlsx"]
    assert story.counts() == READ

    story.run(settings={"TRUST_SAMPLE_RATIO": 1})  # every validator is doubted
    assert story.extracted() == ["a.xlsx", "b.xlsx"]
    assert story.counts()["requests"] == 3
    story.run()
    assert (story.extracted(), story.counts()) == ([], LISTED)

    story.crawl.run("reindex", "--url", folder.url("a.xlsx"))
    for _ in range(2):  # an order stays open until it is carried out
        story.run()
        assert story.extracted() == ["a.xlsx"]


@pytest.mark.covers("R1-31")
def test_a_file_of_a_repository_that_cannot_be_read_is_downloaded_once(repository: Story):
    """Neither a new one nor one that a page is stored of; and the tree is listed once."""
    docs = repository.docs
    docs.write("guide/lynx.docx", docx("lynx"))
    docs.commit()
    repository.run()
    docs.write("new.xlsx", BROKEN)
    docs.write("guide/lynx.docx", docx("lynx")[:-400])
    docs.commit()
    repository.run()
    assert repository.asked() == (2, 2)
    assert repository.counts() == {"unchanged": 5, "failed": 2, "requests": 2, "notModified": 5}

    for _ in range(2):
        repository.run()

        assert repository.asked() == (1, 0)
        assert (repository.counts()["unchanged"], repository.counts()["failed"]) == (5, 2)
        assert repository.hits("lynx") == ["guide/lynx.docx"]

    docs.write("guide/heron.md", "# Egret\n\nThe egret.")
    docs.commit()
    repository.run()
    assert repository.asked() == (2, 1)
    assert repository.counts()["failed"] == 2
    repository.run(force=1)
    assert repository.asked() == (2, 7)


# Files that grow too large


@pytest.mark.covers("R0-44", "R4-41")
@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
def test_a_file_that_grows_too_large_keeps_its_former_text(story: Counted, folder: Folder):
    folder.write("a.md", "# A\n\nwhale")
    folder.write("b.md", "# B\n\nheron")
    story.settings["MAX_FILE_SIZE"] = 500
    story.run()
    folder.write("a.md", "# A\n\n" + "otter " * 100)
    folder.write("c.md", "# C\n\n" + "raven " * 100)  # nothing is stored of it

    for _ in range(2):
        with story.reads() as read:
            result = story.run()

        assert (read, story.counts()["failed"], result.status) == ([], 1, 0)
        assert (story.hits("whale"), story.hits("otter")) == (["a.md"], [])
        assert story.words() == {"a.md": "failed", "b.md": "unchanged", "c.md": "excluded"}
        status, _, message = reason(story, "a.md")
        assert status == 1207
        assert message == (
            "not read: its 605 bytes exceed max_file_size of its source, or "
            "MAX_FILE_SIZE; its stored text stays; raise max_file_size, or leave the "
            "file out with exclude"
        )
        assert story.crawl.rows("SELECT no FROM evidence") == []

    story.settings["MAX_FILE_SIZE"] = 700
    story.run()
    assert story.words()["a.md"] == "modified"
    assert (story.hits("whale"), story.hits("otter")) == ([], ["a.md"])


def test_a_file_that_was_too_large_for_a_while_is_read_when_it_shrinks(
    story: Counted, folder: Folder
):
    story.settings["MAX_FILE_SIZE"] = 500
    for text, words in (("whale", ["a.md"]), ("otter " * 100, ["a.md"]), ("raven", [])):
        folder.write("a.md", f"# A\n\n{text}")
        story.run()
        assert story.hits("whale") == words
    assert story.hits("raven") == ["a.md"]


def test_an_unchanged_file_goes_when_the_limit_is_lowered_and_all_are_read(
    story: Counted, folder: Folder
):
    folder.write("a.md", "# A\n\n" + "whale " * 100)
    folder.write("b.md", "# B\n\nheron")
    story.run()
    story.settings["MAX_FILE_SIZE"] = 500

    story.run()
    assert story.hits("whale") == ["a.md"]  # the listing confirms it
    story.run(force=1)
    assert story.words() == {"a.md": "excluded", "b.md": "unchanged"}
    assert story.hits("whale") == []


@pytest.mark.covers("R1-31")
def test_a_file_of_a_repository_that_grows_too_large_keeps_its_former_text(repository: Story):
    repository.settings["MAX_FILE_SIZE"] = "500"
    repository.run()
    repository.docs.write("top.md", "# Badger\n\n" + "wolverine " * 100)
    repository.docs.commit()

    repository.run()
    assert repository.asked() == (2, 0)
    for _ in range(2):
        assert repository.counts()["failed"] == 1
        assert repository.hits("badger") == ["top.md"]
        assert "raise max_file_size, or leave the file out with exclude" in repository.why("top.md")
        repository.run()
        assert repository.asked() == (2, 0)  # the tree of the same commit, and no file

    repository.settings["MAX_FILE_SIZE"] = "2000"
    repository.run()
    assert repository.words()["top.md"] == "modified"
    assert repository.hits("wolverine") == ["top.md"]
