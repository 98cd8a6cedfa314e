"""What the keys in Redis are called: a run's own begin with its source and number."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from redis import Redis

_PLAIN = "@._-~"  #: of a source's name; never a brace, which would be a hash tag, nor a pattern


def prefix_of(source: str, run: int) -> str:
    """Return what the keys of a run begin with.

    A source's name cannot reach into another's keys, be a pattern, or hold a hash tag.

    >>> prefix_of("docs@2.1", 7)
    'docs@2.1:7:'
    >>> prefix_of("{a}:*", 7)
    '%7Ba%7D%3A%2A:7:'

    Source: R2-42, R2-44 and S-10 as design.md 9 and 12 have them.
    """
    return f"{prefix_of_source(source)}{run}:"


def prefix_of_source(source: str) -> str:
    """Return what the keys of all runs of a source begin with."""
    return f"{quote(source, safe=_PLAIN)}:"


def member(number: int) -> str:
    """Return how a number is written in Redis: equal scores go by number.

    >>> member(42)
    '0000000042'
    """
    return f"{number:010d}"


def remove_runs(client: Redis, source: str, which: Callable[[int], bool]) -> int:
    """Remove the keys of those runs of a source that ``which`` names; return how many."""
    prefix = prefix_of_source(source)
    keys = (str(key) for key in client.scan_iter(match=f"{prefix}*", count=1_000))
    removed = 0
    for key in keys:
        run, colon, _ = key.removeprefix(prefix).partition(":")
        if colon and run.isdecimal() and which(int(run)):
            removed += int(client.unlink(key))
    return removed
