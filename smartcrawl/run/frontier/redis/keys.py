"""Names of keys in Redis; those of a run begin with its source and number."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from redis import Redis

_PLAIN = "@._-~"  #: unquoted in names of sources; no brace (a hash tag), and no wildcard


def redis_run_prefix(source: str, run: int, registry: str = "") -> str:
    """Return the prefix of the keys of a run; ``registry``: the id of its registry.

    It never begins with the prefix of another source, and has no wildcard and no hash tag.

    >>> redis_run_prefix("docs@2.1", 7)
    'docs@2.1:7:'
    >>> redis_run_prefix("{a}:*", 7)
    '%7Ba%7D%3A%2A:7:'
    >>> redis_run_prefix("docs", 7, "8c1f09aa5e2b7d34")
    '8c1f09aa5e2b7d34:docs:7:'

    Source: R2-42, R2-44 and S-10 as in ADR 135.
    """
    return f"{redis_source_prefix(source, registry)}{run}:"


def redis_source_prefix(source: str, registry: str = "") -> str:
    """Return the prefix of the keys of all runs of a source of a registry."""
    of_registry = f"{registry}:" if registry else ""
    return f"{of_registry}{quote(source, safe=_PLAIN)}:"


def redis_member(number: int) -> str:
    """Return a number as text for Redis, padded so that equal scores sort by number.

    >>> redis_member(42)
    '0000000042'
    """
    return f"{number:010d}"


def remove_redis_runs(
    client: Redis, source: str, which: Callable[[int], bool], registry: str = ""
) -> int:
    """Remove the keys of the runs of a source for which ``which`` holds; return their count."""
    prefix = redis_source_prefix(source, registry)
    keys = (str(key) for key in client.scan_iter(match=f"{prefix}*", count=1_000))
    removed = 0
    for key in keys:
        run, colon, _ = key.removeprefix(prefix).partition(":")
        if colon and run.isdecimal() and which(int(run)):
            removed += int(client.unlink(key))
    return removed
