"""Removal of pages, with evidence, and its undo (ADR 131)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from smartcrawl.model.documents import Chunk, Link
from smartcrawl.registry.commit.batch import write_clone_places
from smartcrawl.registry.commit.record import drop_content_row
from smartcrawl.registry.commit.run_counts import WordChanges
from smartcrawl.registry.commit.snapshots import release_snapshot_row
from smartcrawl.registry.commit.visit import EVENT
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.pack import (
    links_for_database,
    numbers_for_sql,
    pack_stored_links,
    unpack_stored_links,
)
from smartcrawl.registry.removal.moved import (
    give_back_record_row,
    new_record_number,
    take_over_record_row,
)
from smartcrawl.rules.absence import UNSEEN
from smartcrawl.rules.model import RemovalRule, Standing, Status, Word
from smartcrawl.rules.reindex import effective_after, state_after_removal

#: ``p`` is the removal of the page that was undone last.
_TO_UNDO: Final = """
SELECT e.no, e.record, e.rule, e.detail, e.content, e.links, e.restore, e.run,
       s.standing, r.content, r.url, r.changed_run, r.snapshot, s.visited_run,
       (SELECT max(n.run) FROM evidence n
         WHERE n.record = e.record AND n.no > e.no AND n.undone IS NULL
           AND n.restore IS NOT NULL),
       p.no, p.run, p.restore, s.last_checked <= p.undone
  FROM evidence e JOIN state s ON s.no = e.record JOIN record r ON r.no = e.record
  LEFT JOIN evidence p ON p.no = (SELECT u.no FROM evidence u
                                   WHERE u.record = e.record AND u.undone IS NOT NULL
                                   ORDER BY u.undone DESC, u.no DESC LIMIT 1)
 WHERE e.run = ? AND e.undone IS NULL ORDER BY e.no DESC
"""


class UndoRow(NamedTuple):
    """A removal that is not undone, with its page as it stands now."""

    no: int  #: evidence.no
    record: int
    rule: int
    detail: str  #: JSON
    content: int | None
    links: bytes | None
    restore: str | None  #: JSON; None: it has expired
    run: int
    standing: int
    current: int | None  #: content of the page now
    url: str
    changed_run: int | None
    snapshot: int | None
    visited_run: int
    newer_run: int | None  #: of a later removal of the page that can be undone
    earlier_no: int | None  #: the removal of the page that was undone last
    earlier_run: int | None
    earlier_restore: str | None
    rested: bool | None  #: whether no visit was made since that undo, by the clock

    @property
    def is_stored(self) -> bool:
        """Whether the page has content, which an undo must not lose."""
        return self.current is not None or self.standing == Standing.HELD

    @property
    def restored_run(self) -> int | None:
        """The run of the older removal whose undo restored the content that the page has now.

        A run that stored something since has a higher number than the one that stored the content
        that was removed.
        """
        if self.earlier_no is None or self.earlier_no > self.no or not self.is_stored:
            return None
        was = json.loads(self.restore or "{}").get("changed_run")
        return self.earlier_run if (self.changed_run or 0) < (was or 0) else None

    @property
    def confirmed_run(self) -> int | None:
        """The run that visited the page after its last undo; None: there is none."""
        return None if self.visited_run <= self.run or self.rested else self.visited_run

    @property
    def replaces(self) -> bool:
        """Whether the page has what the undo of an older removal restored, and no visit since.

        That can be restored again, so that the newer content may take its place.
        """
        return (
            self.restored_run is not None
            and self.earlier_restore is not None
            and self.confirmed_run is None
        )

    @property
    def is_restorable(self) -> bool:
        """Whether the removed content is stored, and the page has no newer one by now."""
        return self.replaces or (self.restore is not None and not self.is_stored)


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo."""

    rules: Mapping[str, RemovalRule]  #: of each restored URL, why it was removed
    changed: Mapping[str, int | None]  #: of each URL with newer content, the run that stored it
    #: Of each URL whose older content stays: the run that was undone, the run that confirmed it.
    older: Mapping[str, tuple[int, int | None]]
    newer: Mapping[str, int]  #: of restored URLs, the run that removed newer content, undoable
    replaced: Mapping[str, int]  #: of restored URLs, the run whose undone removal gave way
    expired: tuple[str, ...]  #: URLs whose undo data has expired

    @property
    def restored(self) -> tuple[str, ...]:
        """The URLs that are restored."""
        return tuple(self.rules)

    @property
    def kept(self) -> tuple[str, ...]:
        """The URLs that have newer content by now, or older one that stays."""
        return (*self.changed, *self.older)

    @classmethod
    def of_rows(cls, rows: Sequence[UndoRow]) -> Self:
        """Return the result of an undo, by the rows before it."""
        restored = [row for row in rows if row.is_restorable]
        expired = [row for row in rows if row.restore is None]
        kept = [row for row in rows if row.restore is not None and not row.is_restorable]
        return cls(
            rules={row.url: RemovalRule(row.rule) for row in restored},
            changed={row.url: row.changed_run for row in kept if row.restored_run is None},
            older={
                row.url: (row.restored_run, row.confirmed_run)
                for row in kept
                if row.restored_run is not None
            },
            newer={row.url: row.newer_run for row in restored if row.newer_run is not None},
            replaced={
                row.url: row.restored_run
                for row in restored
                if row.replaces and row.restored_run is not None
            },
            expired=tuple(row.url for row in expired),
        )


def undo_rows_of_run(connection: Connection, run: int) -> list[UndoRow]:
    """Return the removals of a run that are not undone, newest first."""
    rows: list[Any] = connection.execute(_TO_UNDO, (run,)).fetchall()
    return [UndoRow(*row) for row in rows]


def undoable_rows(connection: Connection, run: int) -> Undone:
    """Return the pages that an undo of ``run`` would restore, and those that it would not."""
    return Undone.of_rows(undo_rows_of_run(connection, run))


#: Rules that remove pages of their own run, which were no pages before.
_OF_NEW: Final = (RemovalRule.CANONICAL, RemovalRule.WALL)
BATCH = 500  #: removals in one transaction

_STATE = ("status", "standing", "outcome", "http_status", "effective_status")
_RECORD = (
    "etag", "last_modified", "modified", "content_type", "content_length",
    "content_encoding", "configuration", "canonical_url", "canonical_no", "redirect_target",
    "redirect_no", "last_changed", "last_indexed", "changed_run", "error_message",
)  # fmt: skip
_HASHES = ("content_hash", "text_hash", "body_hash")
_KEPT_ASIDE = ("etag", "last_modified", "modified", "canonical_no", "body_hash")
_HELD = f"""
SELECT r.no, r.url, s.depth, r.content, l.raw, r.snapshot,
       {", ".join(f"s.{name}" for name in _STATE)}, {", ".join(f"r.{name}" for name in _RECORD)},
       r.moved_from,
       {", ".join(f"lower(hex(r.{name}))" for name in _HASHES)}
  FROM record r JOIN state s USING (no) LEFT JOIN links l USING (no)
 WHERE r.no IN carray(?) AND s.standing > 0
 ORDER BY r.no
"""
_EVIDENCE = """
INSERT INTO evidence (record, source, run, rule, at, detail, content, restore, links)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BARE = """
UPDATE state SET number = :number, status = :status, standing = :standing, outcome = :word,
       http_status = :http_status, effective_status = :effective_status, lost_count = 0,
       gone_count = 0, lost_since = NULL, gone_since = NULL, unchanged_count = 0,
       next_visit = CASE WHEN :is_due THEN NULL ELSE next_visit END
 WHERE no = :no AND number < :number
"""
_OF_CONTENT = "coalesce({0}, (SELECT c.{0} FROM content c WHERE c.no = record.content))"
#: An alias keeps its validators and hashes, as one that stood aside from the start; a wall keeps
#: the hashes of its content, so that it is not indexed again.
_FORGET = f"""
UPDATE record SET content = NULL, duplicate_of = NULL, entry = 0,
       {", ".join(f"{name} = CASE WHEN :aside THEN {name} END" for name in _KEPT_ASIDE)},
       content_hash = CASE WHEN :hashes THEN {_OF_CONTENT.format("content_hash")} END,
       text_hash = CASE WHEN :hashes THEN {_OF_CONTENT.format("text_hash")} END,
       snapshot = NULL, moved_from = CASE WHEN :moved THEN moved_from END
 WHERE no = :no
"""
_WALLED = "UPDATE record SET last_indexed = NULL, error_message = ? WHERE no = ?"  #: never a page
_DROP_LINKS = "DELETE FROM links WHERE no = ?"
_ONE_LINK = """
INSERT INTO links (no, scope, count, targets, raw) VALUES (?, 0, 1, zeroblob(0), ?)
ON CONFLICT (no) DO UPDATE SET scope = 0, count = 1, targets = zeroblob(0), raw = excluded.raw
"""
_NO_CANDIDATE = "DELETE FROM candidate WHERE no IN carray(?)"
_EXPIRED = """
UPDATE evidence SET content = NULL, restore = NULL, links = NULL
 WHERE source = ? AND at < ? AND restore IS NOT NULL RETURNING no
"""
_EXPIRING = "SELECT content FROM evidence WHERE source = ? AND at < ? AND content IS NOT NULL"
_UNHELD = """
DELETE FROM content WHERE no IN carray(:contents)
   AND no NOT IN (SELECT content FROM record WHERE content IN carray(:contents))
   AND no NOT IN (SELECT content FROM evidence WHERE content IN carray(:contents))
"""
_UNDONE = "UPDATE evidence SET undone = ? WHERE no = ?"
_NOT_UNDONE = "UPDATE evidence SET undone = NULL WHERE no = ?"
_RESTORE_STATE = f"""
UPDATE state SET number = :number, seen_run = :seen_run, lost_count = 0, gone_count = 0,
       lost_since = NULL, gone_since = NULL, {", ".join(f"{n} = :{n}" for n in _STATE)}
 WHERE no = :no AND number < :number
"""
_RESTORE_RECORD = f"""
UPDATE record SET content = :content,
       snapshot = (SELECT p.no FROM snapshot p
                    WHERE p.store IN (SELECT no FROM store) AND p.body_hash = :body_hash
                    ORDER BY p.no DESC LIMIT 1),
       moved_from = (SELECT no FROM state WHERE no = :moved_from AND standing = 0),
       {", ".join(f"{n} = :{n}" for n in (*_RECORD, *_HASHES))}
 WHERE no = :no
"""
_HOLD = """
UPDATE snapshot SET released = NULL WHERE no = (SELECT snapshot FROM record WHERE no = ?)
"""
_RESTORE_LINKS = """
INSERT INTO links (no, scope, count, targets, raw) VALUES (?, 0, ?, zeroblob(0), ?)
ON CONFLICT (no) DO UPDATE
   SET scope = 0, count = excluded.count, targets = zeroblob(0), raw = excluded.raw
"""
_HOLDERS = "SELECT count(*) FROM record WHERE content = ?"
_DOCUMENT = "SELECT title, document, marked, language FROM content WHERE no = ?"
_PIN = """
INSERT INTO pin (no, source, at) SELECT no, source, ? FROM record WHERE no = ?
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A page to be removed, with the reason."""

    no: int
    rule: RemovalRule
    detail: str  #: JSON

    def answered(self) -> int | None:
        """Return the status that the removal gives the page: of a wall, or by the last look."""
        name = "status" if self.rule is RemovalRule.WALL else "probe"
        status: int | None = json.loads(self.detail).get(name)
        return status


@dataclass(frozen=True, slots=True)
class RemovedRecordRow:
    """A removed page, for reports on the run."""

    no: int
    url: str
    depth: int
    status: int | None  #: HTTP or extended, of its last visit
    word: str  #: lastOutcome after the removal
    stood: bool = True  #: whether it was stored before the run; no alias that this run met first

    def as_event(self) -> dict[str, Any]:
        """Return the progress event of the removal (``--progress json``)."""
        return {
            "url": self.url,
            "pageId": self.no,
            "depth": self.depth,
            "status": self.status,
            "outcome": self.word,
            "deleted": True,
        }


class RecordRemover:
    """Removes pages of one source over one connection; the caller opens the transaction."""

    def __init__(
        self, connection: Connection, sink: Sink, *, source: int, run: int, number: int
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._source = source
        self._run = run
        self._number = number

    def remove(self, candidates: Sequence[Candidate], now: int) -> list[RemovedRecordRow]:
        """Remove pages from registry and index; keep the data that an undo needs.

        Promotions come first: a clone replaces a removed original in the same transaction, so
        that search never misses the content (RD-10). A page that another worker has written in
        the meantime (with a higher claim number) stays.
        """
        connection = self._connection
        by_no = {candidate.no: candidate for candidate in candidates}
        removed: list[RemovedRecordRow] = []
        contents: set[int] = set()
        rows: list[Any] = connection.execute(_HELD, (numbers_for_sql(by_no),)).fetchall()
        moved = {c.no: c for c in candidates if c.rule is RemovalRule.MOVED}
        renamed = {new_record_number(candidate.detail) for candidate in moved.values()}
        words = WordChanges(connection, self._run, renamed.union(by_no))
        for row in rows:
            candidate = by_no[row[0]]
            after = state_after_removal(candidate.rule)
            answered = candidate.answered() or row[9]
            if not self._lay_bare(candidate, row[9], answered):
                continue
            self._keep(candidate, row, now)
            self._forget(candidate)
            release_snapshot_row(connection, row[5], now)
            self._links(candidate, row)
            event = (candidate.no, self._run, now, after.status, after.standing, after.word)
            connection.execute(EVENT, (*event, answered, candidate.rule.word))
            if row[3] is not None:
                contents.add(row[3])
            if candidate.no in moved:
                take_over_record_row(
                    connection, candidate.no, candidate.detail, number=self._number
                )
            stood = not (candidate.rule in _OF_NEW and row[8] == Word.NEW)
            removed.append(
                RemovedRecordRow(row[0], row[1], row[2], answered, after.word.word, stood)
            )
        write_clone_places(connection, self._run, sorted(contents), midway=False)
        self._sink.moved(contents)
        for content in sorted(contents):
            drop_content_row(connection, self._sink, content)
        self._sink.flush()
        connection.execute(_NO_CANDIDATE, (numbers_for_sql(by_no),))
        words.write()
        return removed

    def _lay_bare(self, candidate: Candidate, before: int | None, answered: int | None) -> bool:
        """Write the state of a page after its removal; return False if another worker has it.

        ``before`` and ``answered``: its HTTP status, and that which the removal gives it.
        """
        after = state_after_removal(candidate.rule)
        names = {
            "no": candidate.no,
            "number": self._number,
            "status": after.status,
            "standing": after.standing,
            "word": after.word,
            "http_status": answered,
            "is_due": candidate.rule in UNSEEN,
            "effective_status": effective_after(candidate.rule, before),
        }
        self._connection.execute(_BARE, names)
        return self._connection.changes() > 0

    def _forget(self, candidate: Candidate) -> None:
        """Clear what the record of a page has of its content."""
        rule = candidate.rule
        names = {
            "no": candidate.no,
            "aside": rule is RemovalRule.CANONICAL,
            "hashes": rule in _OF_NEW,
            "moved": rule is RemovalRule.MOVED,
        }
        self._connection.execute(_FORGET, names)
        if rule is RemovalRule.WALL:
            why = json.loads(candidate.detail)["why"]
            self._connection.execute(_WALLED, (why, candidate.no))

    def _keep(self, candidate: Candidate, row: tuple[Any, ...], now: int) -> None:
        names = (*_STATE, *_RECORD, "moved_from", *_HASHES)
        restore = json.dumps(dict(zip(names, row[6:], strict=True)))
        found = (candidate.rule, now, candidate.detail, row[3], restore, row[4])
        self._connection.execute(_EVIDENCE, (candidate.no, self._source, self._run, *found))

    def _links(self, candidate: Candidate, row: tuple[Any, ...]) -> None:
        """Replace the links of a redirect by its target; delete those of other bare pages."""
        if state_after_removal(candidate.rule).standing is not Standing.BARE:
            return
        target = json.loads(candidate.detail).get("target")
        if candidate.rule is RemovalRule.REDIRECT and target:
            packed = pack_stored_links([Link(target, "", "redirect", False)])
            raw = links_for_database(packed, self._connection.dialect)
            self._connection.execute(_ONE_LINK, (candidate.no, raw))
        else:
            self._connection.execute(_DROP_LINKS, (candidate.no,))


def expire_undo_rows(connection: Connection, source: int, before: int) -> int:
    """Delete the undo data of removals before a time (Unix seconds); return their number."""
    contents: Any = connection.execute(_EXPIRING, (source, before)).fetchall()
    count = len(connection.execute(_EXPIRED, (source, before)).fetchall())
    held = numbers_for_sql({no for (no,) in contents})
    connection.execute(_UNHELD, {"contents": held})
    return count


class Restorer:
    """Restores the pages that a run removed; the caller opens the transaction."""

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        *,
        number: int,
        seen_run: int,
        chunked: Callable[[bytes, str], list[Chunk]],
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._number = number
        self._seen_run = seen_run
        self._chunked = chunked

    def undo(self, run: int, now: int, *, pin: bool) -> Undone:
        """Restore every page that ``run`` removed to its former state; pages count as seen now.

        ``pin`` makes the pages seeds of their source, so that a missing link does not remove them
        again. The constructor's ``chunked`` turns a stored document into chunks for the index.
        """
        contents: set[int] = set()
        replaced: set[int] = set()
        rows = undo_rows_of_run(self._connection, run)
        renamed = {new_record_number(row.detail) for row in rows if row.rule == RemovalRule.MOVED}
        known = renamed.union(row.record for row in rows)
        words = WordChanges(self._connection, self._seen_run, known)
        for row in rows:
            if not row.is_restorable:
                continue
            assert row.restore is not None
            was = json.loads(row.restore)
            self._restore(row.record, row.content, was, row.links)
            if row.replaces:
                self._give_way(row, now)
                replaced.update(() if row.current is None else (row.current,))
            detail = f"restored: the sweep of run {run} was undone"
            self._note(row.record, was, now, detail)
            if row.rule == RemovalRule.MOVED:
                give_back_record_row(self._connection, row.record, row.detail, number=self._number)
            self._connection.execute(_UNDONE, (now, row.no))
            if row.content is not None:
                contents.add(row.content)
            if pin:
                self._connection.execute(_PIN, (now, row.record))
        touched = sorted(contents | replaced)
        write_clone_places(self._connection, self._seen_run, touched, midway=False)
        self._sink.moved(set(touched))
        for content in sorted(replaced):
            drop_content_row(self._connection, self._sink, content)
        self._sink.flush()
        words.write()
        return Undone.of_rows(rows)

    def _give_way(self, row: UndoRow, now: int) -> None:
        """Take back the undo of an older removal, whose content this one has replaced."""
        self._connection.execute(_NOT_UNDONE, (row.earlier_no,))
        release_snapshot_row(self._connection, row.snapshot, now)
        if row.links is None:
            self._connection.execute(_DROP_LINKS, (row.record,))

    def _restore(
        self, no: int, content: int | None, was: dict[str, Any], links: bytes | None
    ) -> None:
        connection = self._connection
        hashes = {name: bytes.fromhex(was[name] or "") or None for name in _HASHES}
        alone = content is not None and not connection.execute(_HOLDERS, (content,)).get
        was = {"moved_from": None} | was  # evidence of earlier versions has none
        names = was | {"no": no, "number": self._number, "seen_run": self._seen_run}
        connection.execute(_RESTORE_STATE, names | {"status": _status(was)})
        connection.execute(_RESTORE_RECORD, was | hashes | {"no": no, "content": content})
        connection.execute(_HOLD, (no,))
        if links is not None:
            connection.execute(_RESTORE_LINKS, (no, len(unpack_stored_links(links)), links))
        if alone and content is not None:
            row: Any = connection.execute(_DOCUMENT, (content,)).fetchone()
            self._sink.put(content, row[0], self._chunked(row[1], row[2]), row[3])

    def _note(self, no: int, was: dict[str, Any], now: int, detail: str) -> None:
        state = (_status(was), was["standing"], was["outcome"], was["http_status"])
        self._connection.execute(EVENT, (no, self._seen_run, now, *state, detail))


def _status(was: dict[str, Any]) -> Status:
    """Return the status of a restored page; evidence against it no longer counts."""
    return Status.INDEXED if was["standing"] == Standing.HELD else Status.CRAWLED
