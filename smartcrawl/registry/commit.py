"""Writing one batch: outcomes, links, content, index and new addresses, all or nothing."""

from __future__ import annotations

from array import array
from collections import defaultdict

import apsw

from smartcrawl.exceptions import RegistryError
from smartcrawl.items import Batch, Visit
from smartcrawl.ports import Sink
from smartcrawl.registry.clones import MIN_CLONE_TEXT, elect
from smartcrawl.registry.pack import pack_document
from smartcrawl.rules.model import Action, Outcome, Standing, Status, Word
from smartcrawl.rules.reindex import effective_status, status_after
from smartcrawl.urls import display

_HOST = "INSERT INTO host (name, display) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_HOST_TALLY = """
UPDATE host SET pages_crawled = pages_crawled + :crawled, pages_failed = pages_failed + :failed,
       bytes_downloaded = bytes_downloaded + :bytes, response_ms = response_ms + :response_ms,
       first_crawled_at = CASE WHEN :crawled + :failed > 0
                               THEN coalesce(first_crawled_at, :now) ELSE first_crawled_at END,
       last_crawled_at = CASE WHEN :crawled + :failed > 0 THEN :now ELSE last_crawled_at END,
       robots_fetched_at = CASE WHEN :robots IS NULL THEN robots_fetched_at ELSE :now END,
       robots_hash = coalesce(:robots, robots_hash)
 WHERE name = :name
"""
_RECORD = """
INSERT INTO record (no, source, id, url, identity, host, discovered_from, first_run, first_seen)
VALUES (?, ?, ?, ?, ?, (SELECT no FROM host WHERE name = ?), ?, ?, ?)
"""
_STATE = "INSERT INTO state (no, reached_run, depth) VALUES (?, ?, ?)"
#: The smallest depth counts while the page stays reached; a forced run measures anew (M-24).
_REACHED = """
UPDATE state
   SET depth = CASE WHEN reached_run = :run OR (reached_run >= :since AND NOT :forced)
                    THEN min(depth, :depth) ELSE :depth END,
       reached_run = :run
 WHERE no IN carray(:numbers)
"""
_TOUCHED = """
UPDATE state
   SET visited_run = :run, seen_run = :run, number = :number, last_checked = :now,
       status = CASE standing WHEN 2 THEN 2 ELSE 1 END,
       outcome = CASE standing WHEN 2 THEN 3 ELSE 10 END,
       http_status = 304, lost_count = 0, gone_count = 0, error_count = 0,
       unchanged_count = unchanged_count + 1, attempts = attempts + 1
 WHERE no IN carray(:numbers) AND number < :number AND standing > 0
"""
_RETARGET = "UPDATE links SET scope = ?, targets = ? WHERE no = ?"
_VISITED = """
UPDATE state
   SET visited_run = :run, seen_run = CASE WHEN :allowed THEN :run ELSE seen_run END,
       number = :number, last_checked = :now, status = :status, standing = :standing,
       outcome = :outcome, http_status = coalesce(:http_status, http_status),
       effective_status = :effective_status,
       lost_count = CASE WHEN :answered THEN 0 ELSE lost_count END,
       gone_count = CASE WHEN :answered THEN 0 ELSE gone_count END,
       unchanged_count = CASE WHEN :unchanged THEN unchanged_count + 1 ELSE 0 END,
       error_count = CASE WHEN :failed THEN error_count + 1 ELSE 0 END, attempts = attempts + 1
 WHERE no = :no AND number < :number
"""
_ADDRESS = "UPDATE record SET url = ?, identity = coalesce(identity, ?) WHERE no = ? AND url <> ?"
_CONTENT = """
INSERT INTO content (source, content_hash, text_hash, text_length, title, description,
                     language, charset, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, content_hash) DO NOTHING RETURNING no
"""
_AGAIN = "UPDATE content SET document = ? WHERE no = ?"
_CONTENT_NO = "SELECT no FROM content WHERE source = ? AND content_hash = ?"
_INDEXED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified, content = :content, content_hash = NULL,
       text_hash = NULL, body_hash = :body_hash, content_type = :content_type,
       content_length = :content_length, content_encoding = :content_encoding,
       configuration = :configuration, canonical_url = :canonical, error_message = NULL,
       redirect_target = NULL, redirect_no = NULL, last_indexed = :now,
       last_changed = CASE WHEN :same THEN last_changed ELSE :now END,
       changed_run = CASE WHEN :same THEN changed_run ELSE :run END,
       duplicate_of = CASE WHEN :same THEN duplicate_of ELSE :clone_of END
 WHERE no = :no
"""
#: A newcomer to a group that has an original starts as its clone; elect() has the last word.
_ORIGINAL = """
SELECT r.no FROM record r JOIN content c ON c.no = r.content
 WHERE r.content = :content AND r.duplicate_of IS NULL AND r.no <> :no
   AND (c.text_length >= :least OR (c.text_length > 0 AND r.body_hash = :body_hash)) LIMIT 1
"""
_LISTED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified, content_hash = :content_hash,
       text_hash = :text_hash, body_hash = :body_hash, content_type = :content_type,
       content_length = :content_length, content_encoding = :content_encoding,
       configuration = :configuration, canonical_url = :canonical, error_message = :error,
       redirect_target = NULL, redirect_no = NULL,
       last_changed = CASE WHEN body_hash IS :body_hash THEN last_changed ELSE :now END
 WHERE no = :no
"""
_RENEWED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified,
       error_message = CASE WHEN :keep_message THEN error_message END,
       canonical_url = CASE WHEN :read THEN :canonical ELSE canonical_url END,
       redirect_target = NULL, redirect_no = NULL,
       body_hash = coalesce(:body_hash, body_hash),
       content_length = coalesce(:content_length, content_length),
       configuration = coalesce(:configuration, configuration)
 WHERE no = :no
"""
_NOTED = """
UPDATE record SET error_message = ?, redirect_target = ?, redirect_no = ? WHERE no = ?
"""
_LINKS = """
INSERT INTO links (no, scope, count, targets, raw) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET scope = excluded.scope, count = excluded.count, targets = excluded.targets,
       raw = excluded.raw
"""
_HELD_BY = "SELECT 1 FROM record WHERE content = ? LIMIT 1"
_DROP_CONTENT = "DELETE FROM content WHERE no = ?"
_COUNTS = """
UPDATE run
   SET visits = visits + :visits, unreachable = unreachable + :unreachable,
       requests = requests + :requests,
       conditional_requests = conditional_requests + :conditional_requests,
       not_modified = not_modified + :not_modified,
       bytes_downloaded = bytes_downloaded + :bytes_downloaded,
       bytes_saved = bytes_saved + :bytes_saved
 WHERE no = :run AND state = 0
"""
_COUNTED = (
    "visits",
    "unreachable",
    "requests",
    "conditional_requests",
    "not_modified",
    "bytes_downloaded",
    "bytes_saved",
)
_CLEARS_COUNTS = frozenset(
    {
        Outcome.NOT_MODIFIED,
        Outcome.SAME,
        Outcome.CHANGED,
        Outcome.NOT_ACCEPTABLE,
        Outcome.REDIRECT,
    }
)


def _displayed(host: str) -> str | None:
    """Return a host in Unicode, or None when that is no other spelling (R0-19)."""
    shown = display(f"http://{host}").removeprefix("http://")
    return shown if shown != host else None


class Commit:
    """Writes batches of one run over one connection; the caller opens the transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        sink: Sink,
        *,
        run: int,
        source: int,
        number: int,
        since: int,
        forced: bool,
        configuration: int,
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._run = run
        self._source = source
        self._number = number
        self._since = since
        self._forced = forced
        self._configuration = configuration

    def write(self, batch: Batch, now: int) -> int:
        """Write a batch; return how many of its visits were stale and therefore dropped.

        Raises:
            RegistryError: the run is not open any more; nothing may be written to it.
        """
        counts = {name: batch.counts[name] for name in _COUNTED}
        self._connection.execute(_COUNTS, {**counts, "run": self._run})
        if not self._connection.changes():
            raise RegistryError(
                f"run {self._run} was closed by somebody else while this process worked for it;"
                " start the crawl again"
            )
        self._write_hosts(batch, now)
        self._write_addresses(batch, now)
        stale = self._write_touched(batch, now)
        changed: set[int] = set()
        for visit in batch.visits:
            if not self._write_visit(visit, now, changed):
                stale += 1
        if changed:
            elect(self._connection, self._run, sorted(changed), midway=True)
        self._sink.flush()
        return stale

    def _write_hosts(self, batch: Batch, now: int) -> None:
        names = {address.host for address in batch.addresses} | batch.hosts.keys()
        self._connection.executemany(_HOST, [(name, _displayed(name)) for name in sorted(names)])
        for name, tally in batch.hosts.items():
            values = {
                "name": name,
                "now": now,
                "crawled": tally.crawled,
                "failed": tally.failed,
                "bytes": tally.downloaded,
                "response_ms": tally.response_ms,
                "robots": tally.robots,
            }
            self._connection.execute(_HOST_TALLY, values)

    def _write_addresses(self, batch: Batch, now: int) -> None:
        run, source = self._run, self._source
        self._connection.executemany(
            _RECORD,
            [(a.no, source, a.id, a.url, a.identity, a.host, a.discovered_from, run, now)
             for a in batch.addresses],
        )  # fmt: skip
        self._connection.executemany(_STATE, [(a.no, run, a.depth) for a in batch.addresses])
        by_depth: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        for number in sorted(batch.reached):
            by_depth[batch.reached[number]].append(number)
        names = {"run": run, "since": self._since, "forced": self._forced}
        for depth, numbers in by_depth.items():
            values = {**names, "depth": depth, "numbers": apsw.carray(numbers)}
            self._connection.execute(_REACHED, values)

    def _write_touched(self, batch: Batch, now: int) -> int:
        rows = [(scope, targets, no) for no, scope, targets in sorted(batch.retargeted)]
        self._connection.executemany(_RETARGET, rows)
        if not batch.touched:
            return 0
        values = {
            "run": self._run,
            "number": self._number,
            "now": now,
            "numbers": apsw.carray(array("q", sorted(batch.touched))),
        }
        self._connection.execute(_TOUCHED, values)
        return len(batch.touched) - self._connection.changes()

    def _write_visit(self, visit: Visit, now: int, changed: set[int]) -> bool:
        page, action, outcome = visit.page, visit.action, visit.outcome
        word = visit.verdict.word if visit.verdict else Word.FAILED
        standing = {Action.INDEX: Standing.HELD, Action.LIST: Standing.LINKS}.get(
            action, page.standing
        )
        status: Status = status_after(action, outcome, page.status, standing)
        values = {
            "run": self._run,
            "allowed": outcome is not Outcome.EXCLUDED,
            "number": self._number,
            "now": now,
            "status": status,
            "standing": standing,
            "outcome": word,
            "http_status": visit.http_status,
            "effective_status": effective_status(
                action, outcome, visit.http_status, page.effective_status
            ),
            "answered": outcome in _CLEARS_COUNTS,
            "unchanged": action is Action.TOUCH,
            "failed": status is Status.ERROR,
            "no": page.no,
        }
        self._connection.execute(_VISITED, values)
        if not self._connection.changes():
            return False
        # What is held keeps the spelling that gave it: validators belong to that one (RD-03).
        if visit.url != page.url and action is not Action.HOLD:
            self._connection.execute(_ADDRESS, (visit.url, page.url, page.no, visit.url))
        match action:
            case Action.INDEX:
                self._index(visit, now, changed)
            case Action.LIST:
                self._connection.execute(_LISTED, self._fields(visit, now))
            case Action.TOUCH:
                self._connection.execute(_RENEWED, self._renewal(visit))
                if page.content is not None and visit.body_hash not in (None, page.body_hash):
                    changed.add(page.content)  # short pages are clones by their bytes
            case Action.NOTE | Action.HOLD:
                redirect = visit.targets and outcome is Outcome.REDIRECT
                number = array("I", visit.targets)[0] if redirect else None
                self._connection.execute(_NOTED, (visit.error, visit.location, number, page.no))
        if visit.links is not None and action is not Action.HOLD:
            row = (page.no, visit.scope, visit.links_count, visit.targets, visit.links)
            self._connection.execute(_LINKS, row)
        return True

    def _fields(self, visit: Visit, now: int) -> dict[str, object]:
        document = visit.document
        return {
            "no": visit.page.no,
            "now": now,
            "etag": visit.etag,
            "last_modified": visit.last_modified,
            "content_hash": visit.content_hash,
            "text_hash": visit.text_hash,
            "body_hash": visit.body_hash,
            "content_type": visit.content_type or None,
            "content_length": visit.content_length,
            "content_encoding": visit.content_encoding,
            "configuration": self._configuration,
            "canonical": document.canonical if document else None,
            "error": visit.error,
        }

    def _renewal(self, visit: Visit) -> dict[str, object]:
        fresh, page = visit.outcome is Outcome.SAME, visit.page
        return {
            "no": page.no,
            "read": visit.document is not None,
            "canonical": visit.document.canonical if visit.document else None,
            "keep_message": page.standing is Standing.LINKS and page.status is Status.CRAWLED,
            "etag": visit.etag,
            "last_modified": visit.last_modified,
            "body_hash": visit.body_hash,
            "content_length": visit.content_length if fresh else None,
            "configuration": self._configuration if fresh else None,
        }

    def _index(self, visit: Visit, now: int, changed: set[int]) -> None:
        page = visit.page
        content = self._content(visit)
        same = content == page.content
        fields = self._fields(visit, now)
        fields |= {
            "run": self._run,
            "content": content,
            "same": same,
            "clone_of": self._connection.execute(
                _ORIGINAL,
                {
                    "content": content,
                    "no": page.no,
                    "least": MIN_CLONE_TEXT,
                    "body_hash": visit.body_hash,
                },
            ).get,
        }
        self._connection.execute(_INDEXED, fields)
        if same:
            return
        changed.add(content)
        if page.content is not None:
            if self._connection.execute(_HELD_BY, (page.content,)).get:
                changed.add(page.content)
            else:
                self._sink.remove(page.content)
                self._connection.execute(_DROP_CONTENT, (page.content,))
                changed.discard(page.content)

    def _content(self, visit: Visit) -> int:
        """Return the number of the content row, written now if its hash is new."""
        document = visit.document
        assert document is not None, "INDEX needs a document"
        row = (
            self._source,
            visit.content_hash,
            visit.text_hash,
            len(document.text),
            document.title,
            document.description,
            document.language,
            document.charset,
            pack_document(document),
        )
        number: int | None = self._connection.execute(_CONTENT, row).get
        if number is None:
            number = int(self._connection.execute(_CONTENT_NO, row[:2]).get)
            if number != visit.page.content:
                return number  # another page brought it: a clone needs no entry of its own
            self._sink.remove(number)  # processed again: by force, or by another extraction
            self._connection.execute(_AGAIN, (row[-1], number))
        self._sink.put(number, document.title, visit.chunks)
        return number
