"""Real documentation, as Debian ships it: crawled whole, without a word that nobody can act on."""

import re

import pytest

from tests.crawls.commands import Crawl
from tests.servers import debian_docs, nginx

#: Where the pages begin, below the directory that is served, and how many there are at least.
MANUALS = {
    "apache2-doc": ("en/", 240),  # other languages lie beside it
    "python3-doc": ("", 500),
    "postgresql-doc-15": ("", 1_100),
}
#: Loggers and beginnings of warnings that name what a user can do.
ACTIONABLE = re.compile(r"not followed: .* add a pattern to excluded_patterns|was interrupted")


@pytest.mark.long
@pytest.mark.parametrize("package", MANUALS)
def test_a_manual_of_debian_is_crawled_whole_and_in_silence(package: str, crawl: Crawl):
    start, least = MANUALS[package]
    root = debian_docs(package)
    with nginx(root.parent if start else root) as server:
        result = crawl(server.url + start, settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 16})

    warnings = [line for line in result.err.splitlines() if re.search(r"\] (?!INFO)[A-Z]+:", line)]
    assert [line for line in warnings if not ACTIONABLE.search(line)] == []
    [run] = crawl.runs()
    assert (run["complete"], run["reasons"]) == (True, [])
    assert run["new"] + run["clone"] >= least
    failed = crawl.records(status="Error")
    assert {record["httpStatusCode"] for record in failed} <= {404}
    assert len(failed) < 0.1 * least * (11 if start else 1), "more than the manual's broken links"
