"""The end of the log of a run over HTTP, whether a job or the command line ran it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from smartcrawl.model.run_logs import run_log_file
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.explained.answers import RunLogEnd
from smartcrawl.server.explained.runs import RUN_OF_PATH, run_data
from smartcrawl.server.jobs.logs import job_log, open_job_log
from smartcrawl.server.queries import (
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    number_of_path,
    read_api_query,
)

RUN_LOG_LEVELS: Final = ("INFO", "WARNING", "ERROR")
RUN_LOG_LINES: Final = 200  #: that are shown unless more are asked for
_MOST_LINES: Final = 1_000
_TAIL: Final = 32_768  #: bytes of the end of a log that are read for the usual number of lines
_NOT_HERE: Final = (
    "Its log is not on this machine: it ran elsewhere or with LOG_ENABLED off, its process crawled"
    " several sources at once, or its log has made room for those of later runs."
)
_NOT_HERE_ANY_MORE: Final = (
    "Its log is not on this machine any more; GET /api/v1/jobs/{log}/log says where it is."
)


class RunLogQuery(Query):
    """The query of the log of a run."""

    level: Literal["INFO", "WARNING", "ERROR"] | None = Field(
        default=None,
        description="The lowest level; without it all lines are there",
        examples=["WARNING"],
    )
    lines: WholeNumber = Field(default=RUN_LOG_LINES, ge=1, le=_MOST_LINES)


def run_log_tail(path: Path, level: str = "", lines: int = RUN_LOG_LINES) -> list[str] | None:
    """Return the last lines of a log; None: it is not here.

    ``level``: only lines of it and above. Lines without a level belong to the line before them.
    """
    log = open_job_log(path)
    if log is None:
        return None
    most = _TAIL * -(-lines // RUN_LOG_LINES)
    with log:
        size = os.fstat(log.fileno()).st_size
        log.seek(max(0, size - most))
        found = log.read(most).decode("utf-8", "replace").splitlines()
    if size > most:
        del found[:1]  # a part of one
    if level not in RUN_LOG_LEVELS:
        return found[-lines:]
    wanted = (*RUN_LOG_LEVELS[RUN_LOG_LEVELS.index(level) :], "CRITICAL")
    kept, is_kept = list[str](), False
    for line in found:
        named = [one for one in ("DEBUG", *RUN_LOG_LEVELS, "CRITICAL") if f" {one}: " in line]
        is_kept = named[0] in wanted if named else is_kept
        if is_kept:
            kept.append(line)
    return kept[-lines:]


def run_log_data(
    connection: Connection, context: Context, query: RunLogQuery, run: int, reader: Reader
) -> dict[str, Any]:
    """Return the end of the log of a run under the keys of ``RunLogEnd``.

    Raises:
        ApiError: the caller may read no run of this number.
    """
    found, folder = run_data(connection, context, run, reader), context.options.data_dir
    log = found["log"]
    path = run_log_file(folder, run) if log is None else job_log(folder / "logs", log)
    lines = run_log_tail(path, query.level or "", query.lines)
    why = None
    if lines is None:
        why = _NOT_HERE if log is None else _NOT_HERE_ANY_MORE.format(log=log)
    return {
        "run": run,
        "isRunning": found["isRunning"],
        "level": query.level,
        "isHere": lines is not None,
        "sentence": why,
        "lines": lines or [],
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of logs of runs."""

    @router.get(
        "/runs/{run}/log",
        tags=["runs"],
        summary="The end of the log of a run, all lines or those of a level and above",
        response_model=RunLogEnd,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(RunLogQuery)},
    )
    async def get_log_of_run(request: Request, run: RUN_OF_PATH) -> Response:
        query, no = read_api_query(RunLogQuery, request), number_of_path(run, "run")
        work = partial(
            run_log_data, context=context, query=query, run=no, reader=context.reader(request)
        )
        return json_response(await to_thread.run_sync(context.stores.read_moment, work))
