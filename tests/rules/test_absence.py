"""What ages, and when it is old enough to be removed (docs/decisions.md)."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.absence import (
    AGEING,
    ANSWERING,
    PASSING,
    SPOKEN,
    UNSEEN,
    Counts,
    Look,
    Loss,
    Policy,
    absence_counts_after,
    absence_counts_before,
    absence_starts,
    absent_runs_before_removal,
    counts_as_lost,
    empties_sitemap,
    is_abandoned,
    is_absence_old,
    is_gone,
    lets_page_go,
    needs_verification,
    paced_absence_counts,
    rule_of_unseen,
    steady_time,
    withholds_sweep,
)
from smartcrawl.rules.http import REDIRECTS, outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, RemovalRule
from tests.rules.manual import numbers, table

AGES = {Outcome(row[0]): row[1:] for row in table("What ages")}
LISTED, UNLISTED = 404, 403  #: in LOST_PURGE_STATUSES as shipped, and not
NOW = 1_750_000_000  #: Unix seconds

OUTCOMES = st.sampled_from(Outcome)
STATUSES = st.none() | st.integers(100, 1300)
TIMES = st.integers(0, 2 * NOW)
COUNTS = st.builds(Counts, *[st.integers(0, 20)] * 2, *[st.none() | TIMES] * 2)
POLICIES = st.builds(
    Policy,
    lost_threshold=st.integers(1, 5),
    lost_min_age=st.integers(0, 10**6),
    purge_statuses=st.none() | st.frozensets(st.sampled_from([403, 404, 410, 429, 503, 1000])),
    orphan_threshold=st.integers(1, 5),
    orphan_min_age=st.integers(0, 10**6),
    sum_of_thresholds=st.booleans(),
)


def rise(outcome, status, *, policy=None, **facts):
    """Return how much both counts rise, from 5 each, by one visit."""
    after = absence_counts_after(
        Counts(5, 5, 1, 1), outcome, status, policy or Policy(), NOW, **({"held": True} | facts)
    )
    return after.lost - 5, after.gone - 5


@pytest.mark.covers("M-05", "M-08", "R4-01", "R4-03", "R4-43", "M-31", "U-08", "U-10", "U-13")
@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_ages_is_the_manuals(outcome):
    lost, gone, cleared, _ = AGES[outcome]
    if cleared == "yes":
        assert (lost, gone) == ("–", "–")
        before = Counts(5, 5, 1, 1)
        assert absence_counts_after(before, outcome, LISTED, Policy(), NOW, held=True) == Counts()
        assert Counts() == (0, 0, None, None)
        return
    expected = {"+1": (1, 1), "–": (0, 0), "if listed": (1, 0)}
    lost_by, gone_by = expected[lost], expected[gone]

    assert rise(outcome, LISTED) == (lost_by[0], gone_by[0])
    assert rise(outcome, UNLISTED) == (lost_by[1], gone_by[1])


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_table_of_ageing_is_the_manuals(outcome):
    lost, gone, cleared, _ = AGES[outcome]

    assert AGEING[outcome] == (lost == "+1", gone == "+1", cleared == "yes")
    assert set(AGEING) == set(AGES) == set(Outcome)


@pytest.mark.covers("R0-50", "M-01", "M-08", "U-09")
@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_may_be_removed_for_ageing_is_the_manuals(outcome):
    told = {"never": (False, False), "if listed": (True, False), "yes": (True, True)}
    old = Counts(9, 9, 1, 1)
    found = [is_gone(old, outcome, status, Policy(), NOW) for status in (LISTED, UNLISTED)]

    assert tuple(found) == told[AGES[outcome][-1]]


@pytest.mark.covers("M-05", "RD-08", "R4-44")
@given(COUNTS, OUTCOMES, STATUSES, POLICIES, TIMES, st.booleans(), st.booleans())
def test_counts_rise_at_most_by_one_and_clear_only_together(
    before, outcome, status, policy, now, held, first_run
):
    after = absence_counts_after(
        before, outcome, status, policy, now, held=held, first_run=first_run
    )
    if AGES[outcome][2] == "yes":
        assert after == Counts()
        return

    assert after.lost - before.lost in ((0, 1) if held else (0,))
    assert after.gone - before.gone in (0, 1)
    if after.lost == before.lost:
        assert after.lost_since == before.lost_since
    if after.gone == before.gone:
        assert after.gone_since == before.gone_since


@pytest.mark.covers("M-05", "RD-08")
@given(COUNTS, OUTCOMES, STATUSES, POLICIES, st.booleans())
def test_a_visit_that_another_one_replaces_is_taken_back(before, outcome, status, policy, held):
    """Counts that rose from 0 have no time."""
    before = before._replace(
        lost_since=before.lost_since or 1 if before.lost else None,
        gone_since=before.gone_since or 1 if before.gone else None,
    )
    after = absence_counts_after(before, outcome, status, policy, NOW, held=held)
    if not AGEING[outcome].clears:
        assert absence_counts_before(after, outcome, status, policy, held=held) == before


def test_only_stored_content_had_been_lost():
    before = Counts(2, 0, 1, None)
    after = absence_counts_after(before, Outcome.NOT_FOUND, 404, Policy(), NOW, held=False)

    assert absence_counts_before(after, Outcome.NOT_FOUND, 404, Policy(), held=False) == before


def test_no_count_is_taken_back_below_0():
    assert absence_counts_before(Counts(), Outcome.NOT_FOUND, 404, Policy(), held=True) == Counts()


@pytest.mark.covers("R4-43", "U-19")
@pytest.mark.parametrize("conditional", [True, False])
def test_of_all_statuses_only_pages_304_redirects_and_406_clear_the_counts(conditional):
    answers = {200, 203, 226, 299, 406, *REDIRECTS, *([304] if conditional else [])}
    before = Counts(2, 2, 1, 1)
    for status in range(100, 1000):
        outcome = outcome_of_http_status(status, conditional=conditional)
        after = absence_counts_after(before, outcome, status, Policy(), NOW, held=True)

        assert (after == Counts()) == (status in answers), status


@pytest.mark.covers("M-08")
@given(st.sampled_from(sorted(PASSING)), COUNTS, POLICIES, TIMES)
def test_statuses_of_the_moment_never_count_whatever_the_setting(status, before, policy, now):
    outcome = outcome_of_http_status(status, conditional=True)

    assert absence_counts_after(before, outcome, status, policy, now, held=True) == before
    assert not is_gone(before, outcome, status, policy, now)
    assert not policy.purges(status)


@pytest.mark.covers("M-08", "M-31")
@pytest.mark.parametrize(
    ("status", "listed", "purges"),
    [
        (404, frozenset({404, 410}), True),
        (410, frozenset({404, 410}), True),
        (403, frozenset({404, 410}), False),
        (403, frozenset({403}), True),
        (404, frozenset(), False),
        (403, None, True),
        (1000, None, True),
        (1099, None, True),
        (1100, None, False),
        (1101, frozenset({1101}), False),
        (1201, None, False),
        (503, frozenset({503}), False),
        (None, None, False),
        (301, frozenset(), True),
        (308, frozenset({404}), True),
        (302, None, False),
        (303, frozenset({303}), False),
        (307, None, False),
        (300, frozenset({404}), False),
        (300, None, True),
    ],
)
def test_which_statuses_may_lead_to_removal_is_a_setting(status, listed, purges):
    assert Policy(purge_statuses=listed).purges(status) is purges


def test_the_policy_as_shipped_is_the_manuals():
    told = {
        setting.strip("`").lower().replace("lost_purge", "purge"): numbers(default)
        for setting, default, _ in table("When it is old enough")
    }
    shipped = asdict(Policy())

    assert shipped.pop("sum_of_thresholds") is False
    assert told == {
        name: value if isinstance(value, frozenset) else {value} for name, value in shipped.items()
    }


@pytest.mark.covers("M-08")
def test_any_status_that_counts_makes_a_page_gone_when_all_are_listed():
    every = Policy(purge_statuses=None)

    assert rise(Outcome.HTTP_ERROR, 403, policy=every) == (1, 1)
    assert rise(Outcome.HTTP_ERROR, 503, policy=every) == (1, 0)
    assert rise(Outcome.EXCLUDED, 403, policy=every) == (0, 0)
    assert rise(Outcome.UNREACHABLE, 403, policy=every) == (0, 0)


@pytest.mark.covers("M-21")
@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_temporary_redirect_makes_no_page_gone_whatever_the_setting(status):
    every = Policy(purge_statuses=None)

    assert rise(Outcome.HTTP_ERROR, status, policy=every) == (1, 0)
    assert not is_gone(Counts(9, 9, 1, 1), Outcome.HTTP_ERROR, status, every, NOW)
    assert is_gone(
        Counts(9, 9, 1, 1), Outcome.NOT_FOUND, 301, Policy(purge_statuses=frozenset()), NOW
    )


@pytest.mark.covers("U-11")
def test_what_is_not_held_is_not_lost_but_may_be_gone():
    assert rise(Outcome.NOT_FOUND, 404, held=False) == (0, 1)
    assert rise(Outcome.HTTP_ERROR, 403, held=False) == (0, 0)


def test_a_soft_404_is_not_believed_in_the_run_that_discovered_the_page():
    assert rise(Outcome.SOFT_404, 200, first_run=True) == (0, 0)
    assert rise(Outcome.SOFT_404, 200) == (1, 1)
    assert rise(Outcome.NOT_FOUND, 404, first_run=True) == (1, 1)


@pytest.mark.covers("R4-03", "R0-50")
def test_the_age_of_a_loss_is_that_of_its_first_run():
    first = absence_counts_after(Counts(), Outcome.NOT_FOUND, 404, Policy(), 10, held=True)
    second = absence_counts_after(first, Outcome.HTTP_ERROR, 403, Policy(), 20, held=True)
    third = absence_counts_after(second, Outcome.NOT_FOUND, 410, Policy(), 30, held=True)

    assert first == (1, 1, 10, 10)
    assert second == (2, 1, 10, 10)
    assert third == (3, 2, 10, 10)
    late = absence_counts_after(Counts(1, 0, 10), Outcome.NOT_FOUND, 404, Policy(), 20, held=True)
    assert late == (2, 1, 10, 20)


@pytest.mark.covers("R0-50", "M-01", "G-01")
@pytest.mark.parametrize(
    ("gone", "seconds", "threshold", "age", "old_enough"), table("When it is old enough", 1)
)
def test_a_page_is_gone_by_count_and_age(gone, seconds, threshold, age, old_enough):
    policy = Policy(lost_threshold=int(threshold), lost_min_age=int(age))
    counts = Counts(9, int(gone), NOW - 9999, NOW - int(seconds))

    assert is_gone(counts, Outcome.NOT_FOUND, 404, policy, NOW) == (old_enough == "yes")


def test_a_count_without_a_time_is_as_old_as_now():
    counts = Counts(3, 3)

    assert is_gone(counts, Outcome.NOT_FOUND, 404, Policy(), NOW)
    assert not is_gone(counts, Outcome.NOT_FOUND, 404, Policy(lost_min_age=1), NOW)
    assert not is_gone(Counts(3, 3, 5, 0), Outcome.NOT_FOUND, 404, Policy(lost_min_age=9), 8)
    assert is_gone(Counts(3, 3, 5, 0), Outcome.NOT_FOUND, 404, Policy(lost_min_age=8), 8)


@pytest.mark.covers("M-01")
def test_a_threshold_of_one_removes_by_the_first_404():
    policy = Policy(lost_threshold=1)
    counts = absence_counts_after(Counts(), Outcome.NOT_FOUND, 404, policy, NOW, held=True)

    assert is_gone(counts, Outcome.NOT_FOUND, 404, policy, NOW)


@pytest.mark.covers("R4-07", "M-05", "G-14")
@pytest.mark.parametrize(("gone", "runs", "other"), table("When it is old enough", 2))
def test_how_many_runs_must_miss_a_page_is_the_manuals(gone, runs, other):
    assert absent_runs_before_removal(int(gone), Policy()) == int(runs)
    assert absent_runs_before_removal(int(gone), Policy(sum_of_thresholds=True)) == int(other)


@pytest.mark.covers("R4-07", "M-05", "U-18")
@pytest.mark.parametrize(
    ("gone", "age", "seconds", "abandoned"),
    [
        (0, 2, 60, False),
        (0, 3, 60, True),
        (0, 3, 59, False),
        (2, 1, 60, True),
        (9, 0, 60, False),
    ],
)
def test_lost_and_orphaned_periods_are_added(gone, age, seconds, abandoned):
    policy = Policy(orphan_min_age=60)

    assert is_abandoned(gone, age, NOW - seconds, policy, NOW) is abandoned


@pytest.mark.covers("U-18")
@given(*[st.integers(0, 12)] * 2, TIMES, POLICIES, TIMES, *[st.integers(0, 5)] * 2, TIMES)
def test_what_is_abandoned_stays_so_until_it_is_reached(
    gone, age, since, policy, now, more_gone, more_runs, later
):
    """More runs, more time, and by the first reading more losses never save a page."""
    if is_abandoned(gone, age, since, policy, now):
        assert is_abandoned(gone, age + more_runs, since, policy, now + later)
        assert age >= 1
        if not policy.sum_of_thresholds:
            assert is_abandoned(gone + more_gone, age, since, policy, now)


@pytest.mark.covers("M-07")
@pytest.mark.parametrize(
    ("source", "page", "reached", "rule", "when"), table("Pages that a complete run did not see")
)
def test_the_rule_for_a_page_that_was_not_seen_is_the_manuals(source, page, reached, rule, when):
    facts = {
        "is_listed": {"listed": True, "linked": False}[source],
        "is_excluded": {"excluded": True, "allowed": False}[page],
        "is_reached": {"yes": True, "no": False}[reached],
    }
    found = rule_of_unseen(**facts)

    assert (found.word if found else "none") == rule
    assert when == {"absent": "in that run", "none": "never"}.get(rule, "after the threshold")


def test_what_is_neither_excluded_nor_reached_is_orphaned_or_absent():
    assert rule_of_unseen(is_listed=False) is RemovalRule.ORPHAN
    assert rule_of_unseen(is_listed=True) is RemovalRule.ABSENT


def test_an_answer_refutes_every_rule_for_a_page_that_was_not_seen():
    rules = {row[3] for row in table("Pages that a complete run did not see")} - {"none"}

    assert {rule.word for rule in UNSEEN} == rules | {RemovalRule.MOVED.word}


def test_a_look_lets_removal_go_ahead_as_the_manual_says():
    rows = table("When it is old enough", 3)
    spoken = set().union(*(numbers(answer) for answer, told in rows if told == "goes ahead"))
    going = {
        probe for probe in (None, *range(1300)) if lets_page_go(Look(probe, 0, 0, age=3), Policy())
    }

    assert rows[-1] == ["any other, or none", "waits for another run"]
    assert going == spoken
    assert not any(lets_page_go(Look(probe, 0, 0, age=2), Policy()) for probe in spoken)


@pytest.mark.covers("R4-07", "M-05", "U-18", "R4-10")
@pytest.mark.parametrize(
    ("answer", "lost", "gone", "age", "host", "removal"), table("When it is old enough", 4)
)
def test_a_lost_orphan_goes_as_the_manual_says(answer, lost, gone, age, host, removal):
    status = None if answer == "none" else int(answer)
    look = Look(status, int(lost), int(gone), int(age), None, host == "answered")

    assert lets_page_go(look, Policy()) == (removal == "goes ahead")


@pytest.mark.covers("R4-43", "M-08")
def test_an_answer_counts_as_lost_where_the_table_of_ageing_says_so():
    statuses = {
        status: outcome_of_http_status(status, conditional=True) for status in range(200, 1000)
    }
    statuses |= {fault.value: fault.outcome for fault in Fault}

    assert {status for status in statuses if counts_as_lost(status)} == {
        status for status, outcome in statuses.items() if AGEING[outcome].lost
    }


def test_no_answer_counts_as_lost_by_itself():
    assert not counts_as_lost(None)
    assert counts_as_lost(1099)
    assert not counts_as_lost(1100)


@pytest.mark.covers("R4-07", "M-21")
def test_a_redirect_counts_where_the_page_was_lost_by_one():
    """A page behind a login stays behind it, and nobody links to it any more."""
    look = Look(302, 2, 0, 1, 302, host_answered=True)

    assert lets_page_go(look, Policy())
    led_away = {n for n in range(1300) if lets_page_go(look._replace(before=n), Policy())}
    assert led_away == {*REDIRECTS, 1002, 1003, 1004}, "the look follows no redirect"
    assert not lets_page_go(look._replace(host_answered=False), Policy())
    assert not lets_page_go(look._replace(before=403), Policy())
    assert not lets_page_go(look._replace(answer=200), Policy())
    assert not lets_page_go(look._replace(lost_count=1), Policy())


@pytest.mark.covers("G-14", "M-05")
def test_the_second_reading_adds_the_thresholds_for_lost_pages_too():
    policy = Policy(sum_of_thresholds=True)

    def goes(lost, age):
        return lets_page_go(Look(403, lost, 0, age, None, host_answered=True), policy)

    assert [goes(2, age) for age in (3, 4)] == [False, True]
    assert [goes(0, age) for age in (5, 6)] == [False, True]


@pytest.mark.parametrize(
    ("lost", "gone", "age", "since", "looked_at"),
    [
        (0, 0, 2, 0, False),
        (0, 0, 3, 0, True),
        (2, 0, 1, 0, True),
        (1, 0, 1, 0, False),
        (0, 2, 1, 0, True),  # of a page without content
        (2, 0, 1, NOW, False),  # not for long enough
    ],
)
def test_who_is_looked_at(lost, gone, age, since, looked_at):
    policy = Policy(orphan_min_age=60)

    assert needs_verification(Counts(lost, gone), age, since, policy, NOW) is looked_at


def test_by_the_second_reading_a_loss_delays_no_look_that_is_due_without_it():
    policy = Policy(sum_of_thresholds=True)

    assert needs_verification(Counts(1, 0), 3, 0, policy, NOW)
    assert not needs_verification(Counts(1, 1), 3, 0, policy, NOW)


@given(st.integers(0, 1300), *[st.integers(0, 9)] * 3, POLICIES)
def test_what_a_look_lets_go_was_to_be_looked_at(answer, lost, gone, age, policy):
    if age and lets_page_go(Look(answer, lost, gone, age, answer, host_answered=True), policy):
        assert needs_verification(Counts(lost, gone), age, 0, policy, 10**9)


@pytest.mark.parametrize(("removals", "pages", "ratio", "count", "held"), table("The guard"))
def test_what_the_guard_withholds_is_the_manuals(removals, pages, ratio, count, held):
    loss = Loss(int(removals), int(pages))

    assert withholds_sweep(loss, loss, max_ratio=float(ratio), min_count=int(count)) == (
        held == "yes"
    )


@pytest.mark.parametrize(("removals", "pages", "every", "records", "held"), table("The guard", 1))
def test_the_guard_counts_pages_with_content_and_all_records(removals, pages, every, records, held):
    shipped = {"max_ratio": 0.1, "min_count": 10}
    content, whole = Loss(int(removals), int(pages)), Loss(int(every), int(records))

    assert withholds_sweep(content, whole, **shipped) == (held == "yes")
    assert not withholds_sweep(content, whole, max_ratio=1, min_count=0)


@pytest.mark.parametrize(("there", "removals", "pages", "held"), table("The guard", 2))
def test_the_guard_counts_orphans_that_answer_whatever_the_size(there, removals, pages, held):
    shipped = {"max_ratio": 0.1, "min_count": 10}
    loss = Loss(int(removals), int(pages))

    assert withholds_sweep(loss, loss, **shipped, answering=int(there)) == (held == "yes")
    assert not withholds_sweep(loss, loss, max_ratio=1, min_count=0, answering=int(there))


def test_orphans_answer_by_200_and_304_and_temporary_redirects():
    assert ANSWERING == {200, 302, 303, 304, 307} < SPOKEN


LOSSES = st.builds(Loss, st.integers(0, 300), st.integers(0, 300))


@given(LOSSES, LOSSES, st.floats(0, 1), st.integers(0, 300))
def test_a_loss_that_is_withheld_by_itself_is_withheld_beside_any_other(one, other, ratio, count):
    limits = {"max_ratio": ratio, "min_count": count}
    if withholds_sweep(one, Loss(0, 0), **limits):
        assert withholds_sweep(one, other, **limits)
    if withholds_sweep(Loss(0, 0), one, **limits):
        assert withholds_sweep(other, one, **limits)


@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.floats(0, 1),
    st.integers(0, 300),
    st.integers(0, 50),
)
def test_more_removals_are_withheld_rather_and_more_pages_less(removals, pages, ratio, count, more):
    def withheld(n, of, max_ratio=ratio, min_count=count):
        return withholds_sweep(Loss(n, of), Loss(0, 0), max_ratio=max_ratio, min_count=min_count)

    if withheld(removals, pages):
        assert withheld(removals + more, pages)
        assert withheld(removals, max(0, pages - more))
        assert withheld(removals, pages, max_ratio=ratio / 2)
        assert withheld(removals, pages, min_count=count // 2)
        assert ratio < 1


@given(st.integers(2, 10_000), st.floats(0, 1, exclude_max=True), st.integers(0, 20_000))
def test_the_last_pages_of_a_source_never_go_by_themselves(pages, ratio, count):
    everything, records = Loss(pages, pages), Loss(pages, pages + 40_000)
    for losses in ((everything, records), (Loss(0, 0), everything)):
        assert withholds_sweep(*losses, max_ratio=ratio, min_count=count)


@pytest.mark.parametrize(
    ("since", "least", "old"), [(10, 10, True), (10, 11, False), (99, 0, True), (99, 1, False)]
)
def test_a_clock_that_was_set_back_makes_things_young_not_unborn(since, least, old):
    assert is_absence_old(since, now=20, least=least) is old


# Due crawls


@pytest.mark.covers("U-08", "R0-50", "M-11")
@pytest.mark.parametrize(
    ("before", "after", "now", "lost", "gone"),
    [
        (Counts(), Counts(1, 1, 50, 50), 50, 1, 1),
        (Counts(1, 1, 10, 10), Counts(2, 2, 10, 10), 109, 1, 1),
        (Counts(1, 1, 10, 10), Counts(2, 2, 10, 10), 110, 2, 2),
        (Counts(2, 1, 10, 60), Counts(3, 2, 10, 60), 209, 2, 2),
        (Counts(2, 1, 10, 60), Counts(3, 2, 10, 60), 210, 3, 2),
        (Counts(2, 1, 10, 60), Counts(3, 2, 10, 60), 159, 2, 1),
        (Counts(5, 5, 10, 10), Counts(6, 6, 10, 10), 0, 5, 5),  # a clock that was set back
        (Counts(5, 5, 10, 10), Counts(6, 5, 10, 10), 10_000, 6, 5),
        (Counts(2, 2, 10, 10), Counts(), 11, 0, 0),
        (Counts(4, 2, 10, 10), Counts(4, 3, 10, 10), 11, 4, 2),
    ],
)
def test_what_due_crawls_find_again_within_a_day_counts_once(before, after, now, lost, gone):
    found = paced_absence_counts(before, after, 100, now)

    assert found == after._replace(lost=lost, gone=gone)


@given(st.integers(1, 9), st.integers(0, 1000), st.integers(1, 200))
def test_a_count_never_falls_by_its_pace(count, passed, pace):
    before = Counts(count, count, 10, 10)
    after = paced_absence_counts(before, Counts(count + 1, count + 1, 10, 10), pace, 10 + passed)

    assert count <= after.lost <= count + 1
    assert after.lost == after.gone


def test_a_host_that_is_not_known_to_have_answered_lets_no_lost_page_go():
    assert not lets_page_go(Look(403, 2, 0, 9), Policy())
    assert lets_page_go(Look(403, 2, 0, 9, host_answered=True), Policy())


def test_a_page_without_losses_is_looked_at_when_its_absence_is_long_enough():
    """LOST_ORPHAN_RULE=threshold: once gone, both thresholds must be over (G-14)."""
    policy = Policy(sum_of_thresholds=True)
    for age, looked_at in ((4, False), (5, True)):
        assert needs_verification(Counts(0, 1, None, 10), age, 0, policy, now=20) is looked_at


@pytest.mark.parametrize(
    ("stored", "found_so", "believed"),
    [(0, 0, True), (9, 0, True), (10, 0, False), (10, 1, False), (10, 2, True), (11, 9, True)],
)
def test_a_large_sitemap_that_is_empty_is_believed_by_the_third_run(stored, found_so, believed):
    assert empties_sitemap(stored, found_so) is believed


def test_a_clock_that_leapt_is_believed_when_another_run_has_seen_it():
    most = 180 * 86_400

    assert steady_time(7, None) == 7
    assert steady_time(most + 7, 7) == most + 7
    assert steady_time(most + 8, 7) == 7
    assert steady_time(7, most) == 7  # set back


@pytest.mark.parametrize(
    ("ends", "now", "starts"),
    [
        ([], 7, [7]),
        ([1, 2, 3], 4, [1, 2, 3, 4]),
        ([5, 1, 6], 7, [5, 5, 6, 7]),  # the clock was behind at the end of the second
        ([1, 50, 6], 7, [1, 6, 6, 7]),  # and here it was ahead
        ([1, 50, 60], 7, [1, 7, 7, 7]),
        ([7, 8], 7, [7, 7, 7]),
        ([3], 2, [2, 2]),
        ([7, 3], 7, [7, 7, 7]),
    ],
)
def test_an_absence_begins_with_a_run_whose_clock_was_right(ends, now, starts):
    assert absence_starts(ends, now) == starts
