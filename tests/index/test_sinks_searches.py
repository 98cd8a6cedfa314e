"""Both sinks answer the searches of one table alike."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from smartcrawl.index.embedded.sqlite import search
from tests.index.searches import PAGES, SEARCHES, Search
from tests.index.shelf import BASE, entry, opened, page
from tests.registry.build import Desk
from tests.servers import Elasticsearch

Ask = Callable[..., list[Any]]
TOLD = {held.place: (held.title, held.source, held.language) for held in PAGES}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Ask]:
    desk = Desk()
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        visits = []
        for held in PAGES:
            if held.source == source:
                visit = desk.visit(BASE + held.place, held.place, title=held.title)
                assert visit.parsed.document is not None
                visit.parsed.document = replace(visit.parsed.document, language=held.language)
                visit.parsed.chunks = list(held.chunks)
                visits.append(visit)
        desk.write(*visits)
        desk.seal()
    yield lambda query, **options: search(desk.connection, query, **options)
    desk.close()


@pytest.fixture(scope="module")
def elastic(elasticsearch: Elasticsearch) -> Iterator[Ask]:
    with elasticsearch.prefix() as prefix, opened(elasticsearch.url, prefix) as sink:
        pages = [
            page(held.place, title=held.title, language=held.language, source=held.source,
                 chunks=held.chunks)
            for held in PAGES
        ]  # fmt: skip
        sink.write([entry(one) for one in pages])
        sink.refresh()
        yield sink.search


@pytest.mark.parametrize("sink", ["embedded", "elastic"], ids=["embedded", "elasticsearch"])
@pytest.mark.parametrize("asked", SEARCHES, ids=[one.name for one in SEARCHES])
def test_a_search_finds_the_pages_of_the_table(
    request: pytest.FixtureRequest, sink: str, asked: Search
):
    ask: Ask = request.getfixturevalue(sink)

    hits = ask(asked.query, sources=asked.sources, limit=asked.limit)

    assert [hit.url.removeprefix(BASE) for hit in hits] == list(asked.found)
    told = [(hit.title, hit.source, hit.language) for hit in hits]
    assert told == [TOLD[place] for place in asked.found]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
