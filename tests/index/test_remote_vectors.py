"""Vectors in an Elasticsearch: a document has its chunks and their vectors, or is written again."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch as Client

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.index.audit import AuditFindings, IndexComparison, IndexMender, Kind
from smartcrawl.index.debts import PaidDebts, remote_index_debts
from smartcrawl.index.elasticsearch.documents import claim_of_index_version
from smartcrawl.index.embedded.vectors import (
    count_index_texts_to_embed,
    drop_index_leftovers,
    whole_index_embedders,
)
from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.query_vectors import SearchMode
from smartcrawl.index.remote import (
    index_facts_of_registry,
    open_remote_index,
    write_index_anew,
)
from smartcrawl.index.search import search_index
from smartcrawl.model.documents import ChunkSize, Section
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.options import Options
from smartcrawl.registry.chunks import vector_table
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.registry.removal.purge import (
    orphaned_page_rows,
    remove_stored_pages,
    undo_stored_removals,
)
from smartcrawl.reports.vectors import reported_vectors_by_source, vector_counts_text
from smartcrawl.rules.model import Outcome
from tests import servers
from tests.choices import options
from tests.index.embedding.embeddings_server import EmbeddingsServer, embeddings, embeddings_server
from tests.index.meanings import (
    LONG,
    TTL,
    Room,
    embedder_options,
    pay,
    stored,
    topics_of,
    vector_registry,
    visit_of_sections,
)
from tests.index.remote_desk import RemoteDesk
from tests.openai_server import Reply, error
from tests.registry.build import LATER, NOW, Desk
from tests.registry.build import closing as closing_rules

BASE = "http://a.example/"


class Shop:
    """A registry with its index in an Elasticsearch, whose batches are embedded."""

    def __init__(self, folder: Path, server: EmbeddingsServer, place: ElasticsearchTarget) -> None:
        self.server = server
        self.file = folder / "registry.db"
        self.options: Options = options(
            folder, embedder=embedder_options(server), elasticsearch=place
        )
        assert self.options.embedder is not None
        self.room = Room(self.file, open_embedder_of(self.options.embedder), self.options)
        self.client = Client(place.url)
        self.prefix = place.prefix

    @property
    def desk(self) -> RemoteDesk:
        assert isinstance(self.room.desk, RemoteDesk)
        return self.room.desk

    def write(self, **pages: str | list[str]) -> None:
        """Write a batch of pages: the last part of the address, and the texts of its chunks."""
        self.room.write(*(self.visit(place, texts) for place, texts in pages.items()))

    def visit(self, place: str, texts: str | list[str]) -> Any:
        some = [texts] if isinstance(texts, str) else texts
        return visit_of_sections(self.desk, BASE + place, [Section(0, "", t) for t in some])

    def pay(self, *sources: str, **changed: Any) -> PaidDebts:
        assert self.options.embedder is not None
        embedder = open_embedder_of(self.options.embedder)
        elsewhere = remote_index_debts(self.desk.indexing)
        return pay(self.desk.connection, embedder, *sources, elsewhere=elsewhere, **changed)

    def documents(self) -> dict[str, dict[str, Any]]:
        """Return the living documents by the last parts of their addresses."""
        self.client.indices.refresh(index=f"{self.prefix}-write")
        # by Elasticsearch 9.2 vectors are left out unless asked for
        found = self.client.search(index=self.prefix, size=100, version=True)
        return {
            hit["_source"]["url"].removeprefix(BASE): hit["_source"] | {"at": hit["_version"]}
            for hit in found["hits"]["hits"]
        }

    def vectors(self) -> dict[str, list[bool]]:
        """Return which chunks of each document have a vector."""
        return {
            place: ["vector" in chunk for chunk in page["chunks"]]
            for place, page in self.documents().items()
        }

    def asked(self) -> list[str]:
        """Return the texts that the embedder was asked for since the last call."""
        texts = [text for asked in self.server.asked for text in asked.texts]
        self.server.asked.clear()
        return sorted(texts)

    def find(self, query: str, mode: SearchMode = SearchMode.VECTOR, **more: Any) -> list[str]:
        connection = self.desk.connection
        hits = search_index(connection, query, self.options, mode=mode, **more).hits
        return [hit.url.removeprefix(BASE) for hit in hits]

    def compare(self) -> dict[Kind, int]:
        """Return the numbers of differences that are not 0."""
        with self._findings() as findings:
            return {kind: count for kind, count in findings.counts.items() if count}

    def mend(self) -> None:
        with self._findings() as found, open_remote_index(self.options, self.desk.connection) as to:
            IndexMender(self.desk.connection, self.desk.indexing, to, NOW).mend(found)

    def _findings(self) -> AuditFindings:
        with open_remote_index(self.options, self.desk.connection) as sink:
            return IndexComparison(self.desk.connection, sink).compare(())

    def close(self) -> None:
        self.client.close()
        self.room.close()


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        server.answer = topics_of
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def shop(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    server: EmbeddingsServer,
    elasticsearch: servers.Elasticsearch,
    elasticsearch_prefix: str,
) -> Iterator[Shop]:
    place = ElasticsearchTarget(elasticsearch.url, elasticsearch_prefix)
    with vector_registry(request.param, request) as url, pytest.MonkeyPatch.context() as patch:
        if url:
            patch.setattr(Desk, "database", staticmethod(lambda _: PostgresDatabase(url)))
            patch.setattr(Desk, "connected", staticmethod(lambda _: PostgresDatabase(url).open()))
        with closing(Shop(tmp_path, server, place)) as shop:
            yield shop


@pytest.mark.covers("R1-33", "R1-36", "M-43")
def test_a_document_has_the_vectors_of_its_chunks_from_its_first_write(shop: Shop):
    shop.write(jobs=["stop it", "a banana"])

    page = shop.documents()["jobs"]
    assert claim_of_index_version(page["at"]) == shop.room.run.number
    known = {bytes(row[1]).hex(): row[2] for row in stored(shop.desk.connection)}
    for chunk in page["chunks"]:
        expected = memoryview(known[chunk["hash"]]).cast("f").tolist()
        assert chunk["vector"] == pytest.approx(expected, abs=1e-6)
    assert shop.asked() == ["a banana", "stop it"]
    assert shop.pay().embedded == 0
    assert shop.documents()["jobs"]["at"] == page["at"]
    assert shop.find("cancel", limit=1) == ["jobs"]


@pytest.mark.covers("R1-07", "R1-10")
def test_a_page_is_published_while_the_embedder_is_away_and_gets_its_vectors_later(
    shop: Shop, server: EmbeddingsServer
):
    server.answer = lambda asked: error("busy", 503)
    shop.write(jobs=["stop it", "a banana"])
    away = shop.pay()
    before = (shop.vectors(), shop.find("banana", SearchMode.BEST))
    server.answer = topics_of

    paid = shop.pay()

    assert (away.owed, away.error is None) == (2, False)
    assert before == ({"jobs": [False, False]}, ["jobs"])
    assert (paid.embedded, paid.owed) == (2, 0)
    assert shop.vectors() == {"jobs": [True, True]}
    assert shop.find("cancel") == ["jobs"]
    assert shop.compare() == {}


@pytest.mark.parametrize("wrong", [[0.0] * 4, [1.0] * 3], ids=["zeros", "length"])
def test_a_vector_that_the_index_would_refuse_holds_no_page_back(
    shop: Shop, server: EmbeddingsServer, wrong: list[float]
):
    def answer(asked: Any) -> Reply:
        found = [wrong if "boat" in text else [1.0, 0, 0, 0] for text in asked.texts]
        return Reply(embeddings(asked.texts, found))

    server.answer = answer
    shop.write(jobs=["a boat", "stop it"])

    assert shop.vectors() == {"jobs": [False, True]}
    assert shop.pay().owed == 1
    assert shop.compare() == {}


@pytest.mark.covers("M-16")
def test_an_equal_chunk_is_embedded_once_and_each_of_its_pages_gets_the_vector(shop: Shop):
    shop.desk.write(shop.visit("first", ["a boat", "one"]))
    shop.write(second=["a boat", "two"])
    assert shop.vectors() == {"first": [False, False], "second": [True, True]}

    shop.pay()

    assert shop.asked() == ["a boat", "one", "two"]
    assert shop.vectors() == {"first": [True, True], "second": [True, True]}
    assert shop.pay().embedded == 0


def test_a_payment_of_one_source_makes_the_index_whole_only_with_the_others(
    shop: Shop, server: EmbeddingsServer
):
    server.answer = lambda asked: error("busy", 503)
    shop.write(first="a boat")
    shop.desk.source = "other"
    shop.desk.open()
    shop.desk.index(BASE + "second", "a boat")
    server.answer = topics_of

    shop.pay("other")
    of_one = (shop.vectors(), whole_index_embedders(shop.desk.connection))
    shop.pay("docs")

    assert of_one == ({"first": [False], "second": [True]}, [])
    assert shop.vectors() == {"first": [True], "second": [True]}
    assert len(whole_index_embedders(shop.desk.connection)) == 1


def test_a_changed_chunk_of_a_page_costs_one_embedding(shop: Shop):
    shop.write(jobs=["stop it", "a banana"])
    shop.asked()

    shop.write(jobs=["stop it", "an apple"])

    assert shop.asked() == ["an apple"]
    assert shop.vectors() == {"jobs": [True, True]}
    assert shop.desk.value("SELECT count(*) FROM remote_chunk") == 2
    assert shop.compare() == {}


@pytest.mark.covers("R1-33")
def test_an_undo_of_a_removal_embeds_nothing(shop: Shop):
    desk = shop.desk
    shop.write(stays="the harbour", goes="a boat")
    desk.seal()
    shop.pay()
    run = desk.open()
    desk.write(desk.visit(BASE + "stays", outcome=Outcome.NOT_MODIFIED, status=304))
    desk.seal()
    remove_stored_pages(desk.connection, desk.indexing, orphaned_page_rows(desk.connection), NOW)
    assert shop.vectors() == {"stays": [True]}
    assert desk.value("SELECT count(*) FROM remote_chunk") == 1
    shop.pay(now=NOW)
    shop.asked()

    undo_stored_removals(
        desk.connection, desk.indexing, run.no, NOW, pin=False,
        chunked=lambda packed, _: document_chunks(unpack_stored_document(packed)),
    )  # fmt: skip
    shop.pay(now=NOW + 3 * TTL)

    assert shop.asked() == []
    assert shop.vectors() == {"stays": [True], "goes": [True]}
    assert shop.compare() == {}


@pytest.mark.covers("R1-33")
def test_a_clone_that_takes_over_from_a_page_that_goes_embeds_nothing(shop: Shop):
    desk = shop.desk
    desk.closing = closing_rules(lost_threshold=1)
    shop.write(a=LONG, bb=LONG)
    shop.pay()
    assert shop.vectors() == {"a": [True]}
    shop.room.begin_next_run()
    desk.reach(BASE + "a", BASE + "bb")
    shop.asked()

    gone = desk.visit(BASE + "a", outcome=Outcome.NOT_FOUND, status=404)
    desk.write(gone, touched=[desk.number(BASE + "bb")])
    desk.seal()
    paid = shop.pay(ttl=0)

    assert (shop.asked(), paid.owed, paid.dropped) == ([], 0, 0)
    assert shop.vectors() == {"bb": [True]}
    assert shop.compare() == {}


@pytest.mark.covers("R1-33")
def test_a_forced_run_and_an_index_that_is_built_anew_embed_nothing(shop: Shop):
    shop.write(jobs=["a boat", "an apple"])
    shop.pay()
    shop.room.begin_next_run(forced=True)
    version = shop.documents()["jobs"]["at"]
    shop.asked()

    shop.write(jobs=["a boat", "an apple"])
    shop.desk.seal()
    shop.pay()
    is_written = shop.documents()["jobs"]["at"] > version
    write_index_anew(shop.options, shop.desk.connection, LATER, lambda number: None)
    shop.desk.reopen(shop.options)
    shop.pay()

    assert is_written
    assert shop.asked() == []
    assert shop.vectors() == {"jobs": [True, True]}
    assert shop.compare() == {}


def test_unused_vectors_go_where_no_embedder_is_set_and_those_of_documents_stay(shop: Shop):
    """A page that was written without them has chunks that the registry does not know yet."""
    shop.write(stays="a boat", changes="an apple")
    shop.desk.seal()
    shop.pay()
    shop.desk.indexing.vectors = None
    shop.desk.open()
    assert shop.desk.write(shop.visit("changes", "the cold snow")) == 0
    shop.desk.seal()
    shop.desk.reopen(shop.options)
    elsewhere = remote_index_debts(shop.desk.indexing)
    drop = partial(drop_index_leftovers, shop.desk.connection, ttl=TTL, elsewhere=elsewhere)

    gone = [
        drop(now=NOW - TTL, is_ending=lambda: True), drop(now=NOW), drop(now=NOW + TTL - 1),
        drop(now=NOW + TTL),
    ]  # fmt: skip

    assert gone == [0, 0, 0, 1]
    shop.asked()
    shop.pay(now=NOW + TTL)
    assert shop.asked() == ["the cold snow"]
    assert shop.vectors() == {"stays": [True], "changes": [True]}
    assert shop.compare() == {}


def test_another_model_is_built_beside_and_used_by_a_new_index(shop: Shop):
    """Queries go to the model whose vectors the index has."""
    shop.write(apple="an apple", boat="a boat")
    shop.desk.seal()
    shop.pay()
    shop.options = replace(
        shop.options, embedder=embedder_options(shop.server, model="other-model")
    )
    shop.desk.reopen(shop.options)
    before = shop.documents()

    made = shop.pay(now=NOW + 1)
    late = shop.pay(now=NOW + 3 * TTL)
    shop.server.asked.clear()
    former = shop.find("fruit", limit=1)
    models = [shop.server.asked[-1].body["model"]]
    (counts,) = reported_vectors_by_source(shop.desk.connection).values()
    after = shop.documents()
    write_index_anew(shop.options, shop.desk.connection, LATER, lambda number: None)
    now_ = shop.find("fruit", limit=1)
    models.append(shop.server.asked[-1].body["model"])
    shop.desk.reopen(shop.options)
    gone = [shop.pay(now=NOW + some * TTL).dropped for some in (4, 8)]

    assert (made.embedded, made.owed, made.dropped, late.dropped) == (2, 0, 0, 0)
    assert after == before
    assert "not in the index" in vector_counts_text(counts)
    assert (former, now_, models) == (["apple"], ["apple"], ["some-model", "other-model"])
    assert gone == [0, 2]
    assert {row[0] for row in stored(shop.desk.connection)} == {"other-model"}
    (counts,) = reported_vectors_by_source(shop.desk.connection).values()
    assert counts.indexed
    assert shop.compare() == {}


def test_a_document_gets_the_vector_that_a_wrong_answer_left_owed(shop: Shop):
    """The server has zeros for one text, once."""
    vectors = [[1.0, 0, 0, 0], [0.0] * 4]
    shop.server.replies = [Reply(embeddings(["stop it", "a boat"], vectors))]
    shop.write(both=["stop it", "a boat"])
    shop.desk.seal()
    before = shop.vectors()

    paid = shop.pay()

    assert before == {"both": [True, False]}
    assert (paid.embedded, paid.refused, paid.owed) == (1, 0, 0)
    assert shop.vectors() == {"both": [True, True]}
    assert shop.compare() == {}


def test_pages_that_were_stored_without_an_embedder_are_owed(
    shop: Shop, tmp_path: Path, server: EmbeddingsServer
):
    embedder = shop.options.embedder
    desk = RemoteDesk(replace(shop.options, embedder=None), shop.file)
    desk.indexing.vectors = None  # as in an index without a field for vectors
    desk.open()
    desk.write(visit_of_sections(desk, BASE + "old", [Section(0, "", "a boat")]))
    assert desk.value("SELECT count(*) FROM remote_chunk") == 0
    number = shop.desk.debts.count_unknown(shop.desk.connection, 0)

    paid = shop.pay()

    assert embedder is not None
    assert (number, paid.embedded, shop.asked()) == (1, 1, ["a boat"])
    assert shop.vectors() == {"old": [True]}
    desk.close()


def test_chunks_of_a_page_that_changed_without_an_embedder_are_found_anew(shop: Shop):
    shop.write(jobs="a boat")
    shop.desk.indexing.vectors = None
    shop.desk.seal()
    shop.desk.open()
    assert shop.desk.write(shop.visit("jobs", "an apple")) == 0
    assert shop.desk.value("SELECT count(*) FROM remote_chunk") == 0
    shop.desk.reopen(shop.options)
    shop.asked()

    shop.pay()

    assert shop.asked() == ["an apple"]
    assert shop.vectors() == {"jobs": [True]}
    assert shop.compare() == {}


def test_another_chunk_size_embeds_the_chunks_of_today(shop: Shop):
    texts = "every word of this is a boat. " * 30
    shop.write(long=texts)
    shop.options = replace(shop.options, chunks=ChunkSize(200, 0))
    shop.desk.reopen(shop.options)

    shop.desk.indexing.rewrite(shop.desk.connection, [shop.desk.number(BASE + "long")], now=NOW)
    between = shop.vectors()["long"]
    shop.pay()

    assert len(between) > 3
    assert not all(between)
    assert all(shop.vectors()["long"])
    [embedder] = whole_index_embedders(shop.desk.connection)
    assert count_index_texts_to_embed(shop.desk.connection, embedder.no) == 0
    assert shop.compare() == {}


@pytest.mark.covers("R1-14")
def test_an_audit_finds_documents_with_other_vectors_and_mends_them(shop: Shop):
    shop.write(jobs=["stop it", "a banana"], boat="a boat")
    shop.desk.seal()
    shop.pay()
    assert shop.compare() == {}
    page = shop.documents()["jobs"]
    at = page.pop("at")
    for chunk in page["chunks"]:
        chunk.pop("vector")
    page.pop("vectorsHash")
    shop.client.index(
        index=f"{shop.prefix}-write", id=page["key"], document=page, version=at,
        version_type="external_gte",
    )  # fmt: skip
    boat = shop.desk.number(BASE + "boat")
    connection = shop.desk.connection
    connection.execute(
        f"DELETE FROM {vector_table(connection)} WHERE hash IN"
        " (SELECT hash FROM remote_chunk k JOIN record r ON r.content = k.content WHERE r.no = ?)",
        (boat,),
    ).fetchall()
    assert shop.compare() == {Kind.VECTORS: 2}

    shop.mend()

    assert shop.compare() == {}
    assert shop.vectors() == {"jobs": [True, True], "boat": [False]}


def test_a_document_under_a_number_that_the_registry_never_gave_out_ends_the_writes(
    tmp_path: Path, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str
):
    """A registry that was restored in the middle of a run: its writes would be dropped."""
    place = ElasticsearchTarget(elasticsearch.url, elasticsearch_prefix)
    desk = RemoteDesk(options(tmp_path, elasticsearch=place))
    desk.open()
    desk.index(BASE, "a boat")
    desk.seal()
    desk.open()
    with Client(elasticsearch.url) as client:
        client.indices.refresh(index=f"{elasticsearch_prefix}-write")
        hits = client.search(index=f"{elasticsearch_prefix}-write", version=True)["hits"]["hits"]
        newer = {"version": hits[0]["_version"] + 50, "version_type": "external"}
        client.index(index=f"{elasticsearch_prefix}-write", id=hits[0]["_id"],
                     document=hits[0]["_source"], **newer)  # fmt: skip
    with pytest.raises(SinkError, match=r"restored from a backup .* audit --repair .* --new-epoch"):
        desk.index(BASE, "a train")

    assert index_facts_of_registry(desk.connection).openings == 1
    desk.close()


def test_an_index_without_an_embedder_has_no_field_for_vectors(
    tmp_path: Path, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str
):
    place = ElasticsearchTarget(elasticsearch.url, elasticsearch_prefix)
    desk = RemoteDesk(options(tmp_path, elasticsearch=place))
    desk.open()
    desk.index(BASE, "a boat")
    with Client(elasticsearch.url) as client:
        (index,) = client.indices.get_mapping(index=f"{elasticsearch_prefix}-write").values()

    assert "vector" not in index["mappings"]["properties"]["chunks"]["properties"]
    assert "vectorsHash" not in index["mappings"]["properties"]
    assert "embedder" not in index["mappings"]["_meta"]
    assert desk.value("SELECT count(*) FROM remote_chunk") == 0
    assert index_facts_of_registry(desk.connection).identity is not None
    desk.close()
