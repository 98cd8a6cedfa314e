"""robots.txt: its parsers, by RFC 9309 or with Allow first, and its groups as written."""

from __future__ import annotations

import codecs
import math
import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, urlsplit

import can_ada
from protego import Protego

from smartcrawl.model.urls import join_url

LIMIT = 500 * 1024  #: bytes that are read and kept (RFC 9309 section 2.5)
#: Seconds. With longer delays between two pages a run would never end.
MAX_CRAWL_DELAY = 30.0

# The file


def robots_txt_as_utf8(body: bytes) -> bytes:
    """Return a robots.txt as UTF-8 without byte order mark, cut to whole lines within LIMIT.

    Bytes that are no UTF-8 stay as they are.

    >>> robots_txt_as_utf8(codecs.BOM_UTF16_LE + "Allow: /ü".encode("utf-16-le")).decode()
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


def is_robots_txt(body: bytes) -> bool:
    r"""Whether a body may be a robots.txt: it names an agent or a sitemap, or has no line at all.

    >>> is_robots_txt(b"<!doctype html>\n<p>Sign in"), is_robots_txt(b"Access denied")
    (False, False)
    >>> is_robots_txt(b"<!-- ours -->\nUser-agent: *"), is_robots_txt(b"\n# no rules")
    (True, True)
    """
    lines = [line for line in robots_txt_lines(body) if line.partition("#")[0].strip()]
    return not lines or any(robots_txt_directive(line)[0] in (AGENT, SITEMAP) for line in lines)


def robots_txt_delay(value: str) -> float | None:
    """Return the seconds of a Crawl-delay; None when it is invalid.

    >>> [robots_txt_delay(value) for value in ("1.5", "1e9", "-1", "soon")]
    [1.5, 30.0, None, None]
    """
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, MAX_CRAWL_DELAY) if math.isfinite(seconds) and seconds >= 0 else None


def robots_txt_lines(body: bytes) -> list[str]:
    """Return the lines of a robots.txt; bytes that are no UTF-8 are lone surrogates."""
    return _LINE_END.split(robots_txt_as_utf8(body).decode("utf-8", "surrogateescape"))


def _escaped(pattern: str) -> str:
    """Return a pattern with its octets escaped as in an address: printable ASCII."""
    return quote(pattern, safe=string.punctuation, errors="surrogateescape")


def robots_txt_sitemaps(body: bytes, origin: str) -> list[str]:
    r"""Return the distinct addresses of the sitemaps that a robots.txt names, for any robot.

    >>> robots_txt_sitemaps(b"Sitemap: /map.xml\nuser-agent: *\nsitemap: ftp://x/", "http://a.example")
    ['http://a.example/map.xml']

    Source: R2-71; sitemaps.org, "Specifying the Sitemap location".
    """
    base = can_ada.parse(f"{origin}/robots.txt")
    found = (join_url(base, value) for value in Rfc9309RobotParser(body).sitemaps if value)
    return list(dict.fromkeys(filter(None, found)))


_LINE_END = re.compile(r"\r\n?|\n")


class Answer(NamedTuple):
    """The answer of a robots.txt for one address, and the line that decides."""

    allowed: bool
    rule: str | None = None  #: as written, such as ``Disallow: /private``; None: no rule matches
    line: int | None = None  #: number in the file, from 1
    agent: str | None = None  #: the agent that the group is for
    is_robots_txt: bool = True  #: False: a web page or the like, which has no rules


def robots_txt_check(parser: Any, user_agent: str) -> Callable[[bytes], Callable[[str], bool]]:
    """Return a function that turns a robots.txt into a check of single addresses."""

    def read(body: bytes) -> Callable[[str], bool]:
        rules = parser.from_crawler(None, body)
        return lambda url: bool(rules.allowed(url, user_agent))

    return read


def robots_txt_answers(parser: Any, user_agent: str) -> Callable[[bytes], Callable[[str], Answer]]:
    """Return a function that turns a robots.txt into its answers for single addresses.

    Only the parsers of this module name the line that decides.
    """

    def read(body: bytes) -> Callable[[str], Answer]:
        rules = parser.from_crawler(None, body)
        if not is_robots_txt(body):
            return lambda url: Answer(bool(rules.allowed(url, user_agent)), is_robots_txt=False)
        if isinstance(rules, Rfc9309RobotParser | AllowFirstRobotParser):
            return lambda url: rules.explain(url, user_agent)
        return lambda url: Answer(bool(rules.allowed(url, user_agent)))

    return read


# RFC 9309

AGENT, ALLOW, DISALLOW, DELAY, SITEMAP = range(5)  #: kinds of directives
#: Names of directives, and their common misspellings.
_FIELDS: Final = {
    "user-agent": AGENT, "useragent": AGENT, "user agent": AGENT,
    "allow": ALLOW,
    "disallow": DISALLOW, "dissallow": DISALLOW, "dissalow": DISALLOW, "disalow": DISALLOW,
    "diasllow": DISALLOW, "disallaw": DISALLOW,
    "crawl-delay": DELAY, "crawldelay": DELAY, "crawl delay": DELAY,
    "sitemap": SITEMAP, "site-map": SITEMAP,
}  # fmt: skip
_NAME = r"[^\s/();,]+"
#: Products of a user agent: its first word, and every word with a version.
_PRODUCT = re.compile(rf"^\s*({_NAME})|(?<=[\s(;,])({_NAME})(?=/\d)")


@dataclass(slots=True)
class _Group:
    """Rules, and the agents that they are for."""

    agents: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)  #: in the syntax of Protego
    lines: list[tuple[int, str]] = field(default_factory=list)  #: of rules: number, as written
    delays: dict[tuple[int, int], float] = field(default_factory=dict)  #: of agents[from:to]


class Rfc9309RobotParser:
    """The rules of RFC 9309: one product's groups are merged, the longest match wins.

    Protego matches addresses. It gets only the rules that apply, because its own grouping differs.
    There an unknown line, or a Crawl-delay, ends a list of agents. A name that is the beginning of
    ours, or any word of our user agent, counts as ours; a name with a version does not. And its
    time is the product of agents and rules.
    """

    def __init__(self, body: bytes) -> None:
        self.sitemaps: list[str] = []
        self._groups: dict[str, list[_Group]] = defaultdict(list)  #: by agent
        self._chosen: dict[str, tuple[Protego, float | None]] = {}  #: by user agent
        for group in self._read(body):
            for agent in dict.fromkeys(group.agents):
                self._groups[agent].append(group)

    @classmethod
    def from_crawler(cls, crawler: object, robotstxt_body: bytes) -> Self:
        """Parse a robots.txt (Scrapy's ``RobotParser`` interface)."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether the rules for ``user_agent`` allow an address."""
        matcher, _ = self._choose(_text(user_agent))
        return matcher.can_fetch(_text(url), "*")

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the seconds between two requests of ``user_agent``; None: not given."""
        return self._choose(_text(user_agent))[1]

    def _read(self, body: bytes) -> Iterator[_Group]:
        group, start, named = _Group(), 0, False  # named: the last line was an agent's
        for number, line in enumerate(robots_txt_lines(body), 1):
            kind, value = robots_txt_directive(line)
            if kind == SITEMAP:
                self.sitemaps.append(value)
            elif kind == AGENT:
                if group.rules:
                    yield group
                    group, named = _Group(), False
                if not named:
                    start, named = len(group.agents), True
                group.agents.append(robots_txt_agent(value))
            elif kind == DELAY:
                named = False
                if (seconds := robots_txt_delay(value)) is not None:
                    those = start, len(group.agents)
                    group.delays[those] = max(seconds, group.delays.get(those, 0))
            elif kind is not None:
                name = "Allow" if kind == ALLOW else "Disallow"
                group.rules.append(f"{name}: {_escaped(value)}")
                group.lines.append((number, f"{name}: {value}"))
        yield group

    def explain(self, url: str, user_agent: str) -> Answer:
        """Return the answer for an address, and the line that decides: the longest match."""
        name = self._name(user_agent)
        matches = [
            (len(rule.partition(": ")[2]), rule.startswith("Allow"), line)
            for group in self._groups.get(name, [])
            for rule, line in zip(group.rules, group.lines, strict=True)
            if _applies(rule, url)
        ]
        allowed = self.allowed(url, user_agent)
        if not matches:
            return Answer(allowed)
        number, written = max(matches, key=lambda match: match[:2])[2]
        return Answer(allowed, written, number, name)

    def _name(self, user_agent: str) -> str:
        return next((name for name in _products(user_agent) if name in self._groups), "*")

    def _choose(self, user_agent: str) -> tuple[Protego, float | None]:
        chosen = self._chosen.get(user_agent)
        if chosen is None:
            name = self._name(user_agent)
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


def _applies(rule: str, url: str) -> bool:
    """Whether a rule's pattern matches an address, be it Allow or Disallow."""
    pattern = rule.partition(": ")[2]
    if not pattern:
        return False
    alone = Protego.parse(f"User-agent: *\nDisallow: {pattern}")
    return not alone.can_fetch(url, "*")


def _products(user_agent: str) -> list[str]:
    """Return the names by which robots.txt may address this user agent, the best first.

    >>> _products("Foobot/1.0 (a crawler) libwww/5.4")
    ['foobot', 'libwww']
    >>> _products("Mozilla/5.0 (compatible; Foobot/1.0; +https://foo.example/1)")
    ['foobot', 'mozilla']

    Source: RFC 9110 section 10.1.5; every browser is Mozilla.
    """
    names = [(first or other).lower() for first, other in _PRODUCT.findall(user_agent)]
    return sorted(names, key="mozilla".__eq__)


def robots_txt_directive(line: str) -> tuple[int | None, str]:
    """Return kind and value of a line; the colon may be missing."""
    line = line.partition("#")[0].strip()
    name, _, value = line.partition(":")
    kind = _FIELDS.get(" ".join(name.lower().split()))
    if kind is None:
        name, _, value = line.replace("\t", " ").partition(" ")
        kind = _FIELDS.get(name.lower())
    return kind, value.strip()


def robots_txt_agent(value: str) -> str:
    """Return the product token of a User-agent line.

    >>> [robots_txt_agent(value) for value in ("FooBot/1.2", "foo bar", "foo*", "*")]
    ['foobot', 'foo', 'foo', '*']
    """
    token = re.match(_NAME, value)
    name = token[0].lower() if token else ""
    return name.rstrip("*") or name


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# Seed 002


class AllowFirstRobotParser:
    """The matcher where any Allow that matches wins, then any Disallow (R2-70 to R2-72).

    Each User-agent line begins a group, which applies when its name is ``*`` or part of our
    user agent; all groups that apply count. ``*`` in a pattern matches anything, and such a pattern
    must match the whole path. ``$`` at its end matches the end of the path; every other character
    matches itself. A ``#`` begins a comment at the beginning of a line only.
    """

    def __init__(self, body: bytes) -> None:
        self.sitemaps: list[str] = []
        self._entries: list[tuple[int, str, str, str]] = []  #: line, agent, directive, value
        self._chosen: dict[str, tuple[list[str], list[str], float | None]] = {}
        agent = None
        for number, line in enumerate(robots_txt_lines(body), 1):
            name, colon, value = line.strip().partition(":")
            name, value = name.strip().lower(), value.strip()
            if not colon or name.startswith("#"):
                continue
            if name == "user-agent":
                agent = value.lower()
            elif name == "sitemap":
                self.sitemaps.append(value)
            elif agent is not None and value:
                self._entries.append((number, agent, name, value))

    @classmethod
    def from_crawler(cls, crawler: object, robotstxt_body: bytes) -> Self:
        """Parse a robots.txt (Scrapy's ``RobotParser`` interface)."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether the rules for ``user_agent`` allow an address, by its path and query."""
        allows, disallows, _ = self._choose(_text(user_agent))
        path = _path(_text(url))
        if any(_matches(pattern, path) for pattern in allows):
            return True
        return not any(_matches(pattern, path) for pattern in disallows)

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the seconds between two requests of ``user_agent``; None: not given."""
        return self._choose(_text(user_agent))[2]

    def explain(self, url: str, user_agent: str) -> Answer:
        """Return the answer for an address, and the first line that decides."""
        path, ours = _path(url), user_agent.lower()
        for directive in ("allow", "disallow"):
            for number, agent, name, value in self._entries:
                applies = agent == "*" or agent in ours
                if name == directive and applies and _matches(_escaped(value), path):
                    written = f"{name.capitalize()}: {value}"
                    return Answer(name == "allow", written, number, agent)
        return Answer(True)

    def _choose(self, user_agent: str) -> tuple[list[str], list[str], float | None]:
        chosen = self._chosen.get(user_agent)
        if chosen is None:
            ours = user_agent.lower()
            found: defaultdict[str, list[str]] = defaultdict(list)
            for _, agent, name, value in self._entries:
                if agent == "*" or agent in ours:
                    found[name].append(value)
            delays = [robots_txt_delay(value) for value in found["crawl-delay"]]
            chosen = self._chosen[user_agent] = (
                [_escaped(value) for value in found["allow"]],
                [_escaped(value) for value in found["disallow"]],
                max((seconds for seconds in delays if seconds is not None), default=None),
            )
        return chosen


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern of AllowFirstRobotParser matches, in one pass over the path.

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


#: Rules of all agents together. A group of 10,000 agents and 10,000 rules would have 10^8.
MOST_RULES: Final = 100_000


@dataclass(slots=True)
class AgentRules:
    """The rules for one agent, in the order of the file."""

    allow: list[str] = field(default_factory=list)
    disallow: list[str] = field(default_factory=list)
    crawl_delay: float | None = None  #: seconds; the longest one, as written


@dataclass(slots=True)
class _WrittenGroup:
    agents: list[str] = field(default_factory=list)  #: as written
    rules: list[tuple[int, str]] = field(default_factory=list)  #: kind and pattern
    delays: list[tuple[int, int, float]] = field(default_factory=list)  #: of agents[from:to]


def robots_txt_groups(body: bytes) -> dict[str, AgentRules]:
    r"""Return the rules of each agent, whose groups are merged; it has the first spelling.

    >>> lines = ["User-agent: A", "User-agent: b", "Disallow: /x", "User-agent: a", "Allow: /y"]
    >>> found = robots_txt_groups("\n".join(lines).encode())
    >>> {agent: (rules.allow, rules.disallow) for agent, rules in found.items()}
    {'A': (['/y'], ['/x']), 'b': ([], ['/x'])}

    An empty pattern matches nothing and is left out.

    Raises:
        ValueError: the agents have more than MOST_RULES rules together.

    Source: RFC 9309 section 2.2.
    """
    groups = _groups(body)
    if sum(len(each.agents) * (len(each.rules) + len(each.delays)) for each in groups) > MOST_RULES:
        raise ValueError(f"robots.txt has more than {MOST_RULES:,} rules")
    found: dict[str, AgentRules] = {}
    spelt: dict[str, str] = {}
    for group in groups:
        merged: set[str] = set()
        for place, agent in enumerate(group.agents):
            token = robots_txt_agent(agent)
            if not token:
                continue
            rules = found.setdefault(spelt.setdefault(token, agent), AgentRules())
            delays = [seconds for start, stop, seconds in group.delays if start <= place < stop]
            if delays:
                rules.crawl_delay = max([*delays, rules.crawl_delay or 0.0])
            if token not in merged:
                rules.allow += [pattern for kind, pattern in group.rules if kind == ALLOW]
                rules.disallow += [pattern for kind, pattern in group.rules if kind == DISALLOW]
            merged.add(token)
    return found


def _groups(body: bytes) -> list[_WrittenGroup]:
    groups, start, named = [_WrittenGroup()], 0, False  # named: the last line was an agent's
    for line in robots_txt_lines(body):
        kind, value = robots_txt_directive(line)
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        group = groups[-1]
        if kind == AGENT:
            if group.rules:
                groups.append(group := _WrittenGroup())
                named = False
            if not named:
                start, named = len(group.agents), True
            group.agents.append(value)
        elif kind == DELAY:
            named = False
            if (seconds := _seconds(value)) is not None:
                group.delays.append((start, len(group.agents), seconds))
        elif kind in (ALLOW, DISALLOW):
            group.rules.append((kind, value))
    for group in groups:
        group.rules = [rule for rule in group.rules if rule[1]]
    return groups


def _seconds(value: str) -> float | None:
    """Return the seconds of a Crawl-delay as written; None when it is invalid."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
