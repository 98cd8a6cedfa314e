"""Regular expressions, carried out step by step, so that a test counts steps and needs no clock."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import smartcrawl
from smartcrawl.model.late_patterns import LatePattern
from tests.modules import parsed

ROOT = Path(smartcrawl.__file__).parent
_ANCHORED = frozenset({"match", "fullmatch"})
_USES = _ANCHORED | {"search", "sub", "subn", "findall", "finditer", "split"}
_ONE = frozenset({codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY})
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdecimal,
    codes.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    codes.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    codes.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}
Then = Callable[[int], bool]


class TooManyStepsError(Exception):
    """A pattern took more steps than it may."""


class Steps:
    """A pattern that is carried out as ``re`` does, backtracking included, and counted."""

    def __init__(self, pattern: "re.Pattern[Any]", most: int) -> None:
        self._nodes, self._ones, self._lists = _parsed(pattern)
        self._flags = pattern.flags
        self._most = most
        self._groups: dict[int, tuple[int, int]] = {}
        self.taken = 0

    def of(self, text: str, *, anchored: bool) -> int:
        """Return the steps that one look through ``text`` takes."""
        self._text, self.taken = text, 0
        place = 0
        while place <= len(text):
            self._groups.clear()
            end = self._first_end(self._nodes, place)
            place = max(place if end is None else end, place + 1)
            if anchored:
                break
        return self.taken

    def whole(self, text: str) -> int:
        """Return the steps until it is known whether the whole of ``text`` matches."""
        self._text, self.taken = text, 0
        self._groups.clear()
        self._sequence(self._nodes, 0, 0, lambda end: end == len(text))
        return self.taken

    def _step(self) -> None:
        self.taken += 1
        if self.taken > self._most:
            raise TooManyStepsError

    def _sequence(self, nodes: list[Any], at: int, place: int, then: Then) -> bool:
        while at < len(nodes) and nodes[at][0] in _ONE:
            if not self._is_next(nodes[at], place):
                return False
            at, place = at + 1, place + 1
        if at == len(nodes):
            return then(place)
        return self._node(*nodes[at], place, lambda end: self._sequence(nodes, at + 1, end, then))

    def _is_next(self, node: Any, place: int) -> bool:
        """Whether a node of one character accepts the one at a place, which is a step."""
        self._step()
        return self._is_one(*node, place)

    def _node(self, code: Any, value: Any, place: int, then: Then) -> bool:
        self._step()
        if code is codes.SUBPATTERN:
            number, _, _, nodes = value

            def closed(end: int) -> bool:
                self._groups[number] = (place, end)
                return then(end)

            return self._sequence(self._list(nodes), 0, place, closed)
        if code is codes.BRANCH:
            return any(self._sequence(self._list(nodes), 0, place, then) for nodes in value[1])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeat(code, value, place, then)
        if code is codes.ATOMIC_GROUP:
            end = self._first_end(self._list(value), place)
            return end is not None and then(end)
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            return self._asserted(value, place) == (code is codes.ASSERT) and then(place)
        if code is codes.AT:
            return self._is_at(value, place) and then(place)
        if code is codes.GROUPREF:
            begin, end = self._groups.get(value, (0, 0))
            length = end - begin
            same = self._text[place : place + length] == self._text[begin:end]
            return same and then(place + length)
        raise NotImplementedError(code)

    def _asserted(self, value: Any, place: int) -> bool:
        direction, nodes = value
        if direction > 0:
            return self._first_end(self._list(nodes), place) is not None
        low, high = nodes.getwidth()
        return any(
            self._first_end(self._list(nodes), place - width) == place
            for width in range(low, min(high, place) + 1)
        )

    def _list(self, nodes: Any) -> list[Any]:
        """Return parsed nodes as a list: to go through them as they are takes far longer."""
        if (found := self._lists.get(id(nodes))) is None:
            found = self._lists[id(nodes)] = list(nodes)
        return found

    def _first_end(self, nodes: list[Any], place: int) -> int | None:
        ends: list[int] = []
        found = self._sequence(nodes, 0, place, lambda end: not ends.append(end))
        return ends[0] if found else None

    def _repeat(self, code: Any, value: Any, place: int, then: Then) -> bool:
        low, high, nodes = value
        body = self._list(nodes)
        one = len(body) == 1 and body[0][0] in _ONE
        if code is codes.POSSESSIVE_REPEAT or (one and code is codes.MAX_REPEAT):
            ends = [place]
            while one and len(ends) <= high and self._is_next(body[0], ends[-1]):
                ends.append(ends[-1] + 1)
            while not one and len(ends) <= high:
                end = self._first_end(body, ends[-1])
                if end is None or (end == ends[-1] and len(ends) > low):
                    break
                ends.append(end)
            if len(ends) <= low:
                return False
            if code is codes.POSSESSIVE_REPEAT:
                return then(ends[-1])
            for end in reversed(ends[low:]):
                self._step()
                if then(end):
                    return True
            return False
        if one:
            return self._lazy(body, low, high, place, then)

        def again(count: int, at: int) -> bool:
            def more() -> bool:
                return count < high and self._sequence(
                    body, 0, at, lambda end: (end > at or count < low) and again(count + 1, end)
                )

            if count < low:
                return more()
            if code is codes.MIN_REPEAT:
                return then(at) or more()
            return more() or then(at)

        return again(0, place)

    def _lazy(self, body: list[Any], low: int, high: int, place: int, then: Then) -> bool:
        count = 0
        while count <= high:
            self._step()
            if count >= low and then(place):
                return True
            if not self._is_next(body[0], place):
                return False
            place += 1
            count += 1
        return False

    def _is_one(self, code: Any, value: Any, place: int) -> bool:
        if place >= len(self._text):
            return False
        char = self._text[place]
        key = id(value) if code is codes.IN else value, code, char
        if (found := self._ones.get(key)) is None:
            found = self._ones[key] = self._is_char(code, value, char)
        return found

    def _is_char(self, code: Any, value: Any, char: str) -> bool:
        forms = {char, char.lower(), char.upper()} if self._flags & re.IGNORECASE else {char}
        if code is codes.ANY:
            return bool(self._flags & re.DOTALL) or char != "\n"
        if code is codes.LITERAL:
            return chr(value) in forms
        if code is codes.NOT_LITERAL:
            return chr(value) not in forms
        negated = bool(value) and value[0][0] is codes.NEGATE
        return any(_is_in(entry, form) for entry in value for form in forms) != negated

    def _is_at(self, value: Any, place: int) -> bool:
        text = self._text
        if value in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            lines = value is codes.AT_BEGINNING and self._flags & re.MULTILINE
            return place == 0 or bool(lines and text[place - 1] == "\n")
        if value in (codes.AT_END, codes.AT_END_STRING):
            lines = value is codes.AT_END and self._flags & re.MULTILINE
            return place == len(text) or bool(lines and text[place] == "\n")
        is_word = _CATEGORIES[codes.CATEGORY_WORD]
        before = place > 0 and is_word(text[place - 1])
        after = place < len(text) and is_word(text[place])
        return (before != after) == (value is codes.AT_BOUNDARY)


@cache
def _parsed(
    pattern: "re.Pattern[Any]",
) -> tuple[list[Any], dict[Any, bool], dict[int, list[Any]]]:
    """Return the nodes of a pattern, whether each accepts a character, and nodes within as lists.

    Both are filled on the way; the nodes are kept as long as their ids are used.
    """
    return list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)), {}, {}


def _is_in(entry: Any, char: str) -> bool:
    code, value = entry
    if code is codes.LITERAL:
        return ord(char) == value if len(char) == 1 else False
    if code is codes.RANGE:
        return len(char) == 1 and value[0] <= ord(char) <= value[1]
    return code is codes.CATEGORY and _CATEGORIES[value](char)


def attacks(pattern: "re.Pattern[Any]") -> Iterator[tuple[str, str]]:
    """Yield beginnings and repeated pieces of texts that keep a pattern busy: its own pieces."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    if not _repeats(tree):
        return
    found = list(dict.fromkeys(_chars(tree)))
    chars = sorted(found, key=str.isalpha)[:6]
    words = [word for word in dict.fromkeys(_words(tree)) if len(word) > 1][:5]
    pieces = dict.fromkeys([*chars, *words, *(word + char for word in words for char in chars[:2])])
    pieces |= dict.fromkeys(one + two for one in chars[:3] for two in chars[:3] if one != two)
    for piece in pieces:
        for begin in dict.fromkeys(["", *words[:1], *chars[:1]]):
            yield begin, piece


def _children(code: Any, value: Any) -> list[Any]:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [value[2]]
    if code is codes.SUBPATTERN:
        return [value[3]]
    if code is codes.ATOMIC_GROUP:
        return [value]
    if code is codes.BRANCH:
        return list(value[1])
    return [value[1]] if code in (codes.ASSERT, codes.ASSERT_NOT) else []


def _repeats(tree: Any) -> bool:
    """Whether a part of a pattern matches texts of any length."""
    return any(
        (
            code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
            and value[1] is codes.MAXREPEAT
        )
        or any(_repeats(child) for child in _children(code, value))
        for code, value in tree
    )


def _chars(tree: Any) -> Iterator[str]:
    """Yield characters that a pattern accepts in its repetitions first, then all others."""
    others = []
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from _chars(value[2])
        elif code in _ONE:
            others.append(_char(code, value))
        else:
            for child in _children(code, value):
                yield from _chars(child)
    yield from sorted(others, key=str.isalnum)


def _char(code: Any, value: Any) -> str:
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.IN and value[0][0] is not codes.NEGATE:
        kind, first = value[0]
        if kind is codes.LITERAL:
            return chr(first)
        if kind is codes.RANGE:
            return chr(first[0])
        return next(char for char in "0 a!" if _CATEGORIES[first](char))
    accepted = 'a0- !"'
    if code is codes.ANY:
        return "a"
    refused = {chr(value)} if code is codes.NOT_LITERAL else set()
    entries = value[1:] if code is codes.IN else []
    found = (c for c in accepted if c not in refused and not any(_is_in(e, c) for e in entries))
    return next(found, "~")


def _words(tree: Any) -> Iterator[str]:
    word = ""
    for code, value in tree:
        if code is codes.LITERAL:
            word += chr(value)
            continue
        if word:
            yield word
        word = ""
        for child in _children(code, value):
            yield from _words(child)
    if word:
        yield word


@cache
def patterns() -> dict[str, tuple["re.Pattern[Any]", frozenset[str]]]:
    """Return the patterns of all modules by ``module.NAME``, and the methods that use them.

    Patterns within functions have the number of their line in place of a name.
    """
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for info in pkgutil.walk_packages(smartcrawl.__path__, "smartcrawl."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        file = module.__file__
        assert file is not None
        text = Path(file).read_text(encoding="utf-8")
        members = {name: _compiled(value) for name, value in vars(module).items()}
        values = [*members.values()]
        if "re." not in text and not any(
            isinstance(getattr(value, "__self__", value), re.Pattern) for value in values
        ):
            continue
        tree = parsed(Path(file))
        used = _uses(tree)
        short = info.name.removeprefix("smartcrawl.")
        for name, value in members.items():
            owner = getattr(value, "__self__", None)
            if isinstance(value, re.Pattern):
                if uses := used.get(name):
                    found[f"{short}.{name}"] = value, frozenset(uses)
            elif isinstance(owner, re.Pattern):
                found[f"{short}.{name}"] = owner, frozenset({value.__name__})
        for line, text, flags, use in _written(tree):
            found[f"{short}:{line}"] = re.compile(text, flags), frozenset({use})
    return found


def _compiled(value: Any) -> Any:
    """Return the pattern that a late one becomes; any other value as it is."""
    return value.compiled if isinstance(value, LatePattern) else value


def _uses(tree: ast.AST) -> dict[str, set[str]]:
    """Return the methods of patterns that are called on each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in _USES
            and isinstance(node.value, ast.Name)
        ):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _written(tree: ast.AST) -> Iterator[tuple[int, str | bytes, int, str]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _USES
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, node.args[0].value, 0, node.func.attr
