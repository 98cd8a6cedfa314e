"""Lines that repeat on a host: which of them are in its list, and which go by it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.repeated import (
    EDGE,
    MIN_PAGES,
    NOTHING,
    Line,
    RepeatedLines,
    are_repeated_lines_due,
    find_repeated_lines,
    repeated_lines_of_page,
)
from tests.rules.manual import section, table

PAGES = 30
LETTER, OTHER = b"letter", b"notice"


def own(page: int, count: int) -> list[Line]:
    """Lines that no other page has."""
    return [Line(b"%d %d" % (page, n), 9) for n in range(count)]


def lines_of(told: str, page: int) -> list[Line]:
    """The page of a number, with the lines that a row of the table speaks of."""
    words = 4 if "four words" in told else 3 if "three words" in told else 1
    before, behind = own(page, 3 + page % 7), own(page + 1_000, 20 + page % 5)
    if told.startswith("begins"):
        return [Line(LETTER, 1), *before]
    if told.startswith("ends"):
        return [*before, Line(LETTER, 1)]
    if told.startswith("is the whole"):
        return [Line(LETTER, 9)]
    if told.startswith("code"):
        return [Line(b""), *before]
    if told.startswith("two lines"):
        more = [] if page % 2 else own(page + 2_000, 20)
        return [*before, *more, Line(LETTER, 1), Line(OTHER, words - 1), *behind]
    if "from its beginning" in told:
        before = own(page, 3)
    elif "from its end" in told:
        before, behind = own(page, 20 + page % 7), own(page + 1_000, 3)
    else:
        before = own(page, 20 + page)
    return [*before, Line(LETTER, words), *behind]


CELLS = table("Lines that repeat on a host")


@pytest.mark.parametrize(("told", "count", "goes"), CELLS)
def test_a_line_goes_as_the_table_says(told: str, count: str, goes: str):
    pages = [
        lines_of(told, page) if page < int(count) else own(page, 4 + page % 3)
        for page in range(PAGES)
    ]
    known = NOTHING
    if "known" in told:
        known = find_repeated_lines([lines_of(told, page) for page in range(PAGES)])
        assert known

    found = find_repeated_lines(pages, known)

    marked = repeated_lines_of_page(pages[0], found)
    gone = [line.digest for line, is_gone in zip(pages[0], marked, strict=True) if is_gone]
    both = [LETTER, OTHER] if told.startswith("two") else [LETTER]
    assert gone == (both if goes == "yes" else [])


def test_few_pages_make_no_list():
    pages = [[Line(LETTER, 5), *own(page, 2)] for page in range(MIN_PAGES)]

    assert find_repeated_lines(pages).places == {(LETTER, 0), (LETTER, -3)}
    assert find_repeated_lines(pages[1:]) == NOTHING


def test_a_line_that_a_page_has_twice_counts_once():
    pages = [own(page, 3) for page in range(PAGES)]
    for page in pages[:9]:
        page += [Line(LETTER, 5), Line(OTHER, 5), Line(LETTER, 5), Line(OTHER, 5)]

    assert find_repeated_lines(pages) == NOTHING


def test_places_are_counted_near_to_the_ends_only():
    pages = [
        [*own(page, EDGE), Line(LETTER, 5), *own(page + 100, EDGE)] for page in range(MIN_PAGES)
    ]
    near = [page[1:] for page in pages]

    assert find_repeated_lines(pages) == NOTHING
    assert find_repeated_lines(near).places == {(LETTER, EDGE - 1)}


def test_code_on_each_page_never_goes_with_its_neighbours():
    pages = [
        [Line(b""), Line(LETTER, 4), Line(b""), *own(page, 20 + page)] for page in range(PAGES)
    ]
    found = find_repeated_lines(pages)

    assert repeated_lines_of_page(pages[0], found)[:4] == [False, True, False, False]
    assert Line(b"") == (b"", 0)


def test_the_manual_says_of_how_many_pages_and_lines_a_list_is_made():
    text = section("Lines that repeat on a host")

    assert f"of none among fewer than {MIN_PAGES}." in text
    assert f"Of the first and the last {EDGE} lines of a text, the number is a place." in text


def test_an_empty_list_marks_nothing():
    assert repeated_lines_of_page([Line(LETTER, 5)], NOTHING) == [False]
    assert not NOTHING
    assert RepeatedLines(places=frozenset({(LETTER, 0)}))
    assert RepeatedLines(pairs=frozenset({(LETTER, OTHER)}))


@pytest.mark.parametrize(
    ("changed", "pages", "ever_made", "due"),
    [
        (0, 100, False, False),
        (1, 100, False, True),
        (9, 100, True, False),
        (10, 100, True, True),
        (95, 1_000, True, False),
        (0, 0, True, False),
    ],
)
def test_lists_are_made_anew_when_a_tenth_has_changed(
    changed: int, pages: int, ever_made: bool, due: bool
):
    assert are_repeated_lines_due(changed=changed, pages=pages, ever_made=ever_made) is due


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=12), min_size=20, max_size=40))
def test_what_a_fifth_of_the_pages_lack_never_goes(rows: list[list[str]]):
    pages = [[Line(sign.encode(), 2) for sign in row] for row in rows]
    found = find_repeated_lines(pages)

    for page in pages:
        marked = repeated_lines_of_page(page, found)
        assert not page or not all(marked)
        for line, is_gone in zip(page, marked, strict=True):
            if is_gone:
                assert sum(line in other for other in pages) >= len(pages) / 5


def test_the_order_of_pages_does_not_matter():
    pages = [[Line(LETTER, 5), *own(page, 3), Line(OTHER, 5)] for page in range(PAGES)]
    shuffled = random.Random(7).sample(pages, len(pages))

    assert find_repeated_lines(pages) == find_repeated_lines(shuffled)
