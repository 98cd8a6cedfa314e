"""The next times of a schedule, before a job has it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field

from smartcrawl.model.times import iso_time
from smartcrawl.server.context import Context
from smartcrawl.server.jobs.answers import Fires
from smartcrawl.server.queries import (
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    read_api_query,
)
from smartcrawl.sources.jobs import INVALID_CONFIG, MAX_LENGTH, CronSchedule, JobError


class FiresQuery(Query):
    """The query of a schedule."""

    cron: str = Field(
        max_length=MAX_LENGTH,
        description="Minute, hour, day of month, month and day of week in UTC",
        examples=["0 3 * * 1"],
    )
    limit: WholeNumber = Field(default=5, ge=1, le=100)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route."""

    @router.get(
        "/fires",
        tags=["jobs"],
        summary="The next times at which a schedule fires",
        response_model=Fires,
        openapi_extra={"parameters": described_api_query(FiresQuery)},
    )
    def list_fires(request: Request) -> Response:
        query, now = read_api_query(FiresQuery, request), int(context.clock())
        try:
            schedule = CronSchedule.parsed(query.cron, now)
        except ValueError as error:
            raise JobError(INVALID_CONFIG, field="cron", reason=str(error)) from error
        fires = [iso_time(at) for at in schedule.fires(now, query.limit)]
        return json_response({"cron": schedule.text, "fires": fires})
