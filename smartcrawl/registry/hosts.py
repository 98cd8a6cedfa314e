"""The hosts that are known, and which of them the operator blocked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from smartcrawl.registry.database import connect, transaction, translated
from smartcrawl.registry.reports import iso
from smartcrawl.urls import display

_HOSTS = """
WITH page (host, number) AS (
    SELECT r.host, count(*) FROM record r JOIN source o ON o.no = r.source
     WHERE :sources = '[]' OR o.name IN (SELECT value FROM json_each(:sources))
     GROUP BY r.host)
SELECT h.name, coalesce(p.number, 0), h.pages_crawled, h.pages_failed, h.crawl_delay_ms,
       h.robots_fetched_at, h.is_blocked, h.block_reason
  FROM host h LEFT JOIN page p ON p.host = h.no
 WHERE :sources = '[]' OR p.number > 0
 ORDER BY h.name
"""
_BLOCK = """
INSERT INTO host (name, display, is_blocked, block_reason) VALUES (?, ?, 1, ?)
ON CONFLICT (name) DO UPDATE SET is_blocked = 1, block_reason = excluded.block_reason
"""
_UNBLOCK = "UPDATE host SET is_blocked = 0, block_reason = NULL WHERE name = ? AND is_blocked = 1"

HOST_KEYS = (
    "host", "pages", "pagesCrawled", "pagesFailed", "errorRate", "crawlDelayMs",
    "robotsFetchedAt", "blocked", "blockReason",
)  # fmt: skip


def hosts(connection: apsw.Connection, *, sources: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield every host by name; with ``sources`` those that have pages of them."""
    row: Any  # apsw gives each column as any of SQLite's types
    for row in connection.execute(_HOSTS, {"sources": json.dumps(list(sources))}):
        name, pages, crawled, failed, delay, robots, blocked, reason = row
        rate = round(failed / (crawled + failed), 4) if crawled + failed else 0.0
        values = (name, pages, crawled, failed, rate, delay, iso(robots), bool(blocked), reason)
        yield dict(zip(HOST_KEYS, values, strict=True))


def block(path: Path, host: str, reason: str | None) -> None:
    """Block a host from the next run on; one that is not known yet is added.

    Raises:
        RegistryError: the registry cannot be written.
    """
    shown = display(f"http://{host}").removeprefix("http://")
    with translated(path, "write"):
        connection = connect(path)
        with transaction(connection):
            connection.execute(_BLOCK, (host, shown if shown != host else None, reason))
        connection.close()


def unblock(path: Path, host: str) -> bool:
    """Let a host be asked again from the next run on; return whether it was blocked.

    Raises:
        RegistryError: the registry cannot be written.
    """
    with translated(path, "write"):
        connection = connect(path)
        with transaction(connection):
            connection.execute(_UNBLOCK, (host,))
            changed = bool(connection.changes())
        connection.close()
    return changed
