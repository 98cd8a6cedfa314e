"""Stories of tests/lab that real crawls tell, too: with the lane, without it, on both databases.

script/test tells one of them. It has all four in the lab; tests/crawls/test_crawl_roads.py for
lane, engine and databases; and tests/lab/test_lab_agrees.py, which compares the rows of both.
"""

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

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True, params=["auto", "off"])
def lane(crawl: Crawl, request: pytest.FixtureRequest) -> None:
    crawl.environment["REVALIDATION_LANE"] = request.param
