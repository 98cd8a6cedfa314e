"""Whole runs with a vector store: each swept run pushes, and a push that fails is no failure."""

from collections.abc import Iterator

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.index.vectorstore.store_server import STORE, Stores, stores_server
from tests.openai_server import KEY, error
from tests.site_server import Site, html

pytestmark = pytest.mark.alone


@pytest.fixture
def server(crawl: Crawl) -> Iterator[Stores]:
    with stores_server() as server:
        crawl.environment |= server.settings | {"LOST_THRESHOLD": "1"}
        yield server


@pytest.mark.covers("M-47")
def test_each_swept_run_makes_the_store_equal(site: Site, crawl: Crawl, server: Stores):
    site.pages["/"] = html("Manual", "/jobs", "/bread", text="an introduction")
    site.pages["/jobs"] = html("Jobs", text="How to cancel a paused job")
    site.pages["/bread"] = html("Bread", text="A recipe for banana bread")
    crawl(site.url("/"))
    assert {path_of(url) for url in server.texts()} == {"/", "/jobs", "/bread"}

    site.pages["/"] = html("Manual", "/jobs", text="an introduction")
    site.pages["/jobs"] = html("Jobs", text="How to go on with a paused job")
    del site.pages["/bread"]
    server.answer = lambda asked: error("no such key", 401)
    crawl(site.url("/"))  # the run is a success
    server.answer = lambda asked: None
    crawl(site.url("/"))

    texts = {path_of(url): text for url, text in server.texts().items()}
    assert "How to go on" in texts["/jobs"]
    assert len(server.stores[STORE]) == len(crawl.texts())
    assert server.uploads.keys() - server.stores[STORE].keys() == server.detached
    assert not server.deleted
    assert not any(KEY.encode() in text for _, text in crawl.written())


@pytest.mark.long
def test_a_private_source_is_pushed_by_the_command_alone(site: Site, crawl: Crawl, server: Stores):
    site.pages["/"] = html("Manual", text="an introduction")
    table = f'[sources.docs]\nseeds = ["{site.url("/")}"]\n'
    crawl.declare(f'{table}visibility = "private"\n')
    ran = crawl(source="docs")
    assert server.texts() == {}
    assert "docs is private" in ran.err
    assert "push --source docs alone" in ran.err
    crawl.run("push", "--source", "docs")
    assert len(server.texts()) == 1
