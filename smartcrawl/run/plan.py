"""The plan of the next run of each source, as data (``smartcrawl plan``), from a rehearsal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.purge import withheld_candidate_rows
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.today import (
    WRONG_TABLE,
    ReportedRecord,
    ReportedRuns,
    reason_without_source,
    reported_facts,
    reported_records,
    reported_runs,
    reported_source_today,
)
from smartcrawl.rules.depth import DepthLimits
from smartcrawl.rules.forecast import Finding, forecast_ways
from smartcrawl.rules.model import RemovalRule
from smartcrawl.rules.seal import DEPTH_LEFT, NO_PAGES, NOT_DUE
from smartcrawl.run.orders import run_depth_limits
from smartcrawl.run.rehearsal import Rehearsed, rehearse_run
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import Listing
from smartcrawl.sources.scope import Scope
from smartcrawl.sources.sharepoint.source import SharepointSource

#: Keys of each source's plan.
KEYS = (
    "source", "note", "known", "asks", "conditional", "unconditional", "newAddresses", "asked",
    "skips", "skipped", "removes", "removed", "guard", "withheld", "heldByFailedLook", "isListed",
)  # fmt: skip

#: The finding of a run that removes a page by a rule.
_FINDINGS: Final = {
    RemovalRule.GONE: Finding.GONE,
    RemovalRule.REDIRECT: Finding.MOVED,
    RemovalRule.NOT_ACCEPTABLE: Finding.NOT_ACCEPTABLE,
    RemovalRule.CANONICAL: Finding.CANONICAL,
    RemovalRule.EXCLUDED: Finding.EXCLUDED,
    RemovalRule.ORPHAN: Finding.ABSENT,
    RemovalRule.ABSENT: Finding.ABSENT,
}
_LISTING: Final = "listing: "  #: beginning of the reason that a part of a source cannot be listed
_LIMIT: Final = "max_pages"


def plan_reports(
    connection: Connection,
    sources: Mapping[str, int],
    declared: Mapping[str, Source],
    options: Options,
    robots: RobotsOfSources,
    *,
    limit: int,
    listing: Callable[[Source], Listing],
    progress: Callable[[str, int], None] = lambda doing, number: None,
) -> list[dict[str, Any]]:
    """Return the plan of each source (name and number), under KEYS.

    ``limit``: pages of each kind that are listed; ``listing``: begins the listing of a source that
    has one. ``progress`` gets a participle, and how many are done.
    """
    found = []
    for name, number in sources.items():
        source = reported_source_today(connection, declared, name)
        waiting = withheld_candidate_rows(connection, sources=[name])
        plan = _Plan(source, options, reported_runs(connection, number), limit)
        if source is None or isinstance(source, SharepointSource):
            entries = {entry.no: entry for entry in reported_records(connection, number)}
        if source is None:
            part = plan.without(entries, reason_without_source(declared, name))
        elif isinstance(source, SharepointSource):
            part = plan.of_library(source, entries)
        else:
            rehearsed = rehearse_run(
                connection,
                source,
                number,
                options,
                now=int(time.time()),
                robots=robots.of(name) if robots.is_obeyed(name) else None,
                listing=partial(listing, source) if source.traits.is_listed else None,
                progress=progress,
            )
            part = plan.of_run(source, rehearsed)
        part["source"] = name
        part["withheld"] = _shown(
            len(waiting),
            [{"url": t.url, "rule": t.rule.word, "run": t.run} for t in waiting[:limit]],
        )
        found.append({key: part[key] for key in KEYS})
    return found


def _why_skipped(
    source: Source, entry: ReportedRecord, found: Rehearsed, limits: DepthLimits, scope: Scope
) -> str:
    """Return why a run does not ask for a page, or does not read a listed file.

    ``limits`` and ``scope``: those of the source, made once for all its pages.
    """
    no = entry.no
    if no in found.refused:
        return found.refused[no]
    if no in found.confirmed:
        return "unchanged"
    if no in found.waiting:
        is_cut = any(reason.startswith(_LIMIT) for reason in found.reasons)
        return "the run ends before it" if is_cut else "not due yet"
    if limits.excludes(entry.depth) or not scope.allows(entry.url):
        return "out of scope"
    if source.lists(entry.url):
        return "not in the listing"
    if limits.leaves_out(entry.depth):
        return f"deeper than DEPTH_LIMIT={limits.ordered} of this run"
    if no in found.behind:
        return "robots.txt disallows the pages that link to it"
    return "no page links to it"


def _pages(entries: Mapping[int, ReportedRecord]) -> int:
    return sum(entry.standing > 0 for entry in entries.values())


def _shown(count: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"count": count, "shown": list(rows)}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of one source."""

    source: Source | None
    options: Options
    runs: ReportedRuns
    limit: int

    def without(self, entries: Mapping[int, ReportedRecord], why: str) -> dict[str, Any]:
        """Return the plan of a source that no run takes, because of ``why``."""
        mistake = why == WRONG_TABLE
        note = (
            "its table in sources.toml has a mistake: until you correct it, its pages "
            "stay searchable, but are neither refreshed nor removed"
            if mistake
            else "no longer in sources.toml: its pages stay searchable, but are neither refreshed "
            "nor removed"
        )
        return self._data(Rehearsed(entries), dict.fromkeys(entries, why)) | {"note": note}

    def of_library(
        self, source: SharepointSource, entries: Mapping[int, ReportedRecord]
    ) -> dict[str, Any]:
        """Return the plan of a library: its requests need a crawl, so numbers are None."""
        unknown: dict[str, Any] = dict.fromkeys(("asks", "conditional", "newAddresses"))
        unknown |= {name: {} for name in ("unconditional", "skips", "removes")}
        unknown |= {name: [] for name in ("asked", "skipped", "removed")}
        line = f"{program_name()} library download {source.domain} --source {source.source_id}"
        return unknown | {
            "note": f"a library can only be listed online: {line} --dry-run",
            "known": len(entries),
            "guard": {"withholds": None, "removals": None, "pages": _pages(entries)},
            "heldByFailedLook": _shown(0, []),
            "isListed": True,
        }

    def of_run(self, source: Source, found: Rehearsed) -> dict[str, Any]:
        """Return the plan of a source from the rehearsal of its run."""
        limits, scope = run_depth_limits(source, self.options), source.scope
        skips = {
            no: _why_skipped(source, entry, found, limits, scope)
            for no, entry in found.records.items()
            if no not in found.asked
        }
        return self._data(found, skips) | {"note": self._note(source, found)}

    def _data(self, found: Rehearsed, skips: Mapping[int, str]) -> dict[str, Any]:
        entries, limit = found.records, self.limit
        is_listed = self.source is not None and self.source.traits.is_listed
        plain = Counter(why for why in found.asked.values() if why is not None)
        asked: list[dict[str, Any]] = [
            {"url": entries[no].url, "conditional": why is None, "why": why}
            for no, why in found.asked.items()
        ]
        if is_listed:
            new = sorted(found.new)
            asked += [{"url": url, "conditional": False, "why": "new"} for url in new]
        going = dict(sorted({**found.removed, **found.withheld}.items()))
        return {
            "known": len(entries),
            "asks": len(found.asked),
            "conditional": len(found.asked) - plain.total(),
            "unconditional": dict(plain),
            "newAddresses": len(found.new),
            "asked": asked[:limit],
            "skips": dict(Counter(skips.values())),
            "skipped": [
                {"url": entries[no].url, "why": why} for no, why in list(skips.items())[:limit]
            ],
            "removes": dict(Counter(rule.word for rule in going.values())),
            "removed": [
                self._removal(entries[no], rule) for no, rule in list(going.items())[:limit]
            ],
            "guard": {
                "withholds": bool(found.withheld),
                "removals": len(going),
                "pages": _pages(entries),
            },
            "heldByFailedLook": _shown(
                len(found.kept),
                [
                    {"url": entries[no].url, "probe": probe}
                    for no, probe in list(found.kept.items())[:limit]
                ],
            ),
            "isListed": is_listed,
        }

    def _removal(self, entry: ReportedRecord, rule: RemovalRule) -> dict[str, Any]:
        """Return a removal, and the runs after which its rule takes the page."""
        source, options = self.source, self.options
        age, since = self.runs.absence(entry.seen_run)
        facts = replace(
            reported_facts(
                entry,
                self.runs,
                options.policy,
                reached=True,
                aside=False,
                is_listed=source is not None and source.lists(entry.url),
            ),
            finding=_FINDINGS.get(rule, Finding.FINE),
            age=age,
            absent_since=since,
        )
        remove = options.out_of_scope_policy == "remove"
        ways = forecast_ways(facts, options.policy, remove_excluded=remove)
        way = next((str(way) for way in ways if way.rule is rule), "1 run")
        return {"url": entry.url, "rule": rule.word, "when": f"after {way}"}

    def _note(self, source: Source, found: Rehearsed) -> str | None:
        """Return why the run would be incomplete; None if it would not be, or only saw a slice."""
        problems = [r.removeprefix(_LISTING) for r in found.reasons if r.startswith(_LISTING)]
        if problems:
            return (
                f"cannot be listed: {', '.join(problems)}. The run would be "
                "incomplete, and nothing is removed for missing from the listing"
            )
        if any(reason.startswith(f"{DEPTH_LEFT}:") for reason in found.reasons):
            ordered = run_depth_limits(source, self.options).ordered
            return (
                f"DEPTH_LIMIT={ordered} leaves deeper pages out of this run; "
                "none of them is removed"
            )
        if any(reason.startswith(_LIMIT) for reason in found.reasons):
            return (
                f"max_pages={source.max_pages} ends the run early; it would be "
                "incomplete, and no page is removed for not being reached"
            )
        others = [r for r in found.reasons if not r.startswith((NO_PAGES, f"{NOT_DUE}:"))]
        if not others:
            return None
        return (
            f"the run would be incomplete ({'; '.join(others)}), and no page is removed for not "
            "being reached"
        )
