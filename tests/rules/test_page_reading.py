"""How many processes read the pages of a crawl."""

import pytest

from smartcrawl.rules.page_reading import (
    CRAWLS_AT_ONCE,
    MOST_READERS,
    READ_FIRST,
    READ_HERE,
    page_reading,
)


@pytest.mark.parametrize(
    ("asked", "cores", "jobs", "processes", "first"),
    [
        (None, 1, 1, 0, READ_FIRST),
        (None, 2, 1, 1, READ_FIRST),
        (None, 4, 1, 3, READ_FIRST),
        (None, 9, 1, 8, READ_FIRST),
        (None, 64, 1, MOST_READERS, READ_FIRST),
        (None, 4, 2, 1, READ_FIRST),  # of both together three at most
        (None, 4, 4, 0, READ_FIRST),
        (0, 8, 1, 0, 0),
        (3, 1, 1, 3, 0),
        (3, 8, 2, 1, 0),
        (3, 8, 4, 0, 0),
    ],
)
def test_readers_leave_a_core_to_those_who_ask(
    asked: int | None, cores: int, jobs: int, processes: int, first: int
):
    assert page_reading(asked, cores=cores, jobs=jobs) == (processes, first)


def test_a_crawl_reads_its_pages_itself_unless_told_otherwise():
    assert READ_HERE == (0, 0)
    assert CRAWLS_AT_ONCE == "CRAWLS_AT_ONCE"
    assert (READ_FIRST, MOST_READERS) == (64, 8)
    assert page_reading(3, cores=9) == page_reading(3, cores=9, jobs=1)
