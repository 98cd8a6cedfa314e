"""The story of one address, as data (``smartcrawl why``)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import (
    Trackers,
    display_url,
    normalize_url,
    request_url,
    url_digest,
    url_item_id,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.items import pending_pins_of
from smartcrawl.registry.names import stored_source_names
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_links, unpack_stored_numbers
from smartcrawl.registry.removal.candidates import OUT_OF_SCOPE, verified_orphan_rows
from smartcrawl.registry.removal.purge import KnownRecord, known_record_rows, known_request_url
from smartcrawl.registry.rendered import count_page_needs
from smartcrawl.registry.runs.runs import last_run_row
from smartcrawl.registry.spellings import stored_spelling_story
from smartcrawl.reports.changes import reported_modifications
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.tables import record_table_report_row
from smartcrawl.reports.text import report_noun
from smartcrawl.reports.today import (
    ReportedRecord,
    ReportedRuns,
    TodayReport,
    is_reported_library,
    is_reported_page_listed,
    reason_without_source,
    reported_facts,
    reported_last_settled,
    reported_proposal,
    reported_reasons,
    reported_records,
    reported_runs,
    reported_source_today,
    reported_sources_today,
)
from smartcrawl.reports.vectors import reported_store_files_of_page, reported_vectors_of_page
from smartcrawl.rules.data_requests import confirmed_by
from smartcrawl.rules.depth import DepthLimits
from smartcrawl.rules.forecast import forecast_outcome, forecast_ways
from smartcrawl.rules.http import (
    http_conditional_headers,
    is_coded_etag,
    reason_against_http_validators,
)
from smartcrawl.rules.model import (
    Action,
    Fault,
    Outcome,
    RemovalRule,
    RunState,
    Standing,
    Status,
    Word,
)
from smartcrawl.rules.reindex import decide, waits_for_browser
from smartcrawl.rules.rendering import NO_BROWSER
from smartcrawl.rules.seal import ordered_depth
from smartcrawl.sources.base import Source, source_refusals
from smartcrawl.sources.scope import Scope

SHOWN: Final = 20  #: links and clones that are listed

_FOUND = """
SELECT r.first_run, r.first_seen, f.url
  FROM record r LEFT JOIN record f ON f.no = r.discovered_from WHERE r.no = ?
"""
_EVENTS = """
SELECT run, at, status, standing, outcome, http_status, detail FROM event WHERE record = ?
 ORDER BY no
"""
_EVIDENCE = """
SELECT run, at, rule, detail, undone, restore IS NOT NULL FROM evidence WHERE record = ? ORDER BY no
"""
_TARGETS = """
SELECT l.no, l.scope, l.count, l.targets FROM links l JOIN record r USING (no) WHERE r.source = ?
"""
_RAW = "SELECT raw FROM links WHERE no = ?"
_LEADS = "SELECT no FROM record WHERE source = ? AND (redirect_no = ? OR canonical_no = ?)"
_URLS = "SELECT url FROM record WHERE no IN carray(?) ORDER BY no"
_STATE_OF = """
SELECT s.status, s.standing = 2 AND s.lost_count = 0 FROM record r JOIN state s USING (no)
 WHERE r.source = ? AND r.id = ?
"""
_CLONES = """
SELECT m.url FROM record r JOIN record m ON m.content = r.content AND m.no <> r.no
 WHERE r.no = ? AND (m.duplicate_of = coalesce(r.duplicate_of, r.no) OR m.no = r.duplicate_of)
 ORDER BY m.no
"""
_CHAIN = "SELECT chain FROM redirect_chain WHERE no = ?"
_PIN = "SELECT at FROM pin WHERE no = ?"
_TEXT = "SELECT c.text_length FROM record r JOIN content c ON c.no = r.content WHERE r.no = ?"
_TIMES = ("since", "firstSeen")  #: keys of evidence


def reported_story_record(connection: Connection, number: int, age: int) -> dict[str, Any]:
    """Return the row of ``registry`` for a record, with the page that first linked to it."""
    found: Any = connection.execute(_FOUND, (number,)).fetchone()
    return record_table_report_row(connection, number, age) | {"discoveredFrom": found[2]}


def reported_story_events(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Return the events of a record, oldest first."""
    run, at, _ = connection.execute(_FOUND, (number,)).fetchone()
    events: list[dict[str, Any]] = [_happened("discovered", run, at)]
    removed: dict[tuple[int, int, str], dict[str, Any]] = {}
    row: Any
    for row in connection.execute(_EVIDENCE, (number,)):
        rule = RemovalRule(row[2]).word
        more = {
            "rule": rule,
            "found": reported_evidence_times(json.loads(row[3])),
            "restorable": bool(row[5]) and row[4] is None,
            "undoneAt": iso_time(row[4]),
        }
        removed[row[0], row[1], rule] = more
    for row in connection.execute(_EVENTS, (number,)):
        run, at, status, standing, word, http_status, detail = row
        evidence = removed.pop((run, at, detail), None)
        what = "removed" if evidence else "changed"
        if detail is not None and str(detail).startswith("restored"):
            what = "restored"
        elif http_status == Fault.SNAPSHOT:
            what = "not extracted again"
        events.append(
            _happened(what, run, at)
            | {
                "status": Status(status).word,
                "standing": Standing(standing).name.lower(),
                "lastOutcome": None if word is None else Word(word).word,
                "httpStatusCode": http_status,
                "detail": detail,
            }
            | (evidence or {})
        )
    return events


def reported_evidence_times(found: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a removal with its times as ISO 8601."""
    return {key: iso_time(value) if key in _TIMES else value for key, value in found.items()}


def _happened(what: str, run: int, at: int) -> dict[str, Any]:
    return {"event": what, "run": run, "at": iso_time(at)}


def reported_links_in(
    connection: Connection, source: int, number: int, key: bytes, trackers: Trackers
) -> tuple[int, list[str]]:
    """Return the number of pages of the source that lead to a record, and the first of them."""
    found = reported_leading_pages(connection, source, number, key, trackers=trackers)
    first = numbers_for_sql(found.pages[:SHOWN])
    return len(found.pages), [str(url) for (url,) in connection.execute(_URLS, (first,))]


class LeadingPages(NamedTuple):
    """The pages that lead to a record, by their links, redirects or canonical links."""

    pages: list[int]  #: record.no of each, ascending
    whole: bool  #: whether the links of every page of the source were read


def reported_leading_pages(
    connection: Connection,
    source: int,
    number: int,
    key: bytes,
    *,
    trackers: Trackers,
    most: int | None = None,
) -> LeadingPages:
    """Return the pages of a source that lead to a record.

    ``most``: the number of pages whose links are read, since each costs time; None: all.
    """
    whole = True
    needle = array("I", [number]).tobytes()
    found: set[int] = set()
    row: Any
    rows: Any = connection.execute(_TARGETS, (source,))
    for read, (no, scope, count, targets) in enumerate(rows):
        if read == most:
            whole = False
            break
        if scope == 0 and count:  # restored: its numbers are computed by the next run
            raw: Any = connection.execute(_RAW, (no,)).get
            urls = (link.url for link in unpack_stored_links(raw))
            if any(url_digest(normalize_url(url, trackers)) == key for url in urls):
                found.add(int(str(no)))
        elif needle in targets and number in unpack_stored_numbers(targets):
            found.add(int(str(no)))
    for row in connection.execute(_LEADS, (source, number, number)):
        found.add(row[0])
    found.discard(number)
    return LeadingPages(sorted(found), whole)


def reported_links_out(
    connection: Connection, source: int, number: int, scope: Scope | None, trackers: Trackers
) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of links of a record, and the first of them with their status."""
    raw: Any = connection.execute(_RAW, (number,)).get
    if raw is None:
        return 0, []
    links = unpack_stored_links(raw)
    shown = []
    for link in links[:SHOWN]:
        key = url_digest(normalize_url(link.url, trackers))
        row: Any = connection.execute(_STATE_OF, (source, key)).fetchone()
        shown.append(
            {
                "url": link.url,
                "type": link.type,
                "nofollow": link.nofollow,
                "inScope": None if scope is None else scope.allows(link.url),
                "status": None if row is None else Status(row[0]).word,
            }
        )
    return len(links), shown


def reported_clones(connection: Connection, number: int) -> list[str]:
    """Return the addresses of the pages with the same content as a record."""
    return [str(url) for (url,) in connection.execute(_CLONES, (number,))]


def reported_redirect_chain(connection: Connection, number: int) -> list[str]:
    """Return the addresses of a redirect chain, the record first; empty for other pages."""
    chain: Any = connection.execute(_CHAIN, (number,)).get
    return json.loads(chain) if chain is not None else []


def reported_spellings(connection: Connection, number: int, request: str) -> dict[str, Any]:
    """Return the spellings of an address, and what each answered when several were asked last."""
    found = stored_spelling_story(connection, number)
    return {
        "request": request,
        "others": found.urls,
        "tried": [
            {"url": url, "httpStatusCode": status, "message": message}
            for url, status, message in found.tried
        ],
        "run": found.run or None,
        "at": iso_time(found.at),
    }


def reported_pinned_at(connection: Connection, number: int) -> int | None:
    """Return the time (Unix seconds) at which a record was pinned; None if it is not."""
    value: Any = connection.execute(_PIN, (number,)).get
    return None if value is None else int(value)


def reported_text_length(connection: Connection, number: int) -> int | None:
    """Return the number of characters of a stored text; 0: it has none; None: nothing is stored."""
    value: Any = connection.execute(_TEXT, (number,)).get
    return None if value is None else int(value)


def reported_pending_pins(
    connection: Connection, key: bytes, sources: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the sources for whose next run an address waits."""
    return [
        {"source": source, "at": iso_time(at), "priority": priority}
        for source, at, priority in pending_pins_of(connection, key, sources)
    ]


_KNOWN = """
SELECT r.no, o.name, r.url FROM record r JOIN source o ON o.no = r.source WHERE r.id = ?
"""


class NearRecord(NamedTuple):
    """A record whose address is nearly the one that was looked for."""

    no: int
    source: str
    url: str


def reported_near_misses(connection: Connection, url: str, trackers: Trackers) -> list[str]:
    """Return known addresses that differ from ``url`` in scheme, slash or www. only."""
    return list(
        dict.fromkeys(near.url for near in reported_near_records(connection, url, trackers))
    )


def reported_near_records(connection: Connection, url: str, trackers: Trackers) -> list[NearRecord]:
    """Return the records whose addresses differ from ``url`` in scheme, slash or www. only."""
    known = request_url(url) or request_url(f"https://{url}")
    if known is None:
        return []
    scheme, _, rest = known.partition("://")
    host, _, path = rest.partition("/")
    other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    paths: Sequence[str] = (path, path.rstrip("/"), f"{path}/", path.partition("?")[0])
    found: dict[NearRecord, None] = {}
    for way in (scheme, "http" if scheme == "https" else "https"):
        for name in (host, other):
            for tail in paths:
                key = url_digest(normalize_url(f"{way}://{name}/{tail}", trackers))
                row: Any
                for row in connection.execute(_KNOWN, (key,)):
                    found[NearRecord(*row)] = None
    return list(found)


_LISTING: Final = "listing: "  #: before a part among the reasons that a run is incomplete
_LAST: Final = """
SELECT r.no, r.reasons, r.cut FROM run r JOIN source o ON o.no = r.source
 WHERE o.name = ? AND r.finished_at IS NOT NULL ORDER BY r.no DESC LIMIT 1
"""


class UnlistedParts(NamedTuple):
    """The parts that the listing of the last ended run of a source lacks."""

    run: int
    parts: tuple[str, ...]  #: ``PLACE (why)`` of each

    @classmethod
    def of(cls, connection: Connection, source: str) -> Self | None:
        """Read them; None: the last run ended without a failed part, or there is no such run."""
        row: Any = connection.execute(_LAST, (source,)).fetchone()
        if row is None:
            return None
        reasons = [*json.loads(row[1]), *json.loads(row[2]).get("reasons", ())]
        parts = _parts_of(reasons)
        return cls(row[0], parts) if parts else None

    def as_data(self, entry: ReportedRecord | None, url: str) -> dict[str, Any]:
        """Return run, parts and meaning for one address; ``entry``: its record, if it has one."""
        text = _meaning(self, entry, url)
        return {"run": self.run, "parts": list(self.parts), "text": text}

    def holds(self, url: str) -> bool:
        """Whether an address may be in one of the parts.

        Parts of folders and buckets are those above it. Repositories and libraries have one part.

        >>> lacking = UnlistedParts(2, ("/docs/a (b) (refused)", "s3://bucket/x/ (no answer)"))
        >>> [lacking.holds(url) for url in ("file:///docs/a%20(b)/c.md", "file:///docs/a.md")]
        [True, False]
        >>> lacking.holds("s3://bucket/x/y"), lacking.holds("s3://bucket/xy")
        (True, False)
        """
        if url_item_kind(url) != "file":
            return True
        starts = {"/ ("}
        for path in (url, display_url(url)):
            above = (path[:end] for end, sign in enumerate(path) if sign == "/" and end)
            starts |= {f"{place}{slash} (" for place in (path, *above) for slash in ("", "/")}
        return any(part.startswith(tuple(starts)) for part in self.parts)


def _parts_of(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the parts among the reasons of a run, each once.

    >>> _parts_of(["listing: /docs/a (refused)", "no_pages", "listing: /docs/a (refused)"])
    ('/docs/a (refused)',)
    """
    found = (reason.removeprefix(_LISTING) for reason in reasons if reason.startswith(_LISTING))
    return tuple(dict.fromkeys(found))


def _meaning(lacking: UnlistedParts, entry: ReportedRecord | None, url: str) -> str:
    """Return the meaning of the failed parts for one address."""
    within = lacking.holds(url)
    if entry is None or entry.standing == Standing.BARE:
        where = "this address is in one of them" if within else "this address is in none of them"
        return f"{where}; a run reads it once a listing contains it"
    if not entry.pinned and max(entry.seen_run, entry.reached_run) >= lacking.run:
        return "this page was listed, so the failed part does not affect it"
    if within:
        return (
            "this page is in a part that could not be listed; it may still exist, so it is "
            "not removed"
        )
    return "this page was not listed; it stays until a complete listing lacks it"


#: Keys of the answer, and of each of its records.
KEYS = (
    "url", "id", "records", "inScopeOf", "listedBy", "refusedBy", "nearMisses", "posted",
    "unlisted",
)  # fmt: skip
STORY_KEYS = (
    "record", "standing", "textLength", "decision", "request", "history", "modifications",
    "linksIn", "linksOut", "clones", "canonical", "redirects", "pinnedAt", "proposal", "robots",
    "scope", "removal", "nextVisit", "vectors", "pushed", "unlisted", "spellings",
)  # fmt: skip

_DONE = {
    Action.INDEX: "its content was indexed",
    Action.LIST: "its links were stored, but not its content",
    Action.TOUCH: "nothing changed, so nothing was written",
    Action.NOTE: "the response was recorded; nothing is stored of the page",
    Action.HOLD: "the response was recorded; the stored page stays searchable",
}


_LINKS_HELD = "the response was recorded; the stored links stay"


class Stories:
    """The stories of records, each put together from several tables."""

    def __init__(
        self,
        connection: Connection,
        options: Options,
        declared: dict[str, Source],
        robots: RobotsOfSources,
        *,
        again: Callable[..., str],
        may_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Prepare the stories of one registry.

        ``robots`` explains the stored robots.txt copies (``robots_txt.robots_txt_answers``), and
        ``again`` formats a command line that acts on the same registry. ``may_read``: whether the
        reader of the stories may know of a source.
        """
        self._connection = connection
        self._options = options
        self._declared = declared
        self._robots = robots
        self._again = again
        self._may_read = may_read

    def about(self, url: str, sources: Sequence[str] = ()) -> dict[str, Any]:
        """Return the stories of one address, under KEYS; ``sources``: () for all."""
        connection, trackers = self._connection, self._options.trackers
        requested = known_request_url(connection, url, trackers) or url
        identity = normalize_url(requested, trackers)
        key = url_digest(identity)
        pages = [
            page
            for page in known_record_rows(connection, key, requested)
            if not sources or page.source in sources
        ]
        values = (
            requested,
            url_item_id(url_item_kind(identity), key),
            [self.story(page, key) for page in pages],
            [] if pages else self.in_scope(requested),
            [] if pages else self.listed_by(requested),
            [] if pages else self.refused(requested),
            [] if pages else reported_near_misses(connection, url, trackers),
            reported_pending_pins(connection, key, sources),
            [] if pages else self.unlisted(requested),
        )
        return dict(zip(KEYS, values, strict=True))

    def in_scope(self, url: str) -> list[str]:
        """Return the sources whose scope contains an address today."""
        return [source.name for source in self._today() if source.scope.allows(url)]

    def listed_by(self, url: str) -> list[str]:
        """Return those of them that would find it by a listing."""
        holders = [source for source in self._today() if source.scope.allows(url)]
        return [source.name for source in holders if source.lists(url)]

    def unlisted(self, url: str) -> list[dict[str, Any]]:
        """Return the parts of their last listings that could not be read, of each that has such."""
        found = [(name, UnlistedParts.of(self._connection, name)) for name in self.listed_by(url)]
        return [{"source": name} | lacking.as_data(None, url) for name, lacking in found if lacking]

    def refused(self, url: str) -> list[dict[str, str]]:
        """Return the sources of its host that exclude an address today, and why.

        So does the stored robots.txt for those whose scope has it and whose runs follow links.
        """
        sources = self._today()
        found = source_refusals(sources, url)
        requested = request_url(url)  # only a URL that can be requested has a robots.txt
        for one in sources:
            asks = one.scope.allows(url) and not one.lists(url)
            if requested is not None and asks and self._robots.is_obeyed(one.name):
                why = self._robots.of(one.name).forbids(requested)
                found |= {} if why is None else {one.name: why}
        return [{"source": name, "why": why} for name, why in sorted(found.items())]

    def _today(self) -> list[Source]:
        names = sorted({*stored_source_names(self._connection), *self._declared})
        return reported_sources_today(
            self._connection, self._declared, filter(self._may_read, names)
        )

    def story(self, page: KnownRecord, key: bytes, *, links_in: bool = True) -> dict[str, Any]:
        """Return the story of one record, under STORY_KEYS.

        ``links_in``: whether to look for the pages that lead to it, which reads the links of all
        pages of its source; else none is known.
        """
        connection, trackers = self._connection, self._options.trackers
        entry = next(reported_records(connection, page.source_no, page.no))
        past = reported_runs(connection, page.source_no)
        source = reported_source_today(connection, self._declared, page.source)
        is_listed = is_reported_page_listed(connection, source, page.source, entry.url)
        scope = source.scope if source else None
        age = past.absence(entry.seen_run)[0] if entry.standing else 0
        record = reported_story_record(connection, page.no, age)
        count_in, shown_in = 0, list[str]()
        if links_in:
            found = reported_links_in(connection, page.source_no, page.no, key, trackers)
            count_in, shown_in = found
        out, shown_out = reported_links_out(connection, page.source_no, page.no, scope, trackers)
        history = reported_story_events(connection, page.no)
        pinned = reported_pinned_at(connection, page.no)
        vectors = reported_vectors_of_page(connection, page.no)
        unlisted = UnlistedParts.of(connection, page.source) if is_listed else None
        values = (
            record,
            Standing(entry.standing).name.lower(),
            reported_text_length(connection, page.no),
            self._decision(page, entry, history, record, shown_in, is_listed=is_listed),
            self._request(entry, record, source),
            history,
            reported_modifications(connection, page.no),
            {"count": count_in, "shown": shown_in},
            {"count": out, "shown": shown_out},
            {
                "original": record["duplicateOf"],
                "others": reported_clones(connection, page.no),
            },
            self._canonical(page, entry, record),
            reported_redirect_chain(connection, page.no),
            iso_time(pinned),
            self._proposal(page),
            None if is_listed else self._robots.rule(entry.url, page.source),
            self._scope(page, source, entry),
            self._removal(page, entry, past, is_listed=is_listed),
            self._next_visit(page, entry, past, source),
            None if vectors is None else vectors.as_data(),
            reported_store_files_of_page(connection, page.no),
            None if unlisted is None else unlisted.as_data(entry, entry.url),
            reported_spellings(connection, page.no, entry.url),
        )
        return dict(zip(STORY_KEYS, values, strict=True))

    def _decision(
        self,
        page: KnownRecord,
        entry: ReportedRecord,
        history: list[dict[str, Any]],
        record: dict[str, Any],
        leading: Sequence[str],
        *,
        is_listed: bool,
    ) -> dict[str, Any]:
        """Return the rule that decided about a page last, and the run; ``leading``: links in."""
        visited = record["lastChecked"]
        word = None if entry.word is None else Word(entry.word)
        marks = [event for event in history if event["event"] in ("removed", "restored")]
        if marks and marks[-1]["run"] >= entry.visited_run:
            last = marks[-1]
            is_removed = last["event"] == "removed"  # the detail of a restored one says so itself
            text = f"removed: {last['rule']}" if is_removed else str(last["detail"])
            return _decided(text, last["run"], last["at"])
        if word is None:
            return _decided("not visited yet", None, None)
        unasked = _UNLISTED if is_listed else _UNASKED
        if entry.visited_run < entry.reached_run or word is Word.ORPHANED:
            run = reported_last_settled(self._connection, page.source_no)
            most = ordered_depth(reported_reasons(self._connection, run))
            if word is Word.ORPHANED and most is not None and entry.depth > most:
                links = report_noun(entry.depth, "link")
                text = f"{links} from a seed, and the run was ordered to go no deeper"
                return _decided(
                    f"{text} than {most}; this does not count towards its removal", run, None
                )
            if word is Word.ORPHANED and leading and not is_listed:
                text = f"{self._unfollowed(page.source, leading)}; {_STAYS}"
                return _decided(text, run, None)
            return _decided(unasked.get(word, word.word), run, None)
        run = entry.visited_run
        outcome = forecast_outcome(Status(entry.status), word, entry.http_status)
        last = history[-1]
        if word is Word.EXCLUDED and last["run"] > run and last.get("detail") == OUT_OF_SCOPE:
            return _decided(unasked[word], last["run"], last["at"])
        if waits_for_browser(Standing(entry.standing), entry.http_status):
            text = f"{_without_browser(record)}; the next run asks it again"
            return _decided(text, run, visited)
        if outcome is None:
            return _decided(f"{word.word}; its history below says why", run, visited)
        before = {
            Word.NEW: Standing.BARE,
            Word.MOVED: Standing.BARE,
            Word.MODIFIED: Standing.HELD,
        }
        standing = before.get(word, Standing(entry.standing))
        action = decide(standing, outcome).action
        if outcome is Outcome.SAME and record["lastIndexed"] == visited:
            action = Action.INDEX  # by order, or for another configuration
        text = f"{outcome.value} where {STORED[standing]}: {action.value}, {word.word}"
        is_held_list = action is Action.HOLD and standing is Standing.LINKS
        text = f"{text}; {_LINKS_HELD if is_held_list else _DONE[action]}"
        if entry.http_status == Fault.NO_BROWSER:
            text = f"{_without_browser(record)}; {text}"
        return _decided(text, run, visited, outcome=outcome.value, action=action.value)

    def _unfollowed(self, source: str, leading: Sequence[str]) -> str:
        """Return why no run reached a page to which stored links lead."""
        robots = self._robots.of(source)
        if self._robots.is_obeyed(source) and all(map(robots.forbids, leading)):
            them = "the page" if len(leading) == 1 else "the pages"
            return (
                f"the last run reached it from no seed: robots.txt disallows {them} that link to it"
            )
        return "the last run found no link to it"

    def _request(
        self, entry: ReportedRecord, record: dict[str, Any], source: Source | None
    ) -> dict[str, Any]:
        today = TodayReport(self._connection, source, self._options)
        trust, coded = today.trust(entry), is_coded_etag(record["httpEtag"])
        why, believed = today.reason_without_validators(entry), today.believed(entry, coded=coded)
        is_listed = source is not None and source.lists(entry.url)  # a listing compares, no server
        by_http = entry.url.startswith(("http://", "https://")) and not is_listed
        etag = (record["httpEtag"] or record["fileEtag"]) if believed & 1 else None
        modified = record["lastModifiedReceived"] if believed & 2 else None
        if why is None and by_http:  # stored by a version that believed them
            why = reason_against_http_validators(etag, modified)
        by_data = count_page_needs(self._connection, entry.no) if by_http else 0
        if by_data and not (etag or modified):
            why = None
        headers = http_conditional_headers(
            etag, modified, trusted=why is None and by_http, respelled=trust.respells
        )
        return {
            "url": entry.url,
            "conditional": why is None,
            "why": why,
            "headers": dict(headers),
            "dataRequests": by_data,
            "confirmedBy": confirmed_by(by_data) if by_data and entry.http_status == 304 else None,
            "distrusted": trust.distrust_reasons(),
        }

    def _canonical(
        self, page: KnownRecord, entry: ReportedRecord, record: dict[str, Any]
    ) -> dict[str, Any] | None:
        if record["canonicalUrl"] is None and entry.canonical_no is None:
            return None
        target = self._entry(page, entry.canonical_no)
        return {
            "url": record["canonicalUrl"] or (target and target.url),
            "status": None if target is None else Status(target.status).word,
        }

    def _entry(self, page: KnownRecord, number: int | None) -> ReportedRecord | None:
        if number is None:
            return None
        return next(reported_records(self._connection, page.source_no, number), None)

    def _proposal(self, page: KnownRecord) -> dict[str, Any] | None:
        found = reported_proposal(self._connection, page.no)
        if found is None:
            return None
        policy = self._options.policy
        held = found.rule is RemovalRule.ORPHAN and not found.withheld
        failed = held and page.no not in verified_orphan_rows(
            self._connection, found.renewed, page.source_no, policy
        )
        release = self._again("orphans", "--approve", found.run, "--max", 1)
        return {
            "rule": found.rule.word,
            "run": found.run,
            "renewedRun": found.renewed,
            "found": reported_evidence_times(found.detail),
            "probe": found.probe,
            "heldByFailedLook": failed,
            "withheld": found.withheld,
            "release": release if found.withheld else None,
        }

    def _scope(
        self, page: KnownRecord, source: Source | None, entry: ReportedRecord
    ) -> dict[str, Any]:
        if source is not None:
            return _scope_today(source, entry, self._options)
        why = reason_without_source(self._declared, page.source)
        return {"allowed": None, "why": why, "depth": entry.depth, "maxDepth": None}

    def _removal(
        self, page: KnownRecord, entry: ReportedRecord, past: ReportedRuns, *, is_listed: bool
    ) -> list[dict[str, Any]]:
        options, connection = self._options, self._connection
        reached = max(entry.reached_run, entry.seen_run) >= past.last
        canonical = self._entry(page, entry.canonical_no)
        aside = canonical is not None and canonical.sound
        facts = reported_facts(
            entry,
            past,
            options.policy,
            reached=reached,
            aside=aside,
            is_listed=is_listed,
            is_answered=bool(entry.pinned) or not is_reported_library(connection, page.source),
        )
        remove = options.out_of_scope_policy == "remove"
        return [
            {
                "rule": way.rule.word,
                "runs": way.runs,
                "completeRunsOnly": way.complete,
                "underWay": way.current,
                "notBefore": iso_time(way.earliest),
                "minAgeSeconds": way.min_age,
                "text": str(way),
            }
            for way in forecast_ways(facts, options.policy, remove_excluded=remove)
        ]

    def _next_visit(
        self, page: KnownRecord, entry: ReportedRecord, past: ReportedRuns, source: Source | None
    ) -> dict[str, Any]:
        last = last_run_row(self._connection, page.source)
        running = last is not None and last[2] in (RunState.OPEN, RunState.VERIFYING)
        last_run = last[0] if last else 0
        if source is None:
            text = f"none: {reason_without_source(self._declared, page.source)}"
        elif not source.scope.allows(entry.url):
            text = "none: out of scope"
        elif entry.pinned:
            text = "in every run, because it is pinned"
        elif running and entry.visited_run < entry.reached_run == last_run:
            text = "in the current run"
        elif max(entry.reached_run, entry.seen_run) < past.last or entry.word == Word.ORPHANED:
            is_listed = source.lists(entry.url)
            again = "the listing contains it" if is_listed else "a page links to it"
            text = f"none, unless {again} again"
        else:
            is_listed = source.lists(entry.url)
            finds = "lists it as changed" if is_listed else "reaches it"
            text = f"in the next run that {finds}"
        return {"dueAt": iso_time(entry.next_visit), "text": text}


def _decided(
    text: str,
    run: int | None,
    at: str | None,
    *,
    outcome: str | None = None,
    action: str | None = None,
) -> dict[str, Any]:
    return {"run": run, "at": at, "outcome": outcome, "action": action, "text": text}


def _without_browser(record: Mapping[str, Any]) -> str:
    """Return that a page needs a browser, and why its last visit had none."""
    why = str(record["errorMessage"] or "").removeprefix(f"{NO_BROWSER} (").removesuffix(")")
    return f"scripts write this page; {why}"


_STAYS = "the stored page stays for now"
_UNASKED = {
    Word.ORPHANED: f"the last run found no link to it; {_STAYS}",
    Word.SKIPPED: "a link to it was found, but the run ended before visiting it",
    Word.EXCLUDED: "out of scope, so it was not requested",
}
_UNLISTED = {
    Word.ORPHANED: f"not in the listing; {_STAYS}",
    Word.SKIPPED: "listed, but the run ended before reading it",
    Word.EXCLUDED: "out of scope, so it was not read",
}
#: What the registry stores of a page, in words.
STORED: Final = {
    Standing.BARE: "nothing is stored",
    Standing.LINKS: "only links are stored",
    Standing.HELD: "content is stored",
}


def _scope_today(source: Source, entry: ReportedRecord, options: Options) -> dict[str, Any]:
    """Return whether a page is in scope, by its address and by its links from a seed."""
    depth: dict[str, Any] = {"depth": entry.depth, "maxDepth": None}
    limits = DepthLimits.of(source.max_depth, options.depth_limit, by_order=False)
    if source.lists(entry.url):
        limits, depth["depth"] = DepthLimits(), None
    refusal = None if entry.kind else source.scope.refusal(entry.url)  # patterns are for pages
    if refusal is None and not entry.kind and limits.excludes(entry.depth):
        limit = "max_depth" if source.max_depth else "DEPTH_LIMIT"
        links = report_noun(entry.depth, "link")
        refusal = f"it is {links} from a seed, and {limit} is {limits.own}"
    return {"allowed": refusal is None, "why": refusal} | depth | {"maxDepth": limits.own or None}
