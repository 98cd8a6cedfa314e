"""What the stories share: a site of some size, and what must hold after each of its runs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.crawls.commands import Crawl, Record, Result, path_of
from tests.site_server import Page, Site, html

#: Enough words to make a clone of a page with the same text.
LONG = "a sentence about whales that is repeated until it is long enough to count. " * 5
#: Why something was removed, as the registry stores it (docs/decisions.md).
_RULES = {
    1: "gone", 2: "redirect", 3: "not acceptable", 4: "canonical", 5: "excluded", 6: "orphan",
    7: "forgotten",
}  # fmt: skip
#: What a page shows that nothing is held of.
_HELD = ("contentHash", "textHash", "bodyHash", "httpEtag", "httpLastModified")


def printed(result: Result, word: str) -> int:
    """How many pages the closing table has under a word."""
    found = re.search(rf"(?m)^ *([\d,]+)  {word} *$", result.out)
    return int(found[1].replace(",", "")) if found else 0


def removal_rules(crawl: Crawl) -> dict[str, str]:
    """The rule by which each page was removed last, by path, from the registry's evidence."""
    rows = crawl.rows(
        "SELECT r.url, e.rule FROM evidence e JOIN record r ON r.no = e.record ORDER BY e.no"
    )
    return {path_of(url): _RULES[rule] for url, rule in rows}


class Story:
    """One site over several runs of the real command.

    Home links to `links` and to `others` pages that nothing happens to.
    """

    def __init__(self, site: Site, crawl: Crawl, *, others: int = 12, **settings: object) -> None:
        self.site = site
        self.crawl = crawl
        self.settings: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "WARNING"} | settings
        self.source: str | None = None  #: of sources.toml, instead of the address
        self._others = [f"/other/{n}" for n in range(others)]
        for n, path in enumerate(self._others):
            site.pages[path] = html(f"Other {n}", text=f"filler {n}")

    def home(self, *links: str, text: str = "") -> None:
        """Write the home page anew."""
        self.site.pages["/"] = html("Home", *links, *self._others, text=text)

    def page(self, path: str, *links: str, text: str, **more: object) -> None:
        """Write a page whose title is its path."""
        self.site.pages[path] = Page(html(path, *links, text=text), **more)

    def answers(self, status: int, *paths: str) -> None:
        """Let pages answer with a status and nothing else."""
        for path in paths:
            self.site.pages[path] = Page("no page", status=status)

    def run(
        self, *, expect: int | None = 0, settings: dict[str, object] | None = None, **more: object
    ) -> Result:
        """Crawl once more; whatever happens, the counts add up and the index is right."""
        self.site.clear()
        url = None if self.source else self.site.url("/")
        if self.source:
            more = {"source": self.source} | more
        result = self.crawl(url, expect=expect, settings=self.settings | (settings or {}), **more)
        assert self.crawl.counts_add_up(), self.crawl.runs()[0]
        if result.status == 0 and "ELASTICSEARCH_URL" in self.crawl.environment:
            told = self.crawl._ask("audit")
            assert "registry and index agree" in told, told
        run = self.crawl.runs()[0]
        assert run["complete"] is (result.status == 0), result
        for word in ("lost", "orphaned"):
            assert printed(result, word) == run[word]
        for word, removed in self.removed_in(run["run"]).items():
            assert printed(result, word) == removed <= run[word]
        return result

    def removed_in(self, run: int) -> dict[str, int]:
        """How many pages a run removed, by their word."""
        rows = self.crawl.rows(
            "SELECT s.outcome, count(*) FROM evidence e JOIN state s ON s.no = e.record"
            f" WHERE e.run = {run} GROUP BY 1"
        )
        found = dict(rows)
        return {"gone": found.get(9, 0), "deleted": found.get(12, 0)}

    # What came of it

    def __getitem__(self, path: str) -> Record:
        return self.crawl.pages()[path]

    def words(self, *paths: str) -> list[str]:
        """`lastOutcome` of each path."""
        pages = self.crawl.pages()
        return [pages[path]["lastOutcome"] for path in paths]

    def asked(self, *paths: str) -> list[int]:
        """How often the last run asked for each path."""
        return [self.site.count(path) for path in paths]

    def conditional(self, path: str) -> list[bool]:
        """Of each request of the last run, whether it carried a validator."""
        names = {"if-none-match", "if-modified-since"}
        return [bool(names & r.headers.keys()) for r in self.site.log if r.path == path]

    def removed(self) -> dict[str, str]:
        """The rule by which each page was removed last, from the registry's evidence."""
        return removal_rules(self.crawl)

    def bare(self, path: str) -> bool:
        """Whether nothing is held of a page: no content, no hash, no validator."""
        return all(self[path][key] is None for key in _HELD)

    def hit(self, query: str) -> Record:
        """The only page that a search shows."""
        [hit] = self.crawl.search(query)
        return hit

    def alter(self, statement: str) -> None:
        """Change the registry behind everybody's back."""
        self.crawl.rows(statement)
        self.forget()

    def command(self, *args: str, expect: int = 0) -> Result:
        """Run another command that changes the registry."""
        result = self.crawl.run(*args, expect=expect)
        self.forget()
        return result

    def forget(self) -> None:
        """Ask again what the registry says."""
        self.crawl._told.clear()


@contextmanager
def down(site: Site) -> Iterator[None]:
    """Nobody listens at the site's port."""
    site.__exit__(None, None, None)
    try:
        yield
    finally:
        site.__enter__()
