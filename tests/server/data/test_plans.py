"""What is read for many records: each list and each look-up by an index, in both databases.

The indexes of the specification are on its own tables. Here these are views over other tables,
whose indexes answer the same questions (ADR 55).
"""

from itertools import pairwise

import pytest

from smartcrawl.server.documents import COUNT, DOCUMENT, LATEST, PAGE, Filters
from tests.server.data.library import NOW, Library

BASE = "https://{}.example.com/{}"
COUNT_OF_HOST = 3_000
#: Tables with a row for each address, content or host.
LARGE = ("record", "state", "content", "snapshot", "links", "host")


@pytest.fixture
def full(library: Library) -> Library:
    """A registry of two hosts, half of whose records were visited in one second."""
    for host in ("a", "b"):
        urls = [(BASE.format(host, n), NOW - n * (n % 2)) for n in range(COUNT_OF_HOST)]
        library.put_all(urls)
    library.execute("ANALYZE")
    return library


def aliases(statement: str) -> dict[str, str]:
    """The large tables of a statement by the names that it gives them."""
    words = statement.replace("(", " ").replace(")", " ").replace(",", " ").split()
    named = pairwise(words)
    return {alias: table for table, alias in named if table in LARGE} | {t: t for t in LARGE}


def found_by_index(library: Library, statement: str, **values: object) -> str:
    """Return the plan of a statement that reads no large table whole, nor sorts one."""
    plan = library.plan(statement, values)
    text, known = "\n".join(plan), aliases(statement)
    for step in plan:
        words = step.replace("->", "").split()
        if words[:2] == ["Seq", "Scan"]:
            assert words[words.index("on") + 1] not in LARGE, text
        if words[0] == "SCAN" and "INDEX" not in words:
            assert words[1] not in known, text
    return text


@pytest.mark.covers("R2-51", "E-11")
@pytest.mark.parametrize(
    ("domain", "index"), [(None, "state_checked"), ("a.example.com", "state_host_checked")]
)
def test_pages_of_documents_are_read_in_the_order_of_an_index(
    full: Library, domain: str | None, index: str
):
    """idx_docs_crawled_at and idx_docs_domain."""
    kind = full.connection.dialect, domain is not None
    place = {"at": NOW, "no": 2_000, "limit": 101, "offset": 0}
    values = Filters(domain).values()
    plans = [found_by_index(full, part, **values, **place) for part in PAGE[(*kind, False)]]
    plans.append(found_by_index(full, COUNT[(*kind, False)], **values, until=LATEST))

    for plan in plans:
        assert f"{index} " in plan.replace("\n", " "), plan
        assert "TEMP B-TREE" not in plan, plan
    if full.connection.dialect == "sqlite":
        assert all(f"COVERING INDEX {index} " in plan for plan in plans), plans
        assert "no<?" in plans[0]
    else:
        assert "ROW(last_checked, no) < ROW(" in plans[0]


@pytest.mark.covers("R2-50", "E-10")
def test_a_document_is_found_by_an_index(full: Library):
    key = b"x" * 32
    plans = [
        found_by_index(full, DOCUMENT[False], id=key),
        found_by_index(full, DOCUMENT[True], id=key, source="other"),
    ]

    assert all("record_id" in plan for plan in plans), plans


@pytest.mark.covers("R2-51")
def test_documents_of_a_content_are_found_by_an_index(full: Library):
    """idx_docs_content_hash: contents are one row each, of any number of documents."""
    statement = """
        SELECT r.id FROM content c JOIN record r ON r.content = c.no
         WHERE c.source IN (SELECT no FROM source) AND c.content_hash = :hash
    """
    plan = found_by_index(full, statement, hash=b"x" * 32)

    assert "record_content" in plan


@pytest.mark.covers("R2-56")
def test_hosts_by_their_last_visit_are_found_by_an_index(full: Library):
    """idx_domain_stats_last_crawl."""
    statement = "SELECT name FROM host WHERE last_crawled_at > :at ORDER BY last_crawled_at LIMIT 9"

    assert "host_crawled" in found_by_index(full, statement, at=NOW)


@pytest.mark.covers("R2-49")
def test_stored_pages_of_a_host_are_found_by_an_index(full: Library):
    """idx_frontier_domain, for pages that were visited."""
    statement = """
        SELECT s.no FROM state s WHERE s.host = (SELECT no FROM host WHERE name = :host)
           AND s.last_checked IS NOT NULL AND s.standing > 0 ORDER BY s.last_checked LIMIT 9
    """
    plan = found_by_index(full, statement, host="a.example.com")

    assert "state_host_checked" in plan


@pytest.mark.covers("R2-49")
def test_what_is_due_is_one_scan_of_the_narrow_table(full: Library):
    """idx_frontier_ready and idx_frontier_status: an index would cost each visit (ADR 129)."""
    plan = full.plan("SELECT count(*) FROM state WHERE next_visit <= :at", {"at": NOW})
    steps = [step.replace("->", "").split() for step in plan]
    scans = [words for words in steps if words[0] == "SCAN" or words[:2] == ["Seq", "Scan"]]

    assert len(scans) == 1, plan
    assert "state" in scans[0]


@pytest.mark.covers("R2-54")
def test_links_of_a_document_are_found_by_its_id_and_key(full: Library):
    """idx_outlinks_source: the links of a page are one row, with its number as the key."""
    statement = """
        SELECT l.raw FROM record r LEFT JOIN links l ON l.no = r.no
         WHERE r.source IN (SELECT no FROM source) AND r.id = :id
    """
    plan = found_by_index(full, statement, id=b"x" * 32)

    assert "record_id" in plan


def test_a_scan_would_be_noticed(full: Library):
    with pytest.raises(AssertionError):
        found_by_index(full, "SELECT s.no FROM state s WHERE s.depth = :depth", depth=1)
