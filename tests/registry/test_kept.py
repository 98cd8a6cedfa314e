"""Connections that stay open from command to command of a test (tests/registry/kept.py)."""

from pathlib import Path

import apsw
import pytest

from smartcrawl.registry.database.sqlite import SqliteDatabase
from tests.registry.build import begin_registry
from tests.registry.kept import kept_connections


def test_a_connection_is_given_out_again_as_if_it_were_new(tmp_path: Path):
    path = tmp_path / "registry.db"
    begin_registry(path)
    database = SqliteDatabase(path)
    with kept_connections():
        first = database.reports()
        other = database.connect()
        assert other is not first, "it is used"
        first.index_state = "of the first command"
        first.close()
        first.close()
        again, third = database.connect(), database.connect()
        assert again is first
        assert third not in (first, other), "closed twice, and given out once"
        assert (again.is_read_only, again.index_state) == (False, None)
        again.execute("CREATE TABLE mine (no INTEGER)").fetchall()
        other.close()
        third.close()
        again.close()
        assert path.with_name("registry.db-wal").stat().st_size == 0
        other = database.connect()
        other.execute("BEGIN")
        other.close()
        with pytest.raises(apsw.ConnectionClosedError):
            other.execute("SELECT 1")
    with pytest.raises(apsw.ConnectionClosedError):
        first.execute("SELECT 1")


def test_another_file_at_the_same_place_is_opened(tmp_path: Path):
    path = tmp_path / "registry.db"
    begin_registry(path)
    with kept_connections():
        first = SqliteDatabase(path).connect()
        first.close()
        path.rename(tmp_path / "former.db")
        begin_registry(path)
        assert SqliteDatabase(path).connect() is not first
