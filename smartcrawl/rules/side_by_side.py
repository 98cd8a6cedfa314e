"""Which sources are crawled at the same time: none that share a host (ADR 173)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

MOST_JOBS: Final = 4  #: sources at once, unless another number is given


def default_jobs(cores: int) -> int:
    """Return the number of sources at once: one a core, at most four.

    >>> default_jobs(1), default_jobs(2), default_jobs(64)
    (1, 2, 4)
    """
    return max(1, min(cores, MOST_JOBS))


def shared_host(one: Collection[str], other: Collection[str]) -> str | None:
    """Return a host that two sources may both ask, the first by name; None: there is none.

    A host is ``name`` or ``name:port``; ``.name`` stands for a domain with all of its subdomains,
    at any port.

    >>> shared_host(["a.example"], ["b.example", "a.example"])
    'a.example'
    >>> shared_host(["a.example"], ["a.example:8080"]) is None
    True
    >>> shared_host([".a.example"], ["docs.a.example:8080"])
    'docs.a.example:8080'
    >>> shared_host([".a"], ["ba"]) is None
    True
    """
    found = set(one).intersection(other)
    for hosts, domains in ((one, other), (other, one)):
        within = [domain for domain in domains if domain.startswith(".")]
        found |= {host for host in hosts if any(_is_within(host, domain) for domain in within)}
    return min(found, default=None)


def share_a_host(one: Collection[str], other: Collection[str]) -> bool:
    """Whether two sources may ask the same host (``shared_host``)."""
    return shared_host(one, other) is not None


def _is_within(host: str, domain: str) -> bool:
    name = host.rpartition(":")[0] if ":" in host else host
    return f".{name}".endswith(domain)


def first_to_begin(
    waiting: Sequence[Collection[str]], running: Sequence[Collection[str]]
) -> int | None:
    """Return the place of the first source that shares no host with one that runs; None: all wait.

    Each source is the collection of its hosts; one without hosts, such as a folder, never waits.

    >>> first_to_begin([["a"], ["a", "b"], ["b"]], [["a"]])
    2
    >>> first_to_begin([["a"]], [["a"]]) is None
    True
    """
    for place, hosts in enumerate(waiting):
        if not any(share_a_host(hosts, other) for other in running):
            return place
    return None


def can_run_side_by_side(sources: Sequence[Collection[str]]) -> bool:
    """Whether any two of these sources share no host.

    >>> can_run_side_by_side([["a"], ["a"]]), can_run_side_by_side([["a"], ["a"], []])
    (False, True)
    """
    return any(
        not share_a_host(one, other)
        for place, one in enumerate(sources)
        for other in sources[place + 1 :]
    )
