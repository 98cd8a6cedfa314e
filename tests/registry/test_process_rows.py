"""The table of started processes: what a server, another server, and the process itself change."""

import pytest

from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, ProcessRows, Started

NOW = 1_705_744_800
CRAWL, LIBRARY, DUE, REMOVAL = ProcessKind
OTHER = Process("elsewhere.example", 7, "boot-9")
CHILD = Process("here.example", 8, "boot-10")


@pytest.fixture
def connection(begun: tuple[Database, Connection]) -> Connection:
    return begun[1]


def rows_of(connection: Connection, server: Process | None = None) -> ProcessRows:
    """The rows of crawls, for this process or another one."""
    rows = ProcessRows(connection, CRAWL)
    rows._this = server or rows._this
    return rows


def started(connection: Connection, id_: str = "a") -> Started:
    look = f"SELECT {PROCESS_COLUMNS} FROM process p WHERE p.kind = 'crawl' AND p.id = ?"
    return Started.of(connection.execute(look, (id_,)).fetchone())


def test_a_claim_is_counted_and_is_that_of_one_server(connection: Connection):
    mine, theirs, this = rows_of(connection), rows_of(connection, OTHER), Process.this()
    assert mine.claim("a", NOW)
    assert not theirs.claim("a", NOW + 1)
    assert started(connection) == Started(this, NOW, None, 1, 0)
    mine.started("a", CHILD)
    assert started(connection).process == CHILD
    assert mine.claim("a", NOW + 5)  # for another process
    assert started(connection) == Started(this, NOW + 5, None, 2, 0)
    theirs.release("a")
    assert started(connection).server == this
    mine.release("a")
    assert theirs.claim("a", NOW + 9)
    assert started(connection) == Started(OTHER, NOW + 9, None, 3, 0)


def test_a_kind_has_ids_of_its_own(connection: Connection):
    assert ProcessRows(connection, DUE).claim("a", NOW)
    assert rows_of(connection, OTHER).claim("a", NOW)
    ProcessRows(connection, DUE).forget("a")
    assert started(connection).server == OTHER


def test_a_process_that_recorded_itself_is_the_truth(connection: Connection):
    mine = rows_of(connection)
    mine.claim("a", NOW)
    rows_of(connection, CHILD).record_this("a")
    mine.started("a", OTHER)
    assert started(connection).process == CHILD
    rows_of(connection, OTHER).record_this("a")
    assert started(connection).process == OTHER


def test_of_two_processes_the_first_does_the_work(connection: Connection):
    child, second = rows_of(connection, CHILD), rows_of(connection, OTHER)
    assert not child.record_first("a")  # nobody ordered it
    rows_of(connection).claim("a", NOW)
    assert child.record_first("a")
    assert child.record_first("a")  # its server had recorded it
    for other in (
        OTHER,
        Process(OTHER.host, CHILD.pid, CHILD.start),
        Process(CHILD.host, OTHER.pid, CHILD.start),
        Process(CHILD.host, CHILD.pid, OTHER.start),
    ):
        assert not rows_of(connection, other).record_first("a")
    assert started(connection).process == CHILD
    rows_of(connection).release("a")
    assert not child.record_first("a")  # it waits
    assert not second.record_first("a")


def test_work_is_taken_over_from_the_server_that_died(connection: Connection):
    mine, theirs = rows_of(connection), rows_of(connection, OTHER)
    theirs.claim("a", NOW)
    assert not mine.take_over("a", CHILD, NOW + 61)  # another server was first
    mine.watched(["a"], NOW + 62)
    assert started(connection) == Started(OTHER, NOW, None, 1, 0)
    assert mine.take_over("a", OTHER, NOW + 63)
    assert started(connection) == Started(Process.this(), NOW + 63, None, 1, 0)
    mine.watched(["a", "b"], NOW + 70)
    assert started(connection).watched_at == NOW + 70


@pytest.mark.parametrize("waits", [True, False])
def test_a_claim_is_withdrawn(connection: Connection, waits: bool):
    mine = rows_of(connection)
    mine.claim("a", NOW)
    rows_of(connection, OTHER).withdraw("a", waits=waits)
    assert started(connection).starts == 1
    mine.withdraw("a", waits=waits)
    assert (started(connection).starts, started(connection).server is None) == (0, waits)


def test_resumed_work_has_its_starts_anew(connection: Connection):
    mine = rows_of(connection)
    mine.claim("a", NOW)
    mine.claim("a", NOW)
    mine.started("a", CHILD)
    mine.renew("a")
    assert started(connection) == Started(None, NOW, CHILD, 2, 2)


def test_a_place_is_taken_until_the_work_is_over(connection: Connection):
    rows = rows_of(connection)
    connection.execute(
        "INSERT INTO job (id, name, definition, created_at) VALUES ('j', 'n', '', 1)"
    )
    for place, state in enumerate(("waiting", "running", "paused", "ended", "waiting")):
        connection.execute(
            "INSERT INTO job_run (id, job, due_at, fired_at, state) SELECT ?, no, ?, 1, ? FROM job",
            (f"jb_{place}", place, state),
        )
        connection.execute(
            "INSERT INTO library_job (id, domain, action, choices, state, created_at)"
            " VALUES (?, 'D', 'crawl', '{}', ?, 1)",
            (f"jb_{place + 10}", state),
        )
    assert rows.places() == 0
    for place in range(4):
        rows.claim(f"jb_{place}", NOW)
    assert rows.places() == 2
    for place in range(4):
        ProcessRows(connection, LIBRARY).claim(f"jb_{place + 10}", NOW)
    assert rows.places() == 4
    ProcessRows(connection, DUE).claim("docs", NOW)
    assert rows.places() == 5
    for place, state in enumerate(("waiting", "running", "ended")):
        connection.execute(
            "INSERT INTO removal_order (id, source, action, run, orderer, state, created_at)"
            " VALUES (?, 'docs', 'undo', 1, 'the command line', ?, 1)",
            (f"ro_{place}", state),
        )
        ProcessRows(connection, REMOVAL).claim(f"ro_{place}", NOW)
    assert rows.places() == 7
    ends = (
        (CRAWL, "jb_0"),
        (LIBRARY, "jb_10"),
        (DUE, "docs"),
        (REMOVAL, "ro_0"),
        (REMOVAL, "ro_1"),
    )
    for kind, id_ in ends:
        ProcessRows(connection, kind).release(id_)
    assert rows.places() == 2
