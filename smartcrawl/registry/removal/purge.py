"""Removals between runs: lost, orphaned and withheld pages, and undo (ADR 131).

The caller holds the lease of every source that it changes.

Folders, buckets and libraries that a run found empty, though documents of them are stored.

An unmounted drive looks like that, and a library whose app lost its rights. A drive within a folder
shows by its device. So the run removes nothing; an operator may approve it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.documents import Chunk
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import Trackers, normalize_url, request_url, url_digest
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.index_protocols import Indexing, Sink
from smartcrawl.registry.library.items import library_records_at
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.removal.candidates import NO_LINK, NOT_LISTED, candidate_row_evidence
from smartcrawl.registry.removal.sweep import (
    BATCH,
    Candidate,
    RecordRemover,
    RemovedRecordRow,
    Restorer,
    Undone,
)
from smartcrawl.rules.absence import Loss, Policy
from smartcrawl.rules.http import MOST_REDIRECTS
from smartcrawl.rules.model import REMOVES_PINNED, RemovalRule, Status
from smartcrawl.sources.kinds import FILES, SHAREPOINT

_WANTED = "(:every OR o.name IN carray(:sources))"
#: Columns of ``removal_target``.
PAGE_COLUMNS: Final = """
SELECT r.no, o.no, o.name, r.url, s.status, s.http_status, s.outcome, s.lost_count, s.gone_count,
       s.seen_run, s.reached_run, s.last_checked, r.error_message, s.standing = 2
"""
_LOST = f"""{PAGE_COLUMNS}
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE s.standing = 2 AND s.lost_count > 0 AND {_WANTED} ORDER BY o.name, r.no
"""
_COMPLETE = "SELECT source, no, finished_at FROM run WHERE complete ORDER BY source, no"
#: A page that a later run reached, complete or not, is no orphan; unrequestable, it is excluded.
#: A page that its listing lacks is still stored only if its removal was withheld.
_ABSENT = f"""
WITH last AS (SELECT source, max(no) AS run FROM run WHERE complete GROUP BY source)
{PAGE_COLUMNS}, c.detail
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
  JOIN last ON last.source = o.no
  LEFT JOIN candidate c ON c.no = r.no AND c.rule = {int(RemovalRule.ABSENT)}
 WHERE s.standing > 0 AND {_WANTED} AND s.seen_run < last.run
   AND (s.reached_run < last.run OR (s.status = 4 AND s.visited_run >= s.reached_run))
   AND (c.no IS NOT NULL OR NOT EXISTS (SELECT 1 FROM pin WHERE no = r.no))
 ORDER BY o.name, r.no
"""
_WITHHELD = f"""{PAGE_COLUMNS}, c.rule, c.detail, c.probe, c.run,
       s.standing > 0 AND s.visited_run <= c.renewed AND s.reached_run <= c.renewed,
       EXISTS (SELECT 1 FROM pin WHERE no = r.no)
  FROM candidate c JOIN state s USING (no) JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE c.withheld AND {_WANTED} ORDER BY o.name, r.no
"""
_HOP = "SELECT r.redirect_no, s.standing = 2 FROM record r JOIN state s USING (no) WHERE r.no = ?"
_HELD = f"""{PAGE_COLUMNS}
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE s.standing > 0 AND {_WANTED} ORDER BY o.name, r.no
"""
_PAGES = """
SELECT count(*) FILTER (WHERE s.standing = 2), count(*)
  FROM record r JOIN state s USING (no)
 WHERE r.source = ? AND s.standing > 0
"""
_LATEST = "SELECT max(no) FROM run WHERE source = ?"
_RUN = "SELECT o.no, o.name FROM run r JOIN source o ON o.no = r.source WHERE r.no = ?"
_KNOWN = """
SELECT r.no, o.no, o.name, r.url, s.standing > 0, EXISTS (SELECT 1 FROM pin WHERE no = r.no)
  FROM record r JOIN source o ON o.no = r.source JOIN state s ON s.no = r.no
 WHERE {known} ORDER BY o.name
"""
_OF_ID = _KNOWN.format(known="r.id = ?")
_OF_NUMBERS = _KNOWN.format(known="r.no IN carray(?)")
_REMOVED_BY = f"""
SELECT e.run, o.name, count(*), count(*) FILTER (WHERE e.undone IS NOT NULL),
       count(*) FILTER (WHERE e.undone IS NULL AND e.restore IS NOT NULL), max(e.at)
  FROM evidence e JOIN source o ON o.no = e.source WHERE {_WANTED}
 GROUP BY e.run, o.name ORDER BY e.run DESC
"""
#: Runs that removed pages of which no record is left.
_FORGOTTEN = f"""
SELECT e.no, e.removed FROM run e JOIN source o ON o.no = e.source
 WHERE e.removed > 0 AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.run = e.no) AND {_WANTED}
"""
_KEY_OF = "SELECT id FROM record WHERE no = ?"
_UNPIN = "DELETE FROM pin WHERE no IN carray(?)"
_UNPIN_ALL = "DELETE FROM pin WHERE source = (SELECT no FROM source WHERE name = ?)"
_UNPIN_PENDING = "DELETE FROM pending_pin WHERE source = ?"
_UNDECLARE = "UPDATE source SET declared = FALSE WHERE name = ?"


@dataclass(frozen=True, slots=True)
class Target:
    """A page that a command may remove, with the reason."""

    no: int
    source_no: int
    source: str
    url: str
    status: Status
    http_status: int | None
    word: int | None  #: rules.model.Word
    lost_count: int
    gone_count: int
    seen_run: int
    reached_run: int
    last_checked: int | None
    message: str | None
    rule: RemovalRule
    detail: str  #: JSON: the evidence
    age: int = 0  #: complete runs since it was reached and allowed
    removable: bool = True  #: whether the command removes it
    run: int | None = None  #: run.no that proposed it first, if it is withheld
    why_not: str | None = None  #: why it is not removable
    content: bool = True  #: whether its content is removed, too


def lost_page_rows(
    connection: Connection, policy: Policy, *, sources: Sequence[str] = ()
) -> list[Target]:
    """Return the stored pages whose last visit found them lost.

    A page is removable if its status is in LOST_PURGE_STATUSES, after any number of such answers
    (ADR 135).
    """
    found = []
    for row in _rows(connection, _LOST, sources):
        removable = policy.purges(row[5])
        detail = {"status": row[5], "lostCount": row[7], "goneCount": row[8]}
        why_not = None if removable else f"{row[5]} is not in LOST_PURGE_STATUSES"
        judged = {"removable": removable, "why_not": why_not}
        found.append(removal_target(row, RemovalRule.GONE, json.dumps(detail), **judged))
    return found


def orphaned_page_rows(connection: Connection, *, sources: Sequence[str] = ()) -> list[Target]:
    """Return the stored pages that the latest complete run did not reach or could not request."""
    complete: dict[int, list[tuple[int, int]]] = {}
    row: Any
    for row in connection.execute(_COMPLETE):
        complete.setdefault(row[0], []).append((row[1], row[2]))
    found = []
    for row in _rows(connection, _ABSENT, sources):
        runs = complete[row[1]]
        first = bisect_right(runs, row[9], key=lambda run: run[0])
        excluded = Status(row[4]) is Status.OUT_OF_SCOPE
        age = len(runs) - first
        if row[14] is not None and not excluded:
            found.append(removal_target(row, RemovalRule.ABSENT, row[14], age=age))
            continue
        detail = {
            "why": (row[12] or "excluded") if excluded else NO_LINK,
            "completeRuns": age,
            "goneCount": row[8],
            "since": runs[first][1],
            "lastReachedRun": row[9],
        }
        rule = RemovalRule.EXCLUDED if excluded else RemovalRule.ORPHAN
        found.append(removal_target(row, rule, json.dumps(detail), age=age))
    return found


def withheld_candidate_rows(
    connection: Connection, *, sources: Sequence[str] = (), run: int | None = None
) -> list[Target]:
    """Return the withheld candidates that ``run`` or an earlier run proposed (None: any run).

    A candidate is removable if its page was neither reached nor answered since its last proposal.
    """
    found = []
    for row in _rows(connection, _WITHHELD, sources):
        *page, rule, detail, probe, proposed, valid, pinned = row
        detail = candidate_row_evidence(detail, probe)
        if run is not None and proposed > run:
            continue
        why_not = None
        if not valid:
            why_not = "it was reached or answered since"
        elif pinned and rule not in REMOVES_PINNED:
            why_not = "it is pinned"
        elif not _is_replaced(connection, row[0], RemovalRule(rule), json.loads(detail)):
            why_not = "the page in its place is not indexed any more"
        judged = {"run": proposed, "removable": why_not is None, "why_not": why_not}
        found.append(removal_target(page, RemovalRule(rule), detail, **judged))
    return found


def _is_replaced(
    connection: Connection, number: int, rule: RemovalRule, detail: dict[str, Any]
) -> bool:
    """Whether the target of a redirect or the canonical page of an alias is still stored."""
    row: Any
    if rule is RemovalRule.CANONICAL:
        row = connection.execute(_HOP, (detail["canonicalNo"],)).fetchone()
        return row is not None and bool(row[1])
    if rule is not RemovalRule.REDIRECT:
        return True
    for _ in range(MOST_REDIRECTS + 1):
        row = connection.execute(_HOP, (number,)).fetchone()
        if row[0] is None:
            return bool(row[1])
        number = row[0]
    return False


def forgettable_page_rows(connection: Connection, source: str) -> list[Target]:
    """Return all stored pages of a source, to be forgotten."""
    detail = json.dumps({"why": "the source was forgotten"})
    rows = _rows(connection, _HELD, [source])
    return [removal_target(row, RemovalRule.FORGOTTEN, detail) for row in rows]


def _rows(connection: Connection, statement: str, sources: Sequence[str]) -> list[Any]:
    names = {"sources": Many(sources), "every": not sources}
    return connection.execute(statement, names).fetchall()


def removal_target(row: Sequence[Any], rule: RemovalRule, detail: str, **judged: Any) -> Target:
    """Return a page of PAGE_COLUMNS as a target; ``judged``: further fields of it."""
    values: list[Any] = [*row[:4], Status(row[4]), *row[5:13], rule, detail]
    return Target(*values, **(judged | {"content": bool(row[13])}))


def stored_removal_losses(
    connection: Connection, source_no: int, targets: Iterable[Target]
) -> tuple[Loss, Loss]:
    """Return the losses of a source by removing ``targets``: of pages with content, of records.

    ``source_no``: source.no of all of them.
    """
    goes = Counter(target.content for target in targets)
    row: Any = connection.execute(_PAGES, (source_no,)).fetchone()
    return Loss(goes[True], row[0]), Loss(goes.total(), row[1])


@dataclass(frozen=True, slots=True)
class Removal:
    """The pages of one source that a command removed."""

    source: str
    run: int  #: run.no under which it can be undone
    urls: tuple[str, ...]


def remove_stored_pages(
    connection: Connection,
    indexing: Indexing,
    targets: Iterable[Target],
    now: int,
    *,
    report: Callable[[int], None] = lambda _: None,
) -> list[Removal]:
    """Remove pages between runs, in batches, under the number of their source's latest run.

    ``report`` is called after each batch with the number of pages that were removed.

    Every batch draws a new claim number, so that a process taken for dead cannot overwrite it
    (ADR 130).
    """
    by_source: dict[tuple[int, str], list[Target]] = {}
    for target in targets:
        by_source.setdefault((target.source_no, target.source), []).append(target)
    done: list[Removal] = []
    for (source_no, source), listed in by_source.items():
        run = int(connection.execute(_LATEST, (source_no,)).get)
        urls: list[str] = []
        for start in range(0, len(listed), BATCH):
            batch = [Candidate(t.no, t.rule, t.detail) for t in listed[start : start + BATCH]]

            def work(
                sink: Sink,
                number: int,
                batch: Sequence[Candidate] = batch,
                source_no: int = source_no,
                run: int = run,
            ) -> list[RemovedRecordRow]:
                remover = RecordRemover(connection, sink, source=source_no, run=run, number=number)
                return remover.remove(batch, now)

            urls += [page.url for page in indexing.perform(connection, work, now=now)]
            report(sum(len(one.urls) for one in done) + len(urls))
        done.append(Removal(source, run, tuple(urls)))
    return done


@dataclass(frozen=True, slots=True)
class Removals:
    """The removals under the number of one run."""

    run: int
    source: str
    count: int
    undone: int
    restorable: int
    at: int  #: Unix seconds of the last


def removal_rows(connection: Connection, *, sources: Sequence[str] = ()) -> list[Removals]:
    """Return the removals by run, newest first."""
    return [Removals(*row) for row in _rows(connection, _REMOVED_BY, sources)]


def forgotten_removal_counts(
    connection: Connection, *, sources: Sequence[str] = ()
) -> dict[int, int]:
    """Return the numbers of pages that runs removed and of which nothing is left, by run."""
    return {int(row[0]): int(row[1]) for row in _rows(connection, _FORGOTTEN, sources)}


def source_row_of_run(connection: Connection, run: int) -> tuple[int, str] | None:
    """Return (source.no, name) of the source of a run, or None if there is no such run."""
    row: Any = connection.execute(_RUN, (run,)).fetchone()
    return None if row is None else (row[0], row[1])


def undo_stored_removals(
    connection: Connection,
    indexing: Indexing,
    run: int,
    now: int,
    *,
    pin: bool,
    chunked: Callable[[bytes, str], list[Chunk]],
) -> Undone:
    """Restore the pages removed under the number of a run (sweep.Restorer)."""
    found = source_row_of_run(connection, run)
    assert found is not None, "the caller knows the run"
    latest = int(connection.execute(_LATEST, (found[0],)).get)

    def work(sink: Sink, number: int) -> Undone:
        restorer = Restorer(connection, sink, number=number, seen_run=latest, chunked=chunked)
        return restorer.undo(run, now, pin=pin)

    return indexing.perform(connection, work, now=now)


@dataclass(frozen=True, slots=True)
class KnownRecord:
    """The record of an address in one source."""

    no: int
    source_no: int
    source: str
    url: str
    held: bool
    pinned: bool

    def forgotten(self) -> Target:
        """Return the page as a target to be forgotten."""
        detail = json.dumps({"why": "the operator forgot it"})
        rest = (Status.PENDING, None, None, 0, 0, 0, 0, None, None)
        return Target(
            self.no, self.source_no, self.source, self.url, *rest, RemovalRule.FORGOTTEN, detail
        )


def known_record_rows(
    connection: Connection, key: bytes, address: str | None = None
) -> list[KnownRecord]:
    """Return the records of an id (32 bytes), one for each source that has one.

    Without any, those of the library items that have, or had, an ``address``, which may also be
    their unique id.
    """
    rows: list[Any] = connection.execute(_OF_ID, (key,)).fetchall()
    if not rows and address is not None:
        found = numbers_for_sql(library_records_at(connection, address))
        rows = connection.execute(_OF_NUMBERS, (found,)).fetchall()
    return [
        KnownRecord(no, source_no, source, url, bool(held), bool(pinned))
        for no, source_no, source, url, held, pinned in rows
    ]


def known_record_row(connection: Connection, number: int) -> tuple[KnownRecord, bytes] | None:
    """Return the record of a number, with the id of its address (32 bytes); None: there is none."""
    row: Any = connection.execute(_OF_NUMBERS, (numbers_for_sql([number]),)).fetchone()
    if row is None:
        return None
    no, source_no, source, url, held, pinned = row
    key: Any = connection.execute(_KEY_OF, (number,)).get
    return KnownRecord(no, source_no, source, url, bool(held), bool(pinned)), bytes(key)


def known_request_url(connection: Connection, word: str, trackers: Trackers) -> str | None:
    """Return the request URL of an address that a person named; None: it is none of the web.

    It keeps its hash route where a page is known by it. Elsewhere a fragment is a place in a page.
    """
    routed = request_url(word, routes=True)
    if routed is not None and "#" in routed:
        key = url_digest(normalize_url(routed, trackers))
        if connection.execute(_OF_ID, (key,)).fetchall():
            return routed
    return request_url(word)


def unpin_rows(connection: Connection, pages: Iterable[int]) -> None:
    """Unpin pages, which are no seeds any more."""
    with transaction(connection):
        connection.execute(_UNPIN, (numbers_for_sql(pages),))


def undeclare_source_row(connection: Connection, source: str) -> None:
    """Unpin all pages of a source, and clear its mark as declared in sources.toml."""
    with transaction(connection):
        connection.execute(_UNPIN_ALL, (source,))
        connection.execute(_UNPIN_PENDING, (source,))
        connection.execute(_UNDECLARE, (source,))


_REASON: Final = re.compile(
    r"listing: (?P<root>.+) \(it has no file, and [\d,]+ files? (?:is|are) stored\)"
)
_LIBRARY_REASON: Final = re.compile(
    r"listing: .+ \(it lists no item, no count confirms that, and [\d,]+ documents? (?:is|are)"
    r" stored\)"
)
_NO_DEVICE: Final = "the device that was mounted there is not any more"
_OTHER_DEVICE: Final = "another device is mounted there than before"
_MOUNT_REASON: Final = re.compile(
    rf"listing: .+ \((?:{_NO_DEVICE}|{_OTHER_DEVICE}), and [\d,]+ files? (?:is|are) missing\)"
)
_REASONS: Final = "SELECT reasons FROM run WHERE no = ?"
#: Stored documents that neither this run nor a later one has seen. What is out of scope is no part
#: of the listing.
_UNSEEN: Final = f"""{PAGE_COLUMNS}, EXISTS (SELECT 1 FROM pin WHERE no = r.no)
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE o.no = (SELECT source FROM run WHERE no = :run) AND o.kind IN (:files, :library)
   AND s.standing > 0 AND s.seen_run < :run AND s.reached_run < :run
   AND s.visited_run < :run AND s.status <> {int(Status.OUT_OF_SCOPE)}
 ORDER BY r.no
"""


def emptied_root_problem(root: str, stored: int) -> str:
    """Return the problem of a listing that has no file; ``stored``: how many files are stored.

    >>> emptied_root_problem("/docs", 1)
    '/docs (it has no file, and 1 file is stored)'
    """
    files = "1 file is" if stored == 1 else f"{stored:,} files are"
    return f"{root} (it has no file, and {files} stored)"


def mount_problem(place: str, missing: int, *, is_mount: bool) -> str:
    """Return the problem of a folder that had a device of its own in the last run.

    ``missing``: stored files below it that are not there. ``is_mount``: whether another device is
    mounted there now.

    >>> mount_problem("/docs/share", 1, is_mount=False)
    '/docs/share (the device that was mounted there is not any more, and 1 file is missing)'
    >>> mount_problem("/docs/share", 2, is_mount=True)
    '/docs/share (another device is mounted there than before, and 2 files are missing)'
    """
    files = "1 file is" if missing == 1 else f"{missing:,} files are"
    what = _OTHER_DEVICE if is_mount else _NO_DEVICE
    return f"{place} ({what}, and {files} missing)"


def is_mount_reason(reason: str) -> bool:
    """Whether a run is incomplete because a device is not mounted in a folder any more.

    >>> is_mount_reason("listing: " + mount_problem("/docs", 1_000, is_mount=False))
    True
    """
    return _MOUNT_REASON.fullmatch(reason) is not None


def emptied_library_problem(root: str, stored: int) -> str:
    """Return the problem of a library that lists no item; ``stored``: number of its documents.

    It is one where no count of the library confirms that (ADR 84).

    >>> emptied_library_problem("https://a.example/Docs", 1)
    'https://a.example/Docs (it lists no item, no count confirms that, and 1 document is stored)'
    """
    documents = "1 document is" if stored == 1 else f"{stored:,} documents are"
    return f"{root} (it lists no item, no count confirms that, and {documents} stored)"


def is_emptied_library_reason(reason: str) -> bool:
    """Whether a run is incomplete because a library lists no item.

    >>> is_emptied_library_reason("listing: " + emptied_library_problem("https://a.example", 9))
    True
    """
    return _LIBRARY_REASON.fullmatch(reason) is not None


def is_emptied_root_reason(reason: str) -> bool:
    """Whether a run is incomplete because a folder or bucket has no file.

    >>> is_emptied_root_reason("listing: " + emptied_root_problem("/docs", 1_000))
    True
    >>> is_emptied_root_reason("listing: " + emptied_root_problem("https://github.com/a/b", 1))
    False
    """
    found = _REASON.fullmatch(reason)
    return found is not None and (
        not found["root"].startswith(("http://", "https://"))
        or url_item_kind(found["root"]) == "file"
    )


def emptied_page_rows(connection: Connection, run: int) -> list[Target]:
    """Return the stored documents that a run did not see because their place was empty.

    They are removable unless they are pinned. [] if the folder, bucket or library was not empty
    and no device is missing in it.
    """
    reasons = connection.execute(_REASONS, (run,)).get
    if reasons is None or not _may_be_approved(json.loads(str(reasons))):
        return []
    found: list[Target] = []
    names = {"run": run, "files": FILES.name, "library": SHAREPOINT.name}
    rows: Any = connection.execute(_UNSEEN, names).fetchall()
    for *page, pinned in rows:
        detail = json.dumps({"why": NOT_LISTED, "lastReachedRun": page[9]})
        why_not = "it is pinned" if pinned else None
        judged = {"run": run, "removable": not pinned, "why_not": why_not}
        found.append(removal_target(page, RemovalRule.ABSENT, detail, **judged))
    return found


def _may_be_approved(reasons: list[str]) -> bool:
    """Whether a listing was whole but for places that an operator knows to be empty."""
    if any(map(_is_emptied, reasons)):
        return True
    listed = [reason for reason in reasons if reason.startswith("listing: ")]
    return bool(listed) and all(map(is_mount_reason, listed))


def _is_emptied(reason: str) -> bool:
    return is_emptied_root_reason(reason) or is_emptied_library_reason(reason)
