"""The hosts of a run: the gate with its pauses, records beside pages, trust in validators."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final, Protocol

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.options import Options
from smartcrawl.model.pages import ListedRecord, Page, Visit
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.hosts import HostReader
from smartcrawl.rules.http import is_304_of_other_version, is_coded_etag, is_same_by_head
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.trust import TURNED, UNCONFIRMED, Seen, Trust, is_sampled, is_unverified
from smartcrawl.run.batches import Batches
from smartcrawl.run.received import Answer

logger = logging.getLogger(__name__)


#: No server answers at the host.
ABSENT: Final = frozenset({Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.NETWORK})
#: No request was sent, so the fault is no evidence about the host.
UNASKED: Final = frozenset({Fault.ADDRESS_REFUSED, Fault.ROBOTS_UNKNOWN, Fault.HOST_DOWN})

_NEVER: Final = float("-inf")


class HostGateLimits(Protocol):
    """The settings of the host breaker."""

    @property
    def host_failures_to_park(self) -> int:
        """Consecutive visits without an answer after which a host is parked."""

    @property
    def host_failure_seconds(self) -> int:
        """Least seconds from the first to the last of these visits."""

    @property
    def host_park_seconds(self) -> int:
        """Seconds for which a parked host gets no request before a probe."""

    @property
    def host_probes(self) -> int:
        """Failed probes after which a host is down."""


class Turn(StrEnum):
    """The effect of a failure."""

    PARKED = auto()  #: the host gets no requests for a while
    DOWN = auto()  #: the host gets no more requests


@dataclass(slots=True)
class _Hold:
    """The pause and the parking of a host; times are monotonic seconds."""

    paused: float = _NEVER  #: the end of the pause that the host asked for
    parked: float | None = None  #: the time of the next probe; None: it is not parked
    probes: int = 0  #: failed probes

    @property
    def until(self) -> float:
        return self.paused if self.parked is None else max(self.paused, self.parked)


class HostGate:
    """Decides for each host whether one more request may be sent; ``now`` is monotonic seconds.

    A host that asks for a pause gets one. A host where consecutive visits end without an answer
    is parked; then one request at a time probes it. An answer frees it. After some failed probes
    it is down to the end of the run. Hosts are names without port.

    Source: ADR 133.
    """

    def __init__(self, limits: HostGateLimits) -> None:
        self.throttled: dict[str, _Hold] = {}  #: paused and parked hosts; empty: all may be asked
        self.down: set[str] = set()
        self._limits = limits
        self._rows: dict[str, tuple[int, float]] = {}  #: failed visits in a row, and since when

    def may_ask(self, host: str, now: float, flying: int = 0) -> bool:
        """Whether a host may get a request; ``flying`` of its requests are in flight already.

        A host that is down may: its requests end without being sent.
        """
        hold = self.throttled.get(host)
        if hold is None:
            return True
        return hold.until <= now and (hold.parked is None or not flying)

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Send a host no requests for some seconds; a longer pause that is in force stays."""
        if host not in self.down:
            hold = self.throttled.setdefault(host, _Hold())
            hold.paused = max(hold.paused, now + seconds)

    def answered(self, host: str, now: float) -> None:
        """Free a host that sent any answer; a pause stays in force."""
        if self._rows:
            self._rows.pop(host, None)
        if self.throttled and (hold := self.throttled.get(host)) is not None:
            hold.parked, hold.probes = None, 0
            if hold.paused <= now:
                del self.throttled[host]

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Count a request without a whole answer, and return the effect.

        ``ends``: whether its visit ends with it; until the host is parked, only such requests
        count. A request that was sent before the parking and fails after it changes nothing.
        """
        if fault in UNASKED or host in self.down:
            return None
        if fault not in ABSENT:
            self.answered(host, now)
            return None
        hold = self.throttled.get(host)
        if hold is not None and hold.parked is not None:
            return self._probe_failed(host, hold, now) if hold.until <= now else None
        if not ends:
            return None
        count, since = self._rows.get(host, (0, now))
        self._rows[host] = count + 1, since
        limits = self._limits
        enough = count + 1 >= limits.host_failures_to_park
        if not enough or now - since < limits.host_failure_seconds:
            return None
        self.throttled.setdefault(host, _Hold()).parked = now + limits.host_park_seconds
        return Turn.PARKED

    def _probe_failed(self, host: str, hold: _Hold, now: float) -> Turn:
        hold.probes += 1
        if hold.probes < self._limits.host_probes:
            hold.parked = now + self._limits.host_park_seconds
            return Turn.PARKED
        del self.throttled[host]
        self.down.add(host)
        return Turn.DOWN

    def paced(self, host: str, seconds: float) -> None:
        """Take the seconds between two requests that follow from a host's latency."""

    def single(self, host: str, until: float, now: float) -> None:
        """Take the time until which a host gets one request at a time; both are monotonic."""

    def is_down(self, host: str) -> bool:
        """Whether a host gets no more requests."""
        return host in self.down

    def wait(self, host: str, now: float) -> float:
        """Return the seconds until a host may be asked; 0 when it may be now."""
        hold = self.throttled.get(host)
        return max(0.0, hold.until - now) if hold is not None else 0.0

    def next_turn(self, now: float) -> float | None:
        """Return the seconds until a paused or parked host may be asked; None: no host waits."""
        return min(self._waits(now), default=None)

    def _waits(self, now: float) -> Iterator[float]:
        return (hold.until - now for hold in self.throttled.values() if hold.until > now)


def host_gate_slot(host: str) -> str:
    """Return Scrapy's download slot of a host: politeness does not distinguish ports.

    >>> (
    ...     host_gate_slot("example.com"),
    ...     host_gate_slot("127.0.0.1:8801"),
    ...     host_gate_slot("[::1]:8801"),
    ... )
    ('example.com', '127.0.0.1', '::1')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")


class HostNotes:
    """Adds the records of this run to the batches, and reads those of earlier runs."""

    def __init__(self, reader: HostReader, batches: Batches) -> None:
        self._reader = reader
        self._batches = batches

    def stored_robots(self, origin: str) -> StoredRobots | None:
        """Return the last readable robots.txt of an origin, of any run."""
        return self._reader.robots(origin)

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt that another worker fetched in this run; None: fetch it."""
        return None

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Record the robots.txt of an origin; ``crawl_delay`` in seconds."""
        self._batches.batch.robots[origin] = robots
        tally = self._batches.batch.tally(url_host_key(origin))
        tally.robots = hashlib.sha256(robots.body).digest()
        tally.crawl_delay_ms = None if crawl_delay is None else round(1000 * crawl_delay)

    def robots_failed(self, origin: str, why: str) -> None:
        """Record why the robots.txt of an origin could not be fetched."""
        self._batches.batch.tally(url_host_key(origin)).robots_error = why

    async def asked_once(
        self, key: str, ask: Callable[[], Awaitable[Answer | str]]
    ) -> Answer | str:
        """Return the answer of ``ask``, or the one that another worker got under the same key.

        A text says why there is none.
        """
        return await ask()

    def stored_not_found(self, host: str, since: int) -> str | None:
        """Return a host's answer for missing pages; empty: an error status; None: not known."""
        return self._reader.not_found(host, since)

    def not_found_read(self, host: str, profile: str) -> None:
        """Record a host's answer for missing pages; empty: an error status."""
        self._batches.batch.tally(host).not_found = profile

    def asks_for_time(self, url: str, seconds: int) -> None:
        """Record the seconds of a host's Retry-After."""
        self._batches.batch.tally(url_host_key(url)).retry_after = seconds


class HostTrust:
    """Learns trust from answers, and decides by it how pages are requested."""

    def __init__(
        self, known: Mapping[str, Trust], options: Options, batches: Batches, now: int, run: int
    ) -> None:
        """``known``: trust by host from earlier runs; ``run``: run.no of this one."""
        self._known = {host: trust.at(run) for host, trust in known.items()}
        self._believed = Trust(run=run)
        self._options = options
        self._batches = batches
        self._now = now

    def of(self, host: str) -> Trust:
        """Return the trust in a host."""
        return self._known.get(host, self._believed)

    def validators(self, page: Page) -> tuple[str | None, str | None]:
        """Return (ETag, Last-Modified) of a page, each None where it is not trusted.

        The visit after a sample sends the ETag of the sample, also where ETags bring no 304: this
        finds hosts that answer them again.
        """
        record = page.record
        trust, date = self.of(page.host), record.last_modified
        missing = trust.misses_coded_etags or trust.misses_plain_etags
        coded = missing and is_coded_etag(record.etag)
        believed = trust.believes_etag(dated=date is not None, coded=coded)
        etag = record.etag if believed else None
        if etag is None and trust.believes_etag(dated=False):
            ratio = self._options.trust_sample_ratio
            etag = record.etag if is_sampled(page.no, page.state.attempts - 1, ratio) else None
        return etag, date if trust.believes_dates else None

    def doubts(self, page: Page) -> bool:
        """Whether a page is downloaded whole this time, in spite of its validators."""
        state = page.state
        if state.standing is Standing.BARE:
            return False
        return self._doubts(page.no, state.attempts, state.etag_marks, page.record.verified_at)

    def doubts_listed(self, record: ListedRecord) -> bool:
        """Whether a stored file is read this time, in spite of its listing."""
        marks, verified_at = record.etag_marks, record.verified_at
        return self._doubts(record.no, record.attempts, marks, verified_at)

    def _doubts(self, no: int, attempts: int, marks: int, verified_at: int | None) -> bool:
        if marks & UNCONFIRMED:
            return True
        options = self._options
        return is_sampled(no, attempts, options.trust_sample_ratio) or is_unverified(
            verified_at, self._now, options.max_unverified_days, no
        )

    def asks_head(self, page: Page) -> bool:
        """Whether a HEAD comes first, because it may save a download (M-10)."""
        record = page.record
        options = self._options
        if (
            options.head_policy == "never"
            or page.state.standing is not Standing.HELD
            or page.plan.doubted
            or page.state.ordered
            or not (record.etag or record.last_modified)
        ):
            return False
        if options.head_policy == "always":
            return True
        long = record.content_length >= options.head_min_bytes
        return long and self.of(page.host).ignores_conditions

    def confirms(self, page: Page, etag: str | None, date: str | None, length: int | None) -> bool:
        """Whether a HEAD response confirms that the stored page is current."""
        own_etag, own_date = self.validators(page)
        return is_same_by_head(
            (own_etag, etag), (own_date, date), (page.record.content_length, length)
        )

    def learn(self, visit: Visit) -> None:
        """Update the trust in a host with one answer."""
        page = visit.page
        if (
            page.state.standing is not Standing.HELD
            or visit.extracted_again
            or visit.url != page.url
        ):
            return
        before = self.of(page.host)
        if visit.not_modified:
            asked, dated = visit.traffic.asked_etag, page.record.last_modified
            by_tag = None not in (asked, dated)
            after = before.seen_304(
                turned=by_tag and page.state.etag_marks & TURNED > 0,
                respelled=_is_respelled(visit),
                plain=by_tag and not before.plain_heard and _is_plain(visit),
            )
        elif visit.http_status == Fault.OTHER_VERSION:
            after = before.contradicted()
        elif (
            visit.http_status == 200
            and visit.outcome in (Outcome.SAME, Outcome.CHANGED)
            and page.record.configuration == page.plan.wanted
            and visit.parsed.body_hash is not None
        ):
            after = before.after(_seen(visit))
        else:
            return
        if after != before:
            self._known[page.host] = after
            tally = self._batches.batch.tally(page.host)
            tally.trusted = before if tally.trust is None else tally.trusted
            tally.trust = after


def _is_respelled(visit: Visit) -> bool:
    """Whether a page was asked for its ETag in both spellings."""
    asked, etag = visit.traffic.asked_etag, visit.page.record.etag
    return None not in (asked, etag) and asked != etag and is_coded_etag(etag)


def _is_plain(visit: Visit) -> bool:
    """Whether a page was asked for its ETag, which is not coded."""
    return visit.traffic.asked_etag is not None and not is_coded_etag(visit.page.record.etag)


def _seen(visit: Visit) -> Seen:
    answer = visit.answer
    page = visit.page
    record = page.record
    etags, dates = (answer.etag, record.etag), (answer.last_modified, record.last_modified)
    return Seen(
        conditional=visit.traffic.conditional,
        # Apache's tag of a file is weak for a second, and strong from then on.
        same_etag=None not in etags and not is_304_of_other_version(*etags),
        other_etag=is_304_of_other_version(*etags),
        same_date=None not in dates and dates[0] == dates[1],
        same_bytes=visit.parsed.body_hash == record.body_hash,
        same_content=visit.outcome is Outcome.SAME,
        dated=answer.last_modified is not None,
        turned=page.state.etag_marks & TURNED > 0,
        respelled=_is_respelled(visit),
        plain=_is_plain(visit),
    )


def open_host_trust(
    reader: HostReader, options: Options, batches: Batches, now: int, run: int
) -> HostTrust:
    """Return the trust in hosts as stored; ``run``: run.no of the run that begins ``now``."""
    days = options.max_unverified_days
    known = reader.trust(now - days * 86_400 if days else 0)
    return HostTrust(known, options, batches, now, run)


FRESH: Final = "fresh"  #: in Request.meta: sent on a connection that is used for no other request
_MOST: Final = 2  #: connections with stray bytes after which an origin is suspect


class Strays:
    """Counts connections on which bytes came without a request.

    An origin (scheme, host and port, as in its addresses) with two such connections gets one
    request per connection for the rest of the run.

    Source: ADR 32.
    """

    def __init__(self) -> None:
        self._connections: Counter[str] = Counter()
        self._suspect: set[str] = set()

    def came(self, origin: str) -> None:
        """Count a connection of an origin with stray bytes."""
        self._connections[origin] += 1
        if self._connections[origin] == _MOST:
            self._suspect.add(origin)
            logger.info(
                "%s sends responses to requests that were never made; from now on each "
                "connection carries one request",
                origin,
            )

    def suspects(self, origin: str) -> bool:
        """Whether an origin gets one request per connection."""
        return origin in self._suspect


def run_stray_origin(url: str) -> str:
    """Return the origin of an absolute address."""
    end = url.find("/", 8)
    return url[:end] if end > 0 else url
