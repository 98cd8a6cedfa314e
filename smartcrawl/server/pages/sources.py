"""Sources with what deserves a look, the status of all of them, and hosts."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.server.pages.pages import Pages, page_query

_SHOWN: Final = 100  #: hosts of a page
_MOST_JOBS: Final = 1_000
_BARS: Final = ("new", "modified", "lost", "removed")
_HEIGHT: Final = 24  #: of a sparkline, in its units
_DONE: Final = {"deleted": "It is deleted; its pages stay searchable."}
_STEP: Final = 6  #: pixels from one bar to the next


def add_pages(pages: Pages) -> None:
    """Add the pages."""

    async def sources(request: Request) -> Response:
        found = await pages.read(request, "/api/v1/sources")
        jobs = await pages.read(request, f"/api/v1/jobs?limit={_MOST_JOBS}")
        waiting = {job["name"]: job for job in jobs["jobs"] if job["type"] == "crawl"}
        rows = [_row(one, waiting.pop(one["source"], None)) for one in found["sources"]]
        new = [job for job in waiting.values() if job["status"] != "cancelled"]
        done = _DONE.get(request.query_params.get("done", ""), "")
        return pages.show(request, "sources.html", title="Sources", rows=rows, new=new, done=done)

    async def status(request: Request) -> Response:
        found = await pages.read(request, "/api/v1/sources")
        return pages.show(request, "status.html", title="Status", found=found)

    async def hosts(request: Request) -> Response:
        given = request.query_params
        query = page_query({}, limit=_SHOWN, source=given.get("source"), offset=given.get("offset"))
        found = await pages.read(request, f"/api/v1/hosts{query}")
        return pages.show(
            request,
            "hosts.html",
            title="Hosts",
            hosts=found["hosts"],
            pagination=found["pagination"],
            asked=given,
        )

    pages.add("/sources", sources, navigated="Sources")
    pages.add("/status", status, navigated="Status")
    pages.add("/hosts", hosts, navigated="Hosts")


def _row(source: dict[str, Any], job: dict[str, Any] | None) -> dict[str, Any]:
    """Return a source as its row shows it; ``job``: that of its name, if it has one."""
    last = source["lastRun"]
    state = "never crawled"
    if last is not None:
        state = "running" if source["isRunning"] else last["state"]
        if last["finishedAt"] is not None:
            state = "complete" if last["complete"] else "incomplete"
        elif not source["isRunning"]:
            state = "its process died"
    return {
        "source": source,
        "job": job,
        "state": state,
        "last": last,
        "bars": spark_bars(source["runs"]),
        "width": _STEP * len(source["runs"]),
        "height": _HEIGHT,
    }


def spark_bars(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the bars of a sparkline of the changes of runs, each with its words.

    >>> spark_bars([{"run": 1, "new": 4, "modified": 0, "lost": 0, "removed": 0}])
    [{'x': 0, 'y': 0, 'height': 24, 'text': 'run 1: 4 new'}]
    """
    totals = [sum(run[name] for name in _BARS) for run in runs]
    most = max([*totals, 1])
    found = []
    for place, (run, total) in enumerate(zip(runs, totals, strict=True)):
        height = max(1, round(_HEIGHT * total / most))
        changes = ", ".join(f"{run[name]:,} {name}" for name in _BARS if run[name])
        found.append(
            {
                "x": _STEP * place,
                "y": _HEIGHT - height,
                "height": height,
                "text": f"run {run['run']}: {changes or 'no change'}",
            }
        )
    return found
