"""Vectors in PostgreSQL: what they need of a server, and what its refusal leaves alone."""

from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from smartcrawl import settings
from smartcrawl.index.embedded.vectors import note_index_embedder, prepare_index_for_vectors
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import EmbedderOptions
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.run.opening import open_run
from smartcrawl.run.orders import Orders
from smartcrawl.sources.declared import ad_hoc_site_source
from tests import servers
from tests.choices import options
from tests.index.asking import search
from tests.index.meanings import (
    Topics,
    desk_at,
    has_vectors,
    numbers_of,
    pay,
    stored,
    topic_numbers,
)
from tests.registry.build import NOW

BASE = "http://a.example/"


@pytest.fixture
def vector_url(vector_postgres: servers.Postgres) -> Iterator[str]:
    """An empty database in a server that has the extension."""
    vector_postgres.start()
    with vector_postgres.database() as url:
        yield url


def test_no_run_is_opened_where_the_server_has_no_extension(tmp_path: Path, postgres_url: str):
    chosen = EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"})
    place = options(tmp_path, registry=postgres_url, embedder=chosen)

    with pytest.raises(SettingError) as refused:
        open_run(ad_hoc_site_source(BASE, {}), place, Orders(), NOW)

    assert str(refused.value).startswith(
        "EMBEDDER needs the extension vector 0.8 or newer, and the server of REGISTRY_URL has none:"
        " install pgvector on that server (on Debian and Ubuntu the package postgresql-"
    )
    desk = desk_at(postgres_url)
    assert desk.rows("SELECT * FROM run") == []
    desk.open()
    desk.index(BASE, "a boat")
    assert [hit.url for hit in search(desk.connection, "boat")] == [BASE]
    assert desk.rows("SELECT embedding FROM documents") == [(None,)]
    desk.close()


def test_a_user_who_may_not_create_the_extension_is_told_who_may(
    vector_postgres: servers.Postgres,
):
    vector_postgres.execute("CREATE ROLE plain LOGIN")
    with vector_postgres.database("OWNER plain") as url:
        name = url.rpartition("/")[2]
        database = PostgresDatabase(vector_postgres.url(name, user="plain"))

        with pytest.raises(SettingError, match="let an administrator run CREATE EXTENSION vector"):
            prepare_index_for_vectors(database)
        vector_postgres.execute("CREATE EXTENSION vector", database=name)
        prepare_index_for_vectors(database)

        with closing(database.connect()) as connection:
            assert has_vectors(connection)
    vector_postgres.execute("DROP ROLE plain")


def test_an_extension_that_is_too_old_or_out_of_sight_is_refused_with_its_remedy(
    vector_postgres: servers.Postgres, vector_url: str
):
    name = vector_url.rpartition("/")[2]
    database = PostgresDatabase(vector_url)
    for statement in (
        "CREATE SCHEMA elsewhere", "CREATE EXTENSION vector SCHEMA elsewhere",
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'",
    ):  # fmt: skip
        vector_postgres.execute(statement, database=name)

    with pytest.raises(SettingError, match=r"has 0\.7\.4: let its owner run ALTER EXTENSION"):
        prepare_index_for_vectors(database)
    vector_postgres.execute("UPDATE pg_extension SET extversion = '0.8.0'", database=name)
    with pytest.raises(SettingError, match="in a schema that search_path does not name"):
        prepare_index_for_vectors(database)
    prepare_index_for_vectors(
        PostgresDatabase(f"{vector_url}?options=-csearch_path%3Dpublic,elsewhere")
    )


def test_workers_that_note_the_first_embedder_at_once_note_one(vector_url: str):
    database = PostgresDatabase(vector_url)
    database.open().close()

    def note(_: int) -> int:
        with closing(database.connect()) as connection, transaction(connection):
            return note_index_embedder(connection, Topics())

    with ThreadPoolExecutor(6) as threads:
        numbers = set(threads.map(note, range(6)))

    with closing(database.connect()) as connection:
        assert [row[0] for row in connection.execute("SELECT no FROM embedder")] == [*numbers]
        assert len(numbers) == 1


def test_a_batch_waits_while_embedders_are_dropped_and_batches_wait_for_no_batch(vector_url: str):
    """Else vectors could be stored for an embedder that is dropped at the same moment."""
    desk, other = desk_at(vector_url), desk_at(vector_url)
    desk.open()
    desk.index(BASE, "a boat")
    pay(desk.connection, Topics())
    with ThreadPoolExecutor(1) as thread:
        with transaction(desk.connection):
            note_index_embedder(desk.connection, Topics())
            with transaction(other.connection):
                assert note_index_embedder(other.connection, Topics()) == 1
            dropping = thread.submit(pay, other.connection, Topics())
            with pytest.raises(TimeoutError):
                dropping.result(0.3)
        assert dropping.result(30).owed == 0
    desk.close()
    other.close()


def test_the_view_documents_has_vectors_as_in_sqlite_and_grants_stay(vector_url: str):
    desk = desk_at(vector_url)
    desk.open()
    desk.index(BASE, "a banana")
    grants = "SELECT grantee FROM information_schema.role_table_grants WHERE grantee = 'reader'"
    for statement in ("CREATE ROLE reader", "GRANT SELECT ON documents TO reader"):
        desk.connection.execute(statement)

    pay(desk.connection, Topics())

    [(vector,)] = desk.rows("SELECT embedding FROM documents")
    assert isinstance(vector, bytes)
    assert list(array("f", vector)) == numbers_of(stored(desk.connection)[0][2])
    assert stored(desk.connection)[0][2] == vector
    assert len(vector) == 4 * len(topic_numbers("a banana"))
    assert desk.rows(f"{grants} AND table_name = 'documents'") == [("reader",)]
    for statement in ("DROP OWNED BY reader", "DROP ROLE reader"):
        desk.connection.execute(statement)
    desk.close()


def test_the_index_of_an_embedder_goes_with_it(vector_url: str):
    desk = desk_at(vector_url)
    desk.open()
    desk.index(BASE, "a boat")
    names = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%hnsw%' ORDER BY 1"
    pay(desk.connection, Topics("old"))
    pay(desk.connection, Topics("new"))
    both = desk.rows(names)
    pay(desk.connection, Topics("new"), now=NOW + 5_000)

    assert both == [("chunk_vector_1",), ("chunk_vector_2",)]
    assert desk.rows(names) == [("chunk_vector_2",)]
    desk.close()
