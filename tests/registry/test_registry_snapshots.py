"""Rows of snapshots: shared by pages, lost together, and never taken for another's."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import apsw
import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import SnapshotMissingError
from smartcrawl.model.pages import Page, PageAnswer, ParsedBody, Visit
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.commit.snapshots import (
    Snapshots,
    delete_lost_snapshot_row,
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
