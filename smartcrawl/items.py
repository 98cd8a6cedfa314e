"""What moves through a run: what a page says, and what one visit found."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

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
from smartcrawl.rules.trust import Trust


class Link(NamedTuple):
    """One outgoing link of a page, before any filter (M-02).

    ``url`` is absolute, without fragment and credentials. ``type`` is ``hyperlink``, ``frame``,
    ``refresh``, ``next``, ``prev``, ``alternate``, ``canonical`` or ``redirect``; those of a
    sitemap or feed are ``entry`` and ``sitemap``, and ``anchor`` is their lastmod. ``nofollow`` is
    true for ``rel=nofollow`` on the link itself; a page's own nofollow is on the document. ``cut``
    leads to the page itself and says that it has more links than are kept.
    """

    url: str
    anchor: str
    type: str
    nofollow: bool


class Image(NamedTuple):
    """One image of a page.

    ``src`` is as written, without fragment, so that equal bodies have equal hashes; it is absolute
    on a page with ``<base href>``. Width and height are CSS pixels, as its attributes say.
    ``context`` is its caption, title or heading, at most 300 characters.
    """

    src: str
    alt: str
    width: int | None = None
    height: int | None = None
    context: str = ""


class Section(NamedTuple):
    """One heading (``level`` 1 to 6, or 0 before the first) and the text below it."""

    level: int
    heading: str
    text: str


class Chunk(NamedTuple):
    """A searchable part of a document: heading path, outermost first, and ≤ 1,500 characters."""

    headings: tuple[str, ...]
    text: str


class Unreadable(NamedTuple):
    """A body that cannot be read, and why: the first three fields say of what that holds."""

    body_hash: bytes
    extraction: int  #: EXTRACTION_VERSION
    media: str  #: MIME type as which it was read, and a charset that the server named
    fault: Fault
    allowed: int  #: seconds or MiB that were too few for it; 0: more of them would not help
    message: str  #: for people


@dataclass(frozen=True, slots=True)
class Document:
    """What one body says. Nothing in it depends on the configuration of the crawl."""

    title: str = ""
    description: str = ""
    language: str = ""  #: ISO 639-1, empty when unsure
    sections: tuple[Section, ...] = ()
    images: tuple[Image, ...] = ()
    links: tuple[Link, ...] = ()  #: unfiltered, distinct by URL, in document order
    canonical: str | None = None  #: absolute URL
    noindex: bool = False  #: meta robots
    nofollow: bool = False  #: meta robots
    links_cut: bool = False  #: whether there are more than are kept
    overlong: tuple[str, ...] = ()  #: beginnings of links that are too long to be asked
    charset: str = ""  #: as used for decoding
    content_type: str = ""  #: MIME type without parameters
    declared: str = ""  #: ISO 639-1, the language that it names itself
    keywords: str = ""  #: of ``<meta name="keywords">``, as written; not searched

    @property
    def text(self) -> str:
        """Headings and text in reading order, one block a line."""
        return "\n".join(part for s in self.sections for part in (s.heading, s.text) if part)

    @property
    def text_length(self) -> int:
        """Characters of ``text``."""
        sizes = [len(part) for s in self.sections for part in (s.heading, s.text) if part]
        return sum(sizes) + max(0, len(sizes) - 1)


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
    answer: str  #: JSON: address and headers (smartcrawl.collapses)
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


class Address(NamedTuple):
    """An address that a run met for the first time."""

    no: int
    id: bytes  #: SHA-256 of the normalized source
    url: str
    identity: str | None  #: the normalized source when it differs from ``url``
    host: str
    depth: int
    discovered_from: int | None
    kind: int = 0  #: see Page.kind


@dataclass(frozen=True, slots=True)
class HostNow:
    """How a host is being asked at this moment; times are Unix seconds."""

    delay_ms: int = 0  #: between two requests, as adapted
    in_flight: int = 0  #: requests
    parked_until: int | None = None  #: nobody answers there
    paused_until: int | None = None  #: as its Retry-After asked
    is_down: bool = False  #: given up for this run

    @property
    def will_change(self) -> bool:
        """Whether it will be another without an answer to a page."""
        return bool(self.in_flight or self.parked_until or self.paused_until or self.is_down)


@dataclass(slots=True)
class HostTally:
    """What one batch adds to a host's statistics."""

    crawled: int = 0
    failed: int = 0
    downloaded: int = 0  #: bytes
    response_ms: int = 0
    robots: bytes | None = None  #: SHA-256 of its robots.txt, when it was read
    crawl_delay_ms: int | None = None  #: as its robots.txt asks, when it was read
    robots_error: str | None = None  #: why its robots.txt could not be had
    retry_after: int | None = None  #: seconds, as it asked last
    now: HostNow | None = None  #: how it is being asked
    not_found: str | None = None  #: what it answers for what cannot exist, when it was asked
    trust: Trust | None = None  #: what its validators have shown to be worth, when that is news
    trusted: Trust | None = None  #: the same before this batch


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """The last robots.txt of an origin that could be read."""

    fetched_at: int  #: Unix seconds of the last 200, 304 or 4xx
    status: int  #: 200, or a 4xx that means "no rules"
    etag: str | None = None
    last_modified: str | None = None
    body: bytes = b""  #: at most 500 KiB


@dataclass(slots=True)
class Batch:
    """What one transaction writes. It is full at about 50 ms of write lock (design.md 5)."""

    addresses: list[Address] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)  #: number -> smallest depth offered
    touched: array[int] = field(default_factory=lambda: array("q"))  #: 304, nothing to renew
    retargeted: list[tuple[int, int, bytes, int | None]] = field(
        default_factory=list
    )  #: number, scope, targets, number of the canonical page
    visits: list[Visit] = field(default_factory=list)
    probes: list[Visit] = field(default_factory=list)  #: looks at candidates for removal
    counts: Counter[str] = field(default_factory=Counter)  #: by column of ``run``
    hosts: dict[str, HostTally] = field(default_factory=dict)
    robots: dict[str, StoredRobots] = field(default_factory=dict)  #: by origin
    kinds: dict[int, int] = field(default_factory=dict)  #: of addresses named as sitemaps
    skipped: array[int] = field(default_factory=lambda: array("q"))  #: reached, not due
    noticed: list[tuple[int, int]] = field(default_factory=list)  #: number, modified at
    cut: str | None = None  #: what kept the run from seeing everything, when that is news
    text: int = 0  #: characters of new text
    bodies: int = 0  #: bytes of bodies that are to be stored

    MAX_VISITS: ClassVar = 40
    MAX_TOUCHED: ClassVar = 500
    MAX_TEXT: ClassVar = 1_000_000  #: characters
    MAX_ADDRESSES: ClassVar = 5_000
    MAX_SKIPPED: ClassVar = 5_000
    MAX_BODIES: ClassVar = 8_000_000  #: bytes

    def tally(self, host: str) -> HostTally:
        """Return what this batch adds to a host."""
        return self.hosts.setdefault(host, HostTally())

    @property
    def full(self) -> bool:
        """Whether the batch should be written now."""
        return (
            len(self.visits) + len(self.probes) >= self.MAX_VISITS
            or len(self.touched) >= self.MAX_TOUCHED
            or self.text >= self.MAX_TEXT
            or len(self.addresses) >= self.MAX_ADDRESSES
            or len(self.skipped) >= self.MAX_SKIPPED
            or self.bodies >= self.MAX_BODIES
        )

    def __bool__(self) -> bool:
        return bool(
            self.addresses
            or self.reached
            or self.touched
            or self.visits
            or self.probes
            or self.retargeted
            or self.robots
            or self.kinds
            or self.skipped
            or self.noticed
            or self.cut
        )


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """One image of a page, as an index elsewhere takes it."""

    id: str
    src: str  #: absolute
    alt: str
    context: str
    width: int | None  #: CSS pixels
    height: int | None  #: CSS pixels


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """What an index elsewhere takes of one page; without a ``mark`` the page is taken out of it."""

    no: int
    source: str
    id: bytes  #: SHA-256 of the normalized source
    mark: bytes | None = None  #: hash of the content
    url: str = ""
    canonical_url: str | None = None
    content_group: str = ""
    last_changed: int | None = None  #: Unix seconds
    mime_type: str = ""
    depth: int = 0
    title: str = ""
    description: str = ""
    language: str = ""
    chunks: tuple[Chunk, ...] = ()
    images: tuple[IndexedImage, ...] = ()
