"""Pages that a command may remove, as data (``smartcrawl orphans``, ``smartcrawl deltamerge``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.purge import Target, orphaned_page_rows, withheld_candidate_rows
from smartcrawl.rules.model import Word


class Orphans(NamedTuple):
    """Orphans and withheld removals, sorted by source and record."""

    rows: list[dict[str, Any]]
    releases: list[Release]


class Release(NamedTuple):
    """Withheld removals of one source that an operator may approve."""

    source: str
    run: int  #: the latest run that proposed one of them
    pages: int


def reported_orphans(connection: Connection, sources: Sequence[str] = ()) -> Orphans:
    """Return the orphans and withheld removals of some sources; of all where none is named."""
    waiting = withheld_candidate_rows(connection, sources=sources)
    listed = orphaned_page_rows(connection, sources=sources)
    ages = {target.no: target.age for target in listed}
    proposed = {target.no for target in waiting}
    found = [*(target for target in listed if target.no not in proposed), *waiting]
    found.sort(key=lambda target: (target.source, target.no))
    releases = []
    for source in sorted({target.source for target in waiting}):
        ready = [t for t in waiting if t.source == source and t.removable]
        if ready:
            releases.append(Release(source, max(t.run or 0 for t in ready), len(ready)))
    return Orphans([_orphan(target, ages.get(target.no, 0)) for target in found], releases)


def _orphan(target: Target, age: int) -> dict[str, Any]:
    detail = json.loads(target.detail)
    word = None if target.word is None else Word(target.word).word
    return {
        "url": target.url,
        "source": target.source,
        "status": target.status.word,
        "rule": target.rule.word,
        "why": detail.get("why") or detail.get("target") or detail.get("canonical"),
        "orphanAge": age,
        "lastOutcome": word,
        "httpStatusCode": target.http_status,
        "reachedRun": target.reached_run,
        "lastChecked": iso_time(target.last_checked),
        "withheldRun": target.run,
        "removable": target.removable,
        "stays": target.why_not,
    }


def lost_page_report(target: Target) -> dict[str, Any]:
    """Return a lost page as ``smartcrawl deltamerge`` lists it."""
    return {
        "url": target.url,
        "source": target.source,
        "httpStatusCode": target.http_status,
        "lostCount": target.lost_count,
        "goneCount": target.gone_count,
        "lastChecked": iso_time(target.last_checked),
        "removable": target.removable,
        "stays": target.why_not,
    }
