"""What rendered pages were made of, in the registry (ADR 149)."""

from dataclasses import replace
from typing import Any

import pytest

from smartcrawl.model.batches import Batch
from smartcrawl.model.pages import VisitAttempt
from smartcrawl.model.rendered import (
    DataRow,
    Need,
    NewRendering,
    StoredRendering,
    pack_page_needs,
    unpack_page_needs,
)
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.rendered import count_page_needs, delete_unused_data_rows
from smartcrawl.rules.model import Outcome
from tests.registry.build import Desk

HOME, OTHER = "http://a.example/", "http://a.example/other"
MENU = DataRow(
    2**62 + 1, "GET", "http://a.example/menu?_={ms}", "Fetch", {"accept": "*/*"}, "", False, 200,
    '"1"', None, b"d" * 32, 2**62 + 7, b"l" * 16, {".a": 1},
)  # fmt: skip
POST = DataRow(
    5, "POST", "http://a.example/q", "XHR", {}, "{}", True, 404, None, "Mon", b"e" * 32, 9, b""
)


def render(desk: Desk, url: str, *rows: DataRow, always: bool = False, **fields: object) -> int:
    """Store a page that is made of some data."""
    visit = desk.visit(url, f"text of {url}", **fields)
    visit.attempt = VisitAttempt(visit.page)
    visit.attempt.rendering = NewRendering(url, b"shown", always, list(rows))
    batch = Batch(visits=[visit], data={row.no: row for row in rows})
    desk.committed(batch, None, 1_750_000_000)
    return desk.number(url)


def test_a_page_has_the_versions_that_it_was_made_of(desk: Desk):
    desk.open()
    home = render(desk, HOME, MENU, POST)
    other = render(desk, OTHER, replace(MENU, version=8, etag='"2"', status=203, noise={}))
    readers = desk.readers
    newest = replace(MENU, version=8, etag='"2"', status=203, noise={})
    needs = (Need(newest, MENU.version), Need(POST, POST.version))
    assert readers.rendered.renderings([home, other, 99]) == {
        home: StoredRendering(b"shown", False, needs),
        other: StoredRendering(b"shown", False, (Need(newest, 8),)),
    }
    assert readers.rendered.rows({POST.no, 77}) == {POST.no: POST}
    assert readers.rendered.rows(set()) == {}
    assert count_page_needs(desk.connection, home) == 2
    assert count_page_needs(desk.connection, 99) == 0


def test_a_page_that_is_rendered_at_each_visit_is_confirmed_by_nothing(desk: Desk):
    desk.open()
    home = render(desk, HOME, MENU, always=True)
    assert desk.readers.rendered.renderings([home])[home].always
    assert count_page_needs(desk.connection, home) == 0


def test_what_was_rendered_is_of_the_past_where_another_body_is_stored(desk: Desk):
    desk.open()
    home = render(desk, HOME, MENU)
    desk.open()
    desk.index(HOME, "a shell that no browser showed")
    assert desk.readers.rendered.renderings([home]) == {}
    assert count_page_needs(desk.connection, home) == 0


def test_a_rendering_that_is_not_stored_changes_nothing(desk: Desk):
    desk.open()
    home = render(desk, HOME, MENU)
    desk.open()
    render(desk, HOME, POST, outcome=Outcome.UNPROCESSABLE, status=1219)
    [need] = desk.readers.rendered.renderings([home])[home].needs
    assert need.row == MENU


def test_requests_that_no_page_makes_any_more_are_deleted(desk: Desk):
    run = desk.open()
    home = render(desk, HOME, MENU, POST)
    desk.open()
    render(desk, HOME, MENU, body="other")
    with transaction(desk.connection):
        assert delete_unused_data_rows(desk.connection, run.source) == 1
        assert delete_unused_data_rows(desk.connection, run.source) == 0
    assert [need.row for need in desk.readers.rendered.renderings([home])[home].needs] == [MENU]


class Watched:
    """A connection that keeps the statements that are run."""

    def __init__(self, desk: Desk) -> None:
        self._connection = desk.connection
        self.statements: list[str] = []

    def execute(self, statement: str, *values: Any) -> Any:
        self.statements.append(statement)
        return self._connection.execute(statement, *values)


def test_no_record_is_read_for_a_source_without_rendered_pages(desk: Desk):
    run = desk.open()
    desk.index(HOME, "a text that its server sent")
    watched: Any = Watched(desk)
    assert delete_unused_data_rows(watched, run.source) == 0
    assert not any("record" in statement for statement in watched.statements)


def test_packed_needs_without_the_last_version_are_no_needs():
    packed = pack_page_needs([(1, 2), (3, 4)])

    with pytest.raises(ValueError, match="shorter"):
        unpack_page_needs(packed[:-8])
