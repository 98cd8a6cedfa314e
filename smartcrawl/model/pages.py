"""Pages and their visits.

A Page is an address with its registry record and state, and this run's plan for it. A Visit is one
attempt to fetch it: the traffic, the answer and the parsed body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from smartcrawl.model.documents import Chunk, Document
from smartcrawl.model.library import LibraryFile
from smartcrawl.model.rendered import NewRendering, StoredRendering
from smartcrawl.model.urls import is_signed_url
from smartcrawl.rules.cookies import Cookie
from smartcrawl.rules.model import (
    Action,
    Extraction,
    Fault,
    Mode,
    Outcome,
    Standing,
    Status,
)
from smartcrawl.rules.reindex import Verdict
from smartcrawl.rules.render_need import ReadBy


class Unreadable(NamedTuple):
    """A body that cannot be read, and the reason; the first three fields are the key."""

    body_hash: bytes
    extraction: int  #: EXTRACTION_VERSION
    media: str  #: assumed MIME type, and the charset that the server sent
    fault: Fault
    allowed: int  #: exceeded limit, in seconds or MiB; 0: a higher limit would not help
    message: str  #: reason as text


NAMES_SIGNED: Final = 1  #: bit of PageRecord.signs: the page links to addresses with signatures
NEEDS_SIGNATURE: Final = 2  #: bit of PageRecord.signs: its last body was read under a signature
BROUGHT: Final = 4  #: bit of PageRecord.signs: a sitemap, not a feed, that named addresses once
#: Bits of PageRecord.signs before the number of the run that first found a sitemap emptied.
EMPTIED_AT: Final = 3


class PageRecord(NamedTuple):
    """The last body of a page, from the tables ``record`` and ``links``.

    PageReader.pages fills the fields in this order; the defaults are those of a new address.
    """

    etag: str | None = None
    last_modified: str | None = None
    body_hash: bytes | None = None
    content: int | None = None  #: content.no
    content_length: int = 0  #: bytes of the stored body on the wire
    configuration: int = 0  #: fingerprint.no of the configuration that extracted it
    snapshot: int | None = None  #: snapshot.no of the stored body
    verified_at: int | None = None  #: time of the last complete download, Unix seconds
    canonical_no: int | None = None  #: number of its canonical page
    scope: int = 0  #: fingerprint.no of the scope that filtered ``targets``
    targets: bytes | None = None  #: packed uint32 numbers of linked pages; None: no stored links
    first_run: int | None = None  #: run that discovered it; None: this run
    signs: int = 0  #: bits NAMES_SIGNED, NEEDS_SIGNATURE, BROUGHT, and a run behind EMPTIED_AT
    noted: bool = False  #: whether the record has an error message or a redirect target
    moved: bool = False  #: whether the last answer was a redirect
    was_held: bool = False  #: whether the page ever had content


class PageState(NamedTuple):
    """The visits and counts of a page, from the tables ``state`` and ``item``.

    PageReader.pages fills the fields in this order; the defaults are those of a new address.
    """

    standing: Standing = Standing.BARE
    status: Status = Status.PENDING
    ordered: bool = False  #: whether an order to index the page again is open
    generation: int = 0  #: reindexGeneration when the page was loaded for this visit
    effective_status: int | None = None
    http_status: int | None = None  #: HTTP or extended status of its last visit
    visited_run: int = 0  #: run.no of its last visit
    attempts: int = 0  #: visits so far
    last_checked: int | None = None  #: Unix seconds
    next_visit: int | None = None  #: Unix seconds
    unchanged_count: int = 0
    error_count: int = 0
    lost_count: int = 0
    gone_count: int = 0
    lost_since: int | None = None  #: Unix seconds
    gone_since: int | None = None  #: Unix seconds
    etag_marks: int = 0  #: bits of rules.trust


_NEW_RECORD: Final = PageRecord()
_NEW_STATE: Final = PageState()


class ListedRecord(NamedTuple):
    """A stored address as a listing is compared with it.

    PageReader.listed fills the fields in this order.
    """

    no: int
    host: str
    etag: str | None
    content_length: int  #: bytes
    configuration: int  #: fingerprint.no of the configuration that extracted it
    verified_at: int | None  #: time of the last complete download, Unix seconds
    is_settled: bool  #: indexed, not lost, without a note, and without an order to index it again
    visited_run: int  #: run.no of its last visit
    attempts: int  #: visits so far
    etag_marks: int  #: bits of rules.trust
    is_set_aside: bool  #: read and not to be indexed, and without an order to index it again
    unread_etag: str | None  #: of the bytes that this version could not read at its last visit
    unread_length: int  #: bytes


@dataclass(slots=True)
class PagePlan:
    """The plan of this run for a page; it depends on configuration, links and orders."""

    wanted: int = 0  #: fingerprint.no of the configuration to extract it with
    mode: Mode = Mode.INDEX  #: index mode under today's configuration
    extraction: Extraction = Extraction.STANDS  #: how to comply with ``mode`` and ``wanted``
    waits: bool = False  #: full download deferred to a later run (RE_EXTRACT_PER_RUN)
    named: int = 0  #: sitemap kind of an address that was stored as a page; 0: none
    verify: bool = False  #: whether it only looks at an unreached page (ADR 131)
    doubted: bool = False  #: whether this visit must download the whole body
    #: ``url`` as this run linked it, with an access signature or a session id
    signed: str | None = None
    spelling: str | None = None  #: asked first, in place of ``url``
    late: bool = False  #: whether this run visited it before, without its other spellings
    read_by: ReadBy | None = None  #: with or without a browser; None: it was not asked yet


@dataclass(slots=True)
class Page:
    """One address to visit, with its registry record and state, and this run's plan."""

    no: int
    url: str  #: the spelling to request
    host: str  #: host, or host:port where the port is neither 80 nor 443
    depth: int
    kind: int = 0  #: 0: a page; 1 to 3: nesting level of a sitemap or feed
    record: PageRecord = _NEW_RECORD
    state: PageState = _NEW_STATE
    plan: PagePlan = field(default_factory=PagePlan)
    raw: bytes | None = None  #: packed raw links, loaded if another scope filtered ``targets``
    text_hash: bytes | None = None  #: hash of the stored text, loaded if the body has changed
    rendering: StoredRendering | None = None  #: what it was made of, of a source that is rendered

    @property
    def lacks_signature(self) -> bool:
        """Whether an error may come from a missing signature, which a linking page supplies."""
        signed = self.plan.signed
        return self.record.signs & NEEDS_SIGNATURE > 0 and not (signed and is_signed_url(signed))


class Collapse(NamedTuple):
    """The answer of a doubtful page, decided when the queue of its run is empty."""

    text_hash: bytes  #: hash of its text without ids, whatever CONTENT_HASH_BASIS
    answer: str  #: JSON: address and headers (smartcrawl.run.collapses)
    body: bytes  #: gzip
    shrank: bool = True  #: whether less than a tenth of the stored text is left
    repeated: bool = False  #: whether another page got its text, and does not wait
    content_hash: bytes | None = None  #: hash of the new content


@dataclass(slots=True)
class Traffic:
    """Requests and bytes of one visit, including retries, redirects and HEAD requests."""

    requests: int = 0  #: HTTP requests
    conditional_requests: int = 0
    wire_bytes: int = 0  #: bytes of all bodies on the wire
    conditional: bool = False  #: whether the last request was conditional
    asked_etag: str | None = None  #: If-None-Match of the last request
    is_recorded: bool = False  #: whether its Visit is in a batch


@dataclass(slots=True)
class PageAnswer:
    """The last answer of the server, or an answer restored from a snapshot."""

    body: bytes | None = None  #: decoded; None after it was stored
    content_type: str = ""  #: header value
    content_encoding: str | None = None
    content_length: int = 0  #: bytes of the body on the wire
    etag: str | None = None
    last_modified: str | None = None
    robots_tags: tuple[str, ...] = ()  #: X-Robots-Tag, one for each header line
    refresh: str | None = None  #: header ``Refresh``
    set_cookies: tuple[str, ...] = ()  #: Set-Cookie, one for each header line
    cookie: str = ""  #: Cookie of the request
    retry_after: int | None = None  #: seconds, from a 429 or 503
    location: str | None = None  #: absolute target of a redirect
    response_ms: int = 0
    file: LibraryFile | None = None  #: of an item of a document library


@dataclass(slots=True)
class ParsedBody:
    """The document, hashes and links of an answer; a redirect counts as one link."""

    document: Document | None = None
    unreadable: Unreadable | None = None  #: set if no later visit can read these bytes
    body_hash: bytes | None = None
    media: str | None = None  #: type as which the body is read, of listed sources
    taken_over: bool = False  #: whether a stored page has the same bytes, and nothing was extracted
    text_hash: bytes | None = None
    content_hash: bytes | None = None
    sample: bytes | None = None  #: digest of the text that the language was detected from
    chunks: list[Chunk] = field(default_factory=list)
    packed: bytes | None = None  #: the document as it is stored; None: it is not packed yet
    marked: str = ""  #: parts that the chunks lack (extract.repeated.marks_as_text)
    canonical_no: int | None = None  #: number of its canonical page, if that is another one
    #: Whether a browser read it for the first time, or no more: its text is no news.
    reread: bool = False
    recanonical: bool = False  #: whether a new canonical link forces an update (R0-86)
    links: bytes | None = None  #: packed raw links to store; None: keep the stored ones
    packed_links: bool = False  #: whether ``links`` are as the database stores them
    links_count: int = 0
    names_signed: bool = False  #: whether signatures were removed from ``links``
    brought: bool = False  #: whether it is a sitemap that names addresses, or named some before
    emptied: int = 0  #: run that first found this sitemap empty, whose stored links stay; 0: none
    targets: bytes = b""  #: packed uint32 numbers of linked pages
    scope: int = 0  #: fingerprint.no of the scope that filtered ``targets``


@dataclass(slots=True)
class Visit:
    """One attempt to fetch a page, successful or not; the pipelines fill it in."""

    page: Page
    outcome: Outcome
    http_status: int | None = None  #: HTTP or extended status (rules.model.Fault)
    url: str = ""  #: last requested URL
    error: str | None = None  #: message, at most 1,024 characters
    kind: int = 0  #: kind according to the answer (see Page.kind)
    again: bool = False  #: whether a snapshot is extracted, without a request
    extracted_again: bool = False  #: whether a changed configuration reads a snapshot
    accepted: bool = False  #: whether a collapse is accepted; the visit was counted before
    snapshot: int | None = None  #: snapshot.no of the stored body
    snapshot_error: str | None = None  #: why its snapshot is missing or unreadable
    verdict: Verdict | None = None
    collapse: Collapse | None = None  #: set if the answer waits, because it may be an edit
    traffic: Traffic = field(default_factory=Traffic)
    answer: PageAnswer = field(default_factory=PageAnswer)
    parsed: ParsedBody = field(default_factory=ParsedBody)
    attempt: VisitAttempt | None = None  #: its requests; None: no request was sent
    postponed: bool = False  #: whether another spelling is asked: this answer is not the visit's
    refreshed: bool = False  #: whether it is a page that leads on at once, judged as a redirect
    #: Spelling of the same address to which the page leads on, and the Cookie to ask it with.
    respelled: tuple[str, str] | None = None

    def fail(self, fault: Fault, message: str) -> None:
        """Give the visit an extended status and a message, cut to 1,024 characters."""
        self.outcome, self.http_status, self.error = fault.outcome, int(fault), message[:1024]

    @property
    def not_modified(self) -> bool:
        """Whether a conditional request was answered with 304."""
        return self.http_status == 304 and self.traffic.conditional

    @property
    def redirects(self) -> int:
        """Number of redirects to other spellings of its address that the visit followed."""
        return max(0, len(self.attempt.trail) - 1) if self.attempt is not None else 0

    @property
    def lost_snapshot(self) -> bool:
        """Whether extraction found the stored snapshot missing or damaged."""
        return self.extracted_again and self.snapshot_error is not None

    @property
    def tried(self) -> list[tuple[str, int | None, str | None]]:
        """Address, status and message of each answer, if several spellings were asked."""
        attempt, page = self.attempt, self.page
        if attempt is None or not (attempt.answers or page.plan.late):
            return []
        answers = list(attempt.answers)
        if not any(self is answer for answer in answers):
            answers.append(self)
        tried = [(answer.url, answer.http_status, answer.error) for answer in answers]
        if page.plan.late:  # the visit before it asked the request address
            return [(page.url, page.state.http_status, None), *tried]
        return tried if len(tried) > 1 else []

    @property
    def action(self) -> Action:
        """The action that DecidePipeline chose."""
        assert self.verdict is not None, "a Visit is decided before it is committed"
        return self.verdict.action


@dataclass(slots=True)
class VisitCookies:
    """The cookies of one visit. They are sent within it and kept nowhere."""

    given: str  #: Cookie of the first request, by the operator's own settings
    received: tuple[Cookie, ...] = ()  #: those that redirects of the visit set
    sent: dict[str, str] = field(default_factory=dict)  #: Cookie of the last request, by URL
    left_at: int = 0  #: requests of the visit before the first other address
    left_bare: bool = False  #: whether the page led there without a cookie
    led_back: bool = False  #: whether redirects led to other addresses and back to the page


@dataclass(slots=True)
class VisitAttempt:
    """The requests of one visit so far, with retries and redirects (``meta["attempt"]``)."""

    page: Page
    trail: list[str] = field(default_factory=list)  #: requested URLs in order, without retries
    traffic: Traffic = field(default_factory=Traffic)
    content_length: int = 0  #: bytes of the last body on the wire
    content_encoding: str | None = None
    retry_after: int | None = None  #: seconds, from the last answer
    lost_body: bool = False  #: whether the stored body is needed and cannot be read
    spelling: str | None = None  #: spelling of the first request of ``trail``; None: the first one
    asked: set[str] = field(default_factory=set)  #: addresses that were asked as other spellings
    answers: list[Visit] = field(default_factory=list)  #: those that did not bring the page
    over: bool = False  #: whether no other spelling is left
    cookies: VisitCookies | None = None  #: None: nothing was redirected
    away: Visit | None = None  #: the redirect to another address that is asked now, in its visit
    #: number of the login that its last request was sent with; 0: none, or the answer counts
    login: int = 0
    login_until: float = inf  #: Unix seconds until which the credentials of its requests hold
    shows_login: bool | None = None  #: whether the last answer shows the proof; None: it cannot
    met_wall: bool = False  #: whether its browser saw a wall, so that no proof of its own counts
    rendering: NewRendering | None = None  #: what its last answer was made of by a browser
    confirmed: bool = False  #: whether the data of the page was found to be as it was
    waits: bool = False  #: whether the page is left to a later run (RENDER_PER_RUN)
    lacks_data: bool = False  #: whether its own data is not found, though its document is there

    def begins(self, spelling: str) -> None:
        """Begin with another spelling of the address."""
        self.asked.update(self.trail)
        self.trail = []
        self.cookies = self.away = None
        self.spelling = spelling

    def asks(self, url: str, *, conditional: bool, etag: str | None = None) -> None:
        """Record a request; ``etag``: its If-None-Match."""
        traffic = self.traffic
        traffic.conditional = conditional
        traffic.asked_etag = etag
        traffic.requests += 1
        traffic.conditional_requests += conditional
        if not self.trail or self.trail[-1] != url:
            self.trail.append(url)

    def receives(self, size: int, encoding: str | None) -> None:
        """Record the body of an answer: its bytes on the wire, and its Content-Encoding."""
        self.content_length = size
        self.traffic.wire_bytes += size
        self.content_encoding = encoding.lower() if encoding else None

    def visit(self, url: str) -> Visit:
        """Return a Visit of this attempt, which ended at ``url``; both share one Traffic."""
        return Visit(
            page=self.page,
            outcome=Outcome.UNREACHABLE,
            url=url,
            kind=self.page.kind,
            traffic=self.traffic,
            answer=PageAnswer(content_length=self.content_length, retry_after=self.retry_after),
            attempt=self,
        )
