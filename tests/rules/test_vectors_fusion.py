"""Several ranked lists as one, by reciprocal rank."""

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.vectors import RANK_CONSTANT, fuse, keep_places

LISTS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=10), max_size=4)


def pages(lists):
    return [page for page, _ in fuse(lists)]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        pytest.param([], [], id="no list"),
        pytest.param([[], []], [], id="empty lists"),
        pytest.param([["a"]], [("a", 1 / 61)], id="the first place counts 1/61"),
        pytest.param([["b", "a"]], [("b", 1 / 61), ("a", 1 / 62)], id="one list stays"),
        pytest.param(
            [["a", "b"], ["b", "c"]],
            [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)],
            id="in both lists comes first",
        ),
        pytest.param([["b"], ["a"]], [("a", 1 / 61), ("b", 1 / 61)], id="ties by key"),
        pytest.param(
            [["a", "b", "a"]],
            [("a", 1 / 61), ("b", 1 / 62)],
            id="a second place counts nothing",
        ),
        pytest.param(
            [["a", "a", "b"]], [("a", 1 / 61), ("b", 1 / 62)], id="and takes no other place"
        ),
    ],
)
def test_fusion(lists, expected):
    assert [page for page, _ in fuse(lists)] == [page for page, _ in expected]
    assert [score for _, score in fuse(lists)] == pytest.approx([score for _, score in expected])


def test_two_middle_places_beat_one_first_place():
    """The constant of 60 makes agreement of the lists weigh more than one list's favourite."""
    others = [f"x{place}" for place in range(30)]
    words = ["favourite", *others[:18], "agreed"]
    vectors = [*others[18:], *others[:7], "agreed"]

    assert RANK_CONSTANT == 60
    assert pages([words, vectors]).index("agreed") < pages([words, vectors]).index("favourite")


@given(LISTS)
def test_a_score_is_the_sum_of_reciprocal_ranks(lists):
    exact = {
        page: sum(Fraction(1, 61 + found.index(page)) for found in lists if page in found)
        for found in lists
        for page in found
    }

    fused = fuse(lists)

    assert {page for page, _ in fused} == exact.keys()
    assert len(fused) == len(exact)
    assert all(score == pytest.approx(float(exact[page]), rel=1e-12) for page, score in fused)


@given(LISTS)
def test_the_order_of_the_lists_does_not_matter(lists):
    assert all(fuse(order) == fuse(lists) for order in permutations(lists))


@given(LISTS)
def test_pages_are_ordered_by_score_then_by_key(lists):
    fused = fuse(lists)

    assert fused == sorted(fused, key=lambda scored: (-scored[1], scored[0]))


@given(st.lists(st.integers(0, 99), unique=True, min_size=2, max_size=20), st.data())
def test_a_page_in_both_lists_is_above_one_at_the_same_places_in_one(keys, data):
    both, one, *rest = keys
    place = data.draw(st.integers(0, len(rest)))
    words, vectors = [*rest[:place], one, *rest[place:]], [*rest[:place], both, *rest[place:]]
    lists = [words, vectors, [*rest[:place], both, *rest[place:]]]

    assert pages(lists).index(both) < pages(lists).index(one)


@given(LISTS)
def test_equal_lists_keep_their_order(lists):
    for found in lists:
        assert pages([found] * 3) == found


@pytest.mark.covers("M-47")
@pytest.mark.parametrize(
    ("places", "fixed", "expected"),
    [
        ({}, "", "abcd"),
        ({"d": 0}, "", "dabc"),
        ({"d": 2}, "", "abdc"),
        ({"a": 3}, "", "abcd"),  # it may come before its place
        ({"a": 3}, "a", "bcda"),  # a fixed one does not
        ({"a": 1}, "a", "bacd"),
        ({"a": 9}, "a", "bcda"),
        ({"c": 0, "d": 1}, "cd", "cdab"),
        ({"d": 1, "c": 1}, "", "adcb"),
        ({"e": 0, "f": 2}, "ef", "eafbcd"),
        (dict(zip("abcd", range(4), strict=True)), "abcd", "abcd"),
    ],
)
def test_pages_keep_their_places(places: dict[str, int], fixed: str, expected: str):
    assert "".join(keep_places("abcd", places, fixed)) == expected
