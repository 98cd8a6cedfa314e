"""What other schedules would have asked, and how late they would have noticed changes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.schedule import (
    PHASES,
    SCATTER,
    Life,
    Replay,
    Schedule,
    fixed_schedule,
    simulate_schedules,
    simulated_pace,
    unhurried_schedule,
)

DAY = 86_400  #: seconds
#: Visits after 0: on days 1 to 3, 6, 9, 12, 19, 26, 33, 47 and so on.
PLAIN = Schedule(jitter=0)

SCHEDULES = st.builds(
    Schedule,
    base=st.integers(1, 40),
    longest=st.integers(1, 200),
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda s: tuple(sorted(s))),
    patience=st.integers(1, 4),
    jitter=st.integers(0, 500),
)
PACES = st.integers(1, 60)
TIMES = st.integers(0, 400)
LIVES = st.builds(
    Life,
    no=st.integers(0, 1 << 20),
    first_seen=TIMES,
    changes=st.lists(st.integers(0, 450), max_size=6).map(lambda c: tuple(sorted(c))),
)
WINDOWS = st.tuples(TIMES, TIMES).map(sorted)


def replay(lives, schedule, *, pace=DAY, since=-1, now):
    """Replay under one schedule, all of the history unless a window is given."""
    (found,) = simulate_schedules(lives, [schedule], pace=pace, since=since, now=now)
    return found


def shift(life, pace):
    return pace * (life.no * SCATTER % PHASES) // PHASES


def by_hand(life, schedule, pace, now):
    """Yield the visits of a page, run by run, each with the changes that it finds."""
    waiting = [at for at in life.changes if life.first_seen < at <= now]
    run = last = life.first_seen - shift(life, pace)
    unchanged = 0
    yield life.first_seen, []
    while run <= now or waiting:
        run += pace
        if run < last + schedule.spread(schedule.interval(unchanged), life.no):
            continue
        last, found = run, [at for at in waiting if at <= run]
        waiting = waiting[len(found) :]
        unchanged = 0 if found else unchanged + 1
        yield run, found


@given(st.lists(LIVES, max_size=4), SCHEDULES, PACES, WINDOWS)
def test_a_replay_is_what_the_crawl_would_do_run_by_run(lives, schedule, pace, window):
    since, now = window
    lives_now = [life for life in lives if life.first_seen <= now]
    visits = [v for life in lives_now for v in by_hand(life, schedule, pace, now)]
    late = sorted(at - change for at, found in visits for change in found if change > since)

    found = replay(lives, schedule, pace=pace, since=since, now=now)

    assert found == Replay(
        pages=len(lives_now),
        requests=sum(since < at <= now for at, _ in visits),
        changes=len(late),
        waiting=sum(at > now for at, found in visits for change in found if change > since),
        staleness=sum(late) / len(late) if late else None,
        late=min(
            (d for d in late if 20 * sum(e <= d for e in late) >= 19 * len(late)), default=None
        ),
    )


def days(schedule, *changes, now=60, since=-1, no=0):
    """The days on which a page that is first seen on day 0 is asked."""
    life = Life(no, 0, tuple(day * DAY for day in changes))
    counts = [
        replay([life], schedule, since=since, now=day * DAY).requests for day in range(-1, now + 1)
    ]
    return [day for day in range(now + 1) if counts[day + 1] > counts[day]]


def test_a_page_that_never_changes_ends_at_the_longest_interval():
    assert days(PLAIN) == [0, 1, 2, 3, 6, 9, 12, 19, 26, 33, 47]
    assert days(replace(PLAIN, longest=5 * DAY), now=22) == [0, 1, 2, 3, 6, 9, 12, 17, 22]


def test_a_change_starts_again_at_the_base_interval():
    assert days(PLAIN, 10, now=25) == [0, 1, 2, 3, 6, 9, 12, 13, 14, 15, 18, 21, 24]


def test_a_change_is_found_by_the_next_visit_together_with_others_that_wait():
    changes = (10 * DAY, 11 * DAY, 12 * DAY)
    found = replay([Life(0, 0, changes)], PLAIN, now=13 * DAY)

    assert (found.changes, found.waiting) == (3, 0)
    assert (found.staleness, found.late) == (DAY, 2 * DAY)


def test_a_change_that_waits_at_the_end_counts_until_the_visit_that_would_find_it():
    found = replay([Life(0, 0, (10 * DAY,))], PLAIN, now=11 * DAY)

    assert (found.requests, found.changes, found.waiting) == (6, 1, 1)
    assert found.staleness == found.late == 2 * DAY


def test_the_window_begins_with_the_interval_that_was_reached_by_then():
    life = Life(0, 0, (5 * DAY, 30 * DAY))
    found = replay([life], PLAIN, since=19 * DAY, now=33 * DAY)

    # the change of day 5 is found on day 6; visits follow on 7 to 9, 12, 15, 18, 25, 32 and 33
    assert (found.requests, found.changes) == (3, 1)
    assert found.staleness == 2 * DAY


def test_what_happens_at_the_beginning_lies_before_the_window_and_at_the_end_within():
    life = Life(0, 2 * DAY, (3 * DAY, 4 * DAY))
    flat = fixed_schedule(DAY, pace=DAY)

    assert replay([life], flat, since=2 * DAY, now=4 * DAY).requests == 2
    assert replay([life], flat, since=2 * DAY - 1, now=4 * DAY).requests == 3
    assert replay([life], flat, since=3 * DAY, now=4 * DAY).changes == 1
    assert replay([life], flat, now=4 * DAY).changes == 2


def test_changes_outside_a_life_are_none():
    """A clock that was put back leaves such rows."""
    life = Life(0, 2 * DAY, (DAY, 2 * DAY, 5 * DAY))

    assert replay([life], PLAIN, now=4 * DAY).changes == 0
    assert replay([life], PLAIN, now=4 * DAY).requests == 3


def test_a_page_that_is_seen_after_the_end_is_left_out():
    assert replay([Life(0, 5, (6,))], PLAIN, now=4) == Replay(0, 0, 0, 0, None, None)
    assert replay([Life(0, 5)], PLAIN, now=5).pages == 1


def test_pages_are_spread_over_the_time_between_two_runs():
    """By number: 1 lies 40,503 of 65,536 parts of it before the other one."""
    lives = [Life(no, 0, (3 * DAY,)) for no in (0, 1)]
    first, second = (replay([life], fixed_schedule(DAY, pace=DAY), now=9 * DAY) for life in lives)

    assert (first.late, second.late) == (0, DAY - DAY * 40_503 // 65_536)
    lives = [Life(no, 0, (3 * DAY,)) for no in range(1, 1_001)]
    many = replay(lives, fixed_schedule(DAY, pace=DAY), now=9 * DAY)
    assert many.staleness == pytest.approx(DAY / 2, rel=0.01)


def test_95_percent_are_not_later():
    lives = [Life(0, 0, (10 * DAY - late,)) for late in range(200)]
    flat = fixed_schedule(10 * DAY, pace=10 * DAY)

    assert replay(lives, flat, pace=10 * DAY, now=10 * DAY).late == 189
    assert replay(lives[:21], flat, pace=10 * DAY, now=10 * DAY).late == 19


def test_lives_are_read_once_for_all_schedules():
    lives = iter([Life(0, 0, (DAY,)), Life(0, DAY)])
    plain, flat = simulate_schedules(
        lives, [PLAIN, fixed_schedule(DAY, pace=DAY)], pace=DAY, since=-1, now=5 * DAY
    )

    assert (plain.pages, flat.pages) == (2, 2)
    assert (plain.requests, flat.requests) == (5 + 4, 6 + 5)


def test_nothing_is_asked_between_two_runs():
    half = replace(PLAIN, base=DAY // 2)

    assert days(half, now=12) == [0, 1, 2, 3, 5, 7, 9]
    assert days(replace(PLAIN, base=DAY + 1), now=15) == [0, 2, 4, 6, 10, 14]


@given(st.lists(LIVES, max_size=4), SCHEDULES, PACES, WINDOWS)
def test_every_run_asks_most_and_finds_first(lives, schedule, pace, window):
    since, now = window
    names = {"pace": pace, "since": since, "now": now}
    most, other = simulate_schedules(lives, [fixed_schedule(pace, pace=pace), schedule], **names)

    assert other.requests <= most.requests
    assert other.waiting >= most.waiting
    assert (other.pages, other.changes) == (most.pages, most.changes)
    if other.staleness is not None:
        assert 0 <= most.staleness <= other.staleness
        assert 0 <= most.late <= other.late


@given(LIVES, SCHEDULES, PACES, WINDOWS, st.integers(1, 9), st.integers(1, 9))
def test_who_asks_more_often_is_not_later(life, schedule, pace, window, often, times):
    """The visits of the one are visits of the other, too."""
    since, now = window
    names = {"pace": pace, "since": since, "now": now}
    seldom, more = (fixed_schedule(pace * often * n, pace=pace) for n in (times, 1))
    single = replace(life, changes=life.changes[:1])
    fewer, flat = simulate_schedules([single], [seldom, more], **names)

    assert fewer.requests <= flat.requests
    assert (fewer.staleness or 0) >= (flat.staleness or 0)
    steps = (1, *schedule.steps)
    backs_off = Schedule(pace, pace * 99, steps, schedule.patience, jitter=0)
    fewer, flat = simulate_schedules([life], [backs_off, unhurried_schedule(backs_off)], **names)
    assert fewer.requests <= flat.requests
    assert (fewer.staleness or 0) >= (flat.staleness or 0)


@given(st.lists(LIVES, max_size=4), SCHEDULES, PACES, WINDOWS)
def test_windows_that_follow_each_other_add_up(lives, schedule, pace, window):
    middle, now = window
    parts = [
        replay(lives, schedule, pace=pace, since=since, now=end)
        for since, end in ((-1, middle), (middle, now))
    ]

    whole = replay(lives, schedule, pace=pace, now=now)

    assert whole.requests == parts[0].requests + parts[1].requests
    assert whole.changes == parts[0].changes + parts[1].changes


def test_a_long_history_is_replayed_without_walking_through_it():
    """Neither years of daily visits nor an absurd patience make it slow or big."""
    patient = replace(PLAIN, patience=10**11)
    found = replay([Life(0, 0, (10**12,))], patient, now=10**15)

    assert found.requests == 1 + 10**15 // DAY
    assert found.late == -(10**12) % DAY


# What is compared


def test_the_pace_is_the_mean_time_between_runs():
    runs = [0, 90, 110, 290, 300, 301]

    assert simulated_pace(runs, begin=0, now=300, longest=1_000) == 75
    assert simulated_pace(runs, begin=-1, now=300, longest=1_000) == 60
    assert simulated_pace(runs, begin=0, now=300, longest=70) == 70
    assert simulated_pace(runs, begin=290, now=299, longest=70) == 70
    assert simulated_pace([], begin=0, now=300, longest=70) == 70
    assert simulated_pace([1, 1, 1], begin=0, now=1, longest=70) == 1


def test_every_run_is_a_schedule_of_whole_runs():
    assert fixed_schedule(100, pace=100) == Schedule(100, 100, (1,), jitter=0)
    assert [fixed_schedule(seconds, pace=10).interval(9) for seconds in (1, 14, 15, 24, 25)] == [
        10, 10, 20, 20, 30,
    ]  # fmt: skip
    assert fixed_schedule(100, pace=99).spread(99, 7) == 99


def test_who_is_unhurried_no_longer_waits_the_longer():
    assert unhurried_schedule(Schedule(steps=(2, 3, 7))) == Schedule(steps=(2,))
