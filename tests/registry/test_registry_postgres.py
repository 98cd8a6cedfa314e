"""What PostgreSQL may do to a registry: go away, come back, undo a transaction, refuse."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread, Timer
from typing import Any

import psycopg
import pytest

from smartcrawl.index import writing
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.batches import Address, Batch
from smartcrawl.model.exceptions import RegistryError, RegistryVersionError, RunHeldError
from smartcrawl.model.urls import url_digest
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import Connection, Many, read_transaction, transaction
from smartcrawl.registry.database import choices, heartbeat, session
from smartcrawl.registry.database import postgres as postgres_module
from smartcrawl.registry.database.migrations import migrations
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import ConnectionLostError, PostgresConnection
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.runs.runs import RunRequest
from smartcrawl.registry.writer import RegistryWriter
from tests import servers
from tests.registry.build import NOW
from tests.servers.pgbouncer import pgbouncer

SINCE = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def connection(postgres_url: str) -> Iterator[PostgresConnection]:
    connection = PostgresDatabase(postgres_url).open()
    yield connection
    connection.close()


def add(connection: Connection, name: str) -> None:
    connection.execute("INSERT INTO source (name, kind, created_at) VALUES (?, 'site', 0)", (name,))


def names(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM source ORDER BY name")]


@contextmanager
def away(server: servers.Postgres, seconds: float) -> Iterator[None]:
    """Kill the server, and let it come back while something else is done."""
    server.kill()

    def back() -> None:
        time.sleep(seconds)
        server.start()

    thread = Thread(target=back)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# The shared SQL


@pytest.mark.parametrize(
    ("values", "are"),
    [
        ((), False),
        ({}, False),
        ({"numbers": Many([1])}, False),
        ((Many([]),), False),
        ((Many([1]), 2), False),
        ((Many([1]),), True),
        ((Many([1]), Many([b"a"])), True),
    ],
)
def test_only_arrays_whose_types_are_certain_go_as_binary_values(values: Any, are: bool):
    assert session._are_arrays(values) is are


def test_postgres_takes_values_of_every_kind(connection):
    assert connection.execute("SELECT ? % 7, ':x' || '?'", (30,)).fetchone() == (2, ":x?")
    assert connection.execute("SELECT :a, :b, :a", {"a": "x'y", "b": b"\0\xff"}).fetchall() == [
        ("x'y", b"\0\xff", "x'y")
    ]
    assert connection.execute("SELECT ?2, ?1", (1, None)).fetchone() == (None, 1)
    assert connection.execute("SELECT 1 WHERE 3 IN carray(?)", (Many([1, 3]),)).get == 1
    assert connection.execute("SELECT 1 WHERE 3 IN carray(?)", (Many([]),)).get is None
    assert connection.execute("SELECT 1 WHERE 'b' IN carray(?)", (Many(["a", "b"]),)).get == 1
    assert connection.execute("SELECT value FROM carray(?)", (Many([]),)).fetchall() == []
    assert connection.execute("SELECT value FROM carray(?)", (Many([7]),)).fetchall() == [(7,)]
    key = url_digest("http://a.example/")
    assert connection.execute("SELECT 1 WHERE ? IN carray(?)", (key, Many((key,)))).get == 1


def test_postgres_gives_sums_as_numbers(connection):
    row = connection.execute("SELECT sum(x), avg(x) FROM (VALUES (1::bigint), (2)) AS t (x)")

    assert [(type(value), value) for value in row.fetchone()] == [(int, 3), (float, 1.5)]


def test_postgres_fills_a_table_with_any_text(connection):
    rows = [(n, f"http://a.example/{n}\t\\N\n'\"", NOW) for n in range(1_000)]
    connection.fill("pin", ("no", "source", "at"), [(n, n, NOW) for n in range(1_000)])
    connection.fill("store", ("no", "url"), [(n, url) for n, url, _ in rows])

    assert connection.execute("SELECT count(*), max(no) FROM pin").fetchone() == (1_000, 999)
    assert connection.execute("SELECT url FROM store WHERE no = 7").get == rows[7][1]


def test_postgres_does_many_rows_with_few_round_trips(connection, monkeypatch):
    sent: list[str] = []
    plain = PostgresConnection._plain
    monkeypatch.setattr(
        PostgresConnection, "_plain", lambda self, text: (sent.append(text), plain(self, text))
    )
    connection.executemany(
        "INSERT INTO pin (no, source, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(n, 1, NOW) for n in range(900)] * 2,
    )
    connection.executemany("UPDATE pin SET at = ? WHERE no = ?", [(n, n) for n in range(900)])

    assert len(sent) == 6
    assert connection.execute("SELECT count(*) FROM pin WHERE at = no").get == 900


def test_postgres_reads_as_of_one_moment(connection, postgres_url):
    other = PostgresConnection(postgres_url)
    with read_transaction(connection):
        assert names(connection) == []
        add(other, "late")
        assert names(connection) == []
    assert names(connection) == ["late"]
    other.close()


# The server goes away


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "commits"])
def test_postgres_undoes_a_transaction_in_which_a_process_stands_still(connection, ends):
    def stand_still() -> None:
        with transaction(connection):
            add(connection, "undone")
            time.sleep(1.3)
            if not ends:
                add(connection, "too late")

    connection.limit(1)
    with pytest.raises(ConnectionLostError):
        stand_still()

    with transaction(connection):
        add(connection, "again")
    assert names(connection) == ["again"]


def test_postgres_that_restarts_between_transactions_is_waited_for(connection, postgres, caplog):
    add(connection, "before")

    with away(postgres, 1.0):
        add(connection, "after")

    assert names(connection) == ["after", "before"]
    assert "PostgreSQL is away" in caplog.text


def test_postgres_that_dies_in_a_transaction_leaves_nothing_of_it(connection, postgres):
    def work() -> None:
        with transaction(connection):
            add(connection, "first")
            postgres.kill()
            add(connection, "second")

    with pytest.raises(ConnectionLostError):
        work()
    postgres.start()

    assert names(connection) == []


def test_postgres_transaction_is_done_again_after_a_restart(connection, postgres, postgres_url):
    tries = []

    def work() -> str:
        with transaction(connection):
            tries.append(len(tries))
            add(connection, "source")
            if len(tries) == 1:
                postgres.kill()
                postgres.start()
            connection.execute("SELECT 1")
            return "done"

    assert PostgresDatabase(postgres_url).retried(work) == "done"
    assert len(tries) == 2
    assert names(connection) == ["source"]


@pytest.mark.parametrize("reached", [True, False], ids=["committed", "not-committed"])
def test_postgres_tells_whether_a_commit_without_answer_happened(
    connection, postgres, postgres_url, monkeypatch, reached
):
    """The answer to COMMIT gets lost: nothing is done twice, and nothing is left out."""
    run, cut = PostgresConnection._run, []

    def losing(self: PostgresConnection, statement: str, values: Any) -> Any:
        if statement != "COMMIT" or cut:
            return run(self, statement, values)
        cut.append(statement)
        if reached:
            run(self, statement, values)
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(PostgresConnection, "_run", losing)
    tries = []

    def work() -> None:
        with transaction(connection):
            tries.append(1)
            add(connection, f"source {len(tries)}")

    PostgresDatabase(postgres_url).retried(work)

    assert len(tries) == (1 if reached else 2)
    assert names(connection) == [f"source {len(tries)}"]


def test_postgres_deadlock_is_tried_again(connection, postgres_url):
    database = PostgresDatabase(postgres_url)
    other = PostgresConnection(postgres_url)
    for name in ("a", "b"):
        add(connection, name)
    locked: list[str] = []

    def both(own: Connection, first: str, second: str) -> None:
        with transaction(own):
            own.execute("UPDATE source SET created_at = created_at + 1 WHERE name = ?", (first,))
            locked.append(first)
            while len(set(locked)) < 2:
                time.sleep(0.01)
            own.execute("UPDATE source SET created_at = created_at + 1 WHERE name = ?", (second,))

    thread = Thread(target=lambda: database.retried(lambda: both(other, "b", "a")))
    thread.start()
    database.retried(lambda: both(connection, "a", "b"))
    thread.join()
    other.close()

    assert connection.execute("SELECT sum(created_at), count(*) FROM source").fetchone() == (4, 2)
    assert len(locked) == 3, "one of them was the victim"


def test_postgres_batch_is_written_once_across_a_restart(postgres_url, postgres, monkeypatch):
    opened = open_registry(postgres_url, EMBEDDED)
    run = opened.open_run(RunRequest("docs", "site"), NOW)
    writer = RegistryWriter(opened, run, judgement=Judgement())
    address = Address(
        1, url_digest("http://a.example/"), "http://a.example/", None, "a.example", 0, None
    )
    batch = Batch(addresses=[address], reached={1: 0})
    batch.counts["requests"] = 3
    real, cut = writing.transaction, []

    @contextmanager
    def killing(connection: Connection) -> Iterator[None]:
        with real(connection):
            yield
            if not cut:
                cut.append(1)
                postgres.kill()
                postgres.start()

    monkeypatch.setattr(writing, "transaction", killing)
    assert writer.submit(batch, NOW).result().stale == 0
    writer.close()

    assert cut, "the server went away within the transaction"
    assert opened.connection.execute("SELECT count(*) FROM record").get == 1
    assert opened.connection.execute("SELECT requests FROM run").get == 3
    opened.close()


def test_postgres_that_stays_away_is_an_error_with_its_remedy(postgres_url, postgres):
    database = PostgresDatabase(postgres_url, patience=2)
    connection = database.open()
    postgres.kill()

    with (
        pytest.raises(RegistryError, match="check that the server runs"),
        database.translated("read"),
    ):
        names(connection)

    postgres.start()
    connection.close()


# One patience, and locks


def test_postgres_that_stays_away_is_waited_for_by_all_connections_together(postgres_url, postgres):
    database = PostgresDatabase(postgres_url, patience=2)
    connections = [database.open(), *(database.connect() for _ in range(4))]
    postgres.kill()
    began = time.monotonic()

    for connection in connections:
        with pytest.raises(psycopg.OperationalError):
            names(connection)

    assert 1 < time.monotonic() - began < 4
    postgres.start()
    for connection in connections:
        assert names(connection) == []
        connection.close()


def test_postgres_that_is_away_is_waited_for_a_moment_only_by_a_process_that_ends(
    postgres_url, postgres, monkeypatch
):
    monkeypatch.setattr(session, "HURRY", 1)
    database = PostgresDatabase(postgres_url)
    connection = database.open()
    postgres.kill()
    timer = Timer(0.5, database.hurry)  # as in the handler of a signal
    timer.start()
    began = time.monotonic()

    with pytest.raises(psycopg.OperationalError):
        names(connection)

    assert time.monotonic() - began < 5
    timer.join()
    postgres.start()
    connection.close()


@pytest.fixture
def locked(postgres_url: str, monkeypatch) -> Iterator[PostgresConnection]:
    """A connection of a process that stalls in a transaction."""
    monkeypatch.setattr(session, "LOCK_WAIT", 1)
    monkeypatch.setattr(postgres_module, "STANDSTILL", 3)
    connection = PostgresDatabase(postgres_url).open()
    with transaction(connection):
        add(connection, "docs")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE source SET created_at = 1")
    yield connection
    connection.close()


def change(connection: Connection) -> None:
    with transaction(connection):
        connection.execute("UPDATE source SET created_at = 2")


def test_postgres_lock_of_a_process_that_stalls_is_waited_for_with_its_name(
    locked, postgres_url, caplog
):
    database = PostgresDatabase(postgres_url)
    connection = database.open()

    database.retried(lambda: change(connection))

    assert connection.execute("SELECT created_at FROM source").get == 2
    told = f"smartcrawl {os.getpid()}@{socket.gethostname()}"[:63]
    assert f"waiting to write {database}: {told}, connected from 127.0.0.1" in caplog.text
    assert "has a lock since 20" in caplog.text
    assert "its transaction is idle in transaction" in caplog.text
    connection.close()


def test_postgres_lock_that_lasts_is_an_error_with_the_name_of_its_holder(
    locked, postgres_url, monkeypatch
):
    monkeypatch.setattr(postgres_module, "LOCK_PATIENCE", 0)
    database = PostgresDatabase(postgres_url)
    connection = database.open()

    with (
        pytest.raises(RegistryError, match=f"smartcrawl {os.getpid()}@.* has a lock since 20"),
        database.translated("write"),
    ):
        database.retried(lambda: change(connection))
    connection.close()


# The lease


def test_postgres_lease_names_its_holder_and_is_given_back(postgres_url):
    database = PostgresDatabase(postgres_url)
    database.open().close()
    lease = database.take("docs", SINCE)

    with pytest.raises(RunHeldError) as caught:
        database.take("docs", "later")
    assert (caught.value.pid, caught.value.since) == (os.getpid(), SINCE)
    assert database.is_held("docs")
    database.take("shop", SINCE).release()

    lease.release()
    lease.release()
    assert not database.is_held("docs")
    database.take("docs", SINCE).release()


def test_postgres_lease_shows_that_its_holder_lives(postgres_url, monkeypatch):
    monkeypatch.setattr(heartbeat, "BEAT", 0.05)
    database = PostgresDatabase(postgres_url)
    control = database.open()
    lease = database.take("docs", SINCE)
    control.execute("UPDATE lease SET beat = beat - interval '1 hour'")

    deadline = time.monotonic() + 60
    while not database.is_held("docs"):
        assert time.monotonic() < deadline, "the lease is renewed"
        time.sleep(0.02)

    lease.release()
    control.close()


HOLDER = """
import sys, time
from smartcrawl.registry.database.postgres import PostgresDatabase
lease = PostgresDatabase(sys.argv[1]).take("docs", "then")
print("taken", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_postgres_lease_of_a_process_that_stands_still_expires(postgres_url, ending):
    database = PostgresDatabase(postgres_url)
    control = database.open()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, postgres_url], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(RunHeldError):
            database.take("docs", SINCE)

        os.kill(holder.pid, ending)
        with pytest.raises(RunHeldError):
            database.take("docs", SINCE)
        control.execute("UPDATE lease SET beat = beat - interval '61 seconds'")
        lease = database.take("docs", SINCE)

        holder.kill()
    assert database.is_held("docs"), "the late one takes nothing back"
    lease.release()
    control.close()


# What is refused


def test_postgres_refuses_what_it_cannot_use(postgres_url, postgres):
    server = postgres_url.rpartition("/")[0]
    port = server.rpartition(":")[2]
    cases = {
        f"{server}/nowhere": "create it, or name another one in REGISTRY_URL",
        postgres_url.replace(f":{port}", ":1"): "check that the server runs",
        f"{postgres_url}?nonsense=1": "expected postgresql://",
    }
    for url, remedy in cases.items():
        with pytest.raises(RegistryError, match=remedy) as caught:
            PostgresDatabase(url).open()
        assert "cannot open postgresql://" in str(caught.value)


def test_postgres_password_is_in_no_message(postgres, postgres_url):
    postgres.execute(f"DROP ROLE IF EXISTS {servers.GUEST}")
    postgres.execute(f"CREATE ROLE {servers.GUEST} LOGIN PASSWORD 'right'")
    url = postgres_url.replace("//smartcrawl@", f"//{servers.GUEST}:wr0ng@")

    with pytest.raises(RegistryError, match="check user and password") as caught:
        PostgresDatabase(url).open()
    assert "wr0ng" not in str(caught.value)

    with pytest.raises(RegistryError, match="let this user create and write tables") as caught:
        PostgresDatabase(url.replace("wr0ng", "right")).open()
    assert "right" not in str(caught.value)


def test_postgres_registry_of_a_newer_version_is_refused(connection, postgres_url):
    connection.execute("UPDATE smartcrawl_schema SET version = 999")

    with pytest.raises(RegistryVersionError, match="schema version 999"):
        PostgresDatabase(postgres_url).open()


@pytest.mark.parametrize("version", [7, 55, 99])
def test_postgres_registry_of_an_older_layout_is_refused_and_left_alone(
    postgres_url, postgres, version
):
    url = postgres_url.replace("//smartcrawl@", "//smartcrawl:secret@")
    with closing(PostgresConnection(postgres_url)) as made:
        made.execute("CREATE TABLE record (no BIGINT PRIMARY KEY, last_modified TEXT)")
        made.execute("INSERT INTO record VALUES (1, 'Mon')")
        made.execute("CREATE TABLE smartcrawl_schema (version INTEGER NOT NULL)")
        made.execute("INSERT INTO smartcrawl_schema VALUES (?)", (version,))
    database = PostgresDatabase(url)

    for opener in (database.open, database.reports, database.look):
        with pytest.raises(RegistryVersionError) as caught:
            opener()

        told = str(caught.value)
        assert f"has the layout of an older smartcrawl, schema version {version}," in told
        assert "nothing was changed" in told
        assert "name another database or schema (?options=-csearch_path%3DNAME) in" in told
        assert told.endswith("and crawl anew")
        assert "secret" not in told
    name = postgres_url.rpartition("/")[2]
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    assert postgres.execute(tables, database=name) == [
        ("record",), ("record_pkey",), ("smartcrawl_schema",),
    ]  # fmt: skip
    assert postgres.execute("SELECT * FROM record", database=name) == [(1, "Mon")]
    told = postgres.execute("SELECT version FROM smartcrawl_schema", database=name)
    assert told == [(version,)]


def test_postgres_step_that_is_missing_is_applied(connection, postgres_url, monkeypatch):
    """The lock, the check of the version and the steps are one transaction."""
    latest = migrations("postgres")[-1][0]
    known = (*migrations("postgres"), (latest + 1, ("ALTER TABLE source ADD COLUMN made_up TEXT",)))
    monkeypatch.setattr("smartcrawl.registry.database.postgres.migrations", lambda _: known)

    with pytest.raises(RegistryVersionError, match=f"status with version {latest + 1} first"):
        PostgresDatabase(postgres_url).look()
    PostgresDatabase(postgres_url).open().close()

    assert connection.execute("SELECT version FROM smartcrawl_schema").get == latest + 1
    assert connection.execute("SELECT count(made_up) FROM source").get == 0


def test_postgres_of_an_old_version_is_refused(postgres_url, monkeypatch):
    monkeypatch.setattr(PostgresConnection, "server_version", 13_00_23)

    with pytest.raises(RegistryVersionError, match="is PostgreSQL 13; the registry needs 14"):
        PostgresDatabase(postgres_url).open()


def test_postgres_that_cannot_hold_every_text_is_refused(postgres):
    with (
        postgres.database("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'") as url,
        pytest.raises(RegistryError, match="LATIN1; create a database with ENCODING 'UTF8'"),
    ):
        PostgresDatabase(url).open()


def test_postgres_registry_lies_in_a_schema_that_the_url_names(postgres_url):
    url = f"{postgres_url}?options=-csearch_path%3Dcrawls"
    with pytest.raises(RegistryError, match="create the schema"):
        PostgresDatabase(url).open()
    with psycopg.connect(postgres_url, autocommit=True) as own:
        own.execute("CREATE SCHEMA crawls")
        own.execute("CREATE TABLE record (music text)")

        connection = PostgresDatabase(url).open()
        add(connection, "docs")
        connection.close()

        assert own.execute("SELECT name FROM crawls.versions").fetchall() == [("docs",)]
        assert own.execute("SELECT count(*) FROM public.record").fetchall() == [(0,)]


def test_postgres_registry_needs_no_more_than_a_schema_of_its_own(postgres, postgres_url):
    postgres.execute(f"DROP ROLE IF EXISTS {servers.GUEST}")
    postgres.execute(f"CREATE ROLE {servers.GUEST} LOGIN PASSWORD 'right'")
    database = postgres_url.rpartition("/")[2]
    postgres.execute(f"CREATE SCHEMA own AUTHORIZATION {servers.GUEST}", database=database)
    url = postgres_url.replace("//smartcrawl@", f"//{servers.GUEST}:right@")

    connection = PostgresDatabase(f"{url}?options=-csearch_path%3Down").open()
    add(connection, "docs")

    assert names(connection) == ["docs"]
    connection.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_postgres_behind_a_pooler_without_sessions_is_refused_at_open(postgres_url, mode):
    PostgresDatabase(postgres_url).open().close()
    with pgbouncer(postgres_url, mode) as pooler:
        database = PostgresDatabase(pooler.url)
        for opened in (database.open, database.reports):
            with pytest.raises(RegistryError, match=r"PgBouncer does with pool_mode = transaction"):
                opened()


def test_postgres_behind_a_pooler_of_sessions_is_as_without_it(postgres_url):
    with pgbouncer(postgres_url, "session") as pooler:
        connection = PostgresDatabase(pooler.url).open()
        add(connection, "docs")
        reader = PostgresDatabase(pooler.url).reports()
        assert names(reader) == ["docs"]
        for one in (reader, connection):
            one.close()


def test_postgres_without_a_connection_left_says_how_many_are_needed(postgres, postgres_url):
    database = postgres_url.rpartition("/")[2]
    PostgresDatabase(postgres_url).open().close()
    postgres.execute(f"DROP ROLE IF EXISTS {servers.GUEST}")
    postgres.execute(f"CREATE ROLE {servers.GUEST} LOGIN PASSWORD 'right' CONNECTION LIMIT 1")
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {servers.GUEST}",
                     database=database)  # fmt: skip
    place = PostgresDatabase(postgres_url.replace("//smartcrawl@", f"//{servers.GUEST}:right@"))
    with (
        closing(place.connect(readonly=True)),
        pytest.raises(RegistryError, match="has no connection left: a worker needs") as caught,
    ):
        place.connect()
    assert "max_connections" in str(caught.value)
    postgres.execute(f"DROP OWNED BY {servers.GUEST}; DROP ROLE {servers.GUEST}", database=database)


def test_postgres_that_ends_a_statement_is_named_with_its_setting(postgres_url):
    database = PostgresDatabase(postgres_url)
    connection = database.open()
    connection.execute("SET statement_timeout = '50ms'")
    with (
        pytest.raises(
            RegistryError, match=r"after statement_timeout, .* SET statement_timeout = 0"
        ),
        database.translated("read"),
    ):
        connection.execute("SELECT pg_sleep(2)")
    connection.close()


def test_postgres_tables_of_another_program_are_left_alone(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as own:
        own.execute("CREATE TABLE record (music text)")

    with pytest.raises(RegistryError, match="of another program"):
        PostgresDatabase(postgres_url).open()

    with psycopg.connect(postgres_url, autocommit=True) as own:
        assert own.execute("SELECT count(*) FROM pg_class WHERE relname = 'state'").fetchone() == (
            0,
        )


def test_postgres_choices_of_many_at_once_are_made_once(postgres_url):
    """Whoever comes later finds the name taken by what it wants itself."""
    first, second = (PostgresDatabase(postgres_url).open() for _ in range(2))
    found = []

    def choose_later() -> None:
        with transaction(second):
            choices.store_view_choices(second, partition="scheme", table="Known")
        found.append(choices.stored_choices(second))

    thread = Thread(target=choose_later)
    with transaction(first):
        choices.store_view_choices(first, partition="host", table="Known")
        thread.start()
        thread.join(0.5)
        assert thread.is_alive(), "it waits"
    thread.join()

    assert found == [{**choices.stored_choices(first), "partition": "scheme", "table": "Known"}]
    assert first.execute('SELECT count(*) FROM "Known"').get == 0
    first.close()
    second.close()


def test_postgres_registry_that_another_makes_just_now_is_no_other_programs(
    postgres_url, monkeypatch
):
    """Between two looks at the database, it may come about."""
    run, made = PostgresConnection._run, []

    def looks(self: PostgresConnection, statement: str, values: Any) -> Any:
        found = run(self, statement, values)
        if statement == postgres_module._IS_THERE and not made:
            made.append(True)
            PostgresDatabase(postgres_url).open().close()
        return found

    monkeypatch.setattr(PostgresConnection, "_run", looks)
    connection = PostgresDatabase(postgres_url).open()

    assert made
    assert connection.execute("SELECT count(*) FROM sequence").get == 2
    connection.close()


def test_postgres_registry_is_made_once_by_many_at_once(postgres_url):
    opened: list[PostgresConnection] = []
    threads = [
        Thread(target=lambda: opened.append(PostgresDatabase(postgres_url).open()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(opened) == 4
    for connection in opened:
        assert connection.execute("SELECT count(*) FROM sequence").get == 2
        connection.close()
