"""What the validators of a host are worth."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.trust import (
    UNCONFIRMED,
    Seen,
    Trust,
    is_sampled,
    is_unverified,
    marks_after,
)

DAY = 86_400
PLAIN = Seen(
    conditional=False, same_etag=False, other_etag=False, same_date=False, same_bytes=False,
    same_content=False,
)  # fmt: skip
COUNTS = st.integers(0, 200)


def after(*answers: Seen) -> Trust:
    trust = Trust()
    for seen in answers:
        trust = trust.after(seen)
    return trust


FROZEN = replace(PLAIN, same_etag=True, same_date=True)
HONEST = replace(PLAIN, same_etag=True, same_date=True, same_bytes=True, same_content=True)
DYNAMIC = replace(PLAIN, same_etag=True, same_content=True)
FALSE_DATE = replace(PLAIN, same_date=True)
TRUE_DATE = replace(PLAIN, same_date=True, same_bytes=True, same_content=True)
ROTATED = replace(PLAIN, other_etag=True, same_date=True, same_bytes=True, same_content=True)
CHANGED = replace(PLAIN, other_etag=True)
IGNORED = replace(HONEST, conditional=True)


def test_each_answer_counts_for_what_it_shows():
    assert after(FROZEN) == Trust(etags=1, frozen=1)
    assert after(HONEST) == Trust(etags=1, repeated=1)
    assert after(DYNAMIC) == Trust(etags=1)
    assert after(FALSE_DATE) == Trust(dates=1, false_dates=1)
    assert after(TRUE_DATE) == Trust(dates=1, repeated=1)
    assert after(ROTATED) == Trust(repeated=1, rotated=1)
    assert after(CHANGED) == Trust()
    assert after(PLAIN) == Trust()
    assert after(replace(ROTATED, conditional=True)) == Trust(repeated=1, rotated=1)
    assert after(IGNORED) == Trust(etags=1, repeated=1, ignored=1)
    assert after(replace(FROZEN, conditional=True)) == Trust(etags=1, frozen=1)
    assert after(FROZEN, HONEST, FALSE_DATE, ROTATED, IGNORED) == Trust(3, 1, 1, 1, 3, 1, 1)


@pytest.mark.parametrize(
    ("trust", "etags", "dates", "ignores"),
    [
        (Trust(), True, True, False),
        (Trust(etags=1, frozen=1), True, True, False),
        (Trust(etags=2, frozen=2), False, True, False),
        (Trust(etags=40, frozen=2), False, True, False),
        (Trust(etags=41, frozen=2), True, True, False),
        (Trust(etags=60, frozen=3), False, True, False),
        (Trust(dates=1, false_dates=1), True, True, False),
        (Trust(dates=40, false_dates=2), True, False, False),
        (Trust(dates=41, false_dates=2), True, True, False),
        (Trust(repeated=1, rotated=1), True, True, False),
        (Trust(repeated=4, rotated=2), False, True, False),
        (Trust(repeated=5, rotated=2), True, True, False),
        (Trust(ignored=1), True, True, False),
        (Trust(ignored=2), True, True, True),
        (Trust(ignored=9, honoured=1), True, True, False),
        (Trust(contradictory=1), True, True, False),
        (Trust(contradictory=2), False, False, False),
        (Trust(etags=38, contradictory=2), False, False, False),
        (Trust(etags=39, contradictory=2), True, True, False),
        (Trust(etags=57, contradictory=3), False, False, False),
    ],
)
def test_a_host_is_believed_until_it_was_found_out(trust, etags, dates, ignores):
    assert (trust.believes_etags, trust.believes_dates, trust.ignores_conditions) == (
        etags, dates, ignores,
    )  # fmt: skip
    assert bool(trust.told()) is (not etags or not dates or ignores)


def test_what_is_not_believed_is_told_with_its_counts():
    assert Trust().told() == []
    assert Trust(40, 2, 30, 3, 8, 4, 5, 0, 4).told() == [
        "its ETags are frozen: 2 of 40 pages had changed under the same one",
        "its ETags rotate: 4 of 8 unchanged pages came with another one",
        "its dates are false: 3 of 30 pages had changed under the same one",
        "its 304s contradict themselves: 4 of 44 named another version than the one that was asked"
        " about",
        "it answers 200 where nothing changed",
    ]


@given(st.builds(Trust, *[COUNTS] * 9), st.booleans(), st.booleans())
def test_an_honest_answer_never_costs_trust(trust, conditional, by_date):
    seen = TRUE_DATE if by_date else replace(HONEST, conditional=conditional)
    later = trust.after(seen)

    assert later.believes_etags >= trust.believes_etags
    assert later.believes_dates >= trust.believes_dates


def test_one_304_shows_that_conditions_are_looked_at():
    trust = Trust(ignored=9)

    assert trust.ignores_conditions
    assert trust.seen_304() == trust.seen_304().seen_304() == replace(trust, honoured=1)
    assert not trust.seen_304().ignores_conditions


def test_a_304_that_names_another_version_counts():
    assert Trust(9, 1).contradicted().contradicted() == Trust(9, 1, contradictory=2)


def test_a_page_stays_marked_until_an_answer_is_believed():
    for before in (0, UNCONFIRMED):
        assert marks_after(before, contradicted=True, taken=False) == UNCONFIRMED
        assert marks_after(before, contradicted=False, taken=False) == before
        assert marks_after(before, contradicted=False, taken=True) == 0
    assert marks_after(2, contradicted=True, taken=False) == 2 | UNCONFIRMED


def test_the_marks_are_stored():
    assert UNCONFIRMED == 1


# Samples


@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(0, 1000))
def test_every_page_has_its_turn_once_in_so_many_visits(number, turns, first):
    visits = range(first, first + turns)

    assert sum(is_sampled(number, n, 1 / turns) for n in visits) == 1


def test_a_share_of_the_pages_is_asked_in_each_run():
    assert sum(is_sampled(number, 4, 0.01) for number in range(1_000)) == 10
    assert not any(is_sampled(number, 4, 0) for number in range(1_000))
    assert not is_sampled(0, 0, -1)
    assert all(is_sampled(number, 4, 1) for number in range(10))
    assert all(is_sampled(number, 4, 0.9) for number in range(10))
    assert all(is_sampled(number, 4, 3) for number in range(10))
    assert [n for n in range(1, 101) if is_sampled(7, n, 0.05)] == [13, 33, 53, 73, 93]


def test_no_304_counts_for_ever():
    assert [is_unverified(0, days * DAY, 90, 0) for days in (89, 90, 91)] == [False, True, True]
    assert not is_unverified(0, 10**9, 0, 0)
    assert not is_unverified(None, 10**9, 90, 0)
    assert [is_unverified(50 * DAY, n * DAY, 90, 0) for n in (100, 139, 140)] == [
        False,
        False,
        True,
    ]
    assert is_unverified(0, DAY, 1, 0)
    assert not is_unverified(0, DAY - 1, 1, 0)


def test_what_was_crawled_together_is_not_downloaded_together():
    """Numbers, so that nobody's turn moves when this is changed without need."""
    first = {n: next(d for d in range(8_000, 9_001) if is_unverified(0, d * 864, 90, n))
             for n in range(1_000)}  # fmt: skip

    assert min(first.values()) == 8_104
    assert max(first.values()) == 9_000
    assert [first[n] for n in range(4)] == [9_000, 8_444, 8_788, 8_232]
    tenths = [sum(8_100 + 90 * t < d <= 8_190 + 90 * t for d in first.values()) for t in range(10)]
    assert all(80 < tenth < 120 for tenth in tenths)
    assert is_unverified(0, 90 * DAY, 90, 65_536) is not is_unverified(0, 90 * DAY - 1, 90, 65_536)


def test_what_several_learn_of_a_host_at_the_same_time_adds_up():
    before = Trust(etags=3, frozen=1)
    one, two = replace(before, etags=5), replace(before, etags=4, frozen=2)

    assert before.joined(one, before).joined(two, before) == Trust(etags=6, frozen=2)
    assert Trust().joined(one, None) == one, "nothing was known before"
    assert one.joined(one, one) == one, "nothing is news"
    assert Trust(etags=1).joined(Trust(), Trust(etags=4)) == Trust(), "no count is negative"


def test_a_304_that_one_saw_is_one_that_all_saw():
    seen = Trust(honoured=1)

    assert Trust().joined(seen, Trust()).honoured == 1
    assert seen.joined(Trust(), Trust()).honoured == 1
    assert seen.joined(seen, Trust()).honoured == 1, "once is enough"
