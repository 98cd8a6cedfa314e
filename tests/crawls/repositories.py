"""A repository of the peer of GitHub, and what must hold after each crawl of it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.crawls.commands import Crawl, Result
from tests.crawls.files import LastRun
from tests.github_peer import GithubPeer, Repository

NAME = "octo/docs"
SITE = f"https://github.com/{NAME}"
WEB = f"{SITE}/tree/HEAD"  # without the wiki, which has tests of its own
PAGES = f"{SITE}/blob/HEAD"
FIRST = {
    "guide/whale.md": "# Whale\n\nThe whale sings.",
    "guide/heron.md": "# Heron\n\nThe heron waits.",
    "notes/otter.md": "# Otter\n\nThe otter swims.",
    "notes/raven.md": "# Raven\n\nThe raven flies.",
    "top.md": "# Badger\n\nThe badger digs.",
}


@dataclass
class Story(LastRun):
    """One repository, and crawls of it."""

    peer: GithubPeer
    docs: Repository
    crawl: Crawl
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(cls, folder: Path, crawl: Crawl, files: Mapping[str, str] = FIRST) -> Iterator[Self]:
        """Yield the story of a repository whose first commit has these files, by path."""
        with GithubPeer(folder) as peer:
            docs = peer.repository(NAME)
            for name, text in files.items():
                docs.write(name, text)
            docs.commit()
            yield cls(peer, docs, crawl)

    @property
    def peer_settings(self) -> dict[str, str]:
        """The settings with which a crawl asks the peer."""
        return self.peer.settings

    @property
    def pages(self) -> str:
        """URL below which the pages of the files are."""
        return PAGES

    def run(self, *, expect: int = 0, url: str | None = WEB, **more: object) -> Result:
        self.peer.log.clear()
        self.crawl._told.clear()
        settings = {"LOG_LEVEL": "WARNING"} | self.peer_settings | self.settings
        result = self.crawl(url, spider="github", expect=expect, settings=settings, **more)
        run = self.crawl.runs()[0]
        assert run["complete"] is (expect == 0), result
        assert self.crawl.counted(run["run"])
        return result

    def asked(self) -> tuple[int, int]:
        """Requests of the last run to the API, and for raw files."""
        return len(self.peer.asked("api")), len(self.peer.asked("raw"))

    def name(self, url: str) -> str:
        """Return the path of a file by the URL of its page."""
        return url.removeprefix(f"{self.pages}/")

    def hits(self, query: str) -> list[str]:
        found = self.crawl.search(query, "--limit", "1000")
        return sorted(self.name(hit["url"]) for hit in found)

    def why(self, name: str) -> str:
        text: str = self.crawl._ask("why", f"{self.pages}/{name}")
        return re.sub(r" +", " ", text)

    def words(self) -> dict[str, str]:
        return {self.name(one["url"]): one["lastOutcome"] for one in self.crawl.records()}
