"""The difference of two texts: lines, words, and its bounds."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.changes import TextLine
from smartcrawl.rules.text_diff import CONTEXT, MOST_LINES, MOST_SIZE, TextDiff, diff_texts


def text(*lines: str, heading: str = "") -> list[TextLine]:
    return [TextLine(heading, line) for line in lines]


def shown(diff: TextDiff) -> list[str]:
    """Each line with its sign; changed words in brackets."""
    return [
        line.sign + "".join(f"[{p.text}]" if p.is_changed else p.text for p in line.parts)
        for hunk in diff.hunks
        for line in hunk.lines
    ]


def test_a_changed_word_is_shown_within_its_line():
    diff = diff_texts(
        text("one", "the red lamp glows", "three"), text("one", "the blue lamp glows", "three")
    )

    assert shown(diff) == [" one", "-the [red] lamp glows", "+the [blue] lamp glows", " three"]
    assert [line.text for line in diff.hunks[0].lines][1:3] == [
        "the red lamp glows",
        "the blue lamp glows",
    ]
    assert (diff.more_lines, diff.is_coarse, diff.is_cut) == (0, False, False)


def test_lines_with_little_in_common_are_replaced_whole():
    diff = diff_texts(text("a b c d"), text("w x y z"))

    assert shown(diff) == ["-[a b c d]", "+[w x y z]"]


@pytest.mark.parametrize(
    ("old", "new", "by_words"),
    [
        ("a b c d", "a x y z", True),  # a quarter is the same
        ("a b c d e", "a v w x y", False),
        ("a b", "a c d e f g h i", False),
        ("a b c d e f g h", "a p q r s t u v w", False),
        ("x" * 19_998 + " a", "x" * 19_998 + " b", True),
        ("x" * 19_998 + " a", "x" * 19_998 + " bc", False),
        ("x" * 19_998 + " bc", "x" * 19_998 + " a", False),
        (" ".join(f"a{n} z" for n in range(120)), " ".join(f"b{n} z" for n in range(120)), True),
    ],
)
def test_lines_are_compared_by_words_if_they_are_alike_and_short(
    old: str, new: str, by_words: bool
):
    (hunk,) = diff_texts(text(old), text(new)).hunks

    assert (len(hunk.lines[0].parts) > 1) is by_words


def line_of(words: int, last: str) -> str:
    """A line of twice as many tokens."""
    return "".join(f"w{n} " for n in range(words - 1)) + f"{last} "


def test_long_lines_are_compared_by_words_while_there_is_room():
    old = [line_of(250, f"o{at}") for at in range(17)]
    new = [line_of(250, f"n{at}") for at in range(17)]

    (hunk,) = diff_texts(text(*old), text(*new)).hunks
    (longer,) = diff_texts(text(line_of(251, "o")), text(line_of(250, "n"))).hunks

    whole = [len(line.parts) == 1 for line in hunk.lines[:17]]
    assert whole == [False] * 15 + [True] * 2
    assert len(longer.lines[0].parts) == 1


@pytest.mark.parametrize(
    ("old", "new", "by_words"),
    [
        (line_of(242, "o"), line_of(258, "n"), True),  # 484 x 516 pairs of tokens
        (line_of(498, "o").rstrip(), line_of(126, "n").rstrip(), False),  # one pair more
    ],
)
def test_all_pairs_of_a_difference_are_four_millions(old: str, new: str, by_words: bool):
    """Those of 16 x 16 lines, and of 500 x 500 tokens of each of the first 15, come before."""
    before = [*(line_of(250, f"o{at}") for at in range(15)), old]
    after = [*(line_of(250, f"n{at}") for at in range(15)), new]

    (hunk,) = diff_texts(text(*before), text(*after)).hunks

    assert (len(hunk.lines[15].parts) > 1) is by_words


def test_lines_that_repeat_are_still_matched():
    old = [line for n in range(120) for line in (f"a{n}", "}")]
    new = [line for n in range(120) for line in (f"b{n}", "}")]

    lines = [line for hunk in diff_texts(text(*old), text(*new)).hunks for line in hunk.lines]

    assert sum(line.sign == "-" for line in lines) == 120


@pytest.mark.parametrize(("count", "is_coarse"), [(500, False), (501, True)])
def test_long_parts_without_anchors_are_replaced_whole(count: int, is_coarse: bool):
    old = [f"o{n % 3}" for n in range(count)]
    new = [f"n{n % 3}" for n in range(500)]

    assert diff_texts(text(*old), text(*new)).is_coarse is is_coarse


@pytest.mark.parametrize(
    ("more_old", "more_new", "same"),
    [((), (), ["anchor"]), (("anchor",), (), []), ((), ("anchor",), [])],
)
def test_lines_that_each_text_has_once_are_anchors_of_long_parts(
    more_old: tuple[str, ...], more_new: tuple[str, ...], same: list[str]
):
    def around(first: str, last: str, *more: str) -> list[TextLine]:
        before = [f"{first}{number}" for number in range(400)]
        return text(*before, "anchor", *(f"{last}{number}" for number in range(400)), *more)

    new = around("c", "d", *more_new, "end")
    diff = diff_texts(around("a", "b", *more_old), new)

    lines = [line for hunk in diff.hunks for line in hunk.lines]
    assert [line.text for line in lines if line.sign != "-"] == [line.text for line in new]
    assert [line.text for line in lines if line.sign == " "] == same
    assert diff.is_coarse is not bool(same)
    assert any(line.text == "anchor" for line in lines if line.sign != " ") is not bool(same)


@pytest.mark.parametrize(
    ("order", "kept"),
    [("abcd", "abcd"), ("dabc", "abc"), ("bcda", "bcd"), ("cadb", "cd"), ("dcba", "d")],
)
def test_of_anchors_that_cross_the_most_are_kept(order: str, kept: str):
    """What is between two of them is too long to be compared."""

    def long(filler: str, anchors: str) -> list[TextLine]:
        lines = [x for a in anchors for x in (*(f"{filler}{a}{n}" for n in range(501)), a)]
        return text(*lines[490:])

    diff = diff_texts(long("old", "abcd"), [*long("new", order), *text("end")])

    same = [line.text for hunk in diff.hunks for line in hunk.lines if line.sign == " "]
    assert "".join(same) == kept


@pytest.mark.parametrize(("old", "new", "kept"), [(500, 500, "xX"), (89, 2_809, "yzZ")])
def test_a_part_is_compared_exactly_up_to_250_000_pairs(old: int, new: int, kept: str):
    """Then the longest block counts; in longer parts, the most anchors."""
    before = [*"xXy1z2Z", *(f"o{n}" for n in range(old - 7))]
    after = [*"y3z4Z5xX", *(f"n{n}" for n in range(new - 8))]

    diff = diff_texts(text(*before), text(*after))

    same = [line.text for hunk in diff.hunks for line in hunk.lines if line.sign == " "]
    assert "".join(same) == kept


def test_the_figures_of_the_manual():
    assert (MOST_SIZE, MOST_LINES) == (8 * 1024 * 1024, 4_000)


def test_equal_texts_have_no_difference():
    assert diff_texts(text("a", "b"), text("a", "b")) == TextDiff()


def test_hunks_have_numbers_headings_and_context():
    lines = [f"line {n}" for n in range(40)]
    old = [TextLine("A" if n < 20 else "B", line) for n, line in enumerate(lines)]
    new = [*old[:10], TextLine("A", "between"), *old[10:30], *old[31:]]

    first, second = diff_texts(old, new).hunks

    assert (first.heading, first.old, first.new) == ("A", 8, 8)
    assert [line.sign for line in first.lines] == [" "] * CONTEXT + ["+"] + [" "] * CONTEXT
    assert first.counts() == (6, 7)
    assert (second.heading, second.old, second.new) == ("B", 28, 29)
    assert second.counts() == (7, 6)


@pytest.mark.parametrize(("gap", "hunks"), [(2 * CONTEXT, 1), (2 * CONTEXT + 1, 2)])
def test_near_changes_are_one_hunk(gap: int, hunks: int):
    same = [f"same {n}" for n in range(gap)]

    diff = diff_texts(text("a", *same, "b"), text("x", *same, "y"))

    assert len(diff.hunks) == hunks
    assert len(shown(diff)) == 4 + (gap if hunks == 1 else 2 * CONTEXT)


def test_scripts_without_spaces_are_compared_by_characters():
    assert shown(diff_texts(text("東京の天気"), text("京都の天気"))) == [
        "-[東]京の天気",
        "+京[都]の天気",
    ]


def test_a_long_difference_is_cut_and_counted():
    diff = diff_texts(text("same"), text("same", *map(str, range(MOST_LINES + 7)), "end"))

    assert (len(shown(diff)), diff.more_lines) == (1 + MOST_LINES, 8)
    assert shown(diff)[-1] == f"+[{MOST_LINES - 1}]"


def test_the_last_room_goes_to_the_next_change():
    many = [str(n) for n in range(MOST_LINES - 1)]

    diff = diff_texts(text("top", "middle"), text("top", *many, "middle", "one", "two"))

    assert (len(diff.hunks), diff.more_lines) == (1, 1)
    assert shown(diff)[-1] == "+[one]"


def test_what_is_behind_the_limit_is_counted_only():
    gap = [f"same {n}" for n in range(10)]
    many = [str(n) for n in range(MOST_LINES)]

    diff = diff_texts(text(*gap), text(*many, *gap, "last"))

    assert (len(diff.hunks), diff.more_lines) == (1, 1)


def test_a_text_over_the_limit_is_cut():
    half = "x" * (MOST_SIZE // 2)

    assert not diff_texts(text(half, half), text(half, half)).is_cut
    diff = diff_texts(text(half, half, "y"), text(half, half))
    assert (diff.hunks, diff.is_cut) == ((), True)
    assert diff_texts(text(half, half), text(half, half, "z")).is_cut


@pytest.mark.long
def test_two_pages_of_eight_mebibytes_take_seconds():
    draw = random.Random(4)
    words = [f"w{n}" for n in range(400)]
    old = [" ".join(draw.choices(words, k=12)) for _ in range(170_000)]
    new = list(old)
    for _ in range(3_000):
        new[draw.randrange(len(new))] = " ".join(draw.choices(words, k=12))
    repeated = ["}" if n % 2 else "{" for n in range(100_000)]
    began = time.process_time()

    far = diff_texts(text(*old), text(*new))
    coarse = diff_texts(text(*repeated), text(*reversed(repeated)))
    whole = diff_texts(text(*old), text(*map(str, range(170_000))))

    assert time.process_time() - began < 20
    assert far.more_lines > 0
    assert not coarse.is_coarse or coarse.hunks
    assert whole.is_coarse


LINES = st.lists(st.sampled_from(["a", "b", "c d", "c e", ""]), max_size=14)


@given(LINES, LINES)
def test_a_difference_leads_from_one_text_to_the_other(old: list[str], new: list[str]):
    diff = diff_texts(text(*old), text(*new))

    assert (diff.hunks == ()) is (old == new)
    built: list[str] = []
    at = 0
    for hunk in diff.hunks:
        start = hunk.old - 1
        built += old[at:start]
        assert hunk.new - 1 == len(built)
        had = [line.text for line in hunk.lines if line.sign != "+"]
        assert old[start : start + len(had)] == had
        assert hunk.counts() == (len(had), sum(line.sign != "-" for line in hunk.lines))
        built += [line.text for line in hunk.lines if line.sign != "-"]
        at = start + len(had)
    assert built + old[at:] == new
