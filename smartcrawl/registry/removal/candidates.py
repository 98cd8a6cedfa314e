"""Candidates for removal by a sweep, each with its evidence (ADR 131)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.items import stored_trimmed_items
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.rules.absence import (
    ANSWERING,
    PERMANENT,
    SPOKEN,
    UNSEEN,
    Counts,
    Look,
    Loss,
    Policy,
    absence_starts,
    absent_runs_before_removal,
    is_abandoned,
    is_absence_old,
    lets_page_go,
    needs_verification,
    rule_of_unseen,
    steady_time,
    withholds_sweep,
)
from smartcrawl.rules.http import RedirectLimit
from smartcrawl.rules.model import REMOVES_PINNED, RemovalRule

EVERY: Final = 1 << 62  #: higher than any record.no
#: Numbers ascend in the order in which the runs of a source found the addresses, so that the last
#: records are enough: the plus sign keeps SQLite from reading all of the source by an index.
_MET_SINCE = """
SELECT min(no) FROM record
 WHERE +source = :source
   AND no > coalesce((SELECT no FROM record WHERE +source = :source AND first_run < :since
                       ORDER BY no DESC LIMIT 1), 0)
"""


def lowest_stored_number_met(connection: Connection, source: int, run: int) -> int:
    """Return the lowest number that ``run`` or a later run found in a source, else ``EVERY``.

    ``source``: source.no.
    """
    first = connection.execute(_MET_SINCE, {"source": source, "since": run}).get
    return EVERY if first is None else int(first)


_LOOKS = f"""
SELECT c.no, r.host, c.probe, s.lost_count, s.gone_count, c.detail, s.http_status
  FROM candidate c JOIN state s USING (no) JOIN record r USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.ORPHAN)}
   AND c.probe IS NOT NULL
"""
#: Hosts that answered for a page, not a sitemap, in this run; soft 404s do not count.
_HOSTS = """
SELECT DISTINCT r.host FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.seen_run = :run AND s.http_status IN (200, 304)
   AND s.outcome NOT IN (7, 8) AND r.kind = 0
"""


def verified_orphan_rows(
    connection: Connection, run: int, source: int, policy: Policy
) -> frozenset[int]:
    """Return the orphans of a run whose verification allows removal (rules.absence.lets_page_go).

    ``source``: source.no. Unverified orphans stay.
    """
    names = {"run": run, "source": source}
    going, unsure = set(), []
    for no, host, answer, lost, gone, detail, before in _rows(connection, _LOOKS, names):
        look = Look(answer, lost, gone, json.loads(detail)["completeRuns"], before)
        if lets_page_go(look, policy):
            going.add(no)
        elif lets_page_go(look._replace(host_answered=True), policy):
            unsure.append((no, host))
    hosts = {host for (host,) in _rows(connection, _HOSTS, names)} if unsure else frozenset()
    return frozenset(going.union(no for no, host in unsure if host in hosts))


def _rows(connection: Connection, statement: str, names: Mapping[str, object]) -> list[Any]:
    rows: list[Any] = connection.execute(statement, names).fetchall()
    return rows


OUT_OF_SCOPE = "out of scope"
NOT_LISTED = "not in the listing"
NO_LINK = "no page links to it"


def _numbers(rules: Iterable[RemovalRule]) -> str:
    return ", ".join(str(int(rule)) for rule in sorted(rules))


#: A run of its source has reached every record, so reached_run identifies the source.
_OF_SOURCE = "reached_run IN (SELECT no FROM run WHERE source = :source)"
_COMPLETE = "SELECT no, finished_at FROM run WHERE source = ? AND complete AND no < ? ORDER BY no"
_ABSENT = f"""
SELECT s.no, s.seen_run, s.lost_count, s.gone_count, r.url, s.depth, s.visited_run = :run,
       r.error_message, r.kind, s.reached_run = :run
  FROM state s JOIN record r USING (no)
 WHERE s.standing > 0 AND s.seen_run < :run AND s.{_OF_SOURCE}
"""
#: A candidate that another rule proposed in this run stays. One of an earlier run is renewed, and
#: the guard decides again whether to withhold it.
_PROPOSE = f"""
INSERT INTO candidate (no, source, run, renewed, rule, detail)
SELECT :no, :source, :run, :run, :rule, :detail
 WHERE :rule IN ({_numbers(REMOVES_PINNED)})
    OR NOT EXISTS (SELECT 1 FROM pin WHERE no = :no)
ON CONFLICT (no) DO UPDATE
   SET renewed = excluded.renewed, rule = excluded.rule, detail = excluded.detail, probe = NULL,
       run = CASE WHEN candidate.rule = excluded.rule THEN candidate.run ELSE excluded.run END
 WHERE candidate.renewed < excluded.renewed
"""
#: A page that was not due gives no new evidence, except that a link leads to it.
_REFUTED = f"""
DELETE FROM candidate WHERE source = :source AND renewed < :run
   AND (:complete OR no IN (SELECT no FROM state WHERE reached_run = :run))
   AND NOT (rule NOT IN ({_numbers(UNSEEN)})
            AND (SELECT due FROM run WHERE no = :run)
            AND no IN (SELECT no FROM state WHERE reached_run = :run AND visited_run < :run))
"""
_GONE = """
SELECT s.no, s.http_status, s.gone_count, s.gone_since, r.error_message
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.standing > 0 AND s.gone_count >= :threshold
   AND s.outcome IN (7, 8)
"""
_NOT_ACCEPTABLE = """
SELECT s.no, s.http_status, r.error_message FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.seen_run = :run AND s.standing = 2 AND s.outcome = 10
"""
_EXCLUDED = f"""
SELECT s.no, r.error_message FROM state s JOIN record r USING (no)
 WHERE s.standing > 0 AND s.seen_run < :run AND s.outcome = 10 AND s.{_OF_SOURCE}
"""
#: An orphan is removed only if its verification allows that (``verified_orphan_rows``).
GOES = f"(rule <> {int(RemovalRule.ORPHAN)} OR no IN carray(:looked_away))"
#: A renamed file is no loss: its content stays.
_IS_LOSS = f"rule <> {int(RemovalRule.MOVED)}"
#: Verification got an answer from a formerly lost page: there is no evidence against it yet.
_IS_THERE = f"""
DELETE FROM candidate
 WHERE source = :source AND renewed = :run AND probe IN carray(:spoken) AND NOT {GOES}
"""
#: Excluded candidates, some only by verification (batch._PROBED): these need is_abandoned's age.
_EXCLUDED_NOW = f"""
SELECT c.no, s.gone_count, c.detail FROM candidate c JOIN state s USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.EXCLUDED)}
"""
_DROP = "DELETE FROM candidate WHERE no IN carray(?)"
_PROPOSED = f"""
SELECT s.outcome = 1 AND s.visited_run = :run, s.standing = 2, count(*),
       count(*) FILTER (WHERE rule = {int(RemovalRule.ORPHAN)} AND probe IN carray(:answering))
  FROM candidate c JOIN state s USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.no < :end AND {GOES} AND {_IS_LOSS}
 GROUP BY 1, 2
"""
_PAGES = f"""
SELECT count(*) FILTER (WHERE standing = 2), count(*) FROM state
 WHERE standing > 0 AND no < :end AND NOT (outcome = 1 AND visited_run = :run) AND {_OF_SOURCE}
"""
#: The run that first proposed one of these candidates that the guard withheld before.
_WITHHELD_SINCE = f"""
SELECT min(run) FROM candidate
 WHERE source = :source AND renewed = :run AND withheld AND {GOES}
"""
#: The last runs that reached the orphans of this run.
_LAST_REACHED = f"""
SELECT DISTINCT s.seen_run FROM candidate c JOIN state s USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.ORPHAN)} AND {GOES}
"""
_WITHHOLD = f"""
UPDATE candidate SET withheld = :withheld AND {GOES} AND {_IS_LOSS}
 WHERE source = :source AND renewed = :run
"""
#: Candidates for absence from a run that turned out to be incomplete.
_NOT_ABSENT = f"""
DELETE FROM candidate WHERE source = :source AND renewed = :run
   AND rule IN ({_numbers(UNSEEN)})
"""
#: Due crawls see a source in slices, so removals since the last complete run count, too. Evidence
#: without undo data counts as content.
_REMOVED_BEFORE = f"""
SELECT count(*) FILTER (WHERE e.content IS NOT NULL OR e.restore IS NULL), count(*) FROM evidence e
 WHERE (SELECT due FROM run WHERE no = :run) AND e.source = :source AND e.undone IS NULL
   AND e.run < :run AND {_IS_LOSS}
   AND e.run > (SELECT coalesce(max(no), 0) FROM run
                 WHERE source = :source AND complete AND no < :run)
"""
_WITHHELD = "SELECT count(*) FROM candidate WHERE source = :source AND withheld"


Proposal = tuple[int, RemovalRule, dict[str, object]]  #: record.no, rule, evidence


@dataclass(frozen=True, slots=True)
class RemovalChoices:
    """Scope of the source and choices of the operator, for the end of a run."""

    policy: Policy
    max_ratio: float
    min_count: int
    remove_excluded: bool  #: OUT_OF_SCOPE_POLICY=remove
    undo_ttl: int  #: seconds
    in_scope: Callable[[str, int], bool]  #: URL and depth
    snapshot_retention: int  #: seconds that released bodies are kept
    gone_ttl: int  #: seconds that tombstones are kept; 0: without limit
    pace: int  #: least seconds between increments in due crawls; 0: once a run
    redirects: RedirectLimit  #: redirects in a row that the run followed
    is_listed: bool = False  #: a complete listing says which pages exist
    #: URL: whether links lead to the page in spite of a listing, as in a wiki; None: to no page.
    is_linked: Callable[[str], bool] | None = None
    #: Digest of the configuration (run.configuration); None: it is not noted on its source.
    configuration: bytes | None = None

    def lists(self, url: str) -> bool:
        """Whether a complete listing says if the page at ``url`` exists."""
        return self.is_listed and (self.is_linked is None or not self.is_linked(url))

    def withholds(self, content: Loss, records: Loss, answering: int) -> bool:
        """Whether the guard withholds a sweep (rules.absence.withholds_sweep)."""
        return withholds_sweep(
            content,
            records,
            max_ratio=self.max_ratio,
            min_count=self.min_count,
            answering=answering,
        )


_PREVIOUS = """
SELECT finished_at FROM run
 WHERE source = :source AND no < :run AND finished_at IS NOT NULL ORDER BY no DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class EndingRunRow:
    """A run that is being ended."""

    run: int
    source: int  #: source.no
    now: int  #: Unix seconds
    closing: RemovalChoices
    notes: tuple[str, ...] = ()  #: what the run itself left out

    @property
    def names(self) -> dict[str, int]:
        """The run and the source as values of statements."""
        return {"run": self.run, "source": self.source}


@dataclass(frozen=True, slots=True)
class Absence:
    """A stored page that a run did not reach or did not request."""

    no: int
    age: int  #: complete runs since it was reached and allowed, including this one
    since: int  #: Unix seconds at which the first of these runs was sealed
    counts: Counts
    last_run: int  #: run.no of the last run that reached it
    excluded: str | None  #: why it was not requested; None: no link leads to it
    is_reached: bool  #: this run reached it
    is_listed: bool  #: a listing says whether it exists


def steady_run_time(connection: Connection, ending: EndingRunRow) -> int:
    """Return the time of a run's end, or that of the run before it, where the clock leapt."""
    previous: int | None = connection.execute(_PREVIOUS, ending.names).get
    return steady_time(ending.now, previous)


def absent_page_rows(connection: Connection, ending: EndingRunRow) -> Iterator[Absence]:
    """Yield the stored pages that a run did not reach, or reached and did not request."""
    complete: list[Any] = connection.execute(_COMPLETE, (ending.source, ending.run)).fetchall()
    runs = [no for no, _ in complete]
    starts = absence_starts([end for _, end in complete], steady_run_time(connection, ending))
    row: Any
    for row in connection.execute(_ABSENT, ending.names):
        no, seen, lost_count, gone_count, url, depth, asked, message, kind, reached = row
        first = bisect_right(runs, seen)
        excluded = (message or "excluded") if asked else None
        if not asked and not kind and not ending.closing.in_scope(url, depth):
            excluded = OUT_OF_SCOPE
        counts = Counts(lost_count, gone_count)
        age = len(runs) - first + 1
        is_listed = ending.closing.lists(url)
        yield Absence(no, age, starts[first], counts, seen, excluded, bool(reached), is_listed)


def propose_absent_rows(connection: Connection, ending: EndingRunRow) -> None:
    """Propose pages that were absent for long enough, if the run turns out to be complete.

    A page that a listing lacks is proposed at once: its absence is direct evidence.
    """
    now = steady_run_time(connection, ending)
    absent = absent_page_rows(connection, ending)
    found = (_absence_proposal(absence, ending.closing.policy, now) for absence in absent)
    propose_candidate_rows(connection, ending, filter(None, found))


def _absence_proposal(absence: Absence, policy: Policy, now: int) -> Proposal | None:
    rule = rule_of_unseen(
        is_listed=absence.is_listed,
        is_excluded=absence.excluded is not None,
        is_reached=absence.is_reached,
    )
    seen = {"since": absence.since, "lastReachedRun": absence.last_run}
    if rule is RemovalRule.ABSENT:
        return absence.no, rule, {"why": NOT_LISTED, **seen}
    if rule is None or not _may_go(absence, policy, now):
        return None
    detail: dict[str, object] = {
        "why": absence.excluded or NO_LINK,
        "completeRuns": absence.age,
        "lostCount": absence.counts.lost,
        "goneCount": absence.counts.gone,
    }
    return absence.no, rule, detail | seen


def _may_go(absence: Absence, policy: Policy, now: int) -> bool:
    """Whether a page was absent for long enough; an orphan is verified before its removal."""
    counts, age, since = absence.counts, absence.age, absence.since
    if absence.excluded is not None:
        return is_abandoned(counts.gone, age, since, policy, now)
    return needs_verification(counts, age, since, policy, now)


def propose_answered_rows(connection: Connection, ending: EndingRunRow) -> None:
    """Propose pages by the answers of this run: gone, not acceptable, excluded."""
    policy = ending.closing.policy
    names = ending.names | {"threshold": policy.lost_threshold}
    now = steady_run_time(connection, ending)
    gone: list[Proposal] = [
        (row[0], RemovalRule.GONE, _gone_detail(*row[1:]))
        for row in _rows(connection, _GONE, names)
        if (row[1] == 200 or policy.purges(row[1]))
        and is_absence_old(row[3], now, policy.lost_min_age)
    ]
    propose_candidate_rows(connection, ending, gone)
    listed: list[Proposal] = [
        (row[0], RemovalRule.NOT_ACCEPTABLE, {"status": row[1], "why": row[2]})
        for row in _rows(connection, _NOT_ACCEPTABLE, names)
    ]
    propose_candidate_rows(connection, ending, listed)
    if ending.closing.remove_excluded:
        excluded: list[Proposal] = [
            (row[0], RemovalRule.EXCLUDED, {"why": row[1] or OUT_OF_SCOPE})
            for row in _rows(connection, _EXCLUDED, names)
        ]
        propose_candidate_rows(connection, ending, excluded)


def _gone_detail(
    status: int, gone_count: int, since: int, message: str | None
) -> dict[str, object]:
    """Return the evidence of a gone page; for a permanent redirect also its target."""
    found: dict[str, object] = {"status": status, "goneCount": gone_count, "since": since}
    return found | ({"why": message} if status in PERMANENT else {})


def propose_candidate_rows(
    connection: Connection, ending: EndingRunRow, rows: Iterable[Proposal]
) -> None:
    """Propose pages, each with its rule and evidence; most rules spare pinned pages."""
    connection.executemany(
        _PROPOSE,
        (
            ending.names | {"no": no, "rule": rule, "detail": json.dumps(detail)}
            for no, rule, detail in rows
        ),
    )


def candidate_row_evidence(detail: str, probe: int | None) -> str:
    """Return the evidence of a candidate (JSON), with the status of its verification."""
    return json.dumps(json.loads(detail) | ({} if probe is None else {"probe": probe}))


def delete_absent_candidate_rows(connection: Connection, ending: EndingRunRow) -> None:
    """Delete the candidates for absence of an incomplete run."""
    connection.execute(_NOT_ABSENT, ending.names)


def delete_refuted_candidate_rows(
    connection: Connection, ending: EndingRunRow, *, complete: bool
) -> None:
    """Delete candidates of earlier runs that this run did not renew.

    If it is not ``complete``, only those that it reached.
    """
    connection.execute(_REFUTED, ending.names | {"complete": complete})


def withhold_candidate_rows(connection: Connection, ending: EndingRunRow) -> int:
    """Withhold the removals of a run if there are too many; return the number withheld.

    All removals of a run are withheld whose library counts items that its listing lacks.

    Pages that this run found first, such as one whose canonical page was found later, are no loss
    and do not count. Earlier withheld candidates are also judged without pages found since: the
    new pages of a login wall, or of a moved site, do not release them. So are orphans without
    pages found since a run last reached them: those of a new home page do not hide them.
    """
    names, policy = ending.names, ending.closing.policy
    away = verified_orphan_rows(connection, ending.run, ending.source, policy)
    values: dict[str, object] = {**names, "looked_away": numbers_for_sql(away)}
    early = [
        no
        for no, gone_count, detail in _rows(connection, _EXCLUDED_NOW, names)
        if 0
        < json.loads(detail).get("completeRuns", 0)
        < absent_runs_before_removal(gone_count, policy)
    ]
    connection.execute(_DROP, (numbers_for_sql(early),))
    connection.execute(_IS_THERE, values | {"spoken": numbers_for_sql(SPOKEN)})
    since = sorted(int(reached) + 1 for (reached,) in _rows(connection, _LAST_REACHED, values))
    if (withheld := connection.execute(_WITHHELD_SINCE, values).get) is not None:
        since.insert(0, int(withheld))
    # Each end reads the source: while removals stay withheld, one of the first is too much.
    ends = (lowest_stored_number_met(connection, ending.source, run) for run in since)
    too_many = stored_trimmed_items(connection, ending.source, ending.run) > 0 or any(
        _is_too_much(connection, ending, values | {"end": end})
        for end, _ in groupby(chain((EVERY,), ends))
    )
    connection.execute(_WITHHOLD, values | {"withheld": too_many})
    return int(connection.execute(_WITHHELD, names).get)


def _is_too_much(
    connection: Connection, ending: EndingRunRow, values: Mapping[str, object]
) -> bool:
    """Whether a sweep removes too many of the addresses with numbers below ``end``."""
    removals: Counter[bool] = Counter()  # key: content is removed, too
    answering = 0
    proposed = {**values, "answering": numbers_for_sql(ANSWERING)}
    for is_new, has_content, count, there in _rows(connection, _PROPOSED, proposed):
        if not is_new:
            removals[bool(has_content)] += count
            answering += there if has_content else 0
    if not removals:
        return False
    [before] = _rows(connection, _REMOVED_BEFORE, ending.names)
    [pages] = _rows(connection, _PAGES, ending.names | {"end": values["end"]})
    leaving = (removals[True], removals.total())
    content, records = (
        Loss(now + earlier, left + earlier)
        for now, left, earlier in zip(leaving, pages, before, strict=True)
    )
    return ending.closing.withholds(content, records, answering)
