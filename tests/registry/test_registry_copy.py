"""The copy of a source's rows, on which its next run is rehearsed."""

import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.registry.database.copy import EMPTY, TABLES, copied_source
from smartcrawl.registry.database.databases import empty_registry_in_memory
from tests.registry.build import LONG, Desk

#: Tables that no rehearsal reads: texts and the index, vectors, what other programs and processes
#: have, files of libraries, orders that wait for their time, notices, and notes on past runs.
LEFT_OUT = frozenset(
    {
        "choice", "chunk", "chunk_language", "chunk_words", "embedder", "vector", "remote_chunk",
        "dead_letter", "store", "snapshot", "unreadable", "vector_store", "store_file",
        "left_upload", "domain_store", "embed_failure", "library_item", "library_move",
        "library_address", "library_drive", "library_drive_item", "library_metadata", "api_key",
        "reply", "job", "job_run", "library_job", "process", "due_run", "rebuild", "run_host",
        "run_sample", "host_now", "collapse", "shared_change", "event", "login",
        "removal_order",
        "page_session", "notice", "notice_target", "stale_source",
    }
)  # fmt: skip
_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'chunk_words_%'"


def ignored(number: int) -> None:
    """Take no notice of progress."""


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in one order, with flags as SQLite has them."""
    told = (tuple(int(v) if isinstance(v, bool) else v for v in row) for row in rows)
    return sorted(told, key=repr)


@pytest.fixture
def desk() -> Desk:
    """Two sources, each with a page."""
    desk = Desk()
    desk.open()
    desk.index("http://a.example/", LONG, etag='"1"')
    desk.seal()
    desk.source = "other"
    desk.open()
    desk.index("http://b.example/", LONG)
    desk.seal()
    return desk


def test_every_table_is_copied_or_left_out():
    with closing(empty_registry_in_memory()) as registry:
        names = {name for (name,) in registry.execute(_NAMES) if not name.startswith("sqlite_")}

    assert names == TABLES.keys() | LEFT_OUT
    assert not TABLES.keys() & LEFT_OUT
    assert {table for table, _ in EMPTY} <= TABLES.keys()


def test_a_copy_has_one_source_and_no_text(desk: Desk):
    with copied_source(desk.connection, 1, "docs", ignored) as copy:
        with closing(copy.connect(readonly=True)) as connection:
            urls: Any = connection.execute("SELECT url FROM record").fetchall()
            names: Any = connection.execute("SELECT name FROM source").fetchall()
            texts: Any = connection.execute("SELECT document, txt FROM content").fetchall()
            chunks: Any = connection.execute("SELECT count(*) FROM chunk").get
        state = copy.path.stat(), copy.path.parent.stat()

    assert urls == [("http://a.example/",)]
    assert names == [(desk.rows("SELECT name FROM source WHERE no = 1")[0][0],)]
    assert (texts, chunks) == ([(b"", None)], 0)
    assert [stat.S_IMODE(one.st_mode) for one in state] == [0o600, 0o700]


def test_a_copy_equals_the_rows_that_it_was_made_of(desk: Desk):
    kept = [name for name in TABLES if name not in {table for table, _ in EMPTY}]
    with (
        copied_source(desk.connection, 1, "docs", ignored) as copy,
        closing(copy.connect(readonly=True)) as connection,
    ):
        for table in kept:
            values = {"no": 1, "name": "docs"}
            expected: Any = desk.connection.execute(
                f"SELECT * FROM {table} WHERE {TABLES[table]}", values
            ).fetchall()
            found: Any = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert plain(found) == plain(expected), table


def test_a_copy_is_gone_afterwards_and_readable_until_then(desk: Desk):
    with copied_source(desk.connection, 1, "docs", ignored) as copy:
        folder: Path = copy.path.parent
        with closing(copy.connect()) as connection:
            copy.hide()
            assert not folder.exists()
            connection.execute("UPDATE record SET etag = 'x'")
            assert connection.execute("SELECT etag FROM record").get == "x"

    assert not folder.exists()


def test_a_copy_is_gone_after_an_error(desk: Desk):
    folders: list[Path] = []

    def fail() -> None:
        with copied_source(desk.connection, 1, "docs", ignored) as copy:
            folders.append(copy.path.parent)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()

    assert not folders[0].exists()
