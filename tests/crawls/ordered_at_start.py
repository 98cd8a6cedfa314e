"""Imported before a command: its run is ordered to pause when it is open, before it begins.

The first look for an order takes longer than a seed would need to reach its server.
"""

import time
from contextlib import closing
from typing import Final

from smartcrawl.engine.control import OrderWatch
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder

_SLOW: Final = 0.6  #: seconds of the first look; RunControl waits for one second

_start, _look = OrderWatch.start, OrderWatch.look


def _ordered(watch: OrderWatch) -> None:
    run = watch._run
    database = registry_database(run.options.registry)
    with closing(database.connect()) as connection, transaction(connection):
        order_run_row(connection, run.opened.no, RunOrder.PAUSE, 1)
    _start(watch)


def _slow(watch: OrderWatch) -> RunOrder | None:
    if not watch.looked.is_set():
        time.sleep(_SLOW)
    return _look(watch)


OrderWatch.start = _ordered  # type: ignore[method-assign]
OrderWatch.look = _slow  # type: ignore[method-assign]
