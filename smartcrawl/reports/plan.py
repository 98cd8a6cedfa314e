"""The plan of the next run of each source, as data (``smartcrawl plan``)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import EVERY, lowest_stored_number_met
from smartcrawl.registry.removal.purge import Target, withheld_candidate_rows
from smartcrawl.reports.entries import ReportedRecord, reported_proposal, reported_records
from smartcrawl.reports.sources_today import (
    WRONG_TABLE,
    reason_without_source,
    reported_source_today,
)
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.walk import ListedWalkReport, WalkReport
from smartcrawl.rules.absence import Loss, withholds_sweep
from smartcrawl.rules.model import RemovalRule, Standing
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import Listing
from smartcrawl.sources.sharepoint.source import SharepointSource

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
    robots: RobotsOfSources,
    *,
    limit: int,
    listing: Callable[[Source], Listing],
) -> list[dict[str, Any]]:
    """Return the plan of each source (name and number), under KEYS.

    ``limit``: pages of each kind that are listed; ``listing``: begins the listing of a source that
    has one.
    """
    found = []
    for name, number in sources.items():
        source = reported_source_today(connection, declared, name)
        waiting = withheld_candidate_rows(connection, sources=[name])
        if isinstance(source, SharepointSource):
            entries = list(reported_records(connection, number))
            found.append(_of_library(source, entries, waiting, limit))
            continue
        obeyed = robots.of(name) if robots.is_obeyed(name) else None
        if source is not None and source.traits.is_listed:
            walk: WalkReport = ListedWalkReport(
                connection, number, source, options, obeyed, listing=listing(source)
            )
        else:
            why = reason_without_source(declared, name)
            walk = WalkReport(connection, number, source, options, obeyed, without=why)
        found.append(_as_data(name, walk, waiting, limit))
    return found


def _of_library(
    source: SharepointSource, entries: Sequence[ReportedRecord], waiting: list[Target], limit: int
) -> dict[str, Any]:
    """Return the plan of a library under KEYS: its requests need a crawl, so numbers are None."""
    line = f"{program_name()} library download {source.domain} --source {source.source_id}"
    unknown: dict[str, Any] = dict.fromkeys(("asks", "conditional", "newAddresses"))
    unknown |= {name: {} for name in ("unconditional", "skips", "removes")}
    unknown |= {name: [] for name in ("asked", "skipped", "removed")}
    pages = sum(entry.standing > 0 for entry in entries)
    found = unknown | {
        "source": source.name,
        "note": f"a library can only be listed online: {line} --dry-run",
        "known": len(entries),
        "guard": {"withholds": None, "removals": None, "pages": pages},
        "withheld": _waiting_data(waiting, limit),
        "heldByFailedLook": {"count": 0, "shown": []},
        "isListed": True,
    }
    return {name: found[name] for name in KEYS}


def _waiting_data(waiting: Sequence[Target], limit: int) -> dict[str, Any]:
    shown = [{"url": t.url, "rule": t.rule.word, "run": t.run} for t in waiting[:limit]]
    return {"count": len(waiting), "shown": shown}


def plan_guard_withholds(
    walk: WalkReport,
    going: Sequence[ReportedRecord],
    waiting: Iterable[Target],
    orphans: Sequence[ReportedRecord] = (),
) -> bool:
    """Whether the guard would withhold the removal of ``going``.

    ``waiting``: removals of the source that it withholds now. ``orphans``: those of ``going`` that
    no link leads to; they count as if they will answer.
    """
    ends = _ends(walk, going, waiting, orphans)
    return any(_trips(walk, going, orphans, end) for end in ends)


def _ends(
    walk: WalkReport,
    going: Iterable[ReportedRecord],
    waiting: Iterable[Target],
    orphans: Iterable[ReportedRecord],
) -> set[int]:
    """Return the record numbers below which a guard counts (registry.removal.candidates)."""
    known = {entry.no for entry in going}
    since = [target.run for target in waiting if target.no in known and target.run is not None]
    runs = {entry.seen_run + 1 for entry in orphans} | ({min(since)} if since else set())
    return {EVERY, *(lowest_stored_number_met(walk.connection, walk.source_no, n) for n in runs)}


def _trips(
    walk: WalkReport,
    going: Iterable[ReportedRecord],
    orphans: Iterable[ReportedRecord],
    end: int,
) -> bool:
    """Whether the guard withholds the removals among the addresses with numbers below ``end``."""
    leaving, here = (
        [entry.standing for entry in some if entry.no < end and entry.standing > 0]
        for some in (going, walk.entries.values())
    )
    content = Loss(leaving.count(Standing.HELD), here.count(Standing.HELD))
    records = Loss(len(leaving), len(here))
    answering = sum(entry.no < end and entry.standing == Standing.HELD for entry in orphans)
    ratio, least = walk.options.sweep_max_ratio, walk.options.sweep_min_count
    return withholds_sweep(content, records, max_ratio=ratio, min_count=least, answering=answering)


def _as_data(name: str, walk: WalkReport, waiting: list[Target], limit: int) -> dict[str, Any]:
    """Return the plan of one source under KEYS."""
    entries, connection = walk.entries, walk.connection
    why = {number: walk.reason_without_validators(entries[number]) for number in walk.requested}
    asked = [
        {"url": entries[number].url, "conditional": reason is None, "why": reason}
        for number, reason in why.items()
    ]
    if walk.is_listed:
        asked += [{"url": url, "conditional": False, "why": "new"} for url in sorted(walk.new)]
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
    orphans = [entry for entry, way in removals if way.rule is RemovalRule.ORPHAN]
    trips = plan_guard_withholds(walk, going, waiting, orphans)
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
            {"url": entry.url, "rule": way.rule.word, "when": f"after {way}"}
            for entry, way in removals[:limit]
        ],
        {"withholds": trips, "removals": len(going), "pages": pages},
        _waiting_data(waiting, limit),
        {
            "count": len(failed),
            "shown": [{"url": entry.url, "probe": probe} for entry, probe in failed[:limit]],
        },
        walk.is_listed,
    )
    return dict(zip(KEYS, values, strict=True))


def _note(walk: WalkReport) -> str | None:
    if walk.source is None and walk.without == WRONG_TABLE:
        return (
            "its table in sources.toml has a mistake: until you correct it, its pages "
            "stay searchable, but are neither refreshed nor removed"
        )
    if walk.source is None:
        return (
            "no longer in sources.toml: its pages stay searchable, but are neither refreshed "
            "nor removed"
        )
    return walk.cut_reason
