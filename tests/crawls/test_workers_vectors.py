"""Workers that share a run, and the vectors of its chunks."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.conftest import Spare
from tests.crawls.commands import Crawl, Scrapy
from tests.crawls.crew import Crew, crew_of
from tests.index.embedding.embeddings_server import (
    Asked,
    EmbeddingsServer,
    embeddings,
    embeddings_server,
)
from tests.openai_server import KEY, Reply, error
from tests.site_server import Page, Site, html

_PAGES = 14
_VECTORS = "SELECT count(*) FROM chunk_vector WHERE vector IS NOT NULL"
_CHUNKS = "SELECT count(DISTINCT hash) FROM chunk"
_OWED = "SELECT count(*) FROM chunk WHERE hash NOT IN (SELECT hash FROM chunk_vector)"


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        yield server


@pytest.fixture
def crew(
    tmp_path: Path,
    ask: Scrapy,
    redis_url: str,
    vector_postgres: servers.Postgres,
    spare_vector_registries: Spare,
    server: EmbeddingsServer,
) -> Iterator[Crew]:
    """Workers with a registry that has vectors."""
    vector_postgres.start()
    url = spare_vector_registries.take()
    with crew_of(Crawl(tmp_path, ask, url, redis=redis_url), redis_url) as crew:
        crew.crawl.environment |= server.settings | {"OPENAI_API_KEY": KEY}
        yield crew
    spare_vector_registries.put_back(url)


def fill(site: Site) -> None:
    names = [f"/{n}" for n in range(_PAGES)]
    site.pages["/"] = html("Home", *names)
    for name in names:
        site.pages[name] = Page(html(name, text=f"text of {name}"), delay=0.1)


def counts(crew: Crew) -> tuple[int, int]:
    """Return what the last run says that it embedded and owes; ``status`` says the same."""
    last = crew.crawl.runs()[0]
    status = json.loads(crew.crawl.run("status", "--format", "json").out)["sources"][0]["lastRun"]
    assert (status["embedded"], status["owed"]) == (last["embedded"], last["owed"])
    return last["embedded"], last["owed"]


def number(crew: Crew, statement: str) -> int:
    [(found,)] = crew.crawl.rows(statement)
    return int(found)


@pytest.mark.long
@pytest.mark.covers("R1-07", "R2-43", "M-47")
def test_workers_embed_each_chunk_once_and_the_next_run_pays_their_debts(
    site: Site, crew: Crew, server: EmbeddingsServer
):
    crew.crawl.environment["CONCURRENT_REQUESTS_PER_DOMAIN"] = "3"
    fill(site)
    answered: list[Asked] = []

    def answer(asked: Asked) -> Reply | None:
        if is_busy and any("text of /7" in text for text in asked.texts):
            return error("busy", 503)
        answered.append(asked)
        return Reply(embeddings(asked.texts), pause=0.5)  # others may ask for the same meanwhile

    is_busy = True
    server.answer = answer
    crew.run(site.url("/"))

    chunks, (embedded, owed) = number(crew, _CHUNKS), counts(crew)
    assert chunks == _PAGES + 1
    assert embedded == number(crew, _VECTORS)
    assert owed == number(crew, _OWED) == chunks - embedded > 0

    is_busy = False
    crew.run(site.url("/"))

    assert counts(crew) == (owed, 0)
    assert number(crew, _VECTORS) == chunks
    texts = Counter(text for asked in answered for text in asked.texts)
    assert (len(texts), max(texts.values())) == (chunks, 1)
