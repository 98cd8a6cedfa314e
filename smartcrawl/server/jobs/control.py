"""Orders to jobs over HTTP: pause, resume, cancel, start (E-06, E-07; R2-27, R2-28; ADR 57)."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Final

import anyio
from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.run_orders import JobAction
from smartcrawl.server.context import Context
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.answers import EXAMPLE_JOB, Ordered
from smartcrawl.server.jobs.declared import DeclaredNames, KnownJobs
from smartcrawl.server.jobs.library_store import LibraryJobs, api_library_job_standing
from smartcrawl.server.jobs.orders import JobOrders, Standing, api_job_standing
from smartcrawl.server.jobs.readable import ReadableJobs
from smartcrawl.server.queries import refuse_api_query
from smartcrawl.sources.jobs import JobError

WAIT: Final = 2.0  #: seconds for which an answer waits for the effect of an order
_LOOK: Final = 0.1  #: seconds between two looks
_ID = Annotated[str, Path(examples=[EXAMPLE_JOB])]


class JobOrder(BaseModel):
    """An order to a job."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"action": "pause"}]})

    action: JobAction


def _reply(found: Standing) -> Reply:
    data = {"job_id": found.id, "status": found.status, "requested": found.requested}
    return Reply(200, Reply.of(200, data).body, pending=found.requested is not None)


class _Control:
    """Requests that give orders to jobs."""

    def __init__(self, context: Context) -> None:
        self._stores = context.stores
        self._clock = context.clock
        self._reader = context.reader
        self._names = DeclaredNames(*context.options.source_files)
        self._once = Once(context)

    async def order(self, request: Request, id_: str, action: JobAction) -> Response:
        """Give the order of a request; answer when it is carried out, or after some seconds."""

        reader = self._reader(request)

        def work(connection: Connection) -> Reply:
            ReadableJobs(connection, reader, self._names()).check(id_)
            database, now = self._stores.database, int(self._clock())
            library = LibraryJobs(connection)
            if library.find(id_) is not None:
                return _reply(library.give(id_, action, now))
            KnownJobs(database, connection, self._names()).prepare_order(id_, action, now)
            return _reply(JobOrders(database, connection).give(id_, action, now))

        async def settling(reply: Reply) -> Reply:
            return await self._settled(id_, reply)

        return await self._once.answer(request, work, settling)

    async def _settled(self, id_: str, reply: Reply) -> Reply:
        """Return the reply with the state that is true when the order was carried out.

        Meanwhile no connection is lent. A job that was deleted in between has the first reply.
        """
        until = time.monotonic() + WAIT
        while reply.pending and time.monotonic() < until:
            await anyio.sleep(_LOOK)
            try:
                reply = _reply(await to_thread.run_sync(self._looked, id_))
            except JobError:
                break
        return reply

    def _looked(self, id_: str) -> Standing:
        """Return the present state, after recording that the run obeyed.

        The process of a library's job records that itself.
        """
        stores = self._stores
        library = stores.read(lambda connection: LibraryJobs(connection).find(id_))
        if library is not None:
            return api_library_job_standing(library)

        def obeyed(connection: Connection) -> bool:
            return JobOrders(stores.database, connection).is_obeyed(id_)

        if stores.read(obeyed):
            now = int(self._clock())
            stores.write(lambda at: JobOrders(stores.database, at).settle(id_, now))
        return stores.read_moment(lambda connection: api_job_standing(connection, id_))


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of orders."""
    control = _Control(context)
    described: dict[str, Any] = {
        "tags": ["jobs"],
        "response_model": Ordered,
        "responses": {404: {}, 409: {}, 422: {}},
        "dependencies": [Depends(refuse_api_query)],
    }

    @router.post(
        "/jobs/{job_id}/control",
        summary="Pause, resume, cancel or start a job; by a jb_ id, a run of one",
        openapi_extra={"parameters": [KEY_PARAMETER]},
        **described,
    )
    async def control_job(request: Request, job_id: _ID, order: JobOrder) -> Response:
        return await control.order(request, job_id, order.action)

    def add(action: JobAction, summary: str) -> None:
        async def order(request: Request, job_id: _ID) -> Response:
            body = await request.body()
            if body and json.loads(body) != {}:
                wrong = ValueError("this path takes no body")
                defect = {
                    "type": "value_error",
                    "loc": ("body",),
                    "msg": "",
                    "ctx": {"error": wrong},
                }
                raise RequestValidationError([defect])
            return await control.order(request, job_id, action)

        router.add_api_route(
            f"/jobs/{{job_id}}/{action}",
            order,
            methods=["POST"],
            name=f"{action}_job",
            summary=summary,
            openapi_extra={"parameters": [KEY_PARAMETER]},
            **described,
        )

    add(JobAction.PAUSE, "Pause a job: its run ends in order, and goes on when it is resumed")
    add(JobAction.RESUME, "Resume a paused job: its run goes on under the same id")
