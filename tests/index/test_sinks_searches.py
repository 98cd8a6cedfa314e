"""Both sinks answer the searches of one table alike."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.index.asking import search
from tests.index.meanings import desk_at
from tests.index.searches import (
    HARD_PAGES,
    HARD_SEARCHES,
    KNOWN_PAGES,
    KNOWN_SEARCHES,
    NAMED_PAGES,
    NAMED_SEARCHES,
    PAGES,
    SEARCHES,
    Held,
    Search,
)
from tests.index.shelf import BASE, address, entry, opened, page
from tests.registry.build import Desk
from tests.registry.spare import Spare
from tests.servers import Elasticsearch

Ask = Callable[..., list[Any]]
#: As a crawl stores them: the texts of these pages are those of their chunks.
LENGTHS = """
UPDATE content
   SET text_length = (SELECT sum(length(k.text)) FROM chunk k WHERE k.content = content.no)
 WHERE EXISTS (SELECT 1 FROM chunk k WHERE k.content = content.no)
"""
TOLD = {held.place: (held.shown_title, held.source, held.language) for held in PAGES}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Ask]:
    with filled(Desk()) as ask:
        yield ask


@pytest.fixture(scope="module")
def postgres_index(spare_registries: Spare) -> Iterator[Ask]:
    url = spare_registries.take()
    with filled(desk_at(url)) as ask:
        yield ask
    spare_registries.put_back(url)


@contextmanager
def filled(desk: Desk, table: Sequence[Held] = PAGES) -> Iterator[Ask]:
    """The searches of an embedded index with the pages of a table."""
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        visits = []
        for held in table:
            if held.source == source:
                visit = desk.visit(address(held.place), held.place, title=held.title)
                assert visit.parsed.document is not None
                visit.parsed.document = replace(visit.parsed.document, language=held.language)
                visit.parsed.chunks = list(held.chunks)
                visits.append(visit)
        desk.write(*visits)
        desk.seal()
    desk.connection.execute(LENGTHS)
    yield lambda query, **options: search(desk.connection, query, **options)
    desk.close()


@pytest.fixture(scope="module")
def elastic(elasticsearch: Elasticsearch) -> Iterator[Ask]:
    with filled_elsewhere(elasticsearch) as ask:
        yield ask


@contextmanager
def filled_elsewhere(elasticsearch: Elasticsearch, table: Sequence[Held] = PAGES) -> Iterator[Ask]:
    """The searches of an index in Elasticsearch with the pages of a table."""
    with elasticsearch.prefix() as prefix, opened(elasticsearch.url, prefix) as sink:
        pages = [
            page(held.place, title=held.title, language=held.language, source=held.source,
                 chunks=held.chunks)
            for held in table
        ]  # fmt: skip
        sink.write([entry(one) for one in pages])
        sink.refresh()
        yield sink.search


@pytest.fixture(params=["embedded", "postgres", "elasticsearch"])
def table_in(request: pytest.FixtureRequest) -> Iterator[Callable[[Sequence[Held]], Ask]]:
    """Fills an index with a table of a test's own, and returns its searches."""
    with ExitStack() as stack:

        def fill(table: Sequence[Held]) -> Ask:
            if request.param == "embedded":
                return stack.enter_context(filled(Desk(), table))
            if request.param == "elasticsearch":
                server = request.getfixturevalue("elasticsearch")
                return stack.enter_context(filled_elsewhere(server, table))
            spare = request.getfixturevalue("spare_registries")
            url = spare.take()
            stack.callback(spare.put_back, url)
            return stack.enter_context(filled(desk_at(url), table))

        yield fill


SINKS = pytest.mark.parametrize(
    "sink",
    ["embedded", "postgres_index", "elastic"],
    ids=["embedded", "postgres", "elasticsearch"],
)


@pytest.mark.long(but=60)
@SINKS
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
    assert all(hit.chunks[0].highlight == hit.snippet for hit in hits if hit.chunks)


@SINKS
@pytest.mark.covers("R0-62", "M-47")
def test_a_hit_has_the_three_chunks_that_answer_best(request: pytest.FixtureRequest, sink: str):
    ask: Ask = request.getfixturevalue(sink)
    chunks = next(held.chunks for held in PAGES if held.place == "park")

    (hit,) = ask("pergola pavilion")

    assert [chunk.number for chunk in hit.chunks] == [2, 3, 1]
    assert [chunk.path for chunk in hit.chunks] == ["Park > Music", "Park > Views", "Park > Roofs"]
    assert [chunk.text for chunk in hit.chunks] == [chunks[n].text for n in (2, 3, 1)]
    assert hit.chunks[0].highlight == "[pergola] [pavilion] [pergola] [pavilion]"
    assert "[pavilion]" in hit.chunks[1].highlight
    assert hit.chunks[2].highlight == "a [pergola] beside some words that stand here"


@SINKS
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        pytest.param("connections", [1], id="words-in-one-chunk"),
        pytest.param("fish", [0, 1], id="words-in-two"),
        pytest.param("lonely heading", [], id="no-text"),
        pytest.param("gazebo", [0], id="words-in-the-title-alone"),
        pytest.param("gazebo benches", [0], id="words-in-the-title-and-a-chunk"),
        pytest.param("gazebo music", [2], id="words-in-the-title-and-a-heading"),
    ],
)
def test_chunks_without_a_word_of_the_query_are_not_shown(
    request: pytest.FixtureRequest, sink: str, query: str, numbers: list[int]
):
    ask: Ask = request.getfixturevalue(sink)

    hit = ask(query)[0]

    assert [chunk.number for chunk in hit.chunks] == numbers


@SINKS
def test_a_page_of_two_sources_names_both(request: pytest.FixtureRequest, sink: str):
    ask: Ask = request.getfixturevalue(sink)

    (hit,) = ask("anchor")
    (of_shop,) = ask("anchor", sources=("shop",))

    assert set(hit.sources) == {"docs", "shop"}
    assert hit.sources[0] == hit.source
    assert (of_shop.source, of_shop.sources) == ("shop", ("shop",))


@SINKS
@pytest.mark.parametrize("size", [7, 50, 64])
def test_pages_of_hits_repeat_and_skip_nothing(
    request: pytest.FixtureRequest, sink: str, size: int
):
    """The first page is chosen of fewer proposals than the next ones; both have the same order."""
    ask: Ask = request.getfixturevalue(sink)

    parts = [
        [hit.url for hit in ask("papyrus", limit=size, offset=offset)]
        for offset in range(0, 100 + size, size)
    ]

    found = [url for part in parts for url in part]
    assert len(found) == len(set(found)) == 100
    assert [len(part) for part in parts[: 100 // size]] == [size] * (100 // size)
    assert parts[-1] == []
    assert [hit.url for hit in ask("papyrus", limit=100)] == found


@SINKS
@pytest.mark.parametrize("query", ["obsidian", "agate"], ids=["equal", "unlike"])
def test_pages_that_two_sources_have_fill_the_hits(
    request: pytest.FixtureRequest, sink: str, query: str
):
    ask: Ask = request.getfixturevalue(sink)

    hits = ask(query, limit=30)
    more = ask(query, limit=10, offset=30)

    found = [hit.url for hit in (*hits, *more)]
    assert len(found) == len(set(found)) == 40
    assert all(set(hit.sources) == {"docs", "shop"} for hit in hits)
    assert [hit.url for hit in ask(query, limit=40)] == found
    assert [hit.url for hit in ask(query, limit=30, sources=("shop",))] == found[:30]


@SINKS
@pytest.mark.parametrize(
    ("language", "found"), [("de", ["same/de"]), ("en", ["same/en"]), ("fr", []), ("", None)]
)
def test_only_pages_in_a_language_are_found(
    request: pytest.FixtureRequest, sink: str, language: str, found: list[str] | None
):
    ask: Ask = request.getfixturevalue(sink)

    hits = [hit.url.removeprefix(BASE) for hit in ask("polyglot", language=language)]

    assert sorted(hits) == (["same/de", "same/en"] if found is None else found)


THOUSANDS = " ".join(f"absent{n}" for n in range(10_000))
#: Queries in the syntax of FTS5, of PostgreSQL and of Lucene; each has the word fuse alone.
SYNTAX = [
    'fuse"', '"fuse', "fuse*", "fu* OR fuse", "fuse AND NOT (", "NEAR(fuse broken, 2)",
    "{title}: fuse", "title:absent fuse", "^fuse", "fuse + broken", "fuse & ! | broken",
    "fuse <-> broken", "fuse absent:*A", "'fuse'", "fuse'); DROP TABLE chunk; --", "fuse\\",
    "(absent~2 OR /f.*/)^4 fuse", "fuse [a TO b] {", "_exists_:absent fuse",
    "fuse %s ? :word_a $1 {0}", "-- fuse", "fuse \u202e\x1b[2J",
]  # fmt: skip


@SINKS
@pytest.mark.parametrize("query", SYNTAX, ids=range(len(SYNTAX)))
def test_the_syntax_of_an_index_is_words_and_signs(
    request: pytest.FixtureRequest, sink: str, query: str
):
    ask: Ask = request.getfixturevalue(sink)

    assert "fuse" in [hit.url.removeprefix(BASE) for hit in ask(query)]


@pytest.mark.long(but=9)
@SINKS
@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("", [], id="empty"),
        pytest.param(" \t\n", [], id="blank"),
        pytest.param('""', [], id="empty-quotes"),
        pytest.param("fuse " + THOUSANDS, ["fuse"], id="10000-words"),
        pytest.param(THOUSANDS[:2_000] + " fuse", ["fuse"], id="words-that-no-page-has-first"),
    ],
)
def test_queries_of_no_word_and_of_thousands_are_answered(
    request: pytest.FixtureRequest, sink: str, query: str, found: list[str]
):
    ask: Ask = request.getfixturevalue(sink)

    assert [hit.url.removeprefix(BASE) for hit in ask(query)] == found


@SINKS
@pytest.mark.covers("R0-61")
def test_a_snippet_shows_the_words_of_a_picture_where_the_text_has_none(
    request: pytest.FixtureRequest, sink: str
):
    ask: Ask = request.getfixturevalue(sink)

    shown = {hit.url.removeprefix(BASE): hit.snippet for hit in ask("xylophone")}

    assert shown["music"].startswith("A [xylophone] of oak")
    assert shown["gallery"] == "Two [xylophones]"
    assert shown["band"] == "a [xylophone], a [xylophone] and a gong"
    (hit,) = ask("instruments oak")
    assert hit.snippet == "[instruments] of the hall"


Fill = Callable[[Sequence[Held]], Ask]


def places(hits: Sequence[Any]) -> list[str]:
    return [hit.url.removeprefix(BASE) for hit in hits]


def test_the_page_that_defines_a_name_comes_first(table_in: Fill):
    ask = table_in(NAMED_PAGES)

    found = {asked.name: tuple(places(ask(asked.query))) for asked in NAMED_SEARCHES}

    assert found == {asked.name: asked.found for asked in NAMED_SEARCHES}


def test_what_people_look_for_first_comes_before_pages_that_mention_it(table_in: Fill):
    ask = table_in(KNOWN_PAGES)

    found = {query: places(ask(query))[:2] for query in KNOWN_SEARCHES}

    assert found == {query: [f"{name}/is", f"{name}/has"] for query, name in KNOWN_SEARCHES.items()}


def test_all_scripts_and_spellings_are_found_alike(table_in: Fill):
    ask = table_in(HARD_PAGES)

    found = {query[:20]: set(places(ask(query, limit=99))) for query in HARD_SEARCHES}
    of_all = set(places(ask(" ".join(query[:20] for query in HARD_SEARCHES), limit=99)))

    assert found == {query[:20]: pages for query, pages in HARD_SEARCHES.items()}
    assert of_all >= {"mixed", "arabic", "hindi", "thai", "chinese", "korean", "persian"}
