"""Orders to approve withheld removals, to undo removals, or to forget a page (ADR 168).

A command that does this keeps it here, too: so the list says who approved what, and when. Every
function is part of the transaction of its caller.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from secrets import token_hex
from typing import Any, Final

from smartcrawl.registry.connection import Connection, Many

#: The orderer of what a command does without an order of the API.
COMMAND_LINE: Final = "command line"
_COLUMNS: Final = (
    "id, source, action, run, most, is_pinned, url, orderer, state, result, reasons, created_at,"
    " ended_at"
)
_OPEN: Final = "state IN ('waiting', 'running')"
_INSERT: Final = """
INSERT INTO removal_order (id, source, action, run, most, is_pinned, url, orderer, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_GET: Final = f"SELECT {_COLUMNS} FROM removal_order WHERE id = ?"
_OPEN_OF: Final = f"""
SELECT {_COLUMNS} FROM removal_order WHERE {_OPEN} AND source = ? ORDER BY no LIMIT 1
"""
_LATEST: Final = f"""
SELECT {_COLUMNS} FROM removal_order
 WHERE (:every OR source IN carray(:sources)) AND (:any OR run = :run)
 ORDER BY no DESC LIMIT :most
"""
_BEGIN: Final = f"UPDATE removal_order SET state = 'running' WHERE id = ? AND {_OPEN}"
_END: Final = f"""
UPDATE removal_order SET state = 'ended', result = ?, reasons = ?, ended_at = ?
 WHERE id = ? AND {_OPEN}
"""


class RemovalAction(StrEnum):
    """What is ordered. The words are stored; never rename."""

    APPROVE = "approve"
    UNDO = "undo"
    FORGET = "forget"
    LOST = "lost"  #: remove lost pages
    ORPHANS = "orphans"  #: remove orphaned pages


class RemovalOrderState(StrEnum):
    """The state of an order. The words are stored; never rename."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RemovalOrder:
    """An order, or what a command did. Times are Unix seconds."""

    id: str
    source: str
    action: RemovalAction
    run: int
    most: int | None  #: pages that are removed at most
    is_pinned: bool  #: whether an undo pins the pages
    url: str | None  #: of the page that is to be forgotten
    orderer: str  #: id and name of an API key, or COMMAND_LINE
    state: RemovalOrderState
    result: dict[str, Any] | None
    reasons: tuple[str, ...]  #: why it was not carried out
    created_at: int
    ended_at: int | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state is RemovalOrderState.ENDED

    def orders_same(self, other: RemovalOrder) -> bool:
        """Whether two orders are about the same removals, in the same way."""
        own = (self.action, self.run, self.most, self.is_pinned, self.url)
        return own == (other.action, other.run, other.most, other.is_pinned, other.url)


def _order(row: Sequence[Any]) -> RemovalOrder:
    id_, source, action, run, most, pinned, url, orderer, state, result, reasons, *times = row
    return RemovalOrder(
        id_,
        source,
        RemovalAction(action),
        run,
        most,
        bool(pinned),
        url,
        orderer,
        RemovalOrderState(state),
        None if result is None else json.loads(result),
        tuple(json.loads(reasons)),
        times[0],
        times[1],
    )


def new_removal_order(
    source: str, action: RemovalAction, run: int, orderer: str, now: int
) -> RemovalOrder:
    """Return an order that is not stored yet; ``now``: Unix seconds."""
    waiting = RemovalOrderState.WAITING
    id_ = f"ro_{token_hex(8)}"
    return RemovalOrder(
        id_, source, action, run, None, False, None, orderer, waiting, None, (), now, None
    )


_LAST_RUN: Final = """
SELECT max(r.no) FROM run r JOIN source o ON o.no = r.source WHERE o.name = ?
"""


def removal_order_of_command(
    connection: Connection, names: Sequence[str], action: RemovalAction, most: int | None
) -> RemovalOrder:
    """Return what a command does without an order, as it is kept.

    It is about the first of the sources ``names``, under the number of its last run.
    """
    source = names[0] if names else ""
    run: Any = connection.execute(_LAST_RUN, (source,)).get
    order = new_removal_order(source, action, run or 0, COMMAND_LINE, int(time.time()))
    return replace(order, most=most)


def store_removal_order_row(connection: Connection, order: RemovalOrder) -> None:
    """Store a new order, which waits."""
    facts = (order.id, order.source, order.action, order.run, order.most, order.is_pinned)
    connection.execute(_INSERT, (*facts, order.url, order.orderer, order.created_at))


def removal_order_row(connection: Connection, id_: str) -> RemovalOrder | None:
    """Return an order; None: there is none of this id."""
    row: Any = connection.execute(_GET, (id_,)).fetchone()
    return None if row is None else _order(row)


def open_removal_order_row(connection: Connection, source: str) -> RemovalOrder | None:
    """Return the order for a source that is not over; None: there is none."""
    row: Any = connection.execute(_OPEN_OF, (source,)).fetchone()
    return None if row is None else _order(row)


def latest_removal_order_rows(
    connection: Connection,
    *,
    sources: Sequence[str] | None = None,
    run: int | None = None,
    most: int,
) -> list[RemovalOrder]:
    """Return the last orders, newest first; ``sources`` and ``run``: None for all."""
    values = {
        "every": sources is None,
        "sources": Many(sources or ()),
        "any": run is None,
        "run": run or 0,
        "most": most,
    }
    rows: list[Any] = connection.execute(_LATEST, values).fetchall()
    return [_order(row) for row in rows]


def begin_removal_order_row(connection: Connection, id_: str) -> bool:
    """Record that a process carries out an order; return whether it is not over."""
    connection.execute(_BEGIN, (id_,))
    return connection.changes() > 0


def end_removal_order_row(
    connection: Connection,
    id_: str,
    now: int,
    *,
    result: Mapping[str, Any] | None = None,
    reasons: Sequence[str] = (),
) -> None:
    """Record the end of an order; one that is over stays as it is."""
    found = None if result is None else json.dumps(result)
    connection.execute(_END, (found, json.dumps(list(reasons)), now, id_))
