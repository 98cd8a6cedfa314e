"""Applications share what FastAPI makes of equal endpoints, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
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
