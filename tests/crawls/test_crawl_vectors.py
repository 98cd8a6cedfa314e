"""Whole runs with an embedder: what is embedded, what is owed, and what leaves the machine."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.crawls.commands import Crawl, path_of, vector_table_of, wait_until
from tests.index.embedding.embeddings_server import (
    Asked,
    EmbeddingsServer,
    embeddings,
    embeddings_server,
    numbers,
)
from tests.index.embedding.small_models import save_small_model
from tests.openai_server import KEY, Reply, error
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.embedded, pytest.mark.long(but=1)]

WHOLE = "SELECT count(*) FROM embedder WHERE whole_at IS NOT NULL"
VECTORS = "SELECT count(*) FROM {} WHERE vector IS NOT NULL"


@pytest.fixture
def server(crawl: Crawl) -> Iterator[EmbeddingsServer]:
    """The embedder of the crawls of a test."""
    with embeddings_server() as server:
        crawl.environment |= server.settings | {"OPENAI_API_KEY": KEY}
        yield server


def vectors(crawl: Crawl) -> int:
    """Return how many vectors the registry has."""
    [(found,)] = crawl.rows(VECTORS.format(vector_table_of(crawl)))
    return int(found)


def counts(crawl: Crawl) -> tuple[int | None, int | None]:
    """Return how many chunks the last run says that it embedded, and how many are owed."""
    last = crawl.runs()[0]
    status = json.loads(crawl.run("status", "--format", "json").out)["sources"][0]
    assert [status["lastRun"][key] for key in ("embedded", "owed")] == [
        last[key] for key in ("embedded", "owed")
    ]
    return last["embedded"], last["owed"]


def fill(site: Site) -> None:
    site.pages["/"] = html("Manual", "/jobs", "/bread", text="an introduction")
    site.pages["/jobs"] = html("Jobs", text="How to cancel a paused job")
    site.pages["/bread"] = html("Bread", text="A recipe for banana bread with walnuts")


@pytest.mark.covers("R1-10", "R1-13", "M-47")
def test_a_crawl_embeds_its_pages_and_a_refresh_only_what_changed(site: Site, crawl: Crawl):
    crawl.environment["EMBEDDER"] = "local"
    fill(site)

    crawl(site.url("/"))

    assert crawl.rows(WHOLE) == [(1,)]
    assert crawl.rows("SELECT count(DISTINCT hash) FROM chunk") == [(vectors(crawl),)]
    assert crawl.search("stop tasks", "--mode", "text") == []
    assert path_of(crawl.search("stop tasks")[0]["url"]) == "/jobs"

    before = vectors(crawl)
    assert counts(crawl) == (before, 0)
    site.pages["/bread"] = html("Bread", text="A recipe for rye bread without yeast")
    crawl(site.url("/"))

    assert counts(crawl) == (1, 0)
    assert vectors(crawl) == before + 1  # that of the former text stays for a while

    del crawl.environment["EMBEDDER"]
    assert path_of(crawl.search("stop tasks")[0]["url"]) == "/jobs"


@pytest.mark.parametrize("embedder", ["", "openai"], ids=["no-embedder", "an-embedder-away"])
def test_a_vector_that_no_chunk_uses_goes_whatever_the_embedder_does(
    site: Site, crawl: Crawl, server: EmbeddingsServer, embedder: str
):
    fill(site)
    crawl(site.url("/"))
    crawl.environment |= {"EMBEDDER": embedder, "UNDO_TTL_SECONDS": "0"}
    server.answer = lambda asked: error("busy", 503)
    before = vectors(crawl)
    site.pages["/bread"] = html("Bread", text="A recipe for rye bread without yeast")

    result = crawl(site.url("/"))

    assert vectors(crawl) == before - 1
    assert path_of(crawl.search("rye", "--mode", "text")[0]["url"]) == "/bread"
    assert "unused vectors could not" not in result.err


@pytest.mark.covers("R1-07", "M-16")
def test_debts_of_a_run_are_paid_by_the_next_one_although_every_page_answers_304(
    site: Site, crawl: Crawl, server: EmbeddingsServer
):
    fill(site)
    for path in ("/", "/jobs", "/bread"):
        site.pages[path] = Page(site.pages[path], etag='"1"')
    server.answer = lambda asked: error("busy", 503)

    away = crawl(site.url("/"))

    chunks = crawl.rows("SELECT count(DISTINCT hash) FROM chunk")[0][0]
    assert f"the text of new and changed pages is sent to {server.host}, model some-" in away.err
    assert (
        f"{chunks} chunks without a vector; the next run, or scrapy embed, tries again" in away.err
    )
    assert away.err.count("pages are stored without vectors for now") == 1
    assert vectors(crawl) == 0
    assert counts(crawl) == (0, chunks)
    assert crawl.hits("banana") == ["/bread"]

    server.answer = lambda asked: None
    server.asked.clear()
    site.clear()
    back = crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/jobs": "unchanged", "/bread": "unchanged"}
    assert sum(len(asked.texts) for asked in server.asked) == chunks
    assert vectors(crawl) == chunks
    assert counts(crawl) == (chunks, 0)
    assert crawl.rows(WHOLE) == [(1,)]
    assert "without a vector" not in back.err

    server.asked.clear()
    crawl(site.url("/"))

    assert server.asked == []
    texts = [away.out, away.err, back.out, back.err]
    assert not any(KEY in text for text in texts)
    assert not any(KEY.encode() in text for _, text in crawl.written())


def test_zeros_for_a_text_are_asked_for_once_in_a_run_and_paid_by_the_next(
    site: Site, crawl: Crawl, server: EmbeddingsServer
):
    fill(site)

    def answer(asked: Asked) -> Reply:
        found = [[0.0] * 4 if "walnuts" in text else numbers(text) for text in asked.texts]
        return Reply(embeddings(asked.texts, found))

    server.answer = answer
    crawl(site.url("/"))
    asked = [text for asked in server.asked for text in asked.texts]
    first = counts(crawl)
    server.answer = lambda asked: None
    server.asked.clear()
    crawl(site.url("/"))

    assert len(asked) == len(set(asked)) == vectors(crawl)
    assert first == (len(asked) - 1, 1)
    assert ["walnuts" in text for asked in server.asked for text in asked.texts] == [True]
    assert counts(crawl) == (1, 0)


def test_a_run_opens_its_embedder_once_and_pays_its_own_debts_with_it(
    site: Site, crawl: Crawl, server: EmbeddingsServer
):
    fill(site)
    server.replies = [error("busy", 503)]

    result = crawl(site.url("/"))

    assert "pages are stored without vectors for now" in result.err
    assert len(server.asked) > 1
    assert len({asked.connection for asked in server.asked}) == 1
    assert counts(crawl) == (vectors(crawl), 0)


def test_a_forced_run_asks_again_for_texts_that_were_refused_and_each_run_says_why(
    site: Site, crawl: Crawl, server: EmbeddingsServer
):
    fill(site)
    server.answer = lambda asked: (
        error("odd", 400) if any("walnuts" in text for text in asked.texts) else None
    )
    first = crawl(site.url("/"))
    server.answer = lambda asked: None
    server.asked.clear()
    second = crawl(site.url("/"))
    asked = list(server.asked)
    forced = crawl(site.url("/"), force=1)

    why = "1 chunk refused by the embedder, so without a vector (the server refuses it: 400, odd)"
    for result in (first, second):
        assert f"{why}; to try again: scrapy embed --refused" in result.err
    assert asked == []
    assert ["walnuts" in text for one in server.asked for text in one.texts] == [True]
    assert "refused by the embedder" not in forced.err
    assert path_of(crawl.search("walnuts", "--mode", "vector")[0]["url"]) == "/bread"


def test_a_refused_key_ends_the_requests_of_the_run_and_no_page_is_lost(
    site: Site, crawl: Crawl, server: EmbeddingsServer
):
    fill(site)
    server.answer = lambda asked: error(f"Incorrect API key provided: {KEY}", 401)

    result = crawl(site.url("/"))

    assert len(server.asked) == 1
    assert crawl.hits("banana") == ["/bread"]
    assert "check OPENAI_API_KEY" in result.err
    assert "without a vector; the next run, or scrapy embed, tries again" in result.err
    assert KEY not in result.err + result.out


@pytest.mark.covers("R1-07", "R1-36")
def test_the_next_run_writes_the_vectors_that_documents_lack_although_its_page_answers_304(
    site: Site,
    crawl: Crawl,
    server: EmbeddingsServer,
    elasticsearch: servers.Elasticsearch,
    elasticsearch_prefix: str,
):
    """The run has closed its own index and left its lease by then."""
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
    }
    site.pages["/"] = Page(html("Jobs", text="How to cancel a paused job"), etag='"1"')
    server.answer = lambda asked: error("busy", 503)
    crawl(site.url("/"))
    held = "SELECT sunk_vectors FROM record"
    assert crawl.rows(held) == [(0,)]
    server.answer = lambda asked: None

    result = crawl(site.url("/"))

    assert "some vectors are missing" not in result.err
    assert crawl.rows(held) == crawl.rows("SELECT count(*) FROM remote_chunk")
    assert path_of(crawl.search("banana", "--mode", "vector")[0]["url"]) == "/"


@pytest.mark.sqlite
def test_a_search_finds_the_model_in_the_folder_that_the_crawl_named(
    site: Site, crawl: Crawl, tmp_path: Path
):
    model = save_small_model(tmp_path / "model")
    chosen = {"EMBEDDER": "onnx", "EMBEDDING_FOLDER": str(model)}
    fill(site)
    crawl.environment |= chosen
    crawl(site.url("/"))
    found = crawl.search("paused job", "--mode", "vector")
    for name in chosen:
        del crawl.environment[name]

    assert crawl.search("paused job", "--mode", "vector") == found != []
    model.rename(tmp_path / "elsewhere")
    result = crawl.run("search", "banana")
    assert result.err.count(str(model)) == 1
    assert "only words counted" in result.err
    assert "/bread" in result.out


@pytest.mark.sqlite
def test_a_signal_waits_for_no_more_vectors_and_no_page_is_lost(
    site: Site, crawl: Crawl, tmp_path: Path
):
    """The chunks of one page would take a model of sentences half a minute."""
    model = save_small_model(tmp_path / "model", idle=1_500)
    crawl.environment |= {
        "EMBEDDER": "onnx", "EMBEDDING_FOLDER": str(model), "CHUNK_SIZE": "200",
    }  # fmt: skip
    lines = "".join(f"<p>Job number {n} of a long list of things to do.</p>" for n in range(400))
    site.pages["/"] = Page(f"<title>Jobs</title><main>{lines}</main>")

    with crawl.start(site.url("/")) as running:
        wait_until(lambda: site.count("/") == 1, "the page is asked")
        time.sleep(1)  # its first chunks are being embedded
        os.kill(running.pid, signal.SIGTERM)
        running.end()

    chunks = crawl.rows("SELECT count(DISTINCT hash) FROM chunk")[0][0]
    assert chunks >= 80
    assert vectors(crawl) < chunks
    assert path_of(crawl.search("399", "--mode", "text")[0]["url"]) == "/"
    owed = json.loads(crawl.run("embed", "--dry-run", "--format", "json").out)["owed"]
    assert owed == chunks - vectors(crawl)
