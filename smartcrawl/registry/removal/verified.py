"""Orphans that one more request has verified, before they are removed (ADR 131)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.absence import Look, Policy, lets_page_go
from smartcrawl.rules.model import RemovalRule

_LOOKS = f"""
SELECT c.no, r.host, c.probe, s.lost_count, s.gone_count, c.detail, s.http_status
  FROM candidate c JOIN state s USING (no) JOIN record r USING (no)
 WHERE c.source = :source AND c.renewed = :run AND c.rule = {int(RemovalRule.ORPHAN)}
   AND c.probe IS NOT NULL
"""
#: Hosts that answered for a page, not a sitemap, in this run; soft 404s do not count.
_HOSTS = """
SELECT DISTINCT r.host FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.seen_run = :run AND s.http_status IN (200, 304)
   AND s.outcome NOT IN (7, 8) AND r.kind = 0
"""


def verified_orphan_rows(
    connection: Connection, run: int, source: int, policy: Policy
) -> frozenset[int]:
    """Return the orphans of a run whose verification allows removal (rules.absence.lets_page_go).

    ``source``: source.no. Unverified orphans stay.
    """
    names = {"run": run, "source": source}
    going, unsure = set(), []
    for no, host, answer, lost, gone, detail, before in _rows(connection, _LOOKS, names):
        look = Look(answer, lost, gone, json.loads(detail)["completeRuns"], before)
        if lets_page_go(look, policy):
            going.add(no)
        elif lets_page_go(look._replace(host_answered=True), policy):
            unsure.append((no, host))
    hosts = {host for (host,) in _rows(connection, _HOSTS, names)} if unsure else frozenset()
    return frozenset(going.union(no for no, host in unsure if host in hosts))


def _rows(connection: Connection, statement: str, names: Mapping[str, object]) -> list[Any]:
    rows: list[Any] = connection.execute(statement, names).fetchall()
    return rows
