"""Wrong requests, made from the description of an endpoint: bodies, queries and paths."""

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.server.described import Described, Operation, Schema

Place = tuple[str | int, ...]
_MARK = "@@HERE@@"
#: JSON of values that no field takes, whatever its type is.
NOWHERE = {
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "beyond a float": "1e999",
    "65 bits": "9223372036854775808",
    "65 bits below": "-9223372036854775809",
    "4300 digits": "1" + "0" * 4_400,
    "lone surrogate": '"\\ud800"',
    "NUL": '"a\\u0000b"',
    "nested": "[" * 40 + "]" * 40,
    "nested deeply": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "huge": '"' + "a" * 1_048_576 + '"',
}
OF_TYPES = {
    "string": {"int": 1, "bool": True, "float": 1.5, "list": ["a"], "object": {"a": 1}},
    "integer": {
        "text": "1", "bool": True, "false": False, "float": 1.5, "list": [1],
        "object": {"a": 1},
    },
    "number": {"text": "1", "bool": True, "list": [1], "object": {"a": 1}},
    "boolean": {"int": 1, "zero": 0, "text": "true", "float": 1.0, "list": [True], "object": {}},
    "array": {"text": "a", "int": 1, "bool": False, "object": {"0": "a"}},
    "object": {"text": "a", "int": 1, "bool": False, "list": [], "pairs": [["a", 1]]},
}  # fmt: skip
#: Texts of a query that are no whole number.
NO_NUMBERS = (
    "", "x", "-1", "1.0", "1e3", "%2B1", "+1", "%D9%A3", "9" * 30, "0x1", "true", "NaN", "1_0",
)  # fmt: skip
#: Parts of a path that are no id, and attempts to be more than a part.
NO_IDS = (
    "%00", "a%00b", "x" * 8_000, "%F0%9F%98%80", "%FF%FE", "%ED%A0%80", "..%2F..%2Fhealth", "-1",
    "null", "9" * 40, "'%20OR%201=1%20--", "%0D%0AX-Injected:%201", "%3Cscript%3E", "*", "%25s",
    "%7B%7B7*7%7D%7D", "job_", "job_0000000000000000%0A", "jb_", "jb_0000000000000000",
)  # fmt: skip


@dataclass(frozen=True)
class Bad:
    """A wrong body."""

    what: str
    place: Place
    content: bytes


def whole_body(described: Described, operation: Operation) -> dict[str, Any]:
    """Return the example of a body, with an example of each field that it leaves out."""
    body = operation.body
    assert body is not None
    filled = _filled(described, body["schema"], described.example(operation))
    assert isinstance(filled, dict)
    return filled


def _filled(described: Described, schema: Schema, value: Any) -> Any:
    schema = described.resolved(schema)
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    found = dict(value)
    for name, below in schema["properties"].items():
        if name not in found:
            usual = _usual(described, below)
            if usual is not None:
                found[name] = usual
        if name in found:
            found[name] = _filled(described, below, found[name])
    return found


def _usual(described: Described, schema: Schema) -> Any:
    inner = described.resolved(schema)
    for one in (schema, inner):
        if one.get("default") is not None:
            return one["default"]
        if one.get("examples"):
            return one["examples"][0]
    return {} if "properties" in inner else None


def fields(described: Described, schema: Schema, value: Any, place: Place = ()) -> Iterator[
    tuple[Place, Schema]
]:  # fmt: skip
    """Yield each field below an example, with its description."""
    inner = described.resolved(schema)
    if isinstance(value, dict):
        for name, below in inner.get("properties", {}).items():
            if name in value or described.resolved(below).get("type") == "string":
                yield (*place, name), below
                yield from fields(described, below, value.get(name), (*place, name))
    elif isinstance(value, list) and "items" in inner and value:
        yield (*place, 0), inner["items"]
        yield from fields(described, inner["items"], value[0], (*place, 0))


def bad_bodies(described: Described, operation: Operation) -> Iterator[Bad]:
    """Yield bodies with one wrong value each; every other field is right."""
    body = operation.body
    assert body is not None
    right = whole_body(described, operation)
    for place, schema in fields(described, body["schema"], right):
        for what, raw in NOWHERE.items():
            yield _with(right, place, what, raw)
        for what, value in _wrong(described, schema).items():
            yield _with(right, place, what, json.dumps(value))
    for place in _objects(described, body["schema"], right):
        unknown = (*place, "status_of_another")
        yield _with(right, unknown, "unknown", "1")
        yield _with(right, unknown, "unknown huge", json.dumps("x" * 500_000))
    for name in described.resolved(body["schema"]).get("required", ()):
        less = {key: value for key, value in right.items() if key != name}
        yield Bad("missing", (name,), json.dumps(less).encode())


def _objects(described: Described, schema: Schema, value: Any, place: Place = ()) -> Iterator[
    Place
]:  # fmt: skip
    """Yield the places of objects that take known keys only."""
    inner = described.resolved(schema)
    if isinstance(value, dict) and inner.get("additionalProperties") is False:
        yield place
        for name, below in inner["properties"].items():
            yield from _objects(described, below, value.get(name), (*place, name))
    elif isinstance(value, list) and value and "items" in inner:
        yield from _objects(described, inner["items"], value[0], (*place, 0))


def _with(right: Mapping[str, Any], place: Place, what: str, raw: str) -> Bad:
    body = deepcopy(dict(right))
    inner: Any = body
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = _MARK
    text = json.dumps(body).replace(json.dumps(_MARK), raw)
    return Bad(what, place, text.encode())


def _wrong(described: Described, schema: Schema) -> dict[str, Any]:
    """Return values that a field must not take."""
    inner = described.resolved(schema)
    found = dict(OF_TYPES.get(inner.get("type", ""), {}))
    if inner.get("type") == "object" and "properties" not in inner:
        found.pop("pairs")
    if not described.may_be_null(schema):
        found["null"] = None
    if "minimum" in inner:
        found["below"] = inner["minimum"] - 1
    if "maximum" in inner:
        found["above"] = inner["maximum"] + 1
    if "enum" in inner and inner.get("type") == "string":
        found |= {"none of them": "nothing", "in capitals": str(inner["enum"][0]).upper()}
    if "maxLength" in inner:
        found["too long"] = "a" * (inner["maxLength"] + 1)
    if inner.get("minItems"):
        found["empty"] = []
    return found


def bad_queries(operation: Operation) -> Iterator[str]:
    """Yield queries with one wrong parameter each."""
    given = "&".join(
        f"{one['name']}={one['schema']['examples'][0]}"
        for one in operation.parameters("query")
        if one.get("required")
    )
    yield f"{given}&nothing=1".strip("&")
    for one in operation.parameters("query"):
        name, schema = one["name"], _choice(one["schema"])
        others = "&".join(part for part in given.split("&") if not part.startswith(f"{name}="))
        wrong = ["%00", "a%00b"]
        if schema.get("type") == "integer":
            wrong += NO_NUMBERS
        elif schema.get("type") == "boolean":
            wrong += ["maybe", "2", "yes%20"]
        elif "enum" in schema or "pattern" in schema:
            wrong += ["", "%F0%9F%98%80"]
            if not re.search(schema.get("pattern", "(?!)"), "nothing"):
                wrong.append("nothing")
        if "maximum" in schema:
            wrong.append(str(schema["maximum"] + 1))
        if "maxLength" in schema:
            wrong.append("a" * (schema["maxLength"] + 1))
        for text in wrong:
            yield f"{others}&{name}={text}".strip("&")
        yield f"{others}&{name}=1&{name}=1".strip("&")
        yield f"{others}&{name.upper()}=1".strip("&")


def _choice(schema: Schema) -> Schema:
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return {**schema, **choices[0]} if len(choices) == 1 else schema
