"""What the validators of a host are worth."""

import random
from dataclasses import astuple, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.trust import (
    ENOUGH_304S,
    LED_BACK,
    TURNED,
    UNCONFIRMED,
    Seen,
    Trust,
    is_sampled,
    is_unverified,
    trust_marks_after,
)

DAY = 86_400
PLAIN = Seen(
    conditional=False, same_etag=False, other_etag=False, same_date=False, same_bytes=False,
    same_content=False, dated=False, turned=False,
)  # fmt: skip
COUNTS = st.integers(0, 200)


def after(*answers: Seen) -> Trust:
    trust = Trust()
    for seen in answers:
        trust = trust.after(seen)
    return trust


FROZEN = replace(PLAIN, same_etag=True, same_date=True)
HONEST = replace(
    PLAIN, same_etag=True, same_date=True, same_bytes=True, same_content=True, dated=True
)
DYNAMIC = replace(PLAIN, same_etag=True, same_content=True)
FALSE_DATE = replace(PLAIN, same_date=True)
TRUE_DATE = replace(PLAIN, same_date=True, same_bytes=True, same_content=True, dated=True)
REBUILT = replace(PLAIN, other_etag=True, same_bytes=True, same_content=True, dated=True)
ROTATED = replace(REBUILT, turned=True)
CHANGED = replace(PLAIN, other_etag=True)
IGNORED = replace(HONEST, conditional=True)
UNHEARD = replace(IGNORED, respelled=True)
PLAIN_UNHEARD = replace(IGNORED, plain=True)
ROTATES = Trust(repeated=4, rotated=2, rotating=1)


def test_a_host_of_which_nothing_was_seen_is_believed():
    assert astuple(Trust()) == (0,) * 15


def test_each_answer_counts_for_what_it_shows():
    assert after(FROZEN) == Trust(etags=1, frozen=1)
    assert after(HONEST) == Trust(etags=1, repeated=1)
    assert after(DYNAMIC) == Trust(etags=1)
    assert after(FALSE_DATE) == Trust(dates=1, false_dates=1)
    assert after(TRUE_DATE) == Trust(dates=1)
    assert after(REBUILT) == Trust(repeated=1)
    assert after(ROTATED) == Trust(repeated=1, rotated=1)
    assert after(replace(ROTATED, dated=False)) == Trust()
    assert after(replace(ROTATED, same_bytes=False)) == Trust()
    assert after(replace(ROTATED, same_date=True)) == Trust(dates=1, repeated=1, rotated=1)
    assert after(replace(CHANGED, same_date=True)) == Trust(dates=1, false_dates=1)
    assert after(replace(HONEST, turned=True)) == Trust(etags=1, repeated=1)
    assert after(CHANGED) == Trust()
    assert after(PLAIN) == Trust()
    assert after(replace(ROTATED, conditional=True)) == Trust(repeated=1, rotated=1)
    assert after(IGNORED) == Trust(etags=1, repeated=1, ignored=1)
    assert after(replace(FROZEN, conditional=True)) == Trust(etags=1, frozen=1)
    assert after(UNHEARD) == Trust(etags=1, repeated=1, ignored=1, unheard=1)
    assert after(replace(FROZEN, respelled=True)) == Trust(etags=1, frozen=1)
    assert after(replace(REBUILT, respelled=True)) == Trust(repeated=1)
    assert after(PLAIN_UNHEARD) == Trust(etags=1, repeated=1, ignored=1, plain_unheard=1)
    assert after(replace(PLAIN_UNHEARD, dated=False)) == Trust(etags=1, ignored=1)
    assert after(replace(FROZEN, plain=True)) == Trust(etags=1, frozen=1)
    assert after(replace(REBUILT, plain=True)) == Trust(repeated=1)
    seen = after(FROZEN, HONEST, FALSE_DATE, REBUILT, ROTATED, IGNORED)
    assert seen == Trust(3, 1, 1, 1, 4, 1, 1)


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
        (Trust(repeated=9, rotated=9), True, True, False),
        (Trust(rotating=1), False, True, False),
        (Trust(rotating=1, matched=11), False, True, False),
        (Trust(rotating=1, dates=2, false_dates=2), True, False, False),
        (Trust(rotating=1, contradictory=2), False, False, False),
        (Trust(plain_unheard=1, honoured=1), True, True, False),
        (Trust(plain_unheard=2, honoured=1), False, True, False),
        (Trust(plain_unheard=9, honoured=1, plain_heard=1), True, True, False),
        (Trust(unheard=1, honoured=1), True, True, False),
        (Trust(ignored=1), True, True, False),
        (Trust(ignored=2), True, True, True),
        (Trust(ignored=9, honoured=1), True, True, False),
        (Trust(contradictory=1), True, True, False),
        (Trust(contradictory=2), False, False, False),
        (Trust(etags=38, contradictory=2), False, False, False),
        (Trust(etags=39, contradictory=2), True, True, False),
        (Trust(etags=57, contradictory=3), False, False, False),
        (Trust(dates=38, contradictory=2), False, False, False),
        (Trust(dates=39, contradictory=2), True, True, False),
        (Trust(etags=19, dates=19, contradictory=2), False, False, False),
        (Trust(etags=20, dates=19, contradictory=2), True, True, False),
    ],
)
def test_a_host_is_believed_until_it_was_found_out(trust, etags, dates, ignores):
    believed = trust.believes_etag(dated=True), trust.believes_dates, trust.ignores_conditions
    assert believed == (etags, dates, ignores)
    assert bool(trust.distrust_reasons()) is (not etags or not dates or ignores)


def test_an_etag_that_rotates_is_sent_where_no_date_stands_in_for_it():
    """It costs nothing there: the answer is the body with it and without it."""
    rotates = after(ROTATED, ROTATED)

    assert rotates.rotates
    assert not rotates.believes_etag(dated=True)
    assert rotates.believes_etag(dated=False)
    assert replace(rotates, dates=2, false_dates=2).believes_etag(dated=True)
    assert not replace(rotates, etags=2, frozen=2).believes_etag(dated=False)
    assert not replace(rotates, contradictory=2).believes_etag(dated=False)


def test_what_is_not_believed_is_told_with_its_counts():
    assert Trust().distrust_reasons() == []
    assert Trust(40, 2, 30, 3, 8, 4, 5, 0, 4, rotating=1).distrust_reasons() == [
        "its ETags are frozen: 2 of 40 pages changed but kept theirs",
        "its ETags rotate: 4 of 8 unchanged pages got a new one twice in a row",
        "its dates are wrong: 3 of 30 pages changed but kept theirs",
        "its 304 responses contradict themselves: 4 of 74 named another version than the "
        "one requested",
        "it returns 200 although nothing changed",
    ]


@given(
    st.builds(Trust, *[COUNTS] * 9, st.just(1), *[COUNTS] * 2, st.integers(0, 1), COUNTS),
    st.booleans(),
    st.booleans(),
)
def test_an_honest_answer_never_costs_trust(trust, conditional, by_date):
    seen = TRUE_DATE if by_date else replace(HONEST, conditional=conditional)
    later = trust.after(seen)

    for dated in (True, False):
        kept = later.believes_etag(dated=dated) or not trust.believes_etag(dated=dated)
        assert kept or later.believes_dates > trust.believes_dates, "the date counts instead"
    assert later.believes_dates >= trust.believes_dates


def test_one_304_shows_that_conditions_are_looked_at():
    trust = Trust(ignored=9)

    seen = trust.seen_304(turned=False)

    assert trust.ignores_conditions
    assert seen == replace(trust, honoured=1)
    assert seen.seen_304(turned=False) is seen, "it is no news"
    assert not seen.ignores_conditions


def test_a_host_that_ignored_an_own_tag_gets_coded_tags_in_both_spellings():
    assert not after(HONEST).respells
    assert after(IGNORED).respells
    assert after(IGNORED).seen_304(turned=True).at(9).respells, "it needs them for good"


def test_a_coded_tag_that_is_unknown_in_both_spellings_is_left_out_where_there_is_a_date():
    unheard = after(UNHEARD, UNHEARD)
    marked = {"dated": True, "coded": True}

    assert after(UNHEARD, IGNORED).believes_etag(**marked), "one page"
    assert not unheard.believes_etag(**marked)
    assert unheard.believes_etag(dated=True), "the tag is not coded"
    assert unheard.believes_etag(dated=False, coded=True), "it costs nothing"
    assert replace(unheard, dates=2, false_dates=2).believes_etag(**marked)
    assert not replace(unheard, frozen=2).believes_etag(dated=False, coded=True)
    assert unheard.at(9).at(10) == replace(unheard, repeated=0, run=10), "it is learnt for good"
    (reason,) = replace(unheard, honoured=1).distrust_reasons()
    assert reason == (
        "its ETags of compressed pages bring no 304: 2 unchanged pages were requested "
        "with both spellings"
    )


def test_a_304_to_both_spellings_shows_that_one_of_them_is_known():
    unheard = after(UNHEARD, UNHEARD).seen_304()

    assert unheard.seen_304() is unheard
    assert unheard.seen_304(turned=True).unheard == 2
    assert unheard.seen_304(respelled=True) == replace(unheard, unheard=0)
    known = after(HONEST).seen_304(respelled=True)
    assert known.seen_304(respelled=True) is known, "it is no news"
    assert known.seen_304(turned=True, respelled=True) == replace(known, matched=1)


def test_a_plain_tag_that_brings_no_304_is_left_out_where_there_is_a_date():
    unheard = after(PLAIN_UNHEARD, PLAIN_UNHEARD)

    assert after(PLAIN_UNHEARD, IGNORED).believes_etag(dated=True), "one page"
    assert not unheard.believes_etag(dated=True)
    assert unheard.believes_etag(dated=True, coded=True), "it is of another kind"
    assert unheard.believes_etag(dated=False), "it costs nothing"
    assert replace(unheard, dates=2, false_dates=2).believes_etag(dated=True)
    assert unheard.at(9) == replace(unheard, repeated=0, run=9), "it is learnt for good"
    assert unheard.distrust_reasons() == ["it returns 200 although nothing changed"]
    (reason,) = replace(unheard, honoured=1).distrust_reasons()
    assert reason == "its ETags bring no 304: 2 unchanged pages were requested with them"


def test_one_304_to_a_plain_tag_shows_for_good_that_they_are_known():
    """Pages whose server ignores conditions may stand beside others that are confirmed."""
    known = after(PLAIN_UNHEARD, PLAIN_UNHEARD).seen_304(plain=True)
    later = Trust(honoured=1).seen_304(plain=True)
    assert later.plain_heard == 1, "conditions were honoured before"
    assert later.joined(later, Trust()).plain_heard == 1, "once is enough"
    assert known.plain_heard == known.honoured == 1
    assert known.seen_304(plain=True) is known, "it is no news"
    assert known.after(PLAIN_UNHEARD).after(PLAIN_UNHEARD).believes_etag(dated=True)
    assert known.seen_304(turned=True).plain_heard == 1
    assert not after(PLAIN_UNHEARD).seen_304(respelled=True).plain_heard
    assert known.distrust_reasons() == []
    assert Trust().joined(known, Trust()).joined(Trust(), Trust()).plain_heard == 1


def turned_304s(trust: Trust, number: int) -> Trust:
    for _ in range(number):
        trust = trust.seen_304(turned=True)
    return trust


def test_rotation_ends_with_304s_to_etags_of_rotating_pages_in_a_row():
    rotates = replace(ROTATES, run=4)

    assert rotates.seen_304(turned=True) == replace(rotates, honoured=1, matched=1)
    for other in range(20):
        rotates = rotates.seen_304(turned=False)
        assert rotates.rotates, f"{other}: of a page that does not rotate, or of one without a date"
    assert ENOUGH_304S == 12
    nearly = turned_304s(rotates, ENOUGH_304S - 1)
    assert nearly.rotates
    assert nearly.after(ROTATED).matched == 0, "another ETag: they are counted anew"
    assert turned_304s(nearly.after(ROTATED), ENOUGH_304S - 1).rotates
    assert nearly.after(REBUILT).matched == nearly.after(HONEST).matched == nearly.matched
    assert turned_304s(nearly, 1) == Trust(run=4, honoured=1)
    assert turned_304s(replace(nearly, rotating=0), 1).matched == ENOUGH_304S, "it ended nothing"


def test_the_304s_of_several_runs_count_together():
    """Samples are rare. What was seen for years weighs no more than what was seen once."""
    rotates = Trust(repeated=300, rotated=200, rotating=1, run=4).at(5)

    assert rotates == Trust(repeated=300, rotated=200, rotating=1, run=5)
    for run in range(ENOUGH_304S - 1):
        rotates = turned_304s(rotates, 1).at(6 + run)
        assert rotates.rotates
    assert not turned_304s(rotates, 1).rotates


def test_rotation_is_judged_by_one_run_and_stays_until_it_is_refuted():
    rebuilt = Trust(etags=7, frozen=1, repeated=200, run=2)
    rotates = replace(ROTATES, etags=7, run=3)

    assert rebuilt.at(3) == Trust(etags=7, frozen=1, run=3)
    assert rebuilt.at(2) == rebuilt
    assert rebuilt.at(1) == rebuilt, "another source went on meanwhile"
    assert rotates.at(4) == replace(rotates, run=4)
    assert Trust(repeated=2, rotated=1, matched=1, run=3).at(4) == Trust(run=4)


@pytest.mark.parametrize(
    ("repeated", "rotated", "matched", "rotates"),
    [(0, 0, 0, False), (1, 1, 0, True), (4, 1, 0, True), (5, 1, 0, True), (6, 1, 0, False),
     (7, 2, 0, True), (9, 2, 0, False), (8, 2, 0, True), (1, 1, 4, True), (1, 1, 5, False),
     (29, 9, 0, True), (30, 9, 0, False), (9, 9, 20, True), (9, 9, 21, False)],
)  # fmt: skip
def test_rotation_begins_where_a_third_of_the_pages_rotate(repeated, rotated, matched, rotates):
    """``rotated`` and ``repeated`` are counts before one more page that rotates."""
    trust = Trust(repeated=repeated, rotated=rotated, matched=matched).after(ROTATED)

    assert trust.rotates is rotates
    assert trust.matched == (0 if rotates else matched)


class Machines:
    """Two machines behind one name, of which any may answer: equal files, other ETags."""

    def __init__(self, seed: int, pages: int) -> None:
        self.random = random.Random(seed)
        self.versions = [0] * pages
        self.stored: list[tuple[int, int]] = [(0, self._machine()) for _ in range(pages)]
        self.marks = [0] * pages
        self.trust, self.is_one = Trust(), False
        self.unchanged = self.confirmed = 0  #: conditional requests for pages without an edit

    def _machine(self) -> int:
        return self.random.randrange(2)

    def run(self, number: int, *, ratio: float = 0.05) -> None:
        self.trust, self.unchanged, self.confirmed = self.trust.at(number), 0, 0
        for no in range(len(self.versions)):
            if self.random.random() < 0.02:
                self.versions[no] += 1
            self._visit(no, number, ratio)

    def _visit(self, no: int, number: int, ratio: float) -> None:
        now = (self.versions[no], 0 if self.is_one else self._machine())
        stored, turned = self.stored[no], self.marks[no] & TURNED > 0
        by_etag = self.trust.believes_etag(dated=True) or is_sampled(no, number - 1, ratio)
        is_whole, same = is_sampled(no, number, ratio), now[0] == stored[0]
        self.unchanged += same and not is_whole
        if not is_whole and (now == stored if by_etag else same):
            assert same, "an edit was missed"
            self.confirmed += 1
            self.trust = self.trust.seen_304(turned=turned and by_etag, plain=by_etag)
            self.marks[no] = 0
            return
        seen = Seen(not is_whole, now == stored, now != stored, same, same, same, True, turned)
        self.trust = self.trust.after(seen)
        self.marks[no] = TURNED if same and now != stored else 0
        self.stored[no] = now


@pytest.mark.parametrize(("pages", "seeds", "found"), [(20, 200, 10), (150, 20, 4)])
def test_two_machines_that_answer_at_random_are_found_and_stay_so(pages, seeds, found):
    """Edits are never missed, and nearly all requests that could bring a 304 do."""
    for seed in range(seeds):
        site = Machines(seed, pages)
        shares = []
        for number in range(1, 41):
            site.run(number)
            assert number < found or site.trust.rotates, (seed, number)
            if number > found:
                shares.append(site.confirmed / site.unchanged)
        assert sum(shares) / len(shares) > 0.95


def test_two_machines_of_which_one_is_left_are_believed_again():
    for seed in range(20):
        site = Machines(seed, 100)
        for number in range(1, 40):
            site.is_one = number > 10
            site.run(number, ratio=0.1)
            assert number != 10 or site.trust.rotates
        assert not site.trust.rotates
        assert site.confirmed == site.unchanged


def test_another_etag_is_no_news_about_a_host_whose_etags_rotate():
    """Samples, and files that were written again, bring the first of two."""
    rotates = ROTATES

    assert rotates.after(REBUILT) == rotates
    assert rotates.after(replace(REBUILT, conditional=True)) == rotates
    assert rotates.after(ROTATED) == replace(rotates, repeated=5, rotated=3)
    assert rotates.after(HONEST) == replace(rotates, etags=1, repeated=5)
    ended = turned_304s(rotates, ENOUGH_304S)
    assert ended.after(REBUILT) == replace(ended, repeated=1)


@pytest.mark.parametrize("pages", [2, 200])
def test_a_rebuild_is_no_rotation_and_the_second_one_in_a_row_is(pages: int):
    trust = Trust(run=2)
    for _ in range(pages):
        trust = trust.after(REBUILT)
    assert not trust.rotates
    trust = trust.at(3).after(ROTATED)
    assert not trust.rotates, "one page"
    trust = trust.after(ROTATED)

    assert trust.rotates


def test_two_pages_that_changed_their_etags_twice_do_not_make_a_rebuild_a_rotation():
    trust = after(*[REBUILT] * 5, ROTATED, ROTATED)

    assert not trust.rotates
    assert after(*[REBUILT] * 4, ROTATED, ROTATED).rotates, "a third"


def test_a_304_that_names_another_version_counts():
    assert Trust(9, 1).contradicted().contradicted() == Trust(9, 1, contradictory=2)


def test_a_page_stays_marked_until_an_answer_is_believed():
    for before in (0, UNCONFIRMED):
        assert (
            trust_marks_after(before, contradicted=True, taken=False, turned=False) == UNCONFIRMED
        )
        assert trust_marks_after(before, contradicted=False, taken=False, turned=False) == before
        assert trust_marks_after(before, contradicted=False, taken=False, turned=True) == before
        assert trust_marks_after(before, contradicted=False, taken=True, turned=False) == 0
    both = TURNED | UNCONFIRMED
    assert trust_marks_after(TURNED, contradicted=True, taken=False, turned=False) == both


def test_a_page_is_marked_while_other_addresses_lead_back_to_it():
    """A visit that failed leaves the mark, one that came without a way takes it away."""
    marks = (1, 2, 4)
    assert marks == (UNCONFIRMED, TURNED, LED_BACK), "they are stored"
    for turned, led_back in product((False, True), repeat=2):
        answer = {"contradicted": False, "taken": True, "turned": turned, "led_back": led_back}
        found = trust_marks_after(7, **answer)
        assert found == TURNED * turned + LED_BACK * led_back
    for led_back in (False, True):
        kept = trust_marks_after(
            4, contradicted=False, taken=False, turned=False, led_back=led_back
        )
        assert kept == LED_BACK


def test_a_page_is_marked_while_its_last_body_came_again_under_another_etag():
    """A visit between two bodies that brought none of its own changes nothing."""
    for before in (0, TURNED, UNCONFIRMED, TURNED | UNCONFIRMED):
        assert trust_marks_after(before, contradicted=False, taken=True, turned=True) == TURNED
        assert trust_marks_after(before, contradicted=False, taken=True, turned=False) == 0
        assert trust_marks_after(before, contradicted=False, taken=False, turned=False) == before


def test_the_marks_are_stored():
    assert (UNCONFIRMED, TURNED) == (1, 2)


# Samples


@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(0, 1000))
def test_every_page_has_its_turn_once_in_so_many_visits(number, turns, first):
    visits = range(first, first + turns)

    assert sum(is_sampled(number, n, 1 / turns) for n in visits) == 1


def test_a_share_of_the_pages_is_asked_in_each_run():
    shares = [sum(is_sampled(n, visits, 0.01) for n in range(1_000)) for visits in range(100)]
    assert (min(shares), max(shares), sum(shares)) == (8, 13, 1_000)
    assert not any(is_sampled(number, 4, 0) for number in range(1_000))
    assert not is_sampled(0, 0, -1)
    assert all(is_sampled(number, 4, 1) for number in range(10))
    assert all(is_sampled(number, 4, 0.9) for number in range(10))
    assert all(is_sampled(number, 4, 3) for number in range(10))
    assert [n for n in range(1, 101) if is_sampled(7, n, 0.05)] == [14, 34, 54, 74, 94]
    assert is_sampled(65_536 + 7, 14, 0.05), "numbers may be higher than there are phases"


@pytest.mark.parametrize(("pages", "most"), [(5, 95), (20, 30), (40, 14)])
@pytest.mark.parametrize("first", [1, 78, 1_000_003])
def test_two_samples_of_a_small_site_never_wait_for_the_whole_period(first, pages, most):
    """Two pages make evidence; next to each other in time, the third would wait for 180 runs."""
    runs = [run for run in range(600) for n in range(first, first + pages)
            if is_sampled(n, run, 0.005)]  # fmt: skip

    assert max(late - early for early, late in zip(runs, runs[2:], strict=False)) <= most


def test_no_304_counts_for_ever():
    assert [is_unverified(0, days * DAY, 90, 0) for days in (89, 90, 91)] == [False, True, True]
    assert not is_unverified(0, 10**9, 0, 0)
    assert not is_unverified(10**9 + DAY, 10**9, 90, 0), "clocks may differ by a day"
    assert is_unverified(10**9 + DAY + 1, 10**9, 90, 0)
    assert not is_unverified(10**9 + DAY + 1, 10**9, 0, 0)
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


def test_what_a_run_learns_of_rotation_adds_up_over_its_workers():
    """Each began with what the run before left, and one of them was first to write."""
    left = Trust(etags=3, repeated=200, run=2, matched=1)
    begun = left.at(3)
    one = turned_304s(begun.after(REBUILT).after(ROTATED), 1)
    two = turned_304s(begun.after(ROTATED), 2)
    merged = Trust(etags=3, repeated=3, rotated=2, honoured=1, run=3, matched=3)

    assert left.joined(one, begun).joined(two, begun) == merged
    assert left.joined(two, begun).joined(one, begun) == merged
    assert two.joined(two, two) == two, "nothing is news"
    found = begun.after(ROTATED).after(ROTATED)
    assert found.rotating == 1
    assert begun.joined(found, begun).rotates
    assert left.joined(found, begun).joined(one, begun).rotates, "one found nothing"
    assert found.joined(found, found).rotating == found.joined(two, begun).rotating == 1
    assert begun.joined(found, begun).joined(found, begun).rotating == 1, "both found it"
    ended = turned_304s(found, ENOUGH_304S)
    assert not found.joined(ended, found).rotates
    assert Trust(run=3).joined(Trust(run=3), None).run == 3
    later = Trust(etags=3, run=4)
    assert later.joined(one, begun) == Trust(3, repeated=2, rotated=1, honoured=1, run=4, matched=1)
