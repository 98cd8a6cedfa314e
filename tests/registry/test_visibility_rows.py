"""The visibility of a source in the registry, and the sources that a caller may read (ADR 147)."""

from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.migrations import migrations
from smartcrawl.registry.naming import name_source_row
from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.registry.visibility import readable_sources, stored_visibilities
from smartcrawl.rules.visibility import EVERYTHING, Reader, Visibility

NOW = 1_705_744_800
PUBLIC, PRIVATE = Visibility.PUBLIC, Visibility.PRIVATE

Place = tuple[Database, Connection]


def crawled(begun: Place, name: str, visibility: Visibility | None = None) -> Visibility:
    """Open a run of a source, and return the visibility that is stored."""
    open_run_row(begun[1], RunRequest(name, "site", visibility=visibility), NOW)
    return stored_visibilities(begun[1])[name]


def test_only_its_own_word_opens_a_source_again(begun: Place):
    assert crawled(begun, "docs") is PUBLIC
    assert crawled(begun, "docs", PRIVATE) is PRIVATE
    assert crawled(begun, "docs") is PRIVATE, "its login is lost, and nothing is published"
    assert crawled(begun, "docs", PUBLIC) is PUBLIC
    assert crawled(begun, "docs") is PUBLIC
    assert crawled(begun, "wiki", PRIVATE) is PRIVATE


def test_another_name_is_as_private(begun: Place):
    crawled(begun, "wiki", PRIVATE)
    name_source_row(begun[0], "wiki", "intranet", "")
    assert stored_visibilities(begun[1])["intranet"] is PRIVATE


def test_a_caller_reads_what_is_public_or_what_his_key_names(begun: Place):
    connection = begun[1]
    crawled(begun, "docs")
    assert readable_sources(connection, Reader()) is None, "nothing is private"
    crawled(begun, "wiki", PRIVATE)
    crawled(begun, "blog")
    assert readable_sources(connection, EVERYTHING) is None
    assert readable_sources(connection, Reader()) == ("blog", "docs")
    assert readable_sources(connection, Reader(sources=frozenset({"wiki"}))) == ("wiki",)
    assert readable_sources(connection, Reader(sources=frozenset({"other"}))) == ()
    assert readable_sources(connection, Reader(visibilities={"wiki": PUBLIC})) is None
    closed = {"docs": PRIVATE, "wiki": PUBLIC}
    assert readable_sources(connection, Reader(visibilities=closed)) == ("blog", "wiki")


def test_what_a_query_has_read_is_not_read_again(begun: Place):
    connection = begun[1]
    crawled(begun, "wiki", PRIVATE)
    assert readable_sources(connection, Reader(), private=()) is None
    assert readable_sources(connection, Reader(), private=("wiki",)) == ()


def test_a_source_that_had_a_login_before_is_private(begun: Place):
    connection = begun[1]
    for name in ("docs", "wiki"):
        crawled(begun, name)
    with transaction(connection):
        connection.execute("INSERT INTO login (source) VALUES ('wiki')")
    (step,) = (
        statement
        for version, statements in migrations(connection.dialect)
        for statement in statements
        if version == 103 and "UPDATE source" in statement
    )
    with transaction(connection):
        connection.execute(step)
    assert stored_visibilities(connection) == {"docs": PUBLIC, "wiki": PRIVATE}
