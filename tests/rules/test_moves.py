"""Where pages moved: redirects and canonical links (docs/decisions.md)."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.absence import PERMANENT as FOR_GOOD
from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.moves import (
    MAX_CANONICAL_SHARE,
    Fate,
    Move,
    canonical_after_moves,
    chain_of_moves,
    fates_of_moves,
    flooding_canonicals,
    login_wall,
)
from tests.rules.manual import header, numbers, section, table

PAGE, OUT, END = 1, None, 99  #: numbers; END is indexed
GONE, ASIDE = 98, 97  #: GONE answers 404; ASIDE names it as its canonical page
BARRED = 95  #: is excluded by robots.txt
LEFT_OUT = 96  #: was not asked, because the operator permits fewer redirects
PERMANENT = numbers(header("Moved pages")[1])
HOPS = st.dictionaries(st.integers(0, 9), st.none() | st.integers(0, 12), max_size=10)


def way(status, *stops):
    """Return the moves from PAGE over some stops; each redirects with the same status."""
    numbers_ = [PAGE, *stops]
    return [
        Move(no, status, f"http://a.example/{target}", target)
        for no, target in zip(numbers_, stops, strict=False)
    ]


def over(hops):
    """Return the stops of a way of so many hops, which ends at END."""
    return [*range(2, hops + 1), END]


def crowd(status, size, *, login=END):
    """Return PAGE and others that lead to one login page."""
    return [Move(PAGE + n, status, f"http://a.example/login?next=/{n}", login) for n in range(size)]


WAYS = {
    "an indexed page": lambda status: way(status, END),
    "an indexed page after 5 hops": lambda status: way(status, *over(5)),
    "an indexed page after 6 hops": lambda status: way(status, *over(6)),
    "a page that a limit of redirects left out": lambda status: way(status, 2, LEFT_OUT),
    "a page that is not indexed": lambda status: way(status, 2),
    "out of scope": lambda status: [
        *way(status, 2),
        Move(2, status, "http://b.example/", OUT, leaves=True),
    ],
    "a page that robots.txt excludes": lambda status: way(status, 2, BARRED),
    "a page that answers 404 or 410": lambda status: way(status, GONE),
    "out of scope, by way of a temporary redirect": lambda status: [
        *way(status, 2),
        Move(2, 303, "http://b.example/", OUT, leaves=True),
    ],
    "a 404, by way of a temporary redirect": lambda status: [
        *way(status, 2),
        *(Move(2, 307, "http://a.example/98", GONE),),
    ],
    "a 404, by way of a page that stands aside": lambda status: way(status, ASIDE),
    "a shared wall": lambda status: [*way(302, END), *crowd(302, 12)[1:], *crowd(status, 1)],
    "back to itself": lambda status: way(status, PAGE),
    "a circle of others": lambda status: way(status, 2, 3, 2),
}


@pytest.mark.covers("M-21", "U-06")
@pytest.mark.parametrize(
    ("status", "leads_to", "fate"),
    [
        (status, leads_to, fate)
        for leads_to, *told in table("Moved pages")
        for kind, fate in zip(header("Moved pages")[1:], told, strict=True)
        for status in sorted(numbers(kind))
    ],
)
def test_the_fate_of_a_redirect_is_the_manuals(status, leads_to, fate):
    moves = WAYS[leads_to](status)
    unfollowed = {move.no for move in moves if move.target_no == LEFT_OUT}
    found = fates_of_moves(
        moves,
        {END},
        {ASIDE: GONE},
        ended={BARRED, LEFT_OUT},
        missing={GONE, LEFT_OUT},
        unfollowed=unfollowed,
    )

    assert found[PAGE][0] == Fate(fate)


@pytest.mark.covers("M-21")
@pytest.mark.parametrize("status", sorted(PERMANENT))
def test_a_target_that_cannot_be_followed_is_not_out_of_scope(status):
    """A trap, or more redirects than are followed: the address has no number."""
    refused, leaves = (Move(PAGE, status, "http://a.example/", None, True, way) for way in (0, 1))

    assert fates_of_moves([refused], ())[PAGE] == (Fate.WAITS, [])
    assert fates_of_moves([leaves], ())[PAGE] == (Fate.AWAY, [])


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize("status", sorted(REDIRECTS))
def test_a_redirect_that_was_not_followed_says_nothing_of_the_others(status):
    """What was asked, on whichever way, counts."""
    moves = [*way(status, END), Move(2, status, "http://a.example/96", LEFT_OUT)]
    moves += [Move(3, status, "http://a.example/x", None), Move(4, status, "http://a.example/4", 4)]
    found = {no: fate for no, (fate, _) in fates_of_moves(moves, {END}, unfollowed={1, 2}).items()}

    assert (found[PAGE], found[2]) == (Fate.MOVED, Fate.WAITS)
    assert found[3] is (Fate.LOST if status in TEMPORARY else Fate.WAITS)
    assert found[4] is Fate.LOOP


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("most", "hops", "fate"),
    [(0, 5, Fate.MOVED), (4, 6, Fate.TOO_LONG), (5, 6, Fate.TOO_LONG), (6, 6, Fate.MOVED),
     (6, 7, Fate.TOO_LONG), (20, 20, Fate.MOVED), (20, 21, Fate.TOO_LONG)],
)  # fmt: skip
def test_a_larger_limit_permits_longer_chains(most, hops, fate):
    assert fates_of_moves(way(301, *over(hops)), {END}, most=most)[PAGE][0] is fate


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("most", "fate"), [(4, Fate.TOO_LONG), (5, Fate.TOO_LONG), (6, Fate.WAITS)]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_the_hop_that_a_limit_forbids_makes_a_chain_too_long(most, fate, is_known):
    """Five hops were followed; the sixth leads to an address that may have a number already."""
    moves = way(301, *over(6))
    if not is_known:
        moves[-1] = replace(moves[-1], target_no=None)

    judged = fates_of_moves(moves, (), most=most, unfollowed={moves[-1].no})

    assert judged[PAGE][0] is fate
    assert judged[moves[1].no][0] is Fate.WAITS


def test_a_redirect_out_of_scope_is_no_hop_within_the_source():
    moves = [*way(301, *over(5)), Move(END, 301, "http://b.example/", None, leaves=True)]

    assert fates_of_moves(moves, ())[PAGE][0] is Fate.AWAY


def test_an_end_that_answered_nothing_is_waited_for():
    assert fates_of_moves(way(301, 2, 3), (), ended={GONE})[PAGE][0] is Fate.WAITS
    assert (
        fates_of_moves(way(301, 2, 3), (), ended={2})[PAGE][0] is Fate.WAITS
    )  # only the end counts
    assert fates_of_moves(way(301, 2, 3), (), ended={3})[PAGE][0] is Fate.AWAY


@pytest.mark.parametrize("status", [301, 302])
def test_only_the_end_of_a_chain_makes_it_missing(status):
    assert fates_of_moves(way(status, 2, 3), (), missing={3})[PAGE][0] is Fate.MISSING
    assert fates_of_moves(way(status, 2, 3), (), missing={2})[PAGE][0] is not Fate.MISSING
    assert fates_of_moves(way(status, 2, 3, 2), (), missing={2})[PAGE][0] is Fate.LOOP
    walled = crowd(status, 3, login=9)
    assert fates_of_moves(walled, (), missing={9})[PAGE][0] is Fate.MISSING, "no wall answers so"


def test_every_fate_and_kind_of_redirect_is_in_the_manual():
    permanent, temporary = header("Moved pages")[1:]

    assert {fate for _, *told in table("Moved pages") for fate in told} == set(Fate)
    assert numbers(temporary) == TEMPORARY
    assert numbers(permanent) == FOR_GOOD
    assert FOR_GOOD | TEMPORARY == REDIRECTS
    assert [leads_to for leads_to, *_ in table("Moved pages")] == list(WAYS)


@pytest.mark.covers("M-21")
@pytest.mark.parametrize(("size", "others", "is_wall"), table("Moved pages", 1))
def test_a_target_shared_by_pages_with_content_is_a_wall(size, others, is_wall):
    size, others = int(size), int(others)
    moves = [replace(move, has_content=move.no < PAGE + size) for move in crowd(302, size + others)]
    moves += [Move(1000, 301, "http://a.example/login?from=1000", END)]
    found = fates_of_moves(moves, {END})

    assert {found[move.no][0] for move in moves[:-1]} == {
        Fate.LOST if is_wall == "yes" else Fate.MOVED
    }
    assert found[1000][0] is Fate.MOVED
    assert {fate for fate, _ in fates_of_moves(moves, {END}, walls=False).values()} == {Fate.MOVED}


@pytest.mark.covers("M-21")
def test_only_temporary_redirects_make_a_wall():
    moves = crowd(302, 1) + crowd(301, 10)[1:]

    assert {fate for fate, _ in fates_of_moves(moves, {END}).values()} == {Fate.MOVED}


def test_a_page_that_moved_behind_a_wall_keeps_what_is_held():
    """http to https for good, then to the login for a moment: nothing says that it moved there."""
    walled = [replace(move, has_content=False) for move in crowd(302, 3)]
    first = [Move(500 + n, 301, f"http://a.example/{n}", PAGE + n) for n in range(2)]
    found = fates_of_moves([*walled, *first], {END})

    assert {found[move.no][0] for move in walled} == {Fate.LOST}
    assert {found[move.no][0] for move in first} == {Fate.WAITS}
    alone = fates_of_moves([*walled, first[0]], {END})
    assert {fate for fate, _ in alone.values()} == {Fate.MOVED}
    one_door = [first[0], replace(first[1], target_no=PAGE)]  # both by way of one page
    assert {fate for fate, _ in fates_of_moves([*walled, *one_door], {END}).values()} == {
        Fate.MOVED
    }


@pytest.mark.parametrize(
    ("first", "then", "fate"),
    [(301, 308, Fate.WAITS), (301, 302, Fate.WAITS), (307, 301, Fate.LOST), (303, 303, Fate.LOST)],
)
def test_the_first_redirect_of_a_chain_decides_whether_its_page_is_lost(first, then, fate):
    moves = [Move(PAGE, first, "http://a.example/2", 2), Move(2, then, "http://a.example/3", 3)]

    assert fates_of_moves(moves, ())[PAGE][0] is fate


@pytest.mark.covers("M-21")
def test_the_way_of_a_redirect_is_told():
    found = fates_of_moves(way(301, 2, 3, END), {END})

    assert found == {
        PAGE: (Fate.MOVED, [2, 3, END]),
        2: (Fate.MOVED, [3, END]),
        3: (Fate.MOVED, [END]),
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example/login?next=/1", "https://a.example/login?next=/2", True),
        ("https://a.example/login?next=/1", "https://a.example/login#2", True),
        ("https://a.example/login", "http://a.example/login", False),
        ("https://a.example/login", "https://b.example/login", False),
        ("https://a.example/login", "https://a.example/logout", False),
        ("https://a.example:81/login", "https://a.example/login", False),
    ],
)
def test_a_wall_is_an_address_without_its_query(one, other, same):
    assert (login_wall(one) == login_wall(other)) is same


def test_a_wall_reads_as_an_address():
    assert login_wall("https://a.example/login?next=/1#top") == "https://a.example/login"


@pytest.mark.covers("M-21")
@given(st.integers(0, 9), HOPS)
def test_every_chain_ends(no, hops):
    passed, circle = chain_of_moves(no, hops)

    assert passed == [hops[start] for start in [no, *passed][: len(passed)]]
    assert len(passed) <= len(hops)
    assert circle == (len({no, *passed}) < len(passed) + 1)
    if not circle:
        assert hops.get(([no, *passed])[-1]) is None


@given(HOPS, st.sets(st.integers(0, 12)), st.sampled_from(sorted(PERMANENT | TEMPORARY)))
def test_a_page_moved_only_to_one_that_is_indexed(hops, indexed, status):
    moves = [Move(no, status, f"http://a.example/{target}", target) for no, target in hops.items()]
    for fate, passed in fates_of_moves(moves, indexed).values():
        if fate is Fate.MOVED:
            assert passed[-1] in indexed
            assert len(passed) <= MAX_REDIRECTS


LEADS = {
    "an indexed page": ({PAGE: END}, END),
    "a page that names an indexed one": ({PAGE: 2, 2: END}, END),
    "a page that redirects to an indexed one": ({PAGE: 2, 2: END}, END),
    "an indexed one after 5 steps": (dict(zip([PAGE, 2, 3, 4, 5], over(5), strict=True)), END),
    "an indexed one after 6 steps": (dict(zip([PAGE, 2, 3, 4, 5, 6], over(6), strict=True)), None),
    "a page that is not indexed": ({PAGE: 2}, None),
    "a page out of scope": ({PAGE: OUT}, None),
    "itself": ({PAGE: PAGE}, None),
    "a page that names it back": ({PAGE: END, END: PAGE}, None),
    "an indexed page that names one that is not": ({PAGE: END, END: 2}, END),
    "an indexed page of a circle of others": ({PAGE: END, END: 2, 2: END}, END),
}


@pytest.mark.covers("M-20")
@pytest.mark.parametrize(("names", "told"), table("Canonical pages"))
def test_who_stands_aside_for_whom_is_the_manuals(names, told):
    leads, expected = LEADS[names]
    stands_for = {"no page": None, "that one": leads[PAGE], "the last one": END}

    assert canonical_after_moves(PAGE, leads, {PAGE, END}) == expected == stands_for[told]


@pytest.mark.covers("M-20")
def test_the_way_into_a_circle_of_others_ends_where_it_enters_it():
    """Each of the circle stands for itself, so the one that is met first counts."""
    leads = {PAGE: 2, 2: 3, 3: 4, 4: 3}

    assert canonical_after_moves(PAGE, leads, {PAGE, 2, 3, 4}) == 3


def test_every_kind_of_canonical_page_is_in_the_manual():
    assert [names for names, _ in table("Canonical pages")] == list(LEADS)


@pytest.mark.covers("M-20")
def test_a_page_that_names_none_stands_for_itself():
    assert canonical_after_moves(PAGE, {}, {PAGE, END}) is None


@pytest.mark.covers("M-20")
@given(st.integers(0, 9), HOPS, st.sets(st.integers(0, 12)))
def test_nobody_stands_aside_for_itself_or_for_what_is_not_indexed(no, leads, indexed):
    target = canonical_after_moves(no, leads, indexed)

    assert target is None or (target in indexed and target != no)


@pytest.mark.covers("M-20")
@pytest.mark.parametrize(("count", "pages", "believed"), table("Canonical pages", 1))
def test_a_canonical_that_too_many_name_is_not_believed(count, pages, believed):
    named = {7: int(count), 8: 1}

    assert flooding_canonicals(named, int(pages), min_count=10) == (
        set() if believed == "yes" else {7}
    )


def test_the_share_of_a_flood_is_the_manuals():
    (share,) = re.findall(r"more than (\d+) %", section("Canonical pages"))

    assert int(share) / 100 == MAX_CANONICAL_SHARE


def test_a_target_without_a_number_is_not_out_of_scope_by_itself():
    """It may be a trap, or the host may be blocked: then the page waits."""
    move = Move(1, 301, "https://a.example/x", None)
    away = Move(2, 301, "https://b.example/x", None, leaves=True)

    judged = fates_of_moves([move, away], frozenset(), walls=True)

    assert [fate for fate, _ in judged.values()] == [Fate.WAITS, Fate.AWAY]


def test_an_alias_on_the_way_out_of_scope_keeps_its_page():
    """The alias still exists in its source."""
    moves = [
        Move(1, 301, "http://a.example/2", 2),
        Move(3, 301, "http://b.example/", None, leaves=True),
    ]

    assert fates_of_moves(moves, frozenset(), {2: 3})[1][0] is Fate.WAITS
    assert fates_of_moves(moves, frozenset())[3][0] is Fate.AWAY


def test_a_redirect_out_of_scope_is_no_missing_page():
    moves = [Move(1, 301, "http://b.example/", None, leaves=True)]

    assert fates_of_moves(moves, frozenset(), missing={1})[1][0] is Fate.AWAY
