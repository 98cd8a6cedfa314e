"""When a source is due, by the facts that its last run left."""

from dataclasses import replace

import pytest

from smartcrawl.rules.source_due import NOW, SourceFacts, source_due_at

SITE = SourceFacts(True, True, False, 500, None)
FOLDER = replace(SITE, listed_at=450)


@pytest.mark.parametrize("facts", [SITE, FOLDER], ids=["site", "folder"])
@pytest.mark.parametrize(
    "change", [{"left_nothing": False}, {"is_as_then": False}, {"has_orders": True}], ids=str
)
def test_what_its_last_run_left_open_is_due_at_once(facts: SourceFacts, change: dict[str, bool]):
    assert source_due_at(replace(facts, **change), 100) == NOW


def test_now_is_the_0_that_a_statement_says_for_a_page_without_a_visit():
    assert NOW == 0


def test_a_site_is_due_with_its_first_page_and_without_pages_never():
    assert source_due_at(SITE, 100) == 500
    assert source_due_at(replace(SITE, next_visit=None), 100) is None


def test_a_listed_source_is_due_by_its_listing_or_a_file_that_is_due_before():
    assert source_due_at(replace(FOLDER, next_visit=None), 100) == 550
    assert source_due_at(FOLDER, 100) == 500
    assert source_due_at(FOLDER, 30) == 480
