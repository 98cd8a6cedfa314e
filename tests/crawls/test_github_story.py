"""A repository over consecutive crawls: exact counts, searches, reasons, and requests of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.crawls.commands import MOVED, WORDS, Crawl, Result
from tests.github_peer import GithubPeer, Repository

covers = pytest.mark.covers
COUNTED = (*WORDS, MOVED, "requests", "notModified", "removed", "withheld")
NAME = "octo/docs"
WEB = f"https://github.com/{NAME}"
PAGES = f"{WEB}/blob/HEAD"
FIRST = {
    "guide/whale.md": "# Whale\n\nThe whale sings.",
    "guide/heron.md": "# Heron\n\nThe heron waits.",
    "notes/otter.md": "# Otter\n\nThe otter swims.",
    "notes/raven.md": "# Raven\n\nThe raven flies.",
    "top.md": "# Badger\n\nThe badger digs.",
}


@dataclass
class Story:
    """One repository, and crawls of it."""

    peer: GithubPeer
    docs: Repository
    crawl: Crawl
    settings: dict[str, str] = field(default_factory=dict)

    def run(self, *, expect: int = 0, url: str = WEB, **more: object) -> Result:
        self.peer.log.clear()
        self.crawl._told.clear()
        settings = {"LOG_LEVEL": "WARNING"} | self.peer.settings | self.settings
        result = self.crawl(url, spider="github", expect=expect, settings=settings, **more)
        run = self.crawl.runs()[0]
        assert run["complete"] is (expect == 0), result
        assert self.crawl.counted(run["run"])
        return result

    def counts(self) -> dict[str, int]:
        run = self.crawl.runs()[0]
        return {key: run[key] for key in COUNTED if run[key]}

    @property
    def reasons(self) -> list[str]:
        found: list[str] = self.crawl.runs()[0]["reasons"]
        return found

    def asked(self) -> tuple[int, int]:
        """Requests of the last run to the API, and for raw files."""
        return len(self.peer.asked("api")), len(self.peer.asked("raw"))

    def hits(self, query: str) -> list[str]:
        found = self.crawl.search(query, "--limit", "1000")
        return sorted(hit["url"].removeprefix(f"{PAGES}/") for hit in found)

    def why(self, name: str) -> str:
        told: str = self.crawl._ask("why", f"{PAGES}/{name}")
        return re.sub(r" +", " ", told)

    def words(self) -> dict[str, str]:
        return {
            record["url"].removeprefix(f"{PAGES}/"): record["lastOutcome"]
            for record in self.crawl.records()
        }


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with GithubPeer(tmp_path) as peer:
        docs = peer.repository(NAME)
        for name, text in FIRST.items():
            docs.write(name, text)
        docs.commit()
        yield Story(peer, docs, crawl)


@covers("R1-31", "R1-47", "R1-49", "R0-43", "R0-44", "M-07")
def test_a_repository_over_consecutive_crawls(story: Story):
    docs = story.docs
    story.run()
    assert story.counts() == {"new": 5, "requests": 5}
    assert story.asked() == (2, 5)
    assert story.hits("whale") == ["guide/whale.md"]
    assert "run 1: discovered" in story.why("guide/whale.md")
    sha = docs.sha("HEAD")
    assert {path.split("/")[3] for _, path in story.peer.asked("raw")} == {sha}

    story.run()
    assert story.counts() == {"unchanged": 5, "notModified": 5}
    assert story.peer.asked("api") == [(304, f"/repos/{NAME}/commits/HEAD?per_page=1")]
    assert story.asked() == (1, 0)
    assert "unchanged" in story.why("top.md")

    docs.write("guide/lynx.md", "# Lynx\n\nThe lynx listens.")
    docs.commit()
    story.run()
    assert story.counts() == {"new": 1, "unchanged": 5, "requests": 1, "notModified": 5}
    assert story.asked() == (2, 1)
    assert story.hits("lynx") == ["guide/lynx.md"]

    docs.write("guide/whale.md", "# Porpoise\n\nA porpoise.")
    docs.commit()
    story.run()
    assert story.counts() == {"modified": 1, "unchanged": 5, "requests": 1, "notModified": 5}
    assert (story.hits("whale"), story.hits("porpoise")) == ([], ["guide/whale.md"])
    assert "index, modified; its content was indexed (run 4)" in story.why("guide/whale.md")

    docs.move("guide/heron.md", "guide/egret.md")
    docs.commit()
    story.run()
    assert story.counts() == {
        "unchanged": 5, "moved": 1, "redirected": 1, "requests": 1, "notModified": 5,
    }  # fmt: skip
    assert story.hits("heron") == ["guide/egret.md"]
    assert f"moved from {PAGES}/guide/heron.md" in story.why("guide/egret.md")

    docs.move("notes", "papers")
    docs.commit()
    story.run()
    assert story.counts() == {
        "unchanged": 4, "moved": 2, "redirected": 3, "requests": 2, "notModified": 4,
    }  # fmt: skip
    assert story.hits("otter") == ["papers/otter.md"]

    docs.remove("top.md")
    docs.commit()
    story.run()
    assert story.counts() == {
        "unchanged": 5, "redirected": 3, "deleted": 1, "removed": 1, "notModified": 5,
    }  # fmt: skip
    assert story.asked() == (2, 0)
    assert story.hits("badger") == []
    assert "removed, absent: why not in the listing" in story.why("top.md")

    docs.write("guide/lynx.md", "# Marten\n\nThe marten climbs.")
    docs.commit(amend=True)  # a push with force
    story.run()
    assert story.counts() == {
        "unchanged": 4, "modified": 1, "redirected": 3, "deleted": 1, "requests": 1,
        "notModified": 4,
    }  # fmt: skip
    assert (story.hits("lynx"), story.hits("marten")) == ([], ["guide/lynx.md"])

    story.run()
    assert story.counts() == {"unchanged": 5, "redirected": 3, "deleted": 1, "notModified": 5}
    assert story.asked() == (1, 0)
