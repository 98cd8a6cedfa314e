"""The registry as requests use it at the same time."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest
from anyio import to_thread

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.server import stores as module
from smartcrawl.server.stores import Stores

MANY = 50  #: more than the threads of the event loop


def one(connection: Connection) -> int:
    return int(connection.execute("SELECT 1").get)


def test_requests_that_wait_to_write_keep_none_from_reading(tmp_path: Path):
    stores = Stores(tmp_path / "registry.db")
    began, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> int:
        began.set()
        assert go_on.wait(60)
        return one(connection)

    async def asked() -> list[int]:
        writes = [asyncio.create_task(stores.write_in_turn(slow)) for _ in range(MANY)]
        await to_thread.run_sync(began.wait)
        try:
            assert await asyncio.wait_for(to_thread.run_sync(stores.read, one), 4) == 1
        finally:
            go_on.set()
        return await asyncio.gather(*writes)

    assert asyncio.run(asked()) == [1] * MANY
    stores.close()


def test_a_request_waits_for_its_turn_to_write_no_longer_than_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stores = Stores(tmp_path / "registry.db")
    began, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(module, "_WAIT", 0.05)

    def slow(connection: Connection) -> int:
        began.set()
        assert go_on.wait(60)
        return one(connection)

    async def asked() -> list[int]:
        first = asyncio.create_task(stores.write_in_turn(slow))
        await to_thread.run_sync(began.wait)
        with pytest.raises(RegistryError, match="in use"):
            await stores.write_in_turn(one)
        go_on.set()
        return [await first, await stores.write_in_turn(one)]

    assert asyncio.run(asked()) == [1, 1]
    stores.close()


def test_first_requests_at_once_leave_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stores = Stores(tmp_path / "registry.db")
    opened = []
    connect = stores._connected_at_once

    def connected() -> Connection:
        opened.append(connect())
        return opened[-1]

    monkeypatch.setattr(stores, "_connected_at_once", connected)

    async def asked() -> list[int]:
        return await asyncio.gather(*(stores.read_little(one) for _ in range(5)))

    assert asyncio.run(asked()) == [1] * 5
    stores.close()
    assert len(opened) == 5
    for connection in opened:
        with pytest.raises(apsw.ConnectionClosedError):
            connection.execute("SELECT 1")


def test_a_registry_that_is_only_read_is_opened_as_reports_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its file may be one that this user cannot write."""
    registry_database(tmp_path / "registry.db").open().close()
    monkeypatch.setattr(SqliteDatabase, "open", lambda _: pytest.fail("it is opened for writing"))
    stores = Stores(tmp_path / "registry.db", only_reading=True)

    assert stores.read(lambda connection: connection.execute("SELECT 1").get) == 1
    with pytest.raises(RegistryError, match="readonly"):
        stores.read(lambda connection: connection.execute("DELETE FROM source").fetchall())
    stores.close()


def test_a_registry_that_was_deleted_is_neither_written_nor_made_again(tmp_path: Path):
    """Else a request is accepted into a file that no process will ever open."""
    file = tmp_path / "registry.db"
    stores = Stores(file)
    stores.write(one)
    assert asyncio.run(stores.read_little(one)) == stores.read(one) == 1
    file.unlink()

    for work in (stores.write, stores.read, lambda work: asyncio.run(stores.read_little(work))):
        with pytest.raises(RegistryError, match="which is not there"):
            work(one)
    assert not file.exists()

    SqliteDatabase(file).open().close()
    assert stores.write(one) == asyncio.run(stores.read_little(one)) == 1
    stores.close()
