"""The hosts of the runs that are under way: one process at a time asks a host (ADR 173)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import HostsBusyError
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.model import BEFORE_SEAL
from smartcrawl.rules.side_by_side import shared_host

_NOTE: Final = "UPDATE source SET hosts = ? WHERE no = ?"
_STATES: Final = ", ".join(str(int(state)) for state in BEFORE_SEAL)
_OPEN: Final = f"""
SELECT s.name, s.hosts FROM source s
  JOIN run r ON r.no = (SELECT max(l.no) FROM run l WHERE l.source = s.no)
 WHERE r.state IN ({_STATES}) AND s.hosts IS NOT NULL ORDER BY r.no
"""


class CrawledHosts(NamedTuple):
    """A source that a process crawls, and the hosts that its run may ask."""

    source: str
    hosts: frozenset[str]


def crawled_host_rows(
    connection: Connection, is_held: Callable[[str], bool], leave_out: Collection[str] = ()
) -> list[CrawledHosts]:
    """Return the sources that processes crawl now with their hosts; ``leave_out``: names.

    ``is_held``: whether a process has the lease of a source.
    """
    return [row for row in _open_host_rows(connection, leave_out) if is_held(row.source)]


def _open_host_rows(connection: Connection, leave_out: Collection[str]) -> list[CrawledHosts]:
    """Return the sources whose last run is open; its process may have been killed."""
    rows: Any = connection.execute(_OPEN).fetchall()
    return [
        CrawledHosts(name, frozenset(json.loads(hosts)))
        for name, hosts in rows
        if name not in leave_out
    ]


def claim_host_rows(
    connection: Connection,
    name: str,
    source: int,
    hosts: Collection[str],
    is_held: Callable[[str], bool],
) -> None:
    """Note the hosts of a run that is being opened, in its transaction; ``source``: source.no.

    The caller has the lease of the source, and has drawn a number: two claims wait for each other.

    Raises:
        HostsBusyError: a process crawls another source with one of them.
    """
    for other in _open_host_rows(connection, (name,)) if hosts else ():
        host = shared_host(hosts, other.hosts)
        if host is not None and is_held(other.source):  # few leases are read within a transaction
            raise HostsBusyError(name, other.source, host)
    connection.execute(_NOTE, (json.dumps(sorted(hosts)), source))
