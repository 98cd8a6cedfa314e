"""The description of the API: FastAPI's, with the errors that the API really answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI

from smartcrawl.server.errors import CODES
from smartcrawl.server.guard import OPEN
from smartcrawl.server.limits import api_rate_class

_SCHEMA: Final = "#/components/schemas/Error"
#: Statuses that any endpoint may answer; the other ones are named by its route.
_ANYWHERE: Final = (400, 401, 403, 413, 429, 500, 503)
_LIMITS: Final = {
    "X-RateLimit-Limit": "Requests of this class in a minute",
    "X-RateLimit-Remaining": "Requests that are left in this minute",
    "X-RateLimit-Reset": "When the next minute begins, in Unix seconds",
}
_ERRORS: Final = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"$ref": "#/components/schemas/ErrorBody"}},
    },
    "ErrorBody": {
        "type": "object",
        "required": ["code", "message", "details", "request_id"],
        "properties": {
            "code": {"$ref": "#/components/schemas/ErrorCode"},
            "message": {"type": "string"},
            "details": {"$ref": "#/components/schemas/ErrorDetails"},
            "request_id": {"type": "string", "examples": ["req_123456"]},
        },
    },
    "ErrorCode": {"type": "string", "enum": sorted(CODES)},
    "ErrorDetails": {
        "type": "object",
        "properties": {"field": {"type": "string"}, "reason": {"type": "string"}},
    },
}


class DescribedApi(FastAPI):
    """The routes, with a description that is made when it is first asked for.

    It takes longer than all else that a server does before it answers.
    """

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        if self.openapi_schema is None:
            _describe(super().openapi())  # FastAPI keeps this object
        return super().openapi()


def _describe(schema: dict[str, Any]) -> None:
    """Replace the errors of FastAPI's description by those of the API."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _ERRORS
    schema["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: sc_…"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for method, path, operation in _operations(schema):
        operation["x-rate-limit-class"] = api_rate_class(method, path).value
        answers = operation["responses"]
        if "HTTPValidationError" in str(answers.get("422")):
            del answers["422"]
        for status in _ANYWHERE:
            answers.setdefault(str(status), {})
        if path not in OPEN:
            operation["security"] = [{}, {"bearer": []}, {"header": []}]
        for status, answer in answers.items():
            answer["headers"] = _headers() | answer.get("headers", {})
            if int(status) >= 400:
                _describe_error(answer, int(status))


def _describe_error(answer: dict[str, Any], status: int) -> None:
    codes = [code for code, (number, _) in CODES.items() if number == status]
    answer["description"] = ", ".join(codes)
    answer["content"] = {"application/json": {"schema": {"$ref": _SCHEMA}}}
    if status in (429, 503):
        seconds = {"schema": {"type": "integer"}, "description": "Seconds"}
        answer["headers"]["Retry-After"] = seconds


def _headers() -> dict[str, Any]:
    found = {
        name: {"schema": {"type": "integer"}, "description": description}
        for name, description in _LIMITS.items()
    }
    named = {"schema": {"type": "string"}, "description": "The id in errors and in the log"}
    return found | {"X-Request-Id": named}


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation
