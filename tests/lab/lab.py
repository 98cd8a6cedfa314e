"""The lab: stories of whole runs in one process, at the time that the story says.

    from tests.lab.lab import Lab, page

    def test_a_page_that_is_lost_is_removed(lab: Lab):
        lab.pages["/"] = page("Home", "/a", "/b")
        lab.pages["/a"] = page("A", text="treasure in the attic")
        lab.pages["/b"] = page("B")
        lab.run()
        del lab.pages["/a"]
        for _ in range(3):
            lab.after(days=1)
            ran = lab.run()
        assert ran.removed == 1
        assert lab["/a"]["status"] == "Gone"
        assert (lab.hits("treasure"), lab.rules()) == ([], {"/a": "gone"})

The fixtures of this folder:

- `lab` has a site, its pages and its runs in short words. The settings of a run are those of real
  stories (no sampling, no probe for soft 404s, RETRY_TIMES=0); `lab.settings` has more of them.
- `site` and `crawl` are the site and the crawls of the same lab in the words of tests/crawls, so
  that a story of real crawls works here as it stands: `tests.crawls.stories.Story`,
  `crawl(site.url("/"), lost_threshold=1)`, `crawl.pages()`, `crawl.search()`, `crawl.rows()`,
  `crawl.run("why", …)`. To move one, move it to this folder.
- Each test runs with SQLite, or with PostgreSQL, which every ninety-sixth does; `script/test
  --all` takes the others. The mark `sqlite` says that one is enough.

A page is a text, or a `Page` of tests.site_server with status, headers, ETag, redirect, fault
(reset, truncate, hang) or `flaky`; without an entry it is a 404. `site.log` has the requests,
`with down(site)` takes the server away; the fixture `other` is a site on another host. The clock is
that of the machine; `lab.after(days=3)` lets time pass beside it, for runs and for commands.

Listed sources: `crawl(spider="files", root=folder)` lists and reads a folder or bucket, and
`spider="github"` a repository of tests.github_peer, without its wiki. The
fixture `libraries` of tests.crawls.libraries works here: `library download` and all other actions
run in this process, and SharePoint answers from its tenant in memory (tests/lab/listed_driver.py).

Everything that decides is the product's; what is not is in tests/lab/driver.py. The stories of
tests/lab/test_lab_agrees.py are run here and by real crawls, and all rows are compared. What only a
real crawl shows stays in tests/crawls: how robots.txt is downloaded, sockets, TLS, politeness,
signals and kills, several workers, the lane and the engine, wikis, and a process that is arranged.
"""

from collections.abc import Iterator
from typing import Any

from tests.crawls.commands import Record, path_of
from tests.crawls.stories import removal_rules
from tests.lab.lab_crawl import LabCrawl, Ran
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Request, html

__all__ = ["Lab", "Page", "page"]

page = html  #: a small page: title, links, and `text=`


class Lab:
    """One site and its runs."""

    def __init__(self, site: LabSite, crawl: LabCrawl) -> None:
        self.site = site
        self.crawl = crawl
        self.pages = site.pages
        self.settings: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "WARNING"}
        self.source: str | None = None  #: of sources.toml, instead of the address of the home page

    def run(self, *, expect: int | None = 0, **arguments: object) -> Ran:
        """Crawl; `arguments` are those of the command, such as `force=1`.

        Figures of the run are attributes of what it returns: `removed`, `reasons`, `requests`.
        """
        self.site.clear()
        url = self.site.url("/")
        if self.source is not None:
            arguments = {"source": self.source} | arguments
        given = None if arguments.keys() & {"source", "sitemap", "url"} else url
        ran = self.crawl(given, expect=expect, settings=self.settings, **arguments)
        assert isinstance(ran, Ran), "its runs are those of the lab"
        return ran

    def after(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        """Let time pass."""
        self.crawl.after(days=days, hours=hours, seconds=seconds)

    def __getitem__(self, path: str) -> Record:
        """The record of a page."""
        return self.crawl.pages()[path]

    def __iter__(self) -> Iterator[str]:
        """The paths of all records."""
        return iter(self.crawl.pages())

    def words(self, *paths: str) -> list[str]:
        """`lastOutcome` of each path."""
        return [self[path]["lastOutcome"] for path in paths]

    def hits(self, query: str) -> list[str]:
        """The paths that a search shows."""
        return self.crawl.hits(query)

    def rules(self) -> dict[str, str]:
        """The rule by which each page was removed last, by path."""
        return removal_rules(self.crawl)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Read from the registry, or change it."""
        return self.crawl.rows(statement)

    @property
    def log(self) -> list[Request]:
        """The requests of the last run."""
        return self.site.log

    def asked(self, *paths: str) -> list[int]:
        """How often the last run asked for each path."""
        return [self.site.count(path) for path in paths]

    def conditional(self, path: str) -> list[bool]:
        """Of each request of the last run, whether it carried a validator."""
        names = {"if-none-match", "if-modified-since"}
        return [bool(names & r.headers.keys()) for r in self.log if r.path == path]

    def duplicate_of(self, path: str) -> str | None:
        """The path of the original of a clone."""
        url = self[path]["duplicateOf"]
        return None if url is None else path_of(url)
