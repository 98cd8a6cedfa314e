"""Two sides in any order, compared as a model compares them in memory."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.run.library.comparison import Difference, Pair, Pairs
from tests.tiers import examples

_KEYS = st.sampled_from(["a", "b", "c/d", "\udcff"])
_VALUES = st.sampled_from(["", "1", "2", "3 4"])
_EXPECTED = st.dictionaries(_KEYS, st.tuples(st.none() | _VALUES, st.booleans()))
_FOUND = st.lists(st.tuples(_KEYS, _VALUES), max_size=8)


def differences(
    expected: dict[str, tuple[str | None, bool]], found: list[tuple[str, str]]
) -> set[tuple[Difference, str, int]]:
    """Return kind, key and number of the differences."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for key, value in found:
        by_key[key].append(value)
    counted = set()
    for key in expected.keys() | by_key.keys():
        values = by_key[key]
        if key not in expected:
            counted.add((Difference.SURPLUS, key, len(values)))
            continue
        value, is_needed = expected[key]
        is_right = bool(values) if value is None else value in values
        if not values and is_needed:
            counted.add((Difference.MISSING, key, 1))
        elif values and not is_right:
            counted.add((Difference.CHANGED, key, 1))
        elif len(values) > 1 and is_needed:
            counted.add((Difference.SURPLUS, key, len(values) - 1))
    return counted


@settings(max_examples=examples(300))
@given(_EXPECTED, _FOUND, st.booleans())
def test_differences_are_those_of_a_model(
    expected: dict[str, tuple[str | None, bool]], found: list[tuple[str, str]], is_found_first: bool
) -> None:
    with Pairs() as pairs:
        if is_found_first:
            for key, value in found:
                pairs.find(key, value)
        for key, (value, is_needed) in expected.items():
            pairs.expect(key, value, is_needed=is_needed)
        if not is_found_first:
            for key, value in found:
                pairs.find(key, value)
        counted: dict[tuple[Difference, str], int] = defaultdict(int)
        for pair in pairs.differences():
            counted[pair.difference, pair.key] += 1
        assert {(*key, count) for key, count in counted.items()} == differences(expected, found)


def test_what_is_needed_once_stays_needed() -> None:
    with Pairs() as pairs:
        pairs.expect("1", "a")
        pairs.expect("1", None, is_needed=False)
        pairs.expect("2", None, is_needed=False)
        pairs.expect("2", "b")
        assert [pair.key for pair in pairs.differences()] == ["1", "2"]


def test_a_difference_has_the_name_and_the_value_that_was_found() -> None:
    with Pairs() as pairs:
        pairs.expect("1", "a", "one")
        pairs.expect("2", None, "two")
        pairs.find("1", "b")
        pairs.find("3", "c", "three")
        assert list(pairs.differences()) == [
            Pair(Difference.CHANGED, "1", "one", "b"),
            Pair(Difference.MISSING, "2", "two", ""),
            Pair(Difference.SURPLUS, "3", "three", "c"),
        ]
        assert (pairs.expected("1"), pairs.expected("2"), pairs.expected("3")) == ("a", None, None)
        assert [pairs.is_expected(key) for key in ("2", "3")] == [True, False]
