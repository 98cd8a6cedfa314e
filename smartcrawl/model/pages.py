"""Nouns of a visit: the page that is asked, the attempt, and what it found."""

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
    """A body that cannot be read, and why: the first three fields say of what that holds."""

    body_hash: bytes
    extraction: int  #: EXTRACTION_VERSION
    media: str  #: MIME type as which it was read, and a charset that the server named
    fault: Fault
    allowed: int  #: seconds or MiB that were too few for it; 0: more of them would not help
    message: str  #: for people


NAMES_SIGNED: Final = 1  #: in Page.signs: it names addresses with signatures
NEEDS_SIGNATURE: Final = 2  #: in Page.signs: it answered under a signature when it was read last


@dataclass(slots=True)
class Page:
    """One address when its turn comes: what the registry holds, and how to ask for it."""

    no: int
    url: str  #: the spelling to request
    host: str  #: host, or host:port beside 80 and 443
    depth: int
    standing: Standing = Standing.BARE
    status: Status = Status.PENDING
    effective_status: int | None = None
    http_status: int | None = None  #: or extended status, of its last visit
    etag: str | None = None
    last_modified: str | None = None
    body_hash: bytes | None = None
    content: int | None = None  #: content.no
    content_length: int = 0  #: bytes on the wire of the body that is held
    configuration: int = 0  #: fingerprint.no of its extraction
    wanted: int = 0  #: fingerprint.no of what its extraction is to be today
    mode: Mode = Mode.INDEX  #: how it is to enter the index today
    extraction: Extraction = Extraction.STANDS  #: how it comes to that
    waits: bool = False  #: whether what it takes is left to a later run
    snapshot: int | None = None  #: snapshot.no of the body that is held
    noted: bool = False  #: whether its record carries a message or a redirect's target
    visited_run: int = 0  #: run.no of its last visit
    lost_count: int = 0
    gone_count: int = 0
    lost_since: int | None = None  #: Unix seconds
    gone_since: int | None = None
    unchanged_count: int = 0
    error_count: int = 0
    canonical_no: int | None = None  #: number of the page that it names as canonical
    was_held: bool = False  #: whether content of it was ever held
    first_run: int | None = None  #: run that discovered it; None: this one
    scope: int = 0  #: fingerprint.no that ``targets`` was filtered by
    targets: bytes | None = None  #: packed uint32 numbers; None without stored links
    raw: bytes | None = None  #: packed raw links, read when ``targets`` are of another scope
    kind: int = 0  #: 0: a page; 1 to 3: a sitemap or feed, at this nesting
    named: int = 0  #: kind under which this run names what was a page so far
    verify: bool = False  #: a look at what was not reached, which changes nothing (design.md 3)
    moved: bool = False  #: whether it was a redirect when somebody answered last
    next_visit: int | None = None  #: Unix seconds
    last_checked: int | None = None
    generation: int = 0  #: reindexGeneration, as read when its turn came
    ordered: bool = False  #: whether somebody ordered it to be indexed anew
    attempts: int = 0  #: visits so far
    verified_at: int | None = None  #: when a whole body came last, Unix seconds
    doubted: bool = False  #: to be downloaded whole this time
    signs: int = 0  #: NAMES_SIGNED, NEEDS_SIGNATURE
    signed: str | None = None  #: ``url`` with what gives access to it, for this run only
    etag_marks: int = 0  #: bits of rules.trust
    text_hash: bytes | None = None  #: of the text that is stored, read where a body has changed

    @property
    def lacks_signature(self) -> bool:
        """Whether an error may be for want of a signature, which only what names it can give."""
        return self.signs & NEEDS_SIGNATURE > 0 and self.signed is None


class Collapse(NamedTuple):
    """The answer of a collapsed page, which waits until the queue of its run is empty."""

    text_hash: bytes  #: of its text, whatever CONTENT_HASH_BASIS says
    answer: str  #: JSON: address and headers (smartcrawl.run.collapses)
    body: bytes  #: gzip


@dataclass(slots=True)
class Visit:
    """One attempt to fetch, whatever came of it; the pipelines fill it in on its way."""

    page: Page
    outcome: Outcome
    http_status: int | None = None  #: or extended status (rules.model.Fault)
    url: str = ""  #: the spelling that was asked last
    error: str | None = None  #: for people, at most 1,024 characters
    conditional: bool = False
    asked_etag: str | None = None  #: If-None-Match of its last request
    requests: int = 0  #: HTTP requests that it took
    conditional_requests: int = 0
    wire_bytes: int = 0  #: body bytes as they came, hops and retries included
    content_length: int = 0  #: of the last body, as it came
    response_ms: int = 0
    etag: str | None = None
    last_modified: str | None = None
    content_type: str = ""  #: header value
    content_encoding: str | None = None
    robots_tags: tuple[str, ...] = ()  #: X-Robots-Tag, one each header line
    retry_after: int | None = None  #: seconds, as the server asked with 429 or 503
    location: str | None = None  #: absolute target of a redirect
    canonical_no: int | None = None  #: number of another page that it names as canonical
    body: bytes | None = None  #: after Content-Encoding; dropped once it is stored
    document: Document | None = None
    body_hash: bytes | None = None
    text_hash: bytes | None = None
    content_hash: bytes | None = None
    sample: bytes | None = None  #: digest of the text that told its language
    links: bytes | None = None  #: packed raw links to store; None: the stored ones stay
    links_count: int = 0
    targets: bytes = b""  #: of ``links``, packed uint32 numbers
    scope: int = 0  #: fingerprint.no that ``targets`` was filtered by
    chunks: list[Chunk] = field(default_factory=list)
    kind: int = 0  #: what it turned out to be (Page.kind)
    names_signed: bool = False  #: whether ``links`` had signatures, which are not stored
    recanonical: bool = False  #: whether it names another canonical page, and that counts
    again: bool = False  #: extracted out of a snapshot, without a visit
    extracted_again: bool = False  #: out of a snapshot, because the configuration changed
    snapshot: int | None = None  #: snapshot.no of ``body``, once it is stored
    snapshot_error: str | None = None  #: why there is none, or why it could not be read
    unreadable: Unreadable | None = None  #: why its bytes can never be read
    verdict: Verdict | None = None
    collapse: Collapse | None = None  #: the answer waits: the page may have been edited
    accepted: bool = False  #: the answer waited and is taken as an edit; it was counted before

    def fail(self, fault: Fault, message: str) -> None:
        """Let it end in an extended status; the message is cut to 1,024 characters."""
        self.outcome, self.http_status, self.error = fault.outcome, int(fault), message[:1024]

    @property
    def not_modified(self) -> bool:
        """Whether it ended in a 304 that was asked for."""
        return self.http_status == 304 and self.conditional

    @property
    def lost_snapshot(self) -> bool:
        """Whether the snapshot of what is held was read, and found missing or damaged."""
        return self.extracted_again and self.snapshot_error is not None

    @property
    def action(self) -> Action:
        """The action that DecidePipeline chose."""
        assert self.verdict is not None, "a Visit is decided before it is committed"
        return self.verdict.action


@dataclass(slots=True)
class Attempt:
    """What one visit has cost so far: its requests, retries and hops (``meta["attempt"]``)."""

    page: Page
    trail: list[str] = field(default_factory=list)  #: addresses asked, without retries
    requests: int = 0
    conditional_requests: int = 0
    conditional: bool = False  #: whether the last request was
    asked_etag: str | None = None  #: If-None-Match of the last request
    wire_bytes: int = 0  #: of all bodies
    content_length: int = 0  #: of the last body, on the wire
    content_encoding: str | None = None
    retry_after: int | None = None  #: seconds, as the last answer asked

    def asks(self, url: str, *, conditional: bool, etag: str | None = None) -> None:
        """Note a request that goes out; ``etag``: its If-None-Match."""
        self.conditional = conditional
        self.asked_etag = etag
        self.requests += 1
        self.conditional_requests += conditional
        if not self.trail or self.trail[-1] != url:
            self.trail.append(url)

    def visit(self, url: str) -> Visit:
        """Return the Visit of this attempt, which ended at ``url``."""
        return Visit(
            page=self.page,
            outcome=Outcome.UNREACHABLE,
            url=url,
            conditional=self.conditional,
            asked_etag=self.asked_etag,
            requests=self.requests,
            conditional_requests=self.conditional_requests,
            wire_bytes=self.wire_bytes,
            content_length=self.content_length,
            retry_after=self.retry_after,
            kind=self.page.kind,
        )
