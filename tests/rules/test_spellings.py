"""Which answers lead to another spelling of an address, and which answer counts in the end."""

import pytest

from smartcrawl.rules.model import Outcome, Standing, Word
from smartcrawl.rules.spellings import (
    asks_other_spelling,
    deciding_spelling,
    denies_page,
    kept_spellings,
    stored_visit_outcome,
)
from tests.rules.manual import names, numbers, table

TITLE = "Spellings of one address"
ANSWERS = [
    (Outcome(name), None if name == "excluded" else status, held, never)
    for outcomes, statuses, held, never in table(TITLE)
    for name in names(outcomes)
    for status in sorted(numbers(statuses))
]


@pytest.mark.covers("R0-16", "R0-100")
@pytest.mark.parametrize(("outcome", "status", "held", "never"), ANSWERS)
def test_what_does_not_bring_the_page_leads_to_its_other_spellings(outcome, status, held, never):
    assert asks_other_spelling(outcome, status, brought=True) is (held == "yes")
    assert asks_other_spelling(outcome, status, brought=False) is (never == "yes")


@pytest.mark.parametrize(
    ("outcome", "status", "asks"),
    [
        (Outcome.HTTP_ERROR, 399, False),
        (Outcome.HTTP_ERROR, 400, True),
        (Outcome.HTTP_ERROR, 499, True),
        (Outcome.TRANSIENT, 500, False),
        (Outcome.EXCLUDED, 404, False),
        (Outcome.UNREACHABLE, None, False),
    ],
)
def test_of_a_page_that_was_brought_the_statuses_about_the_address_count(outcome, status, asks):
    assert asks_other_spelling(outcome, status, brought=True) is asks


def test_the_table_of_spellings_has_all_outcomes():
    assert {outcome for outcome, *_ in ANSWERS} == set(Outcome)


@pytest.mark.covers("R0-50", "R0-100")
@pytest.mark.parametrize(
    ("answers", "place"),
    [
        ([(Outcome.NOT_FOUND, 404)], 0),
        ([(Outcome.NOT_FOUND, 404), (Outcome.NOT_FOUND, 404)], 1),
        ([(Outcome.NOT_FOUND, 404), (Outcome.SOFT_404, 200)], 1),
        ([(Outcome.NOT_FOUND, 404), (Outcome.NOT_FOUND, 410)], 0),
        ([(Outcome.NOT_FOUND, 410), (Outcome.NOT_FOUND, 404)], 1),
        ([(Outcome.NOT_FOUND, 410), (Outcome.EXCLUDED, None)], 0),
        ([(Outcome.REDIRECT, 301), (Outcome.NOT_FOUND, 404)], 0),
        ([(Outcome.NOT_FOUND, 404), (Outcome.REDIRECT, 301)], 1),
        ([(Outcome.HTTP_ERROR, 403), (Outcome.NOT_FOUND, 404)], 0),
        ([(Outcome.HTTP_ERROR, 403), (Outcome.REDIRECT, 301), (Outcome.NOT_FOUND, 404)], 1),
        ([(Outcome.TRANSIENT, 500), (Outcome.REDIRECT, 301)], 0),
        ([(Outcome.NOT_FOUND, 404), (Outcome.UNREACHABLE, 1103), (Outcome.REDIRECT, 302)], 1),
        ([(Outcome.BAD_HEADER, 1002), (Outcome.SOFT_404, 200)], 0),
        ([(Outcome.NOT_ACCEPTABLE, 406), (Outcome.NOT_FOUND, 404)], 0),
        ([(Outcome.REDIRECT, 301), (Outcome.NOT_ACCEPTABLE, 406)], 0),
        ([(Outcome.REDIRECT, 301), (Outcome.HTTP_ERROR, 403)], 0),
        ([(Outcome.REDIRECT, 301), (Outcome.BAD_HEADER, 1002)], 0),
    ],
)
def test_a_page_is_gone_only_when_all_its_spellings_are(answers, place):
    assert deciding_spelling(answers) == place


@pytest.mark.covers("R0-100")
@pytest.mark.parametrize(
    ("word", "status", "standing", "outcome"),
    [
        (Word.UNCHANGED, 304, Standing.HELD, None),
        (Word.NEW, 200, Standing.HELD, None),
        (Word.FAILED, None, Standing.BARE, None),
        (Word.FAILED, 404, Standing.BARE, Outcome.NOT_FOUND),
        (Word.FAILED, 503, Standing.HELD, Outcome.TRANSIENT),
        (Word.LOST, 200, Standing.HELD, Outcome.SOFT_404),
        (Word.GONE, 410, Standing.BARE, Outcome.NOT_FOUND),
        (Word.DELETED, 404, Standing.BARE, Outcome.NOT_FOUND),
        (Word.REDIRECTED, 301, Standing.HELD, Outcome.REDIRECT),
        (Word.FAILED, 1000, Standing.HELD, Outcome.BAD_HEADER),
        (Word.FAILED, 1002, Standing.HELD, Outcome.BAD_HEADER),
        (Word.FAILED, 1103, Standing.HELD, Outcome.UNREACHABLE),
        (Word.FAILED, 304, Standing.HELD, Outcome.BAD_HEADER),
        (Word.EXCLUDED, 404, Standing.BARE, Outcome.EXCLUDED),
        (Word.EXCLUDED, 200, Standing.LINKS, None),
        (Word.ORPHANED, 404, Standing.HELD, None),
    ],
)
def test_the_outcome_of_a_stored_visit_is_known_again(word, status, standing, outcome):
    assert stored_visit_outcome(word, status, standing) is outcome


def test_what_denies_a_page_twice_is_no_news():
    news = {outcome for outcome in Outcome if not denies_page(outcome)}
    assert set(Outcome) - news == {Outcome.NOT_FOUND, Outcome.SOFT_404, Outcome.EXCLUDED}


@pytest.mark.covers("R0-16")
@pytest.mark.parametrize(
    ("met", "stored", "request_", "kept"),
    [
        ([], [], "/", []),
        (["/"], [], "/", []),
        (["/a", "/b", "/a"], [], "/", ["/a", "/b"]),
        (["/a"], ["/b", "/"], "/", ["/a", "/b"]),
        (["/b", "/a"], ["/a", "/b"], "/", ["/a", "/b"]),
        (["/c"], ["/a", "/b"], "/", ["/c", "/a", "/b"]),
        (["/d", "/c"], ["/a", "/b", "/c"], "/", ["/c", "/d", "/a"]),
        (["/1", "/2", "/3", "/4"], [], "/", ["/4", "/3", "/2"]),
        (["/c", "/a"], ["/b", "/a"], "/", ["/c", "/b", "/a"]),
    ],
)
def test_three_spellings_are_kept_and_those_that_are_linked_no_more_go_first(
    met, stored, request_, kept
):
    assert kept_spellings(met, stored, request_) == kept
