"""Nine kinds of sites that scripts write, over four runs each: none of their pages is ever stale.

The runs: the first; nothing changed; one page was edited; one is no longer there, though links
still lead to it. After each of them the texts in the index are those of the site, page by page.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.conftest import Spare
from tests.crawls import apps, data_apps, docs_apps
from tests.crawls.apps import MANY, App, text_of
from tests.crawls.commands import Crawl, Result, Scrapy, path_of

pytestmark = pytest.mark.long

EDITED, REMOVED = "dill", "mint"
ROUNDS: Final = 4
_RENDERINGS: Final = re.compile(r"(\d+) renderings?; ")
_MARKED: Final = re.compile(r"\b(first|second)([a-z]+)\b")
_TEXTS: Final = "SELECT r.url, c.text FROM chunk c JOIN record r USING (content)"


class Kind(NamedTuple):
    """A kind of site, and how many renderings its runs take, for so many pages."""

    make: Callable[[Sequence[str]], App]
    unchanged: range = range(1)
    edited: range = range(1, 2)
    first: range = range(len(MANY), len(MANY) + 2)  #: one that differs from its siblings: again
    removal: range = range(1)
    removed: str = "lost"


ALL = range(len(MANY), len(MANY) + 3)
KINDS: Final[Mapping[str, Kind]] = {
    "react": Kind(apps.react),
    "vue": Kind(apps.vue),
    "docsify": Kind(docs_apps.docsify),
    # All of its text is in its documents: samples alone are rendered.
    "vitepress": Kind(docs_apps.vitepress, edited=range(1), first=range(2, 7)),
    "cross-origin": Kind(data_apps.cross_origin),
    "timed": Kind(data_apps.timed),
    # The page that was stored before its noise was known is rendered once more.
    "volatile": Kind(data_apps.volatile, unchanged=range(2, len(MANY) + 1), edited=range(1, 3)),
    # One address has the data of all pages: a page that is gone is known by what it shows.
    "graphql": Kind(data_apps.graphql, removal=range(1, 2)),
    "scrolled": Kind(data_apps.scrolled),
    # What cannot be asked again is rendered at each visit.
    "posting": Kind(data_apps.posting, unchanged=ALL, edited=ALL, removal=ALL),
}


def test_there_are_rounds_enough():
    assert ROUNDS * len(MANY) * 9 - 9 >= 400


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Scrapy:
    """Runs commands of scrapy beside `ask`."""
    return Scrapy(tmp_path_factory.mktemp("second"))


@pytest.fixture(params=["sqlite", "two workers"])
def crawled(
    request: pytest.FixtureRequest, tmp_path: Path, ask: Scrapy, second: Scrapy
) -> Iterator[Crawl]:
    """The real command: one process with a file, or two with PostgreSQL and Redis."""
    if request.param == "sqlite":
        yield Crawl(tmp_path, ask)
        return
    spare: Spare = request.getfixturevalue("spare_registries")
    url, redis = spare.take(), request.getfixturevalue("redis_url")
    yield Crawl(tmp_path, ask, url, redis=redis, others=[second])
    spare.put_back(url)


def renderings(done: Result) -> int:
    """Return how many pages a run rendered."""
    found = _RENDERINGS.search(str(done))
    return int(found[1]) if found else 0


def shown(crawl: Crawl) -> dict[str, set[str]]:
    """Return the marks of the texts in the index, by path."""
    found: dict[str, set[str]] = {}
    for url, text in crawl.rows(_TEXTS):
        marks = {mark[0] for mark in _MARKED.finditer(text)}
        found.setdefault(path_of(url), set()).update(marks)
    return found


def outcomes(crawl: Crawl) -> dict[str, str]:
    return {path: page["lastOutcome"] for path, page in crawl.pages().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_is_stale(kind: str, crawled: Crawl, program: str):
    made = KINDS[kind]
    app = made.make(MANY)
    with app.running() as site:
        crawled.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\n{app.keys}')
        crawled.environment |= {
            "RENDER_BROWSER": program,
            "ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            "SOFT_404_DETECTION": "1",
        }
        words = dict.fromkeys(app.paths.values(), "new")
        texts = {path: {f"first{name}"} for name, path in app.paths.items()}

        done = crawled(source="app")
        assert (outcomes(crawled), shown(crawled)) == (words, texts), done
        assert renderings(done) in made.first, done

        done = crawled(source="app")
        words = dict.fromkeys(words, "unchanged")
        assert (outcomes(crawled), shown(crawled)) == (words, texts), done
        assert renderings(done) in made.unchanged, done

        app.edit(EDITED, text_of(EDITED, "second"))
        done = crawled(source="app")
        path = app.paths[EDITED]
        texts |= {path: {f"second{EDITED}"}}
        assert (outcomes(crawled), shown(crawled)) == (words | {path: "modified"}, texts), done
        assert renderings(done) in made.edited, done

        app.drop(REMOVED)
        app.build()
        done = crawled(source="app")
        gone = app.paths[REMOVED]
        words = dict.fromkeys(words, "unchanged") | {gone: made.removed}
        assert outcomes(crawled) == words, done
        assert renderings(done) in made.removal, done
        left = shown(crawled)
        assert left.pop(gone, set()) <= texts.pop(gone), done
        assert left == texts, done
