"""Applications share what FastAPI makes of equal endpoints, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel


class Small(BaseModel):
    size: int = 1


class Large(BaseModel):
    size: int = 10_000


def application_of(kind: Any, least: int) -> FastAPI:
    """An application whose endpoint is the same code with another type and default."""
    app = FastAPI()

    def answer(count: int = least) -> Any:
        return kind(size=count)

    app.get("/", response_model=kind)(answer)

    def take(body: kind) -> int:
        return body.size

    app.post("/")(take)
    return app


@pytest.mark.parametrize("order", [list, reversed])
def test_endpoints_of_one_code_keep_their_own_types_and_defaults(order: Callable[[Any], Any]):
    for kind, least in order([(Small, 2), (Large, 3), (Small, 4)]):
        client = TestClient(application_of(kind, least))
        assert client.get("/").json() == {"size": least}
        assert client.get("/?count=7").json() == {"size": 7}
        assert client.post("/", json={}).json() == kind().size
        assert client.get("/?count=x").status_code == 422


def router_of(size: int) -> APIRouter:
    """A router whose endpoint is the same code, and encloses another value."""
    router = APIRouter()

    @router.get("/")
    def sized(times: int = 1) -> Small:
        return Small(size=size * times)

    return router


def test_endpoints_of_one_code_call_what_their_own_application_encloses():
    apps = [FastAPI(), FastAPI(), FastAPI()]
    routes: list[Any] = []
    for size, app in enumerate(apps):
        routes += router_of(size).routes
        app.router.routes.append(routes[-1])

    for size, app in enumerate(apps):
        assert TestClient(app).get("/?times=2").json() == {"size": 2 * size}
        assert TestClient(app).get("/?times=x").status_code == 422
    assert len({id(route.response_field) for route in routes}) == 1, "made once"
