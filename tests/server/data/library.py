"""A registry that the API reads, filled without a crawl."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.http import iso_last_modified
from tests.registry.build import begin_registry
from tests.server.api_client import application, ask

NOW = 1_750_000_000  #: 2025-06-15T15:06:40Z
RECORD = {"source": 1, "first_run": 1, "first_seen": NOW - 9}
STATE = {
    "reached_run": 1, "visited_run": 1, "seen_run": 1, "depth": 1, "status": 2, "standing": 2,
    "http_status": 200, "effective_status": 200,
}  # fmt: skip


class Library:
    """A registry, and an API that reads it."""

    def __init__(self, place: Path | str, folder: Path) -> None:
        self.now = float(NOW)
        self.place = place
        self._folder = folder
        begin_registry(place)
        self.database = registry_database(place)
        self.connection = self.database.open()
        self.app = self.server()
        self._last = 0

    def server(self, **run: object) -> ASGIApp:
        """One more server on this registry; `run` are fields of Options."""
        return application(
            self._folder,
            clock=lambda: self.now,
            run={"registry": self.place, **run},
            jobs_limit=1_000_000,
            data_limit=1_000_000,
            monitoring_limit=1_000_000,
        )

    def get(self, path: str, **given: Any) -> httpx.Response:
        return ask(self.app, "GET", path, **given)

    def read(self, path: str, **given: Any) -> Any:
        answer = self.get(path, **given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(
        self,
        url: str,
        at: int | None = NOW,
        *,
        record: Mapping[str, object] | None = None,
        **state: object,
    ) -> str:
        """Store an address that was visited at `at`; return its url_hash."""
        (key,) = self.put_all([(url, at)], record=record, **state)
        return key

    def put_all(
        self,
        urls: list[tuple[str, int | None]],
        *,
        record: Mapping[str, object] | None = None,
        **state: object,
    ) -> list[str]:
        """Store addresses with the times of their visits; return their url_hash."""
        with transaction(self.connection):
            self.connection.execute(
                "INSERT INTO source (no, name, kind, created_at) VALUES (1, 'one', 'site', 0),"
                " (2, 'two', 'site', 0) ON CONFLICT DO NOTHING"
            )
            self.connection.execute(
                "INSERT INTO run (no, source, number, started_at, finished_at, state, complete)"
                " VALUES (1, 1, 1, 1, 2, 4, TRUE) ON CONFLICT DO NOTHING"
            )
            for host in sorted({url_host_key(url) for url, _ in urls}):
                self.connection.execute(
                    "INSERT INTO host (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (host,)
                )
            hosts = dict(self.connection.execute("SELECT name, no FROM host").fetchall())
            records, states, keys = [], [], []
            for url, at in urls:
                self._last += 1
                digest = hashlib.sha256(url.encode()).digest()
                common = {"no": self._last, "host": hosts[url_host_key(url)]}
                fields = RECORD | common | {"id": digest, "url": url} | dict(record or {})
                of_file = not url.startswith("http")
                date = str(fields.get("last_modified", ""))
                fields["modified"] = iso_last_modified(date, NOW, of_file=of_file)
                records.append(fields)
                states.append(STATE | common | {"last_checked": at} | state)
                keys.append(digest.hex())
            self._insert("record", records)
            self._insert("state", states)
        return keys

    def _insert(self, table: str, rows: list[dict[str, object]]) -> None:
        self.connection.fill(table, list(rows[0]), [tuple(row.values()) for row in rows])

    def execute(self, statement: str, values: Any = ()) -> list[Any]:
        with transaction(self.connection):
            return self.connection.execute(statement, values).fetchall()

    def plan(self, statement: str, values: Mapping[str, object]) -> list[str]:
        """Return the steps by which the database answers a statement."""
        if self.connection.dialect == "sqlite":
            rows = self.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            return [row[3] for row in rows]
        # Without index a few rows are read faster.
        self.connection.execute("SET enable_seqscan = off")
        rows = self.connection.execute(f"EXPLAIN (COSTS OFF) {statement}", values).fetchall()
        self.connection.execute("SET enable_seqscan = on")
        return [row[0].strip() for row in rows]

    def close(self) -> None:
        self.connection.close()
