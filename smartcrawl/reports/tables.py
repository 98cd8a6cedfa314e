"""Tables of records and runs, row by row, in constant memory."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import url_content_group, url_digest_text, url_item_id
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.names import OUTCOME, stored_page_counts
from smartcrawl.rules.model import RunState, Status, Word

_COMPLETE = "SELECT source, no FROM run WHERE complete ORDER BY source, no"
#: Columns of "IngestItems" that are not computed from the id.
_FIELDS = (
    "PartitionKey", "ETag", "type", "normalizedSource", "displaySource", "sourceHost",
    "parentPageId", "status", "reindexRequested", "reindexGeneration", "httpEtag",
    "httpLastModified", "httpContentLength", "httpStatusCode", "httpRedirectChain",
    "httpRobotsAllowed", "httpCanonicalUrl", "fileEtag", "fileLastModified", "fileLength",
    "fileContentType", "contentHash", "textHash", "language", "mimeType", "lastIndexedDocId",
    "imageCount", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "crawlAttempts",
    "errorMessage", "nextCrawlAt", "crawlIntervalSeconds",
)  # fmt: skip
_RECORD = f"""
SELECT r.id, r.url, o.name, s.http_status, s.effective_status, r.last_modified, r.body_hash,
       s.lost_count, s.gone_count, s.seen_run, s.depth, d.url, r.canonical_url, s.outcome,
       s.reached_run, s.visited_run, r.source, s.standing, m.url,
       {", ".join(f'e."{name}"' for name in _FIELDS)}
  FROM record r
  JOIN ingest_entity e USING (no)
  JOIN state s USING (no)
  JOIN source o ON o.no = r.source
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record d ON d.no = r.duplicate_of
  LEFT JOIN record m ON m.no = r.moved_from
"""
_ONE = f"{_RECORD} WHERE r.no = ?"
_RECORDS = f"""
{_RECORD}
 WHERE (:every OR o.name IN carray(:sources))
   AND (:status IS NULL OR s.status = :status)
   AND (:outcome IS NULL OR {OUTCOME} = :outcome)
   AND (NOT :no_text OR c.text_length = 0)
   AND (NOT :sitemaps OR r.kind > 0)
   AND (NOT :dead OR r.no IN (SELECT no FROM dead_letter))
 ORDER BY r.no
"""
_OWN = 19  #: columns before those of the view
#: The place before a formula: at the beginning, and where a spreadsheet may begin another cell.
_FORMULA: Final = re.compile(r"\A(?=[=+\-@\t\r\n])|(?<=[;\t\r\n])(?=[=+\-@])")
_RUNS = """
SELECT r.no, o.name, r.state, r.complete, r.reasons, r.started_at, r.finished_at, r.requests,
       r.conditional_requests, r.not_modified, r.bytes_downloaded, r.bytes_saved, r.counts,
       r.removed, r.withheld, r.notes, r.due, r.reextracted, r.embedded, r.owed,
       (SELECT count(*) FROM evidence e WHERE e.run = r.no AND e.undone IS NOT NULL),
       r.data_requests, r.renderings, r.held, r.words
  FROM run r JOIN source o ON o.no = r.source
 WHERE (:every OR o.name IN carray(:sources)) AND (:any OR r.no = :run)
 ORDER BY r.no DESC LIMIT :most
"""
_ALL = 1 << 62  #: runs
RECORD_KEYS = (
    "id", "url", "source", "status", "httpStatusCode", "effectiveStatus", "httpEtag",
    "httpLastModified", "contentHash", "textHash", "bodyHash", "lostCount", "goneCount",
    "orphanAge", "depth", "duplicateOf", "canonicalUrl", "lastOutcome", "reachedRun",
    "visitedRun", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "nextCrawlAt",
    "errorMessage", "contentGroupId",
    "PartitionKey", "RowKey", "ETag", "type", "normalizedSource", "displaySource", "sourceHost",
    "parentPageId", "reindexRequested", "reindexGeneration", "httpContentLength",
    "httpRedirectChain", "httpRobotsAllowed", "httpCanonicalUrl", "fileEtag", "fileLastModified",
    "fileLength", "fileContentType", "language", "mimeType", "lastIndexedDocId", "imageCount",
    "crawlAttempts", "crawlIntervalSeconds", "lastStatusCode", "lastModifiedReceived",
    "movedFrom",
)  # fmt: skip
RUN_KEYS = (
    "run", "source", "state", "complete", "reasons", "startedAt", "finishedAt", "requests",
    "conditionalRequests", "notModified", "bytesDownloaded", "bytesSaved", "removed", "withheld",
    "notes", "due", "reextracted", "embedded", "owed", *(word.word for word in Word),
    "restored", "dataRequests", "renderings", "held",
)  # fmt: skip


def record_table_report(
    connection: Connection,
    *,
    sources: Sequence[str] = (),
    status: Status | None = None,
    outcome: Word | None = None,
    no_text: bool = False,
    sitemaps: bool = False,
    dead: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield every record, in order of discovery, with every field of "IngestItems" and more.

    ``outcome``: only records with this last outcome; ``no_text``: only stored pages without text;
    ``sitemaps``: only sitemaps and feeds; ``dead``: only pages that a remote index refused.
    """
    complete: defaultdict[int, list[int]] = defaultdict(list)
    row: Any
    for row in connection.execute(_COMPLETE):
        complete[row[0]].append(row[1])
    names = {
        "sources": Many(sources),
        "every": not sources,
        "status": status,
        "outcome": outcome,
        "no_text": no_text,
        "sitemaps": sitemaps,
        "dead": dead,
    }
    for row in connection.execute(_RECORDS, names):
        runs = complete[row[16]]  # ascending
        yield _record(row, len(runs) - bisect_right(runs, row[9]) if row[17] > 0 else 0)


def record_table_report_row(connection: Connection, number: int, age: int) -> dict[str, Any]:
    """Return one record under RECORD_KEYS; ``age`` is its orphanAge."""
    row: Any = connection.execute(_ONE, (number,)).fetchone()
    return _record(row, age)


def _record(row: Sequence[Any], age: int) -> dict[str, Any]:
    """Format a row of _RECORD under RECORD_KEYS."""
    key: bytes = row[0]
    fields = dict(zip(_FIELDS, row[_OWN:], strict=True))
    robots = fields["httpRobotsAllowed"]
    values = fields | {
        "id": url_item_id(url_item_kind(row[1]), key),
        "RowKey": url_digest_text(key),
        "reindexRequested": bool(fields["reindexRequested"]),
        "httpRobotsAllowed": None if robots is None else bool(robots),
        "httpRedirectChain": _compact(fields["httpRedirectChain"]),
        "url": row[1],
        "source": row[2],
        "lastStatusCode": row[3],
        "effectiveStatus": row[4],
        "lastModifiedReceived": row[5],
        "bodyHash": _hash(row[6]),
        "lostCount": row[7],
        "goneCount": row[8],
        "orphanAge": age,
        "depth": row[10],
        "duplicateOf": row[11],
        "canonicalUrl": row[12],
        "lastOutcome": _word(row[13], clone=row[11] is not None),
        "reachedRun": row[14] or None,
        "visitedRun": row[15] or None,
        "movedFrom": row[18],
        "contentGroupId": url_content_group(row[12] or row[1]),
    }
    return {name: values[name] for name in RECORD_KEYS}


def report_row_for_spreadsheet(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for a spreadsheet: no text is taken for a formula (ATT-21).

    >>> report_row_for_spreadsheet({"a": "=1+1", "b": "a=1", "c": -1})
    {'a': "'=1+1", 'b': 'a=1', 'c': -1}
    """
    return {
        key: text_for_spreadsheet(value) if isinstance(value, str) else value
        for key, value in row.items()
    }


def text_for_spreadsheet(text: str) -> str:
    """Return a text with a quote before each part that a spreadsheet may take for a formula.

    Programs that divide lines at semicolons or tabs find a cell behind each of them.

    >>> text_for_spreadsheet("=1+1"), text_for_spreadsheet("a;=HYPERLINK(1)")
    ("'=1+1", "a;'=HYPERLINK(1)")
    """
    return _FORMULA.sub("'", text)


def _compact(chain: str | None) -> str | None:
    """Return a JSON array in one spelling: databases differ in their spaces."""
    return None if chain is None else json.dumps(json.loads(chain), separators=(",", ":"))


def run_table_report(
    connection: Connection,
    *,
    sources: Sequence[str] = (),
    run: int | None = None,
    most: int | None = None,
    scans: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield every run, newest first, with one count for each ``lastOutcome`` word.

    ``run``: run.no of the only one; None: all. ``most``: the number of runs; None: all. ``scans``:
    whether the pages of a run that did not reach its end are counted by a scan, which knows
    clones; else by the counts that the run itself has kept.
    """
    row: Any
    chosen = {
        "sources": Many(sources),
        "every": not sources,
        "any": run is None,
        "run": run or 0,
        "most": _ALL if most is None else most,
    }
    for row in connection.execute(_RUNS, chosen).fetchall():
        counts = json.loads(row[12])
        if not counts:
            counts = stored_page_counts(connection, row[0]) if scans else json.loads(row[24])
        values = (
            *row[:2],
            RunState(row[2]).word,
            bool(row[3]),
            json.loads(row[4]),
            *map(iso_time, row[5:7]),
            *row[7:12],
            *row[13:15],
            json.loads(row[15]),
            bool(row[16]),
            *row[17:20],
            *(counts.get(word.word, 0) for word in Word),
            *row[20:24],
        )
        yield dict(zip(RUN_KEYS, values, strict=True))


def _hash(value: bytes | None) -> str | None:
    return f"sha256:{value.hex()}" if value is not None else None


def _word(code: int | None, *, clone: bool) -> str | None:
    if code is None:
        return None
    word = Word(code)
    return Word.CLONE.word if clone and word in (Word.NEW, Word.MODIFIED) else word.word
