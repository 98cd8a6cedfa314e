"""Addresses that wait for a visit: by the day on which it is due, by host and by priority."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.reports.frontier_chart import due_days_chart, due_days_title
from smartcrawl.rules.model import PRIORITY
from smartcrawl.server.pages.pages import Pages

_STATS: Final = "/api/v1/frontier/stats"
_DUE: Final = "/api/v1/frontier/due"
_SHOWN: Final = 20  #: hosts, unless all are wanted


def add_pages(pages: Pages) -> None:
    """Add the page."""

    async def show(request: Request) -> Response:
        stats, due = await pages.read(request, _STATS), await pages.read(request, _DUE)
        hosts = list(stats["by_domain"].items())
        is_whole = request.query_params.get("hosts") == "all"
        return pages.show(
            request,
            "frontier.html",
            title="Frontier",
            stats=stats,
            due=due,
            finding=due_days_title(due),
            chart=due_days_chart(due),
            hosts=hosts if is_whole else hosts[:_SHOWN],
            more_hosts=0 if is_whole else max(0, len(hosts) - _SHOWN),
            other_hosts=stats["total_urls"] - sum(stats["by_domain"].values()),
            priorities=[(int(one), number) for one, number in stats["by_priority"].items()],
            usual=PRIORITY,
        )

    pages.add("/frontier", show, navigated="Frontier")
