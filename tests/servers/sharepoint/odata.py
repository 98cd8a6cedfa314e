"""Words of OData: calls in a path, options of a query, and filters.

| shape | source |
| --- | --- |
| `Name('it''s')`, `Name(Key='…')`, `Name(@p)?@p='…'` | SharePoint REST documentation |
| `eq ne gt ge lt le and or not`, `substringof`, `startswith`, `datetime'…'`, `guid'…'` | likewise |
| strings compare without case | assumed |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote


class QueryError(ValueError):
    """A path or an option that the service refuses."""


@dataclass(frozen=True)
class Call:
    """One segment of a path: a name in lower case, and its arguments by key (`""`: without)."""

    name: str
    arguments: dict[str, Any]

    @property
    def first(self) -> Any:
        return next(iter(self.arguments.values()), None)


def options(query: str) -> dict[str, str]:
    """Return the options of a query, decoded once; `+` is a space."""
    return dict(parse_qsl(query, keep_blank_values=True))


def calls(path: str, query: dict[str, str]) -> list[Call]:
    """Return the segments of a path that is not decoded yet."""
    text, found = unquote(path, errors="strict"), []
    for segment in _split(text, "/"):
        name, opened, rest = segment.partition("(")
        if opened and not rest.endswith(")"):
            raise QueryError(f"The expression {segment!r} is not valid.")
        arguments = {}
        for part in _split(rest[:-1], ",") if opened else ():
            key, equals, value = part.partition("=")
            if not equals or key.startswith(("'", "guid'")):
                key, value = "", part
            arguments[key.strip()] = _literal(value.strip(), query)
        if len(arguments) == 1 and isinstance(next(iter(arguments.values())), dict):
            arguments = next(iter(arguments.values()))
        found.append(Call(name.lower(), arguments))
    return found


def _split(text: str, at: str) -> list[str]:
    """Split at a character that is neither between quotes nor in parentheses."""
    parts, depth, quoted, begin = [], 0, False, 0
    for place, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == at and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [part for part in [*parts, text[begin:]] if part]


def _literal(text: str, query: dict[str, str]) -> Any:
    if text.startswith("@"):
        if text not in query:
            raise QueryError(f"The parameter alias {text} has no value.")
        return _literal(query[text], {})
    if text.startswith("{"):
        return json.loads(text)
    if found := re.fullmatch(r"(?:guid|datetime)?'((?:[^']|'')*)'", text, re.DOTALL):
        return found[1].replace("''", "'")
    return int(text) if text.isdigit() else text


# Filters

_TOKEN = re.compile(
    r"\s*(?:(datetime|guid)?'((?:[^']|'')*)'|(-?\d+(?:\.\d+)?)(?![\w-])|([\w/@.]+)|([(),]))",
    re.DOTALL,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "gt": lambda one, other: one is not None and one > other,
    "ge": lambda one, other: one is not None and one >= other,
    "lt": lambda one, other: one is not None and one < other,
    "le": lambda one, other: one is not None and one <= other,
}
_FUNCTIONS: dict[str, Callable[[str, str], bool]] = {
    "substringof": lambda part, text: part in text,
    "startswith": lambda text, part: text.startswith(part),
    "contains": lambda text, part: part in text,
    "endswith": lambda text, part: text.endswith(part),
}
_WORDS = {"null": None, "true": True, "false": False}
Value = Callable[[str], Any]  #: the value of a field
Test = Callable[[Value], Any]


class Filter:
    """A filter: the fields that it names, and whether a value passes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: set[str] = set()
        self._tokens = self._read(text)
        self._at = 0
        self._test = self._any()
        if self._at != len(self._tokens):
            raise self._error()

    def passes(self, value: Value) -> bool:
        return bool(self._test(value))

    def _read(self, text: str) -> list[tuple[str, Any]]:
        tokens: list[tuple[str, Any]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error()
            kind, quoted, number, word, sign = found.groups()
            if quoted is not None:
                whole = quoted.replace("''", "'")
                tokens.append(("value", _moment(whole) if kind == "datetime" else whole))
            elif number is not None:
                tokens.append(("value", float(number) if "." in number else int(number)))
            else:
                tokens.append(("word", word) if word else ("sign", sign))
            at = found.end()
        return tokens

    def _error(self) -> QueryError:
        return QueryError(f"The expression {self.text!r} is not valid.")

    def _peek(self) -> tuple[str, Any]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", None)

    def _take(self, *wanted: Any) -> tuple[str, Any]:
        token = self._peek()
        if token[0] == "end" or (wanted and token[1] not in wanted):
            raise self._error()
        self._at += 1
        return token

    def _any(self) -> Test:
        tests = [self._all()]
        while self._peek() == ("word", "or"):
            self._take()
            tests.append(self._all())
        return lambda value: any(test(value) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._peek() == ("word", "and"):
            self._take()
            tests.append(self._one())
        return lambda value: all(test(value) for test in tests)

    def _one(self) -> Test:
        if self._peek() == ("word", "not"):
            self._take()
            inner = self._one()
            return lambda value: not inner(value)
        if self._peek() == ("sign", "("):
            self._take()
            inner = self._any()
            self._take(")")
            return inner
        one = self._operand()
        if self._peek()[1] not in _COMPARE:
            return one
        compare = _COMPARE[self._take()[1]]
        other = self._operand()
        return lambda value: _compared(compare, one(value), other(value))

    def _operand(self) -> Test:
        kind, token = self._take()
        if kind == "sign":
            raise self._error()
        if kind == "value" or token in _WORDS:
            known = _WORDS.get(token, token) if kind == "word" else token
            return lambda value: known
        if self._peek() != ("sign", "("):
            self.fields.add(token)
            return lambda value: value(token)
        self._take()
        function = _FUNCTIONS.get(token)
        one = self._operand()
        self._take(",")
        other = self._operand()
        self._take(")")
        if function is None:
            raise self._error()
        return lambda value: function(_folded(one(value)) or "", _folded(other(value)) or "")


def _compared(compare: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    if isinstance(one, list):  # a field with several values: any of them (assumed)
        return any(_compared(compare, value, other) for value in one)
    if isinstance(one, bool) and isinstance(other, int):
        other = bool(other)
    try:
        return compare(_folded(one), _folded(other))
    except TypeError as error:
        raise QueryError("A value has not the type of its field.") from error


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _moment(text: str) -> str:
    at = datetime.fromisoformat(text)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
