"""No regular expression takes more steps than a text is long, times a constant (ATT-62)."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import smartcrawl
from tests.patterns import Steps, TooManyStepsError, attacks, patterns

SHORT, LONG = 30, 120  #: lengths of the texts
GROWTH = 2  #: times that the steps may grow more than the text: 4 would be quadratic here
FEW = 1_000  #: steps of a long text that are few in any case
MOST = 100_000  #: steps of a short text
ENDS = ("\x01", " ", "@")  #: of texts that a pattern may refuse at last
ROOMS = sorted(path.parent.name for path in Path(smartcrawl.__file__).parent.glob("*/__init__.py"))


@contextmanager
def deep() -> Iterator[None]:
    """Let a pattern be followed as deep as a text is long."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def steps(pattern: "re.Pattern[str]", uses: frozenset[str], text: str, most: int) -> int:
    """Return the most steps that one of the uses takes; ``most`` + 1 if it takes more."""
    counted = Steps(pattern, most)
    taken = 0
    try:
        if uses - {"match", "fullmatch"}:
            taken = max(taken, counted.of(text, anchored=False))
        if "match" in uses:
            taken = max(taken, counted.of(text, anchored=True))
        if "fullmatch" in uses:
            taken = max(taken, counted.whole(text))
    except TooManyStepsError:
        return most + 1
    return taken


def excess(pattern: "re.Pattern[str]", uses: frozenset[str]) -> str | None:
    """Return the text for which the steps grow faster than its length."""
    with deep():
        for begin, piece in attacks(pattern):
            for end in ENDS:
                short, long = (begin + piece * (n // len(piece)) + end for n in (SHORT, LONG))
                few = steps(pattern, uses, short, MOST)
                most = max(FEW, few * GROWTH * LONG // SHORT)
                if few > MOST or steps(pattern, uses, long, most) > most:
                    return f"{begin!r} + {piece!r} * n + {end!r}"
    return None


@pytest.mark.parametrize(
    ("text", "use"),
    [(r"(.+?)[-;:+]+(gzip|gz|br|deflate|zstd|;)", "fullmatch"), (r"(-?)0*([0-9]+)", "fullmatch"),
     (r"\s+$", "search"), ("(a+)+b", "match"), ("<[^<>]*>", "fullmatch"), (r"a.*?b.*?c", "match")],
)  # fmt: skip
def test_steps_show_whether_a_pattern_is_quadratic(text: str, use: str):
    found = excess(re.compile(text), frozenset({use}))
    assert (found is None) == (text == "<[^<>]*>"), found


def test_patterns_of_all_rooms_are_looked_at():
    found = patterns()
    rooms = {name.split(".")[0] for name in found}
    assert {"extract", "rules", "model", "engine", "sources", "server", "index"} <= rooms
    assert rooms <= {*ROOMS}
    assert len(found) > 150


@pytest.mark.parametrize("room", ROOMS)
def test_steps_grow_with_the_text_and_not_faster(room: str):
    """ATT-62: whatever a site, a header or a name says."""
    own = {name: found for name, found in patterns().items() if name.split(".")[0] == room}
    busy = {name: text for name, found in own.items() if (text := excess(*found)) is not None}
    assert busy == {}
