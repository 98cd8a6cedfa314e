"""The edge case of libraries that only a real crawl shows; all others are in tests/lab."""

from __future__ import annotations

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.library_cases import EDGES, KILLED, check_edge
from tests.crawls.library_stage import LibraryStages, library_stages
from tests.tiers import APIS

__all__ = ["library_stages"]  # a fixture

pytestmark = pytest.mark.long


@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.covers("R3-119", "R3-24")
@pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("api", APIS)
def test_a_crawl_that_was_killed_half_way_is_mended_by_the_next(
    api: str, stack: str, crawl: Crawl, library_stages: LibraryStages
) -> None:
    (edge,) = (edge for edge in EDGES if edge.name == KILLED)
    check_edge(edge, *library_stages.of(api, stack).begin(crawl))
