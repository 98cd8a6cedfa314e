"""Sites of frameworks, over four runs each: first, unchanged, one edit, one removal."""

from collections.abc import Callable, Iterator

import pytest

from tests.crawls import apps
from tests.crawls.apps import App, text_of
from tests.crawls.commands import Crawl

APPS = {"vue": apps.vue, "react": apps.react}
pytestmark = pytest.mark.long(but=1)


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest, crawl: Crawl, program: str) -> Iterator[App]:
    make: Callable[[], App] = APPS[request.param]
    app = make()
    with app.site as site:
        app.publish()
        crawl.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\nrender = "always"\n{app.keys}')
        crawl.environment["RENDER_BROWSER"] = program
        yield app


def words_of(crawl: Crawl) -> dict[str, str]:
    return {path: page["lastOutcome"] for path, page in crawl.pages().items()}


def test_pages_are_kept_in_step(app: App, crawl: Crawl):
    paths = app.paths
    crawl(source="app")
    assert words_of(crawl) == dict.fromkeys(paths.values(), "new")
    for name, path in paths.items():
        assert crawl.hits(f"first{name}") == [path]
    crawl(source="app")
    assert words_of(crawl) == dict.fromkeys(paths.values(), "unchanged")
    app.write("two", text_of("two", "second"))
    crawl(source="app")
    words = dict.fromkeys(paths.values(), "unchanged")
    assert words_of(crawl) == words | {paths["two"]: "modified"}
    assert (crawl.hits("firsttwo"), crawl.hits("secondtwo")) == ([], [paths["two"]])
    app.remove("two")
    crawl(source="app", expect=None)
    kept = words_of(crawl)
    assert {kept[paths["home"]], kept[paths["one"]]} == {"unchanged"}
    assert kept.get(paths["two"]) != "unchanged" or crawl.hits("secondtwo") == [paths["two"]]
    assert (crawl.hits("firsthome"), crawl.hits("firstone")) == (["/"], [paths["one"]])
