"""Searching, scanning and purging an index in an Elasticsearch."""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from elasticsearch import Elasticsearch as Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from smartcrawl.index.elasticsearch import bulk
from smartcrawl.index.elasticsearch.bulk import Entry
from smartcrawl.index.elasticsearch.documents import (
    SUFFIXES,
    ElasticsearchImage,
    analyzer,
    index_version,
)
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.model.documents import Chunk
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.urls import url_item_id
from tests.index.faulty import Faulty, cut_off, faulty, status
from tests.index.shelf import BASE, NOW, entries, entry, opened, page
from tests.servers import Elasticsearch

SHELF = [
    page("marks", chunks=[Chunk(("Of running", "Shoes"), "Running shoes\nand who runs far")],
         title="Running", description="About shoes"),
    page("long", "before " * 60 + "needle " + "after " * 60),
    page("start", "needle " + "after " * 60),
    page("images", "a page with pictures", images=[
        ElasticsearchImage("image_1", BASE + "1.png", "alternative", "caption", 640, 480),
        ElasticsearchImage("image_2", BASE + "2.png"),
    ]),
    page("icon", "private \ue000 use \ufdd0 signs"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shelf(elasticsearch: Elasticsearch) -> Iterator[SimpleNamespace]:
    with elasticsearch.prefix() as prefix, opened(elasticsearch.url, prefix) as sink:
        sink.write(entries(SHELF))
        sink.refresh()
        yield SimpleNamespace(sink=sink, prefix=prefix, server=elasticsearch)


# Searching (what is found, and in which order, is in test_sinks_searches.py)


@pytest.mark.covers("R0-62", "M-47")
def test_elasticsearch_hit_tells_what_is_known_of_the_page(shelf: SimpleNamespace):
    (hit,) = shelf.sink.search("running far", marks=("<em>", "</em>"))

    assert hit.score > 0
    assert (hit.key, hit.url, hit.source) == (SHELF[0].key, BASE + "marks", "docs")
    assert (hit.title, hit.description, hit.language) == ("Running", "About shoes", "en")
    assert hit.headings == "Of <em>running</em> > Shoes"
    assert hit.snippet == "<em>Running</em> shoes and who <em>runs</em> <em>far</em>"


def test_elasticsearch_cuts_a_long_text_around_the_words(shelf: SimpleNamespace):
    snippets = {hit.url.removeprefix(BASE): hit.snippet for hit in shelf.sink.search("needle")}

    assert set(snippets) == {"long", "start"}
    assert snippets["start"].startswith("[needle] after")
    assert snippets["long"].startswith("… ")
    assert "[needle]" in snippets["long"]
    assert all(snippet.endswith(" …") for snippet in snippets.values())
    assert all(len(snippet) < 220 for snippet in snippets.values())


def test_elasticsearch_shows_signs_of_a_text_that_are_no_marks(shelf: SimpleNamespace):
    (hit,) = shelf.sink.search("private signs")

    assert hit.snippet == "[private] \ue000 use \ufdd0 [signs]"


@pytest.mark.covers("R0-02", "R0-26", "R0-64", "R0-65")
def test_elasticsearch_finds_images_inside_their_page(shelf: SimpleNamespace):
    with Client(shelf.server.url) as client:
        match = {"match": {"images.alt": "alternative"}}
        nested = {"path": "images", "query": match, "inner_hits": {}}
        (hit,) = client.search(index=shelf.prefix, query={"nested": nested})["hits"]["hits"]

    assert hit["_id"] == SHELF[3].key
    (image,) = hit["inner_hits"]["images"]["hits"]["hits"]
    assert image["_source"] == {
        "id": "image_1", "src": BASE + "1.png", "alt": "alternative", "context": "caption",
        "width": 640, "height": 480, "parentPageId": SHELF[3].id, "parentPageUrl": SHELF[3].url,
        "source": SHELF[3].url,
    }  # fmt: skip
    assert hit["_source"]["id"] == SHELF[3].id == url_item_id("url", SHELF[3].url_hash)


@settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(st.characters(codec="utf-8"), max_size=40))
@example("a" * 10_000)
@example(" ".join(f"w{n}" for n in range(2_000)))
@example('"' + "a " * 2_000 + '"')
@example("some\0words")
@example("words\udcff")
@example("title:words* AND (some~2 OR ^x) -y /z/")
def test_elasticsearch_takes_every_query(shelf: SimpleNamespace, query: str):
    """ATT-23."""
    assert len(shelf.sink.search(query)) <= len(SHELF)


LONG = [
    pytest.param(" ".join(f"w{n}" for n in range(2_000)), id="words"),
    pytest.param('"' + "a " * 2_000 + '"', id="phrase"),
    pytest.param("-".join(f"w{n}" for n in range(2_000)), id="word-with-signs"),
    pytest.param("東京" * 1_000, id="chinese"),
]


@pytest.fixture(scope="module")
def babel(elasticsearch: Elasticsearch) -> Iterator[ElasticsearchSink]:
    """An index with a page in every language."""
    with elasticsearch.prefix() as prefix, opened(elasticsearch.url, prefix) as sink:
        languages = [ending.removeprefix("_") for ending in SUFFIXES]
        sink.write(entries([page(f"in/{one}", "words", language=one) for one in languages]))
        sink.refresh()
        yield sink


@pytest.mark.long(but=2)
@pytest.mark.parametrize("query", LONG)
def test_elasticsearch_of_all_languages_takes_long_queries(babel: ElasticsearchSink, query: str):
    assert babel.search(query) == []
    assert len(babel.search("words " + query, limit=3)) == 3


def test_elasticsearch_finds_pages_of_all_languages(babel: ElasticsearchSink):
    assert len(babel.search("words", limit=100)) == len(SUFFIXES)


def test_elasticsearch_limit_may_be_anything(shelf: SimpleNamespace):
    assert len(shelf.sink.search("needle", limit=1)) == 1
    assert shelf.sink.search("needle", limit=0) == []
    assert len(shelf.sink.search("needle", limit=1_000_000)) == 2


def test_elasticsearch_that_does_not_answer_a_search_is_not_waited_for(
    elasticsearch: Elasticsearch, elasticsearch_prefix: str
):
    lines: list[str] = []
    with (
        faulty(elasticsearch.port) as proxy,
        opened(proxy.url, elasticsearch_prefix, on_wait=lines.append) as sink,
    ):
        proxy.will("/_search", cut_off)
        with pytest.raises(SinkError, match="cannot be reached"):
            sink.search("words")
    assert lines == []


#: Two words that are one in their language, and two elsewhere.
FORMS = {
    "_ar": "كتاب الكتاب", "_bg": "книга книгата", "_bn": "কাজ কাজের", "_ca": "home l'home",
    "_cs": "kniha knihy", "_da": "hund hunden", "_de": "Haus Häuser", "_el": "δρόμος δρόμοι",
    "_en": "runs running", "_es": "canción canciones", "_et": "raamat raamatud",
    "_eu": "etxe etxeak", "_fa": "کتاب كتاب", "_fi": "kirja kirjat", "_fr": "cheval chevaux",
    "_ga": "bean bhean", "_gl": "canción cancións", "_hi": "किताब किताबें", "_hu": "könyv könyvek",
    "_hy": "քաղաք քաղաքներ", "_id": "membaca dibaca", "_it": "amico dell'amico",
    "_lt": "knyga knygos", "_lv": "grāmata grāmatas", "_nl": "boek boeken", "_nn": "bok bøker",
    "_no": "hund hunden", "_pt": "canção canções", "_ro": "carte cartea", "_ru": "книга книги",
    "_sv": "hund hundar", "_tr": "kitap kitaplar", "_zh": "東京",
}  # fmt: skip


@pytest.mark.parametrize("ending", SUFFIXES[1:])
def test_elasticsearch_knows_the_words_of_each_language(shelf: SimpleNamespace, ending: str):
    def words(of: str) -> set[str]:
        told = client.indices.analyze(
            index=f"{shelf.prefix}-write", analyzer=analyzer(of), text=FORMS[ending]
        )
        return {token["token"] for token in told["tokens"]}

    with Client(shelf.server.url) as client:
        assert len(words(ending)) == 1
        assert len(words("")) == 2


# Scanning


@pytest.fixture
def desk(elasticsearch: Elasticsearch, elasticsearch_prefix: str) -> Iterator[SimpleNamespace]:
    with (
        faulty(elasticsearch.port) as proxy,
        opened(proxy.url, elasticsearch_prefix) as sink,
        Client(elasticsearch.url) as client,
    ):
        yield SimpleNamespace(sink=sink, proxy=proxy, client=client, prefix=elasticsearch_prefix)


def test_elasticsearch_scan_yields_everything_in_the_order_of_keys(
    desk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "_PAGE", 4)
    sink: ElasticsearchSink = desk.sink
    docs = [page(f"d/{n}", f"words {n}") for n in range(9)]
    shop = [page(f"s/{n}", f"words {n}", source="shop") for n in range(3)]
    sink.write(entries([*docs, *shop], 5))
    sink.write([Entry(docs[4].key, 6, None)])
    sink.refresh()

    held = list(sink.scan())

    assert [one.key for one in held] == sorted(one.key for one in [*docs, *shop])
    told = {one.key: one for one in held}
    assert (told[docs[0].key].number, told[docs[0].key].epoch) == (5, 1)
    assert told[docs[0].key].content_hash == f"sha256:{docs[0].content_hash.hex()}"
    assert not told[docs[0].key].deleted
    removed = told[docs[4].key]
    assert (removed.number, removed.deleted, removed.content_hash) == (6, True, "")
    assert [one.key for one in sink.scan("shop")] == sorted(one.key for one in shop)
    assert list(sink.scan("none")) == []
    assert [one.key for one in sink.scan(beside=["shop"])] == [
        one.key for one in held if not one.key.startswith("shop:")
    ]
    assert list(sink.scan(beside=[])) == held


def test_elasticsearch_scan_goes_on_after_a_failure_and_where_its_view_was_given_up(
    desk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "_PAGE", 2)
    pages = [page(f"{n}", "words") for n in range(7)]
    desk.sink.write(entries(pages))
    desk.sink.refresh()
    proxy: Faulty = desk.proxy

    reading = desk.sink.scan()
    held = [next(reading) for _ in range(2)]
    proxy.will("/_search", status(503), cut_off)
    held += [next(reading) for _ in range(2)]
    desk.client.close_point_in_time(id=json.loads(proxy.asked[-1].body)["pit"]["id"])
    held += list(reading)

    assert [one.key for one in held] == sorted(one.key for one in pages)


@pytest.mark.long
def test_elasticsearch_is_written_and_scanned_in_constant_memory(
    elasticsearch: Elasticsearch, elasticsearch_prefix: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "_PAGE", 100)
    monkeypatch.setattr(bulk, "MOST_DOCUMENTS", 100)

    def peak(sink: ElasticsearchSink, count: int) -> int:
        tracemalloc.start()
        offered = (entry(page(f"{n}", "words")) for n in range(count))
        assert sum(1 for _ in sink.written(offered)) == count
        sink.refresh()
        assert sum(1 for _ in sink.scan()) == count
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    before = gc.get_threshold()  # of the tests: the client's circles would count
    gc.set_threshold(700, 10, 10)
    try:
        with opened(elasticsearch.url, elasticsearch_prefix) as sink:
            few = peak(sink, 1_000)
            assert peak(sink, 3_000) < 1.5 * few
    finally:
        gc.set_threshold(*before)


def test_elasticsearch_closes_the_view_of_a_scan_that_is_left(desk: SimpleNamespace):
    desk.sink.write(entries([page(f"{n}", "words") for n in range(3)]))
    desk.sink.refresh()
    reading = desk.sink.scan()
    next(reading)
    reading.close()

    assert [one.method for one in desk.proxy.asked if one.path.startswith("/_pit")] == ["DELETE"]


# Purging


def test_elasticsearch_purges_old_tombstones_only(desk: SimpleNamespace):
    living, gone, back = page("living", "words"), page("gone", "words"), page("back", "words")
    desk.sink.write(entries([living, gone, back], 3))
    desk.sink.write([Entry(gone.key, 4, None), Entry(back.key, 4, None)])
    desk.sink.write([entry(back, 5)])
    desk.sink.refresh()

    assert desk.sink.purge_tombstones(NOW) == 0
    assert desk.sink.purge_tombstones(NOW + 1) == 1
    desk.sink.refresh()

    assert [one.key for one in desk.sink.scan()] == sorted([living.key, back.key])
    assert desk.sink.purge_tombstones(NOW + 1) == 0


def test_elasticsearch_keeps_a_page_that_came_back_while_tombstones_are_purged(
    desk: SimpleNamespace,
):
    gone = page("gone", "words")
    desk.sink.write([Entry(gone.key, 4, None)])
    desk.sink.refresh()

    index = f"{desk.prefix}-write"

    def meanwhile(asked, forward):
        desk.client.index(
            index=index, id=gone.key, document=gone.as_json(), version=index_version(1, 5),
            version_type="external_gte",
        )  # fmt: skip
        return forward(asked)

    desk.proxy.will("/_bulk", meanwhile)
    assert desk.sink.purge_tombstones(NOW + 1) == 0
    desk.sink.refresh()

    assert [one.number for one in desk.sink.scan()] == [5]
