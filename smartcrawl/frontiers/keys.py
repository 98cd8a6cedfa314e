"""What the keys in Redis are called: a run's own begin with its source and number."""

from __future__ import annotations

from urllib.parse import quote

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
