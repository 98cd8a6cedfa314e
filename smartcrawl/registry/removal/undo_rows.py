"""Removals that an undo finds, with their pages as they stand now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import RemovalRule, Standing

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
