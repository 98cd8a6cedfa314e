"""Nouns of a batch: the addresses, visits and host statistics of one transaction."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from smartcrawl.model.pages import Visit
from smartcrawl.model.rendered import DataRow, StoredSample
from smartcrawl.rules.trust import Trust


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
    """Present state of the requests to a host; times are Unix seconds."""

    delay_ms: int = 0  #: between two requests, as adapted
    in_flight: int = 0  #: requests
    parked_until: int | None = None  #: the host does not answer
    paused_until: int | None = None  #: as its Retry-After asked
    is_down: bool = False  #: no more requests in this run

    @property
    def will_change(self) -> bool:
        """Whether this state will change without a further answer."""
        return bool(self.in_flight or self.parked_until or self.paused_until or self.is_down)


@dataclass(slots=True)
class HostTally:
    """Additions of one batch to a host's statistics."""

    crawled: int = 0
    failed: int = 0
    downloaded: int = 0  #: bytes
    response_ms: int = 0
    robots: bytes | None = None  #: SHA-256 of its robots.txt, if it was read
    crawl_delay_ms: int | None = None  #: as in its robots.txt, if it was read
    robots_error: str | None = None  #: the reason why its robots.txt could not be fetched
    retry_after: int | None = None  #: seconds, of its last Retry-After
    now: HostNow | None = None  #: the present state of its requests
    not_found: str | None = None  #: its answer for a missing page, if one was requested
    trust: Trust | None = None  #: evidence about its validators, if it changed
    trusted: Trust | None = None  #: the evidence before this batch


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
    """The writes of one transaction. It is full at about 50 ms of write lock (ADR 129)."""

    addresses: list[Address] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)  #: number -> smallest depth offered
    touched: array[int] = field(default_factory=lambda: array("q"))  #: 304, nothing to renew
    aside: array[int] = field(default_factory=lambda: array("q"))  #: listed as before, without use
    retargeted: list[tuple[int, int, bytes, int | None]] = field(
        default_factory=list
    )  #: number, scope, targets, number of the canonical page
    #: number -> other spellings under which it was linked, the newest last
    spellings: dict[int, list[str]] = field(default_factory=dict)
    #: number -> what its spellings answered: address, status, message
    tried: dict[int, list[tuple[str, int | None, str | None]]] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    probes: list[Visit] = field(default_factory=list)  #: visits of candidates for removal
    counts: Counter[str] = field(default_factory=Counter)  #: by column of ``run``
    hosts: dict[str, HostTally] = field(default_factory=dict)
    robots: dict[str, StoredRobots] = field(default_factory=dict)  #: by origin
    kinds: dict[int, int] = field(default_factory=dict)  #: number -> kind, of sitemaps
    samples: dict[int, StoredSample] = field(default_factory=dict)  #: of pages read both ways
    data: dict[int, DataRow] = field(default_factory=dict)  #: by number: answers that are news
    skipped: array[int] = field(default_factory=lambda: array("q"))  #: reached, not due
    noticed: list[tuple[int, int]] = field(default_factory=list)  #: number, modified at
    cut: str | None = None  #: new reasons why the run is incomplete
    listing: str | None = None  #: facts about the listing, for the next run (source.listing)
    is_sample: bool = False  #: whether it is written although it may have nothing (ADR 171)
    text: int = 0  #: characters of new text
    bodies: int = 0  #: bytes of bodies that are to be stored

    MAX_VISITS: ClassVar = 40
    MAX_TOUCHED: ClassVar = 500
    MAX_TEXT: ClassVar = 1_000_000  #: characters
    MAX_ADDRESSES: ClassVar = 5_000
    MAX_SKIPPED: ClassVar = 5_000
    MAX_BODIES: ClassVar = 8_000_000  #: bytes

    def tally(self, host: str) -> HostTally:
        """Return the additions of this batch to a host."""
        return self.hosts.setdefault(host, HostTally())

    @property
    def full(self) -> bool:
        """Whether the batch should be written now."""
        return (
            len(self.visits) + len(self.probes) >= self.MAX_VISITS
            or len(self.touched) + len(self.aside) >= self.MAX_TOUCHED
            or self.text >= self.MAX_TEXT
            or len(self.addresses) + len(self.spellings) >= self.MAX_ADDRESSES
            or len(self.skipped) >= self.MAX_SKIPPED
            or self.bodies >= self.MAX_BODIES
        )

    def __bool__(self) -> bool:
        return bool(
            self.addresses
            or self.reached
            or self.touched
            or self.aside
            or self.visits
            or self.probes
            or self.retargeted
            or self.spellings
            or self.tried
            or self.robots
            or self.kinds
            or self.data
            or self.samples
            or self.skipped
            or self.noticed
            or self.cut
            or self.listing
            or self.is_sample
        )
