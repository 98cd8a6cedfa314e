"""Searches that are made at the same time leave the event loop to other requests."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server import search as module
from smartcrawl.server.stores import READING
from tests.server.api_client import application

SEARCHES = 20


def test_twenty_searches_at_once_leave_the_event_loop_to_other_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All searches stand still; other requests are answered meanwhile."""
    registry_database(tmp_path / "registry.db").open().close()
    app = application(tmp_path, data_limit=10**6, monitoring_limit=10**6)
    began, go_on, threads = threading.Semaphore(0), threading.Event(), list[int]()
    search = module.search_index

    def standing(*asked: Any, **within: Any) -> Any:
        threads.append(threading.get_ident())
        began.release()
        assert go_on.wait(60)
        return search(*asked, **within)

    monkeypatch.setattr(module, "search_index", standing)

    async def ask() -> tuple[list[int], int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
            asked = [
                asyncio.create_task(http.get("/api/Search", params={"q": f"lamp {number}"}))
                for number in range(SEARCHES)
            ]
            try:
                for _ in range(READING):  # as many as there are connections for reading
                    while not began.acquire(blocking=False):
                        await asyncio.sleep(0.001)
                others = [await http.get("/health") for _ in range(SEARCHES)]
                assert not any(search.done() for search in asked)
            finally:
                go_on.set()
            answers = await asyncio.gather(*asked)
        assert [other.status_code for other in others] == [200] * SEARCHES
        return [answer.status_code for answer in answers], threading.get_ident()

    statuses, of_loop = asyncio.run(ask())

    assert statuses == [200] * SEARCHES
    assert len(threads) == SEARCHES
    assert of_loop not in threads
