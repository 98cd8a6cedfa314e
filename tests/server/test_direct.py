"""Routes that are called without FastAPI's detours are described, and answer, like all others."""

import asyncio
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import ASGIApp

from smartcrawl.server.app import Version
from smartcrawl.server.context import Context
from smartcrawl.server.direct import Direct, DirectRoute
from smartcrawl.server.errors import api_not_found
from tests.server.api_client import application, ask, error_of


class Named(BaseModel):
    name: str


def router_of(kind: type[APIRoute]) -> APIRouter:
    router = APIRouter(prefix="/api/v1", route_class=kind)

    @router.get("/named/{name}", response_model=Named, summary="A name", responses={404: {}})
    async def named(request: Request, name: Annotated[str, InPath(examples=["a"])]) -> Response:
        if name == "none":
            raise api_not_found("There is no such name")
        if name == "broken":
            raise KeyError(name)
        return Response(f"{request.method} {name}")

    return router


def add_routes(_: Context, router: APIRouter) -> None:
    router.routes.extend(router_of(DirectRoute).routes)


def test_the_description_is_that_of_any_route():
    described = []
    for kind in (APIRoute, DirectRoute):
        api = FastAPI()
        api.router.routes.extend(router_of(kind).routes)
        described.append(api.openapi())

    assert described[0] == described[1]
    assert described[0]["components"]["schemas"]["Named"]


def test_answers_and_errors_are_those_of_any_route(tmp_path: Path):
    app = application(tmp_path, versions=(Version("", (add_routes,)),))

    found, missing, broken, posted = (
        ask(app, method, f"/api/v1/named/{name}")
        for method, name in (("GET", "a%20b"), ("GET", "none"), ("GET", "broken"), ("POST", "a"))
    )

    assert (found.status_code, found.text) == (200, "GET a b")
    assert error_of(missing)["message"] == "There is no such name"
    assert (missing.status_code, broken.status_code) == (404, 500)
    assert error_of(broken)["code"] == "INTERNAL_ERROR"
    assert (posted.status_code, posted.headers["Allow"]) == (405, "GET")
    measured = ask(app, "GET", "/api/v1/named/a").headers
    assert {"x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining"} <= set(measured)


def test_fastapi_is_asked_for_all_other_requests_only():
    api = FastAPI()
    api.router.routes.extend(router_of(DirectRoute).routes)
    app = Direct(api)
    api.router.routes.clear()

    direct, posted, other = (
        asyncio.run(status_of(app, method, path))
        for method, path in (
            ("GET", "/api/v1/named/a"),
            ("POST", "/api/v1/named/a"),
            ("GET", "/openapi.json"),
        )
    )

    assert (direct, posted, other) == (200, 404, 404)


async def status_of(app: ASGIApp, method: str, path: str) -> int:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.request(method, path)).status_code


async def with_query(request: Request, size: Annotated[str, Query()]) -> Response:
    return Response(size)


async def with_number(request: Request, name: int) -> Response:
    return Response(str(name))


def dependency() -> str:
    return "more"


Needed = Annotated[str, Depends(dependency)]


async def with_dependency(request: Request, name: str, more: Needed) -> Response:
    return Response(name + more)


async def without_request(name: str) -> Response:
    return Response(name)


@pytest.mark.parametrize("endpoint", [with_query, with_number, with_dependency, without_request])
def test_an_endpoint_that_needs_more_is_refused(endpoint):
    with pytest.raises(ValueError, match="takes more than the request"):
        DirectRoute("/named/{name}", endpoint)


async def nothing(request: Request, name: str) -> Response:
    return Response(name)


def test_dependencies_of_a_route_are_refused():
    with pytest.raises(ValueError, match="takes more than the request"):
        DirectRoute("/named/{name}", nothing, dependencies=[Depends(dependency)])
