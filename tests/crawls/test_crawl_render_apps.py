"""Sites of frameworks, over four runs each: first, unchanged, one edit, one removal."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.crawls import apps
from tests.crawls.apps import App, text_of
from tests.crawls.commands import Crawl
from tests.site_server import Page, html

APPS = {"vue": apps.vue, "react": apps.react}
pytestmark = pytest.mark.long


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest, crawl: Crawl, program: str) -> Iterator[App]:
    make: Callable[[], App] = APPS[request.param]
    app = make()
    with app.running() as site:
        crawl.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\n{app.keys}')
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
    app.remove("two")  # with the links to it
    crawl(source="app")
    assert words_of(crawl) == words | {paths["two"]: "orphaned"}
    assert (crawl.hits("firsthome"), crawl.hits("firstone")) == (["/"], [paths["one"]])


def test_auto_shows_the_pages_that_need_it(crawl: Crawl, program: str):
    app = apps.react()
    with app.running() as site:
        texts = [f"plain{n} {apps.WORDS}" for n in range(4)]
        docs = [f"/docs/{n}" for n in range(4)]
        for path, text in zip(docs, texts, strict=True):
            site.pages[path] = html(path, "/", text=text)
        app.paths = {**app.paths, **{f"doc{n}": path for n, path in enumerate(docs)}}
        app.lead_to(tuple(app.paths))
        settings = {"RENDER": "auto", "RENDER_BROWSER": program}
        done = crawl(site.url("/"), settings=settings)
        assert set(words_of(crawl)) == {*app.paths.values()}
        assert (crawl.hits("firstone"), crawl.hits("plain3")) == (["/one"], ["/docs/3"])
        [count] = re.findall(r"(\d+) renderings", str(done))
        assert 5 <= int(count) <= 6  # three of the application, two or three samples of the rest
        done = crawl(site.url("/"), settings=settings)
        assert "0 renderings" in str(done)
        assert set(words_of(crawl).values()) == {"unchanged"}


def test_a_browser_that_comes_later_is_used(crawl: Crawl, program: str):
    app = apps.react()
    with app.running() as site:
        settings = {"RENDER": "auto", "RENDER_BROWSER": "/no/such/browser"}
        done = crawl(site.url("/"), settings=settings, expect=3)
        assert "render: no browser" in str(done)
        assert "RENDER_BROWSER=/no/such/browser names no program" in str(done)
        crawl(site.url("/"), settings=settings | {"RENDER_BROWSER": program})
        assert words_of(crawl) == {"/": "unchanged", "/one": "new", "/two": "new"}
        assert crawl.hits("firsthome") == ["/"]


def test_a_site_without_scripts_is_confirmed_by_the_lane(crawl: Crawl, program: str):
    with apps.AppSite() as site:
        paths = [f"/docs/{n}" for n in range(5)]
        site.pages["/"] = html("Home", *paths, text=apps.WORDS)
        for path in paths:
            site.pages[path] = html(path, "/", text=f"{path} {apps.WORDS}")
        site.pages["/robots.txt"] = Page("", content_type="text/plain")
        settings = {"RENDER": "auto", "RENDER_BROWSER": program}
        crawl(site.url("/"), settings=settings)
        done = crawl(site.url("/"), settings=settings | {"LOG_LEVEL": "INFO"})
        assert "lane" not in done.err
        assert "6 answered 304" in str(done)
