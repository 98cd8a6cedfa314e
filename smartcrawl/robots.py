"""robots.txt: what a host allows, asked once a run, kept for days on which it cannot be had."""

from __future__ import annotations

import asyncio
import codecs
import logging
import math
import re
import string
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self
from urllib.parse import quote, urlsplit

import can_ada
from protego import Protego
from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser

from smartcrawl.exceptions import RobotsUnknownError
from smartcrawl.faults import told
from smartcrawl.items import StoredRobots
from smartcrawl.options import robots_parser
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS, conditional_headers
from smartcrawl.rules.model import Fault
from smartcrawl.run import run_of
from smartcrawl.urls import host_key, join

logger = logging.getLogger(__name__)

LIMIT = 500 * 1024  #: bytes that are read and kept (RFC 9309 section 2.5)
MAX_DOWNLOAD = 8 * 1024 * 1024  #: bytes of an answer, whatever DOWNLOAD_MAXSIZE is for pages
#: Seconds. Nobody means a longer delay for each page of a site, and a run would never end.
MAX_CRAWL_DELAY = 30.0

# The file


def as_utf8(body: bytes) -> bytes:
    """Return a robots.txt as UTF-8 without byte order mark, cut to whole lines within LIMIT.

    Bytes that are no UTF-8 stay as they are.

    >>> as_utf8(codecs.BOM_UTF16_LE + "Allow: /ü".encode("utf-16-le")).decode()
    'Allow: /ü'
    """
    if body.startswith(codecs.BOM_UTF8):
        body = body.removeprefix(codecs.BOM_UTF8)
    elif body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = body.decode("utf-16", "replace").encode()
    if len(body) <= LIMIT:
        return body
    end = max(body.rfind(mark, 0, LIMIT + 1) for mark in (b"\n", b"\r"))
    return body[: max(0, end)]


def crawl_delay(value: str) -> float | None:
    """Return the seconds that a Crawl-delay asks for; None when it is nonsense.

    >>> crawl_delay("1.5"), crawl_delay("1e9"), crawl_delay("-1"), crawl_delay("soon")
    (1.5, 30.0, None, None)
    """
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, MAX_CRAWL_DELAY) if math.isfinite(seconds) and seconds >= 0 else None


def _lines(body: bytes) -> list[str]:
    return _LINE_END.split(as_utf8(body).decode("utf-8", "surrogateescape"))


def _escaped(pattern: str) -> str:
    """Return a pattern as its octets are written in an address: printable ASCII."""
    return quote(pattern, safe=string.punctuation, errors="surrogateescape")


_LINE_END = re.compile(r"\r\n?|\n")

# RFC 9309

_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP = range(5)
#: Names of directives, and what people write instead of them.
_FIELDS: Final = {
    "user-agent": _AGENT, "useragent": _AGENT, "user agent": _AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW, "dissallow": _DISALLOW, "dissalow": _DISALLOW, "disalow": _DISALLOW,
    "diasllow": _DISALLOW, "disallaw": _DISALLOW,
    "crawl-delay": _DELAY, "crawldelay": _DELAY, "crawl delay": _DELAY,
    "sitemap": _SITEMAP, "site-map": _SITEMAP,
}  # fmt: skip
_NAME = r"[^\s/();,]+"
#: Products of a user agent: its first word, and every word with a version.
_PRODUCT = re.compile(rf"^\s*({_NAME})|(?<=[\s(;,])({_NAME})(?=/\d)")


@dataclass(slots=True)
class _Group:
    """Rules, and whom they are for."""

    agents: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)  #: as Protego reads them
    delays: dict[tuple[int, int], float] = field(default_factory=dict)  #: of agents[from:to]


class Rfc9309RobotParser(RobotParser):
    """The rules as RFC 9309 has them: one product's groups merged, the longest match wins.

    Protego matches addresses. It is given only the rules that apply, because its own grouping
    differs: a line that it does not know, or a Crawl-delay, ends a list of agents; a name that
    is the beginning of ours, or any word of our user agent, counts as ours; a name with a
    version does not; and its time is the product of agents and rules.
    """

    def __init__(self, body: bytes) -> None:
        self.sitemaps: list[str] = []
        self._groups: dict[str, list[_Group]] = defaultdict(list)  #: by agent
        self._chosen: dict[str, tuple[Protego, float | None]] = {}  #: by user agent
        for group in self._read(body):
            for agent in dict.fromkeys(group.agents):
                self._groups[agent].append(group)

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        """Parse a robots.txt."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether the rules for ``user_agent`` allow an address."""
        matcher, _ = self._choose(_text(user_agent))
        return matcher.can_fetch(_text(url), "*")

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the seconds between two requests that are asked of ``user_agent``."""
        return self._choose(_text(user_agent))[1]

    def _read(self, body: bytes) -> Iterator[_Group]:
        group, start, named = _Group(), 0, False  # named: the last line was an agent's
        for line in _lines(body):
            kind, value = _directive(line)
            if kind == _SITEMAP:
                self.sitemaps.append(value)
            elif kind == _AGENT:
                if group.rules:
                    yield group
                    group, named = _Group(), False
                if not named:
                    start, named = len(group.agents), True
                group.agents.append(_agent(value))
            elif kind == _DELAY:
                named = False
                if (seconds := crawl_delay(value)) is not None:
                    those = start, len(group.agents)
                    group.delays[those] = max(seconds, group.delays.get(those, 0))
            elif kind is not None:
                name = "Allow" if kind == _ALLOW else "Disallow"
                group.rules.append(f"{name}: {_escaped(value)}")
        yield group

    def _choose(self, user_agent: str) -> tuple[Protego, float | None]:
        chosen = self._chosen.get(user_agent)
        if chosen is None:
            name = next((name for name in _products(user_agent) if name in self._groups), "*")
            groups = self._groups.get(name, [])
            rules = [rule for group in groups for rule in group.rules]
            delays = [
                seconds
                for group in groups
                for (start, stop), seconds in group.delays.items()
                if name in group.agents[start:stop]
            ]
            text = "\n".join(["User-agent: *", *rules])
            chosen = self._chosen[user_agent] = Protego.parse(text), max(delays, default=None)
        return chosen


def _products(user_agent: str) -> list[str]:
    """Return the names under which robots.txt may address us, the most significant first.

    >>> _products("Foobot/1.0 (a crawler) libwww/5.4")
    ['foobot', 'libwww']
    >>> _products("Mozilla/5.0 (compatible; Foobot/1.0; +https://foo.example/1)")
    ['foobot', 'mozilla']

    Source: RFC 9110 section 10.1.5; everybody is Mozilla.
    """
    names = [(first or other).lower() for first, other in _PRODUCT.findall(user_agent)]
    return sorted(names, key="mozilla".__eq__)


def _directive(line: str) -> tuple[int | None, str]:
    """Return kind and value of a line; a missing colon is forgiven."""
    line = line.partition("#")[0].strip()
    name, _, value = line.partition(":")
    kind = _FIELDS.get(" ".join(name.lower().split()))
    if kind is None:
        name, _, value = line.replace("\t", " ").partition(" ")
        kind = _FIELDS.get(name.lower())
    return kind, value.strip()


def _agent(value: str) -> str:
    """Return the product token of a User-agent line.

    >>> _agent("FooBot/1.2"), _agent("foo bar"), _agent("foo*"), _agent("*")
    ('foobot', 'foo', 'foo', '*')
    """
    token = re.match(_NAME, value)
    name = token[0].lower() if token else ""
    return name.rstrip("*") or name


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# Seed 002


class AllowFirstRobotParser(RobotParser):
    """The matcher of seed 002: any Allow that matches wins, then any Disallow (R2-70 to R2-72).

    Each User-agent line begins a group, which applies when its name is ``*`` or part of our
    user agent; all that apply count. ``*`` in a pattern stands for anything, and the pattern
    then for the whole path; ``$`` at its end stands for the end of the path; every other
    character for itself. A ``#`` begins a comment at the beginning of a line only.
    """

    def __init__(self, body: bytes) -> None:
        self.sitemaps: list[str] = []
        self._entries: list[tuple[str, str, str]] = []  #: agent, directive, value
        self._chosen: dict[str, tuple[list[str], list[str], float | None]] = {}
        agent = None
        for line in _lines(body):
            name, colon, value = line.strip().partition(":")
            name, value = name.strip().lower(), value.strip()
            if not colon or name.startswith("#"):
                continue
            if name == "user-agent":
                agent = value.lower()
            elif name == "sitemap":
                self.sitemaps.append(value)
            elif agent is not None and value:
                self._entries.append((agent, name, value))

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        """Parse a robots.txt."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether the rules for ``user_agent`` allow an address, by its path and query."""
        allows, disallows, _ = self._choose(_text(user_agent))
        parts = urlsplit(_text(url))
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if any(_matches(pattern, path) for pattern in allows):
            return True
        return not any(_matches(pattern, path) for pattern in disallows)

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the seconds between two requests that are asked of ``user_agent``."""
        return self._choose(_text(user_agent))[2]

    def _choose(self, user_agent: str) -> tuple[list[str], list[str], float | None]:
        chosen = self._chosen.get(user_agent)
        if chosen is None:
            ours = user_agent.lower()
            found: defaultdict[str, list[str]] = defaultdict(list)
            for agent, name, value in self._entries:
                if agent == "*" or agent in ours:
                    found[name].append(value)
            delays = [crawl_delay(value) for value in found["crawl-delay"]]
            chosen = self._chosen[user_agent] = (
                [_escaped(value) for value in found["allow"]],
                [_escaped(value) for value in found["disallow"]],
                max((seconds for seconds in delays if seconds is not None), default=None),
            )
        return chosen


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern of seed 002 matches, in one pass over the path.

    >>> [_matches("/a*c", path) for path in ("/abc", "/ac", "/abcd", "/xabc")]
    [True, True, False, False]
    >>> _matches("/a", "/ab"), _matches("/a$", "/ab"), _matches("/a$", "/a")
    (True, False, True)
    """
    anchored, pattern = pattern.endswith("$"), pattern.removesuffix("$")
    if "*" not in pattern:
        return path == pattern if anchored else path.startswith(pattern)
    first, *middle, last = pattern.split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for part in middle:
        place = path.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return len(path) - at >= len(last) and path.endswith(last)


# What a host allows


@dataclass(frozen=True, slots=True)
class Rules:
    """What an origin's robots.txt says to us."""

    origin: str
    user_agent: str
    asked_at: float  #: monotonic seconds
    parser: RobotParser | None = None  #: None: everything is allowed
    crawl_delay: float | None = None  #: seconds
    unknown: str | None = None  #: why the rules could not be had
    fault: Fault = Fault.ROBOTS_UNKNOWN  #: of a page whose rules are unknown

    def allows(self, url: str) -> bool:
        """Whether an address may be asked."""
        return self.parser is None or self.parser.allowed(url, self.user_agent)


class RobotsRules:
    """The rules of each origin: asked once a run, and conditionally if they are kept.

    2xx are rules, 304 says that the kept ones stand, every 4xx except 429 that there are
    none. After anything else the kept ones count, unless they are too old; then the rules
    are unknown, and the run incomplete.

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
        self._delays = CrawlDelays(crawler)
        self._rules: dict[str, Rules] = {}
        self._kept: dict[str, StoredRobots] = {}  #: of this run
        self._asking: dict[str, asyncio.Task[Rules]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read the settings, once.

        Raises:
            SettingError: ROBOTSTXT_PARSER names no parser.
        """
        settings = crawler.settings
        return cls(
            crawler,
            parser=robots_parser(settings),
            user_agent=settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"],
            ttl=settings.getint("ROBOTS_TTL_SECONDS"),
            max_stale=settings.getint("ROBOTS_MAX_STALE_SECONDS"),
        )

    async def of(self, request: Request) -> Rules:
        """Return the rules for a request, and hold its host to the delay that they ask for."""
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        rules = self._rules.get(origin)
        if rules is None or (self._ttl and time.monotonic() - rules.asked_at > self._ttl):
            rules = await self._ask(origin)
        if rules.crawl_delay:
            self._delays.hold(request, rules.crawl_delay)
        return rules

    async def _ask(self, origin: str) -> Rules:
        """Ask a host once, however many of its pages are waiting for the answer."""
        task = self._asking.get(origin)
        if task is None:
            task = self._asking[origin] = asyncio.ensure_future(self._fetch(origin))
            task.add_done_callback(lambda _: self._asking.pop(origin, None))
        return await asyncio.shield(task)

    async def _fetch(self, origin: str) -> Rules:
        run, url = run_of(self._crawler), f"{origin}/robots.txt"
        kept = self._kept.get(origin)
        if kept is None and run is not None:
            kept = run.stored_robots(origin)
        try:
            fresh = await self._download(url, kept, trusted=run is None or not run.forced)
            rules = self._read(origin, fresh)
        except Exception as error:  # noqa: BLE001  # whatever failed, these are no rules
            rules = self._without(origin, kept, error)
        else:
            self._kept[origin] = fresh
            if run is not None:
                run.robots_read(origin, fresh, rules.crawl_delay)
        self._rules[origin] = rules
        return rules

    async def _download(
        self, url: str, kept: StoredRobots | None, *, trusted: bool
    ) -> StoredRobots:
        """Return what is answered, possibly behind redirects.

        Validators belong to one address: none is sent to where a redirect leads, and none
        is kept from there.
        """
        headers = (
            {}
            if kept is None
            else conditional_headers(kept.etag, kept.last_modified, trusted=trusted)
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
        etag, last_modified = _header(response, "ETag"), _header(response, "Last-Modified")
        if status == 304 and kept is not None and headers and not hop:
            return replace(
                kept,
                fetched_at=now,
                etag=etag or kept.etag,
                last_modified=last_modified or kept.last_modified,
            )
        if 200 <= status < 300:
            body = as_utf8(response.body)
            if hop:
                return StoredRobots(now, status, body=body)
            return StoredRobots(now, status, etag, last_modified, body)
        if 400 <= status < 500 and status != 429:
            return StoredRobots(now, status)
        why = f"status {status}"
        if target is not None:
            why = f"more than {MAX_REDIRECTS} redirects"
        raise RobotsUnknownError(why, Fault.ROBOTS_UNKNOWN)

    def _read(self, origin: str, stored: StoredRobots) -> Rules:
        rules = Rules(origin, self._user_agent, time.monotonic())
        if stored.status >= 400:
            return rules
        parser = self._parser.from_crawler(self._crawler, stored.body)
        delay = parser.crawl_delay(self._user_agent)
        if delay is not None:
            delay = crawl_delay(str(delay))  # a parser of Scrapy's knows no most
        return replace(rules, parser=parser, crawl_delay=delay)

    def _without(self, origin: str, kept: StoredRobots | None, error: Exception) -> Rules:
        """Return the rules that count when they could not be had now."""
        url = f"{origin}/robots.txt"
        fault, why = told(error, url)
        if kept is not None and time.time() - kept.fetched_at < self._max_stale:
            since = datetime.fromtimestamp(kept.fetched_at, UTC).isoformat(timespec="seconds")
            logger.warning(
                "robots.txt unknown: the rules of %s count instead: %s (%s)", since, why, url
            )
            return self._read(origin, kept)
        logger.warning("robots.txt unknown: no page of this host is asked: %s (%s)", why, url)
        if fault not in (Fault.ADDRESS_REFUSED, Fault.HOST_DOWN):  # no robots.txt would help
            fault = Fault.ROBOTS_UNKNOWN
            if (run := run_of(self._crawler)) is not None:
                run.incomplete(f"robots_unknown: {host_key(origin)}")
        now = time.monotonic()
        return Rules(origin, self._user_agent, now, unknown=why, fault=fault)


def _target(response: Response, url: str) -> str | None:
    """Return where a redirect leads; None for any other answer, and for a useless Location."""
    location = (response.headers.get("Location") or b"").decode("latin-1")
    if response.status not in REDIRECTS or not location:
        return None
    return join(can_ada.parse(url), location)


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else None


class CrawlDelays:
    """Keeps download slots at the Crawl-delay that their hosts ask for, or above it.

    AutoThrottle sets a slot's delay anew with each answer, between bounds that are the same
    for all; so a slot is looked at after that, before its next request goes out. Its delay is
    not varied either, for half of it would be too short. DOWNLOAD_DELAY counts when it is
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
            self._crawler.signals.connect(self._answered, signal=signals.response_downloaded)
        self._least[slot] = seconds
        given = downloader.per_slot_settings.get(slot, {})
        delay = max(
            seconds, float(given.get("delay", self._crawler.settings.getfloat("DOWNLOAD_DELAY")))
        )
        # Scrapy forgets a slot that was idle for a minute; this is what it makes a new one of.
        downloader.per_slot_settings[slot] = {**given, "delay": delay, "jitter": 0}
        self._raise(slot)

    def _answered(self, request: Request) -> None:
        self._raise(request.meta.get(Downloader.DOWNLOAD_SLOT, ""))

    def _raise(self, name: str) -> None:
        slot = self._crawler.engine.downloader.slots.get(name)
        if slot is not None and name in self._least:
            slot.delay, slot.jitter = max(slot.delay, self._least[name]), 0
