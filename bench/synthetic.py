"""Synthetic registries of any size, made without a crawl."""

import hashlib
import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path

import apsw

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.runs.runs import RunRequest

SEED = "https://www.example.com/"
PENDING = 1_000
CHILDREN = 10  #: of a page, by which every page is reached
NEAR = 18  #: pages to both sides that a page links, too


def address(no: int, hosts: int = 1) -> str:
    """Return the address of a record of ``fill``."""
    if no == 1:
        return SEED
    host = f"www{no % hosts}.example.com" if no % hosts else "www.example.com"
    url = f"https://{host}/docs/section-{no % 997:03d}/page-{no:07d}/index.html"
    return f"{url}?v={no % 7}&p=1"


def fill(folder: Path, count: int, *, hosts: int = 1, a_second: int = 0) -> None:
    """Write a registry of ``count`` addresses whose last run was interrupted.

    ``hosts``: the number of hosts that share them; ``a_second``: pages visited in each second, 0:
    all of them in the same one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    registry = open_registry(folder / "registry.db", EMBEDDED)
    run_ = registry.open_run(RunRequest("www.example.com", "site"), 1_700_000_000)
    connection = registry.connection
    connection.execute("PRAGMA synchronous = OFF").fetchall()

    def records():
        for no in range(1, count + 1):
            url = address(no, hosts)
            key = hashlib.sha256(url.encode()).digest()
            host = 1 + no % hosts
            yield (no, run_.source, key, url, host, 1, run_.no, 1_700_000_000, f'"{no:08x}-7d21"',
                   "Sat, 01 Nov 2025 10:00:00 GMT", no, hashlib.sha256(key).digest(),
                   "text/html", 29_312, 1, run_.no, 1_700_000_000, 1_700_000_000)  # fmt: skip

    def states():
        for no in range(1, count + 1):
            visited = 0 if 1 < no <= PENDING + 1 else run_.no
            visit = 1_700_000_000 + (no // a_second if a_second else 0)
            known = (1 + no % 6, 2, 2, 1, 200, 200, visit, 1 + no % hosts)
            yield (no, run_.no, visited, visited, 1, *known)

    with transaction(connection):
        names = [("www.example.com",), *((f"www{no}.example.com",) for no in range(1, hosts))]
        connection.executemany("INSERT INTO host (name) VALUES (?)", names)
        connection.executemany(
            "INSERT INTO record (no, source, id, url, host, discovered_from, first_run, first_seen,"
            " etag, last_modified, content, body_hash, content_type, content_length, configuration,"
            " changed_run, last_changed, last_indexed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            records(),
        )
        connection.executemany(
            "INSERT INTO state (no, reached_run, visited_run, seen_run, number, depth, status,"
            " standing, outcome, http_status, effective_status, last_checked, host)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            states(),
        )
        connection.execute("UPDATE sequence SET value = ? WHERE name = 'address'", (count,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    registry.close()


def multiply(folder: Path, count: int) -> None:
    """Make ``count`` known pages of the two of a finished crawl: the second is copied.

    The crawl is that of a page and of ``d/2.html``, which it links; page n becomes ``d/n.html``.
    Each page links 10 that it leads to and 36 beside it, as stored links, none of which has a text.
    """
    connection = apsw.Connection(str(folder / "registry.db"))
    connection.execute("PRAGMA synchronous = OFF").fetchall()
    second = connection.execute("SELECT url FROM record WHERE no = 2").get
    base = second.removesuffix("2.html")
    scope = connection.execute("SELECT scope FROM links WHERE no = 1").get

    def records() -> Iterator[tuple[int, bytes, str, int, bytes]]:
        for no in range(3, count + 1):
            url = f"{base}{no}.html"
            key = hashlib.sha256(url.encode()).digest()
            yield no, key, url, no, hashlib.sha256(key).digest()

    def links() -> Iterator[tuple[int, int, int, bytes]]:
        for no in range(1, count + 1):
            below = range((no - 1) * CHILDREN + 2, min(no * CHILDREN + 1, count) + 1)
            beside = range(max(1, no - NEAR), min(no + NEAR, count) + 1)
            targets = array("I", [*below, *beside])
            yield no, scope, len(targets), targets.tobytes()

    changed = {"no": "?", "id": "?", "url": "?", "content": "?", "body_hash": "?"}
    with transaction(connection):
        copied = _copied(connection, "record", changed)
        connection.executemany(copied, records())
        copied = _copied(connection, "state", {"no": "?"})
        connection.executemany(copied, ((no,) for no in range(3, count + 1)))
        connection.execute("DELETE FROM links")
        connection.executemany("INSERT INTO links VALUES (?, ?, ?, ?, x'')", links())
        connection.execute("UPDATE sequence SET value = ? WHERE name = 'address'", (count,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def _copied(connection: apsw.Connection, table: str, changed: dict[str, str]) -> str:
    """Return the statement that copies row 2 of a table with other values, in the order given."""
    others = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    others = [name for name in others if name not in changed]
    columns = ", ".join([*changed, *others])
    values = ", ".join([*changed.values(), *others])
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} WHERE no = 2"
