"""Stories of tests/lab that real crawls tell, too: with the lane, without it, on both databases."""

import pytest

from tests.crawls.commands import Crawl
from tests.lab.test_crawl_rebuilt import (
    test_a_rebuilt_site_is_asked_with_every_condition_in_that_run_and_the_next,
)
from tests.lab.test_stories_lost import (
    test_a_removed_page_is_lost_then_gone_and_comes_back_with_its_first_day,
)
from tests.lab.test_stories_orphans import (
    test_an_unlinked_page_ages_is_looked_at_once_and_goes_and_comes_back,
    test_the_runs_in_which_an_orphan_failed_by_its_headers_are_added,
)

__all__ = [  #: the tests of this module
    "test_a_rebuilt_site_is_asked_with_every_condition_in_that_run_and_the_next",
    "test_a_removed_page_is_lost_then_gone_and_comes_back_with_its_first_day",
    "test_an_unlinked_page_ages_is_looked_at_once_and_goes_and_comes_back",
    "test_the_runs_in_which_an_orphan_failed_by_its_headers_are_added",
]


@pytest.fixture(autouse=True, params=["auto", "off"])
def lane(crawl: Crawl, request: pytest.FixtureRequest) -> None:
    crawl.environment["REVALIDATION_LANE"] = request.param
