"""Rows of snapshots: shared by pages, lost together, and never taken for another's."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import apsw
import pytest

from smartcrawl.model.batches import Address, Batch
from smartcrawl.model.exceptions import SnapshotMissingError
from smartcrawl.model.pages import Page, PageAnswer, ParsedBody, Visit
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.commit.snapshots import (
    Snapshots,
    delete_lost_snapshot_row,
    mark_snapshot_folder,
    release_snapshot_row,
)
from smartcrawl.registry.database.sqlite import connect_sqlite, migrate
from smartcrawl.rules.model import Outcome
from tests.registry.build import Desk

HASH, OTHER = bytes(32), bytes([1] * 32)
PATH = "2026/11/21/8c1f.html.gz"


@pytest.fixture
def connection(file: Path) -> Iterator[apsw.Connection]:
    file.parent.mkdir(exist_ok=True)
    connection = connect_sqlite(file, create=True)
    migrate(connection, file)
    yield connection
    connection.close()


@pytest.fixture
def snapshots(connection: apsw.Connection, tmp_path: Path) -> Iterator[Snapshots]:
    """Pages 1 and 2 share snapshot 7."""
    found = Snapshots(SnapshotStore(str(tmp_path / "store")), connection)
    row = "INSERT INTO snapshot (no, store, body_hash, path, at) VALUES (7, 1, ?, ?, 0)"
    connection.execute(row, (HASH, PATH))
    for no in (1, 2):
        connection.execute(
            "INSERT INTO record (no, source, id, url, host, first_run, first_seen, body_hash,"
            " snapshot) VALUES (?, 1, ?, ?, 1, 1, 0, ?, 7)",
            (no, bytes([no]), f"http://a.example/{no}", HASH),
        )
    yield found
    found.close()


def held(connection: apsw.Connection) -> list[object]:
    return [no for (no,) in connection.execute("SELECT snapshot FROM record ORDER BY no")]


@pytest.mark.covers("M-48")
def test_a_lost_snapshot_is_lost_for_all_who_share_it(
    connection: apsw.Connection, snapshots: Snapshots
):
    assert snapshots.find(connection, 2).path == PATH

    delete_lost_snapshot_row(connection, 7, HASH)

    assert held(connection) == [None, None]
    assert connection.execute("SELECT count(*) FROM snapshot").get == 0
    with pytest.raises(SnapshotMissingError, match="shared with another page is lost"):
        snapshots.find(connection, 2)


def test_a_number_that_was_given_again_is_another_snapshot(
    connection: apsw.Connection, snapshots: Snapshots
):
    """A page that was loaded before may still name the number of what was lost meanwhile."""
    delete_lost_snapshot_row(connection, 7, OTHER)
    assert held(connection) == [7, 7]

    connection.execute("UPDATE record SET body_hash = ? WHERE no = 2", (OTHER,))
    assert snapshots.find(connection, 1).body_hash == HASH
    with pytest.raises(SnapshotMissingError):
        snapshots.find(connection, 2)


def test_what_a_page_holds_does_not_expire(connection: apsw.Connection, snapshots: Snapshots):
    connection.execute("UPDATE snapshot SET released = 0")
    assert snapshots.expire(connection, 1) == 0
    connection.execute("UPDATE record SET snapshot = NULL")
    assert snapshots.expire(connection, 1) == 1


def test_a_body_that_comes_again_is_held_as_if_it_had_stayed(
    connection: apsw.Connection, snapshots: Snapshots
):
    """Else it would go without its retention when it is let go of the next time."""
    connection.execute("UPDATE record SET snapshot = NULL")
    release_snapshot_row(connection, 7, 100)
    assert connection.execute("SELECT released FROM snapshot").get == 100
    visit = Visit(
        cast("Page", None),
        Outcome.CHANGED,
        answer=PageAnswer(body=b"body"),
        parsed=ParsedBody(body_hash=HASH),
    )

    snapshots.note(connection, Batch(visits=[visit]), {}, 200)

    assert (visit.snapshot, visit.snapshot_error) == (7, None)
    assert connection.execute("SELECT released FROM snapshot").get is None


def test_in_one_batch_a_loss_comes_after_what_shares_it(desk: Desk):
    """Else what is written later would refer to a snapshot that is forgotten."""
    first, second = "http://a.example/1", "http://a.example/2"
    desk.index(first, "one text")
    held = desk.page(first).record.body_hash
    row = "INSERT INTO snapshot (no, store, body_hash, path, at) VALUES (7, 1, ?, ?, 0)"
    desk.connection.execute(row, (held, PATH))
    desk.connection.execute("UPDATE record SET snapshot = 7")
    desk.seal()
    desk.open()
    desk.reach(first)
    lost = desk.visit(
        first, outcome=Outcome.NOT_MODIFIED, extracted_again=True, snapshot_error="it is damaged"
    )

    desk.write(lost, desk.visit(second, "one text", snapshot=7))

    assert desk.rows("SELECT snapshot FROM record ORDER BY no") == [(None,), (None,)]
    assert desk.rows("SELECT no FROM snapshot") == []


BODIES = {name: f"body {name}".encode() for name in "abcd"}
HASHES = {name: hashlib.sha256(body).digest() for name, body in BODIES.items()}


def stored(folder: Path, names: str) -> SnapshotStore:
    """A store with a body at a path of its own for each name."""
    store = SnapshotStore(str(folder))
    for name in names:
        store.put(path_of(name), BODIES[name])
    return store


def path_of(name: str) -> str:
    return f"2026/11/21/8c1{name}.html.gz"


def add(connection: apsw.Connection, no: int, store: int, name: str, path: str = "") -> None:
    """A snapshot, and a page that holds it, of the same number."""
    connection.execute(
        "INSERT INTO snapshot (no, store, body_hash, path, at) VALUES (?, ?, ?, ?, 0)",
        (no, store, HASHES[name], path or path_of(name)),
    )
    connection.execute(
        "INSERT INTO record (no, source, id, url, host, first_run, first_seen, body_hash, snapshot)"
        " VALUES (?, 1, ?, ?, 1, 1, 0, ?, ?)",
        (no, bytes([no]), f"http://a.example/{no}", HASHES[name], no),
    )


def stores(connection: apsw.Connection, *urls: str) -> None:
    connection.executemany("INSERT INTO store (url) VALUES (?)", [(url,) for url in urls])


def test_the_rows_of_former_spellings_are_joined(connection: apsw.Connection, tmp_path: Path):
    """As older versions left them: each spelling and each place had rows of its own."""
    store = stored(tmp_path / "real", "abc")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    stores(connection, link.as_uri(), store.url, (tmp_path / "gone").as_uri(), "s3://bucket/x")
    add(connection, 1, 1, "a")
    add(connection, 2, 2, "a", path_of("b"))  # the same body, stored under both spellings
    add(connection, 3, 1, "c")
    add(connection, 4, 2, "d", path_of("c"))  # it was overwritten by the other spelling
    add(connection, 5, 3, "b", path_of("b").replace("/21/", "/20/"))
    store.put(path_of("b").replace("/21/", "/20/"), BODIES["b"])
    add(connection, 6, 4, "d")
    connection.execute("UPDATE snapshot SET released = 5 WHERE no = 2")

    found = Snapshots(store, connection)

    urls = connection.execute("SELECT url FROM store ORDER BY no").fetchall()
    assert urls == [(store.url,), ("s3://bucket/x",)]
    assert held(connection) == [2, 2, 3, None, 5, 6]
    assert connection.execute("SELECT released FROM snapshot WHERE no = 2").get is None
    assert [found.is_readable(connection, no) for no in (2, 3, 5, 6)] == [True, True, True, False]
    found.close()


def test_a_place_with_files_of_its_own_is_no_former_one(
    connection: apsw.Connection, tmp_path: Path
):
    """A copy that was made to try something out stays another store."""
    store = stored(tmp_path / "today", "a")
    stored(tmp_path / "other", "a")
    stores(connection, (tmp_path / "other").as_uri(), (tmp_path / "gone").as_uri())
    add(connection, 1, 1, "a")
    add(connection, 2, 2, "b")  # nothing of it is here

    Snapshots(store, connection).close()

    rows = connection.execute("SELECT no, url FROM store ORDER BY no").fetchall()
    assert [no for no, _ in rows] == [1, 2, 3]
    assert rows[2][1] == store.url


def test_a_folder_is_known_by_its_mark(connection: apsw.Connection, tmp_path: Path):
    """Wherever it is now, and whatever is at its former place."""
    folder = tmp_path / "place"
    store = stored(folder, "a")
    first = Snapshots(store, connection)
    leftovers = first.leftovers()
    assert leftovers is not None
    add(connection, 1, 1, "a")
    leftovers.clear(connection, 1, 9, resumed=False, database=str(tmp_path / "registry.db"))
    folder.rename(tmp_path / "moved")
    other = stored(folder, "b")
    mark_snapshot_folder(folder)

    assert not Snapshots(other, connection).is_readable(connection, 1)
    moved = Snapshots(SnapshotStore(str(tmp_path / "moved")), connection)

    assert moved.is_readable(connection, 1)
    assert connection.execute("SELECT url FROM store ORDER BY no").fetchall() == [
        ((tmp_path / "moved").as_uri(),),
        (folder.as_uri(),),
    ]


def put(snapshots: Snapshots, connection: apsw.Connection, name: str) -> str:
    """Store a body of page 9 on one day; return its path."""
    page = SimpleNamespace(no=9)
    visit = Visit(
        cast("Page", page),
        Outcome.CHANGED,
        answer=PageAnswer(body=BODIES[name], content_type="text/html"),
        parsed=ParsedBody(body_hash=HASHES[name]),
    )
    address = cast("Address", SimpleNamespace(no=9, id=b"\x8c\x1f"))
    paths = snapshots.put(connection, Batch(visits=[visit], addresses=[address]), 1_795_219_200)
    assert visit.snapshot_error is None
    return paths[HASHES[name]]


def test_files_of_other_registries_are_never_overwritten(
    connection: apsw.Connection, tmp_path: Path
):
    folder = tmp_path / "store"
    snapshots = Snapshots(SnapshotStore(str(folder)), connection)
    taken = [PATH, PATH.replace(".html", f"-{HASHES['a'][:4].hex()}.html")]
    whole = PATH.replace(".html", f"-{HASHES['a'].hex()}.html")

    assert put(snapshots, connection, "a") == taken[0]
    assert put(snapshots, connection, "a") == taken[1], "no row names the first one"
    assert put(snapshots, connection, "a") == taken[1], "it has the body already"
    (folder / taken[1]).write_bytes(b"another registry's")
    assert put(snapshots, connection, "a") == whole

    assert (folder / taken[1]).read_bytes() == b"another registry's"
    store = SnapshotStore(str(folder))
    assert store.get(taken[0], HASHES["a"]) == store.get(whole, HASHES["a"]) == BODIES["a"]
    assert store.put_many([(taken[1], BODIES["a"])], new=True) != [None]
    assert (folder / taken[1]).read_bytes() == b"another registry's"
