"""What the runs changed in the registry, page by page, as data: no text and no snapshot is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from smartcrawl.model.times import iso_time
from smartcrawl.registry.commit.changes import CHANGE_COLUMNS, StoredChange, unpack_stored_change
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.reports.removals import LOST_TEXT, RULE_TEXTS
from smartcrawl.rules.changes import own_text_change
from smartcrawl.rules.model import RemovalRule, Standing, Word


class ChangeKind(StrEnum):
    """What happened to a page, or to many at once."""

    SHARED = "shared"  #: lines that changed on many pages of a run
    NEW = "new"
    MODIFIED = "modified"
    MOVED = "moved"
    LOST = "lost"
    REMOVED = "removed"
    BACK = "came back"


class SinceRun(NamedTuple):
    """The runs after one."""

    run: int


class SinceTime(NamedTuple):
    """What happened at a time or later, in Unix seconds."""

    at: int


#: None: the last run of each source that has ended.
Since = SinceRun | SinceTime | None


class ChangePlace(NamedTuple):
    """A place in a list of changes: a run, its part, and the number of a row in it."""

    run: int
    part: int
    row: int


class ReportedRun(NamedTuple):
    """A run whose changes are reported."""

    no: int
    source: str
    since: int = 0  #: Unix seconds; what happened before is left out
    is_over: bool = False  #: it ended before ``since``; commands may have removed pages after it


_BEGINNING: Final = ChangePlace(1 << 60, -1, -1)
_STEP: Final = 500  #: rows that are read at once
_CONSIDERED: Final = "(:all OR s.name IN carray(:names))"
_RUNS: Final = f"""
SELECT r.no, s.name FROM run r JOIN source s ON s.no = r.source
 WHERE r.no > :run AND {_CONSIDERED} ORDER BY r.no DESC
"""
_LAST: Final = f"""
SELECT max(r.no), s.name FROM run r JOIN source s ON s.no = r.source
 WHERE r.finished_at IS NOT NULL AND {_CONSIDERED} GROUP BY s.name ORDER BY 1 DESC
"""
_LATELY: Final = f"""
SELECT r.no, s.name, coalesce(r.finished_at < :at, FALSE)
  FROM run r JOIN source s ON s.no = r.source
 WHERE {_CONSIDERED}
   AND (r.finished_at IS NULL OR r.finished_at >= :at
        OR r.no = (SELECT max(b.no) FROM run b WHERE b.source = r.source))
 ORDER BY r.no DESC
"""
_SHARED: Final = """
SELECT digest, pages, is_added, text FROM shared_change WHERE run = ?
 ORDER BY pages DESC, is_added, text
"""
_ENDED: Final = "SELECT coalesce(finished_at, started_at) FROM run WHERE no = ?"
_PAGE: Final = "r.no, hex(r.id), r.url, t.title"
#: A page without text now has no row in content.
_TITLE: Final = "LEFT JOIN content t ON t.no = r.content"
_NEW: Final = f"""
SELECT r.no, {_PAGE}, r.first_seen FROM record r JOIN state s ON s.no = r.no {_TITLE}
 WHERE r.first_run = :run AND r.no > :row AND r.kind = 0 AND s.standing = {int(Standing.HELD)}
   AND r.moved_from IS NULL AND r.first_seen >= :since
 ORDER BY r.no LIMIT {_STEP}
"""
#: A renamed file has the changes of its former name, of runs before its own.
_MODIFIED: Final = f"""
SELECT c.no, {_PAGE}, c.at, {CHANGE_COLUMNS}
  FROM change c JOIN record r ON r.no = c.record {_TITLE}
 WHERE c.run = :run AND c.is_shared = :shared AND c.no > :row AND c.at >= :since
   AND c.run >= r.first_run
 ORDER BY c.no LIMIT {_STEP}
"""
#: The plus sign keeps SQLite from reading all that the run removed for each event.
_EVENTS: Final = f"""
SELECT e.no, {_PAGE}, e.at, e.standing, e.outcome, e.http_status, e.detail, r.first_run < e.run,
       (SELECT p.outcome FROM event p WHERE p.record = e.record AND p.no < e.no
         ORDER BY p.no DESC LIMIT 1),
       EXISTS (SELECT 1 FROM evidence v
                WHERE v.record = e.record AND v.run <= e.run AND v.at <= e.at),
       EXISTS (SELECT 1 FROM evidence v
                WHERE v.record = e.record AND +v.run = e.run AND v.undone IS NULL)
  FROM event e JOIN record r ON r.no = e.record {_TITLE}
 WHERE e.run = :run AND e.no > :row AND e.at >= :since AND r.kind = 0
 ORDER BY e.no LIMIT {_STEP}
"""
_REMOVED: Final = f"""
SELECT e.no, {_PAGE}, e.at, e.rule, e.detail
  FROM evidence e JOIN record r ON r.no = e.record {_TITLE}
 WHERE e.run = :run AND e.no > :row AND e.at >= :since AND e.undone IS NULL AND r.kind = 0
 ORDER BY e.no LIMIT {_STEP}
"""
MOST_VERSIONS: Final = 100  #: of a page that are listed, the latest
VERSIONS: Final = f"""
SELECT c.run, c.at, c.body, hex(r.id), {CHANGE_COLUMNS}
  FROM change c JOIN record r ON r.no = c.record
 WHERE c.record = ? AND c.run > r.first_run ORDER BY c.no DESC LIMIT {MOST_VERSIONS}
"""
_COUNT: Final = """
SELECT count(*) FROM change c JOIN record r ON r.no = c.record
 WHERE c.record = ? AND c.run > r.first_run
"""
#: The parts of a run in their order; the first is what many pages share.
CHANGE_PARTS: Final = (_NEW, _MODIFIED, _EVENTS, _REMOVED)
_RESTORED: Final = "restored"
_BEFORE: Final = "it has another address now; before: "
_MOVES: Final = frozenset({RemovalRule.MOVED, RemovalRule.REDIRECT})
_MOST_LINES: Final = 20  #: shared lines of a run that are named


def modification_data(run: int, at: int, columns: Sequence[Any]) -> dict[str, Any]:
    """Return when the content of a page changed, and how much; ``columns``: CHANGE_COLUMNS."""
    stored = unpack_stored_change(columns)
    change = None if stored is None else stored.text
    return {
        "run": run,
        "at": iso_time(at),
        "share": None if change is None else change.share,
        "wordsAdded": None if change is None else change.added,
        "wordsRemoved": None if change is None else change.removed,
    }


def reported_modifications(connection: Connection, number: int) -> dict[str, Any]:
    """Return how often the content of a page (record.no) changed, and the latest times first."""
    rows: list[Any] = connection.execute(VERSIONS, (number,)).fetchall()
    count = len(rows)
    if count == MOST_VERSIONS:
        count = int(connection.execute(_COUNT, (number,)).get or 0)
    return {"count": count, "shown": [modification_data(row[0], row[1], row[4:]) for row in rows]}


def reported_change_runs(
    connection: Connection, since: Since, sources: Sequence[str] | None = None
) -> list[ReportedRun]:
    """Return the runs whose changes are asked for, newest first; ``sources`` None: all."""
    names: dict[str, Any] = {"all": sources is None, "names": Many(list(sources or ()))}
    match since:
        case None:
            rows = connection.execute(_LAST, names).fetchall()
        case SinceRun(run):
            rows = connection.execute(_RUNS, names | {"run": run}).fetchall()
        case SinceTime(at):
            rows = connection.execute(_LATELY, names | {"at": at}).fetchall()
            return [ReportedRun(no, name, at, bool(over)) for no, name, over in rows]
    return [ReportedRun(no, name) for no, name in rows]


def reported_changes(
    connection: Connection, runs: Sequence[ReportedRun], after: ChangePlace | None = None
) -> Iterator[tuple[ChangePlace, dict[str, Any]]]:
    """Yield the changes of some runs behind a place, with the place of each, newest run first.

    Within a run: what many pages share, then new pages, modified ones, those that were lost or came
    back, removed ones. A page whose lines all changed on many pages is not named.
    """
    after = after or _BEGINNING
    for run in runs:
        if run.no > after.run:
            continue
        place = after if run.no == after.run else ChangePlace(run.no, -1, -1)
        yield from _OfRun(connection, run).behind(place)


class _OfRun:
    """The changes of one run."""

    def __init__(self, connection: Connection, run: ReportedRun) -> None:
        self._connection = connection
        self._run = run
        self._lines: list[Any] = connection.execute(_SHARED, (run.no,)).fetchall()
        self._digests = frozenset(bytes(row[0]) for row in self._lines)
        self._makes = (self._new, self._modified, self._event, self._removed)

    def behind(self, place: ChangePlace) -> Iterator[tuple[ChangePlace, dict[str, Any]]]:
        """Yield the changes behind a place."""
        if place.part < 0 and self._lines and not self._run.is_over:
            shared = self._shared()
            if shared is not None:
                yield ChangePlace(self._run.no, 0, 0), shared
        for part, statement in enumerate(CHANGE_PARTS, 1):
            if part < place.part or (self._run.is_over and statement is _NEW):
                continue
            row = place.row if part == place.part else -1
            yield from self._part(part, statement, row)

    def _part(
        self, part: int, statement: str, row: int
    ) -> Iterator[tuple[ChangePlace, dict[str, Any]]]:
        while True:
            values = {"run": self._run.no, "since": self._run.since, "row": row, "shared": False}
            rows: list[Any] = self._connection.execute(statement, values).fetchall()
            for found in rows:
                row = found[0]
                change = self._makes[part - 1](found)
                if change is not None:
                    yield ChangePlace(self._run.no, part, row), change
            if len(rows) < _STEP:
                return

    def _shared(self) -> dict[str, Any] | None:
        at: int = self._connection.execute(_ENDED, (self._run.no,)).get
        if at < self._run.since:
            return None
        lines = [
            {"sign": "+" if is_added else "-", "text": text, "pages": pages}
            for _, pages, is_added, text in self._lines[:_MOST_LINES]
        ]
        return self._change(ChangeKind.SHARED, None, at) | {
            "pages": self._lines[0][1],
            "lines": lines,
            "moreLines": len(self._lines) - len(lines),
        }

    def _new(self, row: Any) -> dict[str, Any]:
        return self._change(ChangeKind.NEW, row[1:5], row[5])

    def _modified(self, row: Any) -> dict[str, Any]:
        stored = unpack_stored_change(row[6:])
        return self._change(ChangeKind.MODIFIED, row[1:5], row[5]) | self._figures(stored)

    def _figures(self, stored: StoredChange | None) -> dict[str, Any]:
        if stored is None:
            return {}
        own = own_text_change(stored.text, self._digests)
        return {
            "share": round(own.share, 4),
            "wordsAdded": own.added,
            "wordsRemoved": own.removed,
            "headings": [
                {"heading": heading, "wordsAdded": added, "wordsRemoved": removed}
                for heading, added, removed, _ in own.headings
            ],
            "moreHeadings": own.more_headings,
            "lines": [
                {"sign": "+" if line.is_added else "-", "text": line.text, "pages": 1}
                for line in own.lines
            ],
            "moreLines": own.more_lines,
            "formerTitle": stored.former_title,
        }

    def _event(self, row: Any) -> dict[str, Any] | None:
        page, at = row[1:5], row[5]
        standing, outcome, status, detail, known, before, removed_ever, removed_now = row[6:]
        if outcome == Word.LOST:
            if before == Word.LOST or removed_now:
                return None
            return self._change(ChangeKind.LOST, page, at) | {
                "why": f"answered {status}; {LOST_TEXT}" if status else LOST_TEXT
            }
        if standing != Standing.HELD:
            return None
        if detail is not None and detail.startswith(_BEFORE):
            return self._change(ChangeKind.MOVED, page, at) | {
                "formerUrl": detail.removeprefix(_BEFORE)
            }
        if before == Word.LOST or removed_ever or (detail or "").startswith(_RESTORED):
            return self._change(ChangeKind.BACK, page, at) | {"why": detail}
        if outcome == Word.NEW and known:  # it failed in the runs before
            return self._change(ChangeKind.NEW, page, at)
        return None

    def _removed(self, row: Any) -> dict[str, Any]:
        page, (at, number, detail) = row[1:5], row[5:]
        rule = RemovalRule(number)
        target = json.loads(detail).get("target") if rule in _MOVES else None
        why = {"why": RULE_TEXTS[rule]}
        if target is None:
            return self._change(ChangeKind.REMOVED, page, at) | why
        moved = self._change(ChangeKind.MOVED, page, at)
        return (
            moved
            | why
            | {
                "no": None,
                "urlHash": None,
                "url": target,
                "formerUrl": moved["url"],
            }
        )

    def _change(self, kind: ChangeKind, page: Any, at: int) -> dict[str, Any]:
        """Return a change with every key that one may have."""
        number, key, url, title = page or (None, None, None, None)
        return {
            "source": self._run.source,
            "run": self._run.no,
            "at": iso_time(at),
            "kind": str(kind),
            "no": number,
            "urlHash": None if key is None else key.lower(),
            "url": url,
            "title": title,
            "formerUrl": None,
            "why": None,
            "pages": None if kind is ChangeKind.SHARED else 1,
            "share": None,
            "wordsAdded": None,
            "wordsRemoved": None,
            "headings": [],
            "moreHeadings": 0,
            "lines": [],
            "moreLines": 0,
            "formerTitle": None,
        }


def page_of_reported_changes(
    connection: Connection, runs: Sequence[ReportedRun], after: ChangePlace | None, limit: int
) -> tuple[list[dict[str, Any]], ChangePlace | None]:
    """Return at most ``limit`` changes behind a place, and the place of the last; None: no more."""
    found = list(islice(reported_changes(connection, runs, after), limit + 1))
    changes = [change for _, change in found[:limit]]
    return changes, found[limit - 1][0] if len(found) > limit else None
