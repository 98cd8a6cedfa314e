"""Settlement of a run: redirects, last outcomes, clones and candidates for removal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from smartcrawl.registry.commit.batch import settle_clone_rows
from smartcrawl.registry.commit.visit import EVENT
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.library.items import stored_trimmed_items, stored_trimmed_note
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.pages import row_leads_to_indexed_record
from smartcrawl.registry.removal.candidates import (
    OUT_OF_SCOPE,
    EndingRunRow,
    Proposal,
    absent_page_rows,
    delete_absent_candidate_rows,
    delete_refuted_candidate_rows,
    propose_answered_rows,
    propose_candidate_rows,
    withhold_candidate_rows,
)
from smartcrawl.registry.removal.moved import propose_renamed_rows
from smartcrawl.rules.absence import TEMPORARY, Counts, absence_counts_after, paced_absence_counts
from smartcrawl.rules.login import (
    WALL_OF_REDIRECTS,
    Met,
    Turned,
    acts_on_page,
    is_sign_in_address,
    pages_before_walls,
    walls_against_seal,
    walls_of_redirects,
)
from smartcrawl.rules.model import Fault, Outcome, RemovalRule, Standing, Status, Word
from smartcrawl.rules.moves import (
    Fate,
    Move,
    canonical_after_moves,
    fates_of_moves,
    flooding_canonicals,
)

_FORMS = f"""
SELECT s.no FROM state s WHERE s.visited_run = :run AND s.http_status = {int(Fault.LOGIN)}
"""
_TURNED = """
SELECT s.no, r.url, r.redirect_target, r.redirect_no, s.standing = 0 AND r.last_indexed IS NULL
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.http_status IN (302, 303, 307) AND s.outcome = 5
   AND r.redirect_target IS NOT NULL AND r.kind = 0
"""
#: Targets that are no walls: seeds, pages that had content before this run, missing ones. A page
#: that was found before got its first content in this run if it is new and was never removed,
#: except as a wall.
_SPARED = f"""
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE s.no IN carray(:numbers)
   AND (s.http_status IN (404, 410) OR s.no IN (SELECT no FROM seed WHERE run = :run)
        OR (r.last_indexed IS NOT NULL AND r.first_run < :run
            AND NOT (s.visited_run = :run AND s.outcome = {int(Word.NEW)}
                     AND NOT EXISTS (SELECT 1 FROM evidence e
                                      WHERE e.record = s.no AND e.run < :run
                                        AND e.rule <> {int(RemovalRule.WALL)}))))
"""
#: Walls that this run indexed before it knew them.
_INDEXED = f"""
SELECT no FROM state
 WHERE no IN carray(:numbers) AND visited_run = :run AND standing = {int(Standing.HELD)}
 ORDER BY no
"""
#: Removed walls whose content is remembered, although no page is failed any more for leading there.
_FREE = f"""
SELECT r.no FROM record r
 WHERE r.no IN carray(:numbers) AND r.content_hash IS NOT NULL
   AND r.no NOT IN (SELECT p.redirect_no FROM state s JOIN record p USING (no)
                     WHERE s.http_status = {int(Fault.LOGIN)} AND p.redirect_no IS NOT NULL)
"""
_FORGET = "UPDATE record SET content_hash = NULL, text_hash = NULL WHERE no IN carray(?)"
_MET = """
SELECT s.no, r.url, s.standing = 2 OR s.no IN (SELECT no FROM seed WHERE run = :run), d.url
  FROM state s JOIN record r USING (no) LEFT JOIN record d ON d.no = r.discovered_from
 WHERE s.no IN carray(:numbers)
 ORDER BY s.no
"""


class WalledRows(NamedTuple):
    """The numbers of the pages of a run that met a login form."""

    forms: frozenset[int] = frozenset()  #: that answered with one in place of a page
    led: frozenset[int] = frozenset()  #: whose temporary redirects led to one
    walls: frozenset[int] = frozenset()  #: to which several of them led, with their addresses


def walled_rows(connection: Connection, run: int) -> WalledRows:
    """Return the pages of a run that met a login form, and the walls to which they were led."""
    found: Any = connection.execute(_FORMS, {"run": run}).fetchall()
    forms = frozenset(no for (no,) in found)
    rows: Any = connection.execute(_TURNED, {"run": run}).fetchall()
    turned = [Turned(no, url, target, end, bool(new)) for no, url, target, end, new in rows]
    if not turned:
        return WalledRows(forms)
    targets = {page.target_no for page in turned if page.target_no is not None}
    names = {"run": run, "numbers": numbers_for_sql(targets)}
    rows = connection.execute(_SPARED, names).fetchall()
    spared = {no for (no,) in rows}
    led = pages_before_walls(turned, forms, spared)
    return WalledRows(forms, led, walls_of_redirects(turned, spared))


def new_wall_rows(connection: Connection, run: int, walls: frozenset[int]) -> list[Proposal]:
    """Return proposals to remove those of some walls that their run indexed as pages.

    It did so before it knew what they are.
    """
    names = {"run": run, "numbers": numbers_for_sql(walls)}
    rows: Any = connection.execute(_INDEXED, names).fetchall() if walls else ()
    detail: dict[str, object] = {"status": int(Fault.LOGIN), "why": WALL_OF_REDIRECTS}
    return [(no, RemovalRule.WALL, detail) for (no,) in rows]


def free_wall_rows(connection: Connection, forms: frozenset[int]) -> None:
    """Let removed walls be indexed at their next visit if no page leads there as to a wall.

    ``forms``: pages that were failed as login forms in this run.
    """
    if forms:
        rows: Any = connection.execute(_FREE, {"numbers": numbers_for_sql(forms)}).fetchall()
        if rows:
            connection.execute(_FORGET, (numbers_for_sql(no for (no,) in rows),))


def wall_reason_rows(connection: Connection, run: int, visits: int) -> tuple[str, ...]:
    """Return the pages that met a login form, if that makes a run incomplete."""
    forms, led, walls = walled_rows(connection, run)
    direct = forms - walls
    if not (direct or led):
        return ()
    rows: Any = connection.execute(
        _MET, {"run": run, "numbers": numbers_for_sql(direct | led)}
    ).fetchall()
    met = [
        Met(
            url,
            bool(matters),
            (no in direct and is_sign_in_address(url))
            or (origin is not None and acts_on_page(url, origin)),
        )
        for no, url, matters, origin in rows
    ]
    return walls_against_seal(met, visits=visits)


_ORPHANED = """
UPDATE state SET outcome = :word
 WHERE reached_run < :run AND standing > 0
   AND reached_run IN (SELECT no FROM run WHERE source = :source)
"""
#: Reached and not visited in this run; or never visited, such as addresses that an interrupted run
#: found.
_SKIPPED = """
UPDATE state SET outcome = :word
 WHERE (reached_run = :run AND visited_run < :run)
    OR (outcome IS NULL AND reached_run IN (SELECT no FROM run WHERE source = :source))
"""
_OUT_OF_SCOPE = "UPDATE state SET outcome = 10, status = 4 WHERE no IN carray(?)"
_LEFT_SCOPE = """
SELECT no, standing FROM state WHERE no IN carray(?) AND status <> 4
"""
_MOVES = """
SELECT s.no, s.http_status, r.redirect_target, r.redirect_no, s.standing = 2, s.standing, s.status,
       s.lost_count, s.gone_count, s.lost_since, s.gone_since, r.kind
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.outcome = 5 AND r.redirect_target IS NOT NULL
"""
_VISITED = "SELECT no FROM state WHERE no IN carray(:numbers) AND visited_run = :run"
#: A page that a due crawl reached before its next visit was due: its last answer counts.
_NOT_DUE = """
s.reached_run = :run AND s.visited_run < :run AND (SELECT due FROM run WHERE no = :run)
"""
#: Indexed pages: content is stored, in scope, and a 200 or 304 of this run confirmed it.
_INDEXED_PAGES = f"""
SELECT s.no FROM state s
 WHERE s.no IN carray(:numbers) AND s.standing = 2 AND s.lost_count = 0
   AND ((s.visited_run = :run AND s.outcome IN (1, 2, 3)) OR (s.status = 2 AND {_NOT_DUE}))
"""
#: Pages that robots.txt excludes in this run. Hosts that the operator blocked do not count.
_ENDED = f"""
SELECT s.no FROM state s JOIN record r USING (no) JOIN host h ON h.no = r.host
 WHERE s.no IN carray(:numbers) AND s.seen_run < :run AND NOT h.is_blocked
   AND ((s.visited_run = :run AND s.outcome = 10) OR (s.status = 4 AND {_NOT_DUE}))
"""
#: Pages that answered 404 or 410 in this run.
_MISSING = f"""
SELECT s.no, s.http_status FROM state s
 WHERE s.no IN carray(:numbers) AND s.http_status IN (404, 410) AND s.outcome <> 10
   AND s.status <> 4 AND (s.visited_run = :run OR ({_NOT_DUE}))
"""
#: Temporary redirects of pages that were not due: they help to recognize login walls.
_MOVED_BEFORE = f"""
SELECT s.no, s.http_status, r.redirect_target, r.redirect_no, s.standing = 2
  FROM state s JOIN record r USING (no)
 WHERE s.http_status IN (302, 303, 307) AND r.redirect_target IS NOT NULL AND {_NOT_DUE}
"""
#: Aliases that answered in this run: only their canonical pages are indexed.
_ASIDE = f"""
SELECT r.no, r.canonical_no FROM record r JOIN state s USING (no)
 WHERE r.canonical_no IS NOT NULL AND +r.source = :source AND s.standing = 1
   AND ((s.visited_run = :run AND s.outcome = 5) OR (s.status = 1 AND {_NOT_DUE}))
"""
_COUNTED = """
UPDATE state SET lost_count = ?, gone_count = ?, lost_since = ?, gone_since = ?, status = ?,
       outcome = ?, http_status = ?, effective_status = CASE standing WHEN 0 THEN ?
                                                        ELSE effective_status END
 WHERE no = ?
"""
_FAILED = "UPDATE state SET failures = failures + 1 WHERE no = ?"
_IS_DUE = "SELECT due FROM run WHERE no = ?"
_NOTE_ERROR = "UPDATE record SET error_message = ? WHERE no = ?"
_NAMES = """
SELECT r.no, r.canonical_no, s.standing, s.visited_run = :run AND s.outcome IN (1, 2, 3)
  FROM record r JOIN state s USING (no)
 WHERE r.canonical_no IS NOT NULL AND +r.source = :source AND s.standing > 0
"""
_URLS = "SELECT no, url FROM record WHERE no IN carray(?)"
_HELD_COUNT = """
SELECT count(*) FROM state
 WHERE standing > 0 AND reached_run IN (SELECT no FROM run WHERE source = :source)
"""
#: Download an alias again without validators: its canonical page is not indexed, so the alias is.
_ASK_ANEW = """
UPDATE record SET etag = NULL, last_modified = NULL, modified = NULL, body_hash = NULL
 WHERE no IN carray(?)
"""
#: Rejected answers (rules.shield), and documents that could not be read. In a CROSS JOIN, SQLite
#: reads state first, which is narrow, and a record only where it counts.
_SHIELDED = f"""
SELECT s.http_status, count(*), min(r.url) FROM state s CROSS JOIN record r
 WHERE r.no = s.no AND s.visited_run = :run AND r.source = :source
   AND s.http_status BETWEEN {int(Fault.CHALLENGE)} AND {max(Fault)}
 GROUP BY 1 ORDER BY 1
"""
_DUE = "UPDATE state SET next_visit = NULL WHERE no IN carray(?)"
_NOTES = "UPDATE run SET notes = ?, withheld = ? WHERE no = ?"


def settle_record_rows(
    connection: Connection, ending: EndingRunRow, sink: Sink, *, complete: bool
) -> None:
    """Set the last outcome of every record and propose removals.

    The caller opens the transaction.
    """
    _words(connection, ending)
    notes: list[str] = [*ending.notes]
    walled = walled_rows(connection, ending.run)
    moved, hops = _moves(connection, ending, walled, notes)
    free_wall_rows(connection, walled.forms)
    if not complete:
        delete_absent_candidate_rows(connection, ending)
    sink.moved(settle_clone_rows(connection, ending.run, ending.source))
    propose_answered_rows(connection, ending)
    propose_candidate_rows(connection, ending, moved)
    aside = _canonicals(connection, ending, walled, hops, notes)
    propose_candidate_rows(connection, ending, aside)
    propose_candidate_rows(connection, ending, new_wall_rows(connection, ending.run, walled.walls))
    delete_refuted_candidate_rows(connection, ending, complete=complete)
    propose_renamed_rows(connection, ending, complete=complete)
    for fault, count, url in connection.execute(_SHIELDED, ending.names):
        pages = "1 page," if count == 1 else f"{count} pages, such as"
        notes.append(f"{Fault(fault).name.lower()}: {pages} {url}")
    if lacking := stored_trimmed_items(connection, ending.source, ending.run):
        notes.append(stored_trimmed_note(lacking))
    withheld = withhold_candidate_rows(connection, ending)
    connection.execute(_NOTES, (json.dumps(notes), withheld, ending.run))


def _words(connection: Connection, ending: EndingRunRow) -> None:
    """Mark unvisited records as orphaned, excluded or skipped."""
    connection.execute(_ORPHANED, ending.names | {"word": Word.ORPHANED})
    connection.execute(_SKIPPED, ending.names | {"word": Word.SKIPPED})
    outside = [a.no for a in absent_page_rows(connection, ending) if a.excluded == OUT_OF_SCOPE]
    left: Any = connection.execute(_LEFT_SCOPE, (numbers_for_sql(outside),)).fetchall()
    before = (ending.run, ending.now, Status.OUT_OF_SCOPE)
    after = (Word.EXCLUDED, None, OUT_OF_SCOPE)
    connection.executemany(EVENT, [(no, *before, standing, *after) for no, standing in left])
    connection.execute(_OUT_OF_SCOPE, (numbers_for_sql(outside),))


def _moves(
    connection: Connection, ending: EndingRunRow, walled: WalledRows, notes: list[str]
) -> tuple[list[Proposal], dict[int, int | None]]:
    """Decide the redirects of a run; return the proposed removals and the valid hops.

    A sitemap that redirects to a page is not removed for it: the page has not its addresses.
    """
    rows: list[Any] = connection.execute(_MOVES, {"run": ending.run}).fetchall()
    in_scope = ending.closing.in_scope
    moves = []
    for row in rows:  # a sitemap may move out of scope; its addresses may not
        leaves = row[3] is None and not row[11] and not in_scope(row[2], 0)
        moves.append(Move(row[0], row[1], row[2], row[3], bool(row[4]), leaves))
    skipped: Any = connection.execute(_MOVED_BEFORE, {"run": ending.run}) if moves else ()
    before = [Move(*row) for row in skipped]
    aside: dict[int, int | None] = {}
    aside.update(connection.execute(_ASIDE, ending.names).fetchall() if moves else ())
    targets = {no for no in (*(move.target_no for move in moves), *aside.values()) if no}
    indexed = _those(connection, _INDEXED_PAGES, ending.run, targets) - walled.walls
    missing = dict(_found(connection, _MISSING, ending.run, targets))
    judged = fates_of_moves(
        [*before, *moves],
        indexed,
        aside,
        ended=_those(connection, _ENDED, ending.run, targets),
        missing=missing,
        walls=ending.closing.max_ratio < 1,
        most=ending.closing.redirects.most,
        unfollowed=_unfollowed(connection, ending, [*before, *moves]),
    )
    ends = {move.no: move.target for move in moves}
    temporary = {m.no: m.http_status for m in (*before, *moves) if m.http_status in TEMPORARY}
    proposed: list[Proposal] = []
    lost = Counter[Fate]()
    for move, row in zip(moves, rows, strict=True):
        fate, passed = judged[move.no]
        old = _Old(move, Standing(row[5]), Status(row[6]), Counts(*row[7:11]))
        if old.standing is Standing.BARE and move.no in walled.led:
            _meet_wall(connection, ending, old)
        elif fate is Fate.MOVED and old.standing is not Standing.BARE and not row[11]:
            detail = {"status": move.http_status, "target": move.target, "hops": len(passed)}
            proposed.append((move.no, RemovalRule.REDIRECT, detail))
        if fate in (Fate.MOVED, Fate.WAITS):
            if any(old.counts) and old.standing is not Standing.BARE:
                _restart(connection, old)
        elif fate not in (Fate.LOST, Fate.AWAY, Fate.MISSING) or old.standing is not Standing.BARE:
            lost[fate] += 1
            end = next((ends[no] for no in reversed(passed) if no in ends), move.target)
            turn = next((hop for hop in (move.no, *passed) if hop in temporary), move.no)
            status = temporary.get(turn, move.http_status)
            if fate is Fate.MISSING:
                status = missing[passed[-1]]
            _age(connection, ending, fate, old, _Way(end, status))
    if lost[Fate.LOST]:
        notes.append(f"temporary_redirects: {lost[Fate.LOST]} treated as lost")
    if loops := lost[Fate.LOOP] + lost[Fate.TOO_LONG]:
        notes.append(f"redirect_loops: {loops}")
    followed = (move for move in moves if judged[move.no][0] is Fate.MOVED)
    return proposed, {move.no: move.target_no for move in followed}


def _unfollowed(
    connection: Connection, ending: EndingRunRow, moves: Sequence[Move]
) -> frozenset[int]:
    """Return the redirects that a limit to the letter may have kept from being followed."""
    if not ending.closing.redirects.is_exact:
        return frozenset()
    targets = {move.target_no for move in moves if move.target_no is not None}
    visited = _those(connection, _VISITED, ending.run, targets)
    return frozenset(m.no for m in moves if not m.leaves and m.target_no not in visited)


class _Old(NamedTuple):
    """A redirecting page, with its state before settlement."""

    move: Move
    standing: Standing
    status: Status
    counts: Counts


class _Way(NamedTuple):
    """The end of a redirect chain."""

    end: str  #: last address of the chain
    #: status of the end if it is missing, or of the first temporary redirect, or of the page
    status: int


def _those(
    connection: Connection, statement: str, run: int, wanted: Iterable[int]
) -> frozenset[int]:
    """Return those of the ``wanted`` numbers that a statement selects."""
    return frozenset(no for (no,) in _found(connection, statement, run, wanted))


def _found(
    connection: Connection, statement: str, run: int, wanted: Iterable[int]
) -> list[tuple[Any, ...]]:
    """Return the rows that a statement selects for the ``wanted`` numbers."""
    values = {"run": run, "numbers": numbers_for_sql(set(wanted))}
    return [tuple(row) for row in connection.execute(statement, values).fetchall()]


def _restart(connection: Connection, old: _Old) -> None:
    """Reset the counts that a page collected before it redirected."""
    row = (0, 0, None, None, old.status, Word.REDIRECTED, old.move.http_status, None, old.move.no)
    connection.execute(_COUNTED, row)


_MESSAGES = {
    Fate.AWAY: "moved to {}",
    Fate.MISSING: "not found: redirected to {}, which does not exist",
    Fate.LOST: "a temporary redirect to a page that is not indexed, or to a login page: {}",
    Fate.LOOP: "redirects in a circle: {}",
    Fate.TOO_LONG: "redirected too often: {}",
}
_FAULTS = {Fate.LOOP: Fault.REDIRECT_LOOP, Fate.TOO_LONG: Fault.TOO_MANY_REDIRECTS}


#: Outcome that ages a page whose redirect has no valid target (rules.absence.AGEING).
_AGES = {
    Fate.AWAY: Outcome.NOT_FOUND,
    Fate.MISSING: Outcome.NOT_FOUND,
    Fate.LOST: Outcome.HTTP_ERROR,
    Fate.LOOP: Outcome.BAD_HEADER,
    Fate.TOO_LONG: Outcome.BAD_HEADER,
}


def _age(connection: Connection, ending: EndingRunRow, fate: Fate, old: _Old, way: _Way) -> None:
    """Count a redirect without a valid target as an error of its page.

    The stored status decides whether the error is permanent (rules.absence.Policy.purges).
    """
    fault, move = _FAULTS.get(fate), old.move
    outcome = _AGES[fate]
    status = int(fault) if fault else way.status
    held = old.standing is Standing.HELD
    policy = ending.closing.policy
    counts = absence_counts_after(old.counts, outcome, status, policy, ending.now, held=held)
    if connection.execute(_IS_DUE, (ending.run,)).get:
        counts = paced_absence_counts(old.counts, counts, ending.closing.pace, ending.now)
    word = Word.LOST if held else Word.FAILED
    row = (counts.lost, counts.gone, counts.lost_since, counts.gone_since)
    connection.execute(_COUNTED, (*row, Status.ERROR, word, status, status, move.no))
    connection.execute(_FAILED, (move.no,))
    message = _MESSAGES[fate].format(move.target if fault else way.end)[:1024]
    connection.execute(_NOTE_ERROR, (message, move.no))
    event = (move.no, ending.run, ending.now, Status.ERROR, old.standing, word, status, message)
    connection.execute(EVENT, event)


def _meet_wall(connection: Connection, ending: EndingRunRow, old: _Old) -> None:
    """Fail a page without content whose redirect leads to a login form; it does not age."""
    move, status = old.move, Status.ERROR
    row = (*old.counts, status, Word.FAILED, int(Fault.LOGIN), move.http_status, move.no)
    connection.execute(_COUNTED, row)
    connection.execute(_FAILED, (move.no,))
    message = f"redirected to a login form: {move.target}"[:1024]
    connection.execute(_NOTE_ERROR, (message, move.no))
    if old.status is not status:
        event = (move.no, ending.run, ending.now, status, old.standing, Word.FAILED)
        connection.execute(EVENT, (*event, int(Fault.LOGIN), message))


def _canonicals(
    connection: Connection,
    ending: EndingRunRow,
    walled: WalledRows,
    hops: dict[int, int | None],
    notes: list[str],
) -> list[Proposal]:
    """Propose the removal of pages whose canonical pages are indexed.

    An alias whose canonical page is not indexed is downloaded again.
    """
    rows: list[Any] = connection.execute(_NAMES, ending.names).fetchall()
    if not rows:
        return []
    pages = int(connection.execute(_HELD_COUNT, ending.names).get)
    least = ending.closing.min_count
    flooded = flooding_canonicals(Counter(row[1] for row in rows), pages, min_count=least)
    named = {row[1] for row in rows}
    urls: dict[int, str] = {}
    urls.update(connection.execute(_URLS, (numbers_for_sql(named),)).fetchall())
    notes += [f"canonical_ignored: {urls[no]} is named by too many pages" for no in sorted(flooded)]
    leads = hops | {row[0]: row[1] for row in rows if row[1] not in flooded}
    ends = {*named, *(no for no in leads.values() if no is not None)}
    indexed = _those(connection, _INDEXED_PAGES, ending.run, ends) - walled.walls
    proposed: list[Proposal] = []
    alone: list[int] = []
    for no, target, standing, answered in rows:
        if standing == Standing.LINKS:
            if not row_leads_to_indexed_record(connection, target, no):
                alone.append(no)
        elif answered and target not in flooded:
            final = canonical_after_moves(no, leads, indexed)
            if final is not None:
                detail = {"canonical": urls[target], "canonicalNo": final}
                proposed.append((no, RemovalRule.CANONICAL, detail))
    connection.execute(_ASK_ANEW, (numbers_for_sql(alone),))
    connection.execute(_DUE, (numbers_for_sql(alone),))
    return proposed
