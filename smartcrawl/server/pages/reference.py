"""The page that describes the API, made of its OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.server.pages.pages import Pages

_TAGS: Final[Mapping[str, str]] = {
    "data": "Documents and searches",
    "jobs": "Jobs",
    "frontier": "Addresses",
    "monitoring": "Monitoring",
}


def add_pages(pages: Pages) -> None:
    """Add the page."""
    shown: list[dict[str, Any]] = []

    async def docs(request: Request) -> Response:
        if not shown:
            shown.extend(await to_thread.run_sync(lambda: page_api_groups(pages.describe())))
        return pages.show(request, "reference.html", title="API", groups=shown)

    pages.add("/docs", docs, navigated="API")


def page_api_groups(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of an OpenAPI description by their tags, as the template shows them."""
    schemas = description.get("components", {}).get("schemas", {})
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            groups.setdefault(tag, []).append(_operation(method, path, operation, schemas))
    return [
        {"name": _TAGS.get(tag, tag.capitalize()), "id": tag, "operations": operations}
        for tag, operations in groups.items()
    ]


def _operation(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema")
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "limit": operation["x-rate-limit-class"],
        "parameters": [
            {
                "name": found["name"],
                "place": found["in"],
                "required": found.get("required", False),
                "type": _type(found.get("schema", {})),
                "text": found.get("description", ""),
            }
            for found in operation.get("parameters", ())
        ],
        "fields": [] if body is None else list(_fields(body, schemas)),
        "answers": [
            {"status": status, "text": answer.get("description", "")}
            for status, answer in sorted(operation["responses"].items())
        ],
    }


def _fields(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], above: str = "", depth: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the fields of a body, those of objects in it with their whole names."""
    found = _resolved(schema, schemas)
    for option in found.get("anyOf", ()):
        yield from _fields(option, schemas, above, depth)
    required = found.get("required", ())
    for name, of_field in found.get("properties", {}).items():
        resolved = _resolved(of_field, schemas)
        whole = f"{above}{name}"
        yield {
            "name": whole,
            "required": name in required,
            "type": _type(resolved),
            "default": json.dumps(of_field["default"]) if "default" in of_field else "",
            "text": of_field.get("description", resolved.get("description", "")),
        }
        if depth < 3:
            inner = resolved.get("items", resolved)
            yield from _fields(inner, schemas, f"{whole}.", depth + 1)


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = schemas.get(name, {}) if name else schema
    return found


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with its bounds."""
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(filter(None, map(_type, schema["anyOf"]))))
    kind = schema.get("type", "object" if "properties" in schema or "$ref" in schema else "any")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{kind}, {least:,} to {most:,}"
    return f"{kind}, from {least:,}" if least is not None else str(kind)
