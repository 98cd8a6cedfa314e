"""Which notices a target gets, how often it is tried, and what a digest has (ADR 174)."""

from itertools import pairwise

import pytest

from smartcrawl.rules.notices import (
    CLAIM,
    EVENTS,
    KEPT,
    MOST_PAGES,
    PATIENCE,
    Event,
    Wish,
    change_digests,
    is_given_up,
    may_claim,
    retry_delay,
)
from smartcrawl.rules.visibility import Visibility

NOW = 1_790_000_000
PUBLIC, PRIVATE = Visibility.PUBLIC, Visibility.PRIVATE


def change(kind: str, url: str | None) -> dict[str, object]:
    return {"kind": kind, "url": url}


@pytest.mark.parametrize(("share", "takes"), [(0.1, False), (0.2, True), (0.3, True), (None, True)])
def test_a_page_of_which_little_changed_is_left_out(share: float | None, takes: bool):
    wish = Wish(min_share=0.2)

    assert wish.takes(change("modified", "u") | {"share": share}) is takes
    assert wish.takes(change("new", "u"))
    assert Wish().takes(change("modified", "u") | {"share": 0.0})
    assert not Wish(min_share=0.2, has_page=lambda _: False).takes(change("new", "u"))


def test_a_target_gets_public_sources_and_the_private_ones_that_it_names():
    every, named = Wish(), Wish(sources=frozenset({"wiki"}))
    for event in EVENTS:
        assert every.wants(event, "docs", PUBLIC)
        assert not every.wants(event, "wiki", PRIVATE)
        assert named.wants(event, "wiki", PRIVATE)
        assert not named.wants(event, "docs", PUBLIC)


def test_a_target_gets_its_events_alone():
    wish = Wish(events=frozenset({Event.CHANGES}))
    assert [event for event in EVENTS if wish.wants(event, "docs", PUBLIC)] == [Event.CHANGES]
    assert Event.TEST not in EVENTS


def test_the_words_of_events_stay():
    """They are stored, and receivers compare them."""
    assert [*map(str, Event)] == [
        "run.incomplete", "removal.waiting", "changes", "source.stale", "source.recovered", "test",
    ]  # fmt: skip


def test_attempts_come_ever_later_for_a_day():
    """Over 24 hours, a target that is away is tried about twenty times."""
    times, at = [], 0
    while not is_given_up(0, at):
        times.append(at)
        at += retry_delay(len(times))
    assert times[:4] == [0, 30, 90, 210]
    assert 15 < len(times) < 25
    assert at >= PATIENCE == 24 * 3_600
    assert max(b - a for a, b in pairwise(times)) == 7_200


def test_the_figures_of_the_manual():
    """docs/notices.md names them."""
    assert (CLAIM, KEPT, MOST_PAGES) == (60, 7 * 86_400, 100)
    delays = [retry_delay(failures) for failures in (1, 2, 3, 8, 9, 10_000)]
    assert delays == [30, 60, 120, 3_840, 7_200, 7_200]
    assert (Wish().min_changes, Wish().events) == (1, frozenset(EVENTS))


def test_a_notice_is_given_up_after_a_day_and_not_before():
    assert not is_given_up(NOW, NOW + PATIENCE - 1)
    assert is_given_up(NOW, NOW + PATIENCE)
    assert not is_given_up(NOW, NOW - 9)  # a clock that was set back


@pytest.mark.parametrize(
    ("next_at", "claimed_until", "may"),
    [
        (0, None, True),
        (NOW, NOW, True),
        (NOW + 1, None, False),
        (NOW + 7_200 + 60, None, False),  # set by a clock that is a minute ahead
        (NOW + 7_200 + 61, None, True),
        (0, NOW + 1, False),
        (0, NOW + CLAIM, False),
        (0, NOW + CLAIM + 1, False),  # set a moment later than this process read its clock
        (0, NOW + CLAIM + 60, False),
        (0, NOW + CLAIM + 61, True),
    ],
)
def test_a_target_is_claimed_by_one_process_and_a_clock_that_leapt_blocks_none(
    next_at: int, claimed_until: int | None, may: bool
):
    assert may_claim(next_at=next_at, claimed_until=claimed_until, now=NOW) is may


def test_a_digest_counts_all_and_names_a_few():
    found = [change("new", f"http://a.example/{number}") for number in range(10_000)]
    [digest] = change_digests([change("shared", None), *found], [Wish()])
    assert digest is not None
    assert (digest.counts, len(digest.pages), digest.more) == (
        {"new": 10_000}, MOST_PAGES, 10_000 - MOST_PAGES,
    )  # fmt: skip
    assert digest.pages[0] == found[0]


def test_a_digest_has_the_pages_that_a_target_wants_from_its_size_on():
    found = [change("new", "http://a.example/blog/1"), change("lost", "http://a.example/docs/1")]
    wish = Wish(has_page=lambda url: "/docs/" in url)
    [digest] = change_digests(found, [wish])
    assert digest is not None
    assert (digest.counts, digest.pages, digest.more) == ({"lost": 1}, found[1:], 0)
    few, enough = change_digests(iter(found), [Wish(min_changes=3), Wish(min_changes=2)])
    assert few is None
    assert enough is not None
    assert enough.counts == {"new": 1, "lost": 1}
    for wish in (Wish(), Wish(min_changes=0)):
        assert change_digests([change("shared", None)], [wish]) == [None]


def test_without_a_wish_no_change_is_read():
    changes = iter([change("new", "http://a.example/")])
    assert change_digests(changes, []) == []
    assert len(list(changes)) == 1
