"""The tool that lists what changed."""

import pytest

from smartcrawl.model.urls import url_item_id
from smartcrawl.registry.connection import transaction
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.mcp.reading import McpRefusalError, mcp_changes
from tests.registry.build import Desk
from tests.server.test_change_routes import GUIDE, HASH, NEW, OLD, desk

__all__ = ["desk"]  # a fixture


def test_changes_of_the_last_run_are_listed(desk: Desk):
    new, modified, lost = mcp_changes(desk.connection, "last").changes

    assert [one.url for one in (new, modified, lost)] == [NEW, GUIDE, OLD]
    assert [one.kind for one in (new, modified, lost)] == ["new", "modified", "lost"]
    assert (modified.words_added, modified.headings) == (2, [""])
    assert modified.lines[-1] == "+ other words"
    assert modified.id == url_item_id("url", bytes.fromhex(HASH))
    assert str(lost.why).startswith("answered 404")


def test_a_cursor_leads_to_the_rest(desk: Desk):
    first = mcp_changes(desk.connection, "2000-01-01", limit=4)
    rest = mcp_changes(desk.connection, "2000-01-01", limit=4, cursor=first.next_cursor)

    assert (len(first.changes), len(rest.changes), rest.next_cursor) == (4, 2, None)
    whole = mcp_changes(desk.connection, "2000-01-01")
    assert first.changes + rest.changes == whole.changes


def test_text_of_pages_shows_what_is_not_seen(desk: Desk):
    with transaction(desk.connection):
        desk.connection.execute("UPDATE content SET title = 'a\u202eb'").fetchall()

    assert mcp_changes(desk.connection, "last").changes[0].title == "a\\u202eb"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"since": "yesterday"}, "is not a run or a time"),
        ({"since": "last", "cursor": "x"}, "cursor must be the next_cursor"),
        ({"since": "last", "source": "nobody"}, "nobody"),
    ],
)
def test_wrong_arguments_are_refused(desk: Desk, given: dict[str, str], why: str):
    with pytest.raises(McpRefusalError, match=why):
        mcp_changes(desk.connection, **given)


def test_changes_of_a_private_source_need_a_key_that_reads_it(desk: Desk):
    with transaction(desk.connection):
        desk.connection.execute("UPDATE source SET visibility = 'private'").fetchall()

    assert mcp_changes(desk.connection, "last", reader=Reader()).changes == []
    of_docs = Reader(sources=frozenset({"docs"}))
    assert len(mcp_changes(desk.connection, "last", reader=of_docs).changes) == 3
    with pytest.raises(McpRefusalError):
        mcp_changes(desk.connection, "last", source="docs", reader=Reader())
