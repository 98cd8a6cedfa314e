"""What the next run of a source that no file declares is started from."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from smartcrawl.registry.database.sqlite import connect_sqlite, migrate
from smartcrawl.registry.runs.run_results import last_start_rows, left_out_start_rows
from smartcrawl.registry.runs.runs import Role
from smartcrawl.reports.today import reported_source_today

NAME = "a.example"
RUN = "INSERT INTO run (no, source, number, forced, started_at, due) VALUES (?, 1, ?, 0, 0, 0)"
RECORD = """
INSERT INTO record (no, source, id, url, host, first_run, first_seen)
VALUES (?, 1, ?, ?, 1, 1, 0)
"""


@pytest.fixture
def connection(file: Path) -> Iterator[apsw.Connection]:
    """Pages 1 to 9, of which 1 to 3 are held; run 1 was started from page 1."""
    file.parent.mkdir(exist_ok=True)
    connection = connect_sqlite(file, create=True)
    migrate(connection, file)
    row = "INSERT INTO source (no, name, kind, created_at, declared) VALUES (1, ?, 'site', 0, 0)"
    connection.execute(row, (NAME,))
    for no in range(1, 10):
        connection.execute(RECORD, (no, bytes([no]), f"http://{NAME}/{no}"))
        state = "INSERT INTO state (no, reached_run, depth, standing) VALUES (?, 1, 0, ?)"
        connection.execute(state, (no, 2 if no <= 3 else 0))
    start(connection, 1, 1)
    yield connection
    connection.close()


def start(connection: apsw.Connection, run: int, *seeds: int, role: Role = Role.SEED) -> None:
    if not connection.execute("SELECT 1 FROM run WHERE no = ?", (run,)).get:
        connection.execute(RUN, (run, run))
    rows = [(run, no, role) for no in seeds]
    connection.executemany("INSERT INTO seed (run, no, pinned) VALUES (?, ?, ?)", rows)


def numbers(connection: apsw.Connection) -> list[int]:
    return [start.no for start in last_start_rows(connection, NAME)]


def test_a_source_is_started_from_what_its_last_run_began_with(connection: apsw.Connection):
    start(connection, 2, 2)
    start(connection, 2, 3, role=Role.SITEMAP)
    start(connection, 2, 1, role=Role.PIN)

    assert numbers(connection) == [2, 3]
    today = reported_source_today(connection, {}, NAME)
    assert today is not None
    assert (today.seeds, today.sitemaps) == ((f"http://{NAME}/2",), (f"http://{NAME}/3",))


def test_what_never_brought_anything_is_no_start(connection: apsw.Connection):
    start(connection, 2, 4)
    assert numbers(connection) == [1]
    connection.execute("UPDATE record SET redirect_no = 5 WHERE no = 4")
    assert numbers(connection) == [1], "it moved to what is not held either"
    connection.execute("UPDATE record SET redirect_no = 2 WHERE no = 4")
    assert numbers(connection) == [4]


def test_what_was_held_once_stays_a_start(connection: apsw.Connection):
    start(connection, 2, 4)
    connection.execute("UPDATE record SET last_indexed = 7 WHERE no = 4")

    assert numbers(connection) == [4]


def test_where_nothing_was_ever_held_it_is_the_last(connection: apsw.Connection):
    connection.execute("UPDATE state SET standing = 0")
    start(connection, 2, 5)

    assert numbers(connection) == [5]


def test_a_declared_source_is_started_from_its_declaration(connection: apsw.Connection):
    connection.execute("UPDATE source SET declared = 1")

    assert numbers(connection) == []
    assert reported_source_today(connection, {}, NAME) is None


def test_what_moved_is_left_out_where_both_ends_are(connection: apsw.Connection):
    start(connection, 2, 4, 2)
    connection.execute("UPDATE record SET redirect_no = 2 WHERE no IN (4, 6)")
    before = last_start_rows(connection, NAME)

    assert [start.no for start in left_out_start_rows(connection, before, [1])] == [2, 4]
    for given in ([2], [6], [4]):
        assert left_out_start_rows(connection, before, given) == []
