"""Renamed pages of a repository: their addresses are those of the web, so links are relative."""

import pytest

from tests.crawls import test_github_wiki
from tests.crawls.repositories import NAME, Story
from tests.crawls.test_github_story import story
from tests.crawls.test_github_wiki import story as with_wiki

__all__ = ["story", "with_wiki"]

pytestmark = [pytest.mark.alone, pytest.mark.embedded]


@pytest.mark.long
@pytest.mark.covers("R1-25", "R0-46")
def test_relative_links_of_a_renamed_page_lead_from_its_new_place(story: Story):
    """Only pages without such links keep what was extracted at the old place."""
    docs, log = story.docs, story.crawl.folder / "extracted"
    story.crawl.environment["ARRANGED_BY"] = "tests.crawls.extractions"
    story.crawl.environment["EXTRACTED"] = str(log)
    docs.write("notes/seal.md", "# Seal\n\nThe [otter](otter.md) and the seal.")
    docs.write("notes/crab.md", "# Crab\n\nThe [crab](https://crab.example/).")
    docs.commit()
    story.run()
    log.unlink()
    docs.move("notes", "papers/deep")
    docs.commit()

    story.run()

    pages = f"https://github.com/{NAME}/blob/HEAD"
    assert log.read_text().splitlines() == [f"{pages}/papers/deep/seal.md"]
    assert story.counts()["moved"] == 4
    assert f"{pages}/papers/deep/otter.md" in story.why("papers/deep/seal.md")
    assert "https://crab.example/" in story.why("papers/deep/crab.md")
    assert story.hits("crab") == ["papers/deep/crab.md"]


@pytest.mark.covers("R0-46")
def test_pages_of_a_wiki_are_read_as_those_of_the_web(with_wiki: test_github_wiki.Story):
    with_wiki.run()

    found = with_wiki.crawl.rows("SELECT url LIKE '%/wiki%', media IS NULL FROM record")
    assert set(map(tuple, found)) == {(1, 1), (0, 0)}
