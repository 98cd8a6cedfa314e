"""What changed, over HTTP: the list with its cursor, the feed, and differences."""

import asyncio
import hashlib
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import from_thread, to_thread
from lxml import etree

from smartcrawl.model.urls import normalize_url, url_digest
from smartcrawl.registry.commit.snapshot_store import SnapshotStore, stored_snapshot_path
from smartcrawl.registry.connection import transaction
from smartcrawl.server.explained import changes as change_routes
from smartcrawl.server.explained.answers import Changes, PageDiff
from smartcrawl.server.keys import Scope, make_api_key
from tests.modules import ROOT
from tests.registry.build import LATER, NOW, Desk
from tests.server.api_client import application, ask, error_of
from tests.server.two_runs import GUIDE, HOME, NEW, OLD, two_runs

HASH = url_digest(normalize_url(GUIDE)).hex()
DIFF = f"/api/v1/documents/{HASH}/diff"
FEED = "/api/v1/changes.atom"


def stored(desk: Desk, folder: Path, text: str) -> bytes:
    """Store a body, and return its hash."""
    body = f"<title>Guide</title><h1>Guide</h1><p>{text}</p>".encode()
    digest = hashlib.sha256(body).digest()
    store = SnapshotStore(str(folder / "snapshots"))
    path = stored_snapshot_path(NOW, digest, "text/html")
    store.put(path, body)
    with transaction(desk.connection):
        desk.connection.execute(
            "INSERT INTO store (url) VALUES (?) ON CONFLICT (url) DO NOTHING", (store.url,)
        )
        desk.connection.execute(
            "INSERT INTO snapshot (store, body_hash, path, content_type, at) SELECT no, ?, ?, ?, ?"
            " FROM store",
            (digest, path, "text/html", NOW),
        )
    return digest


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Run 2 found a page new, one modified, and one lost."""
    desk = two_runs(tmp_path)
    yield desk
    desk.close()


def read(folder: Path, path: str, *, expect: int = 200, **given: Any) -> httpx.Response:
    run = {"snapshot_store": str(folder / "snapshots")}
    app = application(folder, clock=lambda: float(LATER + 60), run=run)
    answer = ask(app, "GET", path, **given)
    assert answer.status_code == expect, answer.text
    return answer


def changes(folder: Path, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = read(folder, "/api/v1/changes", params=query).json()
    Changes.model_validate(found)
    return found


def listed(found: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(c["run"], c["kind"], c["url"]) for c in found["changes"]]


LAST = [(2, "new", NEW), (2, "modified", GUIDE), (2, "lost", OLD)]


def test_the_changes_of_the_last_run_are_listed(desk: Desk, tmp_path: Path):
    found = changes(tmp_path)

    assert listed(found) == LAST
    guide = found["changes"][1]
    assert (guide["wordsAdded"], guide["urlHash"]) == (2, HASH)
    assert found["pagination"] == {"limit": 100, "next_cursor": None}
    first = [(1, "new", url) for url in (HOME, GUIDE, OLD)]
    assert listed(changes(tmp_path, since="2000-01-01")) == LAST + first
    assert listed(changes(tmp_path, since="1", source="docs")) == LAST
    assert listed(changes(tmp_path, since="2")) == []


def test_a_cursor_leads_through_all_changes(desk: Desk, tmp_path: Path):
    found, cursor = [], None
    for _ in range(6):
        query = {"since": "2000-01-01", "limit": 1} | ({} if cursor is None else {"cursor": cursor})
        page = changes(tmp_path, **query)
        found += listed(page)
        cursor = page["pagination"]["next_cursor"]

    assert cursor is None
    assert found == listed(changes(tmp_path, since="2000-01-01"))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "yesterday"}, "since"),
        ({"source": "nobody"}, "source"),
        ({"cursor": "x"}, "cursor"),
        ({"limit": "0"}, "limit"),
    ],
)
def test_wrong_parameters_are_named(desk: Desk, tmp_path: Path, query: dict[str, str], field: str):
    answer = read(tmp_path, "/api/v1/changes", expect=400, params=query)

    assert error_of(answer)["details"]["field"] == field


def test_the_feed_is_valid_and_is_sent_once(desk: Desk, tmp_path: Path):
    answer = read(tmp_path, FEED, params={"source": "docs"})

    assert answer.headers["content-type"].startswith("application/atom+xml")
    tree = etree.fromstring(answer.content)
    rules = etree.RelaxNG(etree.parse(ROOT / "tests/data/atom.rng"))
    assert rules.validate(tree), rules.error_log
    assert len(tree.findall("{*}entry")) == 6
    tag = answer.headers["etag"]
    for header in (tag, f'"x", W/{tag}'):
        same = read(
            tmp_path, FEED, expect=304, params={"source": "docs"}, headers={"If-None-Match": header}
        )
        assert (same.content, same.headers["etag"]) == (b"", tag)
    read(tmp_path, FEED, params={"source": "docs"}, headers={"If-None-Match": '"x"'})
    read(tmp_path, FEED, expect=400, params={"source": "nobody"})


def test_a_reader_gives_its_key_as_password(desk: Desk, tmp_path: Path):
    with transaction(desk.connection):
        key, _ = make_api_key(desk.connection, "reader", Scope.READ, LATER)
    app = application(tmp_path, clock=lambda: float(LATER + 60), host="0.0.0.0")

    def status(path: str, name: str, password: str) -> httpx.Response:
        word = b64encode(f"{name}:{password}".encode()).decode()
        return ask(app, "GET", path, headers={"Authorization": f"Basic {word}"})

    assert status(FEED, "anyone", key).status_code == 200
    assert status("/api/v1/changes", "anyone", key).status_code == 401
    for refused in (
        status(FEED, "anyone", "sc_wrong"),
        status(FEED, "anyone", ""),
        ask(app, "GET", FEED),
        ask(app, "GET", FEED, headers={"Authorization": "Basic ???"}),
    ):
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith('Basic realm="smartcrawl"')


def test_a_difference_is_shown_by_words(desk: Desk, tmp_path: Path):
    old, new = (stored(desk, tmp_path, text) for text in ("it glows red", "it glows blue"))
    with transaction(desk.connection):
        desk.connection.execute("UPDATE change SET body = ?", (old,))
        desk.connection.execute("UPDATE record SET body_hash = ? WHERE url = ?", (new, GUIDE))

    found = read(tmp_path, DIFF).json()

    PageDiff.model_validate(found)
    assert (found["before"]["run"], found["after"]["run"]) == (1, 2)
    lines = [line for hunk in found["hunks"] for line in hunk["lines"] if line["sign"] != " "]
    assert [[part["text"] for part in line["parts"]] for line in lines] == [
        ["it glows ", "red"],
        ["it glows ", "blue"],
    ]
    assert read(tmp_path, DIFF, params={"before": "1", "after": "2"}).json() == found
    assert read(tmp_path, DIFF, params={"before": "2"}).json()["hunks"] == []


def test_one_difference_is_computed_at_a_time_and_the_others_hold_no_thread(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    threads = []

    def slow(*_: Any, **__: Any) -> dict[str, Any]:
        time.sleep(0.02)
        limiter = from_thread.run_sync(to_thread.current_default_thread_limiter)
        threads.append(limiter.borrowed_tokens)
        return {}

    monkeypatch.setattr(change_routes, "diff_data", slow)
    transport = httpx.ASGITransport(application(tmp_path), client=("127.0.0.1", 5))

    async def several() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(*(client.get(DIFF) for _ in range(3)))

    assert [answer.status_code for answer in asyncio.run(several())] == [200] * 3
    assert threads == [1, 1, 1]


def test_a_version_that_is_not_kept_is_not_found(desk: Desk, tmp_path: Path):
    lost = error_of(read(tmp_path, DIFF, expect=404))
    far = error_of(read(tmp_path, DIFF, expect=404, params={"before": "9"}))
    other = error_of(read(tmp_path, DIFF.replace(HASH, "0" * 64), expect=404))
    turned = error_of(read(tmp_path, DIFF, expect=400, params={"before": "2", "after": "1"}))
    no_hash = error_of(read(tmp_path, DIFF.replace(HASH, "x"), expect=400))

    assert "SNAPSHOT_RETENTION_DAYS" in lost["details"]["reason"]
    assert far["details"]["reason"] == "there is no run 9; the last one is 2"
    assert other["message"] == "Document not found"
    assert turned["details"]["field"] == "after"
    assert no_hash["details"]["field"] == "url_hash"
