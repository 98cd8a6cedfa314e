"""The keys and settings that decide about the pages of a run, on which its workers agree."""

from __future__ import annotations

from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.registry.runs.membership import digests_of_rules
from smartcrawl.run.orders import Orders, run_policy_from_orders
from smartcrawl.sources.base import Source

#: Keys of a source that decide about no address: paths and trust of one machine.
_OF_A_MACHINE: Final = frozenset({"ca_file", "verify_certificates"})
#: Settings that decide about addresses, by the name of their option.
_SETTINGS: Final = {
    "DEPTH_LIMIT": "depth_limit",
    "REDIRECT_MAX_TIMES": "redirects",
    "ROBOTSTXT_OBEY": "robots_obeyed",
    "SITEMAPS_FROM_ROBOTS": "sitemaps_from_robots",
    "LLMS_TXT": "llms_txt",
    "SOFT_404_DETECTION": "soft_404",
    "OUT_OF_SCOPE_POLICY": "out_of_scope_policy",
    "HOST_URL_BUDGET": "host_url_budget",
    "MAX_HOSTS": "max_hosts",
    "SWEEP_MAX_RATIO": "sweep_max_ratio",
    "SWEEP_MIN_COUNT": "sweep_min_count",
}
#: Settings of the removal policy, by the name of its field.
_POLICY: Final = {
    "LOST_THRESHOLD": "lost_threshold",
    "LOST_MIN_AGE": "lost_min_age",
    "LOST_PURGE_STATUSES": "purge_statuses",
    "ORPHAN_THRESHOLD": "orphan_threshold",
    "ORPHAN_MIN_AGE": "orphan_min_age",
    "LOST_ORPHAN_RULE": "sum_of_thresholds",
}


def shared_run_rules(source: Source, options: Options, orders: Orders) -> dict[str, str]:
    """Return a digest of each key and setting that decides about the pages of a run, by its name.

    The keys are those of sources.toml, also where the arguments of the command have their values.
    """
    declared = source.model_dump(mode="json", include=set(source.keys()) - _OF_A_MACHINE)
    policy = run_policy_from_orders(options, orders)
    values: dict[str, Any] = declared | {
        "max_pages": orders.max_pages or source.max_pages,
        **{name: _plain(getattr(options, option)) for name, option in _SETTINGS.items()},
        **{name: _plain(getattr(policy, part)) for name, part in _POLICY.items()},
        "TRACKING_PARAM_PREFIXES": sorted(options.trackers.prefixes),
        "TRACKING_PARAM_NAMES": sorted(options.trackers.names),
    }
    return digests_of_rules(values)


def _plain(value: Any) -> Any:
    """Return a value as JSON can have it."""
    return sorted(value) if isinstance(value, frozenset | set) else value
