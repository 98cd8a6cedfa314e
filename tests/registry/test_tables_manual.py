"""docs/tables.md has each column of each view, and its queries run."""

import re
from pathlib import Path

import pytest

from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, LONG, Desk
from tests.registry.test_registry_views import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
JOBS = """
    job_id name config seed_urls filters schedule_type cron_expression status pages_crawled
    pages_queued pages_failed bytes_downloaded created_at started_at completed_at
"""
VIEWS = COLUMNS | {"crawl_jobs": JOBS}
SECTIONS = dict(
    re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)
#: Text where the specification has it so; all other times are times in PostgreSQL.
TIMES = {
    "url_frontier": "discovered_at last_crawl_attempt next_crawl_after",
    "crawled_documents": "last_modified crawled_at",
    "outlinks": "discovered_at",
    "domain_stats": "first_crawled_at last_crawled_at robots_txt_fetched_at",
    "crawl_jobs": "created_at started_at completed_at",
    "versions": "created_at",
    "pages": "created_at updated_at",
    "documents": "created_at",
}


def test_the_page_has_every_view():
    assert SECTIONS.keys() == VIEWS.keys()


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_has_every_column_of_a_view(view: str):
    assert re.findall(r"^\| `(\w+)` \|", SECTIONS[view], re.MULTILINE) == VIEWS[view].split()


@pytest.mark.covers("R2-47", "R2-50", "R2-53", "R2-55", "R2-58", "R1-11", "R4-21")
def test_its_queries_run_in_both_databases(desk: Desk):
    home = "https://docs.example.com/"
    desk.index(home, LONG, title="Home")
    desk.index(f"{home}clone", LONG, title="Home")
    desk.write(addresses=[desk.address(f"{home}waits")])
    found = {
        view: desk.rows(statement.replace("CURRENT_TIMESTAMP", _now(desk)))
        for view, statement in _queries(desk).items()
    }

    assert found.keys() == VIEWS.keys()
    assert [row[1] for row in found["url_frontier"]] == [f"{home}waits"]
    assert {row[0] for row in found["crawled_documents"]} == {home, f"{home}clone"}
    assert found["urlword"] == [(f"{home}clone", home)]
    assert found["urlwords"] == [(home, "Home", len(LONG.split()))]
    assert found["versions"] == [("docs", 2)]
    assert [row[0] for row in found["documents"]] == [home]


def _queries(desk: Desk) -> dict[str, str]:
    if desk.connection.dialect == "sqlite":  # the virtual table is one of reports
        desk.connection.execute(
            "CREATE TEMP VIEW outlinks AS SELECT '' target_url, '' target_url_hash"
        )
    return {
        view: statement
        for view, text in SECTIONS.items()
        for statement in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    }


def _now(desk: Desk) -> str:
    """Return the expression of the time of a test, in the form of the view's times."""
    if desk.connection.dialect == "postgres":
        return f"to_timestamp({LATER})"
    return f"strftime('%Y-%m-%dT%H:%M:%SZ', {LATER}, 'unixepoch')"


def test_times_are_times_in_postgresql_and_text_in_sqlite(desk: Desk):
    desk.index("https://docs.example.com/", "words")
    if desk.connection.dialect == "sqlite":
        assert desk.rows("SELECT typeof(discovered_at) FROM url_frontier") == [("text",)]
        return
    for view, names in TIMES.items():
        rows = desk.rows(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name = ?",
            (view,),
        )
        zoned = {name for name, kind in rows if kind == "timestamp with time zone"}
        assert zoned == set(names.split()), view


def test_a_date_that_is_none_spoils_no_query(desk: Desk):
    desk.index("https://docs.example.com/", "words", last_modified="Tue, 31 Feb 2025 12:00:00 GMT")

    (row,) = desk.rows("SELECT url, last_modified FROM crawled_documents")
    assert row[0] == "https://docs.example.com/"
    if desk.connection.dialect == "postgres":
        assert row[1] is None


@pytest.mark.covers("R2-50")
def test_a_sitemap_that_answers_200_says_so(desk: Desk):
    url = "https://docs.example.com/sitemap.xml"
    desk.add(url)
    sitemap = desk.visit(url, "<urlset/>", outcome=Outcome.NOT_ACCEPTABLE, status=200)
    sitemap.kind = 1
    desk.write(sitemap)

    assert desk.rows("SELECT http_status FROM crawled_documents") == [(200,)]
    assert desk.rows("SELECT status FROM urlword") == [(406,)]


@pytest.mark.covers("R1-13")
def test_a_text_that_an_index_elsewhere_has_is_a_document(desk: Desk):
    """Its chunks are in that index; the registry has the text alone."""
    desk.index("https://docs.example.com/", "some words")
    desk.connection.execute("DELETE FROM chunk").fetchall()
    desk.connection.execute("UPDATE content SET txt = 'some words'").fetchall()

    rows = desk.rows("SELECT page_id, content, sort_order, embedding FROM documents")
    assert rows == [(1, "some words", 0, None)]
