"""Imported before a command: its run is ordered to pause when it is open, before it begins."""

from contextlib import closing

from smartcrawl.engine.control import OrderWatch
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder

_start = OrderWatch.start


def _ordered(watch: OrderWatch) -> None:
    run = watch._run
    database = registry_database(run.options.registry)
    with closing(database.connect()) as connection, transaction(connection):
        order_run_row(connection, run.opened.no, RunOrder.PAUSE, 1)
    _start(watch)


OrderWatch.start = _ordered  # type: ignore[method-assign]
