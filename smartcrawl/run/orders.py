"""The orders for one run, and the policy that they give its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from smartcrawl.model.options import Options
from smartcrawl.registry.removal.candidates import RemovalChoices
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.depth import DepthLimits
from smartcrawl.rules.model import RunOrder
from smartcrawl.run.configuration import run_configuration
from smartcrawl.sources.base import Source, belongs_to_source


class Halt:
    """Ends this process's part in a run by order: nothing more is sent, then all is dropped.

    Once there is an ``order``, no request is sent, and no failure counts. ``drop`` gives up the
    requests in flight and the documents that are being read: their pages stay pending.
    """

    def __init__(self) -> None:
        self.order: RunOrder | None = None  #: set once, in the thread of the event loop
        self._drops: list[Callable[[], None]] = []

    def when_dropped(self, drop: Callable[[], None]) -> None:
        """Have ``drop`` called in the thread of the event loop, at most once."""
        self._drops.append(drop)

    def drop(self) -> None:
        """Give up all work that is under way."""
        drops, self._drops = self._drops, []
        for drop in drops:
            drop()


RETRY_BATCHES: Final = 2  #: unless an order has another number
MOST_RETRY_BATCHES: Final = 5


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders for a run beside its source: the arguments of the spider."""

    force: bool = False
    resume: bool = False
    max_pages: int = 0  #: 0: no limit
    lost_threshold: int | None = None  #: None: as the settings say
    retry_batches: int = RETRY_BATCHES  #: how often failed items of a library are requested
    allow_private: tuple[str, ...] = ()  #: names of seeds that may lead into private networks
    job: str | None = None  #: name that all workers of one run are given
    job_run: str | None = None  #: id of the run of a job of the HTTP API


def run_depth_limits(source: Source, options: Options) -> DepthLimits:
    """Return the limit of the source, and that of its run alone."""
    return DepthLimits.of(
        source.max_depth, options.depth_limit, by_order=options.depth_limit_is_order
    )


def run_policy_from_orders(options: Options, orders: Orders) -> Policy:
    """Return the removal policy of the settings, changed by the orders."""
    if orders.lost_threshold is None:
        return options.policy
    return replace(options.policy, lost_threshold=orders.lost_threshold)


def run_closing_from_orders(source: Source, options: Options, orders: Orders) -> RemovalChoices:
    """Return the source's rules and the settings that the end of a run needs."""
    depths = run_depth_limits(source, options)
    return RemovalChoices(
        policy=run_policy_from_orders(options, orders),
        max_ratio=options.sweep_max_ratio,
        min_count=options.sweep_min_count,
        remove_excluded=options.out_of_scope_policy == "remove",
        undo_ttl=options.undo_ttl,
        snapshot_retention=options.snapshot_retention,
        gone_ttl=options.gone_ttl,
        # The counts of a due crawl rise no faster than those of a daily full crawl.
        pace=options.schedule.spread(options.schedule.base, 0),
        redirects=options.redirects,
        is_listed=source.traits.is_listed,
        configuration=run_configuration(source, options),
        is_linked=lambda url: not source.lists(url),
        in_scope=lambda url, depth: belongs_to_source(source, url) and not depths.excludes(depth),
    )
