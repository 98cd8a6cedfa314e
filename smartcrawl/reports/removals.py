"""Pages that may be removed, and the results of removals, as data.

``smartcrawl orphans``, ``deltamerge`` and ``undo`` print them, and the HTTP API answers with them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.removal.purge import (
    Removal,
    Target,
    emptied_page_rows,
    lost_page_rows,
    orphaned_page_rows,
    withheld_candidate_rows,
)
from smartcrawl.registry.removal.sweep import Undone
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import RemovalRule, Word
from smartcrawl.sources.kinds import KINDS

#: Addresses that the result of an order names.
NAMED: Final = 100
LOST_TEXT: Final = "it now returns an error; the last good copy is still searchable"
#: Rules of removal in words.
RULE_TEXTS: Final[Mapping[RemovalRule, str]] = {
    RemovalRule.GONE: "the server answers that the page is gone",
    RemovalRule.REDIRECT: "it redirects to a page that is indexed",
    RemovalRule.NOT_ACCEPTABLE: "the server forbids to index it, or its type is not read",
    RemovalRule.CANONICAL: "it names another page as canonical, which is indexed",
    RemovalRule.EXCLUDED: "robots.txt, the scope or a block of its host leaves it out",
    RemovalRule.ORPHAN: "no page links to it any more",
    RemovalRule.FORGOTTEN: "an operator ordered to forget it",
    RemovalRule.ABSENT: "the listing of its source lacks it",
    RemovalRule.MOVED: "a new file of its source has its bytes",
    RemovalRule.WALL: "it is a wall to which other new pages redirect",
}


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


class WaitingRemovals(NamedTuple):
    """The pages of one source that are removed, or may be; each list sorted by record."""

    source: str
    stored: int  #: stored pages of the source
    waiting: list[Target]  #: withheld, or of a place that the last run found empty
    lost: list[Target]  #: those that do not wait for approval
    orphans: list[Target]  #: likewise

    @property
    def run(self) -> int | None:
        """The latest run that proposed something that can be approved; None: nothing can."""
        return max((t.run or 0 for t in self.waiting if t.removable), default=None)


_STORED: Final = """
SELECT o.name, count(*) FROM record r JOIN source o ON o.no = r.source
 WHERE r.content IS NOT NULL AND o.name IN carray(:sources) GROUP BY o.name
"""
_LAST_RUNS: Final = """
SELECT o.name, max(r.no) FROM run r JOIN source o ON o.no = r.source
 WHERE r.finished_at IS NOT NULL AND o.kind IN carray(:kinds) GROUP BY o.name
"""
_LISTED: Final = tuple(kind.name for kind in KINDS.values() if kind.is_listed)


def reported_waiting_removals(
    connection: Connection, policy: Policy, sources: Sequence[str]
) -> list[WaitingRemovals]:
    """Return what waits, is lost or is orphaned, of each of these sources that has such pages."""
    if not sources:
        return []
    waiting = withheld_candidate_rows(connection, sources=sources)
    withheld = {target.no for target in waiting}
    rows: Any = connection.execute(_LAST_RUNS, {"kinds": Many(_LISTED)}).fetchall()
    for name, run in rows:
        if name in sources:
            emptied = emptied_page_rows(connection, run)
            waiting += [target for target in emptied if target.no not in withheld]
    withheld = {target.no for target in waiting}
    lost = lost_page_rows(connection, policy, sources=sources)
    orphans = orphaned_page_rows(connection, sources=sources)
    others = ([one for one in rows if one.no not in withheld] for rows in (lost, orphans))
    parts = (waiting, *others)
    counted: Any = connection.execute(_STORED, {"sources": Many(sources)}).fetchall()
    stored = {str(name): int(count) for name, count in counted}
    found = []
    for source in sorted({target.source for part in parts for target in part}):
        own = ([target for target in part if target.source == source] for part in parts)
        found.append(WaitingRemovals(source, stored.get(source, 0), *own))
    return found


def removal_target_report(target: Target, text: str = "") -> dict[str, Any]:
    """Return a page that may be removed, with its record and the rule in words.

    ``text``: the words, where they are not those of the rule.
    """
    record = {"no": target.no} | _orphan(target, target.age)
    return record | {"text": text or RULE_TEXTS[target.rule]}


def removal_rule_counts(targets: Iterable[Target]) -> list[dict[str, Any]]:
    """Return how many pages each rule removes, most first."""
    counts = Counter(target.rule for target in targets)
    return [
        {"rule": rule.word, "text": RULE_TEXTS[rule], "count": count}
        for rule, count in counts.most_common()
    ]


def withholding_text(max_ratio: float, min_count: int) -> str:
    """Return why removals are withheld, in words (SWEEP_MAX_RATIO, SWEEP_MIN_COUNT).

    >>> withholding_text(0.1, 10)
    "one run removes at most 10% of a source's pages and 10 of them, and never half or all of them"
    """
    return (
        f"one run removes at most {max_ratio:.0%} of a source's pages and {min_count} of them, and"
        " never half or all of them"
    )


def approval_result(
    done: Sequence[Removal], waiting: Iterable[Target], left: int
) -> dict[str, Any]:
    """Return the result of an approval; ``left``: pages beyond the number that was given."""
    urls = [url for removal in done for url in removal.urls]
    stays = [target for target in waiting if not target.removable]
    return {
        "removed": len(urls),
        "left": left,
        "stay": len(stays),
        "undoRun": done[0].run if done else None,
        "urls": [{"url": url, "what": "removed"} for url in urls[:NAMED]]
        + [{"url": one.url, "what": f"stays: {one.why_not}"} for one in stays[:NAMED]],
    }


def undo_result(undone: Undone) -> dict[str, Any]:
    """Return the result of an undo."""
    parts = (("restored", undone.restored), ("kept", undone.kept), ("expired", undone.expired))
    return {
        **{what: len(urls) for what, urls in parts},
        "newerRuns": sorted(set(undone.newer.values())),
        "urls": [
            {"url": url, "what": undo_text(undone, what, url)}
            for what, urls in parts
            for url in urls[:NAMED]
        ],
    }


def undo_text(undone: Undone, what: str, url: str) -> str:
    """Return what became of a page by an undo, in words; ``what``: restored, kept or expired."""
    if (run := undone.changed.get(url)) is not None:
        return f"{what}: run {run} stored newer content"
    if url in undone.older:
        return f"{what}: older content that an undo had restored stays"
    if (run := undone.newer.get(url)) is not None:
        return f"{what}: older content; run {run} removed newer one"
    return what
