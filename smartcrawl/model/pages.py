"""Pages and their visits.

A Page is what the registry knows of an address and what this run plans for it. A Visit is one
attempt to fetch it: the traffic, the answer, and what the body was parsed as.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from smartcrawl.model.documents import Chunk, Document
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


class Unreadable(NamedTuple):
    """A body that cannot be read, and the reason; the first three fields are its key."""

    body_hash: bytes
    extraction: int  #: EXTRACTION_VERSION
    media: str  #: MIME type as which it was read, and the charset that the server sent
    fault: Fault
    allowed: int  #: limit that it exceeded, in seconds or MiB; 0: a higher limit would not help
    message: str  #: for people


NAMES_SIGNED: Final = 1  #: bit of PageRecord.signs: the page links to addresses with signatures
NEEDS_SIGNATURE: Final = 2  #: bit of PageRecord.signs: its last body was read under a signature


class PageRecord(NamedTuple):
    """The last body of a page, from the tables ``record`` and ``links``.

    PageReader.pages fills the fields in this order; the defaults are those of a new address.
    """

    etag: str | None = None
    last_modified: str | None = None
    body_hash: bytes | None = None
    content: int | None = None  #: content.no
    content_length: int = 0  #: bytes of the stored body on the wire
    configuration: int = 0  #: fingerprint.no of its extraction
    snapshot: int | None = None  #: snapshot.no of the stored body
    verified_at: int | None = None  #: time of the last complete download, Unix seconds
    canonical_no: int | None = None  #: number of the page that it names as canonical
    scope: int = 0  #: fingerprint.no of the scope that filtered ``targets``
    targets: bytes | None = None  #: packed uint32 numbers; None without stored links
    first_run: int | None = None  #: run that discovered it; None: this one
    signs: int = 0  #: NAMES_SIGNED, NEEDS_SIGNATURE
    noted: bool = False  #: whether the record has a message or the target of a redirect
    moved: bool = False  #: whether the page answered with a redirect when it last answered
    was_held: bool = False  #: whether the page ever had content


class PageState(NamedTuple):
    """The visits and counts of a page, from the tables ``state`` and ``item``.

    PageReader.pages fills the fields in this order; the defaults are those of a new address.
    """

    standing: Standing = Standing.BARE
    status: Status = Status.PENDING
    ordered: bool = False  #: whether an order to index the page again is open
    generation: int = 0  #: reindexGeneration, as read when the page's turn came
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


@dataclass(slots=True)
class PagePlan:
    """The plan of this run for a page; configuration, links and orders decide it."""

    wanted: int = 0  #: fingerprint.no of the configuration that its extraction needs today
    mode: Mode = Mode.INDEX  #: how it has to enter the index today
    extraction: Extraction = Extraction.STANDS  #: the way to ``mode`` and ``wanted``
    waits: bool = False  #: full download deferred to a later run (RE_EXTRACT_PER_RUN)
    named: int = 0  #: kind under which this run names an address that was a page so far
    verify: bool = False  #: a look at an unreached page, which changes nothing (design.md 3)
    doubted: bool = False  #: download the whole body in this visit
    signed: str | None = None  #: ``url`` with the signature that gives access, for this run only


@dataclass(slots=True)
class Page:
    """One address when its turn comes: what the registry knows, and the plan of this run."""

    no: int
    url: str  #: the spelling to request
    host: str  #: host, or host:port where the port is neither 80 nor 443
    depth: int
    kind: int = 0  #: 0: a page; 1 to 3: a sitemap or feed, at this nesting
    record: PageRecord = _NEW_RECORD
    state: PageState = _NEW_STATE
    plan: PagePlan = field(default_factory=PagePlan)
    raw: bytes | None = None  #: packed raw links, read where another scope filtered ``targets``
    text_hash: bytes | None = None  #: of the stored text, read where the body has changed

    @property
    def lacks_signature(self) -> bool:
        """Whether an error may come from a missing signature, which only a linking page gives."""
        return self.record.signs & NEEDS_SIGNATURE > 0 and self.plan.signed is None


class Collapse(NamedTuple):
    """The answer of a collapsed page, which waits until the queue of its run is empty."""

    text_hash: bytes  #: of its text, whatever CONTENT_HASH_BASIS says
    answer: str  #: JSON: address and headers (smartcrawl.run.collapses)
    body: bytes  #: gzip


@dataclass(slots=True)
class Traffic:
    """Requests and bytes of one visit; retries, redirects and HEAD requests count, too."""

    requests: int = 0  #: HTTP requests
    conditional_requests: int = 0
    wire_bytes: int = 0  #: bytes of all bodies on the wire
    conditional: bool = False  #: whether the last request was conditional
    asked_etag: str | None = None  #: If-None-Match of the last request


@dataclass(slots=True)
class PageAnswer:
    """The last answer of the server, or the one stored in a snapshot."""

    body: bytes | None = None  #: after Content-Encoding; dropped when it is stored
    content_type: str = ""  #: header value
    content_encoding: str | None = None
    content_length: int = 0  #: bytes of the body on the wire
    etag: str | None = None
    last_modified: str | None = None
    robots_tags: tuple[str, ...] = ()  #: X-Robots-Tag, one for each header line
    retry_after: int | None = None  #: seconds, as the server asked with 429 or 503
    location: str | None = None  #: absolute target of a redirect
    response_ms: int = 0


@dataclass(slots=True)
class ParsedBody:
    """The document, hashes and links of an answer; a redirect is one link."""

    document: Document | None = None
    unreadable: Unreadable | None = None  #: set where no later visit can read these bytes
    body_hash: bytes | None = None
    text_hash: bytes | None = None
    content_hash: bytes | None = None
    sample: bytes | None = None  #: digest of the text by which the language was detected
    chunks: list[Chunk] = field(default_factory=list)
    canonical_no: int | None = None  #: number of another page that it names as canonical
    recanonical: bool = False  #: whether a new canonical link forces an update (R0-86)
    links: bytes | None = None  #: packed raw links to store; None: keep the stored ones
    links_count: int = 0
    names_signed: bool = False  #: whether ``links`` had signatures, which are not stored
    targets: bytes = b""  #: numbers that ``links`` lead to, packed uint32
    scope: int = 0  #: fingerprint.no of the scope that filtered ``targets``


@dataclass(slots=True)
class Visit:
    """One attempt to fetch a page, whatever its outcome; the pipelines fill it in."""

    page: Page
    outcome: Outcome
    http_status: int | None = None  #: HTTP or extended status (rules.model.Fault)
    url: str = ""  #: the spelling that was requested last
    error: str | None = None  #: for people, at most 1,024 characters
    kind: int = 0  #: kind that the answer shows (Page.kind)
    again: bool = False  #: extracted out of a snapshot, without a request
    extracted_again: bool = False  #: out of a snapshot, because the configuration changed
    accepted: bool = False  #: a collapsed page accepted as an edit; its visit was counted before
    snapshot: int | None = None  #: snapshot.no of the body when it is stored
    snapshot_error: str | None = None  #: reason why it has no snapshot, or an unreadable one
    verdict: Verdict | None = None
    collapse: Collapse | None = None  #: set where the answer waits: the page may have been edited
    traffic: Traffic = field(default_factory=Traffic)
    answer: PageAnswer = field(default_factory=PageAnswer)
    parsed: ParsedBody = field(default_factory=ParsedBody)

    def fail(self, fault: Fault, message: str) -> None:
        """End the visit in an extended status; the message is cut to 1,024 characters."""
        self.outcome, self.http_status, self.error = fault.outcome, int(fault), message[:1024]

    @property
    def not_modified(self) -> bool:
        """Whether a conditional request was answered with 304."""
        return self.http_status == 304 and self.traffic.conditional

    @property
    def lost_snapshot(self) -> bool:
        """Whether the stored snapshot was read, and found missing or damaged."""
        return self.extracted_again and self.snapshot_error is not None

    @property
    def action(self) -> Action:
        """The action that DecidePipeline chose."""
        assert self.verdict is not None, "a Visit is decided before it is committed"
        return self.verdict.action


@dataclass(slots=True)
class Attempt:
    """The requests of one visit so far: retries and redirects, too (``meta["attempt"]``)."""

    page: Page
    trail: list[str] = field(default_factory=list)  #: requested addresses, without retries
    traffic: Traffic = field(default_factory=Traffic)
    content_length: int = 0  #: bytes of the last body on the wire
    content_encoding: str | None = None
    retry_after: int | None = None  #: seconds, as the last answer asked

    def asks(self, url: str, *, conditional: bool, etag: str | None = None) -> None:
        """Record a request that is sent; ``etag``: its If-None-Match."""
        traffic = self.traffic
        traffic.conditional = conditional
        traffic.asked_etag = etag
        traffic.requests += 1
        traffic.conditional_requests += conditional
        if not self.trail or self.trail[-1] != url:
            self.trail.append(url)

    def visit(self, url: str) -> Visit:
        """Return the Visit of this attempt, which ended at ``url``; they share the traffic."""
        return Visit(
            page=self.page,
            outcome=Outcome.UNREACHABLE,
            url=url,
            kind=self.page.kind,
            traffic=self.traffic,
            answer=PageAnswer(content_length=self.content_length, retry_after=self.retry_after),
        )
