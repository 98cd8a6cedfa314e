"""Whether this server runs, and whether it can answer: for those who start and stop it."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from smartcrawl.server.context import Context


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The registry answers."""

    status: Literal["ready"] = "ready"


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of probes."""

    @router.get(
        "/health", tags=["monitoring"], summary="Whether the process answers; asks no database"
    )
    async def health() -> Health:
        return Health()

    @router.get("/ready", tags=["monitoring"], summary="Whether the registry answers")
    def ready() -> Ready:
        with context.stores.reading() as connection:
            connection.execute("SELECT 1").fetchall()
        return Ready()
