"""Searches by meaning, and by words and meaning, over the vectors of registries."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from smartcrawl import settings
from smartcrawl.index import query_vectors, search, searching
from smartcrawl.index.debts import remote_index_debts
from smartcrawl.index.embedded import finding
from smartcrawl.index.embedded.vectors import whole_index_embedders
from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.embedding.local import LocalEmbedder
from smartcrawl.index.query_vectors import SECONDS, SearchMode
from smartcrawl.index.ranking import MOST_PARTS, Ranked, joined_index_rankings
from smartcrawl.index.remote import write_index_anew
from smartcrawl.index.search import search_index
from smartcrawl.index.searching import Answer
from smartcrawl.model.documents import Section
from smartcrawl.model.exceptions import (
    EmbedderError,
    NoVectorsError,
    SettingError,
    UnknownNameError,
)
from smartcrawl.model.option_groups import ElasticsearchTarget, EmbedderOptions
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Outcome
from smartcrawl.rules.vectors import fuse
from smartcrawl.rules.visibility import EVERYTHING, Reader
from smartcrawl.server.stores import READING
from tests.choices import options
from tests.index.embedding.embeddings_server import (
    Asked,
    EmbeddingsServer,
    embeddings,
    embeddings_server,
)
from tests.index.meanings import (
    Topics,
    desk_at,
    embedder_options,
    pay,
    topic_numbers,
    topics_of,
    vector_registry,
    visit_of_sections,
)
from tests.index.remote_desk import RemoteDesk
from tests.index.searches import PAGES, SEARCHES
from tests.openai_server import Reply, error
from tests.registry.build import LATER, Desk
from tests.server.api_client import error_of
from tests.server.data.library import Library
from tests.servers import Elasticsearch

#: Tests that write or read what only a registry with its own index has.
DATABASES = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True, scope="module")
TEXT, VECTOR, HYBRID = SearchMode.TEXT, SearchMode.VECTOR, SearchMode.HYBRID
BASE = "http://a.example/"


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        server.answer = topics_of
        yield server


@pytest.fixture(autouse=True)
def fresh_embedders() -> Iterator[None]:
    """Let no test find the embedder of another one: servers may have equal ports."""
    query_vectors.EMBEDDERS.forget()
    search._noted.clear()
    yield
    query_vectors.EMBEDDERS.forget()


class Place(NamedTuple):
    """Where a registry and its index are."""

    url: str = ""  #: of a registry in PostgreSQL; "": in SQLite
    index: ElasticsearchTarget | None = None  #: None: beside the registry


class Searched:
    """A registry whose chunks have vectors, and its searches."""

    def __init__(self, folder: Path, chosen: EmbedderOptions | None, place: Place) -> None:
        self.options: Options = options(folder, embedder=chosen, elasticsearch=place.index)
        self.desk = desk_at(place.url) if place.index is None else RemoteDesk(self.options)

    def put(self, source: str, **pages: str | list[str]) -> None:
        """Store pages of a source: the last part of the address, and the texts of its chunks."""
        self.desk.source = source
        self.desk.open()
        visits: list[Visit] = []
        for place, texts in pages.items():
            some = [texts] if isinstance(texts, str) else texts
            sections = [Section(0, "", text) for text in some]
            url = f"http://{source}.example/{place}"
            visits.append(visit_of_sections(self.desk, url, sections))
        self.desk.write(*visits)
        self.desk.seal()

    def pay(self) -> None:
        assert self.options.embedder is not None
        paid = pay(
            self.desk.connection,
            open_embedder_of(self.options.embedder),
            elsewhere=remote_index_debts(self.desk.indexing),
        )
        assert paid.owed == 0

    def answer(self, query: str, mode: SearchMode = HYBRID, **more: Any) -> Answer:
        return search_index(self.desk.connection, query, self.options, mode=mode, **more)

    def find(self, query: str, mode: SearchMode = HYBRID, **more: Any) -> list[str]:
        """Return source and place of the hits."""
        return [
            hit.url.removeprefix("http://").replace(".example", "")
            for hit in self.answer(query, mode, **more).hits
        ]


def filled(folder: Path, server: EmbeddingsServer, place: Place) -> Searched:
    """Two sources with vectors of topics."""
    found = Searched(folder, embedder_options(server), place)
    found.put(
        "docs",
        cancel="cancel the paused job",
        banana="the banana is yellow",
        winter=["the winter is long", "a boat sails"],
        words="stop signs along the road banana banana banana",
    )
    found.put("shop", abort="abort abort abort", apple="an apple a day", snow="snow in june")
    found.pay()
    server.asked.clear()
    return found


New = Callable[[EmbedderOptions | None], Searched]


@pytest.fixture(scope="module", params=["sqlite", "postgres", "elasticsearch"])
def kind(request: pytest.FixtureRequest) -> str:
    """The index: that of a registry in a database, or one elsewhere."""
    return str(request.param)


@contextmanager
def vector_place(kind: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    """An empty registry and its index."""
    if kind == "elasticsearch":
        server: Elasticsearch = request.getfixturevalue("elasticsearch")
        server.start()
        with server.prefix() as prefix:
            yield Place(index=ElasticsearchTarget(server.url, prefix))
    else:
        with vector_registry(kind, request) as url:
            yield Place(url)


@pytest.fixture
def new(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[New]:
    """Makes the registry of a test."""
    made: list[Searched] = []

    def make(chosen: EmbedderOptions | None) -> Searched:
        made.append(Searched(tmp_path, chosen, place))
        return made[-1]

    with vector_place(kind, request) as place:
        yield make
        for one in made:
            one.desk.close()


@pytest.fixture
def searched(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, server: EmbeddingsServer
) -> Iterator[Searched]:
    """Two sources with vectors of topics."""
    with vector_place(kind, request) as place:
        found = filled(tmp_path, server, place)
        yield found
        found.desk.close()


@pytest.fixture(scope="module")
def library(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Searched, EmbeddingsServer]]:
    """The same, for tests that only read; and its server."""
    with embeddings_server() as server, vector_place(kind, request) as place:
        server.answer = topics_of
        found = filled(tmp_path_factory.mktemp("library"), server, place)
        yield found, server
        found.desk.close()


@pytest.fixture(scope="module")
def crowded(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searched]:
    """A large source whose 1,000 chunks are nearer to fruit than any of a small one."""
    with embeddings_server() as server, vector_place(kind, request) as place:
        server.answer = topics_of
        found = Searched(tmp_path_factory.mktemp("crowded"), embedder_options(server), place)
        crowd = {f"page{p}": [f"crowd banana {p} {n}" for n in range(100)] for p in range(10)}
        found.put("large", **crowd)
        found.put("small", far="winter is yellow", near="banana ship yellow")
        found.pay()
        yield found
        found.desk.close()


# Words alone


@DATABASES
def test_text_searches_find_the_same_with_and_without_vectors(new: New, server: EmbeddingsServer):
    searched = new(None)
    desk = searched.desk
    for source in ("docs", "shop", "other"):  # queries name all three
        desk.source = source
        desk.open()
        visits = []
        for held in PAGES[:60]:
            if held.source == source:
                visits.append(desk.visit(BASE + held.place, held.place, title=held.title))
                visits[-1].parsed.chunks = list(held.chunks)
        desk.write(*visits)
        desk.seal()

    def answers(mode: SearchMode) -> list[Answer]:
        return [
            searched.answer(asked.query, mode, sources=asked.sources, limit=asked.limit)
            for asked in SEARCHES
            if "in:absent" not in asked.query  # thousands of sources that are refused here
        ]

    before = answers(SearchMode.BEST)
    searched.options = replace(searched.options, embedder=embedder_options(server))
    searched.pay()
    server.asked.clear()

    assert answers(TEXT) == before
    assert server.asked == []
    assert searched.answer("zebra", VECTOR) != searched.answer("zebra", TEXT)


def test_without_vectors_the_default_is_text_without_a_note(searched: Searched):
    searched.options = replace(searched.options, embedder=None)
    searched.desk.connection.execute("UPDATE embedder SET whole_at = NULL").fetchall()

    assert searched.answer("banana", SearchMode.BEST) == searched.answer("banana", TEXT)
    assert searched.answer("banana", SearchMode.BEST).note == ""


def test_without_a_setting_the_embedder_of_the_registry_is_asked(
    searched: Searched, server: EmbeddingsServer
):
    """A search, an MCP client or a server need no setting where a crawl made the vectors."""
    chosen = searched.options
    answers = [searched.answer("fruit", mode) for mode in (VECTOR, HYBRID, SearchMode.BEST)]
    server.asked.clear()
    searched.options = replace(chosen, embedder=None)

    found = [searched.answer("fruit", mode) for mode in (VECTOR, HYBRID, SearchMode.BEST)]

    assert found == answers
    assert "docs/banana" in searched.find("fruit", SearchMode.BEST)
    assert {asked.body["model"] for asked in server.asked} == {"some-model"}


@DATABASES
def test_vectors_whose_model_has_no_known_place_are_left_out(
    searched: Searched, server: EmbeddingsServer
):
    """Of an older version: no question goes to a server that the user has not named."""
    searched.options = replace(searched.options, embedder=None)
    searched.desk.connection.execute("UPDATE embedder SET location = NULL").fetchall()
    server.asked.clear()

    assert searched.answer("banana", SearchMode.BEST) == searched.answer("banana", TEXT)
    assert server.asked == []


@DATABASES
def test_a_model_that_moved_is_found_where_it_is_now(searched: Searched, server: EmbeddingsServer):
    connection, chosen = searched.desk.connection, searched.options
    connection.execute("UPDATE embedder SET location = 'http://former.example/v1'").fetchall()
    searched.pay()
    searched.options = replace(chosen, embedder=None)

    assert connection.execute("SELECT location FROM embedder").get == chosen.embedder.url
    assert "docs/banana" in searched.find("fruit", VECTOR)


@DATABASES
def test_a_process_says_once_that_the_embedder_of_the_registry_is_not_to_be_had(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    searched.options = replace(searched.options, embedder=None)
    statement = "UPDATE embedder SET location = 'https://api.openai.com/v1'"
    searched.desk.connection.execute(statement).fetchall()

    first, second = (searched.answer("banana", SearchMode.BEST) for _ in range(2))

    assert first.note.startswith("only words counted: ")
    assert "OPENAI_API_KEY" in first.note
    assert (second.note, second.hits) == ("", searched.answer("banana", TEXT).hits)
    with pytest.raises(SettingError, match="OPENAI_API_KEY"):
        searched.answer("banana", VECTOR)


# Meaning


@DATABASES
@pytest.mark.covers("M-47")
@pytest.mark.parametrize(
    "mode", [VECTOR, HYBRID, SearchMode.BEST], ids=["vector", "hybrid", "best"]
)
def test_a_page_is_found_by_its_meaning_without_a_common_word(new: New, mode: str):
    searched = new(EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"}))
    searched.put(
        "docs",
        jobs="How to cancel a paused job",
        bread="A recipe for banana bread with walnuts",
        weather="Rain and wind along the coast tomorrow",
    )
    searched.pay()

    assert searched.find("stop running tasks", TEXT) == []
    assert searched.find("stop running tasks", SearchMode(mode))[0] == "docs/jobs"


def test_vector_finds_the_nearest_pages_first_by_the_cosine_of_their_best_chunk(
    searched: Searched, server: EmbeddingsServer
):
    hits = searched.answer("end", VECTOR).hits

    assert [asked.texts for asked in server.asked] == [["end"]]
    assert {hit.url for hit in hits[:2]} == {
        "http://docs.example/cancel", "http://shop.example/abort",
    }  # fmt: skip
    assert [hit.score for hit in hits[:3]] == pytest.approx([1, 1, 0.3], abs=0.3)
    assert len(hits) == 7
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    (boat, *_) = searched.answer("ship", VECTOR).hits
    assert (boat.url, boat.snippet) == ("http://docs.example/winter", "a boat sails")
    assert boat.score == pytest.approx(1, abs=0.01)


def test_the_words_of_filters_have_no_meaning(searched: Searched, server: EmbeddingsServer):
    searched.find('end "the job" -banana site:docs.example in:docs', VECTOR)

    assert server.asked[-1].texts == ["end the job"]


def test_vector_counts_no_words(searched: Searched):
    assert searched.find("yellow end", VECTOR, limit=2) == ["docs/cancel", "shop/abort"]


@pytest.mark.covers("M-47")
def test_hybrid_joins_the_ranks_of_words_and_meaning(searched: Searched):
    query = "yellow abort"
    words, meaning = searched.find(query, TEXT), searched.find(query, VECTOR)
    assert (words, meaning[:2]) == (["shop/abort", "docs/banana"], ["docs/cancel", "shop/abort"])

    hits = searched.answer(query, HYBRID).hits

    found = searched.find(query, HYBRID)
    scores = dict(fuse([words, words, meaning]))  # words of whole pages, and of their best chunks
    assert [hit.score for hit in hits] == pytest.approx(list(scores.values()), 1e-4)
    assert [scores[place] for place in found] == list(scores.values())
    assert found[0] == "shop/abort" != meaning[0]
    assert searched.find(query, SearchMode.BEST) == found


def test_a_page_with_the_words_shows_them_marked_and_another_its_nearest_chunk(searched: Searched):
    hits = {hit.url: hit for hit in searched.answer("banana", HYBRID, marks=("<", ">")).hits}

    assert hits["http://docs.example/banana"].snippet == "the <banana> is yellow"
    assert hits["http://shop.example/apple"].snippet == "an apple a day"


@pytest.mark.long(but=3)
@pytest.mark.covers("M-47")
@pytest.mark.parametrize(
    ("mode", "numbers"),
    [
        pytest.param(TEXT, [0, 1], id="those-with-the-words"),
        pytest.param(VECTOR, [1, 0, 3], id="the-nearest"),
        pytest.param(HYBRID, [0, 1, 3], id="the-best-by-words-then-both"),
    ],
)
def test_a_hit_has_the_chunks_of_its_mode(searched: Searched, mode: SearchMode, numbers: list[int]):
    texts = ["banana ship", "banana apple fruit", "a ship", "fruit ship ship", "cold winter"]
    searched.put("deep", page=texts)
    searched.pay()

    (hit,) = searched.answer("banana in:deep", mode, marks=("<", ">")).hits

    assert [chunk.number for chunk in hit.chunks] == numbers
    assert [chunk.text for chunk in hit.chunks] == [texts[number] for number in numbers]
    assert hit.chunks[0].highlight == hit.snippet == f"<banana>{texts[numbers[0]][6:]}"


def test_the_chunk_of_a_hit_may_be_far_down_its_page(searched: Searched):
    filler = [f"line {n} of many" for n in range(MOST_PARTS)]
    searched.put("long", page=[*filler, "a ship"])
    searched.pay()

    (hit,) = searched.answer("boat in:long", VECTOR).hits

    assert (hit.chunks[0].number, hit.chunks[0].text) == (MOST_PARTS, "a ship")


@pytest.mark.long(but=6)
@pytest.mark.parametrize("mode", [TEXT, HYBRID])
@pytest.mark.parametrize("query", ["kumquat", "kumquat orchard", '"kumquat orchard"'])
def test_words_far_down_a_page_are_shown(searched: Searched, query: str, mode: SearchMode):
    filler = [f"line {n} of many" for n in range(MOST_PARTS)]
    texts = [*filler, "an orchard", "more of many", "a kumquat orchard", "the end of many"]
    searched.put("far", page=texts, near=[*filler, "orchard"])
    searched.pay()

    hits = searched.answer(f"{query} in:far", mode, marks=("<", ">")).hits

    hit = next(hit for hit in hits if hit.url.endswith("/page"))
    first = hit.chunks[0]
    assert (first.number, first.text) == (MOST_PARTS + 2, "a kumquat orchard")
    assert hit.snippet == first.highlight
    assert "<kumquat>" in first.highlight or "<kumquat orchard>" in first.highlight


def test_a_chunk_at_the_top_and_one_far_down_are_shown_by_their_words(searched: Searched):
    filler = [f"line {n} of many" for n in range(MOST_PARTS)]
    searched.put("ends", page=["a kumquat", *filler, "a kumquat orchard"])
    searched.pay()

    (hit,) = searched.answer("kumquat orchard in:ends", TEXT).hits

    assert [chunk.number for chunk in hit.chunks] == [MOST_PARTS + 1, 0]


@pytest.mark.covers("M-47")
def test_one_word_of_many_counts_in_hybrid_and_comes_last_in_text(
    new: New, server: EmbeddingsServer
):
    searched = new(embedder_options(server))
    searched.put(
        "docs",
        every="abort yellow copper market",
        near="stop cancel end",
        one="copper banana",
    )
    searched.pay()
    query = "abort yellow copper market"

    assert searched.find(query, TEXT) == ["docs/every", "docs/one"]
    assert searched.find(query, VECTOR)[2] == "docs/one"  # its meaning is another
    assert searched.find(query, HYBRID) == ["docs/every", "docs/one", "docs/near"]


@DATABASES
@pytest.mark.covers("M-47")
def test_hybrid_loses_no_page_that_text_finds(new: New, server: EmbeddingsServer):
    searched = new(embedder_options(server))
    near = {f"near{n}": f"banana banana {n}" for n in range(80)}
    far = {f"far{n}": f"fruitless snow snow winter {n}" for n in range(50)}
    searched.put("docs", **near, **far)
    searched.pay()
    words = searched.find("fruitless", TEXT, limit=60)

    assert len(words) == 50
    assert set(words) <= set(searched.find("fruitless", HYBRID, limit=1_000))
    assert set(words) & set(searched.find("fruitless apple", HYBRID, limit=10))


def test_a_page_without_its_vector_is_found_by_its_words(searched: Searched):
    searched.put("late", new="a pineapple")

    assert searched.find("pineapple in:late", HYBRID) == ["late/new"]
    assert "late/new" in searched.find("pineapple", HYBRID)
    assert "late/new" not in searched.find("pineapple", VECTOR)


def test_pages_that_owe_vectors_keep_the_places_that_their_words_give_them(
    searched: Searched, server: EmbeddingsServer
):
    """They came while the embedder was away, and are the only ones with the word."""
    searched.put("docs", **{f"near{n}": f"fruit banana apple {n}" for n in range(30)})
    searched.pay()
    searched.put("late", one="the zeppelin", two="a zeppelin, and a long line about it")
    words = searched.answer("zeppelin fruit", TEXT)
    assert [hit.source for hit in words.hits[:2]] == ["late", "late"]

    for query in ("zeppelin", "zeppelin fruit", "how do I see a zeppelin"):
        by_words = [hit.url for hit in searched.answer(query, TEXT, limit=50).hits]
        found = searched.answer(query, HYBRID, limit=50)
        urls = [hit.url for hit in found.hits]
        late = [url for url in by_words if "late" in url]
        assert len(late) == 2
        assert [urls.index(url) for url in late] == [by_words.index(url) for url in late]
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(scores, reverse=True)
        assert found.note.endswith("chunks have no vector yet")
    assert "2 of " in found.note


def test_above_a_tenth_owed_words_alone_count(searched: Searched, server: EmbeddingsServer):
    searched.put("late", **{f"p{n}": f"a pear {n}" for n in range(9)})
    server.asked.clear()

    for mode in (SearchMode.BEST, HYBRID):
        answer = searched.answer("banana", mode)
        assert answer.hits == searched.answer("banana", TEXT).hits
        assert answer.note.startswith("only words counted: 9 of ")
    assert server.asked == []
    assert searched.answer("banana in:docs", HYBRID).note == ""
    assert searched.answer("banana", VECTOR).note.startswith("9 of ")


# Conditions

FILTERS = {
    "in": ("fruit in:shop", {"shop/abort", "shop/apple", "shop/snow"}),
    "not in": ("fruit -in:docs", {"shop/abort", "shop/apple", "shop/snow"}),
    "site": ("fruit site:shop.example", {"shop/abort", "shop/apple", "shop/snow"}),
    "site and path": ("fruit site:shop.example/apple", {"shop/apple"}),
    "not site": ("fruit -site:docs.example", {"shop/abort", "shop/apple", "shop/snow"}),
    "a word that must not occur": (
        "fruit -banana -abort -paused", {"docs/winter", "shop/apple", "shop/snow"},
    ),
    "words that must occur": ('fruit "a day"', {"shop/apple"}),
    "a phrase that must not occur": ('fruit -"an apple" in:shop', {"shop/abort", "shop/snow"}),
    "all of them": ('fruit "banana" in:docs -road site:docs.example', {"docs/banana"}),
}  # fmt: skip


@pytest.mark.long(but=16)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
@pytest.mark.parametrize(("query", "found"), FILTERS.values(), ids=FILTERS)
def test_conditions_hold_for_pages_that_are_near(
    library: tuple[Searched, EmbeddingsServer], query: str, found: set[str], mode: SearchMode
):
    assert set(library[0].find(query, mode)) == found


@pytest.mark.long(but=3)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
@pytest.mark.parametrize("name", ["nowhere", "'"])
def test_a_source_of_a_query_that_does_not_exist_is_refused(
    library: tuple[Searched, EmbeddingsServer], name: str, mode: SearchMode
):
    with pytest.raises(UnknownNameError, match="no source is called"):
        library[0].find(f"fruit in:{name}", mode)


@pytest.mark.long(but=3)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_source_that_the_caller_names_limits_the_search(searched: Searched, mode: SearchMode):
    assert searched.find("fruit", mode, sources=["shop"])[0] == "shop/apple"
    assert len(searched.find("fruit", mode, sources=["shop"])) == 3
    assert searched.find("fruit in:docs", mode, sources=["shop"]) == []


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    ("query", "sources"),
    [("apple", ["small"]), ("apple in:small", []), ("apple site:small.example", []),
     ('apple "yellow"', []), ("apple -crowd", [])],
    ids=["source", "in", "site", "quoted", "excluded"],
)  # fmt: skip
def test_a_condition_finds_its_nearest_page_although_1000_chunks_of_another_source_are_nearer(
    crowded: Searched, query: str, sources: list[str]
):
    assert crowded.find(query, VECTOR, sources=sources) == ["small/near", "small/far"]


def test_the_nearest_page_is_found_among_many_chunks(crowded: Searched):
    assert crowded.find("snow", VECTOR)[0] == "small/far"


def test_pages_with_many_near_chunks_hide_no_other_page(crowded: Searched):
    found = crowded.find("apple", VECTOR, limit=20)
    assert len(found) == 12
    assert found[-2:] == ["small/near", "small/far"]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True, scope="module")
@pytest.mark.parametrize(
    ("query", "found"),
    [("snow", ["small/far"]), ("apple", []), ("apple in:small", ["small/near", "small/far"])],
)
def test_the_index_of_vectors_finds_what_a_comparison_with_all_finds(
    crowded: Searched,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    found: list[str],
):
    """Among many vectors; with ``in`` the index has not enough, and all are compared after all."""
    connection = crowded.desk.connection
    exact = crowded.find(query, VECTOR, limit=5)
    monkeypatch.setattr(finding, "_MOST_EXACT", 10)
    statements: list[str] = []
    run = connection.execute

    def watched(statement: str, values: Any = ()) -> Any:
        if "WITH near" in statement:
            statements.append(statement)
            plan = run(f"EXPLAIN {statement}", values).fetchall()
            uses.append("chunk_vector_1" in str(plan))
        return run(statement, values)

    uses: list[bool] = []
    monkeypatch.setattr(connection, "execute", watched)
    run("SET enable_seqscan = off; SET enable_sort = off")

    by_index = crowded.find(query, VECTOR, limit=5)

    run("RESET enable_seqscan; RESET enable_sort")
    assert "halfvec(4)" in statements[0]
    assert uses[0]
    assert by_index[: len(found)] == found
    assert set(by_index) <= set(exact) or not found


@pytest.mark.long(but=3)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_condition_holds_for_each_page_that_has_a_chunk(searched: Searched, mode: SearchMode):
    searched.put("one", page=["a boat in the harbour", "first"])
    searched.put("two", page=["a boat in the harbour", "second"])
    searched.pay()

    assert searched.find("ship in:one", mode) == ["one/page"]
    assert searched.find('ship "second"', mode) == ["two/page"]


@DATABASES
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_language_limits_the_search(searched: Searched, mode: SearchMode):
    searched.desk.connection.execute(
        "UPDATE content SET language = 'de' WHERE no IN (SELECT content FROM chunk WHERE text LIKE"
        " '%snow%')"
    ).fetchall()

    assert searched.find("fruit", mode, language="de") == ["shop/snow"]
    assert "shop/snow" not in searched.find("snow", mode, language="en")


def test_the_meaning_is_that_of_the_corrected_query(searched: Searched, server: EmbeddingsServer):
    answer = searched.answer("bananna", HYBRID)

    assert answer.meant == "banana"
    assert server.asked[-1].texts == ["banana"]


def test_a_page_of_two_sources_is_one_hit_that_names_both(searched: Searched):
    desk = searched.desk
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        desk.index(BASE + "both", "the harbour")
        desk.seal()
    searched.pay()

    sources = {hit.url: set(hit.sources) for hit in searched.answer("ship", VECTOR).hits}

    assert sources[BASE + "both"] == {"docs", "shop"}
    assert [hit.url for hit in searched.answer("ship").hits].count(BASE + "both") == 1


@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_lost_page_is_marked(searched: Searched, mode: SearchMode):
    desk = searched.desk
    desk.source = "shop"
    desk.open()
    desk.write(
        desk.visit("http://shop.example/apple", outcome=Outcome.HTTP_ERROR, status=403), now=LATER
    )

    lost = {hit.url: hit.lost for hit in searched.answer("fruit in:shop", mode).hits}

    assert lost == {
        "http://shop.example/apple": True,
        "http://shop.example/abort": False,
        "http://shop.example/snow": False,
    }


# Pages of hits


@pytest.fixture(scope="module")
def deep(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searched]:
    """60 pages with the words, 60 of the meaning, and 40 that come after both in both lists."""
    with embeddings_server() as server, vector_place(kind, request) as place:
        server.answer = topics_of
        found = Searched(tmp_path_factory.mktemp("deep"), embedder_options(server), place)
        words = {f"words{n}": f"papyrus apple papyrus snow snow snow snow {n}" for n in range(60)}
        meaning = {f"meaning{n}": f"fruit fruit fruit {n}" for n in range(60)}
        both = {f"both{n}": f"papyrus apple snow {'among reeds ' * 99}{n}" for n in range(40)}
        found.put("docs", **words, **meaning, **both)
        found.pay()
        yield found
        found.desk.close()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
@pytest.mark.parametrize("size", [10, 64])
def test_pages_of_hits_repeat_and_skip_nothing_in_any_mode(
    deep: Searched, mode: SearchMode, size: int
):
    """A page that is 61st in both lists has a better score than the first of only one."""
    parts = [
        deep.answer("papyrus apple", mode, limit=size, offset=offset).hits
        for offset in range(0, 160 + size, size)
    ]

    found = [hit.url for part in parts for hit in part]
    assert len(found) == len(set(found)) == 160
    assert [len(part) for part in parts[: 160 // size]] == [size] * (160 // size)
    assert parts[-1] == []
    scores = [hit.score for part in parts for hit in part]
    assert scores == sorted(scores, reverse=True)
    assert [hit.url for hit in deep.answer("papyrus apple", mode, limit=160).hits] == found


def test_a_limit_is_kept(searched: Searched):
    for mode in (VECTOR, HYBRID):
        all_of_them = searched.find("fruit", mode)
        assert searched.find("fruit", mode, limit=2) == all_of_them[:2]
        assert searched.find("fruit", mode, limit=2, offset=1) == all_of_them[1:3]
        assert searched.find("fruit", mode, limit=5, offset=100) == []


# Modes that cannot be served


@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_mode_without_vectors_is_an_error_with_its_remedy(
    searched: Searched, server: EmbeddingsServer, mode: SearchMode
):
    chosen = searched.options
    searched.desk.connection.execute("UPDATE embedder SET whole_at = NULL").fetchall()
    searched.options = replace(chosen, embedder=None)
    with pytest.raises(NoVectorsError, match=f"mode {mode} needs vectors: set EMBEDDER to local"):
        searched.answer("fruit", mode)

    searched.options = chosen
    with pytest.raises(NoVectorsError, match=r"there are none yet: run .* embed$"):
        searched.answer("fruit", mode)
    assert searched.answer("banana", SearchMode.BEST) == searched.answer("banana", TEXT)
    assert server.asked == []


def test_an_index_that_was_made_without_an_embedder_is_searched_by_words(
    tmp_path: Path, server: EmbeddingsServer, elasticsearch: Elasticsearch, elasticsearch_prefix
):
    """It has no field for vectors until it is built anew; the registry keeps them."""
    place = Place(index=ElasticsearchTarget(elasticsearch.url, elasticsearch_prefix))
    searched = Searched(tmp_path, None, place)
    searched.put("docs", apple="an apple a day", snow="the snow")
    searched.options = replace(searched.options, embedder=embedder_options(server))
    searched.desk.reopen(searched.options)
    searched.put("docs", late="a banana")
    searched.pay()

    assert searched.find("banana", SearchMode.BEST) == ["docs/late"]
    for mode in (VECTOR, HYBRID):
        with pytest.raises(NoVectorsError, match=r"no field for them: run .* reindex --from-regis"):
            searched.answer("fruit", mode)
    asked = len(server.asked)

    assert write_index_anew(searched.options, searched.desk.connection, LATER, print).pages == 3

    assert set(searched.find("fruit", VECTOR, limit=2)) == {"docs/apple", "docs/late"}
    assert len(server.asked) == asked + 1  # the query
    searched.desk.close()


def test_the_default_falls_back_to_words_with_a_note_while_the_embedder_is_away(
    searched: Searched, server: EmbeddingsServer
):
    server.answer = lambda asked: error("busy", 503)

    for mode in (SearchMode.BEST, HYBRID):
        answer = searched.answer("banana", mode)
        assert answer.hits == searched.answer("banana", TEXT).hits != []
        assert answer.note.startswith(f"only words counted: {server.host} makes no vectors now")
        assert "run" not in answer.note
    with pytest.raises(EmbedderError, match="makes no vectors now"):
        searched.answer("banana", VECTOR)
    assert searched.answer("banana", TEXT).note == ""


@DATABASES
def test_a_former_embedder_that_cannot_be_opened_leaves_the_words(
    searched: Searched, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
):
    """After a change from a server with a key to the local model, whose vectors are not made."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    searched.options = replace(searched.options, embedder=embedder_options(server, name="local"))
    statement = "UPDATE embedder SET location = 'https://api.openai.com/v1'"
    searched.desk.connection.execute(statement).fetchall()

    for mode in (SearchMode.BEST, HYBRID):
        answer = searched.answer("banana", mode)
        assert answer.hits == searched.answer("banana", TEXT).hits != []
        assert answer.note.startswith("only words counted: ")
        assert "OPENAI_API_KEY" in answer.note
    with pytest.raises(SettingError, match="OPENAI_API_KEY"):
        searched.answer("banana", VECTOR)


# Two embedders


@DATABASES
def test_queries_go_to_the_model_that_made_the_vectors_until_the_other_is_whole(
    searched: Searched, server: EmbeddingsServer
):
    """The second model has other vectors: its query near one of the first would find others."""
    searched.options = replace(
        searched.options, embedder=embedder_options(server, model="other-model", dimension=3)
    )

    def answer(asked: Asked) -> Reply:
        if asked.body["model"] == "some-model":
            return topics_of(asked)
        flat = [[*reversed(topic_numbers(text)[:3])] for text in asked.texts]
        return Reply(embeddings(asked.texts, flat) | {"model": "other-model"})

    server.answer = answer
    models: list[str] = []
    first = searched.find("fruit", VECTOR, limit=3)
    models.append(server.asked[-1].body["model"])
    searched.pay()
    second = searched.find("fruit", VECTOR, limit=3)
    models.append(server.asked[-1].body["model"])
    searched.options = replace(searched.options, embedder=embedder_options(server))
    back = searched.find("fruit", VECTOR, limit=3)
    models.append(server.asked[-1].body["model"])

    assert models == ["some-model", "other-model", "some-model"]
    assert set(first) == set(second) == {"docs/banana", "docs/words", "shop/apple"}
    assert back == first


@DATABASES
def test_a_former_embedder_is_searched_again_once_it_has_the_new_pages_too(
    searched: Searched, server: EmbeddingsServer
):
    first = searched.options
    searched.options = replace(first, embedder=embedder_options(server, model="other-model"))
    searched.put("late", new="fruit fruit")
    searched.pay()
    searched.options = first

    found = searched.find("fruit in:late", VECTOR)
    model = server.asked[-1].body["model"]
    searched.pay()

    assert (found, model) == (["late/new"], "other-model")
    assert searched.find("fruit in:late", VECTOR) == ["late/new"]
    assert server.asked[-1].body["model"] == "some-model"


@DATABASES
def test_half_of_a_second_embedder_changes_no_answer(searched: Searched):
    connection = searched.desk.connection
    before = searched.answer("fruit", VECTOR)
    searched.put("late", new="a new page")

    class Other(Topics):
        def _answer(self, text: str) -> Any:
            return super()._answer("snow")

    pay(connection, Other("other"), "late")

    assert [one.model for one in whole_index_embedders(connection)] == ["some-model"]
    after = searched.answer("fruit", VECTOR)
    assert after.hits == before.hits
    assert after.note == "1 of 9 chunks has no vector yet"


@DATABASES
def test_vectors_of_another_version_of_the_local_model_are_not_compared(new: New):
    """As in a registry that was restored from another machine."""
    searched = new(EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"}))
    searched.put("docs", jobs="How to cancel a paused job")
    searched.pay()
    change = "UPDATE embedder SET model = 'l2_supercat_256-00000000'"
    searched.desk.connection.execute(change).fetchall()
    here = LocalEmbedder().model

    answer = searched.answer("cancel", SearchMode.BEST)

    assert [hit.url for hit in answer.hits] == ["http://docs.example/jobs"]
    assert answer.note.startswith(
        "only words counted: the vectors are of l2_supercat_256-00000000, and this installation"
        f" has {here}: run "
    )
    with pytest.raises(EmbedderError, match="the vectors are of"):
        searched.answer("cancel", VECTOR)
    searched.pay()
    assert searched.answer("cancel", VECTOR).note == ""


def test_a_server_with_another_model_is_asked_nothing_more_for_questions(
    searched: Searched, server: EmbeddingsServer
):
    server.answer = lambda asked: Reply(embeddings(asked.texts) | {"model": "other-model"})
    server.asked.clear()

    answers = [searched.answer("banana", HYBRID) for _ in range(3)]

    assert [answer.hits for answer in answers] == [searched.answer("banana", TEXT).hits] * 3
    assert all("now the model 'other-model' at" in answer.note for answer in answers)
    assert len(server.asked) == 1
    with pytest.raises(EmbedderError, match="embed --anew"):
        searched.answer("banana", VECTOR)


# Odd queries

ODD = {
    "nothing": "", "white space": " \t\n", "only filters": "in:docs site:docs.example -banana",
    "emoji": "😀 🎉", "signs": '?! "" - *', "NUL": "\0", "half a pair": "\ud800",
}  # fmt: skip


@pytest.mark.long(but=28)
@pytest.mark.parametrize("mode", list(SearchMode), ids=["best", "text", "vector", "hybrid"])
@pytest.mark.parametrize("query", ODD.values(), ids=ODD)
def test_a_query_without_a_word_finds_nothing_in_any_mode_and_asks_no_embedder(
    library: tuple[Searched, EmbeddingsServer], query: str, mode: SearchMode
):
    searched, server = library
    server.asked.clear()

    assert searched.answer(query, mode) == Answer([])
    assert server.asked == []


SYNTAX = [
    "title:banana", "banana*", "^banana", "NEAR(banana day)", "banana AND day", "banana NOT day",
    '"banana', "(banana", "banana ; DROP TABLE vector; --", "bana\0na banana", "banana \ud800",
    "😀 banana", "b" * 5_000, "banana p.content c.no :vector ?1", "site:% banana", "site:' banana",
]  # fmt: skip


@pytest.mark.long(but=24)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
@pytest.mark.parametrize("query", SYNTAX, ids=range(len(SYNTAX)))
def test_no_syntax_is_an_error_in_any_mode(
    library: tuple[Searched, EmbeddingsServer], query: str, mode: SearchMode
):
    found = library[0].find(query, mode)

    if "banana" in query and "site:" not in query:
        assert found[0] in ("docs/banana", "docs/words", "shop/apple")


@pytest.mark.long(but=3)
@pytest.mark.parametrize("mode", [VECTOR, HYBRID], ids=["vector", "hybrid"])
def test_a_query_of_10000_words_is_answered(
    library: tuple[Searched, EmbeddingsServer], mode: SearchMode
):
    query = "banana " + " ".join(f"absent{n}" for n in range(10_000))

    assert library[0].find(query, mode)[0] in ("docs/banana", "docs/words", "shop/apple")


@DATABASES
def test_a_query_that_the_model_does_not_know_leaves_the_words(new: New):
    searched = new(EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"}))
    searched.put("docs", odd="ᏣᎳᎩ here", other="a boat")
    searched.pay()

    for mode in (SearchMode.BEST, HYBRID):
        answer = searched.answer("ᏣᎳᎩ", mode)
        assert [hit.url for hit in answer.hits] == ["http://docs.example/odd"]
        assert answer.note == (
            "only words counted: the query has no vector, the text has no word that the model knows"
        )
    with pytest.raises(NoVectorsError, match="the query has no vector, the text has no word"):
        searched.answer("ᏣᎳᎩ", VECTOR)


# The API


@pytest.mark.covers("E-16")
def test_the_api_serves_each_mode_and_names_the_one_that_it_cannot(
    tmp_path: Path, server: EmbeddingsServer
):
    library = Library(tmp_path / "registry.db", tmp_path)
    desk = Desk(tmp_path / "registry.db")
    desk.open()
    desk.index(BASE + "apple", "an apple a day")
    chosen = embedder_options(server)

    def found(**query: str) -> list[str]:
        return [hit["url"] for hit in library.read("/api/Search", params=query)["hits"]]

    def refused(**query: str) -> tuple[int, Any]:
        answer = library.get("/api/Search", params=query)
        return answer.status_code, error_of(answer)["details"]

    library.app = library.server(embedder=chosen)
    for mode in ("vector", "hybrid"):
        status, details = refused(q="fruit", mode=mode)
        assert (status, details["field"]) == (400, "mode")
        assert "there are none yet: run" in details["reason"]
    assert found(q="apple") == [BASE + "apple"]
    assert found(q="fruit") == []
    pay(desk.connection, open_embedder_of(chosen))

    assert found(q="fruit", mode="text") == found(q="fruit", sort="date") == []
    assert found(q="fruit", mode="vector") == found(q="fruit", mode="hybrid") == [BASE + "apple"]
    assert found(q="fruit") == [BASE + "apple"], "hybrid, once every chunk has its vector"
    assert found(q="😀", mode="vector") == []

    server.answer = lambda asked: error("busy", 503)
    status, details = refused(q="fruit", mode="vector")
    assert (status, details["reason"]) == (503, "the embedder of the vectors is not available")
    assert found(q="apple") == [BASE + "apple"]
    hybrid = library.read("/api/Search", params={"q": "apple", "mode": "hybrid"})
    assert [hit["url"] for hit in hybrid["hits"]] == [BASE + "apple"]
    assert hybrid["note"].startswith(f"only words counted: {server.host} makes no vectors now")
    desk.close()
    library.close()


@pytest.mark.long
@pytest.mark.covers("E-16")
def test_questions_that_wait_for_an_embedder_hold_no_connection_to_the_registry(
    tmp_path: Path, server: EmbeddingsServer
):
    """More of them than the server has connections for reading."""
    library = Library(tmp_path / "registry.db", tmp_path)
    desk = Desk(tmp_path / "registry.db")
    desk.open()
    desk.index(BASE + "apple", "an apple a day")
    chosen = embedder_options(server)
    pay(desk.connection, open_embedder_of(chosen))
    library.app = library.server(embedder=chosen)
    server.asked.clear()
    server.hangs.set()

    def found(mode: str) -> tuple[int, list[str], str | None]:
        answer = library.get("/api/Search", params={"q": "apple", "mode": mode})
        return (
            answer.status_code,
            [hit["url"] for hit in answer.json()["hits"]],
            answer.json()["note"],
        )

    with ThreadPoolExecutor(READING + 2) as pool:
        began = time.monotonic()
        waiting = [pool.submit(found, "hybrid") for _ in range(READING + 2)]
        while len(server.asked) < READING + 2:
            time.sleep(0.01)
        text, at_once = found("text"), time.monotonic() - began
        hybrid = [one.result() for one in waiting]
    took = time.monotonic() - began
    server.asked.clear()
    later = found("hybrid")

    why = (
        f"only words counted: {server.host} makes no vectors now (no vector of the question within"
    )
    assert text == (200, [BASE + "apple"], None)
    assert at_once < SECONDS < took
    assert {(status, *urls) for status, urls, _ in (*hybrid, later)} == {(200, BASE + "apple")}
    assert all(note.startswith(why) for _, _, note in (*hybrid, later))
    assert server.asked == []  # the pause is that of all requests
    desk.close()
    library.close()


# Questions


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each search took its query for a question."""
    seen: list[bool] = []

    def spy(*args: Any, is_question: bool, **more: Any) -> list[Ranked]:
        seen.append(is_question)
        return joined_index_rankings(*args, is_question=is_question, **more)

    monkeypatch.setattr(searching, "joined_index_rankings", spy)
    return seen


@pytest.mark.parametrize(("query", "is_one"), [("how do I cancel it", True), ("cancel job", False)])
def test_a_model_that_reads_sentences_gets_whole_questions(
    library: tuple[Searched, EmbeddingsServer], joined: list[bool], query: str, is_one: bool
):
    searched, _ = library

    assert searched.find(query)[0] == "docs/cancel"
    assert set(joined) == {is_one}


def test_a_model_that_adds_up_words_gets_words(new: New, joined: list[bool]):
    searched = new(EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"}))
    searched.put("docs", jobs="How to cancel a paused job")
    searched.pay()

    assert searched.find("how do I cancel it") == ["docs/jobs"]
    assert set(joined) == {False}


_RARE = "quillwort"
_ASKED = ("banana", "bananna", "banana quillwort", "quillwort", "quillwart", '"quillwort"', "fruit",
          "banana -quillwort", "cancel job " * 40, "quillwort " * 40)  # fmt: skip


def _told(answer: Answer) -> tuple[object, ...]:
    """All that an answer tells but the order of chunks that are equally near."""
    hits = [
        (hit.url, hit.score, hit.sources, sorted(chunk.text for chunk in hit.chunks))
        for hit in answer.hits
    ]
    return hits, answer.meant, answer.note


def _closed(searched: Searched) -> None:
    """Add a private source, whose pages have the same words, and one that no other has."""
    searched.put(
        "wiki",
        secret=f"{_RARE} banana banana",
        fruit="the banana is an apple",
        more=f"the {_RARE} is cancelled, the job is paused",
    )
    searched.pay()
    connection = searched.desk.connection
    connection.execute("UPDATE source SET visibility = 'private' WHERE name = 'wiki'").fetchall()


@pytest.mark.parametrize("mode", [TEXT, VECTOR, HYBRID], ids=["text", "vector", "hybrid"])
def test_for_others_a_private_source_is_as_if_it_were_not_there(
    searched: Searched, mode: SearchMode
):
    before = {query: searched.answer(query, mode) for query in _ASKED}
    assert before["bananna"].meant == "banana"
    _closed(searched)

    after = {query: searched.answer(query, mode, reader=Reader()) for query in _ASKED}

    assert {query: _told(answer) for query, answer in after.items()} == {
        query: _told(answer) for query, answer in before.items()
    }
    mine = Reader(sources=frozenset({"wiki"}))
    for reader, found in ((EVERYTHING, True), (mine, True), (Reader(), False)):
        hits = searched.answer(_RARE, TEXT, reader=reader).hits
        assert [hit.source for hit in hits] == ["wiki", "wiki"] * found
    assert {hit.source for hit in searched.answer("banana", mode, reader=mine).hits} == {"wiki"}
    assert searched.answer("quillwart", TEXT, reader=mine).meant == _RARE


def test_the_name_of_a_private_source_is_not_known(searched: Searched):
    _closed(searched)

    for query in ("in:wiki banana", "-in:wiki banana", "in:other banana"):
        with pytest.raises(UnknownNameError) as caught:
            searched.answer(query, TEXT, reader=Reader())
        assert str(caught.value).endswith("known: docs, shop")
    assert searched.answer("banana", TEXT, sources=["wiki"], reader=Reader()).hits == []
    nobody = Reader(sources=frozenset({"no such source"}))
    assert searched.answer("banana", TEXT, reader=nobody).hits == []


def test_a_spelling_is_offered_only_where_it_has_hits(searched: Searched):
    answer = searched.answer("bananna", TEXT, sources=["shop"])

    assert (answer.hits, answer.meant) == ([], "")
    assert searched.answer("bananna", TEXT, sources=["docs"]).meant == "banana"


def test_chunks_without_a_vector_of_a_private_source_are_not_counted(searched: Searched):
    _closed(searched)
    searched.put("wiki", owed=[f"a chunk {number}" for number in range(3)])

    assert "no vector yet" in searched.answer("banana", HYBRID).note
    assert searched.answer("banana", HYBRID, reader=Reader()).note == ""


@DATABASES
def test_a_search_reads_nothing_more_where_no_source_is_private(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
):
    connection, asked = searched.desk.connection, []
    execute = type(connection).execute

    def noted(self: Any, statement: str, values: Any = ()) -> Any:
        asked.append(statement)
        return execute(self, statement, values)

    def statements(reader: Reader) -> int:
        asked.clear()
        searched.answer("banana", TEXT, reader=reader)
        return len(asked)

    searched.answer("banana", TEXT)  # what is kept between searches is read by the first one
    monkeypatch.setattr(type(connection), "execute", noted)
    assert 0 < statements(Reader()) == statements(EVERYTHING)
