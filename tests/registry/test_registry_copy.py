"""The copy of a source's rows, on which its next run is rehearsed."""

import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.registry.database.copy import EMPTY, LEFT_OUT, TABLES, copied_source
from smartcrawl.registry.database.migrations import migrations
from tests.registry.build import LONG, Desk

_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'chunk_words_%'"


def ignored(number: int) -> None:
    """Take no notice of progress."""


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


def test_every_table_is_copied_or_left_out(desk: Desk):
    names = {name for (name,) in desk.rows(_NAMES) if not name.startswith("sqlite_")}

    assert names == TABLES.keys() | LEFT_OUT
    assert not TABLES.keys() & LEFT_OUT
    assert {table for table, _ in EMPTY} <= TABLES.keys()
    assert migrations("sqlite")


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
            assert sorted(found, key=repr) == sorted(expected, key=repr), table


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
    with pytest.raises(KeyboardInterrupt):
        with copied_source(desk.connection, 1, "docs", ignored) as copy:
            raise KeyboardInterrupt

    assert not copy.path.parent.exists()
