"""Patterns that are compiled at their first use."""

import copy
import re

import pytest

from smartcrawl.model.late_patterns import LatePattern, late_pattern


def test_a_late_pattern_is_compiled_at_its_first_use_and_then_kept(monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda *of: made.append(of[0]) or real(*of))
    pattern = late_pattern("a(b+)", re.IGNORECASE)

    assert made == []
    assert [found[1] for found in pattern.finditer("ABB ab")] == ["BB", "b"]
    assert [found[1] for found in pattern.finditer("aB")] == ["B"]
    assert made == ["a(b+)"]
    assert (pattern.sub("x", "ab abb"), pattern.pattern, pattern.groups) == ("x x", "a(b+)", 1)


def test_a_late_pattern_can_be_copied_and_given_to_functions_that_want_a_pattern():
    pattern = late_pattern("a+")
    copied = copy.copy(pattern)

    assert isinstance(copied, LatePattern)
    assert copied.compiled is re.compile("a+")
    assert copied.fullmatch("aaa")


def test_a_wrong_late_pattern_says_so_when_it_is_used():
    pattern = late_pattern("(a")
    with pytest.raises(re.error, match="unterminated subpattern"):
        pattern.search("a")
