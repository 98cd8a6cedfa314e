"""Places with files that a crawl lists, and what must hold after each run over one."""

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from smartcrawl.model.file_urls import url_of_folder
from smartcrawl.sources.listing.entries import quoted_listing_name
from tests.crawls.commands import MOVED, WORDS, Crawl, Record, Result

#: When files of these tests were written first (Unix seconds): long ago, so that it is trusted.
LONG_AGO = 1_700_000_000
#: What is counted for a run, where it is not 0.
COUNTED = (*WORDS, MOVED, "requests", "notModified", "removed", "withheld")
CUT = "interrupted"  #: reason of a run that did not come to all files
_RECORDS = "SELECT count(*) FROM record"


class Place(Protocol):
    """Where files are that a listing names. Each change gives a file a validator of its own."""

    spider: str  #: that crawls it
    argument: str  #: of the spider, which names the place
    root: str  #: as the argument has it
    environment: Mapping[str, str]  #: variables by which a crawl finds the place and may read it
    drivers: tuple[str, ...]  #: modules that a crawl of the place imports
    sees_stamps: bool  #: whether equal bytes with a new time have another validator
    #: Outcome of a listed file that refuses: ``lost``; or ``failed``, and the run is incomplete.
    refusal: str
    reason: str  #: words of the message about such a file

    def url(self, name: str) -> str:
        """The URL of the file with a name below the root."""

    def write(self, name: str, body: str | bytes) -> None:
        """Write a file anew, with the folders above it."""

    def stamp(self, name: str) -> None:
        """Give a file another validator; its bytes stay."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder; validators stay as the place has it."""

    def swap(self, one: str, other: str) -> None:
        """Let two files change their names."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def refuse(self, name: str) -> None:
        """Take the right to read a file that the listing still names."""

    def permit(self, name: str) -> None:
        """Let it be read again."""


class Folder:
    """A folder on a disk. Its clock is its own: each change is an hour after the one before it."""

    spider, argument = "files", "root"
    environment: Mapping[str, str] = {}
    drivers = ()
    sees_stamps = True
    refusal = "lost"
    reason = "file status 403; Permission denied; check what this user may do there"

    def __init__(self, root: Path, now: int = LONG_AGO) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = str(root)
        self.path = root
        self._now = now

    def url(self, name: str) -> str:
        return f"{url_of_folder(self.root)}/{'/'.join(map(quoted_listing_name, name.split('/')))}"

    def write(self, name: str, body: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
        self.stamp(name)

    def stamp(self, name: str) -> None:
        self._now += 3_600
        os.utime(self.path / name, (self._now, self._now))

    def rename(self, old: str, new: str) -> None:
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        (self.path / old).rename(self.path / new)

    def swap(self, one: str, other: str) -> None:
        aside = f"{one}.aside"
        self.rename(one, aside)
        self.rename(other, one)
        self.rename(aside, other)

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def refuse(self, name: str) -> None:
        (self.path / name).chmod(0)

    def permit(self, name: str) -> None:
        path = self.path / name
        path.chmod(0o755 if path.is_dir() else 0o644)


class LastRun:
    """What the last run of a story left."""

    crawl: Crawl

    def counts(self) -> dict[str, int]:
        """What it counted, where that is not 0."""
        run = self.crawl.runs()[0]
        return {key: run[key] for key in COUNTED if run[key]}

    @property
    def reasons(self) -> list[str]:
        """Why it is incomplete."""
        found: list[str] = self.crawl.runs()[0]["reasons"]
        return found


class FilesStory(LastRun):
    """One place over several runs of the real command."""

    def __init__(self, place: Place, crawl: Crawl, **settings: object) -> None:
        self.place = place
        self.crawl = crawl
        self.settings: dict[str, object] = {"LOG_LEVEL": "WARNING"} | settings
        self.source: str | None = None  #: of sources.toml, in place of the root
        crawl.environment |= {"ARRANGED_BY": "tests.crawls.disk"} | place.environment
        for driver in place.drivers:
            crawl.prepare(driver)

    def run(
        self, *, expect: int | None = 0, settings: dict[str, object] | None = None, **more: object
    ) -> Result:
        """Crawl once more; whatever happens, the counts add up."""
        self.forget()
        place = self.place
        given = {"source": self.source} if self.source else {place.argument: place.root}
        result = self.crawl(
            spider=place.spider, expect=expect, settings=self.settings | (settings or {}),
            **(given | more),
        )  # fmt: skip
        run = self.crawl.runs()[0]
        assert run["complete"] is (result.status == 0), result
        assert self.crawl.counted(run["run"])
        words = sum(run[word] for word in (*WORDS, MOVED))
        assert self.crawl.rows(_RECORDS) == [(words,)] or CUT in run["reasons"], run
        return result

    @property
    def files(self) -> dict[str, Record]:
        """The records, by name below the root."""
        start = self.place.url("")
        return {record["url"].removeprefix(start): record for record in self.crawl.records()}

    def __getitem__(self, name: str) -> Record:
        return self.files[name]

    def words(self) -> dict[str, str]:
        """`lastOutcome` by name."""
        return {name: record["lastOutcome"] for name, record in self.files.items()}

    def hits(self, query: str) -> list[str]:
        """The names that a search shows, in no order."""
        start = self.place.url("")
        found = self.crawl.search(query, "--limit", "1000")
        return sorted(hit["url"].removeprefix(start) for hit in found)

    def why(self, name: str) -> str:
        """Return the text of `scrapy why` about a file, each run of spaces as one."""
        text: str = self.crawl._ask("why", self.place.url(name))
        return re.sub(r" +", " ", text)

    def forget(self) -> None:
        """Ask again what the registry has."""
        self.crawl._told.clear()

    @contextmanager
    def disk(self, **environment: str) -> Iterator[None]:
        """Crawl from a disk that does what `tests.crawls.disk` has it do."""
        self.crawl.environment |= environment
        yield
        for name in environment:
            del self.crawl.environment[name]

    @contextmanager
    def when_read(self, programs: Mapping[str, str]) -> Iterator[None]:
        """Run a shell in the root before a file is read first; its program, by the file's name."""
        with self.disk(WHEN_READ=json.dumps(programs)):
            yield

    @contextmanager
    def reads(self, **environment: str) -> Iterator[list[str]]:
        """Give the names of the files that are read."""
        log = self.crawl.folder / "reads"
        names: list[str] = []
        with self.disk(READS=str(log), **environment):
            yield names
        if log.exists():
            names += sorted(map(ast.literal_eval, log.read_text().splitlines()))
            log.unlink()
