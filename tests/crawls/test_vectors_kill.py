"""A page is edited again and again, while the embedder fails and the process is killed at random.

At every moment a search shows one whole version, and each vector is that of its chunk. Seeded by
KILL_SEED, as in test_kill.
"""

import os
import random
import re
from array import array
from collections.abc import Iterator

import pytest
from elasticsearch import Elasticsearch as Client

from smartcrawl.index.embedded.vectors import embedded_text
from tests import servers
from tests.crawls.commands import Crawl, vector_table_of
from tests.crawls.killing import ends, run
from tests.index.embedding.embeddings_server import (
    Asked,
    EmbeddingsServer,
    embeddings_server,
    vector,
)
from tests.openai_server import KEY, Reply, error
from tests.site_server import Page, Site

pytestmark = [pytest.mark.alone, pytest.mark.embedded]

SHORT, SEED = 2, 236  #: edits of the default tier, and its seed
PARTS = 6  #: sections of the page, of which each edit changes one
_CHUNKS = "SELECT title, headings, text, hash FROM chunk ORDER BY content, position"
_FIELDS = ("title", "headings", "text")
_VECTORS = {
    "vector": "SELECT hash, vector FROM vector WHERE refused IS NULL",
    "chunk_vector": "SELECT hash, vector::real[] FROM chunk_vector WHERE refused IS NULL",
}


@pytest.fixture
def embedder(crawl: Crawl) -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        crawl.environment |= server.settings | {"OPENAI_API_KEY": KEY, "UNDO_TTL_SECONDS": "0"}
        yield server


@pytest.fixture
def remote(crawl: Crawl, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str) -> Client:
    """Let the index of the crawls of a test be in an Elasticsearch; return a client of it."""
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
    }
    return Client(elasticsearch.url)


def edition(number: int) -> str:
    """Return the page after so many edits; each changes the next of its sections."""
    changed = [number - (number - part) % PARTS for part in range(PARTS)]
    sections = "".join(
        f"<h2>Part {part}</h2><p>Edited {max(last, 0)} times.</p>"
        for part, last in enumerate(changed)
    )
    return f"<title>Page</title><p>edition{number}</p>{sections}<p>end{number}</p>"


def stored_vectors(crawl: Crawl) -> dict[bytes, object]:
    """Return the numbers of the vectors by the hashes of their chunks."""
    return {
        bytes(hash_): pytest.approx(
            found if isinstance(found, list) else list(array("f", found)), abs=0.001
        )
        for hash_, found in crawl.rows(_VECTORS[vector_table_of(crawl)])
    }


def stored_version(crawl: Crawl) -> int:
    """Return the version of the page that is stored, all of it, with the vectors of its chunks."""
    chunks = crawl.rows(_CHUNKS)
    text = " ".join(row[2] for row in chunks)
    [begins], [ends] = re.findall(r"edition(\d+)", text), re.findall(r"end(\d+)", text)
    assert begins == ends
    assert len(crawl.search(f"edition{begins}", "--mode", "text")) == 1
    of_chunk = {bytes(hash_): vector(embedded_text(*texts)) for *texts, hash_ in chunks}
    for hash_, found in stored_vectors(crawl).items():
        assert list(array("f", of_chunk.get(hash_, b""))) in ([], found)
    return int(begins)


@pytest.mark.long
@pytest.mark.covers("R1-33", "R1-36")
@pytest.mark.parametrize("edits", [4, pytest.param(20, marks=pytest.mark.long)])
def test_no_death_and_no_failure_parts_a_page_from_its_vectors(
    edits: int, site: Site, crawl: Crawl, embedder: EmbeddingsServer
):
    edited_and_killed(crawl, site, embedder, edits, int(os.environ["KILL_SEED"]) + edits)


@pytest.mark.long
@pytest.mark.sqlite
@pytest.mark.covers("R1-33", "R1-36")
def test_no_death_of_a_few_parts_a_page_from_its_vectors(
    site: Site, crawl: Crawl, embedder: EmbeddingsServer
):
    """The default tier. By its seed runs die, and the embedder fails: choose another if not."""
    deaths, failures = edited_and_killed(crawl, site, embedder, SHORT, SEED)

    assert deaths > 0 < failures


def edited_and_killed(
    crawl: Crawl, site: Site, embedder: EmbeddingsServer, edits: int, seed: int
) -> tuple[int, int]:
    """Edit a page so often, with deaths and failures by a seed; return how many there were."""
    chance, deaths, failures = random.Random(seed), 0, 0

    def answer(asked: Asked) -> Reply | None:
        nonlocal failures
        is_busy = chance.random() < 0.5
        failures += is_busy
        return error("busy", 503) if is_busy else None

    site.pages["/"] = Page(edition(0))
    status, out = run(crawl, site, 0)
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    embedder.answer = answer
    version = 0
    for number in range(1, edits + 1):
        site.pages["/"] = Page(edition(number))
        crawl.bury()
        status, _ = run(crawl, site, chance.randint(1, int(found[1])))
        deaths += status != 0
        crawl.bury()
        assert stored_version(crawl) in (version, number)
        version = stored_version(crawl)

    embedder.answer = lambda asked: None
    ends(crawl, site)

    assert stored_version(crawl) == edits
    hashes = {bytes(row[3]) for row in crawl.rows(_CHUNKS)}
    assert stored_vectors(crawl).keys() == hashes  # no debt, none too many
    return deaths, failures


def indexed_version(crawl: Crawl, client: Client) -> tuple[int, list[bool]]:
    """Return the version of the page in the index, all of it, and which chunks have a vector.

    Each vector is that of its chunk.
    """
    prefix = crawl.environment["ELASTICSEARCH_INDEX_PREFIX"]
    client.indices.refresh(index=f"{prefix}-write")
    [hit] = client.search(index=prefix)["hits"]["hits"]
    chunks, ending = hit["_source"]["chunks"], f"_{hit['_source'].get('language', '')}".rstrip("_")
    texts = [[chunk[f"{name}{ending}"] for name in _FIELDS] for chunk in chunks]
    whole = " ".join(text for _, _, text in texts)
    [begins], [ends] = re.findall(r"edition(\d+)", whole), re.findall(r"end(\d+)", whole)
    assert begins == ends
    for chunk, some in zip(chunks, texts, strict=True):
        expected = memoryview(vector(embedded_text(*some))).cast("f").tolist()
        assert chunk.get("vector", expected) == pytest.approx(expected, abs=0.001)
    return int(begins), ["vector" in chunk for chunk in chunks]


@pytest.mark.long
@pytest.mark.covers("R1-33", "R1-36")
@pytest.mark.parametrize("edits", [3, pytest.param(20, marks=pytest.mark.long)])
def test_no_death_and_no_failure_parts_a_document_from_its_vectors(
    edits: int, site: Site, crawl: Crawl, embedder: EmbeddingsServer, remote: Client
):
    chance = random.Random(int(os.environ["KILL_SEED"]) + edits)
    site.pages["/"] = Page(edition(0))
    status, out = run(crawl, site, 0)
    assert status == 0, out
    found = re.search(r"places: (\d+)", out)
    assert found is not None, out
    assert indexed_version(crawl, remote) == (0, [True] * (PARTS + 1))
    embedder.answer = lambda asked: error("busy", 503) if chance.random() < 0.5 else None
    version = 0
    for number in range(1, edits + 1):
        site.pages["/"] = Page(edition(number))
        crawl.bury()
        run(crawl, site, chance.randint(1, int(found[1])))
        seen, _ = indexed_version(crawl, remote)
        assert seen in (version, number)
        version = seen

    embedder.answer = lambda asked: None
    ends(crawl, site)

    version, has_vector = indexed_version(crawl, remote)
    assert version == edits
    assert all(has_vector)
    hashes = {bytes(hash_) for (hash_,) in crawl.rows("SELECT hash FROM remote_chunk")}
    assert stored_vectors(crawl).keys() == hashes  # no debt, none too many
    crawl.run("audit")
