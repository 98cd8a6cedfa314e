"""Requests to the API in this process, without a socket."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from smartcrawl import settings
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.server.app import VERSIONS, Version, create_app
from tests.choices import options

ORDER = {"X-Smartcrawl": "order"}  #: a GET that acts is refused without it, and without a key
Call = tuple[str, str] | tuple[str, str, Mapping[str, Any]]


def server_options(**changed: object) -> ServerOptions:
    """The shipped options; `changed` are fields."""
    return replace(ServerOptions.of(settings.defaults), **changed)


def application(
    folder: Path,
    *,
    versions: Sequence[Version] = VERSIONS,
    clock: Any = None,
    run: Mapping[str, object] | None = None,
    **changed: object,
) -> ASGIApp:
    """An application with its registry in `folder`; `changed` are fields of ServerOptions.

    `run` are fields of Options, such as another registry.
    """
    clocked = {} if clock is None else {"clock": clock}
    shared = options(folder, **(run or {}))
    return create_app(shared, server_options(**changed), versions=versions, **clocked)


def ask(
    app: ASGIApp, method: str, path: str, *, client: str = "127.0.0.1", **given: Any
) -> httpx.Response:
    """Send one request, as from the address `client`."""
    (answer,) = ask_all(app, [(method, path, given)], client=client)
    return answer


def ask_all(
    app: ASGIApp, calls: Sequence[Call], *, client: str = "127.0.0.1"
) -> list[httpx.Response]:
    """Send requests one after the other, on one loop; each is (method, path, arguments)."""

    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, client=(client, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
            http.headers.update(ORDER)
            answers = []
            for method, path, *given in calls:
                arguments = given[0] if given else {}
                answers.append(await http.request(method, path, **arguments))
            return answers

    return asyncio.run(send())


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of an answer, whose envelope is complete (R2-09)."""
    body = answer.json()
    assert answer.headers["Content-Type"] == "application/json"
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"code", "message", "details", "request_id"}
    assert set(error["details"]) <= {"field", "reason"}
    assert error["request_id"] == answer.headers["X-Request-Id"]
    assert error["request_id"].startswith("req_")
    return error
