"""Which of several pages with equal content is the original (docs/decisions.md)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.clones import (
    KEPT,
    MIN_CLONE_PAGES,
    MIN_CLONE_TEXT,
    NONE,
    OWN,
    Member,
    Place,
    decide_clone_places,
)
from tests.rules.manual import section, table

ENTRIES = {"own": OWN, "kept": KEPT, "none": NONE}
FIRST, WORST = 1, 2

#: By the words of the manual's order: the facts that make a page come first, and last.
ORDER = {
    ("living", "lost"): ({"lost": False}, {"lost": True}),
    ("the standing original", "any other"): ({"entry": OWN}, {"entry": NONE}),
    ("had the content before this run", "got it in this run"): (
        {"fresh": False},
        {"fresh": True},
    ),
    ("lost, with an entry in the index", "lost, with none"): (
        {"lost": True, "entry": KEPT},
        {"lost": True, "entry": NONE},
    ),
    ("smaller depth", "greater depth"): ({"depth": 1}, {"depth": 2}),
    ("shorter address", "longer address"): ({"length": 30}, {"length": 31}),
    ("earlier first run", "later first run"): ({"first_run": 1}, {"first_run": 2}),
    ("lower id", "higher id"): ({"id": b"\x01"}, {"id": b"\x02"}),
}
BASE = Member(0, False, False, NONE, 1, 30, 1, b"\x01", False, False)


def originals(found):
    return [no for no, place in found.items() if place.entry == OWN]


def members(*, entries=(NONE, OWN, KEPT)):
    """Groups of pages with distinct numbers and ids, in any order.

    A page that answered in a run is not unreachable.
    """
    one = st.tuples(
        st.booleans(),
        st.booleans(),
        st.sampled_from(entries),
        *[st.integers(0, 2)] * 3,
        st.sampled_from([(False, False), (True, False), (False, True)]),
    )
    return (
        st.lists(one, min_size=1, max_size=6)
        .map(
            lambda rows: [
                Member(no, *row[:-1], bytes([no]), *row[-1]) for no, row in enumerate(rows)
            ]
        )
        .flatmap(st.permutations)
    )


@pytest.mark.covers("R4-16", "M-23")
@pytest.mark.parametrize("row", range(len(ORDER)))
def test_the_order_of_clones_is_the_manuals(row):
    """Each criterion decides against all that stand below it, and only where they differ."""
    assert [tuple(row) for row in table("Clones")] == list(ORDER)
    (best, worst), later = list(ORDER.values())[row], list(ORDER.values())[row + 1 :]
    first, other = BASE._replace(no=FIRST), BASE._replace(no=WORST)
    for good, bad in later:
        if "lost" not in good:
            first, other = first._replace(**bad), other._replace(**good)
    if "entry" not in best or "lost" in best:  # a kept entry is none of a standing original
        entries = (NONE, KEPT) if row > 2 else (NONE, OWN)
        first, other = first._replace(entry=entries[0]), other._replace(entry=entries[1])
    first, other = first._replace(**best), other._replace(**worst)

    midway = "entry" in best and "lost" not in best  # a fresh original stands only then
    assert originals(decide_clone_places([other, first], midway=midway)) == [FIRST]


PAGES = {
    "the first": BASE._replace(no=FIRST, depth=0),
    "another, living": BASE._replace(no=WORST),
    "another, lost, with own entry": BASE._replace(no=WORST, lost=True, entry=OWN),
    "another, lost, with kept entry": BASE._replace(no=WORST, lost=True, entry=KEPT),
    "another, lost, with no entry": BASE._replace(no=WORST, lost=True),
}


@pytest.mark.covers("R4-13", "R4-15", "M-23")
@pytest.mark.parametrize(("page", "original", "entry"), table("Clones", 1))
def test_the_places_of_clones_are_the_manuals(page, original, entry):
    member = PAGES[page]
    group = {PAGES["the first"].no: PAGES["the first"], member.no: member}
    told = Place({"the first": FIRST, "itself": None}[original], ENTRIES[entry])

    assert decide_clone_places(group.values(), midway=False)[member.no] == told


ORPHANS = {
    "an orphan whose look failed": {"unreachable": True},
    "answered in this run": {"answered": True},
    "any other": {},
}


@pytest.mark.covers("R4-14", "R4-16", "M-23")
@pytest.mark.parametrize(("first", "other", "original"), table("Clones", 2))
def test_the_manual_says_when_an_orphan_hands_over(first, other, original):
    stands = BASE._replace(no=FIRST, entry=OWN, depth=0, **ORPHANS[first])
    last = BASE._replace(no=WORST, **ORPHANS[other])
    between = BASE._replace(no=3, depth=0)
    group = [last, between, stands]
    expected = {"the first": FIRST, "the other": WORST}[original]

    assert originals(decide_clone_places(group, midway=False)) == [expected]
    assert originals(decide_clone_places(group, midway=True)) == [FIRST], "only when the run ends"


def test_an_orphan_hands_over_to_the_best_page_that_answered_and_to_no_lost_one():
    orphan = BASE._replace(no=FIRST, entry=OWN, unreachable=True)
    lost = BASE._replace(no=2, answered=True, lost=True, entry=KEPT)
    answered = [BASE._replace(no=no, answered=True, depth=no) for no in (4, 3)]

    assert originals(decide_clone_places([lost, orphan], midway=False)) == [FIRST]
    assert originals(decide_clone_places([lost, orphan, *answered], midway=False)) == [3]


def test_the_page_that_an_orphan_handed_over_to_keeps_the_place_in_its_run():
    """It got the content in this run, and another page, which did not answer, had it before."""
    orphan = BASE._replace(no=FIRST, entry=OWN, depth=2, unreachable=True)
    silent = BASE._replace(no=2, depth=1)
    answered = BASE._replace(no=3, fresh=True, answered=True)
    group = [silent, orphan, answered]
    found = decide_clone_places(group, midway=False)

    assert originals(found) == [3]
    assert decide_clone_places(settled(group, found), midway=False) == found
    taken = [orphan._replace(entry=NONE), silent, answered._replace(entry=OWN)]
    for other in ({"unreachable": False}, {"lost": True}):
        group = [taken[0]._replace(**other), *taken[1:]]
        assert originals(decide_clone_places(group, midway=False)) == [2]


def test_the_manual_has_each_case_of_an_orphan():
    assert {row[0] for row in table("Clones", 2)} == set(ORPHANS) - {"answered in this run"}
    assert {row[1] for row in table("Clones", 2)} == {"answered in this run", "any other"}


def test_every_place_of_a_clone_is_in_the_manual():
    assert [page for page, *_ in table("Clones", 1)] == list(PAGES)


def test_the_entries_and_the_shortest_text_are_the_manuals():
    (least,) = re.findall(r"at least (\d+) characters", section("Clones"))

    (many,) = re.findall(r"at least (\d+) pages", section("Clones"))
    assert (int(least), int(many)) == (MIN_CLONE_TEXT, MIN_CLONE_PAGES)
    assert (NONE, OWN, KEPT) == (0, 1, 2)


def test_nobody_has_no_original():
    assert decide_clone_places([], midway=False) == {}


@pytest.mark.covers("R4-13", "R4-14", "R4-16", "M-23")
@given(members(), st.booleans())
def test_exactly_one_page_is_the_original_and_a_living_one_if_anybody_lives(group, midway):
    found = decide_clone_places(group, midway=midway)
    (original,) = originals(found)
    living = {member.no for member in group if not member.lost}

    assert set(found) == {member.no for member in group}
    assert original in living or not living
    for member in group:
        place = found[member.no]
        if member.no in living and member.no != original:
            assert place == (original, NONE)
        else:
            assert place.duplicate_of is None


@pytest.mark.covers("M-23", "R4-04")
@given(members(), st.booleans())
def test_a_lost_page_is_no_clone_and_keeps_the_entry_that_it_has(group, midway):
    found = decide_clone_places(group, midway=midway)
    for member in group:
        if member.lost:
            place = found[member.no]
            assert place.duplicate_of is None
            if place.entry != OWN:
                assert place.entry == (KEPT if member.entry else NONE)


@pytest.mark.covers("M-23")
@given(members(), st.booleans(), st.randoms())
def test_the_order_of_arrival_decides_nothing(group, midway, chance):
    shuffled = chance.sample(group, len(group))

    assert decide_clone_places(group, midway=midway) == decide_clone_places(shuffled, midway=midway)


def settled(group, found):
    """Return a group as it is once its places are written."""
    return [member._replace(entry=found[member.no].entry) for member in group]


@pytest.mark.covers("M-23")
@given(members(), st.booleans())
def test_a_second_election_changes_nothing(group, midway):
    found = decide_clone_places(group, midway=midway)

    assert decide_clone_places(settled(group, found), midway=midway) == found


def standing(group):
    return [member.no for member in group if member.entry == OWN and not member.lost]


@pytest.mark.covers("M-23")
@given(members(entries=(NONE, KEPT)), st.data())
def test_while_a_run_goes_on_the_standing_original_stays(group, data):
    """Among pages to which the content came in this run, and among all others."""
    fresh = data.draw(st.booleans())
    group = [member._replace(fresh=fresh) for member in group]
    stands = data.draw(st.sampled_from(group))._replace(entry=OWN, lost=False)
    group = [stands if member.no == stands.no else member for member in group]

    assert originals(decide_clone_places(group, midway=True)) == standing(group) == [stands.no]


def test_while_a_run_goes_on_a_fresh_original_gives_way_to_nobody():
    """One that was lost alone is found again, after another became the original."""
    stands = BASE._replace(no=FIRST, fresh=True, entry=OWN)
    back = BASE._replace(no=2, entry=KEPT, id=b"\x02")

    assert originals(decide_clone_places([stands, back], midway=True)) == [FIRST]


@pytest.mark.covers("M-23")
def test_at_the_end_a_fresh_original_is_a_page_like_any_other():
    stands = BASE._replace(no=FIRST, fresh=True, entry=OWN, depth=2)
    nearer = BASE._replace(no=2, fresh=True, id=b"\x02")

    assert originals(decide_clone_places([stands, nearer], midway=True)) == [FIRST]
    assert originals(decide_clone_places([stands, nearer], midway=False)) == [2]


def test_at_the_end_the_standing_original_stays_before_a_nearer_page_that_held_it_too():
    stands = BASE._replace(no=FIRST, entry=OWN, depth=2)
    nearer = BASE._replace(no=2, entry=NONE, depth=1, id=b"\x02")

    assert originals(decide_clone_places([nearer, stands], midway=False)) == [FIRST]
