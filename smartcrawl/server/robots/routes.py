"""The robots.txt of a host over HTTP: as a crawl stored it, else asked for now (E-12; R2-40)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Response

from smartcrawl.extract.robots_txt import AgentRules, robots_txt_groups, robots_txt_sitemaps
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import Robots
from smartcrawl.server.data.documents import api_host_parameter
from smartcrawl.server.data.queries import json_response, refuse_api_query
from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.server.robots.download import RobotsAnswer, RobotsDownload
from smartcrawl.server.robots.kept import KeptRobots, RobotsCache

_STORED: Final = """
SELECT fetched_at, origin, status, body FROM robots WHERE origin IN (?, ?)
 ORDER BY fetched_at DESC, origin DESC LIMIT 1
"""


def api_stored_robots(connection: Connection, host: str) -> KeptRobots | None:
    """Return the copy of a host's robots.txt that a crawl stored last, None without one."""
    row: Any = connection.execute(_STORED, (f"https://{host}", f"http://{host}")).fetchone()
    if row is None:
        return None
    at, origin, status, body = row
    reason = f"status {status}: everything is allowed" if status >= 400 else None
    return KeptRobots(at, RobotsAnswer(origin, status, bytes(body or b""), reason))


def api_robots(host: str, kept: KeptRobots, ttl: int) -> dict[str, Any]:
    """Return a robots.txt under the keys of R2-40.

    Raises:
        ApiError: there are no rules, with the reason.
    """
    answer = kept.answer
    if answer.reason is not None:
        raise _no_robots(answer.reason)
    try:
        groups = robots_txt_groups(answer.body)
    except ValueError as error:
        raise _no_robots(str(error)) from error
    return {
        "domain": host,
        "fetched_at": iso_time(kept.at),
        "expires_at": iso_time(kept.at + ttl) if ttl else None,
        "rules": {
            "user_agents": {agent: _agent_data(rules) for agent, rules in groups.items()},
            "sitemaps": robots_txt_sitemaps(answer.body, answer.origin),
        },
    }


def _agent_data(rules: AgentRules) -> dict[str, Any]:
    return {
        "allow": rules.allow,
        "disallow": rules.disallow,
        "crawl_delay": rules.crawl_delay,
    }


def _no_robots(reason: str) -> ApiError:
    return api_not_found("robots.txt not found", reason=reason)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of robots.txt."""
    options, robots = context.options, context.server.robots
    download = RobotsDownload(options, robots.user_agent)
    cache = RobotsCache(download.answer, options.robots_ttl, context.clock)

    @router.get(
        "/robots/{domain}",
        tags=["monitoring"],
        summary="The rules of a host's robots.txt: as a crawl stored them, else downloaded",
        response_model=Robots,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def get_robots(domain: Annotated[str, Path(examples=["example.com"])]) -> Response:
        host = api_host_parameter(domain)
        kept = await to_thread.run_sync(
            context.stores.read, lambda connection: api_stored_robots(connection, host)
        )
        if kept is None:
            kept = await cache.get(host)
        return json_response(await to_thread.run_sync(api_robots, host, kept, options.robots_ttl))
