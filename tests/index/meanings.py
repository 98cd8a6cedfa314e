"""Vectors that a test can foresee: an embedder of topics, and registries whose chunks have some."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smartcrawl import settings
from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.hashes import document_content_hash, text_hash
from smartcrawl.index.debts import PaidDebts, pay_embedded_index_debts
from smartcrawl.index.embedded.batch_vectors import BatchVectors
from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector, normed_vector
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import Section
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.model.option_groups import EmbedderOptions
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.chunks import vector_table
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.writer import RegistryWriter, Written
from tests.index.embedding.embeddings_server import Asked, EmbeddingsServer, embeddings
from tests.index.remote_desk import RemoteDesk
from tests.openai_server import Reply
from tests.registry.build import NOW, Desk, begin_registry

TTL = 1_000  #: seconds; UNDO_TTL_SECONDS of these tests
DIMENSION = 4
#: Words of one meaning; a text's vector has the number of its words of each topic.
TOPICS = ("stop cancel abort end", "fruit banana apple", "ship boat harbour", "cold winter snow")
AWAY = EmbedderError("model.example makes no vectors now", lasting=False)
#: Long enough that pages with it are clones.
LONG = "Every word is here to make the text long enough to be believed as equal. " * 4
OVER = EmbedderError("model.example refuses the key", lasting=True)


def topic_numbers(text: str) -> list[float]:
    """Return the numbers of a text, not of length 1; texts of no topic are alike."""
    words = text.casefold().split()
    return [0.01 + sum(word in topic.split() for word in words) for topic in TOPICS]


def topics_of(asked: Asked) -> Reply:
    """Answer with the vectors of topics, whichever model is asked."""
    found = embeddings(asked.texts, [topic_numbers(text) for text in asked.texts])
    return Reply(found | {"model": asked.body["model"]})


def embedder_options(server: EmbeddingsServer, **changed: object) -> EmbedderOptions:
    found = EmbedderOptions.of(settings.defaults | server.settings)
    assert found is not None
    return replace(found, **changed)


class Topics:
    """An embedder that keeps what it was asked; `errors` are raised by the next calls, in order."""

    destination = None
    location = None
    answered_by = ""
    texts_at_once = 256

    def __init__(self, model: str = "topics", *errors: EmbedderError | None) -> None:
        self.name, self.model, self.dimension = "local", model, DIMENSION
        self.calls: list[list[str]] = []
        self.errors = list(errors)  #: None: this call is answered
        self.closed = False
        self.wrong: set[str] = set()  #: texts that get zeros
        self.during: Callable[[], object] = lambda: None  #: called by each call

    def embed(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        self.calls.append(list(texts))
        self.during()
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        return [self._answer(text) for text in texts]

    def embed_query(self, text: str) -> Vector | RefusedText:
        return self.embed([text])[0]

    def _answer(self, text: str) -> Vector | RefusedText:
        if not any(map(str.isalnum, text)):
            return RefusedText("it has no word")
        zeros = [0.0] * self.dimension
        return normed_vector(zeros if text in self.wrong else topic_numbers(text), self.dimension)

    def end_pause(self) -> None:
        """There is no pause."""

    def close(self) -> None:
        self.closed = True

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked for."""
        return [text for call in self.calls for text in call]


def pay(connection: Connection, embedder: Embedder, *sources: str, **changed: Any) -> PaidDebts:
    wanted = {"now": NOW, "ttl": TTL, "report": lambda number: None}
    return pay_embedded_index_debts(connection, embedder, sources=sources, **(wanted | changed))


_HAS_COLUMN = """
SELECT count(*) FROM pg_attribute
 WHERE attrelid = 'chunk_vector'::regclass AND attname = 'vector' AND NOT attisdropped
"""


def has_vectors(connection: Connection) -> bool:
    """Whether a registry has the column of vectors."""
    return connection.dialect == "sqlite" or bool(connection.execute(_HAS_COLUMN).get)


def stored(connection: Connection) -> list[tuple[Any, ...]]:
    """Return model, hash, vector and reason of each row of vectors."""
    if not has_vectors(connection):
        return []
    column = "v.vector" if connection.dialect == "sqlite" else "v.vector::real[]"
    rows = connection.execute(
        f"SELECT e.model, v.hash, {column}, v.refused FROM {vector_table(connection)} v"
        " LEFT JOIN embedder e ON e.no = v.embedder ORDER BY 1, 2"
    ).fetchall()
    return [(model, bytes(hash_), _packed(vector), why) for model, hash_, vector, why in rows]


def _packed(vector: bytes | list[float] | None) -> bytes | None:
    return array("f", vector).tobytes() if isinstance(vector, list) else vector


def numbers_of(vector: bytes) -> object:
    """Return the numbers of a vector, to compare with those of another precision."""
    return pytest.approx(list(array("f", vector)), abs=0.001)


def texts_with_vectors(connection: Connection) -> list[str]:
    """Return the texts of the chunks that have a vector."""
    if not has_vectors(connection):
        return []
    rows = connection.execute(
        f"SELECT DISTINCT k.text FROM chunk k JOIN {vector_table(connection)} v ON v.hash = k.hash"
        " WHERE v.vector IS NOT NULL ORDER BY 1"
    )
    return [text for (text,) in rows]


def visit_of_sections(desk: Desk, url: str, sections: Sequence[Section], **fields: Any) -> Visit:
    """Return the visit of a page of several sections."""
    visit = desk.visit(url, "\n".join(section.text for section in sections), **fields)
    document = visit.parsed.document
    assert document is not None
    document = type(document)(document.title, language="en", sections=tuple(sections))
    visit.parsed.document = document
    visit.parsed.chunks = document_chunks(document)
    visit.parsed.text_hash = text_hash(document)
    visit.parsed.content_hash = document_content_hash(document)
    return visit


@contextmanager
def vector_registry(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty registry in PostgreSQL; "" where `kind` is "sqlite"."""
    if kind == "sqlite":
        yield ""
        return
    spare = request.getfixturevalue("spare_vector_registries")
    url = spare.take()
    yield url
    spare.put_back(url)


def desk_at(url: str) -> Desk:
    """A desk over a registry in PostgreSQL; in memory without a URL."""
    with pytest.MonkeyPatch.context() as patch:
        if url:
            patch.setattr(Desk, "connected", staticmethod(lambda _: PostgresDatabase(url).open()))
        return Desk()


class Room:
    """A registry, which the writer of a run writes; its batches are embedded."""

    def __init__(self, file: Path, embedder: Embedder, elsewhere: Options | None = None) -> None:
        """``elsewhere``: options that name an Elasticsearch, which is the index then."""
        if Desk.database is None:
            begin_registry(file)
        database = (Desk.database or SqliteDatabase)(file)
        self.desk = Desk(file) if elsewhere is None else RemoteDesk(elsewhere, file)
        self.registry = Registry(database, database.open(), self.desk.indexing)
        self._embedder = embedder
        self._begin(self.desk.open())

    def _begin(self, run: OpenRun) -> None:
        self.run = run
        self.writer = RegistryWriter(self.registry, run, judgement=Judgement())
        self.writer.embed_with(BatchVectors(self._embedder))

    def begin_next_run(self, *, forced: bool = False) -> None:
        """Seal the run and open the next one."""
        self.desk.seal()
        self.writer.close()
        self._begin(self.desk.open(forced=forced))

    @property
    def connection(self) -> Connection:
        return self.desk.connection

    def write(self, *visits: Visit) -> Written:
        """Write one batch."""
        batch = Batch(visits=list(visits))
        for visit in visits:
            batch.tally(url_host_key(visit.page.url))
        return self.writer.submit(batch, NOW).result()

    def close(self) -> None:
        self.writer.close()
        self.registry.close()
        self.desk.close()
