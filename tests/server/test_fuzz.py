"""schemathesis sends what the OpenAPI describes, and what it does not, in this process.

All of its checks count: no 5xx, no status, header, type or shape that is not documented, nothing
accepted that the description forbids, and the reverse.
"""

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import schemathesis
from schemathesis.config import (
    CacheConfig,
    ChecksConfig,
    GenerationConfig,
    OutputConfig,
    ProjectConfig,
    ProjectsConfig,
    SanitizationConfig,
    SchemathesisConfig,
)
from schemathesis.config._checks import NegativeDataRejectionConfig
from schemathesis.engine import events, from_schema
from starlette.types import ASGIApp, Receive, Scope, Send

from smartcrawl.server.idempotency import HEADER, KEY_PATTERN
from tests.server.stocked import Stocked, stocked

SEED = 23
SHORT, LONG = 3, 200  #: examples of each endpoint, beside those that cover its parameters
#: Statuses of refused requests; 413 is that of ten thousand wrong addresses.
REJECTED = [400, 401, 403, 404, 406, 413, 422, 428]
#: Fields with rules that no schema can express: a valid type and shape may still be refused.
#: Each is the field of an error.
MEANT = frozenset(
    {
        "Idempotency-Key",  # missing on PostgreSQL
        "If-Match",  # another version than that of the body
        "allowed_domains",
        "collection",  # of no source
        "cron",
        "cursor",  # signed
        "domain",
        "excluded_patterns",
        "filters",
        "force",  # true only
        "from",  # the 30th of February
        "id",
        "mode",  # without an embedder
        "name",  # missing in a PUT of no declared source
        "offset",  # with a cursor
        "q",
        "seed_urls",
        "since",  # the 30th of February
        "source",
        "to",  # before from
        "url",
        "url_patterns",
        "urls",
        "version",  # 2.0
    }
)
#: Reasons that JSON Schema cannot express of a whole body.
INEXPRESSIBLE = (
    "texts must not contain NUL or lone surrogates",
    "path and query must not contain NUL (%00)",
    "a body has at most 1048576 bytes",  # of 10,000 addresses
    "exactly one of id and source must be given",
)


@pytest.fixture(params=["sqlite", "postgres"])
def fuzzed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stocked]:
    """On PostgreSQL every request needs a key, which schemathesis also leaves out."""
    bound = {"host": "0.0.0.0"} if request.param == "postgres" else {}
    with stocked(request, tmp_path, **bound) as made:
        yield made


def of_this_machine(app: ASGIApp) -> ASGIApp:
    """Change the headers of requests where schemathesis always gives the same.

    The name of the host would be refused. With one Idempotency-Key each request after the first
    is a replay, which may tell of a job that is deleted by then.
    """
    keys = count()

    def changed(name: bytes, value: bytes) -> tuple[bytes, bytes]:
        if (name, value) == (b"host", b"testserver"):
            return name, b"localhost:8080"
        if name == HEADER.lower().encode() and re.match(KEY_PATTERN, value.decode("latin-1")):
            return name, b"%08x-0000-4000-8000-000000000000" % next(keys)
        return name, value

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [changed(*pair) for pair in scope["headers"]]
        await app(scope, receive, send)

    return named


def configured(examples: int, headers: dict[str, str]) -> SchemathesisConfig:
    generation = GenerationConfig(
        max_examples=examples, deterministic=True, no_shrink=True, database="none"
    )
    checks = ChecksConfig(
        negative_data_rejection=NegativeDataRejectionConfig(expected_statuses=REJECTED)
    )
    project = ProjectConfig(
        checks=checks, generation=generation, headers=headers, continue_on_failure=True
    )
    return SchemathesisConfig(
        seed=SEED,
        cache=CacheConfig(enabled=False),
        output=OutputConfig(sanitization=SanitizationConfig(enabled=False)),
        projects=ProjectsConfig(default=project),
    )


def faults(app: ASGIApp, examples: int, headers: dict[str, str]) -> tuple[list[str], int]:
    """Return what schemathesis finds, once for each kind, and the number of its requests."""
    found: dict[tuple[str, ...], str] = {}
    requests = 0
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", of_this_machine(app), config=configured(examples, headers), headers=headers
    )
    for event in from_schema(schema).execute():
        if isinstance(event, events.FatalError):
            raise event.exception
        if isinstance(event, events.NonFatalError):
            found["error", str(event.label)] = str(event.info)
        if not isinstance(event, events.ScenarioFinished):
            continue
        recorder = event.recorder
        requests += len(recorder.interactions)
        for case, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is None:
                    continue
                response = recorder.find_response(case_id=case)
                details = details_of(response.content) if response else {}
                if check.name == "positive_data_acceptance" and is_meant(details):
                    continue
                failure = check.failure_info
                kind = (recorder.label, check.name, details.get("field", ""))
                text = f"{kind}: {failure.failure.title} {details}\n{failure.code_sample[:1000]}"
                found.setdefault(kind, text)
    return list(found.values()), requests


def details_of(content: bytes | None) -> dict[str, str]:
    """Return the details of an error, {} if the answer is none."""
    try:
        return json.loads(content or b"")["error"]["details"]
    except (ValueError, KeyError, TypeError):
        return {}


def is_meant(details: dict[str, str]) -> bool:
    """Whether a request that fits the schema may be refused for that."""
    return details.get("field") in MEANT or details.get("reason") in INEXPRESSIBLE


def assert_agrees(fuzzed: Stocked, examples: int) -> None:
    wrong, requests = faults(fuzzed.app, examples, {"X-API-Key": fuzzed.key})

    assert wrong == [], "\n\n".join(wrong)
    assert requests > 500  # it has asked


@pytest.mark.long
@pytest.mark.covers("R2-10", "R2-13")
def test_the_api_answers_as_it_is_described_whatever_is_sent(fuzzed: Stocked):
    assert_agrees(fuzzed, SHORT)


@pytest.mark.long
def test_the_api_answers_as_it_is_described_in_the_long_form(fuzzed: Stocked):
    assert_agrees(fuzzed, LONG)
