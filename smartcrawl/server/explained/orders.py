"""Orders over HTTP to approve withheld removals, to undo removals, or to forget a page (ADR 168).

The server has one connection for writing, so that it does not remove pages itself: an order waits,
and a process carries it out by the command that an operator would type, under the lease of the
source. What is withheld is looked up again there, so that one list that is approved twice is
removed once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticKnownError

from smartcrawl.model.processes import exit_status_signal
from smartcrawl.model.setting_values import MOST_NUMBER
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, Started
from smartcrawl.registry.removal.orders import (
    RemovalAction,
    RemovalOrder,
    end_removal_order_row,
    new_removal_order,
    open_removal_order_row,
    removal_order_row,
    store_removal_order_row,
)
from smartcrawl.registry.removal.purge import (
    emptied_page_rows,
    known_record_row,
    lost_page_rows,
    orphaned_page_rows,
    source_row_of_run,
    withheld_candidate_rows,
)
from smartcrawl.registry.removal.sweep import undoable_rows
from smartcrawl.registry.runs.runs import last_run_row
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import UNFINISHED
from smartcrawl.rules.run_orders import EXIT_SOURCE_BUSY
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_not_found
from smartcrawl.server.explained.answers import EXAMPLE_ORDER, OrderedRemoval
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, Kind, Work
from smartcrawl.server.queries import (
    NUMBER_PATTERN,
    json_response,
    number_of_path,
    refuse_api_query,
)
from smartcrawl.sources.fields import Between, JsonInteger
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, JobError

logger = logging.getLogger(__name__)

_OPEN: Final = "k.state IN ('waiting', 'running')"
_RUN = Annotated[str, Path(examples=["17"], json_schema_extra={"pattern": NUMBER_PATTERN})]
#: Commands that remove pages of a source, whichever run found them.
_PURGES: Final = {
    RemovalAction.LOST: ("deltamerge", "-D"),
    RemovalAction.ORPHANS: ("orphans", "--purge"),
}
_MESSAGE: Final = "The removals cannot be changed now"


@dataclass(frozen=True, slots=True)
class BegunOrder(Work):
    """An order that a server has begun, by the name of its source."""

    action: RemovalAction
    run: int
    most: int | None
    is_pinned: bool
    url: str | None

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the order {self.id} to {self.action} run {self.run} of {self.name}"

    @property
    def quiet(self) -> Sequence[str]:
        """The words by which its command prints no line of progress."""
        return ("-s", "PROGRESS_FORMAT=none")

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the command that an operator would type."""
        if self.action is RemovalAction.FORGET:
            of_source = ["--source", self.name, "--order", self.id]
            return [*program.plain, "forget", str(self.url), *of_source]
        if self.action in _PURGES:
            how = ["--source", self.name, "--max", str(self.most), "--order", self.id]
            return [*program.plain, *_PURGES[self.action], *how]
        if self.action is RemovalAction.UNDO:
            pinned = ["--pin"] if self.is_pinned else []
            return [*program.plain, "undo", str(self.run), *pinned, "--order", self.id]
        most = ["--max", str(self.most)]
        return [
            *program.plain, "orphans", "--approve", str(self.run), *most, "--order", self.id,
        ]  # fmt: skip


class RemovalOrders(Kind[BegunOrder]):
    """The orders; each has one process, since a second one could remove more than was approved."""

    kind = ProcessKind.REMOVAL
    WAITING = """
SELECT k.id, NULL FROM removal_order k LEFT JOIN process p ON p.kind = 'removal' AND p.id = k.id
 WHERE k.state = 'waiting' AND p.server IS NULL ORDER BY k.no
"""
    LOCK = "UPDATE removal_order SET state = state WHERE id = ? AND state IN ('waiting', 'running')"
    BEGUN = f"""
SELECT k.id, k.source, k.action, k.run, k.most, k.is_pinned, k.url, {PROCESS_COLUMNS}
  FROM removal_order k JOIN process p ON p.kind = 'removal' AND p.id = k.id
 WHERE {_OPEN} AND p.server IS NOT NULL AND k.id = coalesce(:id, k.id) ORDER BY k.no
"""

    def of(self, row: Sequence[Any]) -> BegunOrder:
        """Return the order of a row."""
        return BegunOrder(
            id=row[0],
            name=row[1],
            started=Started.of(row[7:]),
            action=RemovalAction(row[2]),
            run=row[3],
            most=row[4],
            is_pinned=bool(row[5]),
            url=row[6],
        )

    def exited(self, work: BegunOrder, exited: Exited, log: str, now: int) -> None:
        """Record the exit of a process that did not record the end of its order."""
        status = exited.status
        if status == EXIT_SOURCE_BUSY:
            self.end(work, status, now, f"{work.name} is being crawled; order it after that run")
        elif status < 0:
            self.died(work, f"its process was ended by {exit_status_signal(status)}", now)
        else:
            self.end(work, status, now, f"it was not carried out (exit status {status}): see {log}")

    def died(self, work: BegunOrder, why: str, now: int) -> bool:
        """Record the end: pages may have gone by then, so that it does not begin again."""
        self.end(work, None, now, f"{why}; look at the removals, and order the rest")
        return False

    def end(self, work: BegunOrder, status: int | None, now: int, *reasons: str) -> None:
        """Record that an order was not carried out."""
        self.control.write(
            lambda: end_removal_order_row(self._connection, work.id, now, reasons=reasons)
        )
        logger.error("%s failed: %s", work.label, "; ".join(reasons))


def removal_order_data(order: RemovalOrder) -> dict[str, Any]:
    """Return an order under the keys of ``OrderedRemoval``."""
    return {
        "order_id": order.id,
        "source": order.source,
        "action": order.action.value,
        "run": order.run,
        "max": order.most,
        "pin": order.is_pinned,
        "url": order.url,
        "by": order.orderer,
        "status": order.state.value,
        "created_at": iso_time(order.created_at),
        "ended_at": iso_time(order.ended_at),
        "result": order.result,
        "reasons": list(order.reasons),
    }


def _order(**example: Any) -> ConfigDict:
    return ConfigDict(strict=True, extra="forbid", json_schema_extra={"examples": [example]})


class ApproveOrder(BaseModel):
    """The approval of withheld removals."""

    model_config = _order(max=10)

    max: Annotated[JsonInteger, Between(1, MOST_NUMBER)] = Field(
        description="Pages that are removed at most"
    )


class RemoveOrder(BaseModel):
    """The order to remove lost or orphaned pages of a source."""

    model_config = _order(source="docs", kind="orphans", max=10)

    source: str = Field(min_length=1, max_length=255, examples=["docs"])
    kind: Literal["lost", "orphans"]
    max: Annotated[JsonInteger, Between(1, MOST_NUMBER)] = Field(
        description="Pages that are removed at most"
    )


class UndoOrder(BaseModel):
    """The undo of removals."""

    model_config = _order(pin=False)

    pin: bool = Field(
        default=False, description="Whether to keep them, even if no page links there"
    )


def _true(value: object) -> object:
    """Refuse 1 and 1.0, which equal True."""
    if value is not True:
        raise PydanticKnownError("literal_error", {"expected": "True"})
    return value


class ForgetOrder(BaseModel):
    """The order to forget a page."""

    model_config = _order(confirm=True)

    confirm: Annotated[Literal[True], BeforeValidator(_true)] = Field(
        description="That its content is to be removed", examples=[True]
    )


def approvable_removals(connection: Connection, source: str, run: int) -> int:
    """Return how many pages an approval of a run would remove, were its number large enough."""
    waiting = withheld_candidate_rows(connection, sources=[source], run=run)
    numbers = {target.no for target in waiting if target.removable}
    numbers |= {target.no for target in emptied_page_rows(connection, run) if target.removable}
    return len(numbers)


def _refusal(
    connection: Connection, action: RemovalAction, source: str, run: int, *, is_held: bool
) -> str | None:
    """Return why an order cannot be carried out now, or None."""
    if is_held:
        return _busy(connection, source)
    if action is RemovalAction.APPROVE and not approvable_removals(connection, source, run):
        return f"no removal of run {run} waits for approval: it was approved before, or refuted"
    if action is RemovalAction.UNDO and not undoable_rows(connection, run).restored:
        return (
            f"nothing that was removed in run {run} can be restored: it was restored before, or its"
            " content has expired (UNDO_TTL_SECONDS)"
        )
    return None


def _busy(connection: Connection, source: str) -> str:
    """Return why a source with a process at work on it takes no order."""
    last = last_run_row(connection, source)
    if last is not None and last[2] in UNFINISHED:
        return f"run {last[0]} of {source} is open: order it after that run"
    return f"a command is at work on {source}: order it again in a minute"


class RemovalOrdering:
    """Takes orders to approve or undo, each key once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def answer(
        self, request: Request, run: int, action: RemovalAction, **choices: Any
    ) -> Response:
        """Answer a request about a run with the order, which waits for its process."""
        reader = self._context.reader(request)
        order = self._order(request, run, action, **choices)
        held = self._context.stores.database.is_held
        return await self._placed(
            request, lambda seen: checked_removal_order(seen, order, reader, held)
        )

    async def forget(self, request: Request, number: int) -> Response:
        """Answer a request to forget a record with the order, which waits for its process."""
        reader = self._context.reader(request)
        order = self._order(request, 0, RemovalAction.FORGET)
        held = self._context.stores.database.is_held
        return await self._placed(
            request, lambda seen: checked_forgetting(seen, order, number, reader, held)
        )

    async def remove(self, request: Request, order: RemoveOrder) -> Response:
        """Answer a request to remove pages of a source with the order."""
        reader = self._context.reader(request)
        placed = self._order(request, 0, RemovalAction(order.kind), most=order.max)
        placed = replace(placed, source=order.source)
        held, policy = self._context.stores.database.is_held, self._context.options.policy
        return await self._placed(
            request, lambda seen: checked_purge(seen, placed, policy, reader, held)
        )

    async def _placed(
        self, request: Request, check: Callable[[Connection], RemovalOrder | JobError]
    ) -> Response:
        """Place an order; ``check``: returns it, or why it is refused."""
        found = await to_thread.run_sync(self._context.stores.read_moment, check)

        def work(connection: Connection) -> Reply:
            if isinstance(found, JobError):
                raise found
            return _reply(placed_removal_order(connection, found))

        return await self._once.answer(request, work)

    def _order(
        self, request: Request, run: int, action: RemovalAction, **choices: Any
    ) -> RemovalOrder:
        key = request.scope.get("smartcrawl.key")
        orderer = "without a key" if key is None else f"{key.name} ({key.id})"
        order = new_removal_order("", action, run, orderer, int(self._context.clock()))
        return replace(order, **choices)


def checked_removal_order(
    connection: Connection,
    order: RemovalOrder,
    reader: Reader,
    is_held: Callable[[str], bool],
) -> RemovalOrder | JobError:
    """Return the order with its source, or why it is refused.

    ``is_held``: whether a process has the lease of a source.
    """
    found = source_row_of_run(connection, order.run)
    stored = stored_visibilities(connection)
    if found is None or not reader.may_read(found[1], stored.get(found[1])):
        reason = "there is no run of this number"
        return JobError(NOT_FOUND, field="run", reason=reason, message="Run not found")
    order = replace(order, source=found[1])
    before = open_removal_order_row(connection, order.source)
    if before is not None:  # it may have removed what this one is about
        return order
    held = is_held(order.source)
    why = _refusal(connection, order.action, order.source, order.run, is_held=held)
    return order if why is None else JobError(CONFLICT, field="run", reason=why, message=_MESSAGE)


def checked_purge(
    connection: Connection,
    order: RemovalOrder,
    policy: Policy,
    reader: Reader,
    is_held: Callable[[str], bool],
) -> RemovalOrder | JobError:
    """Return the order to remove lost or orphaned pages, or why it is refused.

    ``is_held``: whether a process has the lease of a source.
    """
    stored = stored_visibilities(connection)
    last = last_run_row(connection, order.source)
    if last is None or not reader.may_read(order.source, stored.get(order.source)):
        reason = "there is no source of this name"
        return JobError(NOT_FOUND, field="source", reason=reason, message="Source not found")
    order = replace(order, run=last[0])
    if open_removal_order_row(connection, order.source) is not None:
        return order
    if is_held(order.source):
        reason = _busy(connection, order.source)
        return JobError(CONFLICT, field="source", reason=reason, message=_MESSAGE)
    names = [order.source]
    found = orphaned_page_rows(connection, sources=names)
    if order.action is RemovalAction.LOST:
        found = [one for one in lost_page_rows(connection, policy, sources=names) if one.removable]
    if found:
        return order
    kind = "lost page" if order.action is RemovalAction.LOST else "orphan"
    reason = f"{order.source} has no {kind} that can be removed"
    return JobError(CONFLICT, field="source", reason=reason, message=_MESSAGE)


def checked_forgetting(
    connection: Connection,
    order: RemovalOrder,
    number: int,
    reader: Reader,
    is_held: Callable[[str], bool],
) -> RemovalOrder | JobError:
    """Return the order to forget a record, or why it is refused.

    ``number``: record.no. ``is_held``: whether a process has the lease of a source.
    """
    known = known_record_row(connection, number)
    stored = stored_visibilities(connection)
    if known is None or not reader.may_read(known[0].source, stored.get(known[0].source)):
        reason = "no record has this number"
        return JobError(NOT_FOUND, field="record_id", reason=reason, message="Record not found")
    page = known[0]
    last = last_run_row(connection, page.source)
    run = 0 if last is None else last[0]
    order = replace(order, source=page.source, run=run, url=page.url)
    if open_removal_order_row(connection, page.source) is not None:
        return order
    why = None
    if is_held(page.source):
        why = _busy(connection, page.source)
    elif not page.held and not page.pinned:
        why = "nothing is stored of it, and it is not pinned"
    if why is None:
        return order
    return JobError(CONFLICT, field="record_id", reason=why, message=_MESSAGE)


def placed_removal_order(connection: Connection, order: RemovalOrder) -> RemovalOrder:
    """Store an order, and return it; one that is the same and not over is returned instead.

    Raises:
        JobError: another order for its source is not over.
    """
    before = open_removal_order_row(connection, order.source)
    if before is None:
        store_removal_order_row(connection, order)
        return order
    if before.orders_same(order):
        return before
    raise JobError(
        CONFLICT,
        field="run",
        reason=f"the order {before.id} to {before.action} run {before.run} of {order.source} is"
        " not over: wait for it",
        message=_MESSAGE,
    )


def _reply(order: RemovalOrder) -> Reply:
    data = removal_order_data(order)
    return Reply.of(202, data, Location=f"/api/v1/removals/{order.id}")


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of orders."""
    ordering = RemovalOrdering(context)
    described: dict[str, Any] = {
        "tags": ["removals"],
        "status_code": 202,
        "response_model": OrderedRemoval,
        "responses": {404: {}, 409: {}, 422: {}},
        "dependencies": [Depends(refuse_api_query)],
        "openapi_extra": {"parameters": [KEY_PARAMETER]},
    }

    @router.post(
        "/runs/{run}/approve",
        summary="Remove pages that were withheld in a run or earlier, at most a given number",
        **described,
    )
    async def approve_removals(request: Request, run: _RUN, order: ApproveOrder) -> Response:
        no = number_of_path(run, "run")
        return await ordering.answer(request, no, RemovalAction.APPROVE, most=order.max)

    @router.post(
        "/runs/{run}/undo",
        summary="Restore the pages that were removed under the number of a run",
        **described,
    )
    async def undo_removals(request: Request, run: _RUN, order: UndoOrder) -> Response:
        no = number_of_path(run, "run")
        return await ordering.answer(request, no, RemovalAction.UNDO, is_pinned=order.pin)

    _add_orders_for_pages(ordering, router, described)
    _add_look_up(context, router)


def _add_orders_for_pages(
    ordering: RemovalOrdering, router: APIRouter, described: dict[str, Any]
) -> None:
    @router.post(
        "/removals",
        summary="Remove lost or orphaned pages of a source, at most a given number",
        **described,
    )
    async def remove_pages(request: Request, order: RemoveOrder) -> Response:
        return await ordering.remove(request, order)

    @router.post(
        "/records/{record_id}/forget",
        summary="Remove the stored content of a page, and unpin it",
        **described,
    )
    async def forget_record(request: Request, record_id: _RUN, order: ForgetOrder) -> Response:
        return await ordering.forget(request, number_of_path(record_id, "record_id"))


def _add_look_up(context: Context, router: APIRouter) -> None:
    @router.get(
        "/removals/{order_id}",
        tags=["removals"],
        summary="An approval or undo, with its result once it is over",
        response_model=OrderedRemoval,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_removal_order(
        request: Request, order_id: Annotated[str, Path(examples=[EXAMPLE_ORDER])]
    ) -> Response:
        reader = context.reader(request)
        found = await context.stores.read_little(_reading(order_id, reader))
        if found is None:
            raise api_not_found("Order not found", reason="there is no order of this id")
        return json_response(removal_order_data(found))


def _reading(id_: str, reader: Reader) -> Callable[[Connection], RemovalOrder | None]:
    def read(connection: Connection) -> RemovalOrder | None:
        found = removal_order_row(connection, id_)
        if found is None:
            return None
        stored = stored_visibilities(connection).get(found.source)
        return found if reader.may_read(found.source, stored) else None

    return read
