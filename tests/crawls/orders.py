"""Orders to runs that are under way, and a site that stops in the middle of its answers."""

import time
from collections import Counter
from contextlib import closing
from typing import Final

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.runs.run_orders import order_run_row
from smartcrawl.rules.model import RunOrder
from tests.crawls.commands import Crawl, Remote, Running, wait_until
from tests.raw_site import RawSite, Steps

PAUSE, CANCEL = RunOrder.PAUSE, RunOrder.CANCEL
#: Of the 30 pages of a site. With two requests at a time, no page after them is asked.
HANGING: Final = ("/5", "/9")
#: A stop that waited for what is in flight would take a minute.
SLOW: Final = {"DOWNLOAD_TIMEOUT": "60", "CONCURRENT_REQUESTS_PER_DOMAIN": "2"}
MOST_SECONDS: Final = 40


def hang(site: RawSite, *paths: str) -> None:
    """Send half of these answers, and nothing more."""

    def half(good: bytes) -> Steps:
        return good[: len(good) // 2], 600.0

    for path in paths or HANGING:
        site.scripts[path] = half


def wait_until_it_hangs(site: RawSite, running: Running | None = None) -> None:
    """Wait until the pages that hang are asked; an error has what ``running`` said until then."""
    try:
        wait_until(lambda: all(map(site.count, HANGING)), "the pages that hang are asked")
    except AssertionError as error:
        if running is None:
            raise
        running.process.kill()
        raise AssertionError(f"{error}\n{list(asked(site))}\n{running.end()}") from None


def order(crawl: Crawl, what: RunOrder, run: int = 1) -> bool:
    """Order a run, as the HTTP API does; return whether it takes the order."""
    crawl._told.clear()
    place = crawl.registry.url if isinstance(crawl.registry, Remote) else crawl.registry
    with closing(registry_database(place).connect()) as connection, transaction(connection):
        return order_run_row(connection, run, what, int(time.time()))


def state(crawl: Crawl, run: int = 1) -> tuple[object, ...]:
    """State, reasons, completeness and order of a run."""
    rows = crawl.rows(f"SELECT state, reasons, complete, requested FROM run WHERE no = {run}")
    [(number, reasons, complete, requested)] = rows
    return number, reasons, bool(complete), requested


def visited(crawl: Crawl, run: int = 1) -> set[str]:
    """The paths that a run visited."""
    rows = crawl.rows(
        f"SELECT url FROM record JOIN state USING (no) WHERE visited_run = {run} AND kind = 0"
    )
    return {"/" + url.split("/", 3)[3] for (url,) in rows}


def ages(crawl: Crawl) -> list[tuple[object, ...]]:
    """What would rise if an ended run counted as one that saw everything, or as a failure."""
    return crawl.rows(
        "SELECT url, lost_count, gone_count, error_count, standing"
        " FROM record JOIN state USING (no) ORDER BY url"
    )


def asked(site: RawSite) -> Counter[str]:
    """How often each page was asked."""
    counts = Counter(path for path, _ in list(site.log))
    del counts["/robots.txt"]
    return counts


def held_leases(crawl: Crawl) -> list[tuple[object, ...]]:
    """The leases of PostgreSQL; those of a file are locks of the process."""
    if not isinstance(crawl.registry, Remote):
        return []
    return crawl.rows("SELECT pid FROM lease")
