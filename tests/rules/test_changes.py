"""How much of a text changed, and which lines changed on many pages at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.changes import (
    EDGE,
    LONGEST,
    MIN_SHARED,
    MOST_HEADINGS,
    ChangedHeading,
    ChangedLine,
    TextChange,
    TextLine,
    compare_texts,
    line_change_digest,
    own_text_change,
    shared_line_digests,
    text_words,
)

ADDED, REMOVED = "552b41cae3fbaad0", "58483cd46c04b37e"  #: digests of "a"


def text(*lines: str, heading: str = "") -> list[TextLine]:
    return [TextLine(heading, line) for line in lines]


def test_a_word_in_a_line_changes_two_words_of_all():
    old = [*text("Start", "press the red button", heading="Start"), *text("off", heading="Stop")]
    new = [*text("Start", "press the blue button", heading="Start"), *text("off", heading="Stop")]

    change = compare_texts(old, new)

    assert (change.words, change.added, change.removed) == (12, 1, 1)
    assert change.share == pytest.approx(2 / 12)
    assert change.headings == (ChangedHeading("Start", 1, 1, 2),)
    assert change.lines == (
        ChangedLine(
            is_added=False,
            text="press the red button",
            words=1,
            heading=0,
            digest=line_change_digest("press the red button", is_added=False),
        ),
        ChangedLine(
            is_added=True,
            text="press the blue button",
            words=1,
            heading=0,
            digest=line_change_digest("press the blue button", is_added=True),
        ),
    )
    assert (change.more_headings, change.more_lines) == (0, 0)


def test_equal_texts_and_moved_lines_have_not_changed():
    change = compare_texts(text("a b", "c"), text("c", "a b"))

    assert change == TextChange(words=6)
    assert change.share == 0.0
    assert compare_texts([], []).share == 0.0


def test_a_line_that_comes_twice_counts_each_time():
    change = compare_texts(text("x y"), text("x y", "x y"))

    assert (change.words, change.added, change.removed) == (6, 2, 0)
    assert [line.is_added for line in change.lines] == [True]


def test_a_word_that_moved_to_another_line_has_not_changed():
    change = compare_texts(text("red lamp", "blue"), text("red", "blue lamp"))

    assert (change.added, change.removed, len(change.lines)) == (0, 0, 4)


def test_a_word_counts_for_the_first_line_that_has_it():
    change = compare_texts(
        text("old"), [*text("new new", heading="A"), *text("new", heading="B"), *text("old")]
    )

    assert change.added == 3
    assert change.headings == (ChangedHeading("A", 2, 0, 1), ChangedHeading("B", 1, 0, 1))
    assert [line.words for line in change.lines] == [2, 1]


def test_a_word_that_a_line_has_twice_counts_as_often_as_it_is_new():
    change = compare_texts(text("lamp"), text("lamp lamp"))

    assert (change.added, change.lines[-1].words, change.headings[0].added) == (1, 1, 1)


def test_removed_words_count_for_a_heading_as_added_ones_do():
    old = [text(f"o{at} p{at}", heading=f"h{at}")[0] for at in range(MOST_HEADINGS)]

    change = compare_texts([*text("x", heading="small"), *old], text("new", heading="other"))

    assert [heading.heading for heading in change.headings] == [one.heading for one in old]


def test_headings_with_the_most_changed_words_are_kept_in_their_order():
    new = [
        line
        for at in range(MOST_HEADINGS + 2)
        for line in text(f"only{at} " * (1 if at in (0, 3) else 2), heading=f"h{at}")
    ]

    change = compare_texts([], new)

    kept = [heading.heading for heading in change.headings]
    assert kept == [f"h{at}" for at in range(MOST_HEADINGS + 2) if at not in (0, 3)]
    assert change.more_headings == 2
    assert change.lines[0].heading == -1
    assert change.lines[1].heading == 0


def test_lines_are_kept_from_both_ends():
    assert len(compare_texts([], text(*map(str, range(2 * EDGE)))).lines) == 2 * EDGE
    new = [str(at) for at in range(2 * EDGE + 3)]

    change = compare_texts(text("gone"), text(*new))

    assert [line.text for line in change.lines] == ["gone", *new[:EDGE], *new[-EDGE:]]
    assert change.more_lines == 3


def test_long_lines_and_headings_are_cut():
    long = "x" * (LONGEST + 1)
    other = long[:-1] + "y"

    change = compare_texts([], text(long, other, heading=long))

    assert change.headings == (ChangedHeading(long[:-1], 2, 0, 2),)
    assert {line.text for line in change.lines} == {long[:-1]}
    assert len({line.digest for line in change.lines}) == 2  # of the whole line


def test_digests_are_those_of_a_line_and_its_side():
    """They are stored: the same line has the same digest in each version."""
    assert line_change_digest("a", is_added=True).hex() == ADDED
    assert line_change_digest("a", is_added=False).hex() == REMOVED
    assert len(line_change_digest("\ud800", is_added=True)) == 8


def test_what_is_kept_of_a_page_is_bounded():
    assert (EDGE, LONGEST, MOST_HEADINGS) == (8, 120, 12)


def test_a_change_has_nothing_by_default():
    assert TextChange() == (0, 0, 0, (), 0, (), 0)


def test_lines_are_kept_up_to_both_edges():
    new = [str(at) for at in range(2 * EDGE)]
    whole, cut = compare_texts([], text(*new)), compare_texts([], text(*new, "last"))

    assert [line.text for line in whole.lines] == new
    assert (whole.more_lines, cut.more_lines) == (0, 1)
    assert [line.text for line in cut.lines] == [*new[:EDGE], *new[-EDGE + 1 :], "last"]


def test_headings_are_kept_by_their_changed_words_not_by_their_lines():
    """Words that only moved to other lines do not count."""
    old = text("b c", "d a", heading="shuffled")
    shuffled = text("a b", "c d", heading="shuffled")
    other = [text(f"n{at}", heading=f"h{at}")[0] for at in range(MOST_HEADINGS)]

    change = compare_texts(old, [*shuffled, *other])

    assert [heading.heading for heading in change.headings] == [one.heading for one in other]
    assert change.more_headings == 1


def test_shared_lines_go_from_the_sides_of_their_headings():
    old = [*text("a b c", "keep me", heading="One"), *text("x", heading="Two")]
    new = [*text("d e", "kept it", heading="One"), *text("y z", heading="Two")]
    change = compare_texts(old, new)
    shared = {line.digest for line in change.lines if line.text in ("a b c", "d e")}

    own = own_text_change(change, shared)

    assert change.headings == (ChangedHeading("One", 4, 5, 4), ChangedHeading("Two", 2, 1, 2))
    assert own.headings == (ChangedHeading("One", 2, 2, 2), ChangedHeading("Two", 2, 1, 2))
    assert (own.added, own.removed) == (4, 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" a\tb\n", ["a", "b"]),
        ("東京 Tower", ["東", "京", "Tower"]),
        ("กข", ["ก", "ข"]),
        ("?a b?", ["?a", "b?"]),
    ],
)
def test_words(line: str, words: list[str]):
    assert text_words(line) == words


def test_a_line_is_shared_by_three_pages_and_a_tenth_of_all():
    assert MIN_SHARED == 3
    assert shared_line_digests({b"two": 2, b"three": 3}, 3) == {b"three"}
    assert shared_line_digests({b"few": 3, b"many": 4}, 31) == {b"many"}
    assert shared_line_digests({b"few": 3, b"many": 4}, 30) == {b"few", b"many"}
    assert shared_line_digests({}, 0) == frozenset()


def test_what_is_shared_does_not_count_for_a_page():
    old = [*text("menu one", heading="Top"), *text("red", heading="Own"), *text("2025")]
    new = [*text("menu two", heading="Top"), *text("blue sky", heading="Own"), *text("2026")]
    change = compare_texts(old, new)
    shared = {
        line_change_digest("menu one", is_added=False),
        line_change_digest("menu two", is_added=True),
        line_change_digest("2026", is_added=True),
    }

    own = own_text_change(change, shared)

    assert (change.added, change.removed) == (4, 3)
    assert (own.words, own.added, own.removed) == (change.words, 2, 2)
    assert own.headings == (ChangedHeading("Own", 2, 1, 2), ChangedHeading("", 0, 1, 1))
    assert [(line.text, line.heading) for line in own.lines] == [
        ("red", 0),
        ("2025", 1),
        ("blue sky", 0),
    ]
    assert own_text_change(change, {b"other"}) == change


def test_a_shared_line_below_a_heading_that_is_not_kept_counts_for_the_page():
    headings = [
        line for at in range(MOST_HEADINGS) for line in text(f"a{at} b{at}", heading=f"h{at}")
    ]
    change = compare_texts(
        [], [*text("small", heading="tail"), *text("tiny", heading="e"), *headings]
    )
    line = next(line for line in change.lines if line.text == "small")
    assert line.heading == -1

    own = own_text_change(change, {line.digest})

    assert [(line.text, line.heading) for line in own.lines[:2]] == [("tiny", -1), ("a0 b0", 0)]

    assert own.added == change.added - 1
    assert own.headings == change.headings


LINES = st.lists(
    st.builds(TextLine, st.sampled_from(["", "A", "A > B"]), st.sampled_from(["x y", "x", "z z"])),
    max_size=12,
)


@given(LINES, LINES)
def test_figures_agree(old: list[TextLine], new: list[TextLine]):
    change, back = compare_texts(old, new), compare_texts(new, old)

    assert (change.added, change.removed) == (back.removed, back.added)
    assert 0 <= change.share <= 1
    assert change.words == sum(len(text_words(line.text)) for line in (*old, *new))
    assert sum(line.words for line in change.lines if line.is_added) == change.added
    assert sum(heading.added for heading in change.headings) == change.added
    assert sum(heading.removed for heading in change.headings) == change.removed
    same = sorted(a.text for a in old) == sorted(a.text for a in new)
    assert (change.lines == ()) is same
    digests = {line.digest for line in change.lines}
    own = own_text_change(change, digests)
    assert (own.added, own.removed, own.headings, own.lines) == (0, 0, (), ())
