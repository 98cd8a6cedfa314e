"""Whether the pages of a template need a browser."""

import pytest

from smartcrawl.rules.render_need import (
    ENOUGH,
    FEW_WORDS,
    MOST_LINES,
    MOST_TEMPLATES,
    SAMPLES,
    SHARE,
    Need,
    ReadBy,
    RenderMode,
    Sample,
    is_empty_shell,
    needs_browser,
    page_read_by,
    sample_of,
    sampled_template,
    template_need,
    word_digest,
)


def test_a_host_has_eight_templates():
    known: set[str] = set()
    for number in range(12):
        known.add(sampled_template(f"h/f{number} 2", "h", known))
    assert known == {f"h/f{number} 2" for number in range(7)} | {"h *"}
    assert len(known) == MOST_TEMPLATES
    assert sampled_template("h/f3 2", "h", known) == "h/f3 2"
    assert sampled_template("h/f9 2", "h", known) == "h *"


def test_a_sample_has_what_the_rendering_brings():
    found = sample_of("one two two", "one\ntwo two two three\nthree  four", ["/a"], ["y", "x", "y"])
    assert found == Sample(
        7,
        {word_digest("two two two three"): 2, word_digest("three four"): 2},
        frozenset({word_digest("/a")}),
        ("x", "y"),
    )


def test_lines_that_only_move_bring_nothing():
    assert sample_of("b c\na", "a\nb\nc", ()).lines == {}


def test_equal_lines_count_together_and_digests_are_short():
    found = sample_of("", "a b\na b", ())
    assert found.lines == {word_digest("a b"): 4}
    assert {len(line) for line in found.lines} == {8}


def test_lines_of_a_sample_are_limited_to_those_with_the_most_words():
    shown = "\n".join([*(f"w{n}" for n in range(MOST_LINES)), "x y z"])
    found = sample_of("", shown, ())
    assert len(found.lines) == MOST_LINES
    assert found.lines[word_digest("x y z")] == 3


def test_of_lines_with_as_many_words_the_same_are_kept_in_any_order():
    words = [f"w{n}" for n in range(MOST_LINES + 9)]
    one, other = sample_of("", "\n".join(words), ()), sample_of("", "\n".join(words[::-1]), ())
    assert one == other


def test_half_of_a_character_has_a_digest():
    assert word_digest("\ud800") != word_digest("?")


def sample(new: int, words: int, *links: str, line: str = "own", refused=()) -> Sample:
    found = frozenset(map(word_digest, links))
    return Sample(words, {word_digest(line): new} if new else {}, found, tuple(refused))


@pytest.mark.parametrize(
    ("one", "others", "needs"),
    [
        (sample(0, 0), [], False),
        (sample(10, 100), [], False),
        (sample(11, 100), [], True),
        (sample(11, 100), [sample(11, 100)], False),  # a cookie banner
        (sample(11, 100), [sample(1, 100, line="x"), sample(1, 100)], False),
        (sample(11, 100), [sample(11, 100, line="x")], True),
        (sample(0, 100, "/a"), [], True),
        (sample(0, 100, "/a"), [sample(0, 100, "/a")], False),
        (sample(0, 100, "/a", "/b"), [sample(0, 100, "/a")], True),
        (sample(0, 100, "/a", "/b"), [sample(0, 9, "/a"), sample(0, 9, "/b")], False),
        (sample(0, 100, refused=["h"]), [], None),
        (sample(10, 100, refused=["h"]), [], None),
        (sample(11, 100, refused=["h"]), [], True),
        (sample(0, 100, "/a", refused=["h"]), [], True),
    ],
)
def test_need_of_a_page(one, others, needs):
    assert needs_browser(one, others) is needs


@pytest.mark.parametrize(
    ("verdicts", "need"),
    [
        ([], Need.OPEN),
        ([True], Need.OPEN),
        ([False], Need.OPEN),
        ([True, False], Need.OPEN),
        ([True, True], Need.NEEDED),
        ([False, False], Need.PLAIN),
        ([True, False, True], Need.NEEDED),
        ([False, True, False], Need.PLAIN),
        ([None, None, None], Need.OPEN),
        ([None, True, False], Need.OPEN),
        ([None, True, True], Need.NEEDED),
        ([None, False, False], Need.PLAIN),
    ],
)
def test_two_of_three_samples_decide(verdicts, need):
    assert template_need(verdicts) is need


@pytest.mark.parametrize("has_turn", [False, True])
@pytest.mark.parametrize(
    ("need", "own", "is_sampled", "way"),
    [
        (Need.NEEDED, None, False, ReadBy.SHOWN),
        (Need.NEEDED, False, True, ReadBy.SHOWN),
        (Need.PLAIN, None, False, ReadBy.PLAIN),
        (Need.PLAIN, True, True, ReadBy.PLAIN),
        (Need.OPEN, True, True, ReadBy.SHOWN),
        (Need.OPEN, False, True, ReadBy.PLAIN),
        (Need.OPEN, None, True, ReadBy.PLAIN),
    ],
)
def test_reading_of_a_page(need, own, is_sampled, way, has_turn):
    assert page_read_by(need, own, is_sampled=is_sampled, has_turn=has_turn) is way


@pytest.mark.parametrize(("has_turn", "way"), [(True, ReadBy.SAMPLED), (False, ReadBy.WAITS)])
def test_a_page_of_an_open_template_is_sampled_or_waits(has_turn, way):
    assert page_read_by(Need.OPEN, None, is_sampled=False, has_turn=has_turn) is way


@pytest.mark.parametrize(
    ("words", "scripts", "links", "is_shell"),
    [
        (0, 1, 0, True),
        (FEW_WORDS - 1, 2, 0, True),
        (FEW_WORDS, 1, 0, False),
        (0, 0, 0, False),
        (0, 1, 1, False),
    ],
)
def test_seed_that_shows_nothing(words, scripts, links, is_shell):
    assert is_empty_shell(words=words, scripts=scripts, links=links) is is_shell


def test_figures_that_users_were_promised():
    assert (MOST_TEMPLATES, SAMPLES, ENOUGH, SHARE, FEW_WORDS, MOST_LINES) == (8, 3, 2, 10, 20, 400)
    assert [*RenderMode] == ["no", "auto", "always"]
    assert [(need.name, need.value) for need in Need] == [("OPEN", 0), ("PLAIN", 1), ("NEEDED", 2)]
    ways = [("PLAIN", 0), ("SHOWN", 1), ("SAMPLED", 2), ("WAITS", 3)]
    assert [(way.name, way.value) for way in ReadBy] == ways
