"""What was ordered for one run, and what follows from it for the run's end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smartcrawl.model.options import Options
from smartcrawl.registry.removal.candidates import Closing
from smartcrawl.rules.absence import Policy
from smartcrawl.sources.declared import Source
from smartcrawl.sources.refusals import belongs


@dataclass(frozen=True, slots=True)
class Orders:
    """What was ordered for this run beside its source."""

    force: bool = False
    resume: bool = False
    max_pages: int = 0  #: 0: none
    lost_threshold: int | None = None  #: None: as the settings say
    job: str | None = None  #: what workers are given that are to work on the same run


def policy_of(options: Options, orders: Orders) -> Policy:
    """Return what ages and when it goes, as settings and orders say."""
    if orders.lost_threshold is None:
        return options.policy
    return replace(options.policy, lost_threshold=orders.lost_threshold)


def closing_of(source: Source, options: Options, orders: Orders) -> Closing:
    """Return what the end of a run needs to know of its source and of the choices made."""
    depth_limit = source.max_depth or options.depth_limit
    return Closing(
        policy=policy_of(options, orders),
        max_ratio=options.sweep_max_ratio,
        min_count=options.sweep_min_count,
        remove_excluded=options.out_of_scope_policy == "remove",
        undo_ttl=options.undo_ttl,
        snapshot_retention=options.snapshot_retention,
        gone_ttl=options.gone_ttl,
        # What a daily full crawl would find counts, and no more.
        pace=options.schedule.spread(options.schedule.base, 0),
        in_scope=lambda url, depth: (
            belongs(source, url) and not (depth_limit and depth > depth_limit)
        ),
    )
