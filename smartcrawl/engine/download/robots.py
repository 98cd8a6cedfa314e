"""The robots.txt of each host: requested once a run, and stored for runs in which it fails."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

import can_ada
from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.download.faults import download_fault, is_own_code_error
from smartcrawl.extract.robots_txt import (
    is_robots_txt,
    robots_txt_as_utf8,
    robots_txt_delay,
    robots_txt_sitemaps,
)
from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import RobotsUnknownError, RunHaltedError
from smartcrawl.model.option_groups import robots_parser_option
from smartcrawl.model.urls import join_url, url_host_key, url_origin
from smartcrawl.rules.http import (
    MAX_REDIRECTS,
    REDIRECTS,
    http_conditional_headers,
    http_validators_kept,
    is_304_of_other_date,
    is_304_of_other_version,
)
from smartcrawl.rules.model import Fault

logger = logging.getLogger(__name__)

MAX_DOWNLOAD = 8 * 1024 * 1024  #: bytes of an answer; DOWNLOAD_MAXSIZE is for pages
_NO_ROBOTS_TXT = "the response is not a robots.txt (perhaps a web page)"


@dataclass(frozen=True, slots=True)
class DownloadedRobots:
    """The rules in an origin's robots.txt for this crawler."""

    origin: str
    user_agent: str
    asked_at: float  #: monotonic seconds
    parser: RobotParser | None = None  #: None: everything is allowed
    crawl_delay: float | None = None  #: seconds
    asked: bool = False  #: whether they cost a request before any page of the origin
    unknown: str | None = None  #: why the rules are unknown
    fault: Fault = Fault.ROBOTS_UNKNOWN  #: of a page whose rules are unknown

    def allows(self, url: str) -> bool:
        """Whether an address may be requested."""
        return self.parser is None or self.parser.allowed(url, self.user_agent)


class RobotsDownloads:
    """The rules of each origin: requested once a run, conditionally if rules are stored.

    A 2xx has the rules, a 304 confirms the stored ones, and every 4xx except 429 means that
    there are none. After anything else the stored rules count, and so they do after a 2xx that is
    no robots.txt, or a part of one. Without any, or with rules that are too old, such a 2xx has no
    rules; after anything else they are unknown, and the run is incomplete.

    Source: RFC 9309 section 2.3; M-27.
    """

    def __init__(
        self,
        crawler: Crawler,
        *,
        parser: type[RobotParser],
        user_agent: str,
        ttl: int,
        max_stale: int,
    ) -> None:
        self._crawler = crawler
        self._parser = parser
        self._user_agent = user_agent
        self._ttl = ttl
        self._max_stale = max_stale
        self.delays = CrawlDelays(crawler)
        self._rules: dict[str, DownloadedRobots] = {}
        self._kept: dict[str, StoredRobots] = {}  #: Answers of this run.
        self._asking: dict[str, asyncio.Task[DownloadedRobots]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the settings, once.

        Raises:
            SettingError: ROBOTSTXT_PARSER names no parser.
        """
        settings = crawler.settings
        return cls(
            crawler,
            parser=robots_parser_option(settings),
            user_agent=settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"],
            ttl=settings.getint("ROBOTS_TTL_SECONDS"),
            max_stale=settings.getint("ROBOTS_MAX_STALE_SECONDS"),
        )

    async def of(self, request: Request) -> DownloadedRobots:
        """Return the rules for a request, and keep its host at their Crawl-delay."""
        origin = url_origin(request.url)
        rules = self.at_hand(origin) or await self._ask(origin)
        if rules.crawl_delay:
            self.delays.hold(request, rules.crawl_delay)
        return rules

    def at_hand(self, origin: str) -> DownloadedRobots | None:
        """Return the rules of an origin if no request is needed for them.

        ``of`` set the delay of its host when it read them.
        """
        rules = self._rules.get(origin)
        if rules is None or (self._ttl and time.monotonic() - rules.asked_at > self._ttl):
            return None
        return rules

    async def _ask(self, origin: str) -> DownloadedRobots:
        """Request robots.txt once, however many pages wait for the answer."""
        task = self._asking.get(origin)
        if task is None:
            task = self._asking[origin] = asyncio.ensure_future(self._fetch(origin))
            task.add_done_callback(lambda _: self._asking.pop(origin, None))
        return await asyncio.shield(task)

    async def _fetch(self, origin: str) -> DownloadedRobots:
        run, url = run_of_crawler(self._crawler), f"{origin}/robots.txt"
        kept = self._kept.get(origin)
        if kept is None and run is not None:
            kept = run.hosts.stored_robots(origin)
        others = run.hosts.robots_of_others(origin) if run is not None else None
        if others is not None:
            rules = self._rules[origin] = self._read(origin, others)
            return rules
        fresh = None
        try:
            fresh = await self._download(url, kept, trusted=run is None or not run.forced)
            rules = self._read(origin, fresh)
        except RunHaltedError:  # that says nothing about the host
            raise
        except Exception as error:  # without an answer there are no rules
            if fresh is None and is_own_code_error(error, url):
                raise
            rules = self._without(origin, kept, error)
        else:
            self._kept[origin] = fresh
            if run is not None:
                run.hosts.robots_read(origin, fresh, rules.crawl_delay)
        rules = replace(rules, asked=origin not in self._rules)
        self._rules[origin] = rules
        return rules

    async def _download(
        self, url: str, kept: StoredRobots | None, *, trusted: bool
    ) -> StoredRobots:
        """Return the answer, at the end of redirects.

        Validators belong to one address: none is sent to the target of a redirect, and none of
        its answer is stored. After a 304 that names another version the request is repeated
        without them, because it confirms nothing (RFC 9111 section 4.3.4).
        """
        headers = (
            {}
            if kept is None
            else http_conditional_headers(kept.etag, kept.last_modified, trusted=trusted)
        )
        for hop in range(MAX_REDIRECTS + 1):
            request = Request(
                url,
                headers={} if hop else {k: v.encode("latin-1") for k, v in headers.items()},
                meta={"dont_obey_robotstxt": True, "download_maxsize": MAX_DOWNLOAD},
                callback=NO_CALLBACK,
                priority=1000,
            )
            response = await self._crawler.engine.download_async(request)
            target = _target(response, url)
            if target is None:
                break
            url = target
        status, now = response.status, int(time.time())
        etag, last_modified = http_validators_kept(
            _header(response, "ETag"), _header(response, "Last-Modified"), now
        )
        if status == 304 and kept is not None and headers and not hop:
            asked_etag, asked_date = headers.get("If-None-Match"), headers.get("If-Modified-Since")
            if is_304_of_other_version(asked_etag, etag) or (
                asked_etag is None and is_304_of_other_date(asked_date, last_modified)
            ):
                return await self._download(url, kept, trusted=False)
            return replace(
                kept,
                fetched_at=now,
                etag=kept.etag and (etag or kept.etag),
                last_modified=last_modified or kept.last_modified,
            )
        if 200 <= status < 300:
            body = robots_txt_as_utf8(response.body)
            if (status == 206 or not is_robots_txt(body)) and self._has_rules(kept, now):
                why = "a part of it" if status == 206 else _NO_ROBOTS_TXT
                raise RobotsUnknownError(why, Fault.ROBOTS_UNKNOWN)
            if hop:
                return StoredRobots(now, status, body=body)
            return StoredRobots(now, status, etag, last_modified, body)
        if 400 <= status < 500 and status != 429:
            return StoredRobots(now, status)
        why = f"status {status}"
        if target is not None:
            why = f"more than {MAX_REDIRECTS} redirects"
        raise RobotsUnknownError(why, Fault.ROBOTS_UNKNOWN)

    def _has_rules(self, kept: StoredRobots | None, now: int) -> bool:
        """Whether rules are stored that count instead of an answer that is in doubt."""
        if kept is None or not self._counts(kept, now):
            return False
        return kept.status < 400 and is_robots_txt(kept.body)

    def _counts(self, kept: StoredRobots, now: float) -> bool:
        """Whether a stored answer is new enough to count without another."""
        return now - kept.fetched_at < self._max_stale

    def _read(self, origin: str, stored: StoredRobots) -> DownloadedRobots:
        rules = DownloadedRobots(origin, self._user_agent, time.monotonic())
        if stored.status >= 400:
            return rules
        parser = self._parser.from_crawler(self._crawler, stored.body)
        delay = parser.crawl_delay(self._user_agent)
        if delay is not None:
            delay = robots_txt_delay(str(delay))  # Scrapy's parsers have no upper bound
        if (run := run_of_crawler(self._crawler)) is not None:
            run.sitemaps_named(origin, robots_txt_sitemaps(stored.body, origin))
        return replace(rules, parser=parser, crawl_delay=delay)

    def _without(
        self, origin: str, kept: StoredRobots | None, error: Exception
    ) -> DownloadedRobots:
        """Return the rules that count after a failed request: the stored ones, or unknown ones."""
        url = f"{origin}/robots.txt"
        fault, why = download_fault(error, url)
        run = run_of_crawler(self._crawler)
        if run is not None:
            run.hosts.robots_failed(origin, why)
        if kept is not None and self._counts(kept, time.time()):
            since = datetime.fromtimestamp(kept.fetched_at, UTC).isoformat(timespec="seconds")
            logger.warning(
                "robots.txt could not be fetched; the copy of %s is used: %s (%s)", since, why, url
            )
            return self._read(origin, kept)
        logger.warning(
            "robots.txt could not be fetched; no page of this host is requested: %s (%s)", why, url
        )
        if fault not in (Fault.ADDRESS_REFUSED, Fault.HOST_DOWN):  # robots.txt would not help
            if fault is not Fault.TLS:  # its pages fail in the same way: name the remedy
                fault = Fault.ROBOTS_UNKNOWN
            if run is not None:
                run.incomplete(f"robots_unknown: {url_host_key(origin)}")
        now = time.monotonic()
        return DownloadedRobots(origin, self._user_agent, now, unknown=why, fault=fault)


def _target(response: Response, url: str) -> str | None:
    """Return the target of a redirect; None for other answers, and without a usable Location."""
    location = (response.headers.get("Location") or b"").decode("latin-1")
    if response.status not in REDIRECTS or not location:
        return None
    return join_url(can_ada.parse(url), location)


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None


class CrawlDelays:
    """Keeps download slots at the Crawl-delay of their hosts, or above it.

    AutoThrottle sets the delay of a slot after each answer, between bounds that are the same for
    all hosts. Each slot is therefore checked after that, before its next request is sent. Its
    delay has no jitter, because half of it would be too short. DOWNLOAD_DELAY counts when it is
    longer, and within a run a delay only grows.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._least: dict[str, float] = {}  #: seconds, by slot

    def hold(self, request: Request, seconds: float) -> None:
        """Keep the slot of a request at no less than ``seconds`` between two requests."""
        downloader = self._crawler.engine.downloader
        slot = downloader.get_slot_key(request)
        if seconds <= self._least.get(slot, 0):
            return
        if not self._least:
            self._crawler.signals.connect(self.answered, signal=signals.response_downloaded)
        self._least[slot] = seconds
        given = downloader.per_slot_settings.get(slot, {})
        delay = max(
            seconds, float(given.get("delay", self._crawler.settings.getfloat("DOWNLOAD_DELAY")))
        )
        # Scrapy drops a slot that was idle for a minute, and makes a new one of these values.
        downloader.per_slot_settings[slot] = {**given, "delay": delay, "jitter": 0}
        self._raise(slot)

    def answered(self, request: Request) -> None:
        """Raise the delay of a slot again, after AutoThrottle lowered it."""
        self._raise(request.meta.get(Downloader.DOWNLOAD_SLOT, ""))

    def _raise(self, name: str) -> None:
        slot = self._crawler.engine.downloader.slots.get(name)
        if slot is not None and name in self._least:
            slot.delay, slot.jitter = max(slot.delay, self._least[name]), 0
