"""The OpenAPI description of the API, read as tests need it: operations, bodies, schemas."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from tests.server.api_client import ask

Schema = Mapping[str, Any]
JSON = "application/json"
#: Statuses of success, of which an operation documents one.
SUCCESSES = frozenset({"200", "201", "202", "204"})


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    data: Schema

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def statuses(self) -> set[str]:
        return set(self.data["responses"])

    def parameters(self, place: str) -> list[Schema]:
        """Return the parameters in the path, the query or the headers."""
        return [one for one in self.data.get("parameters", []) if one["in"] == place]

    @property
    def body(self) -> Schema | None:
        """The description of the JSON body; None: expected none."""
        found = self.data.get("requestBody")
        return None if found is None else found["content"][JSON]


class Described:
    """The description that an application answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.data: Schema = ask(app, "GET", "/openapi.json").json()

    def operations(self) -> list[Operation]:
        return [
            Operation(method.upper(), path, data)
            for path, methods in self.data["paths"].items()
            for method, data in methods.items()
        ]

    def resolved(self, schema: Schema) -> Schema:
        """Follow a reference, and the first choice that is not null."""
        while True:
            choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
            whole = schema.get("allOf", ())
            if "$ref" in schema:
                name = schema["$ref"].rpartition("/")[2]
                schema = self.data["components"]["schemas"][name]
            elif choices or len(whole) == 1:
                schema = (choices or whole)[0]
            else:
                return schema

    def may_be_null(self, schema: Schema) -> bool:
        return any(one.get("type") == "null" for one in schema.get("anyOf", ()))

    def example(self, operation: Operation) -> Any:
        """Return the example of a body: its own, or that of its model, or of its fields."""
        body = operation.body
        assert body is not None
        if "example" in body:
            return body["example"]
        schema = self.resolved(body["schema"])
        if schema.get("examples"):
            return schema["examples"][0]
        needed = schema.get("required", list(schema["properties"]))
        return {name: self._example_of(schema["properties"][name]) for name in needed}

    def _example_of(self, schema: Schema) -> Any:
        for one in (schema, self.resolved(schema)):
            if "examples" in one:
                return one["examples"][0]
            if "enum" in one:
                return one["enum"][0]
        raise AssertionError(f"no example: {schema}")

    def has_example(self, schema: Schema) -> bool:
        """Whether an answer has an example, in whole or in a part."""
        return any(
            one.get("examples") or "example" in one or "const" in one or "enum" in one
            for one in self.parts(schema)
        )

    def parts(self, schema: Schema, depth: int = 0) -> Iterator[Schema]:
        """Yield a schema and all below it."""
        yield schema
        if depth > 12:
            return
        below = [schema["items"]] if "items" in schema else []
        below += [*schema.get("anyOf", ()), *schema.get("allOf", ())]
        below += schema.get("properties", {}).values()
        if "$ref" in schema:
            below.append(self.resolved({"$ref": schema["$ref"]}))
        for one in below:
            yield from self.parts(one, depth + 1)
