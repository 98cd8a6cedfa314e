"""The groups of a robots.txt as they are written, for display (R2-40)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from smartcrawl.extract.robots_txt import (
    AGENT,
    ALLOW,
    DELAY,
    DISALLOW,
    robots_txt_agent,
    robots_txt_directive,
    robots_txt_lines,
)

#: Rules of all agents together. A group of 10,000 agents and 10,000 rules would have 10^8.
MOST_RULES: Final = 100_000


@dataclass(slots=True)
class AgentRules:
    """The rules for one agent, in the order of the file."""

    allow: list[str] = field(default_factory=list)
    disallow: list[str] = field(default_factory=list)
    crawl_delay: float | None = None  #: seconds; the longest one, as written


@dataclass(slots=True)
class _Group:
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


def _groups(body: bytes) -> list[_Group]:
    groups, start, named = [_Group()], 0, False  # named: the last line was an agent's
    for line in robots_txt_lines(body):
        kind, value = robots_txt_directive(line)
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        group = groups[-1]
        if kind == AGENT:
            if group.rules:
                groups.append(group := _Group())
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
