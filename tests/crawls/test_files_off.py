"""Rules of the web that a crawl of files leaves off; others are in test_files_attacks.py."""

from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.files import FilesStory, Folder

pytestmark = [pytest.mark.long(but=1), pytest.mark.alone, pytest.mark.embedded]


#: A host that does not answer is given up at once.
IMPATIENT = {"HOST_FAILURES_TO_PARK": 1, "HOST_FAILURE_SECONDS": 0, "HOST_PROBES": 1}


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl) -> FilesStory:
    """A declared folder of ten pages."""
    folder = Folder(tmp_path / "tree")
    for n in range(10):
        folder.write(
            f"{n}.html",
            f"<title>Page {n}</title><main><p>whale {n}</p><p class=banner>treasure {n}</p></main>",
        )
    story = FilesStory(folder, crawl)
    story.source = "docs"
    declare(story)
    return story


def declare(story: FilesStory, extra: str = "") -> None:
    story.crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{story.place.root}"\n{extra}\n')


@pytest.mark.covers("M-15")
def test_files_are_extracted_again_all_in_one_run(story: FilesStory):
    """A folder is read again as fast as snapshots are, which are not made of it."""
    story.run()
    assert len(story.hits("treasure")) == 10
    declare(story, "drop_selectors = ['.banner']")

    story.run(settings={"RE_EXTRACT_PER_RUN": 1})

    assert story.hits("treasure") == []
    assert len(story.hits("whale")) == 10
    assert story.counts()["requests"] == 10
    assert story.crawl.rows("SELECT count(*) FROM snapshot") == [(0,)]

    story.run()

    assert story.counts() == {"unchanged": 10, "notModified": 10}


@pytest.mark.covers("R1-29", "R1-47")
def test_files_that_fail_one_after_another_stop_no_other(story: FilesStory):
    """A host that fails so often is given up; a disk with a bad block has other blocks."""
    story.run()
    for n in range(10):
        story.place.write(f"{n}.html", f"<title>Page {n}</title><p>heron {n}")
    for n in range(30):
        story.place.write(f"bad/{n}.html", f"<title>Bad {n}</title><p>otter {n}")

    with story.disk(DAMAGED="bad/"):
        story.run(expect=3, settings={"RETRY_TIMES": 0} | IMPATIENT)

    assert story.counts() == {"modified": 10, "failed": 30, "requests": 40}
    assert len(story.hits("heron")) == 10
    assert any("unreachable" in reason for reason in story.reasons), story.reasons


@pytest.mark.covers("R1-29")
def test_a_file_that_reads_like_an_error_page_is_what_it_says(story: FilesStory):
    """Neither a soft 404, nor a login form, nor a text that many files share is held back."""
    story.run()
    missing = "<title>404 Not Found</title><h1>404</h1><p>The badger could not be found."
    login = "<title>Log in</title><form><input type=password name=p><p>The badger logs in.</form>"
    for n in range(8):
        story.place.write(f"{n}.html", login if n % 2 else missing)

    story.run(settings={"SOFT_404_DETECTION": 1})

    assert {story[f"{n}.html"]["lastOutcome"] for n in range(8)} <= {"modified", "clone"}
    assert story.counts()["requests"] == 8
    assert len(story.hits("badger")) == 2


@pytest.mark.covers("R0-43", "R0-44")
def test_a_file_that_is_not_indexed_is_read_only_when_it_changed(story: FilesStory):
    head = "<title>No</title><meta name=robots content=noindex>"
    story.place.write("no.html", f"{head}<p>badger")
    with story.reads() as first:
        story.run()
    assert "no.html" in first

    with story.reads() as again:
        story.run()

    assert again == []
    assert story.counts() == {"unchanged": 10, "excluded": 1, "requests": 1, "notModified": 11}
    story.place.write("no.html", f"{head}<p>otter")
    with story.reads() as changed:
        story.run()
    assert changed == ["no.html"]
    with story.reads() as once_more:
        story.run()
    assert once_more == []
    story.place.write("no.html", "<title>Yes</title><p>badger")

    story.run()

    assert story.counts() == {"unchanged": 10, "new": 1, "requests": 1, "notModified": 10}
    assert story.hits("badger") == ["no.html"]
