"""Pages out of rows of the registry: each column in its field."""

import pytest

from smartcrawl.model.pages import NAMES_SIGNED, NEEDS_SIGNATURE, Page, PageRecord, PageState
from smartcrawl.rules.model import Outcome, Standing, Status
from tests.registry.build import Desk

URL = "http://a.example/"
RECORD = {
    "etag": '"1"',
    "last_modified": "Mon",
    "body_hash": b"b" * 32,
    "content_length": 101,
    "configuration": 102,
    "verified_at": 104,
    "canonical_no": 105,
    "signs": 3,
    "redirect_target": "http://a.example/b",
}
STATE = {
    "standing": 1,
    "status": 3,
    "effective_status": 201,
    "http_status": 202,
    "visited_run": 203,
    "attempts": 204,
    "last_checked": 205,
    "next_visit": 206,
    "unchanged_count": 207,
    "error_count": 208,
    "lost_count": 209,
    "gone_count": 210,
    "lost_since": 211,
    "gone_since": 212,
    "etag_marks": 213,
}


def test_each_column_of_a_row_is_in_its_field(desk: Desk):
    desk.open()
    desk.index(URL, "some words")
    number = desk.number(URL)
    content = desk.value("SELECT content FROM record WHERE no = ?", (number,))
    for table, values in (("record", RECORD), ("state", STATE)):
        columns = ", ".join(f"{column} = ?" for column in values)
        statement = f"UPDATE {table} SET {columns} WHERE no = ?"
        desk.connection.execute(statement, (*values.values(), number))
    desk.connection.execute("UPDATE links SET scope = 301, targets = ?", (b"\1\0\0\0",))

    [page] = desk.readers.pages.pages([number], 0)

    record = PageRecord(
        etag='"1"',
        last_modified="Mon",
        body_hash=b"b" * 32,
        content=content,
        content_length=101,
        configuration=102,
        snapshot=None,
        verified_at=104,
        canonical_no=105,
        scope=301,
        targets=b"\1\0\0\0",
        first_run=desk.run.no,
        signs=NAMES_SIGNED | NEEDS_SIGNATURE,
        noted=True,
        moved=True,
        was_held=True,
    )
    assert page.record == record
    expected = STATE | {"standing": Standing.LINKS, "status": Status(3)}
    assert page.state == PageState(**expected)
    assert isinstance(page.state.standing, Standing)
    assert isinstance(page.state.status, Status)
    assert (page.url, page.host, page.depth, page.kind) == (URL, "a.example", 0, 0)
    flags = (page.record.noted, page.record.moved, page.record.was_held, page.state.ordered)
    assert flags == (True, True, True, False)
    assert {type(flag) for flag in flags} == {bool}


def test_an_order_and_its_generation_are_of_the_state(desk: Desk):
    desk.open()
    desk.index(URL, "some words")
    number = desk.number(URL)
    desk.connection.execute(
        "INSERT INTO item (no, generation, processed, requested, revision) VALUES (?, 7, 3, ?, 1)"
        " ON CONFLICT (no) DO UPDATE SET generation = 7, processed = 3",
        (number, False),
    )
    [page] = desk.readers.pages.pages([number], 0)
    assert (page.state.generation, page.state.ordered) == (7, True)


def test_a_new_address_has_the_defaults(desk: Desk):
    desk.open()
    [number] = desk.add(URL)
    [page] = desk.readers.pages.pages([number], 0)
    assert page.record == PageRecord(first_run=desk.run.no)
    assert page.state == PageState()
    assert page.plan is not Page(2, URL, "a.example", 0).plan


@pytest.mark.parametrize(
    ("outcome", "status", "signs"),
    [(Outcome.CHANGED, 200, NEEDS_SIGNATURE), (Outcome.NOT_FOUND, 404, 0)],
)
def test_only_a_body_read_under_a_signature_needs_one(
    desk: Desk, outcome: Outcome, status: int, signs: int
):
    desk.open()
    visit = desk.visit(URL, "some words", outcome=outcome, status=status)
    visit.page.plan.signed = f"{URL}?X-Amz-Signature=abc"
    desk.write(visit)

    [page] = desk.readers.pages.pages([desk.number(URL)], 0)
    assert page.record.signs == signs
