"""The plan of the next run of each source, as data (``scrapy plan``)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import EVERY, lowest_stored_number_met
from smartcrawl.registry.removal.purge import Target, withheld_candidate_rows
from smartcrawl.reports.entries import ReportedRecord, reported_proposal
from smartcrawl.reports.listed_walk import ListedWalkReport
from smartcrawl.reports.sources_today import reported_source_today
from smartcrawl.reports.stored_robots import StoredRobotsReport
from smartcrawl.reports.walk import WalkReport
from smartcrawl.rules.absence import Loss, withholds_sweep
from smartcrawl.rules.model import RemovalRule, Standing
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import Listing

#: Keys of each source's plan.
KEYS = (
    "source", "note", "known", "asks", "conditional", "unconditional", "newAddresses", "asked",
    "skips", "skipped", "removes", "removed", "guard", "withheld", "heldByFailedLook", "isListed",
)  # fmt: skip


def plan_reports(
    connection: Connection,
    sources: Mapping[str, int],
    declared: Mapping[str, Source],
    options: Options,
    robots: StoredRobotsReport | None,
    *,
    limit: int,
    listing: Callable[[Source], Listing],
) -> list[dict[str, Any]]:
    """Return the plan of each source (name and number), under KEYS.

    ``robots``: None where robots.txt is not obeyed; ``limit``: pages of each kind that are listed;
    ``listing``: begins the listing of a source that has one.
    """
    found = []
    for name, number in sources.items():
        source = reported_source_today(connection, declared, name)
        if source is not None and source.traits.is_listed:
            walk: WalkReport = ListedWalkReport(
                connection, number, source, options, robots, listing=listing(source)
            )
        else:
            walk = WalkReport(connection, number, source, options, robots)
        found.append(
            _as_data(name, walk, withheld_candidate_rows(connection, sources=[name]), limit)
        )
    return found


def _ends(walk: WalkReport, going: Iterable[ReportedRecord], waiting: Iterable[Target]) -> set[int]:
    """Return the record numbers below which a guard counts (registry.candidates.guard)."""
    known = {entry.no for entry in going}
    since = [target.run for target in waiting if target.no in known and target.run is not None]
    met = (
        {lowest_stored_number_met(walk.connection, walk.source_no, min(since))} if since else set()
    )
    return {EVERY, *met}


def _trips(walk: WalkReport, going: Iterable[ReportedRecord], end: int) -> bool:
    """Whether the guard withholds the removals among the addresses with numbers below ``end``."""
    leaving, here = (
        [entry.standing for entry in some if entry.no < end and entry.standing > 0]
        for some in (going, walk.entries.values())
    )
    content = Loss(leaving.count(Standing.HELD), here.count(Standing.HELD))
    records = Loss(len(leaving), len(here))
    ratio, least = walk.options.sweep_max_ratio, walk.options.sweep_min_count
    return withholds_sweep(content, records, max_ratio=ratio, min_count=least)


def _as_data(name: str, walk: WalkReport, waiting: list[Target], limit: int) -> dict[str, Any]:
    """Return the plan of one source under KEYS."""
    entries, connection = walk.entries, walk.connection
    why = {number: walk.reason_without_validators(entries[number]) for number in walk.requested}
    asked = [
        {"url": entries[number].url, "conditional": reason is None, "why": reason}
        for number, reason in why.items()
    ]
    if walk.is_listed:
        asked += [
            {"url": url, "conditional": False, "why": "it is new"} for url in sorted(walk.new)
        ]
    plain = Counter(reason for reason in why.values() if reason is not None)
    skipped = [(entry, reason) for entry in entries.values() if (reason := walk.skipped(entry))]
    failed, removals = [], []
    for entry, way in walk.removals(int(time.time())):
        proposed = (
            reported_proposal(connection, entry.no) if way.rule is RemovalRule.ORPHAN else None
        )
        if proposed is not None and not walk.lets_go(entry, proposed):
            failed.append((entry, proposed.probe))
        else:
            removals.append((entry, way))
    going = [entry for entry, _ in removals]
    trips = any(_trips(walk, going, end) for end in _ends(walk, going, waiting))
    pages = sum(entry.standing > 0 for entry in entries.values())
    values = (
        name,
        _note(walk),
        len(entries),
        len(why),
        len(why) - sum(plain.values()),
        dict(plain),
        len(walk.new),
        asked[:limit],
        dict(Counter(reason for _, reason in skipped)),
        [{"url": entry.url, "why": reason} for entry, reason in skipped[:limit]],
        dict(Counter(way.rule.word for _, way in removals)),
        [
            {"url": entry.url, "rule": way.rule.word, "when": f"if {way}"}
            for entry, way in removals[:limit]
        ],
        {"withholds": trips, "removals": len(going), "pages": pages},
        {
            "count": len(waiting),
            "shown": [{"url": t.url, "rule": t.rule.word, "run": t.run} for t in waiting[:limit]],
        },
        {
            "count": len(failed),
            "shown": [{"url": entry.url, "probe": probe} for entry, probe in failed[:limit]],
        },
        walk.is_listed,
    )
    return dict(zip(KEYS, values, strict=True))


def _note(walk: WalkReport) -> str | None:
    if walk.source is None:
        return "not in sources.toml any more: it stays searchable, is not crawled and never swept"
    return walk.cut_reason
