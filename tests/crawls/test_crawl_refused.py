"""Pages whose data the database refuses: their neighbours are stored, and the run goes on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.crawls.commands import Crawl, Remote
from tests.site_server import Site, html

NEIGHBOURS = [f"/page{n}" for n in range(30)]
#: What a database does with each row of a table that fits a condition: it refuses it.
SQLITE = """
CREATE TRIGGER refused_{event} BEFORE {event} ON {table} WHEN {condition}
BEGIN SELECT RAISE(ABORT, 'not in this database'); END
"""
POSTGRES = """
CREATE TRIGGER refused_{event} BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition})
EXECUTE FUNCTION refused()
"""
FUNCTION = """
CREATE OR REPLACE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'not in this database'; END $$
"""
TITLE = "substr(NEW.title, 1, 7) = 'Refused'"


@contextmanager
def refusing(crawl: Crawl, table: str, condition: str) -> Iterator[None]:
    """Let the database refuse rows; the registry is there already."""
    remote = isinstance(crawl.registry, Remote)
    if remote:
        crawl.rows(FUNCTION)
    for event in ("INSERT", "UPDATE"):
        text = POSTGRES if remote else SQLITE
        crawl.rows(text.format(event=event, table=table, condition=condition))
    try:
        yield
    finally:
        for event in ("INSERT", "UPDATE"):
            crawl.rows(f"DROP TRIGGER refused_{event}" + (f" ON {table}" if remote else ""))
        if remote:
            crawl.rows("DROP FUNCTION refused()")


def publish(site: Site, version: int) -> None:
    site.pages |= {path: html("Page", text=f"words{version} of {path[1:]}") for path in NEIGHBOURS}


@pytest.fixture
def held(site: Site, crawl: Crawl) -> Crawl:
    """A crawl that holds all pages of a site; /bad alone leads to /behind."""
    publish(site, 1)
    site.pages["/"] = html("Home", "/bad", *NEIGHBOURS)
    site.pages["/bad"] = html("Good", "/behind", text="words1 of bad")
    site.pages["/behind"] = html("Behind", text="words1 of behind")
    crawl(site.url("/"))
    return crawl


@pytest.mark.covers("R1-36", "R4-44")
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_page_that_the_database_refuses_fails_alone(site: Site, held: Crawl, lane: str):
    held.environment["REVALIDATION_LANE"] = lane
    stored = f"SELECT etag, body_hash, content FROM record WHERE url = '{site.url('/bad')}'"
    before = held.rows(stored)
    publish(site, 2)
    site.pages["/bad"] = html("Refused", text="words2 of bad")
    site.pages["/new"] = html("Refused, too", text="words2 of new")
    site.pages["/"] = html("Home", "/bad", "/new", *NEIGHBOURS)

    with refusing(held, "content", TITLE):
        result = held(site.url("/"))

    pages = held.pages()
    assert {pages[path]["lastOutcome"] for path in NEIGHBOURS} == {"modified"}
    assert held.hits("words2") == sorted(NEIGHBOURS)
    for path in ("/bad", "/new"):
        assert (pages[path]["lastOutcome"], pages[path]["httpStatusCode"]) == ("failed", 1200)
        assert "the registry does not take it: " in pages[path]["errorMessage"]
        assert "not in this database" in pages[path]["errorMessage"]
        assert f"{site.url(path)} is not stored" in result.err
    assert held.rows(stored) == before
    assert "/bad" in held.hits("words1")
    assert pages["/behind"]["lastOutcome"] == "unchanged", "the stored links stay in force"
    assert held.counts_add_up()
    run = held.runs()[0]
    assert (run["complete"], run["failed"]) == (True, 2)

    held(site.url("/"))
    assert held.hits("words2") == sorted([*NEIGHBOURS, "/bad", "/new"])
    assert held.counts_add_up()


@pytest.mark.long
@pytest.mark.covers("R1-36")
def test_the_run_ends_where_the_failure_cannot_be_stored_either(site: Site, held: Crawl):
    publish(site, 2)
    site.pages["/bad"] = html("Good", "/behind", text="words2 of bad")
    ((number,),) = held.rows(f"SELECT no FROM record WHERE url = '{site.url('/bad')}'")

    with refusing(held, "state", f"NEW.no = {number}"):
        result = held(site.url("/"), expect=None)

    assert result.status != 0
    assert "not in this database" in result.err
    assert held.pages()["/bad"]["lastOutcome"] != "failed"
    assert held.runs()[0]["state"] == "interrupted"

    held(site.url("/"), resume=1)
    assert held.hits("words2") == sorted([*NEIGHBOURS, "/bad"])
    assert held.counts_add_up()


@pytest.fixture
def chain(site: Site, crawl: Crawl) -> Crawl:
    """A crawl of a chain of pages; its second page has new words and no links any more."""
    site.pages["/"] = html("Home", "/bad")
    site.pages["/bad"] = html("Good", "/behind", text="words1 of bad")
    site.pages["/behind"] = html("Behind", "/further", text="words1 of behind")
    site.pages["/further"] = html("Further", text="words1 of further")
    crawl(site.url("/"))
    site.pages["/bad"] = html("Refused", text="words2 of bad")
    return crawl


def of_chain(crawl: Crawl) -> dict[str, str]:
    return {path: word for path, word in crawl.outcomes().items() if path != "/robots.txt"}


LEFT = {"/": "unchanged", "/bad": "failed", "/behind": "unchanged", "/further": "unchanged"}


@pytest.mark.covers("R1-36")
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_old_links_of_a_refused_page_are_followed_when_nothing_else_waits(
    site: Site, chain: Crawl, lane: str
):
    """Its batch is written when the queue is empty: the run must not go on to its end."""
    chain.environment["REVALIDATION_LANE"] = lane
    with refusing(chain, "content", TITLE):
        chain(site.url("/"))

    assert of_chain(chain) == LEFT
    assert chain.counts_add_up()


@pytest.mark.covers("R1-36")
@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.sqlite
@pytest.mark.parametrize("number", [1, 5, 6])
def test_old_links_of_a_refused_page_are_followed_by_the_run_that_goes_on(
    site: Site, chain: Crawl, number: int
):
    """Killed after the batch before it, its own and the one after; between are undone trials."""
    start = ("crawl", "site", "-a", f"url={site.url('/')}")
    with refusing(chain, "content", TITLE):
        step = f"after the commit of _work {number}"
        killed = chain.run("runner", "step", step, *start, expect=None)
        assert killed.status == -signal.SIGKILL
        chain.bury()
        chain.run(*start, "-a", "resume=1")

    assert of_chain(chain) == LEFT
    assert chain.counts_add_up()
